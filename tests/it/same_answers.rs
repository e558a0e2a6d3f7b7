//! What belongs to no agent is the same with and without lspool, message by message: completions, documents, settings,
//! modes, models, errors. With a restricted partition beside it as well.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    process::Command,
};

use serde_json::{Value, json};

use super::{
    partitions::{lspool, servers, tools},
    support::{
        copilot::{Copilot, Options, uri},
        editor::{Answer, Entry, Sent},
        own,
        real::Sandbox,
        stub::{Completion, Script, Stub},
    },
};

/// The messages to an editor, without values that differ between any two runs.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// Each request of the script with its answer, in order.
    answers: Vec<(String, String)>,
    /// By method, in the order of their arrival.
    notifications: BTreeMap<String, Vec<String>>,
    /// The requests of the server; each process sends its own.
    requests: BTreeMap<String, BTreeSet<String>>,
}

/// Plays the whole script to one server.
struct Play<'a> {
    session: &'a Copilot,
    stub: &'a Stub,
    sandbox: &'a Sandbox,
    heard: Heard,
}

impl Play<'_> {
    fn ask(&mut self, method: &str, params: Value) -> Answer {
        let asked = format!("{method} {params}");
        let answer = self.session.call(method, params);
        let told = match &answer {
            Ok(result) => result.to_string(),
            Err(error) => format!("error {} {} {:?}", error.code, error.message, error.data),
        };
        let told = self.clean(&told);
        self.heard.answers.push((self.clean(&asked), told));
        answer
    }

    fn ok(&mut self, method: &str, params: Value) -> Value {
        self.ask(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    fn clean(&self, text: &str) -> String {
        let folder = self.sandbox.workspace().parent().expect("a folder").display().to_string();
        let port = self.stub.url().rsplit(':').next().expect("a port").to_owned();
        without_uuids(&text.replace(&folder, "{sandbox}").replace(&port, "{port}"))
    }

    fn run(mut self) -> Heard {
        let session = self.session;
        self.ok("checkStatus", json!({}));
        for method in
            ["conversation/modes", "conversation/templates", "copilot/models", "conversation/agents"]
        {
            self.ok(method, json!({"workspaceFolders": session.options().folders()}));
        }
        self.ok("getVersion", json!({}));
        self.ok("conversation/preconditions", json!({}));
        self.ok("mcp/getTools", json!({}));
        self.documents_and_completions();
        self.chat();
        self.configuration();
        self.errors();
        self.collect();
        self.heard
    }

    fn documents_and_completions(&mut self) {
        let session = self.session;
        let path = self.sandbox.write("add.py", "def add(a, b):\n    ");
        let file = uri(&path);
        let document = |version: u32| json!({"uri": file, "version": version});
        let position = |line: u32, character: u32| json!({"line": line, "character": character});
        let complete = |version: u32, at: Value| json!({"textDocument": document(version), "position": at, "context": {"triggerKind": 1}, "formattingOptions": {"tabSize": 4, "insertSpaces": true}});
        self.ask("textDocument/inlineCompletion", complete(1, position(1, 4))).expect_err("not open");
        let text = "def add(a, b):\n    ";
        let opened = json!({"uri": file, "languageId": "python", "version": 1, "text": text});
        session.notify("textDocument/didOpen", json!({"textDocument": opened}));
        session.notify("textDocument/didFocus", json!({"textDocument": {"uri": file}}));
        let found = self.ok("textDocument/inlineCompletion", complete(1, position(1, 4)));
        let item = &found["items"][0];
        assert!(item["insertText"].as_str().is_some_and(|it| it.contains("return a + b")), "{found}");
        session.notify("textDocument/didShowCompletion", json!({"item": item}));
        session
            .notify("textDocument/didPartiallyAcceptCompletion", json!({"item": item, "acceptedLength": 6}));
        let accepted =
            json!({"command": item["command"]["command"], "arguments": item["command"]["arguments"]});
        self.ok("workspace/executeCommand", accepted.clone());
        // An accepted completion is gone.
        self.ok("workspace/executeCommand", accepted);
        let inserted = json!({"range": {"start": position(1, 4), "end": position(1, 4)}, "text": "return a + b\n\n\ndef mul(a, b):\n    "});
        session.notify(
            "textDocument/didChange",
            json!({"textDocument": document(2), "contentChanges": [inserted]}),
        );
        self.ask("textDocument/inlineCompletion", complete(1, position(1, 4))).expect_err("an old version");
        let found = self.ok("textDocument/inlineCompletion", complete(2, position(5, 4)));
        assert!(found.to_string().contains("return a * b"), "the server has the change: {found}");
        let panel =
            json!({"textDocument": document(2), "position": position(5, 4), "partialResultToken": "panel"});
        self.ok("textDocument/copilotPanelCompletion", panel);
        self.ok("checkFileStatus", json!({"uri": file}));
        session.notify("textDocument/didClose", json!({"textDocument": {"uri": file}}));
        self.ask("textDocument/inlineCompletion", complete(2, position(5, 4))).expect_err("closed");
    }

    fn chat(&mut self) {
        let session = self.session;
        let turn = session.create("hello", json!({"conversationId": "here", "workDoneToken": "chat"}));
        let outcome = session.finish(&turn);
        outcome.expect_success();
        let answer = self.clean(&outcome.answer.expect("success").to_string());
        self.heard.answers.push(("create".to_owned(), answer));
        self.ok("conversation/destroy", json!({"conversationId": "here"}));
    }

    fn configuration(&mut self) {
        let session = self.session;
        let settings = json!({"github": {"copilot": {"enable": {"python": false}}}, "telemetry": {"telemetryLevel": "off"}});
        session.notify("workspace/didChangeConfiguration", json!({"settings": settings}));
        let path = uri(&self.sandbox.write("off.py", "x = "));
        self.ok("checkFileStatus", json!({"uri": path}));
        let asked = |entries: &[Entry]| {
            let pull =
                |it: &&Entry| it.sent == Sent::ByServer && it.method() == Some("workspace/configuration");
            entries.iter().filter(pull).count()
        };
        let before = asked(&session.transcript());
        // Without settings the server asks for them.
        session.notify("workspace/didChangeConfiguration", json!({}));
        session.wait_transcript("another pull", |it| (asked(it) > before).then_some(()));
    }

    fn errors(&mut self) {
        for (method, params) in [
            ("no/such/method", json!({})),
            ("textDocument/inlineCompletion", json!({"nothing": 1})),
            ("conversation/turn", json!({})),
            (
                "conversation/turn",
                json!({"workDoneToken": "t", "conversationId": "nobody", "message": "m", "modelInfo": {"id": "gpt-4.1"}}),
            ),
            ("conversation/create", json!({})),
            ("conversation/create", json!({"workDoneToken": "t", "turns": []})),
            (
                "conversation/create",
                json!({"workDoneToken": "t", "turns": [{"request": "q"}], "conversationId": true}),
            ),
            ("conversation/registerTools", json!({})),
            ("conversation/registerTools", json!({"tools": [{"name": 1}]})),
            ("conversation/unregisterTools", json!({})),
            ("conversation/updateToolsStatus", json!({})),
            ("workspace/executeCommand", json!({"command": "no.such.command"})),
            ("copilot/models", json!({"a": 1})),
        ] {
            drop(self.ask(method, params));
        }
    }

    fn collect(&mut self) {
        for entry in self.session.transcript() {
            let Some(method) = entry.method().filter(|_| entry.sent == Sent::ByServer) else { continue };
            let params = &entry.message["params"];
            // The log is each server's own; an agent's progress is not of this script.
            let own = ["panel", "chat"].iter().any(|it| params["token"] == *it);
            if method == "window/logMessage" || (method == "$/progress" && !own) {
                continue;
            }
            let told = self.clean(&params.to_string());
            if entry.is_notification() {
                self.heard.notifications.entry(method.to_owned()).or_default().push(told);
            } else {
                self.heard.requests.entry(method.to_owned()).or_default().insert(told);
            }
        }
    }
}

/// Every uuid becomes the same word.
fn without_uuids(text: &str) -> String {
    let shape = |it: &str| {
        it.len() == 36
            && it.bytes().enumerate().all(|(n, byte)| match n {
                8 | 13 | 18 | 23 => byte == b'-',
                _ => byte.is_ascii_hexdigit(),
            })
    };
    let mut out = String::new();
    let mut at = 0;
    while at < text.len() {
        if text.get(at..at + 36).is_some_and(shape) {
            out += "{uuid}";
            at += 36;
        } else {
            let next = text[at..].chars().next().expect("not at the end");
            write!(out, "{next}").expect("a string takes all");
            at += next.len_utf8();
        }
    }
    out
}

pub(super) fn play(command: impl Fn(&Sandbox, &Stub) -> Command, agent: bool) -> Heard {
    let script = Script::default().completion(Completion::new("return a * b").after("def mul(a, b):"));
    let stub = Stub::start(script);
    let sandbox = Sandbox::new();
    let mut options = Options::in_workspace(sandbox.workspace());
    options.capabilities["workspace"]["configuration"] = true.into();
    let session = Copilot::start(command(&sandbox, &stub), options);
    session.on_request("workspace/configuration", |params| {
        let value = |item: &Value| match item["section"].as_str() {
            Some("telemetry") => json!({"telemetryLevel": "off"}),
            _ => Value::Null,
        };
        Ok(params["items"].as_array().into_iter().flatten().map(value).collect())
    });
    if agent {
        session.finish(&session.create("hello", tools(&["list_dir"]))).expect_success();
        assert_eq!(servers(&session), 2);
    }
    let mut play = Play { session: &session, stub: &stub, sandbox: &sandbox, heard: Heard::default() };
    let initialized = play.clean(&session.initialized.to_string());
    play.heard.answers.push(("initialize".to_owned(), initialized));
    let mut heard = play.run();
    assert!(session.shutdown().success());
    heard.answers[0].1 = own::stripped(&heard.answers[0].1);
    heard
}

#[track_caller]
fn expect_same(with: &Heard, without: &Heard) {
    assert_eq!(with.answers.len(), without.answers.len());
    for (with, without) in with.answers.iter().zip(&without.answers) {
        assert_eq!(with, without);
    }
    let methods = |it: &Heard| it.notifications.keys().cloned().collect::<Vec<_>>();
    assert_eq!(methods(with), methods(without));
    for (method, told) in &without.notifications {
        // Whether the server gets to say that it is busy is a matter of time.
        let heard = |told: &[String]| match method.contains("Status") || method.contains("statusNotification")
        {
            true => told.iter().cloned().collect::<BTreeSet<_>>().into_iter().collect(),
            false => told.to_vec(),
        };
        assert_eq!(heard(&with.notifications[method]), heard(told), "{method}");
    }
    assert_eq!(with.requests, without.requests);
}

/// The same with a group: other members may answer what is nobody's, and speak for themselves.
#[track_caller]
pub(super) fn expect_same_beside_others(with: &Heard, without: &Heard) {
    assert_eq!(with.answers.len(), without.answers.len());
    let is_nobodys =
        |asked: &str| ["initialize", "no/such/method", "no.such.command"].iter().any(|it| asked.contains(it));
    for (with, without) in with.answers.iter().zip(&without.answers) {
        match is_nobodys(&with.0) {
            true => assert_eq!(with.1.starts_with("error"), without.1.starts_with("error"), "{with:?}"),
            false => assert_eq!(with, without),
        }
    }
    for (method, told) in &without.notifications {
        let heard: BTreeSet<&String> = with.notifications.get(method).into_iter().flatten().collect();
        for it in told {
            assert!(heard.contains(it), "{method}: {it}: {heard:?}");
        }
    }
    for (method, asked) in &without.requests {
        let heard = &with.requests.get(method).cloned().unwrap_or_default();
        assert!(heard.is_superset(asked), "{method}: {asked:?}: {heard:?}");
    }
}

#[test]
fn requests_outside_agents_get_same_answers() {
    let without = play(Sandbox::copilot, false);
    let with = play(lspool, false);
    expect_same(&with, &without);
    let beside_an_agent = play(lspool, true);
    expect_same(&beside_an_agent, &without);
}
