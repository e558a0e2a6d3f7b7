//! What a call answers: a text for a model, and the same as values for programs.
//!
//! The names of members are fixed: clients read them word for word.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

/// The longest text of an answer, in bytes.
pub(super) const MOST_OF_TEXT: usize = 16 << 10;
/// How much of a line is shown, in characters.
const MOST_OF_LINE: usize = 200;

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether there is a result.
    pub ok: bool,
    /// For a model.
    pub text: String,
    /// For a program.
    pub structured: Value,
}

impl Answer {
    /// The answer as a JSON object.
    pub fn value(&self) -> Value {
        json!({"ok": self.ok, "text": self.text, "structured": self.structured})
    }

    /// Says before anything else that it may be wrong, and why.
    pub fn doubt(&mut self, why: &str) {
        if !self.ok {
            return;
        }
        self.text = format!("INCOMPLETE: {why}\n{}", self.text);
        self.structured["complete"] = false.into();
        if self.structured["why"].is_null() {
            self.structured["why"] = why.into();
        }
    }

    /// Reads such an object.
    pub fn read(value: &Value) -> Option<Answer> {
        Some(Answer {
            ok: value["ok"].as_bool()?,
            text: value["text"].as_str()?.to_owned(),
            structured: value.get("structured")?.clone(),
        })
    }
}

/// Why a call has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The arguments are wrong.
    BadArguments,
    /// There is no such file, or it is not text.
    NoFile,
    /// A path is outside the workspace.
    OutsideWorkspace,
    /// lspool does not do it.
    Refused,
    /// No symbol has this name.
    NoSymbol,
    /// Several have.
    Ambiguous,
    /// No server is there for the language.
    NoServer,
    /// The server cannot do it.
    NotSupported,
    /// The server does not run.
    ServerFailed,
    /// The server reports an error.
    ServerError,
    /// The server loads its project.
    Loading,
    /// The time is over.
    Timeout,
    /// Files have changed meanwhile.
    Changed,
    /// The cursor is unknown.
    Expired,
    /// The caller has cancelled it.
    Cancelled,
}

impl Code {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Code::BadArguments => "bad_arguments",
            Code::NoFile => "no_file",
            Code::OutsideWorkspace => "outside_workspace",
            Code::Refused => "refused",
            Code::NoSymbol => "no_symbol",
            Code::Ambiguous => "ambiguous",
            Code::NoServer => "no_server",
            Code::NotSupported => "not_supported",
            Code::ServerFailed => "server_failed",
            Code::ServerError => "server_error",
            Code::Loading => "loading",
            Code::Timeout => "timeout",
            Code::Changed => "changed",
            Code::Expired => "expired",
            Code::Cancelled => "cancelled",
        }
    }
}

/// A symbol that may be meant. It can be handed back word for word.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// The file, as it is shown.
    pub file: String,
    /// Its line, from 1.
    pub line: u32,
    /// Its name path.
    pub symbol: String,
    /// Its kind.
    pub kind: &'static str,
}

/// How many candidates an error has.
const MOST_CANDIDATES: usize = 10;

/// A failure, for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolError {
    /// What it is.
    pub code: Code,
    /// What happened and what to do.
    pub message: String,
    /// Whether asking again may help.
    pub retry: bool,
    /// What may be meant.
    pub candidates: Vec<Candidate>,
}

impl ToolError {
    /// A failure that stays if the call is repeated, except those that say otherwise.
    pub fn new(code: Code, message: impl Into<String>) -> ToolError {
        let retry =
            matches!(code, Code::Loading | Code::Timeout | Code::Changed | Code::Expired | Code::Cancelled);
        ToolError { code, message: message.into(), retry, candidates: Vec::new() }
    }

    /// Adds what may be meant.
    #[must_use]
    pub fn with(mut self, candidates: Vec<Candidate>) -> ToolError {
        self.candidates = candidates;
        self
    }

    /// The answer.
    pub fn answer(&self) -> Answer {
        let shown = &self.candidates[..self.candidates.len().min(MOST_CANDIDATES)];
        let mut text = format!("{}: {}", self.code.word(), self.message);
        for it in shown {
            write!(text, "\n  {} ({}) {}:{}", it.symbol, it.kind, it.file, it.line).unwrap_or_default();
        }
        if shown.len() < self.candidates.len() {
            write!(text, "\n  … {} more", self.candidates.len() - shown.len()).unwrap_or_default();
        }
        let candidates: Vec<Value> = shown
            .iter()
            .map(|it| json!({"symbol": it.symbol, "file": it.file, "line": it.line, "kind": it.kind}))
            .collect();
        let mut error = json!({"code": self.code.word(), "message": self.message, "retry": self.retry});
        if !candidates.is_empty() {
            error["candidates"] = candidates.into();
            error["n_candidates"] = self.candidates.len().into();
        }
        Answer { ok: false, text, structured: json!({"ok": false, "error": error}) }
    }
}

/// A place in an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceShown {
    /// The file, as it is shown.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The character, from 1.
    pub character: u32,
    /// Its line and those around it: number from 1, and text.
    pub lines: Vec<(u32, String)>,
    /// The symbol that it is in.
    pub within: Option<String>,
    /// Whether it is the declaration.
    pub is_declaration: bool,
}

impl PlaceShown {
    fn text(&self) -> &str {
        self.lines.iter().find(|(line, _)| *line == self.line).map_or("", |(_, text)| text)
    }

    fn value(&self) -> Value {
        let mut value = json!({
            "file": self.file, "line": self.line, "character": self.character,
            "text": clipped(self.text(), self.character), "declaration": self.is_declaration,
        });
        if let Some(within) = &self.within {
            value["in"] = within.clone().into();
        }
        value
    }
}

/// A part of a line around a character, counted from 1, without the blanks at its beginning.
pub fn clipped(line: &str, character: u32) -> String {
    let trimmed = line.trim();
    if trimmed.chars().count() <= MOST_OF_LINE {
        return visible(trimmed);
    }
    let at = character.saturating_sub(1) as usize;
    let first = at.saturating_sub(MOST_OF_LINE / 2);
    let part: String = line.chars().skip(first).take(MOST_OF_LINE).collect();
    let before = if first > 0 { "…" } else { "" };
    visible(&format!("{before}{}…", part.trim()))
}

/// A text whose control and direction characters can be seen.
pub fn visible(text: &str) -> String {
    let is_odd = |it: char| {
        (it.is_control() && it != '\n' && it != '\t')
            || matches!(it, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(is_odd) {
        return text.to_owned();
    }
    text.chars().map(|it| if is_odd(it) { it.escape_unicode().to_string() } else { it.to_string() }).collect()
}

/// What was found in several files, with what is known of the rest.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The first words: "91 references to pairwise (function, a.py:3)".
    pub title: String,
    /// Members of the answer that only this tool has, such as `symbol`.
    pub members: Map<String, Value>,
    /// The member with the places.
    pub name: &'static str,
    /// The places of this page, in their order.
    pub places: Vec<PlaceShown>,
    /// How many there are.
    pub total: usize,
    /// Whether there may be more than the server has said, and why.
    pub incomplete: Option<String>,
    /// The servers with their states.
    pub servers: Vec<(String, &'static str)>,
    /// For the reader.
    pub notes: Vec<String>,
    /// The cursor of the place of this number.
    pub cursor: Option<(String, usize)>,
    /// The call that shows the next page, but for its cursor.
    pub next_call: Option<(&'static str, Value)>,
    /// The size of the text, in bytes.
    pub most_of_text: usize,
}

impl Found {
    /// Writes the answer, with as many places as fit.
    pub fn answer(self) -> Answer {
        let state = match &self.incomplete {
            None => "complete".to_owned(),
            Some(why) => format!("INCOMPLETE: {why}"),
        };
        let head = match self.incomplete.is_some() {
            true => format!("{state}\n{}", self.title),
            false => format!("{} · {state}", self.title),
        };
        let mut text = match self.servers.as_slice() {
            [] => head,
            servers => {
                let names: Vec<&str> = servers.iter().map(|(name, _)| name.as_str()).collect();
                format!("{head} · {}", names.join(", "))
            }
        };
        for note in &self.notes {
            write!(text, "\nnote: {note}").unwrap_or_default();
        }
        let (mut shown, mut file, mut last) = (Vec::new(), "", 0);
        for place in &self.places {
            let mut part = String::new();
            if place.file != file {
                write!(part, "\n{}", place.file).unwrap_or_default();
                last = 0;
            }
            for (line, content) in &place.lines {
                // Windows that touch are one.
                if *line <= last {
                    continue;
                }
                if last > 0 && *line > last + 1 && place.lines.len() > 1 {
                    part += "\n     …";
                }
                let is_hit = *line == place.line;
                let shown = if is_hit { clipped(content, place.character) } else { clipped(content, 1) };
                write!(part, "\n{line:>6}  {shown}").unwrap_or_default();
                if is_hit && let Some(within) = &place.within {
                    write!(part, "    in {within}").unwrap_or_default();
                }
                last = *line;
            }
            if place.lines.is_empty() {
                write!(part, "\n{:>6}", place.line).unwrap_or_default();
            }
            if text.len() + part.len() > self.most_of_text && !shown.is_empty() {
                break;
            }
            text += &part;
            file = &place.file;
            shown.push(place.value());
        }
        let mut structured = self.members;
        structured.insert("ok".to_owned(), true.into());
        structured.insert("complete".to_owned(), self.incomplete.is_none().into());
        if let Some(why) = &self.incomplete {
            structured.insert("why".to_owned(), why.clone().into());
        }
        structured.insert("total".to_owned(), self.total.into());
        structured.insert("notes".to_owned(), self.notes.clone().into());
        let first = self.cursor.as_ref().map_or(0, |(_, first)| *first);
        let rest = self.total.saturating_sub(first + shown.len());
        structured.insert("truncated".to_owned(), (rest > 0).into());
        let server = |(name, state): &(String, &'static str)| json!({"name": name, "state": state});
        structured.insert("servers".to_owned(), self.servers.iter().map(server).collect());
        if rest > 0
            && let Some((base, first)) = &self.cursor
        {
            let next = format!("{base}.{}", first + shown.len());
            structured.insert("next".to_owned(), next.clone().into());
            match self.next_call {
                Some((tool, mut arguments)) => {
                    arguments["after"] = next.into();
                    write!(text, "\n{rest} more: {tool} {arguments}").unwrap_or_default();
                }
                None => write!(text, "\n{rest} more: `after` {next}").unwrap_or_default(),
            }
        } else if rest > 0 {
            write!(text, "\n{rest} more: ask for more with `max_results`, or less with a narrower question")
                .unwrap_or_default();
        }
        structured.insert(self.name.to_owned(), shown.into());
        Answer { ok: true, text, structured: structured.into() }
    }
}

/// How sure it is that diagnostics are of the text that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Freshness {
    /// The server has said them of this text.
    Exact,
    /// The server has said something after it had taken this text, and then nothing for a while.
    Settled,
    /// The server has said nothing.
    Unknown,
}

impl Freshness {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Freshness::Exact => "exact",
            Freshness::Settled => "settled",
            Freshness::Unknown => "unknown",
        }
    }
}

/// A diagnostic in an answer. Lines and characters count from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Line and character of the first place.
    pub start: (u32, u32),
    /// Those of the last.
    pub end: (u32, u32),
    /// `error` and so on.
    pub severity: super::Severity,
    /// The rule.
    pub code: Option<String>,
    /// Who says it.
    pub source: Option<String>,
    /// What it says.
    pub message: String,
    /// The line.
    pub text: String,
}

/// What is known of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReport {
    /// The file, as it is shown.
    pub file: String,
    /// How sure it is.
    pub freshness: Freshness,
    /// Why it is not sure.
    pub why: Option<String>,
    /// The diagnostics of at least the wanted severity, by place.
    pub diagnostics: Vec<Diagnostic>,
}

impl FileReport {
    /// The answer about several files, with this many diagnostics and bytes of text at most.
    pub fn answer(reports: &[FileReport], most: usize, notes: &[String], most_of_text: usize) -> Answer {
        let mut text = String::new();
        for it in reports.iter().filter(|it| it.freshness == Freshness::Unknown) {
            writeln!(
                text,
                "NOT CHECKED: {} ({})",
                it.file,
                it.why.as_deref().unwrap_or("no reason is known")
            )
            .unwrap_or_default();
        }
        let total: usize = reports.iter().map(|it| it.diagnostics.len()).sum();
        let checked = reports.iter().filter(|it| it.freshness != Freshness::Unknown).count();
        let count = |severity| {
            reports.iter().flat_map(|it| &it.diagnostics).filter(|it| it.severity == severity).count()
        };
        let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        write!(
            text,
            "{}, {}, {} in {} checked",
            plural(count(super::Severity::Error), "error"),
            plural(count(super::Severity::Warning), "warning"),
            plural(count(super::Severity::Information) + count(super::Severity::Hint), "hint"),
            plural(checked, "file")
        )
        .unwrap_or_default();
        for note in notes {
            write!(text, "\nnote: {note}").unwrap_or_default();
        }
        let mut left = most;
        let mut files = Vec::new();
        for it in reports {
            let mut shown = Vec::new();
            if it.diagnostics.is_empty() || left == 0 {
                files.push(it.value(&shown));
                continue;
            }
            write!(text, "\n{}", it.file).unwrap_or_default();
            if it.freshness == Freshness::Unknown {
                text += " (old, perhaps no longer true)";
            }
            for one in &it.diagnostics {
                let source = one.source.iter().chain(&one.code).cloned().collect::<Vec<_>>().join(" ");
                let message = visible(one.message.trim()).replace('\n', "\n          ");
                let line = format!(
                    "\n{:>6}:{}  {}: {message} [{source}]\n          {}",
                    one.start.0,
                    one.start.1,
                    one.severity.word(),
                    clipped(&one.text, one.start.1)
                );
                if left == 0 || text.len() + line.len() > most_of_text {
                    left = 0;
                    break;
                }
                text += &line;
                shown.push(one.value());
                left -= 1;
            }
            files.push(it.value(&shown));
        }
        let n_shown: usize =
            files.iter().filter_map(|it: &Value| it["diagnostics"].as_array()).map(Vec::len).sum();
        if n_shown < total {
            write!(text, "\n{} more: ask for fewer files, or a higher `severity`", total - n_shown)
                .unwrap_or_default();
        }
        let structured = json!({
            "ok": true, "notes": notes, "truncated": n_shown < total, "total": total, "files": files,
        });
        Answer { ok: true, text, structured }
    }

    fn value(&self, diagnostics: &[Value]) -> Value {
        let mut value = json!({
            "file": self.file, "freshness": self.freshness.word(), "diagnostics": diagnostics,
            "total": self.diagnostics.len(),
        });
        if let Some(why) = &self.why {
            value["why"] = why.clone().into();
        }
        value
    }
}

impl Diagnostic {
    pub(super) fn value(&self) -> Value {
        json!({
            "line": self.start.0, "character": self.start.1, "end_line": self.end.0, "end_character": self.end.1,
            "severity": self.severity.word(), "code": self.code, "source": self.source,
            "message": visible(&self.message), "text": clipped(&self.text, self.start.1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(file: &str, line: u32) -> PlaceShown {
        PlaceShown {
            file: file.to_owned(),
            line,
            character: 3,
            lines: vec![(line, format!("  use {line}"))],
            within: (line == 2).then(|| "main".to_owned()),
            is_declaration: line == 1,
        }
    }

    #[test]
    fn places_are_grouped_by_file_with_what_follows() {
        let found = Found {
            most_of_text: 16 << 10,
            title: "5 references to use (function, a.py:1)".to_owned(),
            name: "references",
            places: vec![place("a.py", 1), place("a.py", 2), place("b.py", 7)],
            total: 5,
            servers: vec![("pyright".to_owned(), "ready")],
            cursor: Some(("r7".to_owned(), 0)),
            next_call: Some(("lsp_references", json!({"symbol": "use"}))),
            ..Found::default()
        };
        let answer = found.clone().answer();
        assert_eq!(
            answer.text,
            "5 references to use (function, a.py:1) · complete · pyright\na.py\n     1  use 1\n     2  use 2    in main\n\
             b.py\n     7  use 7\n2 more: lsp_references {\"symbol\":\"use\",\"after\":\"r7.3\"}"
        );
        assert_eq!(answer.structured["references"][1]["in"], "main");
        assert_eq!(answer.structured["next"], "r7.3");
        assert_eq!(Answer::read(&answer.value()), Some(answer));
        let partial = Found { incomplete: Some("pyright is loading".to_owned()), ..found }.answer();
        assert!(partial.text.starts_with("INCOMPLETE: pyright is loading\n5 references"), "{}", partial.text);
        assert_eq!(partial.structured["complete"], false);
    }

    #[test]
    fn places_beyond_the_budget_are_on_the_next_page() {
        let places: Vec<_> = (1..=1000).map(|it| place(&format!("folder/{it}.py"), it)).collect();
        let found = Found {
            most_of_text: 16 << 10,
            places,
            total: 1000,
            cursor: Some(("r1".to_owned(), 0)),
            name: "references",
            ..Found::default()
        };
        let answer = found.answer();
        assert!(answer.text.len() < (16 << 10) + 200);
        let n = answer.structured["references"].as_array().unwrap().len();
        assert_eq!(answer.structured["next"], format!("r1.{n}"));
    }

    #[test]
    fn unchecked_files_come_first() {
        let report = |file: &str, freshness, why: Option<&str>| FileReport {
            file: file.to_owned(),
            freshness,
            why: why.map(ToOwned::to_owned),
            diagnostics: Vec::new(),
        };
        let reports = [
            report("a.ts", Freshness::Exact, None),
            report("b.ts", Freshness::Unknown, Some("it said nothing")),
        ];
        let answer = FileReport::answer(&reports, 10, &[], 16 << 10);
        assert_eq!(
            answer.text,
            "NOT CHECKED: b.ts (it said nothing)\n0 errors, 0 warnings, 0 hints in 1 file checked"
        );
    }

    #[test]
    fn long_and_odd_lines_are_clipped_and_made_visible() {
        let line = format!("{}needle{}", "x".repeat(500), "y".repeat(500));
        let shown = clipped(&line, 501);
        assert!(shown.contains("needle") && shown.chars().count() <= 202, "{shown}");
        assert_eq!(clipped("  a\u{202e}b ", 1), "a\\u{202e}b");
    }

    #[test]
    fn error_has_ten_candidates_at_most() {
        let candidate =
            |line| Candidate { file: "a.py".to_owned(), line, symbol: "x".to_owned(), kind: "class" };
        let answer =
            ToolError::new(Code::Ambiguous, "several").with((1..=12).map(candidate).collect()).answer();
        assert!(answer.text.ends_with("… 2 more"), "{}", answer.text);
        assert_eq!(answer.structured["error"]["candidates"].as_array().unwrap().len(), 10);
        assert_eq!(answer.structured["error"]["retry"], false);
    }
}
