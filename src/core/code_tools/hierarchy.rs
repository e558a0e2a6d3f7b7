//! Who calls whom, and which type is made from which.

use std::{collections::BTreeSet, path::PathBuf};

use serde_json::{Map, Value, json};

use super::{
    call::{Cx, Step, Stop, fail},
    target::Meant,
};
use crate::{
    builtin_tools::lsp::{Answer, Code, Direction, Range, Target, kind_name},
    rpc::file_path,
};

/// How many items are followed.
const MOST_ITEMS: usize = 200;

/// How many symbols of a further step are checked.
const MOST_PROVEN: usize = 20;

/// What differs between the two hierarchies.
struct Hierarchy {
    provider: &'static str,
    prepare: &'static str,
    follow: &'static str,
    /// The member of an answer with the item; none if the answer is the item.
    member: Option<&'static str>,
    /// What the items are called, if it is one or several.
    nouns: [&'static str; 2],
    /// What they are to the symbol.
    relation: &'static str,
    /// Whether a server finds the items by its index, which may not be whole.
    needs: Needs,
}

impl Hierarchy {
    /// So many items for a symbol.
    fn title(&self, n: usize, symbol: &str) -> String {
        let [one, several] = self.nouns;
        format!("{n} {} {} {symbol}", if n == 1 { one } else { several }, self.relation)
    }
}

/// What a server must know to find the items of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    /// Whoever uses the symbol.
    WholeIndex,
    /// The text of the symbol.
    OwnText,
}

impl Cx<'_> {
    pub(super) fn calls(&mut self, target: &Target, direction: Direction, depth: usize) -> Step<Answer> {
        let (follow, member, nouns, relation, needs) = match direction {
            Direction::Up => {
                ("callHierarchy/incomingCalls", "from", ["caller", "callers"], "of", Needs::WholeIndex)
            }
            Direction::Down => {
                ("callHierarchy/outgoingCalls", "to", ["function", "functions"], "called by", Needs::OwnText)
            }
        };
        let hierarchy = Hierarchy {
            provider: "callHierarchyProvider",
            prepare: "textDocument/prepareCallHierarchy",
            follow,
            member: Some(member),
            nouns,
            relation,
            needs,
        };
        self.hierarchy(target, &hierarchy, depth)
    }

    pub(super) fn types(&mut self, target: &Target, direction: Direction, depth: usize) -> Step<Answer> {
        let (follow, nouns, needs) = match direction {
            Direction::Up => ("typeHierarchy/supertypes", ["supertype", "supertypes"], Needs::OwnText),
            Direction::Down => ("typeHierarchy/subtypes", ["subtype", "subtypes"], Needs::WholeIndex),
        };
        let hierarchy = Hierarchy {
            provider: "typeHierarchyProvider",
            prepare: "textDocument/prepareTypeHierarchy",
            follow,
            member: None,
            nouns,
            relation: "of",
            needs,
        };
        self.hierarchy(target, &hierarchy, depth)
    }

    fn hierarchy(&mut self, target: &Target, it: &Hierarchy, depth: usize) -> Step<Answer> {
        let (meant, loading) = self.meant(target)?;
        self.require(meant.server, it.provider, it.prepare)?;
        let described = self.describe(&meant)?;
        // The index must be whole: callers are found by it.
        let mut incomplete = self.index_is_whole("whole", &meant, loading)?;
        let roots = self.ask(it.prepare, meant.server, it.prepare, &meant.params())??;
        let roots: Vec<Value> = roots.as_array().cloned().unwrap_or_default();
        let name = self.view(meant.server).name.clone();
        if roots.is_empty() {
            let what = described.title();
            return fail(Code::NotSupported, format!("{name} has no call or type hierarchy for {what}"));
        }
        let mut level: Vec<(usize, Value)> = roots.into_iter().map(|root| (0, root)).collect();
        let mut seen: BTreeSet<String> = BTreeSet::new();
        let (mut text, mut items, mut is_cut) = (String::new(), Vec::new(), false);
        for n in 1..=depth {
            let mut next = Vec::new();
            // The first step is proven above.
            if n > 1 && it.needs == Needs::WholeIndex && incomplete.is_none() {
                incomplete = self.level_is_whole(&meant, &level)?;
            }
            let answers: Vec<Step<_>> = level
                .iter()
                .map(|(_, item)| {
                    let key = format!("{} {}", it.follow, identity(item));
                    self.ask(&key, meant.server, it.follow, &json!({"item": item}))
                })
                .collect();
            for answer in answers {
                let answer = answer??;
                for found in answer.as_array().into_iter().flatten() {
                    let item = it.member.map_or(found, |member| &found[member]);
                    if !seen.insert(identity(item)) {
                        continue;
                    }
                    if items.len() == MOST_ITEMS {
                        is_cut = true;
                        break;
                    }
                    if let Some(value) = self.item(item, found, n) {
                        text += &line(&value, n);
                        items.push(value);
                        next.push((n, item.clone()));
                    }
                }
            }
            level = next;
        }
        if is_cut {
            incomplete.get_or_insert_with(|| format!("lspool shows {MOST_ITEMS} at most"));
        }
        let title = it.title(items.len(), &described.title());
        let head = match &incomplete {
            None => format!("{title} · complete · {name}"),
            Some(why) => format!("INCOMPLETE: {why}\n{title} · {name}"),
        };
        let mut structured = Map::new();
        structured.insert("ok".to_owned(), true.into());
        structured.insert("notes".to_owned(), meant.notes.clone().into());
        structured.insert("truncated".to_owned(), is_cut.into());
        structured.insert("total".to_owned(), items.len().into());
        structured.insert("complete".to_owned(), incomplete.is_none().into());
        if let Some(why) = incomplete {
            structured.insert("why".to_owned(), why.into());
        }
        structured.insert("symbol".to_owned(), described.value());
        structured.insert("symbols".to_owned(), items.into());
        Ok(Answer { ok: true, text: head + &text, structured: structured.into() })
    }

    /// Asks for references first, whose answer proves that the index is whole. Gives why it is not.
    fn index_is_whole(&mut self, key: &str, meant: &Meant, loading: Option<String>) -> Step<Option<String>> {
        if !self.view(meant.server).offers("referencesProvider", "textDocument/references") {
            return Ok(loading);
        }
        let mut params = meant.params();
        params["context"] = json!({"includeDeclaration": true});
        let question = super::spanning::Question { key, method: "textDocument/references", params };
        match self.whole(meant, &question) {
            Ok(whole) => Ok(whole.incomplete),
            Err(Stop::Fail(error)) => Ok(Some(error.message)),
            Err(Stop::Wait) => Err(Stop::Wait),
        }
    }

    /// The same for the symbols of a further step, at once.
    fn level_is_whole(&mut self, of: &Meant, level: &[(usize, Value)]) -> Step<Option<String>> {
        if level.len() > MOST_PROVEN {
            let n = level.len();
            return Ok(Some(format!("not all uses of the {n} symbols found are checked: ask about each")));
        }
        let (mut why, mut waits) = (None, false);
        for (_, item) in level {
            match self.item_is_whole(of, item) {
                Ok(found) => why = why.or(found),
                Err(Stop::Fail(error)) => why = Some(error.message),
                Err(Stop::Wait) => waits = true,
            }
        }
        if waits { Err(Stop::Wait) } else { Ok(why) }
    }

    fn item_is_whole(&mut self, of: &Meant, item: &Value) -> Step<Option<String>> {
        let file = item["uri"].as_str().and_then(file_path);
        let range = Range::read(&item["selectionRange"]);
        let (Some(file), Some(range)) = (file, range) else {
            return Ok(Some("an item has no place".to_owned()));
        };
        if !self.is_inside(&file) {
            return Ok(Some(format!("the uses of {} outside the workspace are not checked", item["name"])));
        }
        let text = self.open(of.server, &file)?;
        let Some((place, word)) = text.word_at(range.start) else {
            return Ok(Some(format!("{} has no name", item["name"])));
        };
        let (word, notes) = (word.to_owned(), Vec::new());
        let meant = Meant { server: of.server, file, place, word, notes };
        self.index_is_whole(&format!("whole {}", identity(item)), &meant, None)
    }

    fn item(&self, item: &Value, found: &Value, depth: usize) -> Option<Value> {
        let file: PathBuf = file_path(item["uri"].as_str()?)?;
        let range = Range::read(&item["selectionRange"]).or_else(|| Range::read(&item["range"]))?;
        let places = found["fromRanges"].as_array().into_iter().flatten();
        let places: BTreeSet<u32> = places.filter_map(Range::read).map(|it| it.start.line + 1).collect();
        Some(json!({
            "symbol": item["name"], "kind": kind_name(item["kind"].as_u64().unwrap_or_default()),
            "file": self.shown(&file), "line": range.start.line + 1, "end_line": range.end.line + 1,
            "detail": item["detail"], "at_lines": places, "depth": depth, "external": !self.is_inside(&file),
        }))
    }
}

/// By what an item is known again.
fn identity(item: &Value) -> String {
    format!("{} {} {}", item["uri"], item["name"], item["selectionRange"])
}

fn line(value: &Value, depth: usize) -> String {
    let word = |key: &str| value[key].as_str().unwrap_or_default();
    let indent = "  ".repeat(depth);
    let places: Vec<String> =
        value["at_lines"].as_array().into_iter().flatten().map(ToString::to_string).collect();
    let at = match places.as_slice() {
        [] => String::new(),
        [one] => format!("  at line {one}"),
        several => format!("  at lines {}", several.join(", ")),
    };
    format!("\n{indent}{} ({}) {}:{}{at}", word("symbol"), word("kind"), word("file"), value["line"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_counts_are_told_once_and_in_english() {
        let shown = |lines: &[u32]| {
            line(&json!({"symbol": "f", "kind": "function", "file": "m.py", "line": 3, "at_lines": lines}), 1)
        };
        assert_eq!(shown(&[5]), "\n  f (function) m.py:3  at line 5");
        assert_eq!(shown(&[5, 9]), "\n  f (function) m.py:3  at lines 5, 9");
        let called = Hierarchy {
            provider: "",
            prepare: "",
            follow: "",
            member: None,
            nouns: ["function", "functions"],
            relation: "called by",
            needs: Needs::OwnText,
        };
        assert_eq!(called.title(1, "g"), "1 function called by g");
        assert_eq!(called.title(2, "g"), "2 functions called by g");
    }
}
