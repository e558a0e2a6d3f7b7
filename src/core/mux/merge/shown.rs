//! The diagnostics that the members of a group have published, by document and member: an editor has one list for each
//! document, and a publication takes the place of the last one.
//!
//! **What one member says never takes away what another has said.** Each publication is passed on at once, with the
//! other members' lists behind or before it, by rank.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::{
    core::event::{BackendId, ProcessId},
    rpc::{Patch, elements, file_path, member, text},
};

/// One member's list for one document. It is not empty.
#[derive(Debug)]
struct List {
    process: ProcessId,
    /// The `uri` as the member writes it, raw.
    uri: Bytes,
    version: Option<i64>,
    /// The elements, without the brackets around them.
    elements: Bytes,
}

/// By document, then by rank.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    published: BTreeMap<String, BTreeMap<usize, List>>,
    /// What the editor has pulled last: the elements of each member's list.
    pulled: BTreeMap<String, BTreeMap<usize, Bytes>>,
}

/// One document, however its URI is written.
fn key(uri: &str) -> String {
    file_path(uri).map_or_else(|| uri.to_owned(), |path| path.to_string_lossy().into_owned())
}

/// The elements of a list, without its brackets.
fn inner(list: &[u8]) -> &[u8] {
    let first = elements(list).next();
    let last = elements(list).last();
    match first.zip(last) {
        Some((first, last)) => &list[first.start..last.end],
        None => b"",
    }
}

impl Shown {
    /// A member publishes: parameters of what the editor is told, if they differ. An error: the publication is older
    /// than the member's last one.
    pub(crate) fn published(
        &mut self,
        process: ProcessId,
        rank: usize,
        params: &[u8],
    ) -> Result<Option<Vec<u8>>, Outdated> {
        let (Some(uri), Some(list)) = (member(params, "uri"), member(params, "diagnostics")) else {
            return Ok(None);
        };
        let Some(name) = text(params, &["uri"]) else { return Ok(None) };
        let version =
            member(params, "version").and_then(|it| std::str::from_utf8(&params[it]).ok()?.parse().ok());
        let all = self.published.entry(key(&name)).or_default();
        if let Some(last) = all.get(&rank).filter(|it| it.process == process)
            && let (Some(last), Some(version)) = (last.version, version)
            && version < last
        {
            return Err(Outdated);
        }
        let said = inner(&params[list]);
        match said {
            b"" => drop(all.remove(&rank)),
            _ => {
                // Copied: slices would keep the message.
                let (uri, elements) = (Bytes::copy_from_slice(&params[uri]), Bytes::copy_from_slice(said));
                all.insert(rank, List { process, uri, version, elements });
            }
        }
        if all.keys().all(|it| *it == rank) {
            if all.is_empty() {
                self.published.remove(&key(&name));
            }
            return Ok(None);
        }
        Ok(Some(Patch::of(params).set("diagnostics", &joined(all)).finish()))
    }

    /// Lists for which `is_gone` holds are taken away: parameters of the publications without them.
    fn without(&mut self, is_gone: impl Fn(ProcessId) -> bool) -> Vec<Vec<u8>> {
        let mut told = Vec::new();
        for all in self.published.values_mut() {
            let gone: Vec<List> = all.extract_if(.., |_, it| is_gone(it.process)).map(|it| it.1).collect();
            let Some(gone) = gone.first() else { continue };
            let uri = all.values().next().map_or(&gone.uri, |it| &it.uri);
            let one = Patch::of(b"{}").set("diagnostics", &joined(all)).set("uri", uri).finish();
            told.push(one);
        }
        self.published.retain(|_, all| !all.is_empty());
        told
    }

    /// What older processes of this backend have published and this one has not repeated.
    pub(crate) fn stale(&mut self, process: ProcessId) -> Vec<Vec<u8>> {
        self.without(|it| it.backend == process.backend && it.generation < process.generation)
    }

    /// A backend has no process any more.
    pub(crate) fn abandoned(&mut self, backend: BackendId) -> Vec<Vec<u8>> {
        self.without(|it| it.backend == backend)
    }

    /// A member has answered a pull for this document.
    pub(crate) fn pulled(&mut self, uri: &str, rank: usize, result: &[u8]) {
        let Some(items) = member(result, "items") else { return };
        let all = self.pulled.entry(key(uri)).or_default();
        match inner(&result[items]) {
            b"" => drop(all.remove(&rank)),
            said => drop(all.insert(rank, Bytes::copy_from_slice(said))),
        }
    }

    /// A document is closed: nobody asks about what was pulled for it.
    pub(crate) fn closed(&mut self, uri: &str) {
        self.pulled.remove(&key(uri));
    }

    /// The ranks of those who have said an equal diagnostic of a document: same range, code and message.
    pub(crate) fn makers(&self, uri: &str, diagnostic: &[u8]) -> Vec<usize> {
        let name = key(uri);
        let published =
            self.published.get(&name).into_iter().flatten().map(|(rank, it)| (rank, &it.elements));
        let pulled = self.pulled.get(&name).into_iter().flatten();
        let made = |list: &[u8]| {
            let list = [b"[".as_slice(), list, b"]"].concat();
            elements(&list).any(|it| is_same(&list[it], diagnostic))
        };
        published.chain(pulled).filter(|(_, list)| made(list)).map(|(rank, _)| *rank).collect()
    }
}

/// A publication that is older than what the member has said since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outdated;

/// Whether two diagnostics mean the same, however they are written.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let value = |it: &[u8], key| {
        let raw = member(it, key).map_or(&b"null"[..], |range| &it[range]);
        serde_json::from_slice::<serde_json::Value>(raw).unwrap_or_default()
    };
    ["range", "message", "code"].iter().all(|key| value(one, key) == value(other, key))
}

/// All lists as one. Equal elements of different members are shown once.
fn joined(all: &BTreeMap<usize, List>) -> Vec<u8> {
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

    fn publish(it: &mut Shown, by: u32, params: &str) -> String {
        let told = it.published(process(by, 1), by as usize, params.as_bytes()).unwrap();
        told.map_or_else(|| "as it is".to_owned(), |it| String::from_utf8(it).unwrap())
    }

    #[test]
    fn publication_keeps_lists_of_other_members_in_order_of_rank() {
        let mut it = Shown::default();
        assert_eq!(publish(&mut it, 1, r#"{"uri":"file:///a%20b","diagnostics":[2, 3]}"#), "as it is");
        assert_eq!(
            publish(&mut it, 0, r#"{"uri":"file:///a b","diagnostics":[1,2]}"#),
            r#"{"uri":"file:///a b","diagnostics":[1,2,3]}"#
        );
        assert_eq!(
            publish(&mut it, 1, r#"{"uri":"file:///a%20b","diagnostics":[]}"#),
            r#"{"uri":"file:///a%20b","diagnostics":[]}"#.replace("[]", "[1,2]")
        );
        assert_eq!(publish(&mut it, 0, r#"{"uri":"file:///a b","diagnostics":[]}"#), "as it is");
        assert!(it.published.is_empty());
    }

    #[test]
    fn older_version_of_same_member_is_outdated() {
        let mut it = Shown::default();
        publish(&mut it, 0, r#"{"uri":"u","version":3,"diagnostics":[1]}"#);
        let older = br#"{"uri":"u","version":2,"diagnostics":[]}"#;
        assert_eq!(it.published(process(0, 1), 0, older), Err(Outdated));
        assert!(it.published(process(1, 1), 1, older).is_ok(), "of another member");
        assert!(it.published(process(0, 2), 0, older).is_ok(), "of another process");
    }

    #[test]
    fn dead_member_takes_only_its_own_list_away() {
        let mut it = Shown::default();
        publish(&mut it, 0, r#"{"uri":"u","diagnostics":[1]}"#);
        publish(&mut it, 1, r#"{"uri":"u","diagnostics":[2]}"#);
        publish(&mut it, 1, r#"{"uri":"v","diagnostics":[3]}"#);
        let text = |all: Vec<Vec<u8>>| -> Vec<String> {
            all.into_iter().map(|it| String::from_utf8(it).unwrap()).collect()
        };
        assert_eq!(text(it.stale(process(1, 1))), [] as [&str; 0]);
        let told = text(it.abandoned(BackendId(1)));
        assert_eq!(told, [r#"{"uri":"u","diagnostics":[1]}"#, r#"{"uri":"v","diagnostics":[]}"#]);
        assert_eq!(text(it.abandoned(BackendId(0))), [r#"{"uri":"u","diagnostics":[]}"#]);
    }

    #[test]
    fn makers_of_a_diagnostic_are_found_by_range_code_and_message() {
        let mut it = Shown::default();
        publish(&mut it, 0, r#"{"uri":"u","diagnostics":[{"range":{},"message":"m","data":1}]}"#);
        publish(&mut it, 1, r#"{"uri":"u","diagnostics":[{"range":{},"message":"n"}]}"#);
        assert_eq!(it.makers("u", br#"{"message":"m","range":{}}"#), [0]);
        assert_eq!(it.makers("u", br#"{"message":"m","range":{},"code":1}"#), [] as [usize; 0]);
        it.pulled("u", 1, br#"{"kind":"full","items":[{"range":{},"message":"p"}]}"#);
        assert_eq!(it.makers("u", br#"{"message":"p","range":{}}"#), [1]);
        it.closed("u");
        assert!(it.makers("u", br#"{"message":"p","range":{}}"#).is_empty());
    }
}
