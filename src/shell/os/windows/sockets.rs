//! Named pipes of this user, in the place of local sockets.
//!
//! A pipe has no folder, and every user sees its name. So a file in a folder of the user's profile, which is closed to
//! others, has the name of a socket and contains that of the pipe, which nobody can guess. **Only the owner may open the
//! pipe**, not over the network, and only one process listens. The owner is this user; of an elevated process, the
//! administrators. A listener cannot act as the client that connects.

use std::{
    fs,
    hash::{BuildHasher as _, RandomState},
    io::{self, Write as _},
    os::windows::fs::OpenOptionsExt as _,
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
    net::windows::named_pipe::{ClientOptions, NamedPipeClient},
    time::sleep,
};
use widestring::u16cstr;

use super::files;
use crate::shell::discover::Env;

/// The beginning of the names of all pipes.
const PREFIX: &str = r"\\.\pipe\lspool-";

/// Full control for the owner, and nothing for others, also not by inheritance.
const OWNER_ALONE: &widestring::U16CStr = u16cstr!("D:P(A;;GA;;;OW)");

/// The system's word for a pipe whose ends are all in use for a moment.
const PIPE_BUSY: i32 = 231;
/// A listener may know who connects, and no more.
const SECURITY_IDENTIFICATION: u32 = 0x1_0000;
/// How often a client tries a pipe that is busy, and how long it waits before it tries again.
const TRIES: u32 = 100;
const RETRY: Duration = Duration::from_millis(20);

/// The possible folders for sockets of this user.
pub fn folders(env: &Env) -> Vec<PathBuf> {
    env.local().map(|it| it.join("lspool").join("run")).into_iter().collect()
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

/// Whether lspools of this user can meet at a socket, to share servers.
pub(crate) const CAN_MEET: Result<(), &str> = Err("servers are not shared on Windows");

/// The name of the pipe that a file stands for. A file that is just being made has none.
fn pipe(socket: &Path) -> io::Result<String> {
    let name = fs::read_to_string(socket)?;
    if name.starts_with(PREFIX) { Ok(name) } else { Err(io::ErrorKind::NotFound.into()) }
}

/// Whether nobody listens.
pub(crate) fn is_refused(socket: &Path) -> bool {
    matches!(try_connect(socket), Err(error) if error.kind() == io::ErrorKind::NotFound)
}

/// Connects once, outside of the runtime.
pub(crate) fn try_connect(socket: &Path) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).security_qos_flags(SECURITY_IDENTIFICATION);
    match options.open(pipe(socket)?) {
        Ok(_) => Ok(()),
        Err(error) if error.raw_os_error() == Some(PIPE_BUSY) => Ok(()),
        Err(error) => Err(error),
    }
}

/// A pipe that is about to listen.
#[derive(Debug)]
pub(crate) struct Bound {
    file: PathBuf,
    pipe: String,
}

/// Makes the file that stands for the pipe.
pub(crate) fn bind(path: &Path) -> io::Result<Bound> {
    let pipe = format!("{PREFIX}{:016x}", RandomState::new().hash_one(path));
    fs::File::create_new(path)?.write_all(pipe.as_bytes())?;
    Ok(Bound { file: path.to_owned(), pipe })
}

impl Bound {
    /// Makes the pipe, within the runtime.
    pub(crate) fn listen(self) -> io::Result<Listener> {
        let made = SecurityDescriptor::deserialize(OWNER_ALONE).and_then(|owner| {
            PipeListenerOptions::new()
                .path(self.pipe.as_str())
                .security_descriptor(Some(owner))
                .create_tokio_duplex::<pipe_mode::Bytes>()
        });
        if made.is_err() {
            fs::remove_file(&self.file).ok();
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
                Ok(stream) => return Stream::Listener(stream),
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
pub(crate) enum Stream {
    Listener(DuplexPipeStream<pipe_mode::Bytes>),
    Client(NamedPipeClient),
}

/// What reads from a connection.
pub(crate) type ReadHalf = tokio::io::ReadHalf<Stream>;
/// What writes to a connection.
pub(crate) type WriteHalf = tokio::io::WriteHalf<Stream>;

/// Connects to a pipe.
pub(crate) async fn connect(socket: &Path) -> io::Result<Stream> {
    let pipe = pipe(socket)?;
    for _ in 0..TRIES {
        match ClientOptions::new().open(&pipe) {
            Err(error) if error.raw_os_error() == Some(PIPE_BUSY) => sleep(RETRY).await,
            opened => return opened.map(Stream::Client),
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Listener(it) => Pin::new(&mut &*it).poll_read(cx, out),
            Stream::Client(it) => Pin::new(it).poll_read(cx, out),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Listener(it) => Pin::new(&mut &*it).poll_write(cx, from),
            Stream::Client(it) => Pin::new(it).poll_write(cx, from),
        }
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

/// Whether this open file is the one at this path.
pub(crate) fn is_at(file: &fs::File, path: &Path) -> bool {
    files::is_at(file, path)
}
