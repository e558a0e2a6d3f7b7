//! What each tool does, from its arguments to its answer.

use std::{fmt::Write as _, path::PathBuf};

use serde_json::{Map, Value, json};

use super::{
    call::{Cx, Step, Stop, fail, reason},
    places::{Enclosing, Listing, Location, Page, sorted},
    search::SearchFor,
    spanning::{Question, text_only},
    target::{Described, Meant},
};
use crate::{
    builtin_tools::lsp::{
        Answer, Code, DefinitionKind, LspCall, LspTool, Target, ToolError, clipped, kind_name, visible,
    },
    core::event::{ServerId, Unreadable, WordMatch},
};

/// How often a call begins again because its files have changed meanwhile.
const ATTEMPTS: u32 = 3;

/// How much of a symbol's text is shown, in lines.
const MOST_OF_BODY: usize = 400;

/// How many definitions are shown.
const MOST_DEFINITIONS: usize = 50;

/// How much of a hover is shown, in characters.
const MOST_OF_HOVER: usize = 8000;

impl Cx<'_> {
    /// Carries a call out on the files as they are, and again if they have changed meanwhile.
    pub(super) fn carry_out(&mut self, call: &LspCall) -> Step<Answer> {
        let mut result = self.carried_out(call);
        if let Err(Stop::Fail(error)) = &mut result {
            self.doubt_error(error);
        }
        result
    }

    /// Adds what may have been missed to an error that a file that was not seen could prove wrong.
    fn doubt_error(&self, error: &mut ToolError) {
        if !matches!(error.code, Code::NoSymbol | Code::NoFile | Code::Ambiguous) {
            return;
        }
        if let Some(why) = self.missed().filter(|why| !error.message.contains(why)) {
            error.message = format!("{}\nlspool may have missed changes of files: {why}", error.message);
            error.retry = true;
        }
    }

    fn carried_out(&mut self, call: &LspCall) -> Step<Answer> {
        if !self.tools.settings.enabled {
            return fail(Code::Refused, "code tools are off: `enabled = false` in [lsp_tools]");
        }
        if matches!(call, LspCall::Rename { .. } | LspCall::Format { .. } | LspCall::ApplyEdit { .. }) {
            return self.carry_out_edit(call);
        }
        for attempt in 0..ATTEMPTS {
            self.prefix = format!("{attempt}/");
            self.used.clear();
            let sync = self.look("sync", Vec::new(), None)?;
            if let Some(appeared) = self.tools.appeared() {
                return Ok(appeared);
            }
            let tick =
                self.once("tick", |cx| cx.tools.files.last_change().into()).as_u64().unwrap_or_default();
            let mut answer = self.attempt(call)?;
            let after = self.look("after", Vec::new(), None)?;
            let changed = self.tools.files.changed_since(tick);
            let is_outdated = changed.iter().any(|it| self.used.contains(it));
            if is_outdated && self.runs_once(call) {
                answer.doubt("files have changed while the server worked on it");
                return Ok(answer);
            }
            if !is_outdated {
                if let Some(why) = sync.partial.as_ref().or(after.partial.as_ref()) {
                    answer.doubt(&format!("lspool may have missed changes of files: {why}"));
                }
                let is_complete = answer.structured["complete"] == true;
                if is_complete && matches!(call, LspCall::Diagnostics { files: None, .. }) {
                    self.tools.checked = tick;
                }
                return Ok(answer);
            }
        }
        fail(Code::Changed, "the files were changed again and again while lspool looked at them")
    }

    fn attempt(&mut self, call: &LspCall) -> Step<Answer> {
        match call {
            LspCall::Rename { .. } | LspCall::Format { .. } | LspCall::ApplyEdit { .. } => {
                self.carry_out_edit(call)
            }
            LspCall::CodeActions { file, lines, kind } => self.code_actions(file, *lines, kind.as_deref()),
            LspCall::Workspace => Ok(self.workspace()),
            LspCall::WorkspaceSymbols { query, kind, most } => {
                self.symbols_named(query, kind.as_deref(), *most)
            }
            LspCall::DocumentSymbols { file, depth } => self.symbols_of(file, *depth),
            LspCall::Definition { target, kind, body } => self.definition(target, *kind, *body),
            LspCall::References { target, include_declaration, context, most, after, path } => {
                let page = Page { most: *most, context: *context, next_call: None };
                match after {
                    Some(cursor) => self.next_page(cursor, page),
                    None => self.references(target, *include_declaration, path.as_deref(), &page),
                }
            }
            LspCall::Implementations { target, most, after } => {
                let page = Page { most: *most, context: 0, next_call: None };
                match after {
                    Some(cursor) => self.next_page(cursor, page),
                    None => self.implementations(target, &page),
                }
            }
            LspCall::Hover { target } => self.hover(target),
            LspCall::Diagnostics { files, severity, most } => {
                self.diagnostics(files.as_deref(), *severity, *most)
            }
            LspCall::CallHierarchy { target, direction, depth } => self.calls(target, *direction, *depth),
            LspCall::Search { after: Some(cursor), context, most, .. } => {
                self.next_page(cursor, Page { most: *most, context: *context, next_call: None })
            }
            LspCall::Search { query, is_regex, glob, path, context, most, after: None } => {
                let wanted =
                    SearchFor { query, is_regex: *is_regex, glob: glob.as_deref(), path: path.as_deref() };
                self.search(&wanted, &Page { most: *most, context: *context, next_call: None })
            }
            LspCall::Start { target, root } => self.start_raw(target, root.as_deref()),
            LspCall::Request { server, method, params, .. } => self.request_raw(server, method, params),
            LspCall::Stop { server } => self.stop_raw(server),
            LspCall::TypeHierarchy { target, direction, depth } => self.types(target, *direction, *depth),
        }
    }

    fn workspace(&mut self) -> Answer {
        let servers = self.tools.servers(self.now());
        let folders: Vec<String> = self.tools.folders.iter().map(|it| it.display().to_string()).collect();
        let mut text = format!("workspace {}", folders.join(", "));
        for it in &servers {
            let list = |key: &str| {
                let words = it[key].as_array().into_iter().flatten().filter_map(Value::as_str);
                words.collect::<Vec<_>>().join(", ")
            };
            let (name, state) =
                (it["name"].as_str().unwrap_or_default(), it["state"].as_str().unwrap_or_default());
            write!(text, "\n{name}: {state}, for {}\n  can: {}", list("languages"), list("can"))
                .unwrap_or_default();
        }
        let missing = self.tools.unserved();
        for (language, why) in &missing {
            write!(text, "\n{language}: no server ({why})").unwrap_or_default();
        }
        let missing: Map<String, Value> =
            missing.into_iter().map(|(language, why)| (language, why.into())).collect();
        let structured = json!({
            "ok": true, "notes": [], "truncated": false, "total": servers.len(),
            "folders": folders, "servers": servers, "missing": missing,
        });
        Answer { ok: true, text, structured }
    }

    fn symbols_of(&mut self, given: &str, depth: usize) -> Step<Answer> {
        let file = self.path(given)?;
        self.text(&file)?;
        let server = self.server_for(&file)?;
        self.started(server)?;
        self.require(server, "documentSymbolProvider", "textDocument/documentSymbol")?;
        let (outline, _) = self.outline(server, &file)?;
        let shown = self.shown(&file);
        let (mut text, mut symbols) = (String::new(), Vec::new());
        let listed = outline.symbols.iter().filter(|it| it.path.len() <= depth);
        let total = listed.clone().count();
        for it in listed {
            let indent = "  ".repeat(it.path.len() - 1);
            let (first, last) = (it.range.start.line + 1, it.range.end.line + 1);
            let detail = it.detail.as_ref().map_or_else(String::new, |it| format!("  {}", visible(it)));
            let line = format!("\n{first:>6}-{last}  {indent}{} {}{detail}", kind_name(it.kind), it.name());
            if text.len() + line.len() > self.most_of_text() {
                break;
            }
            text += &line;
            symbols.push(json!({
                "symbol": it.name_path(), "kind": kind_name(it.kind), "file": shown, "line": first, "end_line": last,
                "detail": it.detail,
            }));
        }
        let is_cut = symbols.len() < total;
        if is_cut {
            write!(text, "\n{} more: ask with a smaller `depth`", total - symbols.len()).unwrap_or_default();
        }
        let structured = json!({
            "ok": true, "notes": [], "truncated": is_cut, "total": total, "symbols": symbols,
        });
        Ok(Answer { ok: true, text: format!("{total} symbols of {shown}{text}"), structured })
    }

    fn symbols_named(&mut self, query: &str, kind: Option<&str>, most: usize) -> Step<Answer> {
        let last = query.trim().rsplit(['/', '.', ':']).next().unwrap_or_default().to_owned();
        if last.is_empty() {
            return fail(Code::BadArguments, "`query` has no name");
        }
        let named = self.find_named(&last, WordMatch::Part)?;
        let wanted = last.to_lowercase();
        let fits = |name: &str, of: u64| {
            name.to_lowercase().contains(&wanted)
                && kind.is_none_or(|it| it.eq_ignore_ascii_case(kind_name(of)))
        };
        let mut found: Vec<_> =
            named.symbols.iter().filter(|(_, it)| fits(it.symbol.name(), it.symbol.kind)).collect();
        found.sort_by_key(|(_, it)| it.symbol.name().to_lowercase() != wanted);
        let total = found.len();
        let (mut text, mut symbols) = (String::new(), Vec::new());
        for (_, it) in found.into_iter().take(most) {
            let shown = self.shown(&it.file);
            let (first, last) = (it.symbol.range.start.line + 1, it.symbol.range.end.line + 1);
            let line =
                format!("\n  {} ({}) {shown}:{first}", it.symbol.name_path(), kind_name(it.symbol.kind));
            if text.len() + line.len() > self.most_of_text() {
                break;
            }
            text += &line;
            symbols.push(json!({
                "symbol": it.symbol.name_path(), "kind": kind_name(it.symbol.kind), "file": shown, "line": first,
                "end_line": last, "detail": it.symbol.detail,
            }));
        }
        let rest = total - symbols.len();
        if rest > 0 {
            write!(text, "\n{rest} more: ask with a longer `query`").unwrap_or_default();
        }
        let mut notes = named.notes;
        notes.extend(self.tools.unserved().into_iter().map(|(language, why)| {
            format!("{language} has no language server, so its symbols are missing: {why}")
        }));
        let notes_text = as_lines(&notes);
        let head = match &named.partial {
            None => format!("{total} symbols with {last:?} · complete"),
            Some(why) => format!("INCOMPLETE: {why}\n{total} symbols with {last:?}"),
        };
        let mut structured = json!({
            "ok": true, "notes": notes, "truncated": rest > 0, "total": total, "symbols": symbols,
            "complete": named.partial.is_none(),
        });
        if let Some(why) = named.partial {
            structured["why"] = why.into();
        }
        Ok(Answer { ok: true, text: head + &notes_text + &text, structured })
    }

    fn server_state(&self, server: ServerId) -> (String, &'static str) {
        let view = self.view(server);
        (view.name.clone(), view.state_word(self.now()).0)
    }

    /// What is meant, at a server that has loaded its project. Gives why it has not, if so.
    pub(super) fn meant(&mut self, target: &Target) -> Step<(Meant, Option<String>)> {
        let meant = self.resolve(target)?;
        let why = self.ready("ready", meant.server)?;
        let unseen = self.unseen(meant.server)?;
        Ok((meant, why.or(unseen)))
    }

    fn definition(&mut self, target: &Target, kind: DefinitionKind, body: bool) -> Step<Answer> {
        let (meant, loading) = self.meant(target)?;
        let (provider, method, word) = match kind {
            DefinitionKind::Definition => ("definitionProvider", "textDocument/definition", "definition"),
            DefinitionKind::Declaration => ("declarationProvider", "textDocument/declaration", "declaration"),
            DefinitionKind::Type => ("typeDefinitionProvider", "textDocument/typeDefinition", "type"),
        };
        self.require(meant.server, provider, method)?;
        let answer = self.ask(method, meant.server, method, &meant.params())??;
        let places = sorted(Location::read_all(&answer), None);
        let mut notes = meant.notes.clone();
        if let Some(why) = &loading {
            notes.push(format!("{why}: this may change"));
        }
        let mut text = String::new();
        let mut definitions = Vec::new();
        let mut n_gone = 0;
        for place in places.iter().take(MOST_DEFINITIONS) {
            let is_inside = self.is_inside(&place.file);
            let (read, unread) = match is_inside {
                false => (None, None),
                true => match self.text_if_readable(&place.file)? {
                    Ok(read) => (Some(read), None),
                    Err(Unreadable::Missing) => {
                        n_gone += 1;
                        continue;
                    }
                    Err(why) => (None, Some(reason(why))),
                },
            };
            let shown = self.place_shown(place, read.as_deref(), 0, false);
            let mut value = json!({
                "file": shown.file, "line": shown.line, "end_line": shown.line, "character": shown.character,
                "text": shown.lines.first().map(|(_, it)| clipped(it, shown.character)), "external": !is_inside,
            });
            write!(text, "\n{}:{}", shown.file, shown.line).unwrap_or_default();
            if !is_inside {
                text += " (outside the workspace)";
            }
            if let Some(unread) = unread {
                write!(text, " (the file {unread})").unwrap_or_default();
                value["unread"] = unread.into();
            }
            let symbol = match read.is_some() && body {
                true => match self.symbol_at(meant.server, place) {
                    Ok(symbol) => symbol,
                    Err(Stop::Fail(error)) => {
                        notes.push(format!("only the first line is shown: {}", error.message));
                        None
                    }
                    Err(Stop::Wait) => return Err(Stop::Wait),
                },
                false => None,
            };
            match (symbol, read) {
                (Some((first, last)), Some(read)) => {
                    let mut size = 0;
                    let fits = (first..=last).take(MOST_OF_BODY).take_while(|it| {
                        size += read.line(*it).len() + 1;
                        size <= self.most_of_text()
                    });
                    let end = fits.last().unwrap_or(first);
                    let mut whole = visible(&read.lines_of(first, end));
                    if whole.len() > self.most_of_text() {
                        whole = clipped(read.line(first), 1);
                    }
                    (value["line"], value["end_line"]) = ((first + 1).into(), (last + 1).into());
                    write!(text, "-{}\n{whole}", last + 1).unwrap_or_default();
                    if end < last {
                        write!(text, "\n[{} more lines]", last - end).unwrap_or_default();
                    }
                    value["text"] = whole.into();
                }
                _ => {
                    if let Some((_, line)) = shown.lines.first() {
                        write!(text, "  {}", clipped(line, shown.character)).unwrap_or_default();
                    }
                }
            }
            definitions.push(value);
        }
        let name = self.view(meant.server).name.clone();
        if n_gone > 0 {
            notes.push(format!("{name} also names {n_gone} places in files that do not exist"));
        }
        let is_cut = places.len() > MOST_DEFINITIONS;
        if is_cut {
            notes
                .push(format!("{name} names {} places, of which {MOST_DEFINITIONS} are shown", places.len()));
        }
        let head = match definitions.len() {
            0 => format!("{name} knows no {word} of {}", meant.word),
            1 => format!("{word} of {} · {name}", meant.word),
            n => format!("{n} {word}s of {} · {name}", meant.word),
        };
        let notes_text = as_lines(&notes);
        let file = self.shown(&meant.file);
        let structured = json!({
            "ok": true, "notes": notes, "truncated": is_cut, "total": places.len() - n_gone, "definitions": definitions,
            "symbol": {"symbol": meant.word, "kind": "name", "file": file, "line": meant.place.line + 1, "end_line": meant.place.line + 1},
        });
        Ok(Answer { ok: true, text: head + &notes_text + &text, structured })
    }

    /// The lines of the symbol whose name is at a place, or around it.
    fn symbol_at(&mut self, server: ServerId, place: &Location) -> Step<Option<(u32, u32)>> {
        let (outline, _) = self.outline(server, &place.file)?;
        let symbol = outline.at_name(place.range.start).or_else(|| outline.around(place.range.start));
        Ok(symbol.map(|it| (it.range.start.line, it.range.end.line)))
    }

    /// The declaration of what is meant, with a description of it.
    fn declared(&mut self, meant: &Meant) -> Step<(Described, Option<Location>)> {
        let (outline, text) = self.outline_if_any(meant.server, &meant.file)?;
        if outline.at_name(meant.place).is_none()
            && self.view(meant.server).offers("definitionProvider", "textDocument/definition")
        {
            let params = meant.params();
            let answer = self.ask("declared", meant.server, "textDocument/definition", &params)?;
            let places = answer.map(|it| Location::read_all(&it)).unwrap_or_default();
            if let [only] = places.as_slice()
                && self.is_inside(&only.file)
                && self.text_if_readable(&only.file)?.is_ok()
            {
                let there = Meant { file: only.file.clone(), place: only.range.start, ..meant.clone() };
                return Ok((self.describe(&there)?, Some(only.clone())));
            }
        }
        let described = self.describe(meant)?;
        let start = meant.place;
        let length: usize = meant.word.chars().map(char::len_utf16).sum();
        let mut range = crate::builtin_tools::lsp::Range { start, end: start };
        range.end.character += u32::try_from(length).unwrap_or_default();
        let is_there = text.slice(range) == meant.word && outline.at_name(start).is_some();
        Ok((described, is_there.then(|| Location { file: meant.file.clone(), range })))
    }

    fn references(
        &mut self,
        target: &Target,
        declaration: bool,
        path: Option<&str>,
        page: &Page,
    ) -> Step<Answer> {
        let pattern = path.map(|it| self.pattern(it)).transpose()?;
        let (meant, _) = self.meant(target)?;
        self.require(meant.server, "referencesProvider", "textDocument/references")?;
        let (described, declared) = self.declared(&meant)?;
        let mut params = meant.params();
        params["context"] = json!({"includeDeclaration": true});
        let question = Question { key: "references", method: "textDocument/references", params };
        let whole = self.whole(&meant, &question)?;
        let (inside, external): (Vec<_>, Vec<_>) =
            whole.places.into_iter().partition(|it| self.is_inside(&it.file));
        let is_declaration = |it: &Location| {
            declared.as_ref().is_some_and(|of| of.file == it.file && of.range.start == it.range.start)
        };
        let fits = |it: &Location| pattern.as_ref().is_none_or(|pattern| self.fits(pattern, &it.file));
        let (inside, elsewhere): (Vec<_>, Vec<_>) = inside.into_iter().partition(|it| fits(it));
        let places: Vec<Location> =
            inside.into_iter().filter(|it| declaration || !is_declaration(it)).collect();
        let declared = places.iter().find(|it| is_declaration(it)).cloned();
        let places = sorted(places, declared.as_ref());
        let n_files = count_files(&places);
        let plural = if places.len() == 1 { "" } else { "s" };
        let title = format!("{} reference{plural} to {} in {n_files} files", places.len(), described.title());
        let text_files: Vec<String> = whole.text_only.iter().map(|it| self.shown(it)).collect();
        let mut members = Map::new();
        members.insert("symbol".to_owned(), described.value());
        members.insert("external".to_owned(), external.len().into());
        members.insert("text_only".to_owned(), text_only(&text_files));
        let mut notes = meant.notes.clone();
        notes.extend(whole.notes);
        if !external.is_empty() {
            notes.push(format!("{} more are outside the workspace", external.len()));
        }
        if !elsewhere.is_empty() {
            notes.push(format!("{} more are in files that do not fit `path`", elsewhere.len()));
        }
        let listing = Listing {
            title,
            members,
            name: "references",
            places,
            declaration: declared,
            incomplete: whole.incomplete,
            servers: vec![self.server_state(meant.server)],
            notes,
            tick: self.tools.files.last_change(),
            enclosing: Enclosing::Left,
        };
        let mut next = json!({"symbol": described.symbol, "file": described.file});
        if page.context > 0 {
            next["context"] = page.context.into();
        }
        self.first_page(listing, Page { next_call: Some((LspTool::References.name(), next)), ..page.clone() })
    }

    fn implementations(&mut self, target: &Target, page: &Page) -> Step<Answer> {
        let (meant, _) = self.meant(target)?;
        self.require(meant.server, "implementationProvider", "textDocument/implementation")?;
        let (described, declared) = self.declared(&meant)?;
        let params = meant.params();
        let question = Question { key: "implementations", method: "textDocument/implementation", params };
        let whole = self.whole(&meant, &question)?;
        let (inside, external): (Vec<_>, Vec<_>) =
            whole.places.into_iter().partition(|it| self.is_inside(&it.file));
        let places = sorted(inside, declared.as_ref());
        let mut members = Map::new();
        members.insert("symbol".to_owned(), described.value());
        members.insert("external".to_owned(), external.len().into());
        let plural = if places.len() == 1 { "" } else { "s" };
        let listing = Listing {
            title: format!("{} implementation{plural} of {}", places.len(), described.title()),
            members,
            name: "implementations",
            places,
            declaration: declared,
            incomplete: whole.incomplete,
            servers: vec![self.server_state(meant.server)],
            notes: meant.notes.iter().cloned().chain(whole.notes).collect(),
            tick: self.tools.files.last_change(),
            enclosing: Enclosing::Left,
        };
        let next = json!({"symbol": described.symbol, "file": described.file});
        self.first_page(
            listing,
            Page { next_call: Some((LspTool::Implementations.name(), next)), ..page.clone() },
        )
    }

    fn hover(&mut self, target: &Target) -> Step<Answer> {
        let (meant, loading) = self.meant(target)?;
        self.require(meant.server, "hoverProvider", "textDocument/hover")?;
        let answer = self.ask("hover", meant.server, "textDocument/hover", &meant.params())??;
        let told = visible(contents(&answer["contents"]).trim());
        let end = told.char_indices().nth(MOST_OF_HOVER).map_or(told.len(), |(at, _)| at);
        let is_cut = end < told.len();
        let told = told[..end].to_owned();
        let described = self.describe(&meant)?;
        let mut notes = meant.notes.clone();
        if let Some(why) = loading {
            notes.push(format!("{why}: this may change"));
        }
        let name = &self.view(meant.server).name;
        let mut text = match told.is_empty() {
            true => format!("{name} has nothing to say about {}", described.title()),
            false => format!("{} · {name} says, from the code:\n{told}", described.title()),
        };
        if is_cut {
            text += "\n[cut]";
        }
        for note in &notes {
            write!(text, "\nnote: {note}").unwrap_or_default();
        }
        let structured = json!({
            "ok": true, "notes": notes, "truncated": is_cut, "total": usize::from(!told.is_empty()),
            "symbol": described.value(), "hover": told,
        });
        Ok(Answer { ok: true, text, structured })
    }
}

/// Notes, a line each.
fn as_lines(notes: &[String]) -> String {
    let mut text = String::new();
    for note in notes {
        write!(text, "\nnote: {note}").unwrap_or_default();
    }
    text
}

/// The text of a hover in any of its forms.
fn contents(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(contents).collect::<Vec<_>>().join("\n\n"),
        other => other["value"].as_str().unwrap_or_default().to_owned(),
    }
}

fn count_files(places: &[Location]) -> usize {
    let files: std::collections::BTreeSet<&PathBuf> = places.iter().map(|it| &it.file).collect();
    files.len()
}
