//! Diagnostics in the context of a request for code actions: each member is told those that it has made, as it has made
//! them, and those that nobody has.

use super::{
    abilities::Abilities,
    group::{Group, Member},
    reports::has_merged_id,
};
use crate::{
    core::{
        event::{ProcessId, ServerId},
        mux::{
            Mux,
            merge::{abilities::Portion, reports::Noted},
            requests::{Pending, To},
            session::documents::uri,
        },
    },
    rpc::{Frame, Patch, RawId, elements, path, text},
};

const DIAGNOSTICS: [&str; 2] = ["context", "diagnostics"];

impl Group {
    /// A request for code actions as a member is asked it.
    pub(super) fn with_own_diagnostics(&mut self, server: ServerId, frame: Frame) -> Frame {
        if frame.method() != Some("textDocument/codeAction") {
            return frame;
        }
        let params = frame.params().unwrap_or(b"{}");
        let (Some(range), Some(rank)) = (path(params, &DIAGNOSTICS), self.rank(server)) else { return frame };
        let Some(uri) = uri(params, "textDocument") else { return frame };
        let list = &params[range];
        self.shown.catch_up(&uri);
        let is_own = |one: &&[u8]| {
            let mut makers = self.shown.makers(&uri, one);
            makers.extend(self.reports.makers(&uri, one));
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

impl Group {
    /// The members that are meant by the identifier of a request for diagnostics, which is that of a registration of one
    /// of them, or else of all that have not registered theirs.
    pub(super) fn by_identifier(&self, params: &[u8], able: Vec<ServerId>) -> Vec<ServerId> {
        let identifier = text(params, &["identifier"]);
        let some = |is_meant: &dyn Fn(&Member) -> bool| -> Vec<ServerId> {
            let found = self.members().iter().filter(|it| able.contains(&it.server) && is_meant(it));
            found.map(|it| it.server).collect()
        };
        let has = |it: &Member, identifier: &str| {
            it.abilities.as_ref().is_some_and(|it| it.has_identifier(identifier))
        };
        let found = match &identifier {
            Some(identifier) => {
                let one = qualified(identifier)
                    .filter(|(_, name)| self.members().iter().any(|it| it.name == *name));
                match one {
                    Some((own, name)) => some(&|it| it.name == name && has(it, own)),
                    None => some(&|it| has(it, identifier)).into_iter().take(1).collect(),
                }
            }
            None => some(&|it| it.abilities.as_ref().is_some_and(Abilities::is_asked_with_others)),
        };
        if found.is_empty() { able } else { found }
    }

    /// The identifier of a member for the editor: another member may have the same.
    pub(super) fn told_identifier(&self, server: ServerId, own: &str) -> Option<String> {
        let has = |it: &&Member| it.abilities.as_ref().is_some_and(|it| it.has_identifier(own));
        let is_taken = self.members().iter().filter(has).any(|it| it.server != server);
        let name = &self.members().iter().find(|it| it.server == server)?.name;
        is_taken.then(|| format!("{own}@{name}"))
    }

    /// A request for diagnostics as a member is asked it: with its own identifier and result ids. `None`: as it is.
    pub(super) fn with_own_report(
        &self,
        process: ProcessId,
        server: ServerId,
        frame: &Frame,
    ) -> Option<Frame> {
        let params = frame.params()?;
        let rank = self.rank(server)?;
        match frame.method() {
            Some("workspace/diagnostic") => {
                Some(frame.with_params(&self.reports.with_own_ids(process, rank, params)?))
            }
            Some(PULL) => {
                let mut own = Patch::of(params);
                if has_merged_id(params) {
                    own.remove("previousResultId");
                }
                let told = text(params, &["identifier"]);
                let identifier = match &told {
                    Some(told) => {
                        qualified(told).map(|(own, _)| own).filter(|_| self.is_foreign(server, told))
                    }
                    None => self.abilities(server)?.diagnostics_identifier(),
                };
                if let Some(identifier) = identifier {
                    own.set("identifier", RawId::text(identifier).as_bytes());
                }
                let own = own.finish();
                (own != params).then(|| frame.with_params(&own))
            }
            _ => None,
        }
    }

    fn is_foreign(&self, server: ServerId, identifier: &str) -> bool {
        self.abilities(server).is_some_and(|it| !it.has_identifier(identifier))
    }
}

/// `OWN@MEMBER`.
fn qualified(identifier: &str) -> Option<(&str, &str)> {
    identifier.rsplit_once('@')
}

impl Mux {
    /// An answer of one member to the editor with commands as the editor calls them, and without actions that the member
    /// is not used for. `None`: as it is.
    pub(in crate::core::mux) fn told_by_member(
        &mut self,
        pending: &Pending,
        answer: &Frame,
    ) -> Option<Frame> {
        let To::Process(process) = pending.to else { return None };
        let server = self.backend(process.backend)?.server;
        let group = self.group.as_deref_mut()?;
        group.note_makers(server, pending.frame.method().unwrap_or_default(), answer);
        let told = group.with_told_commands(Some(server), pending, answer);
        let allowed = group.allowed_actions(Some(server), pending, told.as_ref().unwrap_or(answer));
        allowed.or(told)
    }

    /// A member has answered a pull of the editor. `None`: it is no answer to one, or no report.
    pub(super) fn note_report(
        &mut self,
        process: ProcessId,
        pending: &Pending,
        answer: &Frame,
    ) -> Option<Noted> {
        let now = self.now();
        let params = pending.frame.params().filter(|_| pending.frame.method() == Some(PULL))?;
        let server = self.backend(process.backend)?.server;
        let group = self.group.as_deref_mut()?;
        let (uri, rank) = (uri(params, "textDocument")?, group.rank(server)?);
        let Some(result) = answer.result() else {
            let has_findings = group.reports.has_findings(rank, &uri);
            group.refreshes.note_failed(now, rank, answer, has_findings);
            return None;
        };
        group.refreshes.note_reported(rank);
        Some(group.reports.note((process, rank), &uri, result))
    }
}

const PULL: &str = "textDocument/diagnostic";
