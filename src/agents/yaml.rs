//! YAML front matter as a tree with the line of each value.
//!
//! Anchors and aliases are errors: a few lines of them can stand for gigabytes, and the file may come from a
//! repository.

use std::collections::BTreeSet;

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

use super::file::Problem;

/// The limit of nesting.
const DEPTH: usize = 32;

/// A value with the line of its beginning, counted from 1.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) value: Yaml,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Yaml {
    /// `is_plain`: without quotes, so it may be a number or another scalar.
    Text {
        text: String,
        is_plain: bool,
    },
    List(Vec<Node>),
    Map(Entries),
}

/// Keys with their lines and values, in order.
pub(super) type Entries = Vec<(String, usize, Node)>;

impl Node {
    /// As JSON: plain scalars become numbers and so on.
    pub(super) fn to_json(&self) -> Value {
        match &self.value {
            Yaml::Text { text, is_plain: true } => plain(text),
            Yaml::Text { text, is_plain: false } => Value::String(text.clone()),
            Yaml::List(items) => items.iter().map(Node::to_json).collect(),
            Yaml::Map(entries) => {
                let entries = entries.iter().map(|(key, _, it)| (key.clone(), it.to_json()));
                Value::Object(entries.collect::<Map<_, _>>())
            }
        }
    }

    /// Whether the value is missing.
    pub(super) fn is_null(&self) -> bool {
        self.to_json().is_null()
    }

    /// A number as it is written, else its type.
    pub(super) fn shown(&self) -> String {
        match &self.value {
            Yaml::Text { text, .. } if self.to_json().is_number() => text.trim().to_owned(),
            Yaml::Text { .. } | Yaml::List(_) | Yaml::Map(_) => self.a().to_owned(),
        }
    }

    /// Its type, with an article.
    pub(super) fn a(&self) -> &'static str {
        match (&self.value, self.to_json()) {
            (Yaml::List(_), _) => "a list",
            (Yaml::Map(_), _) => "a table",
            (Yaml::Text { text, .. }, _) if text.trim().is_empty() => "empty",
            (_, Value::Null) => "empty",
            (_, Value::Bool(_)) => "a boolean",
            (_, Value::Number(_)) => "a number",
            (Yaml::Text { .. }, _) => "a text",
        }
    }
}

/// A plain scalar by the core schema of YAML 1.2.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => match serde_json::from_str(text) {
            Ok(Value::Number(number)) => Value::Number(number),
            Ok(_) | Err(_) => Value::String(text.to_owned()),
        },
    }
}

/// Reads a front matter, which must be a table. `before` is the number of lines before it.
pub(super) fn read(text: &str, before: usize) -> Result<Entries, Problem> {
    let mut reader = Reader { events: Parser::new_from_str(text), before };
    let mut root = None;
    while let Some((event, line)) = reader.next()? {
        match event {
            Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
            Event::StreamEnd => break,
            event if root.is_none() => root = Some(reader.node(event, line, DEPTH)?),
            _ => return Err(Problem::new(line, "expected one YAML document, found several")),
        }
    }
    match root {
        None => Ok(Vec::new()),
        Some(Node { value: Yaml::Map(entries), .. }) => Ok(entries),
        Some(node) if node.is_null() => Ok(Vec::new()),
        Some(node) => Err(Problem::new(
            node.line,
            format!("the front matter is {}; expected `key: value` lines", node.a()),
        )),
    }
}

/// Keys with texts for people or models.
const TEXTS: [&str; 3] = ["description", "argument-hint", "name"];

/// Like [`read`], but accepts a colon and a space in texts of one line, as in `description: Use when: …`. Other
/// programs read them as text. Reports each.
pub(super) fn read_loosely(text: &str, before: usize) -> Result<(Entries, Vec<Problem>), Problem> {
    let error = match read(text, before) {
        Ok(entries) => return Ok((entries, Vec::new())),
        Err(error) => error,
    };
    let (mut quoted, mut warnings) = (String::new(), Vec::new());
    let mut lines = text.lines().enumerate().peekable();
    while let Some((at, line)) = lines.next() {
        let goes_on = lines.peek().is_some_and(|(_, next)| next.starts_with([' ', '\t']));
        match quoted_text(line).filter(|_| !goes_on) {
            Some((key, line)) => {
                quoted += &line;
                let what = format!("{key}: put text that contains a colon and a space in quotes");
                warnings.push(Problem::new(before + at + 1, what));
            }
            None => quoted += line,
        }
        quoted.push('\n');
    }
    if warnings.is_empty() {
        return Err(error);
    }
    read(&quoted, before).map(|it| (it, warnings)).map_err(|_| error)
}

/// The key of a line with a colon in its text, and the line with quotes around the text.
fn quoted_text(line: &str) -> Option<(&str, String)> {
    let (key, text) = line.split_once(": ")?;
    let text = text.trim();
    let is_plain = !text.starts_with(['"', '\'', '[', '{', '|', '>', '&', '*', '!', '#', '%', '@', '`']);
    let has_colon = text.contains(": ") || text.ends_with(':');
    let quoted = || format!("{key}: '{}'", text.replace('\'', "''"));
    (TEXTS.contains(&key) && is_plain && has_colon).then(|| (key, quoted()))
}

struct Reader<'a> {
    events: Parser<'a, saphyr_parser::StrInput<'a>>,
    before: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<Option<(Event<'a>, usize)>, Problem> {
        match self.events.next() {
            None => Ok(None),
            Some(Ok((event, span))) => Ok(Some((event, self.before + span.start.line().max(1)))),
            Some(Err(error)) => {
                let line = self.before + error.marker().line().max(1);
                if error.info().contains("anchor or alias") {
                    return Err(Problem::new(line, ANCHORS));
                }
                let hint = match error.info().starts_with("mapping values are not allowed") {
                    true => "; put text that contains a colon and a space in quotes",
                    false => "",
                };
                Err(Problem::new(line, format!("invalid YAML: {}{hint}", error.info())))
            }
        }
    }

    /// The next event within a table or a list.
    fn inner(&mut self, line: usize) -> Result<(Event<'a>, usize), Problem> {
        self.next()?.ok_or_else(|| Problem::new(line, "invalid YAML: unexpected end"))
    }

    fn node(&mut self, event: Event<'a>, line: usize, depth: usize) -> Result<Node, Problem> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(Problem::new(line, "too deep"));
        };
        let anchored = |anchor: usize| anchor != 0;
        let value = match event {
            Event::Scalar(_, _, anchor, _)
            | Event::SequenceStart(anchor, _)
            | Event::MappingStart(anchor, _)
                if anchored(anchor) =>
            {
                return Err(Problem::new(line, ANCHORS));
            }
            Event::Alias(_) => return Err(Problem::new(line, ANCHORS)),
            Event::Scalar(text, style, ..) => {
                Yaml::Text { text: text.into_owned(), is_plain: style == ScalarStyle::Plain }
            }
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                loop {
                    match self.inner(line)? {
                        (Event::SequenceEnd, _) => break Yaml::List(items),
                        (event, line) => items.push(self.node(event, line, depth)?),
                    }
                }
            }
            Event::MappingStart(..) => Yaml::Map(self.entries(line, depth)?),
            _ => return Err(Problem::new(line, "invalid YAML: a value is missing")),
        };
        Ok(Node { line, value })
    }

    fn entries(&mut self, start: usize, depth: usize) -> Result<Entries, Problem> {
        let (mut entries, mut seen) = (Entries::new(), BTreeSet::new());
        loop {
            let (event, line) = self.inner(start)?;
            if event == Event::MappingEnd {
                return Ok(entries);
            }
            let key = match self.node(event, line, depth)?.value {
                Yaml::Text { text, .. } => text,
                Yaml::List(_) | Yaml::Map(_) => return Err(Problem::new(line, "a key must be text")),
            };
            let (event, value_line) = self.inner(line)?;
            let value = self.node(event, value_line, depth)?;
            if !seen.insert(key.clone()) {
                return Err(Problem::new(line, format!("duplicate key {key}")));
            }
            entries.push((key, line, value));
        }
    }
}

const ANCHORS: &str =
    "anchors (&) and aliases (*) are not supported; put text that begins with one in quotes";
