//! What the driver needs of others: decisions of the core, and a server that somebody finds.

use std::{path::PathBuf, time::Instant};

use crate::{
    core::{
        Proxy,
        event::{BackendId, Effect, Effects, Event, Prepared, ProcessId},
    },
    hub::Hub,
    recording::{encode, format::About},
};

/// What the driver needs of the core.
pub trait Core {
    /// Something happened.
    fn handle(&mut self, now: Instant, event: Event, out: &mut Effects);
    /// The time of [`Core::poll_timeout`] has come.
    fn handle_timeout(&mut self, now: Instant, out: &mut Effects);
    /// When to call [`Core::handle_timeout`], and why.
    fn poll_timeout(&self) -> Option<(Instant, &'static str)>;
    /// Whether there is such a backend: whether anybody may ask for what its processes have written.
    fn knows(&self, _backend: BackendId) -> bool {
        true
    }
    /// Whether a process has not answered `initialize` yet: whether what it writes to stderr means something.
    fn is_starting(&self, _process: ProcessId) -> bool {
        true
    }
    /// What the backend is that an effect is about, for those who read a recording.
    fn about(&self, _effect: &Effect) -> Option<About> {
        None
    }
}

impl Core for Proxy {
    fn handle(&mut self, now: Instant, event: Event, out: &mut Effects) {
        Proxy::handle(self, now, event, out);
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Effects) {
        Proxy::handle_timeout(self, now, out);
    }

    fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        Proxy::poll_timeout(self)
    }

    fn knows(&self, backend: BackendId) -> bool {
        Proxy::knows(self, backend)
    }

    fn is_starting(&self, process: ProcessId) -> bool {
        Proxy::is_starting(self, process)
    }

    fn about(&self, effect: &Effect) -> Option<About> {
        encode::about(self, effect)
    }
}

impl Core for Hub {
    fn handle(&mut self, now: Instant, event: Event, out: &mut Effects) {
        Hub::handle(self, now, event, out);
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Effects) {
        Hub::handle_timeout(self, now, out);
    }

    fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        Hub::poll_timeout(self)
    }
}

/// How the server is found.
pub trait Search: Send + Sync {
    /// The files that say which it is for these workspace folders, whether they are there or not.
    fn files(&self, folders: &[PathBuf]) -> Vec<PathBuf>;
    /// Reads them, chooses and finds the server.
    fn prepare(&self, folders: &[PathBuf]) -> Result<Prepared, String>;
}

/// Nobody asks for a server.
impl Search for () {
    fn files(&self, _folders: &[PathBuf]) -> Vec<PathBuf> {
        Vec::new()
    }

    fn prepare(&self, _folders: &[PathBuf]) -> Result<Prepared, String> {
        Err("there is none to be found".to_owned())
    }
}
