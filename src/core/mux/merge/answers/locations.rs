//! Where something is declared, defined, implemented or used: one shape of `Location` and `LocationLink`.

use std::borrow::Cow;

use super::{
    Merged, Question, Reading,
    shared::{Extent, Joined, List, extent, is_object, leave_out_repeated, uri_of},
};
use crate::rpc::{member, members, values};

/// The elements of a part. One that is no list is one element.
fn read(raw: &[u8]) -> Reading<List<'_>> {
    if is_object(raw) { Reading::Whole(List::of_one(raw)) } else { List::read(raw) }
}

fn is_link(element: &[u8]) -> bool {
    member(element, "targetUri").is_some()
}

/// File and range. Of a link, the range that the editor goes to, which is what others say as the range of a `Location`.
fn place(element: &[u8]) -> Option<(Vec<u8>, Extent)> {
    let [uri, range, target_uri, target_range, selection] =
        values(element, ["uri", "range", "targetUri", "targetRange", "targetSelectionRange"]);
    let range = match target_uri {
        Some(_) => selection.or(target_range),
        None => range,
    };
    Some((uri_of(target_uri.or(uri)?)?, extent(range?)?))
}

pub(super) fn merge(question: &Question<'_>) -> Merged {
    let mut heard = question.hear(|part| read(part.result));
    if let Some(settled) = question.settled(&heard) {
        return settled;
    }
    let mut lists: Vec<&mut List<'_>> = heard.parts.iter_mut().map(|(_, it)| it).collect();
    leave_out_repeated(&mut lists, |_, element, _| place(element));
    let has_links = lists.iter().any(|it| it.kept().any(is_link));
    let has_locations = lists.iter().any(|it| !it.kept().all(is_link));
    let becomes_links = has_links && question.client.takes_links(question.method);
    let mut out = Joined::new(b"[", lists.iter().map(|it| it.raw.len()).sum());
    for list in lists {
        match (becomes_links, has_links) {
            (true, _) if has_locations => list.kept().for_each(|it| out.push(&as_link(it))),
            (false, true) => list.kept().for_each(|it| out.push(&as_location(it))),
            (true | false, _) => list.write(&mut out),
        }
    }
    Merged::of(out.finish(b"]"), heard.malformed)
}

fn as_link(element: &[u8]) -> Cow<'_, [u8]> {
    let [uri, range] = values(element, ["uri", "range"]);
    let (Some(uri), Some(range), false) = (uri, range, is_link(element)) else {
        return Cow::Borrowed(element);
    };
    let mut out = Joined::new(b"{", element.len() + range.len() + 50);
    out.push_member("targetUri", uri);
    out.push_member("targetRange", range);
    out.push_member("targetSelectionRange", range);
    with_others(element, &["uri", "range"], out)
}

fn as_location(element: &[u8]) -> Cow<'_, [u8]> {
    let [uri, range, selection] = values(element, ["targetUri", "targetRange", "targetSelectionRange"]);
    let (Some(uri), Some(range)) = (uri, selection.or(range)) else { return Cow::Borrowed(element) };
    let mut out = Joined::new(b"{", element.len());
    out.push_member("uri", uri);
    out.push_member("range", range);
    let known = ["targetUri", "targetRange", "targetSelectionRange", "originSelectionRange"];
    with_others(element, &known, out)
}

/// With the members of an element that its new shape does not name otherwise.
fn with_others<'a>(element: &[u8], known: &[&str], mut out: Joined) -> Cow<'a, [u8]> {
    for (key, at) in members(element).filter(|(key, _)| !known.contains(&&**key)) {
        out.push_member(&key, &element[at]);
    }
    Cow::Owned(out.finish(b"}"))
}
