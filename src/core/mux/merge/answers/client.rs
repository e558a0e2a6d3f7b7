//! What the editor takes.

use crate::rpc::{elements, path};

/// How the editor shows a hover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum HoverFormat {
    /// It has not said so: it is of a time when there were only `MarkedString`s.
    #[default]
    MarkedString,
    Markdown,
    PlainText,
}

/// Methods that may be answered with links, by the names of their capabilities.
const LINKED: [&str; 4] = ["declaration", "definition", "implementation", "typeDefinition"];

/// What the editor takes, as it said in its `initialize`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientShape {
    pub(super) hover: HoverFormat,
    /// By [`LINKED`].
    links: [bool; LINKED.len()],
    pub(super) takes_hierarchical_symbols: bool,
    pub(super) takes_document_changes: bool,
}

impl ClientShape {
    /// Of the parameters of `initialize`.
    pub(crate) fn of_initialize(params: &[u8]) -> ClientShape {
        let said = |keys: &[&str]| path(params, &[&["capabilities"], keys].concat()).map(|at| &params[at]);
        let is_said = |keys: &[&str]| said(keys) == Some(b"true");
        let hover = match said(&["textDocument", "hover", "contentFormat"]) {
            None => HoverFormat::MarkedString,
            Some(formats) if elements(formats).any(|at| formats[at] == *br#""markdown""#) => {
                HoverFormat::Markdown
            }
            Some(_) => HoverFormat::PlainText,
        };
        ClientShape {
            hover,
            links: LINKED.map(|it| is_said(&["textDocument", it, "linkSupport"])),
            takes_hierarchical_symbols: is_said(&[
                "textDocument",
                "documentSymbol",
                "hierarchicalDocumentSymbolSupport",
            ]),
            takes_document_changes: is_said(&["workspace", "workspaceEdit", "documentChanges"]),
        }
    }

    pub(super) fn takes_links(&self, method: &str) -> bool {
        let name = method.strip_prefix("textDocument/").unwrap_or(method);
        LINKED.iter().position(|it| *it == name).is_some_and(|n| self.links[n])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn client_shape_is_read_from_capabilities() {
        let params = json!({"capabilities": {
            "textDocument": {
                "hover": {"contentFormat": ["plaintext", "markdown"]},
                "definition": {"linkSupport": true},
                "typeDefinition": {"linkSupport": false},
                "documentSymbol": {"hierarchicalDocumentSymbolSupport": true},
            },
            "workspace": {"workspaceEdit": {"documentChanges": true}},
        }});
        let client = ClientShape::of_initialize(params.to_string().as_bytes());
        assert_eq!(client.hover, HoverFormat::Markdown);
        assert!(client.takes_links("textDocument/definition"));
        for other in ["textDocument/typeDefinition", "textDocument/declaration", "textDocument/references"] {
            assert!(!client.takes_links(other), "{other}");
        }
        assert!(client.takes_hierarchical_symbols && client.takes_document_changes);
        assert_eq!(ClientShape::of_initialize(b"{}"), ClientShape::default());
        assert_eq!(ClientShape::of_initialize(b"[1"), ClientShape::default());
    }
}
