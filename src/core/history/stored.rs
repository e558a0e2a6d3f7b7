//! A history as it is stored where it outlives lspool.

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::{Call, History, Round, Status, Thinking, Tool, Turn};
use crate::{
    core::recovery::CONTINUE,
    rpc::{Patch, RawId},
};

/// Raw JSON is kept as text, so that it comes back as it was.
#[derive(Serialize, Deserialize)]
struct Stored {
    create: String,
    turns: Vec<StoredTurn>,
    /// The last turn goes on.
    is_running: bool,
}

#[derive(Serialize, Deserialize)]
struct StoredTurn {
    id: String,
    request: String,
    rounds: Vec<StoredRound>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    follow_ups: Vec<(u64, Value)>,
}

#[derive(Serialize, Deserialize)]
struct StoredRound {
    id: u64,
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    thinking: Option<(Option<String>, String)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    calls: Vec<StoredCall>,
}

#[derive(Serialize, Deserialize)]
struct StoredCall {
    id: String,
    name: String,
    tool: Tool,
    status: Status,
    input: String,
    result: String,
}

impl History {
    /// What is stored. Calls that are running are not: nobody knows what becomes of them.
    pub(crate) fn to_stored(&self, is_running: bool) -> Value {
        let text = |raw: &[u8]| String::from_utf8_lossy(raw).into_owned();
        let call = |it: &Call| StoredCall {
            id: it.id.clone(),
            name: it.name.clone(),
            tool: it.tool,
            status: it.status,
            input: it.input.get().to_owned(),
            result: it.result.clone(),
        };
        let round = |it: &Round| StoredRound {
            id: it.id,
            text: it.text.clone(),
            thinking: it.thinking.as_ref().map(|it| (it.id.clone(), it.text.clone())),
            calls: it.calls.iter().filter(|it| it.has_result()).map(call).collect(),
        };
        let turn = |it: &Turn| StoredTurn {
            id: text(it.id.as_bytes()),
            request: text(&it.request),
            rounds: it.rounds.iter().map(round).collect(),
            follow_ups: it.follow_ups.clone(),
        };
        let turns = self.turns.iter().map(turn).collect();
        // What names this conversation and what is under way means nothing to another lspool.
        let mut create = Patch::of(if self.create.is_empty() { b"{}" } else { &self.create });
        create.remove("workDoneToken").remove("conversationId").remove("turns");
        let stored = Stored { create: text(&create.finish()), turns, is_running };
        serde_json::to_value(stored).unwrap_or_default()
    }

    /// The same again, and whether its last turn was to go on.
    pub(crate) fn from_stored(stored: &Value) -> Option<(History, bool)> {
        let Stored { create, turns, is_running } = Stored::deserialize(stored).ok()?;
        let call = |it: StoredCall| {
            Some(Call {
                id: it.id,
                name: it.name,
                tool: it.tool,
                status: it.status,
                input: RawValue::from_string(it.input).ok()?,
                result: it.result,
                open: None,
                edited: Vec::new(),
            })
        };
        let round = |it: StoredRound| {
            Some(Round {
                id: it.id,
                text: it.text,
                thinking: it.thinking.map(|(id, text)| Thinking { id, text }),
                is_cut: false,
                calls: it.calls.into_iter().map(call).collect::<Option<_>>()?,
            })
        };
        let turn = |it: StoredTurn| {
            Some(Turn {
                rounds: it.rounds.into_iter().map(round).collect::<Option<_>>()?,
                follow_ups: it.follow_ups,
                ..Turn::new(RawId::from_raw(it.id.as_bytes())?, it.request.as_bytes())
            })
        };
        let turns = turns.into_iter().map(turn).collect::<Option<_>>()?;
        Some((History { create: create.into(), turns, brought: 0 }, is_running))
    }

    /// The turn that was running when this was stored is asked anew: whether there is something to continue. If nothing
    /// has come of it, it is forgotten.
    pub(crate) fn can_continue(&mut self) -> bool {
        let Some(last) = self.turns.last_mut() else { return false };
        if !last.messages(None).is_empty() {
            return true;
        }
        // What continued another one goes on in that.
        let continues = serde_json::from_slice::<String>(&last.request).is_ok_and(|it| it == CONTINUE);
        self.turns.pop();
        continues
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::core::said::Said;

    #[test]
    fn a_history_comes_back_as_the_model_knows_it() {
        let mut history = History::new(br#"{"turns":[{"request":"a"}],"modelInfo":{"id":"m"}}"#);
        history.begin(RawId::text("T"), b"\"a\"");
        let call = |status: &str, id: &str| {
            json!({"id": id, "name": "grep", "toolType": "client", "status": status, "input": {"z": 1.50, "a": 2},
                   "result": [{"type": "text", "value": "found"}]})
        };
        let calls = json!([call("completed", "k"), call("running", "l")]);
        let rounds =
            json!([{"roundId": 1, "reply": "I look.", "toolCalls": calls}, {"roundId": 2, "reply": "Hm"}]);
        let said = json!({"value": {"kind": "report", "editAgentRounds": rounds, "thinking": {"id": "t", "text": "…"}}});
        let said = said.to_string();
        history.turn(&RawId::text("T")).unwrap().report(&Said::of(said.as_bytes()).report);
        history.turn(&RawId::text("T")).unwrap().follow_up(json!("and?"));
        let stored = history.to_stored(true);
        let (mut again, is_running) = History::from_stored(&stored).unwrap();
        assert!(is_running && again.has_begun() && again.can_continue());
        assert_eq!(again.transcript("c"), history.transcript("c"));
        assert_eq!(again.to_stored(true), stored);
        history.begin(RawId::text("U"), b"\"b\"");
        let (mut again, _) = History::from_stored(&history.to_stored(true)).unwrap();
        assert!(!again.can_continue());
        assert_eq!(again.to_stored(true), stored, "nothing had come of it");
        assert!(History::from_stored(&json!({"turns": []})).is_none());
    }
}
