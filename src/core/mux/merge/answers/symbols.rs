//! Symbols of a document, and of the workspace.
//!
//! `SymbolInformation` is flat and says where it is; `DocumentSymbol` has children and a range of the document that was
//! asked about. Both may not stand in one outline. Symbols of the workspace may differ.

use std::borrow::Cow;

use super::{
    Merged, Question,
    shared::{Extent, Joined, List, extent, leave_out_repeated, some, tag_of, text_of, uri_of},
};
use crate::rpc::{elements, member, members, values};

/// Name, kind and place. A symbol of an outline has no file; one of the workspace may have no range yet.
#[derive(PartialEq, Eq, Hash)]
struct Key<'a> {
    name: Cow<'a, [u8]>,
    kind: &'a [u8],
    uri: Option<Vec<u8>>,
    range: Option<Extent>,
}

fn key(symbol: &[u8], is_outline: bool) -> Option<Key<'_>> {
    let [name, kind, range, location] = values(symbol, ["name", "kind", "range", "location"]);
    let (name, kind) = (text_of(name?), kind?);
    let Some(location) = location else {
        return Some(Key { name, kind, uri: None, range: Some(extent(range?)?) });
    };
    let [uri, range] = values(location, ["uri", "range"]);
    let range = match range {
        Some(range) => Some(extent(range)?),
        None => None,
    };
    let uri = uri_of(uri?)?;
    Some(Key { name, kind, uri: (!is_outline).then_some(uri), range })
}

fn is_flat(symbol: &[u8]) -> bool {
    member(symbol, "location").is_some()
}

pub(super) fn merge(question: &Question<'_>) -> Merged {
    let is_outline = question.method == "textDocument/documentSymbol";
    let mut heard = question.hear(|part| List::read(part.result));
    if let Some(settled) = question.settled(&heard) {
        return settled;
    }
    let mut lists: Vec<&mut List<'_>> = heard.parts.iter_mut().map(|(_, it)| it).collect();
    leave_out_repeated(&mut lists, |_, symbol, _| key(symbol, is_outline));
    let symbols = || heard.parts.iter().flat_map(|(_, it)| it.kept());
    let is_mixed = is_outline && symbols().any(is_flat) && !symbols().all(is_flat);
    let uri = symbols().filter(|_| is_mixed).find_map(uri_of_flat);
    let mut out = Joined::new(b"[", heard.parts.iter().map(|(_, it)| it.raw.len()).sum());
    for (n, list) in &heard.parts {
        match (is_mixed, question.client.takes_hierarchical_symbols, uri) {
            (true, true, _) => list.kept().for_each(|it| out.push(&as_nested(it))),
            (true, false, Some(uri)) => list.kept().for_each(|it| push_flat(it, uri, None, &mut out)),
            (_, _, _) => match tag_of(question.method, &question.parts[*n]) {
                Some(tag) => list.write_tagged(&tag, &mut out),
                None => list.write(&mut out),
            },
        }
    }
    Merged::of(out.finish(b"]"), heard.malformed)
}

fn uri_of_flat(symbol: &[u8]) -> Option<&[u8]> {
    values(values(symbol, ["location"])[0]?, ["uri"])[0]
}

/// A `SymbolInformation` as a `DocumentSymbol`.
fn as_nested(symbol: &[u8]) -> Cow<'_, [u8]> {
    let range = values(symbol, ["location"])[0].and_then(|it| values(it, ["range"])[0]);
    let Some(range) = range else { return Cow::Borrowed(symbol) };
    let mut out = Joined::new(b"{", symbol.len() + range.len());
    for (key, at) in members(symbol).filter(|(key, _)| !["location", "containerName"].contains(&&**key)) {
        out.push_member(&key, &symbol[at]);
    }
    out.push_member("range", range);
    out.push_member("selectionRange", range);
    Cow::Owned(out.finish(b"}"))
}

/// Writes a `DocumentSymbol` and all below it as `SymbolInformation`. Another is written as it is.
fn push_flat(symbol: &[u8], uri: &[u8], container: Option<&[u8]>, out: &mut Joined) {
    // Not by recursion: a server may nest as deep as it likes.
    let mut open = vec![(symbol, container)];
    while let Some((symbol, container)) = open.pop() {
        let [name, range, children] = values(symbol, ["name", "range", "children"]);
        let Some(range) = range.filter(|_| !is_flat(symbol)) else {
            out.push(symbol);
            continue;
        };
        let mut flat = Joined::new(b"{", symbol.len() + uri.len());
        let known = ["range", "selectionRange", "children", "detail"];
        for (key, at) in members(symbol).filter(|(key, _)| !known.contains(&&**key)) {
            flat.push_member(&key, &symbol[at]);
        }
        let mut location = Joined::new(b"{", uri.len() + range.len());
        location.push_member("uri", uri);
        location.push_member("range", range);
        flat.push_member("location", &location.finish(b"}"));
        if let Some(container) = container {
            flat.push_member("containerName", container);
        }
        out.push(&flat.finish(b"}"));
        let children = some(children).unwrap_or(b"[]");
        let first = open.len();
        open.extend(elements(children).map(|at| (&children[at], name)));
        open[first..].reverse();
    }
}
