//! Files that only the other side has, and their read-only copies on this side.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use super::{
    PathMap, Way, has_dots,
    prefix::{Folder, decoded, uri_parts},
    walk::{Class, Mapping, walk},
};
use crate::rpc::Frame;

/// So many files are copied for one message. Longer lists are for reading, not for going there.
const MOST: usize = 50;

/// So long nobody waits again for a file that could not be copied.
const FORGOTTEN: Duration = Duration::from_secs(10);

/// Methods of the server, and requests to it, whose places somebody is about to open.
const LEADING: [&str; 15] = [
    "callHierarchy/incomingCalls",
    "callHierarchy/outgoingCalls",
    "documentLink/resolve",
    "textDocument/declaration",
    "textDocument/definition",
    "textDocument/documentLink",
    "textDocument/implementation",
    "textDocument/prepareCallHierarchy",
    "textDocument/prepareTypeHierarchy",
    "textDocument/references",
    "textDocument/typeDefinition",
    "typeHierarchy/subtypes",
    "typeHierarchy/supertypes",
    "window/showDocument",
    "workspaceSymbol/resolve",
];

/// The folder with copies, and which are there.
#[derive(Debug)]
pub(super) struct Copies {
    folder: Folder,
    /// Decoded remote paths.
    made: BTreeSet<String>,
    /// Those that could not be copied, and when.
    failed: BTreeMap<String, Instant>,
}

impl Copies {
    pub(super) fn new(folder: &str) -> Copies {
        Copies { folder: Folder::of(folder), made: BTreeSet::new(), failed: BTreeMap::new() }
    }

    pub(super) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The copy of a file, as the path of a URI.
    pub(super) fn path(&self, path: &str) -> Option<String> {
        let (file, _) = path.split_at(end_of_file(path));
        self.made.contains(&decoded(file)?).then(|| format!("{}{path}", self.folder.uri()))
    }
}

/// Where a fragment or a query begins.
fn end_of_file(path: &str) -> usize {
    path.find(['?', '#']).unwrap_or(path.len())
}

impl PathMap {
    /// Whether places in messages of this method, or in answers to it, are to be opened.
    pub(crate) fn leads(method: &str) -> bool {
        LEADING.contains(&method)
    }

    /// The files in a message of the server, as it names them, that have no copy and are not on this side.
    pub(crate) fn without_copy(&self, frame: &Frame, now: Instant) -> Vec<String> {
        let (Some(_), Some(json)) = (&self.copies, frame.params().or_else(|| frame.result())) else {
            return Vec::new();
        };
        let search = Search { map: self, now, found: RefCell::default() };
        walk(json, Class::Plain, &search);
        let found = search.found.into_inner();
        if found.len() <= MOST { found.into_iter().collect() } else { Vec::new() }
    }

    /// Notes which of these files have a copy now. The others are left alone for a while.
    pub(crate) fn note_copies(
        &mut self,
        wanted: impl IntoIterator<Item = String>,
        made: Vec<String>,
        now: Instant,
    ) {
        let Some(copies) = &mut self.copies else { return };
        copies.made.extend(made);
        copies.failed.retain(|_, at| now.duration_since(*at) < FORGOTTEN);
        let failed = wanted.into_iter().filter(|it| !copies.made.contains(it));
        copies.failed.extend(failed.map(|it| (it, now)));
    }

    fn file_without_copy(&self, uri: &str, now: Instant) -> Option<String> {
        let (scheme, path) = uri_parts(uri)?;
        let file = decoded(path.split_at(end_of_file(path)).0)?;
        let is_plain = scheme.get(..4).is_some_and(|it| it.eq_ignore_ascii_case("file"))
            && !has_dots(&file)
            && !file.contains('\0')
            && !file.ends_with('/');
        let is_here =
            || self.pairs(Way::ToLocal).iter().any(|(remote, _)| remote.rest_of_uri(path).is_some());
        let has_failed = |at: &Instant| now.duration_since(*at) < FORGOTTEN;
        let is_settled =
            |it: &Copies| it.made.contains(&file) || it.failed.get(&file).is_some_and(has_failed);
        let is_known = || self.open.contains_key(&file) || self.copies.as_ref().is_some_and(is_settled);
        (is_plain && !is_here() && !is_known()).then_some(file)
    }
}

/// Collects files instead of replacing strings.
struct Search<'a> {
    map: &'a PathMap,
    now: Instant,
    found: RefCell<BTreeSet<String>>,
}

impl Mapping for Search<'_> {
    fn string(&self, text: &str, class: Class) -> Option<String> {
        match class {
            Class::Plain => self.found.borrow_mut().extend(self.map.file_without_copy(text, self.now)),
            Class::Never | Class::Data | Class::Uris | Class::Paths | Class::Prose => {}
        }
        None
    }

    fn has_prose(&self) -> bool {
        true
    }
}
