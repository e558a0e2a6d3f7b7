//! Which symbol a call means: from a name, a place, or a piece of a line to a place in a document of a server.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::{Component, Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde_json::{Value, json};

use super::{
    call::{Cx, ServerError, Step, Stop, document, fail, reason},
    files::language_of_file,
};
use crate::{
    builtin_tools::lsp::{
        Candidate, Code, NamePath, Outline, Pattern, Position, Symbol, Target, Text, ToolError, kind_name,
    },
    core::event::{Look, ServerId, Unreadable, Word, WordHits, WordMatch},
    rpc::file_path,
};

/// How many files are asked for their symbols when a name is looked for.
const MOST_FILES: usize = 30;

/// How many of them at least, if fewer have a line that looks like a definition.
const SOME_FILES: usize = 12;

/// How far from the named line a word is looked for.
const NEAR: u32 = 5;

/// How long a server may take to find symbols by name.
const BY_NAME: Duration = Duration::from_secs(2);

/// What is meant.
#[derive(Clone, Debug)]
pub(super) struct Meant {
    pub(super) server: ServerId,
    pub(super) file: PathBuf,
    pub(super) place: Position,
    /// The word there.
    pub(super) word: String,
    pub(super) notes: Vec<String>,
}

impl Meant {
    /// The parameters of a question about it.
    pub(super) fn params(&self) -> Value {
        let mut params = document(&self.file);
        params["position"] = self.place.value();
        params
    }
}

/// A symbol as an answer shows it.
#[derive(Clone, Debug)]
pub(super) struct Described {
    pub(super) symbol: String,
    pub(super) kind: &'static str,
    pub(super) file: String,
    /// From 1.
    pub(super) line: u32,
    pub(super) end_line: u32,
}

impl Described {
    pub(super) fn value(&self) -> Value {
        json!({
            "symbol": self.symbol, "kind": self.kind, "file": self.file, "line": self.line, "end_line": self.end_line,
        })
    }

    /// "pairwise (function, utils/misc.py:214)".
    pub(super) fn title(&self) -> String {
        format!("{} ({}, {}:{})", self.symbol, self.kind, self.file, self.line)
    }
}

impl Cx<'_> {
    /// The absolute path of a file of the workspace. An absolute path may lead to the workspace through links.
    pub(super) fn path(&mut self, given: &str) -> Step<PathBuf> {
        let Some(folder) = self.tools.folders.first() else {
            return fail(Code::OutsideWorkspace, "no workspace folder is open");
        };
        let mut path = PathBuf::new();
        for part in folder.join(given).components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir => {
                    path.pop();
                }
                Component::RootDir | Component::Prefix(_) | Component::Normal(_) => path.push(part),
            }
        }
        if self.is_inside(&path) {
            return Ok(path);
        }
        if Path::new(given).is_absolute() {
            let resolve = vec![PathBuf::from(given)];
            let seen = self.look_for(&format!("where {given}"), Look { resolve, ..Look::default() })?;
            let entered = seen.resolved.iter().find(|(it, _)| it.as_path() == Path::new(given));
            if let Some((_, entered)) = entered.filter(|(_, it)| self.is_inside(it)) {
                return Ok(entered.clone());
            }
        }
        fail(Code::OutsideWorkspace, format!("{given} is outside the workspace"))
    }

    /// A pattern for paths of the workspace. An absolute one may lead to the workspace through links.
    pub(super) fn pattern(&mut self, given: &str) -> Step<Pattern> {
        let mut pattern = given.to_owned();
        if Path::new(given).is_absolute() {
            let parts = Path::new(given).iter();
            let base: PathBuf = parts.take_while(|it| !it.to_str().is_some_and(Pattern::is_one)).collect();
            let is_above = self.tools.folders.iter().any(|it| it.starts_with(&base));
            if !is_above {
                let rest = Path::new(given).strip_prefix(&base).unwrap_or(Path::new("")).to_owned();
                pattern = Pattern::escaped(&self.path(&base.to_string_lossy())?.to_string_lossy());
                if !rest.as_os_str().is_empty() {
                    write!(pattern, "/{}", rest.display()).unwrap_or_default();
                }
            }
        }
        Pattern::new(&pattern).or_else(|why| fail(Code::BadArguments, why))
    }

    /// Whether a file fits a pattern, by its path in the workspace or by its whole path.
    pub(super) fn fits(&self, pattern: &Pattern, file: &Path) -> bool {
        pattern.holds(&self.shown(file)) || pattern.holds(&file.to_string_lossy())
    }

    /// The server for a file, among those that offer something.
    pub(super) fn server_for(&mut self, file: &Path) -> Step<ServerId> {
        match self.servers_for(file)?.first() {
            Some(server) => Ok(*server),
            None => fail(Code::NoServer, "no server is there"),
        }
    }

    /// All servers for a file, the best first.
    pub(super) fn servers_for(&mut self, file: &Path) -> Step<Vec<ServerId>> {
        let name = self.shown(file);
        let Some((language, _)) = language_of_file(file) else {
            return fail(Code::NoServer, format!("lspool knows no language server for {name}"));
        };
        let serving = self.tools.views.values().filter(|it| it.serves(language)).map(|it| it.server);
        let serving: Vec<ServerId> = serving.collect();
        if serving.is_empty() {
            let why = self.tools.missing.get(language.name).map_or(language.hint, String::as_str);
            return fail(Code::NoServer, format!("{} has no language server: {why}", language.name));
        }
        Ok(serving)
    }

    /// Fails if a server cannot do what is asked. Its process must have answered `initialize`.
    pub(super) fn require(&self, server: ServerId, provider: &str, method: &str) -> Step<()> {
        let view = self.view(server);
        if view.offers(provider, method) {
            return Ok(());
        }
        let others = self.tools.views.values().filter(|it| it.offers(provider, method));
        let others: Vec<&str> = others.map(|it| it.name.as_str()).collect();
        let who = match others.as_slice() {
            [] => "no server here can".to_owned(),
            names => format!("{} can", names.join(", ")),
        };
        fail(Code::NotSupported, format!("{} does not offer {method}; {who}", view.name))
    }

    /// The symbols of a document, which is open then. Empty if the server does not list symbols.
    pub(super) fn outline(&mut self, server: ServerId, file: &Path) -> Step<(Outline, Arc<Text>)> {
        let (outline, text) = self.outline_or_error(server, file)?;
        Ok((outline?, text))
    }

    /// The same, where the answer can do without symbols.
    pub(super) fn outline_if_any(&mut self, server: ServerId, file: &Path) -> Step<(Outline, Arc<Text>)> {
        let (outline, text) = self.outline_or_error(server, file)?;
        Ok((outline.unwrap_or_default(), text))
    }

    /// The same, with the error of the server.
    fn outline_or_error(
        &mut self,
        server: ServerId,
        file: &Path,
    ) -> Step<(Result<Outline, ServerError>, Arc<Text>)> {
        let text = self.open(server, file)?;
        self.started(server)?;
        if !self.view(server).offers("documentSymbolProvider", "textDocument/documentSymbol") {
            self.note_answered(server);
            return Ok((Ok(Outline::default()), text));
        }
        let version = self.view(server).open.get(file).map_or(0, |it| it.version);
        let key = format!("symbols {version} {} {}", server.number(), file.display());
        let answer = self.ask(&key, server, "textDocument/documentSymbol", &document(file))?;
        self.note_answered(server);
        Ok((answer.map(|it| Outline::read(&it, &text)), text))
    }

    /// Waits until the process of a server has answered `initialize`: before that nobody knows what it can do.
    pub(super) fn started(&mut self, server: ServerId) -> Step<()> {
        if self.view(server).process().is_some() {
            return Ok(());
        }
        // A call waits again whenever something has changed, so this ends when its process has answered.
        match self.ready(&format!("started {}", server.number()), server)? {
            Some(why) if self.view(server).process().is_none() => {
                let error = ToolError { retry: true, ..ToolError::new(Code::ServerFailed, why) };
                Err(Stop::Fail(Box::new(error)))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Finds what is meant.
    pub(super) fn resolve(&mut self, target: &Target) -> Step<Meant> {
        let Some(file) = &target.file else {
            return match &target.symbol {
                Some(name) => self.resolve_name(name),
                None => fail(Code::BadArguments, "give `symbol`, or `file` with a place"),
            };
        };
        let file = self.path(file)?;
        // Whether there is such a file is known before whether a server is.
        self.text(&file)?;
        let server = self.server_for(&file)?;
        let (outline, text) = self.outline_or_error(server, &file)?;
        let meant = |place: Position, word: &str| Meant {
            server,
            file: file.clone(),
            place,
            word: word.to_owned(),
            notes: Vec::new(),
        };
        let shown = self.shown(&file);
        match (&target.symbol, target.line, target.character, &target.line_text) {
            (Some(name), None, _, Some(piece)) => {
                let (line, at) = unique_line(&text, piece, &shown)?;
                let place =
                    text.find_word(line, name.last(), at).or_else(|| text.find_word(line, name.last(), 0));
                match place {
                    Some(place) => Ok(meant(place, name.last())),
                    None => fail(
                        Code::NoSymbol,
                        format!("`{}` is not in line {} of {shown}", name.last(), line + 1),
                    ),
                }
            }
            (Some(name), Some(line), None, _) => {
                let near = (0..=NEAR).flat_map(|it| [line.checked_sub(it), line.checked_add(it)]).flatten();
                let found =
                    near.filter(|it| *it < text.n_lines()).find_map(|it| text.find_word(it, name.last(), 0));
                let Some(place) = found else {
                    let message =
                        format!("`{}` is not in line {} of {shown}, nor near it", name.last(), line + 1);
                    return fail(Code::NoSymbol, message);
                };
                let mut meant = meant(place, name.last());
                if place.line != line {
                    meant.notes.push(format!("`{}` is in line {}", name.last(), place.line + 1));
                }
                Ok(meant)
            }
            (symbol, Some(line), Some(character), _) => {
                if line >= text.n_lines() {
                    return fail(Code::BadArguments, format!("{shown} has {} lines", text.n_lines()));
                }
                let at = text.place(line, character);
                let Some((place, word)) = text.word_at(at) else {
                    return fail(
                        Code::NoSymbol,
                        format!("no word is at {shown}:{}:{}", line + 1, character + 1),
                    );
                };
                let mut meant = meant(place, word);
                if let Some(name) = symbol.as_ref().filter(|it| it.last() != word) {
                    meant.notes.push(format!("`{word}` is there, not `{}`", name.last()));
                }
                Ok(meant)
            }
            (Some(name), None, _, None) => {
                let outline = outline?;
                let found: Vec<Candidate> =
                    outline.named(name).into_iter().map(|it| self.candidate(it, &file)).collect();
                match outline.named(name).as_slice() {
                    [only] => Ok(meant(only.name_at, plain_word(only, &text))),
                    [] => Err(self.no_symbol(name, outline.symbols.iter().map(|it| (it, file.as_path())))),
                    _ => Err(ambiguous(name, found)),
                }
            }
            (None, ..) => fail(Code::BadArguments, "give `symbol`, or `line` and `character`"),
        }
    }

    fn candidate(&self, symbol: &Symbol, file: &Path) -> Candidate {
        Candidate {
            file: self.shown(file),
            line: symbol.name_at.line + 1,
            symbol: symbol.name_path(),
            kind: kind_name(symbol.kind),
        }
    }

    fn no_symbol<'s>(&self, name: &NamePath, seen: impl Iterator<Item = (&'s Symbol, &'s Path)>) -> Stop {
        let near = seen.filter(|(it, _)| name.is_near(it)).map(|(it, file)| self.candidate(it, file));
        let near: BTreeSet<Candidate> = near.collect();
        let hint = if near.is_empty() { "" } else { "; similar names:" };
        let error = ToolError::new(Code::NoSymbol, format!("no symbol is named {name}{hint}"));
        Stop::Fail(Box::new(error.with(near.into_iter().collect())))
    }

    /// Finds a symbol of the workspace by its name: by the servers' index, and in any case by the text.
    fn resolve_name(&mut self, name: &NamePath) -> Step<Meant> {
        let found = self.find_named(name.last(), WordMatch::Whole)?;
        let mut fitting: Vec<(ServerId, &Found)> = Vec::new();
        for (server, it) in &found.symbols {
            if name.names(&it.symbol) {
                fitting.push((*server, it));
            }
        }
        if let Some(nth) = name.nth() {
            fitting = fitting.into_iter().skip(nth).take(1).collect();
        }
        match fitting.as_slice() {
            [(server, only)] => {
                let text = self.open(*server, &only.file)?;
                Ok(Meant {
                    server: *server,
                    file: only.file.clone(),
                    place: only.symbol.name_at,
                    word: plain_word(&only.symbol, &text).to_owned(),
                    notes: found.partial.iter().chain(&found.notes).cloned().collect(),
                })
            }
            [] => {
                let seen = found.symbols.iter().map(|(_, it)| (&it.symbol, it.file.as_path()));
                let Stop::Fail(mut error) = self.no_symbol(name, seen) else { return Err(Stop::Wait) };
                if let Some(partial) = &found.partial {
                    error.message = format!("{} in what lspool has looked at: {partial}", error.message);
                    error.retry = true;
                }
                for (language, why) in self.tools.unserved() {
                    write!(
                        error.message,
                        "\n{language} files were not searched, for want of a server: {why}"
                    )
                    .unwrap_or_default();
                }
                Err(Stop::Fail(error))
            }
            several => Err(ambiguous(
                name,
                several.iter().map(|(_, it)| self.candidate(&it.symbol, &it.file)).collect(),
            )),
        }
    }

    /// The symbols of files that hold a text, and those that the servers know by it.
    pub(super) fn find_named(&mut self, text: &str, matching: WordMatch) -> Step<Named> {
        let servers: Vec<ServerId> = self.tools.views.keys().copied().collect();
        if servers.is_empty() {
            return fail(Code::NoServer, self.why_no_server());
        }
        let mut named = Named::default();
        let mut failed = Vec::new();
        for server in &servers {
            match self.find_named_at(*server, text, matching, &mut named) {
                Ok(()) => {}
                Err(Stop::Fail(error)) if servers.len() > 1 => failed.push(error),
                Err(stop) => return Err(stop),
            }
        }
        if failed.len() == servers.len() {
            return Err(failed.pop().map_or(Stop::Wait, Stop::Fail));
        }
        for error in failed {
            named.partial.get_or_insert(error.message);
        }
        named.symbols.sort_by(|(_, one), (_, other)| {
            (&one.file, one.symbol.range).cmp(&(&other.file, other.symbol.range))
        });
        named.symbols.dedup_by(|(_, one), (_, other)| {
            one.file == other.file && one.symbol.name_at == other.symbol.name_at
        });
        Ok(named)
    }

    pub(super) fn why_no_server(&self) -> String {
        let reasons = self.tools.missing.iter().map(|(language, why)| format!("\n{language}: {why}"));
        format!("no language server is there{}", reasons.collect::<String>())
    }

    fn find_named_at(
        &mut self,
        server: ServerId,
        text: &str,
        matching: WordMatch,
        named: &mut Named,
    ) -> Step<()> {
        let word = Word { text: text.to_owned(), matching, endings: self.view(server).code_endings() };
        let seen = self.look(&format!("named {} {text}", server.number()), Vec::new(), Some(word))?;
        if let Some(partial) = &seen.partial {
            named.partial = Some(partial.clone());
        }
        if let Some((first, why)) = seen.unread.first() {
            named.note_unread(seen.unread.len(), &self.shown(first), *why);
        }
        let mut holding: Vec<&WordHits> = seen.hits.iter().collect();
        // Of a file with many lines, not all are known.
        let may_define = |it: &&WordHits| {
            it.n_lines > it.lines.len() || it.lines.iter().any(|(_, line)| defines(line, text))
        };
        holding.sort_by_key(|it| !may_define(it));
        let n_defining = holding.iter().filter(|it| may_define(it)).count();
        let most = if n_defining == 0 { MOST_FILES } else { n_defining.clamp(SOME_FILES, MOST_FILES) };
        let mut files: Vec<PathBuf> = holding.iter().take(most).map(|it| it.file.clone()).collect();
        let likely = if n_defining == 0 { holding.len() } else { n_defining };
        if likely > files.len() {
            let rest = likely - files.len();
            named.partial = Some(format!("{rest} more files hold {text:?} and were not looked at"));
        }
        if files.is_empty() {
            return Ok(());
        }
        let rest = holding.len() - files.len();
        if likely <= files.len() && rest > 0 {
            named
                .notes
                .push(format!("{rest} more files hold {text:?}, in no line that looks like a definition"));
        }
        // A server that has not seen a document yet knows no symbols.
        if let Some(first) = files.first() {
            self.symbols_of_file(server, &first.clone())?;
        }
        let further = self.known_by_name(server, text)?.into_iter().filter(|it| !files.contains(it));
        let further: Vec<PathBuf> = further.collect();
        let room = (2 * MOST_FILES).saturating_sub(files.len());
        if further.len() > room {
            let rest = further.len() - room;
            let name = &self.view(server).name;
            named.partial = Some(format!("{name} names {rest} more files, which were not looked at"));
        }
        files.extend(further.into_iter().take(room));
        self.read_all(&format!("outlines {}", server.number()), &files)?;
        let outlines: Vec<Step<SymbolsOf>> =
            files.iter().map(|file| self.symbols_of_file(server, file)).collect();
        for (file, outline) in files.iter().zip(outlines) {
            match outline? {
                SymbolsOf::Listed(outline) => named.symbols.extend(
                    outline.symbols.into_iter().map(|symbol| (server, Found { file: file.clone(), symbol })),
                ),
                // A file of the index may be gone.
                SymbolsOf::NoText(Unreadable::Missing) => {}
                SymbolsOf::NoText(why) => named.note_unread(1, &self.shown(file), why),
                SymbolsOf::Failed(error) => {
                    let (name, file) = (&self.view(server).name, self.shown(file));
                    named.partial =
                        Some(format!("{name} did not list the symbols of {file}: {}", error.message));
                }
            }
        }
        Ok(())
    }

    fn symbols_of_file(&mut self, server: ServerId, file: &Path) -> Step<SymbolsOf> {
        if let Err(why) = self.text_if_readable(file)? {
            return Ok(SymbolsOf::NoText(why));
        }
        Ok(match self.outline_or_error(server, file)?.0 {
            Ok(outline) => SymbolsOf::Listed(outline),
            Err(error) => SymbolsOf::Failed(error),
        })
    }

    /// The files in which a server knows a symbol of about this name.
    fn known_by_name(&mut self, server: ServerId, text: &str) -> Step<Vec<PathBuf>> {
        if !self.view(server).offers("workspaceSymbolProvider", "workspace/symbol") {
            return Ok(Vec::new());
        }
        let key = format!("by name {} {text}", server.number());
        let since = self.since(&format!("{key}.since"));
        let answer = match self.ask(&key, server, "workspace/symbol", &json!({"query": text})) {
            Ok(answer) => answer.unwrap_or_default(),
            Err(Stop::Wait) if self.now() < since + BY_NAME => {
                self.wake_at(since + BY_NAME);
                return Err(Stop::Wait);
            }
            // The text finds it as well.
            Err(Stop::Wait) => Value::Null,
            Err(stop) => return Err(stop),
        };
        let files = answer.as_array().into_iter().flatten();
        let files = files.filter_map(|it| file_path(it["location"]["uri"].as_str()?));
        let files: BTreeSet<PathBuf> = files.filter(|it| self.is_inside(it)).collect();
        Ok(files.into_iter().collect())
    }

    /// The symbol that is meant, as an answer shows it.
    pub(super) fn describe(&mut self, meant: &Meant) -> Step<Described> {
        let (outline, _) = self.outline_if_any(meant.server, &meant.file)?;
        let file = self.shown(&meant.file);
        Ok(match outline.at_name(meant.place) {
            Some(symbol) => Described {
                symbol: symbol.name_path(),
                kind: kind_name(symbol.kind),
                file,
                line: symbol.range.start.line + 1,
                end_line: symbol.range.end.line + 1,
            },
            None => Described {
                symbol: meant.word.clone(),
                kind: "name",
                file,
                line: meant.place.line + 1,
                end_line: meant.place.line + 1,
            },
        })
    }
}

/// A symbol with its file.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) file: PathBuf,
    pub(super) symbol: Symbol,
}

/// What a search by name has found.
#[derive(Debug, Default)]
pub(super) struct Named {
    pub(super) symbols: Vec<(ServerId, Found)>,
    /// Why there may be more.
    pub(super) partial: Option<String>,
    pub(super) notes: Vec<String>,
}

impl Named {
    fn note_unread(&mut self, n: usize, first: &str, why: Unreadable) {
        let such = if n == 1 { String::new() } else { format!(", and {} more", n - 1) };
        self.partial = Some(format!("{first} {}{such}", reason(why)));
    }
}

/// What a server says of the symbols of a file.
enum SymbolsOf {
    Listed(Outline),
    NoText(Unreadable),
    Failed(ServerError),
}

/// Whether a line looks as if it defined a name.
fn defines(line: &str, name: &str) -> bool {
    const WORDS: [&str; 24] = [
        "def",
        "class",
        "function",
        "interface",
        "type",
        "enum",
        "const",
        "let",
        "var",
        "fn",
        "struct",
        "trait",
        "impl",
        "mod",
        "static",
        "func",
        "package",
        "namespace",
        "union",
        "typedef",
        "define",
        "async",
        "public",
        "private",
    ];
    let Some(before) = line
        .to_lowercase()
        .find(&name.to_lowercase())
        .map(|at| line[..line.floor_char_boundary(at)].to_owned())
    else {
        return false;
    };
    let mut words = before.split(|it: char| !it.is_alphanumeric() && it != '_');
    let is_assigned = before.trim().is_empty() && {
        let rest = line.trim_start();
        let after = rest
            .find(|it: char| !it.is_alphanumeric() && it != '_' && it != '$')
            .map_or("", |at| &rest[at..]);
        let after = after.trim_start();
        after.starts_with([':', '(', '<', '?']) || after.starts_with('=') && !after.starts_with("==")
    };
    is_assigned || words.any(|it| WORDS.contains(&it))
}

/// The only line that holds a piece of text.
fn unique_line(text: &Text, piece: &str, file: &str) -> Step<(u32, usize)> {
    let lines = text.lines_with(piece.trim_matches(['\n', '\r']));
    match lines.as_slice() {
        [only] => Ok(*only),
        [] => fail(Code::NoSymbol, format!("no line of {file} holds {piece:?}")),
        several => {
            let numbers: Vec<String> = several.iter().take(10).map(|(it, _)| (it + 1).to_string()).collect();
            fail(
                Code::Ambiguous,
                format!("lines {} of {file} hold {piece:?}: use `line`", numbers.join(", ")),
            )
        }
    }
}

/// The word at the name of a symbol, which need not be its whole name.
fn plain_word<'t>(symbol: &'t Symbol, text: &'t Text) -> &'t str {
    text.word_at(symbol.name_at).map_or(symbol.name(), |(_, word)| word)
}

/// Names each candidate so that the name alone means it, if possible.
fn ambiguous(name: &NamePath, candidates: Vec<Candidate>) -> Stop {
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut seen: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut in_file: BTreeMap<String, usize> = BTreeMap::new();
    for it in &candidates {
        *counts.entry((it.file.clone(), it.symbol.clone())).or_default() += 1;
        *in_file.entry(it.file.clone()).or_default() += 1;
    }
    let numbered = candidates.into_iter().map(|mut it| {
        let key = (it.file.clone(), it.symbol.clone());
        // `run` means `A/run` as well, `/run` does not.
        if in_file.get(&it.file).is_some_and(|it| *it > 1) {
            it.symbol = format!("/{}", it.symbol);
        }
        if counts.get(&key).is_some_and(|it| *it > 1) {
            let nth = seen.entry(key).or_default();
            it.symbol = format!("{}[{nth}]", it.symbol);
            *nth += 1;
        }
        it
    });
    let candidates: Vec<Candidate> = numbered.collect();
    let message = format!("{} symbols are named {name}; give `file` and `symbol` of one:", candidates.len());
    Stop::Fail(Box::new(ToolError::new(Code::Ambiguous, message).with(candidates)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidate_of_ambiguous_name_means_one_symbol() {
        let text = Text::new("def run():\nclass A:\n    def run(self):\ndef run():\n");
        let symbol = |name: &str, line: u32, children: Value| {
            let range =
                json!({"start": {"line": line, "character": 0}, "end": {"line": line, "character": 5}});
            json!({"name": name, "kind": 12, "range": range, "selectionRange": range, "children": children})
        };
        let method = json!([symbol("run", 2, json!([]))]);
        let all = json!([symbol("run", 0, json!([])), symbol("A", 1, method), symbol("run", 3, json!([]))]);
        let outline = Outline::read(&all, &text);
        let named = |it: &str| outline.named(&NamePath::parse(it).unwrap());
        let candidates = named("run").into_iter().map(|it| Candidate {
            file: "a.py".to_owned(),
            line: it.name_at.line + 1,
            symbol: it.name_path(),
            kind: "function",
        });
        let Stop::Fail(error) = ambiguous(&NamePath::parse("run").unwrap(), candidates.collect()) else {
            panic!("it waits for nothing");
        };
        let meant =
            |it: &Candidate| named(&it.symbol).iter().map(|it| it.name_at.line + 1).collect::<Vec<_>>();
        assert_eq!(error.candidates.len(), 3);
        for it in &error.candidates {
            assert_eq!(meant(it), [it.line], "{}", it.symbol);
        }
    }

    #[test]
    fn defining_lines_are_told_from_others() {
        for line in [
            "def pairwise(x):",
            "export function pairwise<T>(",
            "  pairwise = 3",
            "class Pairwise:",
            "pairwise: int",
        ] {
            assert!(defines(line, "pairwise"), "{line}");
        }
        for line in ["from x import pairwise", "list(pairwise(x))", "pairwise == 3", "# pairwise", "nothing"]
        {
            assert!(!defines(line, "pairwise"), "{line}");
        }
    }
}
