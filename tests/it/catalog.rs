//! The tool catalog with the real Copilot server: after any change by the editor, every partition has the right tools
//! in the next round of its model, and so has one that starts later.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    partitions::{lspool, offered, servers, through_lspool, tools},
    support::{
        copilot::{Copilot, Options, Turn, tool, tool_answer},
        real::Sandbox,
        stub::{Chat, LogEntry, Round, Rule, Script, Stub},
    },
};

/// The server's own tools.
const BUILTIN: [&str; 5] = ["list_dir", "read_file", "file_search", "grep_search", "validate_cves"];

fn set<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeSet<&'a str> {
    names.into_iter().collect()
}

/// The request of a model with this question, in this round.
fn asked(stub: &Stub, question: &str, round: usize) -> (LogEntry, Chat) {
    let entry =
        stub.log().into_iter().filter(LogEntry::is_turn).find(|entry| {
            entry.chat.as_ref().is_some_and(|chat| chat.user == question && chat.round == round)
        });
    let entry = entry.unwrap_or_else(|| panic!("no model was asked {question:?} in round {round}"));
    let chat = entry.chat.clone().expect("a turn");
    (entry, chat)
}

/// How a tool was described to the model.
fn description(entry: &LogEntry, name: &str) -> Value {
    let body: Value = serde_json::from_slice(&entry.body).expect("a JSON body");
    let tools = body["tools"].as_array().expect("tools");
    let tool = tools.iter().map(|it| &it["function"]).find(|it| it["name"] == *name);
    tool.unwrap_or_else(|| panic!("{name} was not offered"))["description"].clone()
}

/// Three conversations: of everything, of both client tools, of one of them.
struct Agents<'a> {
    session: &'a Copilot,
    stub: &'a Stub,
    conversations: Vec<(&'static str, Value)>,
}

impl<'a> Agents<'a> {
    const SETS: [(&'static str, Option<&'static [&'static str]>); 3] =
        [("all", None), ("both", Some(&["fetch_ticket", "late_tool"])), ("one", Some(&["fetch_ticket"]))];

    fn more(set: Option<&[&str]>) -> Value {
        set.map_or(Value::Null, tools)
    }

    fn start(session: &'a Copilot, stub: &'a Stub) -> Self {
        let mut agents = Agents { session, stub, conversations: Vec::new() };
        for (name, set) in Self::SETS {
            let turn = session.create(&format!("{name} says hello"), Self::more(set));
            agents.conversations.push((name, session.finish(&turn).conversation()));
        }
        agents
    }

    /// Starts turns in all of them, and in new conversations with the same sets.
    fn offered(&self, question: &str) -> Vec<(String, BTreeSet<String>, LogEntry)> {
        let mut turns: Vec<(String, Turn)> = Vec::new();
        for (name, conversation) in &self.conversations {
            let text = format!("{name}: {question}");
            turns.push((text.clone(), self.session.turn(conversation, &text, Value::Null)));
        }
        for (name, set) in Self::SETS {
            let text = format!("new {name}: {question}");
            turns.push((text.clone(), self.session.create(&text, Self::more(set))));
        }
        let asked = turns.iter().map(|(text, turn)| {
            self.session.finish(turn).expect_success();
            let (entry, chat) = asked(self.stub, text, 0);
            (text.clone(), chat.tools.into_iter().collect(), entry)
        });
        asked.collect()
    }

    /// Starts turns in all of them, and compares with the current tools of the client.
    fn expect(&self, question: &str, client: &[&str]) {
        for (name, offered, _) in self.offered(question) {
            let mut wanted: BTreeSet<String> = client.iter().map(ToString::to_string).collect();
            match name.split(':').next().expect("a name").trim_start_matches("new ") {
                "all" => wanted.extend(BUILTIN.map(str::to_owned)),
                "one" => wanted.retain(|it| it == "fetch_ticket"),
                _ => {}
            }
            assert_eq!(offered, wanted, "{name}");
        }
    }
}

#[test]
fn tool_changes_reach_every_partition_and_refused_ones_none() {
    let stub = Stub::start(Script::default());
    let sandbox = Sandbox::new();
    let session = through_lspool(&sandbox, &stub);
    session.register_tools(&["fetch_ticket"]).expect("the schema is good");
    let agents = Agents::start(&session, &stub);
    agents.expect("at first", &["fetch_ticket"]);

    session.register_tools(&["late_tool"]).expect("the schema is good");
    agents.expect("one more", &["fetch_ticket", "late_tool"]);

    // Registered again with other words.
    let mut other = tool("fetch_ticket");
    other["description"] = "Other words.".into();
    session.ok("conversation/registerTools", json!({"tools": [other]}));
    for (name, _, entry) in agents.offered("in other words") {
        assert_eq!(description(&entry, "fetch_ticket"), "Other words.", "{name}");
    }

    // One bad schema refuses the call, the good tool in it too.
    let mut bad = tool("bad_tool");
    bad["inputSchema"]["properties"]["key"] = json!({"type": "nonsense"});
    let mut changed = tool("fetch_ticket");
    changed["description"] = "Refused words.".into();
    let refused = json!({"tools": [changed, bad]});
    let error = session.call("conversation/registerTools", refused.clone()).expect_err("a bad schema");
    for (name, offered, entry) in agents.offered("after the refusal") {
        assert_eq!(description(&entry, "fetch_ticket"), "Other words.", "{name}");
        assert!(!offered.contains("bad_tool"), "{name}");
    }

    let status = |status: &str| json!({"tools": [{"name": "late_tool", "status": status}]});
    session.ok("conversation/updateToolsStatus", status("disabled"));
    agents.expect("one is off", &["fetch_ticket"]);
    session.ok("conversation/updateToolsStatus", status("enabled"));
    agents.expect("it is on again", &["fetch_ticket", "late_tool"]);

    session.ok("conversation/unregisterTools", json!({"toolIds": ["copilot-editor.late_tool"]}));
    agents.expect("it is gone", &["fetch_ticket"]);

    // A partition that starts now knows all that.
    let later = session.create("a later one", tools(&["fetch_ticket", "late_tool", "bad_tool", "list_dir"]));
    session.finish(&later).expect_success();
    let (entry, chat) = asked(&stub, "a later one", 0);
    assert_eq!(offered(&chat), set(["fetch_ticket", "list_dir"]));
    assert_eq!(description(&entry, "fetch_ticket"), "Other words.");
    assert_eq!(servers(&session), 4);
    assert!(session.shutdown().success());

    // The error was the server's own.
    let direct = Copilot::start(sandbox.copilot(&stub), Options::in_workspace(sandbox.workspace()));
    let own = direct.call("conversation/registerTools", refused).expect_err("a bad schema");
    assert_eq!(error, own);
    assert!(direct.shutdown().success());
}

#[test]
fn tools_registered_during_turn_are_offered_in_next_round() {
    let script = Script::default().rule(
        Rule::on("[gated]")
            .then(Round::text("Working.\n").gate_after_text("go").call("fetch_ticket", json!({"key": "1"})))
            .then(Round::text("Then {tools}")),
    );
    let stub = Stub::start(script);
    let sandbox = Sandbox::new();
    let session = through_lspool(&sandbox, &stub);
    session.register_tools(&["fetch_ticket"]).expect("the schema is good");
    session.hold_tools();
    let turns: Vec<(&str, Turn)> = Agents::SETS
        .iter()
        .map(|(name, set)| (*name, session.create(&format!("[gated] {name}"), Agents::more(*set))))
        .collect();
    for (_, turn) in &turns {
        session.wait_progress(turn, "the text ahead of the gate", |it| !it.text.is_empty());
    }
    // In the middle of the model's answer, and while the tool is pending.
    session.register_tools(&["late_tool"]).expect("the schema is good");
    stub.open("go");
    let calls: Vec<_> =
        turns.iter().map(|_| session.expect_request("conversation/invokeClientTool")).collect();
    session.ok("conversation/unregisterTools", json!({"toolIds": ["copilot.grep_search"]}));
    for call in &calls {
        session.answer(call, Ok(tool_answer(Ok("done".to_owned()))));
    }
    for (name, turn) in &turns {
        session.finish(turn).expect_success();
        let [before, after] = [0, 1].map(|round| asked(&stub, &format!("[gated] {name}"), round).1);
        let (before, after) = (offered(&before), offered(&after));
        let gained: Vec<_> = after.difference(&before).copied().collect();
        let lost: Vec<_> = before.difference(&after).copied().collect();
        match *name {
            "all" => assert_eq!((gained, lost), (vec!["late_tool"], vec!["grep_search"])),
            "both" => assert_eq!((gained, lost), (vec!["late_tool"], vec![])),
            _ => assert_eq!((gained, lost), (vec![], vec![])),
        }
    }
    assert!(session.shutdown().success());
}

/// Some tools of the server come with a capability, and come back with every token.
#[test]
fn restricted_partition_never_offers_capability_tools() {
    let stub = Stub::start(Script::default());
    let sandbox = Sandbox::new();
    let mut options = Options::in_workspace(sandbox.workspace());
    options.copilot_capabilities =
        json!({"subAgent": true, "manageTodoListTool": true, "watchedFiles": true});
    options.settings["github"]["copilot"]["workspaceIndex"]["enabled"] = true.into();
    let session = Copilot::start(lspool(&sandbox, &stub), options);
    session.on_request("copilot/watchedFiles", |_| Ok(json!({"files": []})));
    session.register_tools(&["read_file", "fetch_ticket"]).expect("the schemas are good");
    let sets: [(&str, &[&str]); 3] = [
        ("reader", &["read_file", "list_dir"]),
        ("planner", &["manage_todo_list", "fetch_ticket"]),
        ("nobody", &[]),
    ];
    let conversations: Vec<Value> = sets
        .iter()
        .map(|(name, names)| {
            let outcome = session.finish(&session.create(&format!("{name} at first"), tools(names)));
            assert_eq!(offered(&asked(&stub, &format!("{name} at first"), 0).1), set(names.iter().copied()));
            outcome.conversation()
        })
        .collect();
    let lead = session.finish(&session.create("lead at first", Value::Null)).conversation();
    let has_all = |question: &str| {
        let offered = asked(&stub, question, 0).1.tools;
        for name in ["run_subagent", "manage_todo_list", "semantic_search", "read_file", "fetch_ticket"] {
            assert!(offered.iter().any(|it| it == name), "{name} in {question}: {offered:?}");
        }
    };
    has_all("lead at first");

    // A new token brings them back in a process that may have them.
    let tokens = |log: &[LogEntry]| log.iter().filter(|it| it.path.ends_with("/v2/token")).count();
    let before = tokens(&stub.log());
    session.notify("copilot/didChangeToken", json!({}));
    for (n, (name, names)) in sets.iter().enumerate() {
        for again in ["second", "third"] {
            let question = format!("{name} a {again} time");
            session.finish(&session.turn(&conversations[n], &question, Value::Null)).expect_success();
            assert_eq!(offered(&asked(&stub, &question, 0).1), set(names.iter().copied()), "{question}");
        }
    }
    session.finish(&session.turn(&lead, "lead again", Value::Null)).expect_success();
    has_all("lead again");
    assert!(tokens(&stub.log()) >= before + 4, "every process took a new token");
    assert!(session.shutdown().success());
}
