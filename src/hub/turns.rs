//! Whose texts the server has, and who waits for a turn.
//!
//! **Messages of one client keep their order.** Views take turns: the one whose message waits longest is next. A
//! switch waits for the open requests of others, but not for ever.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::{
    Hub,
    clients::Detach,
    documents::{file_of, is_about_documents},
};
use crate::{
    config::ShareViews,
    core::event::ClientId,
    rpc::{Frame, Kind},
};

/// How long a switch waits for open requests of others.
const PATIENCE: Duration = Duration::from_millis(250);
/// How long it waits for a request that is asked again because of another switch.
const LAST_PATIENCE: Duration = Duration::from_secs(10);
/// After so long without a request, a view that has changed gets its turn, and so its diagnostics.
const QUIET: Duration = Duration::from_millis(300);
/// How long such a view keeps its turn for diagnostics to come.
const IDLE_TURN: Duration = Duration::from_secs(2);
/// So many switches in so long are too many.
const MOST_SWITCHES: usize = 20;
const SWITCHES_WITHIN: Duration = Duration::from_secs(10);

/// A message that waits for the server to have the texts of its client.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) frame: Frame,
    /// Whether it was asked before, and its answer was not used.
    pub(super) is_again: bool,
}

#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The client that the server's texts were last made to fit.
    current: Option<ClientId>,
    /// When messages last came or went.
    active: Option<Instant>,
    /// Until when a view keeps its turn for its diagnostics.
    held_until: Option<Instant>,
    switches: VecDeque<Instant>,
}

impl Turns {
    pub(super) fn current(&self) -> Option<ClientId> {
        self.current
    }

    pub(super) fn note_current(&mut self, client: ClientId) {
        self.current = Some(client);
    }

    pub(super) fn forget(&mut self, client: ClientId) {
        if self.current == Some(client) {
            self.current = None;
        }
    }

    /// The diagnostics of the view that has its turn have come.
    pub(super) fn release(&mut self, now: Instant) {
        if let Some(until) = &mut self.held_until {
            *until = (*until).min(now + QUIET);
        }
    }
}

impl Hub {
    pub(super) fn note_activity(&mut self) {
        self.turns.active = Some(self.now());
    }

    /// A message whose place among those of its client matters.
    pub(super) fn in_order(&mut self, id: ClientId, frame: Frame) {
        let must_wait = self.waits(id) || self.must_wait(id, &frame);
        if !must_wait {
            return self.perform(id, Waiting { frame, is_again: false });
        }
        let now = self.now();
        if let Some(file) = file_of(&frame) {
            self.doubt_disk(&file);
        }
        if let Some(client) = self.clients.get_mut(&id) {
            client.waits_since.get_or_insert(now);
            client.queue.push_back(Waiting { frame, is_again: false });
        }
    }

    fn waits(&self, id: ClientId) -> bool {
        self.clients.get(&id).is_some_and(|it| !it.queue.is_empty())
    }

    /// Whether a message cannot go to the server at once.
    fn must_wait(&mut self, id: ClientId, frame: &Frame) -> bool {
        if !self.server.is_ready() {
            return true;
        }
        if is_about_documents(frame) {
            // It must not change what a request is about that is asked for the last time.
            return self.has_last_asked(id) && self.texts.is_aligned(id);
        }
        let others_wait = self.clients.iter().any(|(other, it)| *other != id && !it.queue.is_empty());
        others_wait || !self.texts.is_aligned(id)
    }

    /// Lets those who wait have their turns.
    pub(super) fn take_turns(&mut self) {
        if !self.server.is_ready() {
            return;
        }
        while let Some((next, since)) = self.next_waiting() {
            if self.has_last_asked(next) && self.now() < since + LAST_PATIENCE {
                return;
            }
            if !self.texts.is_aligned(next) {
                if self.is_awaited(next) && self.now() < since + PATIENCE {
                    return;
                }
                self.switch(next);
            }
            self.run_queue(next);
        }
    }

    fn next_waiting(&self) -> Option<(ClientId, Instant)> {
        let waiting = self.clients.iter().filter_map(|(id, it)| Some((*id, it.waits_since?)));
        waiting.min_by_key(|(id, since)| (*since, *id))
    }

    /// When the next turn can be taken, if somebody waits.
    pub(super) fn turn_deadline(&self) -> Option<(Instant, &'static str)> {
        let (next, since) = self.next_waiting().filter(|_| self.server.is_ready())?;
        let patience = if self.has_last_asked(next) { LAST_PATIENCE } else { PATIENCE };
        Some((since + patience, "a client waits for its turn"))
    }

    fn run_queue(&mut self, id: ClientId) {
        while let Some(client) = self.clients.get_mut(&id) {
            let Some(waiting) = client.queue.pop_front() else {
                client.waits_since = None;
                return;
            };
            // Closing a document can leave the server with the text of another client.
            if !is_about_documents(&waiting.frame) && !self.texts.is_aligned(id) {
                if let Some(client) = self.clients.get_mut(&id) {
                    client.queue.push_front(waiting);
                }
                return;
            }
            let file = file_of(&waiting.frame);
            self.perform(id, waiting);
            // Others may have changed the file since the client told of it.
            if let Some(file) = file {
                self.doubt_disk(&file);
            }
        }
    }

    /// Carries out a message of a client whose turn it is.
    fn perform(&mut self, id: ClientId, waiting: Waiting) {
        let Waiting { frame, is_again } = waiting;
        match frame.kind() {
            Kind::Request => self.ask_server(id, frame, is_again),
            Kind::Notification if is_about_documents(&frame) => self.on_document(id, &frame),
            Kind::Notification => self.tell_server(frame),
            Kind::Response => {}
        }
    }

    /// Puts a request whose answer is not used before all that its client says later.
    pub(super) fn ask_again(&mut self, id: ClientId, frame: Frame) {
        let now = self.now();
        if let Some(client) = self.clients.get_mut(&id) {
            client.waits_since.get_or_insert(now);
            client.queue.push_front(Waiting { frame, is_again: true });
        }
    }

    /// Gives the server the texts of a client.
    fn switch(&mut self, id: ClientId) {
        let now = self.now();
        self.turns.note_current(id);
        let differing = self.texts.differing(id);
        for frame in self.texts.align(id, now) {
            self.tell_server_of_texts(Some(id), frame);
        }
        self.turns.switches.push_back(now);
        let is_old = |it: &Instant| now.duration_since(*it) > SWITCHES_WITHIN;
        while self.turns.switches.front().is_some_and(is_old) {
            self.turns.switches.pop_front();
        }
        if self.share.views == ShareViews::Private || self.turns.switches.len() > MOST_SWITCHES {
            self.turns.switches.clear();
            self.part(id, &differing);
        }
    }

    /// Two clients have different texts too often: one of them takes a process of its own.
    fn part(&mut self, id: ClientId, differing: &[String]) {
        let attached = || self.clients.iter().filter(|(_, it)| it.detached.is_none());
        // One who is to go goes soon, and the differences with it.
        if attached().count() < 2 {
            return;
        }
        let fewest = attached().min_by_key(|(other, it)| (it.n_requests, **other)).map(|it| *it.0);
        let who = match self.share.views {
            ShareViews::Private => Some(id),
            ShareViews::Exact => fewest,
        };
        let names = differing.iter().map(|it| it.rsplit('/').next().unwrap_or(it)).collect::<Vec<_>>();
        let why = format!("two editors have unsaved changes: {}", names.join(", "));
        if let Some(who) = who {
            self.detach(who, Detach::Texts, &why);
        }
    }

    /// When a view that has changed gets its turn although nobody asks.
    pub(super) fn idle_deadline(&self) -> Option<(Instant, &'static str)> {
        self.texts.last_stale()?;
        let is_busy = self.next_waiting().is_some()
            || self.asked.values().any(|it| !it.is_endless())
            || !self.server.is_ready();
        if is_busy {
            return None;
        }
        let quiet = self.turns.active.map(|it| it + QUIET);
        let at = quiet.into_iter().chain(self.turns.held_until).max()?;
        Some((at, "a client's texts have changed"))
    }

    pub(super) fn take_idle_turn(&mut self) {
        let now = self.now();
        if self.idle_deadline().is_none_or(|(at, _)| now < at) {
            return;
        }
        if let Some(next) = self.texts.last_stale() {
            self.turns.held_until = Some(now + IDLE_TURN);
            if self.texts.is_aligned(next) {
                return;
            }
            self.switch(next);
        }
    }
}
