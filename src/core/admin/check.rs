//! Whether the tables of the core agree with one another. Nothing here changes anything.

use std::collections::BTreeMap;

use crate::core::{PRIMARY, Proxy};
use crate::{
    core::{
        backend::Backend,
        event::BackendId,
        modes::Entry,
        requests::{Pending, Purpose, SentId, To},
    },
    rpc::{Frame, Kind},
};

/// The first broken invariant, in words.
type Checked = Result<(), String>;

impl Proxy {
    /// Says which invariant of the state machine is broken, if one is. It costs time in proportion to all there
    /// is: for tests, and for a driver that has to know whether it may go on.
    ///
    /// Between two events, that is: what [`Proxy::handle`] was interrupted in may be half done.
    pub fn check(&self) -> Result<(), String> {
        if self.phase.is_exiting() {
            return Ok(());
        }
        self.requests.check()?;
        self.conversations.check()?;
        self.check_agents()?;
        self.check_inside()?;
        self.check_orchestrations()?;
        self.check_requests()?;
        self.check_backends()?;
        self.check_conversations()?;
        let is_alive = |id| self.backend(id).is_some_and(|it| it.life.is_alive());
        self.tokens.check(is_alive, |id| self.goes_on(id))?;
        self.registrations.check(|id| self.backends.contains_key(&id))
    }

    /// A request is where its entry says, once.
    fn check_requests(&self) -> Checked {
        let mut held: BTreeMap<SentId, Vec<BackendId>> = BTreeMap::new();
        let waiting = self.conversations.iter().map(|(_, it)| (it.backend, &it.waiting));
        let gates = self.backends.values().map(|it| (it.id, it.gated()));
        for (backend, frames) in gates.chain(waiting) {
            for sent in frames.iter().filter_map(request) {
                held.entry(sent).or_default().push(backend);
            }
        }
        for (id, frame) in
            self.conversations.iter().filter_map(|(_, it)| Some((it.backend, it.flight.resting.as_ref()?)))
        {
            held.entry(request(frame).unwrap_or_default()).or_default().push(id);
        }
        for (id, sent) in
            self.backends.values().flat_map(|it| it.restores.to_come().map(|sent| (it.id, sent)))
        {
            held.entry(sent).or_default().push(id);
        }
        for (sent, pending) in self.requests.iter() {
            let held = held.get(&sent).map_or(&[][..], Vec::as_slice);
            let right = match pending.to {
                To::Gate(id) => held == [id] && self.backends.contains_key(&id),
                To::Process(process) => held.is_empty() && self.is_current(process),
                To::Client(_) | To::Tools => held.is_empty(),
            };
            if !right {
                return Err(format!("request {sent} to {:?} is held by {held:?}", pending.to));
            }
        }
        // What `shutdown` did not wait for may be left in a gate.
        match held.keys().find(|it| self.requests.get(**it).is_none()) {
            Some(sent) if !self.phase.is_shut_down() => Err(format!("{sent} is held and owed to nobody")),
            _ => Ok(()),
        }
    }

    fn check_backends(&self) -> Checked {
        if self.backends.contains_key(&PRIMARY) != self.server.is_some() {
            return Err("a server without a primary, or the reverse".to_owned());
        }
        let most = self.server.as_ref().map_or(0, |it| it.settings.max_processes);
        let alive = self.backends.values().filter(|it| it.life.is_alive()).count();
        let shrinks = self.server.as_ref().is_some_and(|it| it.shrinks);
        if alive > most && !shrinks {
            return Err(format!("{alive} processes, and {most} may be"));
        }
        let undecided = self.count(|it| matches!(it.purpose, Purpose::Tools(_)));
        if undecided != self.catalogue.undecided {
            return Err(format!("{undecided} changes of the catalogue, {} noted", self.catalogue.undecided));
        }
        self.backends.check(self.idle_timeout())?;
        self.backends.values().try_for_each(|it| self.check_backend(it))
    }

    fn check_backend(&self, backend: &Backend) -> Checked {
        let name = &backend.name;
        let owned = |it: &Pending| matches!(it.purpose, Purpose::Project | Purpose::Narrow);
        let projecting = self.count(|it| owned(it) && it.to == To::Process(backend.process()));
        // One whose answer was lost stays noted: the gate is shut until the process is gone.
        if projecting > backend.projecting && backend.accepts() {
            return Err(format!("{name}: {projecting} projections, {} noted", backend.projecting));
        }
        if !backend.gate_is_empty() && backend.is_open(undecided(self)) {
            return Err(format!("{name}: something waits at an open gate"));
        }
        if !backend.gate_is_empty() && !backend.accepts() {
            return Err(format!("{name}: something waits for a process that will not be"));
        }
        if backend.id != PRIMARY
            && backend.spare.is_none()
            && backend.accepts()
            && (backend.idle_since.is_some() == self.is_busy(backend)
                || backend.idling != self.idling(backend))
        {
            return Err(format!("{name}: in use and counted as idle, or the reverse"));
        }
        Ok(())
    }

    fn check_conversations(&self) -> Checked {
        for (id, conversation) in self.conversations.iter() {
            self.check_flight(id, conversation)?;
            if !self.backends.contains_key(&conversation.backend) {
                return Err(format!("conversation {id} is with a backend that is gone"));
            }
            if conversation.mode.is_some() && conversation.backend != PRIMARY {
                return Err(format!("conversation {id} is in a mode, and not with the primary"));
            }
            if conversation.active().is_none() && !conversation.waiting.is_empty() {
                return Err(format!("turns of conversation {id} wait for nothing"));
            }
            let turns =
                conversation.active().into_iter().chain(conversation.waiting.iter().filter_map(request));
            for sent in turns {
                match self.requests.get(sent).map(|it| &it.purpose) {
                    Some(Purpose::Turn { conversation: of, entry: Entry::Process, .. })
                        if of == id && conversation.backend == PRIMARY && !conversation.set.is_all() =>
                    {
                        return Err(format!("a turn of conversation {id} has every tool"));
                    }
                    Some(Purpose::Turn { conversation, .. }) if conversation == id => {}
                    other => return Err(format!("conversation {id} has turn {sent}, which is {other:?}")),
                }
            }
        }
        Ok(())
    }

    fn count(&self, wanted: impl Fn(&Pending) -> bool) -> usize {
        self.requests.filter(wanted).len()
    }
}

fn undecided(proxy: &Proxy) -> bool {
    proxy.catalogue.undecided > 0
}

/// The number of a request that waits.
fn request(frame: &Frame) -> Option<SentId> {
    frame.id().filter(|_| frame.kind() == Kind::Request)?.as_u64()
}
