//! The documents of the editor, for clients that work on their texts: what is open, and edits of them.

use std::collections::BTreeSet;

use serde_json::json;

use super::Admin;
use crate::{
    core::{
        event::ServerId,
        mux::{
            Mux,
            failure::{Cause, Failure},
            requests::Owner,
            session::documents::Documents,
        },
        purpose::{Purpose, SentId},
    },
    rpc::{Frame, Patch, elements, member, path, text},
};

/// How many bytes of texts an answer has, if its first text is not longer. A client asks again for the rest.
const MOST_OF_ANSWER: usize = 1 << 20;

/// Longer texts are not sent: the client would be cut off.
const MOST_OF_TEXT: usize = 3 << 20;

/// `lspool/documents`: the open documents, with the texts that the client does not have.
pub(super) fn ask_documents(mux: &mut Mux, owner: &Owner, params: &[u8]) {
    let Some(first) = mux.servers().first().map(|it| it.id) else {
        return mux.fail(owner, &Failure::not_initialized());
    };
    let known = member(params, "known").map_or(&b"{}"[..], |it| &params[it]);
    let only = member(params, "only").map(|it| {
        let list = &params[it];
        elements(list).filter_map(|uri| text(&list[uri], &[])).collect()
    });
    let mut told = Told { only, ..Told::default() };
    // A member of a group has the documents of its languages.
    let servers: Vec<ServerId> = mux.servers().iter().map(|it| it.id).collect();
    for server in &servers {
        // Each session counts by itself, and a document may move to another one.
        let apart = |revision: u64| revision * servers.len() as u64 + u64::from(server.0);
        told.add(mux.server_mut(*server).session_mut().documents_mut(), known, apart);
    }
    let session = mux.session(first);
    let initialize = session.initialize();
    let capability = |key: &str| {
        let range = path(initialize, &["capabilities", "workspace", key]);
        range.map_or(&b"null"[..], |it| &initialize[it])
    };
    let answer = [
        br#"{"documents":["#.as_slice(),
        &told.documents.join(b",".as_slice()),
        br#"],"positionEncoding":""#,
        session.documents().encoding_name().as_bytes(),
        br#"","applyEdit":"#,
        capability("applyEdit"),
        br#","workspaceEdit":"#,
        capability("workspaceEdit"),
        b"}",
    ]
    .concat();
    mux.answer_raw(owner, &answer);
}

/// The documents of an answer.
#[derive(Debug, Default)]
struct Told {
    documents: Vec<Vec<u8>>,
    uris: BTreeSet<String>,
    /// The documents whose texts the client wants. `None`: all.
    only: Option<BTreeSet<String>>,
    /// The size of their texts.
    size: usize,
}

impl Told {
    /// Adds the documents of a session that no earlier one has.
    fn add(&mut self, of: &mut Documents, known: &[u8], apart: impl Fn(u64) -> u64) {
        let all: Vec<(String, u64)> =
            of.revisions().map(|(uri, revision)| (uri.to_owned(), apart(revision))).collect();
        for (uri, revision) in all {
            if !self.uris.insert(uri.clone()) {
                continue;
            }
            let mut item = Patch::of(b"{}");
            let revision = revision.to_string();
            let version = of.version(&uri).map_or("null".to_owned(), |it| it.to_string());
            item.set("uri", json!(uri).to_string().as_bytes());
            item.set("revision", revision.as_bytes()).set("version", version.as_bytes());
            let is_known = member(known, &uri).is_some_and(|it| known[it] == *revision.as_bytes());
            let is_wanted = self.only.as_ref().is_none_or(|it| it.contains(&uri));
            if is_wanted && !is_known && (self.size == 0 || self.size < MOST_OF_ANSWER) {
                let text = of.text(&uri).filter(|it| of.is_whole(&uri) && it.len() <= MOST_OF_TEXT);
                let text = text.unwrap_or_else(|| b"null".to_vec());
                self.size += text.len();
                item.set("text", &text);
            }
            self.documents.push(item.finish());
        }
    }
}

impl Admin {
    /// `lspool/applyEdit`: asks the editor to make an edit.
    pub(super) fn ask_to_edit(&mut self, mux: &mut Mux, owner: Owner, params: &[u8]) {
        let can = |mux: &Mux| {
            let initialize = mux.session(mux.servers().first()?.id).initialize();
            let range = path(initialize, &["capabilities", "workspace", "applyEdit"])?;
            (&initialize[range] == b"true").then_some(())
        };
        if can(mux).is_none() {
            let what = "the editor makes no edits for servers";
            return mux.fail(&owner, &Failure::new(Cause::InvalidRequest, what));
        }
        let sent = mux.ask_editor(Purpose::Edit, "workspace/applyEdit", Some(params));
        self.edits.insert(sent, owner);
    }

    /// Handles the editor's answer to an edit. `None`: it cannot be read.
    pub(crate) fn on_edited(&mut self, mux: &mut Mux, sent: SentId, answer: Option<&Frame>) {
        let Some(owner) = self.edits.remove(&sent) else { return };
        match answer.and_then(Frame::result) {
            Some(result) => {
                let result = result.to_vec();
                mux.answer_raw(&owner, &result);
            }
            None => {
                let what = "the editor failed to make the edit";
                mux.fail(&owner, &Failure::new(Cause::BadAnswer, what));
            }
        }
    }
}
