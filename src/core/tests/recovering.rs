//! Active turns that continue in the next process.

use std::time::Duration;

use serde_json::{Value, json};

use super::stage::{EDITOR, Stage, name, process};
use crate::{
    config::TurnRecovery,
    core::{
        CONTINUE,
        event::{Event, Exit, Peer, ProcessId},
    },
};

const FIRST: ProcessId = process(0, 1);
const SECOND: ProcessId = process(0, 2);

/// A conversation `c` whose second turn `T2` runs under the token `t2` and the editor's request 2.
struct ActiveTurn {
    it: Stage,
    process: ProcessId,
    /// The number of the turn at the process.
    asked: Value,
    calls: u32,
}

fn value(kind: &str, more: &Value) -> Value {
    let mut value = json!({"kind": kind, "conversationId": "c", "turnId": "T2"});
    value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    value
}

fn progress(token: &str, value: &Value) -> Value {
    json!({"method": "$/progress", "params": {"token": token, "value": value}})
}

impl ActiveTurn {
    fn new() -> ActiveTurn {
        ActiveTurn::on(Stage::copilot())
    }

    fn on(mut it: Stage) -> ActiveTurn {
        it.editor(
            json!({"id": 100, "method": "conversation/registerTools", "params": {"tools": [{"name": "a"}]}}),
        );
        let registered = it.take(Peer::Backend(FIRST)).pop().unwrap();
        it.server(FIRST, json!({"id": registered["id"], "result": []}));
        it.create(1, &json!({"conversationId": "c", "source": "panel", "modelInfo": {"id": "m"}}));
        let create = it.take(Peer::Backend(FIRST)).pop().unwrap();
        let said = |kind: &str, more: Value| {
            let mut value = value(kind, &more);
            value["turnId"] = json!("T1");
            progress("t1", &value)
        };
        it.server(FIRST, said("begin", json!({})));
        it.server(FIRST, said("report", json!({"editAgentRounds": [{"roundId": 1, "reply": "One."}]})));
        it.server(FIRST, said("end", json!({})));
        let result =
            json!({"conversationId": "c", "turnId": "T1", "modelName": "M", "modelInfo": {"id": "m"}});
        it.server(FIRST, json!({"id": create["id"], "result": result}));
        let params = json!({
            "conversationId": "c", "message": "next", "workDoneToken": "t2", "turnId": "T2",
            "modelInfo": {"id": "m"}, "references": [1],
        });
        it.editor(json!({"id": 2, "method": "conversation/turn", "params": params}));
        let asked = it.take(Peer::Backend(FIRST)).pop().unwrap()["id"].clone();
        it.take(EDITOR);
        let mut active_turn = ActiveTurn { it, process: FIRST, asked, calls: 0 };
        active_turn.says("begin", &json!({}));
        active_turn
    }

    fn says(&mut self, kind: &str, more: &Value) {
        self.it.server(self.process, progress("t2", &value(kind, more)));
    }

    fn text(&mut self, round: u32, text: &str) {
        self.says("report", &json!({"editAgentRounds": [{"roundId": round, "reply": text}]}));
    }

    fn call(&mut self, round: u32, call: &Value) {
        self.says(
            "report",
            &json!({"editAgentRounds": [{"roundId": round, "reply": "", "toolCalls": [call]}]}),
        );
    }

    /// The process asks the editor; gives the editor's id for it.
    fn asks(&mut self, method: &str, round: u32, call: &str, more: &Value) -> Value {
        self.calls += 1;
        let mut params = json!({
            "name": "a", "input": {"k": 1}, "conversationId": "c", "turnId": "T2", "roundId": round,
            "toolCallId": call,
        });
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let method = format!("conversation/{method}");
        self.it.server(self.process, json!({"id": self.calls, "method": method, "params": params}));
        self.it.take(EDITOR).pop().unwrap()["id"].clone()
    }

    fn answers(&mut self, id: &Value, text: &str) {
        let result = json!([{"content": [{"value": text}], "status": "success"}, null]);
        self.it.editor(json!({"id": id, "result": result}));
    }

    /// The process dies; returns the messages to the editor.
    fn dies(&mut self) -> Vec<Value> {
        self.it.exited(self.process, Exit::Signal(9));
        self.process.generation.0 += 1;
        let heard = self.it.take(EDITOR);
        self.it.pass(Duration::from_secs(9));
        heard
    }

    /// The next process starts.
    fn starts(&mut self) -> Vec<Value> {
        let told = self.it.start(self.process, &[]);
        assert!(self.it.take(EDITOR).is_empty(), "a start is nobody's business");
        told
    }

    /// The next process is asked to restore the conversation; gives the lines of the transcript and the create.
    fn restored(&mut self) -> (Vec<Value>, Value) {
        let (process, conversation, content) = self.it.transcripts.last().unwrap().clone();
        assert_eq!((process, conversation.as_str()), (self.process, "c"));
        self.it.event(Event::TranscriptWritten { process, conversation, folder: Ok("/private".into()) });
        let mut told = self.it.take(Peer::Backend(process));
        assert_eq!(
            told.iter().map(name).collect::<Vec<_>>(),
            ["workspace/didChangeConfiguration", "conversation/create"]
        );
        let create = told.pop().unwrap();
        self.asked = create["id"].clone();
        let lines = content.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
        (lines, create["params"].clone())
    }

    /// The messages of the transcript's last turn.
    fn messages(lines: &[Value]) -> Vec<Value> {
        assert_eq!(lines[lines.len() - 3]["data"]["turnId"], "T2");
        let content = lines[lines.len() - 2]["data"]["content"].as_str().unwrap();
        serde_json::from_str(content).unwrap()
    }

    /// The next process starts, and is asked to continue; gives the messages that it was told.
    fn continued(&mut self) -> Vec<Value> {
        self.starts();
        let (lines, create) = self.restored();
        let expected = json!({
            "turns": [{"request": CONTINUE, "turnId": "T2"}], "restoreToTurnId": "T2", "source": "panel",
            "conversationId": "c", "workDoneToken": "t2", "modelInfo": {"id": "m"}, "references": [1],
        });
        assert_eq!(create, expected);
        self.says("begin", &json!({}));
        assert!(self.it.take(EDITOR).is_empty(), "it has begun once");
        self.it.take(Peer::Backend(self.process));
        ActiveTurn::messages(&lines)
    }

    /// The turn ends; returns the messages to the editor.
    fn ends(&mut self) {
        self.says("end", &json!({}));
        let result =
            json!({"conversationId": "c", "turnId": "T2", "modelName": "M", "modelInfo": {"id": "m"}});
        self.it.server(self.process, json!({"id": self.asked, "result": result}));
        let heard = self.it.take(EDITOR);
        assert_eq!(heard[0]["params"], progress("t2", &value("end", &json!({})))["params"]);
        assert_eq!(heard[1], json!({"jsonrpc": "2.0", "id": 2, "result": result}));
        assert_eq!(heard.len(), 2);
    }
}

/// The rounds of reports.
fn rounds(heard: &[Value]) -> Vec<Value> {
    heard.iter().map(|it| it["params"]["value"]["editAgentRounds"][0].clone()).collect()
}

fn running(id: &str) -> Value {
    json!({"id": id, "name": "a", "toolType": "client", "status": "running", "input": {"k": 1}, "x": 1})
}

#[test]
fn finished_turn_is_answered_by_lspool_after_crash() {
    for ended in [true, false] {
        let mut active_turn = ActiveTurn::new();
        active_turn.text(1, "Two.");
        active_turn.says("report", &json!({"tokenUsage": {}}));
        if ended {
            active_turn.says("end", &json!({"suggestedTitle": "x"}));
        }
        active_turn.it.take(EDITOR);
        let mut heard = active_turn.dies();
        let answer = heard.pop().unwrap();
        let result =
            json!({"conversationId": "c", "turnId": "T2", "modelName": "M", "modelInfo": {"id": "m"}});
        assert_eq!(answer, json!({"jsonrpc": "2.0", "id": 2, "result": result}));
        let ends: Vec<Value> = heard.iter().map(|it| it["params"]["value"].clone()).collect();
        assert_eq!(ends, if ended { vec![] } else { vec![value("end", &json!({}))] });
        assert!(!active_turn.starts().iter().any(|it| name(it).starts_with("conversation/create")));
    }
}

#[test]
fn turn_without_output_is_retried_after_crash() {
    let mut active_turn = ActiveTurn::new();
    active_turn.text(1, "");
    active_turn.it.take(EDITOR);
    assert!(active_turn.dies().is_empty());
    active_turn.starts();
    let (lines, create) = active_turn.restored();
    assert_eq!(
        (&create["restoreToTurnId"], &create["turns"]),
        (&json!("T1"), &json!([{"request": "next", "turnId": "T2"}]))
    );
    assert!(!lines.iter().any(|it| it["data"]["turnId"] == "T2"));
    active_turn.says("begin", &json!({}));
    active_turn.text(1, "Two.");
    assert_eq!(rounds(&active_turn.it.take(EDITOR)), [json!({"roundId": 1, "reply": "Two."})]);
    active_turn.ends();
}

#[test]
fn interrupted_text_continues_in_its_round() {
    let mut active_turn = ActiveTurn::new();
    active_turn.text(1, "Tw");
    active_turn.it.take(EDITOR);
    assert!(active_turn.dies().is_empty());
    assert_eq!(active_turn.continued(), [json!({"role": "assistant", "content": "Tw"})]);
    active_turn.text(1, "o.");
    active_turn.call(2, &running("k"));
    let heard = rounds(&active_turn.it.take(EDITOR));
    assert_eq!((&heard[0]["roundId"], &heard[1]["roundId"]), (&json!(1), &json!(2)));
    // Again: the history has one turn.
    let heard = active_turn.dies();
    assert_eq!(rounds(&heard)[0]["toolCalls"][0]["status"], "cancelled");
    assert_eq!(active_turn.continued(), [json!({"role": "assistant", "content": "Two."})]);
    active_turn.text(1, " Done.");
    assert_eq!(rounds(&active_turn.it.take(EDITOR))[0]["roundId"], 3);
    active_turn.ends();
    // In the third process it is one turn, without the message that continued it.
    active_turn.dies();
    active_turn.starts();
    let next = json!({"conversationId": "c", "message": "third", "workDoneToken": "t3"});
    active_turn.it.editor(json!({"id": 3, "method": "conversation/turn", "params": next}));
    let (lines, create) = active_turn.restored();
    assert_eq!(create["restoreToTurnId"], "T2");
    assert_eq!(ActiveTurn::messages(&lines), [json!({"role": "assistant", "content": "Two. Done."})]);
}

#[test]
fn resumed_turn_ends_with_its_conversation() {
    // Another turn may wait for it.
    for (begun, waits) in [(false, false), (true, false), (false, true)] {
        let mut active_turn = ActiveTurn::new();
        active_turn.text(1, "Tw");
        active_turn.dies();
        active_turn.starts();
        active_turn.restored();
        if begun {
            active_turn.says("begin", &json!({}));
            active_turn.it.take(Peer::Backend(SECOND));
        }
        if waits {
            let next = json!({"conversationId": "c", "message": "third", "workDoneToken": "t3"});
            active_turn.it.editor(json!({"id": 5, "method": "conversation/turn", "params": next}));
        }
        active_turn.it.take(EDITOR);
        let destroy = json!({"id": 3, "method": "conversation/destroy", "params": {"conversationId": "c"}});
        active_turn.it.editor(destroy);
        let told: Vec<String> = active_turn.it.take(Peer::Backend(SECOND)).iter().map(name).collect();
        let expected = ["$/cancelRequest", "conversation/destroy", "conversation/turn"];
        let told: Vec<&str> = told.iter().map(String::as_str).filter(|it| expected.contains(it)).collect();
        assert_eq!(told, &expected[..2 + usize::from(waits)]);
        let heard = active_turn.it.take(EDITOR);
        assert_eq!((&heard[0]["params"]["value"]["kind"], &heard[1]["id"]), (&json!("end"), &json!(2)));
        // Messages of the process about it until then have no receiver.
        active_turn.says("begin", &json!({}));
        active_turn.text(1, "o.");
        active_turn.says("end", &json!({}));
        active_turn
            .it
            .server(SECOND, json!({"id": active_turn.asked, "error": {"code": -32800, "message": "?"}}));
        assert!(active_turn.it.take(EDITOR).is_empty());
        // Another one of that name is heard.
        active_turn.it.create(4, &json!({"conversationId": "c"}));
        active_turn.it.server(SECOND, progress("t1", &value("begin", &json!({}))));
        assert_eq!(active_turn.it.take(EDITOR).len(), 1);
    }
}

#[test]
fn resumed_turn_waits_for_late_client_answer() {
    let mut active_turn = ActiveTurn::new();
    active_turn.text(1, "Asking.");
    active_turn.call(1, &running("k"));
    active_turn.it.take(EDITOR);
    let asked = active_turn.asks("invokeClientTool", 1, "k", &json!({}));
    assert!(active_turn.dies().is_empty(), "the question stays");
    active_turn.starts();
    assert!(active_turn.it.transcripts.is_empty());
    active_turn.answers(&asked, "late");
    let heard = rounds(&active_turn.it.take(EDITOR));
    let mut call = running("k");
    call["status"] = json!("completed");
    call["result"] = json!([{"type": "text", "value": "late"}]);
    assert_eq!(heard, [json!({"roundId": 1, "reply": "", "toolCalls": [call]})]);
    let (lines, _) = active_turn.restored();
    let messages = ActiveTurn::messages(&lines);
    assert_eq!(messages[0]["tool_calls"][0]["function"], json!({"name": "a", "arguments": "{\"k\":1}"}));
    assert_eq!(messages[1], json!({"role": "tool", "content": "late", "tool_call_id": "k"}));
    // The model uses the id again: the editor knows it as another.
    active_turn.says("begin", &json!({}));
    active_turn.call(1, &running("k"));
    let heard = rounds(&active_turn.it.take(EDITOR));
    assert_eq!((&heard[0]["roundId"], &heard[0]["toolCalls"][0]["id"]), (&json!(2), &json!("k-2")));
    active_turn.asks("invokeClientTool", 1, "k", &json!({}));
    let heard = active_turn.dies();
    assert!(heard.is_empty(), "{heard:?}");
}

#[test]
fn unreported_client_answer_is_reported_after_crash() {
    let mut active_turn = ActiveTurn::new();
    active_turn.call(1, &running("k"));
    active_turn.it.take(EDITOR);
    let asked = active_turn.asks("invokeClientTool", 1, "k", &json!({}));
    active_turn.answers(&asked, "in time");
    let heard = active_turn.dies();
    assert_eq!(rounds(&heard)[0]["toolCalls"][0]["result"][0]["value"], "in time");
    assert_eq!(active_turn.continued()[1]["content"], "in time");
}

#[test]
fn client_error_becomes_tool_result() {
    let mut active_turn = ActiveTurn::new();
    active_turn.call(1, &running("k"));
    active_turn.it.take(EDITOR);
    let asked = active_turn.asks("invokeClientTool", 1, "k", &json!({}));
    active_turn.dies();
    active_turn.it.editor(json!({"id": asked, "error": {"code": 1, "message": "no"}}));
    let heard = rounds(&active_turn.it.take(EDITOR));
    assert_eq!(
        (&heard[0]["toolCalls"][0]["status"], &heard[0]["toolCalls"][0]["error"]),
        (&json!("error"), &json!("no"))
    );
    assert_eq!(active_turn.continued()[1]["content"], "Tool call failed with error: no");
}

#[test]
fn suspended_turn_can_be_cancelled() {
    for destroys in [false, true] {
        let mut active_turn = ActiveTurn::new();
        active_turn.text(1, "Asking.");
        active_turn.call(1, &running("k"));
        active_turn.it.take(EDITOR);
        let asked = active_turn.asks("invokeClientTool", 1, "k", &json!({}));
        active_turn.dies();
        match destroys {
            false => active_turn.it.editor(json!({"method": "$/cancelRequest", "params": {"id": 2}})),
            true => active_turn.it.editor(
                json!({"id": 3, "method": "conversation/destroy", "params": {"conversationId": "c"}}),
            ),
        }
        let heard = active_turn.it.take(EDITOR);
        assert_eq!(rounds(&heard)[0]["toolCalls"][0]["status"], "cancelled");
        assert_eq!(
            heard[1]["params"]["value"],
            value("end", &json!({"cancellationReason": "CancelledByUser"}))
        );
        assert_eq!((&heard[2]["id"], &heard[2]["result"]["turnId"]), (&json!(2), &json!("T2")));
        assert_eq!(heard[3]["params"]["id"], asked);
        assert_eq!(heard.len(), 4);
        active_turn.answers(&asked, "late");
        assert!(active_turn.it.take(EDITOR).is_empty());
        let told: Vec<String> = active_turn.starts().iter().map(name).collect();
        assert_eq!(told.contains(&"conversation/destroy".to_owned()), destroys);
        assert!(active_turn.it.transcripts.is_empty());
        if !destroys {
            let next = json!({"conversationId": "c", "message": "third", "workDoneToken": "t3"});
            active_turn.it.editor(json!({"id": 3, "method": "conversation/turn", "params": next}));
            let (lines, _) = active_turn.restored();
            assert_eq!(ActiveTurn::messages(&lines)[1]["content"], "late");
        }
    }
}

#[test]
fn server_tool_calls_are_dropped_after_crash_except_mcp() {
    let mut active_turn = ActiveTurn::new();
    active_turn.text(1, "Working.");
    let tool = |id: &str, kind: &str| json!({"id": id, "name": "b", "toolType": kind, "status": "running", "input": {}});
    active_turn.call(1, &tool("own", "shared"));
    active_turn.call(1, &tool("mcp", "mcp"));
    active_turn.call(1, &running("never asked"));
    active_turn.it.take(EDITOR);
    let heard = rounds(&active_turn.dies());
    let states: Vec<_> = heard
        .iter()
        .map(|it| {
            (it["toolCalls"][0]["id"].as_str().unwrap(), it["toolCalls"][0]["status"].as_str().unwrap())
        })
        .collect();
    assert_eq!(states, [("own", "cancelled"), ("mcp", "error"), ("never asked", "cancelled")]);
    let messages = active_turn.continued();
    assert_eq!(messages[0]["tool_calls"].as_array().unwrap().len(), 1);
    assert!(
        messages[1]["content"].as_str().unwrap().contains("may or may not have happened"),
        "{messages:?}"
    );
}

#[test]
fn dropped_call_without_output_is_retried_in_next_round() {
    let mut active_turn = ActiveTurn::new();
    active_turn
        .call(1, &json!({"id": "k", "name": "b", "toolType": "shared", "status": "running", "input": {}}));
    active_turn.it.take(EDITOR);
    active_turn.dies();
    active_turn.starts();
    let (_, create) = active_turn.restored();
    assert_eq!(create["turns"][0]["request"], "next");
    active_turn.says("begin", &json!({}));
    active_turn.call(1, &running("k"));
    let heard = rounds(&active_turn.it.take(EDITOR));
    assert_eq!((&heard[0]["roundId"], &heard[0]["toolCalls"][0]["id"]), (&json!(2), &json!("k-2")));
}

#[test]
fn lspool_calls_client_tool_after_confirmation() {
    for (accepts, in_time) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut active_turn = ActiveTurn::new();
        active_turn.text(1, "Running it.");
        active_turn.it.take(EDITOR);
        let shown = json!({"input": {"k": 1, "toolType": "terminal", "commandLineType": "sh"}});
        let asked = active_turn.asks("invokeClientToolConfirmation", 1, "k", &shown);
        let answer =
            json!({"id": asked, "result": [{"result": if accepts { "accept" } else { "dismiss" }}, null]});
        let mut heard = Vec::new();
        if in_time {
            // The process got the answer, and has not done anything about it.
            active_turn.it.editor(answer.clone());
            heard = active_turn.dies();
        } else {
            assert!(active_turn.dies().is_empty());
            active_turn.it.editor(answer);
        }
        heard.extend(active_turn.it.take(EDITOR));
        let call = rounds(&heard)[0]["toolCalls"][0].clone();
        assert_eq!((&call["id"], &call["input"]), (&json!("k"), &json!({"k": 1})));
        if !accepts {
            assert_eq!(call["status"], "cancelled");
            assert_eq!(
                active_turn.continued()[1]["content"],
                "Tool call is cancelled with result: The user chose to skip the tool call, they want to proceed \
                 without running it"
            );
            continue;
        }
        assert_eq!(call["status"], "running");
        let expected = json!({"name": "a", "input": {"k": 1}, "conversationId": "c", "turnId": "T2", "roundId": 1, "toolCallId": "k"});
        assert_eq!(
            (&heard[1]["method"], &heard[1]["params"]),
            (&json!("conversation/invokeClientTool"), &expected)
        );
        // The next process dies meanwhile.
        active_turn.starts();
        assert!(active_turn.dies().is_empty());
        active_turn.answers(&heard[1]["id"], "done");
        assert_eq!(rounds(&active_turn.it.take(EDITOR))[0]["toolCalls"][0]["status"], "completed");
        assert_eq!(active_turn.continued()[1]["content"], "done");
    }
}

#[test]
fn repeated_confirmation_gets_the_earlier_answer() {
    for answered_first in [true, false] {
        let mut active_turn = ActiveTurn::new();
        active_turn.text(1, "Reading.");
        active_turn.it.take(EDITOR);
        let shown = json!({"name": "copilot.read_file"});
        let asked = active_turn.asks("invokeClientToolConfirmation", 1, "k", &shown);
        let answer = json!({"id": asked, "result": [{"result": "accept"}, null]});
        assert!(active_turn.dies().is_empty());
        if answered_first {
            active_turn.it.editor(answer.clone());
        }
        active_turn.continued();
        let params = json!({
            "name": "copilot.read_file", "input": {"k": 1}, "conversationId": "c", "turnId": "T2", "roundId": 1,
            "toolCallId": "other",
        });
        let ask = |id: u32| json!({"id": id, "method": "conversation/invokeClientToolConfirmation", "params": params});
        active_turn.it.server(active_turn.process, ask(7));
        assert!(active_turn.it.take(EDITOR).is_empty(), "no second dialogue");
        if !answered_first {
            active_turn.it.editor(answer);
        }
        let told = active_turn.it.take(Peer::Backend(active_turn.process));
        assert_eq!((&told[0]["id"], &told[0]["result"][0]["result"]), (&json!(7), &json!("accept")));
        // It counts once.
        active_turn.it.server(active_turn.process, ask(8));
        assert_eq!(active_turn.it.take(EDITOR).len(), 1);
    }
}

#[test]
fn unused_confirmation_dialog_is_closed_at_end_of_turn() {
    let mut active_turn = ActiveTurn::new();
    active_turn.text(1, "Reading.");
    active_turn.it.take(EDITOR);
    let asked =
        active_turn.asks("invokeClientToolConfirmation", 1, "k", &json!({"name": "copilot.read_file"}));
    active_turn.dies();
    active_turn.continued();
    active_turn.says("end", &json!({}));
    active_turn.it.server(active_turn.process, json!({"id": active_turn.asked, "result": {"turnId": "T2"}}));
    let heard = active_turn.it.take(EDITOR);
    assert_eq!((&heard[2]["method"], &heard[2]["params"]["id"]), (&json!("$/cancelRequest"), &asked));
}

#[test]
fn stopped_sub_agent_leaves_its_results() {
    let mut active_turn = ActiveTurn::new();
    let agent = json!({"id": "agent", "name": "run_subagent", "toolType": "shared", "status": "running", "input": {}});
    active_turn.call(1, &agent);
    let child = |kind: &str, more: Value| {
        let mut value = value(kind, &more);
        value["conversationId"] = json!("child");
        value["turnId"] = json!("U");
        value["parentTurnId"] = json!("T2");
        progress("t2", &value)
    };
    active_turn.it.server(FIRST, child("begin", json!({})));
    let report = json!({"editAgentRounds": [{"roundId": 1, "reply": "Sub.", "toolCalls": [running("k")]}]});
    active_turn.it.server(FIRST, child("report", report));
    active_turn.it.take(EDITOR);
    let asked =
        active_turn.asks("invokeClientTool", 1, "k", &json!({"conversationId": "child", "turnId": "U"}));
    assert!(active_turn.dies().is_empty());
    active_turn.answers(&asked, "late");
    let heard = active_turn.it.take(EDITOR);
    assert_eq!(heard[0]["params"]["value"]["parentTurnId"], "T2");
    assert_eq!(rounds(&heard)[0]["toolCalls"][0]["result"][0]["value"], "late");
    let call = &rounds(&heard)[1]["toolCalls"][0];
    assert_eq!((&call["id"], &call["status"]), (&json!("agent"), &json!("completed")));
    let messages = active_turn.continued();
    let result = messages[1]["content"].as_str().unwrap();
    assert!(
        result.starts_with("A technical fault stopped the sub-agent") && result.contains("late"),
        "{result}"
    );
}

#[test]
fn finished_sub_agent_is_not_mistaken_for_next_one() {
    let mut active_turn = ActiveTurn::new();
    let agent = |id: &str, status: &str| json!({"id": id, "name": "run_subagent", "toolType": "shared", "status": status, "input": {}, "result": [{"value": "x"}]});
    active_turn.call(1, &agent("one", "running"));
    let begin = json!({"kind": "begin", "conversationId": "child", "turnId": "U", "parentTurnId": "T2"});
    active_turn.it.server(FIRST, progress("t2", &begin));
    active_turn.call(1, &agent("one", "completed"));
    active_turn.call(2, &agent("two", "running"));
    active_turn.it.take(EDITOR);
    let heard = active_turn.dies();
    let call = &rounds(&heard)[0]["toolCalls"][0];
    assert_eq!((&call["id"], &call["status"]), (&json!("two"), &json!("cancelled")));
    assert_eq!(active_turn.continued().len(), 2);
}

#[test]
fn turn_fails_only_when_restart_budget_is_spent() {
    let mut active_turn = ActiveTurn::new();
    active_turn.text(1, "T");
    for _ in 1..=5 {
        active_turn.it.take(EDITOR);
        active_turn.it.exited(active_turn.process, Exit::Signal(9));
        let heard = active_turn.it.take(EDITOR);
        assert!(heard.iter().all(|it| name(it) == "window/showMessage"), "{heard:?}");
        active_turn.process.generation.0 += 1;
        active_turn.it.pass(Duration::from_secs(9));
        active_turn.it.start(active_turn.process, &[]);
    }
    active_turn.it.exited(active_turn.process, Exit::Signal(9));
    let heard = active_turn.it.take(EDITOR);
    let end = heard.iter().find(|it| name(it) == "$/progress").unwrap();
    assert!(end["params"]["value"]["error"]["message"].is_string(), "{end}");
    assert_eq!(heard.iter().find(|it| it["id"] == 2).unwrap()["error"]["data"]["lspool"]["retry"], false);
}

#[test]
fn turn_fails_with_its_process_when_configured() {
    let mut it = Stage::new(crate::config::ServerKind::Copilot);
    it.server.turn_recovery = TurnRecovery::Fail;
    it.initialize();
    let mut active_turn = ActiveTurn::on(it);
    active_turn.text(1, "Two.");
    active_turn.it.take(EDITOR);
    let heard = active_turn.dies();
    assert_eq!(heard[0]["params"]["value"]["kind"], "end");
    assert!(heard[1]["error"]["message"].as_str().unwrap().contains("send the request again"));
}

#[test]
fn conversation_restored_empty_continues_as_text() {
    let mut active_turn = ActiveTurn::new();
    active_turn.text(1, "Tw");
    active_turn.it.take(EDITOR);
    active_turn.dies();
    active_turn.starts();
    active_turn.restored();
    let begin = json!({"kind": "begin", "conversationId": "stray", "turnId": "T2"});
    active_turn.it.server(SECOND, progress("t2", &begin));
    let told = active_turn.it.take(Peer::Backend(SECOND));
    let turns = &told.iter().find(|it| name(it) == "conversation/create").unwrap()["params"]["turns"];
    assert_eq!(turns[1], json!({"request": "next", "response": "Tw", "turnId": "T2"}));
    assert_eq!(turns[2], json!({"request": CONTINUE, "turnId": "T2"}));
    assert!(active_turn.it.take(EDITOR).is_empty());
}

#[test]
fn turn_refused_by_next_process_ends() {
    let mut active_turn = ActiveTurn::new();
    active_turn.text(1, "Two.");
    active_turn.it.take(EDITOR);
    active_turn.dies();
    active_turn.starts();
    active_turn.restored();
    active_turn.it.server(SECOND, json!({"id": active_turn.asked, "error": {"code": 1, "message": "no"}}));
    let heard = active_turn.it.take(EDITOR);
    assert_eq!(heard[0]["params"]["value"], value("end", &json!({"error": {"message": "no"}})));
    assert_eq!((&heard[1]["id"], &heard[1]["error"]["message"]), (&json!(2), &json!("no")));
}

#[test]
fn partition_restarts_for_active_turn_despite_crash_at_start() {
    let mut it = Stage::copilot();
    let one = process(1, 1);
    it.create(1, &json!({"conversationId": "c", "lspool": {"tools": ["a"]}}));
    it.start(one, &[]);
    let begin = json!({"kind": "begin", "conversationId": "c", "turnId": "T"});
    it.server(one, progress("t1", &begin));
    let report = json!({"kind": "report", "conversationId": "c", "turnId": "T", "editAgentRounds": [{"roundId": 1, "reply": "x"}]});
    it.server(one, progress("t1", &report));
    it.take(EDITOR);
    it.exited(one, Exit::Signal(9));
    it.exited(process(1, 2), Exit::Signal(9));
    assert!(it.take(EDITOR).is_empty());
    it.pass(Duration::from_secs(2));
    it.start(process(1, 3), &[]);
    assert_eq!(it.transcripts.last().map(|it| it.0), Some(process(1, 3)));
}

#[test]
fn turn_without_token_is_recognized_by_client_calls() {
    let mut it = Stage::copilot();
    it.create(1, &json!({"conversationId": "c", "workDoneToken": null}));
    it.take(Peer::Backend(FIRST));
    let call = json!({"name": "a", "input": {"k": 1}, "conversationId": "c", "turnId": "T", "roundId": 1, "toolCallId": "k"});
    it.server(FIRST, json!({"id": 1, "method": "conversation/invokeClientTool", "params": call}));
    let asked = it.take(EDITOR).pop().unwrap()["id"].clone();
    it.exited(FIRST, Exit::Signal(9));
    it.start(SECOND, &[]);
    it.editor(json!({"id": asked, "result": [{"content": [{"value": "R"}]}, null]}));
    assert!(it.take(EDITOR).is_empty());
    assert!(it.transcripts.last().unwrap().2.contains("tool_call_id"), "{:?}", it.transcripts);
}

#[test]
fn conversations_share_transcript_folder_until_last_begins() {
    let mut it = Stage::copilot();
    let names = ["a", "b"];
    for (n, id) in names.iter().enumerate() {
        let token = format!("t{}", n + 1);
        it.create(u32::try_from(n).unwrap() + 1, &json!({"conversationId": id}));
        it.server(FIRST, progress(&token, &json!({"kind": "begin", "conversationId": id, "turnId": id})));
        let report = json!({"kind": "report", "conversationId": id, "turnId": id, "editAgentRounds": [{"roundId": 1, "reply": "x"}]});
        it.server(FIRST, progress(&token, &report));
    }
    it.take(EDITOR);
    it.exited(FIRST, Exit::Signal(9));
    it.start(SECOND, &[]);
    for id in names {
        it.event(Event::TranscriptWritten {
            process: SECOND,
            conversation: id.into(),
            folder: Ok("/private".into()),
        });
    }
    let told: Vec<String> = it.told(SECOND);
    assert_eq!(told, ["workspace/didChangeConfiguration", "conversation/create", "conversation/create"]);
    it.server(SECOND, progress("t1", &json!({"kind": "begin", "conversationId": "a", "turnId": "a"})));
    assert_eq!(it.told(SECOND), [""; 0]);
    it.server(SECOND, progress("t2", &json!({"kind": "begin", "conversationId": "b", "turnId": "b"})));
    assert_eq!(it.told(SECOND), ["workspace/didChangeConfiguration"]);
    assert!(it.take(EDITOR).is_empty() && it.transcripts.is_empty());
}
