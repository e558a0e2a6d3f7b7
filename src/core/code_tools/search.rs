//! `code_search`: a text in all files, page by page.

use std::path::Path;

use serde_json::{Map, json};

use super::{
    call::{Cx, Step, fail, reason},
    places::{Enclosing, Listing, Location, Page, sorted},
};
use crate::{
    builtin_tools::lsp::{Answer, Code, LspTool, Pattern, Position, Range},
    core::event::{Grep, Look},
};

/// What is searched for, and where.
pub(super) struct SearchFor<'a> {
    pub(super) query: &'a str,
    pub(super) is_regex: bool,
    pub(super) glob: Option<&'a str>,
    pub(super) path: Option<&'a str>,
}

impl Cx<'_> {
    /// Searches the texts of the files.
    pub(super) fn search(&mut self, wanted: &SearchFor<'_>, page: &Page) -> Step<Answer> {
        let below = wanted.path.map(|it| self.path(it)).transpose()?;
        let glob = wanted.glob.map(|it| self.pattern(it)).transpose()?;
        let (query, is_regex) = (wanted.query.to_owned(), wanted.is_regex);
        let seen =
            self.look_for("search", Look { grep: Some(Grep { query, is_regex }), ..Look::default() })?;
        if let Some(why) = &seen.invalid {
            return fail(Code::BadArguments, why.clone());
        }
        let is_wanted = |file: &Path| {
            below.as_ref().is_none_or(|it| file.starts_with(it))
                && glob.as_ref().is_none_or(|it: &Pattern| self.fits(it, file))
        };
        let hits = seen.hits.iter().filter(|it| is_wanted(&it.file));
        let mut n_cut = 0;
        let mut places = Vec::new();
        for it in hits {
            n_cut += it.n_lines - it.lines.len();
            places.extend(it.lines.iter().map(|(line, _)| {
                let start = Position { line: *line, character: 0 };
                Location { file: it.file.clone(), range: Range { start, end: start } }
            }));
        }
        let places = sorted(places, None);
        let unread = seen.unread.iter().filter(|(file, _)| is_wanted(file));
        let mut notes: Vec<String> = Vec::new();
        notes.extend(unread.take(3).map(|(file, why)| format!("{} {}", self.shown(file), reason(*why))));
        let cut = (n_cut > 0).then(|| format!("{n_cut} more lines of these files match"));
        let (n, plural) = (places.len(), if places.len() == 1 { "" } else { "s" });
        let listing = Listing {
            title: format!("{n} line{plural} with {:?}", wanted.query),
            members: Map::new(),
            name: "hits",
            places,
            declaration: None,
            incomplete: seen.partial.clone().or(cut),
            servers: Vec::new(),
            notes,
            tick: self.tools.files.last_change(),
            enclosing: Enclosing::Shown,
        };
        let mut next = json!({"query": wanted.query});
        if page.context > 0 {
            next["context"] = page.context.into();
        }
        self.first_page(listing, Page { next_call: Some((LspTool::Search.name(), next)), ..page.clone() })
    }
}
