//! Named pipes of this user, in the place of local sockets.
//!
//! A pipe has no folder. So a file in a folder of the user's profile, which is closed to others, has the name of a socket
//! and stands for the pipe. The name of the pipe has a hash of the file's path. **Only this user may open the pipe**, and
//! not over the network; the first process that makes the pipe is the only one that listens.

use std::{
    fs, io,
    path::{Path, PathBuf},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use interprocess::os::windows::{
    named_pipe::{
        PipeListenerOptions, pipe_mode,
        tokio::{DuplexPipeStream, PipeListener},
    },
    security_descriptor::SecurityDescriptor,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::sleep,
};
use widestring::u16cstr;

use crate::{shell::discover::Env, util::fnv::fnv1a};

/// Full control for the owner, and nothing for others, also not by inheritance.
const OWNER_ALONE: &widestring::U16CStr = u16cstr!("D:P(A;;GA;;;OW)");

/// The system's word for a pipe whose ends are all in use for a moment.
const PIPE_BUSY: i32 = 231;

/// The possible folders for sockets of this user.
pub fn folders(env: &Env) -> Vec<PathBuf> {
    env.folder("LOCALAPPDATA").map(|it| it.join("lspool").join("run")).into_iter().collect()
}

/// Makes a folder, which is closed to others like the profile of the user.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    match folder.is_dir() {
        true => Err(io::ErrorKind::AlreadyExists.into()),
        false => fs::create_dir_all(folder),
    }
}

/// Checks that a folder is one. The profile of the user is closed to others.
pub fn check(folder: &Path) -> Result<(), String> {
    let is = |what: &str| Err(format!("{} {what}", folder.display()));
    match fs::symlink_metadata(folder) {
        Ok(meta) if meta.is_dir() => Ok(()),
        Ok(_) => is("is not a folder"),
        Err(error) => is(&format!("cannot be checked: {error}")),
    }
}

/// Whether the entry of a folder stands for a pipe. The error says what it is instead.
pub(crate) fn is_own(socket: &fs::Metadata) -> Result<(), String> {
    if socket.is_file() { Ok(()) } else { Err("is not a file".to_owned()) }
}

/// The name of the pipe that a file stands for.
fn pipe(socket: &Path) -> String {
    let path = socket.to_string_lossy().to_lowercase().replace('/', "\\");
    format!(r"\\.\pipe\lspool-{:016x}", fnv1a(path.as_bytes()))
}

/// Whether nobody listens.
pub(crate) fn is_refused(socket: &Path) -> bool {
    matches!(try_connect(socket), Err(error) if error.kind() == io::ErrorKind::NotFound)
}

/// Connects once, outside of the runtime.
pub(crate) fn try_connect(socket: &Path) -> io::Result<()> {
    match fs::OpenOptions::new().read(true).write(true).open(pipe(socket)) {
        Ok(_) => Ok(()),
        Err(error) if error.raw_os_error() == Some(PIPE_BUSY) => Ok(()),
        Err(error) => Err(error),
    }
}

/// A pipe that is about to listen.
#[derive(Debug)]
pub(crate) struct Bound(PathBuf);

/// Makes the file that stands for the pipe.
pub(crate) fn bind(path: &Path) -> io::Result<Bound> {
    fs::File::create_new(path)?;
    Ok(Bound(path.to_owned()))
}

impl Bound {
    /// Makes the pipe, within the runtime.
    pub(crate) fn listen(self) -> io::Result<Listener> {
        let name = pipe(&self.0);
        let made = SecurityDescriptor::deserialize(OWNER_ALONE).and_then(|owner| {
            PipeListenerOptions::new()
                .path(name.as_str())
                .security_descriptor(Some(owner))
                .create_tokio_duplex::<pipe_mode::Bytes>()
        });
        if made.is_err() {
            fs::remove_file(&self.0).ok();
        }
        made.map(Listener)
    }
}

/// A pipe that listens.
#[derive(Debug)]
pub(crate) struct Listener(PipeListener<pipe_mode::Bytes, pipe_mode::Bytes>);

impl Listener {
    /// Waits for the next connection. The system refuses other users.
    pub(crate) async fn accept(&self) -> Stream {
        loop {
            match self.0.accept().await {
                Ok(stream) => return Stream(stream),
                Err(error) => {
                    tracing::debug!(%error, "could not accept a connection");
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Stream(DuplexPipeStream<pipe_mode::Bytes>);

/// What reads from a connection.
pub(crate) type ReadHalf = tokio::io::ReadHalf<Stream>;
/// What writes to a connection.
pub(crate) type WriteHalf = tokio::io::WriteHalf<Stream>;

/// Connects to a pipe.
pub(crate) async fn connect(socket: &Path) -> io::Result<Stream> {
    DuplexPipeStream::connect_by_path(pipe(socket).as_str()).await.map(Stream)
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &self.0).poll_read(cx, out)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut &self.0).poll_write(cx, from)
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A flush of a pipe waits until the other side has read all.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Stream {
    /// Both directions.
    pub(crate) fn split(self) -> (ReadHalf, WriteHalf) {
        tokio::io::split(self)
    }

    /// What ends the connection.
    #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "other systems can fail")]
    pub(crate) fn ender(&self) -> io::Result<Ender> {
        Ok(Ender)
    }
}

/// A connection ends here when both directions are dropped.
#[derive(Debug)]
pub(crate) struct Ender;

impl Ender {
    #[expect(clippy::unused_self, reason = "other systems have a handle")]
    pub(crate) fn end(&self) {}
}

/// Opens a file for a lock, which it makes if it is missing.
pub(crate) fn lock_file(path: &Path) -> Result<fs::File, String> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(false);
    let file = options.open(path).map_err(|error| error.to_string())?;
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_file() => Ok(file),
        Ok(_) => Err("is not a file".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Whether this open file is the one at this path. Windows keeps the name of an open file that is removed, so another one
/// cannot take it.
pub(crate) fn is_at(_file: &fs::File, path: &Path) -> bool {
    path.exists()
}
