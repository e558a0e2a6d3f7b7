//! The builtin tools with the real Copilot server: an editor that has none, and files and processes that are real.

use std::{fs, os::unix::fs::symlink, path::Path, process::Command, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    partitions::{offered, servers, tools},
    support::{
        copilot::{Copilot, Options, Outcome},
        processes::Mark,
        real::{self, Sandbox},
        stub::{Model, Round, Rule, Script, Stub},
    },
};

/// lspool whose own tools stand in, with more of the configuration.
fn start(sandbox: &Sandbox, stub: &Stub, config: &str) -> Copilot {
    start_with(sandbox, stub, config, |_| {})
}

fn start_with(sandbox: &Sandbox, stub: &Stub, config: &str, change: impl FnOnce(&mut Options)) -> Copilot {
    let file = sandbox.home().join("config.toml");
    let text = format!("[server.copilot]\nbuiltin_tools = \"fallback\"\n{config}");
    fs::write(&file, text).expect("the home is writable");
    let mut command: Command = sandbox.signed_in_command(env!("CARGO_BIN_EXE_lspool"), stub);
    command.arg("--config").arg(file).arg("--").arg(real::copilot()).arg("--stdio");
    let mut options = Options::in_workspace(sandbox.workspace());
    change(&mut options);
    Copilot::start(command, options)
}

/// A model that calls one tool and says what came of it.
fn calls(word: &str, tool: &str, input: Value) -> Rule {
    Rule::on(word).then(Round::text("Calling.\n").call(tool, input)).then(Round::text("Got {results}"))
}

/// The result of the call for the model.
#[track_caller]
fn told(session: &Copilot, stub: &Stub, word: &str, more: Value) -> String {
    let outcome = session.finish(&session.create(word, more));
    outcome.expect_success();
    result(stub, word, &outcome)
}

#[track_caller]
fn result(stub: &Stub, word: &str, outcome: &Outcome) -> String {
    let turn = stub.turns().into_iter().rfind(|it| it.user.contains(word) && it.round == 1);
    let results = turn.unwrap_or_else(|| panic!("no result: {outcome:#?}")).results;
    assert_eq!(results.len(), 1, "{results:?}");
    results.into_iter().next().unwrap_or_default()
}

fn model(id: &str) -> Model {
    Model { id: id.to_owned(), ..Model::default() }
}

#[test]
fn editor_without_tools_gets_builtin_tools() {
    let sandbox = Sandbox::new();
    sandbox.write("src/main.rs", "fn main() {\n    run();\n}\n");
    sandbox.write("notes.txt", "one\r\ntwo\r\n");
    sandbox.write("doc.md", "old title\n");
    sandbox.write("patched.rs", "fn a() {}\nfn b() {}\n");
    symlink("/etc/passwd", sandbox.workspace().join("link")).expect("the workspace is writable");
    let ws = sandbox.workspace();
    let path = |name: &str| ws.join(name).display().to_string();
    // The server takes one file at a time.
    let patch = |lines: &str| json!({"input": format!("*** Begin Patch\n{lines}\n*** End Patch"), "explanation": "e"});
    let update =
        format!("*** Update File: {}\n@@\n fn a() {{}}\n-fn b() {{}}\n+fn c() {{}}", path("patched.rs"));
    let add = format!("*** Add File: {}\n+added", path("sub/added.txt"));
    let replace =
        json!({"filePath": path("doc.md"), "oldString": "old", "newString": "new", "explanation": "e"});
    let mut script = Script::default()
        .rule(calls(
            "[read]",
            "read_file",
            json!({"filePath": path("src/main.rs"), "startLine": 2, "endLine": 2}),
        ))
        .rule(calls("[list]", "list_dir", json!({"path": path(".")})))
        .rule(calls("[files]", "file_search", json!({"query": "**/*.rs"})))
        .rule(calls("[lines]", "grep_search", json!({"query": "RUN()"})))
        .rule(calls(
            "[create]",
            "create_file",
            json!({"filePath": path("new/file.txt"), "content": "made\n"}),
        ))
        .rule(calls("[patch]", "apply_patch", patch(&update)))
        .rule(calls("[add]", "apply_patch", patch(&add)))
        .rule(calls("[replace]", "replace_string_in_file", replace))
        .rule(calls(
            "[run]",
            "run_in_terminal",
            json!({"command": "cat notes.txt; echo done >&2", "explanation": "e"}),
        ))
        .rule(calls(
            "[outside]",
            "read_file",
            json!({"filePath": "/etc/passwd", "startLine": 1, "endLine": 5}),
        ))
        .rule(calls("[link]", "read_file", json!({"filePath": path("link"), "startLine": 1, "endLine": 5})));
    script.models.push(model("claude-stub"));
    let stub = Stub::start(script);
    let session = start(&sandbox, &stub, "");
    let told = |word: &str, more: Value| told(&session, &stub, word, more);

    assert!(told("[read]", json!({})).contains("lines 2 to 2 of 3.\n    run();\n"));
    let offered: Vec<String> = stub.turns()[0].tools.clone();
    for tool in [
        "read_file",
        "list_dir",
        "file_search",
        "grep_search",
        "create_file",
        "apply_patch",
        "run_in_terminal",
    ] {
        assert!(offered.iter().any(|it| it == tool), "{tool} is not in {offered:?}");
    }
    assert!(told("[list]", json!({})).contains("doc.md\nlink -> /etc/passwd\nnotes.txt\npatched.rs\nsrc/"));
    let files = told("[files]", json!({}));
    assert!(files.contains(&format!("{}\n{}\n", path("patched.rs"), path("src/main.rs"))), "{files}");
    assert!(told("[lines]", json!({})).contains("src/main.rs:2:     run();"));
    told("[create]", json!({}));
    assert_eq!(fs::read_to_string(path("new/file.txt")).expect("it was made"), "made\n");
    let patched = told("[patch]", json!({}));
    assert_eq!(
        fs::read_to_string(path("patched.rs")).expect("it is there"),
        "fn a() {}\nfn c() {}\n",
        "{patched}"
    );
    let added = told("[add]", json!({}));
    assert!(added.contains("Created files"), "{added}");
    assert_eq!(fs::read_to_string(path("sub/added.txt")).expect("it was made").trim_end(), "added");
    let claude = json!({"modelInfo": {"id": "claude-stub"}});
    told("[replace]", claude);
    assert_eq!(fs::read_to_string(path("doc.md")).expect("it is there"), "new title\n");
    let ran = told("[run]", json!({}));
    assert!(ran.contains("one\r\ntwo\r\ndone\n[exit code 0]"), "{ran:?}");
    for word in ["[outside]", "[link]"] {
        let told = told(word, json!({}));
        assert!(told.contains("outside the workspace") && !told.contains("root:"), "{word}: {told}");
    }
    assert_eq!(session.tool_calls(), [], "the editor was asked for none");
    assert!(session.shutdown().success());
}

#[test]
fn editor_tool_takes_precedence_and_sets_stay_separate() {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "of the disk\n");
    let input = json!({"filePath": sandbox.workspace().join("a.txt"), "startLine": 1, "endLine": 1});
    let stub = Stub::start(Script::default().rule(calls("[read]", "read_file", input)));
    let session = start(&sandbox, &stub, "");
    let own = told(&session, &stub, "[read] own", tools(&["read_file", "list_dir"]));
    assert!(own.contains("of the disk"), "{own}");
    let set = stub.turns().pop().expect("there was one");
    assert_eq!(offered(&set), ["list_dir", "read_file"].into());
    let none = session.finish(&session.create("hello", tools(&[])));
    none.expect_success();
    assert_eq!(stub.turns().pop().expect("there was one").tools, [""; 0]);

    session.register_tools(&["read_file"]).expect("the schema is good");
    session.on_tool("read_file", |_| Ok("of the editor".to_owned()));
    for (word, more) in [("[read] all", json!({})), ("[read] set", tools(&["read_file", "list_dir"]))] {
        assert!(told(&session, &stub, word, more).contains("of the editor"), "{word}");
    }
    assert_eq!(session.tool_calls().len(), 2);
    assert!(session.shutdown().success());
}

#[test]
fn chat_mode_gets_builtin_tools_of_its_set() {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "of the disk\n");
    let input = json!({"filePath": sandbox.workspace().join("a.txt"), "startLine": 1, "endLine": 1});
    let stub = Stub::start(Script::default().rule(calls("[read]", "read_file", input)));
    let session = start(&sandbox, &stub, "isolation = \"mode\"\n");
    for (word, set) in [("[read] by name", "read_file"), ("[read] in short", "read_*")] {
        assert!(told(&session, &stub, word, tools(&[set])).contains("of the disk"), "{word}");
        let turn = stub.turns().pop().expect("there was one");
        assert_eq!(offered(&turn), ["read_file"].into(), "{word}");
    }
    assert_eq!(servers(&session), 1);
    assert!(session.shutdown().success());
}

#[test]
fn unconfirmed_command_does_not_run() {
    let sandbox = Sandbox::new();
    let made = |name: &str| sandbox.workspace().join(name).exists();
    let run = |word: &str, command: &str| {
        calls(word, "run_in_terminal", json!({"command": command, "explanation": "e"}))
    };
    let script = Script::default()
        .rule(run("[allowed]", "touch allowed 'a b'"))
        .rule(run("[asked]", "touch asked"))
        .rule(run("[operator]", "touch allowed; touch operator"));
    let stub = Stub::start(script);
    let session = start(&sandbox, &stub, "[tools]\nallow = [\"touch allowed *\"]\n");
    session.hold_requests("conversation/invokeClientToolConfirmation");
    told(&session, &stub, "[allowed]", json!({}));
    assert!(made("allowed") && made("a b"), "it is not asked about");
    for (word, name, verdict) in [
        ("[asked]", "asked", "dismiss"),
        ("[operator]", "operator", "dismiss"),
        ("[asked] again", "asked", "accept"),
    ] {
        let turn = session.create(word, json!({}));
        let asked = session.expect_request("conversation/invokeClientToolConfirmation");
        assert!(!made(name), "{word}");
        session.answer(&asked, Ok(json!([{"result": verdict}, null])));
        session.finish(&turn).expect_success();
        assert_eq!(made(name), verdict == "accept", "{word}");
    }
    assert!(session.shutdown().success());
}

/// Waits until a file says which process has been started.
#[track_caller]
fn pid(file: &Path) -> u32 {
    for _ in 0..2000 {
        if let Some(pid) = fs::read_to_string(file).ok().and_then(|it| it.trim().parse().ok()) {
            return pid;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{} does not come", file.display());
}

#[track_caller]
fn expect_gone(mark: &Mark, pid: u32) {
    for _ in 0..2000 {
        if mark.process(pid).is_none() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{pid} is still there");
}

const SLEEPERS: &str = "trap '' TERM; sleep 1000 & echo $! > pid; sleep 1000";

#[test]
fn cancelled_command_ends_with_all_its_children() {
    let sandbox = Sandbox::new();
    let input = json!({"command": SLEEPERS, "explanation": "e"});
    let stub = Stub::start(Script::default().rule(calls("[sleep]", "run_in_terminal", input)));
    let session = start(&sandbox, &stub, "");
    let turn = session.create("[sleep]", json!({"conversationId": "one"}));
    let child = pid(&sandbox.workspace().join("pid"));
    assert!(session.mark().process(child).is_some());
    session.cancel(&turn.pending);
    let outcome = session.finish(&turn);
    assert_eq!(outcome.progress.ends[0]["cancellationReason"], "CancelledByUser");
    expect_gone(session.mark(), child);
    let next = session.finish(&session.turn(&json!("one"), "and now?", json!({})));
    next.expect_success();

    // An editor that leaves takes them with it.
    fs::remove_file(sandbox.workspace().join("pid")).expect("it is there");
    session.create("[sleep] again", json!({}));
    pid(&sandbox.workspace().join("pid"));
    session.forgive_unanswered();
    let mark = session.mark().clone();
    assert!(session.shutdown().success());
    mark.wait_gone(Duration::from_secs(20));
}

#[test]
fn command_is_held_to_time_and_output_limits() {
    let sandbox = Sandbox::new();
    let run = |word: &str, command: &str| {
        calls(word, "run_in_terminal", json!({"command": command, "explanation": "e"}))
    };
    let script = Script::default()
        .rule(run("[long]", &format!("echo begun; {SLEEPERS}")))
        .rule(run("[loud]", "echo first; yes | head -c 3000000; echo last; exit 3"))
        .rule(run("[input]", "cat; echo end; echo $$ $(cut -d' ' -f5,6 /proc/$$/stat); env"));
    let stub = Stub::start(script);
    let session = start(&sandbox, &stub, "[tools]\ntime_limit = \"5s\"\n");
    let long = told(&session, &stub, "[long]", json!({}));
    assert!(long.contains("begun") && long.contains("time limit reached"), "{long}");
    expect_gone(session.mark(), pid(&sandbox.workspace().join("pid")));
    let loud = told(&session, &stub, "[loud]", json!({}));
    assert!(loud.contains("first\ny\n") && loud.contains("y\nlast\n[exit code 3]"), "{loud}");
    assert!(loud.len() < 66_000 && loud.contains("bytes left out"), "{}", loud.len());
    let input = told(&session, &stub, "[input]", json!({}));
    assert!(input.starts_with("end\n") && input.contains("HOME="), "{input}");
    let ids: Vec<&str> = input.lines().nth(1).unwrap_or_default().split(' ').collect();
    assert!(
        ids.len() == 3 && ids.iter().all(|it| *it == ids[0]),
        "it leads its group and its session: {input}"
    );
    assert!(!input.contains("gho_environment") && !input.contains("TOKEN"), "{input}");
    assert!(session.shutdown().success());
}

/// Whether this kernel has all of Landlock that lspool makes use of.
fn has_landlock() -> bool {
    use landlock::{
        ABI, Access as _, AccessFs, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _, Scope,
    };
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let ruleset = ruleset.handle_access(AccessFs::from_all(ABI::V6)).and_then(|it| it.scope(Scope::Signal));
    ruleset.and_then(Ruleset::create).is_ok()
}

/// A folder outside those that every command may write to.
fn outside_of_temporary_folders() -> Option<TempDir> {
    let home = std::env::var("HOME").unwrap_or_default();
    let is_temporary =
        |it: &&str| ["/tmp", "/var/tmp", "/dev/shm"].iter().any(|all| Path::new(it).starts_with(all));
    let candidates = [env!("CARGO_TARGET_TMPDIR"), &home];
    candidates
        .into_iter()
        .filter(|it| Path::new(it).is_absolute() && !is_temporary(it))
        .find_map(|it| TempDir::new_in(it).ok())
}

#[test]
fn command_writes_only_to_workspace_and_temporary_files() {
    // Not among the temporary files.
    let Some(outside) = outside_of_temporary_folders() else {
        return eprintln!(
            "NOT RUN: there is only the target folder to try it in, and that is in a temporary one"
        );
    };
    let sandbox = Sandbox::new();
    let file = outside.path().join("file").display().to_string();
    fs::write(&file, "as it was\n").expect("the folder is writable");
    // Its parent is lspool.
    let kill = if has_landlock() { "kill -9 $PPID;" } else { "" };
    let command = format!(
        "cat {file}; echo x > {file}; touch {file}2; rm {file}; ln {file} hard; mv {file} moved; {kill} \
         echo y > inside; echo z > $TMPDIR/t; echo quiet > /dev/null; echo end"
    );
    let script = Script::default().rule(calls(
        "[run]",
        "run_in_terminal",
        json!({"command": command, "explanation": "e"}),
    ));
    let stub = Stub::start(script);
    let more = format!("[tools]\nwritable = [\"{}\"]\n", sandbox.home().display());
    let session = start(&sandbox, &stub, &more);
    let told = told(&session, &stub, "[run]", json!({}));
    assert!(told.contains("as it was") && told.ends_with("end\n[exit code 0]"), "{told}");
    assert!(sandbox.workspace().join("inside").exists() && sandbox.temporary().join("t").exists());
    if has_landlock() {
        assert_eq!(fs::read_to_string(&file).expect("it is there"), "as it was\n", "{told}");
        assert_eq!(fs::read_dir(outside.path()).expect("it is there").count(), 1, "{told}");
        assert!(session.shutdown().success());
    } else {
        eprintln!("NOT RUN in full: this kernel has no Landlock");
        assert!(!Path::new(&file).exists(), "nothing keeps it from that: {told}");
    }
}

#[test]
fn conversation_asks_language_server_about_code() {
    let sandbox = Sandbox::new();
    sandbox.write("pkg/__init__.py", "");
    sandbox.write("pkg/shapes.py", "def area(side: int) -> int:\n    return side * side\n");
    sandbox.write("pkg/use.py", "from pkg.shapes import area\n\nprint(area(2))\nprint(area(\"x\"))\n");
    let errors = json!({"filePaths": [sandbox.workspace().join("pkg/use.py").display().to_string()]});
    let script = Script::default()
        .rule(calls("[usages]", "list_code_usages", json!({"symbolName": "area"})))
        .rule(calls("[errors]", "get_errors", errors))
        .rule(calls("[definition]", "lsp_definition", json!({"symbol": "area", "body": true})))
        .rule(calls("[missing]", "lsp_references", json!({"symbol": "perimeter"})))
        .rule(calls("[explore]", "lsp_hover", json!({"symbol": "area"})))
        .rule(calls("[rename]", "lsp_rename", json!({"symbol": "area", "new_name": "int"})));
    let stub = Stub::start(script);
    let pyright = format!(
        "[server.pyright]\ncommand = {:?}\nargs = [\"--stdio\"]\n",
        real::pyright().display().to_string()
    );
    let session = start(&sandbox, &stub, &pyright);
    let told = |word: &str, more: Value| told(&session, &stub, word, more);

    let usages = told("[usages]", json!({}));
    assert!(usages.starts_with("4 references to area") && usages.contains("complete"), "{usages}");
    assert!(usages.contains("pkg/use.py") && usages.contains("print(area(2))"), "{usages}");
    let errors = told("[errors]", json!({}));
    assert!(errors.contains("pkg/use.py") && errors.contains("4:12  error"), "{errors}");
    // An agent without other tools has these, too.
    let definition = told("[definition]", json!({"lspool": {"tools": ["lsp"]}}));
    assert!(definition.contains("return side * side"), "{definition}");
    let turn = stub.turns().into_iter().rfind(|it| it.user.contains("[definition]")).expect("a turn");
    assert!(turn.tools.iter().all(|it| it.starts_with("lsp_")) && turn.tools.len() >= 10, "{:?}", turn.tools);
    assert!(told("[missing]", json!({})).contains("no symbol"), "it says so");
    // The builtin agents that read have those that read.
    let hover = told("[explore]", json!({"lspool": {"agent": "explore"}}));
    assert!(hover.contains("(side: int) -> int"), "{hover}");
    let turn = stub.turns().into_iter().rfind(|it| it.user.contains("[explore]")).expect("a turn");
    assert!(turn.tools.iter().any(|it| it == "lsp_references"), "{:?}", turn.tools);
    assert!(turn.tools.iter().all(|it| it != "lsp_rename" && it != "lsp_format"), "{:?}", turn.tools);
    // `lspool status` shows the server that answers.
    let status = sandbox.command(env!("CARGO_BIN_EXE_lspool")).args(["status", "--json"]).output();
    let status: Value = serde_json::from_slice(&status.expect("lspool starts").stdout).expect("JSON");
    let all =
        status["instances"].as_array().expect("a list").iter().filter_map(|it| it["backends"].as_array());
    let servers: Vec<_> = all.flatten().map(|it| (it["name"].clone(), it["state"].clone())).collect();
    assert!(servers.contains(&(json!("pyright"), json!("ready"))), "{servers:?}");
    assert!(servers.iter().any(|it| it.0 == "copilot"), "{servers:?}");
    // The model renames a function, and sees the error that this makes.
    let renamed = told("[rename]", json!({}));
    let text = |name: &str| fs::read_to_string(sandbox.workspace().join(name)).expect("it is there");
    assert!(text("pkg/shapes.py").starts_with("def int(side: int)"), "{renamed}");
    assert!(text("pkg/use.py").contains("import int\n"), "{renamed}");
    assert!(renamed.contains("error"), "{renamed}");
}

/// The text after the edits of one document, which replace whole lines.
fn edited(text: &str, edits: &Value) -> String {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    for edit in edits.as_array().expect("a list").iter().rev() {
        let line = |end: &str| {
            let line = edit["range"][end]["line"].as_u64().expect("a line");
            usize::try_from(line).expect("it is small")
        };
        lines.splice(line("start")..line("end"), [edit["newText"].as_str().expect("a text")]);
    }
    lines.concat()
}

#[test]
fn code_tools_of_conversation_see_and_change_what_editor_has_open() {
    const ON_DISK: &str = "def area(side: int) -> int:\n    return side * side\n";
    const IN_EDITOR: &str = "def surface(side: int) -> int:\n    return side * side\n";
    let sandbox = Sandbox::new();
    sandbox.write("pkg/__init__.py", "");
    sandbox.write("pkg/shapes.py", ON_DISK);
    sandbox.write("pkg/use.py", "from pkg.shapes import surface\n\nprint(surface(2))\n");
    let place = |name: &str| sandbox.workspace().join(name);
    let errors = json!({"filePaths": [place("pkg/use.py").display().to_string()]});
    let script = Script::default()
        .rule(calls("[usages]", "list_code_usages", json!({"symbolName": "surface"})))
        .rule(calls("[errors]", "get_errors", errors))
        .rule(calls("[rename]", "lsp_rename", json!({"symbol": "surface", "new_name": "extent"})));
    let stub = Stub::start(script);
    let pyright = format!(
        "[server.pyright]\ncommand = {:?}\nargs = [\"--stdio\"]\n",
        real::pyright().display().to_string()
    );
    let edits = json!({
        "workspaceFolders": true, "applyEdit": true,
        "workspaceEdit": {"documentChanges": true, "failureHandling": "transactional"},
    });
    let session = start_with(&sandbox, &stub, &pyright, |options| options.capabilities["workspace"] = edits);
    session.hold_requests("workspace/applyEdit");
    let uri = |name: &str| format!("file://{}", place(name).display());
    let document =
        json!({"uri": uri("pkg/shapes.py"), "languageId": "python", "version": 1, "text": ON_DISK});
    session.notify("textDocument/didOpen", json!({"textDocument": document}));
    let change = |version: u64, text: &str| {
        let named = json!({"uri": uri("pkg/shapes.py"), "version": version});
        session.notify(
            "textDocument/didChange",
            json!({"textDocument": named, "contentChanges": [{"text": text}]}),
        );
    };
    let told = |word: &str| told(&session, &stub, word, json!({}));

    // On the disk there is no such function.
    assert!(told("[errors]").contains("\"surface\" is unknown import symbol"));
    change(2, IN_EDITOR);
    let usages = told("[usages]");
    assert!(usages.starts_with("3 references to surface") && usages.contains("complete"), "{usages}");
    let errors = told("[errors]");
    assert!(errors.starts_with("0 errors"), "{errors}");

    let turn = session.create("[rename]", json!({}));
    let request = session.expect_request("workspace/applyEdit");
    let changes = request.params["edit"]["documentChanges"].as_array().expect("a list").clone();
    let of = |name: &str| {
        changes.iter().find(|it| it["textDocument"]["uri"] == uri(name)).expect("it is edited").clone()
    };
    assert_eq!(of("pkg/shapes.py")["textDocument"]["version"], 2);
    let shapes = edited(IN_EDITOR, &of("pkg/shapes.py")["edits"]);
    assert_eq!(shapes, IN_EDITOR.replace("surface", "extent"));
    change(3, &shapes);
    let text = |name: &str| fs::read_to_string(place(name)).expect("it is there");
    let used = edited(&text("pkg/use.py"), &of("pkg/use.py")["edits"]);
    fs::write(place("pkg/use.py"), used).expect("the workspace is writable");
    session.answer(&request, Ok(json!({"applied": true})));
    let outcome = session.finish(&turn);
    outcome.expect_success();
    let renamed = result(&stub, "[rename]", &outcome);
    assert!(renamed.contains("no new errors"), "{renamed}");
    assert_eq!(text("pkg/shapes.py"), ON_DISK, "lspool writes nothing behind the editor's back");
    assert!(text("pkg/use.py").contains("extent(2)"), "{renamed}");
    assert!(session.shutdown().success());
}
