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
    group::Group,
    methods::{Method, method},
    refreshing::is_passing,
};
use crate::{
    core::{
        event::{ProcessId, ServerId},
        mux::{
            Mux,
            pool::backend::Backend,
            requests::{Owner, Pending},
            session::documents::{DocumentKey, uri},
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

/// A document, and the member that is asked about it. The URI is as the editor writes it.
type Place = (String, ServerId);

#[derive(Debug)]
struct Pull {
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
    all: BTreeMap<Place, Pull>,
    due: BTreeMap<Place, Instant>,
}

impl Pulls {
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.due.values().min().copied()
    }

    fn opened(&mut self, now: Instant, place: Place) {
        let patient_until = now + PATIENCE;
        self.due.insert(place.clone(), patient_until);
        self.all.insert(place, Pull { patient_until, asked: None, again: false, id: None });
    }

    /// Asks for all of these again.
    fn ask(&mut self, at: Instant, is_meant: impl Fn(&Place) -> bool) {
        for (place, pull) in self.all.iter().filter(|(it, _)| is_meant(it)) {
            self.due.insert(place.clone(), at.max(pull.patient_until));
        }
    }

    fn remove(&mut self, is_gone: impl Fn(&Place) -> bool) {
        self.all.retain(|it, _| !is_gone(it));
        self.due.retain(|it, _| !is_gone(it));
    }

    fn take_due(&mut self, now: Instant) -> Vec<Place> {
        self.due.extract_if(.., |_, at| *at <= now).map(|(place, _)| place).collect()
    }

    /// A server publishes for a document itself.
    pub(super) fn published(&mut self, server: ServerId, uri: &str) {
        if !self.all.is_empty() {
            let key = super::shown::key(uri);
            self.remove(|(it, of)| *of == server && super::shown::key(it) == key);
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
    pub(super) fn note_document(&mut self, method: &str, params: &[u8]) {
        if !method.starts_with("textDocument/did") {
            return;
        }
        let (now, Some(uri)) = (self.now(), uri(params, "textDocument")) else { return };
        let meant: Vec<ServerId> = match method {
            "textDocument/didOpen" => self.servers.ids().filter(|it| self.is_for(*it, params)).collect(),
            _ => Vec::new(),
        };
        let Some(group) = self.group.as_deref_mut() else { return };
        match method {
            "textDocument/didOpen" if !group.editor_pulls() => {
                for server in meant {
                    group.pulls.opened(now, (uri.clone(), server));
                }
            }
            "textDocument/didChange" | "textDocument/didSave" => {
                group.pulls.ask(now + PAUSE, |(it, _)| *it == uri);
            }
            "textDocument/didClose" => {
                group.reports.closed(&uri);
                group.pulls.remove(|(it, _)| *it == uri);
                if let Some(params) = group.shown.closed(&uri) {
                    self.publish(&params);
                }
            }
            _ => {}
        }
    }

    fn publish(&mut self, params: &[u8]) {
        self.tell_editor(Frame::notification("textDocument/publishDiagnostics", Some(params)));
    }

    /// A process of a member is told the session: what its predecessor was asked for is asked again.
    pub(super) fn pull_from_new_process(&mut self, server: ServerId) {
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
            group.pulls.opened(now, (uri, server));
        }
    }

    /// A member has something else to say of all documents.
    pub(super) fn pull_again(&mut self, process: ProcessId) {
        let (now, Some(server)) = (self.now(), self.backend(process.backend).map(|it| it.server)) else {
            return;
        };
        if let Some(group) = self.group.as_deref_mut() {
            group.pulls.ask(now, |(_, it)| *it == server);
        }
    }

    pub(super) fn on_pull_deadlines(&mut self) {
        let now = self.now();
        let Some(group) = self.group.as_deref_mut() else { return };
        for place in group.pulls.take_due(now) {
            let (uri, server) = &place;
            let (is_serving, is_coming) = (self.is_serving(*server), self.is_coming(*server));
            let process = self.backend(self.servers.get(*server).primary).map(Backend::process);
            let Some(group) = self.group.as_deref_mut() else { return };
            let Some(pull) = group.pulls.all.get_mut(&place) else { continue };
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
            params.set_path(&["textDocument", "uri"], RawId::text(uri).as_bytes());
            let mut params = params.finish();
            let member = group.members.iter().find(|it| it.server == *server);
            let Some(abilities) = member.and_then(|it| it.abilities.as_ref()) else { continue };
            if !is_serving || !abilities.can(row(), &params, None) {
                continue;
            }
            if let Some(identifier) = abilities.diagnostics_identifier() {
                params = Patch::of(&params).set("identifier", RawId::text(identifier).as_bytes()).finish();
            }
            if let Some(pull) = group.pulls.all.get_mut(&place) {
                (pull.asked, pull.again) = (process, false);
            }
            let primary = self.servers.get(*server).primary;
            let frame = Frame::request(RawId::from(0), PULL, Some(&params));
            self.send_to_backend(primary, Owner::Proxy, Purpose::Pull { uri: uri.clone() }, &frame);
        }
    }

    /// A member has answered lspool.
    pub(in crate::core::mux) fn on_pulled(&mut self, process: ProcessId, pending: &Pending, answer: &Frame) {
        let (Purpose::Pull { uri }, now) = (&pending.purpose, self.now()) else { return };
        let Some(server) = self.backend(process.backend).map(|it| it.server) else { return };
        let Some(group) = self.group.as_deref_mut() else { return };
        let (place, Some(rank)) = ((uri.clone(), server), group.rank(server)) else { return };
        // It is closed, or the member has published something itself.
        let Some(pull) = group.pulls.all.get_mut(&place) else { return };
        pull.asked = None;
        if std::mem::take(&mut pull.again) {
            group.pulls.due.insert(place.clone(), now + PAUSE);
        }
        let Some(result) = answer.result() else {
            if is_passing(answer) {
                group.pulls.due.insert(place, now + REST);
            }
            return;
        };
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
