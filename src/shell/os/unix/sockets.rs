//! Local sockets of this user: their folder, and both ends.
//!
//! A folder of sockets is `lspool` in `$XDG_RUNTIME_DIR`, or else `lspool-<uid>` in the folder for temporary files. **It
//! must be a folder of this user, not a link, and closed to others.**

use std::{
    fs, io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{
            fs::{
                DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _,
                PermissionsExt as _,
            },
            net,
        },
    },
    path::{Path, PathBuf},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use rustix::{
    fs::OFlags,
    net::{Shutdown, shutdown},
    process::geteuid,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{
        UnixListener,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::sleep,
};

use crate::shell::discover::Env;

/// Whether lspools of this user can meet at a socket, to share servers.
pub(crate) const CAN_MEET: Result<(), &str> = Ok(());

/// The longest path of a socket, with the zero at its end.
const LONGEST_PATH: usize = if cfg!(target_os = "linux") { 108 } else { 104 };

/// Room for `/<pid>-<start>.sock` and a zero.
const LONGEST_NAME: usize = "/4294967295-18446744073709551615.sock\0".len();

/// The possible folders for sockets of this user, the preferred one first.
pub fn folders(env: &Env) -> Vec<PathBuf> {
    let runtime = env.folder("XDG_RUNTIME_DIR").map(|it| it.join("lspool"));
    let temporary = env.folder("TMPDIR").unwrap_or_else(|| "/tmp".into());
    let temporary = temporary.join(format!("lspool-{}", geteuid().as_raw()));
    runtime.into_iter().chain([temporary]).filter(|it| fits(it)).collect()
}

fn fits(folder: &Path) -> bool {
    folder.as_os_str().len() + LONGEST_NAME <= LONGEST_PATH
}

/// Makes a folder that is closed to others.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(folder)
}

/// Checks that a folder is a folder of this user and closed to others. The error says what it is instead.
pub fn check(folder: &Path) -> Result<(), String> {
    let is = |what: &str| Err(format!("{} {what}", folder.display()));
    let meta = match fs::symlink_metadata(folder) {
        Ok(meta) => meta,
        Err(error) => return is(&format!("cannot be checked: {error}")),
    };
    if !meta.is_dir() {
        return is("is not a folder");
    }
    if meta.uid() != geteuid().as_raw() {
        return is(&format!("belongs to user {}", meta.uid()));
    }
    match meta.mode() & 0o777 {
        0o700 => Ok(()),
        mode => is(&format!("has mode {mode:03o}; expected 700")),
    }
}

/// Whether the entry of a folder is a socket of this user. The error says what it is instead.
pub(crate) fn is_own(socket: &fs::Metadata) -> Result<(), String> {
    if !socket.file_type().is_socket() {
        return Err("is not a socket".to_owned());
    }
    if socket.uid() != geteuid().as_raw() {
        return Err(format!("belongs to user {}", socket.uid()));
    }
    Ok(())
}

/// Whether a connection is refused. A connection to a full queue would wait, so a listening socket is not asked.
pub(crate) fn is_refused(socket: &Path) -> bool {
    use rustix::net::{SocketAddrUnix, connect};
    let (Ok(fd), Ok(address)) = (unconnected(), SocketAddrUnix::new(socket)) else { return false };
    matches!(connect(fd, &address), Err(rustix::io::Errno::CONNREFUSED))
}

/// A socket for which nothing waits, and that no other process inherits.
#[cfg(not(target_vendor = "apple"))]
fn unconnected() -> rustix::io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

#[cfg(target_vendor = "apple")]
fn unconnected() -> rustix::io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketType, socket};
    let fd = socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    rustix::io::ioctl_fionbio(&fd, true)?;
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
    Ok(fd)
}

/// A socket that listens, outside of the runtime.
#[derive(Debug)]
pub(crate) struct Bound(net::UnixListener);

/// Listens at a path, for this user alone.
pub(crate) fn bind(path: &Path) -> io::Result<Bound> {
    let socket = net::UnixListener::bind(path)?;
    // The folder is closed to others; this protects against a changed folder.
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    socket.set_nonblocking(true)?;
    Ok(Bound(socket))
}

impl Bound {
    /// The same within the runtime.
    pub(crate) fn listen(self) -> io::Result<Listener> {
        UnixListener::from_std(self.0).map(Listener)
    }
}

/// A socket that listens.
#[derive(Debug)]
pub(crate) struct Listener(UnixListener);

impl Listener {
    /// Waits for the next connection of this user.
    pub(crate) async fn accept(&self) -> Stream {
        loop {
            match self.0.accept().await {
                Ok((stream, _)) if stream.peer_cred().is_ok_and(|it| it.uid() == geteuid().as_raw()) => {
                    return Stream(stream);
                }
                Ok((stream, _)) => {
                    tracing::warn!(peer = ?stream.peer_cred().ok(), "refused a connection of another user");
                }
                // Errors such as too many open files persist, so wait before the next attempt.
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
pub(crate) struct Stream(tokio::net::UnixStream);

/// What reads from a connection.
pub(crate) type ReadHalf = OwnedReadHalf;
/// What writes to a connection.
pub(crate) type WriteHalf = OwnedWriteHalf;

/// Connects to a socket, if a process of this user listens.
pub(crate) async fn connect(socket: &Path) -> io::Result<Stream> {
    let stream = tokio::net::UnixStream::connect(socket).await?;
    match stream.peer_cred()?.uid() {
        user if user == geteuid().as_raw() => Ok(Stream(stream)),
        user => {
            let what = format!("user {user} listens there");
            Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
        }
    }
}

/// Connects once, outside of the runtime.
pub(crate) fn try_connect(socket: &Path) -> io::Result<()> {
    net::UnixStream::connect(socket).map(drop)
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, out)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl Stream {
    /// Both directions.
    pub(crate) fn split(self) -> (ReadHalf, WriteHalf) {
        self.0.into_split()
    }

    /// What ends the connection, whoever has the directions.
    pub(crate) fn ender(&self) -> io::Result<Ender> {
        self.0.as_fd().try_clone_to_owned().map(Ender)
    }
}

/// Ends a connection.
#[derive(Debug)]
pub(crate) struct Ender(OwnedFd);

impl Ender {
    /// Fails if the other side has ended it.
    pub(crate) fn end(&self) {
        shutdown(&self.0, Shutdown::Both).ok();
    }
}

/// Opens a file for a lock, which it makes if it is missing. It must be a file of this user.
pub(crate) fn lock_file(path: &Path) -> Result<fs::File, String> {
    let flags = (OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::NONBLOCK).bits().cast_signed();
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
    let file = options.open(path).map_err(|error| error.to_string())?;
    let meta = file.metadata().map_err(|error| error.to_string())?;
    match meta.is_file() && meta.uid() == geteuid().as_raw() {
        true => Ok(file),
        false => Err("is not a file of this user".to_owned()),
    }
}

/// Whether this open file is the one at this path.
pub(crate) fn is_at(file: &fs::File, path: &Path) -> bool {
    let key = |it: &fs::Metadata| (it.dev(), it.ino());
    matches!((file.metadata(), fs::symlink_metadata(path)), (Ok(ref file), Ok(ref there)) if key(file) == key(there))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(runtime: &str, temporary: &str) -> Env {
        let vars = [("XDG_RUNTIME_DIR", runtime), ("TMPDIR", temporary)];
        let vars = vars.into_iter().filter(|(_, value)| !value.is_empty());
        Env { vars: vars.map(|(name, value)| (name.into(), value.into())).collect(), ..Env::default() }
    }

    #[test]
    fn control_folder_prefers_runtime_folder() {
        let own = PathBuf::from(format!("lspool-{}", geteuid().as_raw()));
        let in_tmp = |folder: &str| Path::new(folder).join(&own);
        assert_eq!(folders(&env("/run/user/7", "")), [PathBuf::from("/run/user/7/lspool"), in_tmp("/tmp")]);
        assert_eq!(folders(&env("relative", "/t")), [in_tmp("/t")]);
        assert_eq!(folders(&env("", "relative")), [in_tmp("/tmp")]);
        // A socket in it would have too long a path.
        assert_eq!(folders(&env(&format!("/{}", "x".repeat(100)), "")), [in_tmp("/tmp")]);
    }

    #[test]
    fn socket_names_fit_into_socket_address() {
        let root = tempfile::tempdir().unwrap();
        let missing = LONGEST_PATH - LONGEST_NAME - root.path().as_os_str().len() - 1;
        let folder = root.path().join("f".repeat(missing));
        assert!(fits(&folder) && !fits(&folder.with_file_name("f".repeat(missing + 1))));
        fs::create_dir(&folder).unwrap();
        let longest = crate::shell::control::socket_name(u32::MAX, u64::MAX);
        net::UnixListener::bind(folder.join(longest)).unwrap();
    }
}
