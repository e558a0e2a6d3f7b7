//! lspool's stdin and stdout as asynchronous streams.
//!
//! Owns the descriptors and their blocking mode; knows nothing of frames.
//!
//! - A pipe is opened again, so that its non-blocking mode is only lspool's.
//! - A socket cannot be opened again: lspool sets the mode on the shared description, and restores it when
//!   [`Stdio::modes`] is dropped.
//! - Anything else (a file, a terminal) uses a thread. **The process must not wait for that thread at its end**: a
//!   read of a terminal cannot be cancelled.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat},
    io::fcntl_dupfd_cloexec,
};
use tokio::net::{UnixStream, unix::pipe};

use crate::shell::stdio::{Input, Output};

/// The wanted size of a pipe, in bytes. An unprivileged user may have 64 MiB of pipes.
#[cfg(target_os = "linux")]
const PIPE: usize = 256 << 10;

/// The streams to and from the editor.
pub struct Stdio {
    /// The editor's messages.
    pub input: Input,
    /// The messages to the editor.
    pub output: Output,
    /// Restores the modes of the streams when dropped.
    pub modes: Modes,
}

/// Shared descriptions with a changed mode, and their old flags.
#[derive(Debug, Default)]
pub struct Modes(Vec<(OwnedFd, OFlags)>);

impl Drop for Modes {
    fn drop(&mut self) {
        // Backwards: stdin and stdout may be one socket, and the first entry has its original flags.
        for (fd, flags) in self.0.iter().rev() {
            if let Err(error) = fcntl_setfl(fd, *flags) {
                tracing::debug!(%error, "could not restore the mode of a standard stream");
            }
        }
    }
}

/// Opens stdin and stdout. Must be called within the runtime.
pub fn open() -> Stdio {
    let mut modes = Modes::default();
    let input = input(io::stdin().as_fd(), &mut modes);
    let output = output(io::stdout().as_fd(), &mut modes);
    Stdio { input, output, modes }
}

fn input(fd: BorrowedFd<'_>, modes: &mut Modes) -> Input {
    let opened: io::Result<Input> = match kind(fd) {
        FileType::Fifo => {
            reopen(fd, OFlags::RDONLY).and_then(pipe::Receiver::from_file).map(|it| Box::new(it) as _)
        }
        FileType::Socket => share(fd, modes).map(|it| Box::new(it) as _),
        _ => Ok(Box::new(tokio::io::stdin())),
    };
    opened.unwrap_or_else(|error| {
        tracing::debug!(%error, "used a thread to read stdin");
        Box::new(tokio::io::stdin())
    })
}

fn output(fd: BorrowedFd<'_>, modes: &mut Modes) -> Output {
    let opened: io::Result<Output> = match kind(fd) {
        FileType::Fifo => {
            reopen(fd, OFlags::WRONLY).and_then(pipe::Sender::from_file).map(|it| Box::new(it) as _)
        }
        FileType::Socket => share(fd, modes).map(|it| Box::new(it) as _),
        _ => Ok(Box::new(tokio::io::stdout())),
    };
    opened.unwrap_or_else(|error| {
        tracing::debug!(%error, "used a thread to write stdout");
        Box::new(tokio::io::stdout())
    })
}

/// Enlarges a pipe, so that large messages need fewer switches between tasks. Works without it too.
pub(crate) fn widen(pipe: impl AsFd) {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::pipe::fcntl_setpipe_size(pipe, PIPE) {
        tracing::debug!(%error, "could not enlarge a pipe");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = pipe;
}

fn kind(fd: BorrowedFd<'_>) -> FileType {
    fstat(fd).map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
}

#[cfg(target_os = "linux")]
fn reopen(fd: BorrowedFd<'_>, access: OFlags) -> io::Result<File> {
    use std::os::fd::AsRawFd as _;
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let opened = rustix::fs::open(path, flags, rustix::fs::Mode::empty())?;
    widen(&opened);
    Ok(opened.into())
}

#[cfg(not(target_os = "linux"))]
fn reopen(_fd: BorrowedFd<'_>, _access: OFlags) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// A write to this pipe fails instead of waiting.
pub(crate) fn never_wait(pipe: impl AsFd) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(pipe, true)?)
}

/// Gives stdin and stdout up: whoever is at their other ends sees the end.
pub(crate) fn leave() -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let (stdin, stdout) = (rustix::stdio::dup2_stdin(&null), rustix::stdio::dup2_stdout(&null));
    Ok(stdin.and(stdout)?)
}

/// A socket of any family: reading and writing are the same for all.
fn share(fd: BorrowedFd<'_>, modes: &mut Modes) -> io::Result<UnixStream> {
    let flags = fcntl_getfl(fd)?;
    modes.0.push((fcntl_dupfd_cloexec(fd, 3)?, flags));
    fcntl_setfl(fd, flags | OFlags::NONBLOCK)?;
    UnixStream::from_std(fcntl_dupfd_cloexec(fd, 3)?.into())
}
