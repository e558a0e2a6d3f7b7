//! The documents of each client, and those that the server has.
//!
//! A client's view is the set of its open documents with their texts. **The server has one text for each document**;
//! a view is *aligned* while the server's texts are what a server of this client alone would have. [`Texts::align`]
//! makes it so.

mod difference;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Instant,
};

use bytes::Bytes;

use self::difference::replacement;
use crate::{
    core::{
        event::ClientId,
        mux::session::documents::{DocumentKey, Documents, Encoding, uri},
    },
    rpc::{Frame, Patch, decimal, decode, path},
};

/// Versions of a document that may still come back from the server.
const REMEMBERED: usize = 64;

/// The last versions of so many documents are known. A server forgets that of a closed document.
const MOST_VERSIONS: usize = 10_000;

/// A text of a document. Equal numbers mean equal texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TextId(u64);

/// A document that the server has open.
#[derive(Debug)]
struct Shared {
    text: TextId,
    /// The texts of the last versions.
    versions: VecDeque<(i64, TextId)>,
    /// The number of the last switch that has changed it. No two switches have one number.
    n_switches: u64,
    /// When a switch last changed it.
    switched: Option<Instant>,
}

/// A document that a client has open.
#[derive(Debug)]
struct Open {
    text: TextId,
    /// The client's numbers of the last texts.
    versions: VecDeque<(TextId, i64)>,
    /// A text of the server that was compared with this text, and is another one.
    differs_from: Option<TextId>,
    /// [`Shared::n_switches`] when the client last asked for something that refers to an earlier answer.
    seen_switches: u64,
}

/// The open documents of one client.
#[derive(Debug, Default)]
struct View {
    documents: Documents,
    open: BTreeMap<String, Open>,
    /// The revision of all texts at which it was aligned.
    aligned_at: Option<u64>,
    /// Whether it has changed since it was aligned.
    is_stale: bool,
    /// The revision of its last change.
    changed_at: u64,
}

/// How the server wants to be told of changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sync {
    /// Not at all.
    Off,
    /// With the whole text.
    Whole,
    #[default]
    Edits,
}

/// The texts of all clients, and of the server.
#[derive(Debug, Default)]
pub(super) struct Texts {
    shared: BTreeMap<String, Shared>,
    /// The last version of each document that the server has had.
    last_versions: BTreeMap<String, i64>,
    views: BTreeMap<ClientId, View>,
    /// The texts on the disk, as far as clients have them.
    disk: BTreeMap<String, TextId>,
    encoding: Encoding,
    sync: Sync,
    last: u64,
    revision: u64,
    n_switches: u64,
}

/// What becomes of a message about a document.
#[derive(Debug)]
pub(super) enum Delivery {
    /// The server gets this.
    Server(Frame),
    /// The hub alone notes it.
    Noted,
    /// The text of the document has become unknown.
    Unreadable,
}

impl Texts {
    /// Reads how the server counts characters and wants to be told of changes.
    pub(super) fn note_server(&mut self, result: &[u8]) {
        self.encoding = Encoding::of_result(result);
        self.views.values_mut().for_each(|it| it.documents.set_encoding(self.encoding));
        let sync = path(result, &["capabilities", "textDocumentSync"]).map(|it| &result[it]);
        let change = sync.and_then(|it| path(it, &["change"]).map(|range| &it[range]).or(Some(it)));
        self.sync = match change {
            Some(b"1") => Sync::Whole,
            Some(b"0") => Sync::Off,
            Some(_) | None => Sync::Edits,
        };
    }

    pub(super) fn join(&mut self, client: ClientId) {
        let mut view = View::default();
        view.documents.set_encoding(self.encoding);
        self.views.insert(client, view);
    }

    /// A client has left. Returns the messages that close the documents that only this client had open.
    pub(super) fn leave(&mut self, client: ClientId) -> Vec<Frame> {
        let Some(view) = self.views.remove(&client) else { return Vec::new() };
        self.revision += 1;
        view.open.keys().filter_map(|it| self.close_unused(it)).collect()
    }

    fn new_text(&mut self) -> TextId {
        self.last += 1;
        TextId(self.last)
    }

    fn next_version(&mut self, uri: &str, wanted: i64) -> i64 {
        let version = self.last_versions.get(uri).map_or(wanted, |it| wanted.max(it + 1));
        if self.last_versions.len() > MOST_VERSIONS {
            let is_open = |it: &String| self.shared.contains_key(it);
            self.last_versions.retain(|it, _| is_open(it));
        }
        self.last_versions.insert(uri.to_owned(), version);
        version
    }

    /// `didOpen` of a client.
    pub(super) fn opened(&mut self, client: ClientId, frame: &Frame) -> Delivery {
        let Some((params, name)) = document_of(frame) else { return Delivery::Server(frame.clone()) };
        let is_aligned = self.is_aligned(client);
        let id = self.new_text();
        let Some(view) = self.views.get_mut(&client) else { return Delivery::Noted };
        view.documents.opened(&Bytes::copy_from_slice(params));
        let version = number(params, &["textDocument", "version"]).unwrap_or(0);
        let versions = VecDeque::from([(id, version)]);
        view.open.insert(name.clone(), Open { text: id, versions, differs_from: None, seen_switches: 0 });
        self.revision += 1;
        if self.shared.contains_key(&name) {
            self.unify(client, &name);
            self.disk.insert(name.clone(), self.text_of(client, &name).unwrap_or(id));
            self.note_changed(client, is_aligned && self.has_its_text(client, &name));
            return Delivery::Noted;
        }
        self.disk.insert(name.clone(), id);
        self.note_changed(client, is_aligned);
        match is_aligned {
            true => Delivery::Server(self.open_shared(client, &name, frame)),
            false => Delivery::Noted,
        }
    }

    /// `didOpen` of a document that the server gets as this client has it.
    fn open_shared(&mut self, client: ClientId, name: &str, frame: &Frame) -> Frame {
        let wanted = frame.params().and_then(|it| number(it, &["textDocument", "version"])).unwrap_or(0);
        let version = self.next_version(name, wanted);
        let text = self.text_of(client, name).unwrap_or(TextId(0));
        let shared =
            Shared { text, versions: VecDeque::from([(version, text)]), n_switches: 0, switched: None };
        self.shared.insert(name.to_owned(), shared);
        with_version(frame, wanted, version)
    }

    /// `didChange` of a client.
    pub(super) fn changed(&mut self, client: ClientId, frame: &Frame) -> Delivery {
        let Some((params, name)) = document_of(frame) else { return Delivery::Server(frame.clone()) };
        let is_aligned = self.is_aligned(client);
        let id = self.new_text();
        let Some(view) = self.views.get_mut(&client) else { return Delivery::Noted };
        view.documents.changed(params);
        if view.documents.has(&name) && !view.documents.is_whole(&name) {
            return Delivery::Unreadable;
        }
        let Some(open) = view.open.get_mut(&name) else {
            // It is the document of another client, or of nobody.
            return if self.shared.contains_key(&name) {
                Delivery::Noted
            } else {
                Delivery::Server(frame.clone())
            };
        };
        let last = open.versions.back().map_or(0, |it| it.1);
        let wanted = number(params, &["textDocument", "version"]).unwrap_or(last + 1);
        open.text = id;
        remember(&mut open.versions, (id, wanted));
        self.revision += 1;
        self.note_changed(client, is_aligned);
        if !is_aligned || !self.shared.contains_key(&name) {
            return Delivery::Noted;
        }
        let version = self.next_version(&name, wanted);
        if let Some(shared) = self.shared.get_mut(&name) {
            shared.text = id;
            remember(&mut shared.versions, (version, id));
        }
        Delivery::Server(with_version(frame, wanted, version))
    }

    /// `didSave` of a client. Gives what the server gets.
    pub(super) fn saved(&mut self, client: ClientId, frame: &Frame) -> Delivery {
        let Some(name) = frame.params().and_then(|it| uri(it, "textDocument")) else {
            return Delivery::Server(frame.clone());
        };
        if let Some(text) = self.text_of(client, &name) {
            self.disk.insert(name.clone(), text);
            self.revision += 1;
            // What was aligned stays so: the server's text is as it was, and now it is the one on the disk.
            self.note_aligned_still(client);
        }
        match self.shared.contains_key(&name) {
            true => Delivery::Server(frame.clone()),
            false => Delivery::Noted,
        }
    }

    fn note_aligned_still(&mut self, client: ClientId) {
        let revision = self.revision;
        if let Some(view) = self.views.get_mut(&client)
            && view.aligned_at == Some(revision - 1)
        {
            view.aligned_at = Some(revision);
        }
    }

    /// `didClose` of a client.
    pub(super) fn closed(&mut self, client: ClientId, frame: &Frame) -> Vec<Frame> {
        let Some((params, name)) = document_of(frame) else { return vec![frame.clone()] };
        let is_aligned = self.is_aligned(client);
        let Some(view) = self.views.get_mut(&client) else { return Vec::new() };
        view.documents.closed(params);
        if view.open.remove(&name).is_none() {
            return if self.shared.contains_key(&name) { Vec::new() } else { vec![frame.clone()] };
        }
        self.revision += 1;
        self.note_changed(client, is_aligned);
        let is_of_disk = self.shared.get(&name).map(|it| it.text) == self.disk.get(&name).copied();
        match is_aligned && !is_of_disk {
            // To this client it is what the file has, from here on. Others open it again in their turn.
            true => {
                let closed = self.shared.remove(&name).map(|_| did_close(&name));
                self.close_unused(&name);
                closed.into_iter().collect()
            }
            false => self.close_unused(&name).into_iter().collect(),
        }
    }

    /// Closes a document at the server if no client has it open.
    fn close_unused(&mut self, name: &str) -> Option<Frame> {
        if self.is_open_for_any(name) {
            return None;
        }
        self.disk.remove(name);
        self.shared.remove(name).map(|_| did_close(name))
    }

    /// Whether any client has a document open.
    pub(super) fn is_open_for_any(&self, name: &str) -> bool {
        self.views.values().any(|it| it.open.contains_key(name))
    }

    /// The names of the open documents that are wanted.
    pub(super) fn open_names(&self, is_wanted: impl Fn(&str) -> bool) -> BTreeSet<String> {
        let all = self.views.values().flat_map(|it| it.open.keys());
        all.filter(|it| is_wanted(it)).cloned().collect()
    }

    /// It is not known which text a file has.
    pub(super) fn doubt_disk(&mut self, name: &str) {
        if self.disk.remove(name).is_some() {
            self.revision += 1;
        }
    }

    /// The text of a file is known: `None` if it has none.
    pub(super) fn note_disk(&mut self, name: &str, text: Option<&str>) {
        let mut found = None;
        for view in self.views.values_mut() {
            let Some(id) = view.open.get(name).map(|it| it.text) else { continue };
            let raw = view.documents.text(name);
            let is_equal = |raw: &Vec<u8>| decode(raw).as_deref() == text;
            found = found.or(raw.filter(is_equal).map(|_| id));
        }
        let before = match found {
            Some(id) => self.disk.insert(name.to_owned(), id),
            None => self.disk.remove(name),
        };
        if before != found {
            self.revision += 1;
        }
    }

    fn note_changed(&mut self, client: ClientId, is_aligned: bool) {
        let revision = self.revision;
        if let Some(view) = self.views.get_mut(&client) {
            view.aligned_at = is_aligned.then_some(revision);
            view.is_stale |= !is_aligned;
            view.changed_at = revision;
        }
    }

    /// The text that a client has.
    pub(super) fn text_of(&self, client: ClientId, name: &str) -> Option<TextId> {
        Some(self.views.get(&client)?.open.get(name)?.text)
    }

    fn has_its_text(&self, client: ClientId, name: &str) -> bool {
        let text = self.text_of(client, name);
        self.shared.get(name).is_some_and(|it| Some(it.text) == text)
    }

    /// Gives a client's text the number of the server's text if both are equal.
    fn unify(&mut self, client: ClientId, name: &str) {
        let Some(theirs) = self.shared.get(name).map(|it| it.text) else { return };
        let open = self.views.get(&client).and_then(|it| it.open.get(name));
        if open.is_none_or(|it| it.text == theirs || it.differs_from == Some(theirs)) {
            return;
        }
        let other = self.text(theirs, name);
        let Some(view) = self.views.get_mut(&client) else { return };
        let own = view.documents.text(name);
        let Some(open) = view.open.get_mut(name) else { return };
        let is_equal = match (&own, &other) {
            (Some(own), Some(other)) => own == other || decode(own) == decode(other),
            (_, _) => false,
        };
        if !is_equal {
            open.differs_from = Some(theirs);
            return;
        }
        let before = std::mem::replace(&mut open.text, theirs);
        open.versions.iter_mut().filter(|it| it.0 == before).for_each(|it| it.0 = theirs);
        if self.disk.get(name) == Some(&before) {
            self.disk.insert(name.to_owned(), theirs);
        }
    }

    /// A text as raw JSON, if a client has it now.
    fn text(&mut self, id: TextId, name: &str) -> Option<Vec<u8>> {
        let has = |it: &&mut View| it.open.get(name).is_some_and(|it| it.text == id);
        self.views.values_mut().find(has)?.documents.text(name)
    }

    /// Whether the server has what a server of this client alone would have.
    pub(super) fn is_aligned(&mut self, client: ClientId) -> bool {
        let Some(view) = self.views.get(&client) else { return true };
        if view.aligned_at == Some(self.revision) {
            return true;
        }
        let names: Vec<String> = view.open.keys().cloned().collect();
        for name in names {
            self.unify(client, &name);
        }
        if !self.differences(client).is_empty() {
            return false;
        }
        let revision = self.revision;
        if let Some(view) = self.views.get_mut(&client) {
            view.aligned_at = Some(revision);
            view.is_stale = false;
        }
        true
    }

    fn differences(&self, client: ClientId) -> Vec<(String, Difference)> {
        let Some(view) = self.views.get(&client) else { return Vec::new() };
        let mut all = Vec::new();
        for (name, shared) in &self.shared {
            match view.open.get(name) {
                Some(open) if open.text != shared.text => all.push((name.clone(), Difference::Text)),
                None if self.disk.get(name) != Some(&shared.text) => {
                    all.push((name.clone(), Difference::Closed));
                }
                Some(_) | None => {}
            }
        }
        let opened = view.open.keys().filter(|it| !self.shared.contains_key(*it));
        all.extend(opened.map(|it| (it.clone(), Difference::Open)));
        all
    }

    /// The documents in which a client differs from the server, for people.
    pub(super) fn differing(&self, client: ClientId) -> Vec<String> {
        self.differences(client).into_iter().map(|it| it.0).collect()
    }

    /// Gives the server the view of a client: the messages that do so.
    pub(super) fn align(&mut self, client: ClientId, now: Instant) -> Vec<Frame> {
        let mut frames = Vec::new();
        for (name, difference) in self.differences(client) {
            match difference {
                Difference::Closed => {
                    self.shared.remove(&name);
                    frames.push(did_close(&name));
                }
                Difference::Open => {
                    let view = self.views.get_mut(&client);
                    let key = DocumentKey::Text(name.clone());
                    if let Some((method, params)) = view.and_then(|it| it.documents.restored(&key)) {
                        let frame = Frame::notification(method, Some(&params));
                        frames.push(self.open_shared(client, &name, &frame));
                        self.note_switch(&name, now);
                    }
                }
                Difference::Text => frames.extend(self.replace(client, &name, now)),
            }
        }
        self.revision += 1;
        let revision = self.revision;
        if let Some(view) = self.views.get_mut(&client) {
            view.aligned_at = Some(revision);
            view.is_stale = false;
        }
        frames
    }

    fn note_switch(&mut self, name: &str, now: Instant) {
        self.n_switches += 1;
        if let Some(shared) = self.shared.get_mut(name) {
            (shared.switched, shared.n_switches) = (Some(now), self.n_switches);
        }
    }

    /// `didChange` that gives the server this client's text.
    fn replace(&mut self, client: ClientId, name: &str, now: Instant) -> Option<Frame> {
        let theirs = self.shared.get(name)?.text;
        let old = match self.sync {
            Sync::Edits => self.text(theirs, name),
            Sync::Whole | Sync::Off => None,
        };
        let view = self.views.get_mut(&client)?;
        let new = view.documents.text(name)?;
        let text = view.open.get(name)?.text;
        let version = self.next_version(name, 0);
        let shared = self.shared.get_mut(name)?;
        shared.text = text;
        remember(&mut shared.versions, (version, text));
        self.note_switch(name, now);
        if self.sync == Sync::Off {
            return None;
        }
        let change = replacement(old.as_deref(), &new);
        let uri = serde_json::json!(name).to_string();
        let versioned = format!(r#","version":{version}}},"contentChanges":["#);
        let params =
            [br#"{"textDocument":{"uri":"#.as_slice(), uri.as_bytes(), versioned.as_bytes(), &change, b"]}"];
        Some(Frame::notification("textDocument/didChange", Some(&params.concat())))
    }

    /// The client whose view has changed last and was not aligned since.
    pub(super) fn last_stale(&self) -> Option<ClientId> {
        let stale = self.views.iter().filter(|(_, it)| it.is_stale);
        stale.max_by_key(|(_, it)| it.changed_at).map(|it| *it.0)
    }

    /// Whether a switch has changed a document since this moment.
    pub(super) fn was_switched_since(&self, name: &str, since: Option<Instant>) -> bool {
        let switched = self.shared.get(name).and_then(|it| it.switched);
        switched.is_some_and(|it| since.is_none_or(|since| it >= since))
    }

    /// The text of a version that the server names.
    pub(super) fn text_of_version(&self, name: &str, version: i64) -> Option<TextId> {
        let versions = &self.shared.get(name)?.versions;
        versions.iter().rev().find(|it| it.0 == version).map(|it| it.1)
    }

    /// The client's number of a text.
    pub(super) fn version_of_text(&self, client: ClientId, name: &str, text: TextId) -> Option<i64> {
        let open = self.views.get(&client)?.open.get(name)?;
        open.versions.iter().rev().find(|it| it.0 == text).map(|it| it.1)
    }

    /// The client's number for a version of the server.
    pub(super) fn version_for(&self, client: ClientId, name: &str, version: i64) -> Option<i64> {
        self.version_of_text(client, name, self.text_of_version(name, version)?)
    }

    /// The client's number of its current text.
    pub(super) fn last_version(&self, client: ClientId, name: &str) -> Option<i64> {
        self.views.get(&client)?.open.get(name)?.versions.back().map(|it| it.1)
    }

    /// The text that the server has.
    pub(super) fn shared_text(&self, name: &str) -> Option<TextId> {
        self.shared.get(name).map(|it| it.text)
    }

    /// Whether a client has a document open.
    pub(super) fn is_open(&self, client: ClientId, name: &str) -> bool {
        self.views.get(&client).is_some_and(|it| it.open.contains_key(name))
    }

    /// How many documents a client has open.
    pub(super) fn n_open(&self, client: ClientId) -> usize {
        self.views.get(&client).map_or(0, |it| it.open.len())
    }

    /// Whether a switch has changed a document since this client asked the last time; it asks now.
    pub(super) fn take_switched(&mut self, client: ClientId, name: &str) -> bool {
        let n = self.shared.get(name).map_or(0, |it| it.n_switches);
        let open = self.views.get_mut(&client).and_then(|it| it.open.get_mut(name));
        open.is_some_and(|it| std::mem::replace(&mut it.seen_switches, n) != n)
    }

    /// Checks that what is said to be aligned is.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn check(&self) -> Result<(), String> {
        for (client, view) in &self.views {
            if view.aligned_at == Some(self.revision) && !self.differences(*client).is_empty() {
                return Err(format!("{client:?} is not aligned: {:?}", self.differing(*client)));
            }
            if view.open.len() != view.documents.open().len() {
                return Err(format!("{client:?} has other documents open than it says"));
            }
        }
        match self.shared.keys().find(|it| !self.is_open_for_any(it)) {
            Some(unused) => Err(format!("{unused} is open at the server, and for nobody")),
            None => Ok(()),
        }
    }
}

/// How the server's document differs from that of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Difference {
    /// The client has another text.
    Text,
    /// The client has it open, and the server does not.
    Open,
    /// The client does not have it open, and the server has another text than the disk.
    Closed,
}

/// The parameters of a message about a document, and the document.
fn document_of(frame: &Frame) -> Option<(&[u8], String)> {
    let params = frame.params()?;
    Some((params, uri(params, "textDocument")?))
}

fn did_close(name: &str) -> Frame {
    let params = serde_json::json!({"textDocument": {"uri": name}}).to_string();
    Frame::notification("textDocument/didClose", Some(params.as_bytes()))
}

fn with_version(frame: &Frame, wanted: i64, version: i64) -> Frame {
    if wanted == version {
        return frame.clone();
    }
    let params = frame.params().unwrap_or_default();
    let path = ["textDocument", "version"];
    frame.with_params(&Patch::of(params).set_path(&path, version.to_string().as_bytes()).finish())
}

fn remember<T>(versions: &mut VecDeque<T>, version: T) {
    versions.push_back(version);
    if versions.len() > REMEMBERED {
        versions.pop_front();
    }
}

/// A whole number in parameters.
pub(super) fn number(params: &[u8], keys: &[&str]) -> Option<i64> {
    let raw = &params[path(params, keys)?];
    match raw.strip_prefix(b"-") {
        Some(digits) => Some(-i64::try_from(decimal(digits)?).ok()?),
        None => i64::try_from(decimal(raw)?).ok(),
    }
}
