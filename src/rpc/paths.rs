//! Paths in messages of a server that runs elsewhere: in a container, or on another host.
//!
//! lspool and the editor know local paths only. This maps them on the way to the server, and back on the way from it.
//!
//! - **What is not under a mapped folder stays byte for byte**, and so do texts of documents, labels, and `data`.
//! - A URI counts only as a whole string or key, of any message: methods need not be known.
//! - A plain path counts only where a server expects one, such as settings and the arguments of commands.

#[cfg(any(test, feature = "testing"))]
pub(crate) mod check;
mod copies;
mod prefix;
mod walk;
mod watchers;

use std::{borrow::Cow, collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

use self::{
    copies::Copies,
    prefix::{Folder, decoded, is_absolute, uri_parts},
    walk::{Class, Mapping, walk},
    watchers::without_foreign_watchers,
};
use super::{Frame, file_path, text};

/// A folder of this machine, and where a server elsewhere has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathPair {
    /// An absolute path here.
    pub local: String,
    /// An absolute path there.
    pub remote: String,
}

/// The beginning of the remote path of a local file whose own path means another file there.
const OURS: &str = "/.lspool/local";

/// The folders that a server has elsewhere.
#[derive(Debug)]
pub(crate) struct PathMap {
    to_remote: Vec<(Folder, Folder)>,
    to_local: Vec<(Folder, Folder)>,
    /// Open documents as the editor spells them, by their decoded remote path.
    open: BTreeMap<String, String>,
    /// Copies of files that only the other side has, if they are wanted.
    copies: Option<Copies>,
    /// Whether settings are left as they are.
    skips_settings: bool,
    /// Whether paths of one side have drive letters.
    has_drives: bool,
}

/// The way of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    ToRemote,
    ToLocal,
}

impl PathMap {
    /// `None`: there is nothing to map. Pairs that [`conflict`] are used in their order. `copies` is the folder for
    /// copies of files that only the other side has.
    pub(crate) fn new(pairs: &[PathPair], copies: Option<&str>) -> Option<PathMap> {
        let differ = copies.is_some() || pairs.iter().any(|it| it.local != it.remote);
        differ.then(|| PathMap::of(pairs, copies))
    }

    /// The same, also if all paths are equal on both sides.
    pub(crate) fn of(pairs: &[PathPair], copies: Option<&str>) -> PathMap {
        let copies = copies.map(Copies::new);
        let sides = pairs.iter().map(|it| (Folder::of(&it.local), Folder::of(&it.remote)));
        let has_drives = sides.clone().any(|(local, remote)| local.is_of_windows() || remote.is_of_windows());
        let by_longest = |mut all: Vec<(Folder, Folder)>| {
            all.sort_by_key(|(from, _)| std::cmp::Reverse(from.path().len()));
            all
        };
        let back = copies.iter().map(|it| (it.folder().clone(), Folder::of("/")));
        let to_remote = by_longest(sides.clone().chain(back).collect());
        let ours = (Folder::of(OURS), Folder::of("/"));
        let to_local = by_longest(sides.map(|(local, remote)| (remote, local)).chain([ours]).collect());
        PathMap { to_remote, to_local, open: BTreeMap::new(), copies, skips_settings: false, has_drives }
    }

    /// Leaves settings as they are.
    #[must_use]
    pub(crate) fn without_settings(self) -> PathMap {
        PathMap { skips_settings: true, ..self }
    }

    /// The file of this machine that the other side knows by this URI.
    pub(crate) fn local_file(&self, uri: &str) -> Option<PathBuf> {
        file_path(&self.uri(uri, Way::ToLocal)?)
    }

    /// A message as the server gets it. `None`: as it is.
    pub(crate) fn outgoing(&mut self, frame: &Frame) -> Option<Frame> {
        let mapped = match (frame.params(), frame.result()) {
            (Some(params), _) => {
                let direction = Direction {
                    map: self,
                    way: Way::ToRemote,
                    has_prose: frame.method().is_some_and(returns_texts),
                };
                walk(params, Class::Plain, &direction).map(|it| frame.with_params(&it))
            }
            // Answers of an editor are settings, folders, or of no interest.
            (None, Some(result)) if self.skips_settings => {
                self.mapped(result, Class::Uris, Way::ToRemote).map(|it| frame.with_result(&it))
            }
            (None, Some(result)) => {
                self.mapped(result, Class::Paths, Way::ToRemote).map(|it| frame.with_result(&it))
            }
            (None, None) => None,
        };
        self.note_document(frame);
        mapped
    }

    /// A message of the server as the editor gets it. `None`: as it is.
    pub(crate) fn incoming(&self, frame: &Frame) -> Option<Frame> {
        let Some(params) = frame.params() else {
            return self.mapped(frame.result()?, Class::Plain, Way::ToLocal).map(|it| frame.with_result(&it));
        };
        let mapped = self.mapped(params, Class::Plain, Way::ToLocal);
        if frame.method() != Some("client/registerCapability") {
            return mapped.map(|it| frame.with_params(&it));
        }
        let params = mapped.map_or(Cow::Borrowed(params), Cow::Owned);
        let locals: Vec<&Folder> = self.to_remote.iter().map(|(local, _)| local).collect();
        let fewer = without_foreign_watchers(&params, &locals);
        fewer
            .or(match params {
                Cow::Owned(params) => Some(params),
                Cow::Borrowed(_) => None,
            })
            .map(|it| frame.with_params(&it))
    }

    fn mapped(&self, json: &[u8], root: Class, way: Way) -> Option<Vec<u8>> {
        walk(json, root, &Direction { map: self, way, has_prose: way == Way::ToLocal })
    }

    /// Notes how the editor spells the documents that it has open: it gets exactly that back.
    fn note_document(&mut self, frame: &Frame) {
        let Some(method @ ("textDocument/didOpen" | "textDocument/didClose")) = frame.method() else {
            return;
        };
        let Some(uri) = frame.params().and_then(|it| text(it, &["textDocument", "uri"])) else { return };
        let remote = self.uri(&uri, Way::ToRemote);
        let Some(path) = remote.as_deref().and_then(|it| decoded(uri_parts(it)?.1)) else { return };
        if method == "textDocument/didOpen" {
            self.open.insert(path, uri);
        } else if self.open.get(&path) == Some(&uri) {
            self.open.remove(&path);
        }
    }

    fn pairs(&self, way: Way) -> &[(Folder, Folder)] {
        match way {
            Way::ToRemote => &self.to_remote,
            Way::ToLocal => &self.to_local,
        }
    }

    /// A URI on the other side.
    fn uri(&self, uri: &str, way: Way) -> Option<String> {
        match uri.split_once(':') {
            Some((archive @ ("jar" | "zipfile"), inner)) => {
                Some(format!("{archive}:{}", self.uri_of_file(inner, way)?))
            }
            Some(_) | None => self.uri_of_file(uri, way),
        }
    }

    fn uri_of_file(&self, uri: &str, way: Way) -> Option<String> {
        let (before, path) = uri_parts(uri)?;
        if way == Way::ToLocal
            && !self.open.is_empty()
            && let Some(spelled) = decoded(path).and_then(|it| self.open.get(&it))
            && uri_parts(spelled).is_some_and(|(scheme, _)| scheme == before)
        {
            return Some(spelled.clone());
        }
        if has_dots(path) {
            return None;
        }
        let mut pairs = self.pairs(way).iter();
        let mapped = pairs.find_map(|(from, to)| Some(format!("{}{}", to.uri(), from.rest_of_uri(path)?)));
        let hides = |it: &Folder| it.rest_of_uri(path).is_some();
        let copy = || self.copies.as_ref().filter(|_| way == Way::ToLocal)?.path(path);
        let path =
            mapped.or_else(copy).or_else(|| self.is_hidden(way, hides).then(|| format!("{OURS}{path}")))?;
        Some(format!("{before}{}", if path.is_empty() { "/" } else { &path }))
    }

    /// Whether a path of this machine that the server does not have is one of other files there.
    fn is_hidden(&self, way: Way, hides: impl Fn(&Folder) -> bool) -> bool {
        way == Way::ToRemote && self.to_local.iter().any(|(remote, _)| hides(remote))
    }

    /// A plain path on the other side. It may end in a pattern.
    fn path(&self, path: &str, way: Way) -> Option<String> {
        if has_dots(path) {
            return None;
        }
        let mut pairs = self.pairs(way).iter();
        let mapped = pairs.find_map(|(from, to)| Some(to.joined(&from.rest_of_path(path)?)));
        let hides = |it: &Folder| it.rest_of_path(path).is_some();
        let path = mapped.or_else(|| self.is_hidden(way, hides).then(|| format!("{OURS}{path}")))?;
        Some(if path.is_empty() { "/".to_owned() } else { path })
    }

    /// A text with the links in it on the other side.
    fn prose(&self, text: &str, way: Way) -> Option<String> {
        let (mut out, mut rest) = (String::new(), text);
        while let Some(at) = rest.find("file:///") {
            let (before, link) = rest.split_at(at);
            let end = link.find(|it: char| it.is_whitespace() || ")>\"'`".contains(it)).unwrap_or(link.len());
            let (link, after) = link.split_at(end);
            out.push_str(before);
            out.push_str(self.uri(link, way).as_deref().unwrap_or(link));
            rest = after;
        }
        out.push_str(rest);
        (out != text).then_some(out)
    }
}

/// Whether a path leads upwards: nobody knows where it ends on the other side.
fn has_dots(path: &str) -> bool {
    path.contains(['%', '.']) && path.split('/').any(|it| it == ".." || it.eq_ignore_ascii_case("%2e%2e"))
}

/// Whether a request returns texts that the server has written for people: it finds its own words again.
fn returns_texts(method: &str) -> bool {
    method == "textDocument/codeAction" || method.ends_with("/resolve")
}

/// The mapping in one direction.
struct Direction<'a> {
    map: &'a PathMap,
    way: Way,
    /// Whether links in texts are mapped.
    has_prose: bool,
}

impl Mapping for Direction<'_> {
    fn string(&self, text: &str, class: Class) -> Option<String> {
        match class {
            Class::Never | Class::Data => None,
            Class::Plain | Class::Uris => self.map.uri(text, self.way),
            Class::Paths if is_absolute(text) => self.map.path(text, self.way),
            Class::Paths => self.map.uri(text, self.way),
            Class::Prose => self.map.uri(text, self.way).or_else(|| self.map.prose(text, self.way)),
        }
    }

    fn has_prose(&self) -> bool {
        self.has_prose
    }

    fn skips_settings(&self) -> bool {
        self.map.skips_settings
    }

    fn has_drives(&self) -> bool {
        self.map.has_drives
    }
}

/// Why two of these pairs cannot both hold. `None`: all can.
pub(crate) fn conflict(pairs: &[PathPair]) -> Option<String> {
    let all: Vec<(Folder, Folder)> =
        pairs.iter().map(|it| (Folder::of(&it.local), Folder::of(&it.remote))).collect();
    for (n, (local, remote)) in all.iter().enumerate() {
        for (other_local, other_remote) in &all[..n] {
            let is_same = local.path() == other_local.path() || remote.path() == other_remote.path();
            let crosses = |one: (&Folder, &Folder), other: (&Folder, &Folder)| {
                one.0.rest_of_path(other.0.path()).is_some() && other.1.rest_of_path(one.1.path()).is_some()
            };
            if is_same
                || crosses((local, remote), (other_local, other_remote))
                || crosses((other_local, other_remote), (local, remote))
            {
                return Some(format!(
                    "{} = {} and {} = {} contradict each other",
                    other_local.shown(),
                    other_remote.shown(),
                    local.shown(),
                    remote.shown()
                ));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests;
