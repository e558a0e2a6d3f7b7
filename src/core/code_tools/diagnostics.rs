//! Diagnostics of files as they are, and how sure it is that they are.
//!
//! Each server proves in its own way that it speaks of the text that is there: it is asked on the stream that carried
//! the text, it names the version, or it says something after it had taken the text. **Silence proves nothing**, so a
//! file about which a server says nothing is `unknown`.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};

use super::{
    call::{Cx, Step, Stop, document, fail},
    view::Published,
};
use crate::{
    builtin_tools::lsp::{
        Answer, Code, Diagnostic, FileReport, Freshness, Pattern, Position, Range, Severity, Text,
    },
    core::event::{ServerId, Unreadable, Word, WordMatch},
};

/// How long a server may take a text in silence before lspool sends the text again.
const NUDGE: Duration = Duration::from_secs(1);

/// How many files one call asks about.
const MOST_FILES: usize = 200;

/// How often a server may cancel a question to be asked again.
const TRIES: u32 = 20;

/// The command with which typescript-language-server passes questions to tsserver.
pub(super) const TSSERVER: &str = "typescript.tsserverRequest";

/// What one server says of a file.
#[derive(Debug)]
struct Opinion {
    freshness: Freshness,
    why: Option<String>,
    diagnostics: Vec<Diagnostic>,
}

impl Cx<'_> {
    pub(super) fn diagnostics(
        &mut self,
        files: Option<&[String]>,
        least: Severity,
        most: usize,
    ) -> Step<Answer> {
        let are_given = files.is_some();
        let Wanted { mut files, mut notes, unchecked } = self.wanted_files(files)?;
        let mut reports = Vec::new();
        let mut waits = None;
        self.read_all("texts", &files)?;
        if !are_given {
            files = self.existing(files)?;
        }
        // All files at once: servers work on several.
        for file in &files {
            match self.report(file, least) {
                Ok(report) => reports.push(report),
                Err(Stop::Wait) => waits = Some(Stop::Wait),
                Err(Stop::Fail(error)) if files.len() > 1 => reports.push(FileReport {
                    file: self.shown(file),
                    freshness: Freshness::Unknown,
                    why: Some(error.message),
                    diagnostics: Vec::new(),
                }),
                Err(stop) => return Err(stop),
            }
        }
        if let Some(stop) = waits {
            return Err(stop);
        }
        if files.is_empty() && !are_given {
            notes.push("no file has changed since the last call".to_owned());
        }
        let mut answer = FileReport::answer(&reports, most, &notes, self.most_of_text());
        let is_checked = |it: &FileReport| it.freshness != Freshness::Unknown;
        answer.structured["complete"] = (unchecked.is_none() && reports.iter().all(is_checked)).into();
        if let Some(unchecked) = unchecked {
            answer.text = format!("NOT CHECKED: {unchecked}\n{}", answer.text);
            answer.structured["why"] = unchecked.into();
        }
        Ok(answer)
    }

    /// Those of these files that have not been removed.
    fn existing(&mut self, files: Vec<PathBuf>) -> Step<Vec<PathBuf>> {
        let mut existing = Vec::new();
        for file in files {
            if !matches!(self.text_if_readable(&file)?, Err(Unreadable::Missing)) {
                existing.push(file);
            }
        }
        Ok(existing)
    }

    /// The files of a call: paths, or those that fit patterns, or those that have changed.
    fn wanted_files(&mut self, given: Option<&[String]>) -> Step<Wanted> {
        let Some(given) = given else {
            let code = self.code_endings();
            let changed = self.tools.files.changed_since(self.tools.checked).into_iter();
            let is_code =
                |it: &PathBuf| code.iter().any(|ending| it.to_string_lossy().ends_with(ending.as_str()));
            return Ok(Wanted::of(changed.filter(is_code).collect()));
        };
        let (mut files, mut partial) = (BTreeSet::new(), None);
        for one in given {
            let path = match self.path(one.as_str()) {
                Err(Stop::Fail(_)) if Pattern::is_one(one) => None,
                path => Some(path?),
            };
            if !Pattern::is_one(one) {
                files.extend(path);
                continue;
            }
            // A file may have such a name: `app/[id]/page.tsx`.
            if let Some(path) = path
                && self.text_if_readable(&path)?.is_ok()
            {
                files.insert(path);
                continue;
            }
            let found = self.files_like(one)?;
            partial = found.partial.or(partial);
            if found.files.is_empty() && partial.is_none() {
                return fail(Code::NoFile, format!("no file of a language with a server fits {one:?}"));
            }
            files.extend(found.files);
        }
        let mut wanted = Wanted::of(files.into_iter().collect());
        wanted.unchecked = wanted.unchecked.or(partial.map(|it| format!("files that fit a pattern ({it})")));
        Ok(wanted)
    }

    fn code_endings(&self) -> Vec<String> {
        self.tools.views.values().flat_map(super::view::View::code_endings).collect()
    }

    /// The files of the workspace that fit a pattern.
    fn files_like(&mut self, pattern: &str) -> Step<Fitting> {
        let glob = self.pattern(pattern)?;
        let word = Word { text: String::new(), matching: WordMatch::Any, endings: self.code_endings() };
        let seen = self.look("files", Vec::new(), Some(word))?;
        let all = seen.hits.iter().map(|it| it.file.clone());
        let files = all.filter(|it| self.fits(&glob, it)).collect();
        Ok(Fitting { files, partial: seen.partial.clone() })
    }

    /// What all servers of a file say.
    pub(super) fn report(&mut self, file: &Path, least: Severity) -> Step<FileReport> {
        self.text(file)?;
        let servers = self.servers_for(file)?;
        let mut report = FileReport {
            file: self.shown(file),
            freshness: Freshness::Exact,
            why: None,
            diagnostics: Vec::new(),
        };
        let mut waits = false;
        for server in servers {
            let opinion = match self.opinion(server, file) {
                Ok(opinion) => opinion,
                Err(Stop::Wait) => {
                    waits = true;
                    continue;
                }
                Err(Stop::Fail(error)) => Opinion {
                    freshness: Freshness::Unknown,
                    why: Some(error.message),
                    diagnostics: Vec::new(),
                },
            };
            if opinion.freshness > report.freshness {
                (report.freshness, report.why) = (opinion.freshness, opinion.why);
            }
            report.diagnostics.extend(opinion.diagnostics.into_iter().filter(|it| it.severity <= least));
        }
        if waits {
            return Err(Stop::Wait);
        }
        report.diagnostics.sort_by_key(|it| (it.start, it.severity));
        Ok(report)
    }

    /// The diagnostics of one server.
    pub(super) fn report_of(&mut self, server: ServerId, file: &Path) -> Step<Vec<Diagnostic>> {
        self.opinion(server, file).map(|it| it.diagnostics)
    }

    /// What one server says.
    fn opinion(&mut self, server: ServerId, file: &Path) -> Step<Opinion> {
        // Opens it, and is answered after the server has taken the text.
        let (_, text) = self.outline_if_any(server, file)?;
        let loading = self.ready(&format!("ready {}", server.number()), server)?;
        let unseen = self.unseen(server)?;
        let opinion = if self.view(server).offers("diagnosticProvider", "textDocument/diagnostic") {
            self.pulled(server, file, &text)?
        } else if self.view(server).runs(TSSERVER) {
            self.of_tsserver(server, file, &text)?
        } else {
            self.published(server, file, &text)?
        };
        Ok(match loading.or(unseen) {
            // What it says of an unfinished project, or of other files as they were, may be wrong.
            Some(why) if opinion.freshness < Freshness::Unknown => {
                Opinion { freshness: Freshness::Unknown, why: Some(why), ..opinion }
            }
            Some(_) | None => opinion,
        })
    }

    fn version(&self, server: ServerId, file: &Path) -> i64 {
        self.view(server).open.get(file).map_or(0, |it| it.version)
    }

    /// Asks on the stream that carried the text: order is the proof.
    fn pulled(&mut self, server: ServerId, file: &Path, text: &Text) -> Step<Opinion> {
        const SERVER_CANCELLED: i64 = -32802;
        let version = self.version(server, file);
        for n in 0..TRIES {
            let key = format!("pull {n} {version} {} {}", server.number(), file.display());
            match self.ask(&key, server, "textDocument/diagnostic", &document(file))? {
                Ok(answer) if answer["items"].is_array() => {
                    let diagnostics = read_all(&answer["items"], text);
                    return Ok(Opinion { freshness: Freshness::Exact, why: None, diagnostics });
                }
                Ok(_) => return Ok(self.silent(server, "gave no list of diagnostics")),
                Err(error) if error.code == SERVER_CANCELLED && !self.is_late() => {
                    let what = format!("{} is busy", self.view(server).name);
                    self.pause(&format!("{key} again"), Duration::from_millis(200), &what)?;
                }
                Err(error) => return Ok(self.silent(server, &format!("failed: {}", error.message))),
            }
        }
        Ok(self.silent(server, "cancelled the question again and again"))
    }

    fn silent(&self, server: ServerId, what: &str) -> Opinion {
        let why = format!("{} {what}", self.view(server).name);
        Opinion { freshness: Freshness::Unknown, why: Some(why), diagnostics: Vec::new() }
    }

    /// Asks tsserver itself: typescript-language-server says nothing of a file that stays without errors.
    fn of_tsserver(&mut self, server: ServerId, file: &Path, text: &Text) -> Step<Opinion> {
        let version = self.version(server, file);
        let commands = ["syntacticDiagnosticsSync", "semanticDiagnosticsSync", "suggestionDiagnosticsSync"];
        let mut diagnostics = Vec::new();
        let mut waits = false;
        for command in commands {
            let key = format!("{command} {version} {}", file.display());
            let arguments = json!([command, {"file": file.to_string_lossy()}]);
            let params = json!({"command": TSSERVER, "arguments": arguments});
            let answer = match self.ask(&key, server, "workspace/executeCommand", &params) {
                Ok(answer) => answer,
                Err(Stop::Wait) => {
                    waits = true;
                    continue;
                }
                Err(stop) => return Err(stop),
            };
            match answer {
                Ok(answer) if answer["body"].is_array() => {
                    let all = answer["body"].as_array().into_iter().flatten();
                    diagnostics.extend(all.filter_map(|it| of_tsserver(it, text)));
                }
                Ok(answer) => {
                    let why = answer["message"].as_str().unwrap_or("it gave no list").to_owned();
                    return Ok(self.silent(server, &format!("could not check it: {why}")));
                }
                Err(error) => return Ok(self.silent(server, &format!("failed: {}", error.message))),
            }
        }
        if waits {
            return Err(Stop::Wait);
        }
        Ok(Opinion { freshness: Freshness::Exact, why: None, diagnostics })
    }

    /// Waits for what the server publishes by itself.
    fn published(&mut self, server: ServerId, file: &Path, text: &Text) -> Step<Opinion> {
        // After the barrier, which the server answers only after it has read all earlier messages.
        let barrier = self.barrier(server, file)?;
        let since = self.since(&format!("published since {} {}", server.number(), file.display()));
        let now = self.now();
        let view = self.view(server);
        let name = view.name.clone();
        let Some(opened) = view.open.get(file) else {
            return Ok(self.silent(server, "has closed it: too many files are open"));
        };
        let (version, told, is_first) = (opened.text_version, opened.told, opened.is_first_text);
        let is_own_last = view.last_change == told;
        let published = view.published(file).cloned();
        let opinion = |freshness, published: &Published| {
            let diagnostics = read_all(&published.items, text);
            Opinion { freshness, why: None, diagnostics }
        };
        if let Some(it) = &published {
            let is_of_version = it.version.is_some_and(|of| of >= version);
            let is_old = it.version.is_some_and(|of| of < version) || it.tick < told;
            // Another document may matter, too.
            if is_of_version && (is_own_last || it.tick > barrier) {
                return Ok(opinion(Freshness::Exact, it));
            }
            let counts = !is_old && (is_of_version || it.tick > barrier || is_first);
            let settled = it.at.max(since) + self.tools.settings.settle;
            if counts && now >= settled {
                return Ok(opinion(Freshness::Settled, it));
            }
            if counts {
                self.wake_at(settled);
            }
        }
        let until = since + self.tools.settings.diagnostics_wait;
        if now >= until || self.is_late() {
            let seconds = now.saturating_duration_since(since).as_secs();
            let why = format!("{name} has said nothing of this text within {seconds} s");
            let old = published.map_or_else(Vec::new, |it| read_all(&it.items, text));
            return Ok(Opinion { freshness: Freshness::Unknown, why: Some(why), diagnostics: old });
        }
        // A server that publishes before it answers the barrier would stay in doubt.
        let nudge = format!("nudged {} {}", server.number(), file.display());
        if !is_first && now >= since + NUDGE && self.known(&nudge).is_none() {
            self.once(&nudge, |_| true.into());
            self.tools.nudge(self.mux, server, file);
        } else {
            self.wake_at(since + NUDGE);
        }
        self.wake_at(until);
        self.waiting(format!("{name} checks the files"))
    }

    /// When a server has answered about a document, after it got the last change.
    fn barrier(&mut self, server: ServerId, file: &Path) -> Step<u64> {
        if !self.view(server).offers("documentSymbolProvider", "textDocument/documentSymbol") {
            return Ok(u64::MAX);
        }
        let last_change = self.view(server).last_change;
        let key = format!("barrier {last_change} {} {}", server.number(), file.display());
        let (_, at) = self.ask_at(&key, server, "textDocument/documentSymbol", &document(file))?;
        Ok(at)
    }
}

/// The files that fit a pattern.
struct Fitting {
    files: Vec<PathBuf>,
    /// Why there may be more.
    partial: Option<String>,
}

/// What a call is to check.
struct Wanted {
    files: Vec<PathBuf>,
    notes: Vec<String>,
    /// What it cannot check, and why.
    unchecked: Option<String>,
}

impl Wanted {
    fn of(mut files: Vec<PathBuf>) -> Wanted {
        let n_left = files.len().saturating_sub(MOST_FILES);
        files.truncate(MOST_FILES);
        let unchecked = (n_left > 0).then(|| format!("{n_left} more files (one call checks {MOST_FILES})"));
        Wanted { files, notes: Vec::new(), unchecked }
    }
}

/// Reads a list of diagnostics of the protocol.
fn read_all(items: &Value, text: &Text) -> Vec<Diagnostic> {
    items.as_array().into_iter().flatten().filter_map(|it| read(it, text)).collect()
}

fn read(it: &Value, text: &Text) -> Option<Diagnostic> {
    let range = Range::read(&it["range"])?;
    let code = match &it["code"] {
        Value::String(code) => Some(code.clone()),
        Value::Number(code) => Some(code.to_string()),
        other => other["value"].as_str().map(ToOwned::to_owned),
    };
    Some(shown(
        range,
        Severity::of_number(it["severity"].as_u64()),
        code,
        it["source"].as_str().map(ToOwned::to_owned),
        it["message"].as_str()?,
        text,
    ))
}

/// Reads a diagnostic of tsserver, which counts lines and characters from 1.
fn of_tsserver(it: &Value, text: &Text) -> Option<Diagnostic> {
    let place = |key: &str| {
        let number =
            |name: &str| it[key][name].as_u64().and_then(|it| u32::try_from(it.checked_sub(1)?).ok());
        Some(Position { line: number("line")?, character: number("offset")? })
    };
    let severity = match it["category"].as_str() {
        Some("error") => Severity::Error,
        Some("warning") => Severity::Warning,
        Some("message") => Severity::Information,
        Some(_) | None => Severity::Hint,
    };
    let range = Range { start: place("start")?, end: place("end")? };
    let code = it["code"].as_i64().map(|it| it.to_string());
    Some(shown(range, severity, code, Some("typescript".to_owned()), it["text"].as_str()?, text))
}

fn shown(
    range: Range,
    severity: Severity,
    code: Option<String>,
    source: Option<String>,
    message: &str,
    text: &Text,
) -> Diagnostic {
    let place = |it: Position| (it.line + 1, text.characters(it) + 1);
    Diagnostic {
        start: place(range.start),
        end: place(range.end),
        severity,
        code,
        source,
        message: message.to_owned(),
        text: text.line(range.start.line).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diagnostics_of_both_kinds_are_read_with_characters() {
        let text = Text::new("é😀 = x\n");
        let lsp = json!([{
            "range": {"start": {"line": 0, "character": 6}, "end": {"line": 0, "character": 7}},
            "severity": 2, "code": {"value": "rule", "target": "u"}, "source": "s", "message": "m",
        }, {"message": "no range"}]);
        let read = read_all(&lsp, &text);
        let [it] = read.as_slice() else { panic!("{read:?}") };
        assert_eq!((it.start, it.end, it.code.as_deref()), ((1, 6), (1, 7), Some("rule")));
        assert_eq!((it.severity, it.text.as_str()), (Severity::Warning, "é😀 = x"));
        let own = json!({
            "start": {"line": 1, "offset": 7}, "end": {"line": 1, "offset": 8}, "category": "error", "code": 2304,
            "text": "m",
        });
        let it = of_tsserver(&own, &text).unwrap();
        assert_eq!((it.start, it.severity, it.code.as_deref()), ((1, 6), Severity::Error, Some("2304")));
    }
}
