//! Control clients: `lspool status` and other programs of this user that connect to the socket.
//!
//! Owns the connections and their limits: few connections, short messages, and lspool leaves a client that does not
//! read. **lspool never waits for them**: their events have their own queue, the driver takes at most as many of them
//! as of the others, and none of them delays a server.

mod place;
mod socket;

use std::collections::BTreeMap;

use tokio::{
    sync::watch,
    task::{AbortHandle, spawn_local},
};

pub(super) use place::make;
#[cfg(test)]
pub(super) use place::name as socket_name;
pub use place::{Instance, instances};
pub(super) use socket::accept;
pub use socket::{Place, Socket};

pub use super::os::sockets::{check, folders};
use super::{
    inbox::{Events, Inbox, inbox},
    outbox::{Outbox, StallClock},
    process::Waiting,
    reader::{self, Backpressure, End},
    settings::ControlLimits,
    stdio::{Input, Output},
};
use crate::core::event::{ClientId, Dropped, Event, Peer};

/// How many bytes of events of control clients may wait for the driver before reading pauses.
const AHEAD: usize = 4 * 1024;

/// Both directions of a connection.
pub type Connection = (Input, Output);

/// A source of connections: a socket, or a test.
pub trait Listener {
    /// Waits for the next connection.
    fn accept(&mut self) -> Waiting<'_, Connection>;
}

/// All connected clients.
pub(super) struct Clients {
    limits: ControlLimits,
    all: BTreeMap<ClientId, Client>,
    last: ClientId,
    /// Messages dropped for clients that have left.
    dropped: Dropped,
    events: Events,
}

struct Client {
    outbox: Outbox,
    reader: AbortHandle,
}

impl Clients {
    /// An empty set, with the queue of its events.
    pub(super) fn new(limits: ControlLimits) -> (Clients, Inbox) {
        let (events, incoming) = inbox(AHEAD);
        let (all, last, dropped) = (BTreeMap::new(), ClientId::EDITOR, Dropped::default());
        (Clients { limits, all, last, dropped, events }, incoming)
    }

    /// Adds a client, or hangs up if there are too many.
    pub(super) fn join(&mut self, (input, output): Connection) {
        let Some(number) = self.last.0.checked_add(1).filter(|_| self.all.len() < self.limits.clients) else {
            tracing::warn!(n = self.all.len(), "closed a control connection: too many are open");
            return;
        };
        self.last = ClientId(number);
        let peer = Peer::Client(self.last);
        let outbox = Outbox::new(self.limits.outbox);
        let reader =
            spawn_local(read(input, peer, outbox.clone(), self.limits.max_message, self.events.clone()));
        spawn_local(write(output, peer, outbox.clone(), self.limits.clone(), self.events.clone()));
        self.all.insert(self.last, Client { outbox, reader: reader.abort_handle() });
        tracing::debug!(?peer, "control client connected");
    }

    pub(super) fn outbox(&self, client: ClientId) -> Option<&Outbox> {
        self.all.get(&client).map(|it| &it.outbox)
    }

    /// The outboxes of all of them.
    pub(super) fn outboxes(&self) -> Vec<Outbox> {
        self.all.values().map(|it| it.outbox.clone()).collect()
    }

    /// Messages dropped for all of them.
    pub(super) fn dropped(&self) -> Dropped {
        let mut all = self.dropped;
        self.all.values().for_each(|it| all += it.outbox.dropped());
        all
    }

    /// Stops reading a client, which still gets its waiting messages. Returns whether it was connected.
    pub(super) fn leave(&mut self, client: ClientId) -> bool {
        let Some(client) = self.all.remove(&client) else { return false };
        self.dropped += client.outbox.dropped();
        client.reader.abort();
        client.outbox.close();
        true
    }
}

async fn read(mut input: Input, peer: Peer, outbox: Outbox, max_len: usize, events: Events) {
    // A client that does not read answers may not send requests either.
    let dead = watch::Sender::new(false);
    let backpressure = Backpressure::Pause { paused: outbox.over_high_water(), dead: dead.subscribe() };
    let junk = |text: &str| tracing::debug!(?peer, text = %reader::excerpt(text), "control client sent text between messages");
    let error = match reader::read(&mut input, max_len, peer, backpressure, &events, junk).await {
        End::Eof(error) => error,
        End::Broken(error) => Some(error),
    };
    events.tell(Event::Closed { peer, error });
}

async fn write(output: Output, peer: Peer, outbox: Outbox, limits: ControlLimits, events: Events) {
    let (stall, mut stalled) = inbox(0);
    let never = watch::Sender::new(false);
    let clock = StallClock { after: limits.stall, stopped: never.subscribe(), events: stall, peer };
    let error = tokio::select! {
        biased;
        written = outbox.write_to(output, Some(clock)) => written.err().map(|error| error.to_string()),
        _ = stalled.next() => Some("it does not read".to_owned()),
    };
    events.tell(Event::Closed { peer, error });
}
