//! Settings: what the server has asked of the first client holds for all, and a client with others takes a process of
//! its own.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Hub, PROCESS, clients::Detach};
use crate::{
    core::{
        event::{ClientId, Effect, Peer},
        ids::RequestId,
        mux::requests::{Owner, To},
        purpose::{Purpose, SentId},
    },
    rpc::{Frame, RawId, elements, path, text},
};

const CONFIGURATION: &str = "workspace/configuration";

/// Some servers ask for each document. The answers after so many are not kept.
const MOST_ANSWERS: usize = 100;

/// The settings that the server has.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// The last `didChangeConfiguration`.
    pushed: Option<Value>,
    /// Answers to `workspace/configuration`, by the parameters.
    answers: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Questions to clients, with their parameters: the server's, and those of the hub that compare.
    asked: BTreeMap<SentId, Vec<u8>>,
}

impl Settings {
    pub(super) fn forget(&mut self, sent: SentId) {
        self.asked.remove(&sent);
    }
}

impl Hub {
    /// `workspace/configuration` of the server.
    pub(super) fn on_configuration_asked(&mut self, frame: &Frame) {
        let params = frame.params().unwrap_or_default();
        if let Some(known) = self.settings.answers.get(params).cloned() {
            return self.answer_server(frame, &known);
        }
        let Some(leader) = self.leader() else {
            let items = path(params, &["items"]).map_or(0, |it| elements(&params[it]).count());
            let nulls = vec!["null"; items].join(",");
            return self.answer_server(frame, format!("[{nulls}]").as_bytes());
        };
        let Some(id) = frame.id() else { return };
        let owner = Owner::Backend(PROCESS, RequestId::from(id));
        let (sent, out) = self.requests.register(To::Client(leader), owner, Purpose::Plain, frame);
        self.settings.asked.insert(sent, params.to_vec());
        self.act(Effect::Send(Peer::Client(leader), out));
    }

    /// A new client is asked what others were asked.
    pub(super) fn check_settings(&mut self, client: ClientId) {
        let questions: Vec<Vec<u8>> = self.settings.answers.keys().cloned().collect();
        for params in questions {
            self.compare_settings(client, params);
        }
    }

    fn compare_settings(&mut self, client: ClientId, params: Vec<u8>) {
        let frame = Frame::request(RawId::from(0), CONFIGURATION, Some(&params));
        let sent = self.ask_client(client, &frame);
        self.settings.asked.insert(sent, params);
    }

    /// An answer of a client to the hub.
    pub(super) fn on_settings_answer(&mut self, client: ClientId, sent: SentId, frame: &Frame) {
        let Some(params) = self.settings.asked.remove(&sent) else { return };
        let (Some(theirs), Some(known)) = (frame.result(), self.settings.answers.get(&params)) else {
            return;
        };
        let (theirs, known) = (value(theirs), value(known));
        if theirs != known && self.clients.len() == 1 {
            // Nobody else needs the old ones. A server that asks for settings asks again after this.
            self.settings.answers.clear();
            self.settings.pushed = None;
            let params = br#"{"settings":null}"#;
            self.tell_server(Frame::notification("workspace/didChangeConfiguration", Some(params)));
        } else if theirs != known {
            let why = format!("settings differ: {}", differing(&params, &theirs, &known));
            self.detach(client, Detach::Settings, &why);
        }
    }

    /// The first client's answer is kept for others.
    pub(super) fn note_configuration(&mut self, client: ClientId, sent: SentId, frame: &Frame) {
        let is_full = self.settings.answers.len() >= MOST_ANSWERS;
        if let (Some(params), Some(result)) = (self.settings.asked.remove(&sent), frame.result())
            && !is_full
        {
            self.settings.answers.insert(params.clone(), result.to_vec());
            for other in self.initialized().into_iter().filter(|it| *it != client) {
                self.compare_settings(other, params.clone());
            }
        }
    }

    /// `didChangeConfiguration` of a client.
    pub(super) fn on_settings(&mut self, id: ClientId, frame: &Frame) {
        let said = frame.params().map(value).unwrap_or_default();
        let others = self.clients.iter().any(|(other, it)| *other != id && it.detached.is_none());
        let is_empty = said["settings"].is_null() || said["settings"] == serde_json::json!({});
        if others && (is_empty || self.settings.pushed.as_ref() == Some(&said)) {
            // Many editors say so of any change, and expect to be asked.
            return self.check_settings(id);
        }
        if others {
            return self.detach(id, Detach::Settings, "it has changed its settings");
        }
        self.settings.pushed = Some(said);
        self.settings.answers.clear();
        self.tell_server(frame.clone());
    }
}

fn value(raw: &[u8]) -> Value {
    serde_json::from_slice(raw).unwrap_or_default()
}

/// The names of the sections whose settings differ.
fn differing(params: &[u8], theirs: &Value, known: &Value) -> String {
    let items = path(params, &["items"]).map(|it| &params[it]).unwrap_or_default();
    let names = elements(items).map(|it| text(&items[it], &["section"]).unwrap_or_default());
    let differs = |(n, _): &(usize, String)| theirs.get(*n) != known.get(*n);
    let all: Vec<String> = names.enumerate().filter(differs).map(|it| it.1).collect();
    all.join(", ")
}
