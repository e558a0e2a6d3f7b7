//! Answers in both directions: back to whoever asked, under the id it knows.

use tracing::{debug, warn};

use super::Mux;
use crate::{
    core::{
        event::{Peer, ProcessId},
        ids::ConversationId,
        mux::requests::{Owner, Pending},
        purpose::{Purpose, SentId},
    },
    rpc::{Frame, Patch, elements, path},
};

/// The commands that an answer to `initialize` offers.
const COMMANDS: [&str; 3] = ["capabilities", "executeCommandProvider", "commands"];

impl Mux {
    /// The request that a server's answer belongs to.
    pub(crate) fn take_answered_by_server(
        &mut self,
        process: ProcessId,
        answer: &Frame,
    ) -> Option<(SentId, Pending)> {
        let found = answer.id().and_then(|id| self.requests.take_answered(&id, Peer::Backend(process)));
        if found.is_none() {
            debug!(?answer, "dropped: an answer that nobody waits for");
        }
        found
    }

    /// Answers the client that has asked.
    pub(crate) fn answer_client(&mut self, pending: &Pending, answer: &Frame) {
        if let Owner::Client(client, wire) = &pending.owner {
            let bridged = self.of_successor(pending, answer);
            let answer = bridged.as_ref().unwrap_or(answer);
            let told = match pending.purpose {
                Purpose::Initialize => self.with_commands(answer).with_id(wire.clone().into()),
                _ => answer.with_id(wire.clone().into()),
            };
            self.send(Peer::Client(*client), told);
        }
    }

    /// Passes an answer of a server on to whoever has asked.
    pub(crate) fn pass_answer(&mut self, process: ProcessId, pending: &Pending, answer: &Frame) {
        self.close_token(process, pending, answer);
        self.answer_client(pending, answer);
        self.note_answered(process, pending, answer);
    }

    /// Notes what a process has answered a client, if it took the place of another.
    pub(crate) fn note_answered(&mut self, process: ProcessId, pending: &Pending, answer: &Frame) {
        if process.generation.0 > 1
            && matches!(pending.owner, Owner::Client(..))
            && let Some(result) = answer.result()
        {
            self.note_answered_by_successor(process, &pending.frame, result);
        }
    }

    /// The answer to `initialize` with lspool's own commands: some editors run only what is offered there, also among
    /// those that do not say that they run commands.
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

    /// Ends what a request has begun under its token, unless the server has ended it. `subject`: the conversation that
    /// the request is about; `error`: a raw message.
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

    /// The request that an answer of the editor's belongs to.
    pub(crate) fn take_answered_by_editor(&mut self, answer: &Frame) -> Option<(SentId, Pending)> {
        let found = answer.id().and_then(|id| self.requests.take_answered(&id, Peer::EDITOR));
        if found.is_none() {
            debug!(?answer, "dropped: an answer of the editor that nobody waits for");
        }
        found
    }

    /// Whether the process still runs that is to be told this answer.
    pub(crate) fn is_waited_for(&self, process: ProcessId, answer: &Frame) -> bool {
        let is_current = self.is_current(process);
        if !is_current {
            warn!(frame = ?answer, "dropped: the process that asked is gone");
        }
        is_current
    }

    /// Answers what a process has asked the editor.
    pub(crate) fn answer_server(&mut self, pending: &Pending, answer: &Frame) {
        let Owner::Backend(process, wire) = &pending.owner else { return };
        if !self.is_waited_for(*process, answer) {
            return;
        }
        self.release_token(*process, &pending.frame);
        let told = match &pending.purpose {
            Purpose::Configuration { sections } => one_by_section(answer, sections.len()),
            _ => None,
        };
        self.tell(*process, told.unwrap_or_else(|| answer.clone()).with_id(wire.clone().into()));
    }
}

/// The answer to `workspace/configuration` with one value per section. `None`: it has that.
fn one_by_section(answer: &Frame, n_sections: usize) -> Option<Frame> {
    let values = section_values(answer, n_sections);
    (given_values(answer).count() != n_sections).then(|| with_values(answer, &values)).flatten()
}

fn given_values(answer: &Frame) -> impl Iterator<Item = &[u8]> {
    let given = answer.result().unwrap_or(b"[]");
    elements(given).map(|range| &given[range])
}

/// The values of an answer to `workspace/configuration`, one per section whatever the editor says.
pub(crate) fn section_values(answer: &Frame, n_sections: usize) -> Vec<&[u8]> {
    given_values(answer).chain(std::iter::repeat(&b"null"[..])).take(n_sections).collect()
}

/// The answer to `workspace/configuration` with these values.
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
