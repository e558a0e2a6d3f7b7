//! Requests of a dead process: decides which of them the next process gets, and answers the others.
//!
//! The next process gets read requests, once: a request that has seen two processes die may be the reason. It gets no
//! request that the editor has cancelled, or of which the editor has seen a partial result.

use std::collections::BTreeMap;

use tracing::debug;

use crate::{
    core::{
        event::{BackendId, Peer, ProcessId},
        mux::{
            Mux,
            failure::{Cause, Failure},
            items::{Foreign, Rule},
            pool::{backend::Backend, lifecycle::LifecycleState, processes::Successor},
            requests::{Marks, Owner, Pending, To},
            routes::Keep,
            servers::Server,
        },
        purpose::{Purpose, SentId},
    },
    rpc::{ErrorCode, Frame, Kind, RawId},
};

/// What happens to a request of a dead process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// The next process gets it.
    Again,
    /// The client has cancelled it.
    Cancelled,
    /// Two processes have had it.
    Spent,
    /// It concerns state that died with the process, or its effect may have happened: the client gets an error.
    Dropped,
}

impl Mux {
    /// Handles the requests of a dead process. The caller drops the rest.
    pub(super) fn retry_requests(&mut self, process: ProcessId, next: Successor, cause: Cause, what: &str) {
        let Some(backend) = self.backend(process.backend) else { return };
        let (name, server) = (backend.name.clone(), self.servers.of(backend));
        let asked = self.requests.iter().filter(|(_, it)| it.to == To::Process(process));
        let fates: Vec<(SentId, Fate)> =
            asked.map(|(sent, it)| (sent, self.fate(it, next, server))).collect();
        let mut again: Vec<Frame> = Vec::new();
        for (sent, fate) in fates {
            let failure = match fate {
                Fate::Dropped => continue,
                Fate::Again => {
                    again.extend(self.requests.renumber(sent));
                    continue;
                }
                Fate::Cancelled => Failure::new(Cause::Cancelled, "cancelled; the server has exited"),
                Fate::Spent => {
                    let method = self.requests.get(sent).and_then(|it| it.frame.method()).unwrap_or_default();
                    let message = format!(
                        "{name} {what} during {method}; two processes died with this request, so lspool \
                         does not send it again"
                    );
                    Failure { cause, partition: Some(name.clone()), message, retry: false }
                }
            };
            if let Some(pending) = self.requests.take(sent) {
                self.fail_request(&pending.owner, &pending.purpose, &failure);
            }
        }
        if !again.is_empty() {
            debug!(name, n = again.len(), "requeued requests for the next process");
            self.put_first(process.backend, again);
        }
    }

    /// Puts repeated requests before all queued ones, in their old order, turns included.
    fn put_first(&mut self, id: BackendId, again: Vec<Frame>) {
        let first = |it: &Frame| self.requests.get(SentId::of(it)?)?.marks.first;
        let queued = self.backend(id).into_iter().flat_map(Backend::queued);
        let first: BTreeMap<SentId, SentId> =
            again.iter().chain(queued).filter_map(|it| Some((SentId::of(it)?, first(it)?))).collect();
        let Some(backend) = self.backends.get_mut(id) else { return };
        let queue = backend.queue();
        queue.extend(again);
        queue
            .make_contiguous()
            .sort_by_key(|it| SentId::of(it).and_then(|it| first.get(&it).copied()).unwrap_or(SentId::MAX));
    }

    /// A process that took the place of another has answered a client, or has said a part of the answer: it has made
    /// items, or given ids, itself.
    pub(in crate::core::mux) fn note_answered_by_successor(
        &mut self,
        process: ProcessId,
        asked: &Frame,
        result: &[u8],
    ) {
        if let Some(backend) = self.backends.get_mut(process.backend) {
            backend.items.note(asked, result);
            backend.results.note(asked, result);
        }
    }

    /// The same for diagnostics that it has published.
    pub(in crate::core::mux) fn note_published_by_successor(&mut self, process: ProcessId, params: &[u8]) {
        if process.generation.0 > 1
            && let Some(backend) = self.backends.get_mut(process.backend)
        {
            backend.items.note_diagnostics(params, "diagnostics");
        }
    }

    /// Adapts a message for a successor. `None`: lspool answers it.
    pub(crate) fn for_successor(&mut self, process: ProcessId, frame: Frame) -> Option<Frame> {
        if process.generation.0 == 1 {
            return Some(frame);
        }
        if frame.method() == Some("textDocument/didChange") {
            return Some(self.with_whole_text(process, &frame).unwrap_or(frame));
        }
        let Some(backend) = self.backend(process.backend) else { return Some(frame) };
        let params = frame.params().unwrap_or(b"null");
        let foreign = frame.method().and_then(Rule::of_question).filter(|it| !backend.items.have(it, params));
        match SentId::of(&frame).zip(foreign) {
            Some((sent, rule)) => {
                // The data in the item would mislead this process.
                let Pending { owner, .. } = self.requests.take(sent)?;
                self.answer_foreign(&owner, rule, params);
                None
            }
            None => {
                let frame = backend.results.without_foreign_ids(&frame).unwrap_or(frame);
                let frame = backend.items.without_foreign_data(&frame).unwrap_or(frame);
                Some(backend.differences.asked(&frame).unwrap_or(frame))
            }
        }
    }

    /// Answers a question about an item that a process has made which is gone.
    fn answer_foreign(&mut self, owner: &Owner, rule: &Rule, item: &[u8]) {
        let text = "the item is of a server process that is gone; ask for it again";
        let answer = |id: RawId| match rule.foreign {
            Foreign::Itself => Frame::response(id, item),
            Foreign::Outdated => Frame::error(id, ErrorCode::ContentModified, text, None),
        };
        match owner {
            Owner::Client(client, id) => self.send(Peer::Client(*client), answer(id.clone().into())),
            Owner::Part(part) => self.answer_part(*part, answer(RawId::from(0))),
            Owner::Backend(..) | Owner::Proxy => {}
        }
    }

    fn fate(&self, pending: &Pending, next: Successor, server: &Server) -> Fate {
        let Marks { cancelled, first, streamed, waits_for_user: _, n_changes: _ } = pending.marks;
        if !pending.owner.is_client() || !matches!(pending.purpose, Purpose::Plain) {
            return Fate::Dropped;
        }
        if cancelled {
            return Fate::Cancelled;
        }
        if self.is_made_up_for(&pending.owner) {
            return Fate::Dropped;
        }
        if !may_be_repeated(pending.frame.method().unwrap_or_default(), server) {
            return Fate::Dropped;
        }
        if first.is_some() {
            return Fate::Spent;
        }
        if streamed || next != Successor::Follows { Fate::Dropped } else { Fate::Again }
    }

    /// A change of a document as a process is told it that takes whole texts only.
    fn with_whole_text(&mut self, process: ProcessId, change: &Frame) -> Option<Frame> {
        let backend = self.backend(process.backend).filter(|it| it.differences.wants_whole_texts)?;
        let (server, params) = (backend.server, change.params()?);
        let whole = self.servers.get_mut(server).session.documents.as_whole(params)?;
        Some(change.with_params(&whole))
    }

    /// An answer of a process as the editor gets it, if that is another.
    pub(in crate::core::mux) fn of_successor(&self, pending: &Pending, answer: &Frame) -> Option<Frame> {
        let To::Process(process) = pending.to else { return None };
        if process.generation.0 == 1 {
            return None;
        }
        self.backend(process.backend)?.differences.answered(&pending.frame, answer)
    }

    /// What a process that is gone was asked before it was ready is asked of the next one. Gives the numbers under
    /// which it was asked, and is now.
    pub(crate) fn requeue(&mut self, process: ProcessId) -> Vec<(SentId, SentId)> {
        let id = process.backend;
        let Some(backend) = self.backend(id) else { return Vec::new() };
        if !matches!(
            backend.life.state(),
            LifecycleState::Spawning { .. } | LifecycleState::Initializing { .. }
        ) {
            return Vec::new();
        }
        let asked = |it: &Pending| it.to == To::Process(process) && it.owner.is_client();
        let mut again = Vec::new();
        for sent in self.requests.filter(asked).into_iter().rev() {
            let Some(frame) = self.requests.renumber(sent) else { continue };
            again.extend(SentId::of(&frame).map(|it| (sent, it)));
            if let Some(backend) = self.backends.get_mut(id) {
                backend.queue().push_front(frame);
            }
        }
        again
    }

    /// Whether a request waits for a process of this backend.
    pub(super) fn has_queued_requests(&self, id: BackendId) -> bool {
        self.backend(id).is_some_and(|it| it.queued().iter().any(|it| it.kind() == Kind::Request))
    }

    /// Drops queued notifications that the replayed session contains.
    pub(super) fn drop_replayed(&mut self, id: BackendId) {
        let Some(backend) = self.backends.get_mut(id) else { return };
        let server = self.servers.get(backend.server);
        let is_replayed = |it: &Frame| match (it.kind(), it.method().unwrap_or_default()) {
            (Kind::Request | Kind::Response, _) => false,
            (Kind::Notification, "initialized") => true,
            (Kind::Notification, method) => server.keep(method).is_some_and(|it| it != Keep::Never),
        };
        backend.queue().retain(|it| !is_replayed(it));
    }
}

/// Whether it only reads, or says what every process is told at its start in any case.
fn may_be_repeated(method: &str, server: &Server) -> bool {
    let is_replayed = |it: Keep| matches!(it, Keep::Latest | Keep::LatestOfDocument | Keep::All);
    server.dialect.is_read(method) || server.keep(method).is_some_and(is_replayed)
}
