//! Edits with real servers: whole renames or none, formats, fixes.

use std::collections::BTreeMap;

use super::*;

/// All files of a workspace that are not installed, with their texts.
fn files(shell: &Shell) -> BTreeMap<String, String> {
    let root = shell.sandbox.workspace();
    let (mut all, mut folders) = (BTreeMap::new(), vec![root.clone()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("the workspace is readable").flatten() {
            let path = entry.path();
            if path.ends_with("node_modules") || path.ends_with(".git") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(&root).expect("it is below").display().to_string();
            all.insert(name, fs::read_to_string(path).expect("it is text"));
        }
    }
    all
}

/// The files after a rename of the word in all but some of them.
fn renamed(
    before: &BTreeMap<String, String>,
    (old, new): (&str, &str),
    but: &[&str],
) -> BTreeMap<String, String> {
    let change = |(name, text): (&String, &String)| {
        let text = if but.contains(&name.as_str()) { text.clone() } else { text.replace(old, new) };
        (name.clone(), text)
    };
    before.iter().map(change).collect()
}

/// The exit status of a made edit without new errors: 3 if some file could not be checked in time.
fn status_of(answer: &Value) -> i32 {
    let mut all = answer["diagnostics"].as_array().into_iter().flatten();
    if all.any(|it| it["freshness"] == "unknown") { 3 } else { 0 }
}

fn errors(answer: &Value) -> usize {
    let all = answer["diagnostics"].as_array().into_iter().flatten();
    all.filter_map(|it| it["diagnostics"].as_array()).map(Vec::len).sum()
}

#[test]
fn real_pyright_renames_in_all_files_or_shows_it() {
    let shell = python();
    let before = files(&shell);
    let (status, text) = shell.lsp(&["rename", "pairwise", "twofold", "--preview"]);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains(&format!("{} edits in {} files · not made", 1 + 2 * FILES, 1 + FILES)), "{text}");
    assert!(text.contains("-def pairwise(items: list[int]) -> int:\n+def twofold("), "{text}");
    assert_eq!(files(&shell), before);
    let (status, answer) = shell.json(&["rename", "pkg/util.py", "pairwise", "twofold", "--yes"]);
    assert_eq!((&answer["applied"], &answer["total"]), (&true.into(), &(1 + FILES).into()), "{answer}");
    assert_eq!(files(&shell), renamed(&before, ("pairwise", "twofold"), &["pkg/other.py"]));
    assert_eq!(answer["left"][0]["file"], "pkg/other.py", "{answer}");
    assert_eq!((errors(&answer), status), (0, status_of(&answer)), "{answer}");
    let (_, answer) = shell.json(&["references", "twofold"]);
    assert_eq!(answer["total"], 1 + 2 * FILES);
}

#[test]
fn real_typescript_renames_in_all_files() {
    let (shell, trap) = typescript();
    let before = files(&shell);
    let (status, answer) = shell.json(&["rename", "src/util.ts:1:20", "twofold", "--yes"]);
    assert_eq!((&answer["applied"], &answer["total"]), (&true.into(), &(1 + FILES).into()), "{answer}");
    assert_eq!(files(&shell), renamed(&before, ("pairwise", "twofold"), &[]));
    assert_eq!((errors(&answer), status), (0, status_of(&answer)), "{answer}");
    assert!(!trap.exists(), "the workspace's typescript was run");
}

#[test]
fn rename_during_which_real_pyright_is_killed_is_whole_or_not_made() {
    for n_kills in [1, 2] {
        let shell = python();
        let before = files(&shell);
        let (mut command, mark) =
            shell.command(&["rename", "pkg/util.py", "pairwise", "twofold", "--yes", "--json"]);
        let mut running = command.spawn().expect("lspool starts");
        for _ in 0..n_kills {
            let server = loop {
                if running.try_wait().expect("it is ours").is_some() {
                    break None;
                }
                match mark.processes_running("pyright-langserver").first() {
                    Some(server) => break Some(server.clone()),
                    None => sleep(Duration::from_millis(20)),
                }
            };
            if let Some(server) = server {
                server.kill(Signal::KILL);
            }
        }
        let done = running.wait_with_output().expect("lspool ends");
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        let answer: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        match answer["applied"] == true {
            true => assert_eq!(files(&shell), renamed(&before, ("pairwise", "twofold"), &["pkg/other.py"])),
            false => {
                assert!(answer["error"]["retry"].is_boolean(), "{answer}");
                assert_eq!(files(&shell), before);
            }
        }
        mark.wait_gone(PATIENCE);
    }
}

#[test]
fn real_typescript_fixes_imports() {
    let (shell, _) = typescript();
    let unsorted = "import { b } from \"./b\";\nimport { a } from \"./a\";\nimport { pairwise } from \"./util\";\n\nexport const sum = a + b;\n";
    shell.sandbox.write("src/a.ts", "export const a = 1;\n");
    shell.sandbox.write("src/b.ts", "export const b = 2;\n");
    shell.sandbox.write("src/sum.ts", unsorted);
    let (status, text) = shell.lsp(&["actions", "src/sum.ts:1", "--kind", "source.organizeImports"]);
    assert!(text.contains("Organize Imports (source.organizeImports.ts)"), "{text}");
    assert_eq!(status, 0);
    let organize =
        ["actions", "src/sum.ts:1", "--kind", "source.organizeImports", "--apply", "Organize Imports"];
    let (status, answer) = shell.json(&organize);
    assert_eq!((&answer["applied"], status), (&true.into(), status_of(&answer)), "{answer}");
    let sorted = "import { a } from \"./a\";\nimport { b } from \"./b\";\nimport { pairwise } from \"./util\";\n\nexport const sum = a + b;\n";
    assert_eq!(files(&shell)["src/sum.ts"], sorted);
    shell.sandbox.write("src/fix.ts", "export const value = pairwise([1]);\n");
    let (status, answer) = shell.json(&["actions", "src/fix.ts:1", "--apply", "Add import from \"./util\""]);
    assert_eq!((&answer["applied"], status), (&true.into(), status_of(&answer)), "{answer}");
    let fixed = "import { pairwise } from \"./util\";\n\nexport const value = pairwise([1]);\n";
    assert_eq!(files(&shell)["src/fix.ts"], fixed);
    assert_eq!(errors(&answer), 0);
    // A refactoring is a command of the server.
    let (_, text) = shell.lsp(&["actions", "src/fix.ts:3", "--kind", "refactor"]);
    assert!(text.contains("which lspool does not run"), "{text}");
}

#[test]
fn real_servers_format_files_and_lines() {
    let ruff = real::ruff();
    let shell = Shell::new().configure(&format!(
        "[server.ruff]\ncommand = {:?}\nargs = [\"server\"]\nlanguages = [\"python\"]\n",
        ruff.display().to_string()
    ));
    shell.sandbox.write("a.py", "\u{feff}x = {'a':1}\r\ndef f( ):\r\n  return   x\r\n");
    let (status, text) = shell.lsp(&["format", "a.py", "--preview"]);
    assert!(text.contains("+x = {\"a\": 1}"), "{text}");
    assert_eq!(status, 0);
    let (status, answer) = shell.json(&["format", "a.py"]);
    assert_eq!(status, status_of(&answer), "{answer}");
    let formatted = "\u{feff}x = {\"a\": 1}\r\n\r\n\r\ndef f():\r\n    return x\r\n";
    assert_eq!(files(&shell)["a.py"], formatted);
    let (status, text) = shell.lsp(&["format", "a.py"]);
    assert!(text.contains("there is nothing to change") && status == 0, "{text}");
    let (shell, _) = typescript();
    shell.sandbox.write("src/a.ts", "export const a   = 1;\nexport const b   = 2;\n");
    let (status, answer) = shell.json(&["format", "src/a.ts", "--lines", "2"]);
    assert_eq!(status, status_of(&answer), "{answer}");
    assert_eq!(files(&shell)["src/a.ts"], "export const a   = 1;\nexport const b = 2;\n");
}
