//! Watches whether the editor still runs.
//!
//! Watches the process that the editor named in `initialize`. It need not be lspool's parent.

use std::time::Duration;

use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};
use tokio::time::sleep;

/// Between two looks. A handle of the process would report its end at once, but only by `unsafe` calls.
const POLL: Duration = Duration::from_secs(1);

/// How often in a row it must be missing: the list of processes can fail.
const MISSES: u32 = 3;

/// A process that existed when lspool looked for it.
#[derive(Debug)]
pub(crate) struct Editor {
    pid: u32,
    /// With its number, it tells the process from a later one.
    started: u64,
}

impl Editor {
    /// Finds the process. `None`: it does not exist.
    pub(crate) fn find(pid: u32) -> Option<Editor> {
        started(pid).map(|started| Editor { pid, started })
    }

    /// Waits until the process exits.
    pub(crate) async fn gone(self) {
        let mut n_missed = 0;
        while n_missed < MISSES {
            sleep(POLL).await;
            let is_there = started(self.pid) == Some(self.started);
            n_missed = if is_there { 0 } else { n_missed + 1 };
        }
    }
}

/// When a process started. `None`: it does not exist.
pub(super) fn started(pid: u32) -> Option<u64> {
    let pid = Pid::from_u32(pid);
    let mut system = System::new().ok()?;
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), true, ProcessRefreshKind::nothing());
    system.process(pid).map(sysinfo::Process::start_time)
}
