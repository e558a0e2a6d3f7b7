//! Signing in with the real Copilot server: one sign-in signs every process in, one sign-out signs all out, and later
//! processes follow.

use std::process::Stdio;

use serde_json::{Value, json};

use super::{
    partitions::{lspool, servers, tools},
    support::{
        copilot::{Copilot, Options},
        real::{self, Sandbox},
        stub::{LogEntry, Script, Stub},
    },
};

/// The error of a server that is not signed in.
const NOT_SIGNED_IN: i64 = 1000;

/// lspool in front of the real server, not signed in.
fn unsigned(sandbox: &Sandbox, stub: &Stub) -> Copilot {
    let mut command = sandbox.copilot_command(env!("CARGO_BIN_EXE_lspool"), stub);
    command.arg("--").arg(real::copilot()).arg("--stdio");
    let mut options = Options::in_workspace(sandbox.workspace());
    options.settings["http"]["proxy"] = stub.url().into();
    let session = Copilot::start(command, options);
    session.register_tools(&["fetch_ticket", "other_tool"]).expect("it takes tools without a sign-in");
    session.wait_notification("didChangeStatus/v2", |it| {
        let of_sign_in = |it: &Value| it["category"] == "auth" && it["kind"] == "Error";
        it["statuses"].as_array().is_some_and(|all| all.iter().any(of_sign_in))
    });
    session
}

/// The sets of the primary and of a partition.
fn running() -> [(&'static str, Value); 2] {
    [("lead", Value::Null), ("agent", tools(&["fetch_ticket"]))]
}

/// Each set is refused a conversation: by an error, or, by a process that was signed in before, by the end of its
/// turn. No model hears of it.
#[track_caller]
fn expect_signed_out(session: &Copilot, stub: &Stub, sets: &[(&str, Value)]) {
    let asked = stub.turns().len();
    for (name, set) in sets {
        let outcome = session.finish(&session.create("hello", set.clone()));
        match outcome.answer {
            Err(error) => {
                assert_eq!((error.code, outcome.progress.begins), (NOT_SIGNED_IN, 0), "{name}");
            }
            Ok(_) => {
                let ends = outcome.progress.ends;
                assert_eq!((ends.len(), &ends[0]["error"]["message"]), (1, &json!("NotSignedIn")), "{name}");
            }
        }
    }
    assert_eq!(stub.turns().len(), asked);
}

/// Each set holds a conversation; gives them.
#[track_caller]
fn expect_signed_in(session: &Copilot, sets: &[(&str, Value)]) -> Vec<Value> {
    let begun = sets.iter().map(|(_, set)| session.finish(&session.create("hello", set.clone())));
    begun.map(|it| it.conversation()).collect()
}

/// The exchanges of a sign-in with this credential for a token.
fn exchanges<'a>(log: &'a [LogEntry], credential: &str) -> Vec<&'a LogEntry> {
    let exchange = |it: &&LogEntry| it.path.ends_with("/copilot_internal/v2/token");
    let with = |it: &&LogEntry| it.authorization.as_ref().is_some_and(|it| it.ends_with(credential));
    log.iter().filter(exchange).filter(with).collect()
}

/// Waits until so many processes have checked the new sign-in by themselves.
#[track_caller]
fn expect_exchanges(stub: &Stub, n: usize, credential: &str) {
    stub.wait_for(&format!("{n} processes sign in as {credential}"), |log| {
        exchanges(log, credential).len() >= n
    });
}

#[test]
fn environment_token_signs_in_every_process() {
    let stub = Stub::start(Script::default());
    let sandbox = Sandbox::new();
    let session = Copilot::start(lspool(&sandbox, &stub), Options::in_workspace(sandbox.workspace()));
    session.register_tools(&["fetch_ticket", "other_tool"]).expect("the schemas are good");
    expect_signed_in(&session, &running());
    expect_signed_in(&session, &[("later", tools(&["other_tool"]))]);
    assert_eq!(servers(&session), 3);
    assert_eq!(exchanges(&stub.log(), "gho_environment").len(), 3);
    // The environment wins over a sign-out.
    session.ok("signOut", json!({}));
    expect_signed_in(&session, &running());
    assert!(session.shutdown().success());
}

#[test]
fn editor_token_signs_every_process_in_and_out() {
    let stub = Stub::start(Script::default());
    let sandbox = Sandbox::new();
    let session = unsigned(&sandbox, &stub);
    expect_signed_out(&session, &stub, &running());
    assert_eq!(servers(&session), 1, "no process is started for nobody");

    let auth = |token: &str| json!({"login": "stub-user", "accessToken": token, "apiUrl": format!("{}/", stub.url()), "serverUrl": format!("{}/", stub.url())});
    session.notify("github/didChangeAuth", auth("gho_first"));
    session.check_signed_in();
    expect_exchanges(&stub, 1, "gho_first");
    expect_signed_in(&session, &running());
    expect_signed_in(&session, &[("later", tools(&["other_tool"]))]);
    assert_eq!(exchanges(&stub.log(), "gho_first").len(), 3);

    // Another account; what started later knows it as well.
    session.notify("github/didChangeAuth", auth("gho_second"));
    session.check_signed_in();
    expect_exchanges(&stub, 3, "gho_second");
    expect_signed_in(&session, &[("last", tools(&["list_dir"]))]);
    assert_eq!(exchanges(&stub.log(), "gho_second").len(), 4);
    assert_eq!(exchanges(&stub.log(), "gho_first").len(), 3);

    session.notify("github/didChangeAuth", json!({}));
    assert_eq!(session.ok("checkStatus", json!({}))["status"], "NotSignedIn");
    expect_signed_out(&session, &stub, &running());
    expect_signed_out(&session, &stub, &[("later", tools(&["other_tool"])), ("new", tools(&["read_file"]))]);
    assert!(session.shutdown().success());
}

fn device_flow(session: &Copilot) {
    let prompt = session.ok("signIn", json!({}));
    assert_eq!(prompt["status"], "PromptUserDeviceFlow", "{prompt}");
    let done = session.ok("workspace/executeCommand", prompt["command"].clone());
    assert_eq!((&done["status"], &done["user"]), (&json!("OK"), &json!("stub-user")));
}

#[test]
fn device_flow_signs_every_process_in_and_out() {
    let stub = Stub::start_with_tls(Script::default());
    let sandbox = Sandbox::new();
    let session = unsigned(&sandbox, &stub);
    expect_signed_out(&session, &stub, &running());

    device_flow(&session);
    expect_exchanges(&stub, 1, "gho_stub");
    let conversations = expect_signed_in(&session, &running());
    expect_signed_in(&session, &[("later", tools(&["other_tool"]))]);

    assert_eq!(session.ok("signOut", json!({}))["status"], "NotSignedIn");
    assert_eq!(session.ok("checkStatus", json!({}))["status"], "NotSignedIn");
    expect_signed_out(&session, &stub, &running());
    expect_signed_out(&session, &stub, &[("later", tools(&["other_tool"])), ("new", tools(&["list_dir"]))]);

    // In again: all come back, their conversations too.
    device_flow(&session);
    expect_exchanges(&stub, 6, "gho_stub");
    for conversation in &conversations {
        let outcome = session.finish(&session.turn(conversation, "[history]", Value::Null));
        assert!(outcome.progress.text.contains("Echo: hello"), "{}", outcome.progress.text);
    }
    expect_signed_in(&session, &[("new", tools(&["list_dir"])), ("last", tools(&["grep_search"]))]);
    assert_eq!(servers(&session), 5);
    assert!(session.shutdown().success());
}

#[test]
fn stored_token_signs_every_process_in_and_out() {
    let stub = Stub::start_with_tls(Script::default());
    let sandbox = Sandbox::new();
    let session = unsigned(&sandbox, &stub);
    expect_signed_out(&session, &stub, &running());
    let signed = json!({"githubToken": "gho_kept", "user": "stub-user"});
    assert_eq!(session.ok("signInWithGithubToken", signed)["status"], "OK");
    expect_exchanges(&stub, 1, "gho_kept");
    expect_signed_in(&session, &running());
    expect_signed_in(&session, &[("later", tools(&["other_tool"]))]);
    assert_eq!(session.ok("signOut", json!({}))["status"], "NotSignedIn");
    expect_signed_out(&session, &stub, &running());
    assert!(session.shutdown().success());
}

#[test]
fn login_command_signs_in_without_editor() {
    let stub = Stub::start_with_tls(Script::default());
    let sandbox = Sandbox::new();
    let login = || {
        let mut command = sandbox.copilot_command(env!("CARGO_BIN_EXE_lspool"), &stub);
        command.current_dir(sandbox.workspace()).args(["login", "--"]).arg(real::copilot()).arg("--stdio");
        let done = command.stdin(Stdio::null()).output().expect("lspool starts");
        let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
        (done.status.code(), text(&done.stdout), text(&done.stderr))
    };
    let (status, out, err) = login();
    assert_eq!(status, Some(0), "{out}{err}");
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("Open http") && lines[0].contains(" and enter the code "), "{out}");
    assert_eq!(lines[1..], ["signed in as stub-user"]);
    assert_eq!(login(), (Some(0), "already signed in as stub-user\n".to_owned(), String::new()));
}
