//! Real servers as a group: what an editor sees is what it would see of both.

mod agent;
mod copilot;
mod encodings;
mod late;
mod presets;
mod projects;

use std::{
    ffi::OsString,
    path::PathBuf,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::support::{
    copilot::uri,
    editor::{Moment, PATIENCE, TestEditor},
    processes::Process,
    real::{self, Sandbox},
};

/// A server as a member of a group.
struct Member {
    command: Vec<OsString>,
    /// A part of its command line that no other process has.
    process: &'static str,
    /// `source` of its diagnostics.
    source: &'static str,
}

fn basedpyright() -> Member {
    let command = vec![real::basedpyright().into(), "--stdio".into()];
    Member { command, process: "basedpyright-langserver", source: "basedpyright" }
}

fn ruff() -> Member {
    Member { command: vec![real::ruff().into(), "server".into()], process: "ruff server", source: "Ruff" }
}

fn pylsp() -> Member {
    Member { command: vec![real::pylsp().into()], process: "pylsp", source: "pyflakes" }
}

const PYTHON: &str = "\
import sys
import os


def greet(name: str) -> str:
    \"\"\"Says hello.\"\"\"
    return \"Hello, \" + name


\"é😀\"; wrong: int = undefined_name
print(sys.argv,greet(\"x\"))
";

/// The name of a diagnostic about the text, and where it must be: two UTF-16 units for the emoji.
const UNDEFINED: &str = "undefined_name";
const UNDEFINED_AT: (u64, u64) = (9, 20);

#[test]
fn basedpyright_and_ruff_are_one_server() {
    are_one_server(&[basedpyright(), ruff()]);
}

#[test]
fn ruff_and_basedpyright_are_one_server() {
    are_one_server(&[ruff(), basedpyright()]);
}

fn are_one_server(members: &[Member]) {
    let sandbox = Sandbox::new();
    let mut session = Session::start(&sandbox, members, &json!({}));
    let encoding = session.capabilities["positionEncoding"].as_str().unwrap_or("utf-16");
    assert_eq!(encoding, "utf-16");
    session.open(PYTHON);
    session.wait_undefined(members, Moment::default());

    // Only basedpyright knows what a name is, only ruff formats.
    let hover = session.ok("textDocument/hover", session.at("greet(name"));
    assert_eq!(hover.to_string().matches("(function)").count(), 1, "{hover}");
    let edits = session.ok(
        "textDocument/formatting",
        json!({"textDocument": {"uri": session.uri}, "options": {"tabSize": 4, "insertSpaces": true}}),
    );
    assert!(session.after(&edits).contains("print(sys.argv, greet(\"x\"))"), "{edits}");
    let mut rename = session.at("greet(\"x\")");
    rename["newName"] = json!("welcome");
    let edits = session.edits(&session.ok("textDocument/rename", rename));
    assert_eq!(session.after(&edits), PYTHON.replace("greet", "welcome"));

    // Both say that they organize imports, each under its own kind. Only ruff does, and completes the action later.
    let kinds = &session.capabilities["codeActionProvider"]["codeActionKinds"];
    for kind in ["source.organizeImports", "source.organizeImports.ruff"] {
        assert!(kinds.as_array().is_some_and(|it| it.contains(&json!(kind))), "{kinds}");
    }
    let actions = session.actions(0, &json!({"diagnostics": [], "only": ["source.organizeImports"]}));
    let [organize] = actions.as_slice() else { panic!("{actions:#?}") };
    assert_eq!(organize["kind"], "source.organizeImports.ruff");

    // Each has something to offer about the same word. Who takes long is not waited for, so lspool may have to be asked
    // again.
    let undefined: Vec<Value> = session.shown().into_iter().filter(|it| says(it, UNDEFINED)).collect();
    let titles = ["pyright: ignore[reportUndefinedVariable]", "Ruff (F821): Disable for this line"];
    let since = Instant::now();
    loop {
        let actions = session.actions(9, &json!({"diagnostics": undefined}));
        let offered = titles.map(|title| actions.iter().filter(|it| is_titled(it, title)).count());
        if offered == [1, 1] {
            break;
        }
        assert!(offered.iter().all(|it| *it < 2) && since.elapsed() < PATIENCE, "{actions:#?}");
    }

    let organize = session.ok("codeAction/resolve", organize.clone());
    let before = session.editor.moment();
    let sorted = PYTHON.replace("import sys\nimport os\n", "import os\nimport sys\n");
    session.replace(&sorted, session.after(&session.edits(&organize["edit"])));
    session.wait_shown(before, |list| {
        members.iter().all(|it| of(list, it.source).any(|it| says(it, UNDEFINED)))
            && of(list, "Ruff").any(|it| it["code"] == "F401" && start(it) == (0, 7))
            && of(list, "Ruff").all(|it| it["code"] != "I001")
    });
    assert!(session.editor.shutdown().success());
    session.editor.mark().wait_gone(Duration::from_secs(5));
}

#[test]
fn death_of_one_member_while_typing_is_not_noticed() {
    for victim in [0, 1] {
        let members = [basedpyright(), ruff()];
        let sandbox = Sandbox::new();
        let mut session = Session::start(&sandbox, &members, &json!({}));
        session.open(PYTHON);
        session.wait_undefined(&members, Moment::default());
        let killed = session.process(&members[victim]);
        session.type_line("gre");
        let asked = session.ask("textDocument/completion", session.end());
        killed.kill(Signal::KILL);
        let before = session.editor.moment();
        session.type_line("et(");
        let here = session.ask("textDocument/hover", session.at("greet(name"));
        let completed = session.editor.wait(&asked).expect("the other member, or the next process, knows");
        assert!(completed.to_string().contains("greet"), "{completed}");
        let hover = session.editor.wait(&here).expect("the other member, or the next process, knows");
        assert!(hover.to_string().contains("greet"), "{hover}");
        // What is shown of the text, which is not complete now, comes from both again.
        session.replace(PYTHON, PYTHON.to_owned());
        session.wait_undefined(&members, before);
        assert_ne!(session.process(&members[victim]).pid, killed.pid);
        for list in session.published(before) {
            let other = members[1 - victim].source;
            assert!(of(&list, other).next().is_some(), "the marks of {other} were gone: {list:#?}");
        }
        assert!(session.editor.shutdown().success());
    }
}

#[test]
fn pylsp_and_ruff_are_one_server() {
    are_one_linter(&[pylsp(), ruff()]);
}

#[test]
fn ruff_and_pylsp_are_one_server() {
    are_one_linter(&[ruff(), pylsp()]);
}

/// With an editor that takes what is pushed, and asks for the rest.
fn are_one_linter(members: &[Member]) {
    let sandbox = Sandbox::new();
    let mut session =
        Session::start(&sandbox, members, &json!({"diagnostic": {"dynamicRegistration": false}}));
    let capabilities = &session.capabilities;
    assert!(capabilities["diagnosticProvider"].is_object(), "{capabilities}");
    assert_eq!(capabilities["textDocumentSync"]["save"]["includeText"], true, "{capabilities}");
    session.open(PYTHON);
    session.wait_shown(Moment::default(), |list| of(list, "pyflakes").any(|it| says(it, UNDEFINED)));
    let document = json!({"textDocument": {"uri": session.uri}});
    let pulled = session.ok("textDocument/diagnostic", document.clone());
    let items = pulled["items"].as_array().expect("the first report is full");
    let found = of(items, "Ruff").find(|it| says(it, UNDEFINED)).unwrap_or_else(|| panic!("{pulled}"));
    assert_eq!(start(found), UNDEFINED_AT);
    assert!(of(items, "pyflakes").next().is_none(), "what is pushed is not pulled, too: {pulled}");

    let symbols = session.ok("textDocument/documentSymbol", document);
    let symbols = symbols.as_array().expect("there are some");
    assert!(symbols.iter().any(|it| it["name"] == "greet"), "{symbols:#?}");
    let is_nested = |it: &Value| it.get("selectionRange").is_some();
    assert!(symbols.iter().all(is_nested) || !symbols.iter().any(is_nested), "{symbols:#?}");

    let before = session.editor.moment();
    session
        .editor
        .notify("textDocument/didSave", json!({"textDocument": {"uri": session.uri}, "text": session.text}));
    session.wait_shown(before, |list| of(list, "pyflakes").any(|it| says(it, UNDEFINED)));
    assert!(session.editor.shutdown().success());
    session.editor.mark().wait_gone(Duration::from_secs(5));
}

#[test]
fn preset_takes_real_servers_on_path() {
    let sandbox = Sandbox::new();
    let servers = [real::basedpyright(), real::ruff()];
    let folders = servers.iter().filter_map(|it| it.parent()).map(PathBuf::from);
    let others = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(folders.chain(std::env::split_paths(&others))).expect("no odd folders");
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_lspool"));
    let output = command.args(["check", "--group", "python"]).env("PATH", path).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let both = "code-action: lspool joins the answers of basedpyright and ruff";
    for line in ["basedpyright  ok ", "ruff          ok ", both] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

/// An editor with one document and a group.
struct Session {
    editor: TestEditor,
    capabilities: Value,
    uri: String,
    text: String,
    version: u32,
}

impl Session {
    /// `more`: what else the editor can do with a document.
    fn start(sandbox: &Sandbox, members: &[Member], more: &Value) -> Session {
        let uri = uri(&sandbox.write("greeting.py", PYTHON));
        let mut command = sandbox.command(env!("CARGO_BIN_EXE_lspool"));
        // Members are merged by their texts, which such a recording needs to replay.
        command.args(["--record-texts", "yes"]);
        for member in members {
            command.arg("--").args(&member.command);
        }
        let editor = TestEditor::spawn(command);
        editor.agree();
        let workspace = super::support::copilot::uri(&sandbox.workspace());
        let initialized = editor.ok(
            "initialize",
            json!({
                "processId": std::process::id(), "rootUri": workspace,
                "workspaceFolders": [{"uri": workspace, "name": "workspace"}],
                "capabilities": capabilities(more),
            }),
        );
        editor.notify("initialized", json!({}));
        let capabilities = initialized["capabilities"].clone();
        Session { editor, capabilities, uri, text: String::new(), version: 0 }
    }

    fn open(&mut self, text: &str) {
        self.version += 1;
        text.clone_into(&mut self.text);
        let document =
            json!({"uri": self.uri, "languageId": "python", "version": self.version, "text": text});
        self.editor.notify("textDocument/didOpen", json!({"textDocument": document}));
    }

    /// Makes `text` the document; it must be as `expected`.
    #[track_caller]
    fn replace(&mut self, expected: &str, text: String) {
        assert_eq!(text, expected);
        let end = position(&self.text, self.text.len());
        let range = json!({"start": {"line": 0, "character": 0}, "end": end});
        self.change(&range, &text);
        self.text = text;
    }

    /// Types at the end of the document, a character at a time.
    fn type_line(&mut self, text: &str) {
        for it in text.chars() {
            let end = position(&self.text, self.text.len());
            self.change(&json!({"start": end, "end": end}), &it.to_string());
            self.text.push(it);
        }
    }

    fn change(&mut self, range: &Value, text: &str) {
        self.version += 1;
        self.editor.notify(
            "textDocument/didChange",
            json!({
                "textDocument": {"uri": self.uri, "version": self.version},
                "contentChanges": [{"range": range, "text": text}],
            }),
        );
    }

    fn ask(&self, method: &str, params: Value) -> super::support::editor::Pending {
        self.editor.request(method, params)
    }

    #[track_caller]
    fn ok(&self, method: &str, params: Value) -> Value {
        self.editor.ok(method, params)
    }

    /// Where these words begin.
    fn at(&self, words: &str) -> Value {
        let place = self.text.find(words).expect("the words are there");
        json!({"textDocument": {"uri": self.uri}, "position": position(&self.text, place)})
    }

    /// The end of the document.
    fn end(&self) -> Value {
        json!({"textDocument": {"uri": self.uri}, "position": position(&self.text, self.text.len())})
    }

    #[track_caller]
    fn actions(&self, line: usize, context: &Value) -> Vec<Value> {
        let start = json!({"line": line, "character": 0});
        let end = json!({"line": line + 1, "character": 0});
        let params = json!({
            "textDocument": {"uri": self.uri}, "range": {"start": start, "end": end}, "context": context,
        });
        self.ok("textDocument/codeAction", params).as_array().cloned().unwrap_or_default()
    }

    /// The edits of the document in a `WorkspaceEdit`.
    #[track_caller]
    fn edits(&self, edit: &Value) -> Value {
        let of_changes = edit["changes"].get(&self.uri).cloned();
        let mut changes = edit["documentChanges"].as_array().into_iter().flatten();
        let of_document =
            || changes.find(|it| it["textDocument"]["uri"] == self.uri).map(|it| it["edits"].clone());
        of_changes.or_else(of_document).unwrap_or_else(|| panic!("no edits of {}: {edit}", self.uri))
    }

    /// The text with these edits.
    fn after(&self, edits: &Value) -> String {
        let mut edits: Vec<(usize, usize, &str)> = edits
            .as_array()
            .into_iter()
            .flatten()
            .map(|it| {
                let (start, end) = (&it["range"]["start"], &it["range"]["end"]);
                let text = it["newText"].as_str().expect("an edit has a text");
                (offset(&self.text, start), offset(&self.text, end), text)
            })
            .collect();
        edits.sort_by_key(|it| std::cmp::Reverse(it.0));
        let mut text = self.text.clone();
        for (from, to, with) in edits {
            text.replace_range(from..to, with);
        }
        text
    }

    /// The lists of the document that were published after a moment.
    fn published(&self, after: Moment) -> Vec<Vec<Value>> {
        let is_list = |params: &&Value| params["uri"] == self.uri;
        let all = self.editor.notifications_after(after, "textDocument/publishDiagnostics");
        all.iter()
            .filter(is_list)
            .map(|it| it["diagnostics"].as_array().cloned().unwrap_or_default())
            .collect()
    }

    /// What is shown: the last list.
    fn shown(&self) -> Vec<Value> {
        self.published(Moment::default()).pop().unwrap_or_default()
    }

    #[track_caller]
    fn wait_shown(&self, after: Moment, wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let params =
            self.editor.wait_notification_after(after, "textDocument/publishDiagnostics", |params| {
                params["uri"] == self.uri && params["diagnostics"].as_array().is_some_and(|it| wanted(it))
            });
        params["diagnostics"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until all members have found the undefined name, at the same place.
    #[track_caller]
    fn wait_undefined(&self, members: &[Member], after: Moment) {
        let finds = |list: &[Value], source: &str| of(list, source).any(|it| says(it, UNDEFINED));
        let list = self.wait_shown(after, |list| members.iter().all(|it| finds(list, it.source)));
        for found in list.iter().filter(|it| says(it, UNDEFINED)) {
            assert_eq!(start(found), UNDEFINED_AT, "{found}");
        }
    }

    /// The process of a member.
    #[track_caller]
    fn process(&self, member: &Member) -> Process {
        let start = Instant::now();
        loop {
            let mut found = self.editor.mark().processes_running(member.process);
            found.retain(|it| it.parent == self.editor.pid());
            if let Some(found) = found.pop() {
                return found;
            }
            assert!(start.elapsed() < PATIENCE, "there is no process of {}", member.process);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The diagnostics of a source.
fn of<'a>(list: &'a [Value], source: &'a str) -> impl Iterator<Item = &'a Value> {
    list.iter().filter(move |it| it["source"] == source)
}

fn says(diagnostic: &Value, what: &str) -> bool {
    diagnostic["message"].as_str().is_some_and(|it| it.contains(what))
}

fn is_titled(action: &Value, what: &str) -> bool {
    action["title"].as_str().is_some_and(|it| it.contains(what))
}

fn start(diagnostic: &Value) -> (u64, u64) {
    let number = |name: &str| diagnostic["range"]["start"][name].as_u64().unwrap_or(u64::MAX);
    (number("line"), number("character"))
}

/// The position of a byte.
fn position(text: &str, byte: usize) -> Value {
    let before = &text[..byte];
    let line = before.matches('\n').count();
    let begins = before.rfind('\n').map_or(0, |it| it + 1);
    json!({"line": line, "character": before[begins..].encode_utf16().count()})
}

/// The byte of a position.
fn offset(text: &str, position: &Value) -> usize {
    let number =
        |name: &str| usize::try_from(position[name].as_u64().expect("a position")).expect("is small");
    let begins: usize = text.split_inclusive('\n').take(number("line")).map(str::len).sum();
    let mut units = 0;
    let in_line = text[begins..].char_indices().find(|(_, it)| {
        units += it.len_utf16();
        units > number("character")
    });
    in_line.map_or(text.len(), |(at, _)| begins + at)
}

/// What an editor can do that is told all at the start.
fn capabilities(more: &Value) -> Value {
    let mut document = json!({
        "synchronization": {"didSave": true},
        "completion": {"completionItem": {"snippetSupport": false}},
        "hover": {"contentFormat": ["markdown", "plaintext"]},
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": true},
        "codeAction": {
            "codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["quickfix", "source", "source.organizeImports"]}},
            "dataSupport": true, "resolveSupport": {"properties": ["edit"]},
        },
        "formatting": {},
        "rename": {"prepareSupport": true},
        "publishDiagnostics": {"versionSupport": true},
    });
    for (name, value) in more.as_object().cloned().unwrap_or_default() {
        document[name] = value;
    }
    json!({
        "textDocument": document,
        "workspace": {"configuration": true, "workspaceEdit": {"documentChanges": true}},
        "general": {"positionEncodings": ["utf-8", "utf-16"]},
    })
}
