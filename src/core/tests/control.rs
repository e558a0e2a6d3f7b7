//! What people ask lspool itself.

use std::{path::Path, time::Duration};

use serde_json::{Value, json};

use super::stage::{CONTROL, EDITOR, Stage, measured, name, process};
use crate::{
    config::{AgentConfig, AgentSource, ServerKind},
    core::event::{BackendId, Dropped, Drops, Event, Exit, Measured, Peer},
};

fn asked(it: &mut Stage, method: &str, params: &Value) -> Value {
    it.control(json!({"id": 1, "method": method, "params": params}));
    for processes in std::mem::take(&mut it.to_measure) {
        let resident = processes.into_iter().map(|it| (it, 5 << 20)).collect();
        it.event(measured(resident));
    }
    let mut told = it.take(CONTROL);
    told.pop().unwrap_or(Value::Null)
}

#[test]
fn status_reports_state_of_every_backend() {
    let mut it = Stage::copilot();
    it.create(1, &json!({"conversationId": "c", "lspool": {"tools": ["a", "b"]}}));
    let status = asked(&mut it, "lspool/status", &json!({}));
    let status = &status["result"];
    assert_eq!(
        (&status["pid"], &status["editor"], &status["workspace"]),
        (&json!(77), &Value::Null, &Value::Null)
    );
    let (one, two) = (&status["backends"][0], &status["backends"][1]);
    assert_eq!(
        *one,
        json!({"name": "copilot", "toolset": null, "state": "ready", "since": 5, "pid": 1000, "restarts": 0,
            "crashes": 0, "last_error_at": null, "next_start": null, "conversations": 0, "refused": 0, "dropped": {"log_messages": 0, "reports": 0}, "last_error": null,
            "rss_bytes": 5 << 20, "in_flight": 0, "stopped": null})
    );
    let members: Vec<&String> = one.as_object().unwrap().keys().collect();
    assert_eq!(
        members,
        [
            "name",
            "toolset",
            "state",
            "since",
            "pid",
            "rss_bytes",
            "restarts",
            "crashes",
            "conversations",
            "in_flight",
            "refused",
            "dropped",
            "last_error",
            "last_error_at",
            "next_start",
            "stopped"
        ]
    );
    assert_eq!((&two["toolset"], &two["state"]), (&json!(["a", "b"]), &json!("starting")));
    assert_eq!((&two["conversations"], &two["in_flight"]), (&json!(1), &json!(1)));
}

#[test]
fn status_shows_editor_name_from_initialize() {
    for (initialize, editor) in [
        (json!({"clientInfo": {"name": "Vim"}}), "Vim"),
        (
            json!({
                "clientInfo": {"name": "Neovim", "version": "0.11"},
                "initializationOptions": {"editorInfo": {"name": "other", "version": "1"}},
            }),
            "Neovim 0.11",
        ),
        (
            json!({"initializationOptions": {"editorInfo": {"name": "JetBrains-IC", "version": "1"}}}),
            "JetBrains-IC 1",
        ),
    ] {
        let mut it = Stage::new(ServerKind::Generic);
        it.editor(json!({"id": 0, "method": "initialize", "params": initialize}));
        assert_eq!(asked(&mut it, "lspool/status", &json!({}))["result"]["editor"], editor);
    }
}

#[test]
fn restart_is_answered_when_ready_or_failed() {
    let mut it = Stage::copilot();
    assert_eq!(asked(&mut it, "lspool/restart", &json!({"name": "copilot"})), Value::Null, "not yet");
    assert_eq!(it.told(process(0, 1)), ["shutdown", "exit"]);
    it.exited(process(0, 1), Exit::Code(0));
    it.open(process(0, 2));
    assert_eq!(it.take(CONTROL)[0]["result"]["state"], "ready");
    it.control(json!({"id": 2, "method": "lspool/restart", "params": {"name": "copilot"}}));
    it.exited(process(0, 2), Exit::Code(0));
    it.pass(Duration::from_secs(35));
    // It has been ready before, so that it has its chances.
    for generation in 3..20 {
        it.exited(process(0, generation), Exit::Signal(9));
        it.pass(Duration::from_secs(30));
    }
    let told = it.take(CONTROL);
    assert_eq!(told[0]["error"]["data"]["lspool"]["cause"], "unavailable");
    // From failed, too.
    it.control(json!({"id": 3, "method": "lspool/restart", "params": {"name": "copilot"}}));
    let last = *it.spawned.last().unwrap();
    it.open(last);
    assert_eq!(
        it.take(CONTROL)[0]["result"],
        json!({"name": "copilot", "names": ["copilot"], "state": "ready"})
    );
}

#[test]
fn stopped_server_stays_stopped_until_restart() {
    let mut it = Stage::new(ServerKind::Generic);
    it.initialize();
    it.editor(json!({"id": 5, "method": "textDocument/hover"}));
    assert_eq!(asked(&mut it, "lspool/stop", &json!({"name": "copilot"}))["result"]["state"], "stopped");
    let told = it.take(EDITOR);
    assert_eq!(told[0]["error"]["data"]["lspool"]["cause"], "not started");
    let message = "lspool: a command stopped copilot. To start it again: lspool restart copilot";
    assert_eq!(told[1]["params"]["message"], message);
    asked(&mut it, "lspool/stop", &json!({"name": "copilot"}));
    assert_eq!(it.take(EDITOR), [] as [Value; 0], "it is said once");
    it.exited(process(0, 1), Exit::Code(0));
    it.pass(Duration::from_mins(10));
    assert_eq!(it.spawned.len(), 1);
    it.editor(json!({"id": 6, "method": "textDocument/hover"}));
    let told = it.take(EDITOR);
    assert!(told[0]["error"]["message"].as_str().unwrap().contains("lspool restart"), "{told:?}");
    it.control(json!({"id": 2, "method": "lspool/restart", "params": {"name": "copilot"}}));
    it.open(process(0, 2));
    assert_eq!(it.take(CONTROL)[0]["result"]["state"], "ready");
}

#[test]
fn stop_after_restart_leaves_server_stopped() {
    let mut it = Stage::copilot();
    asked(&mut it, "lspool/restart", &json!({"name": "copilot"}));
    asked(&mut it, "lspool/stop", &json!({"name": "copilot"}));
    it.exited(process(0, 1), Exit::Code(0));
    it.pass(Duration::from_mins(10));
    assert_eq!(it.spawned.len(), 1, "stop was the last word");
}

#[test]
fn control_errors_list_known_names() {
    let mut it = Stage::copilot();
    it.create(1, &json!({"conversationId": "c", "lspool": {"tools": ["a"]}}));
    let told = asked(&mut it, "lspool/restart", &json!({"name": "pyright"}));
    assert_eq!(told["error"]["code"], -32602);
    let message = told["error"]["message"].as_str().unwrap();
    assert!(message.contains("copilot; partition \"a\" of copilot"), "{message}");
    let told = asked(&mut it, "lspool/no", &json!({}));
    assert_eq!(told["error"]["code"], -32601);
    assert!(asked(&mut it, "lspool/logs", &json!({"name": "copilot"})).is_null(), "the shell answers");
    assert_eq!(it.logs, [BackendId(0)]);
}

#[test]
fn status_counts_dropped_messages_of_stopped_servers() {
    let mut it = Stage::copilot();
    asked(&mut it, "lspool/stop", &json!({}));
    it.exited(process(0, 1), Exit::Code(0));
    it.control(json!({"id": 1, "method": "lspool/status"}));
    assert_eq!(it.to_measure, [vec![]]);
    let dropped = |log_messages, reports| Dropped { log_messages, reports };
    let backends = [(BackendId(0), dropped(5, 6))].into();
    let dropped = Drops { editor: dropped(1, 2), control: dropped(3, 4), backends };
    it.event(Event::Measured(Box::new(Measured { resident: Vec::new(), dropped })));
    let status = it.take(CONTROL).remove(0)["result"].take();
    let counts = |log_messages, reports| json!({"log_messages": log_messages, "reports": reports});
    assert_eq!(status["dropped"], json!({"editor": counts(1, 2), "control": counts(3, 4)}));
    assert_eq!(status["backends"][0]["dropped"], counts(5, 6));
}

#[test]
fn editor_controls_lspool_by_requests_and_commands() {
    let mut it = Stage::copilot();
    it.editor(json!({"id": 1, "method": "lspool/status", "params": {}}));
    it.event(measured(Vec::new()));
    assert_eq!(it.take(EDITOR)[0]["result"]["backends"][0]["name"], "copilot");
    let command = |name: &str, arguments: Value| json!({"command": name, "arguments": arguments});
    for (id, arguments) in [(2, json!([{"name": "copilot"}])), (3, json!(["copilot"])), (4, json!([]))] {
        let last = *it.spawned.last().unwrap();
        let params = command("lspool.restart", arguments);
        it.editor(json!({"id": id, "method": "workspace/executeCommand", "params": params}));
        it.exited(last, Exit::Code(0));
        it.start(*it.spawned.last().unwrap(), &[]);
        assert_eq!(it.take(EDITOR)[0]["result"]["state"], "ready");
    }
    // The server's commands are for the server.
    let last = *it.spawned.last().unwrap();
    it.take(Peer::Backend(last));
    it.editor(json!({"id": 5, "method": "workspace/executeCommand", "params": command("x", json!([]))}));
    assert_eq!(it.told(last), ["workspace/executeCommand"]);
}

#[test]
fn watcher_gets_each_change_once() {
    let mut it = Stage::copilot();
    it.control(json!({"id": 1, "method": "lspool/watch"}));
    it.event(measured(Vec::new()));
    it.take(CONTROL);
    it.editor(json!({"id": 5, "method": "textDocument/hover"}));
    it.exited(process(0, 1), Exit::Signal(9));
    it.open(process(0, 2));
    let told: Vec<_> = it.take(CONTROL).iter().map(|it| it["params"]["backends"][0].clone()).collect();
    let states: Vec<_> = told.iter().map(|it| it["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["starting", "starting", "ready"], "before it has a pid, and after");
    it.event(Event::Closed { peer: CONTROL, error: None });
    it.exited(process(0, 2), Exit::Signal(9));
    assert!(it.take(CONTROL).is_empty());
}

#[test]
fn editor_gets_status_notifications_when_it_asks() {
    let mut it = Stage::new(ServerKind::Generic);
    let options = json!({"lspool": {"didChangeStatus": true}, "x": 1});
    it.editor(json!({"id": 0, "method": "initialize", "params": {"initializationOptions": options}}));
    let asked = it.take(Peer::Backend(process(0, 1)));
    assert_eq!(asked[0]["params"]["initializationOptions"], json!({"x": 1}));
    it.server(process(0, 1), json!({"id": asked[0]["id"], "result": {"capabilities": {}}}));
    assert!(it.take(EDITOR).iter().any(|it| it["method"] == "lspool/didChangeStatus"));
}

#[test]
fn capabilities_offer_lspool_commands_beside_the_servers() {
    let own = ["orchestrate", "reload", "restart", "status"].map(|it| format!("lspool.my-server-1.77.{it}"));
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    for (kind, own) in [(ServerKind::Copilot, &own[..]), (ServerKind::Generic, &own[1..])] {
        let mut it = Stage::new(kind);
        it.name = "my server.1".to_owned();
        it.editor(json!({"id": 0, "method": "initialize", "params": {"capabilities": {}}}));
        let asked = it.take(Peer::Backend(process(0, 1)));
        let result = json!({"capabilities": {"executeCommandProvider": {"commands": ["a"], "x": 1}}});
        it.server(process(0, 1), json!({"id": asked[0]["id"], "result": result}));
        let all = [&["a"], own].concat();
        assert_eq!(
            it.take(EDITOR)[0]["result"]["capabilities"]["executeCommandProvider"],
            json!({"commands": all, "x": 1})
        );
    }
}

#[test]
fn control_refuses_unknown_parameters() {
    let mut it = Stage::copilot();
    let message = |it: &mut Stage, method: &str, params: &Value| asked(it, method, params)["error"].take();
    let wrong = message(&mut it, "lspool/restart", &json!({"nam": "x"}));
    assert_eq!(wrong["code"], -32602);
    assert_eq!(wrong["message"], "unknown parameter \"nam\" of lspool/restart; did you mean \"name\"?");
    let wrong = message(&mut it, "lspool/reload", &json!({"force": true}));
    assert_eq!(wrong["message"], "unknown parameter \"force\" of lspool/reload; it has no parameters");
    let wrong = message(&mut it, "lspool/move", &json!({"direction": 1}));
    assert_eq!(wrong["message"], "unknown parameter \"direction\" of lspool/move; expected one of name, to");
    assert_eq!(it.terminated, []);
    assert!(asked(&mut it, "lspool/stop", &json!({"workDoneToken": 1}))["result"].is_object());
}

#[test]
fn control_refuses_parameters_that_are_not_objects() {
    let mut it = Stage::copilot();
    for method in ["lspool/restart", "lspool/stop", "lspool/move", "lspool/logs"] {
        for params in [json!(["copilot"]), json!("copilot"), json!([{"name": "copilot"}]), json!(7)] {
            let wrong = asked(&mut it, method, &params)["error"].take();
            let expected = format!("the parameters of {method} must be an object");
            assert_eq!((&wrong["code"], &wrong["message"]), (&json!(-32602), &json!(expected)), "{params}");
        }
    }
    // An editor without arguments may send an empty list.
    for none in [json!([]), json!(null), json!({})] {
        assert_eq!(asked(&mut it, "lspool/reload", &none)["error"], Value::Null, "{none}");
    }
    for (id, arguments) in [(20, json!({"name": "nobody"})), (21, json!("nobody"))] {
        let params = json!({"command": "lspool.restart", "arguments": arguments});
        it.editor(json!({"id": id, "method": "workspace/executeCommand", "params": params}));
        assert_eq!(it.take(EDITOR)[0]["error"]["code"], -32602, "{arguments}");
    }
    assert_eq!(it.terminated, []);
}

#[test]
fn stopped_partition_reports_reason_and_keeps_conversations() {
    let mut it = Stage::copilot();
    it.create(1, &json!({"conversationId": "c", "lspool": {"tools": ["a"]}}));
    let one = process(1, 1);
    let told = it.start(one, &[]);
    let value = json!({"kind": "begin", "conversationId": "c", "turnId": "t"});
    it.server(one, json!({"method": "$/progress", "params": {"token": "t1", "value": value}}));
    it.server(
        one,
        json!({"id": told.last().unwrap()["id"], "result": {"conversationId": "c", "turnId": "t"}}),
    );
    asked(&mut it, "lspool/stop", &json!({"name": "partition \"a\" of copilot"}));
    it.exited(one, Exit::Code(0));
    let status = asked(&mut it, "lspool/status", &json!({}));
    let partition = &status["result"]["backends"][1];
    assert_eq!((&partition["state"], &partition["conversations"]), (&json!("stopped"), &json!(1)));
    assert_eq!(partition["stopped"], "a user asked for it");
    assert_eq!(status["result"]["sets"][0]["ids"], json!(["c"]));
    assert_eq!(status["result"]["kind"], "copilot");
}

#[test]
fn command_runs_under_short_and_server_name() {
    for kind in [ServerKind::Copilot, ServerKind::Generic] {
        let mut it = Stage::new(kind);
        it.name = "pyright".to_owned();
        it.editor(json!({"id": 0, "method": "initialize", "params": {"capabilities": {}}}));
        it.start(process(0, 1), &[]);
        it.take(EDITOR);
        for command in ["lspool.status", "lspool.pyright.status", "lspool.pyright.77.status"] {
            let params = json!({"command": command});
            it.editor(json!({"id": 1, "method": "workspace/executeCommand", "params": params}));
            it.event(measured(Vec::new()));
            assert_eq!(it.take(EDITOR)[0]["result"]["backends"][0]["name"], "pyright", "{command}");
        }
        for (id, other) in [(1, "lspool.ruff.status"), (2, "lspool.pyright.78.status")] {
            let params = json!({"command": other});
            it.editor(json!({"id": id, "method": "workspace/executeCommand", "params": params}));
            assert_eq!(it.told(process(0, 1)).last().unwrap(), "workspace/executeCommand", "{other}");
        }
    }
}

#[test]
fn reload_restarts_only_processes_whose_launch_changed() {
    let mut it = Stage::copilot().agent("reader", &["read_file"]);
    assert_eq!(asked(&mut it, "lspool/reload", &json!({}))["result"]["changed"], json!(["agents"]));
    it.create(1, &json!({"conversationId": "c", "lspool": {"agent": "reader"}}));
    assert_eq!(it.spawned.last(), Some(&process(1, 1)), "the new agent is known");
    it.server.idle_timeout = Duration::from_secs(7);
    assert_eq!(asked(&mut it, "lspool/reload", &json!({}))["result"]["changed"], json!(["settings"]));
    assert_eq!(it.terminated, []);
    // Another command: after the open requests, or after the grace time.
    it.editor(json!({"id": 5, "method": "textDocument/hover"}));
    it.server.args = vec!["--verbose".to_owned()];
    assert_eq!(
        asked(&mut it, "lspool/reload", &json!({}))["result"]["changed"],
        json!(["settings", "processes"])
    );
    assert_eq!(it.terminated, [process(1, 1)], "it was still starting");
    it.pass(Duration::from_secs(30));
    assert_eq!(it.terminated, [process(1, 1), process(0, 1)]);
    it.exited(process(0, 1), Exit::Code(0));
    assert_eq!(it.spawned.last(), Some(&process(0, 2)));
}

#[test]
fn reload_names_each_changed_section() {
    let mut it = Stage::copilot();
    it.config.models.insert("sonnet".to_owned(), "m".to_owned());
    it.config.subagents.max_parallel = 1;
    it.config.workers[0].enabled = false;
    it.config.orchestration.max_tasks = 1;
    assert_eq!(
        asked(&mut it, "lspool/reload", &json!({}))["result"]["changed"],
        json!(["models", "orchestration", "subagents", "workers"])
    );
    assert_eq!(asked(&mut it, "lspool/reload", &json!({}))["result"]["changed"], json!([]));
}

#[test]
fn reload_reports_what_file_watcher_has_just_read() {
    let mut it = Stage::copilot();
    it.config.models.insert("sonnet".to_owned(), "m".to_owned());
    it.event(Event::FilesChanged);
    it.event(Event::FilesChanged);
    it.server.idle_timeout = Duration::from_secs(7);
    assert_eq!(
        asked(&mut it, "lspool/reload", &json!({}))["result"]["changed"],
        json!(["models", "settings"])
    );
    assert_eq!(asked(&mut it, "lspool/reload", &json!({}))["result"]["changed"], json!([]), "it was told");
    it.config.models.clear();
    it.event(Event::FilesChanged);
    it.pass(Duration::from_mins(2));
    assert_eq!(asked(&mut it, "lspool/reload", &json!({}))["result"]["changed"], json!([]), "long ago");
}

#[test]
fn workspace_files_apply_as_soon_as_folder_is_added() {
    let mut it = Stage::new(ServerKind::Copilot);
    let folder = |path: &str| json!({"uri": format!("file://{path}"), "name": "w"});
    let params = json!({"processId": 1, "capabilities": {}, "workspaceFolders": [folder("/first")]});
    it.editor(json!({"id": 0, "method": "initialize", "params": params}));
    it.open(process(0, 1));
    it.editor(json!({"method": "initialized"}));
    assert_eq!(it.folders, [Path::new("/first")]);
    let agent = AgentConfig::of(AgentSource::Workspace("/second/.lspool.toml".into()));
    it.config.agents.insert("second".to_owned(), agent);
    let event = json!({"added": [folder("/second")], "removed": [folder("/first")]});
    it.editor(json!({"method": "workspace/didChangeWorkspaceFolders", "params": {"event": event}}));
    assert_eq!(it.folders, [Path::new("/first"), Path::new("/second")]);
    it.create(1, &json!({"lspool": {"agent": "second"}}));
    assert_eq!(it.told(process(0, 1)).last().unwrap(), "conversation/create");
    let event = json!({"added": [], "removed": [folder("/second")]});
    it.editor(json!({"method": "workspace/didChangeWorkspaceFolders", "params": {"event": event}}));
    assert_eq!(it.folders, [Path::new("/first")]);
}

#[test]
fn broken_config_file_changes_nothing_and_is_reported_once() {
    let mut it = Stage::copilot();
    it.unreadable = Some("config.toml:3: xyzzy: there is no such key".to_owned());
    it.event(Event::FilesChanged);
    it.event(Event::FilesChanged);
    let told = it.take(EDITOR);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0]["params"]["message"].as_str().unwrap().contains("xyzzy"));
    let status = asked(&mut it, "lspool/status", &json!({}));
    assert!(status["result"]["config"]["error"].as_str().unwrap().contains("xyzzy"));
    assert!(
        asked(&mut it, "lspool/reload", &json!({}))["error"]["message"].as_str().unwrap().contains("xyzzy")
    );
    it.unreadable = None;
    it.event(Event::FilesChanged);
    assert_eq!(asked(&mut it, "lspool/status", &json!({}))["result"]["config"]["error"], Value::Null);
    assert_eq!(it.terminated, []);
    assert!(it.take(Peer::Backend(process(0, 1))).iter().map(name).all(|it| it != "shutdown"));
}

#[test]
fn restart_before_initialize_is_refused() {
    let mut it = Stage::new(ServerKind::Generic);
    assert_eq!(asked(&mut it, "lspool/restart", &json!({}))["error"]["code"], -32002);
}

#[test]
fn closed_editor_stream_still_gets_control_answers() {
    let mut it = Stage::new(ServerKind::Generic);
    it.initialize();
    it.editor(json!({"id": 5, "method": "lspool/status"}));
    it.editor(json!({"id": 5, "method": "textDocument/hover"}));
    assert_eq!(it.take(EDITOR)[0]["error"]["code"], -32600, "the id is in use");
    it.event(Event::Closed { peer: EDITOR, error: None });
    assert_eq!(it.closed, [], "it is owed something");
    it.event(measured(vec![]));
    assert_eq!(it.take(EDITOR)[0]["result"]["pid"], 77);
    assert_eq!(it.closed, [process(0, 1)]);
}

#[test]
fn orchestration_ends_when_editor_stream_closes() {
    let mut it = Stage::patient();
    let params = json!({"goal": "it", "modelInfo": {"id": "m"}});
    it.editor(json!({"id": 5, "method": "lspool/orchestrate", "params": params}));
    it.take(EDITOR);
    it.event(Event::Closed { peer: EDITOR, error: None });
    let answer = it.take(EDITOR).into_iter().find(|it| it["id"] == 5).expect("it is answered");
    assert_eq!(answer["error"]["code"], -32800);
}

#[test]
fn stopped_process_is_ignored_while_restart_is_pending() {
    let mut it = Stage::new(ServerKind::Generic);
    it.initialize();
    asked(&mut it, "lspool/stop", &json!({}));
    it.take(EDITOR);
    it.control(json!({"id": 2, "method": "lspool/restart"}));
    it.server(process(0, 1), json!({"id": 1, "method": "window/showMessageRequest", "params": {}}));
    assert_eq!(it.take(EDITOR), Vec::<Value>::new());
    it.exited(process(0, 1), Exit::Code(0));
    it.open(process(0, 2));
}

#[test]
fn queued_create_fails_when_process_limit_is_lowered() {
    let mut it = Stage::copilot();
    it.server.max_processes = 2;
    it.event(Event::FilesChanged);
    it.create(1, &json!({"conversationId": "c", "lspool": {"tools": ["a"]}}));
    let first = *it.spawned.last().unwrap();
    let told = it.start(first, &[]);
    it.server(first, json!({"id": told.last().unwrap()["id"], "result": {}}));
    it.create(2, &json!({"conversationId": "d", "lspool": {"tools": ["b"]}}));
    assert_eq!(it.terminated, [first], "it is idle");
    it.take(EDITOR);
    it.server.max_processes = 1;
    it.event(Event::FilesChanged);
    assert_eq!(it.take(EDITOR)[0]["error"]["data"]["lspool"]["cause"], "max_processes");
}

#[test]
fn restart_is_answered_when_another_backend_goes_away() {
    for asks in ["lspool/restart", "lspool/stop"] {
        let mut it = Stage::copilot();
        it.server.max_processes = 1;
        it.event(Event::FilesChanged);
        it.control(json!({"id": 1, "method": "lspool/stop"}));
        it.create(1, &json!({"conversationId": "c", "lspool": {"tools": ["a"]}}));
        it.editor(json!({"method": "$/cancelRequest", "params": {"id": 1}}));
        it.control(json!({"id": 2, "method": asks}));
        it.exited(process(0, 1), Exit::Code(0));
        if asks == "lspool/restart" {
            it.open(process(0, 2));
        }
        assert_eq!(it.take(CONTROL).last().unwrap()["result"]["names"][0], "copilot", "{asks}");
    }
}

#[test]
fn restart_command_restarts_only_named_servers() {
    let mut it = Stage::copilot();
    let command = |id: u32, arguments: Value| {
        let params = json!({"command": "lspool.restart", "arguments": arguments});
        json!({"id": id, "method": "workspace/executeCommand", "params": params})
    };
    it.editor(command(1, json!([7])));
    it.editor(command(2, json!([["copilot"]])));
    let codes: Vec<Value> = it.take(EDITOR).iter().map(|it| it["error"]["code"].clone()).collect();
    assert_eq!((codes, it.terminated.len()), (vec![json!(-32602), json!(-32602)], 0));
    it.editor(command(3, json!(["copilot"])));
    it.exited(process(0, 1), Exit::Code(0));
    it.open(process(0, 2));
    it.editor(command(4, json!([{"name": "copilot"}])));
    it.exited(process(0, 2), Exit::Code(0));
    it.open(process(0, 3));
    let states: Vec<Value> = it.take(EDITOR).iter().map(|it| it["result"]["state"].clone()).collect();
    assert_eq!(states, ["ready", "ready"]);
}

#[test]
fn file_warnings_are_shown_once_per_occurrence() {
    let mut it = Stage::new(ServerKind::Copilot);
    it.warnings = vec!["a.md:1: bad".to_owned()];
    it.initialize();
    let told = |it: &mut Stage| -> Vec<Value> {
        let heard = it.take(EDITOR);
        let shown = heard.into_iter().filter(|it| it["method"] == "window/showMessage");
        shown.map(|it| it["params"]["message"].clone()).collect()
    };
    told(&mut it);
    it.event(Event::FilesChanged);
    assert!(told(&mut it).is_empty());
    it.warnings.push("b.md:1: bad".to_owned());
    it.event(Event::FilesChanged);
    assert_eq!(told(&mut it), ["b.md:1: bad"]);
    it.warnings.clear();
    it.event(Event::FilesChanged);
    it.warnings = vec!["a.md:1: bad".to_owned()];
    it.event(Event::FilesChanged);
    assert_eq!(told(&mut it), ["a.md:1: bad"], "it was right meanwhile");
}

#[test]
fn documents_are_told_once_for_each_revision() {
    let mut it = Stage::new(ServerKind::Generic);
    it.initialize();
    let open = |it: &mut Stage, name: &str, text: &str| {
        let document = json!({"uri": name, "languageId": "x", "version": 1, "text": text});
        it.editor(json!({"method": "textDocument/didOpen", "params": {"textDocument": document}}));
    };
    open(&mut it, "file:///a", "one");
    open(&mut it, "file:///b", &"x".repeat(2 << 20));
    open(&mut it, "file:///c", "three");
    let known_after = |answer: &Value, known: &Value| {
        let mut known = known.clone();
        for document in answer["result"]["documents"].as_array().expect("a list") {
            if document.get("text").is_some() {
                known[document["uri"].as_str().unwrap()] = document["revision"].clone();
            }
        }
        known
    };
    let first = asked(&mut it, "lspool/documents", &json!({}));
    let texts = |answer: &Value| {
        let all = answer["result"]["documents"].as_array().expect("a list").iter();
        all.filter_map(|it| it.get("text").and_then(Value::as_str).map(str::len)).collect::<Vec<_>>()
    };
    // What is too much for one answer comes with the next.
    assert_eq!(texts(&first), [3, 2 << 20]);
    let known = known_after(&first, &json!({}));
    let second = asked(&mut it, "lspool/documents", &json!({"known": known}));
    assert_eq!(texts(&second), [5]);
    let known = known_after(&second, &known);
    assert!(texts(&asked(&mut it, "lspool/documents", &json!({"known": known}))).is_empty());
    let named = json!({"uri": "file:///a", "version": 2});
    let change = json!({"textDocument": named, "contentChanges": [{"text": "changed"}]});
    it.editor(json!({"method": "textDocument/didChange", "params": change}));
    let third = asked(&mut it, "lspool/documents", &json!({"known": known}));
    assert_eq!((texts(&third), &third["result"]["documents"][0]["version"]), (vec![7], &json!(2)));
    // Of a text that lspool could not follow, it tells none.
    let torn = json!({"textDocument": {"uri": "file:///a", "version": 3}, "contentChanges": 7});
    it.editor(json!({"method": "textDocument/didChange", "params": torn}));
    let fourth = asked(&mut it, "lspool/documents", &json!({}));
    assert_eq!(fourth["result"]["documents"][0]["text"], Value::Null);
}

#[test]
fn edit_is_made_by_editor_that_can() {
    let params = json!({"label": "l", "edit": {"changes": {}}});
    let mut it = Stage::new(ServerKind::Generic);
    it.initialize();
    assert!(asked(&mut it, "lspool/applyEdit", &params)["error"]["message"].is_string());
    assert!(it.take(EDITOR).iter().all(|it| it["method"] != "workspace/applyEdit"));

    let mut it = Stage::new(ServerKind::Generic);
    let able = json!({"capabilities": {"workspace": {"applyEdit": true}}});
    it.editor(json!({"id": 0, "method": "initialize", "params": able}));
    it.open(process(0, 1));
    for answer in [json!({"result": {"applied": true}}), json!({"error": {"code": 1, "message": "no"}})] {
        it.take(EDITOR);
        assert_eq!(asked(&mut it, "lspool/applyEdit", &params), Value::Null, "the editor works");
        let request = it.take(EDITOR).pop().expect("it is asked");
        assert_eq!((name(&request).as_str(), &request["params"]), ("workspace/applyEdit", &params));
        let mut message = answer.clone();
        message["id"] = request["id"].clone();
        it.editor(message);
        let told = it.take(CONTROL).pop().expect("an answer");
        assert_eq!(told["id"], 1);
        assert_eq!(told.get("result"), answer.get("result"));
        assert_eq!(told.get("error").is_some(), answer.get("error").is_some());
    }
}
