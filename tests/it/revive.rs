//! The death of a real server with unsaved documents: its successor knows the editor's text.
//!
//! The proof is a server without a crash that gets the last text at once: both answer the same.

use std::{
    ffi::OsString,
    thread::sleep,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::support::{
    copilot::uri,
    editor::{PATIENCE, TestEditor},
    processes::Process,
    real::{self, Sandbox},
};

/// How an editor and a server count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Utf8,
    Utf16,
    Utf32,
}

impl Encoding {
    fn name(self) -> &'static str {
        match self {
            Encoding::Utf8 => "utf-8",
            Encoding::Utf16 => "utf-16",
            Encoding::Utf32 => "utf-32",
        }
    }

    fn width(self, c: char) -> usize {
        match self {
            Encoding::Utf8 => c.len_utf8(),
            Encoding::Utf16 => c.len_utf16(),
            Encoding::Utf32 => 1,
        }
    }
}

struct Subject {
    command: Vec<OsString>,
    file: &'static str,
    language: &'static str,
    /// Lines that are put before all others in the end. With an error in them.
    head: &'static str,
    /// A place to ask about, as a line and a word there, with the expected answer.
    hover: Option<(usize, &'static str, &'static str)>,
    /// The place of an error, and the error.
    error: (usize, &'static str),
    /// One of the lines that are edited. `{}` is a number.
    line: &'static str,
    encoding: Encoding,
    /// Diagnostics are asked for.
    pulls: bool,
    symbols: bool,
}

const PYTHON: Subject = Subject {
    command: Vec::new(),
    file: "sensor.py",
    language: "python",
    head: "\
class Sensor:
    \"\"\"Reads °C 😀.\"\"\"

    größe: int = 1


\"°C 😀\"; reading: int = Sensor()
",
    hover: Some((6, "Sensor", "class Sensor")),
    error: (6, "Sensor"),
    line: "value_{} = \"°C 😀 x\"  # é, and 𝄞\n",
    encoding: Encoding::Utf16,
    pulls: false,
    symbols: true,
};

fn pyright(pulls: bool) -> Subject {
    Subject { command: vec![real::pyright().into(), "--stdio".into()], pulls, ..PYTHON }
}

fn ruff(encoding: Encoding) -> Subject {
    Subject {
        command: vec![real::ruff().into(), "server".into()],
        head: "\"°C 😀\"; reading = größe größe\n",
        hover: None,
        // It reports nothing else for an unparsable text.
        error: (0, "größe"),
        encoding,
        pulls: true,
        symbols: false,
        ..PYTHON
    }
}

fn typescript() -> Subject {
    Subject {
        command: vec![real::typescript().into(), "--stdio".into()],
        file: "sensor.ts",
        language: "typescript",
        head: "/** Reads °C 😀. */\nclass Sensor { größe = 1 }\n\"°C 😀\"; const reading: number = new Sensor();\n",
        hover: Some((2, "Sensor", "constructor Sensor")),
        error: (2, "reading"),
        line: "const value_{} = \"°C 😀 x\"; // é, and 𝄞\n",
        ..PYTHON
    }
}

#[test]
fn restarted_pyright_knows_unsaved_text() {
    revives(&pyright(false));
}

#[test]
fn restarted_pyright_with_pulled_diagnostics_knows_unsaved_text() {
    revives(&pyright(true));
}

#[test]
fn restarted_typescript_knows_unsaved_text() {
    revives(&typescript());
}

#[test]
fn restarted_ruff_knows_unsaved_text_in_utf8() {
    revives(&ruff(Encoding::Utf8));
}

#[test]
fn restarted_ruff_knows_unsaved_text_in_utf16() {
    revives(&ruff(Encoding::Utf16));
}

#[test]
fn restarted_ruff_knows_unsaved_text_in_utf32() {
    revives(&ruff(Encoding::Utf32));
}

fn revives(subject: &Subject) {
    let (here, there) = (Sandbox::new(), Sandbox::new());
    let mut session = Session::start(&here, subject, true);
    let text: String = (0..60).map(|n| subject.line.replace("{}", &n.to_string())).collect();
    session.open(&text);
    let mut random = Random(7);
    for _ in 0..50 {
        session.edit_somewhere(&mut random);
    }
    // Its diagnostics are on the screen when it dies.
    session.settle();
    let server = session.server();
    server.kill(Signal::STOP);
    for _ in 0..50 {
        session.edit_somewhere(&mut random);
    }
    session.edit(0, 0, subject.head);
    let position = session.place_of(subject.error.0, subject.error.1);
    let waits = subject.hover.map(|(line, word, says)| (session.ask_hover(line, word), says));
    server.kill(Signal::KILL);

    let mut bare = Session::start(&there, subject, false);
    bare.version = session.version - 1;
    bare.open(&session.text.iter().collect::<String>());
    if let Some((hover, says)) = waits {
        // A request to the dead process, answered by the living one.
        let found = session.editor.wait(&hover).expect("it only reads");
        assert!(found.to_string().contains(says), "{found}");
        let expected =
            bare.ask_hover(subject.hover.expect("it is asked").0, subject.hover.expect("it is asked").1);
        assert_eq!(Ok(found), bare.editor.wait(&expected));
    }
    if subject.symbols {
        let symbols = |it: &Session<'_>| {
            let found = it.editor.ok("textDocument/documentSymbol", json!({"textDocument": {"uri": it.uri}}));
            without_uri(&found, &it.uri)
        };
        let found = symbols(&session);
        assert!(found.to_string().contains("größe"), "{found}");
        assert_eq!(found, symbols(&bare));
    }
    let start = Instant::now();
    loop {
        let (found, expected) = (session.diagnostics(), bare.diagnostics());
        let points = |it: &Value| it["range"]["start"] == position;
        if found == expected && expected.iter().any(points) {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{position}: {found:#?} is not {expected:#?}");
        sleep(Duration::from_millis(20));
    }
    assert_ne!(session.server().pid, server.pid);
    // And it follows.
    session.edit(0, 0, "\n");
    bare.edit(0, 0, "\n");
    let (line, word) = (subject.error.0 + 1, subject.error.1);
    let position = session.place_of(line, word);
    let start = Instant::now();
    while session.diagnostics() != bare.diagnostics()
        || !session.diagnostics().iter().any(|it| it["range"]["start"] == position)
    {
        assert!(start.elapsed() < PATIENCE, "{:#?} is not {:#?}", session.diagnostics(), bare.diagnostics());
        sleep(Duration::from_millis(20));
    }
    assert_eq!(std::fs::read_to_string(here.workspace().join(subject.file)).expect("it is there"), "");
    assert!(session.editor.shutdown().success());
    bare.editor.shutdown();
}

/// Numbers that look like chance and are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % end.max(1)
    }
}

struct Session<'a> {
    editor: TestEditor,
    subject: &'a Subject,
    uri: String,
    /// The editor's screen.
    text: Vec<char>,
    version: u32,
}

impl<'a> Session<'a> {
    fn start(sandbox: &Sandbox, subject: &'a Subject, lspool: bool) -> Session<'a> {
        let mut words = subject.command.clone();
        if lspool {
            words.splice(0..0, [env!("CARGO_BIN_EXE_lspool").into(), "--".into()]);
        }
        let mut command = sandbox.command(&words[0]);
        command.args(&words[1..]);
        let editor = TestEditor::spawn(command);
        editor.agree();
        let uri = uri(&sandbox.write(subject.file, ""));
        let workspace = super::support::copilot::uri(&sandbox.workspace());
        let mut document = json!({
            "hover": {"contentFormat": ["plaintext"]},
            "documentSymbol": {"hierarchicalDocumentSymbolSupport": true},
            "publishDiagnostics": {"versionSupport": true},
        });
        if subject.pulls {
            document["diagnostic"] = json!({"dynamicRegistration": true});
        }
        let initialized = editor.ok(
            "initialize",
            json!({
                "processId": std::process::id(), "rootUri": workspace,
                "workspaceFolders": [{"uri": workspace, "name": "workspace"}],
                "capabilities": {
                    "textDocument": document,
                    "workspace": {"configuration": true, "diagnostics": {"refreshSupport": true}},
                    "general": {"positionEncodings": [subject.encoding.name()]},
                },
            }),
        );
        let told = initialized["capabilities"]["positionEncoding"].as_str().unwrap_or("utf-16");
        assert_eq!(told, subject.encoding.name(), "the server counts otherwise");
        editor.notify("initialized", json!({}));
        Session { editor, subject, uri, text: Vec::new(), version: 0 }
    }

    fn open(&mut self, text: &str) {
        self.version += 1;
        self.text = text.chars().collect();
        let item = json!({"uri": self.uri, "languageId": self.subject.language, "version": self.version, "text": text});
        self.editor.notify("textDocument/didOpen", json!({"textDocument": item}));
    }

    /// Replaces so many characters, and tells the server.
    fn edit(&mut self, at: usize, length: usize, with: &str) {
        let (start, end) = (self.position(at), self.position(at + length));
        self.text.splice(at..at + length, with.chars());
        self.version += 1;
        self.editor.notify(
            "textDocument/didChange",
            json!({
                "textDocument": {"uri": self.uri, "version": self.version},
                "contentChanges": [{"range": {"start": start, "end": end}, "text": with}],
            }),
        );
    }

    fn edit_somewhere(&mut self, random: &mut Random) {
        const TEXTS: [&str; 8] = ["", "°C", "😀", "é", "x\n", "\n# 😀 °", "𝄞𝄞", "a b"];
        let at = random.below(self.text.len());
        let length = random.below(5).min(self.text.len() - at);
        self.edit(at, length, TEXTS[random.below(TEXTS.len())]);
    }

    fn position(&self, at: usize) -> Value {
        let before = &self.text[..at];
        let line = before.iter().filter(|it| **it == '\n').count();
        let start = before.iter().rposition(|it| *it == '\n').map_or(0, |it| it + 1);
        let character: usize = before[start..].iter().map(|it| self.subject.encoding.width(*it)).sum();
        json!({"line": line, "character": character})
    }

    /// The last place of this word in this line.
    fn place_of(&self, line: usize, word: &str) -> Value {
        let text: String = self.text.iter().collect();
        let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
        let line = text[start..].lines().next().expect("there is such a line");
        let at = start + line.rfind(word).expect("the word is there");
        self.position(text[..at].chars().count())
    }

    fn ask_hover(&self, line: usize, word: &str) -> super::support::editor::Pending {
        let position = self.place_of(line, word);
        self.editor
            .request("textDocument/hover", json!({"textDocument": {"uri": self.uri}, "position": position}))
    }

    /// Waits for diagnostics of the current text.
    fn settle(&self) {
        let start = Instant::now();
        while self.diagnostics().is_empty() {
            assert!(start.elapsed() < PATIENCE, "nothing is said of the text");
            sleep(Duration::from_millis(20));
        }
    }

    /// The screen, or the answer to a pull.
    fn diagnostics(&self) -> Vec<Value> {
        let of_this = |it: &Value| it["uri"] == self.uri;
        let mut all = match self.subject.pulls {
            true => {
                let asked = json!({"textDocument": {"uri": self.uri}});
                self.editor.ok("textDocument/diagnostic", asked)["items"].clone()
            }
            false => {
                let said = self.editor.notifications("textDocument/publishDiagnostics");
                said.into_iter().rfind(of_this).map_or(json!([]), |it| it["diagnostics"].clone())
            }
        };
        let all = all.as_array_mut().map(std::mem::take).unwrap_or_default();
        let mut all: Vec<Value> = all.iter().map(|it| without_uri(it, &self.uri)).collect();
        all.sort_by_key(Value::to_string);
        all
    }

    /// The process of the server that lspool has started.
    fn server(&self) -> Process {
        let lspool = self.editor.pid();
        let name = self.subject.command[0].to_string_lossy().into_owned();
        let all = self.editor.mark().processes();
        let mut all = all.into_iter().filter(|it| it.parent == lspool && it.command.contains(&name));
        let found = all.next().expect("there is a server");
        assert_eq!(all.next(), None, "one process of one server");
        found
    }
}

fn without_uri(value: &Value, uri: &str) -> Value {
    serde_json::from_str(&value.to_string().replace(uri, "uri")).expect("it is JSON as before")
}
