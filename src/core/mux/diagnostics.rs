//! The documents with published diagnostics, so that those of a dead process do not stay on the screen.
//!
//! Keeps only whether there are diagnostics, not their content.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::{
    core::event::{BackendId, Generation, ProcessId},
    rpc::{Patch, elements, member},
};

/// The last publishing process, by backend and URI as the server writes it. Only for lists that are not empty.
#[derive(Debug, Default)]
pub(crate) struct Diagnostics(BTreeMap<BackendId, BTreeMap<Bytes, Generation>>);

impl Diagnostics {
    /// Notes `textDocument/publishDiagnostics` of a process.
    pub(crate) fn published(&mut self, process: ProcessId, params: &[u8]) {
        let (Some(uri), Some(list)) = (member(params, "uri"), member(params, "diagnostics")) else { return };
        let (uri, is_empty) = (&params[uri], elements(&params[list]).next().is_none());
        if is_empty {
            if let Some(all) = self.0.get_mut(&process.backend) {
                all.remove(uri);
            }
            return;
        }
        let all = self.0.entry(process.backend).or_default();
        match all.get_mut(uri) {
            Some(by) => *by = process.generation,
            // A copy, because a slice would keep the message.
            None => drop(all.insert(Bytes::copy_from_slice(uri), process.generation)),
        }
    }

    /// Renames a process.
    pub(crate) fn rename(&mut self, old: ProcessId, new: ProcessId) {
        let Some(published) = self.0.remove(&old.backend) else { return };
        let renamed = published.into_keys().map(|uri| (uri, new.generation));
        self.0.entry(new.backend).or_default().extend(renamed);
    }

    /// Whether the editor shows diagnostics of an older process than this one.
    pub(super) fn has_stale(&self, process: ProcessId) -> bool {
        let all = self.0.get(&process.backend);
        all.is_some_and(|it| it.values().any(|by| *by < process.generation))
    }

    /// The publications that clear the diagnostics of older processes that this one has not repeated.
    pub(crate) fn stale(&mut self, process: ProcessId) -> Vec<Vec<u8>> {
        let Some(all) = self.0.get_mut(&process.backend) else { return Vec::new() };
        let stale: Vec<Bytes> =
            all.extract_if(.., |_, by| *by < process.generation).map(|(uri, _)| uri).collect();
        self.cleared(&stale)
    }

    /// The publications that clear all diagnostics of a backend without a process.
    pub(super) fn abandoned(&mut self, backend: BackendId) -> Vec<Vec<u8>> {
        let all = self.0.remove(&backend).unwrap_or_default();
        self.cleared(&all.into_keys().collect::<Vec<_>>())
    }

    /// The editor has one list for each URI, so diagnostics that another backend has published last are not cleared.
    fn cleared(&self, uris: &[Bytes]) -> Vec<Vec<u8>> {
        let is_free = |uri: &&Bytes| self.0.values().all(|it| !it.contains_key(*uri));
        let clear = |uri: &Bytes| Patch::of(br#"{"diagnostics":[]}"#).set("uri", uri).finish();
        uris.iter().filter(is_free).map(clear).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(backend: u32, generation: u32) -> ProcessId {
        ProcessId { backend: BackendId(backend), generation: Generation(generation) }
    }

    fn texts(all: Vec<Vec<u8>>) -> Vec<String> {
        all.into_iter().map(|it| String::from_utf8(it).unwrap()).collect()
    }

    #[test]
    fn diagnostics_clear_what_next_process_does_not_republish() {
        let mut it = Diagnostics::default();
        for uri in ["a", "b", "c", "d"] {
            let params = format!(r#"{{"uri":"{uri}","version":1,"diagnostics":[{{"message":"x"}}]}}"#);
            it.published(process(0, 1), params.as_bytes());
        }
        it.published(process(0, 1), br#"{"uri":"d","diagnostics":[ ]}"#);
        assert!(it.has_stale(process(0, 2)) && !it.has_stale(process(0, 1)) && !it.has_stale(process(1, 2)));
        it.published(process(0, 2), br#"{"uri":"a","diagnostics":[{}]}"#);
        it.published(process(0, 2), br#"{"uri":"b","diagnostics":[]}"#);
        assert_eq!(texts(it.stale(process(0, 2))), [r#"{"uri":"c","diagnostics":[]}"#]);
        assert_eq!(texts(it.abandoned(BackendId(0))), [r#"{"uri":"a","diagnostics":[]}"#]);
        assert!(it.0.is_empty());
    }

    #[test]
    fn diagnostics_keep_what_another_server_published() {
        let mut it = Diagnostics::default();
        it.published(process(0, 1), br#"{"uri":"a","diagnostics":[{}]}"#);
        it.published(process(1, 1), br#"{"uri":"a","diagnostics":[{}]}"#);
        assert_eq!(texts(it.abandoned(BackendId(1))), [] as [String; 0]);
        assert_eq!(it.abandoned(BackendId(0)).len(), 1);
    }
}
