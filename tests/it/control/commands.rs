//! The commands, with fake lspools.

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt as _, symlink},
        net::UnixListener,
    },
    process::Stdio,
    sync::Mutex,
};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{
    LSPOOL, Running, Sandbox,
    fake::{Answer, COPILOT, Fake, answers, has, refusal, status},
    folder, run, says,
};

#[test]
fn commands_report_that_no_lspool_runs() {
    let sandbox = Sandbox::new();
    let said = "lspool: no lspool is running\n";
    says(&sandbox, &["status", "--json"], 3, "{\n  \"instances\": []\n}\n", said);
    says(&sandbox, &["status", "--json", "--watch"], 3, "{\"instances\":[]}\n", said);
    for line in [
        &["status"] as &[_],
        &["status", "--watch"],
        &["restart", "copilot"],
        &["stop", "copilot"],
        &["logs", "copilot", "-f"],
        &["reload"],
    ] {
        says(&sandbox, line, 3, "", said);
    }
    // A socket without a listener does not count.
    drop(UnixListener::bind(folder(&sandbox).join("4711-1.sock")).unwrap());
    says(&sandbox, &["status", "--watch"], 3, "", said);
    says(&sandbox, &["status", "--pid", "4711"], 3, "", "lspool: no lspool with pid 4711 is running\n");
}

#[test]
fn commands_ignore_folder_open_to_others() {
    let sandbox = Sandbox::new();
    let fake = Fake::new(&sandbox, 4711, 1, vec![has(4711, "/w", &["x"])]);
    let folder = folder(&sandbox);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let output = run(&sandbox, &["status"]);
    assert_eq!(output.status.code(), Some(3));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("has mode 755; expected 700; lspool ignores the sockets there"), "{told}");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    fs::rename(&folder, sandbox.runtime().join("elsewhere")).unwrap();
    symlink(sandbox.runtime().join("elsewhere"), &folder).unwrap();
    let output = run(&sandbox, &["restart", "x"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is not a folder"));
    assert_eq!(fake.asked(), Vec::<Value>::new());
}

#[test]
fn unresponsive_instance_does_not_hide_others() {
    let sandbox = Sandbox::new();
    let _silent = Fake::new(&sandbox, 11, 1, vec![]);
    let _well = Fake::new(&sandbox, 12, 2, vec![has(12, "/w", &["pyright"])]);
    let _confused = Fake::new(&sandbox, 13, 3, vec![answers("lspool/status", json!({"result": 7}))]);
    let output = run(&sandbox, &["status", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["instances"][0], json!({"pid": 11, "error": "it does not answer"}));
    assert_eq!(document["instances"][1], status(12, "/w", &["pyright"]));
    assert_eq!(document["instances"][2]["pid"], 13);
    let output = run(&sandbox, &["status"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("lspool 11  it does not answer\n\nlspool 12  /w  Vim 9\n"), "{text}");
    says(&sandbox, &["restart", "--pid", "11", "pyright"], 1, "", "lspool: lspool 11: it does not answer\n");
}

#[test]
fn backend_names_match_by_prefix_and_errors_list_them() {
    let sandbox = Sandbox::new();
    let ready = || answers("lspool/restart", json!({"result": {"name": "x", "state": "ready"}}));
    let first = Fake::new(&sandbox, 11, 1, vec![has(11, "/one", &COPILOT), ready()]);
    let second = Fake::new(&sandbox, 12, 2, vec![has(12, "/two", &["pyright"]), ready()]);
    let restarted = |fake: &Fake| fake.asked().iter().rfind(|it| it[0] == "lspool/restart").cloned();

    says(&sandbox, &["restart", "pyright"], 0, "pyright: ready\n", "");
    assert_eq!(restarted(&second), Some(json!(["lspool/restart", {"name": "pyright"}])));
    for (name, meant) in [
        (COPILOT[0], 0),
        ("cop", 0),
        (COPILOT[1], 1),
        ("list_dir,read_file", 1),
        ("list_dir,", 1),
        // A whole name goes before the beginning of another.
        ("list_dir", 2),
    ] {
        says(&sandbox, &["restart", name], 0, &format!("{}: ready\n", COPILOT[meant]), "");
        assert_eq!(restarted(&first), Some(json!(["lspool/restart", {"name": COPILOT[meant]}])));
    }
    let ambiguous =
        format!("lspool: \"list\" is ambiguous; expected one of\n  {}\n  {}\n", COPILOT[1], COPILOT[2]);
    says(&sandbox, &["restart", "list"], 2, "", &ambiguous);
    let unknown = |name| {
        let [a, b, c] = COPILOT;
        format!("lspool: unknown server {name:?}; expected one of\n  {a}\n  {b}\n  {c}\n  pyright\n")
    };
    says(&sandbox, &["stop", "ruff"], 2, "", &unknown("ruff"));
    says(&sandbox, &["logs", ""], 2, "", &unknown(""));
    says(&sandbox, &["logs", "x", "--pid", "13"], 3, "", "lspool: no lspool with pid 13 is running\n");
}

#[test]
fn ambiguous_backend_lists_instances() {
    let sandbox = Sandbox::new();
    let ready = || answers("lspool/stop", json!({"result": {"name": "copilot", "state": "stopped"}}));
    let first = Fake::new(&sandbox, 11, 1, vec![has(11, "/one", &COPILOT), ready()]);
    let second = Fake::new(&sandbox, 12, 2, vec![has(12, "/two", &["copilot"]), ready()]);
    says(
        &sandbox,
        &["stop", "copilot"],
        2,
        "",
        "lspool: several lspools have a \"copilot\"; choose one with --pid, or all with --all\n  --pid 11  /one  copilot\n  --pid 12  /two  copilot\n",
    );
    says(&sandbox, &["stop", "copilot", "--pid", "12"], 0, "copilot: stopped\n", "");
    let is_asked = |fake: &Fake| fake.asked().iter().any(|it| it[0] == "lspool/stop");
    assert!(is_asked(&second) && !is_asked(&first));
}

#[test]
fn restart_with_all_reaches_every_lspool_with_such_a_server() {
    let sandbox = Sandbox::new();
    let ready = || answers("lspool/restart", json!({"result": {"state": "ready"}}));
    let failed = answers("lspool/restart", refusal(-32803, "pyright has failed: exit code 1"));
    let first = Fake::new(&sandbox, 11, 1, vec![has(11, "/one", &["pyright"]), ready()]);
    let second = Fake::new(&sandbox, 12, 2, vec![has(12, "/two", &["ruff"]), ready()]);
    let third = Fake::new(&sandbox, 13, 3, vec![has(13, "/three", &["ruff", "pyright"]), ready()]);
    let told = "lspool 11: pyright: ready\nlspool 13: pyright: ready\n";
    says(&sandbox, &["restart", "pyright", "--all"], 0, told, "");
    let asked = |fake: &Fake| fake.asked().into_iter().filter(|it| it[0] == "lspool/restart").count();
    assert_eq!([&first, &second, &third].map(asked), [1, 0, 1]);
    says(
        &sandbox,
        &["restart", "x", "--all"],
        2,
        "",
        "lspool: unknown server \"x\"; expected one of\n  pyright\n  ruff\n",
    );
    // One that fails keeps no other from it.
    drop(first);
    let _fails = Fake::new(&sandbox, 10, 0, vec![has(10, "/zero", &["pyright"]), failed]);
    let told = "lspool 10: pyright: failed: exit code 1\nlspool 13: pyright: ready\n";
    says(&sandbox, &["restart", "pyright", "--all"], 1, told, "");
}

#[test]
fn cancel_reaches_the_lspool_whose_agent_it_is() {
    let sandbox = Sandbox::new();
    let has_agent = |pid, workspace, name: &str| {
        let mut it = status(pid, workspace, &["copilot"]);
        it["agents"] = json!([{"name": name, "kind": "sub-agent", "of": "c", "since": 1}]);
        answers("lspool/status", json!({"result": it}))
    };
    let done = || answers("lspool/cancelAgent", json!({"result": {"state": "cancelled"}}));
    let first = Fake::new(&sandbox, 11, 1, vec![has_agent(11, "/one", "explore-1"), done()]);
    let second = Fake::new(&sandbox, 12, 2, vec![has_agent(12, "/two", "bash-1"), done()]);
    says(&sandbox, &["cancel", "bash-1", "--of", "c"], 0, "bash-1: cancelled\n", "");
    let asked = |fake: &Fake| fake.asked().into_iter().find(|it| it[0] == "lspool/cancelAgent");
    assert_eq!(asked(&first), None);
    assert_eq!(asked(&second), Some(json!(["lspool/cancelAgent", {"name": "bash-1", "of": "c"}])));
    let unknown = "lspool: no agent \"plan-1\" is at work; `lspool status` shows those that are\n";
    says(&sandbox, &["cancel", "plan-1"], 2, "", unknown);
    let _third = Fake::new(&sandbox, 13, 3, vec![has_agent(13, "/three", "bash-1"), done()]);
    let several = "lspool: several lspools have an agent \"bash-1\"; choose one with --pid\n";
    says(&sandbox, &["cancel", "bash-1"], 2, "", several);
}

#[test]
fn failed_command_prints_reason() {
    let sandbox = Sandbox::new();
    let fails = answers("lspool/restart", refusal(-32803, "exit code 1\u{1b}[2J:\n  no licence"));
    let unknown = answers("lspool/stop", refusal(-32602, "there is only \"y\""));
    let has_failed = answers("lspool/restart", refusal(-32803, "x has failed: exit code 1"));
    let _fake = Fake::new(&sandbox, 11, 1, vec![has(11, "/w", &["x"]), fails, unknown]);
    let _other = Fake::new(&sandbox, 12, 1, vec![has(12, "/w", &["x"]), has_failed]);
    says(
        &sandbox,
        &["restart", "x", "--pid=11"],
        1,
        "x: failed: exit code 1\u{fffd}[2J:\n  no licence\n",
        "",
    );
    says(&sandbox, &["restart", "x", "--pid=12"], 1, "x: failed: exit code 1\n", "");
    // Gone since it was looked for.
    says(&sandbox, &["stop", "x", "--pid=11"], 2, "", "lspool: there is only \"y\"\n");
}

#[test]
fn reload_applies_to_every_instance() {
    let sandbox = Sandbox::new();
    let changed = |words: Value| answers("lspool/reload", json!({"result": {"changed": words}}));
    let _a = Fake::new(&sandbox, 11, 1, vec![has(11, "/a", &["x"]), changed(json!(["settings", "routes"]))]);
    let _b = Fake::new(&sandbox, 12, 2, vec![has(12, "/b", &["x"]), changed(json!([]))]);
    says(
        &sandbox,
        &["reload"],
        0,
        "lspool 11: changed: settings, routes\nlspool 12: nothing has changed\n",
        "",
    );
    let bad = answers("lspool/reload", refusal(-32803, "config.toml: line 1: no"));
    let _c = Fake::new(&sandbox, 13, 3, vec![has(13, "/c", &["x"]), bad]);
    says(&sandbox, &["reload", "--pid", "13"], 1, "lspool 13: failed: config.toml: line 1: no\n", "");
    let output = run(&sandbox, &["reload"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 3);
}

#[test]
fn logs_prints_and_follows_lines() {
    let sandbox = Sandbox::new();
    let logs: (_, Answer) = (
        "lspool/logs",
        Box::new(|params| {
            let mut all = vec![json!({"result": {"lines": ["one", "two\u{1b}[31m"]}})];
            if params["follow"] == true {
                let line = |line: &str| json!({"method": "lspool/log", "params": {"id": 1, "line": line}});
                all.extend([line("three"), json!({"method": "lspool/else", "params": {}}), line("four")]);
            }
            all
        }),
    );
    let fake = Fake::new(&sandbox, 11, 1, vec![has(11, "/w", &["x"]), logs]);
    says(&sandbox, &["logs", "x"], 0, "one\ntwo\u{fffd}[31m\n", "");
    let mut following = Running::start(&sandbox, &["logs", "-f", "x"]);
    for line in ["one", "two\u{fffd}[31m", "three", "four"] {
        assert_eq!(following.line(), line);
    }
    // Ctrl-C is how one ends it.
    assert_eq!(following.end(Signal::INT), Some(0));
    assert_eq!(fake.asked().last(), Some(&json!(["lspool/logs", {"name": "x", "follow": true}])));
}

#[test]
fn watch_prints_each_change() {
    let sandbox = Sandbox::new();
    let with = |state: &str, memory: u64| {
        let mut it = status(11, "/w", &["x"]);
        it["backends"][0]["state"] = state.into();
        it["backends"][0]["rss_bytes"] = memory.into();
        it
    };
    let changed = || json!({"method": "lspool/didChangeStatus", "params": {}});
    let first_said = with("ready", 1);
    let watch: (_, Answer) =
        ("lspool/watch", Box::new(move |_| vec![json!({"result": first_said}), changed(), changed()]));
    // Memory alone is no change.
    let then = Mutex::new(vec![with("failed", 3), with("ready", 2)]);
    let states: (_, Answer) = (
        "lspool/status",
        Box::new(move |_| {
            let mut then = then.lock().unwrap();
            let now = if then.len() > 1 { then.pop() } else { then.last().cloned() };
            vec![json!({"result": now})]
        }),
    );
    let first = Fake::new(&sandbox, 11, 1, vec![watch, states]);
    let mut watching = Running::start(&sandbox, &["status", "--watch", "--json"]);
    let mut state = || {
        let document: Value = serde_json::from_str(&watching.line()).unwrap();
        let states = document["instances"].as_array().unwrap().iter();
        states.map(|it| it["backends"][0]["state"].as_str().unwrap_or("-").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(state(), ["ready"]);
    assert_eq!(state(), ["failed"]);
    // Another one comes, and says no more after a while.
    let second = Fake::new(
        &sandbox,
        12,
        2,
        vec![answers("lspool/watch", json!({"result": status(12, "/w", &["y"])}))],
    );
    assert_eq!(state(), ["failed", "ready"]);
    assert_eq!(state(), ["failed", "-"]);
    assert_eq!(watching.end(Signal::INT), Some(0));
    drop((first, second));
}

#[test]
fn status_succeeds_when_output_is_closed() {
    let sandbox = Sandbox::new();
    let _fake = Fake::new(&sandbox, 11, 1, vec![has(11, "/w", &["x"])]);
    for flag in [&["status"] as &[_], &["status", "--json"]] {
        let mut command = sandbox.command(LSPOOL);
        let mut child = command
            .args(flag)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{output:?}");
    }
}

#[test]
fn watch_ends_with_q_and_leaves_terminal_as_it_was() {
    let sandbox = Sandbox::new();
    let said = || json!({"result": status(11, "/w", &["x"])});
    let answer = vec![answers("lspool/watch", said()), answers("lspool/status", said())];
    let _fake = Fake::new(&sandbox, 11, 1, answer);
    for end in ["q", "SIGINT", "SIGTERM", "SIGHUP"] {
        let mut command = sandbox.command("python3");
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/terminal.py")).arg(end);
        command.arg(env!("CARGO_BIN_EXE_lspool")).args(["status", "--watch"]);
        let output = command.output().expect("python starts");
        assert!(output.status.success(), "{end}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
