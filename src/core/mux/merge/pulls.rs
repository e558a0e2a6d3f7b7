//! Diagnostics that lspool pulls, for an editor that does not: some servers never publish any.
//!
//! A member that has published nothing for a document a while after it was opened is pulled, and again after each pause
//! in the typing, until it publishes something itself. What it says is published with what the others say.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use bytes::Bytes;

use super::{
    abilities::TextDocument,
    group::Group,
    methods::{Method, method},
    refreshing::is_passing,
    shown::key,
};
use crate::{
    core::{
        event::{ProcessId, ServerId},
        mux::{
            Mux,
            pool::backend::Backend,
            requests::{Owner, Pending},
            session::documents::DocumentKey,
        },
        purpose::Purpose,
    },
    rpc::{Frame, Patch, RawId, decode, member, members, path, values},
};

const PULL: &str = "textDocument/diagnostic";

/// How long a member may take to publish after a document is opened, or after its own start.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long typing pauses before a member is asked.
const PAUSE: Duration = Duration::from_millis(200);

/// How long a member rests that says that it cannot answer at the moment.
const REST: Duration = Duration::from_secs(1);

/// When a member that is not well is looked at again.
const ABSENCE: Duration = Duration::from_secs(10);

/// A document, however its URI is written, and the member that is asked about it.
type Place = (String, ServerId);

#[derive(Debug)]
struct Pull {
    /// As the editor writes it.
    uri: String,
    /// When the member has had its time to publish.
    patient_until: Instant,
    /// Who owes an answer.
    asked: Option<ProcessId>,
    /// It is to be asked again then.
    again: bool,
    /// The last result id, raw, and who gave it.
    id: Option<(ProcessId, Bytes)>,
}

/// Of open documents.
#[derive(Debug, Default)]
pub(super) struct Pulls {
    all: BTreeMap<String, BTreeMap<ServerId, Pull>>,
    due: BTreeMap<Place, Instant>,
}

impl Pulls {
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.due.values().min().copied()
    }

    fn opened(&mut self, now: Instant, uri: &str, server: ServerId) {
        let (key, patient_until) = (key(uri), now + PATIENCE);
        self.due.insert((key.clone(), server), patient_until);
        let pull = Pull { uri: uri.to_owned(), patient_until, asked: None, again: false, id: None };
        self.all.entry(key).or_default().insert(server, pull);
    }

    fn get_mut(&mut self, (key, server): &Place) -> Option<&mut Pull> {
        self.all.get_mut(key)?.get_mut(server)
    }

    /// A document has changed: all members are asked again.
    fn changed(&mut self, at: Instant, uri: &str) {
        if self.all.is_empty() {
            return;
        }
        let key = key(uri);
        for (server, pull) in self.all.get(&key).into_iter().flatten() {
            self.due.insert((key.clone(), *server), at.max(pull.patient_until));
        }
    }

    /// A member is asked about all documents again.
    fn ask(&mut self, at: Instant, server: ServerId) {
        for (key, pull) in self.all.iter().filter_map(|(key, all)| Some((key, all.get(&server)?))) {
            self.due.insert((key.clone(), server), at.max(pull.patient_until));
        }
    }

    /// A member is not one any more.
    pub(super) fn left(&mut self, server: ServerId) {
        self.due.retain(|(_, it), _| *it != server);
        self.all.retain(|_, all| {
            all.remove(&server);
            !all.is_empty()
        });
    }

    fn closed(&mut self, uri: &str) {
        let key = key(uri);
        for server in self.all.remove(&key).into_iter().flatten().map(|(server, _)| server) {
            self.due.remove(&(key.clone(), server));
        }
    }

    fn remove(&mut self, (key, server): &Place) {
        self.due.remove(&(key.clone(), *server));
        if let Some(all) = self.all.get_mut(key) {
            all.remove(server);
            if all.is_empty() {
                self.all.remove(key);
            }
        }
    }

    fn take_due(&mut self, now: Instant) -> Vec<Place> {
        self.due.extract_if(.., |_, at| *at <= now).map(|(place, _)| place).collect()
    }

    /// A server publishes for a document itself.
    pub(super) fn published(&mut self, server: ServerId, uri: &str) {
        if !self.all.is_empty() {
            self.remove(&(key(uri), server));
        }
    }
}

fn row() -> &'static Method {
    method(PULL).expect("it is in the table")
}

impl Group {
    /// Whether the editor asks for diagnostics.
    fn editor_pulls(&self) -> bool {
        let told = |keys: &[&str]| path(self.editor(), keys).map(|it| &self.editor()[it]);
        let client = ["capabilities", "textDocument", "diagnostic"];
        let is_told = path(&self.offered, &["capabilities", "diagnosticProvider"])
            .is_some_and(|it| !matches!(&self.offered[it], b"null" | b"false"));
        match told(&client) {
            None | Some(b"null") => false,
            Some(_) => is_told || told(&[&client[..], &["dynamicRegistration"]].concat()) == Some(b"true"),
        }
    }
}

impl Mux {
    /// The editor opens, changes, saves or closes a document.
    pub(super) fn note_document(&mut self, method: &str, params: &[u8], document: &TextDocument<'_>) {
        if !method.starts_with("textDocument/did") {
            return;
        }
        let (now, Some(uri)) = (self.now(), document.uri()) else { return };
        let meant: Vec<ServerId> = match method {
            "textDocument/didOpen" => {
                let is_it = |it: &ServerId| self.may_be_pulled(*it) && self.is_for(*it, document);
                self.servers.ids().filter(is_it).collect()
            }
            _ => Vec::new(),
        };
        let Some(group) = self.group.as_deref_mut() else { return };
        group.known.changed(uri);
        match method {
            "textDocument/didOpen" if !group.editor_pulls() => {
                for server in meant {
                    group.pulls.opened(now, uri, server);
                }
            }
            "textDocument/didChange" => {
                group.shown.edited(uri, params);
                group.pulls.changed(now + PAUSE, uri);
            }
            "textDocument/didSave" => group.pulls.changed(now + PAUSE, uri),
            "textDocument/didClose" => {
                group.reports.closed(uri);
                group.pulls.closed(uri);
                if let Some(params) = group.shown.closed(uri) {
                    self.publish(&params);
                }
            }
            _ => {}
        }
    }

    /// Whether a member has a provider of diagnostics, or has not said yet. One that gets it later is asked about all
    /// open documents then.
    fn may_be_pulled(&self, server: ServerId) -> bool {
        let abilities = self.group.as_deref().and_then(|it| it.abilities(server));
        abilities.is_none_or(|it| it.has(row()))
    }

    pub(super) fn publish(&mut self, params: &[u8]) {
        self.tell_editor(Frame::notification("textDocument/publishDiagnostics", Some(params)));
    }

    /// A process of a member has got the session, or can be pulled from now on: lspool asks it about all open
    /// documents.
    pub(super) fn begin_pulling(&mut self, server: ServerId) {
        let now = self.now();
        let open: Vec<String> = self
            .servers
            .get(server)
            .session
            .documents
            .open()
            .into_iter()
            .filter_map(|it| match it {
                DocumentKey::Text(uri) => Some(uri),
                DocumentKey::Notebook(_) => None,
            })
            .collect();
        let Some(group) = self.group.as_deref_mut().filter(|it| it.is_open() && !it.editor_pulls()) else {
            return;
        };
        for uri in open {
            group.pulls.opened(now, &uri, server);
        }
    }

    /// A member has something else to say of all documents.
    pub(super) fn pull_again(&mut self, process: ProcessId) {
        let (now, Some(server)) = (self.now(), self.backend(process.backend).map(|it| it.server)) else {
            return;
        };
        if let Some(group) = self.group.as_deref_mut() {
            group.pulls.ask(now, server);
        }
    }

    pub(super) fn on_pull_deadlines(&mut self) {
        let now = self.now();
        let Some(group) = self.group.as_deref_mut() else { return };
        for place in group.pulls.take_due(now) {
            let server = &place.1;
            let (is_serving, is_coming) = (self.is_serving(*server), self.is_coming(*server));
            let process = self.backend(self.servers.get(*server).primary).map(Backend::process);
            let Some(group) = self.group.as_deref_mut() else { return };
            let Some(pull) = group.pulls.get_mut(&place) else { continue };
            let uri = pull.uri.clone();
            if pull.asked.is_some() && pull.asked == process {
                pull.again = true;
                continue;
            }
            if is_coming && !is_serving {
                group.pulls.due.insert(place, now + ABSENCE);
                continue;
            }
            let mut params = Patch::of(b"{}");
            if let Some((_, id)) = pull.id.as_ref().filter(|(of, _)| Some(*of) == process) {
                params.set("previousResultId", id);
            }
            params.set_path(&["textDocument", "uri"], RawId::text(&uri).as_bytes());
            let mut params = params.finish();
            let member = group.members.iter().find(|it| it.server == *server);
            let Some(abilities) = member.and_then(|it| it.abilities.as_ref()) else { continue };
            if !abilities.has(row()) {
                group.pulls.remove(&place);
                continue;
            }
            if !is_serving || !abilities.can(row(), &params, &TextDocument::of(&params)) {
                continue;
            }
            if let Some(identifier) = abilities.diagnostics_identifier() {
                params = Patch::of(&params).set("identifier", RawId::text(identifier).as_bytes()).finish();
            }
            if let Some(pull) = group.pulls.get_mut(&place) {
                (pull.asked, pull.again) = (process, false);
            }
            let primary = self.servers.get(*server).primary;
            let frame = Frame::request(RawId::from(0), PULL, Some(&params));
            self.send_to_backend(primary, Owner::Proxy, Purpose::Pull { uri }, &frame);
        }
    }

    /// The answer of a member cannot be read: it is asked again after the next change.
    pub(in crate::core::mux) fn on_lost_pull(&mut self, process: ProcessId, pending: &Pending) {
        let (Purpose::Pull { uri }, now) = (&pending.purpose, self.now()) else { return };
        let Some(server) = self.backend(process.backend).map(|it| it.server) else { return };
        let (place, Some(group)) = ((key(uri), server), self.group.as_deref_mut()) else { return };
        let Some(pull) = group.pulls.get_mut(&place).filter(|it| it.asked == Some(process)) else { return };
        pull.asked = None;
        if std::mem::take(&mut pull.again) {
            group.pulls.due.insert(place, now + PAUSE);
        }
    }

    /// A member has answered lspool.
    pub(in crate::core::mux) fn on_pulled(&mut self, process: ProcessId, pending: &Pending, answer: &Frame) {
        let (Purpose::Pull { uri }, now) = (&pending.purpose, self.now()) else { return };
        let Some(server) = self.backend(process.backend).map(|it| it.server) else { return };
        let Some(group) = self.group.as_deref_mut() else { return };
        let (place, Some(rank)) = ((key(uri), server), group.rank(server)) else { return };
        // It is closed, or the member has published something itself.
        let Some(pull) = group.pulls.get_mut(&place) else { return };
        pull.asked = None;
        let is_wanted_again = std::mem::take(&mut pull.again);
        let again = match answer.result() {
            None if is_passing(answer) => Some(REST),
            Some(_) | None => is_wanted_again.then_some(PAUSE),
        };
        if let Some(wait) = again {
            group.pulls.due.insert(place.clone(), now + wait);
        }
        let (Some(result), Some(pull)) = (answer.result(), group.pulls.get_mut(&place)) else { return };
        if let Some(id) = values(result, ["resultId"])[0].filter(|it| it.starts_with(b"\"")) {
            pull.id = Some((process, Bytes::copy_from_slice(id)));
        } else if values(result, ["kind"])[0] == Some(br#""full""#) {
            pull.id = None;
        }
        let mut said: Vec<(RawId, &[u8])> = vec![(RawId::text(uri), result)];
        let related = member(result, "relatedDocuments").map_or(&b"{}"[..], |it| &result[it]);
        said.extend(members(related).map(|(uri, at)| (RawId::text(&uri), &related[at])));
        let mut told = Vec::new();
        for (uri, report) in said {
            let uri = uri.as_bytes();
            match values(report, ["kind", "items"]) {
                [Some(br#""full""#), Some(list)] => {
                    told.extend(group.shown.pulled((process, rank), uri, list));
                }
                [Some(br#""unchanged""#), _] => {
                    group.shown.confirmed((process, rank), &decode(uri).unwrap_or_default());
                }
                _ => {}
            }
        }
        for params in told {
            self.publish(&params);
        }
    }
}
