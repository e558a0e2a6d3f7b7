//! What a dead lspool has left running: the groups of its servers, and the processes with its mark in any group.

use std::{ffi::OsStr, time::Duration};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use crate::shell::process::Request;

/// Processes to end.
pub(crate) struct Leftovers {
    groups: Vec<Pid>,
    marked: marked::Marked,
}

impl Leftovers {
    /// The processes in these groups, and those whose environment has this variable.
    pub(crate) fn new(groups: impl IntoIterator<Item = u32>, name: &str, value: &OsStr) -> Leftovers {
        let groups = groups.into_iter().filter_map(|it| Pid::from_raw(i32::try_from(it).ok()?)).collect();
        Leftovers { groups, marked: marked::Marked::new(name, value) }
    }

    /// Signals each remaining process once, and waits until none is left.
    pub(crate) fn end(&mut self, request: Request, at_most: Duration, poll: Duration) {
        let signal = match request {
            Request::Terminate => Signal::TERM,
            Request::Kill => Signal::KILL,
        };
        #[expect(clippy::disallowed_methods, reason = "the guard has no core; it is its own clock")]
        let now = std::time::Instant::now;
        let until = now() + at_most;
        self.groups.retain(|&group| kill_process_group(group, signal).is_ok());
        self.marked.forget_signalled();
        loop {
            // In a loop: a process may have started another one meanwhile.
            let n_marked = self.marked.signal_all(signal);
            self.groups.retain(|&group| test_kill_process_group(group).is_ok());
            if (self.groups.is_empty() && n_marked == 0) || now() >= until {
                return;
            }
            std::thread::sleep(poll);
        }
    }
}

#[cfg(target_os = "linux")]
mod marked {
    //! Processes with the mark, in any group.

    use std::{
        collections::HashSet,
        ffi::OsStr,
        fs,
        os::{fd::OwnedFd, unix::ffi::OsStrExt},
    };

    use rustix::process::{Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal};

    pub(super) struct Marked {
        wanted: Vec<u8>,
        signalled: HashSet<Pid>,
    }

    impl Marked {
        pub(super) fn new(name: &str, value: &OsStr) -> Marked {
            let wanted = [name.as_bytes(), b"=", value.as_bytes()].concat();
            Marked { wanted, signalled: HashSet::new() }
        }

        pub(super) fn forget_signalled(&mut self) {
            self.signalled.clear();
        }

        /// Signals each marked process that has not had this signal. Returns how many exist.
        pub(super) fn signal_all(&mut self, signal: Signal) -> usize {
            let Ok(processes) = fs::read_dir("/proc") else { return 0 };
            let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
            pids.filter_map(Pid::from_raw).filter(|&pid| self.signal_marked(pid, signal)).count()
        }

        fn signal_marked(&mut self, pid: Pid, signal: Signal) -> bool {
            // Opened before the environment is read, so that the signal goes to the same process.
            let handle = pidfd_open(pid, PidfdFlags::empty()).ok();
            if pid == getpid() || !self.is_marked(pid) {
                return false;
            }
            if self.signalled.insert(pid) {
                // It may have exited already.
                send(pid, handle.as_ref(), signal);
            }
            true
        }

        fn is_marked(&self, pid: Pid) -> bool {
            let Ok(environment) = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())) else {
                return false;
            };
            environment.split(|&b| b == 0).any(|variable| variable == self.wanted)
        }
    }

    fn send(pid: Pid, handle: Option<&OwnedFd>, signal: Signal) {
        let sent = match handle {
            Some(handle) => pidfd_send_signal(handle, signal),
            None => kill_process(pid, signal),
        };
        sent.ok();
    }
}

#[cfg(not(target_os = "linux"))]
mod marked {
    //! This system does not show the environment of other processes.

    use std::ffi::OsStr;

    use rustix::process::Signal;

    pub(super) struct Marked;

    impl Marked {
        pub(super) fn new(_name: &str, _value: &OsStr) -> Marked {
            Marked
        }

        pub(super) fn forget_signalled(&mut self) {}

        pub(super) fn signal_all(&mut self, _signal: Signal) -> usize {
            0
        }
    }
}
