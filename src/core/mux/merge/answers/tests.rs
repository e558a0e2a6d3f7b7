//! One small case for each rule. `model` says the same of all cases at once.

mod files;
mod items;
mod random;
mod text;

use serde_json::{Value, json};

use super::*;

/// What an editor of today takes.
fn modern() -> ClientShape {
    let links = json!({"linkSupport": true});
    let params = json!({"capabilities": {
        "textDocument": {
            "hover": {"contentFormat": ["markdown", "plaintext"]},
            "definition": links, "declaration": links, "typeDefinition": links, "implementation": links,
            "documentSymbol": {"hierarchicalDocumentSymbolSupport": true},
        },
        "workspace": {"workspaceEdit": {"documentChanges": true}},
    }});
    ClientShape::of_initialize(params.to_string().as_bytes())
}

/// An answer, and the places of malformed and of overlapping parts.
type Answer = (Value, Vec<usize>, Vec<usize>);

struct Asked {
    shape: Shape,
    method: &'static str,
    client: ClientShape,
    late: bool,
    are_tagged: bool,
}

fn ask(shape: Shape, method: &'static str) -> Asked {
    Asked { shape, method, client: modern(), late: false, are_tagged: false }
}

impl Asked {
    fn by_old_editor(mut self) -> Asked {
        self.client = ClientShape::default();
        self
    }

    fn tagged(mut self) -> Asked {
        self.are_tagged = true;
        self
    }

    fn late(mut self) -> Asked {
        self.late = true;
        self
    }

    fn bytes(&self, parts: &[&[u8]]) -> Merged {
        let parts: Vec<Part<'_>> = parts
            .iter()
            .zip(0..)
            .map(|(result, member)| Part {
                result,
                maker: self.are_tagged.then_some(Maker { member, generation: 1 }),
                commit_characters: None,
            })
            .collect();
        merge(self.shape, self.method, &parts, &self.client, self.late, None)
    }

    fn answer(&self, parts: &[Value]) -> Answer {
        let texts: Vec<String> = parts.iter().map(Value::to_string).collect();
        let Merged { result, malformed, overlapping } =
            self.bytes(&texts.iter().map(String::as_bytes).collect::<Vec<_>>());
        (serde_json::from_slice(&result).unwrap(), malformed, overlapping)
    }

    /// All parts are what they should be, and do not overlap.
    fn value(&self, parts: &[Value]) -> Value {
        let (value, malformed, overlapping) = self.answer(parts);
        assert_eq!((malformed, overlapping), (vec![], vec![]));
        value
    }

    fn text(&self, parts: &[&str]) -> String {
        let parts: Vec<&[u8]> = parts.iter().map(|it| it.as_bytes()).collect();
        String::from_utf8(self.bytes(&parts).result).unwrap()
    }
}

/// A range in one line.
fn range(line: u32, start: u32, end: u32) -> Value {
    json!({"start": {"line": line, "character": start}, "end": {"line": line, "character": end}})
}
