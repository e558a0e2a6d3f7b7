//! The commands, with a real lspool in front of puppets.

use std::{fs, io::Write as _, os::unix::net::UnixStream, thread};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Puppet, PuppetHost, Running, Sandbox, check_alive, end, run, says, start, wait_until};

/// The name of the puppets' server.
const NAME: &str = "lspool-puppet";

fn status(sandbox: &Sandbox) -> Value {
    let output = run(sandbox, &["status", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

/// The next process of the server comes up.
fn comes_up(host: &PuppetHost) -> Puppet {
    let server = host.accept();
    let asked = server.expect("initialize");
    server.answer(&asked, json!({"capabilities": {}}));
    server.expect("initialized");
    server
}

#[test]
fn status_describes_running_instance() {
    let (sandbox, host) = (Sandbox::new(), PuppetHost::new());
    let (editor, server, _) = start(&sandbox, &host);
    let hover = editor.request("textDocument/hover", json!({}));
    let asked = server.expect("textDocument/hover");
    let document = status(&sandbox);
    let [instance] = document["instances"].as_array().expect("a list").as_slice() else {
        panic!("{document:#}")
    };
    assert_eq!(instance["pid"], editor.pid());
    assert_eq!(instance["workspace"], Value::Null);
    assert_eq!(instance["config"], json!({"error": null}));
    let mut backend = instance["backends"][0].clone();
    let rss = backend["rss_bytes"].take().as_u64().expect("it is measured");
    assert!((100_000..100_000_000).contains(&rss), "{rss}");
    assert!(backend["since"].take().as_u64() >= instance["started"].as_u64());
    assert_eq!(
        backend,
        json!({
            "name": NAME, "toolset": null, "state": "ready", "since": null, "pid": server.pid, "rss_bytes": null,
            "restarts": 0, "crashes": 0, "conversations": 0, "in_flight": 1, "refused": 0,
            "dropped": {"log_messages": 0, "reports": 0}, "last_error": null, "last_error_at": null, "next_start": null,
            "stopped": null,
        })
    );
    server.answer(&asked, Value::Null);
    editor.wait(&hover).expect("it was answered");
    let output = run(&sandbox, &["status"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with(&format!("lspool {}  no workspace", editor.pid())), "{text}");
    assert!(text.contains(&format!("\n  {NAME}  ready ")), "{text}");
    end(&editor, &server);
}

#[test]
fn restart_waits_for_next_process_and_stop_does_not() {
    let (sandbox, host) = (Sandbox::new(), PuppetHost::new());
    let (editor, server, _) = start(&sandbox, &host);
    let ends = |server: &Puppet| {
        server.on("shutdown", |_| Ok(Value::Null));
        server.wait_received("exit", |all| all.iter().any(|it| it["method"] == "exit"));
        server.exit(0);
    };
    thread::scope(|scope| {
        let restarting =
            scope.spawn(|| says(&sandbox, &["restart", NAME], 0, &format!("{NAME}: ready\n"), ""));
        ends(&server);
        let server = comes_up(&host);
        restarting.join().expect("it says so");
        check_alive(&editor, &server);
        says(&sandbox, &["stop", NAME], 0, &format!("{NAME}: stopped\n"), "");
        ends(&server);
    });
    wait_until("stopped", || status(&sandbox)["instances"][0]["backends"][0]["pid"] == Value::Null);
    assert_eq!(status(&sandbox)["instances"][0]["backends"][0]["state"], "stopped");
    // From stopped as well.
    let server = thread::scope(|scope| {
        let restarting =
            scope.spawn(|| says(&sandbox, &["restart", "lsp"], 0, &format!("{NAME}: ready\n"), ""));
        let server = comes_up(&host);
        restarting.join().expect("it says so");
        server
    });
    check_alive(&editor, &server);
    let known = format!("lspool: unknown server \"ruff\"; expected one of\n  {NAME}\n");
    says(&sandbox, &["restart", "ruff"], 2, "", &known);
    end(&editor, &server);
}

#[test]
fn failed_restart_prints_reason() {
    let (sandbox, host) = (Sandbox::new(), PuppetHost::new());
    let config = format!("[server.{NAME}]\nrestart = \"never\"\n");
    let file = sandbox.home().join(".config/lspool/config.toml");
    fs::create_dir_all(file.parent().expect("it is in a folder")).expect("the home is writable");
    fs::write(&file, config).expect("the home is writable");
    let (editor, server, _) = start(&sandbox, &host);
    editor.on_request("window/showMessageRequest", |_| Ok(Value::Null));
    server.on("shutdown", |_| Ok(Value::Null));
    thread::scope(|scope| {
        let restarting = scope.spawn(|| run(&sandbox, &["restart", NAME]));
        server.wait_received("exit", |all| all.iter().any(|it| it["method"] == "exit"));
        server.exit(0);
        let next = host.accept();
        next.expect("initialize");
        next.mutter("no licence\n");
        next.exit(3);
        let output = restarting.join().expect("it ends");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.starts_with(&format!("{NAME}: failed: ")) && said.contains("exit code 3"), "{said}");
        assert_eq!(output.stderr, b"");
    });
    let backend = status(&sandbox)["instances"][0]["backends"][0].clone();
    assert_eq!(backend["state"], "failed");
    assert!(backend["last_error"].as_str().is_some_and(|it| it.contains("no licence")), "{backend:#}");
    editor.forgive_unanswered();
    editor.close_stdin();
    editor.wait_exit();
}

#[test]
fn logs_outlive_process_and_can_be_followed() {
    let (sandbox, host) = (Sandbox::new(), PuppetHost::new());
    let (editor, server, _) = start(&sandbox, &host);
    let first = server.pid;
    server.mutter("one\nGH_TOKEN=ghu_secret123\n");
    let mut following = Running::start(&sandbox, &["logs", "-f", NAME]);
    let is_noted = |line: &str, what: &str| {
        let when = line.trim_end().strip_prefix(&format!("[lspool] {what} ("));
        assert!(when.is_some_and(|it| it.ends_with(" UTC)")), "{line}: {what}");
    };
    is_noted(&following.line(), &format!("process {first} started"));
    assert_eq!(following.line(), "one");
    assert_eq!(following.line(), "GH_TOKEN=<secret>");
    server.mutter("two\n");
    assert_eq!(following.line(), "two");
    server.exit(7);
    is_noted(&following.line(), &format!("process {first} ended by itself: exit code 7"));
    let server = comes_up(&host);
    is_noted(&following.line(), &format!("process {} started", server.pid));
    let output = run(&sandbox, &["logs", NAME]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    is_noted(lines[0], &format!("process {first} started"));
    assert_eq!(&lines[1..4], ["one", "GH_TOKEN=<secret>", "two"]);
    is_noted(lines[4], &format!("process {first} ended by itself: exit code 7"));
    is_noted(lines[5], &format!("process {} started", server.pid));
    assert_eq!((lines.len(), output.status.code()), (6, Some(0)));
    end(&editor, &server);
    // The end of lspool is the end of its logs.
    is_noted(&following.line(), &format!("process {} ended on request of lspool: exit code 0", server.pid));
    assert_eq!(following.line(), "");
    assert_eq!(following.wait(), Some(0));
}

#[test]
fn command_asks_for_pid_when_two_instances_match() {
    let sandbox = Sandbox::new();
    let (one, other) = (PuppetHost::new(), PuppetHost::new());
    let (first, first_server, _) = start(&sandbox, &one);
    let (second, second_server, _) = start(&sandbox, &other);
    assert_eq!(status(&sandbox)["instances"].as_array().map(Vec::len), Some(2));
    let several = format!(
        "lspool: several lspools have a \"{NAME}\"; choose one with --pid, or all with --all\n  --pid {}  no workspace  {NAME}\n  --pid {}  no \
         workspace  {NAME}\n",
        first.pid(),
        second.pid()
    );
    says(&sandbox, &["stop", NAME], 2, "", &several);
    let output = run(&sandbox, &["logs", NAME, "--pid", &second.pid().to_string()]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with(&format!("[lspool] process {} started (", second_server.pid)), "{text}");
    end(&first, &first_server);
    end(&second, &second_server);
}

#[test]
fn editor_can_request_status_and_logs() {
    let (sandbox, host) = (Sandbox::new(), PuppetHost::new());
    let (editor, server, _) = start(&sandbox, &host);
    let said = editor.ok("lspool/status", json!({}));
    assert_eq!(said["backends"][0]["name"], NAME);
    server.mutter("one\n");
    wait_until("a line", || editor.ok("lspool/logs", json!({"name": NAME}))["lines"][1] == "one");
    editor.ok("lspool/logs", json!({"name": NAME, "follow": true}));
    server.mutter("two\n");
    editor.wait_notification("lspool/log", |it| it["line"] == "two");
    let unknown = editor.call("lspool/logs", json!({"name": "x"})).expect_err("there is none");
    assert_eq!(unknown.code, -32602);
    assert!(unknown.message.contains(NAME), "{unknown:?}");
    end(&editor, &server);
}

#[test]
fn flood_of_requests_does_not_block_editor() {
    let (sandbox, host) = (Sandbox::new(), PuppetHost::new());
    let (editor, server, socket) = start(&sandbox, &host);
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"lspool/status","params":{}}"#;
    let burst = format!("Content-Length: {}\r\n\r\n{body}", body.len()).repeat(1000);
    let flood = |reads: bool| {
        let mut stream = UnixStream::connect(&socket).expect("it listens");
        let mut answers = stream.try_clone().expect("a socket can be shared");
        let burst = burst.clone();
        if reads {
            thread::spawn(move || std::io::copy(&mut answers, &mut std::io::sink()));
        }
        thread::spawn(move || while stream.write_all(burst.as_bytes()).is_ok() {});
    };
    (0..5).for_each(|_| flood(true));
    (0..5).for_each(|_| flood(false));
    for _ in 0..50 {
        check_alive(&editor, &server);
    }
    // And who asks as it should is answered, though later.
    wait_until("a status", || run(&sandbox, &["status", "--json"]).status.code() == Some(0));
    end(&editor, &server);
}

#[test]
fn config_change_applies_at_once_and_invalid_one_changes_nothing() {
    let (sandbox, host) = (Sandbox::new(), PuppetHost::new());
    let file = sandbox.home().join(".config/lspool/config.toml");
    let (editor, server, _) = start(&sandbox, &host);
    let problem = || status(&sandbox)["instances"][0]["config"]["error"].clone();
    // A folder and a file that were not there before.
    fs::create_dir_all(file.parent().expect("it is in a folder")).expect("the home is writable");
    fs::write(&file, "nonsense = 1\n").expect("the home is writable");
    wait_until("a problem", || problem().as_str().is_some_and(|it| it.contains("nonsense")));
    editor.wait_notification("window/showMessage", |it| {
        it["message"].as_str().unwrap_or_default().contains("nonsense")
    });
    let output = run(&sandbox, &["reload"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.starts_with(&format!("lspool {}: failed: ", editor.pid())) && said.contains("nonsense"),
        "{said}"
    );
    let text = run(&sandbox, &["status"]).stdout;
    assert!(String::from_utf8_lossy(&text).contains("    configuration: /"));
    check_alive(&editor, &server);
    // Editors save by replacing the file.
    let new = file.with_extension("new");
    fs::write(&new, format!("[server.{NAME}.env]\nCHANGED = \"1\"\n")).expect("the home is writable");
    fs::rename(&new, &file).expect("it is the same folder");
    server.on("shutdown", |_| Ok(Value::Null));
    server.wait_received("exit", |all| all.iter().any(|it| it["method"] == "exit"));
    server.exit(0);
    let server = comes_up(&host);
    let environment = fs::read(format!("/proc/{}/environ", server.pid)).expect("it is there");
    assert!(String::from_utf8_lossy(&environment).contains("CHANGED=1"));
    wait_until("no problem", || problem() == Value::Null);
    check_alive(&editor, &server);
    let nothing = format!("lspool {}: nothing has changed\n", editor.pid());
    // What lspool has just read by itself is told once, unless the machine was slow.
    let said = String::from_utf8_lossy(&run(&sandbox, &["reload"]).stdout).into_owned();
    assert!(said.ends_with(": changed: settings, processes\n") || said == nothing, "{said}");
    says(&sandbox, &["reload"], 0, &nothing, "");
    end(&editor, &server);
}

#[test]
fn watch_shows_crash_and_restart() {
    let (sandbox, host) = (Sandbox::new(), PuppetHost::new());
    let (editor, server, _) = start(&sandbox, &host);
    let mut watching = Running::start(&sandbox, &["status", "--watch", "--json"]);
    let mut next = || -> Value { serde_json::from_str(&watching.line()).expect("a line is a document") };
    assert_eq!(next()["instances"][0]["backends"][0]["state"], "ready");
    server.exit(1);
    let server = comes_up(&host);
    let mut seen = next();
    while seen["instances"][0]["backends"][0]["pid"] != server.pid {
        seen = next();
    }
    end(&editor, &server);
    while next()["instances"] != json!([]) {}
    assert_eq!(watching.end(Signal::INT), Some(0));
}
