//! The socket of this lspool.
//!
//! Exists as long as lspool: dropping the [`Socket`] removes it, and the guard removes it if lspool cannot.

use std::{
    fs, io,
    os::unix::{fs::PermissionsExt as _, net},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::process::geteuid;
use tokio::{net::UnixListener, task::spawn_blocking, time::sleep};

use super::{Connection, Listener, place};
use crate::shell::process::Waiting;

/// The parameters of the socket.
#[derive(Clone, Debug)]
pub struct Place {
    /// The possible folders, the preferred one first.
    pub folders: Vec<PathBuf>,
    /// The process id of lspool.
    pub pid: u32,
    /// When lspool started, in milliseconds since 1970.
    pub started: u64,
}

/// A listening socket.
#[derive(Debug)]
pub struct Socket(UnixListener);

impl Place {
    /// Starts listening; returns the path. Must be called within the runtime.
    pub(in crate::shell) async fn open(self) -> Result<(Socket, PathBuf), String> {
        let opening = spawn_blocking(move || self.bind());
        let (socket, path) = opening.await.map_err(|error| error.to_string())??;
        let socket = UnixListener::from_std(socket).map_err(|error| error.to_string())?;
        Ok((Socket(socket), path))
    }

    fn bind(&self) -> Result<(net::UnixListener, PathBuf), String> {
        let folder = place::make(&self.folders)?;
        place::sweep(folder, self.started);
        let path = folder.join(place::name(self.pid, self.started));
        let socket = listen(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok((socket, path))
    }
}

/// Listens at a path, for this user alone.
pub(in crate::shell) fn listen(path: &Path) -> io::Result<net::UnixListener> {
    let socket = net::UnixListener::bind(path)?;
    // The folder is closed to others; this protects against a changed folder.
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

impl Listener for Socket {
    fn accept(&mut self) -> Waiting<'_, Connection> {
        Box::pin(accept(&self.0))
    }
}

/// Waits for the next connection of this user.
pub(in crate::shell) async fn accept(listener: &UnixListener) -> Connection {
    loop {
        match listener.accept().await {
            Ok((stream, _)) if stream.peer_cred().is_ok_and(|it| it.uid() == geteuid().as_raw()) => {
                let (input, output) = stream.into_split();
                return (Box::new(input) as _, Box::new(output) as _);
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
