//! Progress reports of a server, parsed once. Most reports of a Copilot server add a few words to an answer.

mod shapes;

pub(crate) use self::shapes::{ReplyDelta, Shapes};
use crate::core::ids::{ConversationId, Token, TurnId};
use crate::rpc::{elements, values};

/// The parameters of `$/progress`. Values are raw JSON.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProgressReport<'a> {
    pub(crate) token: Option<&'a [u8]>,
    pub(crate) kind: Option<&'a [u8]>,
    conversation: Option<&'a [u8]>,
    turn: Option<&'a [u8]>,
    caller: Option<&'a [u8]>,
    pub(crate) report: Report<'a>,
    /// Whether it reports the token count, which comes last.
    pub(crate) is_counted: bool,
}

/// The part of a report for the answer of a turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Report<'a> {
    pub(crate) reply: Option<&'a [u8]>,
    rounds: Option<&'a [u8]>,
    pub(crate) thinking: Option<&'a [u8]>,
}

/// A round of an answer: text and tool calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round<'a> {
    pub(crate) id: u64,
    pub(crate) reply: Option<&'a [u8]>,
    calls: Option<&'a [u8]>,
}

impl<'a> Report<'a> {
    /// Its rounds with numbers.
    pub(crate) fn rounds(&self) -> impl Iterator<Item = Round<'a>> + use<'a> {
        let rounds = self.rounds.unwrap_or_default();
        elements(rounds).filter_map(|range| {
            let [id, reply, calls] = values(&rounds[range], ["roundId", "reply", "toolCalls"]);
            Some(Round { id: serde_json::from_slice(id?).ok()?, reply, calls })
        })
    }
}

impl<'a> Round<'a> {
    pub(crate) fn calls(self) -> impl Iterator<Item = &'a [u8]> {
        let calls = self.calls.unwrap_or_default();
        elements(calls).map(|range| &calls[range])
    }
}

impl<'a> ProgressReport<'a> {
    pub(crate) fn of(params: &'a [u8]) -> ProgressReport<'a> {
        let [token, value] = values(params, ["token", "value"]);
        let Some(value) = value else { return ProgressReport { token, ..ProgressReport::default() } };
        let keys = [
            "kind",
            "conversationId",
            "turnId",
            "parentTurnId",
            "reply",
            "editAgentRounds",
            "thinking",
            "tokenUsage",
        ];
        let [kind, conversation, turn, caller, reply, rounds, thinking, usage] = values(value, keys);
        let report = Report { reply, rounds, thinking };
        ProgressReport { token, kind, conversation, turn, caller, report, is_counted: usage.is_some() }
    }

    /// The token, if it is valid.
    pub(crate) fn token(&self) -> Option<Token> {
        Token::from_raw(self.token?)
    }

    /// Its conversation and turn, if any.
    pub(crate) fn turn(&self) -> Option<(ConversationId, TurnId)> {
        Some((self.conversation()?, TurnId::from_raw(self.turn?)?))
    }

    pub(crate) fn conversation(&self) -> Option<ConversationId> {
        ConversationId::from_raw(self.conversation?)
    }

    /// The turn that has called the reporting sub-agent.
    pub(crate) fn caller(&self) -> Option<TurnId> {
        TurnId::from_raw(self.caller?)
    }
}
