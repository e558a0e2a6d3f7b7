//! The versions in edits: the hub counts versions for the server, and each client counts its own.

use std::ops::Range;

use super::Hub;
use crate::{
    core::event::ClientId,
    rpc::{Frame, elements, path, text},
};

/// The place of a version in an edit.
struct Versioned {
    uri: String,
    version: Range<usize>,
}

/// Why an edit does not fit.
pub(super) struct Outdated(pub(super) String);

impl Hub {
    /// An answer with the versions of the client in its edits.
    pub(super) fn with_versions(&self, client: ClientId, frame: &Frame) -> Frame {
        match frame.result().and_then(|it| self.relabelled(client, it)) {
            Some(result) => frame.with_result(&result),
            None => frame.clone(),
        }
    }

    /// Parameters of `workspace/applyEdit` with the versions of the client; an error if it has another text.
    pub(super) fn edit_for(&self, client: ClientId, params: &[u8]) -> Result<Option<Vec<u8>>, Outdated> {
        for it in versioned(params) {
            let Some(version) = integer(&params[it.version]) else { continue };
            let theirs = self.texts.version_for(client, &it.uri, version);
            if theirs.is_none() || theirs != self.texts.last_version(client, &it.uri) {
                return Err(Outdated(format!("{} has changed", it.uri)));
            }
        }
        Ok(self.relabelled(client, params))
    }

    /// A value with the versions of the client in its edits. `None`: nothing differs.
    fn relabelled(&self, client: ClientId, value: &[u8]) -> Option<Vec<u8>> {
        let mut out: Option<Vec<u8>> = None;
        // From the end, so that the places before stay.
        for it in versioned(value).into_iter().rev() {
            let Some(version) = integer(&value[it.version.clone()]) else { continue };
            let Some(theirs) = self.texts.version_for(client, &it.uri, version) else { continue };
            if theirs != version {
                let out = out.get_or_insert_with(|| value.to_vec());
                out.splice(it.version, theirs.to_string().into_bytes());
            }
        }
        out
    }
}

/// The versions in an edit, in a code action, in a list of code actions, or in parameters with an edit.
fn versioned(value: &[u8]) -> Vec<Versioned> {
    let mut all = Vec::new();
    if memchr::memmem::find(value, b"\"documentChanges\"").is_none() {
        return all;
    }
    let is_list = value.first() == Some(&b'[');
    let parts = elements(value).filter(|_| is_list);
    for place in std::iter::once(0..value.len()).chain(parts) {
        for keys in [&["documentChanges"][..], &["edit", "documentChanges"]] {
            let Some(list) = path(&value[place.clone()], keys) else { continue };
            let list = place.start + list.start..place.start + list.end;
            for range in elements(&value[list.clone()]) {
                let start = list.start + range.start;
                let change = &value[start..list.start + range.end];
                let uri = text(change, &["textDocument", "uri"]);
                let version = path(change, &["textDocument", "version"]);
                if let (Some(uri), Some(version)) = (uri, version) {
                    all.push(Versioned { uri, version: start + version.start..start + version.end });
                }
            }
        }
    }
    all.sort_by_key(|it| it.version.start);
    all
}

fn integer(raw: &[u8]) -> Option<i64> {
    std::str::from_utf8(raw).ok()?.parse().ok()
}
