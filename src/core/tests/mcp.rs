//! MCP tools that the editor has switched off stay off: in the next process, and in later ones.

use std::time::Duration;

use serde_json::{Value, json};

use super::stage::{EDITOR, Stage, name, process};
use crate::{
    config::{Isolation, ServerKind},
    core::event::{Exit, Peer, ProcessId},
};

fn tool(name: &str, status: &str) -> Value {
    json!({"name": name, "_status": status})
}

/// A process lists the tools of its MCP servers, all of them switched on.
fn lists(it: &mut Stage, by: ProcessId, servers: &[(&str, &[&str])]) {
    let of = |(server, tools): &(&str, &[&str])| {
        let tools: Vec<Value> = tools.iter().map(|it| tool(it, "enabled")).collect();
        json!({"name": server, "tools": tools})
    };
    let servers: Vec<Value> = servers.iter().map(of).collect();
    it.server(by, json!({"method": "copilot/mcpTools", "params": {"servers": servers}}));
}

/// The server, tool, and status in a message to a process, which obeys.
fn switched(it: &mut Stage, process: ProcessId) -> Vec<String> {
    let mut out = Vec::new();
    for told in it.take(Peer::Backend(process)) {
        if told["method"] != "mcp/updateToolsStatus" {
            it.put_back(Peer::Backend(process), told);
            continue;
        }
        for server in told["params"]["servers"].as_array().unwrap() {
            for tool in server["tools"].as_array().unwrap() {
                out.push(format!("{}/{} {}", server["name"], tool["name"], tool["status"]).replace('"', ""));
            }
        }
        it.server(process, json!({"id": told["id"], "result": []}));
    }
    out
}

fn switch(it: &mut Stage, id: u32, tool: &str, status: &str) {
    let servers = json!([{"name": "mini", "tools": [{"name": tool, "status": status}]}]);
    it.editor(json!({"id": id, "method": "mcp/updateToolsStatus", "params": {"servers": servers}}));
}

/// The same by the name of the tool alone, at the primary.
fn switch_by_name(it: &mut Stage, id: u32, tool: &str, status: &str) {
    let params = json!({"tools": [{"name": tool, "status": status}]});
    it.editor(json!({"id": id, "method": "conversation/updateToolsStatus", "params": params}));
    let asked = it.take(Peer::Backend(process(0, 1))).pop().unwrap();
    it.server(process(0, 1), json!({"id": asked["id"], "result": []}));
}

/// The primary dies and comes back.
fn crash(it: &mut Stage) -> ProcessId {
    it.exited(process(0, 1), Exit::Signal(9));
    it.pass(Duration::from_secs(2));
    it.start(process(0, 2), &[]);
    process(0, 2)
}

const MINI: (&str, &[&str]) = ("mini", &["echo", "other"]);

#[test]
fn disabled_mcp_tool_is_disabled_in_every_process() {
    let mut it = Stage::copilot();
    let mcp = json!({"mini": {"command": "x"}}).to_string();
    let settings = json!({"github": {"copilot": {"mcp": mcp}}});
    it.editor(json!({"method": "workspace/didChangeConfiguration", "params": {"settings": settings}}));
    lists(&mut it, process(0, 1), &[MINI]);
    it.create(1, &json!({"conversationId": "a", "lspool": {"tools": ["mini/*"]}}));
    it.start(process(1, 1), &[]);
    lists(&mut it, process(1, 1), &[MINI]);
    assert!(switched(&mut it, process(0, 1)).is_empty() && switched(&mut it, process(1, 1)).is_empty());

    switch(&mut it, 2, "echo", "disabled");
    assert_eq!(switched(&mut it, process(0, 1)), ["mini/echo disabled"]);
    assert_eq!(switched(&mut it, process(1, 1)), ["mini/echo disabled"]);

    // A server that starts later. The process takes no turn before that.
    it.create(3, &json!({"conversationId": "b", "lspool": {"tools": ["mini/*", "read_file"]}}));
    it.start(process(2, 1), &[]);
    lists(&mut it, process(2, 1), &[MINI]);
    let told = it.take(Peer::Backend(process(2, 1)));
    assert_eq!(told.iter().map(name).collect::<Vec<_>>(), ["mcp/updateToolsStatus"]);
    it.put_back(Peer::Backend(process(2, 1)), told[0].clone());
    assert_eq!(switched(&mut it, process(2, 1)), ["mini/echo disabled"]);
    assert_eq!(it.told(process(2, 1)), ["conversation/create"]);

    let next = crash(&mut it);
    it.take(EDITOR);
    lists(&mut it, next, &[MINI]);
    assert_eq!(switched(&mut it, next), ["mini/echo disabled"]);
    let heard = it.take(EDITOR);
    let heard: Vec<&Value> = heard.iter().filter(|it| name(it) == "copilot/mcpTools").collect();
    let tools = json!([tool("echo", "disabled"), tool("other", "enabled")]);
    assert_eq!(heard[0]["params"]["servers"][0]["tools"], tools);

    // A tool that was called before it was switched off.
    let input = json!({"mcpServerName": "mini", "mcpToolName": "echo"});
    let asks = |input: &Value| json!({"id": 9, "method": "conversation/invokeClientToolConfirmation", "params": {"name": "echo", "input": input}});
    it.server(next, asks(&input));
    assert_eq!(it.take(Peer::Backend(next))[0]["result"][0]["result"], "dismiss");

    switch(&mut it, 4, "echo", "enabled");
    switched(&mut it, next);
    lists(&mut it, next, &[MINI]);
    assert!(switched(&mut it, next).is_empty());
    it.server(next, asks(&input));
    assert!(it.take(Peer::Backend(next)).is_empty());
}

#[test]
fn mcp_status_that_server_ignores_is_not_replayed() {
    let mut it = Stage::copilot();
    switch(&mut it, 1, "echo", "disabled");
    let servers = json!([{"name": "mini", "tools": [{"name": "other", "status": "disabled"}]}]);
    lists(&mut it, process(0, 1), &[MINI]);
    let of_a_mode = json!({"servers": servers, "customChatModeId": "file:///m.agent.md"});
    it.editor(json!({"id": 2, "method": "mcp/updateToolsStatus", "params": of_a_mode}));
    let next = crash(&mut it);
    lists(&mut it, next, &[MINI]);
    assert!(switched(&mut it, next).is_empty());
}

#[test]
fn bare_mcp_tool_name_means_the_only_server_with_it() {
    let mut it = Stage::copilot();
    let two: &[(&str, &[&str])] = &[MINI, ("maxi", &["other"])];
    lists(&mut it, process(0, 1), two);
    it.create(1, &json!({"conversationId": "a", "lspool": {"tools": ["mini/*"]}}));
    it.start(process(1, 1), &[]);
    lists(&mut it, process(1, 1), two);
    switched(&mut it, process(1, 1));
    it.take(Peer::Backend(process(0, 1)));

    switch_by_name(&mut it, 2, "echo", "disabled");
    switch_by_name(&mut it, 3, "other", "disabled");
    assert_eq!(switched(&mut it, process(1, 1)), ["mini/echo disabled"]);
    let next = crash(&mut it);
    lists(&mut it, next, two);
    assert_eq!(switched(&mut it, next), ["mini/echo disabled"]);
}

#[test]
fn mcp_tool_enabled_by_bare_name_is_in_modes() {
    let mut it = Stage::new(ServerKind::Copilot);
    it.server.isolation = Isolation::Mode;
    it.initialize();
    let servers = json!([{"name": "mini", "tools": [tool("echo", "disabled")]}]);
    it.server(process(0, 1), json!({"method": "copilot/mcpTools", "params": {"servers": servers}}));
    switch_by_name(&mut it, 1, "echo", "enabled");
    it.create(2, &json!({"conversationId": "c", "chatMode": "Agent", "lspool": {"tools": ["mini/echo"]}}));
    assert_eq!(it.modes.last().unwrap().tools, ["mini/echo"]);
}

#[test]
fn call_of_a_tool_that_two_servers_have_is_named_after_the_server_that_was_asked_about() {
    let mut it = Stage::copilot();
    let two: &[(&str, &[&str])] = &[("mini", &["echo"]), ("maxi", &["echo"])];
    let primary = process(0, 1);
    lists(&mut it, primary, two);
    it.create(1, &json!({"conversationId": "c"}));
    let asked = it.take(Peer::Backend(primary)).pop().unwrap();
    let report = |it: &mut Stage, value: Value| {
        let mut value = value;
        value["conversationId"] = "c".into();
        value["turnId"] = "t".into();
        it.server(primary, json!({"method": "$/progress", "params": {"token": "t1", "value": value}}));
    };
    report(&mut it, json!({"kind": "begin"}));
    let call = |status: &str| json!({"id": "k", "name": "echo", "toolType": "mcp", "status": status, "input": {}, "result": [{"value": "r"}]});
    let round = |status: &str| json!({"kind": "report", "editAgentRounds": [{"roundId": 1, "reply": "", "toolCalls": [call(status)]}]});
    report(&mut it, round("running"));
    let input = json!({"mcpServerName": "maxi", "mcpToolName": "echo"});
    let params = json!({"name": "echo", "conversationId": "c", "turnId": "t", "toolCallId": "k", "roundId": 1, "input": input});
    it.server(
        primary,
        json!({"id": 9, "method": "conversation/invokeClientToolConfirmation", "params": params}),
    );
    report(&mut it, round("completed"));
    report(&mut it, json!({"kind": "end"}));
    it.server(primary, json!({"id": asked["id"], "result": {"conversationId": "c", "turnId": "t"}}));
    let conversation = it
        .core
        .copilot
        .as_mut()
        .unwrap()
        .conversations_mut()
        .get_mut(&crate::core::ids::ConversationId::text("c"));
    let turn = conversation.unwrap().history.turn(&crate::core::ids::TurnId::text("t")).unwrap();
    assert_eq!(turn.call("k").unwrap().name, "mcp_maxi_echo");
}
