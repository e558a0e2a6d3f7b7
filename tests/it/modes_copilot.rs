//! Many tool sets in one process of the real Copilot server, each kept to by a chat mode.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{
    partitions::{offered, servers},
    support::{
        copilot::{Copilot, Options, Outcome, tool, tool_answer},
        real::{self, Sandbox},
        stub::{self, LogEntry, Round, Rule, Said, Script, Stub},
    },
};

/// An editor and lspool with these keys of `[server.copilot]`, and more of the file.
fn start(sandbox: &Sandbox, stub: &Stub, keys: &str, more: &str, options: Options) -> Copilot {
    let config = sandbox.home().join("lspool.toml");
    std::fs::write(&config, format!("[server.copilot]\n{keys}\n{more}")).expect("the home is ours");
    let mut command = sandbox.signed_in_command(env!("CARGO_BIN_EXE_lspool"), stub);
    command.arg("--config").arg(config).arg("--").arg(real::copilot()).arg("--stdio");
    Copilot::start(command, options)
}

fn by_mode(sandbox: &Sandbox, stub: &Stub) -> Copilot {
    let options = Options::in_workspace(sandbox.workspace());
    start(sandbox, stub, "isolation = \"mode\"", "", options)
}

const TOOLS: [&str; 7] = [
    "zebra",
    "fetch_ticket",
    "run_in_terminal",
    "create_file",
    "insert_edit_into_file",
    "ide_open",
    "ide_errors",
];

/// Ten sets of all kinds, with the offered tools.
const SETS: [(&[&str], &[&str]); 10] = [
    (&[], &[]),
    (&["fetch_ticket"], &["fetch_ticket"]),
    (&["zebra", "fetch_ticket", "list_dir"], &["zebra", "fetch_ticket", "list_dir"]),
    (&["read_file", "grep_search", "file_search"], &["read_file", "grep_search", "file_search"]),
    (&["ide", "read_*"], &["ide_open", "ide_errors", "read_file"]),
    (&["create_file"], &["create_file", "apply_patch", "insert_edit_into_file"]),
    (
        &["run_in_terminal", "apply_patch"],
        &["run_in_terminal", "create_file", "apply_patch", "insert_edit_into_file"],
    ),
    (&["nobody_has_this"], &[]),
    (&["run_in_terminal", "nobody_has_this"], &["run_in_terminal"]),
    (&["validate_cves", "zebra"], &["validate_cves", "zebra"]),
];

/// The bodies of the model requests of each conversation, by question.
fn bodies(log: &[LogEntry]) -> BTreeMap<(String, usize), String> {
    let turns = log.iter().filter(|it| it.is_turn());
    let body = |it: &LogEntry| {
        let chat = it.chat.as_ref().expect("a turn has one");
        ((chat.user.clone(), chat.round), String::from_utf8_lossy(&it.body).into_owned())
    };
    turns.map(body).collect()
}

#[test]
fn mode_and_process_tell_model_the_same_for_ten_sets() {
    let sandbox = Sandbox::new();
    let asked = (0..SETS.len()).flat_map(|n| ["first", "second"].map(|which| (n, which)));
    let rule = asked.fold(Script::default(), |script, (n, which)| {
        let id = format!("call_{n}_{which}");
        let call = Round::text("One.\n").call_with_id(id, "fetch_ticket", json!({"key": "K"}));
        script.rule(Rule::on(format!("[set {n}] {which}")).then(call).then(Round::text("Two.")))
    });
    let stub = Stub::start(rule);
    let mut told: Vec<BTreeMap<(String, usize), String>> = Vec::new();
    for isolation in ["mode", "process"] {
        let keys = format!("isolation = \"{isolation}\"\nmax_processes = 12");
        let copilot_capabilities = json!({"subAgent": true, "manageTodoListTool": true});
        let options = Options { copilot_capabilities, ..Options::in_workspace(sandbox.workspace()) };
        let session = start(&sandbox, &stub, &keys, "", options);
        session.register_tools(&TOOLS).expect("the schemas are good");
        let before = stub.log().len();
        for (n, (set, _)) in SETS.iter().enumerate() {
            let more = json!({"conversationId": format!("set-{n}"), "lspool": {"tools": set}});
            session.finish(&session.create(&format!("[set {n}] first"), more)).expect_success();
            let turn = session.turn(&json!(format!("set-{n}")), &format!("[set {n}] second"), json!({}));
            session.finish(&turn).expect_success();
        }
        let expected = if isolation == "mode" { 1 } else { 1 + SETS.len() };
        assert_eq!(servers(&session), expected);
        if isolation == "mode" {
            // An agent that may run sub-agents must not see the modes.
            session.finish(&session.create("with every tool", json!({}))).expect_success();
            let entry = stub.log().into_iter().rfind(LogEntry::is_turn).expect("a model was asked");
            let body = String::from_utf8_lossy(&entry.body).into_owned();
            let names =
                files(&sandbox).into_iter().filter_map(|it| it.file_stem()?.to_str().map(str::to_owned));
            for name in names {
                let name = name.trim_end_matches(".agent");
                assert!(body.contains("run_subagent") && !body.contains(name), "{name}: {body}");
            }
        }
        assert!(session.shutdown().success());
        let log = stub.log().split_off(before);
        let log: Vec<LogEntry> = log
            .into_iter()
            .filter(|it| it.chat.as_ref().is_some_and(|it| it.user.starts_with("[set ")))
            .collect();
        for entry in log.iter().filter(|it| it.is_turn()) {
            let chat = entry.chat.as_ref().expect("a turn has one");
            let n: usize = chat.user[5..6].parse().expect("it says which set");
            assert_eq!(offered(chat), SETS[n].1.iter().copied().collect(), "{isolation} {:?}", SETS[n].0);
        }
        told.push(bodies(&log));
    }
    assert_eq!(told[0].len(), SETS.len() * 4);
    for (key, by_mode) in &told[0] {
        similar(key, by_mode, &told[1][key]);
    }
}

/// Whether two bodies are equal but for ids.
fn similar(key: &(String, usize), one: &str, other: &str) {
    let mut report = String::new();
    if one != other {
        let at = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
        let around =
            |it: &str| it.get(at.saturating_sub(150)..(at + 150).min(it.len())).unwrap_or("?").to_owned();
        write!(report, "{key:?} at {at}:\n{}\n{}", around(one), around(other)).expect("a string");
    }
    assert!(report.is_empty(), "{report}");
}

#[test]
fn hundred_conversations_in_twenty_sets_keep_their_tools() {
    let sandbox = Sandbox::new();
    let stub = Stub::start(Script::default());
    let session = by_mode(&sandbox, &stub);
    let names: Vec<String> = (0..20).map(|n| format!("tool_{n}")).collect();
    let tools: Vec<Value> = names.iter().map(|it| tool(it)).collect();
    session.ok("conversation/registerTools", json!({"tools": tools}));
    let sets: Vec<[&str; 2]> = (0..20).map(|n| [names[n].as_str(), names[(n + 7) % 20].as_str()]).collect();
    let turns: Vec<_> = (0..100)
        .map(|n| {
            let more = json!({"conversationId": format!("c{n}"), "lspool": {"tools": sets[n % 20]}});
            session.create(&format!("hello {n} of"), more)
        })
        .collect();
    for turn in &turns {
        session.finish(turn).expect_success();
    }
    let again: Vec<_> = (0..100)
        .map(|n| session.turn(&json!(format!("c{n}")), &format!("hello {n} of"), json!({})))
        .collect();
    for turn in &again {
        session.finish(turn).expect_success();
    }
    assert_eq!(servers(&session), 1);
    let turns = stub.turns();
    assert_eq!(turns.len(), 200);
    for turn in &turns {
        let n: usize = turn.user.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("it says which");
        assert_eq!(offered(turn), sets[n % 20].into_iter().collect(), "conversation {n}");
    }
    assert!(session.shutdown().success());
}

/// The folder in which lspool keeps its modes.
fn folder(sandbox: &Sandbox) -> PathBuf {
    let run = std::fs::read_dir(sandbox.runtime()).expect("it is there");
    let modes = run.filter_map(Result::ok).map(|it| it.path().join("modes")).find(|it| it.is_dir());
    modes.expect("lspool has modes")
}

/// Files of modes.
fn files(sandbox: &Sandbox) -> Vec<PathBuf> {
    let all = std::fs::read_dir(folder(sandbox)).expect("it is there");
    all.filter_map(Result::ok).map(|it| it.path()).collect()
}

fn each(sandbox: &Sandbox, spoil: impl Fn(&Path) -> std::io::Result<()>) {
    for file in files(sandbox) {
        spoil(&file).expect("the files are ours");
    }
}

fn create(session: &Copilot, id: &str, message: &str, tools: &[&str]) -> Outcome {
    let more = json!({"conversationId": id, "lspool": {"tools": tools}});
    let outcome = session.finish(&session.create(message, more));
    outcome.expect_success();
    outcome
}

/// The tools that a model was last offered.
fn last_offered(stub: &Stub) -> Vec<String> {
    let turn = stub.turns().pop().expect("a model was asked");
    offered(&turn).into_iter().map(str::to_owned).collect()
}

#[test]
fn damaged_mode_never_offers_more_tools() {
    type Spoil = fn(&Sandbox, &Copilot);
    // A changed file; a mode that the server forgets; a folder that is not writable.
    let spoils: [(&str, Spoil, bool); 6] = [
        ("missing", |sandbox, _| each(sandbox, |it| std::fs::remove_file(it)), true),
        ("empty", |sandbox, _| each(sandbox, |it| std::fs::write(it, "")), true),
        ("broken", |sandbox, _| each(sandbox, |it| std::fs::write(it, "---\ntools: [\n---\n")), true),
        (
            "unregistered",
            |_, session| {
                session.ok("customAgent/unregisterExtensionAgents", json!({"extensionId": "lspool"}));
            },
            true,
        ),
        (
            "in the way",
            |sandbox, _| {
                each(sandbox, |it| std::fs::remove_file(it).and_then(|()| std::fs::create_dir(it)));
            },
            false,
        ),
        (
            "without a folder",
            |sandbox, _| {
                let folder = folder(sandbox);
                std::fs::remove_dir_all(&folder).expect("ours");
                std::fs::write(&folder, "").expect("ours");
            },
            false,
        ),
    ];
    let sandbox = Sandbox::new();
    let stub = Stub::start(Script::default());
    for (what, spoil, is_mended) in spoils {
        let session = by_mode(&sandbox, &stub);
        session.register_tools(&["fetch_ticket", "run_in_terminal"]).expect("the schemas are good");
        create(&session, "one", "hello", &["fetch_ticket"]);
        assert_eq!(last_offered(&stub), ["fetch_ticket"]);
        spoil(&sandbox, &session);
        let turn = session.turn(&json!("one"), "still there?", json!({}));
        session.finish(&turn).expect_success();
        assert_eq!(last_offered(&stub), ["fetch_ticket"], "{what}");
        let last = stub.turns().pop().expect("a model was asked");
        assert!(last.history.contains(&Said::User("hello".to_owned())), "{what}: {:?}", last.history);
        create(&session, "two", "hello", &["fetch_ticket"]);
        assert_eq!(last_offered(&stub), ["fetch_ticket"], "{what}");
        assert_eq!(servers(&session), if is_mended { 1 } else { 2 }, "{what}");
        assert!(session.shutdown().success());
    }
}

#[test]
fn call_outside_set_reaches_nobody() {
    let sandbox = Sandbox::new();
    let stub = Stub::start(Script::default());
    let session = by_mode(&sandbox, &stub);
    session.register_tools(&["fetch_ticket", "run_in_terminal"]).expect("the schemas are good");
    create(&session, "one", "[run] it", &["fetch_ticket"]);
    assert!(session.tool_calls().is_empty());
    create(&session, "two", "[custom] one", &["fetch_ticket"]);
    assert_eq!(session.tool_calls().len(), 1);
    assert!(session.shutdown().success());
}

#[test]
fn editor_sees_same_modes_as_without_lspool() {
    let sandbox = Sandbox::new();
    let stub = Stub::start(Script::default());
    sandbox.write(".github/agents/reviewer.agent.md", REVIEWER);
    let look = |session: &Copilot| {
        let folders = json!({"workspaceFolders": session.options().folders()});
        let ask = |method: &str| session.ok(method, folders.clone());
        (ask("conversation/modes"), ask("copilot/customAgent/list"))
    };
    let bare = Copilot::start(sandbox.copilot(&stub), Options::in_workspace(sandbox.workspace()));
    bare.check_signed_in();
    let expected = look(&bare);
    assert!(bare.shutdown().success());
    let session = by_mode(&sandbox, &stub);
    session.register_tools(&["fetch_ticket", "run_in_terminal"]).expect("the schemas are good");
    session.check_signed_in();
    create(&session, "zero", "hello", &[]);
    let changes = || session.notifications("copilot/customAgent/didChange").len();
    let before = changes();
    for n in 0..5 {
        let tool = format!("tool_{n}");
        create(&session, &tool, "hello", &[&tool, "fetch_ticket"]);
    }
    assert_eq!(changes(), before, "of lspool's own making");
    assert_eq!(look(&session), expected);
    assert!(session.shutdown().success());
}

const REVIEWER: &str = "---\nname: reviewer\ndescription: Reviews\ntools: ['fetch_ticket', 'list_dir']\n---\nYou review. Be *short*.\n";

#[test]
fn editor_mode_is_narrowed_to_the_set() {
    let sandbox = Sandbox::new();
    let stub = Stub::start(Script::default());
    let file = sandbox.write(".github/agents/reviewer.agent.md", REVIEWER);
    let mode = format!("file://{}", file.display());
    let mut told = Vec::new();
    for isolation in ["mode", "process"] {
        let keys = format!("isolation = \"{isolation}\"");
        std::fs::write(&file, REVIEWER).expect("the workspace is ours");
        let session = start(&sandbox, &stub, &keys, "", Options::in_workspace(sandbox.workspace()));
        session.register_tools(&["fetch_ticket", "run_in_terminal"]).expect("the schemas are good");
        session.check_signed_in();
        let more = json!({
            "conversationId": "one", "customChatModeId": mode,
            "lspool": {"tools": ["fetch_ticket", "run_in_terminal"]},
        });
        session.finish(&session.create("review it", more)).expect_success();
        assert_eq!(last_offered(&stub), ["fetch_ticket"]);
        let body = stub.log().into_iter().rfind(LogEntry::is_turn).expect("a model was asked").body;
        let body = String::from_utf8_lossy(&body).into_owned();
        assert!(body.contains("You review. Be *short*."), "{body}");
        told.push(body);
        // The editor's file changes between two turns.
        std::fs::write(&file, REVIEWER.replace("'fetch_ticket', ", "'run_in_terminal', "))
            .expect("it is ours");
        let turn = session.turn(&json!("one"), "again", json!({"customChatModeId": mode}));
        session.finish(&turn).expect_success();
        assert_eq!(last_offered(&stub), ["run_in_terminal"]);
        assert_eq!(servers(&session), if isolation == "mode" { 1 } else { 2 });
        assert!(session.shutdown().success());
    }
    similar(&("reviewer".to_owned(), 0), &told[0], &told[1]);
}

#[test]
fn mode_conversations_survive_crash() {
    let sandbox = Sandbox::new();
    let stub = Stub::start(Script::default().continue_text(lspool::core::CONTINUE));
    let session = by_mode(&sandbox, &stub);
    session.register_tools(&["fetch_ticket", "run_in_terminal"]).expect("the schemas are good");
    create(&session, "one", "[custom] first", &["fetch_ticket"]);
    create(&session, "two", "[run] first", &["run_in_terminal"]);
    let kill = || {
        let server = real::copilot().display().to_string();
        for it in session.mark().processes().into_iter().filter(|it| it.command.starts_with(&server)) {
            it.kill(Signal::KILL);
        }
    };
    kill();
    for (id, tool) in [("one", "fetch_ticket"), ("two", "run_in_terminal")] {
        session.finish(&session.turn(&json!(id), "more", json!({}))).expect_success();
        assert_eq!(last_offered(&stub), [tool]);
        let last = stub.turns().pop().expect("a model was asked");
        assert!(last.history.iter().any(|it| matches!(it, Said::Call(_))), "{:?}", last.history);
    }
    // In the middle of a turn, too.
    session.hold_tools();
    let turn = session.turn(&json!("one"), "[custom] and now", json!({}));
    let call = session.expect_request("conversation/invokeClientTool");
    kill();
    session.answer(&call, Ok(tool_answer(Ok("held".into()))));
    let outcome = session.finish(&turn);
    outcome.expect_success();
    assert_eq!(last_offered(&stub), ["fetch_ticket"]);
    assert_eq!(servers(&session), 1);
    assert!(session.shutdown().success());
}

#[test]
fn changed_isolation_moves_conversations_and_keeps_running_turn() {
    let sandbox = Sandbox::new();
    let wait = Rule::on("[wait]").then(Round::text("It goes on.\n").gate("go"));
    let stub = Stub::start(Script::default().rule(wait));
    let keys = "isolation = \"process\"";
    let session = start(&sandbox, &stub, keys, "", Options::in_workspace(sandbox.workspace()));
    session.register_tools(&["fetch_ticket", "run_in_terminal"]).expect("the schemas are good");
    create(&session, "one", "[custom] first", &["fetch_ticket"]);
    let more = json!({"conversationId": "two", "lspool": {"tools": ["run_in_terminal"]}});
    let running = session.create("[wait] for it", more);
    stub.wait_for("the turn", |log| log.iter().any(|it| it.is_turn() && it.outcome == stub::Outcome::Open));
    assert_eq!(servers(&session), 3);
    let configure = |isolation: &str| {
        let config = sandbox.home().join("lspool.toml");
        std::fs::write(config, format!("[server.copilot]\nisolation = \"{isolation}\"\n"))
            .expect("it is ours");
        session.ok("lspool/reload", json!({}));
    };
    configure("mode");
    session.finish(&session.turn(&json!("one"), "more", json!({}))).expect_success();
    assert_eq!(last_offered(&stub), ["fetch_ticket"]);
    stub.open("go");
    session.finish(&running).expect_success();
    session.finish(&session.turn(&json!("two"), "more", json!({}))).expect_success();
    assert_eq!(last_offered(&stub), ["run_in_terminal"]);
    let sets = session.ok("lspool/status", json!({}))["sets"].take();
    let by_mode = sets.as_array().into_iter().flatten().filter(|it| it["isolation"] == "mode");
    assert_eq!(by_mode.count(), 2, "{sets}");
    configure("process");
    session.finish(&session.turn(&json!("one"), "even more", json!({}))).expect_success();
    assert_eq!(last_offered(&stub), ["fetch_ticket"]);
    let last = stub.turns().pop().expect("a model was asked");
    let asked = last.history.iter().filter(|it| matches!(it, Said::User(_))).count();
    assert_eq!(asked, 3, "{:?}", last.history);
    assert!(session.shutdown().success());
}

#[test]
fn conversation_moves_on_request() {
    let sandbox = Sandbox::new();
    let stub = Stub::start(Script::default());
    let session =
        start(&sandbox, &stub, "isolation = \"process\"", "", Options::in_workspace(sandbox.workspace()));
    session.register_tools(&["fetch_ticket", "run_in_terminal"]).expect("the schemas are good");
    create(&session, "one", "[custom] first", &["fetch_ticket"]);
    let isolated = || session.ok("lspool/status", json!({}))["sets"].take();
    for (said, to) in [(2, "mode"), (3, "process"), (4, "mode")] {
        let moved = session.ok("lspool/move", json!({"name": "one", "to": to}));
        assert_eq!(moved, json!({"conversations": ["one"], "isolation": to, "refused": []}));
        session.finish(&session.turn(&json!("one"), "more", json!({}))).expect_success();
        assert_eq!(last_offered(&stub), ["fetch_ticket"]);
        let last = stub.turns().pop().expect("a model was asked");
        assert_eq!(last.history.iter().filter(|it| matches!(it, Said::User(_))).count(), said);
        let sets = isolated();
        let it = |it: &Value| it["toolset"] == json!(["fetch_ticket"]) && it["isolation"] == to;
        assert!(sets.as_array().is_some_and(|all| all.iter().any(it)), "{sets}");
    }
    assert!(session.shutdown().success());
}

#[test]
fn modes_name_mcp_tools_by_server_and_name() {
    let sandbox = Sandbox::new();
    let stub = Stub::start(Script::default());
    let server = sandbox.write("mini.py", MCP);
    let mcp = json!({"mini": {"command": real::python(), "args": [server]}}).to_string();
    let settings = json!({"telemetry": {"telemetryLevel": "off"}, "github": {"copilot": {"mcp": mcp}}});
    let options = Options { settings, ..Options::in_workspace(sandbox.workspace()) };
    let session = start(&sandbox, &stub, "isolation = \"mode\"", "", options);
    session.register_tools(&["fetch_ticket"]).expect("the schemas are good");
    session.wait_notification("copilot/mcpTools", |it| it["servers"][0]["tools"][1].is_object());
    create(&session, "one", "hello", &["mini/echo", "fetch_ticket"]);
    assert_eq!(last_offered(&stub), ["fetch_ticket", "mcp_mini_echo"]);
    create(&session, "all", "hello", &["mini/*"]);
    assert_eq!(last_offered(&stub), ["mcp_mini_echo", "mcp_mini_other"]);
    // A disabled tool is in no mode.
    let off = json!({"servers": [{"name": "mini", "tools": [{"name": "echo", "status": "disabled"}]}]});
    session.ok("mcp/updateToolsStatus", off);
    session.finish(&session.turn(&json!("all"), "more", json!({}))).expect_success();
    assert_eq!(last_offered(&stub), ["mcp_mini_other"]);
    assert_eq!(servers(&session), 1);
    // Nor in the next process, and in no other: there all tools begin enabled.
    let moment = session.moment();
    let copilot = real::copilot().display().to_string();
    let started = session.mark().processes().into_iter().find(|it| it.command.starts_with(&copilot));
    started.expect("it runs").kill(Signal::KILL);
    let lists = |it: &Value| it["servers"][0]["tools"][0].is_object();
    let listed = session.wait_notification_after(moment, "copilot/mcpTools", lists);
    assert_eq!(listed["servers"][0]["tools"][0]["_status"], "disabled");
    session.finish(&session.turn(&json!("all"), "more", json!({}))).expect_success();
    assert_eq!(last_offered(&stub), ["mcp_mini_other"]);
    let own = json!({"lspool": {"tools": ["mini/*"], "isolation": "process"}});
    session.finish(&session.create("hello", own)).expect_success();
    assert_eq!(last_offered(&stub), ["mcp_mini_other"]);
    assert!(session.shutdown().success());
}

/// A server with two tools.
const MCP: &str = r#"
import json, sys
TOOLS = [{"name": name, "description": name, "inputSchema": {"type": "object", "properties": {}}} for name in ("echo", "other")]
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method = message.get("method")
    if method == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "mini", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": TOOLS}
    else:
        result = {"content": [{"type": "text", "text": "said"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

#[test]
fn mode_serves_conversation_beyond_process_limit() {
    let sandbox = Sandbox::new();
    let wait = Rule::on("[wait]").then(Round::text("It goes on.\n").gate("go"));
    let stub = Stub::start(Script::default().rule(wait));
    let options = Options::in_workspace(sandbox.workspace());
    let session = start(&sandbox, &stub, "max_processes = 2", "", options);
    session.register_tools(&["fetch_ticket", "run_in_terminal"]).expect("the schemas are good");
    let more = json!({"conversationId": "one", "lspool": {"tools": ["run_in_terminal"]}});
    let running = session.create("[wait] for it", more);
    stub.wait_for("the turn", |log| log.iter().any(|it| it.is_turn() && it.outcome == stub::Outcome::Open));
    create(&session, "two", "hello", &["fetch_ticket"]);
    assert_eq!(last_offered(&stub), ["fetch_ticket"]);
    assert_eq!(servers(&session), 2);
    stub.open("go");
    session.finish(&running).expect_success();
    assert!(session.shutdown().success());
}
