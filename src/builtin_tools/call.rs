//! Reads the input of a model's call. The errors are for the model.

use serde_json::{Map, Value};

use super::Tool;
use crate::util::json;

/// The default number of files in the result of a search.
const FILES: usize = 200;
/// The maximum number.
const MOST_FILES: usize = 2000;

/// A call with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// [`Tool::ReadFile`]
    ReadFile {
        /// The file.
        path: String,
        /// The lines to read.
        lines: Lines,
    },
    /// [`Tool::ListDir`]
    ListDir {
        /// The folder.
        path: String,
    },
    /// [`Tool::FileSearch`]
    FileSearch {
        /// A glob pattern.
        pattern: String,
        /// The maximum number of files.
        most: usize,
    },
    /// [`Tool::GrepSearch`]
    GrepSearch {
        /// A text, or a regular expression.
        pattern: String,
        /// Whether it is a regular expression.
        is_regex: bool,
        /// A glob pattern for the files to search.
        include: Option<String>,
    },
    /// [`Tool::CreateFile`]
    CreateFile {
        /// The file.
        path: String,
        /// Its text.
        text: String,
    },
    /// [`Tool::ReplaceString`]
    ReplaceString {
        /// The file.
        path: String,
        /// The text to replace.
        old: String,
        /// The new text.
        new: String,
    },
    /// [`Tool::InsertEdit`]
    InsertEdit {
        /// The file.
        path: String,
        /// Its whole text.
        text: String,
    },
    /// [`Tool::Terminal`]
    Terminal {
        /// The command line for a shell.
        command: String,
    },
}

/// Lines of a file, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lines {
    /// The first one.
    pub first: usize,
    /// The last one.
    pub last: usize,
}

impl Call {
    /// Reads the input of a call.
    pub fn read(tool: Tool, input: &[u8]) -> Result<Call, String> {
        let input: Map<String, Value> =
            json::read(input).map_err(|_| "the input is not a JSON object".to_owned())?;
        let input = Input(&input);
        Ok(match tool {
            Tool::ReadFile => Call::ReadFile { path: input.path("filePath")?, lines: input.lines()? },
            Tool::ListDir => Call::ListDir { path: input.path("path")? },
            Tool::FileSearch => {
                let most = input.number("maxResults")?.unwrap_or(FILES).clamp(1, MOST_FILES);
                Call::FileSearch { pattern: input.given("query")?, most }
            }
            Tool::GrepSearch => Call::GrepSearch {
                pattern: input.given("query")?,
                is_regex: input.flag("isRegexp")?,
                include: input.text("includePattern")?.filter(|it| !it.trim().is_empty()),
            },
            Tool::CreateFile => {
                Call::CreateFile { path: input.path("filePath")?, text: input.required("content")? }
            }
            Tool::ReplaceString => Call::ReplaceString {
                path: input.path("filePath")?,
                old: input.given("oldString")?,
                new: input.required("newString")?,
            },
            Tool::InsertEdit => {
                Call::InsertEdit { path: input.path("filePath")?, text: input.required("code")? }
            }
            Tool::Terminal if input.flag("isBackground")? => {
                return Err("`isBackground` is not supported: run a command that ends".to_owned());
            }
            Tool::Terminal => {
                let command = input.given("command")?;
                match command.contains('\0') {
                    true => return Err("`command` must not contain NUL characters".to_owned()),
                    false => Call::Terminal { command },
                }
            }
        })
    }
}

impl Call {
    /// Whether the call changes nothing.
    pub fn changes_nothing(&self) -> bool {
        match self {
            Call::ReadFile { .. }
            | Call::ListDir { .. }
            | Call::FileSearch { .. }
            | Call::GrepSearch { .. } => true,
            Call::CreateFile { .. }
            | Call::ReplaceString { .. }
            | Call::InsertEdit { .. }
            | Call::Terminal { .. } => false,
        }
    }
}

struct Input<'a>(&'a Map<String, Value>);

impl Input<'_> {
    fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|it| !it.is_null())
    }

    fn text(&self, key: &str) -> Result<Option<String>, String> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(format!("`{key}` must be a string")),
        }
    }

    /// A required string, which may be empty.
    fn required(&self, key: &str) -> Result<String, String> {
        self.text(key)?.ok_or_else(|| format!("`{key}` is missing"))
    }

    /// A required string that is not empty.
    fn given(&self, key: &str) -> Result<String, String> {
        match self.required(key)? {
            text if text.is_empty() => Err(format!("`{key}` is empty")),
            text => Ok(text),
        }
    }

    /// A path or a `file:` URI.
    fn path(&self, key: &str) -> Result<String, String> {
        let path = self.given(key)?;
        if path.contains('\0') {
            return Err(format!("`{key}` must not contain NUL characters"));
        }
        match path.split_once("://") {
            Some(("file", _)) => {
                let file = crate::rpc::file_path(&path).and_then(|it| it.into_os_string().into_string().ok());
                file.filter(|it| !it.contains('\0')).ok_or_else(|| format!("`{key}` is not a path: {path:?}"))
            }
            Some(_) => Err(format!("`{key}` must be a file path or a file: URI, found {path:?}")),
            None => Ok(path),
        }
    }

    fn flag(&self, key: &str) -> Result<bool, String> {
        match self.get(key) {
            None => Ok(false),
            Some(Value::Bool(it)) => Ok(*it),
            Some(_) => Err(format!("`{key}` must be true or false")),
        }
    }

    /// An integer of at least 0. Models also write `3.0`.
    fn number(&self, key: &str) -> Result<Option<usize>, String> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let whole = value.as_f64().filter(|it| it.fract() == 0.0 && (0.0..=1e9).contains(it));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "its range is checked")]
        let number = whole.map(|it| it as usize);
        number.map(Some).ok_or_else(|| format!("`{key}` must be an integer of at least 0"))
    }

    /// `startLine` and `endLine`, or `offset` and `limit` of other tools with this name.
    fn lines(&self) -> Result<Lines, String> {
        let first = match (self.number("startLine")?, self.number("offset")?) {
            (Some(first), _) | (None, Some(first)) => first.max(1),
            (None, None) => 1,
        };
        let last = match (self.number("endLine")?, self.number("limit")?) {
            (Some(last), _) => last,
            (None, Some(count)) => first.saturating_add(count.max(1) - 1),
            (None, None) => usize::MAX,
        };
        match last < first {
            true => Err(format!("`endLine` ({last}) is before `startLine` ({first})")),
            false => Ok(Lines { first, last }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(tool: Tool, input: &Value) -> Result<Call, String> {
        Call::read(tool, input.to_string().as_bytes())
    }

    fn lines(input: &Value) -> Result<(usize, usize), String> {
        match read(Tool::ReadFile, input)? {
            Call::ReadFile { lines, .. } => Ok((lines.first, lines.last)),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn read_file_call_accepts_several_line_ranges() {
        assert_eq!(lines(&json!({"filePath": "a"})), Ok((1, usize::MAX)));
        assert_eq!(lines(&json!({"filePath": "a", "startLine": 2, "endLine": 3.0})), Ok((2, 3)));
        assert_eq!(lines(&json!({"filePath": "a", "offset": 10, "limit": 5})), Ok((10, 14)));
        assert_eq!(lines(&json!({"filePath": "a", "startLine": 0, "endLine": 1})), Ok((1, 1)));
        assert!(lines(&json!({"filePath": "a", "startLine": 5, "endLine": 4})).is_err());
        assert!(lines(&json!({"filePath": "a", "startLine": "5"})).is_err());
        assert!(lines(&json!({"filePath": "a", "startLine": -1})).is_err());
    }

    #[test]
    fn invalid_call_reports_parameter_name() {
        for (tool, input, expected) in [
            (Tool::ReadFile, json!({}), "`filePath` is missing"),
            (Tool::ReadFile, json!({"filePath": null}), "`filePath` is missing"),
            (Tool::ReadFile, json!({"filePath": ["a"]}), "`filePath` must be a string"),
            (Tool::ListDir, json!({"path": ""}), "`path` is empty"),
            (Tool::ListDir, json!({"path": "a\0b"}), "NUL"),
            (Tool::ReadFile, json!({"filePath": "https://a/b"}), "must be a file path"),
            (Tool::ReadFile, json!({"filePath": "file:///a%00b"}), "is not a path"),
            (
                Tool::ReplaceString,
                json!({"filePath": "a", "oldString": "", "newString": ""}),
                "`oldString` is empty",
            ),
            (Tool::CreateFile, json!({"filePath": "a"}), "`content` is missing"),
            (Tool::GrepSearch, json!({"query": "a", "isRegexp": "true"}), "`isRegexp` must be true"),
            (Tool::Terminal, json!({"command": "x", "isBackground": true}), "isBackground"),
            (Tool::Terminal, json!([]), "not a JSON object"),
        ] {
            let why = read(tool, &input).unwrap_err();
            assert!(why.contains(expected), "{input}: {why}");
        }
    }

    #[test]
    fn call_accepts_file_uri_and_empty_content() {
        let call = read(Tool::CreateFile, &json!({"filePath": "file:///a%20b/c", "content": ""}));
        assert_eq!(call, Ok(Call::CreateFile { path: "/a b/c".to_owned(), text: String::new() }));
        let search = read(Tool::FileSearch, &json!({"query": "*", "maxResults": 100_000}));
        assert_eq!(search, Ok(Call::FileSearch { pattern: "*".to_owned(), most: MOST_FILES }));
    }

    proptest! {
        #[test]
        fn call_parser_returns_call_or_reason_for_any_input(raw in "\\PC{0,40}", key in "filePath|query|command|path", value in ".{0,8}") {
            for tool in Tool::ALL {
                for input in [raw.clone(), json!({&key: &value}).to_string()] {
                    if let Err(why) = Call::read(tool, input.as_bytes()) {
                        prop_assert!(!why.is_empty());
                    }
                }
            }
        }
    }
}
