//! The environment of a command: the runtime, the operating system, and the identity of this lspool.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use tokio::runtime::{LocalOptions, LocalRuntime};

use crate::{
    core::Identity,
    shell::{
        control::{self, Place},
        discover::Env,
        guard::{Guard, Mark},
        system::System,
    },
};

pub(super) fn runtime() -> anyhow::Result<LocalRuntime> {
    let options = LocalOptions::default();
    tokio::runtime::Builder::new_current_thread().enable_all().build_local(options).context("cannot start")
}

pub(super) fn identity() -> Identity {
    Identity { pid: std::process::id(), started: unix_millis() }
}

/// The operating system, with a guard for the processes.
pub(super) fn world(identity: &Identity) -> System {
    let program = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    System::new(Guard::new(program, Mark::new(identity.pid, identity.started)))
}

/// The operating system, with a guard and a control socket.
pub(super) fn open_world(identity: &Identity, env: &Env) -> System {
    world(identity).with_control(Place {
        folders: control::folders(env),
        pid: identity.pid,
        started: identity.started,
    })
}

/// Milliseconds since 1970.
pub(super) fn unix_millis() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "the core is told the time, and this is who tells it")]
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
