//! One server process for several clients, each answered as if it were alone: a state machine beside the core, with
//! its events and effects.
//!
//! A client is the lspool of an editor, connected to the socket of the hub.
#![warn(clippy::disallowed_methods)]

use std::{sync::Arc, time::Instant};

use crate::core::{
    Identity,
    event::{Effects, Event, Launch},
};

/// The version of the protocol between lspool and a hub. It is in the name of the socket, so that others never meet.
pub const PROTOCOL: u32 = 1;

/// The state machine.
#[derive(Debug)]
pub struct Hub {
    identity: Identity,
    launch: Arc<Launch>,
}

impl Hub {
    /// A hub without clients, for the process of this launch, which has [`Launch::share`].
    pub fn new(identity: Identity, launch: Arc<Launch>) -> Hub {
        Hub { identity, launch }
    }

    /// Handles one event.
    pub fn handle(&mut self, _now: Instant, _event: Event, _out: &mut Effects) {
        let _ = (&self.identity, &self.launch);
    }

    /// Handles the deadlines that have passed.
    pub fn handle_timeout(&mut self, _now: Instant, _out: &mut Effects) {}

    /// When to call [`Hub::handle_timeout`], and why.
    pub fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        None
    }
}
