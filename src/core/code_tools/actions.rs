//! Code actions and formatting.

use std::path::Path;

use serde_json::{Value, json};

use super::{
    call::{Cx, Step, Stop, document, fail},
    diagnostics::TSSERVER,
    edits::Planned,
};
use crate::{
    builtin_tools::lsp::{ActionShown, Answer, Code, Position, Range, Text, WorkspaceEdit, actions_answer},
    core::event::ServerId,
};

/// How many actions are shown.
const MOST_ACTIONS: usize = 40;

impl Cx<'_> {
    /// Lists what servers offer for lines of a file.
    pub(super) fn code_actions(
        &mut self,
        given: &str,
        (first, last): (u32, u32),
        kind: Option<&str>,
    ) -> Step<Answer> {
        let file = self.path(given)?;
        let text = self.text(&file)?;
        let shown = self.shown(&file);
        if first >= text.n_lines() {
            return fail(Code::BadArguments, format!("{shown} has {} lines", text.n_lines()));
        }
        let range = whole_lines(&text, first, last);
        let servers = self.servers_for(&file)?;
        let (mut notes, mut actions, mut total, mut names) = (Vec::new(), Vec::new(), 0, Vec::new());
        for server in &servers {
            let server = *server;
            self.outline(server, &file)?;
            if !self.view(server).offers("codeActionProvider", "textDocument/codeAction") {
                continue;
            }
            let name = self.view(server).name.clone();
            if let Some(why) = self.ready(&format!("ready {}", server.number()), server)? {
                notes.push(format!("{why}: there may be more"));
            }
            let found = self.actions_of(server, &file, &text, range, kind)?;
            total += found.len();
            for (n, item) in found.iter().take(MOST_ACTIONS).enumerate() {
                actions.push(self.action(server, &format!("{} {n}", server.number()), item)?);
            }
            names.push(name);
        }
        if names.is_empty() {
            let server = self.server_for(&file)?;
            self.require(server, "codeActionProvider", "textDocument/codeAction")?;
        }
        let lines =
            if first == last { format!("{}", first + 1) } else { format!("{}-{}", first + 1, last + 1) };
        let plural = if total == 1 { "" } else { "s" };
        let title = format!("{total} action{plural} for {shown}:{lines} · {}", names.join(", "));
        Ok(actions_answer(&title, &actions, total, &notes))
    }

    /// The actions of a server, with their edits as far as it gives them.
    fn actions_of(
        &mut self,
        server: ServerId,
        file: &Path,
        text: &Text,
        range: Range,
        kind: Option<&str>,
    ) -> Step<Vec<Value>> {
        let diagnostics: Vec<Value> = self
            .diagnostics_of(server, file, text)?
            .into_iter()
            .filter(|it| {
                Range::read(&it["range"]).is_some_and(|it| it.start <= range.end && range.start <= it.end)
            })
            .collect();
        let mut params = document(file);
        params["range"] = json!({"start": range.start.value(), "end": range.end.value()});
        params["context"] = json!({"diagnostics": diagnostics, "triggerKind": 1});
        if let Some(kind) = kind {
            params["context"]["only"] = json!([kind]);
        }
        let key = format!("actions {}", server.number());
        let answer = self.ask(&key, server, "textDocument/codeAction", &params)??;
        let mut found: Vec<Value> = answer.as_array().cloned().unwrap_or_default();
        let resolves =
            self.view(server).capability(&["codeActionProvider", "resolveProvider"]) == &Value::Bool(true);
        // A command has its name where an action has a command.
        let is_open =
            |it: &Value| it["edit"].is_null() && it["disabled"].is_null() && !it["command"].is_string();
        let mut waits = false;
        for (n, item) in
            found.iter_mut().take(MOST_ACTIONS).enumerate().filter(|(_, it)| resolves && is_open(it))
        {
            match self.ask(&format!("{key} resolve {n}"), server, "codeAction/resolve", item) {
                Ok(Ok(resolved)) if resolved.is_object() => *item = resolved,
                Ok(Ok(_)) => {}
                Ok(Err(error)) => item["disabled"] = json!({"reason": error.message}),
                Err(Stop::Wait) => waits = true,
                Err(stop) => return Err(stop),
            }
        }
        if waits { Err(Stop::Wait) } else { Ok(found) }
    }

    /// An action with the id of its edit.
    fn action(&mut self, server: ServerId, key: &str, item: &Value) -> Step<ActionShown> {
        let text = |key: &str| item[key].as_str().map(ToOwned::to_owned);
        let mut shown = ActionShown {
            title: text("title").unwrap_or_default(),
            kind: text("kind"),
            is_preferred: item["isPreferred"] == true,
            edit: Err(String::new()),
            changes: Vec::new(),
            notes: Vec::new(),
        };
        let command = item["command"].as_str().or_else(|| item["command"]["command"].as_str());
        if let Some(reason) = item["disabled"]["reason"].as_str() {
            shown.edit = Err(reason.to_owned());
            return Ok(shown);
        }
        if item["edit"].is_null() {
            shown.edit = Err(match command {
                Some(command) => format!("it needs the command {command}, which lspool does not run"),
                None => "it changes nothing".to_owned(),
            });
            return Ok(shown);
        }
        let planned = match WorkspaceEdit::read(&item["edit"]) {
            Ok(edit) => self.plan(&format!("action {key}"), server, edit, shown.title.clone()),
            Err(why) => Ok(Err(why)),
        };
        match planned {
            Err(Stop::Wait) => return Err(Stop::Wait),
            Err(Stop::Fail(error)) => shown.edit = Err(error.message),
            Ok(Err(why)) => shown.edit = Err(why),
            Ok(Ok(edit)) => {
                shown.changes = self.changes_shown(&edit.plan, true);
                shown.notes.clone_from(&edit.notes);
                if let Some(command) = command {
                    shown.notes.push(format!("the command {command}, which belongs to it, is not run"));
                }
                shown.edit = Ok(self.keep(key, &std::sync::Arc::new(edit)));
            }
        }
        Ok(shown)
    }

    /// What a server says of a file, as the server itself writes it: actions depend on all of it.
    fn diagnostics_of(&mut self, server: ServerId, file: &Path, text: &Text) -> Step<Vec<Value>> {
        // By this, the server has said what it says of this text.
        let report = self.report_of(server, file)?;
        let view = self.view(server);
        if view.offers("diagnosticProvider", "textDocument/diagnostic") {
            let key = format!("pull for actions {} {}", server.number(), file.display());
            let answer = self.ask(&key, server, "textDocument/diagnostic", &document(file))?;
            return Ok(answer.ok().and_then(|it| it["items"].as_array().cloned()).unwrap_or_default());
        }
        if !view.runs(TSSERVER) {
            let published = view.published(file).and_then(|it| it.items.as_array().cloned());
            return Ok(published.unwrap_or_default());
        }
        // tsserver says it to lspool alone.
        let place = |(line, character): (u32, u32)| text.place(line - 1, character - 1).value();
        let value = |it: crate::builtin_tools::lsp::Diagnostic| {
            let number = it.code.as_ref().and_then(|it| it.parse::<i64>().ok());
            json!({
                "range": {"start": place(it.start), "end": place(it.end)}, "severity": it.severity as u8 + 1,
                "code": number.map_or_else(|| json!(it.code), |it| json!(it)), "source": it.source,
                "message": it.message,
            })
        };
        Ok(report.into_iter().map(value).collect())
    }

    /// Plans to format a file.
    pub(super) fn plan_format(&mut self, given: &str, lines: Option<(u32, u32)>) -> Step<Planned> {
        let file = self.path(given)?;
        let text = self.text(&file)?;
        let shown = self.shown(&file);
        let (provider, method) = match lines {
            None => ("documentFormattingProvider", "textDocument/formatting"),
            Some(_) => ("documentRangeFormattingProvider", "textDocument/rangeFormatting"),
        };
        let servers = self.servers_for(&file)?;
        for server in &servers {
            self.outline(*server, &file)?;
        }
        let able = servers.iter().copied().find(|it| self.view(*it).offers(provider, method));
        let server = able.unwrap_or(servers[0]);
        self.require(server, provider, method)?;
        let mut params = document(&file);
        params["options"] = options(&text);
        if let Some((first, last)) = lines {
            if first >= text.n_lines() {
                return fail(Code::BadArguments, format!("{shown} has {} lines", text.n_lines()));
            }
            let range = whole_lines(&text, first, last);
            params["range"] = json!({"start": range.start.value(), "end": range.end.value()});
        }
        let answer = self.ask("format", server, method, &params)??;
        let name = self.view(server).name.clone();
        match WorkspaceEdit::of_file(&file, &answer) {
            Ok(edit) => self.plan("formatted", server, edit, format!("format {shown} with {name}")),
            Err(why) => fail(Code::Refused, format!("lspool does not understand the edit of {name}: {why}")),
        }
    }
}

fn whole_lines(text: &Text, first: u32, last: u32) -> Range {
    let last = last.min(text.n_lines().saturating_sub(1));
    let end = text.place(last, u32::MAX);
    Range { start: Position { line: first, character: 0 }, end }
}

/// How the text is indented.
fn options(text: &Text) -> Value {
    let (mut tabs, mut spaces, mut least) = (0_usize, 0_usize, usize::MAX);
    for line in (0..text.n_lines()).map(|it| text.line(it)) {
        let n = line.bytes().take_while(|it| *it == b' ').count();
        if line.starts_with('\t') {
            tabs += 1;
        } else if n > 1 && n < line.len() && !line.trim_start().starts_with('*') {
            (spaces, least) = (spaces + 1, least.min(n));
        }
    }
    let size = if spaces == 0 { 4 } else { least.clamp(2, 8) };
    json!({"tabSize": size, "insertSpaces": spaces >= tabs})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indentation_is_taken_from_the_text() {
        let of = |text: &str| options(&Text::new(text));
        assert_eq!(of("a {\n  b\n    c\n}\n"), json!({"tabSize": 2, "insertSpaces": true}));
        assert_eq!(of("a {\n\tb\n}\n"), json!({"tabSize": 4, "insertSpaces": false}));
        assert_eq!(of("/*\n * x\n */\nif:\n    b\n"), json!({"tabSize": 4, "insertSpaces": true}));
        assert_eq!(of(""), json!({"tabSize": 4, "insertSpaces": true}));
    }
}
