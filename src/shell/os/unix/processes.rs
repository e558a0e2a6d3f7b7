//! Processes: their start in a group, their end, and who exists.

use std::{
    fs::File,
    io::{self, Read as _},
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::{
    io::Errno,
    process::{
        Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, setsid, test_kill_process,
        waitid,
    },
};
use tokio::{
    process::{ChildStderr, ChildStdin, ChildStdout, Command},
    signal::unix::{SignalKind, signal},
    time::sleep,
};

use super::streams::widen;
use crate::{
    core::event::{Exit, Launch},
    shell::{os::Leads, process::Request},
};

/// A running process, and the group that it may lead. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct Child {
    pid: Pid,
    child: tokio::process::Child,
}

/// The streams of a process.
pub(crate) struct Streams {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
}

/// Starts a process with piped streams and these variables in addition to its own. Must be called within the runtime.
pub(crate) fn spawn(
    launch: &Launch,
    folder: Option<&Path>,
    variable: (&str, &std::ffi::OsStr),
    leads: Leads,
) -> io::Result<(Child, Streams)> {
    let start = |mut command: Command| {
        command
            .args(&launch.args)
            .envs(launch.env.iter().map(|(name, value)| (name, value)))
            .env(variable.0, variable.1)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        match leads {
            Leads::Group => drop(command.process_group(0)),
            Leads::Nothing => {}
        }
        if let Some(folder) = folder {
            command.current_dir(folder);
        }
        command.spawn()
    };
    let spawned = match start(Command::new(&launch.program)) {
        Err(error) if is_no_executable(&error) && is_script(launch) => {
            let mut shell = Command::new("/bin/sh");
            shell.arg(&launch.program);
            start(shell)
        }
        spawned => spawned,
    };
    let mut child = spawned?;
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    let (Some(pid), Some(stdin), Some(stdout), Some(stderr)) =
        (pid, child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        unreachable!("a child that was not awaited has a pid, and its streams were asked for");
    };
    widen(&stdin);
    widen(&stdout);
    Ok((Child { pid, child }, Streams { stdin, stdout, stderr }))
}

/// Whether the system cannot run this kind of file.
pub(crate) fn is_no_executable(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error())
}

/// Whether an executable that the system cannot run begins with a line of text. Then it is a script without `#!`, and
/// a shell runs it, as `execvp` does. The rest may be anything: some scripts contain an archive.
fn is_script(launch: &Launch) -> bool {
    let mut start = [0; 256];
    let program = launch.cwd.as_deref().unwrap_or(Path::new("")).join(&launch.program);
    let Ok(n) = File::open(program).and_then(|mut it| it.read(&mut start)) else { return false };
    let line = start[..n].split(|it| *it == b'\n').next().unwrap_or_default();
    let is_text = match std::str::from_utf8(line) {
        Ok(_) => true,
        // The read cut off a character at the end.
        Err(error) => error.error_len().is_none(),
    };
    is_text && !line.contains(&0)
}

impl Child {
    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Waits for its death. It is not reaped, so the system does not reuse its number.
    pub(crate) async fn dead(&self) {
        let mut deaths = signal(SignalKind::child());
        while !self.is_dead() {
            match &mut deaths {
                Ok(deaths) => {
                    deaths.recv().await;
                }
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    fn is_dead(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(self.pid), look) {
            Ok(status) => status.is_some(),
            // It has exited: there is nothing to wait for.
            Err(error) => error != Errno::INTR,
        }
    }

    /// Signals its whole group.
    pub(crate) fn signal(&self, request: Request) {
        let signal = match request {
            Request::Terminate => Signal::TERM,
            Request::Kill => Signal::KILL,
        };
        // It fails if all have exited, or if the process has not made its group yet.
        if kill_process_group(self.pid, signal) == Err(Errno::SRCH) {
            kill_process(self.pid, signal).ok();
        }
    }

    /// Reaps the dead process.
    pub(crate) async fn reap(&mut self) -> Exit {
        self.child.wait().await.map_or(Exit::Unknown, exit)
    }
}

fn exit(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Unknown,
    }
}

fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

/// Whether a process exists. A process of another user exists, but cannot be signalled.
pub(crate) fn exists(number: u32) -> bool {
    pid(number).is_some_and(|it| !matches!(test_kill_process(it), Err(Errno::SRCH)))
}

/// Kills a process.
pub(crate) fn kill(number: u32) -> io::Result<()> {
    let pid = pid(number).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(kill_process(pid, Signal::KILL)?)
}

/// Leaves the terminal and the process group of the parent. Fails only for the leader of a group.
pub(crate) fn leave_session() -> io::Result<()> {
    setsid().map(drop).map_err(io::Error::from)
}

/// The deaths of child processes. Reports each death after [`Deaths::listen`] at least once.
pub(crate) struct Deaths(tokio::signal::unix::Signal);

impl Deaths {
    /// Must be called within the runtime.
    pub(crate) fn listen() -> Option<Deaths> {
        signal(SignalKind::child()).ok().map(Deaths)
    }

    /// Waits for the next one. `false`: the system reports no more.
    pub(crate) async fn next(&mut self) -> bool {
        self.0.recv().await.is_some()
    }
}

/// The processes that a thread has forked and that are not the program yet.
#[derive(Debug)]
pub(crate) struct Forks {
    #[cfg(target_os = "linux")]
    thread: Pid,
}

impl Forks {
    /// Those of this thread.
    pub(crate) fn of_this_thread() -> Forks {
        Forks {
            #[cfg(target_os = "linux")]
            thread: rustix::thread::gettid(),
        }
    }

    /// Kills them. Where the system does not report what a thread has forked, the process is killed when it exists.
    pub(crate) fn kill(&self) {
        #[cfg(target_os = "linux")]
        for child in self.children() {
            // The child may exist, or have ended, by now.
            kill_process(child, Signal::KILL).ok();
        }
    }

    #[cfg(target_os = "linux")]
    fn children(&self) -> Vec<Pid> {
        let file = format!("/proc/self/task/{}/children", self.thread.as_raw_nonzero());
        let children = std::fs::read_to_string(file).unwrap_or_default();
        children.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
    }

    #[cfg(all(test, target_os = "linux"))]
    pub(crate) fn thread(&self) -> u32 {
        self.thread.as_raw_nonzero().get().unsigned_abs()
    }

    #[cfg(all(test, target_os = "linux"))]
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.children().iter().map(|it| it.as_raw_nonzero().get().unsigned_abs()).collect()
    }
}

/// Gives this process another name in lists of processes, where the system can.
pub(crate) fn rename_this(name: &std::ffi::CStr) {
    #[cfg(target_os = "linux")]
    rustix::thread::set_name(name).ok();
    #[cfg(not(target_os = "linux"))]
    let _ = name;
}

/// A command for a program that shows nothing. Only Windows would open a window.
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> std::process::Command {
    std::process::Command::new(program)
}
