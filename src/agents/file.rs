//! One Markdown file: front matter and body.

use std::{fmt, path::Path};

use serde_json::Value;

use super::{
    aliases::{Meaning, meaning},
    limits::not_honored,
    yaml::{self, Entries, Node, Yaml},
};
use crate::{
    config::{AgentConfig, AgentSource, nearest},
    util::redact::redact,
};

/// An error in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, counted from 1.
    pub line: usize,
    /// What lspool expected and found.
    pub what: String,
}

impl Problem {
    /// An error. It may quote a part of the line, which may look like a secret.
    pub(super) fn new(line: usize, what: impl Into<String>) -> Problem {
        Problem { line, what: redact(&what.into()).into_owned() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.what)
    }
}

/// The definition in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// The name of the agent.
    pub name: String,
    /// The other properties. The caller sets the source.
    pub agent: AgentConfig,
    /// Parts that were left out, with reasons.
    pub warnings: Vec<Problem>,
}

/// The line before and after a front matter.
const FENCE: &str = "---";

/// Reads a file. `path` gives the name if the front matter has none.
pub fn parse(text: &str, path: &Path) -> Result<Definition, Vec<Problem>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some((front, body)) = split(text) else {
        let what =
            "missing front matter: the file must begin with a line `---`, and a second `---` must end it";
        return Err(vec![Problem { line: 1, what: what.to_owned() }]);
    };
    let (entries, warnings) = yaml::read_loosely(front, 1).map_err(|it| vec![it])?;
    let mut reader = Reader { problems: Vec::new(), warnings };
    let (name, agent) = reader.agent(&entries, body, path);
    match reader.problems.is_empty() {
        true => Ok(Definition { name, agent, warnings: reader.warnings }),
        false => Err(reader.problems),
    }
}

/// Keys with their values, and the rest of a file.
pub(crate) type FrontMatter<'a> = (Vec<(String, Value)>, &'a str);

/// Reads the front matter of a file as JSON, with the unchanged body.
pub(crate) fn front_matter(text: &str) -> Result<FrontMatter<'_>, Problem> {
    let missing = || Problem { line: 1, what: "missing front matter".to_owned() };
    let (front, body) = split(text).ok_or_else(missing)?;
    let entries = yaml::read(front, 1)?;
    Ok((entries.into_iter().map(|(key, _, value)| (key, value.to_json())).collect(), body))
}

/// Splits a file into front matter and body. Without the second fence there is no front matter.
fn split(text: &str) -> Option<(&str, &str)> {
    let is_fence = |line: &str| line.trim_end() == FENCE;
    let first = text.split_inclusive('\n').next().filter(|it| is_fence(it))?;
    let rest = &text[first.len()..];
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if is_fence(line) {
            return Some((&rest[..at], &rest[at + line.len()..]));
        }
        at += line.len();
    }
    None
}

/// The default name of an agent: that of its file.
fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".md").unwrap_or(&name);
    name.strip_suffix(".agent").unwrap_or(name).to_owned()
}

struct Reader {
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Reader {
    fn agent(&mut self, entries: &Entries, body: &str, path: &Path) -> (String, AgentConfig) {
        let mut agent = AgentConfig::of(AgentSource::User);
        let (mut name, mut name_line) = (stem(path), 1);
        for (key, line, value) in entries {
            match key.as_str() {
                "name" => {
                    name_line = *line;
                    name = self.text("name", value).unwrap_or(name);
                }
                "description" => agent.description = self.text("description", value),
                // VS Code allows a list, of which the first available model is used.
                "model" => {
                    let model = match &value.value {
                        Yaml::List(models) => models.first().and_then(|it| self.text("model", it)),
                        Yaml::Text { .. } | Yaml::Map(_) => self.text("model", value),
                    };
                    agent.model = model.filter(|it| it != "inherit");
                }
                "tools" => agent.tools = self.tools(value),
                "disallowedTools" | "disallowed_tools" => agent.disallowed_tools = self.denied(value),
                "maxTurns" | "max_turns" => agent.max_turns = self.count(key, value),
                key => match meant(key) {
                    Some(meant) => {
                        self.problem(*line, format!("{key}: unknown key; did you mean {meant}?"));
                    }
                    None => {
                        let value = value.to_json();
                        if let Some(what) = not_honored(key, &value) {
                            self.warn(*line, what);
                        }
                        agent.other.insert(key.to_owned(), value);
                    }
                },
            }
        }
        if name.trim().is_empty() || name.chars().any(char::is_control) {
            self.problem(name_line, "name: must not be empty or contain control characters");
        }
        let prompt = body.trim();
        agent.prompt = (!prompt.is_empty()).then(|| prompt.to_owned());
        (name.trim().to_owned(), agent)
    }

    fn problem(&mut self, line: usize, what: impl Into<String>) {
        self.problems.push(Problem::new(line, what));
    }

    fn warn(&mut self, line: usize, what: impl Into<String>) {
        self.warnings.push(Problem::new(line, what));
    }

    fn text(&mut self, key: &str, node: &Node) -> Option<String> {
        match &node.value {
            Yaml::Text { text, .. } if !text.trim().is_empty() => Some(text.trim().to_owned()),
            Yaml::Text { .. } | Yaml::List(_) | Yaml::Map(_) => {
                self.problem(node.line, format!("{key}: expected text, found {}", node.a()));
                None
            }
        }
    }

    fn count(&mut self, key: &str, node: &Node) -> Option<usize> {
        let number = match node.to_json() {
            Value::Number(it) => it.as_u64().filter(|it| (1..=u64::from(u16::MAX)).contains(it)),
            _ => None,
        };
        if number.is_none() {
            self.problem(
                node.line,
                format!("{key}: expected an integer of at least 1, found {}", node.shown()),
            );
        }
        number.and_then(|it| usize::try_from(it).ok())
    }

    /// The names in a list, or in a text with commas, with their lines.
    fn names(&mut self, key: &str, node: &Node) -> Vec<(usize, String)> {
        match &node.value {
            Yaml::Text { text, .. } if !node.is_null() || text.is_empty() && !is_plain(node) => {
                split_names(text).into_iter().map(|it| (node.line, it)).collect()
            }
            Yaml::List(items) => {
                let mut names = Vec::new();
                for item in items {
                    names.extend(self.text(key, item).map(|it| (item.line, it)));
                }
                names
            }
            Yaml::Text { .. } | Yaml::Map(_) => {
                let what = format!("{key}: expected a list of names (`[]` for none), found {}", node.a());
                self.problem(node.line, what);
                Vec::new()
            }
        }
    }

    fn tools(&mut self, node: &Node) -> Option<Vec<String>> {
        let mut tools = Vec::new();
        let names = self.names("tools", node);
        if let [(line, none)] = &names[..]
            && is_none(none)
        {
            self.warn(*line, "tools: \"none\" is read as `[]`: no tools");
            return Some(tools);
        }
        for (line, name) in names {
            match meaning(&name) {
                // It includes all other names.
                Meaning::All => return None,
                Meaning::Tools(names) => tools.extend(names),
                Meaning::Like(near) => {
                    self.warn(line, format!("tools: unknown tool {name:?}; did you mean {near:?}?"));
                    tools.push(name);
                }
                Meaning::Limited(tool) => {
                    self.warn(
                        line,
                        format!("tools: ignoring {name:?}: lspool cannot limit {tool} to some arguments"),
                    );
                }
                Meaning::Nothing => {
                    let several =
                        if name.contains(char::is_whitespace) { "; separate names with commas" } else { "" };
                    self.warn(line, format!("tools: ignoring {name:?}: it matches no tool here{several}"));
                }
            }
        }
        dedup(&mut tools);
        Some(tools)
    }

    /// In doubt, a tool is denied.
    fn denied(&mut self, node: &Node) -> Vec<String> {
        let mut denied = Vec::new();
        let mut names = self.names("disallowedTools", node);
        names.retain(|(_, name)| !is_none(name));
        for (line, name) in names {
            match meaning(&name) {
                Meaning::All => denied.push("*".to_owned()),
                Meaning::Tools(names) => denied.extend(names),
                Meaning::Like(near) => {
                    let what = format!("disallowedTools: unknown tool {name:?}; did you mean {near:?}?");
                    self.warn(line, what);
                    denied.push(name);
                }
                Meaning::Limited(tool) => {
                    let what = format!(
                        "disallowedTools: {name:?} removes {tool} altogether: lspool cannot limit it to some \
                         arguments"
                    );
                    self.warn(line, what);
                    denied.extend(split_names(&tool));
                }
                Meaning::Nothing => {
                    self.warn(line, format!("disallowedTools: {name:?} matches no tool here"));
                }
            }
        }
        dedup(&mut denied);
        denied
    }
}

/// Whether a word in the place of a list says that the list is empty.
fn is_none(name: &str) -> bool {
    name.eq_ignore_ascii_case("none")
}

/// A key of other programs that resembles one of lspool.
const OTHER: &str = "mode";

/// Keys that limit an agent in other programs, with the correct keys.
const SYNONYMS: &[(&str, &str)] = &[
    ("allowedtool", "tools"),
    ("allowedtools", "tools"),
    ("deniedtools", "disallowedTools"),
    ("excludedtools", "disallowedTools"),
];

/// The correct key for a mistyped one: an agent with an overlooked limit may do more than its file says.
fn meant(key: &str) -> Option<&'static str> {
    let plain = |it: &str| it.to_lowercase().replace(['-', '_', ' '], "");
    let known = ["name", "description", "model", "tools", "disallowedTools", "maxTurns"];
    if let Some(it) = known.into_iter().find(|it| plain(it) == plain(key)) {
        return Some(it);
    }
    if let Some((_, it)) = SYNONYMS.iter().find(|(it, _)| *it == plain(key)) {
        return Some(it);
    }
    let near = || nearest(key, ["model", "tools", "disallowedTools"]);
    if key == OTHER { None } else { near() }
}

fn is_plain(node: &Node) -> bool {
    matches!(node.value, Yaml::Text { is_plain: true, .. })
}

/// Splits at commas outside parentheses: `Bash(a, b), Read`.
fn split_names(text: &str) -> Vec<String> {
    let (mut names, mut depth, mut name) = (Vec::new(), 0_usize, String::new());
    for it in text.chars() {
        match it {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                names.push(std::mem::take(&mut name));
                continue;
            }
            _ => {}
        }
        name.push(it);
    }
    names.push(name);
    names.iter().map(|it| it.trim().to_owned()).filter(|it| !it.is_empty()).collect()
}

fn dedup(names: &mut Vec<String>) {
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|it| seen.insert(it.clone()));
}
