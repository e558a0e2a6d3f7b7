//! Diagnostics in the context of a request for code actions: each member is told those that it has made, as it has made
//! them, and those that nobody has.

use super::group::Group;
use crate::{
    core::{
        event::{ProcessId, ServerId},
        mux::{Mux, merge::abilities::Portion, requests::Pending, session::documents::uri},
    },
    rpc::{Frame, Patch, elements, path, text},
};

const DIAGNOSTICS: [&str; 2] = ["context", "diagnostics"];

impl Group {
    /// A request for code actions as a member is asked it.
    pub(super) fn with_own_diagnostics(&self, server: ServerId, frame: Frame) -> Frame {
        if frame.method() != Some("textDocument/codeAction") {
            return frame;
        }
        let params = frame.params().unwrap_or(b"{}");
        let (Some(range), Some(rank)) = (path(params, &DIAGNOSTICS), self.rank(server)) else { return frame };
        let Some(uri) = uri(params, "textDocument") else { return frame };
        let list = &params[range];
        let is_own = |one: &&[u8]| {
            let makers = self.shown.makers(&uri, one);
            makers.is_empty() || makers.contains(&rank)
        };
        let all: Vec<&[u8]> = elements(list).map(|it| &list[it]).collect();
        let own: Vec<&[u8]> = all.iter().copied().filter(is_own).collect();
        if own.len() == all.len() {
            return frame;
        }
        let list = [b"[".as_slice(), &own.join(b",".as_slice()), b"]"].concat();
        let params = Patch::of(params).set_path(&DIAGNOSTICS, &list).finish();
        frame.with_params(&params)
    }
}

impl Group {
    /// An operation on files with those that a member has asked to hear of. None: as it is.
    pub(super) fn with_own_files(&self, server: ServerId, frame: &Frame) -> Option<Frame> {
        let method = frame.method().filter(|it| it.starts_with("workspace/"))?;
        let member = self.members().iter().find(|it| it.server == server)?;
        let (abilities, params) = (member.abilities.as_ref()?, frame.params()?);
        let portion = match method {
            "workspace/didChangeWatchedFiles" => abilities.watched(params)?,
            _ if method.ends_with("Files") => abilities.operated(method, params),
            _ => return None,
        };
        match portion {
            Portion::Some(params) => Some(frame.with_params(&params)),
            Portion::Nothing | Portion::Whole => None,
        }
    }

    /// An answer to a request for code actions without those of kinds that the member is not used for. None: as it is.
    pub(super) fn allowed_actions(
        &self,
        server: Option<ServerId>,
        pending: &Pending,
        answer: &Frame,
    ) -> Option<Frame> {
        if pending.frame.method() != Some("textDocument/codeAction") {
            return None;
        }
        let member = self.members().iter().find(|it| Some(it.server) == server)?;
        let abilities = member.abilities.as_ref()?;
        let list = answer.result()?;
        let is_allowed = |one: &&[u8]| abilities.allows_kind(text(one, &["kind"]).as_deref());
        let all: Vec<&[u8]> = elements(list).map(|it| &list[it]).collect();
        let allowed: Vec<&[u8]> = all.iter().copied().filter(is_allowed).collect();
        if allowed.len() == all.len() {
            return None;
        }
        Some(answer.with_result(&[b"[".as_slice(), &allowed.join(b",".as_slice()), b"]"].concat()))
    }
}

impl Mux {
    /// A member has answered a pull: the editor may ask about what it says.
    pub(super) fn note_pulled(&mut self, process: ProcessId, pending: &Pending, answer: &Frame) {
        let Some(server) = self.backend(process.backend).map(|it| it.server) else { return };
        let Some(group) = self.group.as_deref_mut() else { return };
        let uri = uri(pending.frame.params().unwrap_or(b"{}"), "textDocument");
        if let (Some(uri), Some(rank), Some(result)) = (uri, group.rank(server), answer.result()) {
            group.shown.pulled(&uri, rank, result);
        }
    }
}
