//! The stored form of a history, which outlives lspool.
//!
//! **A finished part is serialized once**, however often the whole is stored: finished rounds are most of a long
//! conversation.

use std::{
    cell::OnceCell,
    ops::{Deref, DerefMut},
};

use serde::{Deserialize, Serialize};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use super::{History, RecordedCall, RecordedRound, RecordedTurn, Status, Thinking, ToolKind};
use crate::{
    core::{copilot::messages::CONTINUE, ids::TurnId},
    rpc::Patch,
};

/// A value with its cached stored form.
#[derive(Debug)]
pub(super) struct Kept<T> {
    it: T,
    stored: OnceCell<Box<RawValue>>,
}

impl<T> Kept<T> {
    pub(super) fn new(it: T) -> Kept<T> {
        Kept { it, stored: OnceCell::new() }
    }
}

impl<T> Deref for Kept<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.it
    }
}

impl<T> DerefMut for Kept<T> {
    /// Drops the cache, because the caller may change the value.
    fn deref_mut(&mut self) -> &mut T {
        self.stored.take();
        &mut self.it
    }
}

impl Kept<RecordedRound> {
    fn to_stored(&self) -> &RawValue {
        self.stored.get_or_init(|| {
            let call = |it: &RecordedCall| StoredCall {
                id: it.id.clone(),
                name: it.name.clone(),
                tool: it.tool,
                status: it.status,
                input: it.input.get().to_owned(),
                result: it.result.clone(),
            };
            let round = StoredRound {
                id: self.id,
                text: self.text.clone(),
                thinking: self.thinking.as_ref().map(|it| (it.id.clone(), it.text.clone())),
                calls: self.calls.iter().filter(|it| it.has_result()).map(call).collect(),
            };
            to_raw_value(&round).expect("all keys are text")
        })
    }
}

/// Raw JSON is stored as text, so that it stays the same.
#[derive(Serialize, Deserialize)]
struct Stored<R> {
    create: String,
    turns: Vec<StoredTurn<R>>,
    /// Whether the last turn is running.
    is_running: bool,
}

#[derive(Serialize, Deserialize)]
struct StoredTurn<R> {
    id: String,
    request: String,
    rounds: Vec<R>,
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
    tool: ToolKind,
    status: Status,
    input: String,
    result: String,
}

impl RecordedTurn {
    fn to_stored(&self) -> StoredTurn<&RawValue> {
        StoredTurn {
            id: lossy(self.id.as_bytes()),
            request: lossy(&self.request),
            rounds: self.rounds.iter().map(Kept::to_stored).collect(),
            follow_ups: self.follow_ups.clone(),
        }
    }
}

fn lossy(raw: &[u8]) -> String {
    String::from_utf8_lossy(raw).into_owned()
}

impl History {
    /// The stored form. Without running calls, whose end is unknown.
    pub(crate) fn to_stored(&self, is_running: bool) -> Box<RawValue> {
        let turns = self.turns.iter().map(RecordedTurn::to_stored).collect();
        // Ids and tokens mean nothing to another lspool.
        let mut create = Patch::of(if self.create.is_empty() { b"{}" } else { &self.create });
        create.remove("workDoneToken").remove("conversationId").remove("turns");
        let stored = Stored { create: lossy(&create.finish()), turns, is_running };
        to_raw_value(&stored).expect("all keys are text")
    }

    /// Reads the stored form, and whether its last turn was running.
    pub(crate) fn from_stored(stored: &Value) -> Option<(History, bool)> {
        let Stored { create, turns, is_running } = Stored::<StoredRound>::deserialize(stored).ok()?;
        let call = |it: StoredCall| {
            Some(RecordedCall {
                id: it.id,
                name: it.name,
                is_named: true,
                tool: it.tool,
                status: it.status,
                input: RawValue::from_string(it.input).ok()?,
                result: it.result,
                open: None,
                edited: Vec::new(),
            })
        };
        let round = |it: StoredRound| {
            Some(Kept::new(RecordedRound {
                id: it.id,
                text: it.text,
                thinking: it.thinking.map(|(id, text)| Thinking { id, text }),
                is_cut: false,
                calls: it.calls.into_iter().map(call).collect::<Option<_>>()?,
            }))
        };
        let turn = |it: StoredTurn<StoredRound>| {
            Some(RecordedTurn {
                rounds: it.rounds.into_iter().map(round).collect::<Option<_>>()?,
                follow_ups: it.follow_ups,
                ..RecordedTurn::new(TurnId::from_raw(it.id.as_bytes())?, it.request.as_bytes())
            })
        };
        let turns = turns.into_iter().map(turn).collect::<Option<_>>()?;
        Some((History { create: create.into(), turns, brought: 0 }, is_running))
    }

    /// Prepares the turn that was running for another start: returns whether there is something to continue. Forgets
    /// a turn without any result.
    pub(crate) fn can_continue(&mut self) -> bool {
        let Some(last) = self.turns.last_mut() else { return false };
        if !last.messages(None).is_empty() {
            return true;
        }
        // A message to continue belongs to the turn before it.
        let continues = serde_json::from_slice::<String>(&last.request).is_ok_and(|it| it == CONTINUE);
        self.turns.pop();
        continues
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::core::copilot::progress::ProgressReport;

    #[test]
    fn stored_history_restores_what_the_model_knows() {
        let mut history = History::new(br#"{"turns":[{"request":"a"}],"modelInfo":{"id":"m"}}"#);
        history.begin(TurnId::text("T"), b"\"a\"");
        let call = |status: &str, id: &str| {
            json!({"id": id, "name": "grep", "toolType": "client", "status": status, "input": {"z": 1.50, "a": 2},
                   "result": [{"type": "text", "value": "found"}]})
        };
        let calls = json!([call("completed", "k"), call("running", "l")]);
        let rounds =
            json!([{"roundId": 1, "reply": "I look.", "toolCalls": calls}, {"roundId": 2, "reply": "Hm"}]);
        let said = json!({"value": {"kind": "report", "editAgentRounds": rounds, "thinking": {"id": "t", "text": "…"}}});
        let said = said.to_string();
        history.turn(&TurnId::text("T")).unwrap().report(&ProgressReport::of(said.as_bytes()).report);
        history.turn(&TurnId::text("T")).unwrap().follow_up(json!("and?"));
        let stored = |history: &History| -> Value {
            serde_json::from_str(history.to_stored(true).get()).expect("it is JSON")
        };
        let before = stored(&history);
        let (mut again, is_running) = History::from_stored(&before).unwrap();
        assert!(is_running && again.has_begun() && again.can_continue());
        assert_eq!(again.transcript("c"), history.transcript("c"));
        assert_eq!(stored(&again), before);
        history.begin(TurnId::text("U"), b"\"b\"");
        let (mut again, _) = History::from_stored(&stored(&history)).unwrap();
        assert!(!again.can_continue());
        assert_eq!(stored(&again), before, "nothing had come of it");
        assert!(History::from_stored(&json!({"turns": []})).is_none());
    }

    #[test]
    fn history_serializes_each_finished_round_once() {
        let mut history = History::new(b"{}");
        let mut n_written = 0;
        for turn in 0..3 {
            let id = TurnId::from_raw(turn.to_string().as_bytes()).expect("a number");
            history.begin(id.clone(), b"\"q\"");
            for round in 1..=20_u64 {
                let call = format!("c{turn}-{round}");
                let report = |status: &str, text: &str| {
                    let call =
                        json!({"id": call, "name": "grep", "status": status, "result": [{"value": text}]});
                    json!({"value": {"editAgentRounds": [{"roundId": round, "reply": "…", "toolCalls": [call]}]}})
                        .to_string()
                };
                let turn = history.turn(&id).unwrap();
                turn.report(&ProgressReport::of(report("running", "").as_bytes()).report);
                turn.answered(
                    &call,
                    super::super::Answer::Result(br#"{"content":[{"value":"early"}]}"#),
                    None,
                );
                turn.report(&ProgressReport::of(report("completed", &"x".repeat(100)).as_bytes()).report);
                assert!(
                    turn.call(&call).is_some() && turn.call_ids().len() == usize::try_from(round).unwrap()
                );
                let rounds = || history.turns.iter().flat_map(|it| &it.rounds);
                let was_written = |it: &&Kept<RecordedRound>| it.stored.get().is_some();
                let before = rounds().filter(was_written).count();
                assert!(history.to_stored(true).get().contains(&"x".repeat(100)));
                n_written += rounds().filter(was_written).count() - before;
            }
        }
        assert_eq!(n_written, 60, "each round once, and not all of them each time");
    }
}
