//! Questions of lspool to the user at a terminal: may a worker run this?
//!
//! Asks one question at a time. Confirmations are the only questions to a person.
//!
//! - **An answer is for the question that was shown**: a line typed before the question answers nothing.
//! - All of a command is shown, and nothing in it can look like a text of lspool, because each row is indented.

use std::{
    collections::VecDeque,
    fmt::Write as _,
    io::{self, BufRead as _, IsTerminal as _},
};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{
    agents::TERMINAL,
    builtin_tools::bare,
    cli::screen::Screen,
    rpc::{RawId, member, text},
    shell::os::terminal,
    util::text::plain,
};

/// What workers may do if it needs a confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum May {
    /// Everything.
    All,
    /// Only what the user allows at the terminal.
    Ask,
    /// Nothing, because there is no terminal.
    Nothing,
}

/// The answer to a question: its id and the result.
pub(super) type Answer = (RawId, Value);

/// The waiting questions.
#[derive(Debug)]
pub(super) struct Questions {
    may: May,
    waiting: VecDeque<Question>,
    /// The question on the screen.
    asked: Option<Question>,
    /// How many were refused.
    n_refused: usize,
    /// Workers of whom one was refused.
    refused: Vec<String>,
    /// Lines that are typed, once somebody reads them.
    lines: Option<mpsc::UnboundedReceiver<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Question {
    id: RawId,
    /// The title of the confirmation.
    title: String,
    /// The subject of the confirmation.
    what: String,
    /// The worker who wants it.
    worker: Option<String>,
    /// The last answer to it was none.
    is_unclear: bool,
}

impl Questions {
    pub(super) fn new(may: May) -> Questions {
        Questions {
            may,
            waiting: VecDeque::new(),
            asked: None,
            n_refused: 0,
            refused: Vec::new(),
            lines: None,
        }
    }

    /// Adds a confirmation.
    pub(super) fn add(&mut self, id: RawId, params: &[u8]) {
        self.waiting.push_back(question(id, params));
    }

    /// How many commands were refused.
    pub(super) fn n_refused(&self) -> usize {
        self.n_refused
    }

    /// The workers of whom a command was refused since this was last asked.
    pub(super) fn take_refused(&mut self) -> Vec<String> {
        std::mem::take(&mut self.refused)
    }

    /// Whether the question that is asked stands on the screen already.
    pub(super) fn is_repeated(&self) -> bool {
        self.asked.as_ref().is_some_and(|it| it.is_unclear)
    }

    /// Whether somebody thinks about one.
    pub(super) fn is_asking(&self) -> bool {
        self.asked.is_some()
    }

    /// The answers that need no person, each with a note for the user.
    pub(super) fn decide(&mut self) -> Vec<(RawId, Value, Option<String>)> {
        let (result, note) = match self.may {
            May::Ask => return Vec::new(),
            May::All => (accepted(), None),
            May::Nothing => {
                let note = "was refused: without a terminal, allow it with --yes, or with `allow` in the \
                            configuration";
                (refused(), Some(note))
            }
        };
        if note.is_some() {
            self.n_refused += self.waiting.len();
            self.refused.extend(self.waiting.iter().filter_map(|it| it.worker.clone()));
        }
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        waiting
            .map(|it| {
                let note = note.map(|note| format!("{}\n{note}", it.text(NARROW)));
                (it.id, result.clone(), note)
            })
            .collect()
    }

    /// Gets the text of the next question, unless one is on the screen.
    pub(super) fn next(&mut self, screen: Screen) -> Option<String> {
        if self.asked.is_some() || self.may != May::Ask {
            return None;
        }
        let it = self.waiting.pop_front()?;
        let lines = self.lines.get_or_insert_with(read_lines);
        // These lines were typed before the question.
        while lines.try_recv().is_ok() {}
        if io::stdin().is_terminal() {
            terminal::flush_input();
        }
        if it.is_unclear {
            // It stands above the next text.
            self.asked = Some(it);
            return Some("Please answer y, n or a: ".to_owned());
        }
        let (columns, rows) = screen.size.unwrap_or((NARROW, usize::MAX));
        let mut shown = it.text(columns);
        let n_lines = shown.lines().count();
        if n_lines + 3 > rows {
            write!(shown, "\n[{n_lines} lines: scroll up to read them all]").unwrap_or_default();
        }
        self.asked = Some(it);
        Some(format!("{shown}\nAllow it? [y]es, [n]o, [a]ll from now on: "))
    }

    /// Withdraws a question. Returns whether it was on the screen, or `None` if it is unknown.
    pub(super) fn withdraw(&mut self, id: &RawId) -> Option<bool> {
        if self.asked.as_ref().is_some_and(|it| it.id == *id) {
            self.asked = None;
            return Some(true);
        }
        let at = self.waiting.iter().position(|it| it.id == *id)?;
        self.waiting.remove(at).map(|_| false)
    }

    /// Waits for the user's answer. `Some(None)`: the answer was unclear, so lspool asks again.
    pub(super) async fn answer(&mut self) -> Option<Option<Answer>> {
        let (Some(_), Some(lines)) = (&self.asked, &mut self.lines) else {
            return std::future::pending().await;
        };
        // The end of the input means no.
        let line = lines.recv().await.unwrap_or_else(|| "n".to_owned());
        Some(self.understand(&line))
    }

    fn understand(&mut self, line: &str) -> Option<Answer> {
        let asked = self.asked.take()?;
        let result = match line.trim().to_lowercase().as_str() {
            "y" | "yes" => accepted(),
            "a" | "all" => {
                self.may = May::All;
                accepted()
            }
            "n" | "no" => {
                self.n_refused += 1;
                self.refused.extend(asked.worker.clone());
                refused()
            }
            _ => {
                self.waiting.push_front(Question { is_unclear: true, ..asked });
                return None;
            }
        };
        Some((asked.id, result))
    }
}

fn accepted() -> Value {
    json!([{"result": "accept"}, null])
}

pub(super) fn refused() -> Value {
    json!([{"result": "dismiss"}, null])
}

/// The columns of an unknown screen.
const NARROW: usize = 80;

/// The indent of each row of a command.
const INDENT: &str = "  ";

impl Question {
    /// The question, in rows of at most `columns`.
    fn text(&self, columns: usize) -> String {
        let mut text = rows(&self.title, columns, INDENT).join("\n").trim_start().to_owned();
        for row in rows(&self.what, columns, INDENT) {
            text.push('\n');
            text.push_str(&row);
        }
        text
    }
}

/// Breaks a text into rows that a terminal does not break.
fn rows(text: &str, columns: usize, indent: &str) -> Vec<String> {
    // Some letters take two columns, and a tab up to eight. Which letters depends on the terminal, and a broken row
    // could look like a text of lspool. So all characters that are not ASCII count twice.
    let width = |it: char| match it {
        '\t' => 8,
        it if it.is_ascii() => 1,
        _ => 2,
    };
    let most = columns.saturating_sub(indent.len()).max(16);
    let mut all = Vec::new();
    for line in text.lines() {
        let (mut row, mut taken) = (indent.to_owned(), 0);
        for it in line.chars() {
            if taken + width(it) > most {
                all.push(std::mem::replace(&mut row, indent.to_owned()));
                taken = 0;
            }
            row.push(it);
            taken += width(it);
        }
        all.push(row);
    }
    all
}

/// Reads the confirmation of a tool.
fn question(id: RawId, params: &[u8]) -> Question {
    // A character that looks like a space but is none for a shell must be visible.
    let seen = |it: &str| {
        plain(it).replace(|c: char| c.is_whitespace() && !matches!(c, ' ' | '\t' | '\n'), "\u{fffd}")
    };
    let get = |path: &[&str]| text(params, path).map(|it| seen(&it)).filter(|it| !it.trim().is_empty());
    let name = get(&["name"]).unwrap_or_else(|| "a tool".to_owned());
    // The title names the worker.
    let mut title = get(&["title"]).unwrap_or_else(|| format!("A worker wants to use {name}"));
    // Another tool may have an input called `command`.
    let is_command = bare(&name) == TERMINAL;
    if let Some((worker, _)) = title.split_once(": ").filter(|(it, _)| is_command && !it.contains(' ')) {
        title = format!("{worker} wants to run:");
    }
    let reason = get(&["input", "explanation"]).filter(|_| is_command);
    let command = get(&["input", "command"]).filter(|_| is_command);
    let command = command.map(|it| it + &reason.map(|it| format!("\nreason: {it}")).unwrap_or_default());
    let what = command.unwrap_or_else(|| {
        let input = member(params, "input").map(|it| seen(&String::from_utf8_lossy(&params[it])));
        let parts: Vec<String> = get(&["message"]).into_iter().chain(input).collect();
        parts.join("\n")
    });
    let worker = text(params, &["lspool", "agent"]);
    Question { id, title, what, worker, is_unclear: false }
}

/// Reads lines in a thread: a read of a terminal cannot be cancelled, and ends with the process.
fn read_lines() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            if line.ok().is_none_or(|it| sender.send(it).is_err()) {
                return;
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCREEN: Screen = Screen { size: Some((80, 24)), is_colored: false };

    fn asked(may: May) -> Questions {
        let mut it = Questions::new(may);
        for id in 1..4_u64 {
            let params = json!({
                "name": "run_in_terminal", "title": "coder-1: Run it?", "input": {"command": "make\u{1b}[2J\ntest"},
                "lspool": {"agent": "coder-1"},
            });
            it.add(RawId::from(id), params.to_string().as_bytes());
        }
        it
    }

    #[test]
    fn questions_are_asked_one_by_one() {
        let mut it = asked(May::Ask);
        it.lines = Some(mpsc::unbounded_channel().1);
        assert!(it.decide().is_empty());
        let question = it.next(SCREEN).unwrap();
        assert_eq!(
            question,
            "coder-1 wants to run:\n  make\u{fffd}[2J\n  test\nAllow it? [y]es, [n]o, [a]ll from now on: "
        );
        assert_eq!(it.next(SCREEN), None);
        assert_eq!(it.understand("what?"), None);
        let again = it.next(SCREEN).unwrap();
        assert_eq!(again, "Please answer y, n or a: ");
        assert!(it.is_repeated());
        assert_eq!(it.understand(" No\n"), Some((RawId::from(1), refused())));
        assert_eq!(it.take_refused(), ["coder-1"]);
        assert!(!it.is_asking() && it.next(SCREEN).is_some());
        assert_eq!(it.understand("a"), Some((RawId::from(2), accepted())));
        assert_eq!(it.next(SCREEN), None);
        assert_eq!(it.decide(), [(RawId::from(3), accepted(), None)]);
    }

    #[test]
    fn line_typed_before_question_is_ignored() {
        let mut it = asked(May::Ask);
        let (sender, lines) = mpsc::unbounded_channel();
        it.lines = Some(lines);
        sender.send("a".to_owned()).unwrap();
        assert!(it.next(SCREEN).is_some());
        assert!(it.lines.as_mut().unwrap().try_recv().is_err());
    }

    #[test]
    fn withdrawn_question_takes_no_answer() {
        let mut it = asked(May::Ask);
        it.lines = Some(mpsc::unbounded_channel().1);
        it.next(SCREEN).unwrap();
        assert_eq!(it.withdraw(&RawId::from(2)), Some(false));
        assert_eq!(it.withdraw(&RawId::from(1)), Some(true));
        assert_eq!(it.withdraw(&RawId::from(1)), None);
        assert_eq!(it.understand("a"), None);
        assert_eq!(it.may, May::Ask, "it was said to nothing");
        it.next(SCREEN).unwrap();
        assert_eq!(it.understand("n"), Some((RawId::from(3), refused())));
        assert_eq!(it.n_refused(), 1);
    }

    /// The text for a call on a screen of 20 columns.
    fn shown(params: &Value) -> String {
        question(RawId::from(1), params.to_string().as_bytes()).text(20)
    }

    #[test]
    fn question_shows_whole_command_without_control_characters() {
        let of = |command: &str| {
            shown(&json!({"name": "copilot.run_in_terminal", "title": "t", "input": {"command": command}}))
        };
        assert_eq!(of("a\u{202e}b\u{200b}c\u{a0}d\u{2028}e"), "t\n  a\u{fffd}b\u{fffd}c\u{fffd}d\u{fffd}e");
        let padded = of(&format!("{}Allow it?", " ".repeat(90)));
        assert!(padded.lines().skip(1).all(|it| it.starts_with("  ") && it.len() <= 20), "{padded}");
        assert_eq!(of(&"ä".repeat(20)).lines().count(), 4, "a row has room for nine");

        let mut it = Questions::new(May::Ask);
        it.lines = Some(mpsc::unbounded_channel().1);
        let long = json!({"name": "run_in_terminal", "input": {"command": "x\n".repeat(200)}});
        it.add(RawId::from(1), long.to_string().as_bytes());
        assert!(it.next(SCREEN).unwrap().contains("\n[201 lines: scroll up to read them all]\nAllow it?"));
    }

    #[test]
    fn command_argument_of_other_tool_is_shown_as_json() {
        let shown =
            shown(&json!({"name": "mcp", "title": "t", "message": "m", "input": {"command": "ls", "x": 1}}));
        assert_eq!(shown, "t\n  m\n  {\"command\":\"ls\",\"x\n  \":1}");
    }

    #[test]
    fn questions_are_refused_when_nobody_can_answer() {
        let mut it = asked(May::Nothing);
        let decided = it.decide();
        assert!(decided.iter().all(|(_, result, note)| *result == refused() && note.is_some()));
        assert_eq!(it.n_refused(), decided.len());
        assert_eq!(decided.len(), 3);
        assert!(asked(May::All).decide().iter().all(|(_, result, _)| *result == accepted()));
    }
}
