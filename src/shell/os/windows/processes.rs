//! Processes: their start in a job, their end, and who exists.
//!
//! A job has the process and all that it starts. **The system ends a job when its last handle is closed**, so nothing
//! remains of a killed lspool. A process is suspended until it is in its job, so that nothing escapes; a kill of lspool in
//! that moment leaves a suspended process.

use std::{
    ffi::{CStr, OsStr},
    io,
    path::Path,
    process::{ExitStatus, Stdio},
};

use process_wrap::tokio::{ChildWrapper, CommandWrap, CreationFlags, JobObject, KillOnDrop};
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};
use tokio::{
    process::{ChildStderr, ChildStdin, ChildStdout, Command},
    sync::{mpsc, watch},
};
use windows::Win32::System::Threading::CREATE_NO_WINDOW;

use super::editor::started;
use crate::{
    core::event::{Exit, Launch},
    shell::{os::Leads, process::Request},
};

/// The system's word for a file that is not a program.
const BAD_EXE_FORMAT: i32 = 193;

/// A running process with its job. Dropping it ends the job.
#[derive(Debug)]
pub(crate) struct Child {
    pid: u32,
    requests: mpsc::UnboundedSender<()>,
    ended: watch::Receiver<Option<Exit>>,
}

/// The streams of a process.
pub(crate) struct Streams {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
}

/// Starts a process with piped streams and this variable in addition to its own. Must be called within the runtime.
pub(crate) fn spawn(
    launch: &Launch,
    folder: Option<&Path>,
    variable: (&str, &OsStr),
    _leads: Leads,
) -> io::Result<(Child, Streams)> {
    let mut command = Command::new(&launch.program);
    command
        .args(&launch.args)
        .envs(launch.env.iter().map(|(name, value)| (name, value)))
        .env(variable.0, variable.1)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(folder) = folder {
        command.current_dir(folder);
    }
    let mut command = CommandWrap::from(command);
    // An editor has no console, and a new one would flash up.
    command.wrap(CreationFlags(CREATE_NO_WINDOW)).wrap(KillOnDrop).wrap(JobObject);
    let mut child = command.spawn()?;
    let (Some(pid), Some(stdin), Some(stdout), Some(stderr)) =
        (child.id(), child.stdin().take(), child.stdout().take(), child.stderr().take())
    else {
        unreachable!("a child that was not awaited has a pid, and its streams were asked for");
    };
    let (requests, asked) = mpsc::unbounded_channel();
    let (tell, ended) = watch::channel(None);
    tokio::spawn(keep(child, asked, tell));
    Ok((Child { pid, requests, ended }, Streams { stdin, stdout, stderr }))
}

/// Has the job until nobody needs it, and ends it on request.
async fn keep(
    mut child: Box<dyn ChildWrapper>,
    mut asked: mpsc::UnboundedReceiver<()>,
    tell: watch::Sender<Option<Exit>>,
) {
    loop {
        let asked = {
            // The process itself: the job ends later.
            let process = child.inner_mut().wait();
            tokio::select! {
                exit = process, if tell.borrow().is_none() => {
                    tell.send_replace(Some(exit.map_or(Exit::Unknown, exit_of)));
                    continue;
                }
                asked = asked.recv() => asked,
            }
        };
        match asked {
            // It fails if all have exited.
            Some(()) => drop(child.start_kill()),
            // Dropping the job ends what is left of it.
            None => return,
        }
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    status.code().map_or(Exit::Unknown, Exit::Code)
}

/// Whether the system cannot run this kind of file.
pub(crate) fn is_no_executable(error: &io::Error) -> bool {
    error.raw_os_error() == Some(BAD_EXE_FORMAT)
}

impl Child {
    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits for its death. The system does not reuse its number while lspool has its handle.
    pub(crate) async fn dead(&self) {
        let mut ended = self.ended.clone();
        // An error means that the runtime ends, and the job with it.
        ended.wait_for(Option::is_some).await.ok();
    }

    /// Ends its whole job. There is no gentle way: a process was asked by the end of its input.
    pub(crate) fn signal(&self, request: Request) {
        match request {
            Request::Terminate | Request::Kill => drop(self.requests.send(())),
        }
    }

    /// How the dead process ended.
    pub(crate) async fn reap(&mut self) -> Exit {
        self.dead().await;
        self.ended.borrow().clone().unwrap_or(Exit::Unknown)
    }
}

/// Whether a process exists.
pub(crate) fn exists(number: u32) -> bool {
    started(number).is_some()
}

/// Kills a process.
pub(crate) fn kill(number: u32) -> io::Result<()> {
    let pid = Pid::from_u32(number);
    let mut system = System::new().map_err(|error| io::Error::other(error.to_string()))?;
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), true, ProcessRefreshKind::nothing());
    match system.process(pid) {
        Some(process) if process.kill() => Ok(()),
        Some(_) => Err(io::ErrorKind::PermissionDenied.into()),
        None => Err(io::ErrorKind::NotFound.into()),
    }
}

/// Leaves the console of the parent: lspool's processes are started without one.
#[expect(clippy::unnecessary_wraps, reason = "other systems can fail")]
pub(crate) fn leave_session() -> io::Result<()> {
    Ok(())
}

/// The deaths of child processes, which this system does not report.
pub(crate) struct Deaths;

impl Deaths {
    /// A write to a dead process shows its death.
    pub(crate) fn listen() -> Option<Deaths> {
        None
    }

    pub(crate) async fn next(&mut self) -> bool {
        false
    }
}

/// The processes that a thread has begun to make. On this system there is no such moment.
#[derive(Debug)]
pub(crate) struct Forks;

impl Forks {
    pub(crate) fn of_this_thread() -> Forks {
        Forks
    }

    /// Has nothing to kill: the process is killed when it exists.
    #[expect(clippy::unused_self, reason = "other systems have something to kill")]
    pub(crate) fn kill(&self) {}
}

/// This system takes the name of a process from its executable.
pub(crate) fn rename_this(_name: &CStr) {}

/// A command for a program that shows nothing: without its own console, whose window would flash up.
pub(crate) fn command(program: impl AsRef<OsStr>) -> std::process::Command {
    use std::os::windows::process::CommandExt as _;
    let mut command = std::process::Command::new(program);
    command.creation_flags(CREATE_NO_WINDOW.0);
    command
}
