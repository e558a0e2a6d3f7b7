//! The code tools as a conversation knows them: under their own names, and under two that models have learnt.

use serde_json::{Value, json};

use super::lsp::LspTool;

/// A code tool of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeTool {
    /// By its own name.
    Lsp(LspTool),
    /// `get_errors`: [`LspTool::Diagnostics`].
    GetErrors,
    /// `list_code_usages`: [`LspTool::References`].
    ListCodeUsages,
}

impl CodeTool {
    /// All tools.
    pub fn all() -> impl Iterator<Item = CodeTool> {
        let learnt = [CodeTool::GetErrors, CodeTool::ListCodeUsages];
        LspTool::ALL.into_iter().map(CodeTool::Lsp).chain(learnt)
    }

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            CodeTool::Lsp(it) => it.name(),
            CodeTool::GetErrors => "get_errors",
            CodeTool::ListCodeUsages => "list_code_usages",
        }
    }

    /// The tool of this name.
    pub fn named(name: &str) -> Option<CodeTool> {
        CodeTool::all().find(|it| it.name() == name)
    }

    /// The tool that it is.
    pub fn tool(self) -> LspTool {
        match self {
            CodeTool::Lsp(it) => it,
            CodeTool::GetErrors => LspTool::Diagnostics,
            CodeTool::ListCodeUsages => LspTool::References,
        }
    }

    /// The definition for a model, in the form of `conversation/registerTools`.
    pub fn definition(self) -> Value {
        let files = |about: &str| json!({"type": "array", "items": {"type": "string"}, "description": about});
        let (description, mut schema) = match self {
            CodeTool::Lsp(it) => (it.description(), it.input_schema()),
            CodeTool::GetErrors => (
                LspTool::Diagnostics.description(),
                json!({
                    "type": "object",
                    "properties": {
                        "filePaths": files("The files to check. Without it: all files that have changed since the last call."),
                    },
                    "required": [],
                }),
            ),
            CodeTool::ListCodeUsages => (
                LspTool::References.description(),
                json!({
                    "type": "object",
                    "properties": {
                        "symbolName": {
                            "type": "string",
                            "description": "The name of the symbol: a function, class, method, or variable.",
                        },
                        "filePaths": files("A file that defines the symbol, if its name alone is ambiguous."),
                    },
                    "required": ["symbolName"],
                }),
            ),
        };
        // A Copilot server refuses all tools if one has no such member.
        if schema["required"].is_null() {
            schema["required"] = json!([]);
        }
        json!({"name": self.name(), "description": description, "inputSchema": schema})
    }

    /// The tool to call, and its arguments. Wrong ones are passed on: the tool says what is wrong.
    pub fn call(self, input: Value) -> (LspTool, Value) {
        let paths = input["filePaths"].clone();
        match self {
            CodeTool::Lsp(it) => (it, input),
            CodeTool::GetErrors if paths.as_array().is_none_or(Vec::is_empty) => {
                (LspTool::Diagnostics, json!({}))
            }
            CodeTool::GetErrors => (LspTool::Diagnostics, json!({"files": paths})),
            CodeTool::ListCodeUsages => {
                let mut arguments = json!({"symbol": input["symbolName"]});
                // Several files only may define it.
                if let Some([file]) = paths.as_array().map(Vec::as_slice) {
                    arguments["file"] = file.clone();
                }
                (LspTool::References, arguments)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn learnt_names_become_code_tools() {
        let call = |name: &str, input: Value| CodeTool::named(name).expect("a code tool").call(input);
        assert_eq!(call("get_errors", json!({})), (LspTool::Diagnostics, json!({})));
        assert_eq!(
            call("get_errors", json!({"filePaths": ["/w/a.py"]})),
            (LspTool::Diagnostics, json!({"files": ["/w/a.py"]}))
        );
        assert_eq!(
            call("list_code_usages", json!({"symbolName": "f", "filePaths": ["/w/a.py"]})),
            (LspTool::References, json!({"symbol": "f", "file": "/w/a.py"}))
        );
        assert_eq!(
            call("list_code_usages", json!({"symbolName": "f", "filePaths": ["a.py", "b.py"]})),
            (LspTool::References, json!({"symbol": "f"}))
        );
        assert_eq!(call("lsp_hover", json!({"symbol": "f"})), (LspTool::Hover, json!({"symbol": "f"})));
        assert_eq!(CodeTool::named("read_file"), None);
    }

    #[test]
    fn definitions_have_one_type_and_a_description_for_each_property() {
        for tool in CodeTool::all() {
            let definition = tool.definition();
            assert!(definition["inputSchema"]["required"].is_array(), "{definition}");
            for (name, property) in definition["inputSchema"]["properties"].as_object().unwrap() {
                assert!(property["type"].is_string() && property["description"].is_string(), "{name}");
            }
        }
    }
}
