//! Answers in both directions, under the id that the asking peer knows.

use tracing::{debug, warn};

use super::Mux;
use crate::{
    core::{
        event::{Peer, ProcessId},
        ids::ConversationId,
        mux::requests::{Owner, Pending, To},
        purpose::{Purpose, SentId},
    },
    rpc::{Frame, Patch, elements, path},
};

/// The path to the commands in an answer to `initialize`.
const COMMANDS: [&str; 3] = ["capabilities", "executeCommandProvider", "commands"];

impl Mux {
    /// Takes the request of a server's answer.
    pub(crate) fn take_answered_by_server(
        &mut self,
        process: ProcessId,
        answer: &Frame,
    ) -> Option<(SentId, Pending)> {
        let found = answer.id().and_then(|id| self.requests.take_answered(&id, Peer::Backend(process)));
        if found.is_none() {
            debug!(?answer, "dropped: answer without a request");
        }
        found
    }

    /// Answers the client of a request.
    pub(crate) fn answer_client(&mut self, pending: &Pending, answer: &Frame) {
        let bridged = if pending.owner.is_client() { self.of_successor(pending, answer) } else { None };
        let answer = bridged.as_ref().unwrap_or(answer);
        if let Owner::Client(client, wire) = &pending.owner {
            let renamed = self.told_by_member(pending, answer);
            let answer = renamed.as_ref().unwrap_or(answer);
            let told = match pending.purpose {
                Purpose::Initialize => self.with_commands(answer).with_id(wire.clone().into()),
                _ => answer.with_id(wire.clone().into()),
            };
            self.send(Peer::Client(*client), told);
        } else if let (Owner::Part(_), To::Process(process)) = (&pending.owner, pending.to) {
            self.on_part(process, pending, answer);
        }
    }

    /// Forwards a server's answer to the client.
    pub(crate) fn pass_answer(&mut self, process: ProcessId, pending: &Pending, answer: &Frame) {
        self.close_token(process, pending, answer);
        self.on_pulled(process, pending, answer);
        self.on_relayed(pending, answer);
        self.answer_client(pending, answer);
        self.note_answered(process, pending, answer);
    }

    /// Notes the answer of a process that is not the first of its backend.
    pub(crate) fn note_answered(&mut self, process: ProcessId, pending: &Pending, answer: &Frame) {
        if process.generation.0 > 1
            && pending.owner.is_client()
            && let Some(result) = answer.result()
        {
            self.note_answered_by_successor(process, &pending.frame, result);
        }
    }

    /// Adds lspool's commands to the answer to `initialize`: some editors run only offered commands, even if they do
    /// not say that they run commands.
    pub(super) fn with_commands(&self, answer: &Frame) -> Frame {
        let (Some(result), Some(server)) = (answer.result(), self.servers.first()) else {
            return answer.clone();
        };
        let known = path(result, &COMMANDS).map_or(&b"[]"[..], |range| &result[range]);
        let own = server.commands.iter().map(|it| serde_json::json!(it).to_string());
        let theirs = elements(known).map(|range| String::from_utf8_lossy(&known[range]).into_owned());
        let all = theirs.chain(own).collect::<Vec<_>>().join(",");
        answer.with_result(&Patch::of(result).set_path(&COMMANDS, format!("[{all}]").as_bytes()).finish())
    }

    /// A request is answered. Of what it has begun under its token a server may go on to tell, unless it has failed.
    pub(crate) fn close_token(&mut self, process: ProcessId, pending: &Pending, answer: &Frame) {
        if matches!(pending.purpose, Purpose::Initialize) {
            return;
        }
        let params = pending.frame.params().unwrap_or(b"{}");
        match answer.error_value() {
            Some(_) => drop(self.tokens.closed(process.backend, params, None, None)),
            None => self.tokens.answered_before_end(process.backend, params),
        }
    }

    /// Ends the progress of a request, unless the server has ended it. `subject` is the conversation of the request,
    /// `error` a raw message.
    pub(crate) fn end_token(
        &mut self,
        process: ProcessId,
        pending: &Pending,
        subject: Option<&ConversationId>,
        error: Option<&[u8]>,
    ) {
        let params = pending.frame.params().unwrap_or(b"{}");
        if !matches!(pending.purpose, Purpose::Initialize)
            && let Some(end) = self.tokens.closed(process.backend, params, subject, error)
        {
            self.tell_editor(Frame::notification("$/progress", Some(&end)));
        }
    }

    /// Takes the request of an editor's answer.
    pub(crate) fn take_answered_by_editor(&mut self, answer: &Frame) -> Option<(SentId, Pending)> {
        let found = answer.id().and_then(|id| self.requests.take_answered(&id, Peer::EDITOR));
        if found.is_none() {
            debug!(?answer, "dropped: answer of the editor without a request");
        }
        found
    }

    /// Whether the process for this answer still runs.
    pub(crate) fn is_waited_for(&self, process: ProcessId, answer: &Frame) -> bool {
        let is_current = self.is_current(process);
        if !is_current {
            warn!(frame = ?answer, "dropped: the process that asked is gone");
        }
        is_current
    }

    /// Answers the request of a process.
    pub(crate) fn answer_server(&mut self, pending: &Pending, answer: &Frame) {
        let Owner::Backend(process, wire) = &pending.owner else { return };
        if !self.is_waited_for(*process, answer) {
            return;
        }
        self.release_token(*process, &pending.frame);
        let told = match &pending.purpose {
            Purpose::Configuration { sections } => {
                let values = section_values(answer, sections.len());
                let server = self.backend(process.backend).map(|it| it.server);
                match server.and_then(|it| self.configured(it, sections, &values)) {
                    Some(values) => with_values(answer, &values),
                    None => one_by_section(answer, sections.len()),
                }
            }
            _ => None,
        };
        self.tell(*process, told.unwrap_or_else(|| answer.clone()).with_id(wire.clone().into()));
    }
}

/// Pads an answer to `workspace/configuration` to one value per section. `None`: it is complete.
fn one_by_section(answer: &Frame, n_sections: usize) -> Option<Frame> {
    let values = section_values(answer, n_sections);
    (given_values(answer).count() != n_sections).then(|| with_values(answer, &values)).flatten()
}

fn given_values(answer: &Frame) -> impl Iterator<Item = &[u8]> {
    let given = answer.result().unwrap_or(b"[]");
    elements(given).map(|range| &given[range])
}

/// The values of an answer to `workspace/configuration`, one per section, for any answer.
pub(crate) fn section_values(answer: &Frame, n_sections: usize) -> Vec<&[u8]> {
    given_values(answer).chain(std::iter::repeat(&b"null"[..])).take(n_sections).collect()
}

/// Replaces the values of an answer to `workspace/configuration`.
pub(crate) fn with_values<T: AsRef<[u8]>>(answer: &Frame, values: &[T]) -> Option<Frame> {
    let values: Vec<&[u8]> = values.iter().map(AsRef::as_ref).collect();
    let result = [b"[".as_slice(), &values.join(b",".as_slice()), b"]"].concat();
    Some(match answer.result() {
        Some(_) => answer.with_result(&result),
        None => Frame::response(answer.id()?, &result),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::RawId;

    fn repaired(result: &str, n_sections: usize) -> Option<String> {
        let frame = Frame::response(RawId::from(1), result.as_bytes());
        let fixed = one_by_section(&frame, n_sections)?;
        Some(String::from_utf8_lossy(fixed.result()?).into_owned())
    }

    #[test]
    fn configuration_answer_gets_one_value_per_section() {
        assert_eq!(repaired("[1,2]", 2), None);
        assert_eq!(repaired("[1]", 2).as_deref(), Some("[1,null]"));
        assert_eq!(repaired("null", 2).as_deref(), Some("[null,null]"));
        assert_eq!(repaired("{}", 1).as_deref(), Some("[null]"));
    }
}
