//! Progress reports of a server, parsed once. Most that a Copilot server sends are a few words of an answer.

mod shapes;

pub(crate) use self::shapes::{ReplyDelta, Shapes};
use crate::core::ids::{ConversationId, Token, TurnId};
use crate::rpc::{elements, values};

/// Parameters of `$/progress`. Values are raw JSON.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProgressReport<'a> {
    pub(crate) token: Option<&'a [u8]>,
    pub(crate) kind: Option<&'a [u8]>,
    conversation: Option<&'a [u8]>,
    turn: Option<&'a [u8]>,
    caller: Option<&'a [u8]>,
    pub(crate) report: Report<'a>,
    /// The report says what the turn has cost, which is the last that is said.
    pub(crate) is_counted: bool,
}

/// What a report adds to the answer of a turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Report<'a> {
    pub(crate) reply: Option<&'a [u8]>,
    rounds: Option<&'a [u8]>,
    pub(crate) thinking: Option<&'a [u8]>,
}

/// A round of an answer: text, and calls of tools.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round<'a> {
    pub(crate) id: u64,
    pub(crate) reply: Option<&'a [u8]>,
    calls: Option<&'a [u8]>,
}

impl<'a> Report<'a> {
    /// Its rounds, but those without a number.
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

    /// The token, if it is one.
    pub(crate) fn token(&self) -> Option<Token> {
        Token::from_raw(self.token?)
    }

    /// The conversation and the turn that it belongs to, if it belongs to any.
    pub(crate) fn turn(&self) -> Option<(ConversationId, TurnId)> {
        Some((self.conversation()?, TurnId::from_raw(self.turn?)?))
    }

    pub(crate) fn conversation(&self) -> Option<ConversationId> {
        ConversationId::from_raw(self.conversation?)
    }

    /// The turn that has called the sub-agent that speaks.
    pub(crate) fn caller(&self) -> Option<TurnId> {
        TurnId::from_raw(self.caller?)
    }
}
