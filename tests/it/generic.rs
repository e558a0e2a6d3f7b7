//! Generic language servers: the same session with lspool and without gives the same messages.
//!
//! Bodies are compared as text, so that a member that moved or a number that was written otherwise is seen. What
//! differs from run to run is made equal first, and nothing else: see [`Names`] and [`Session::said`].

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf, time::Duration};

use serde_json::{Value, json};

use super::support::{
    copilot::uri,
    editor::{Entry, Moment, Pending, Sent, TestEditor},
    names::Names,
    own,
    puppet::PuppetHost,
    real::{self, Sandbox},
};

/// A server with the file of its session.
pub(super) struct Subject {
    pub(super) command: Vec<OsString>,
    pub(super) file: &'static str,
    language: &'static str,
    pub(super) text: &'static str,
    /// A part of the message about an error in the text.
    error: &'static str,
    /// A use of the thing that hover, definition, references and rename are about.
    place: Value,
    /// The place of a completion.
    completion: Value,
    /// Range and text of a change after which the error is gone.
    repair: (Value, &'static str),
    /// A part of the server's log after its search for files. Earlier settings would cut the search short, at a point
    /// that depends on the load of the machine.
    looked: Option<&'static str>,
}

const PYTHON: &str = "\
import os


def greet(name: str) -> str:
    \"\"\"Says hello.\"\"\"
    return \"Hello, \" + name


message: int = greet(\"you\")
print(undefined_name)
print(os.path.join(message, greet(\"x\")))
os.getc
";

fn python(command: Vec<OsString>) -> Subject {
    Subject {
        command,
        file: "greeting.py",
        language: "python",
        text: PYTHON,
        error: "undefined_name",
        place: json!({"line": 8, "character": 16}),
        completion: json!({"line": 11, "character": 7}),
        repair: (span(9, 6, 9, 20), "\"😀\""),
        looked: None,
    }
}

pub(super) fn pyright() -> Subject {
    let looked = Some("Found 1 source file");
    Subject { looked, ..python(vec![real::pyright().into(), "--stdio".into()]) }
}

fn pylsp() -> Subject {
    python(vec![real::pylsp().into()])
}

fn ruff() -> Subject {
    python(vec![real::ruff().into(), "server".into()])
}

pub(super) fn typescript() -> Subject {
    Subject {
        command: vec![real::typescript().into(), "--stdio".into()],
        file: "greeting.ts",
        language: "typescript",
        text: "\
/** Says hello. */
function greet(name: string): string {
    return \"Hello, \" + name;
}
const message: string = greet(\"you\");
const wrong: number = greet(\"x\");
message.toUpperC;
",
        error: "not assignable",
        place: json!({"line": 4, "character": 26}),
        completion: json!({"line": 6, "character": 16}),
        repair: (span(5, 13, 5, 19), "string /* 😀 */"),
        looked: None,
    }
}

#[test]
fn pyright_answers_the_same_through_lspool() {
    same_with_and_without(&pyright());
}

#[test]
fn typescript_answers_the_same_through_lspool() {
    same_with_and_without(&typescript());
}

#[test]
fn pylsp_answers_the_same_through_lspool() {
    same_with_and_without(&pylsp());
}

#[test]
fn ruff_answers_the_same_through_lspool() {
    same_with_and_without(&ruff());
}

fn span(line: u32, from: u32, end_line: u32, to: u32) -> Value {
    json!({"start": {"line": line, "character": from}, "end": {"line": end_line, "character": to}})
}

fn same_with_and_without(subject: &Subject) {
    // One sandbox for both, so that paths are equal. A server's caches there do not change its messages.
    let sandbox = Sandbox::new();
    sandbox.write(subject.file, subject.text);
    let without = Session::play(&sandbox, subject, &[]);
    let mut with = Session::play(&sandbox, subject, &[env!("CARGO_BIN_EXE_lspool").into(), "--".into()]);
    let initialize = &mut with.answers[0];
    assert_eq!(initialize.0, "initialize");
    initialize.1 = own::without_commands(&initialize.1);
    assert!(without.answers.len() > 15, "the session took place: {:#?}", without.answers);
    for (with, without) in with.answers.iter().zip(&without.answers) {
        assert_eq!(with, without);
    }
    for (method, without) in &without.said {
        assert_eq!(with.said.get(method), Some(without), "{method}");
    }
    assert_eq!(with, without);
}

/// The result of a session.
#[derive(Debug, PartialEq)]
pub(super) struct Heard {
    /// Step and answer's body, in the order of the steps.
    pub(super) answers: Vec<(&'static str, String)>,
    /// Bodies of requests and notifications of the server by method.
    pub(super) said: BTreeMap<String, Vec<String>>,
    pub(super) exit: Option<i32>,
}

pub(super) struct Session<'a> {
    editor: TestEditor,
    subject: &'a Subject,
    uri: String,
    asked: Vec<(&'static str, Pending)>,
}

impl Session<'_> {
    pub(super) fn play(sandbox: &Sandbox, subject: &Subject, before: &[OsString]) -> Heard {
        let words: Vec<&OsString> = before.iter().chain(&subject.command).collect();
        let mut command = sandbox.command(words[0]);
        command.args(&words[1..]);
        let editor = TestEditor::spawn(command);
        editor.agree();
        let uri = uri(&sandbox.workspace().join(subject.file));
        let mut session = Session { editor, subject, uri, asked: Vec::new() };
        session.open(&sandbox.workspace());
        session.look();
        session.change();
        session.odd();
        session.close()
    }

    fn open(&mut self, workspace: &PathBuf) {
        let initialized = self.ask(
            "initialize",
            json!({
                "processId": std::process::id(), "rootUri": uri(workspace), "rootPath": workspace,
                "workspaceFolders": [{"uri": uri(workspace), "name": "workspace"}],
                "clientInfo": {"name": "test editor", "version": "1"}, "locale": "en", "trace": "off",
                "capabilities": capabilities(),
                "initializationOptions": {},
            }),
        );
        assert!(initialized["capabilities"].is_object(), "{initialized}");
        let initializing = self.editor.moment();
        self.editor.notify("initialized", json!({}));
        self.wait_looked(initializing);
        let configuring = self.editor.moment();
        self.editor.notify("workspace/didChangeConfiguration", json!({"settings": {}}));
        self.wait_looked(configuring);
        let document = json!({"uri": self.uri, "languageId": self.subject.language, "version": 1, "text": self.subject.text});
        let before = self.editor.moment();
        self.editor.notify("textDocument/didOpen", json!({"textDocument": document}));
        self.wait_diagnostics(before, |list| list.iter().any(|it| says(it, self.subject.error)));
    }

    fn look(&mut self) {
        let here = self.at(&self.subject.place);
        self.ask("textDocument/hover", here.clone());
        self.ask("textDocument/definition", here.clone());
        self.ask("textDocument/typeDefinition", here.clone());
        self.ask("textDocument/documentHighlight", here.clone());
        self.ask("textDocument/signatureHelp", here.clone());
        self.ask("textDocument/prepareRename", here.clone());
        self.ask("textDocument/rename", with(here.clone(), &json!({"newName": "welcome"})));
        self.ask("textDocument/references", with(here, &json!({"context": {"includeDeclaration": true}})));
        let document = json!({"textDocument": {"uri": self.uri}});
        for method in [
            "textDocument/documentSymbol",
            "textDocument/foldingRange",
            "textDocument/semanticTokens/full",
            "textDocument/codeLens",
            "textDocument/diagnostic",
        ] {
            self.ask(method, document.clone());
        }
        let options = json!({"options": {"tabSize": 4, "insertSpaces": true}});
        self.ask("textDocument/formatting", with(document.clone(), &options));
        let actions = json!({"range": span(0, 0, 1, 0), "context": {"diagnostics": []}});
        self.ask("textDocument/codeAction", with(document, &actions));
        self.ask("workspace/symbol", json!({"query": "greet"}));
        let completion = self.at(&self.subject.completion);
        let found = self.ask("textDocument/completion", completion);
        let items = found.get("items").unwrap_or(&found);
        if let Some(first) = items.get(0) {
            self.ask("completionItem/resolve", first.clone());
        }
    }

    fn change(&mut self) {
        let before = self.editor.moment();
        let (range, text) = &self.subject.repair;
        self.editor.notify(
            "textDocument/didChange",
            json!({
                "textDocument": {"uri": self.uri, "version": 2},
                "contentChanges": [{"range": range, "text": text}],
            }),
        );
        let here = self.at(&self.subject.place);
        self.ask("textDocument/hover", here);
        self.wait_diagnostics(before, |list| list.iter().all(|it| !says(it, self.subject.error)));
        self.ask("textDocument/diagnostic", json!({"textDocument": {"uri": self.uri}}));
        self.editor.notify("textDocument/didSave", json!({"textDocument": {"uri": self.uri}}));
    }

    fn odd(&mut self) {
        // Its time varies: the same is that there is one answer.
        let here = self.at(&self.subject.place);
        let cancelled = self.editor.request("textDocument/hover", here);
        self.editor.cancel(&cancelled);
        if let Err(error) = self.editor.wait(&cancelled) {
            assert_eq!(error.code, -32800, "{error}");
        }
        self.editor.notify("$/cancelRequest", json!({"id": 4711}));
        self.editor.notify("$/setTrace", json!({"value": "off"}));
        self.editor.notify("$/unknown", json!([1, 2]));
        self.ask("unknown/request", json!({"a": 1e2}));
        self.ask("workspace/executeCommand", json!({"command": "no such command", "arguments": []}));
    }

    fn close(mut self) -> Heard {
        self.editor.notify("textDocument/didClose", json!({"textDocument": {"uri": self.uri}}));
        self.ask("shutdown", Value::Null);
        self.editor.notify_bare("exit");
        let exit = self.editor.wait_exit().code();
        self.editor.wait_closed();
        self.editor.mark().wait_gone(Duration::from_secs(5));
        Heard { answers: self.answers(), said: self.said(), exit }
    }

    /// Sends a request and waits: the next request does not depend on the speed of the answer.
    fn ask(&mut self, method: &'static str, params: Value) -> Value {
        let pending = self.editor.request(method, params);
        let answer = self.editor.wait(&pending);
        self.asked.push((method, pending));
        answer.unwrap_or_default()
    }

    fn at(&self, position: &Value) -> Value {
        json!({"textDocument": {"uri": self.uri}, "position": position})
    }

    fn wait_looked(&self, after: Moment) {
        let Some(looked) = self.subject.looked else { return };
        self.editor.wait_notification_after(after, "window/logMessage", |params| {
            params["message"].as_str().is_some_and(|it| it.contains(looked))
        });
    }

    /// Waits for diagnostics of the file; an empty list may come first.
    fn wait_diagnostics(&self, after: Moment, wanted: impl Fn(&[Value]) -> bool) {
        self.editor.wait_notification_after(after, "textDocument/publishDiagnostics", |params| {
            params["uri"] == self.uri && params["diagnostics"].as_array().is_some_and(|it| wanted(it))
        });
    }

    fn answers(&self) -> Vec<(&'static str, String)> {
        let transcript = self.editor.transcript();
        let mut names = Names::default();
        let answer = |pending: &Pending| {
            let answer = |it: &&Entry| {
                it.sent == Sent::ByServer && it.method().is_none() && it.message["id"] == pending.id
            };
            let entry = transcript.iter().find(answer).expect("it was waited for");
            String::from_utf8_lossy(entry.body()).into_owned()
        };
        self.asked.iter().map(|(step, pending)| (*step, names.normal(&answer(pending)))).collect()
    }

    /// Removes everything that depends on the load of the machine: complaints of Pyright about long operations,
    /// repeated messages, the number and order of messages by timers ([`TIMED`]), and temporary empty lists of
    /// diagnostics.
    fn said(&self) -> BTreeMap<String, Vec<String>> {
        let mut said: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut names = Names::default();
        for entry in self.editor.transcript().iter().filter(|it| it.sent == Sent::ByServer) {
            let Some(method) = entry.method() else { continue };
            let mut body = String::from_utf8_lossy(entry.body()).into_owned();
            if let Some(id) = entry.message.get("id") {
                body = body.replace(&format!("\"id\":{id}"), "\"id\":0");
            }
            let bodies = said.entry(method.to_owned()).or_default();
            let body = names.normal(&body);
            if method == "textDocument/publishDiagnostics"
                && entry.message["params"]["diagnostics"] == json!([])
            {
                continue;
            }
            if !body.contains("Long operation") && bodies.last() != Some(&body) {
                bodies.push(body);
            }
        }
        for method in TIMED {
            if let Some(bodies) = said.get_mut(method) {
                *bodies = bodies.iter().map(|it| without_numbers(it)).collect();
                bodies.sort();
                bodies.dedup();
            }
        }
        said
    }
}

/// Messages that servers send by timers.
const TIMED: [&str; 3] = ["$/progress", "textDocument/publishDiagnostics", "window/workDoneProgress/create"];

/// The text without the numbers that [`Names`] has given.
fn without_numbers(text: &str) -> String {
    let mut parts = text.split("\"name ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |out, it| out + "\"name" + it.trim_start_matches(|it: char| it.is_ascii_digit()))
}

fn says(diagnostic: &Value, what: &str) -> bool {
    diagnostic["message"].as_str().is_some_and(|it| it.contains(what))
}

fn with(mut params: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().cloned().unwrap_or_default() {
        params[name] = value;
    }
    params
}

/// The capabilities of a modern editor.
pub(super) fn capabilities() -> Value {
    let dynamic = json!({"dynamicRegistration": true});
    json!({
        "workspace": {
            "applyEdit": true, "configuration": true, "workspaceFolders": true,
            "didChangeConfiguration": dynamic, "didChangeWatchedFiles": dynamic, "symbol": dynamic,
            "executeCommand": dynamic, "semanticTokens": {"refreshSupport": true},
            "workspaceEdit": {"documentChanges": true, "resourceOperations": ["create", "rename", "delete"]},
            "diagnostics": {"refreshSupport": true},
            "fileOperations": {"dynamicRegistration": true, "didRename": true, "willRename": true},
        },
        "textDocument": {
            "synchronization": {"dynamicRegistration": true, "didSave": true, "willSave": true},
            "completion": {
                "dynamicRegistration": true, "contextSupport": true,
                "completionItem": {
                    "snippetSupport": true, "documentationFormat": ["markdown", "plaintext"],
                    "resolveSupport": {"properties": ["documentation", "detail", "additionalTextEdits"]},
                },
            },
            "hover": {"dynamicRegistration": true, "contentFormat": ["markdown", "plaintext"]},
            "signatureHelp": dynamic, "definition": {"linkSupport": true}, "references": dynamic,
            "documentHighlight": dynamic, "documentSymbol": {"hierarchicalDocumentSymbolSupport": true},
            "codeAction": {
                "dynamicRegistration": true,
                "codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["quickfix", "source"]}},
            },
            "rename": {"dynamicRegistration": true, "prepareSupport": true},
            "publishDiagnostics": {"relatedInformation": true, "versionSupport": true},
            "foldingRange": dynamic, "callHierarchy": dynamic,
            "semanticTokens": {
                "dynamicRegistration": true, "requests": {"full": true, "range": true}, "formats": ["relative"],
                "tokenTypes": ["class", "function", "variable"], "tokenModifiers": ["declaration"],
            },
        },
        "window": {"workDoneProgress": true, "showMessage": {}, "showDocument": {"support": true}},
        "general": {"positionEncodings": ["utf-16"]},
    })
}

/// A client that writes all it has to say under one id and closes its end hears all that follows from it.
#[test]
fn session_sent_at_once_gets_all_answers() {
    let host = PuppetHost::new();
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_lspool"));
    command.args(["--", env!("CARGO_BIN_EXE_lspool-puppet")]);
    host.tie(&mut command);
    let editor = TestEditor::spawn(command);
    let initialize = editor.request_as(json!(1), "initialize", json!({"capabilities": {}}));
    editor.notify("initialized", json!({}));
    let hover = editor.request_as(json!(1), "textDocument/hover", json!({}));
    editor.notify("textDocument/didOpen", json!({}));
    editor.close_stdin();

    let server = host.accept();
    let asked = server.expect("initialize");
    server.answer(&asked, json!({"capabilities": {}}));
    server.expect("initialized");
    let asked = server.expect("textDocument/hover");
    server.answer(&asked, json!("hover"));
    server.expect("textDocument/didOpen");
    server.notify("textDocument/publishDiagnostics", json!({"uri": "u", "diagnostics": []}));
    server.exit(0);

    assert_eq!(editor.wait_exit().code(), Some(0));
    editor.wait_closed();
    assert_eq!(editor.answer_to(&initialize), Some(Ok(own::bare(editor.pid()))));
    assert_eq!(editor.answer_to(&hover), Some(Ok(json!("hover"))));
    assert_eq!(editor.notifications("textDocument/publishDiagnostics").len(), 1);
}
