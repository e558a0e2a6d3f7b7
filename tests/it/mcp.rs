//! `lspool mcp`: what a client of the Model Context Protocol sees, in both eras, with a real server behind it.

#![allow(
    clippy::disallowed_methods,
    clippy::needless_pass_by_value,
    clippy::unwrap_used,
    reason = "tests live in real time, what they cannot have they fail for, and they say `json!` in the middle of a call"
)]

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::fs::symlink,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{
    copilot::uri,
    editor::TestEditor,
    processes::Mark,
    puppet::PuppetHost,
    real::{self, Sandbox},
};

mod sdk;

const LSPOOL: &str = env!("CARGO_BIN_EXE_lspool");

/// A guard against hanging, not a measure of anything.
const PATIENCE: Duration = Duration::from_secs(100);

/// The versions of the era with `initialize`, and one that nobody knows.
const VERSIONS: [(&str, &str); 5] = [
    ("2024-11-05", "2024-11-05"),
    ("2025-03-26", "2025-03-26"),
    ("2025-06-18", "2025-06-18"),
    ("2025-11-25", "2025-11-25"),
    ("1999-01-01", "2025-11-25"),
];

/// A client of `lspool mcp`, line by line.
struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    mark: Mark,
    /// Messages that came while another one was waited for.
    others: Vec<Value>,
}

impl Client {
    fn start(mut command: Command) -> Client {
        let mark = Mark::of(&mut command);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                if sender.send(line.unwrap()).is_err() {
                    return;
                }
            }
        });
        Client { child, stdin, lines, mark, others: Vec::new() }
    }

    fn write(&mut self, line: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(line).unwrap();
        stdin.write_all(b"\n").unwrap();
    }

    fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = "2.0".into();
        self.write(message.to_string().as_bytes());
    }

    #[track_caller]
    fn receive(&mut self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).expect("a message in time");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("stdout carries {line:?}: {error}"))
    }

    /// Waits for the first message that fits.
    #[track_caller]
    fn wait_for(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.others.iter().position(&fits) {
            return self.others.remove(at);
        }
        loop {
            let message = self.receive();
            if fits(&message) {
                return message;
            }
            self.others.push(message);
        }
    }

    #[track_caller]
    fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(json!({"id": id, "method": method, "params": params}));
        self.wait_for(|it| it["id"] == id && it["method"].is_null())
    }

    #[track_caller]
    fn initialize(&mut self, capabilities: Value) -> Value {
        let client = json!({"name": "test", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client});
        let answer = self.ask(0, "initialize", params);
        self.send(json!({"method": "notifications/initialized"}));
        answer
    }

    #[track_caller]
    fn call(&mut self, id: u64, name: &str, arguments: Value) -> Value {
        let answer = self.ask(id, "tools/call", json!({"name": name, "arguments": arguments}));
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].clone()
    }

    /// Closes stdin and waits for the end, with the messages of lspool to the user.
    #[track_caller]
    fn leave(&mut self) -> (Option<i32>, String) {
        drop(self.stdin.take());
        let status = self.child.wait().unwrap();
        self.mark.wait_gone(PATIENCE);
        let mut told = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        (status.code(), told)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.mark.kill_all();
        self.child.wait().ok();
    }
}

/// A project under git, with pyright as the only server on PATH that lspool prefers.
fn project() -> Sandbox {
    let sandbox = Sandbox::new();
    let bin = sandbox.home().join("bin");
    fs::create_dir(&bin).unwrap();
    symlink(real::pyright(), bin.join("pyright-langserver")).unwrap();
    fs::create_dir(sandbox.workspace().join(".git")).unwrap();
    sandbox.write("pyrightconfig.json", "{}");
    sandbox.write("tools/greet.py", "def greet(name: str) -> str:\n    return \"Hello, \" + name\n");
    sandbox
        .write("main.py", "from tools.greet import greet\n\nprint(greet(\"you\"))\nprint(greet(\"me\"))\n");
    sandbox
}

fn mcp(sandbox: &Sandbox) -> Command {
    let mut command = sandbox.command(LSPOOL);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", sandbox.home().join("bin").display()));
    command.arg("mcp");
    command
}

/// `_meta` of a request of the era without `initialize`.
fn meta(version: &str) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// Places of an answer, as `file:line`.
fn places(result: &Value) -> Vec<String> {
    let all = result["structuredContent"]["references"].as_array().unwrap_or_else(|| panic!("{result}"));
    all.iter().map(|it| format!("{}:{}", it["file"].as_str().unwrap(), it["line"])).collect()
}

fn texts(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}

const ALL: [&str; 4] = ["tools/greet.py:1", "main.py:1", "main.py:3", "main.py:4"];

#[track_caller]
fn check_references(result: &Value, expected: &[&str]) {
    let (mut found, mut expected) = (places(result), expected.to_vec());
    found.sort();
    expected.sort_unstable();
    assert_eq!(found, expected, "{result}");
    assert_eq!(result["structuredContent"]["complete"], true, "{result}");
}

#[test]
fn initialize_agrees_on_each_version_of_the_earlier_era() {
    let sandbox = Sandbox::new();
    for (asked, expected) in VERSIONS {
        let mut client = Client::start(mcp(&sandbox));
        let info = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": asked, "capabilities": {}, "clientInfo": info});
        let result = client.ask(0, "initialize", params)["result"].clone();
        assert_eq!(result["protocolVersion"], expected);
        assert_eq!(result["serverInfo"]["name"], "lspool");
        assert!(
            result["capabilities"]["tools"].is_object() && result["instructions"].is_string(),
            "{result}"
        );
        assert_eq!(client.ask(1, "ping", json!({}))["result"], json!({}));
        let list = client.ask(2, "tools/list", json!({}))["result"].clone();
        assert!(list["resultType"].is_null() && list["ttlMs"].is_null(), "{list}");
        assert!(list.to_string().len() <= 14 << 10);
        assert_eq!(client.ask(3, "tools/list", json!({}))["result"].to_string(), list.to_string());
        assert_eq!(client.leave(), (Some(0), String::new()));
    }
}

#[test]
fn era_without_initialize_is_spoken_on_the_same_process() {
    let sandbox = Sandbox::new();
    let mut client = Client::start(mcp(&sandbox));
    let unknown = client.ask(1, "server/discover", json!({"_meta": meta("2031-01-01")}));
    assert_eq!(unknown["error"]["code"], -32022, "{unknown}");
    let supported = unknown["error"]["data"]["supported"].as_array().unwrap().clone();
    assert!(
        supported.contains(&json!("2026-07-28")) && supported.contains(&json!("2024-11-05")),
        "{unknown}"
    );
    let found = client.ask(2, "server/discover", json!({"_meta": meta("2026-07-28")}))["result"].clone();
    assert_eq!((&found["resultType"], &found["supportedVersions"]), (&json!("complete"), &json!(supported)));
    assert!(found["instructions"].is_string(), "{found}");
    let list = client.ask(3, "tools/list", json!({"_meta": meta("2026-07-28")}))["result"].clone();
    assert_eq!((&list["resultType"], &list["ttlMs"]), (&json!("complete"), &json!(60_000)));
    assert_eq!(list["cacheScope"], "private");
    let call = json!({"_meta": meta("2026-07-28"), "name": "lsp_workspace", "arguments": {}});
    let answer = client.ask(4, "tools/call", call)["result"].clone();
    assert_eq!(answer["resultType"], "complete", "{answer}");
    let listen = json!({"_meta": meta("2026-07-28"), "notifications": {"toolsListChanged": true}});
    client.send(json!({"id": 5, "method": "subscriptions/listen", "params": listen}));
    client.wait_for(|it| it["method"] == "notifications/subscriptions/acknowledged");
    assert_eq!(client.leave().0, Some(0));

    // A `discover` is a probe: the client may still speak as before.
    let mut client = Client::start(mcp(&sandbox));
    client.ask(1, "server/discover", json!({"_meta": meta("2026-07-28")}));
    assert_eq!(client.initialize(json!({}))["result"]["protocolVersion"], "2025-11-25");
    let list = client.ask(2, "tools/list", json!({"_meta": meta("2026-07-28")}))["result"].clone();
    assert_eq!(list["resultType"], "complete");
    let list = client.ask(3, "tools/list", json!({}))["result"].clone();
    assert!(list["resultType"].is_null(), "{list}");
    assert_eq!(client.leave().0, Some(0));
}

#[test]
fn bad_lines_are_answered_and_the_next_request_too() {
    let sandbox = Sandbox::new();
    let mut client = Client::start(mcp(&sandbox));
    // Before anything else, as well.
    client.write(b"nonsense");
    assert_eq!(client.receive()["error"]["code"], -32700);
    client.send(json!({"method": "notifications/cancelled", "params": {"requestId": 9}}));
    let early = client.ask(1, "tools/call", json!({"name": "lsp_workspace"}));
    assert_eq!(early["error"]["code"], -32602, "{early}");
    client.initialize(json!({}));
    let huge = [b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"", &vec![b'x'; 9 << 20][..], b"\"}"].concat();
    for (line, code, words) in [
        (&huge[..], -32600, "longer than"),
        (b"\xff\xfe{}", -32700, "not JSON"),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", -32600, "a line of its own"),
        (b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", -32600, "`id`"),
    ] {
        client.write(line);
        let answer = client.receive();
        assert_eq!(answer["error"]["code"], code, "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(words), "{answer}");
        assert!(answer["id"].is_null());
    }
    for (id, method, params, code, words) in [
        (10, "resources/list", json!({}), -32601, ""),
        (11, "no/such", json!({}), -32601, "unknown method \"no/such\""),
        (12, "tools/call", json!({"name": 5}), -32602, "`params`"),
        (
            13,
            "tools/call",
            json!({"name": "lsp_reference", "arguments": {}}),
            -32602,
            "did you mean lsp_references?",
        ),
        (14, "initialize", json!({}), -32602, "`params`"),
    ] {
        let answer = client.ask(id, method, params);
        assert_eq!(answer["error"]["code"], code, "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(words), "{answer}");
    }
    // What is wrong with the arguments of a tool is for the model.
    let result = client.call(20, "lsp_workspace", json!({"folder": "x"}));
    assert_eq!(result["isError"], true, "{result}");
    assert_eq!(client.ask(21, "ping", json!({}))["result"], json!({}));
    assert_eq!(client.leave().0, Some(0));
}

#[test]
fn folders_that_are_no_project_are_refused_with_what_to_write() {
    let sandbox = Sandbox::new();
    for root in ["/", sandbox.home().to_str().unwrap(), "missing"] {
        let output = mcp(&sandbox).args(["--root", root]).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    }
    let mut command = mcp(&sandbox);
    command.current_dir(sandbox.home());
    let mut client = Client::start(command);
    client.initialize(json!({}));
    let result = client.call(1, "lsp_workspace", json!({}));
    assert_eq!(result["structuredContent"]["error"]["code"], "refused", "{result}");
    assert!(texts(&result).contains("lspool mcp --root DIR"), "{result}");
    let (code, told) = client.leave();
    assert_eq!(code, Some(0));
    assert!(told.contains("too large to be a workspace"), "{told}");
}

#[test]
fn folders_of_the_client_are_asked_for_and_followed() {
    let sandbox = Sandbox::new();
    let (first, second) = (sandbox.workspace().join("first"), sandbox.workspace().join("second"));
    for folder in [&first, &second] {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join("a.txt"), "").unwrap();
    }
    let mut client = Client::start(mcp(&sandbox));
    client.initialize(json!({"roots": {"listChanged": true}}));
    let answer_with = |client: &mut Client, folder: &std::path::Path| {
        let asked = client.wait_for(|it| it["method"] == "roots/list");
        client.send(json!({"id": asked["id"], "result": {"roots": [{"uri": uri(folder)}]}}));
    };
    answer_with(&mut client, &first);
    let result = client.call(1, "lsp_workspace", json!({}));
    assert_eq!(result["structuredContent"]["error"]["code"], "no_server", "{result}");
    client.send(json!({"method": "notifications/roots/list_changed"}));
    answer_with(&mut client, std::path::Path::new("/"));
    let is_refused = |it: &Value| it["structuredContent"]["error"]["code"] == "refused";
    let mut id = 2;
    while !is_refused(&client.call(id, "lsp_workspace", json!({}))) {
        id += 1;
    }
    client.send(json!({"method": "notifications/roots/list_changed"}));
    answer_with(&mut client, &second);
    while is_refused(&client.call(id, "lsp_workspace", json!({}))) {
        id += 1;
    }
    assert_eq!(client.leave().0, Some(0));
}

#[test]
fn calls_are_answered_by_a_real_server_through_edits_and_kills() {
    let sandbox = project();
    let mut client = Client::start(mcp(&sandbox));
    client.initialize(json!({}));
    let target = json!({"symbol": "greet", "file": "tools/greet.py"});
    let references = client.call(1, "lsp_references", target.clone());
    check_references(&references, &ALL);
    assert!(texts(&references).contains("main.py"), "{references}");
    assert!(references["isError"].is_null() || references["isError"] == false);

    // Another program breaks a file, and mends it.
    let diagnostics = json!({"files": ["main.py"], "severity": "error"});
    let before = fs::read_to_string(sandbox.workspace().join("main.py")).unwrap();
    let total = |it: &Value| it["structuredContent"]["total"].clone();
    assert_eq!(total(&client.call(2, "lsp_diagnostics", diagnostics.clone())), 0);
    sandbox.write("main.py", &format!("{before}print(greet(5))\n"));
    let broken = client.call(3, "lsp_diagnostics", diagnostics.clone());
    assert_eq!(
        (total(&broken), &broken["structuredContent"]["files"][0]["diagnostics"][0]["line"]),
        (json!(1), &json!(5))
    );
    sandbox.write("main.py", &before);
    assert_eq!(total(&client.call(4, "lsp_diagnostics", diagnostics)), 0);

    // The server dies between two calls.
    for process in client.mark.processes_running("pyright") {
        process.kill(Signal::KILL);
    }
    sandbox.write("more.py", "from tools.greet import greet\n");
    check_references(&client.call(5, "lsp_references", target), &[&ALL[..], &["more.py:1"]].concat());
    let unclear = client.call(6, "lsp_definition", json!({"symbol": "nowhere"}));
    assert_eq!(
        (&unclear["isError"], unclear["structuredContent"]["ok"].as_bool()),
        (&json!(true), Some(false))
    );
    assert_eq!(client.leave().0, Some(0));
}

#[test]
fn language_that_appears_gets_its_real_server_at_the_next_call() {
    let sandbox = project();
    symlink(real::typescript(), sandbox.home().join("bin/typescript-language-server")).unwrap();
    for file in ["main.py", "tools/greet.py", "pyrightconfig.json"] {
        fs::remove_file(sandbox.workspace().join(file)).unwrap();
    }
    let mut client = Client::start(mcp(&sandbox));
    client.initialize(json!({}));
    let tools = |client: &mut Client, id: u64| -> Vec<String> {
        let list = client.ask(id, "tools/list", json!({}))["result"]["tools"].clone();
        list.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect()
    };
    let has = |names: &[String], name: &str| names.iter().any(|it| it == name);
    // Nobody knows yet what servers can do.
    let all = tools(&mut client, 1);
    assert!(has(&all, "lsp_type_hierarchy") && has(&all, "lsp_format"));
    let empty = client.call(2, "lsp_workspace", json!({}));
    assert_eq!(empty["structuredContent"]["error"]["code"], "no_server", "{empty}");

    sandbox.write("a.py", "def greet() -> int:\n    return 1\n");
    sandbox.write("b.py", "from a import greet\n\ngreet()\n");
    let references = client.call(3, "lsp_references", json!({"symbol": "greet"}));
    check_references(&references, &["a.py:1", "b.py:1", "b.py:3"]);
    // The list has what pyright can do.
    client.wait_for(|it| it["method"] == "notifications/tools/list_changed");
    let python = tools(&mut client, 20);
    assert!(has(&python, "lsp_call_hierarchy") && has(&python, "lsp_rename"), "{python:?}");
    assert!(!has(&python, "lsp_type_hierarchy") && !has(&python, "lsp_format"), "{python:?}");

    sandbox.write("tsconfig.json", "{}");
    sandbox.write("c.ts", "export function wave(): number {\n  return 1;\n}\n");
    sandbox.write("d.ts", "import { wave } from \"./c\";\n\nwave();\n");
    let references = client.call(4, "lsp_references", json!({"symbol": "wave"}));
    check_references(&references, &["c.ts:1", "d.ts:1", "d.ts:3"]);
    let references = client.call(5, "lsp_references", json!({"symbol": "greet"}));
    check_references(&references, &["a.py:1", "b.py:1", "b.py:3"]);
    client.wait_for(|it| it["method"] == "notifications/tools/list_changed");
    let both = tools(&mut client, 21);
    assert!(has(&both, "lsp_format") && !has(&both, "lsp_type_hierarchy"), "{both:?}");

    // No server is there for this one, which is said and ends no server.
    let before = client.mark.processes_running("pyright").len();
    sandbox.write("e.go", "package main\n");
    let workspace = client.call(6, "lsp_workspace", json!({}))["structuredContent"].clone();
    let names: Vec<&str> =
        workspace["servers"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["pyright", "typescript-language-server"], "{workspace}");
    assert!(workspace["missing"]["Go"].is_string(), "{workspace}");
    assert_eq!(client.mark.processes_running("pyright").len(), before);
    // A server that dies takes no tool with it.
    for process in client.mark.processes_running("pyright") {
        process.kill(Signal::KILL);
    }
    let references = client.call(7, "lsp_references", json!({"symbol": "greet"}));
    check_references(&references, &["a.py:1", "b.py:1", "b.py:3"]);
    assert_eq!(tools(&mut client, 22), both);
    assert!(client.others.iter().all(|it| it["method"] != "notifications/tools/list_changed"));
    assert_eq!(client.leave().0, Some(0));
}

#[test]
fn paths_through_a_link_above_the_workspace_are_inside_for_a_real_server() {
    let sandbox = project();
    let link = sandbox.home().join("link");
    symlink(sandbox.workspace(), &link).unwrap();
    let mut client = Client::start(mcp(&sandbox));
    client.initialize(json!({}));
    let target = json!({"symbol": "greet", "file": link.join("tools/greet.py")});
    check_references(&client.call(1, "lsp_references", target), &ALL);
    let outside = client.call(2, "lsp_hover", json!({"symbol": "x", "file": link.join("../x.py")}));
    assert_eq!(outside["structuredContent"]["error"]["code"], "outside_workspace", "{outside}");
    assert_eq!(client.leave().0, Some(0));
}

#[test]
fn edits_are_shown_and_made_with_a_real_server() {
    let sandbox = project();
    let text = |name: &str| fs::read_to_string(sandbox.workspace().join(name)).unwrap();
    let before = [text("tools/greet.py"), text("main.py")];
    let mut client = Client::start(mcp(&sandbox));
    client.initialize(json!({}));
    let rename = json!({"symbol": "greet", "file": "tools/greet.py", "new_name": "hail", "preview": true});
    let shown = client.call(1, "lsp_rename", rename.clone());
    let edit = json!({"edit": shown["structuredContent"]["edit"]});
    assert_eq!(shown["structuredContent"]["applied"], false, "{shown}");
    assert_eq!([text("tools/greet.py"), text("main.py")], before);

    // Another program changes a file, and changes it back.
    sandbox.write("main.py", "print(1)\n");
    let refused = client.call(2, "lsp_apply_edit", edit.clone());
    assert_eq!(refused["structuredContent"]["error"]["code"], "changed", "{refused}");
    sandbox.write("main.py", &before[1]);
    let made = client.call(3, "lsp_apply_edit", edit.clone());
    assert_eq!(made["structuredContent"]["applied"], true, "{made}");
    assert_eq!(
        [text("tools/greet.py"), text("main.py")],
        before.clone().map(|it| it.replace("greet(", "hail(").replace("import greet", "import hail"))
    );
    let again = client.call(4, "lsp_apply_edit", edit);
    assert_eq!(again["structuredContent"]["error"]["code"], "expired", "{again}");

    // The server knows the new name, and dies while it is asked to change it back.
    for process in client.mark.processes_running("pyright") {
        process.kill(Signal::KILL);
    }
    let back = json!({"symbol": "hail", "file": "tools/greet.py", "new_name": "greet"});
    let made = client.call(5, "lsp_rename", back);
    assert_eq!(made["structuredContent"]["applied"], true, "{made}");
    assert_eq!([text("tools/greet.py"), text("main.py")], before);
    assert_eq!(client.leave().0, Some(0));
}

#[test]
fn cancelled_calls_are_not_answered_and_progress_counts_up() {
    let sandbox = project();
    // This one never starts, and lspool does not wait for it at the end.
    let config = sandbox.home().join(".config/lspool/config.toml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    fs::write(config, "[server.pyright]\nstartup_timeout = \"10m\"\n").unwrap();
    let slow = sandbox.home().join("bin/pyright-langserver");
    fs::remove_file(&slow).unwrap();
    fs::write(&slow, "#!/bin/sh\nexec sleep 1000\n").unwrap();
    fs::set_permissions(&slow, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut client = Client::start(mcp(&sandbox));
    client.initialize(json!({}));
    let call =
        json!({"name": "lsp_hover", "arguments": {"symbol": "greet"}, "_meta": {"progressToken": "p"}});
    client.send(json!({"id": 1, "method": "tools/call", "params": call}));
    client.send(json!({"id": 2, "method": "tools/call", "params": {"name": "lsp_hover", "arguments": {"symbol": "x"}}}));
    let progress = client.wait_for(|it| it["method"] == "notifications/progress");
    client.others.push(progress);
    client.send(json!({"method": "notifications/cancelled", "params": {"requestId": 1, "reason": "enough"}}));
    client.send(json!({"method": "notifications/cancelled", "params": {"requestId": 99}}));
    assert_eq!(client.ask(3, "ping", json!({}))["result"], json!({}));
    drop(client.stdin.take());
    // lspool waits a while for the call that is not cancelled, and then ends.
    let mut told = std::mem::take(&mut client.others);
    while let Ok(line) = client.lines.recv_timeout(PATIENCE) {
        told.push(serde_json::from_str(&line).unwrap());
    }
    let progress = told.iter().filter(|it| it["method"] == "notifications/progress").map(|it| &it["params"]);
    let counts: Vec<f64> = progress.clone().map(|it| it["progress"].as_f64().unwrap()).collect();
    assert!(!counts.is_empty() && counts.windows(2).all(|it| it[0] < it[1]), "{told:?}");
    assert!(progress.clone().all(|it| it["progressToken"] == "p" && it["message"].is_string()), "{told:?}");
    assert!(told.iter().all(|it| it["id"] != 1), "{told:?}");
    assert_eq!(client.child.wait().unwrap().code(), Some(0));
    client.mark.wait_gone(PATIENCE);
}

#[test]
fn no_process_of_a_real_server_survives_the_agent() {
    for signal in [Signal::KILL, Signal::TERM] {
        let sandbox = project();
        let mut client = Client::start(mcp(&sandbox));
        client.initialize(json!({}));
        client.call(1, "lsp_hover", json!({"symbol": "greet"}));
        assert!(!client.mark.processes_running("pyright").is_empty());
        client.mark.process(client.child.id()).unwrap().kill(signal);
        let status = client.child.wait().unwrap();
        assert_eq!(status.code(), (signal == Signal::TERM).then_some(128 + 15));
        client.mark.wait_gone(PATIENCE);
    }
}

#[test]
fn install_prints_or_writes_the_entry() {
    let sandbox = Sandbox::new();
    let run = |words: &[&str]| {
        let output = mcp(&sandbox).args(words).output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let file = sandbox.home().join(".codex/config.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "model = \"m\" # mine\n").unwrap();
    let (code, shown, _) = run(&["--install", "codex"]);
    assert_eq!(code, Some(0));
    assert!(shown.contains("[mcp_servers.lspool]") && shown.contains(file.to_str().unwrap()), "{shown}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "model = \"m\" # mine\n");
    assert_eq!(run(&["--install", "codex", "--write"]).1, format!("wrote {}\n", file.display()));
    let written = fs::read_to_string(&file).unwrap();
    assert!(written.starts_with("model = \"m\" # mine\n\n[mcp_servers.lspool]\ncommand = "), "{written}");
    sandbox.write(".mcp.json", "{ // mine\n}");
    let (code, _, told) = run(&["--install", "claude", "--write"]);
    assert_eq!(code, Some(2));
    assert!(told.contains("add the entry by hand"), "{told}");
    assert_eq!(run(&["--write"]).0, Some(2));
}

#[test]
fn unsaved_text_of_editor_that_comes_later_is_seen() {
    let sandbox = project();
    let mut client = Client::start(mcp(&sandbox));
    client.initialize(json!({}));
    let greet = json!({"symbol": "greet", "file": "tools/greet.py"});
    check_references(&client.call(1, "lsp_references", greet.clone()), &ALL);

    let host = PuppetHost::new();
    let mut lspool = sandbox.command(LSPOOL);
    lspool.args(["--", env!("CARGO_BIN_EXE_lspool-puppet")]);
    host.tie(&mut lspool);
    let editor = TestEditor::spawn(lspool);
    let params = json!({"processId": null, "rootUri": null, "capabilities": {}});
    let initialize = editor.request("initialize", params);
    let server = host.accept();
    server.answer(&server.expect("initialize"), json!({"capabilities": {"textDocumentSync": 1}}));
    editor.wait(&initialize).unwrap();
    editor.notify("initialized", json!({}));
    let main = sandbox.workspace().join("main.py");
    let text = fs::read_to_string(&main).unwrap() + "print(greet(\"them\"))\n";
    let document = json!({"uri": uri(&main), "languageId": "python", "version": 1, "text": text});
    editor.notify("textDocument/didOpen", json!({"textDocument": document}));
    server.expect("textDocument/didOpen");
    let result = client.call(2, "lsp_references", greet.clone());
    check_references(&result, &[&ALL[..], &["main.py:5"]].concat());

    editor.notify("textDocument/didClose", json!({"textDocument": {"uri": uri(&main)}}));
    server.expect("textDocument/didClose");
    check_references(&client.call(3, "lsp_references", greet), &ALL);
    editor.forgive_unanswered();
    assert_eq!(client.leave().0, Some(0));
}
