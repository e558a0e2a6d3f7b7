//! The servers of the presets for web projects, in each order.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{
    super::{
        editors::{Kill, run_with},
        neovim::neovim_command,
        support::{
            copilot::uri,
            editor::{Moment, TestEditor},
            real::{self, Sandbox},
        },
    },
    says,
};

/// An editor that pulls no diagnostics, and a project.
struct Project {
    sandbox: Sandbox,
    editor: TestEditor,
    /// That it has opened, with its text.
    uri: String,
    text: String,
    version: u32,
}

const ESLINT: &str = "export default [{
  files: [\"**/*.jsx\"],
  languageOptions: { parserOptions: { ecmaFeatures: { jsx: true } } },
  rules: { \"no-unused-vars\": \"error\" },
}];
";

const TAILWIND: &str = "module.exports = { content: [\"./**/*\"] };\n";

/// A sandbox in which the servers of npm are on `PATH` and their packages in the project.
fn sandbox(files: &[(&str, &str)]) -> Sandbox {
    let sandbox = Sandbox::new();
    for (name, text) in files {
        sandbox.write(name, text);
    }
    let link = sandbox.workspace().join("node_modules");
    std::os::unix::fs::symlink(real::node_modules(), link).expect("the workspace is writable");
    sandbox
}

pub(super) fn with_servers_on_path(command: &mut std::process::Command) {
    let servers = real::node_modules().join(".bin");
    let others = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([servers].into_iter().chain(std::env::split_paths(&others)));
    command.env("PATH", path.expect("no odd folders"));
}

/// Writes the configuration of a group of these, which all have the time to start.
fn configured(sandbox: &Sandbox, members: &[&str]) -> PathBuf {
    let config = sandbox.home().join(".config/lspool/config.toml");
    std::fs::create_dir_all(config.parent().expect("a folder")).expect("the home is writable");
    let group = format!("[group.g]\nservers = {}\nstart_wait = \"80s\"\n", json!(members));
    std::fs::write(&config, group).expect("the home is writable");
    config
}

impl Project {
    /// A group of these, which all have the time to start.
    fn start(sandbox: Sandbox, members: &[&str], (name, language, text): (&str, &str, &str)) -> Project {
        configured(&sandbox, members);
        let mut command = sandbox.command(env!("CARGO_BIN_EXE_lspool"));
        command.args(["--record-texts", "yes", "--group", "g"]);
        with_servers_on_path(&mut command);
        let editor = TestEditor::spawn(command);
        editor.agree();
        editor.refuse_others();
        let workspace = uri(&sandbox.workspace());
        editor.ok(
            "initialize",
            json!({
                "processId": std::process::id(), "rootUri": workspace,
                "workspaceFolders": [{"uri": workspace, "name": "workspace"}],
                "capabilities": capabilities(),
            }),
        );
        editor.notify("initialized", json!({}));
        let uri = uri(&sandbox.write(name, text));
        let document = json!({"uri": uri, "languageId": language, "version": 1, "text": text});
        editor.notify("textDocument/didOpen", json!({"textDocument": document}));
        Project { sandbox, editor, uri, text: text.to_owned(), version: 1 }
    }

    /// Just behind these words.
    fn behind(&self, words: &str) -> Value {
        let at = self.text.find(words).expect("the words are there") + words.len();
        json!({"textDocument": {"uri": self.uri}, "position": super::position(&self.text, at)})
    }

    /// Types at this place, a character at a time.
    fn insert(&mut self, behind: &str, text: &str) {
        let mut at = self.text.find(behind).expect("the words are there") + behind.len();
        for it in text.chars() {
            let place = super::position(&self.text, at);
            self.text.insert(at, it);
            at += it.len_utf8();
            self.version += 1;
            self.editor.notify(
                "textDocument/didChange",
                json!({
                    "textDocument": {"uri": self.uri, "version": self.version},
                    "contentChanges": [{"range": {"start": place, "end": place}, "text": it.to_string()}],
                }),
            );
        }
    }

    /// What can be written behind these words, with the defaults of the list in each item. Servers that are not
    /// ready say nothing, or nothing yet: the question is asked until the answer is as wanted.
    #[track_caller]
    fn completed(&self, behind: &str, is_wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let mut params = self.behind(behind);
        params["context"] = json!({"triggerKind": 1});
        self.until("textDocument/completion", &params, |result| {
            let items = result["items"].as_array().or_else(|| result.as_array());
            let mut items = items.cloned().unwrap_or_default();
            for (key, value) in result["itemDefaults"].as_object().into_iter().flatten() {
                for item in &mut items {
                    if item.get("textEdit").is_none() && item.get(key).is_none() {
                        item[key] = value.clone();
                    }
                }
            }
            is_wanted(&items).then_some(items)
        })
    }

    #[track_caller]
    fn until<T>(&self, method: &str, params: &Value, wanted: impl Fn(&Value) -> Option<T>) -> T {
        let start = std::time::Instant::now();
        loop {
            let result = self.editor.ok(method, params.clone());
            if let Some(found) = wanted(&result) {
                return found;
            }
            assert!(start.elapsed() < super::PATIENCE, "{method}: {result}");
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }

    #[track_caller]
    fn wait_shown(&self, after: Moment, wanted: impl Fn(&[Value]) -> bool) {
        self.editor.wait_notification_after(after, "textDocument/publishDiagnostics", |params| {
            params["uri"] == self.uri && params["diagnostics"].as_array().is_some_and(|it| wanted(it))
        });
    }

    fn end(self) {
        assert!(self.editor.shutdown().success());
        self.editor.mark().wait_gone(std::time::Duration::from_secs(5));
        drop(self.sandbox);
    }
}

fn capabilities() -> Value {
    json!({
        "textDocument": {
            "synchronization": {"didSave": true},
            "completion": {
                "completionItem": {"snippetSupport": true},
                "completionList": {"itemDefaults": ["editRange", "insertTextFormat", "commitCharacters"]},
            },
            "hover": {"contentFormat": ["markdown", "plaintext"]},
            "publishDiagnostics": {"versionSupport": true},
            "colorProvider": {},
        },
        "workspace": {"configuration": true, "workspaceFolders": true},
        "general": {"positionEncodings": ["utf-8", "utf-16"]},
    })
}

fn labels(items: &[Value]) -> Vec<&str> {
    items.iter().filter_map(|it| it["label"].as_str()).collect()
}

fn has(items: &[Value], label: &str) -> bool {
    labels(items).contains(&label)
}

fn is_from(list: &[Value], source: &str) -> bool {
    list.iter().any(|it| it["source"] == source)
}

#[test]
fn typescript_eslint_and_tailwind_are_one_server_real() {
    are_one_server(&["typescript", "eslint", "tailwind"]);
}

#[test]
fn tailwind_eslint_and_typescript_are_one_server_real() {
    are_one_server(&["tailwind", "eslint", "typescript"]);
}

const BOX: &str = "\
const unused = \"é😀\";
export function Box() {
  return <div className=\"flex p-\" title={String(1)}>{missing}</div>;
}
";

const COMPONENT: [(&str, &str); 3] = [
    ("eslint.config.mjs", ESLINT),
    ("tailwind.config.cjs", TAILWIND),
    (
        "tsconfig.json",
        r#"{"compilerOptions": {"allowJs": true, "checkJs": true, "jsx": "preserve", "strict": true}}"#,
    ),
];

/// The same in Neovim, which pulls diagnostics and registers little.
#[test]
fn neovim_sees_typescript_eslint_and_tailwind_as_one_server_real() {
    for members in [["typescript", "eslint", "tailwind"], ["tailwind", "eslint", "typescript"]] {
        let sandbox = sandbox(&COMPONENT);
        sandbox.write("box.jsx", BOX);
        let config = configured(&sandbox, &members);
        let mut command = neovim_command(&sandbox, "neovim_web.lua");
        with_servers_on_path(&mut command);
        let config = config.to_str().expect("the sandbox's path is text");
        let server =
            [env!("CARGO_BIN_EXE_lspool"), "--record-texts", "yes", "--config", config, "--group", "g"];
        let results = run_with(&sandbox, command, &server.join("\n"), Kill::Never);
        assert_eq!((&results["failed"], &results["messages"]), (&Value::Null, &json!([])), "{results:#}");
        assert_eq!(results["clients"], 1);
        let line = BOX.lines().nth(2).expect("there is one");
        let missing = json!([{"source": "typescript", "line": 2, "column": line.find("missing")}]);
        assert_eq!(results["missing"], missing, "{results:#}");
        let unused = results["unused"].as_array().expect("a list");
        assert!(unused.iter().any(|it| it["source"] == "eslint" && it["line"] == 0), "{results:#}");
        assert_eq!(results["mixed"], json!([false, false]), "classes are no types: {results:#}");
        assert!(!results["hover"].to_string().contains("grid"), "{results:#}");
    }
}

fn are_one_server(members: &[&str]) {
    let mut project = Project::start(sandbox(&COMPONENT), members, ("box.jsx", "javascriptreact", BOX));
    // ESLint never publishes: lspool asks it.
    project.wait_shown(Moment::default(), |list| {
        is_from(list, "eslint") && list.iter().any(|it| it["source"] == "typescript" && says(it, "missing"))
    });
    let classes = project.completed("flex p-", |it| has(it, "p-4"));
    assert!(!has(&classes, "String"));
    let types = project.completed("title={Str", |it| has(it, "String"));
    assert!(!has(&types, "p-4"));

    // Tailwind takes whole texts, TypeScript the changes.
    let before = project.editor.moment();
    project.insert("className=\"", &"grid ".repeat(40));
    let hover = project.behind("grid fle");
    let text = project.until("textDocument/hover", &hover, |it| {
        let text = it["contents"].to_string();
        text.contains("display: flex").then_some(text)
    });
    assert!(!text.contains("grid"), "{text}");
    let types = project.completed("title={Str", |it| has(it, "String"));
    assert!(!has(&types, "p-4"));
    project.insert("unused", "More");
    project
        .wait_shown(before, |list| list.iter().any(|it| it["source"] == "eslint" && says(it, "unusedMore")));
    project.end();
}

#[test]
fn tailwind_is_left_out_of_a_project_without_it_real() {
    let sandbox = sandbox(&[("eslint.config.mjs", ESLINT)]);
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_lspool"));
    with_servers_on_path(command.args(["check", "--group", "typescript"]));
    let output = command.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    for line in [
        "typescript  ok ",
        "eslint      ok ",
        "gets documents of the languages javascript, ",
        "tailwind is not used here: the workspace has no tailwind.config.js, ",
        "biome is not used here: the workspace has no biome.json, biome.jsonc",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn html_and_tailwind_are_one_server_real() {
    for members in [["html", "css", "tailwind"], ["tailwind", "css", "html"]] {
        let text = "<!DOCTYPE html>\n<p class=\"bg-red-500 p-\">\n<\n</p>\n";
        let sandbox = sandbox(&[("tailwind.config.cjs", TAILWIND)]);
        let project = Project::start(sandbox, &members, ("page.html", "html", text));
        let classes = project.completed("500 p-", |it| has(it, "p-4"));
        let class = classes.iter().find(|it| it["label"] == "p-4").expect("it is there");
        let edit = class.get("textEdit").map_or(&class["editRange"], |it| &it["range"]);
        assert_eq!(edit["start"]["line"], 1, "its list's own range: {class}");
        let tags = project.completed("p-\">\n<", |it| has(it, "section"));
        assert!(!has(&tags, "p-4"));
        project.end();
    }
}

#[test]
fn css_and_tailwind_are_one_server_real() {
    for members in [["css", "html", "tailwind"], ["tailwind", "html", "css"]] {
        let text = ".a {\n  color: red;\n}\n";
        let sandbox = sandbox(&[("tailwind.config.cjs", TAILWIND)]);
        let mut project = Project::start(sandbox, &members, ("a.css", "css", text));
        // Not in the file: Tailwind would take that for the configuration of a project.
        project.insert("red;", "\n  @apply bg-red-500;\n  dis");
        project.wait_shown(Moment::default(), |list| is_from(list, "css"));
        let properties = project.completed("  dis", |it| has(it, "display"));
        let display: Vec<&Value> = properties.iter().filter(|it| it["label"] == "display").collect();
        let [display] = display.as_slice() else { panic!("{display:#?}") };
        let edit = display.get("textEdit").map_or(&display["editRange"], |it| &it["range"]);
        assert_eq!(edit["start"], json!({"line": 3, "character": 2}), "{display}");
        // Each has found one of the colors, and nobody the same one twice.
        let document = json!({"textDocument": {"uri": project.uri}});
        let mut lines = project.until("textDocument/documentColor", &document, |it| {
            let colors = it.as_array()?;
            let lines: Vec<u64> =
                colors.iter().filter_map(|it| it["range"]["start"]["line"].as_u64()).collect();
            (lines.len() >= 2).then_some(lines)
        });
        lines.sort_unstable();
        assert_eq!(lines, [1, 2]);
        project.end();
    }
}

#[test]
fn vue_and_typescript_are_one_server_real() {
    for members in [["vue", "vue-typescript"], ["vue-typescript", "vue"]] {
        let app = "<script setup lang=\"ts\">\nimport { double } from \"./math\";\nconst count: number = double(\"é😀\".length);\n\
                   const wrong: string = count;\n</script>\n\n<template>\n  <p :title=\"wrong\">{{ count }}</p>\n</template>\n\n\
                   <style>\n.a {\n  dis\n}\n</style>\n";
        let options = r#"{"compilerOptions": {"strict": true, "module": "esnext", "moduleResolution": "bundler", "target": "esnext"}}"#;
        let files = [
            ("tsconfig.json", options),
            ("math.ts", "export function double(n: number): number { return 2 * n; }\n"),
        ];
        let project = Project::start(sandbox(&files), &members, ("App.vue", "vue", app));
        project.wait_shown(Moment::default(), |list| {
            list.iter().any(|it| it["source"] == "typescript" && says(it, "not assignable to type 'string'"))
        });
        // TypeScript knows the script. The server of Vue knows the style, and has asked TypeScript about the project.
        let hover = project.behind("number = dou");
        project.until("textDocument/hover", &hover, |it| {
            it["contents"].to_string().contains("double(n: number): number").then_some(())
        });
        project.completed("  dis", |it| has(it, "display"));
        let definition = project.editor.ok("textDocument/definition", project.behind("number = dou"));
        assert!(definition.to_string().contains("math.ts"), "{definition}");
        let relayed = project.editor.notifications("tsserver/request");
        assert!(relayed.is_empty(), "they are not the editor's: {relayed:?}");
        project.end();
    }
}

#[test]
fn presets_take_real_servers_on_path_real() {
    let path = PathBuf::from("tailwind.config.cjs");
    for (preset, members) in [
        ("web", &["html", "css", "json", "eslint", "tailwind"][..]),
        ("vue", &["vue", "vue-typescript", "eslint", "tailwind"]),
    ] {
        let sandbox = sandbox(&[("eslint.config.mjs", ESLINT), (path.to_str().expect("a name"), TAILWIND)]);
        let mut command = sandbox.command(env!("CARGO_BIN_EXE_lspool"));
        with_servers_on_path(command.args(["check", "--group", preset]));
        let output = command.output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}");
        for member in members {
            let is_well = |line: &str| {
                let mut words = line.split_whitespace();
                words.next() == Some(member) && words.next() == Some("ok")
            };
            assert!(text.lines().any(is_well), "{member}: {text}");
        }
    }
}
