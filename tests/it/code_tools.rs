//! `lspool lsp` with real servers: whole answers, fresh diagnostics, and nothing of the workspace is run.

mod edits;
mod unsaved;

use std::{
    fmt::Write as _,
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::PathBuf,
    process::{Command, Stdio},
    thread::sleep,
    time::Duration,
};

use rustix::process::Signal;
use serde_json::Value;

use super::support::{
    editor::PATIENCE,
    processes::Mark,
    real::{self, Sandbox},
};

/// How many files use the symbol.
const FILES: usize = 40;

struct Shell {
    sandbox: Sandbox,
    bin: PathBuf,
}

impl Shell {
    fn new() -> Shell {
        let sandbox = Sandbox::new();
        let bin = sandbox.home().join("bin");
        fs::create_dir_all(&bin).expect("the home is writable");
        fs::create_dir(sandbox.workspace().join(".git")).expect("the workspace is writable");
        Shell { sandbox, bin }
    }

    /// A server on `PATH`.
    fn install(self, name: &str, program: PathBuf) -> Shell {
        symlink(program, self.bin.join(name)).expect("the home is writable");
        self
    }

    fn configure(self, text: &str) -> Shell {
        let folder = self.sandbox.home().join(".config/lspool");
        fs::create_dir_all(&folder).expect("the home is writable");
        fs::write(folder.join("config.toml"), text).expect("the home is writable");
        self
    }

    fn command(&self, words: &[&str]) -> (Command, Mark) {
        let mut command = self.sandbox.command(env!("CARGO_BIN_EXE_lspool"));
        let system = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths([self.bin.clone()].into_iter().chain(std::env::split_paths(&system)));
        command.env("PATH", path.expect("a path"));
        command.arg("lsp").args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mark = Mark::of(&mut command);
        (command, mark)
    }

    /// The exit status and the output.
    fn lsp(&self, words: &[&str]) -> (i32, String) {
        let (mut command, mark) = self.command(words);
        let done = command.output().expect("lspool starts");
        mark.wait_gone(PATIENCE);
        let text =
            String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
        (done.status.code().unwrap_or(-1), text)
    }

    fn json(&self, words: &[&str]) -> (i32, Value) {
        let (status, text) = self.lsp(&[words, &["--json"]].concat());
        (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
    }
}

/// A workspace for pyright.
fn python_server() -> Shell {
    Shell::new().configure(&format!(
        "[server.pyright]\ncommand = {:?}\nargs = [\"--stdio\"]\nlanguages = [\"python\"]\n",
        real::pyright().display().to_string()
    ))
}

/// A package whose function is used twice in each file but one, where it is only mentioned.
fn python() -> Shell {
    let shell = python_server();
    shell.sandbox.write("pkg/util.py", "def pairwise(items: list[int]) -> int:\n    return len(items)\n");
    for n in 0..FILES {
        let text = format!("from pkg.util import pairwise\n\nvalue = pairwise([{n}])\n");
        shell.sandbox.write(&format!("pkg/part{}/m{n}.py", n % 5), &text);
    }
    shell.sandbox.write("pkg/other.py", "# pairwise is only mentioned here\n");
    shell
}

#[test]
fn references_of_real_pyright_are_whole_at_once() {
    let shell = python();
    let (status, answer) = shell.json(&["references", "pairwise"]);
    assert_eq!(answer["complete"], true, "{answer}");
    assert_eq!(answer["total"], 1 + 2 * FILES);
    assert_eq!(answer["text_only"]["files"][0], "pkg/other.py");
    assert_eq!(answer["references"][0]["declaration"], true);
    assert_eq!(status, 0);
}

#[test]
fn killed_real_pyright_costs_a_delay() {
    let shell = python();
    let (mut command, mark) = shell.command(&["references", "pkg/util.py", "pairwise", "--json"]);
    let running = command.spawn().expect("lspool starts");
    let server = loop {
        match mark.processes_running("pyright-langserver").first() {
            Some(server) => break server.clone(),
            None => sleep(Duration::from_millis(20)),
        }
    };
    server.kill(Signal::KILL);
    let done = running.wait_with_output().expect("lspool ends");
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let answer: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!((&answer["complete"], &answer["total"]), (&true.into(), &(1 + 2 * FILES).into()), "{answer}");
    mark.wait_gone(PATIENCE);
}

#[test]
fn diagnostics_of_real_pyright_are_exact() {
    let shell = python();
    shell.sandbox.write("pkg/bad.py", "from pkg.util import pairwise\n\n\"é😀\"; text: str = pairwise([])\n");
    let (status, answer) = shell.json(&["diagnostics", "pkg/bad.py", "pkg/other.py"]);
    let files = answer["files"].as_array().expect("files");
    assert!(files.iter().all(|it| it["freshness"] == "exact"), "{answer}");
    assert_eq!(files[0]["diagnostics"][0]["line"], 3);
    assert_eq!(files[0]["diagnostics"][0]["character"], 19, "characters, not units: {answer}");
    assert_eq!(files[1]["diagnostics"], serde_json::json!([]));
    assert_eq!(status, 1);
    let (status, text) = shell.lsp(&["diagnostics", "pkg/other.py"]);
    assert_eq!((status, text.as_str()), (0, "0 errors, 0 warnings, 0 hints in 1 file checked\n"));
}

/// A project whose `node_modules` holds a `typescript` that must not run.
fn typescript() -> (Shell, PathBuf) {
    let shell = Shell::new().install("typescript-language-server", real::typescript());
    let trap = shell.sandbox.home().join("ran");
    let script = format!("require('fs').writeFileSync({:?}, '')", trap.display().to_string());
    for name in ["tsserver.js", "tsserverlibrary.js", "typescript.js"] {
        shell.sandbox.write(&format!("node_modules/typescript/lib/{name}"), &script);
    }
    shell
        .sandbox
        .write("node_modules/typescript/package.json", r#"{"name": "typescript", "version": "5.9.0"}"#);
    shell.sandbox.write("tsconfig.json", r#"{"compilerOptions": {"strict": true}, "include": ["src"]}"#);
    let mut util = String::new();
    writeln!(util, "export function pairwise(items: number[]): number {{\n  return items.length;\n}}")
        .expect("text");
    shell.sandbox.write("src/util.ts", &util);
    for n in 0..FILES {
        let text =
            format!("import {{ pairwise }} from \"../util\";\n\nexport const value = pairwise([{n}]);\n");
        shell.sandbox.write(&format!("src/part{}/m{n}.ts", n % 5), &text);
    }
    (shell, trap)
}

#[test]
fn references_of_real_typescript_are_whole_at_once() {
    let (shell, trap) = typescript();
    let (status, answer) = shell.json(&["references", "src/util.ts:1:20"]);
    assert_eq!((&answer["complete"], &answer["total"]), (&true.into(), &(1 + 2 * FILES).into()), "{answer}");
    assert_eq!(status, 0);
    assert!(!trap.exists(), "the workspace's typescript was run");
}

#[test]
fn diagnostics_of_real_typescript_are_exact_also_for_clean_files() {
    let (shell, trap) = typescript();
    shell.sandbox.write(
        "src/bad.ts",
        "import { pairwise } from \"./util\";\nexport const text: string = pairwise([]);\n",
    );
    let (status, answer) = shell.json(&["diagnostics", "src/bad.ts", "src/part1/m1.ts"]);
    let files = answer["files"].as_array().expect("files");
    assert!(files.iter().all(|it| it["freshness"] == "exact"), "{answer}");
    assert_eq!((&files[0]["diagnostics"][0]["line"], &files[0]["total"]), (&2.into(), &1.into()), "{answer}");
    assert_eq!(files[1]["total"], 0);
    assert_eq!(status, 1);
    assert!(!trap.exists(), "the workspace's typescript was run");
}

#[test]
fn executables_of_the_workspace_are_no_servers() {
    let shell = Shell::new();
    let trap = shell.sandbox.home().join("ran");
    let script = format!("#!/bin/sh\ntouch {}\n", trap.display());
    let program = shell.sandbox.write("bin/gopls", &script);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("the workspace is writable");
    shell.sandbox.write("main.go", "package main\n");
    shell.sandbox.write(".lspool.toml", "");
    let shell = Shell { bin: shell.sandbox.workspace().join("bin"), ..shell };
    let (status, text) = shell.lsp(&["hover", "main.go:1:10"]);
    assert_eq!(status, 4, "{text}");
    assert!(text.contains("no_server: ") && text.contains("Go"), "{text}");
    assert!(!trap.exists(), "it was run");
    let (status, text) = shell.lsp(&["hover", "main.go:x"]);
    assert_ne!(status, 0, "{text}");
}
