//! Requests of clients to the server, and their answers.

use tracing::debug;

use super::{Hub, PROCESS};
use crate::{
    core::{
        event::{ClientId, Peer},
        ids::RequestId,
        mux::{
            failure::{Cause, Failure, error_code},
            requests::{Owner, Pending, To},
            routes::LSP,
        },
        purpose::{Purpose, SentId},
    },
    rpc::{ErrorCode, Frame, Patch, RawId, member, path, text},
};

/// Requests for which a server may ask for an edit.
const MAKES_EDITS: [&str; 3] = ["workspace/executeCommand", "textDocument/codeAction", "codeAction/resolve"];

/// A request of a client that the server has.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) client: ClientId,
    pub(super) method: String,
    /// As the client asked it.
    frame: Frame,
    /// The server's texts have changed since, not by this client.
    is_crossed: bool,
    /// It was asked before.
    is_again: bool,
    is_cancelled: bool,
}

impl Asked {
    /// Whether the server may hold it open for ever.
    pub(super) fn is_endless(&self) -> bool {
        self.method == "workspace/diagnostic"
    }

    /// Whether its answer cannot be used.
    fn is_spoiled(&self, answer: &Frame) -> bool {
        if !self.is_crossed || self.is_again || self.is_cancelled || self.is_endless() {
            return false;
        }
        let refusals = [ErrorCode::ContentModified, ErrorCode::ServerCancelled];
        let is_refused = error_code(answer).is_some_and(|code| refusals.iter().any(|it| it.code() == code));
        is_refused || LSP.is_read(&self.method)
    }

    /// Whether its result may be about another client's text, and it is too late to ask again.
    fn is_outdated(&self) -> bool {
        self.is_crossed && !self.is_endless() && self.method != "workspace/executeCommand"
    }

    fn makes_edits(&self) -> bool {
        MAKES_EDITS.contains(&self.method.as_str())
    }
}

impl Hub {
    /// Sends a request of a client to the server, which has the texts of that client.
    pub(super) fn ask_server(&mut self, id: ClientId, frame: Frame, is_again: bool) {
        let Some(request) = frame.id() else { return };
        let method = frame.method().unwrap_or_default().to_owned();
        if let Some(client) = self.clients.get_mut(&id) {
            client.n_requests += 1;
        }
        let owner = Owner::Client(id, RequestId::from(request));
        let sent_frame = self.without_old_results(id, &frame);
        let (sent, out) = self.requests.register(To::Process(PROCESS), owner, Purpose::Plain, &sent_frame);
        let out = self.tokens.choose(id, sent, out);
        let asked = Asked { client: id, method, frame, is_crossed: false, is_again, is_cancelled: false };
        self.asked.insert(sent, asked);
        self.tell_server(out);
    }

    /// Leaves out what refers to an answer of the server about other texts.
    fn without_old_results(&mut self, id: ClientId, frame: &Frame) -> Frame {
        let Some(params) = frame.params() else { return frame.clone() };
        if member(params, "previousResultId").is_none() {
            return frame.clone();
        }
        let uri = text(params, &["textDocument", "uri"]).unwrap_or_default();
        if !self.texts.take_switched(id, &uri) {
            return frame.clone();
        }
        let mut patch = Patch::of(params);
        match frame.method() {
            // It must be there.
            Some("textDocument/semanticTokens/full/delta") => patch.set("previousResultId", br#""""#),
            _ => patch.remove("previousResultId"),
        };
        frame.with_params(&patch.finish())
    }

    pub(super) fn on_server_answer(&mut self, frame: &Frame) {
        let Some(id) = frame.id() else { return };
        let Some((sent, pending)) = self.requests.take_answered(&id, Peer::Backend(PROCESS)) else {
            return debug!(%id, "dropped an answer that nobody waits for");
        };
        self.tokens.answered(sent);
        self.note_activity();
        let Pending { owner, purpose, .. } = pending;
        match owner {
            Owner::Client(client, request) => self.pass_answer(sent, client, request, frame),
            Owner::Proxy => self.on_own_answer(&purpose, frame),
            Owner::Backend(..) | Owner::Part(_) => {}
        }
    }

    fn pass_answer(&mut self, sent: SentId, client: ClientId, request: RequestId, frame: &Frame) {
        let asked = self.asked.remove(&sent);
        let is_outdated = asked.as_ref().is_some_and(Asked::is_outdated) && frame.result().is_some();
        if let Some(asked) = asked.filter(|it| it.is_spoiled(frame)) {
            return self.ask_again(client, asked.frame);
        }
        let answer = match self.with_versions(client, frame) {
            Ok(answer) if !is_outdated => answer.with_id(request.into()),
            Ok(_) | Err(_) => {
                let why = "the text has changed in another editor";
                Frame::error(request.into(), ErrorCode::ContentModified, why, None)
            }
        };
        self.tell_client(client, answer);
    }

    /// Whether an edit that the server makes for a client may be about another client's text.
    pub(super) fn edits_are_outdated(&self, client: ClientId) -> bool {
        self.asked.values().any(|it| it.client == client && it.makes_edits() && it.is_crossed)
    }

    /// The answer to a request cannot be read.
    pub(super) fn fail_asked(&mut self, answer: &RawId, failure: &Failure) {
        let taken = self.requests.take_answered(answer, Peer::Backend(PROCESS));
        let Some((sent, pending)) = taken else { return };
        self.tokens.answered(sent);
        self.asked.remove(&sent);
        match pending.owner {
            Owner::Client(client, request) => self.tell_client(client, failure.answer(request)),
            Owner::Proxy => self.on_own_answer(&pending.purpose, &failure.answer(RawId::from(0).into())),
            Owner::Backend(..) | Owner::Part(_) => {}
        }
    }

    /// `$/cancelRequest` of a client.
    pub(super) fn on_cancel(&mut self, id: ClientId, frame: &Frame) {
        let params = frame.params().unwrap_or_default();
        let Some(request) = path(params, &["id"]).and_then(|it| RawId::from_raw(&params[it])) else { return };
        let queue = self.clients.get_mut(&id).map(|it| &mut it.queue);
        let of = |it: &Frame| it.method().is_some() && it.id().as_ref() == Some(&request);
        if let Some(queue) = queue
            && let Some(at) = queue.iter().position(|it| of(&it.frame))
        {
            queue.remove(at);
            let is_empty = queue.is_empty();
            if is_empty && let Some(client) = self.clients.get_mut(&id) {
                client.waits_since = None;
            }
            let failure = Failure::new(Cause::Cancelled, "the client cancelled it");
            return self.tell_client(id, failure.answer(request.into()));
        }
        let Some(sent) = self.requests.of_client(id, &RequestId::from(request)) else { return };
        if let Some(asked) = self.asked.get_mut(&sent) {
            asked.is_cancelled = true;
        }
        self.cancel_at_server(sent);
    }

    fn cancel_at_server(&mut self, sent: SentId) {
        let params = format!(r#"{{"id":{sent}}}"#);
        self.tell_server(Frame::notification("$/cancelRequest", Some(params.as_bytes())));
    }

    /// A client has left: nobody waits for its answers.
    pub(super) fn abandon_requests(&mut self, id: ClientId) {
        let of_client = |it: &Pending| matches!(&it.owner, Owner::Client(by, _) if *by == id);
        for sent in self.requests.filter(of_client) {
            self.requests.take(sent);
            self.asked.remove(&sent);
            self.tokens.answered(sent);
            self.cancel_at_server(sent);
        }
    }

    /// Tells the server of a text on behalf of a client: what others have asked may be answered by it.
    pub(super) fn tell_server_of_texts(&mut self, by: Option<ClientId>, frame: Frame) {
        if let Some(by) = by {
            self.turns.note_current(by);
        }
        for asked in self.asked.values_mut().filter(|it| Some(it.client) != by) {
            asked.is_crossed = true;
        }
        self.tell_server(frame);
    }

    /// Whether other clients wait for answers about the server's current texts.
    pub(super) fn is_awaited(&self, id: ClientId) -> bool {
        self.asked.values().any(|it| it.client != id && !it.is_endless() && !it.is_crossed)
    }

    /// Whether another client waits for an answer that could not be used before.
    pub(super) fn has_last_asked(&self, id: ClientId) -> bool {
        self.asked.values().any(|it| it.client != id && it.is_again && !it.is_crossed && !it.is_cancelled)
    }

    /// The client that the server works for: one with a request that makes edits, else one with any request.
    pub(super) fn who_asks(&self) -> Option<ClientId> {
        let asked = || self.asked.values().rev();
        asked().find(|it| it.makes_edits()).or_else(|| asked().next()).map(|it| it.client)
    }
}
