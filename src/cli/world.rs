//! The environment of a command: the runtime, the operating system, and the identity of this lspool.

use std::{
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;
use tokio::runtime::{LocalOptions, LocalRuntime};

use super::search::Search;
use crate::{
    core::Identity,
    shell::{
        control::{self, Place},
        guard::{Guard, Mark},
        os::paths,
        shared::Sharing,
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
    System::new(Guard::new(program(), Mark::new(identity.pid, identity.started)))
}

/// The operating system, with a guard, a control socket, and servers that others use, too.
pub(super) fn open_world(identity: &Identity, search: &Search) -> System {
    let folders = control::folders(&search.env);
    let sharing = Sharing { program: program(), folders: folders.clone(), log: search.log.clone() };
    let place = Place { folders, pid: identity.pid, started: identity.started };
    world(identity).with_control(place).with_sharing(sharing)
}

/// The executable of lspool.
fn program() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| paths::own_program())
}

/// Milliseconds since 1970.
pub(super) fn unix_millis() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "the core is told the time, and this is who tells it")]
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
