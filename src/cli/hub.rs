//! `lspool hub`: one process of a server for several lspools. A person does not start it.
//!
//! It gets its errand on stdin, and says on stdout when it listens.

use std::{path::Path, process::ExitCode, sync::Arc, time::Duration};

use tokio::{
    io::{duplex, sink},
    task::{spawn_local, yield_now},
};

use super::{NOTHING_TO_SERVE, log, world};
use crate::{
    core::event::Launch,
    hub::Hub,
    rpc::Codec,
    shell::{
        ControlLimits, Settings,
        control::Place,
        driver::{self, Driver},
        os::{processes, signals, streams},
        outbox::Limits,
        shared::{Errand, HubPlace},
        system::System,
    },
};

/// Room for control clients, which are no attachments.
const OTHERS: usize = 8;
/// How long a client may read nothing while messages wait for it.
const STALL: Duration = Duration::from_mins(1);
/// How long others may be at the lock when a hub ends.
const RETIREMENT: Duration = Duration::from_millis(500);

/// How often each task has a turn after the end of the hub.
const LAST_TURNS: usize = 16;

/// Serves until the hub ends.
pub(super) fn run() -> ExitCode {
    // It fails only for the leader of a group, and a child of lspool is not one.
    if let Err(error) = processes::leave_session() {
        tracing::debug!(%error, "could not start a session");
    }
    let served = Errand::read().map_err(|error| error.to_string()).and_then(|errand| serve(&errand));
    served.unwrap_or_else(|problem| {
        tracing::warn!(problem, "hub could not start");
        Errand::note_failure(&problem);
        ExitCode::from(NOTHING_TO_SERVE)
    })
}

fn serve(errand: &Errand) -> Result<ExitCode, String> {
    if let Some(log) = &errand.log {
        log::begin_at(log).map_err(|error| format!("{error:#}"))?;
    }
    let place = HubPlace::at(errand.socket.clone());
    let runtime = world::runtime().map_err(|error| error.to_string())?;
    let code = runtime.block_on(async {
        let socket = place.open().map_err(|error| format!("{}: {error}", place.socket().display()))?;
        let identity = world::identity();
        let folder = place.socket().parent().unwrap_or(Path::new("/")).to_owned();
        let control = Place { folders: vec![folder], pid: identity.pid, started: identity.started };
        let world = world::world(&identity).with_control(control).of_hub(&place, socket);
        let launch = Arc::new(errand.launch.clone());
        let now = u32::try_from(identity.started / 1000).unwrap_or(u32::MAX);
        let world = match &launch.remote {
            Some(_) => world.with_marks_of_hub(&place, now).map_err(|error| error.to_string())?,
            None => world,
        };
        Errand::note_listening();
        // The client waits for their end.
        if let Err(error) = streams::leave() {
            tracing::debug!(%error, "could not close a stream");
        }
        let settings = settings(&launch);
        let driver = Driver::new(Hub::new(identity, launch), world, Arc::new(()), settings);
        Ok::<i32, String>(drive(driver).await)
    });
    // Its tasks end with it, and so does the socket.
    runtime.shutdown_background();
    place.retire(RETIREMENT);
    Ok(ExitCode::from(u8::try_from(code?).unwrap_or(u8::MAX)))
}

/// Runs a hub, which has no editor.
async fn drive(driver: Driver<Hub, System>) -> i32 {
    let (silent, _kept) = duplex(1);
    let running = driver.run(Box::new(silent), Box::new(sink()), signals::listen());
    let code = spawn_local(running).await;
    // The tasks that write to clients have the last words of the hub.
    for _ in 0..LAST_TURNS {
        yield_now().await;
    }
    code.unwrap_or(driver::INTERNAL_ERROR)
}

fn settings(launch: &Launch) -> Settings {
    let attachments = launch.share.as_ref().map_or(0, |it| it.limit);
    let outbox = Limits { hard_cap: 64 << 20, ..ControlLimits::default().outbox };
    let control = ControlLimits {
        clients: attachments.saturating_add(OTHERS),
        max_message: launch.max_message.max(Codec::DEFAULT_MAX),
        outbox,
        stall: STALL,
    };
    Settings { control, ..Settings::default() }
}
