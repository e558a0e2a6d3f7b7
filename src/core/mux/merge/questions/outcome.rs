//! What a question has come to, by what its parts say.

use std::{ops::Range, time::Duration};

use tracing::warn;

use super::{Asking, COMMAND, Outcome, PREPARE_RENAME, Question, RENAME, Slot};
use crate::{
    core::{
        event::ServerId,
        mux::{
            failure::error_code,
            merge::{
                answers::{self, Part},
                group::Group,
                known::Known,
                methods::Plan,
                owners::{Maker, tag_answer},
            },
        },
    },
    rpc::{Frame, RawId, elements, path, text},
};

impl Question {
    pub(super) fn method(&self) -> &str {
        self.frame.method().unwrap_or_default()
    }

    /// How long the others are waited for once a member has said something. What is done before a file is saved is
    /// waited for.
    pub(super) fn budget(&self, group: &Group) -> Option<Duration> {
        let params = self.frame.params().unwrap_or(b"{}");
        let only = path(params, &["context", "only"]).map_or(&b"[]"[..], |it| &params[it]);
        let is_source = |it: Range<usize>| text(&only[it], &[]).is_some_and(|it| it.starts_with("source"));
        let is_on_save = self.method() == "textDocument/codeAction" && elements(only).any(is_source);
        group.budget(self.row.filter(|_| !is_on_save)?)
    }

    /// What has come of it. `is_over`: nobody is waited for any more.
    pub(super) fn outcome(&self, is_over: bool, group: &Group) -> Outcome {
        match self.asking {
            Asking::First => self.first(is_over, group),
            Asking::All(answers::Shape::Diagnostics) => self.report(is_over, group),
            Asking::All(shape) => self.all(is_over, shape, group),
            Asking::InTurn => self.in_turn(),
        }
    }

    /// The best member that has something to say.
    fn best_speaker(&self) -> Option<ServerId> {
        let says = |(_, slot): &&(ServerId, Slot)| matches!(slot, Slot::Answered { is_empty: false, .. });
        self.parts.iter().find(says).map(|it| it.0)
    }

    /// Whether a member has something to say.
    pub(super) fn has_answer(&self) -> bool {
        self.best_speaker().is_some()
    }

    /// What the answer shows of the member that has given it.
    pub(super) fn teach(&self, known: &mut Known) {
        let Some(server) = self.best_speaker() else { return };
        match self.method() {
            PREPARE_RENAME => known.note_rename(self.frame.params().unwrap_or(b"{}"), server),
            method if self.row.is_none() => known.note_method(method, server),
            _ => {}
        }
    }

    fn is_open(slot: &Slot) -> bool {
        matches!(slot, Slot::Open | Slot::Waiting)
    }

    fn first(&self, is_over: bool, group: &Group) -> Outcome {
        for (server, slot) in &self.parts {
            match slot {
                Slot::Answered { is_empty: false, answer, maker } => {
                    return Outcome::Answer(self.best(*server, answer, *maker, group));
                }
                Slot::Open | Slot::Waiting if !is_over => return Outcome::Open,
                Slot::Open | Slot::Waiting | Slot::Answered { .. } | Slot::Failed(_) => {}
            }
        }
        Outcome::Answer(self.nothing())
    }

    /// The answer of one member, in the editor's terms for all members.
    fn best(&self, server: ServerId, answer: &Frame, maker: Maker, group: &Group) -> Frame {
        match self.row.map(|it| it.plan) {
            Some(Plan::All(shape)) if Question::is_of_all(shape, server, group) => {
                self.merged(shape, &[(server, answer, maker)], false, group)
            }
            Some(_) | None => self.plain(answer, maker),
        }
    }

    /// Whether even a single answer refers to the merged capabilities.
    fn is_of_all(shape: answers::Shape, server: ServerId, group: &Group) -> bool {
        match shape {
            answers::Shape::SemanticTokens => true,
            answers::Shape::Completion => group.commit_characters(server).is_some(),
            _ => false,
        }
    }

    fn all(&self, is_over: bool, shape: answers::Shape, group: &Group) -> Outcome {
        let is_late = self.parts.iter().any(|(_, slot)| Self::is_open(slot));
        if is_late && !is_over {
            return Outcome::Open;
        }
        let full: Vec<(ServerId, &Frame, Maker)> = self
            .parts
            .iter()
            .filter_map(|(server, slot)| match slot {
                Slot::Answered { answer, maker, is_empty: false } => Some((*server, answer, *maker)),
                Slot::Answered { .. } | Slot::Waiting | Slot::Open | Slot::Failed(_) => None,
            })
            .collect();
        match full[..] {
            [] => return Outcome::Answer(self.nothing()),
            [(server, answer, maker)] if !is_late && !Question::is_of_all(shape, server, group) => {
                return Outcome::Answer(self.plain(answer, maker));
            }
            _ => {}
        }
        Outcome::Answer(self.merged(shape, &full, is_late, group))
    }

    fn merged(
        &self,
        shape: answers::Shape,
        full: &[(ServerId, &Frame, Maker)],
        is_late: bool,
        group: &Group,
    ) -> Frame {
        let parts: Vec<Part<'_>> = full
            .iter()
            .map(|(server, answer, maker)| Part {
                result: answer.result().unwrap_or(b"null"),
                maker: self.tags.then_some(*maker),
                commit_characters: group.commit_characters(*server),
            })
            .collect();
        let legends = match shape {
            answers::Shape::SemanticTokens => group.legends_of(full.iter().map(|it| it.0)),
            _ => None,
        };
        let merged = answers::merge(shape, self.method(), &parts, &group.client, is_late, legends.as_ref());
        for at in merged.malformed {
            warn!(method = self.method(), at, "an answer has another shape than it should; it is left out");
        }
        for at in merged.overlapping {
            warn!(method = self.method(), at, "edits overlap those of a better member; they are left out");
        }
        Frame::response(self.id.clone().into(), &merged.result)
    }

    /// What members do not say now, they have said before.
    fn report(&self, is_over: bool, group: &Group) -> Outcome {
        if !is_over && self.parts.iter().any(|(_, slot)| Self::is_open(slot)) {
            return Outcome::Open;
        }
        let members = self.parts.iter().filter_map(|(server, _)| group.rank(*server)).collect();
        let said = |(server, slot): &'_ (ServerId, Slot)| match slot {
            Slot::Answered { answer, .. } => Some((group.rank(*server)?, answer.result()?.to_vec())),
            Slot::Waiting | Slot::Open | Slot::Failed(_) => None,
        };
        let said: Vec<(usize, Vec<u8>)> = self.parts.iter().filter_map(said).collect();
        let said: Vec<(usize, &[u8])> = said.iter().map(|(rank, it)| (*rank, &it[..])).collect();
        let params = self.frame.params().unwrap_or(b"{}");
        match group.reports.answer(params, &members, &said, &group.client) {
            Some(report) => Outcome::Answer(Frame::response(self.id.clone().into(), &report)),
            None => Outcome::Answer(self.nothing()),
        }
    }

    /// A member that does not know what is asked passes it on, and so does one that has nothing to say where that cannot
    /// be a result.
    fn in_turn(&self) -> Outcome {
        let is_command = self.method() == COMMAND;
        let passes_empty = self.row.is_none() || self.method() == RENAME;
        for (n, (_, slot)) in self.parts.iter().enumerate() {
            match slot {
                Slot::Open => return Outcome::Open,
                Slot::Waiting => return Outcome::Next(n),
                Slot::Answered { answer, maker, is_empty } if !(*is_empty && passes_empty) => {
                    return Outcome::Answer(self.plain(answer, *maker));
                }
                Slot::Failed(error) if !passes_on(error, is_command) && self.method() != RENAME => {
                    return Outcome::Answer(error.with_id(self.id.clone().into()));
                }
                Slot::Answered { .. } | Slot::Failed(_) => {}
            }
        }
        Outcome::Answer(self.nothing())
    }

    /// One member's answer, as it came but for tags.
    fn plain(&self, answer: &Frame, maker: Maker) -> Frame {
        let answer = answer.with_id(self.id.clone().into());
        match answer.result() {
            Some(result) if self.tags => answer.with_result(&tag_answer(self.method(), result, maker)),
            Some(_) | None => answer,
        }
    }

    /// Nobody has said anything: the best empty answer, else the best error.
    fn nothing(&self) -> Frame {
        let answers = self.parts.iter().filter_map(|(_, slot)| match slot {
            Slot::Answered { answer, .. } => Some(answer),
            Slot::Waiting | Slot::Open | Slot::Failed(_) => None,
        });
        let errors = || {
            self.parts.iter().filter_map(|(_, slot)| match slot {
                Slot::Failed(error) => Some(error),
                Slot::Waiting | Slot::Open | Slot::Answered { .. } => None,
            })
        };
        let known = || errors().find(|it| !passes_on(it, false));
        let id: RawId = self.id.clone().into();
        match answers.into_iter().next().or_else(known).or_else(|| errors().next()) {
            Some(frame) => frame.with_id(id),
            None => Frame::response(id, b"null"),
        }
    }
}

/// Whether an error says that another member may know. A command that a server does not know is a wrong parameter.
fn passes_on(error: &Frame, is_command: bool) -> bool {
    match error_code(error) {
        Some(-32601) => true,
        Some(-32602) => is_command,
        Some(_) | None => false,
    }
}
