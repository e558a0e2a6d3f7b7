//! Open requests in both directions, in one table with one counter.
//!
//! Every request of lspool gets a new number; its entry has the owner of the answer and the owner's id. **An answer
//! is taken from the table exactly once, and only from the peer that was asked**; a duplicate, late or forged answer
//! matches nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use foldhash::fast::RandomState;

use crate::{
    core::{
        event::{BackendId, ClientId, Peer, ProcessId},
        ids::{RequestId, Token},
        mux::{
            items::Rule,
            merge::questions::PartId,
            pool::usage::Usage,
            routes::{Dialect, LSP},
        },
        purpose::{Purpose, SentId},
    },
    rpc::{Frame, RawId, member},
};

/// The owner of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A client, with its own id.
    Client(ClientId, RequestId),
    /// A process of a backend, with its own id.
    Backend(ProcessId, RequestId),
    /// Several members of a group are asked one thing, and this is one of them.
    Part(PartId),
    /// lspool itself.
    Proxy,
}

impl Owner {
    /// Whether a client waits for the answer, or for what becomes of it.
    pub(crate) fn is_client(&self) -> bool {
        match self {
            Owner::Client(..) | Owner::Part(_) => true,
            Owner::Backend(..) | Owner::Proxy => false,
        }
    }
}

/// A request that has not been answered.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    /// The receiver. For a backend, the process once the request is written.
    pub(crate) to: To,
    pub(crate) owner: Owner,
    pub(crate) purpose: Purpose,
    /// The sent request.
    pub(crate) frame: Frame,
    pub(crate) marks: Marks,
    /// Another open request of the same client with the same id.
    earlier: Option<SentId>,
}

/// Events in the life of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// The client has cancelled it. Its process knows, and will answer.
    pub(crate) cancelled: bool,
    /// Its first number, at a process that has died.
    pub(crate) first: Option<SentId>,
    /// A partial result or a progress report has passed.
    pub(crate) streamed: bool,
    /// Its answer may wait for the user.
    pub(crate) waits_for_user: bool,
    /// How many changes of documents lspool sent before this request to a process whose positions it converts.
    pub(crate) n_changes: u64,
}

/// The members of parameters with a client's tokens.
const TOKENS: [&str; 2] = ["partialResultToken", "workDoneToken"];

/// The receiver of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    Client(ClientId),
    /// The builtin tools.
    BuiltinTools,
    /// The queue of a backend: no process has got the request.
    Queue(BackendId),
    Process(ProcessId),
}

impl To {
    /// The backend that gets it, in its queue or its process.
    pub(super) fn backend(self) -> Option<BackendId> {
        match self {
            To::Client(_) | To::BuiltinTools => None,
            To::Queue(id) => Some(id),
            To::Process(process) => Some(process.backend),
        }
    }
}

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    last: SentId,
    dialect: Option<&'static Dialect>,
    /// Boxed, because an entry is large, and changes should not move the others.
    pending: BTreeMap<SentId, Box<Pending>>,
    /// The latest request with this id. A client that does not number them has several: see [`Pending::earlier`].
    by_client: HashMap<(ClientId, RequestId), SentId, RandomState>,
    n_of_clients: usize,
    by_process: BTreeMap<(ProcessId, RequestId), SentId>,
    /// Requests that only read, or make items, by the tokens in them.
    by_token: BTreeMap<Token, SentId>,
    /// The number of clients' requests, by backend.
    owed: Usage,
}

impl Requests {
    /// Adds a request; returns its number and the frame with it.
    pub(crate) fn register(
        &mut self,
        to: To,
        owner: Owner,
        purpose: Purpose,
        frame: &Frame,
    ) -> (SentId, Frame) {
        let id = self.last.next();
        self.last = id;
        let mut earlier = None;
        match &owner {
            Owner::Client(client, wire) => {
                earlier = self.by_client.insert((*client, wire.clone()), id);
                self.n_of_clients += 1;
                to.backend().into_iter().for_each(|it| self.owed.add(it));
                let tokens = self.tokens_of(frame);
                self.by_token.extend(tokens.into_iter().map(|token| (token, id)));
            }
            Owner::Backend(process, wire) => drop(self.by_process.insert((*process, wire.clone()), id)),
            Owner::Part(_) => to.backend().into_iter().for_each(|it| self.owed.add(it)),
            Owner::Proxy => {}
        }
        let frame = frame.with_id(RawId::from(id));
        let marks = Marks::default();
        let pending = Pending { to, owner, purpose, frame: frame.clone(), marks, earlier };
        self.pending.insert(id, Box::new(pending));
        (id, frame)
    }

    /// Gives a request of a dead process a new number for the next one, so that late messages of the first are not
    /// taken for the answer.
    pub(crate) fn renumber(&mut self, id: SentId) -> Option<Frame> {
        let Pending { to, owner, purpose, frame, marks, earlier: _ } = self.take(id)?;
        let (again, frame) = self.register(to.backend().map_or(to, To::Queue), owner, purpose, &frame);
        self.mark(again, |it| *it = Marks { first: marks.first.or(Some(id)), ..marks });
        Some(frame)
    }

    /// Moves a queued request to another backend, with another purpose.
    pub(crate) fn moved(
        &mut self,
        id: SentId,
        backend: BackendId,
        purpose: impl FnOnce(Purpose) -> Purpose,
    ) -> Option<Frame> {
        let Pending { owner, purpose: before, frame, marks, .. } = self.take(id)?;
        let (moved, frame) = self.register(To::Queue(backend), owner, purpose(before), &frame);
        self.mark(moved, |it| *it = marks);
        Some(frame)
    }

    /// Marks a request.
    pub(crate) fn mark(&mut self, id: SentId, mark: impl Fn(&mut Marks)) {
        if let Some(pending) = self.pending.get_mut(&id) {
            mark(&mut pending.marks);
        }
    }

    /// Replaces the frame of a queued request.
    pub(crate) fn reword(&mut self, id: SentId, frame: &Frame) {
        if let Some(pending) = self.pending.get_mut(&id) {
            pending.frame = frame.clone();
        }
    }

    /// Progress under a token is passed on. Gives the request that it belongs to, if that is one.
    pub(crate) fn streamed(&mut self, params: &[u8]) -> Option<SentId> {
        if self.by_token.is_empty() {
            return None;
        }
        let token = member(params, "token").and_then(|range| Token::from_raw(&params[range]))?;
        let id = *self.by_token.get(&token)?;
        self.mark(id, |it| it.streamed = true);
        Some(id)
    }

    /// Takes the request of this answer, if that peer owes one.
    pub(crate) fn take_answered(&mut self, id: &RawId, by: Peer) -> Option<(SentId, Pending)> {
        let id = SentId::read(id)?;
        let asked = match (self.pending.get(&id)?.to, by) {
            (To::Client(asked), Peer::Client(by)) => asked == by,
            (To::Process(asked), Peer::Backend(by)) => asked == by,
            (
                To::Client(_) | To::BuiltinTools | To::Queue(_) | To::Process(_),
                Peer::Client(_) | Peer::Backend(_),
            ) => false,
        };
        if asked { self.take(id).map(|pending| (id, pending)) } else { None }
    }

    /// A request to the builtin tools.
    pub(crate) fn asked_of_tools(&self, id: &RawId) -> Option<SentId> {
        let id = SentId::read(id)?;
        self.pending.get(&id).filter(|it| it.to == To::BuiltinTools).map(|_| id)
    }

    /// Changes the receiver of a request under the same number.
    pub(crate) fn redirect(&mut self, id: SentId, to: To) {
        if let Some(pending) = self.pending.get_mut(&id) {
            pending.to = to;
        }
    }

    /// Removes a request.
    pub(crate) fn take(&mut self, id: SentId) -> Option<Pending> {
        let pending = self.pending.remove(&id)?;
        match &pending.owner {
            Owner::Client(client, wire) => {
                self.forget_id(&(*client, wire.clone()), id, pending.earlier);
                pending.to.backend().into_iter().for_each(|it| self.owed.remove(it));
                if !self.by_token.is_empty() {
                    for token in self.tokens_of(&pending.frame) {
                        // A client may give one token to two requests.
                        if self.by_token.get(&token) == Some(&id) {
                            self.by_token.remove(&token);
                        }
                    }
                }
            }
            Owner::Backend(process, wire) => {
                let key = (*process, wire.clone());
                if self.by_process.get(&key) == Some(&id) {
                    self.by_process.remove(&key);
                }
            }
            Owner::Part(_) => pending.to.backend().into_iter().for_each(|it| self.owed.remove(it)),
            Owner::Proxy => {}
        }
        Some(*pending)
    }

    /// Forgets the id of a request. The id then means the request before it, if there is one.
    fn forget_id(&mut self, key: &(ClientId, RequestId), id: SentId, earlier: Option<SentId>) {
        self.n_of_clients -= 1;
        let mut later = match self.by_client.get_mut(key) {
            Some(latest) if *latest != id => Some(*latest),
            Some(latest) => {
                match earlier {
                    Some(earlier) => *latest = earlier,
                    None => drop(self.by_client.remove(key)),
                }
                return;
            }
            None => None,
        };
        while let Some(pending) = later.and_then(|it| self.pending.get_mut(&it)) {
            if pending.earlier == Some(id) {
                pending.earlier = earlier;
                return;
            }
            later = pending.earlier;
        }
    }

    /// The request with this number.
    pub(crate) fn get(&self, id: SentId) -> Option<&Pending> {
        self.pending.get(&id).map(|it| &**it)
    }

    /// The number of a client's open request; of several with one id, the last one.
    pub(crate) fn of_client(&self, client: ClientId, wire: &RequestId) -> Option<SentId> {
        self.by_client.get(&(client, wire.clone())).copied()
    }

    /// Whether a process waits for an answer of a client.
    pub(super) fn has_asked(&self, process: ProcessId) -> bool {
        self.by_process.keys().any(|(by, _)| *by == process)
    }

    /// How many requests lspool has sent.
    pub(super) fn n_sent(&self) -> u64 {
        self.last.into()
    }

    /// The number of a process's open request.
    pub(crate) fn of_process(&self, process: ProcessId, wire: &RequestId) -> Option<SentId> {
        self.by_process.get(&(process, wire.clone())).copied()
    }

    /// Changes the owner of a request of a process, or of lspool.
    pub(crate) fn give_to(&mut self, id: SentId, owner: Owner) {
        let Some(pending) = self.pending.get_mut(&id) else { return };
        if let Owner::Backend(process, wire) = std::mem::replace(&mut pending.owner, owner.clone()) {
            self.by_process.remove(&(process, wire));
        }
        if let Owner::Backend(process, wire) = owner {
            self.by_process.insert((process, wire), id);
        }
    }

    /// Notes that a queued request was written to this process.
    pub(crate) fn mark_written(&mut self, id: SentId, process: ProcessId) {
        if let Some(pending) = self.pending.get_mut(&id) {
            pending.to = To::Process(process);
        }
    }

    /// The numbers of the requests for which `wanted` holds, in the order of sending.
    pub(crate) fn filter(&self, wanted: impl Fn(&Pending) -> bool) -> Vec<SentId> {
        self.pending.iter().filter(|(_, pending)| wanted(pending)).map(|(id, _)| *id).collect()
    }

    /// All requests, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SentId, &Pending)> {
        self.pending.iter().map(|(id, pending)| (*id, &**pending))
    }

    /// Checks that the indexes lead to the right requests and are complete.
    pub(crate) fn check(&self) -> Result<(), String> {
        let processes =
            self.by_process.iter().map(|((id, wire), sent)| (Owner::Backend(*id, wire.clone()), sent));
        let owed = self.pending.values().filter(|it| it.owner.is_client());
        self.owed.check(owed.filter_map(|it| it.to.backend()))?;
        for (owner, sent) in processes {
            if self.pending.get(sent).is_none_or(|it| it.owner != owner) {
                return Err(format!("{owner:?} is said to have asked request {sent}"));
            }
        }
        let of_clients = self.pending.values().filter(|it| matches!(it.owner, Owner::Client(..))).count();
        if of_clients != self.n_of_clients {
            return Err(format!("{of_clients} requests of clients, {} noted", self.n_of_clients));
        }
        let lost = self.pending.iter().find(|(id, it)| match &it.owner {
            Owner::Client(client, wire) => !self.under(*client, wire).any(|it| it == **id),
            // A server may use an id for two requests at once: it is answered twice.
            Owner::Part(_) | Owner::Backend(..) | Owner::Proxy => false,
        });
        let known = |(client, wire): &(ClientId, RequestId)| {
            self.under(*client, wire).all(|it| {
                self.pending.get(&it).is_some_and(|it| it.owner == Owner::Client(*client, wire.clone()))
            })
        };
        if !self.by_client.keys().all(known) {
            return Err("an id leads to a request that is not under it".to_owned());
        }
        lost.map_or(Ok(()), |(id, it)| Err(format!("request {id} of {:?} is in no index", it.owner)))
    }

    /// All requests of a client with one id, the latest first.
    fn under(&self, client: ClientId, wire: &RequestId) -> impl Iterator<Item = SentId> {
        let latest = self.of_client(client, wire);
        std::iter::successors(latest, |it| self.pending.get(it)?.earlier)
    }

    /// How many answers this backend owes to clients.
    pub(crate) fn n_owed_by(&self, id: BackendId) -> usize {
        self.owed.of(id)
    }

    /// Whether [`Requests::take_changed`] has any.
    pub(crate) fn have_changed(&self) -> bool {
        self.owed.has_changed()
    }

    /// The backends that began or ceased to owe answers to clients since the last call.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<BackendId> {
        self.owed.take_changed()
    }

    /// How many answers clients are owed.
    pub(super) fn n_owed_to_clients(&self) -> usize {
        self.n_of_clients
    }

    /// The number of open requests.
    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    /// Sets the dialect, with further read requests.
    pub(crate) fn set_dialect(&mut self, dialect: &'static Dialect) {
        self.dialect = Some(dialect);
    }

    /// The tokens that a client names in a request that only reads, or makes items.
    fn tokens_of(&self, frame: &Frame) -> Vec<Token> {
        let dialect = self.dialect.unwrap_or(&LSP);
        let is_one = |it| dialect.is_read(it) || Rule::makes_items(it);
        let params = frame.params().filter(|_| frame.method().is_some_and(is_one));
        let token = |params: &[u8], key| Token::from_raw(&params[member(params, key)?]);
        params.into_iter().flat_map(|it| TOKENS.into_iter().filter_map(move |key| token(it, key))).collect()
    }
}
