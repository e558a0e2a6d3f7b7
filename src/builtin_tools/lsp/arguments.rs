//! Reads the arguments of a call. The errors are for the model.

use serde_json::{Map, Value};

use super::{LspTool, NamePath, ParameterType, is_of_target};
use crate::{config::nearest, rpc::file_path};

/// Which symbol or place is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Its name.
    pub symbol: Option<NamePath>,
    /// A path.
    pub file: Option<String>,
    /// A line, from 0.
    pub line: Option<u32>,
    /// A character, from 0.
    pub character: Option<u32>,
    /// A piece of a line.
    pub line_text: Option<String>,
}

/// What [`LspTool::Definition`] looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionKind {
    /// The definition.
    Definition,
    /// The declaration.
    Declaration,
    /// The definition of the type.
    Type,
}

/// Which way a hierarchy is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Callers, or supertypes.
    Up,
    /// What is called, or subtypes.
    Down,
}

/// Whether an edit is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apply {
    /// It is made.
    Now,
    /// It is shown.
    Preview,
}

/// The severity of a diagnostic, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// `error`
    Error,
    /// `warning`
    Warning,
    /// `information`
    Information,
    /// `hint`
    Hint,
}

impl Severity {
    const ALL: [(&'static str, Severity); 4] = [
        ("error", Severity::Error),
        ("warning", Severity::Warning),
        ("information", Severity::Information),
        ("hint", Severity::Hint),
    ];

    /// Its word.
    pub fn word(self) -> &'static str {
        Severity::ALL.iter().find(|(_, it)| *it == self).map_or("", |(word, _)| word)
    }

    /// The severity of this number in the protocol. A diagnostic without one counts as an error.
    pub fn of_number(number: Option<u64>) -> Severity {
        match number {
            Some(2) => Severity::Warning,
            Some(3) => Severity::Information,
            Some(4) => Severity::Hint,
            Some(_) | None => Severity::Error,
        }
    }
}

/// Which server is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RawTarget {
    /// The one of this name.
    Server(String),
    /// One for this language.
    Language(String),
}

/// A call with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LspCall {
    /// [`LspTool::Search`]
    Search {
        /// A text or a regular expression.
        query: String,
        /// Whether it is the latter.
        is_regex: bool,
        /// A pattern for paths.
        glob: Option<String>,
        /// A file or a folder.
        path: Option<String>,
        /// Lines around.
        context: u32,
        /// How many.
        most: usize,
        /// A cursor.
        after: Option<String>,
    },
    /// [`LspTool::ApplyEdit`]
    ApplyEdit {
        /// Its id.
        edit: String,
    },
    /// [`LspTool::CodeActions`]
    CodeActions {
        /// A path.
        file: String,
        /// The first and the last line, from 0.
        lines: (u32, u32),
        /// Only this kind.
        kind: Option<String>,
    },
    /// [`LspTool::Format`]
    Format {
        /// A path.
        file: String,
        /// The first and the last line, from 0.
        lines: Option<(u32, u32)>,
        /// Whether it is made.
        apply: Apply,
    },
    /// [`LspTool::Rename`]
    Rename {
        /// What.
        target: Target,
        /// Its name afterwards.
        new_name: String,
        /// Whether it is made.
        apply: Apply,
    },
    /// [`LspTool::Workspace`]
    Workspace,
    /// [`LspTool::WorkspaceSymbols`]
    WorkspaceSymbols {
        /// A part of a name.
        query: String,
        /// Only this kind.
        kind: Option<String>,
        /// How many.
        most: usize,
    },
    /// [`LspTool::DocumentSymbols`]
    DocumentSymbols {
        /// A path.
        file: String,
        /// Levels.
        depth: usize,
    },
    /// [`LspTool::Definition`]
    Definition {
        /// Of what.
        target: Target,
        /// What of it.
        kind: DefinitionKind,
        /// Whether the whole text is wanted.
        body: bool,
    },
    /// [`LspTool::References`]
    References {
        /// Of what.
        target: Target,
        /// Whether the declaration counts.
        include_declaration: bool,
        /// Lines around.
        context: u32,
        /// How many.
        most: usize,
        /// A cursor.
        after: Option<String>,
        /// A pattern for paths.
        path: Option<String>,
    },
    /// [`LspTool::Implementations`]
    Implementations {
        /// Of what.
        target: Target,
        /// How many.
        most: usize,
        /// A cursor.
        after: Option<String>,
    },
    /// [`LspTool::Hover`]
    Hover {
        /// Of what.
        target: Target,
    },
    /// [`LspTool::Diagnostics`]
    Diagnostics {
        /// Paths and patterns.
        files: Option<Vec<String>>,
        /// The least severity.
        severity: Severity,
        /// How many.
        most: usize,
    },
    /// [`LspTool::CallHierarchy`]
    CallHierarchy {
        /// Of what.
        target: Target,
        /// Which way.
        direction: Direction,
        /// How far.
        depth: usize,
    },
    /// [`LspTool::Start`]
    Start {
        /// What.
        target: RawTarget,
        /// Where.
        root: Option<String>,
    },
    /// [`LspTool::Request`]
    Request {
        /// The name from a start.
        server: String,
        /// What to ask.
        method: String,
        /// About what.
        params: Value,
        /// How long to wait, in seconds.
        timeout: Option<usize>,
    },
    /// [`LspTool::Stop`]
    Stop {
        /// The name from a start.
        server: String,
    },
    /// [`LspTool::TypeHierarchy`]
    TypeHierarchy {
        /// Of what.
        target: Target,
        /// Which way.
        direction: Direction,
        /// How far.
        depth: usize,
    },
}

/// How many results a call may ask for.
const MOST: usize = 1000;

impl LspCall {
    /// Reads the arguments. A call that does not say how many results it wants gets this many.
    pub fn read(tool: LspTool, arguments: &Value, usual: usize) -> Result<LspCall, String> {
        let none = Map::new();
        let given = match arguments {
            Value::Object(given) => given,
            Value::Null => &none,
            _ => return Err("the arguments must be a JSON object".to_owned()),
        };
        let parameters = tool.parameters();
        let known = || parameters.iter().map(|it| it.name);
        for key in given.keys() {
            if !known().any(|it| it == key) {
                let hint = match (nearest(key, known()), parameters.is_empty()) {
                    (Some(near), _) => format!("did you mean `{near}`?"),
                    (None, true) => "it takes none".to_owned(),
                    (None, false) => {
                        format!("expected one of {}", known().collect::<Vec<_>>().join(", "))
                    }
                };
                return Err(format!("unknown argument `{key}` of {}; {hint}", tool.name()));
            }
        }
        let it = Arguments { given };
        for parameter in &parameters {
            it.check(parameter.name, parameter.is)?;
            if parameter.required && it.get(parameter.name).is_none() {
                return Err(format!("`{}` is missing", parameter.name));
            }
        }
        let most = |usual| Ok::<_, String>(it.number("max_results")?.unwrap_or(usual).clamp(1, MOST));
        let apply = || Ok::<_, String>(if it.flag("preview", false)? { Apply::Preview } else { Apply::Now });
        Ok(match tool {
            LspTool::Search => LspCall::Search {
                after: it.text("after"),
                query: it.given("query")?,
                is_regex: it.flag("is_regex", false)?,
                glob: it.text("glob"),
                path: it.get("path").map(|_| it.path("path")).transpose()?,
                context: it.context()?,
                most: most(usual)?,
            },
            LspTool::ApplyEdit => LspCall::ApplyEdit { edit: it.given("edit")?.trim().to_owned() },
            LspTool::CodeActions => LspCall::CodeActions {
                file: it.path("file")?,
                lines: it.lines()?.ok_or("`start_line` is missing")?,
                kind: it.text("kind"),
            },
            LspTool::Format => {
                LspCall::Format { file: it.path("file")?, lines: it.lines()?, apply: apply()? }
            }
            LspTool::Rename => {
                let new_name = it.given("new_name")?.trim().to_owned();
                if new_name.contains(char::is_control) {
                    return Err("`new_name` is not a name".to_owned());
                }
                LspCall::Rename { target: it.target()?, new_name, apply: apply()? }
            }
            LspTool::Workspace => LspCall::Workspace,
            LspTool::WorkspaceSymbols => LspCall::WorkspaceSymbols {
                query: it.given("query")?,
                kind: it.text("kind"),
                most: most(usual)?,
            },
            LspTool::DocumentSymbols => LspCall::DocumentSymbols {
                file: it.path("file")?,
                depth: it.number("depth")?.unwrap_or(2).max(1),
            },
            LspTool::Definition => LspCall::Definition {
                target: it.target()?,
                kind: it.one_of(
                    "kind",
                    &[
                        ("definition", DefinitionKind::Definition),
                        ("declaration", DefinitionKind::Declaration),
                        ("type", DefinitionKind::Type),
                    ],
                    DefinitionKind::Definition,
                )?,
                body: it.flag("body", false)?,
            },
            LspTool::References => LspCall::References {
                after: it.text("after"),
                target: it.target()?,
                include_declaration: it.flag("include_declaration", true)?,
                context: it.context()?,
                most: most(usual)?,
                path: it.text("path"),
            },
            LspTool::Implementations => {
                LspCall::Implementations { after: it.text("after"), target: it.target()?, most: most(usual)? }
            }
            LspTool::Hover => LspCall::Hover { target: it.target()? },
            LspTool::Diagnostics => LspCall::Diagnostics {
                files: it.texts("files")?,
                severity: it.one_of("severity", &Severity::ALL, Severity::Warning)?,
                most: most(2 * usual)?,
            },
            LspTool::CallHierarchy => LspCall::CallHierarchy {
                target: it.target()?,
                direction: it.one_of(
                    "direction",
                    &[("incoming", Direction::Up), ("outgoing", Direction::Down)],
                    Direction::Up,
                )?,
                depth: it.number("depth")?.unwrap_or(1).clamp(1, 3),
            },
            LspTool::Start => LspCall::Start {
                target: match (it.text("server"), it.text("language")) {
                    (Some(server), None) => RawTarget::Server(server),
                    (None, Some(language)) => RawTarget::Language(language),
                    _ => return Err("give `language` or `server`".to_owned()),
                },
                root: it.get("root").map(|_| it.path("root")).transpose()?,
            },
            LspTool::Request => LspCall::Request {
                server: it.given("server_id")?,
                method: it.given("method")?,
                params: it.object("params")?,
                timeout: it.number("timeout")?,
            },
            LspTool::Stop => LspCall::Stop { server: it.given("server_id")? },
            LspTool::TypeHierarchy => LspCall::TypeHierarchy {
                target: it.target()?,
                direction: it.one_of(
                    "direction",
                    &[("supertypes", Direction::Up), ("subtypes", Direction::Down)],
                    Direction::Up,
                )?,
                depth: it.number("depth")?.unwrap_or(1).clamp(1, 3),
            },
        })
    }
}

struct Arguments<'a> {
    given: &'a Map<String, Value>,
}

impl Arguments<'_> {
    fn get(&self, key: &str) -> Option<&Value> {
        self.given.get(key).filter(|it| !it.is_null())
    }

    /// Checks the type. Numbers and flags may come as texts.
    fn check(&self, key: &str, is: ParameterType) -> Result<(), String> {
        let Some(value) = self.get(key) else { return Ok(()) };
        let (fits, what) = match is {
            ParameterType::Text => (value.is_string(), "a string"),
            ParameterType::Integer => (self.number(key)?.is_some(), "an integer"),
            ParameterType::Flag => (self.flag(key, false).is_ok(), "true or false"),
            ParameterType::Texts => (self.texts(key).is_ok(), "a list of strings"),
            ParameterType::Object => (self.object(key).is_ok(), "an object"),
        };
        if fits { Ok(()) } else { Err(format!("`{key}` must be {what}")) }
    }

    fn text(&self, key: &str) -> Option<String> {
        self.get(key)?.as_str().map(ToOwned::to_owned).filter(|it| !it.is_empty())
    }

    /// A required text.
    fn given(&self, key: &str) -> Result<String, String> {
        self.text(key).filter(|it| !it.trim().is_empty()).ok_or_else(|| format!("`{key}` is empty"))
    }

    fn path(&self, key: &str) -> Result<String, String> {
        path(key, &self.given(key)?)
    }

    fn texts(&self, key: &str) -> Result<Option<Vec<String>>, String> {
        let wrong = || format!("`{key}` must be a list of strings");
        let all: Vec<String> = match self.get(key) {
            None => return Ok(None),
            // Models write a single file as a text.
            Some(Value::String(one)) => vec![one.clone()],
            Some(Value::Array(all)) => {
                let text = |it: &Value| it.as_str().map(ToOwned::to_owned).ok_or_else(wrong);
                all.iter().map(text).collect::<Result<_, _>>()?
            }
            Some(_) => return Err(wrong()),
        };
        all.iter().map(|it| path(key, it)).collect::<Result<_, _>>().map(Some)
    }

    fn context(&self) -> Result<u32, String> {
        Ok(u32::try_from(self.number("context")?.unwrap_or(0).min(5)).unwrap_or(5))
    }

    /// An object. Models also write it as a text.
    fn object(&self, key: &str) -> Result<Value, String> {
        let wrong = || format!("`{key}` must be an object");
        match self.get(key) {
            None => Ok(Value::Object(Map::new())),
            Some(Value::String(text)) => {
                let read: Option<Value> = crate::util::json::read(text.as_bytes()).ok();
                read.filter(Value::is_object).ok_or_else(wrong)
            }
            Some(value) => Some(value).filter(|it| it.is_object()).cloned().ok_or_else(wrong),
        }
    }

    fn flag(&self, key: &str, usual: bool) -> Result<bool, String> {
        match self.get(key) {
            None => Ok(usual),
            Some(Value::Bool(it)) => Ok(*it),
            Some(Value::String(it)) if it == "true" || it == "false" => Ok(it == "true"),
            Some(_) => Err(format!("`{key}` must be true or false")),
        }
    }

    /// A whole number. Models also write `3.0` and `"3"`.
    fn number(&self, key: &str) -> Result<Option<usize>, String> {
        let wrong = || format!("`{key}` must be an integer of at least 0");
        let number = match self.get(key) {
            None => return Ok(None),
            Some(Value::String(text)) => text.trim().parse::<f64>().map_err(|_| wrong())?,
            Some(value) => value.as_f64().ok_or_else(wrong)?,
        };
        if number.fract() != 0.0 || !(0.0..=1e9).contains(&number) {
            return Err(wrong());
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "its range is checked")]
        let number = number as usize;
        Ok(Some(number))
    }

    fn one_of<T: Copy>(&self, key: &str, words: &[(&str, T)], usual: T) -> Result<T, String> {
        let Some(given) = self.text(key) else { return Ok(usual) };
        let found = words.iter().find(|(word, _)| *word == given).map(|(_, it)| *it);
        found.ok_or_else(|| {
            let all: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            format!("`{key}` must be one of {}, found {given:?}", all.join(", "))
        })
    }

    /// A number counted from 1, counted from 0.
    fn counted(&self, key: &str) -> Result<Option<u32>, String> {
        match self.number(key)? {
            None => Ok(None),
            Some(0) => Err(format!("`{key}` is counted from 1")),
            Some(number) => Ok(Some(u32::try_from(number - 1).unwrap_or(u32::MAX))),
        }
    }

    /// `start_line` and `end_line`.
    fn lines(&self) -> Result<Option<(u32, u32)>, String> {
        match (self.counted("start_line")?, self.counted("end_line")?) {
            (None, None) => Ok(None),
            (None, Some(_)) => Err("`start_line` is missing".to_owned()),
            (Some(first), last) => match last.unwrap_or(first) {
                last if last < first => Err("`end_line` is before `start_line`".to_owned()),
                last => Ok(Some((first, last))),
            },
        }
    }

    fn target(&self) -> Result<Target, String> {
        let symbol = self.text("symbol").map(|it| NamePath::parse(&it)).transpose()?;
        let file = if self.text("file").is_some() { Some(self.path("file")?) } else { None };
        let (line, character) = (self.counted("line")?, self.counted("character")?);
        let line_text = self.text("line_text");
        let needs = |what: &str| Err(format!("{what}: see the descriptions of the arguments"));
        match (&symbol, &file, line, character, &line_text) {
            // A page of an earlier answer needs no target.
            (None, None, None, None, None) if self.text("after").is_some() => {}
            (None, None, ..) => return needs("give `symbol`, or `file` with a place"),
            (_, None, Some(_), ..) | (_, None, _, Some(_), _) | (_, None, _, _, Some(_)) => {
                return needs("`file` is missing");
            }
            (_, _, None, Some(_), _) => return needs("`line` is missing"),
            (_, _, Some(_), _, Some(_)) => return needs("give `line` or `line_text`, not both"),
            (None, Some(_), Some(_), None, _) => return needs("give `symbol` or `character` with `line`"),
            (None, Some(_), _, _, Some(_)) => return needs("give `symbol` with `line_text`"),
            (None, Some(_), None, None, None) => return needs("give `symbol`, or `line` and `character`"),
            _ => {}
        }
        debug_assert!(self.given.keys().all(|it| !is_of_target(it) || !it.is_empty()));
        Ok(Target { symbol, file, line, character, line_text })
    }
}

/// A path or a `file:` URI.
fn path(key: &str, given: &str) -> Result<String, String> {
    if given.contains('\0') {
        return Err(format!("`{key}` must not contain NUL characters"));
    }
    match given.split_once("://") {
        Some(("file", _)) => {
            let file = file_path(given).and_then(|it| it.into_os_string().into_string().ok());
            file.filter(|it| !it.contains('\0')).ok_or_else(|| format!("`{key}` is not a path: {given:?}"))
        }
        Some(_) => Err(format!("`{key}` must be a file path or a file: URI, found {given:?}")),
        None => Ok(given.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_read_with_numbers_as_texts() {
        let call = LspCall::read(
            LspTool::References,
            &json!({"symbol": "Graph.add_node", "file": "a.py", "line": "12", "context": 9, "path": "*.py"}),
            50,
        );
        let Ok(LspCall::References { target, context: 5, most: 50, include_declaration: true, .. }) = call
        else {
            panic!("{call:?}");
        };
        assert_eq!((target.line, target.file.as_deref()), (Some(11), Some("a.py")));
        assert_eq!(target.symbol.map(|it| it.to_string()).as_deref(), Some("Graph/add_node"));
        let all = LspCall::read(
            LspTool::Diagnostics,
            &json!({"files": "file:///a%20b.py", "severity": "error"}),
            50,
        );
        let Ok(LspCall::Diagnostics { files: Some(files), severity: Severity::Error, .. }) = all else {
            panic!("{all:?}");
        };
        assert_eq!(files, ["/a b.py"]);
    }

    #[test]
    fn wrong_arguments_are_named() {
        for (tool, arguments, expected) in [
            (LspTool::Hover, json!([]), "must be a JSON object"),
            (LspTool::Hover, json!({}), "give `symbol`"),
            (LspTool::Hover, json!({"simbol": "a"}), "did you mean `symbol`?"),
            (LspTool::Hover, json!({"line": 3}), "`symbol`"),
            (LspTool::Hover, json!({"symbol": "a", "line": 3}), "`file` is missing"),
            (LspTool::Hover, json!({"file": "a", "line": 0, "character": 1}), "counted from 1"),
            (LspTool::Hover, json!({"file": "a", "line": 1}), "`character`"),
            (LspTool::Hover, json!({"file": "a", "line": 1.5, "character": 1}), "integer"),
            (LspTool::Hover, json!({"file": 3}), "`file` must be a string"),
            (LspTool::Hover, json!({"file": "http://a", "symbol": "x"}), "file: URI"),
            (LspTool::Hover, json!({"file": "a\0b", "symbol": "x"}), "NUL"),
            (LspTool::WorkspaceSymbols, json!({}), "`query` is missing"),
            (LspTool::WorkspaceSymbols, json!({"query": " "}), "`query` is empty"),
            (LspTool::CallHierarchy, json!({"symbol": "a"}), "`direction` is missing"),
            (LspTool::CallHierarchy, json!({"symbol": "a", "direction": "up"}), "incoming, outgoing"),
            (LspTool::Diagnostics, json!({"files": [3]}), "a list of strings"),
            (LspTool::Workspace, json!({"x": 1}), "it takes none"),
            (LspTool::Rename, json!({"symbol": "a"}), "`new_name` is missing"),
            (LspTool::Rename, json!({"symbol": "a", "new_name": "b\nc"}), "not a name"),
            (LspTool::ApplyEdit, json!({}), "`edit` is missing"),
            (LspTool::CodeActions, json!({"file": "a"}), "`start_line` is missing"),
            (LspTool::Format, json!({"file": "a", "end_line": 3}), "`start_line` is missing"),
            (LspTool::Format, json!({"file": "a", "start_line": 3, "end_line": 2}), "before `start_line`"),
        ] {
            let why = LspCall::read(tool, &arguments, 50).unwrap_err();
            assert!(why.contains(expected), "{arguments}: {why}");
        }
    }

    proptest! {
        #[test]
        fn any_arguments_are_read_or_refused(key in "symbol|file|line|character|line_text|files|query|after", number: i64, text in ".{0,12}", n in 0..5) {
            let value = match n { 0 => json!(number), 1 => json!(text), 2 => json!([text]), 3 => json!(null), _ => json!({"a": text}) };
            for tool in LspTool::ALL {
                let read = LspCall::read(tool, &json!({"file": "a.py", "direction": "incoming", &key: value}), 50);
                if let Err(why) = read {
                    prop_assert!(!why.is_empty());
                }
            }
        }
    }
}
