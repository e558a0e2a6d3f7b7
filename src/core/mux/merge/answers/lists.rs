//! Lists that are joined, and when elements of different members are the same.

use std::borrow::Cow;

use super::{
    Merged, Question, Reading,
    shared::{
        Extent, Joined, List, Position, canonical, extent, inside, leave_out_repeated, position, some,
        tag_of, text_of,
    },
};
use crate::{
    core::mux::merge::owners::is_command,
    rpc::{elements, values},
};

/// When elements of different members are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Same {
    Never,
    /// All bytes are equal.
    Bytes,
    /// Code actions and commands: title, kind and what they do.
    Action,
    /// Inlay hints: position, and the text of the label, its parts joined.
    Hint,
    /// Presentations of a color.
    Label,
    /// Links and colors.
    Range,
}

/// What two elements that are the same have in common.
#[derive(PartialEq, Eq, Hash)]
enum Key<'a> {
    Bytes(&'a [u8]),
    Action(Cow<'a, [u8]>, Cow<'a, [u8]>, Vec<u8>),
    Hint(Position, Vec<u8>),
    Label(Cow<'a, [u8]>),
    Range(Extent),
}

impl Same {
    fn key(self, element: &[u8]) -> Option<Key<'_>> {
        match self {
            Same::Never => None,
            Same::Bytes => Some(Key::Bytes(element)),
            Same::Action => action(element),
            Same::Hint => {
                let [position, label] = values(element, ["position", "label"]);
                Some(Key::Hint(self::position(position?)?, text_of_label(label?)?))
            }
            Same::Label => Some(Key::Label(text_of(values(element, ["label"])[0]?))),
            Same::Range => Some(Key::Range(extent(values(element, ["range"])[0]?)?)),
        }
    }
}

/// Actions that do nothing yet are told apart by their data, from which each member makes something of its own.
fn action(element: &[u8]) -> Option<Key<'_>> {
    let [title, kind, edit, command, arguments, data] =
        values(element, ["title", "kind", "edit", "command", "arguments", "data"]);
    let effects = match (some(edit), some(command)) {
        (None, None) => [None, None, None, some(data)],
        (edit, command) => [edit, command, some(arguments), None],
    };
    let mut effect = Vec::new();
    for it in effects {
        effect.extend_from_slice(&it.map(canonical).unwrap_or_default());
        effect.push(b'\n');
    }
    Some(Key::Action(text_of(title?), some(kind).map(text_of).unwrap_or_default(), effect))
}

fn text_of_label(label: &[u8]) -> Option<Vec<u8>> {
    if label.starts_with(b"\"") {
        return Some(text_of(label).into_owned());
    }
    inside(label, *b"[]")?;
    let mut text = Vec::new();
    for part in elements(label).map(|at| &label[at]) {
        text.extend_from_slice(&text_of(values(part, ["value"])[0]?));
    }
    Some(text)
}

pub(super) fn merge(question: &Question<'_>, same: Same) -> Merged {
    let has_tags = question.parts.iter().any(|it| tag_of(question.method, it).is_some());
    if same == Same::Never && !has_tags {
        return by_brackets(question);
    }
    let mut heard = question.hear(|part| List::read(part.result));
    if let Some(settled) = question.settled(&heard) {
        return settled;
    }
    let mut lists: Vec<&mut List<'_>> = heard.parts.iter_mut().map(|(_, it)| it).collect();
    leave_out_repeated(&mut lists, |_, element, _| same.key(element));
    let mut out = Joined::new(b"[", lists.iter().map(|it| it.raw.len()).sum());
    for (n, list) in &heard.parts {
        match tag_of(question.method, &question.parts[*n]) {
            Some(tag) if same == Same::Action => {
                for action in list.kept() {
                    match is_command(action) {
                        true => out.push(action),
                        false => tag.put_item(action, out.element()),
                    }
                }
            }
            Some(tag) => list.write_tagged(&tag, &mut out),
            None => list.write(&mut out),
        }
    }
    Merged::of(out.finish(b"]"), heard.malformed)
}

/// No element is looked at.
fn by_brackets(question: &Question<'_>) -> Merged {
    let heard = question.hear(|part| match inside(part.result, *b"[]") {
        None => Reading::Malformed,
        Some([]) => Reading::Nothing,
        Some(inside) => Reading::Whole(inside),
    });
    if let Some(settled) = question.settled(&heard) {
        return settled;
    }
    let mut out = Joined::new(b"[", heard.parts.iter().map(|(_, it)| it.len()).sum());
    heard.parts.iter().for_each(|(_, inside)| out.push(inside));
    Merged::of(out.finish(b"]"), heard.malformed)
}
