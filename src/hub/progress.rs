//! Progress: tokens of clients, which get other names at the server, and tokens of the server, which all clients see.

use std::collections::BTreeMap;

use super::Hub;
use crate::{
    core::{event::ClientId, ids::Token, purpose::SentId},
    rpc::{Frame, Patch, member, path, values},
};

/// The members of a request with tokens of its client.
const KEYS: [&str; 2] = ["partialResultToken", "workDoneToken"];

/// Tokens that clients have chosen, by their names at the server.
#[derive(Debug, Default)]
pub(super) struct Tokens(BTreeMap<Token, Chosen>);

#[derive(Debug)]
struct Chosen {
    client: ClientId,
    theirs: Token,
    request: SentId,
}

impl Tokens {
    /// Gives the tokens in a request names that no other client uses.
    pub(super) fn choose(&mut self, client: ClientId, sent: SentId, frame: Frame) -> Frame {
        let Some(params) = frame.params() else { return frame };
        let chosen = values(params, KEYS);
        if chosen.iter().all(Option::is_none) {
            return frame;
        }
        let mut patch = Patch::of(params);
        for (key, theirs) in KEYS.iter().zip(chosen) {
            let Some(theirs) = theirs.and_then(Token::from_raw) else { continue };
            // Parts could be about another client's text, and come twice.
            if *key == "partialResultToken" && frame.method() != Some("workspace/diagnostic") {
                patch.remove(key);
                continue;
            }
            let ours = Token::text(&format!("{key}-{sent}"));
            patch.set(key, ours.as_bytes());
            self.0.insert(ours, Chosen { client, theirs, request: sent });
        }
        frame.with_params(&patch.finish())
    }

    /// A request is answered, or nobody waits for it.
    pub(super) fn answered(&mut self, sent: SentId) {
        if !self.0.is_empty() {
            self.0.retain(|_, it| it.request != sent);
        }
    }

    #[cfg(any(test, feature = "testing"))]
    pub(super) fn check(&self, is_open: impl Fn(&SentId) -> bool) -> Result<(), String> {
        match self.0.values().find(|it| !is_open(&it.request)) {
            Some(lost) => Err(format!("{lost:?} is of a request that is not open")),
            None => Ok(()),
        }
    }
}

/// Some servers never end what they have begun.
const MOST_CREATED: usize = 1000;

/// Progress under tokens that the server has created, for clients that come later.
#[derive(Debug, Default)]
pub(super) struct Created(BTreeMap<Token, Vec<Frame>>);

impl Hub {
    /// `window/workDoneProgress/create` of the server.
    pub(super) fn on_created(&mut self, frame: &Frame) {
        let params = frame.params().unwrap_or_default();
        let token = path(params, &["token"]).and_then(|it| Token::from_raw(&params[it]));
        if let Some(token) = token {
            let create = Frame::request(crate::rpc::RawId::from(0), CREATE, Some(params));
            self.created.0.insert(token, vec![create]);
            if self.created.0.len() > MOST_CREATED {
                self.created.0.pop_first();
            }
        }
        self.answer_server(frame, b"null");
        self.ask_all(frame);
    }

    pub(super) fn on_progress(&mut self, frame: &Frame) {
        let params = frame.params().unwrap_or_default();
        let token = member(params, "token").and_then(|it| Token::from_raw(&params[it]));
        let Some(token) = token else { return self.tell_all(frame) };
        if let Some(chosen) = self.tokens.0.get(&token) {
            let theirs = Patch::of(params).set("token", chosen.theirs.as_bytes()).finish();
            let client = chosen.client;
            return self.tell_client(client, frame.with_params(&theirs));
        }
        let is_ours = token.as_text().is_some_and(|it| KEYS.iter().any(|key| it.starts_with(key)));
        if is_ours {
            // Of a request that is answered, or of a client that has left.
            return;
        }
        if let Some(said) = self.created.0.get_mut(&token) {
            match path(params, &["value", "kind"]).map(|it| &params[it]) {
                Some(b"\"end\"") => drop(self.created.0.remove(&token)),
                Some(b"\"begin\"") => {
                    said.truncate(1);
                    said.push(frame.unshared());
                }
                _ => {
                    said.truncate(2);
                    said.push(frame.unshared());
                }
            }
        }
        self.tell_all(frame);
    }

    /// `window/workDoneProgress/cancel` of a client: by its own token, or one of the server.
    pub(super) fn on_progress_cancelled(&mut self, client: ClientId, frame: &Frame) {
        let params = frame.params().unwrap_or_default();
        let token = member(params, "token").and_then(|it| Token::from_raw(&params[it]));
        let of_client = |it: &Chosen| it.client == client && Some(&it.theirs) == token.as_ref();
        let ours = self.tokens.0.iter().find(|(_, it)| of_client(it)).map(|(ours, _)| ours);
        let frame = match ours {
            Some(ours) => frame.with_params(&Patch::of(params).set("token", ours.as_bytes()).finish()),
            None => frame.clone(),
        };
        self.tell_server(frame);
    }

    /// Tells a new client of progress that has begun.
    pub(super) fn tell_created(&mut self, client: ClientId) {
        let all: Vec<Frame> = self.created.0.values().flatten().cloned().collect();
        for frame in all {
            match frame.method() {
                Some(CREATE) => drop(self.ask_client(client, &frame)),
                _ => self.tell_client(client, frame),
            }
        }
    }
}

const CREATE: &str = "window/workDoneProgress/create";
