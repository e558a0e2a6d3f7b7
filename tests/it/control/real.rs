//! The commands in front of the real Copilot server, and what they show: the documentation has it from here.

use std::{
    fs,
    path::{Path, PathBuf},
};

use expect_test::expect_file;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Sandbox, run, wait_until};
use crate::{
    partitions::{through_lspool, tools},
    support::stub::{Script, Stub},
};

/// A command line, and its output.
struct Screens<'a> {
    sandbox: &'a Sandbox,
    /// The pages of the documentation, with the screens so far.
    pages: Vec<(PathBuf, String)>,
}

impl Screens<'_> {
    fn new<'a>(sandbox: &'a Sandbox, pages: &[&str]) -> Screens<'a> {
        let read = |page: &&str| {
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
            let text = fs::read_to_string(&file).expect("the page is there");
            (file, text)
        };
        Screens { sandbox, pages: pages.iter().map(read).collect() }
    }

    /// Puts what this command says into each block that begins with it.
    fn show(&mut self, line: &[&str], code: i32) {
        let output = run(self.sandbox, line);
        assert_eq!(output.status.code(), Some(code), "{line:?}: {output:?}");
        let said = [output.stdout, output.stderr].concat();
        let said = steady(&String::from_utf8_lossy(&said), self.sandbox);
        let head = format!("```\n$ lspool {}\n", line.join(" "));
        let mut is_shown = false;
        for (_, page) in &mut self.pages {
            let Some(start) = page.find(&head) else { continue };
            let start = start + head.len();
            let end = start + page[start..].find("```\n").expect("a block has an end");
            page.replace_range(start..end, &said);
            is_shown = true;
        }
        assert!(is_shown, "no page has a block that begins\n{head}");
    }

    /// `UPDATE_EXPECT=1` updates the documentation.
    fn check(self) {
        for (file, page) in self.pages {
            expect_file![file].assert_eq(&page);
        }
    }
}

/// The text without varying parts. Replacements keep their column, and the columns their alignment.
fn steady(text: &str, sandbox: &Sandbox) -> String {
    let workspace = sandbox.workspace().display().to_string();
    let text = text.replace(&workspace, "/home/me/project").replace("TestEditor 1.0", "Neovim 0.11.4");
    let lines: Vec<&str> = text.lines().collect();
    let Some(head) = lines.iter().position(|it| it.starts_with("  SERVER ")) else {
        return lines.iter().map(|it| line_of(it) + "\n").collect();
    };
    let cells = |line: &str| -> Vec<String> {
        line.split("  ").map(str::trim).filter(|it| !it.is_empty()).map(ToOwned::to_owned).collect()
    };
    let columns = cells(lines[head]);
    let is_row = |n: usize| n >= head && lines[n].starts_with("  ") && !lines[n].starts_with("   ");
    let rows: Vec<Vec<String>> = (0..lines.len())
        .map(|n| match is_row(n) {
            true => cells(lines[n]).iter().zip(&columns).map(|it| cell_of(it.0, it.1, n - head)).collect(),
            false => Vec::new(),
        })
        .collect();
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max();
    let widths: Vec<usize> = (0..columns.len()).map(|column| width(column).unwrap_or_default()).collect();
    let aligned = |row: &Vec<String>| -> String {
        let cells =
            row.iter().zip(&widths).zip(&columns).map(|((cell, width), column)| match column.as_str() {
                "SERVER" | "TOOLS" | "STATE" => format!("  {cell:<width$}"),
                _ => format!("  {cell:>width$}"),
            });
        cells.collect::<String>().trim_end().to_owned()
    };
    let line = |(line, row): (&&str, &Vec<String>)| if row.is_empty() { line_of(line) } else { aligned(row) };
    lines.iter().zip(&rows).map(|it| line(it) + "\n").collect()
}

/// A cell with the number that everybody has.
fn cell_of(cell: &str, column: &str, row: usize) -> String {
    match column {
        "PID" if cell.parse::<u32>().is_ok() => (4720 + 5 * row).to_string(),
        "SINCE" if cell.ends_with(" s") || cell.ends_with(" min") => "2 min".to_owned(),
        "MEMORY" if cell.ends_with(" MiB") => format!("{} MiB", 380 - 10 * row),
        _ => cell.to_owned(),
    }
}

/// A line that is none of a table, with the pid and the time that everybody has.
fn line_of(line: &str) -> String {
    if let Some((_, error)) = line.split_once(" ago: ") {
        return format!("    last error 2 min ago: {error}");
    }
    let words = line.split(' ').scan("", |before, word| {
        let is_pid = *before == "lspool" && word.starts_with(|it: char| it.is_ascii_digit());
        *before = word;
        let end = if word.ends_with(':') { ":" } else { "" };
        Some(if is_pid { format!("4711{end}") } else { word.to_owned() })
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn documented_screens_match_actual_output() {
    let (stub, sandbox) = (Stub::start(Script::default()), Sandbox::new());
    let session = through_lspool(&sandbox, &stub);
    session.register_tools(&["run_in_terminal", "fetch_ticket"]).expect("the schemas are good");
    let reader = json!({"lspool": {"tools": ["read_file", "list_dir"]}, "conversationId": "reader"});
    for more in [json!({}), reader, tools(&["run_in_terminal"])] {
        let turn = session.create("hello", more);
        session.finish(&turn).expect_success();
    }
    let backends = || session.ok("lspool/status", json!({}))["backends"].clone();
    let before = backends()[1].clone();
    let pid = before["pid"].as_u64().and_then(|it| u32::try_from(it).ok()).expect("it runs");
    session.mark().process(pid).expect("it is there").kill(Signal::KILL);
    wait_until("its death is noticed", || backends()[1]["pid"] != before["pid"]);
    // It starts again when it is needed.
    let turn = session.turn(&json!("reader"), "are you there?", json!({}));
    session.finish(&turn).expect_success();
    let mut screens = Screens::new(&sandbox, &["README.md", "docs/control.md"]);
    screens.show(&["status"], 0);
    screens.show(&["restart", "claude"], 2);
    let json = run(&sandbox, &["status", "--json"]);
    let document: Value = serde_json::from_slice(&json.stdout).expect("it is JSON");
    assert_eq!(document["instances"][0]["backends"].as_array().map(Vec::len), Some(3));
    screens.check();
    assert!(session.shutdown().success());
}
