//! Completions: lists and `CompletionList`s, whose defaults hold for their own items alone.
//!
//! Defaults that are equal in all lists stay defaults; others are written into the items that they are for. A tag takes
//! the place of `data`, so default data always moves into items that get tags.

use std::borrow::Cow;

use serde_json::Value;

use super::{
    Merged, Part, Question, Reading,
    shared::{
        Data, Joined, List, are_same, inside, is_null, is_object, leave_out_repeated, some, tag_of, text_of,
    },
};
use crate::{
    core::mux::merge::owners::Tag,
    rpc::{Patch, elements, member, members, spans, values},
};

/// Members of a list that are not simply passed on.
const KNOWN: [&str; 4] = ["isIncomplete", "items", "itemDefaults", "applyKind"];

/// Name and value.
type Default<'a> = (Cow<'a, str>, &'a [u8]);

/// What one member has answered.
struct Completions<'a> {
    list: List<'a>,
    /// The members of `itemDefaults`.
    defaults: Vec<Default<'a>>,
    apply_kind: Option<&'a [u8]>,
    /// The whole list, if it is an object.
    object: Option<&'a [u8]>,
    tag: Option<Tag>,
    commit_characters: Option<&'a [u8]>,
}

fn read<'a>(method: &str, part: &'a Part<'a>) -> Reading<Completions<'a>> {
    let object = is_object(part.result).then_some(part.result);
    let [items, defaults, apply_kind] = match object {
        Some(object) => values(object, ["items", "itemDefaults", "applyKind"]),
        None => [Some(part.result), None, None],
    };
    let Some(items) = items else { return Reading::Malformed };
    let defaults = members(some(defaults).unwrap_or(b"{}"))
        .map(|(key, at)| (key, &defaults.unwrap_or_default()[at]))
        .filter(|(_, value)| !is_null(value))
        .collect();
    let with = |list| Completions {
        list,
        defaults,
        apply_kind: some(apply_kind),
        object,
        tag: tag_of(method, part),
        commit_characters: some(part.commit_characters),
    };
    match List::read(items) {
        Reading::Nothing => Reading::Nothing,
        Reading::Whole(list) => Reading::Whole(with(list)),
        Reading::Partly(list) => Reading::Partly(with(list)),
        Reading::Malformed => Reading::Malformed,
    }
}

pub(super) fn merge(question: &Question<'_>, late: bool) -> Merged {
    let heard = question.hear(|part| read(question.method, part));
    let says_more = |part: &Part<'_>| says_incomplete(part.result);
    let is_incomplete = late || question.parts.iter().any(says_more);
    if let Some(settled) = question.settled(&heard) {
        let needs_characters = heard.parts.iter().any(|(_, it)| it.commit_characters.is_some());
        if !needs_characters && (!is_incomplete || says_incomplete(&settled.result)) {
            return settled;
        }
    }
    let malformed = heard.malformed;
    let mut all: Vec<Completions<'_>> = heard.parts.into_iter().map(|(_, it)| it).collect();
    let with_range: Vec<bool> = all.iter().map(|it| it.default("editRange").is_some()).collect();
    let mut lists: Vec<&mut List<'_>> = all.iter_mut().map(|it| &mut it.list).collect();
    leave_out_repeated(&mut lists, |n, item, data| key(item, with_range[n], data));
    Merged::of(joined(&all, is_incomplete), malformed)
}

fn says_incomplete(result: &[u8]) -> bool {
    is_object(result) && values(result, ["isIncomplete"])[0] == Some(b"true")
}

/// Label, kind and inserted text.
type Key<'a> = (Cow<'a, [u8]>, &'a [u8], Cow<'a, [u8]>);

fn key<'a>(item: &'a [u8], has_range: bool, data: &mut Data) -> Option<Key<'a>> {
    let [label, kind, edit, edit_text, text, data_at] =
        spans(item, ["label", "kind", "textEdit", "textEditText", "insertText", "data"]);
    *data = Data::Read(data_at);
    let [label, kind, edit, edit_text, text] =
        [label, kind, edit, edit_text, text].map(|it| it.map(|at| &item[at]));
    let label = label?;
    let inserted = match some(edit) {
        Some(edit) => values(edit, ["newText"])[0],
        None if has_range => some(edit_text),
        None => some(text),
    };
    let kind = some(kind).unwrap_or_default();
    Some((text_of(label), kind, text_of(inserted.unwrap_or(label))))
}

fn joined(all: &[Completions<'_>], is_incomplete: bool) -> Vec<u8> {
    let (defaults, defaults_are_shared) = shared_defaults(all);
    let is_bare = !is_incomplete && all.iter().all(|it| it.object.is_none());
    let room = all.iter().map(|it| it.list.raw.len()).sum();
    let mut out = match is_bare {
        true => Joined::new(b"[", room),
        false => Joined::new(&head(all, is_incomplete, &defaults), room),
    };
    for it in all {
        it.write(defaults_are_shared, all.iter().any(|it| it.tag.is_some()), &mut out);
    }
    out.finish(if is_bare { b"]" } else { b"]}" })
}

/// The defaults that stay, and whether they are those of all lists (but for data).
fn shared_defaults<'a>(all: &'a [Completions<'_>]) -> (Vec<&'a Default<'a>>, bool) {
    let Some((first, others)) = all.split_first() else { return (Vec::new(), true) };
    let is_shared = others.iter().all(|it| {
        let is_there =
            |(key, value): &Default<'_>| first.default(key).is_some_and(|theirs| are_same(value, theirs));
        it.defaults.len() == first.defaults.len()
            && it.defaults.iter().all(is_there)
            && are_same(it.apply_kind.unwrap_or(b"{}"), first.apply_kind.unwrap_or(b"{}"))
    });
    let has_tags = all.iter().any(|it| it.tag.is_some());
    let stays = |it: &&Default<'_>| !has_tags || it.0 != "data";
    (first.defaults.iter().filter(|_| is_shared).filter(stays).collect(), is_shared)
}

/// The list up to its first item. Members that lspool does not know are those of the best rank.
fn head(all: &[Completions<'_>], is_incomplete: bool, defaults: &[&Default<'_>]) -> Vec<u8> {
    let mut out = Joined::new(b"{", 200);
    out.push_member("isIncomplete", if is_incomplete { b"true" } else { b"false" });
    if !defaults.is_empty() {
        let mut inner = Joined::new(b"{", 200);
        for (key, value) in defaults {
            inner.push_member(key, value);
        }
        out.push_member("itemDefaults", &inner.finish(b"}"));
        if let Some(kind) = all.iter().find_map(|it| it.apply_kind) {
            out.push_member("applyKind", kind);
        }
    }
    let mut seen: Vec<Cow<'_, str>> = Vec::new();
    for object in all.iter().filter_map(|it| it.object) {
        for (key, at) in members(object) {
            if !KNOWN.contains(&&*key) && !seen.contains(&key) {
                out.push_member(&key, &object[at]);
                seen.push(key);
            }
        }
    }
    out.push_member("items", b"[");
    out.finish(b"")
}

impl<'a> Completions<'a> {
    fn default(&self, key: &str) -> Option<&'a [u8]> {
        self.defaults.iter().rfind(|it| it.0 == key).map(|it| it.1)
    }

    /// Whether an item's own value is put together with the default.
    fn merges(&self, key: &str) -> bool {
        self.apply_kind.is_some_and(|it| values(it, [key])[0] == Some(b"2"))
    }

    /// `has_tags`: some items of the answer get tags, so that no data are left in the defaults.
    fn write(&self, defaults_are_shared: bool, has_tags: bool, out: &mut Joined) {
        let mut into_items: Vec<(&str, &[u8])> = Vec::new();
        for (key, value) in &self.defaults {
            if !defaults_are_shared || has_tags && key == "data" {
                into_items.push((key, value));
            }
        }
        if let Some(characters) =
            self.commit_characters.filter(|_| self.default("commitCharacters").is_none())
        {
            into_items.push(("commitCharacters", characters));
        }
        match &self.tag {
            None if into_items.is_empty() => self.list.write(out),
            Some(tag) if into_items.is_empty() => self.list.write_tagged(tag, out),
            tag => {
                for item in self.list.kept() {
                    let item = self.with_defaults(item, &into_items);
                    match tag {
                        Some(tag) => tag.put_item(&item, out.element()),
                        None => out.push(&item),
                    }
                }
            }
        }
    }

    fn with_defaults(&self, item: &[u8], defaults: &[(&str, &[u8])]) -> Vec<u8> {
        let mut patch = Patch::of(item);
        for (key, default) in defaults {
            match *key {
                "editRange" => {
                    let [edit, text, label] = values(item, ["textEdit", "textEditText", "label"]);
                    if let (None, Some(text)) = (some(edit), some(text).or(label)) {
                        patch.set("textEdit", &edit_of(default, text));
                    }
                }
                _ => {
                    let own = member(item, key).map(|at| &item[at]).filter(|it| !is_null(it));
                    let value = match own {
                        None => default.to_vec(),
                        Some(own) if self.merges(key) => both(own, default),
                        Some(_) => continue,
                    };
                    patch.set(key, &value);
                }
            }
        }
        patch.finish()
    }
}

/// A `TextEdit`, or an `InsertReplaceEdit`.
fn edit_of(range: &[u8], text: &[u8]) -> Vec<u8> {
    let mut out = Joined::new(b"{", range.len() + text.len());
    match values(range, ["insert", "replace"]) {
        [Some(insert), Some(replace)] => {
            out.push_member("insert", insert);
            out.push_member("replace", replace);
        }
        [_, _] => out.push_member("range", range),
    }
    out.push_member("newText", text);
    out.finish(b"}")
}

/// An item's own value with the default: all elements of two arrays, all members of two objects, of which its own win.
fn both(own: &[u8], default: &[u8]) -> Vec<u8> {
    if inside(own, *b"[]").is_some() {
        let mut out = Joined::new(b"[", own.len() + default.len());
        let mut seen: Vec<Value> = Vec::new();
        for list in [own, default] {
            for element in elements(list).map(|at| &list[at]) {
                let value = serde_json::from_slice(element).unwrap_or_default();
                if !seen.contains(&value) {
                    out.push(element);
                    seen.push(value);
                }
            }
        }
        return out.finish(b"]");
    }
    if !is_object(own) || !is_object(default) {
        return own.to_vec();
    }
    let mut patch = Patch::of(own);
    for (key, at) in members(default).filter(|(key, _)| member(own, key).is_none()) {
        patch.set(&key, &default[at]);
    }
    patch.finish()
}

/// A `CompletionList` of one member, with tags. `None`: it is none.
pub(in crate::core::mux::merge) fn tagged<'a>(object: &'a [u8], tag: &Tag) -> Option<Cow<'a, [u8]>> {
    let at = member(object, "items")?;
    let items = List::of(&object[at.clone()])?;
    let [defaults, apply_kind] = values(object, ["itemDefaults", "applyKind"]);
    let data = defaults.and_then(|it| some(values(it, ["data"])[0]));
    let all = Completions {
        list: List { raw: b"[]", items: Vec::new() },
        defaults: Vec::new(),
        apply_kind: some(apply_kind),
        object: None,
        tag: None,
        commit_characters: None,
    };
    let list = items.rewritten(tag.len(), |item, out| match data {
        Some(data) => tag.put_item(&all.with_defaults(item, &[("data", data)]), out),
        None => tag.put_item(item, out),
    });
    let out = [&object[..at.start], &list, &object[at.end..]].concat();
    Some(Cow::Owned(match data {
        Some(_) => Patch::of(&out).remove_path(&["itemDefaults", "data"]).finish(),
        None => out,
    }))
}

/// `InlineCompletionItem[]` or `InlineCompletionList`: nothing but the items of all.
pub(super) fn merge_inline(question: &Question<'_>) -> Merged {
    let heard = question.hear(|part| {
        let items = match is_object(part.result) {
            true => values(part.result, ["items"])[0],
            false => Some(part.result),
        };
        match items.and_then(|it| inside(it, *b"[]")) {
            None => Reading::Malformed,
            Some([]) => Reading::Nothing,
            Some(inside) => Reading::Whole((inside, is_object(part.result))),
        }
    });
    if let Some(settled) = question.settled(&heard) {
        return settled;
    }
    let is_bare = heard.parts.iter().all(|(_, (_, is_object))| !is_object);
    let room = heard.parts.iter().map(|(_, (inside, _))| inside.len()).sum();
    let mut out = Joined::new(if is_bare { b"[" } else { br#"{"items":["# }, room);
    heard.parts.iter().for_each(|(_, (inside, _))| out.push(inside));
    Merged::of(out.finish(if is_bare { b"]" } else { b"]}" }), heard.malformed)
}
