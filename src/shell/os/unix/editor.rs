//! Watches whether the editor still runs.
//!
//! Watches the process that the editor named in `initialize`. It need not be lspool's parent.

use std::{os::fd::OwnedFd, time::Duration};

use tokio::{
    io::{Interest, unix::AsyncFd},
    time::sleep,
};

use super::processes::exists;

/// A process that existed when lspool looked for it.
#[derive(Debug)]
pub(crate) struct Editor {
    pid: u32,
    /// Becomes readable when the process exits. Not every system has such a handle.
    handle: Option<AsyncFd<OwnedFd>>,
}

impl Editor {
    /// Finds the process. `None`: it does not exist.
    pub(crate) fn find(pid: u32) -> Option<Editor> {
        #[expect(
            deprecated,
            reason = "unsound for types that lie about their descriptor; an OwnedFd does not"
        )]
        let handle = handle(pid).and_then(|fd| AsyncFd::with_interest(fd, Interest::READABLE).ok());
        (handle.is_some() || exists(pid)).then_some(Editor { pid, handle })
    }

    /// Waits until the process exits.
    pub(crate) async fn gone(self) {
        if let Some(handle) = &self.handle
            && handle.readable().await.is_ok()
        {
            return;
        }
        while exists(self.pid) {
            sleep(Duration::from_secs(1)).await;
        }
    }
}

#[cfg(target_os = "linux")]
fn handle(pid: u32) -> Option<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).ok()?)?;
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn handle(_pid: u32) -> Option<OwnedFd> {
    None
}
