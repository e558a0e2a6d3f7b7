//! The status of running lspools, for people and for programs.

mod overview;

use serde::Deserialize;
use serde_json::{Value, json};

use super::pick::Seen;
use crate::{
    agents::likely_tools,
    cli::{
        columns::{shorten, width as columns_of},
        screen::{Screen, Tone},
    },
    config::ServerKind,
    util::text::plain,
};

/// The shown part of an answer to `lspool/status`. A later lspool may send more.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Status {
    #[serde(default)]
    kind: Option<ServerKind>,
    pub(super) workspace: Option<String>,
    editor: Option<String>,
    #[serde(default)]
    config: Configuration,
    #[serde(default)]
    dropped: DroppedFor,
    pub(super) backends: Vec<Backend>,
    #[serde(default)]
    sets: Vec<Set>,
    #[serde(default)]
    agents: Vec<Agent>,
    /// Set if it is the hub of a server that several lspools use.
    #[serde(default)]
    pub(super) hub: Option<Hub>,
    /// Conversations are shown by their ids.
    #[serde(skip)]
    pub(super) is_long: bool,
}

/// A hub, and who uses its server.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Hub {
    server: String,
    #[serde(default)]
    clients: Vec<HubClient>,
}

/// An lspool that uses a shared server.
#[derive(Clone, Debug, Deserialize)]
struct HubClient {
    pid: Option<u64>,
    editor: Option<String>,
    #[serde(default)]
    documents: u64,
    /// Whether the server has its texts.
    #[serde(default)]
    current: bool,
    /// Why it was sent away.
    private: Option<String>,
}

impl Hub {
    /// In words: `3 clients`.
    fn clients(&self) -> String {
        match self.clients.len() {
            1 => "1 client".to_owned(),
            n => format!("{n} clients"),
        }
    }
}

impl HubClient {
    /// In words: `lspool 7 for Neovim 0.11.4, 2 documents, its texts are current`.
    fn text(&self) -> String {
        let pid = self.pid.map_or("another lspool".to_owned(), |it| format!("lspool {it}"));
        let editor = self.editor.as_deref().map(|it| format!(" for {}", without_build(it)));
        let documents = match self.documents {
            1 => "1 document".to_owned(),
            n => format!("{n} documents"),
        };
        let current = if self.current { ", its texts are current" } else { "" };
        let private = self.private.as_deref().map(|why| format!(", leaves: {why}"));
        format!("{pid}{}, {documents}{current}{}", editor.unwrap_or_default(), private.unwrap_or_default())
    }
}

/// A tool set, and how conversations are kept to it.
#[derive(Clone, Debug, Deserialize)]
struct Set {
    toolset: Vec<String>,
    isolation: String,
    conversations: u64,
    #[serde(default)]
    ids: Vec<String>,
    why: Option<String>,
    #[serde(default)]
    unknown_tools: Vec<String>,
}

impl Set {
    /// Its names without a tool.
    fn unknown(&self) -> Option<String> {
        let one = |name: &String| match likely_tools(name) {
            meant if meant.is_empty() => name.clone(),
            meant => format!("{name} (did you mean {}?)", meant.join(", ")),
        };
        let all: Vec<String> = self.unknown_tools.iter().map(one).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// A line of text, if the table of servers does not show the same.
    fn text(&self, is_long: bool) -> Option<String> {
        let tools = if self.toolset.is_empty() { "none".to_owned() } else { self.toolset.join(",") };
        let chats = match is_long {
            true => self.ids.join(" "),
            false => self.conversations.to_string(),
        };
        match (self.isolation.as_str(), &self.why) {
            _ if chats.is_empty() => None,
            ("mode", _) => Some(format!("{tools}: {chats} by chat mode")),
            (_, Some(why)) => Some(format!("{tools}: {chats} by process ({why})")),
            (_, None) if is_long => Some(format!("{tools}: {chats} by process")),
            (_, None) => None,
        }
    }
}

/// A sub-agent, a member of a team, or a worker that is at work.
#[derive(Clone, Debug, Deserialize)]
struct Agent {
    name: String,
    kind: String,
    of: String,
    task: Option<u64>,
    tool: Option<String>,
    since: Option<u64>,
}

impl Agent {
    /// In words: `explore-1 (sub-agent of c) runs grep_search, 12 s`.
    fn text(&self, now: u64) -> String {
        let does = match (self.since, &self.tool) {
            (None, _) => "waits".to_owned(),
            (Some(_), Some(tool)) => format!("runs {tool}"),
            (Some(_), None) => "works".to_owned(),
        };
        let task = self.task.map(|it| format!(" on task {it}")).unwrap_or_default();
        let time = self.since.map(|it| format!(", {}", span(now.saturating_sub(it)))).unwrap_or_default();
        format!("{} ({} of {}) {does}{task}{time}", self.name, self.kind, self.of)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Configuration {
    error: Option<String>,
}

/// Messages dropped for clients.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct DroppedFor {
    editor: Dropped,
    control: Dropped,
}

/// Messages dropped for a slow reader.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Dropped {
    log_messages: u64,
    reports: u64,
}

impl Dropped {
    /// In words, if there are any.
    fn text(self) -> Option<String> {
        let Dropped { log_messages, reports } = self;
        let of = |n: u64, what: &str| (n > 0).then(|| format!("{n} {what}"));
        let all: Vec<String> =
            of(log_messages, "log messages").into_iter().chain(of(reports, "stale reports")).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }
}

/// A backend.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Backend {
    pub(super) name: String,
    toolset: Option<Vec<String>>,
    state: String,
    since: Option<u64>,
    pid: Option<u32>,
    rss_bytes: Option<u64>,
    #[serde(default)]
    restarts: u64,
    #[serde(default)]
    conversations: u64,
    #[serde(default)]
    in_flight: u64,
    #[serde(default)]
    refused: u64,
    #[serde(default)]
    dropped: Dropped,
    last_error: Option<String>,
    #[serde(default)]
    last_error_at: Option<u64>,
    #[serde(default)]
    crashes: u64,
    #[serde(default)]
    next_start: Option<u64>,
    /// Why it was stopped, if it is.
    #[serde(default)]
    stopped: Option<String>,
    /// Whether other lspools use its process, too.
    #[serde(default)]
    shared: bool,
    /// Why they do not, although they could.
    #[serde(default)]
    private: Option<String>,
}

impl Status {
    /// Whether its server may have agents. An earlier lspool does not say.
    pub(super) fn may_have_agents(&self) -> bool {
        self.kind != Some(ServerKind::Generic)
    }

    /// Whether an agent of this name is at work.
    pub(super) fn has_agent(&self, name: &str) -> bool {
        self.agents.iter().any(|it| it.name == name)
    }

    pub(super) fn read(answer: &Value) -> Result<Status, String> {
        Status::deserialize(answer).map_err(|error| format!("its answer is invalid: {error}"))
    }
}

impl Backend {
    /// The text between the quotes of `partition "TOOLS" of SERVER`.
    pub(super) fn tools_in_name(&self) -> Option<&str> {
        let (_, rest) = self.name.split_once('"')?;
        let (tools, _) = rest.rsplit_once('"')?;
        Some(if tools.is_empty() { "none" } else { tools })
    }

    /// Its server, or the server of its partition.
    fn server(&self) -> &str {
        self.name.rsplit_once("\" of ").map_or(&self.name, |(_, server)| server)
    }

    /// Its process, if it has one.
    pub(super) fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Its state in the table.
    pub(super) fn state(&self) -> String {
        plain(&self.state)
    }

    /// Its tools in the table.
    pub(super) fn tools(&self) -> String {
        match (self.tools_in_name(), &self.toolset) {
            (Some(tools), _) => tools.to_owned(),
            (None, None) => "all".to_owned(),
            (None, Some(tools)) if tools.is_empty() => "none".to_owned(),
            (None, Some(tools)) => tools.join(","),
        }
    }

    /// How often it has crashed, if that was no single accident, and when it last went wrong.
    fn error_label(&self, now: u64) -> String {
        let ago = self.last_error_at.map(|at| format!(" {} ago", span(now.saturating_sub(at))));
        let crashes = (self.crashes > 1).then(|| format!("crashed {} times, ", self.crashes));
        format!("{}last error{}", crashes.unwrap_or_default(), ago.unwrap_or_default())
    }

    fn tone(&self) -> Tone {
        match self.state.as_str() {
            "ready" => Tone::Good,
            "failed" => Tone::Bad,
            "stopped" => Tone::Faint,
            _ => Tone::Passing,
        }
    }
}

/// One JSON document for all.
pub(super) fn json(seen: &[Seen]) -> Value {
    let instance = |it: &Seen| match &it.answer {
        Ok(answer) => answer.raw.clone(),
        Err(error) => json!({"pid": it.instance.pid, "error": error}),
    };
    json!({"instances": seen.iter().map(instance).collect::<Vec<_>>()})
}

/// One table for all, or a table for each.
pub(super) fn text(seen: &[Seen], now: u64, screen: Screen) -> String {
    let status = |it: &Seen| it.answer.as_ref().map(|it| it.status.clone()).map_err(Clone::clone);
    let all: Vec<_> = seen.iter().map(|it| (it.instance.pid, status(it))).collect();
    text_of(&all, now, screen)
}

/// The same for a status, or why there is none, by the pid of the lspool.
pub(super) fn text_of(all: &[(u32, Result<Status, String>)], now: u64, screen: Screen) -> String {
    let all: Vec<_> = all.iter().map(|(pid, it)| (*pid, it.as_ref().map_err(String::as_str))).collect();
    let mut lines = Vec::new();
    if overview::fits(&all) {
        let all: Vec<_> = all.iter().filter_map(|(pid, it)| Some((*pid, (*it).ok()?))).collect();
        lines = overview::lines(&all, now, screen);
    } else {
        for (pid, status) in all {
            if !lines.is_empty() {
                lines.push(String::new());
            }
            instance(pid, status, now, screen, &mut lines);
        }
    }
    lines.iter().fold(String::new(), |all, line| all + line + "\n")
}

/// The columns. `true` aligns right, for numbers.
const HEAD: [(&str, bool); 10] = [
    ("SERVER", false),
    ("TOOLS", false),
    ("STATE", false),
    ("SINCE", true),
    ("PID", true),
    ("MEMORY", true),
    ("RESTARTS", true),
    ("CHATS", true),
    ("REQUESTS", true),
    ("REFUSED", true),
];
const TOOLS: usize = 1;
const STATE: usize = 2;
const CHATS: usize = 7;
const REFUSED: usize = 9;
/// The gap between two columns.
const GAP: &str = "  ";
/// The fewest columns for the tools.
const FEWEST: usize = 12;
/// The fewest columns that stay.
const FEWEST_COLUMNS: usize = 5;

pub(super) fn instance(
    pid: u32,
    status: Result<&Status, &str>,
    now: u64,
    screen: Screen,
    lines: &mut Vec<String>,
) {
    let width = screen.size.map_or(usize::MAX, |(columns, _)| columns);
    let status = match status {
        Ok(status) => status,
        Err(problem) => {
            let problem = screen.paint(&plain(problem), Tone::Bad);
            lines.push(format!("{}{GAP}{problem}", screen.paint(&format!("lspool {pid}"), Tone::Strong)));
            return;
        }
    };
    let head = if status.hub.is_some() { format!("hub {pid}") } else { format!("lspool {pid}") };
    let editor = status.editor.as_deref().map_or("", without_build);
    let hub = status.hub.as_ref().map(|it| format!("{}{GAP}{}", it.server, it.clients()));
    let editor = hub.as_deref().unwrap_or(editor);
    let about = [status.workspace.as_deref().unwrap_or("no workspace"), editor];
    let about = about.iter().filter(|it| !it.is_empty()).map(|it| plain(it)).collect::<Vec<_>>().join(GAP);
    let about = shorten(&about, width.saturating_sub(head.len() + GAP.len()));
    lines.push(format!("{}{GAP}{about}", screen.paint(&head, Tone::Strong)));
    config_notes(status, screen, lines);

    let rows: Vec<[String; 10]> = status.backends.iter().map(|it| cells(it, now)).collect();
    let mut widths = HEAD.map(|(head, _)| head.len());
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(columns_of(cell));
        }
    }
    if status.backends.iter().all(|it| it.tools() == "all") {
        widths[TOOLS] = 0;
    }
    let has_agents = status.may_have_agents();
    let is_shown = |n: &usize| match *n {
        TOOLS => widths[TOOLS] > 0,
        // A server without agents has neither.
        CHATS | REFUSED => has_agents,
        _ => true,
    };
    let mut shown: Vec<usize> = (0..HEAD.len()).filter(is_shown).collect();
    let excess = |shown: &[usize], widths: &[usize]| {
        shown.iter().map(|n| widths[*n] + GAP.len()).sum::<usize>().saturating_sub(width)
    };
    let spare = widths[TOOLS] - FEWEST.min(widths[TOOLS]);
    // The last columns matter least.
    while excess(&shown, &widths) > spare && shown.len() > FEWEST_COLUMNS {
        shown.pop();
    }
    widths[TOOLS] -= spare.min(excess(&shown, &widths));
    let line = |row: &[String; 10], tone: &dyn Fn(usize) -> Tone| {
        let mut line = String::new();
        for &n in &shown {
            let cell = shorten(&row[n], widths[n]);
            let pad = " ".repeat(widths[n].saturating_sub(columns_of(&cell)));
            let cell = screen.paint(&cell, tone(n));
            let (before, after) = if HEAD[n].1 { (pad, String::new()) } else { (String::new(), pad) };
            line = line + GAP + &before + &cell + &after;
        }
        line.trim_end().to_owned()
    };
    if rows.is_empty() {
        lines.push(format!("{GAP}{}", screen.paint("no server yet", Tone::Faint)));
        return;
    }
    lines.push(line(&HEAD.map(|(head, _)| head.to_owned()), &|_| Tone::Faint));
    for (backend, row) in status.backends.iter().zip(&rows) {
        lines.push(line(row, &|n| if n == STATE { backend.tone() } else { Tone::Plain }));
        notes(backend, now, screen, lines);
    }
    for text in status.sets.iter().filter_map(|it| it.text(status.is_long)) {
        note("chats", &text, width, screen, lines);
    }
    for it in &status.agents {
        note("agent", &it.text(now), width, screen, lines);
    }
    for text in status.sets.iter().filter_map(Set::unknown) {
        note("unknown tool", &text, width, screen, lines);
    }
}

/// Adds the notes on an lspool as a whole.
fn config_notes(status: &Status, screen: Screen, lines: &mut Vec<String>) {
    let width = screen.columns().unwrap_or(usize::MAX);
    for client in status.hub.iter().flat_map(|it| &it.clients) {
        note("client", &client.text(), width, screen, lines);
    }
    if let Some(error) = &status.config.error {
        note("configuration", &beginning(error), width, screen, lines);
    }
    let DroppedFor { editor, control } = status.dropped;
    for (whom, dropped) in [("the editor", editor), ("commands like this", control)] {
        if let Some(text) = dropped.text() {
            note(&format!("dropped for {whom}"), &text, width, screen, lines);
        }
    }
}

/// Adds the notes on a backend.
fn notes(backend: &Backend, now: u64, screen: Screen, lines: &mut Vec<String>) {
    let width = screen.columns().unwrap_or(usize::MAX);
    if let Some(why) = &backend.stopped {
        note("stopped", why, width, screen, lines);
    }
    if backend.shared {
        note("shared", "by a hub", width, screen, lines);
    }
    if let Some(why) = &backend.private {
        note("private", why, width, screen, lines);
    }
    if let Some(error) = &backend.last_error {
        note(&backend.error_label(now), error, width, screen, lines);
    }
    // One that is due waits for the process before it.
    if let Some(at) = backend.next_start.filter(|at| *at > now) {
        note("next start", &format!("in {}", span(at - now + 999)), width, screen, lines);
    }
    if backend.state == "failed" {
        let restart = format!("run `lspool restart {}`", shell_word(&backend.name));
        note("hint", &restart, width, screen, lines);
    }
    if let Some(text) = backend.dropped.text() {
        note("dropped for it", &text, width, screen, lines);
    }
}

/// `Neovim 0.11.4` of `Neovim 0.11.4+v0.11.4`.
fn without_build(editor: &str) -> &str {
    let version = editor.rfind(' ').unwrap_or(editor.len());
    let build = editor[version..].find('+').map_or(editor.len(), |it| version + it);
    &editor[..build]
}

/// The first errors of a configuration: each lspool would repeat all of them.
fn beginning(error: &str) -> String {
    const SHOWN: usize = 3;
    let problems = error.strip_prefix("the configuration has errors:\n").unwrap_or(error);
    let mut lines: Vec<&str> = problems.lines().collect();
    let more = lines.split_off(SHOWN.min(lines.len())).len();
    let more = (more > 0).then(|| format!("\n{more} more; `lspool check` shows them all"));
    lines.join("\n") + &more.unwrap_or_default()
}

/// A name, quoted for a shell if necessary.
fn shell_word(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    match name.chars().all(is_plain) && !name.is_empty() {
        true => name.to_owned(),
        false => format!("'{}'", name.replace('\'', "'\\''")),
    }
}

/// Adds a note, wrapped if it is long.
fn note(what: &str, text: &str, width: usize, screen: Screen, lines: &mut Vec<String>) {
    let tone = if what == "configuration" { Tone::Bad } else { Tone::Faint };
    for (n, part) in plain(text).trim_end().lines().enumerate() {
        let part = if n == 0 { format!("    {what}: {part}") } else { format!("      {part}") };
        lines.push(screen.paint(&shorten(&part, width), tone));
    }
}

fn cells(it: &Backend, now: u64) -> [String; 10] {
    let number = |it: u64| it.to_string();
    let none = || "-".to_owned();
    [
        plain(it.server()),
        plain(&it.tools()),
        plain(&it.state),
        it.since.map_or_else(none, |since| span(now.saturating_sub(since))),
        it.pid.map_or_else(none, |pid| pid.to_string()),
        it.rss_bytes.map_or_else(none, memory),
        number(it.restarts),
        number(it.conversations),
        number(it.in_flight),
        number(it.refused),
    ]
}

/// A duration in its largest fitting unit.
pub(super) fn span(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

pub(super) fn memory(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}
