//! The diagnostics that the editor shows of a group, by document and member: an editor has one list for each document,
//! and a publication takes the place of the last one.
//!
//! **What one member says never takes away what another has said.** A publication has the other members' lists behind or
//! before it, by rank. It is passed on at once, unless another member has just spoken, or `diagnostics_wait` holds it.
//! What lspool has pulled of a member and what that member has published are two lists. A list that is published again
//! because another member has spoken has moved along with the edits since, as the marks in the editor have.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use bytes::Bytes;

use super::moved::{self, Edit, moved};
use crate::{
    core::event::{BackendId, ProcessId},
    rpc::{Frame, Patch, elements, file_path, member, text},
};

/// Edits of a document that its lists have not moved along with yet.
const EDITS: usize = 256;

/// Publications of several members within this time are one.
const TOGETHER: Duration = Duration::from_millis(10);

/// How a list has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Pushed,
    /// lspool has asked for it.
    Pulled,
}

/// One member's list for one document. It is not empty.
#[derive(Debug)]
struct List {
    process: ProcessId,
    /// The `uri` as the member writes it, raw.
    uri: Bytes,
    /// The elements, without the brackets around them.
    elements: Bytes,
    /// How many of the document's edits they have moved along with, or are younger than.
    n_edits: usize,
}

/// What is shown of one document.
#[derive(Debug, Default)]
struct Document {
    /// By rank, then by way.
    lists: BTreeMap<(usize, Way), List>,
    /// Those that a list has not moved along with.
    edits: Vec<Edit>,
    /// The last versions that members have spoken of while it is open, by rank: versions begin anew when it is opened.
    versions: BTreeMap<usize, (ProcessId, i64)>,
    /// When the editor last got a list, and because of which member.
    told: Option<(Instant, usize)>,
    /// Only with `diagnostics_wait`.
    round: Round,
}

/// A publication that waits for those of other members.
#[derive(Debug)]
struct Held {
    until: Instant,
    /// That of the last member that has spoken.
    frame: Frame,
    by: usize,
}

/// The publications for one version.
#[derive(Debug, Default)]
struct Round {
    version: Option<i64>,
    /// The members that have published for this version, and for any.
    spoken: BTreeSet<usize>,
    speakers: BTreeSet<usize>,
    /// The members that may publish for the first version, as far as is known.
    expected: BTreeSet<usize>,
    /// The others have had their time.
    is_over: bool,
}

/// By document.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    documents: BTreeMap<String, Document>,
    held: BTreeMap<String, Held>,
    /// How long the first publication for a version waits for those of the others.
    wait: Duration,
}

/// What becomes of a publication.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Publication {
    AsItIs,
    /// With these parameters.
    With(Vec<u8>),
    /// It waits for those of other members.
    Held,
    /// It is older than what the member has said since.
    Outdated,
}

/// One document, however its URI is written.
pub(super) fn key(uri: &str) -> String {
    file_path(uri).map_or_else(|| uri.to_owned(), |path| path.to_string_lossy().into_owned())
}

/// The elements of a list, without its brackets.
pub(super) fn inner(list: &[u8]) -> &[u8] {
    let first = elements(list).next();
    let last = elements(list).last();
    match first.zip(last) {
        Some((first, last)) => &list[first.start..last.end],
        None => b"",
    }
}

impl Document {
    /// Lists move along with the edits since they came.
    fn catch_up(&mut self) {
        let edits = std::mem::take(&mut self.edits);
        for list in self.lists.values_mut() {
            let n_known = std::mem::take(&mut list.n_edits);
            if n_known < edits.len() {
                list.elements = moved(&list.elements, &edits[n_known..]).into();
            }
        }
        self.lists.retain(|_, it| !it.elements.is_empty());
    }

    /// Edits that all lists are younger than are not needed.
    fn forget_edits(&mut self) {
        if self.lists.values().all(|it| it.n_edits == self.edits.len()) {
            self.edits.clear();
            self.lists.values_mut().for_each(|it| it.n_edits = 0);
        }
    }
}

impl Shown {
    /// The editor has changed a document. `params`: of its `didChange`.
    pub(super) fn edited(&mut self, uri: &str, params: &[u8]) {
        if self.documents.is_empty() {
            return;
        }
        let Some(document) = self.documents.get_mut(&key(uri)) else { return };
        if document.lists.is_empty() {
            return;
        }
        match moved::edits(params) {
            Some(edits) => document.edits.extend(edits),
            // Nobody knows where what was there is now.
            None => {
                document.edits.clear();
                document.lists.values_mut().for_each(|it| it.n_edits = 0);
            }
        }
        if document.edits.len() > EDITS {
            document.catch_up();
        }
    }

    /// The lists of a document are about its text as it is.
    pub(super) fn catch_up(&mut self, uri: &str) {
        let key = key(uri);
        if let Some(document) = self.documents.get_mut(&key) {
            document.catch_up();
            self.tidy(&key);
        }
    }

    pub(crate) fn waiting(wait: Duration) -> Shown {
        Shown { wait, ..Shown::default() }
    }

    pub(super) fn wait_for(&mut self, wait: Duration) {
        self.wait = wait;
    }

    /// Whether publications wait for others, and nobody has published for this document.
    pub(super) fn is_first(&self, uri: &str) -> bool {
        let has_round = |it: &Document| !it.round.speakers.is_empty();
        !self.wait.is_zero() && !self.documents.get(&key(uri)).is_some_and(has_round)
    }

    /// The first publication for a document waits for these members.
    pub(super) fn expect(&mut self, uri: &str, members: BTreeSet<usize>) {
        self.documents.entry(key(uri)).or_default().round.expected = members;
    }

    /// A member publishes. `version`: of the document, as the editor has it.
    pub(crate) fn published(
        &mut self,
        now: Instant,
        (process, rank): (ProcessId, usize),
        frame: &Frame,
        version: impl FnOnce(&str) -> Option<i64>,
    ) -> Publication {
        let params = frame.params().unwrap_or(b"{}");
        let (Some(uri), Some(list)) = (member(params, "uri"), member(params, "diagnostics")) else {
            return Publication::AsItIs;
        };
        let Some(name) = text(params, &["uri"]) else { return Publication::AsItIs };
        let said_version =
            member(params, "version").and_then(|it| std::str::from_utf8(&params[it]).ok()?.parse().ok());
        let key = key(&name);
        let document = self.documents.entry(key.clone()).or_default();
        let open_version = version(&name);
        if let (Some(said), Some(_)) = (said_version, open_version) {
            let last = document.versions.get(&rank).filter(|(by, _)| *by == process);
            if last.is_some_and(|(_, last)| said < *last) {
                return Publication::Outdated;
            }
            document.versions.insert(rank, (process, said));
        }
        let said = inner(&params[list]);
        // Who publishes is not pulled.
        document.lists.remove(&(rank, Way::Pulled));
        match said {
            b"" => drop(document.lists.remove(&(rank, Way::Pushed))),
            _ => {
                // Copied: slices would keep the message.
                let (uri, elements) = (Bytes::copy_from_slice(&params[uri]), Bytes::copy_from_slice(said));
                let n_edits = document.edits.len();
                let list = List { process, uri, elements, n_edits };
                document.lists.insert((rank, Way::Pushed), list);
            }
        }
        document.forget_edits();
        let is_complete = if self.wait.is_zero() {
            true
        } else {
            document.round.is_complete(rank, said_version.or(open_version))
        };
        let just_told = document.told.filter(|(at, by)| *by != rank && now < *at + TOGETHER);
        let until = match (is_complete, just_told) {
            (true, None) => None,
            (true, Some((at, _))) => Some(at + TOGETHER),
            (false, _) => Some(now + self.wait),
        };
        if let Some(until) = until {
            let until = self.held.get(&key).map_or(until, |it| it.until.min(until));
            self.held.insert(key, Held { until, frame: frame.clone(), by: rank });
            return Publication::Held;
        }
        document.told = Some((now, rank));
        self.held.remove(&key);
        let is_alone = document.lists.keys().all(|(it, _)| *it == rank);
        if !is_alone {
            document.catch_up();
        }
        let told = if is_alone {
            Publication::AsItIs
        } else {
            Publication::With(Patch::of(params).set("diagnostics", &joined(&document.lists)).finish())
        };
        self.tidy(&key);
        told
    }

    /// lspool has pulled a list of a member: parameters of the publication, if that shows something else. `uri`: raw.
    pub(crate) fn pulled(
        &mut self,
        (process, rank): (ProcessId, usize),
        uri: &[u8],
        list: &[u8],
    ) -> Option<Vec<u8>> {
        let key = key(&crate::rpc::decode(uri)?);
        let document = self.documents.entry(key.clone()).or_default();
        document.catch_up();
        let (place, said) = ((rank, Way::Pulled), inner(list));
        let shown = document.lists.get_mut(&place);
        if let Some(shown) = shown.filter(|it| it.elements == said) {
            shown.process = process;
            return None;
        }
        let before = match said {
            b"" => document.lists.remove(&place),
            _ => {
                let (uri, elements) = (Bytes::copy_from_slice(uri), Bytes::copy_from_slice(said));
                let list = List { process, uri, elements, n_edits: 0 };
                document.lists.insert(place, list)
            }
        };
        let is_other = before.is_some() || !said.is_empty();
        let told =
            is_other.then(|| publication(document.lists.values().next().map_or(uri, |it| &it.uri), document));
        self.tidy(&key);
        told
    }

    /// A process says that what lspool has pulled of its predecessor or of itself holds.
    pub(super) fn confirmed(&mut self, (process, rank): (ProcessId, usize), uri: &str) {
        let lists = self.documents.get_mut(&key(uri)).map(|it| &mut it.lists);
        if let Some(list) = lists.and_then(|it| it.get_mut(&(rank, Way::Pulled))) {
            list.process = process;
        }
    }

    /// The document is closed: what lspool has pulled for it is shown no more. Gives the publication without it.
    pub(crate) fn closed(&mut self, uri: &str) -> Option<Vec<u8>> {
        let key = key(uri);
        let document = self.documents.get_mut(&key)?;
        document.round = Round::default();
        document.versions.clear();
        document.catch_up();
        let pulled: Vec<List> =
            document.lists.extract_if(.., |(_, way), _| *way == Way::Pulled).map(|it| it.1).collect();
        let told = pulled.first().map(|it| publication(&it.uri, document));
        self.tidy(&key);
        told
    }

    /// Forgets a document of which nothing is shown.
    fn tidy(&mut self, key: &str) {
        let is_over =
            |it: &Document| it.lists.is_empty() && it.round.speakers.is_empty() && it.versions.is_empty();
        if self.documents.get(key).is_some_and(is_over) && !self.held.contains_key(key) {
            self.documents.remove(key);
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.held.values().map(|it| it.until).min()
    }

    /// Publications that have waited long enough.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Frame> {
        let mut told = Vec::new();
        for (key, held) in self.held.extract_if(.., |_, it| it.until <= now).collect::<Vec<_>>() {
            let document = self.documents.entry(key.clone()).or_default();
            (document.told, document.round.is_over) = (Some((now, held.by)), true);
            document.round.expected.clear();
            document.catch_up();
            let params = held.frame.params().unwrap_or(b"{}");
            let params = Patch::of(params).set("diagnostics", &joined(&document.lists)).finish();
            told.push(held.frame.with_params(&params));
            self.tidy(&key);
        }
        told
    }

    /// Lists for which `is_gone` holds are taken away: parameters of the publications without them.
    fn without(&mut self, is_gone: impl Fn(ProcessId) -> bool) -> Vec<Vec<u8>> {
        let mut told = Vec::new();
        for document in self.documents.values_mut() {
            let gone: Vec<List> =
                document.lists.extract_if(.., |_, it| is_gone(it.process)).map(|it| it.1).collect();
            let Some(gone) = gone.first() else { continue };
            document.catch_up();
            told.push(publication(document.lists.values().next().map_or(&gone.uri, |it| &it.uri), document));
        }
        let keys: Vec<String> = self.documents.keys().cloned().collect();
        for key in keys {
            self.tidy(&key);
        }
        told
    }

    /// What older processes of this backend have published and this one has not repeated.
    pub(crate) fn stale(&mut self, process: ProcessId) -> Vec<Vec<u8>> {
        self.without(|it| it.backend == process.backend && it.generation < process.generation)
    }

    /// Members have other ranks. `place`: the new rank of an old one; `None`: it is not a member any more.
    pub(super) fn renumber(&mut self, place: impl Fn(usize) -> Option<usize>) {
        for document in self.documents.values_mut() {
            let lists = std::mem::take(&mut document.lists).into_iter();
            document.lists = lists.filter_map(|((rank, way), it)| Some(((place(rank)?, way), it))).collect();
            let versions = std::mem::take(&mut document.versions).into_iter();
            document.versions = versions.filter_map(|(rank, it)| Some((place(rank)?, it))).collect();
            document.told = document.told.and_then(|(at, rank)| Some((at, place(rank)?)));
            let Round { spoken, speakers, expected, .. } = &mut document.round;
            for ranks in [spoken, speakers, expected] {
                *ranks = std::mem::take(ranks).into_iter().filter_map(&place).collect();
            }
        }
        for held in self.held.values_mut() {
            // What it has said is taken away, and the others' lists are published.
            held.by = place(held.by).unwrap_or(usize::MAX);
        }
    }

    /// A backend has no process any more.
    pub(crate) fn abandoned(&mut self, backend: BackendId) -> Vec<Vec<u8>> {
        self.without(|it| it.backend == backend)
    }

    /// Whether older processes of this backend have said something that is shown.
    pub(crate) fn has_stale(&self, process: ProcessId) -> bool {
        let is_older =
            |it: &List| it.process.backend == process.backend && it.process.generation < process.generation;
        self.documents.values().any(|it| it.lists.values().any(is_older))
    }

    /// The ranks of those who have said an equal diagnostic of a document.
    pub(crate) fn makers(&self, uri: &str, diagnostic: &[u8]) -> BTreeSet<usize> {
        let lists = self.documents.get(&key(uri)).into_iter().flat_map(|it| &it.lists);
        lists.filter(|(_, it)| has_same(&it.elements, diagnostic)).map(|((rank, _), _)| *rank).collect()
    }
}

impl Round {
    /// A member speaks of a version. Whether all have that spoke before, or have had their time. Publications without any
    /// version wait for nobody.
    fn is_complete(&mut self, rank: usize, version: Option<i64>) -> bool {
        let Some(version) = version else { return true };
        if self.version.is_none_or(|it| it < version) {
            (self.version, self.is_over) = (Some(version), false);
            self.spoken.clear();
        }
        if self.version == Some(version) {
            self.spoken.insert(rank);
        }
        self.speakers.insert(rank);
        let has_spoken = |it: &usize| self.spoken.contains(it);
        self.is_over |= self.speakers.iter().chain(&self.expected).all(has_spoken);
        self.is_over
    }
}

/// Parameters of a publication of all that is shown of a document.
fn publication(uri: &[u8], document: &Document) -> Vec<u8> {
    Patch::of(b"{}").set("diagnostics", &joined(&document.lists)).set("uri", uri).finish()
}

/// Whether one of these elements means the same as this diagnostic: same range, code and message.
pub(super) fn has_same(inner: &[u8], diagnostic: &[u8]) -> bool {
    let list = [b"[".as_slice(), inner, b"]"].concat();
    elements(&list).any(|it| is_same(&list[it], diagnostic))
}

/// Whether two diagnostics mean the same, however they are written.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let value = |it: &[u8], key| {
        let raw = member(it, key).map_or(&b"null"[..], |range| &it[range]);
        serde_json::from_slice::<serde_json::Value>(raw).unwrap_or_default()
    };
    ["range", "message", "code"].iter().all(|key| value(one, key) == value(other, key))
}

/// All lists as one. Equal elements of different members are shown once.
fn joined(all: &BTreeMap<(usize, Way), List>) -> Vec<u8> {
    let mut out = vec![b'['];
    let mut before: Vec<&[u8]> = Vec::new();
    for list in all.values() {
        let mut own: Vec<&[u8]> = Vec::new();
        let body = [b"[".as_slice(), &list.elements, b"]"].concat();
        let is_known = |it: &[u8]| before.contains(&it);
        for range in elements(&body) {
            // The body has one byte more in front.
            let one = &list.elements[range.start - 1..range.end - 1];
            if is_known(one) {
                continue;
            }
            if out.len() > 1 {
                out.push(b',');
            }
            out.extend_from_slice(one);
            own.push(one);
        }
        before.extend(own);
    }
    out.push(b']');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::event::Generation;

    fn process(backend: u32, generation: u32) -> ProcessId {
        ProcessId { backend: BackendId(backend), generation: Generation(generation) }
    }

    /// Members that publish, each when the last one is long over.
    struct Members {
        shown: Shown,
        now: Instant,
        /// The version of the document, if it is open.
        open: Option<i64>,
    }

    impl Members {
        #[expect(clippy::disallowed_methods, reason = "the tests are the clock")]
        fn new(wait: Duration) -> Members {
            Members { shown: Shown::waiting(wait), now: Instant::now(), open: None }
        }

        fn pass(&mut self, millis: u64) {
            self.now += Duration::from_millis(millis);
        }

        fn say(&mut self, by: (u32, u32), params: &str) -> Publication {
            let frame = Frame::notification("textDocument/publishDiagnostics", Some(params.as_bytes()));
            let of = (process(by.0, by.1), by.0 as usize);
            self.shown.published(self.now, of, &frame, |_| self.open)
        }

        fn publish(&mut self, by: u32, params: &str) -> String {
            self.pass(10);
            match self.say((by, 1), params) {
                Publication::AsItIs => "as it is".to_owned(),
                Publication::With(params) => String::from_utf8(params).unwrap(),
                other => format!("{other:?}"),
            }
        }

        fn due(&mut self) -> Vec<String> {
            let text = |it: &Frame| String::from_utf8(it.params().unwrap().to_vec()).unwrap();
            self.shown.take_due(self.now).iter().map(text).collect()
        }
    }

    fn texts(all: Vec<Vec<u8>>) -> Vec<String> {
        all.into_iter().map(|it| String::from_utf8(it).unwrap()).collect()
    }

    #[test]
    fn publication_keeps_lists_of_other_members_in_order_of_rank() {
        let mut it = Members::new(Duration::ZERO);
        assert_eq!(it.publish(1, r#"{"uri":"file:///a%20b","diagnostics":[2, 3]}"#), "as it is");
        assert_eq!(
            it.publish(0, r#"{"uri":"file:///a b","diagnostics":[1,2]}"#),
            r#"{"uri":"file:///a b","diagnostics":[1,2,3]}"#
        );
        assert_eq!(
            it.publish(1, r#"{"uri":"file:///a%20b","diagnostics":[]}"#),
            r#"{"uri":"file:///a%20b","diagnostics":[]}"#.replace("[]", "[1,2]")
        );
        assert_eq!(it.publish(0, r#"{"uri":"file:///a b","diagnostics":[]}"#), "as it is");
        assert!(it.shown.documents.is_empty());
    }

    #[test]
    fn older_version_of_same_member_is_outdated() {
        let mut it = Members::new(Duration::ZERO);
        it.open = Some(3);
        it.publish(0, r#"{"uri":"u","version":3,"diagnostics":[1]}"#);
        it.pass(10);
        let older = r#"{"uri":"u","version":2,"diagnostics":[]}"#;
        assert_eq!(it.say((0, 1), older), Publication::Outdated);
        assert_ne!(it.say((1, 1), older), Publication::Outdated, "of another member");
        assert_ne!(it.say((0, 2), older), Publication::Outdated, "of another process");
    }

    #[test]
    fn publications_of_several_members_at_once_are_one() {
        let mut it = Members::new(Duration::ZERO);
        it.publish(0, r#"{"uri":"u","diagnostics":[1]}"#);
        it.pass(3);
        assert_eq!(it.say((1, 1), r#"{"uri":"u","version":7,"diagnostics":[2]}"#), Publication::Held);
        assert_eq!(it.say((2, 1), r#"{"uri":"u","diagnostics":[3]}"#), Publication::Held);
        assert_eq!(it.shown.deadline(), Some(it.now + Duration::from_millis(7)));
        assert_eq!(it.due(), [""; 0]);
        it.pass(7);
        assert_eq!(it.due(), [r#"{"uri":"u","diagnostics":[1,2,3]}"#]);
        assert_eq!(it.shown.deadline(), None);
        assert_eq!(
            it.say((2, 1), r#"{"uri":"u","diagnostics":[]}"#),
            Publication::With(br#"{"uri":"u","diagnostics":[1,2]}"#.to_vec(),),
            "who has just spoken may speak on"
        );
    }

    #[test]
    fn first_publication_for_a_version_waits_for_those_who_spoke_before() {
        let mut it = Members::new(Duration::from_secs(1));
        let of =
            |version: u32, list: &str| format!(r#"{{"uri":"u","version":{version},"diagnostics":{list}}}"#);
        assert_eq!(it.publish(0, &of(1, "[1]")), "as it is", "nobody else is known to speak");
        assert_eq!(it.publish(1, &of(1, "[2]")), of(1, "[1,2]"));
        assert_eq!(it.publish(1, &of(2, "[]")), "Held");
        it.pass(500);
        assert_eq!(it.due(), [""; 0]);
        assert_eq!(it.publish(0, &of(2, "[3]")), "as it is", "all have spoken");
        assert_eq!(it.shown.deadline(), None);
        assert_eq!(it.publish(1, &of(3, "[4]")), "Held");
        assert_eq!(it.publish(1, &of(4, "[5]")), "Held", "nothing waits longer because of more typing");
        it.pass(990);
        assert_eq!(it.due(), [of(4, "[3,5]")]);
        assert_eq!(it.publish(1, &of(4, "[6]")), of(4, "[3,6]"), "it is not the first");
        it.shown.closed("u");
        assert_eq!(it.publish(1, &of(5, "[7]")), of(5, "[3,7]"));
    }

    #[test]
    fn pulled_list_is_shown_until_its_member_publishes() {
        let mut it = Members::new(Duration::ZERO);
        it.publish(0, r#"{"uri":"u","diagnostics":[1]}"#);
        let mut pull = |of, list: &[u8]| it.shown.pulled((process(1, of), 1), br#""u""#, list);
        assert_eq!(pull(1, b"[2]"), Some(br#"{"uri":"u","diagnostics":[1,2]}"#.to_vec()));
        assert_eq!(pull(1, b" [ 2 ]"), None, "nothing has changed");
        assert_eq!(pull(1, b"[]"), Some(br#"{"uri":"u","diagnostics":[1]}"#.to_vec()));
        assert_eq!(pull(1, b"[]"), None);
        pull(1, b"[2]");
        assert_eq!(pull(2, b"[2]"), None);
        assert!(texts(it.shown.stale(process(1, 2))).is_empty(), "its successor says the same");
        assert_eq!(it.shown.closed("u"), Some(br#"{"uri":"u","diagnostics":[1]}"#.to_vec()));
        assert_eq!(it.shown.closed("u"), None);
        it.shown.pulled((process(1, 1), 1), br#""u""#, b"[2]");
        assert_eq!(it.publish(1, r#"{"uri":"u","diagnostics":[]}"#), r#"{"uri":"u","diagnostics":[1]}"#);
    }

    #[test]
    fn dead_member_takes_only_its_own_list_away() {
        let mut it = Members::new(Duration::ZERO);
        it.publish(0, r#"{"uri":"u","diagnostics":[1]}"#);
        it.publish(1, r#"{"uri":"u","diagnostics":[2]}"#);
        it.publish(1, r#"{"uri":"v","diagnostics":[3]}"#);
        assert_eq!(texts(it.shown.stale(process(1, 1))), [] as [&str; 0]);
        assert!(it.shown.has_stale(process(1, 2)) && !it.shown.has_stale(process(1, 1)));
        let told = texts(it.shown.abandoned(BackendId(1)));
        assert_eq!(told, [r#"{"uri":"u","diagnostics":[1]}"#, r#"{"uri":"v","diagnostics":[]}"#]);
        assert_eq!(texts(it.shown.abandoned(BackendId(0))), [r#"{"uri":"u","diagnostics":[]}"#]);
        assert!(it.shown.documents.is_empty());
    }

    #[test]
    fn makers_of_a_diagnostic_are_found_by_range_code_and_message() {
        let mut it = Members::new(Duration::ZERO);
        it.publish(0, r#"{"uri":"u","diagnostics":[{"range":{},"message":"m","data":1}]}"#);
        it.publish(1, r#"{"uri":"u","diagnostics":[{"range":{},"message":"n"}]}"#);
        let makers = |diagnostic: &[u8]| it.shown.makers("u", diagnostic).into_iter().collect::<Vec<_>>();
        assert_eq!(makers(br#"{"message":"m","range":{}}"#), [0]);
        assert_eq!(makers(br#"{"message":"m","range":{},"code":1}"#), [] as [usize; 0]);
    }
}
