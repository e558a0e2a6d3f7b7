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
    /// An answer with the versions of the client in its edits; an error if the client has another text.
    pub(super) fn with_versions(&self, client: ClientId, frame: &Frame) -> Result<Frame, Outdated> {
        let result = frame.result().map(|it| self.relabelled(client, it)).transpose()?.flatten();
        Ok(result.map_or_else(|| frame.clone(), |it| frame.with_result(&it)))
    }

    /// Parameters of `workspace/applyEdit` with the versions of the client; an error if it has another text.
    pub(super) fn edit_for(&self, client: ClientId, params: &[u8]) -> Result<Option<Vec<u8>>, Outdated> {
        if self.edits_are_outdated(client) {
            return Err(Outdated("the text has changed in another editor".to_owned()));
        }
        for it in versioned(params) {
            let Some(version) = integer(&params[it.version]) else { continue };
            let last = self.texts.last_version(client, &it.uri);
            if last.is_some() && self.texts.version_for(client, &it.uri, version) != last {
                return Err(Outdated(format!("{} has changed", it.uri)));
            }
        }
        self.relabelled(client, params)
    }

    /// A value with the versions of the client in its edits. `None`: nothing differs.
    fn relabelled(&self, client: ClientId, value: &[u8]) -> Result<Option<Vec<u8>>, Outdated> {
        let mut out: Option<Vec<u8>> = None;
        // From the end, so that the places before stay.
        for it in versioned(value).into_iter().rev() {
            let Some(version) = integer(&value[it.version.clone()]) else { continue };
            let theirs = match self.texts.version_for(client, &it.uri, version) {
                Some(theirs) => theirs.to_string(),
                // Another client has it open, with the text of the file.
                None if !self.texts.is_open(client, &it.uri) => "null".to_owned(),
                None => return Err(Outdated(format!("{} has changed", it.uri))),
            };
            if theirs.as_bytes() != &value[it.version.clone()] {
                out.get_or_insert_with(|| value.to_vec()).splice(it.version, theirs.into_bytes());
            }
        }
        Ok(out)
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
