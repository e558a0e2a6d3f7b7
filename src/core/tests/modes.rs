//! Conversations that a chat mode keeps to their tools.

mod closed;
mod model;

use serde_json::{Value, json};

use super::stage::{EDITOR, Stage, kept, name, process, uri};
use crate::{
    config::{Isolation, OnLimit, ServerKind},
    core::{
        copilot::tools::tool_set::ToolSet,
        event::{Event, Exit, KeptMode, Peer, ProcessId},
    },
};

const PRIMARY: ProcessId = process(0, 1);

fn stage() -> Stage {
    let mut it = Stage::new(ServerKind::Copilot);
    it.server.isolation = Isolation::Mode;
    it.initialize();
    it
}

/// Members of a create that ask for these tools.
fn tools(names: &[&str]) -> Value {
    json!({"chatMode": "Agent", "lspool": {"tools": names}})
}

/// How the server lists the modes that it has been told of.
fn listed(it: &Stage) -> Value {
    let mut modes = vec![json!({"id": "Agent", "name": "Agent", "kind": "Agent", "isBuiltIn": true})];
    let mut known: Vec<&str> = Vec::new();
    for mode in it.modes.iter().rev() {
        if !known.contains(&&*mode.name) {
            known.push(&mode.name);
            let uri = uri(mode);
            modes.push(
                json!({"id": uri, "uri": uri, "name": mode.name, "kind": "Agent", "customTools": mode.tools}),
            );
        }
    }
    json!(modes)
}

/// Answers the requests to the primary about modes; returns the others.
fn serve(it: &mut Stage, process: ProcessId) -> Vec<Value> {
    let mut told = Vec::new();
    loop {
        let batch = it.take(Peer::Backend(process));
        if batch.is_empty() {
            return told;
        }
        for request in batch {
            let result = match request["method"].as_str() {
                Some("customAgent/registerExtensionAgents") => Value::Null,
                Some("conversation/modes") => listed(it),
                Some("initialize") => json!({"capabilities": {}}),
                _ => {
                    told.push(request);
                    continue;
                }
            };
            it.server(process, json!({"id": request["id"], "result": result}));
        }
    }
}

fn methods(told: &[Value]) -> Vec<String> {
    told.iter().map(name).collect()
}

/// A turn begins, and is over.
fn answer(it: &mut Stage, process: ProcessId, request: &Value) {
    let token = &request["params"]["workDoneToken"];
    let id = &request["params"]["conversationId"];
    let turns = request["params"]["turns"].as_array();
    let turn = turns.map_or(&request["params"]["turnId"], |it| &it.last().unwrap()["turnId"]).clone();
    let said = |kind: &str| {
        let value = json!({"kind": kind, "conversationId": id, "turnId": turn});
        json!({"method": "$/progress", "params": {"token": token, "value": value}})
    };
    it.server(process, said("begin"));
    it.server(process, said("end"));
    it.server(process, json!({"id": request["id"], "result": {"conversationId": id, "turnId": turn}}));
}

fn turn(id: u32, conversation: &str) -> Value {
    json!({"id": id, "method": "conversation/turn", "params": {
        "conversationId": conversation, "message": "more", "chatMode": "Agent", "workDoneToken": format!("t{id}"),
    }})
}

fn create(it: &mut Stage, id: u32, conversation: &str, names: &[&str]) -> Vec<Value> {
    let mut more = tools(names);
    more["conversationId"] = json!(conversation);
    it.create(id, &more)
}

#[test]
fn create_is_sent_once_server_lists_its_mode() {
    let mut it = stage();
    it.holds_modes = true;
    create(&mut it, 1, "c", &["b", "a"]);
    assert!(it.take(Peer::Backend(PRIMARY)).is_empty(), "the file is not there yet");
    let mode = it.modes[0].clone();
    assert_eq!(mode.tools, ["a", "b"]);
    it.event(kept(&mode, true));
    let asked = it.take(Peer::Backend(PRIMARY));
    assert_eq!(methods(&asked), ["customAgent/registerExtensionAgents", "conversation/modes"]);
    let agent = json!({"uri": uri(&mode), "name": mode.name, "description": "tools"});
    assert_eq!(asked[0]["params"], json!({"extensionId": "lspool", "agents": [agent]}));
    it.server(PRIMARY, json!({"id": asked[0]["id"], "result": null}));
    assert!(it.take(Peer::Backend(PRIMARY)).is_empty(), "the server has not named it");
    let modes = listed(&it);
    it.server(PRIMARY, json!({"id": asked[1]["id"], "result": modes}));
    let told = it.take(Peer::Backend(PRIMARY));
    assert_eq!(told[0]["method"], "conversation/create");
    assert_eq!(told[0]["params"]["customChatModeId"], uri(&mode));
    assert_eq!(told[0]["params"].get("lspool"), None);
    assert_eq!(it.spawned, [PRIMARY]);
}

#[test]
fn next_turn_checks_mode_file_without_asking_server_again() {
    let mut it = stage();
    create(&mut it, 1, "c", &["a"]);
    let told = serve(&mut it, PRIMARY);
    answer(&mut it, PRIMARY, &told[0]);
    it.editor(turn(2, "c"));
    let told = it.take(Peer::Backend(PRIMARY));
    assert_eq!(methods(&told), ["conversation/turn"]);
    assert_eq!(told[0]["params"]["customChatModeId"], uri(&it.modes[0]));
    assert_eq!(it.modes.len(), 2, "the file was looked at twice");
    // Another conversation with the same set has the same mode.
    create(&mut it, 3, "d", &["a"]);
    let told = it.take(Peer::Backend(PRIMARY));
    assert_eq!(told[0]["params"]["customChatModeId"], uri(&it.modes[0]));
}

#[test]
fn conversation_unfit_for_mode_gets_a_process() {
    for more in [
        json!({"chatMode": "Ask", "lspool": {"tools": ["a"]}}),
        json!({"lspool": {"tools": ["a"]}}),
        json!({"chatMode": "Agent", "lspool": {"tools": ["a", "run_subagent"]}}),
        json!({"chatMode": "Agent", "lspool": {"tools": ["a"], "lead": true}}),
        json!({"chatMode": "Agent", "lspool": {"tools": ["a"], "isolation": "process"}}),
    ] {
        let mut it = stage();
        it.create(1, &more);
        assert_eq!(it.spawned, [PRIMARY, process(1, 1)], "{more}");
        assert!(it.modes.is_empty(), "{more}");
    }
    // A turn without isolation is unchanged.
    let mut it = stage();
    it.create(1, &json!({"chatMode": "Agent"}));
    assert_eq!(it.take(Peer::Backend(PRIMARY))[0]["params"].get("customChatModeId"), None);
}

#[test]
fn incorrectly_listed_mode_falls_back_to_process() {
    type Spoil = fn(&mut Vec<Value>);
    let spoils: [Spoil; 6] = [
        |it| drop(it.pop()),
        |it| it[1]["customTools"] = json!(["a", "b"]),
        |it| drop(it[1].as_object_mut().unwrap().remove("customTools")),
        |it| it[1]["id"] = json!("file:///other"),
        |it| it[1]["kind"] = json!("Ask"),
        |it| it.push(it[1].clone()),
    ];
    for spoil in spoils {
        let mut it = stage();
        create(&mut it, 1, "c", &["a"]);
        let asked = it.take(Peer::Backend(PRIMARY));
        let mut modes = listed(&it).as_array().unwrap().clone();
        spoil(&mut modes);
        it.server(PRIMARY, json!({"id": asked[1]["id"], "result": modes}));
        assert!(it.take(Peer::Backend(PRIMARY)).is_empty(), "{modes:?}");
        assert_eq!(it.spawned, [PRIMARY, process(1, 1)], "{modes:?}");
        let told = it.start(process(1, 1), &["a"]);
        let create = told.last().unwrap();
        assert_eq!(create["method"], "conversation/create");
        assert_eq!(create["params"].get("customChatModeId"), None);
    }
}

#[test]
fn unwritable_mode_file_falls_back_to_process() {
    let mut it = stage();
    it.holds_modes = true;
    create(&mut it, 1, "c", &["a"]);
    it.editor(turn(2, "c"));
    let number = it.modes[0].number;
    it.event(Event::ModeKept { number, kept: Err("no space".to_owned()) });
    assert!(it.take(Peer::Backend(PRIMARY)).is_empty());
    let told = it.start(process(1, 1), &[]);
    assert_eq!(told.last().unwrap()["method"], "conversation/create");
    // The next one does not try again.
    create(&mut it, 3, "d", &["a"]);
    assert_eq!(it.modes.len(), 1);
    answer(&mut it, process(1, 1), told.last().unwrap());
    assert!(methods(&it.take(Peer::Backend(process(1, 1)))).contains(&"conversation/turn".to_owned()));
}

#[test]
fn mode_refuses_calls_outside_set_even_after_destroy() {
    let mut it = stage();
    create(&mut it, 1, "c", &["a", "apply_patch"]);
    let told = serve(&mut it, PRIMARY);
    let call = |id: u32, name: &str| {
        let params =
            json!({"conversationId": "c", "turnId": "t", "name": name, "toolCallId": "x", "input": {}});
        json!({"id": id, "method": "conversation/invokeClientTool", "params": params})
    };
    it.take(EDITOR);
    it.server(PRIMARY, call(0, "run_in_terminal"));
    assert!(it.take(EDITOR).is_empty());
    let refused = it.take(Peer::Backend(PRIMARY));
    assert!(
        refused[0]["result"][0]["content"][0]["value"]
            .as_str()
            .unwrap()
            .contains("its tools are a,apply_patch")
    );
    it.server(PRIMARY, call(1, "insert_edit_into_file"));
    assert_eq!(it.take(EDITOR)[0]["params"]["name"], "insert_edit_into_file", "the family is in the set");
    it.editor(json!({"id": 9, "method": "conversation/destroy", "params": {"conversationId": "c"}}));
    it.take(EDITOR);
    let turn_id = told[0]["params"]["turns"][0]["turnId"].clone();
    let mut late = call(2, "run_in_terminal");
    late["params"]["turnId"] = turn_id;
    it.server(PRIMARY, late);
    assert!(it.take(EDITOR).is_empty(), "the turn still runs, and is still kept to its tools");
    // A turn of it would have every tool.
    it.take(Peer::Backend(PRIMARY));
    it.editor(turn(10, "c"));
    assert!(it.take(Peer::Backend(PRIMARY)).is_empty());
    assert!(it.take(EDITOR)[0]["error"]["message"].as_str().unwrap().contains("does not exist"));
}

#[test]
fn mode_files_follow_catalog_and_omit_disabled_tools() {
    let mut it = stage();
    let call = |it: &mut Stage, id: u32, method: &str, params: Value, offered: Value| {
        it.editor(json!({"id": id, "method": format!("conversation/{method}"), "params": params}));
        for request in it.take(Peer::Backend(PRIMARY)) {
            if request["method"] == format!("conversation/{method}") {
                it.server(PRIMARY, json!({"id": request["id"], "result": offered}));
            } else {
                it.put_back(Peer::Backend(PRIMARY), request);
            }
        }
    };
    create(&mut it, 1, "c", &["ide", "x"]);
    let asked = it.take(Peer::Backend(PRIMARY));
    assert_eq!(asked[0]["params"], json!({"tools": []}), "what the server offers is not known");
    it.server(
        PRIMARY,
        json!({"id": asked[0]["id"], "result": [{"name": "ide_own", "id": "copilot.ide_own"}]}),
    );
    let told = serve(&mut it, PRIMARY);
    assert_eq!(it.modes.last().unwrap().tools, ["ide_own", "x"]);
    answer(&mut it, PRIMARY, &told[0]);
    let register = json!({"tools": [{"name": "ide_open"}, {"name": "y"}]});
    call(&mut it, 2, "registerTools", register, json!([{"name": "ide_own"}, {"name": "ide_open"}]));
    assert_eq!(it.modes.last().unwrap().tools, ["ide_open", "ide_own", "x"]);
    let off = json!({"tools": [{"name": "ide_own", "status": "disabled"}]});
    call(&mut it, 3, "updateToolsStatus", off, json!([{"name": "ide_open"}]));
    assert_eq!(it.modes.last().unwrap().tools, ["ide_open", "x"]);
    // The next turn asks whether the server has noticed.
    it.editor(turn(4, "c"));
    let asked = it.take(Peer::Backend(PRIMARY));
    assert_eq!(methods(&asked), ["customAgent/registerExtensionAgents", "conversation/modes"]);
}

#[test]
fn turn_waits_for_catalog_change() {
    let mut it = stage();
    create(&mut it, 1, "c", &["a"]);
    let told = serve(&mut it, PRIMARY);
    answer(&mut it, PRIMARY, &told[0]);
    it.editor(json!({"id": 2, "method": "conversation/registerTools", "params": {"tools": [{"name": "a"}]}}));
    it.editor(turn(3, "c"));
    let told = it.take(Peer::Backend(PRIMARY));
    assert_eq!(methods(&told), ["conversation/registerTools"]);
    it.server(PRIMARY, json!({"id": told[0]["id"], "result": []}));
    assert_eq!(methods(&serve(&mut it, PRIMARY)), ["conversation/turn"]);
}

#[test]
fn editor_sees_no_trace_of_lspool_modes() {
    let mut it = stage();
    create(&mut it, 1, "c", &["a"]);
    let changed = json!({"method": "copilot/customAgent/didChange", "params": {}});
    it.take(EDITOR);
    it.server(PRIMARY, changed.clone());
    assert!(it.take(EDITOR).is_empty(), "of lspool's own making");
    it.server(PRIMARY, changed.clone());
    assert_eq!(it.take(EDITOR).len(), 1, "one for each registration");
    serve(&mut it, PRIMARY);
    it.server(PRIMARY, changed);
    assert_eq!(it.take(EDITOR).len(), 1);
    it.editor(json!({"id": 5, "method": "conversation/modes", "params": {}}));
    let asked = it.take(Peer::Backend(PRIMARY));
    let modes = listed(&it);
    it.server(PRIMARY, json!({"id": asked[0]["id"], "result": modes}));
    assert_eq!(it.take(EDITOR)[0]["result"], json!([modes[0]]));
    it.editor(json!({"id": 6, "method": "copilot/customAgent/list", "params": {}}));
    let asked = it.take(Peer::Backend(PRIMARY));
    it.server(PRIMARY, json!({"id": asked[0]["id"], "result": modes}));
    assert_eq!(it.take(EDITOR)[0]["result"], json!([modes[0]]));
}

#[test]
fn mode_is_verified_again_after_unsolicited_change() {
    let mut it = stage();
    create(&mut it, 1, "c", &["a"]);
    let told = serve(&mut it, PRIMARY);
    answer(&mut it, PRIMARY, &told[0]);
    for method in ["copilot/customAgent/didChange", "policy/didChange"] {
        it.server(PRIMARY, json!({"method": method, "params": {}}));
        it.editor(turn(2, "c"));
        let told = serve(&mut it, PRIMARY);
        assert_eq!(methods(&told), ["conversation/turn"]);
        answer(&mut it, PRIMARY, &told[0]);
    }
    it.server(PRIMARY, json!({"method": "policy/didChange", "params": {}}));
    it.editor(turn(4, "c"));
    let asked = it.take(Peer::Backend(PRIMARY));
    assert_eq!(methods(&asked), ["customAgent/registerExtensionAgents", "conversation/modes"]);
    // Custom modes are forbidden now: the conversation continues in a process.
    it.server(PRIMARY, json!({"id": asked[1]["id"], "result": []}));
    let told = it.take(Peer::Backend(PRIMARY));
    assert_eq!(methods(&told), ["conversation/destroy"]);
    let told = it.start(process(1, 1), &["a"]);
    assert!(methods(&told).contains(&"conversation/registerTools".to_owned()));
    assert_eq!(it.transcripts.len(), 1, "and what was said is told to it");
}

#[test]
fn turn_in_another_chat_mode_gets_a_process() {
    let mut it = stage();
    create(&mut it, 1, "c", &["a"]);
    let first = serve(&mut it, PRIMARY);
    // While another turn runs, and after that.
    let mut ask = turn(2, "c");
    ask["params"]["chatMode"] = json!("Ask");
    it.editor(ask);
    it.editor(turn(3, "c"));
    assert!(it.take(Peer::Backend(PRIMARY)).is_empty());
    answer(&mut it, PRIMARY, &first[0]);
    assert_eq!(it.spawned, [PRIMARY, process(1, 1)]);
    assert_eq!(methods(&it.take(Peer::Backend(PRIMARY))), ["conversation/destroy"]);
    it.start(process(1, 1), &["a"]);
    let folder = Ok("/run/lspool/1-1".into());
    it.event(Event::TranscriptWritten { process: process(1, 1), conversation: "c".to_owned(), folder });
    let told = it.take(Peer::Backend(process(1, 1)));
    let asked = told.last().unwrap();
    assert_eq!(asked["params"]["chatMode"], "Ask");
    assert_eq!(asked["params"].get("customChatModeId"), None);
    answer(&mut it, process(1, 1), asked);
    let told = it.take(Peer::Backend(process(1, 1)));
    assert_eq!(told.last().unwrap()["method"], "conversation/turn", "{told:?}");
}

#[test]
fn mode_conversations_survive_crash() {
    let mut it = stage();
    create(&mut it, 1, "c", &["a"]);
    let told = serve(&mut it, PRIMARY);
    answer(&mut it, PRIMARY, &told[0]);
    create(&mut it, 2, "d", &["a"]);
    it.exited(PRIMARY, Exit::Signal(9));
    let next = process(0, 2);
    let told = serve(&mut it, next);
    assert_eq!(it.spawned, [PRIMARY, next]);
    // The turn that had not begun starts again, in the mode.
    let asked = told.iter().find(|it| it["method"] == "conversation/create").unwrap();
    assert_eq!(asked["params"]["customChatModeId"], uri(&it.modes[0]));
    it.editor(turn(3, "c"));
    serve(&mut it, next);
    let folder = Ok("/run/lspool/0-2".into());
    it.event(Event::TranscriptWritten { process: next, conversation: "c".to_owned(), folder });
    let told = it.take(Peer::Backend(next));
    let restored = told.last().unwrap();
    assert_eq!(restored["method"], "conversation/create");
    assert_eq!(restored["params"]["customChatModeId"], uri(&it.modes[0]));
    assert!(restored["params"]["restoreToTurnId"].is_string());
}

#[test]
fn on_limit_mode_serves_conversation_beyond_process_limit() {
    for (on_limit, served) in [(OnLimit::Mode, true), (OnLimit::Error, false)] {
        let mut it = Stage::new(ServerKind::Copilot);
        it.server.max_processes = 2;
        it.server.on_limit = on_limit;
        it.initialize();
        create(&mut it, 1, "c", &["a"]);
        it.start(process(1, 1), &["a"]);
        let told = create(&mut it, 2, "d", &["b"]);
        assert_eq!(it.spawned, [PRIMARY, process(1, 1)]);
        let told_primary = serve(&mut it, PRIMARY);
        assert_eq!(told_primary.len() == 1, served);
        assert_eq!(told.is_empty(), served, "{told:?}");
        // Nor can a mode take what does not qualify.
        let told = it.create(3, &json!({"chatMode": "Ask", "lspool": {"tools": ["b"]}}));
        assert!(told[0]["error"]["message"].as_str().unwrap().contains("no room"));
    }
}

#[test]
fn conversation_destroyed_before_sending_is_never_sent() {
    let mut it = stage();
    it.holds_modes = true;
    create(&mut it, 1, "c", &["a"]);
    it.editor(json!({"id": 2, "method": "conversation/destroy", "params": {"conversationId": "c"}}));
    assert!(it.take(EDITOR)[0]["error"].is_object());
    let mode = it.modes[0].clone();
    it.event(kept(&mode, true));
    assert_eq!(methods(&serve(&mut it, PRIMARY)), ["conversation/destroy"]);
    // Nor a replaced or cancelled turn.
    create(&mut it, 3, "c", &["a"]);
    create(&mut it, 4, "c", &["a"]);
    let answers = it.take(EDITOR);
    assert!(answers.is_empty(), "{answers:?}");
    it.editor(json!({"method": "$/cancelRequest", "params": {"id": 4}}));
    let mode = it.modes.last().unwrap().clone();
    it.event(kept(&mode, false));
    assert!(serve(&mut it, PRIMARY).is_empty());
}

#[test]
fn unused_mode_makes_room_for_another_set() {
    let mut it = stage();
    let mut names: Vec<String> = Vec::new();
    let mut serve_one = |it: &mut Stage, id: u32| {
        let (conversation, tool) = (format!("c{id}"), format!("t{id}"));
        create(it, id, &conversation, &[&tool]);
        let told = serve(it, PRIMARY);
        assert_eq!(methods(&told), ["conversation/create"], "{id}: in a mode");
        let mode = it.modes.last().unwrap().clone();
        assert_eq!((&told[0]["params"]["customChatModeId"], &mode.tools), (&json!(uri(&mode)), &vec![tool]));
        answer(it, PRIMARY, &told[0]);
        names.push(mode.name);
    };
    for id in 1..=256 {
        serve_one(&mut it, id);
        // The first conversation stays.
        if id > 1 {
            let params = json!({"conversationId": format!("c{id}")});
            it.editor(json!({"id": 1000 + id, "method": "conversation/destroy", "params": params}));
            serve(&mut it, PRIMARY);
        }
    }
    serve_one(&mut it, 257);
    assert_eq!(names[256], names[1]);
    // So does a turn that runs on although its conversation is no more.
    create(&mut it, 3, "d", &["t3"]);
    serve(&mut it, PRIMARY);
    it.editor(json!({"id": 4, "method": "conversation/destroy", "params": {"conversationId": "d"}}));
    serve(&mut it, PRIMARY);
    let mut more = Vec::new();
    for id in 258..=260 {
        create(&mut it, id, &format!("c{id}"), &[&format!("t{id}")]);
        serve(&mut it, PRIMARY);
        more.push(it.modes.last().unwrap().name.clone());
    }
    assert_eq!(more, names[3..=5], "neither that of t1 nor that of t3");
}

#[test]
fn modes_remember_bounded_number_of_reasons() {
    let mut it = stage();
    for id in 1..=300_u32 {
        let mut more = tools(&[&format!("t{id}")]);
        more["chatMode"] = json!("Ask");
        it.create(id, &more);
    }
    let reason = |id: u32| {
        it.core.copilot.as_ref().unwrap().mode_reason(&ToolSet::new(Some(&[format!("t{id}")]), &[])).is_some()
    };
    assert!(reason(300) && reason(1), "which has a conversation");
    let n = (1..=300).filter(|id| reason(*id)).count();
    assert!(n < 300, "{n}");
}

#[test]
fn status_shows_isolation_of_each_set() {
    let mut it = stage();
    create(&mut it, 1, "c", &["a"]);
    serve(&mut it, PRIMARY);
    it.create(2, &json!({"chatMode": "Ask", "lspool": {"tools": ["b"]}}));
    it.editor(json!({"id": 3, "method": "lspool/status"}));
    it.event(super::stage::measured(Vec::new()));
    let status = it.take(EDITOR).pop().unwrap()["result"].take();
    let name = r#"partition "b" of copilot"#;
    let first_own = status["sets"][1]["ids"][0].clone();
    assert!(first_own.as_str().unwrap().starts_with("lspool-"), "{first_own}");
    assert_eq!(
        status["sets"],
        json!([
            {"toolset": ["a"], "isolation": "mode", "backend": "copilot", "conversations": 1, "why": null,
             "ids": ["c"], "unknown_tools": []},
            {"toolset": ["b"], "isolation": "process", "backend": name, "conversations": 1,
             "ids": [first_own], "why": "its chat mode is not Agent", "unknown_tools": []},
        ])
    );
}

/// Destroys nothing: the conversation moves to the process, which gets its history.
fn is_restored(it: &mut Stage, process: ProcessId, conversation: &str) -> Value {
    let folder = Ok("/run/lspool/x".into());
    it.event(Event::TranscriptWritten { process, conversation: conversation.to_owned(), folder });
    let told = serve(it, process);
    let create = told.into_iter().find(|it| it["method"] == "conversation/create").unwrap();
    assert!(create["params"]["restoreToTurnId"].is_string(), "{create}");
    create
}

#[test]
fn move_waits_for_end_of_turn() {
    let mut it = Stage::new(ServerKind::Copilot);
    it.initialize();
    let control = |it: &mut Stage, name: Value, to: &str| {
        it.editor(json!({"id": 90, "method": "lspool/move", "params": {"name": name, "to": to}}));
        it.take(EDITOR).pop().unwrap()
    };
    create(&mut it, 1, "c", &["a"]);
    let one = process(1, 1);
    let told = it.start(one, &["a"]);
    assert_eq!(control(&mut it, json!("x"), "mode")["error"]["code"], -32602);
    let moved = control(&mut it, json!("c"), "mode");
    assert_eq!(moved["result"], json!({"conversations": ["c"], "isolation": "mode", "refused": []}));
    it.editor(turn(2, "c"));
    assert!(it.take(Peer::Backend(PRIMARY)).is_empty(), "its turn runs");
    answer(&mut it, one, told.last().unwrap());
    let told = it.take(Peer::Backend(one));
    assert_eq!(told.last().unwrap()["method"], "conversation/turn", "what waited stays, too");
    answer(&mut it, one, told.last().unwrap());
    it.take(EDITOR);
    it.editor(turn(3, "c"));
    assert_eq!(methods(&it.take(Peer::Backend(one))), ["conversation/destroy"]);
    assert!(serve(&mut it, PRIMARY).is_empty());
    let asked = is_restored(&mut it, PRIMARY, "c");
    assert_eq!(asked["params"]["customChatModeId"], uri(&it.modes[0]));
    answer(&mut it, PRIMARY, &asked);
    it.take(EDITOR);
    // And back, by its tools.
    assert!(control(&mut it, json!("a"), "process")["result"].is_object());
    it.editor(turn(4, "c"));
    assert!(methods(&it.take(Peer::Backend(PRIMARY))).contains(&"conversation/destroy".to_owned()));
    let asked = is_restored(&mut it, one, "c");
    assert_eq!(asked["params"].get("customChatModeId"), None);
    // A conversation that cannot be in a mode does not move, and keeps no other from it.
    it.create(5, &json!({"conversationId": "d", "chatMode": "Ask", "lspool": {"tools": ["b"]}}));
    let refused = control(&mut it, json!("d"), "mode");
    assert!(refused["error"]["message"].as_str().unwrap().contains("chat mode is not Agent"), "{refused}");
    let moved = control(&mut it, Value::Null, "mode");
    assert_eq!(moved["result"]["conversations"], json!(["c"]));
    assert_eq!(
        moved["result"]["refused"],
        json!([{"conversation": "d", "why": "its chat mode is not Agent"}])
    );
    let unknown = control(&mut it, json!("nosuch"), "mode");
    assert_eq!(
        unknown["error"]["message"],
        "unknown conversation or tool set \"nosuch\"; expected one of a; b"
    );
}

#[test]
fn reload_keeps_process_of_conversation_unfit_for_mode() {
    let mut it = stage();
    it.create(1, &json!({"conversationId": "c", "chatMode": "Ask", "lspool": {"tools": ["a"]}}));
    let one = process(1, 1);
    let told = it.start(one, &["a"]);
    answer(&mut it, one, told.last().unwrap());
    it.server.probe_timeout = std::time::Duration::from_secs(17);
    it.event(Event::FilesChanged);
    assert_eq!(it.terminated, []);
}

#[test]
fn changed_isolation_moves_idle_conversations_and_keeps_running_turns() {
    let mut it = Stage::new(ServerKind::Copilot);
    it.initialize();
    for (n, id, tool) in [(1, "c", "a"), (2, "d", "b")] {
        create(&mut it, n, id, &[tool]);
    }
    let (one, two) = (process(1, 1), process(2, 1));
    let told = it.start(one, &["a"]);
    answer(&mut it, one, told.last().unwrap());
    let running = it.start(two, &["b"]).pop().unwrap();
    it.server.isolation = Isolation::Mode;
    it.event(Event::FilesChanged);
    assert_eq!(it.terminated, [one], "nothing in it stays");
    it.exited(one, Exit::Code(0));
    answer(&mut it, two, &running);
    it.take(EDITOR);
    it.editor(turn(3, "c"));
    serve(&mut it, PRIMARY);
    let asked = is_restored(&mut it, PRIMARY, "c");
    assert!(asked["params"]["customChatModeId"].is_string());
    answer(&mut it, PRIMARY, &asked);
    it.editor(turn(4, "d"));
    serve(&mut it, PRIMARY);
    let asked = is_restored(&mut it, PRIMARY, "d");
    answer(&mut it, PRIMARY, &asked);
    it.server.isolation = Isolation::Process;
    it.event(Event::FilesChanged);
    it.editor(turn(5, "c"));
    assert_eq!(it.spawned.last(), Some(&process(3, 1)));
    it.start(process(3, 1), &["a"]);
    let asked = is_restored(&mut it, process(3, 1), "c");
    assert_eq!(asked["params"].get("customChatModeId"), None);
}

#[test]
fn mode_is_quarantined_after_call_outside_its_set() {
    let mut it = stage();
    create(&mut it, 1, "c", &["a"]);
    let told = serve(&mut it, PRIMARY);
    let turn_id = told[0]["params"]["turns"][0]["turnId"].clone();
    let said = |value: Value| {
        let mut value = value;
        value["conversationId"] = json!("c");
        value["turnId"] = turn_id.clone();
        json!({"method": "$/progress", "params": {"token": "t1", "value": value}})
    };
    it.server(PRIMARY, said(json!({"kind": "begin"})));
    let call = |name: &str| json!([{"roundId": 1, "reply": "", "toolCalls": [{"id": name, "name": name, "toolType": "shared", "status": "running"}]}]);
    it.server(PRIMARY, said(json!({"kind": "report", "editAgentRounds": call("a")})));
    assert!(it.take(Peer::Backend(PRIMARY)).is_empty());
    it.take(EDITOR);
    it.server(PRIMARY, said(json!({"kind": "report", "editAgentRounds": call("list_dir")})));
    assert_eq!(methods(&it.take(Peer::Backend(PRIMARY))), ["$/cancelRequest"]);
    let shown = it.take(EDITOR);
    assert!(shown.iter().any(|it| it["method"] == "window/showMessage"), "{shown:?}");
    it.server(PRIMARY, said(json!({"kind": "end", "cancellationReason": "CancelledByUser"})));
    it.server(PRIMARY, json!({"id": told[0]["id"], "result": {"conversationId": "c", "turnId": turn_id}}));
    it.editor(turn(2, "c"));
    assert_eq!(it.spawned, [PRIMARY, process(1, 1)]);
}

#[test]
fn editor_mode_is_narrowed_and_verified_as_read() {
    let own = "file:///project/.github/agents/reviewer.agent.md";
    let more = json!({
        "conversationId": "c", "chatMode": "Agent", "customChatModeId": own, "lspool": {"tools": ["a", "b"]},
    });
    for (listed_tools, expected) in [(json!(["b", "c"]), true), (json!(["a", "b"]), false)] {
        let mut it = stage();
        it.holds_modes = true;
        it.create(1, &more);
        let mode = it.modes[0].clone();
        assert_eq!(
            mode.of.as_deref(),
            Some(std::path::Path::new("/project/.github/agents/reviewer.agent.md"))
        );
        let read = KeptMode {
            file: format!("/run/lspool/modes/{}.agent.md", mode.name).into(),
            title: "reviewer".to_owned(),
            tools: vec!["b".to_owned()],
            is_new: true,
        };
        it.event(Event::ModeKept { number: mode.number, kept: Ok(read) });
        let asked = it.take(Peer::Backend(PRIMARY));
        assert_eq!(asked[0]["params"]["agents"][0]["name"], "reviewer");
        let listed = json!([
            {"id": own, "kind": "Agent", "customTools": listed_tools},
            {"id": uri(&mode), "kind": "Agent", "customTools": ["b"]},
        ]);
        it.server(PRIMARY, json!({"id": asked[1]["id"], "result": listed}));
        let told = it.take(Peer::Backend(PRIMARY));
        assert_eq!(told.len() == 1, expected, "{told:?}");
        if expected {
            assert_eq!(told[0]["params"]["customChatModeId"], uri(&mode));
        } else {
            let told = it.start(process(1, 1), &["a", "b"]);
            assert_eq!(told.last().unwrap()["params"]["customChatModeId"], own, "a process has the editor's");
        }
    }
    for built_in in ["Plan", "file:///snapshot/x/dist/assets/agents/Plan.agent.md", "plugin:x"] {
        let mut it = stage();
        let mut more = more.clone();
        more["customChatModeId"] = json!(built_in);
        it.create(1, &more);
        assert_eq!(it.spawned.len(), 2, "{built_in}");
    }
}
