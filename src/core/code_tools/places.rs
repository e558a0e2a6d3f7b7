//! Places in files: from what servers say to what an answer shows, page by page.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Map, Value};

use super::{
    call::{Cx, Step, Stop, fail},
    files::language_of_file,
    view::{Readiness, View},
};
use crate::{
    builtin_tools::lsp::{Answer, Code, Found, PlaceShown, Range, Text},
    rpc::file_path,
};

/// How long the rest of an answer can be asked for.
const KEPT: Duration = Duration::from_mins(10);
/// How many answers are kept.
const MOST_KEPT: usize = 50;

/// In how many files the symbols around places are asked for, and how long their servers may take.
const MOST_OUTLINES: usize = 20;
const OUTLINES: Duration = Duration::from_millis(200);

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Location {
    pub(super) file: PathBuf,
    pub(super) range: Range,
}

impl Location {
    /// Reads the places of an answer: `Location`, `LocationLink`, or lists of them.
    pub(super) fn read_all(result: &Value) -> Vec<Location> {
        let all = match result {
            Value::Array(all) => all.iter().collect(),
            Value::Null => Vec::new(),
            one => vec![one],
        };
        all.into_iter().filter_map(Location::read).collect()
    }

    fn read(value: &Value) -> Option<Location> {
        let uri = value["uri"].as_str().or_else(|| value["targetUri"].as_str())?;
        let range = [&value["targetSelectionRange"], &value["range"], &value["targetRange"]];
        let range = range.into_iter().find_map(Range::read)?;
        Some(Location { file: file_path(uri)?, range })
    }
}

/// Whether an answer names the symbols in which its places stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Enclosing {
    Shown,
    Left,
}

/// A whole answer, of which pages are shown.
#[derive(Clone, Debug)]
pub(super) struct Listing {
    pub(super) title: String,
    pub(super) members: Map<String, Value>,
    pub(super) name: &'static str,
    pub(super) places: Vec<Location>,
    pub(super) declaration: Option<Location>,
    pub(super) incomplete: Option<String>,
    pub(super) servers: Vec<(String, &'static str)>,
    pub(super) notes: Vec<String>,
    /// When files had last changed.
    pub(super) tick: u64,
    pub(super) enclosing: Enclosing,
}

/// Answers whose rest can be asked for.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    all: BTreeMap<u64, (Instant, Arc<Listing>)>,
}

impl Snapshots {
    fn keep(&mut self, number: u64, now: Instant, listing: Arc<Listing>) {
        self.all.retain(|_, (at, _)| *at + KEPT > now);
        while self.all.len() >= MOST_KEPT {
            self.all.pop_first();
        }
        self.all.insert(number, (now, listing));
    }

    fn get(&self, number: u64, now: Instant) -> Option<Arc<Listing>> {
        self.all.get(&number).filter(|(at, _)| *at + KEPT > now).map(|(_, it)| Arc::clone(it))
    }
}

/// How a page is shown.
#[derive(Clone, Debug)]
pub(super) struct Page {
    pub(super) most: usize,
    pub(super) context: u32,
    /// The call for the next page, without its cursor.
    pub(super) next_call: Option<(&'static str, Value)>,
}

impl Cx<'_> {
    /// Shows the first page of an answer.
    pub(super) fn first_page(&mut self, listing: Listing, page: Page) -> Step<Answer> {
        let number = self.tools.last;
        let number = self.once("snapshot", |_| number.into()).as_u64().unwrap_or(number);
        let listing = Arc::new(listing);
        let answer = self.show(&listing, number, 0, page)?;
        if answer.structured["next"].is_string() {
            let now = self.now();
            self.tools.snapshots.keep(number, now, listing);
        }
        Ok(answer)
    }

    /// Shows the page behind a cursor.
    pub(super) fn next_page(&mut self, cursor: &str, page: Page) -> Step<Answer> {
        let read = cursor.strip_prefix('r').and_then(|it| it.split_once('.'));
        let read =
            read.and_then(|(number, first)| Some((number.parse().ok()?, first.parse::<usize>().ok()?)));
        let now = self.now();
        let found =
            read.and_then(|(number, first)| Some((number, first, self.tools.snapshots.get(number, now)?)));
        let Some((number, first, listing)) = found else {
            return fail(
                Code::Expired,
                format!("the answer of {cursor:?} is not kept any more: ask without `after`"),
            );
        };
        // What has changed is seen first.
        self.look("page", Vec::new(), None)?;
        let changed: BTreeSet<PathBuf> = self.tools.files.changed_since(listing.tick).into_iter().collect();
        if listing.places.iter().any(|it| changed.contains(&it.file)) {
            return fail(Code::Changed, "files of this answer have changed: ask without `after`");
        }
        self.show(&listing, number, first, page)
    }

    /// The symbols in which places stand, as far as ready servers say so at once.
    fn enclosing(&mut self, places: &[&Location]) -> Step<BTreeMap<Location, String>> {
        let until = self.since("enclosing") + OUTLINES;
        let files: BTreeSet<&PathBuf> = places.iter().map(|it| &it.file).collect();
        let mut found = BTreeMap::new();
        let mut waits = false;
        for file in files.into_iter().take(MOST_OUTLINES) {
            let now = self.now();
            let is_ready = |it: &&View| matches!(it.readiness(now), Readiness::Ready(_));
            let language = language_of_file(file).map(|it| it.0);
            let serving = self.tools.views.values().filter(|it| language.is_some_and(|of| it.serves(of)));
            let Some(server) = serving.filter(is_ready).map(|it| it.server).next() else { continue };
            match self.outline(server, file) {
                Ok((outline, text)) => {
                    for place in places.iter().filter(|it| it.file == *file) {
                        let line = place.range.start.line;
                        let indent = text.line(line).chars().take_while(|it| it.is_whitespace()).count();
                        let start = text.place(line, u32::try_from(indent).unwrap_or_default());
                        if let Some(symbol) = outline.around(start) {
                            found.insert((*place).clone(), symbol.name_path());
                        }
                    }
                }
                Err(Stop::Wait) => waits = true,
                Err(Stop::Fail(_)) => {}
            }
        }
        if waits && self.now() < until {
            self.wake_at(until);
            return Err(Stop::Wait);
        }
        Ok(found)
    }

    fn show(&mut self, listing: &Listing, number: u64, first: usize, page: Page) -> Step<Answer> {
        let shown: Vec<&Location> = listing.places.iter().skip(first).take(page.most).collect();
        let files: BTreeSet<&PathBuf> = shown.iter().map(|it| &it.file).collect();
        self.used.extend(files.iter().map(|it| (*it).clone()));
        let unread: Vec<PathBuf> =
            files.iter().filter(|it| self.tools.files.text(it).is_none()).map(|it| (**it).clone()).collect();
        let seen = match unread.is_empty() {
            true => None,
            false => Some(self.look(&format!("lines {first}"), unread, None)?),
        };
        let mut texts: BTreeMap<&Path, Arc<Text>> = BTreeMap::new();
        for file in files {
            let seen = seen.iter().flat_map(|it| &it.texts).find(|(it, _)| it == file);
            let seen =
                seen.and_then(|(_, text)| text.as_ref().ok()).map(|it| Arc::new(Text::new(it.as_str())));
            if let Some(text) = self.tools.files.text(file).or(seen) {
                texts.insert(file, text);
            }
        }
        let within = match listing.enclosing {
            Enclosing::Shown => self.enclosing(&shown)?,
            Enclosing::Left => BTreeMap::new(),
        };
        let places = shown.iter().map(|it| {
            let is_declaration = listing.declaration.as_ref() == Some(*it);
            let text = texts.get(it.file.as_path()).map(|it| &**it);
            let place = self.place_shown(it, text, page.context, is_declaration);
            PlaceShown { within: within.get(*it).cloned(), ..place }
        });
        let found = Found {
            title: listing.title.clone(),
            members: listing.members.clone(),
            name: listing.name,
            places: places.collect(),
            total: listing.places.len(),
            incomplete: listing.incomplete.clone(),
            servers: listing.servers.clone(),
            notes: listing.notes.clone(),
            cursor: Some((format!("r{number}"), first)),
            next_call: page.next_call,
            most_of_text: self.most_of_text(),
        };
        Ok(found.answer())
    }

    /// A place with its line.
    pub(super) fn place_shown(
        &self,
        place: &Location,
        text: Option<&Text>,
        context: u32,
        is_declaration: bool,
    ) -> PlaceShown {
        let line = place.range.start.line;
        let lines = text.filter(|it| line < it.n_lines()).map_or_else(Vec::new, |text| {
            let last = line.saturating_add(context).min(text.n_lines() - 1);
            (line.saturating_sub(context)..=last).map(|it| (it + 1, text.line(it).to_owned())).collect()
        });
        let character = text.map_or(place.range.start.character, |it| it.characters(place.range.start));
        PlaceShown {
            file: self.shown(&place.file),
            line: line + 1,
            character: character + 1,
            lines,
            within: None,
            is_declaration,
        }
    }
}

/// Sorts places: the declaration first, tests last, each file in one piece.
pub(super) fn sorted(mut places: Vec<Location>, declaration: Option<&Location>) -> Vec<Location> {
    places.sort();
    places.dedup();
    let first = declaration.map(|it| it.file.clone());
    places.sort_by_key(|it| {
        let is_first = first.as_ref() == Some(&it.file);
        let is_declaration = declaration == Some(it);
        (!is_first, !is_declaration, !is_first && is_test(&it.file))
    });
    places
}

fn is_test(file: &Path) -> bool {
    file.iter().any(|it| {
        let name = it.to_string_lossy();
        name == "test"
            || name == "tests"
            || name.starts_with("test_")
            || name.contains(".test.")
            || name.contains("_test.")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn location(file: &str, line: u32) -> Location {
        let mut range = Range::default();
        range.start.line = line;
        Location { file: file.into(), range }
    }

    #[test]
    fn places_are_read_in_all_forms() {
        let range = json!({"start": {"line": 1, "character": 2}, "end": {"line": 1, "character": 3}});
        let other = json!({"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}});
        let plain = json!({"uri": "file:///a", "range": range});
        let link = json!({"targetUri": "file:///a", "targetRange": other, "targetSelectionRange": range});
        for answer in [plain.clone(), json!([plain, {"uri": "untitled:x", "range": range}, 3]), json!([link])]
        {
            let read = Location::read_all(&answer);
            assert_eq!(read.len(), 1, "{answer}");
            assert_eq!(read[0].range.start.line, 1);
        }
        assert_eq!(Location::read_all(&Value::Null), []);
    }

    #[test]
    fn declaration_is_first_and_tests_are_last() {
        let declaration = location("/w/m.py", 5);
        let all = [("/w/tests/a.py", 1), ("/w/z.py", 1), ("/w/m.py", 2), ("/w/m.py", 5), ("/w/z.py", 1)];
        let all = all.iter().map(|(file, line)| location(file, *line)).collect();
        let sorted = sorted(all, Some(&declaration));
        let shown: Vec<_> =
            sorted.iter().map(|it| (it.file.to_str().unwrap(), it.range.start.line)).collect();
        assert_eq!(shown, [("/w/m.py", 5), ("/w/m.py", 2), ("/w/z.py", 1), ("/w/tests/a.py", 1)]);
    }
}
