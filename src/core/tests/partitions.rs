//! Conversations by tool set.

use std::time::Duration;

use serde_json::{Value, json};

use super::stage::{EDITOR, Stage, name, process};
use crate::{
    config::ServerKind,
    core::event::{Exit, Peer},
};

fn tools(names: &[&str]) -> serde_json::Value {
    json!({"lspool": {"tools": names}})
}

#[test]
fn equal_tool_sets_share_a_process() {
    let mut it = Stage::copilot().agent("explorer", &["read_file", "list_dir"]);
    it.create(1, &json!({}));
    it.create(2, &tools(&["list_dir", "read_file"]));
    it.create(3, &tools(&["read_file", " list_dir", "read_file"]));
    it.create(4, &tools(&[]));
    assert_eq!(it.spawned, [process(0, 1), process(1, 1), process(2, 1)]);
}

#[test]
fn copilot_server_is_recognized_by_its_server_info() {
    let run = |configured: Option<ServerKind>, name: &str| {
        let mut it = Stage::new(ServerKind::Generic);
        it.server.kind = configured;
        it.editor(json!({"id": 0, "method": "initialize", "params": {"processId": 1, "capabilities": {}}}));
        let asked = it.take(Peer::Backend(process(0, 1)));
        let result = json!({"capabilities": {}, "serverInfo": {"name": name, "version": "1"}});
        it.server(process(0, 1), json!({"id": asked[0]["id"], "result": result}));
        it.editor(json!({"method": "initialized", "params": {}}));
        it.create(1, &tools(&["read_file"]));
        it.spawned.len()
    };
    assert_eq!(run(None, "GitHub Copilot Language Server"), 2);
    assert_eq!(run(None, "pyright"), 1);
    assert_eq!(run(Some(ServerKind::Generic), "GitHub Copilot Language Server"), 1);
}

#[test]
fn copilot_server_under_another_name_keeps_transcripts() {
    let run = |configured: Option<ServerKind>, name: &str| {
        let mut it = Stage::new(ServerKind::Generic);
        (it.server.kind, it.server.exact_restore, it.name) = (configured, true, "my-copilot".to_owned());
        it.editor(json!({"id": 0, "method": "initialize", "params": {"processId": 1, "capabilities": {}}}));
        let asked = it.take(Peer::Backend(process(0, 1)));
        let result = json!({"capabilities": {}, "serverInfo": {"name": name, "version": "1"}});
        it.server(process(0, 1), json!({"id": asked[0]["id"], "result": result}));
        it.editor(json!({"method": "initialized", "params": {}}));
        let said = it.take(EDITOR);
        let shown = said.iter().filter(|it| it["method"] == "window/showMessage");
        let shown: Vec<_> = shown.map(|it| it["params"]["message"].as_str().unwrap().to_owned()).collect();
        let told = it.take(Peer::Backend(process(0, 1)));
        let folder = |it: &Value| {
            it["params"]["settings"]["github"]["copilot"]["agent"]["transcriptDirectory"].clone()
        };
        (told.iter().map(folder).find(|it| !it.is_null()).unwrap_or_default(), shown)
    };
    let copilot = "GitHub Copilot Language Server";
    assert_eq!(run(None, copilot), (json!("/private/kept"), vec![]));
    assert_eq!(run(Some(ServerKind::Copilot), "other"), (json!("/private/kept"), vec![]));
    for (configured, name) in [(None, "pyright"), (Some(ServerKind::Generic), copilot)] {
        let (folder, shown) = run(configured, name);
        assert_eq!(folder, Value::Null);
        let [problem] = &shown[..] else { panic!("{shown:?}") };
        assert!(problem.starts_with("[server.my-copilot] exact_restore has no effect: "), "{problem}");
    }
}

#[test]
fn turn_waits_until_partition_offers_only_its_set() {
    let mut it = Stage::copilot();
    it.editor(json!({"id": 1, "method": "conversation/registerTools", "params": {"tools": [{"name": "a"}, {"name": "b"}]}}));
    let asked = it.take(Peer::Backend(process(0, 1)));
    it.create(2, &tools(&["a"]));
    it.server(process(0, 1), json!({"id": asked[0]["id"], "result": []}));
    let told = it.start(process(1, 1), &["a", "list_dir"]);
    let methods: Vec<_> = told.iter().map(super::stage::name).collect();
    assert_eq!(
        methods,
        [
            "initialize",
            "initialized",
            "conversation/registerTools",
            "conversation/unregisterTools",
            "conversation/create"
        ]
    );
    assert_eq!(told[2]["params"], json!({"tools": [{"name": "a"}]}));
    assert_eq!(told[3]["params"], json!({"toolIds": ["copilot.list_dir"]}));
    assert_eq!(told[4]["params"].get("lspool"), None);
    assert!(told[4]["params"]["conversationId"].as_str().unwrap().starts_with("lspool-77-5-"));
}

#[test]
fn partition_that_cannot_be_restricted_takes_no_turn() {
    let mut it = Stage::copilot();
    it.create(1, &tools(&[]));
    let one = process(1, 1);
    for _ in 0..20 {
        for request in it.take(Peer::Backend(one)) {
            assert_ne!(request["method"], "conversation/create");
            let result = json!([{"name": "list_dir", "id": "copilot.list_dir"}]);
            it.server(one, json!({"id": request["id"], "result": result}));
        }
    }
    assert_eq!(it.take(EDITOR)[0]["error"]["data"]["lspool"]["cause"], "not restricted");
    assert_eq!(it.terminated, [one]);
}

#[test]
fn call_outside_set_is_refused_by_lspool() {
    let mut it = Stage::copilot();
    it.create(1, &json!({"conversationId": "c", "lspool": {"tools": ["a"]}}));
    let one = process(1, 1);
    it.start(one, &[]);
    let call = |name: &str, id: u32| json!({"id": id, "method": "conversation/invokeClientTool", "params": {"name": name, "conversationId": "c", "toolCallId": "x"}});
    it.server(one, call("b", 0));
    assert!(it.take(EDITOR).is_empty());
    let answer = &it.take(Peer::Backend(one))[0];
    assert_eq!(answer["id"], 0);
    assert_eq!(answer["result"][0]["status"], "error");
    it.server(one, call("a", 0));
    it.server(process(0, 1), call("b", 0));
    let asked = it.take(EDITOR);
    assert_eq!(asked.len(), 2);
    it.editor(json!({"id": asked[1]["id"], "result": "second"}));
    it.editor(json!({"id": asked[0]["id"], "result": "first"}));
    assert_eq!(it.take(Peer::Backend(one))[0]["result"], "first");
    assert_eq!(it.take(Peer::Backend(process(0, 1))).last().unwrap()["result"], "second");
}

#[test]
fn turn_waits_only_briefly_for_mcp_servers_of_its_set() {
    let mut it = Stage::copilot();
    let mcp = json!({"mini": {"command": "x"}, "foreign": {"command": "x"}}).to_string();
    let settings = json!({"github": {"copilot": {"mcp": mcp}}});
    it.editor(json!({"method": "workspace/didChangeConfiguration", "params": {"settings": settings}}));
    let create = |id: &str, tool: &str| json!({"conversationId": id, "lspool": {"tools": [tool]}});
    it.create(1, &create("a", "mini/echo"));
    let begun = |told: &[serde_json::Value]| told.iter().any(|it| it["method"] == "conversation/create");
    assert!(!begun(&it.start(process(1, 1), &[])));
    // Up, but its tools are to come.
    let servers = |tools: serde_json::Value| json!({"servers": [{"name": "mini", "status": "running", "tools": tools}]});
    it.server(process(1, 1), json!({"method": "copilot/mcpTools", "params": servers(json!([]))}));
    assert!(it.take(Peer::Backend(process(1, 1))).is_empty());
    let echo = json!([{"name": "echo", "_status": "enabled"}]);
    it.server(process(1, 1), json!({"method": "copilot/mcpTools", "params": servers(echo)}));
    assert_eq!(it.told(process(1, 1)), ["conversation/create"]);

    // An MCP server that never starts.
    it.create(2, &create("b", "mini/other"));
    assert!(!begun(&it.start(process(2, 1), &[])));
    it.take(EDITOR);
    it.pass(Duration::from_secs(11));
    assert_eq!(it.told(process(2, 1)), ["conversation/create"]);
    let shown = &it.take(EDITOR)[0];
    assert_eq!(shown["method"], "window/showMessage");
    let message = shown["params"]["message"].as_str().expect("text");
    assert!(message.contains("MCP server mini,") && message.contains("mcp_wait"), "{message}");

    // Without a sign-in no MCP server starts.
    it.create(3, &create("c", "mini/third"));
    assert!(!begun(&it.start(process(3, 1), &[])));
    it.server(process(3, 1), json!({"method": "didChangeStatus", "params": {"kind": "Error"}}));
    assert_eq!(it.told(process(3, 1)), ["conversation/create"]);

    // Sets without MCP tools wait for nothing.
    it.create(4, &create("d", "read_file"));
    assert!(begun(&it.start(process(4, 1), &[])));
}

#[test]
fn turn_waits_for_mcp_servers_of_pulled_settings() {
    let mut it = Stage::copilot();
    let pull = json!({"items": [{"section": "github.copilot"}]});
    it.server(process(0, 1), json!({"id": 9, "method": "workspace/configuration", "params": pull}));
    let pulled = it.take(EDITOR);
    let mcp = json!({"mini": {"command": "x"}, "foreign": {"command": "x"}}).to_string();
    it.editor(json!({"id": pulled[0]["id"], "result": [{"mcp": mcp}]}));

    it.create(1, &json!({"conversationId": "a", "lspool": {"tools": ["mini/echo"]}}));
    let one = process(1, 1);
    let begun = |told: &[serde_json::Value]| told.iter().any(|it| it["method"] == "conversation/create");
    assert!(!begun(&it.start(one, &[])), "its own pull is still to come");
    let echo = json!([{"name": "echo", "_status": "enabled"}]);
    let servers = json!({"servers": [{"name": "mini", "status": "running", "tools": echo}]});
    it.server(one, json!({"method": "copilot/mcpTools", "params": servers}));
    assert_eq!(it.told(one), ["conversation/create"]);
}

#[test]
fn turn_waits_until_foreign_mcp_tools_are_disabled() {
    let mut it = Stage::copilot();
    it.create(1, &json!({"conversationId": "c", "lspool": {"tools": ["mini/echo"]}}));
    let one = process(1, 1);
    it.start(one, &[]);
    let tools = json!([{"name": "echo", "_status": "enabled"}, {"name": "other", "_status": "enabled"}]);
    let servers = json!({"servers": [{"name": "mini", "tools": tools}]});
    it.server(one, json!({"method": "copilot/mcpTools", "params": servers}));
    it.create(2, &json!({"conversationId": "d", "lspool": {"tools": ["mini/echo"]}}));
    let told = it.take(Peer::Backend(one));
    assert_eq!(told.len(), 1);
    let taken = json!({"servers": [{"name": "mini", "tools": [{"name": "other", "status": "disabled"}]}]});
    assert_eq!((&told[0]["method"], &told[0]["params"]), (&json!("mcp/updateToolsStatus"), &taken));
    it.server(one, json!({"id": told[0]["id"], "result": []}));
    assert_eq!(it.told(one), ["conversation/create"]);
}

#[test]
fn turns_of_one_conversation_run_one_by_one() {
    let mut it = Stage::copilot();
    let primary = process(0, 1);
    it.create(1, &json!({"conversationId": 4711}));
    let turn = |id: u32| json!({"id": id, "method": "conversation/turn", "params": {"conversationId": 4711, "message": "m"}});
    it.editor(turn(2));
    it.editor(turn(3));
    let told = it.take(Peer::Backend(primary));
    assert_eq!(told.len(), 1);
    it.editor(json!({"method": "$/cancelRequest", "params": {"id": 2}}));
    assert_eq!(it.take(EDITOR)[0]["error"]["code"], -32800);
    it.server(primary, json!({"id": told[0]["id"], "result": {"turnId": "t"}}));
    assert_eq!(it.told(primary), ["conversation/turn"]);
}

#[test]
fn cancelled_turn_does_not_wait_for_its_tools() {
    let mut it = Stage::copilot();
    let primary = process(0, 1);
    it.create(1, &json!({"conversationId": "c"}));
    it.take(Peer::Backend(primary));
    let call = json!({"id": 0, "method": "conversation/invokeClientTool", "params": {"name": "a", "conversationId": "c"}});
    it.server(primary, call.clone());
    let asked = it.take(EDITOR);
    it.editor(json!({"method": "window/workDoneProgress/cancel", "params": {"token": "t1"}}));
    let told = it.take(Peer::Backend(primary));
    assert_eq!(told[0]["method"], "window/workDoneProgress/cancel");
    assert_eq!(told[1]["result"][0]["status"], "cancelled");
    assert_eq!(it.take(EDITOR)[0]["params"]["id"], asked[0]["id"]);
    // A late answer finds nothing, and a call that crossed the cancellation is not made.
    it.editor(json!({"id": asked[0]["id"], "result": "late"}));
    it.server(primary, call);
    assert!(it.take(EDITOR).is_empty());
    assert_eq!(it.take(Peer::Backend(primary)).len(), 1);
}

#[test]
fn idle_partitions_stop_and_only_they_make_room() {
    let mut it = Stage::new(crate::config::ServerKind::Copilot);
    it.server.max_processes = 2;
    it.initialize();
    it.create(1, &json!({"conversationId": "c", "lspool": {"tools": ["a"]}}));
    let one = process(1, 1);
    let told = it.start(one, &[]);
    let refused = it.create(2, &tools(&["b"]));
    assert_eq!(refused[0]["error"]["data"]["lspool"]["cause"], "max_processes");
    it.server(one, json!({"id": told.last().unwrap()["id"], "result": {}}));
    it.editor(json!({"id": 3, "method": "conversation/destroy", "params": {"conversationId": "c"}}));
    let destroy = it.take(Peer::Backend(one));
    it.server(one, json!({"id": destroy[0]["id"], "result": "OK"}));
    it.create(4, &tools(&["b"]));
    assert_eq!(it.terminated, [one]);
    assert_eq!(it.spawned.len(), 2, "the new one waits for the old one's end");
    it.exited(one, Exit::Code(0));
    assert_eq!(it.spawned.last(), Some(&process(2, 1)));
    let told = it.start(process(2, 1), &[]);
    it.server(
        process(2, 1),
        json!({"id": told.last().unwrap()["id"], "error": {"code": 1000, "message": "no"}}),
    );
    it.pass(Duration::from_secs(299));
    assert_eq!(it.terminated.len(), 1);
    it.pass(Duration::from_secs(2));
    assert_eq!(it.terminated.len(), 2, "a create that failed binds nothing");
}

#[test]
fn idle_partition_without_timeout_stops_only_for_new_one() {
    let mut it = Stage::new(crate::config::ServerKind::Copilot);
    it.server.max_processes = 2;
    it.server.idle_timeout = Duration::ZERO;
    it.server.on_limit = crate::config::OnLimit::Error;
    it.initialize();
    it.create(1, &json!({"conversationId": "c", "lspool": {"tools": ["a"]}}));
    let one = process(1, 1);
    let told = it.start(one, &[]);
    let refused = it.create(2, &tools(&["b"]));
    assert_eq!(refused[0]["error"]["data"]["lspool"]["retry"], true, "the turn comes to its end");
    it.server(one, json!({"id": told.last().unwrap()["id"], "result": {}}));
    it.pass(Duration::from_mins(10));
    assert_eq!(it.terminated, [], "its conversation is alive");
    it.create(3, &tools(&["b"]));
    assert_eq!(it.terminated, [one]);
    it.exited(one, Exit::Code(0));
    assert_eq!(it.spawned.last(), Some(&process(2, 1)));
}

#[test]
fn unknown_tool_names_are_reported_once_and_in_status() {
    let mut it = Stage::copilot();
    let primary = process(0, 1);
    it.editor(json!({"id": 1, "method": "conversation/registerTools", "params": {"tools": [{"name": "fetch_ticket"}]}}));
    let asked = it.take(Peer::Backend(primary));
    it.server(primary, json!({"id": asked.last().unwrap()["id"], "result": []}));
    it.take(EDITOR);
    let named =
        ["Read", "fetch_tickt", "whatever", "jira/get", "mcp_jira_put", "read_file", "fetch_ticket", "ide"];
    it.create(2, &tools(&named));
    it.start(process(1, 1), &["read_file"]);
    let shown: Vec<Value> = it.take(EDITOR).iter().map(|it| it["params"]["message"].clone()).collect();
    let set = "Read,fetch_ticket,fetch_tickt,ide,jira/get,mcp_jira_put,read_file,whatever";
    let told = |name: &str, meant: &str| {
        json!(format!("lspool: unknown tool \"{name}\" in the tool set {set}; did you mean {meant}?"))
    };
    assert_eq!(shown, [told("Read", "read_file"), told("fetch_tickt", "fetch_ticket")]);
    it.create(3, &tools(&["Read", "grep_search"]));
    it.start(process(2, 1), &["grep_search"]);
    assert_eq!(it.take(EDITOR), [] as [Value; 0], "once is enough");
    it.editor(json!({"id": 4, "method": "lspool/status"}));
    it.event(super::stage::measured(Vec::new()));
    let sets = it.take(EDITOR).pop().unwrap()["result"]["sets"].take();
    let unknown: Vec<&Value> = sets.as_array().unwrap().iter().map(|it| &it["unknown_tools"]).collect();
    assert_eq!(unknown, [&json!(["Read", "fetch_tickt", "whatever"]), &json!(["Read"])]);
}

#[test]
fn error_suggests_raising_max_processes_when_one_is_allowed() {
    let mut it = Stage::new(crate::config::ServerKind::Copilot);
    it.server.max_processes = 1;
    it.server.on_limit = crate::config::OnLimit::Error;
    it.initialize();
    let error = it.create(1, &tools(&["b"])).remove(0)["error"].take();
    assert_eq!(error["data"]["lspool"]["retry"], false);
    assert!(error["message"].as_str().unwrap().contains("raise max_processes"), "{error}");
}

#[test]
fn partition_with_pending_request_is_not_idle() {
    let mut it = Stage::patient();
    let one = process(1, 1);
    it.create(1, &json!({"conversationId": "c", "lspool": {"tools": ["a"]}}));
    let told = it.start(one, &[]);
    it.server(one, json!({"id": told.last().unwrap()["id"], "result": {"turnId": "t"}}));
    it.editor(json!({"id": 2, "method": "conversation/destroy", "params": {"conversationId": "c"}}));
    let destroy = it.take(Peer::Backend(one));
    it.server(one, json!({"id": destroy[0]["id"], "result": "OK"}));
    it.editor(json!({"id": 3, "method": "conversation/rating", "params": {"turnId": "t"}}));
    it.pass(Duration::from_mins(10));
    assert_eq!(it.terminated, [], "it owes an answer");
}

#[test]
fn create_cancelled_in_time_leaves_partition_idle() {
    let mut it = Stage::patient();
    let one = process(1, 1);
    it.create(1, &json!({"conversationId": "c", "lspool": {"tools": ["a"]}}));
    let told = it.start(one, &[]);
    it.server(one, json!({"id": told.last().unwrap()["id"], "error": {"code": 1000, "message": "no"}}));
    // The primary does not answer: the partition's turns are queued.
    it.editor(json!({"id": 2, "method": "conversation/registerTools", "params": {"tools": [{"name": "a"}]}}));
    it.create(3, &json!({"conversationId": "d", "lspool": {"tools": ["a"]}}));
    it.editor(json!({"method": "$/cancelRequest", "params": {"id": 3}}));
    it.pass(Duration::from_secs(301));
    assert_eq!(it.terminated, [one]);
}

#[test]
fn turns_queued_behind_cancelled_create_reach_the_server() {
    let mut it = Stage::copilot();
    let one = process(1, 1);
    it.create(1, &json!({"conversationId": "c", "lspool": {"tools": ["a"]}}));
    for id in [2, 3] {
        it.editor(json!({"id": id, "method": "conversation/turn", "params": {"conversationId": "c"}}));
    }
    it.editor(json!({"method": "$/cancelRequest", "params": {"id": 1}}));
    let told = it.start(one, &[]);
    let turns = told.iter().filter(|it| it["method"] == "conversation/turn");
    assert_eq!(turns.count(), 2);
}

#[test]
fn invalid_create_gets_no_more_tools_than_it_asks_for() {
    let mut it = Stage::copilot();
    let odd = it.create(1, &json!({"conversationId": [], "lspool": {"tools": ["a"]}}));
    assert_eq!(odd[0]["error"]["code"], -32602);
    it.create(2, &json!({"conversationId": [], "lspool": null}));
    let passed = it.take(Peer::Backend(process(0, 1)));
    assert_eq!(passed.len(), 1);
    assert_eq!(passed[0]["params"].get("lspool"), None);

    let mut it = Stage::new(crate::config::ServerKind::Copilot);
    it.editor(json!({"id": 0, "method": "initialize", "params": {}}));
    let early = it.create(1, &json!({"conversationId": "c", "lspool": {"tools": ["a"]}}));
    assert_eq!(early[0]["error"]["code"], -32002);
    assert_eq!(it.told(process(0, 1)), ["initialize"]);
}

#[test]
fn restarting_process_keeps_its_place() {
    let mut it = Stage::new(crate::config::ServerKind::Copilot);
    it.server.max_processes = 2;
    it.initialize();
    let one = process(1, 1);
    it.create(1, &json!({"conversationId": "c", "lspool": {"tools": ["a"]}}));
    let told = it.start(one, &[]);
    it.server(one, json!({"id": told.last().unwrap()["id"], "error": {"code": 1000, "message": "no"}}));
    it.exited(process(0, 1), Exit::Signal(9));
    it.start(process(0, 2), &[]);
    // The second restart waits a second.
    it.exited(process(0, 2), Exit::Signal(9));
    it.create(2, &tools(&["b"]));
    assert_eq!(it.terminated, [one]);
    it.pass(Duration::from_secs(1));
    assert_eq!(it.spawned, [process(0, 1), one, process(0, 2), process(0, 3)]);
    it.exited(one, Exit::Code(0));
    assert_eq!(it.spawned.last(), Some(&process(2, 1)));
}

#[test]
fn token_is_free_again_after_its_request_is_answered() {
    let mut it = Stage::copilot();
    it.create(1, &tools(&["a"]));
    let (primary, one) = (process(0, 1), process(1, 1));
    it.start(one, &[]);
    let ask = |method: &str, key: &str| json!({"id": 0, "method": method, "params": {key: 7}});
    it.server(primary, ask("context/update", "partialResultToken"));
    let asked = it.take(EDITOR);
    it.editor(json!({"id": asked[0]["id"], "result": []}));
    it.server(one, ask("window/workDoneProgress/create", "token"));
    let asked = it.take(EDITOR);
    assert_eq!(asked[0]["params"]["token"], 7, "nobody else has it");
    it.editor(json!({"id": asked[0]["id"], "result": null}));
    it.server(primary, ask("context/update", "partialResultToken"));
    assert_eq!(
        it.take(EDITOR)[0]["params"]["partialResultToken"],
        "lspool-1",
        "it was created and has not ended"
    );
}

#[test]
fn refused_create_leaves_partition_idle() {
    let mut it = Stage::copilot();
    it.create(1, &json!({"conversationId": "c", "lspool": {"tools": []}}));
    it.editor(json!({"id": 2, "method": "conversation/turn", "params": {"conversationId": "c"}}));
    let one = process(1, 1);
    let told = it.start(one, &[]);
    it.server(one, json!({"id": told.last().unwrap()["id"], "error": {"code": -32603, "message": "no"}}));
    let turn = it.take(Peer::Backend(one));
    assert_eq!(turn[0]["method"], "conversation/turn");
    it.server(
        one,
        json!({"id": turn[0]["id"], "error": {"code": -32603, "message": "no such conversation"}}),
    );
    assert_eq!(it.take(EDITOR).len(), 2);
    it.pass(Duration::from_mins(6));
    assert_eq!(it.terminated, [one], "it is idle");
}

#[test]
fn partition_gets_sign_in_before_status_check() {
    let mut it = Stage::copilot();
    it.create(1, &tools(&["a"]));
    let one = process(1, 1);
    let asked = it.take(Peer::Backend(one));
    it.server(one, json!({"id": asked[0]["id"], "result": {}}));
    it.editor(json!({"method": "github/didChangeAuth", "params": {"githubToken": "x"}}));
    let told = it.start(one, &[]);
    let methods: Vec<_> = told.iter().map(super::stage::name).collect();
    let place = |method: &str| methods.iter().position(|it| it == method);
    assert!(place("github/didChangeAuth") < place("checkStatus"), "{methods:?}");
}

/// The primary says that nobody is signed in, or that somebody is.
fn says_sign_in(it: &mut Stage, kind: &str) {
    let statuses = json!([{"category": "auth", "kind": kind}, {"category": "cls", "kind": "Normal"}]);
    let primary = process(0, 1);
    it.server(primary, json!({"method": "didChangeStatus/v2", "params": {"statuses": statuses}}));
    it.take(EDITOR);
}

#[test]
fn requests_about_conversation_wait_for_create_that_waits_for_sign_in() {
    let mut it = Stage::copilot();
    let primary = process(0, 1);
    let set = json!({"conversationId": "c", "lspool": {"tools": ["a"]}});
    says_sign_in(&mut it, "Error");
    it.create(1, &set);
    let turn = json!({"id": 2, "method": "conversation/turn", "params": {"conversationId": "c", "workDoneToken": "2"}});
    it.editor(turn.clone());
    let asked = it.take(Peer::Backend(primary));
    assert_eq!(asked.iter().map(name).collect::<Vec<_>>(), ["copilot/models"; 2]);
    // The answers come in the other order: the turn asks again.
    it.server(primary, json!({"id": asked[1]["id"], "result": []}));
    let again = it.take(Peer::Backend(primary));
    assert_eq!(again.iter().map(name).collect::<Vec<_>>(), ["copilot/models"]);
    it.server(primary, json!({"id": asked[0]["id"], "result": []}));
    it.server(primary, json!({"id": again[0]["id"], "result": []}));
    let told = it.start(process(1, 1), &[]);
    assert_eq!(name(told.last().unwrap()), "conversation/create");
    let create = told.last().unwrap();
    it.server(process(1, 1), json!({"id": create["id"], "result": {"conversationId": "c", "turnId": "t"}}));
    let told = it.take(Peer::Backend(process(1, 1)));
    assert_eq!(told.iter().map(name).collect::<Vec<_>>(), ["conversation/turn"]);
    assert!(it.told(primary).iter().all(|it| it != "conversation/turn"));
    // Two creates with one id do not wait for each other.
    says_sign_in(&mut it, "Error");
    let set = json!({"conversationId": "e", "lspool": {"tools": ["e"]}});
    it.create(5, &set);
    it.create(6, &set);
    for asked in it.take(Peer::Backend(primary)) {
        it.server(primary, json!({"id": asked["id"], "result": []}));
    }
    assert!(!it.told(primary).contains(&"copilot/models".to_owned()));
    // Nobody is signed in: both requests fail.
    says_sign_in(&mut it, "Error");
    it.create(3, &json!({"conversationId": "d", "lspool": {"tools": ["b"]}}));
    it.editor(json!({"id": 4, "method": "conversation/destroy", "params": {"conversationId": "d"}}));
    it.take(EDITOR);
    for asked in it.take(Peer::Backend(primary)) {
        it.server(primary, json!({"id": asked["id"], "error": {"code": 1000, "message": "who are you"}}));
    }
    let codes = it.take(EDITOR).iter().map(|it| it["error"]["code"].clone()).collect::<Vec<_>>();
    assert_eq!(codes, [1000, 1000]);
}

#[test]
fn fewer_processes_of_versions_with_large_ones_run_at_once() {
    for (version, written, most) in [("1.472.0", false, 4), ("1.520.0", false, 8), ("1.472.0", true, 6)] {
        let mut it = Stage::new(ServerKind::Copilot);
        if written {
            (it.server.max_processes, it.server.max_large_processes) = (6, 6);
        }
        it.editor(json!({"id": 0, "method": "initialize", "params": {"capabilities": {}}}));
        let asked = it.take(Peer::Backend(process(0, 1)));
        let info = json!({"capabilities": {}, "serverInfo": {"name": "GitHub Copilot Language Server", "version": version}});
        it.server(process(0, 1), json!({"id": asked[0]["id"], "result": info}));
        it.editor(json!({"method": "initialized", "params": {}}));
        it.take(EDITOR);
        let mut refused: Vec<Value> = Vec::new();
        for n in 1..10 {
            refused.extend(
                it.create(n, &json!({"conversationId": n, "lspool": {"tools": [format!("tool-{n}")]}})),
            );
        }
        assert_eq!(it.spawned.len(), most, "{version}");
        refused.retain(|it| it.get("error").is_some());
        assert_eq!(refused.len(), 10 - most);
        let message = refused[0]["error"]["message"].as_str().unwrap();
        assert!(message.contains(&format!("all {most} processes")), "{message}");
    }
}

#[test]
fn turn_starts_no_stopped_process_while_nobody_is_signed_in() {
    let mut it = Stage::copilot();
    let (primary, one) = (process(0, 1), process(1, 1));
    it.create(1, &json!({"conversationId": "c", "lspool": {"tools": ["a"]}}));
    let asked = it.start(one, &[]).pop().unwrap();
    for kind in ["begin", "end"] {
        let value = json!({"kind": kind, "conversationId": "c", "turnId": "t"});
        let token = &asked["params"]["workDoneToken"];
        it.server(one, json!({"method": "$/progress", "params": {"token": token, "value": value}}));
    }
    it.server(one, json!({"id": asked["id"], "result": {"conversationId": "c", "turnId": "t"}}));
    it.pass(it.server.idle_timeout);
    assert_eq!(it.terminated, [one]);
    it.exited(one, Exit::Code(0));
    says_sign_in(&mut it, "Error");
    it.take(Peer::Backend(primary));
    let turn = |id: u32| json!({"id": id, "method": "conversation/turn", "params": {"conversationId": "c", "message": "?", "workDoneToken": id}});
    it.editor(turn(2));
    let asked = it.take(Peer::Backend(primary));
    assert_eq!(asked.iter().map(name).collect::<Vec<_>>(), ["copilot/models"]);
    it.server(primary, json!({"id": asked[0]["id"], "error": {"code": 1000, "message": "who are you"}}));
    assert_eq!(it.take(EDITOR)[0]["error"]["code"], 1000);
    assert_eq!(it.spawned, [primary, one]);
    it.editor(turn(3));
    let asked = it.take(Peer::Backend(primary));
    it.server(primary, json!({"id": asked[0]["id"], "result": []}));
    assert_eq!(it.spawned, [primary, one, process(1, 2)]);
}

#[test]
fn create_starts_no_process_while_nobody_is_signed_in() {
    let mut it = Stage::copilot();
    let primary = process(0, 1);
    let set = json!({"lspool": {"tools": ["a"]}});
    says_sign_in(&mut it, "Error");
    assert!(it.create(1, &set).is_empty());
    let asked = it.take(Peer::Backend(primary));
    assert_eq!(name(&asked[0]), "copilot/models");
    it.server(primary, json!({"id": asked[0]["id"], "error": {"code": 1000, "message": "who are you"}}));
    let told = it.take(EDITOR);
    assert_eq!((&told[0]["id"], &told[0]["error"]["code"]), (&json!(1), &json!(1000)));
    assert_eq!(it.spawned, [primary]);
    // A create that is cancelled meanwhile.
    it.create(2, &set);
    it.editor(json!({"method": "$/cancelRequest", "params": {"id": 2}}));
    let asked = it.take(Peer::Backend(primary));
    it.server(primary, json!({"id": asked[0]["id"], "result": []}));
    assert_eq!(it.take(EDITOR)[0]["error"]["code"], -32800);
    // It had not read yet what is stored: then the conversation is created.
    it.create(3, &set);
    let asked = it.take(Peer::Backend(primary));
    it.server(primary, json!({"id": asked[0]["id"], "result": []}));
    assert_eq!(it.spawned, [primary, process(1, 1)]);
    let told = it.start(process(1, 1), &[]);
    assert_eq!(name(told.last().unwrap()), "conversation/create");
    // Nothing is asked of one that is there, or where all is well.
    says_sign_in(&mut it, "Error");
    it.create(4, &set);
    says_sign_in(&mut it, "Normal");
    it.create(5, &json!({"lspool": {"tools": ["b"]}}));
    assert!(it.told(primary).iter().all(|it| it != "copilot/models"));
    assert_eq!(it.spawned.last(), Some(&process(2, 1)));
}
