//! `prepareRename` for members that rename without it: what they would rename is the word at the position.

use serde_json::json;

use super::{
    abilities::{Abilities, TextDocument},
    known::place,
    methods::{Method, method},
};
use crate::{
    core::{event::ServerId, mux::Mux},
    rpc::decode,
};

fn row(name: &str) -> &'static Method {
    method(name).expect("it is in the table")
}

impl Mux {
    /// The best member that renames without preparing, and the range that it would rename.
    pub(super) fn word_to_rename(&mut self, params: &[u8]) -> Option<(ServerId, Vec<u8>)> {
        let (rename, prepare) = (row("textDocument/rename"), row("textDocument/prepareRename"));
        let group = self.group.as_deref()?;
        let document = TextDocument::of(params);
        let can = |it: &Abilities| it.can(rename, params, &document) && !it.can(prepare, params, &document);
        let able = group.members().iter().filter(|it| it.abilities.as_ref().is_some_and(can));
        let mut able: Vec<ServerId> = able.map(|it| it.server).collect();
        able.retain(|it| self.is_for(*it, &document) && self.is_coming(*it));
        self.group.as_deref()?.sort(&mut able, rename.feature, rename.name);
        let server = *able.first()?;
        let (uri, (line, character)) = place(params)?;
        let text = self.servers.get_mut(server).session.documents.text(&uri)?;
        let (start, end) = word_at(&decode(&text)?, line, character)?;
        let at = |character: usize| json!({"line": line, "character": character});
        Some((server, json!({"start": at(start), "end": at(end)}).to_string().into_bytes()))
    }
}

/// Where the word at a position, or just before it, begins and ends in its line, in UTF-16.
fn word_at(text: &str, line: i64, character: i64) -> Option<(usize, usize)> {
    let (line, at) = (usize::try_from(line).ok()?, usize::try_from(character).ok()?);
    let text = lines(text).nth(line)?;
    let is_part = |it: char| it.is_alphanumeric() || it == '_' || it == '$';
    let (mut start, mut end) = (None, 0);
    for it in text.chars() {
        let units = it.len_utf16();
        match (is_part(it), start) {
            (true, None) => start = Some(end),
            (true, Some(_)) => {}
            (false, Some(start)) if at <= end => return (start <= at).then_some((start, end)),
            (false, _) => start = None,
        }
        end += units;
    }
    start.filter(|it| *it <= at && at <= end).map(|it| (it, end))
}

/// The lines of a text, as the protocol ends them.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(end) = text.find(['\n', '\r']) else { return rest.take() };
        let width = if text[end..].starts_with("\r\n") { 2 } else { 1 };
        rest = Some(&text[end + width..]);
        Some(&text[..end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_is_at_the_position_or_ends_there() {
        let text = "a\r\n  \u{1F600} größe_1+b\rlast";
        assert_eq!(word_at(text, 1, 5), Some((5, 12)));
        assert_eq!(word_at(text, 1, 8), Some((5, 12)));
        assert_eq!(word_at(text, 1, 12), Some((5, 12)));
        assert_eq!(word_at(text, 1, 13), Some((13, 14)));
        assert_eq!(word_at(text, 1, 1), None);
        assert_eq!(word_at(text, 2, 4), Some((0, 4)));
        assert_eq!(word_at(text, 0, 0), Some((0, 1)));
        for (line, character) in [(2, 5), (3, 0), (-1, 0), (0, -1), (1, 99)] {
            assert_eq!(word_at(text, line, character), None, "{line}:{character}");
        }
    }
}
