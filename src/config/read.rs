//! Reads the text of a file into a [`Config`], and checks it against the [table of keys](super::keys).
//!
//! Reading continues after an error, so that lspool reports all errors of a file at once.

mod groups;
mod remote;
mod share;

use std::{collections::BTreeMap, path::Path};

use toml::{
    Spanned,
    de::{DeArray, DeTable, DeValue},
};

use self::groups::{glob, marker, method};
use super::{
    AgentConfig, AgentSource, Config, Place, Profile, ServerConfig, Shadowed, WorkerConfig,
    code_tools::offered,
    keys::{
        AGENT, BACKOFF, BUILTIN_TOOLS, CLEANUPS, DELEGATIONS, ENGINES, FOLDER, GROUP, ISOLATIONS, Key, LOG,
        LOG_LEVELS, LSP_TOOLS, ON_LIMITS, ON_LOADING, ORCHESTRATION, PROFILES, RESTARTS, ROOT, ROUTE, SERVER,
        SERVER_KINDS, SHARE_VIEWS, STARTS, SUB_AGENTS, Section, TOOLS, TURN_RECOVERIES, Type, UNMAPPED,
        WORKER, Workspace,
    },
    presets::{known_servers, preset_names},
    problem::{Author, Problem, Problems, ShadowedKind},
    suggest::nearest,
    units::{parse_duration, parse_memory, parse_size, parse_text_size, show_duration, show_size},
};
use crate::{agents::tool_names, util::redact::redact};

/// Reads a file into `config`, which holds the defaults and all earlier files.
pub(super) fn read(
    text: &str,
    file: &str,
    author: Author,
    mut config: Config,
) -> Result<(Config, Vec<Shadowed>), Problems> {
    // An editor on Windows may put a byte order mark before the first key.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader::new(text, file, author);
    let (root, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let at = error.span().map_or(text.len(), |span| span.start);
        // A column, and not the line itself, because that may hold a secret.
        let before = &text[text[..at].rfind('\n').map_or(0, |it| it + 1)..at];
        let why = match error.message() {
            "string values must be quoted, expected literal string" => "put strings in quotes",
            other => other,
        };
        let message = format!("invalid TOML at column {}: {why}", before.chars().count() + 1);
        reader.problem(reader.line(at), "", message);
    }
    reader.section(&ROOT, "", root.get_ref(), 1, &mut config);
    if errors.is_empty() {
        reader.references(&config);
    } else {
        reader.keep_what_errors_cannot_have_caused();
    }
    reader.finish(config)
}

/// A name of a server or agent that the file may define further down.
struct Reference {
    line: usize,
    key: String,
    name: String,
    to: To,
}

/// What a name stands for.
enum To {
    Agent,
    /// A server; these are in the folder it stands in.
    Server(Vec<String>),
    /// A server, also one that lspool knows how to start.
    Member,
    Group,
}

struct Reader<'a> {
    text: &'a str,
    file: &'a str,
    author: Author,
    problems: Vec<Problem>,
    shadowed: Vec<Shadowed>,
    references: Vec<Reference>,
}

/// The place of a value, for messages.
struct At<'a> {
    line: usize,
    key: &'a str,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, file: &'a str, author: Author) -> Self {
        let (problems, shadowed, references) = (Vec::new(), Vec::new(), Vec::new());
        Reader { text, file, author, problems, shadowed, references }
    }

    fn finish(mut self, config: Config) -> Result<(Config, Vec<Shadowed>), Problems> {
        if self.problems.is_empty() {
            return Ok((config, self.shadowed));
        }
        self.problems.sort();
        self.problems.dedup();
        Err(Problems { file: self.file.to_owned(), list: self.problems })
    }

    fn line(&self, offset: usize) -> usize {
        1 + self.text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
    }

    /// Notes an error. A value that a message quotes, or a key, may look like a secret.
    fn problem(&mut self, line: usize, key: &str, message: impl Into<String>) {
        let [key, message] = [key, &message.into()].map(|it| redact(it).into_owned());
        self.problems.push(Problem { line, key, message });
    }

    fn section<T>(
        &mut self,
        section: &Section<T>,
        path: &str,
        table: &DeTable<'_>,
        line: usize,
        into: &mut T,
    ) {
        // In the order of the table: a profile comes before the keys that override parts of it.
        for key in section.keys {
            match table.iter().find(|(name, _)| name.get_ref() == key.name) {
                Some((name, value)) => {
                    let at = At { line: self.line(name.span().start), key: &join(path, key.name) };
                    match self.is_refused(key) {
                        true => self.problem(at.line, at.key, REFUSED),
                        false => self.value(key, &at, value, into),
                    }
                }
                None if key.is_required() => self.problem(line, &join(path, key.name), MISSING),
                None => {}
            }
        }
        for name in table.keys().filter(|name| section.keys.iter().all(|key| name.get_ref() != key.name)) {
            let line = self.line(name.span().start);
            self.problem(line, &join(path, name.get_ref()), unknown(section, name.get_ref()));
        }
    }

    fn is_refused<T>(&self, key: &Key<T>) -> bool {
        self.author != Author::User && key.workspace == Workspace::No
    }

    fn value<T>(&mut self, key: &Key<T>, at: &At<'_>, value: &Spanned<DeValue<'_>>, into: &mut T) {
        let raw = value.get_ref();
        match &key.ty {
            Type::Text(field) => self.set(at, text(raw).map(Some), field(into)),
            Type::Command(field) => self.set(at, command(raw).map(Some), field(into)),
            Type::Path(field) => self.set(at, path(raw).map(|it| Some(it.into())), field(into)),
            Type::RequiredPath(field) => self.set(at, path(raw).map(Into::into), field(into)),
            Type::Paths(field) => {
                let mut paths = Vec::new();
                self.list(at, value, |it| path(it).map(Some), &mut paths);
                *field(into) = paths.into_iter().map(Into::into).collect();
            }
            Type::Args(field) => self.list(at, value, |it| any_text(it).map(Some), field(into)),
            Type::Names(field) => self.list(at, value, |it| text(it).map(Some), field(into)),
            Type::ToolNames(field) => self.list(at, value, tools, field(into)),
            Type::OptionalToolNames(field) => self.list(at, value, tools, field(into).insert(Vec::new())),
            Type::Variables(field) => self.variables(at, value, field(into)),
            Type::Duration(field) => {
                let new = with_unit(raw, "a duration such as \"5m\"", parse_duration);
                self.limit(key, at, new, show_duration, field(into));
            }
            Type::Size(field) => {
                let new = with_unit(raw, "a size such as \"256MiB\"", parse_size);
                self.limit(key, at, new, show_size, field(into));
            }
            Type::TextSize(field) => {
                let new = with_unit(raw, "a size such as \"16KiB\"", parse_text_size);
                self.limit(key, at, new, show_size, field(into));
            }
            Type::OptionalDuration(field) => {
                let new = with_unit(raw, "a duration such as \"5m\"", parse_duration);
                self.set(at, new.map(Some), field(into));
            }
            Type::OptionalSize(field) => {
                let new = with_unit(raw, "a size such as \"2GiB\"", parse_memory);
                self.set(at, new.map(Some), field(into));
            }
            Type::Flag(field) => {
                let narrows = key.workspace == Workspace::Smaller && self.author != Author::User;
                let new = match flag(raw) {
                    Ok(true) if narrows && !*field(into) => {
                        Err("a workspace file can only turn this off".to_owned())
                    }
                    new => new,
                };
                self.set(at, new, field(into));
            }
            Type::Factor(field, range) => self.set(at, factor(raw, *range), field(into)),
            Type::Restart(field) => self.set(at, choice(raw, &RESTARTS), field(into)),
            Type::Profile(field) => {
                self.set(at, choice(raw, &PROFILES).map(Profile::policy), field(into));
            }
            Type::Backoff(field) => self.table(&BACKOFF, at, raw, field(into)),
            Type::Amount(field) => self.limit(key, at, amount(raw), |it| it.to_string(), field(into)),
            Type::Count(field) => self.limit(key, at, count(raw), |it| it.to_string(), field(into)),
            Type::CountOrLess(field, less) => {
                self.limit(key, at, count(raw), |it| it.to_string(), field(into));
                let (new, is_user) = (*field(into), self.author == Author::User);
                let less = less(into);
                *less = if is_user { new } else { new.min(*less) };
            }
            Type::OptionalCount(field) => self.set(at, count(raw).map(Some), field(into)),
            Type::TurnRecovery(field) => self.set(at, choice(raw, &TURN_RECOVERIES), field(into)),
            Type::Delegation(field) => self.set(at, choice(raw, &DELEGATIONS), field(into)),
            Type::Isolation(field) => self.set(at, choice(raw, &ISOLATIONS), field(into)),
            Type::OptionalIsolation(field) => self.set(at, choice(raw, &ISOLATIONS).map(Some), field(into)),
            Type::OnLimit(field) => self.set(at, choice(raw, &ON_LIMITS), field(into)),
            Type::Share(field) => self.set(at, share::mode(raw), field(into)),
            Type::ShareViews(field) => self.set(at, choice(raw, &SHARE_VIEWS), field(into)),
            Type::BuiltinTools(field) => self.set(at, choice(raw, &BUILTIN_TOOLS), field(into)),
            Type::ServerKind(field) => self.set(at, choice(raw, &SERVER_KINDS).map(Some), field(into)),
            Type::LogLevel(field) => self.set(at, choice(raw, &LOG_LEVELS), field(into)),
            Type::ServerName(field) => {
                let name = text(raw);
                self.refer(at, name.as_deref().ok(), To::Server(Vec::new()));
                self.set(at, name.map(Some), field(into));
            }
            Type::AgentName(field) => {
                let name = text(raw);
                self.refer(at, name.as_deref().ok(), To::Agent);
                self.set(at, name, field(into));
            }
            Type::GroupName(field) => {
                let name = text(raw);
                self.refer(at, name.as_deref().ok(), To::Group);
                self.set(at, name.map(Some), field(into));
            }
            Type::MemberName(field) => {
                let name = text(raw);
                self.refer(at, name.as_deref().ok(), To::Member);
                self.set(at, name, field(into));
            }
            Type::Only(field) => self.only(at, value, field(into)),
            Type::Except(field) => self.except(at, value, field(into)),
            Type::Json(field) => self.json(at, value, field(into)),
            Type::Members(field) => self.members(at, value, field(into)),
            Type::Order(field) => self.order(at, value, field(into)),
            Type::Combine(field) => self.combine(at, value, field(into)),
            Type::Waits(field) => self.waits(at, value, field(into)),
            Type::Globs(field) => self.list(at, value, glob, field(into)),
            Type::Methods(field) => self.list(at, value, method, field(into)),
            Type::Markers(field) => self.list(at, value, marker, field(into)),
            Type::StartAt(field) => self.set(at, choice(raw, &STARTS), field(into)),
            Type::Remote(field) => self.remote(at, raw, field(into)),
            Type::Engine(field) => self.set(at, choice(raw, &ENGINES), field(into)),
            Type::PathPairs(field) => self.path_pairs(at, value, field(into)),
            Type::Cleanup(field) => self.set(at, choice(raw, &CLEANUPS), field(into)),
            Type::Unmapped(field) => self.set(at, choice(raw, &UNMAPPED), field(into)),
            Type::Groups(field) => self.groups(at, value, field(into)),
            Type::Servers(field) => self.servers(at, value, field(into)),
            Type::Agents(field) => self.agents(at, value, field(into)),
            Type::Routes(field) => self.tables(&ROUTE, at, value, field(into)),
            Type::Folders(field) => self.folders(at, value, field(into)),
            Type::SubAgents(field) => self.table(&SUB_AGENTS, at, raw, field(into)),
            Type::Workers(field) => self.workers(at, value, field(into)),
            Type::Orchestration(field) => self.table(&ORCHESTRATION, at, raw, field(into)),
            Type::Tools(field) => self.table(&TOOLS, at, raw, field(into)),
            Type::LspTools(field) => self.table(&LSP_TOOLS, at, raw, field(into)),
            Type::CodeTools(field) => self.list(at, value, |it| offered(text(it)?), field(into)),
            Type::OnLoading(field) => self.set(at, choice(raw, &ON_LOADING), field(into)),
            Type::Log(field) => self.table(&LOG, at, raw, field(into)),
        }
    }

    fn table<T>(&mut self, section: &Section<T>, at: &At<'_>, raw: &DeValue<'_>, field: &mut T) {
        match raw.as_table() {
            Some(table) => self.section(section, at.key, table, at.line, field),
            None => {
                let message = format!("expected the table {}, found {}", section.header, shown(raw));
                self.problem(at.line, at.key, message);
            }
        }
    }

    fn set<V>(&mut self, at: &At<'_>, new: Result<V, String>, field: &mut V) {
        match new {
            Ok(new) => *field = new,
            Err(message) => self.problem(at.line, at.key, message),
        }
    }

    fn limit<T, V: Copy + Ord>(
        &mut self,
        key: &Key<T>,
        at: &At<'_>,
        new: Result<V, String>,
        show: fn(V) -> String,
        field: &mut V,
    ) {
        let narrows = key.workspace == Workspace::Smaller && self.author != Author::User;
        match new {
            Ok(new) if narrows && new > *field => {
                let (new, old) = (show(new), show(*field));
                self.problem(
                    at.line,
                    at.key,
                    format!("expected at most {old}, found {new}: a workspace file can only lower a limit"),
                );
            }
            new => self.set(at, new, field),
        }
    }

    fn list<I: IntoIterator<Item = String>>(
        &mut self,
        at: &At<'_>,
        value: &Spanned<DeValue<'_>>,
        read: fn(&DeValue<'_>) -> Result<I, String>,
        field: &mut Vec<String>,
    ) {
        let Some(items) = value.get_ref().as_array() else {
            let example = value.get_ref().as_str().unwrap_or("one");
            let message =
                format!("expected a list of strings such as [{example:?}], found {}", shown(value.get_ref()));
            return self.problem(at.line, at.key, message);
        };
        field.clear();
        for (n, item) in items.iter().enumerate() {
            let key = format!("{}[{n}]", at.key);
            match read(item.get_ref()) {
                Ok(items) => field.extend(items),
                Err(message) => self.problem(self.line(item.span().start), &key, message),
            }
        }
    }

    fn variables(&mut self, at: &At<'_>, value: &Spanned<DeValue<'_>>, field: &mut BTreeMap<String, String>) {
        let Some(table) = value.get_ref().as_table() else {
            let message =
                format!("expected a table such as {{ NAME = \"value\" }}, found {}", shown(value.get_ref()));
            return self.problem(at.line, at.key, message);
        };
        for (name, value) in table {
            let line = self.line(name.span().start);
            let key = join(at.key, name.get_ref());
            if name.get_ref().is_empty() || name.get_ref().contains(['=', '\0']) {
                self.problem(line, &key, "a variable name must not be empty or contain \"=\"");
            }
            match value.get_ref().as_str() {
                Some(text) if !text.contains('\0') => {
                    field.insert(name.get_ref().to_string(), text.to_owned());
                }
                Some(_) => self.problem(line, &key, "must not contain a NUL character"),
                // Without the value, which may be a secret.
                None => self.problem(line, &key, "expected a string in quotes"),
            }
        }
    }

    fn refer(&mut self, at: &At<'_>, name: Option<&str>, to: To) {
        let reference =
            |name: &str| Reference { line: at.line, key: at.key.to_owned(), name: name.to_owned(), to };
        self.references.extend(name.map(reference));
    }

    fn servers(
        &mut self,
        at: &At<'_>,
        value: &Spanned<DeValue<'_>>,
        field: &mut BTreeMap<String, ServerConfig>,
    ) {
        for (name, line, table) in self.named(SERVER.header, at, value) {
            let known = field.get(&name);
            let is_known = known.is_some();
            let mut server = known.cloned().unwrap_or_else(SERVER.fresh);
            let key = join(at.key, &name);
            self.section(&SERVER, &key, table, line, &mut server);
            if self.author == Author::User && server.remote.is_some() && server.memory_limit.is_some() {
                let message = "has no meaning with `remote`: lspool does not see the memory of that server";
                self.problem(line, &join(&key, "memory_limit"), message);
            }
            self.check_share(line, &key, &name, &server);
            // A repository may name servers that this user does not have. It cannot add them.
            if is_known || self.author == Author::User {
                field.insert(name, server);
            }
        }
    }

    fn agents(
        &mut self,
        at: &At<'_>,
        value: &Spanned<DeValue<'_>>,
        field: &mut BTreeMap<String, AgentConfig>,
    ) {
        for (name, line, table) in self.named(AGENT.header, at, value) {
            let mut agent = (AGENT.fresh)();
            self.section(&AGENT, &join(at.key, &name), table, line, &mut agent);
            agent.source = self.source();
            match Config::place(field, &name, &agent.source) {
                Place::Free => Config::put(field, name, agent),
                Place::Twice(other) => {
                    let message = format!("same name as the agent {other:?}: names ignore case");
                    self.problem(line, &join(at.key, &name), message);
                }
                Place::Over(other) => {
                    if let AgentSource::UserFile(file) = other {
                        let (file, by) = (file.display().to_string(), agent.source.clone());
                        self.shadowed.push(Shadowed {
                            file,
                            line: 1,
                            kind: ShadowedKind::Agent,
                            name: name.clone(),
                            by,
                        });
                    }
                    Config::put(field, name, agent);
                }
                Place::TakenBy(by) => {
                    let file = self.file.to_owned();
                    self.shadowed.push(Shadowed { file, line, kind: ShadowedKind::Agent, name, by });
                }
            }
        }
    }

    /// The source of the agents and workers in this file.
    fn source(&self) -> AgentSource {
        match &self.author {
            Author::User => AgentSource::User,
            Author::Workspace(file) => AgentSource::Workspace(file.clone()),
        }
    }

    fn workers(&mut self, at: &At<'_>, value: &Spanned<DeValue<'_>>, field: &mut Vec<WorkerConfig>) {
        let mut found = self.named(WORKER.header, at, value);
        // In the order of the file: without a plan, the first worker gets the whole goal.
        found.sort_by_key(|(_, line, _)| *line);
        let mut roles: Vec<String> = Vec::new();
        for (role, line, table) in found {
            // A model may change the case of a name.
            let is_same = |other: &str| other.to_lowercase() == role.to_lowercase();
            if let Some(other) = roles.iter().find(|it| is_same(it)) {
                let message = format!("same name as the worker {other:?}: names ignore case");
                self.problem(line, &join(at.key, &role), message);
            }
            roles.push(role.clone());
            let known = field.iter().position(|it| is_same(&it.role));
            let mut worker = known.map_or_else(WORKER.fresh, |it| field[it].clone());
            self.section(&WORKER, &join(at.key, &role), table, line, &mut worker);
            match (known, &self.author) {
                (Some(known), Author::User) => {
                    field[known] = WorkerConfig { role, source: AgentSource::User, ..worker };
                }
                (Some(known), Author::Workspace(_)) => {
                    let (file, by) = (self.file.to_owned(), field[known].source.clone());
                    self.shadowed.push(Shadowed { file, line, kind: ShadowedKind::Worker, name: role, by });
                }
                (None, _) => field.push(WorkerConfig { role, source: self.source(), ..worker }),
            }
        }
    }

    fn folders(&mut self, at: &At<'_>, value: &Spanned<DeValue<'_>>, field: &mut Vec<super::FolderConfig>) {
        let before = self.references.len();
        self.tables(&FOLDER, at, value, field);
        for reference in &mut self.references[before..] {
            let folder = field.iter().enumerate().find(|(n, _)| {
                reference.key.strip_prefix(at.key).is_some_and(|it| it.starts_with(&format!("[{n}].")))
            });
            if let Some((_, folder)) = folder {
                reference.to = To::Server(folder.servers.keys().cloned().collect());
            }
        }
    }

    fn tables<T>(
        &mut self,
        section: &Section<T>,
        at: &At<'_>,
        value: &Spanned<DeValue<'_>>,
        field: &mut Vec<T>,
    ) {
        let Some(items) = value.get_ref().as_array().filter(|it| is_tables(it)) else {
            let message =
                format!("expected {} with keys below, found {}", section.header, shown(value.get_ref()));
            return self.problem(at.line, at.key, message);
        };
        for (n, item) in items.iter().enumerate() {
            let Some(table) = item.get_ref().as_table() else { continue };
            let mut it = (section.fresh)();
            let line = self.line(item.span().start);
            self.section(section, &format!("{}[{n}]", at.key), table, line, &mut it);
            field.push(it);
        }
    }

    /// The named tables of a section, with their lines.
    fn named<'t>(
        &mut self,
        header: &str,
        at: &At<'_>,
        value: &'t Spanned<DeValue<'_>>,
    ) -> Vec<(String, usize, &'t DeTable<'t>)> {
        let Some(names) = value.get_ref().as_table() else {
            let message = format!("expected {header} with keys below, found {}", shown(value.get_ref()));
            self.problem(at.line, at.key, message);
            return Vec::new();
        };
        let mut found = Vec::new();
        for (name, value) in names {
            let line = self.line(name.span().start);
            let key = join(at.key, name.get_ref());
            if name.get_ref().trim().is_empty() || name.get_ref().chars().any(char::is_control) {
                self.problem(
                    line,
                    &key,
                    format!("the NAME in {header} must not be empty or contain control characters"),
                );
            } else if let Some(table) = value.get_ref().as_table() {
                found.push((name.get_ref().to_string(), line, table));
            } else {
                let message = format!("expected the table {header}, found {}", shown(value.get_ref()));
                self.problem(line, &key, message);
            }
        }
        found
    }

    /// Reports unknown servers and agents.
    fn references(&mut self, config: &Config) {
        for reference in std::mem::take(&mut self.references) {
            let Reference { line, key, name, to } = reference;
            // The Copilot server is found without a section.
            let servers = || config.servers.keys().map(String::as_str).chain(["copilot"]);
            let (what, mut known): (_, Vec<&str>) = match &to {
                To::Agent => ("agent", config.agents.keys().map(String::as_str).collect()),
                To::Server(own) => ("server", servers().chain(own.iter().map(String::as_str)).collect()),
                To::Member => ("server", servers().chain(known_servers()).collect()),
                To::Group => {
                    ("group", config.groups.keys().map(String::as_str).chain(preset_names()).collect())
                }
            };
            known.sort_unstable();
            known.dedup();
            // For a model a name is the same in capital letters.
            let is_agent = matches!(to, To::Agent) && Config::agent_named(&config.agents, &name).is_some();
            if is_agent || known.contains(&name.as_str()) {
                continue;
            }
            let hint = match nearest(&name, known.iter().copied()) {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!("expected one of {}", known.join(", ")),
            };
            self.problem(line, &key, format!("unknown {what} {name:?}; {hint}"));
        }
    }

    /// Drops errors that invalid TOML may have caused: a missing key may stand in a line that lspool could not read.
    fn keep_what_errors_cannot_have_caused(&mut self) {
        let invalid: Vec<usize> =
            self.problems.iter().filter(|it| it.key.is_empty()).map(|it| it.line).collect();
        // Keys below an unreadable header belong to an unknown table.
        let headers: Vec<usize> = self
            .text
            .lines()
            .zip(1..)
            .filter(|(it, _)| it.trim_start().starts_with('['))
            .map(|it| it.1)
            .collect();
        let is_lost = |line: usize| {
            headers.iter().rfind(|it| **it < line).is_some_and(|header| invalid.contains(header))
        };
        self.problems.retain(|it| {
            it.key.is_empty()
                || !invalid.contains(&it.line)
                    && it.message != MISSING
                    && !(it.message.starts_with(UNKNOWN) && is_lost(it.line))
        });
    }
}

const REFUSED: &str = "a workspace file cannot set this key; set it in your own configuration file";

const UNKNOWN: &str = "unknown key";

const MISSING: &str = "missing; this key is required";

/// Keys that other sections call differently: the section, the key of the other section, and its name here.
const ELSEWHERE: [(&str, &str, &str); 3] = [
    (AGENT.header, "system_prompt", "prompt"),
    (ROUTE.header, "mode", "chat_mode"),
    (WORKER.header, "prompt", "system_prompt"),
];

fn unknown<T>(section: &Section<T>, name: &str) -> String {
    let keys = || section.keys.iter().map(|key| key.name);
    let meant = ELSEWHERE.iter().find(|(header, it, _)| (*header, *it) == (section.header, name));
    if let Some(near) = meant.map(|it| it.2).or_else(|| nearest(name, keys())) {
        return format!("{UNKNOWN}; did you mean `{near}`?");
    }
    match section_of(name) {
        Some(header) => format!("{UNKNOWN} here; it belongs below {header}"),
        None => {
            let keys: Vec<_> = keys().map(|it| format!("`{it}`")).collect();
            format!("{UNKNOWN}; expected one of {}", keys.join(", "))
        }
    }
}

/// The header of the section that has a key of this name.
fn section_of(name: &str) -> Option<&'static str> {
    fn has<T>(section: &Section<T>, name: &str) -> bool {
        section.keys.iter().any(|key| key.name == name)
    }
    let sections = [
        (ROOT.header, has(&ROOT, name)),
        (SERVER.header, has(&SERVER, name)),
        (GROUP.header, has(&GROUP, name)),
        (FOLDER.header, has(&FOLDER, name)),
        (AGENT.header, has(&AGENT, name)),
        (ROUTE.header, has(&ROUTE, name)),
        (SUB_AGENTS.header, has(&SUB_AGENTS, name)),
        (WORKER.header, has(&WORKER, name)),
        (ORCHESTRATION.header, has(&ORCHESTRATION, name)),
        (TOOLS.header, has(&TOOLS, name)),
        (LSP_TOOLS.header, has(&LSP_TOOLS, name)),
        (LOG.header, has(&LOG, name)),
    ];
    sections.into_iter().find(|(_, has)| *has).map(|(header, _)| header)
}

fn join(path: &str, name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name =
        if !name.is_empty() && name.chars().all(plain) { name.to_owned() } else { format!("{name:?}") };
    if path.is_empty() { name } else { format!("{path}.{name}") }
}

/// What stands in the file: a short value, or the type of a long one. A string may be a secret.
fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(_) => "a string".to_owned(),
        DeValue::Integer(it) => it.to_string(),
        DeValue::Float(it) => it.to_string(),
        DeValue::Boolean(it) => it.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(it) if is_tables(it) => "a list of tables".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

fn is_tables(items: &DeArray<'_>) -> bool {
    !items.is_empty() && items.iter().all(|it| it.get_ref().is_table())
}

fn any_text(value: &DeValue<'_>) -> Result<String, String> {
    match value {
        DeValue::String(it) if it.contains('\0') => Err("must not contain a NUL character".to_owned()),
        DeValue::String(it) => Ok(it.to_string()),
        // Without the number, which may be a secret: `args = ["--token", 1234]`.
        DeValue::Integer(_) | DeValue::Float(_) => {
            Err("expected a string, found a number; put it in quotes".to_owned())
        }
        DeValue::Boolean(it) => Err(format!("expected a string, found {it}; write \"{it}\"")),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
            Err(format!("expected a string in quotes, found {}", shown(value)))
        }
    }
}

fn text(value: &DeValue<'_>) -> Result<String, String> {
    let text = any_text(value)?;
    if text.trim().is_empty() { Err("must not be empty".to_owned()) } else { Ok(text) }
}

fn tools(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    tool_names(&text(value)?)
}

fn path(value: &DeValue<'_>) -> Result<String, String> {
    let path = text(value)?;
    let is_fixed = Path::new(&path).is_absolute() || path.starts_with("~/") || path == "~";
    let expected = || format!("expected an absolute path, or one that starts with \"~/\", found {path:?}");
    if is_fixed { Ok(path) } else { Err(expected()) }
}

fn command(value: &DeValue<'_>) -> Result<String, String> {
    let command = text(value)?;
    if !command.contains(['/', std::path::MAIN_SEPARATOR]) {
        return Ok(command);
    }
    path(value).map_err(|_| {
        format!(
            "expected an absolute path, one that starts with \"~/\", or a bare name, found the relative path \
             {command:?}"
        )
    })
}

fn with_unit<V>(value: &DeValue<'_>, right: &str, parse: fn(&str) -> Result<V, String>) -> Result<V, String> {
    match value {
        DeValue::String(it) => parse(it).map_err(|expected| format!("expected {expected}, found {it:?}")),
        other => Err(format!("expected {right}, found {}", shown(other))),
    }
}

fn count(value: &DeValue<'_>) -> Result<usize, String> {
    whole(value, 1)
}

fn amount(value: &DeValue<'_>) -> Result<usize, String> {
    whole(value, 0)
}

fn whole(value: &DeValue<'_>, least: u16) -> Result<usize, String> {
    let number = value.as_integer().and_then(|it| u16::from_str_radix(it.as_str(), it.radix()).ok());
    number
        .filter(|&it| it >= least)
        .map(usize::from)
        .ok_or_else(|| format!("expected an integer from {least} to {}, found {}", u16::MAX, shown(value)))
}

fn flag(value: &DeValue<'_>) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| format!("expected true or false, found {}", shown(value)))
}

/// A number in thousandths.
fn factor(value: &DeValue<'_>, (from, to): (u32, u32)) -> Result<u32, String> {
    let number = match value {
        DeValue::Integer(it) => it.as_str().parse::<f64>().ok(),
        DeValue::Float(it) => it.as_str().parse::<f64>().ok(),
        _ => None,
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it saturates, and is checked"
    )]
    let thousandths = number.map(|it| (it * 1000.0).round() as u32);
    thousandths.filter(|it| (from..=to).contains(it) && number.is_some_and(|it| it >= 0.0)).ok_or_else(|| {
        let show = |it: u32| f64::from(it) / 1000.0;
        format!("expected a number from {} to {}, found {}", show(from), show(to), shown(value))
    })
}

fn choice<V: Copy>(value: &DeValue<'_>, choices: &[(&str, V)]) -> Result<V, String> {
    let words: Vec<_> = choices.iter().map(|(word, _)| format!("{word:?}")).collect();
    let found = value.as_str().and_then(|text| choices.iter().find(|(word, _)| *word == text));
    found.map(|(_, choice)| *choice).ok_or_else(|| {
        let near = value.as_str().and_then(|it| nearest(it, choices.iter().map(|(word, _)| *word)));
        let meant = near.map(|it| format!("; did you mean {it:?}?")).unwrap_or_default();
        let value = value.as_str().map_or_else(|| shown(value), |text| format!("{text:?}"));
        format!("expected one of {}, found {value}{meant}", words.join(", "))
    })
}
