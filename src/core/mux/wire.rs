//! The one way out: every message to a client or a server leaves here, and waits here for a server that cannot take
//! it yet.
//!
//! **Order from one client to one backend is kept**: no message overtakes the queue of a backend.

use std::time::Instant;

use tracing::{debug, warn};

use super::{Mux, pool::lifecycle::LifecycleState};
use crate::{
    core::{
        event::{BackendId, ClientId, Effect, Effects, Peer, ProcessId},
        mux::{
            failure::{Cause, Failure},
            pool::{backend::Backend, refusal::is_refusable},
            requests::{Owner, To},
        },
        purpose::{Purpose, SentId},
    },
    rpc::{Frame, RawId},
};

/// The effects and the time of the current event.
#[derive(Debug, Default)]
pub(super) struct Wire {
    now: Option<Instant>,
    /// The time of the first event.
    born: Option<Instant>,
    out: Effects,
}

impl Wire {
    pub(super) fn now(&self) -> Instant {
        self.now.expect("nothing is decided before the first event")
    }

    fn send(&mut self, peer: Peer, frame: Frame) {
        self.out.push(Effect::Send(peer, frame));
    }
}

impl Mux {
    /// Begins an event, whose effects are added to `out`.
    pub(crate) fn begin(&mut self, now: Instant, out: &mut Effects) {
        self.wire.now = Some(now);
        self.wire.born.get_or_insert(now);
        std::mem::swap(&mut self.wire.out, out);
    }

    /// Ends an event, and returns its effects.
    pub(crate) fn end(&mut self, out: &mut Effects) {
        std::mem::swap(&mut self.wire.out, out);
    }

    /// The time of the first event.
    pub(crate) fn born(&self) -> Option<Instant> {
        self.wire.born
    }

    /// The effects so far.
    pub(crate) fn effects(&self) -> &[Effect] {
        &self.wire.out
    }

    /// Takes the effects from a position on.
    pub(crate) fn take_effects(&mut self, from: usize) -> Vec<Effect> {
        self.wire.out.split_off(from)
    }

    /// Adds an effect.
    pub(crate) fn act(&mut self, effect: Effect) {
        match &effect {
            Effect::CloseInput(process) | Effect::Terminate(process) => {
                self.send_without_files(Some(*process));
            }
            Effect::Exit(_) => self.send_without_files(None),
            _ => {}
        }
        self.wire.out.push(effect);
    }

    pub(crate) fn send(&mut self, peer: Peer, frame: Frame) {
        match peer {
            Peer::Backend(process) => self.tell(process, frame),
            Peer::Client(_) => self.wire.send(peer, frame),
        }
    }

    /// Sends a message to a process, past its queue.
    pub(crate) fn tell(&mut self, process: ProcessId, frame: Frame) {
        if let Some(frame) = self.in_its_encoding(process, frame) {
            self.send_counted(process, frame);
        }
    }

    /// Sends a message that counts as its process does.
    pub(super) fn send_counted(&mut self, process: ProcessId, frame: Frame) {
        let mapped = self.backends.paths_of(process.backend).and_then(|it| it.outgoing(&frame));
        self.wire.send(Peer::Backend(process), mapped.unwrap_or(frame));
    }

    /// Sends a message to the editor.
    pub(crate) fn tell_editor(&mut self, frame: Frame) {
        self.wire.send(Peer::EDITOR, frame);
    }

    /// Sends a request of lspool to the editor.
    pub(crate) fn ask_editor(&mut self, purpose: Purpose, method: &str, params: Option<&[u8]>) -> SentId {
        let frame = Frame::request(RawId::from(0), method, params);
        let (sent, frame) =
            self.requests.register(To::Client(ClientId::EDITOR), Owner::Proxy, purpose, &frame);
        self.tell_editor(frame);
        sent
    }

    /// Sends a request of lspool to a process, past its queue.
    pub(crate) fn ask_backend(&mut self, id: BackendId, purpose: Purpose, method: &str, params: &[u8]) {
        let Some(process) = self.backend(id).map(Backend::process) else { return };
        let frame = Frame::request(RawId::from(0), method, Some(params));
        let (_, frame) = self.requests.register(To::Process(process), Owner::Proxy, purpose, &frame);
        self.tell(process, frame);
    }

    /// Sends a request to a backend, or into its queue.
    pub(crate) fn send_to_backend(
        &mut self,
        id: BackendId,
        owner: Owner,
        purpose: Purpose,
        frame: &Frame,
    ) -> Option<SentId> {
        let (sent, frame) = self.accept(id, owner, purpose, frame)?;
        self.release(id, frame);
        Some(sent)
    }

    /// Adds a request for a backend to the table; returns it with its new number.
    pub(crate) fn accept(
        &mut self,
        id: BackendId,
        owner: Owner,
        purpose: Purpose,
        frame: &Frame,
    ) -> Option<(SentId, Frame)> {
        if !self.backend(id).is_some_and(Backend::accepts) {
            let failure = self.unavailable(id, frame.method().unwrap_or_default());
            self.fail_request(&owner, &purpose, &failure);
            return None;
        }
        if is_refusable(&owner, &purpose)
            && let Some(failure) = self.restarts_later(id)
        {
            self.fail_request(&owner, &purpose, &failure);
            return None;
        }
        let (sent, frame) = self.requests.register(To::Queue(id), owner, purpose, frame);
        self.note_wanted(id, sent);
        Some((sent, frame))
    }

    /// Sends an accepted message as soon as the process can take it.
    pub(crate) fn release(&mut self, id: BackendId, frame: Frame) {
        if let Some((process, frame)) = self.pass_queue(id, frame) {
            self.deliver(process, frame);
        }
    }

    /// Returns an accepted message if the process can take it at once; otherwise queues it.
    pub(crate) fn pass_queue(&mut self, id: BackendId, frame: Frame) -> Option<(ProcessId, Frame)> {
        let backend = self.backends.get(id)?;
        if backend.queued().is_empty() && backend.is_open() {
            return Some((backend.process(), frame));
        }
        if let Some(backend) = self.backends.get_mut(id) {
            backend.queue().push_back(frame);
        }
        None
    }

    /// Puts a request back to the front of its queue.
    pub(crate) fn queue_first(&mut self, id: BackendId, sent: SentId) {
        if let (Some(backend), Some(pending)) = (self.backends.get_mut(id), self.requests.get(sent)) {
            backend.queue().push_front(pending.frame.clone());
        }
    }

    pub(crate) fn notify_backend(&mut self, id: BackendId, frame: &Frame) {
        match self.backend(id).is_some_and(Backend::accepts) {
            true if self.is_fed(id, frame) => {}
            true => self.release(id, frame.clone()),
            false => debug!(?frame, "dropped: server is not running"),
        }
    }

    /// Sends the queue, as far as the process can take it.
    pub(crate) fn flush(&mut self, id: BackendId) {
        for (process, frame) in self.take_queue(id) {
            self.deliver(process, frame);
        }
    }

    /// Takes the queue, if the process can take it.
    pub(crate) fn take_queue(&mut self, id: BackendId) -> impl Iterator<Item = (ProcessId, Frame)> + use<> {
        let open = self.backends.get_mut(id).filter(|it| it.is_open());
        let ready = open.map(|it| (it.process(), std::mem::take(it.queue())));
        ready.into_iter().flat_map(|(process, frames)| frames.into_iter().map(move |it| (process, it)))
    }

    /// Sends a message to a process, unless lspool answers it.
    pub(crate) fn deliver(&mut self, process: ProcessId, frame: Frame) {
        if let Some(frame) = self.for_successor(process, frame) {
            self.write(process, frame);
        }
    }

    /// Writes a message to a process, and notes the receiver of a request.
    pub(crate) fn write(&mut self, process: ProcessId, frame: Frame) {
        if frame.method().is_some()
            && let Some(sent) = SentId::of(&frame)
        {
            self.requests.mark_written(sent, process);
        }
        self.tell(process, frame);
    }

    /// Answers a request to lspool itself.
    pub(crate) fn answer(&mut self, owner: &Owner, result: &serde_json::Value) {
        self.answer_raw(owner, result.to_string().as_bytes());
    }

    /// The same, with a result that is written already.
    pub(crate) fn answer_raw(&mut self, owner: &Owner, result: &[u8]) {
        if let Owner::Client(client, id) = owner {
            self.send(Peer::Client(*client), Frame::response(id.clone().into(), result));
        }
    }

    /// Answers a request that failed here.
    pub(crate) fn fail(&mut self, owner: &Owner, failure: &Failure) {
        match owner {
            Owner::Client(client, id) => self.send(Peer::Client(*client), failure.answer(id.clone())),
            Owner::Backend(process, id) => {
                if self.is_current(*process) {
                    self.tell(*process, failure.answer(id.clone()));
                }
            }
            Owner::Part(part) => self.fail_part(*part, failure),
            Owner::Proxy => {}
        }
    }

    /// Answers a request that no process will answer.
    pub(super) fn fail_request(&mut self, owner: &Owner, purpose: &Purpose, failure: &Failure) {
        let required = self.servers.first().is_none_or(|it| it.settings.policy.required);
        match (owner, purpose) {
            // The editor continues without the server; a message tells its user.
            (Owner::Client(client, id), Purpose::Initialize) if !required => {
                let answer = Frame::response(id.clone().into(), br#"{"capabilities":{}}"#);
                let answer = self.with_commands(&answer);
                self.send(Peer::Client(*client), answer);
            }
            (Owner::Client(client, id), Purpose::Initialize) => {
                self.send(Peer::Client(*client), failure.handshake_answer(id.clone()));
            }
            _ => self.fail(owner, failure),
        }
        self.fail_relayed(purpose);
        if let Purpose::Copilot(purpose) = purpose {
            self.dropped.push(purpose.clone());
        }
    }

    fn unavailable(&self, id: BackendId, method: &str) -> Failure {
        let (name, why) = match self.backend(id) {
            Some(backend) => (backend.name.clone(), backend.why_not()),
            None => ("the server".to_owned(), "it is not running".to_owned()),
        };
        warn!(name, method, why, "refused a request: server is not available");
        let message = format!("{name} is not available for {method}: {why}");
        let is_stopped = self.backend(id).is_some_and(|it| it.life.state() == LifecycleState::Stopped);
        let cause = if is_stopped { Cause::NotStarted } else { Cause::Unavailable };
        Failure { cause, partition: Some(name), message, retry: false }
    }
}
