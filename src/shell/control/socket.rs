//! The socket of this lspool.
//!
//! Exists as long as lspool: dropping the [`Socket`] removes it, and the guard removes it if lspool cannot.

use std::path::PathBuf;

use tokio::task::spawn_blocking;

use super::{Connection, Listener, place};
use crate::shell::{
    os::sockets::{self, Bound},
    process::Waiting,
};

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
pub struct Socket(sockets::Listener);

impl Place {
    /// Starts listening; returns the path. Must be called within the runtime.
    pub(in crate::shell) async fn open(self) -> Result<(Socket, PathBuf), String> {
        let opening = spawn_blocking(move || self.bind());
        let (socket, path) = opening.await.map_err(|error| error.to_string())??;
        let socket = socket.listen().map_err(|error| error.to_string())?;
        Ok((Socket(socket), path))
    }

    fn bind(&self) -> Result<(Bound, PathBuf), String> {
        let folder = place::make(&self.folders)?;
        place::sweep(folder, self.started);
        let path = folder.join(place::name(self.pid, self.started));
        let socket = sockets::bind(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok((socket, path))
    }
}

impl Listener for Socket {
    fn accept(&mut self) -> Waiting<'_, Connection> {
        Box::pin(accept(&self.0))
    }
}

/// Waits for the next connection of this user.
pub(in crate::shell) async fn accept(listener: &sockets::Listener) -> Connection {
    let (input, output) = listener.accept().await.split();
    (Box::new(input) as _, Box::new(output) as _)
}
