//! Answers in both directions: back to whoever asked, under the id it knows.

use std::time::Instant;

use tracing::{debug, warn};

use crate::core::{PRIMARY, Proxy};
use crate::{
    core::{
        backend::Backend,
        event::{Effect, Effects, Peer, ProcessId},
        requests::{Owner, Pending, Purpose, SentId},
        session::{CHECK_STATUS, mcp_servers, section_without_foreign_mcp},
        toolset::ToolSet,
    },
    rpc::{Frame, elements, member},
};

/// Requests that are answered with the MCP servers there are, and their tools.
const MCP_LISTS: [&str; 2] = ["mcp/getTools", "mcp/updateToolsStatus"];

impl Proxy {
    pub(crate) fn on_backend_answer(
        &mut self,
        now: Instant,
        process: ProcessId,
        frame: &Frame,
        out: &mut Effects,
    ) {
        let found = frame.id().and_then(|id| self.requests.answered(&id, Peer::Backend(process)));
        let Some((sent, pending)) = found else {
            return debug!(?frame, "dropped: an answer that nobody waits for");
        };
        if self.ask_as_text(process, sent, &pending, frame, out) {
            return;
        }
        let Some(pending) = self.rest_for_results(now, sent, pending, frame, out) else { return };
        self.end_before(&pending, frame, out);
        self.close_token(process, &pending);
        if let Owner::Client(client, wire) = &pending.owner {
            let answer = match &pending.purpose {
                Purpose::Plain => {
                    let told = self.deleted(&pending, frame);
                    let told = told.or_else(|| self.without_modes(&pending, frame));
                    told.as_ref().unwrap_or(frame).with_id(wire.clone())
                }
                Purpose::Initialize => self.with_commands(frame).with_id(wire.clone()),
                _ => frame.with_id(wire.clone()),
            };
            out.push(Effect::Send(Peer::Client(*client), answer));
        }
        if process.generation.0 > 1 && matches!(pending.owner, Owner::Client(..)) {
            self.note_answered_by_successor(process, &pending.frame, frame);
        }
        if process.backend == PRIMARY
            && pending.frame.method().is_some_and(|it| MCP_LISTS.contains(&it))
            && let Some(result) = frame.result()
        {
            let servers = member(result, "servers").map_or(result, |range| &result[range]);
            self.learn_mcp(servers, out);
        }
        if pending.frame.method() == Some("conversation/compress") {
            self.on_compressed(&pending.frame, frame);
        }
        match pending.purpose {
            Purpose::Plain | Purpose::ToolCall { .. } | Purpose::Configuration { .. } => {}
            Purpose::Offer(_) | Purpose::Allow(_) => {}
            Purpose::Initialize => self.on_initialized(now, process, frame, out),
            Purpose::Turn { conversation, create, .. } => {
                self.on_turn_answered(process, sent, &conversation, create, frame, out);
            }
            Purpose::Tools(change) => {
                self.on_tools_answered(&change, frame.result().is_some(), out);
                if let Some(offered) = frame.result() {
                    self.learn_offered(offered, out);
                }
            }
            Purpose::Mode(ask) => self.on_mode_answered(process, ask, Some(frame), out),
            // It has been told to end, and is told nothing more.
            Purpose::Project | Purpose::Narrow
                if !self.backend(process.backend).is_some_and(Backend::goes_on) => {}
            Purpose::Project => self.on_projected(now, process, frame, out),
            Purpose::Narrow => self.on_narrowed(process, frame, out),
            Purpose::SignIn => {
                if frame.result().is_some() {
                    self.check_status_elsewhere(out);
                }
            }
            Purpose::Shutdown => self.on_shutdown_progress(out),
        }
    }

    /// A request failed although its process lives on.
    pub(crate) fn on_lost_answer(
        &mut self,
        process: ProcessId,
        sent: SentId,
        pending: Pending,
        out: &mut Effects,
    ) {
        self.close_token(process, &pending);
        match pending.purpose {
            Purpose::Tools(_) => self.tool_change_undecided(false, out),
            Purpose::Turn { conversation, .. } => self.end_turn(&conversation, sent, out),
            // Without these a process cannot be used.
            Purpose::Initialize | Purpose::Project | Purpose::Narrow => self.condemn(process, None, out),
            Purpose::Shutdown => self.on_shutdown_progress(out),
            Purpose::Mode(ask) => self.on_mode_answered(process, ask, None, out),
            Purpose::Plain
            | Purpose::SignIn
            | Purpose::ToolCall { .. }
            | Purpose::Configuration { .. }
            | Purpose::Offer(_)
            | Purpose::Allow(_) => {}
        }
    }

    /// What a request has begun under its token is over. Of `initialize` a server may go on to tell.
    fn close_token(&mut self, process: ProcessId, pending: &Pending) {
        let conversation = match &pending.purpose {
            Purpose::Turn { conversation, .. } => Some(conversation),
            Purpose::Initialize => return,
            _ => None,
        };
        self.tokens.closed(process.backend, pending.frame.params().unwrap_or(b"{}"), conversation);
    }

    /// A request was cancelled before any process had seen it.
    pub(crate) fn on_never_sent(&mut self, pending: &Pending, sent: SentId, out: &mut Effects) {
        match &pending.purpose {
            Purpose::Tools(_) => self.tool_change_undecided(false, out),
            Purpose::Turn { conversation, create, .. } => {
                self.on_turn_failed(conversation, sent, *create, out);
            }
            Purpose::Initialize
            | Purpose::Project
            | Purpose::Narrow
            | Purpose::Mode(_)
            | Purpose::Shutdown => {}
            Purpose::Plain
            | Purpose::SignIn
            | Purpose::ToolCall { .. }
            | Purpose::Configuration { .. }
            | Purpose::Offer(_)
            | Purpose::Allow(_) => {}
        }
    }

    /// A process that looks at its sign-in again finds what another one has stored, or taken away.
    pub(crate) fn check_status_elsewhere(&mut self, out: &mut Effects) {
        for id in self.partitions_with_session() {
            self.await_mcp_again(id);
            self.ask_backend(id, Purpose::Plain, CHECK_STATUS.0, CHECK_STATUS.1, out);
        }
    }

    pub(crate) fn on_editor_answer(&mut self, now: Instant, frame: &Frame, out: &mut Effects) {
        let found = frame.id().and_then(|id| self.requests.answered(&id, crate::core::EDITOR));
        let Some((sent, pending)) = found else {
            return debug!(?frame, "dropped: an answer of the editor that nobody waits for");
        };
        if let Purpose::Offer(backend) = pending.purpose {
            return self.on_offer_answered(now, backend, frame, out);
        }
        self.on_question_answered(now, sent, pending, frame, out);
    }

    /// What a process has asked, or has asked while it was there, is answered: by the editor, or by one of lspool's own tools.
    pub(crate) fn on_question_answered(
        &mut self,
        now: Instant,
        sent: SentId,
        pending: Pending,
        frame: &Frame,
        out: &mut Effects,
    ) {
        let Owner::Backend(process, wire) = pending.owner else {
            return self.on_late_answer(now, sent, pending, Some(frame), out);
        };
        if !self.is_current(process) {
            return warn!(?frame, "dropped: the process that asked is gone");
        }
        match &pending.purpose {
            Purpose::ToolCall { conversation: Some(id), confirmation: false } => {
                self.on_tool_answered(id, &pending.frame, Some(frame));
            }
            Purpose::ToolCall { conversation: Some(id), confirmation: true } => {
                self.on_confirmed(id, &pending.frame, frame);
            }
            _ => {}
        }
        self.release_token(process, &pending.frame);
        let answer = match &pending.purpose {
            Purpose::Configuration { sections } => {
                self.session.pulled(sections, frame.result().unwrap_or(b"[]"));
                let set = self.backend(process.backend).map_or_else(ToolSet::all, |it| it.set.clone());
                let keeping = |it| self.session.keeping_section(it);
                let answer = configuration(frame, sections, &set, keeping).unwrap_or_else(|| frame.clone());
                if let Some(servers) = answered_mcp_servers(&answer, sections) {
                    self.await_mcp(process.backend, servers);
                }
                answer
            }
            _ => frame.clone(),
        };
        out.push(Effect::Send(Peer::Backend(process), answer.with_id(wire)));
    }
}

/// The MCP servers that an answer to `workspace/configuration` names, if it is about them.
fn answered_mcp_servers(answer: &Frame, sections: &[Option<String>]) -> Option<Vec<String>> {
    let values = answer.result()?;
    let at = sections.iter().position(|it| it.as_deref() == Some("github.copilot"))?;
    mcp_servers(&values[elements(values).nth(at)?])
}

/// The answer to `workspace/configuration`: one value per section, without the MCP servers that the set has no use
/// for. `None`: it is right as it is.
fn configuration(
    frame: &Frame,
    sections: &[Option<String>],
    set: &ToolSet,
    keeping: impl Fn(Vec<u8>) -> Vec<u8>,
) -> Option<Frame> {
    let answer = frame.result().unwrap_or(b"[]");
    let given: Vec<&[u8]> = elements(answer).map(|range| &answer[range]).collect();
    let mut changed = given.len() != sections.len();
    let mut values = Vec::with_capacity(sections.len());
    for (n, section) in sections.iter().enumerate() {
        let value = given.get(n).copied().unwrap_or(b"null");
        let kept = match section.as_deref() {
            Some("github.copilot") => keeping(section_without_foreign_mcp(value, set)),
            Some("github") => match member(value, "copilot") {
                Some(range) => {
                    let mut kept = value.to_vec();
                    kept.splice(range.clone(), keeping(section_without_foreign_mcp(&value[range], set)));
                    kept
                }
                None => value.to_vec(),
            },
            Some(_) | None => value.to_vec(),
        };
        changed |= kept != value;
        values.push(kept);
    }
    let result = [b"[".as_slice(), &values.join(b",".as_slice()), b"]"].concat();
    let id = frame.id()?;
    changed.then(|| match frame.result() {
        Some(_) => frame.with_result(&result),
        None => Frame::response(id, &result),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::RawId;

    fn repaired(result: &str, sections: &[&str]) -> Option<String> {
        let sections: Vec<_> = sections.iter().map(|it| Some((*it).to_owned())).collect();
        let frame = Frame::response(RawId::from(1), result.as_bytes());
        let set = ToolSet::new::<&str>(Some(&[]), &[]);
        let fixed = configuration(&frame, &sections, &set, |it| it)?;
        Some(String::from_utf8_lossy(fixed.result()?).into_owned())
    }

    #[test]
    fn configuration_answer_gets_one_value_per_section() {
        assert_eq!(repaired("[1,2]", &["a", "b"]), None);
        assert_eq!(repaired("[1]", &["a", "b"]).as_deref(), Some("[1,null]"));
        assert_eq!(repaired("null", &["a", "b"]).as_deref(), Some("[null,null]"));
        assert_eq!(repaired("{}", &["a"]).as_deref(), Some("[null]"));
    }

    #[test]
    fn restricted_partition_gets_no_foreign_mcp_servers() {
        let answer = repaired(r#"[{"mcp":"{\"x\":{}}","a":1},null]"#, &["github.copilot", "http"]);
        assert_eq!(answer.as_deref(), Some(r#"[{"mcp":"{}","a":1},null]"#));
    }
}
