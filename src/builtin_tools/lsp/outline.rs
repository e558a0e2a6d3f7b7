//! Symbols of a file, and names that people give them.

use std::fmt;

use serde_json::Value;

use super::{Position, Range, Text};

/// A name as people write it: `add_node`, `Graph/add_node`, `/main`, `add_node[1]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePath {
    /// The names, the outermost first.
    names: Vec<String>,
    /// Whether the first name is at the top of its file.
    is_whole: bool,
    /// Which of several with this name in one file, from 0.
    nth: Option<usize>,
}

impl NamePath {
    /// Reads a name. `/`, `.` and `::` separate.
    pub fn parse(text: &str) -> Result<NamePath, String> {
        let text = text.trim();
        let is_whole = text.starts_with('/');
        let (text, nth) = match text.strip_suffix(']').and_then(|it| it.rsplit_once('[')) {
            Some((name, number)) => match number.parse() {
                Ok(nth) => (name, Some(nth)),
                Err(_) => (text, None),
            },
            None => (text, None),
        };
        let names = text.replace("::", "/").replace('.', "/");
        let names: Vec<String> =
            names.split('/').map(str::trim).filter(|it| !it.is_empty()).map(ToOwned::to_owned).collect();
        if names.is_empty() {
            return Err("`symbol` has no name".to_owned());
        }
        Ok(NamePath { names, is_whole, nth })
    }

    /// The innermost name.
    pub fn last(&self) -> &str {
        self.names.last().map_or("", String::as_str)
    }

    /// Which of several is meant, from 0.
    pub fn nth(&self) -> Option<usize> {
        self.nth
    }

    /// Whether it names this symbol.
    pub fn names(&self, symbol: &Symbol) -> bool {
        let path: Vec<&str> = symbol.path.iter().map(|it| plain(it)).collect();
        let fits = path.len() >= self.names.len()
            && path.iter().rev().zip(self.names.iter().rev()).all(|(one, other)| one == other);
        fits && (!self.is_whole || path.len() == self.names.len())
    }

    /// Whether a symbol is named nearly so.
    pub fn is_near(&self, symbol: &Symbol) -> bool {
        let (name, wanted) = (plain(symbol.name()).to_lowercase(), self.last().to_lowercase());
        name == wanted || distance(&name, &wanted) <= 2.min(wanted.chars().count() / 3)
    }
}

impl fmt::Display for NamePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_whole {
            f.write_str("/")?;
        }
        f.write_str(&self.names.join("/"))?;
        self.nth.map_or(Ok(()), |it| write!(f, "[{it}]"))
    }
}

/// The name without parameters, as some servers write it: `run(x: int)`.
fn plain(name: &str) -> &str {
    match name.find(['(', '<']) {
        Some(at) if at > 0 => name[..at].trim_end(),
        Some(_) | None => name,
    }
}

/// The number of single edits between two words.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut before = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.iter().enumerate() {
            let cost = before + usize::from(a != *b);
            before = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(before + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

/// A symbol of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its name, after those that it is in.
    pub path: Vec<String>,
    /// The `SymbolKind` of the protocol.
    pub kind: u64,
    /// All of it.
    pub range: Range,
    /// Where its name is.
    pub name_at: Position,
    /// What else the server says of it.
    pub detail: Option<String>,
}

impl Symbol {
    /// Its own name.
    pub fn name(&self) -> &str {
        self.path.last().map_or("", String::as_str)
    }

    /// Its path as a text.
    pub fn name_path(&self) -> String {
        self.path.iter().map(|it| plain(it)).collect::<Vec<_>>().join("/")
    }
}

/// The symbols of a file, in the order of their places; those inside another one follow it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// All of them.
    pub symbols: Vec<Symbol>,
}

/// How deep symbols may be nested.
const DEPTH: usize = 32;

impl Outline {
    /// Reads the result of `textDocument/documentSymbol`, in both of its forms.
    pub fn read(result: &Value, text: &Text) -> Outline {
        let mut outline = Outline::default();
        for it in result.as_array().into_iter().flatten() {
            if it["location"].is_object() {
                outline.add_flat(it, text);
            } else {
                outline.add_nested(it, &[], text);
            }
        }
        outline
    }

    fn add_nested(&mut self, it: &Value, above: &[String], text: &Text) {
        let (Some(name), Some(range)) = (it["name"].as_str(), Range::read(&it["range"])) else { return };
        let path: Vec<String> = above.iter().cloned().chain([name.to_owned()]).collect();
        let selection = Range::read(&it["selectionRange"]).unwrap_or(range);
        let detail = it["detail"].as_str().filter(|it| !it.is_empty()).map(ToOwned::to_owned);
        let name_at = name_in(text, name, selection);
        self.symbols.push(Symbol {
            path: path.clone(),
            kind: it["kind"].as_u64().unwrap_or_default(),
            range,
            name_at,
            detail,
        });
        if path.len() < DEPTH {
            for child in it["children"].as_array().into_iter().flatten() {
                self.add_nested(child, &path, text);
            }
        }
    }

    fn add_flat(&mut self, it: &Value, text: &Text) {
        let (Some(name), Some(range)) = (it["name"].as_str(), Range::read(&it["location"]["range"])) else {
            return;
        };
        let container = it["containerName"].as_str().filter(|it| !it.is_empty());
        let path = container.into_iter().chain([name]).map(ToOwned::to_owned).collect();
        self.symbols.push(Symbol {
            path,
            kind: it["kind"].as_u64().unwrap_or_default(),
            range,
            name_at: name_in(text, name, range),
            detail: None,
        });
    }

    /// The symbols that a name means.
    pub fn named(&self, name: &NamePath) -> Vec<&Symbol> {
        let all: Vec<&Symbol> = self.symbols.iter().filter(|it| name.names(it)).collect();
        match name.nth() {
            None => all,
            Some(nth) => all.get(nth).map(|it| vec![*it]).unwrap_or_default(),
        }
    }

    /// The innermost symbol around a place.
    pub fn around(&self, place: Position) -> Option<&Symbol> {
        self.symbols
            .iter()
            .filter(|it| it.range.holds(place))
            .max_by_key(|it| (it.range.start, it.path.len()))
    }

    /// The symbol whose name is at a place.
    pub fn at_name(&self, place: Position) -> Option<&Symbol> {
        self.symbols.iter().find(|it| it.name_at == place)
    }
}

/// Where a name is in the range that a server gives for it: some give all of the symbol.
fn name_in(text: &Text, name: &str, range: Range) -> Position {
    let name = plain(name);
    let last = range.end.line.min(range.start.line.saturating_add(20));
    let from = |line: u32| {
        if line > range.start.line {
            return 0;
        }
        let before = text.characters(range.start) as usize;
        text.line(line).char_indices().nth(before).map_or(text.line(line).len(), |(at, _)| at)
    };
    (range.start.line..=last).find_map(|it| text.find_word(it, name, from(it))).unwrap_or(range.start)
}

/// The names of `SymbolKind`, from 1.
const KINDS: [&str; 26] = [
    "file",
    "module",
    "namespace",
    "package",
    "class",
    "method",
    "property",
    "field",
    "constructor",
    "enum",
    "interface",
    "function",
    "variable",
    "constant",
    "string",
    "number",
    "boolean",
    "array",
    "object",
    "key",
    "null",
    "enum member",
    "struct",
    "event",
    "operator",
    "type parameter",
];

/// The name of a `SymbolKind`.
pub fn kind_name(kind: u64) -> &'static str {
    let at = usize::try_from(kind).ok().and_then(|it| it.checked_sub(1));
    at.and_then(|it| KINDS.get(it)).copied().unwrap_or("symbol")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = "class Graph:\n    def add_node(self):\n        pass\n\ndef add_node(): pass\n";

    fn range(line: u32, end: u32) -> Value {
        json!({"start": {"line": line, "character": 0}, "end": {"line": end, "character": 30}})
    }

    fn outline() -> Outline {
        let add = json!({"name": "add_node", "kind": 6, "range": range(1, 2), "selectionRange": range(1, 1)});
        let graph = json!({"name": "Graph", "kind": 5, "range": range(0, 2), "selectionRange": range(0, 0), "children": [add]});
        let other =
            json!({"name": "add_node", "kind": 12, "range": range(4, 4), "selectionRange": range(4, 4)});
        Outline::read(&json!([graph, other]), &Text::new(TEXT))
    }

    #[test]
    fn name_path_selects_symbols() {
        let outline = outline();
        let lines = |name: &str| {
            let name = NamePath::parse(name).unwrap();
            outline.named(&name).iter().map(|it| it.name_at.line).collect::<Vec<_>>()
        };
        for (name, expected) in [
            ("add_node", vec![1, 4]),
            ("Graph/add_node", vec![1]),
            ("Graph.add_node", vec![1]),
            ("Graph::add_node", vec![1]),
            ("/add_node", vec![4]),
            ("add_node[1]", vec![4]),
            ("add_node[2]", vec![]),
            ("node", vec![]),
        ] {
            assert_eq!(lines(name), expected, "{name}");
        }
        assert_eq!(NamePath::parse("/Graph.add_node[1]").unwrap().to_string(), "/Graph/add_node[1]");
        assert!(NamePath::parse("./").is_err());
        assert_eq!(outline.symbols[1].name_at, Position { line: 1, character: 8 });
        assert_eq!(
            outline.around(Position { line: 2, character: 8 }).map(Symbol::name_path).as_deref(),
            Some("Graph/add_node")
        );
    }

    #[test]
    fn near_names_are_suggestions() {
        let outline = outline();
        let near = |name: &str| {
            let name = NamePath::parse(name).unwrap();
            outline.symbols.iter().filter(|it| name.is_near(it)).count()
        };
        assert_eq!(
            [near("addnode"), near("ADD_NODE"), near("grahp"), near("x"), near("remove")],
            [2, 2, 0, 0, 0]
        );
        assert_eq!(near("Grap"), 1);
    }

    #[test]
    fn flat_symbols_have_container_and_place_of_name() {
        let flat = json!([{"name": "add_node", "kind": 6, "containerName": "Graph", "location": {"uri": "u", "range": range(1, 2)}}]);
        let outline = Outline::read(&flat, &Text::new(TEXT));
        assert_eq!(outline.symbols[0].name_path(), "Graph/add_node");
        assert_eq!(outline.symbols[0].name_at, Position { line: 1, character: 8 });
    }
}
