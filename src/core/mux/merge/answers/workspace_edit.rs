//! Edits of several files by several members, in the shape that the editor takes.
//!
//! Edits of one file by several members stand together, for each of them speaks of the text as it was before. A member's
//! own order stays.

use std::{borrow::Cow, collections::HashMap};

use foldhash::fast::RandomState;

use super::{
    Merged, Question, Reading,
    edits::{Edit, Taken, read_edits},
    shared::{Joined, List, are_same, canonical, inside, is_object, some, uri_of},
};
use crate::rpc::{Patch, member, members, text, values};

/// What one member wants done.
struct Edits<'a> {
    raw: &'a [u8],
    changes: Vec<Change<'a>>,
    has_document_changes: bool,
    annotations: Option<&'a [u8]>,
}

enum Change<'a> {
    Text(FileEdits<'a>),
    /// A file is created, renamed or deleted.
    File(Cow<'a, [u8]>),
}

struct FileEdits<'a> {
    /// As it is compared.
    file: Vec<u8>,
    /// A string of JSON.
    uri: Cow<'a, [u8]>,
    document: Option<&'a [u8]>,
    /// The `TextDocumentEdit`.
    raw: Option<&'a [u8]>,
    edits: Vec<Edit<'a>>,
}

impl<'a> FileEdits<'a> {
    /// Of a `TextDocumentEdit`, and whether something in it was left out.
    fn of(raw: &'a [u8]) -> Option<(FileEdits<'a>, bool)> {
        let [document, edits] = values(raw, ["textDocument", "edits"]);
        let uri = values(document?, ["uri"])[0]?;
        let (edits, has_others) = read_edits(edits?)?;
        let it = FileEdits { file: uri_of(uri)?, uri: Cow::Borrowed(uri), document, raw: Some(raw), edits };
        Some((it, has_others))
    }

    fn has_version(&self) -> bool {
        self.document.is_some_and(|it| some(values(it, ["version"])[0]).is_some())
    }

    fn write_edits(&self) -> Vec<u8> {
        let mut out = Joined::new(b"[", self.edits.iter().map(|it| it.raw.len() + 1).sum());
        self.edits.iter().for_each(|it| out.push(&it.raw));
        out.finish(b"]")
    }

    fn write(&self) -> Vec<u8> {
        let edits = self.write_edits();
        let mut out = Joined::new(b"{", edits.len() + 100);
        match self.document {
            Some(document) => out.push_member("textDocument", document),
            None => {
                let document = [br#"{"uri":"#, &self.uri[..], br#","version":null}"#].concat();
                out.push_member("textDocument", &document);
            }
        }
        out.push_member("edits", &edits);
        let raw = self.raw.unwrap_or(b"{}");
        for (key, at) in members(raw).filter(|(key, _)| !["textDocument", "edits"].contains(&&**key)) {
            out.push_member(&key, &raw[at]);
        }
        out.finish(b"}")
    }
}

/// What a `WorkspaceEdit` says in one of its two ways, and whether something was left out. `None`: it is none.
fn read(raw: &[u8], prefers_document_changes: bool) -> Option<(Edits<'_>, bool)> {
    let [changes, document_changes, annotations] =
        values(raw, ["changes", "documentChanges", "changeAnnotations"]);
    let (changes, document_changes) = (some(changes), some(document_changes));
    let is_list = document_changes.is_some() && (prefers_document_changes || changes.is_none());
    let annotations = some(annotations).filter(|it| is_object(it));
    let mut edits = Edits { raw, changes: Vec::new(), has_document_changes: is_list, annotations };
    let mut left_out = false;
    if let (true, Some(list)) = (is_list, document_changes) {
        for change in List::of(list)?.kept() {
            if member(change, "kind").is_some() {
                edits.changes.push(Change::File(Cow::Borrowed(change)));
            } else if let Some((change, has_others)) = FileEdits::of(change) {
                left_out |= has_others;
                edits.changes.push(Change::Text(change));
            } else {
                left_out = true;
            }
        }
    } else if let Some(map) = changes {
        inside(map, *b"{}")?;
        for (uri, at) in members(map) {
            let uri = serde_json::to_vec(&uri).expect("a string is always valid JSON");
            match (uri_of(&uri), read_edits(&map[at])) {
                (Some(file), Some((texts, has_others))) => {
                    left_out |= has_others;
                    let uri = Cow::Owned(uri);
                    let change = FileEdits { file, uri, document: None, raw: None, edits: texts };
                    edits.changes.push(Change::Text(change));
                }
                (_, _) => left_out = true,
            }
        }
    } else if !is_object(raw) {
        return None;
    }
    Some((edits, left_out))
}

pub(super) fn merge(question: &Question<'_>) -> Merged {
    let takes_document_changes = question.client.takes_document_changes;
    let heard = question.hear(|part| match read(part.result, takes_document_changes) {
        None => Reading::Malformed,
        Some((edits, true)) if edits.changes.is_empty() => Reading::Malformed,
        Some((edits, false)) if edits.changes.is_empty() => Reading::Nothing,
        Some((edits, true)) => Reading::Partly(edits),
        Some((edits, false)) => Reading::Whole(edits),
    });
    if let Some(settled) = question.settled(&heard) {
        return settled;
    }
    let as_list = takes_document_changes && heard.parts.iter().any(|(_, it)| it.has_document_changes);
    let mut merged = Merged::of(Vec::new(), heard.malformed);
    let mut all = All { is_list: as_list, ..All::default() };
    let raws: Vec<&[u8]> = heard.parts.iter().map(|(_, it)| it.raw).collect();
    for (n, edits) in heard.parts {
        let done = all.add(n, edits);
        merged.overlapping.extend(done.overlaps.then_some(n));
        if done.is_incomplete && !merged.malformed.contains(&n) {
            merged.malformed.push(n);
        }
    }
    merged.malformed.sort_unstable();
    merged.result = all.write(&raws);
    merged
}

/// What is done in the end.
#[derive(Default)]
struct All<'a> {
    is_list: bool,
    changes: Vec<Change<'a>>,
    files: HashMap<Vec<u8>, OfFile<'a>, RandomState>,
    /// What is done to files themselves, and the place of the part that said so first.
    operations: HashMap<Vec<u8>, usize, RandomState>,
    annotations: Vec<(String, &'a [u8])>,
}

/// What is done to the text of one file.
#[derive(Default)]
struct OfFile<'a> {
    taken: Taken<'a>,
    /// The first of its changes: the place of the part that it comes from, and its own.
    first: Option<(usize, usize)>,
}

struct Added {
    overlaps: bool,
    /// The shape that the editor takes has no words for some of it.
    is_incomplete: bool,
}

impl<'a> All<'a> {
    fn add(&mut self, n: usize, edits: Edits<'a>) -> Added {
        let mut added = Added { overlaps: false, is_incomplete: false };
        let renamed = self.annotate(n, edits.annotations);
        for change in edits.changes {
            match change {
                Change::File(_) if !self.is_list => added.is_incomplete = true,
                Change::File(raw) => {
                    let raw = with_annotation(raw, &renamed);
                    if *self.operations.entry(canonical(&raw)).or_insert(n) == n {
                        self.changes.push(Change::File(raw));
                    }
                }
                Change::Text(change) => added.overlaps |= self.add_text(n, change, &renamed),
            }
        }
        self.files.values_mut().for_each(|it| it.taken.settle());
        added
    }

    /// Whether some of it overlaps what a better rank does.
    fn add_text(&mut self, n: usize, mut change: FileEdits<'a>, renamed: &[(String, String)]) -> bool {
        let of_file = self.files.entry(change.file.clone()).or_default();
        let had_none = change.edits.is_empty();
        let (admitted, overlaps) = of_file.taken.admit(change.edits);
        change.edits = admitted;
        for edit in &mut change.edits {
            edit.raw = with_annotation(std::mem::take(&mut edit.raw), renamed);
        }
        if change.edits.is_empty() && !had_none {
            return overlaps;
        }
        // In a list, a member's second edit of a file is of the text after its first.
        let same = of_file.first.filter(|(by, _)| !self.is_list || *by != n).map(|(_, at)| at);
        match same.and_then(|at| self.changes.get_mut(at)) {
            Some(Change::Text(same)) => {
                if change.has_version() && !same.has_version() {
                    same.document = change.document;
                }
                same.edits.extend(change.edits);
            }
            Some(Change::File(_)) | None => {
                of_file.first.get_or_insert((n, self.changes.len()));
                self.changes.push(Change::Text(change));
            }
        }
        overlaps
    }

    /// Takes over the annotations of a member. Of those that are called as another's, the new names.
    fn annotate(&mut self, n: usize, annotations: Option<&'a [u8]>) -> Vec<(String, String)> {
        let mut renamed = Vec::new();
        let annotations = annotations.unwrap_or(b"{}");
        for (id, at) in members(annotations) {
            let (mut name, value) = (id.clone().into_owned(), &annotations[at]);
            let mut other = self.annotations.iter().find(|it| it.0 == name);
            if other.is_some_and(|it| are_same(it.1, value)) {
                continue;
            }
            while other.is_some() {
                name = format!("{name}#{n}");
                other = self.annotations.iter().find(|it| it.0 == name);
            }
            if name != id {
                renamed.push((id.into_owned(), name.clone()));
            }
            self.annotations.push((name, value));
        }
        renamed
    }

    fn write(&self, raws: &[&[u8]]) -> Vec<u8> {
        let mut out = Joined::new(b"{", raws.iter().map(|it| it.len()).sum());
        let mut inner = Joined::new(if self.is_list { b"[" } else { b"{" }, 0);
        for change in &self.changes {
            match change {
                Change::File(raw) => inner.push(raw),
                Change::Text(it) if self.is_list => inner.push(&it.write()),
                Change::Text(it) => inner.push(&[&it.uri, &b":"[..], &it.write_edits()].concat()),
            }
        }
        let key = if self.is_list { "documentChanges" } else { "changes" };
        out.push_member(key, &inner.finish(if self.is_list { b"]" } else { b"}" }));
        if !self.annotations.is_empty() {
            let mut inner = Joined::new(b"{", 0);
            self.annotations.iter().for_each(|(id, value)| inner.push_member(id, value));
            out.push_member("changeAnnotations", &inner.finish(b"}"));
        }
        let mut seen = ["changes", "documentChanges", "changeAnnotations"].map(Cow::Borrowed).to_vec();
        for raw in raws {
            for (key, at) in members(raw) {
                if !seen.contains(&key) {
                    out.push_member(&key, &raw[at]);
                    seen.push(key);
                }
            }
        }
        out.finish(b"}")
    }
}

/// With the new name of its annotation, if that has one.
fn with_annotation<'a>(raw: Cow<'a, [u8]>, renamed: &[(String, String)]) -> Cow<'a, [u8]> {
    if renamed.is_empty() {
        return raw;
    }
    let id = text(&raw, &["annotationId"]);
    let Some((_, name)) = renamed.iter().find(|it| Some(&it.0) == id.as_ref()) else { return raw };
    let name = serde_json::to_vec(name).expect("a string is always valid JSON");
    Cow::Owned(Patch::of(&raw).set("annotationId", &name).finish())
}
