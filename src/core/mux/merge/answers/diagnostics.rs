//! Reports of diagnostics that were pulled.
//!
//! The caller puts what it keeps in the place of unchanged reports, and gives the answer its result id.

use std::collections::BTreeMap;

use super::{
    Merged, Part, Question, Reading,
    shared::{Joined, List, inside, is_object, leave_out_repeated, some, uri_of},
};
use crate::rpc::{members, values};

/// One full report.
struct Report<'a> {
    raw: &'a [u8],
    items: Option<List<'a>>,
    related: Option<&'a [u8]>,
}

fn read<'a>(part: &'a Part<'a>) -> Reading<Report<'a>> {
    let [kind, items, related] = values(part.result, ["kind", "items", "relatedDocuments"]);
    let (Some(br#""full""#), Some(items)) = (kind, items) else { return Reading::Malformed };
    let related = some(related).filter(|it| inside(it, *b"{}").is_some_and(|it| !it.is_empty()));
    let report = |items| Report { raw: part.result, items, related };
    match List::read(items) {
        Reading::Nothing if related.is_none() => Reading::Nothing,
        Reading::Nothing => Reading::Whole(report(None)),
        Reading::Whole(items) => Reading::Whole(report(Some(items))),
        Reading::Partly(items) => Reading::Partly(report(Some(items))),
        Reading::Malformed => Reading::Malformed,
    }
}

/// The lists of several members as one, in rank order. Diagnostics of two members that are equal to the last byte are one.
pub(super) fn joined(lists: &mut [&mut List<'_>]) -> Vec<u8> {
    leave_out_repeated(lists, |_, item, _| Some(item));
    let mut out = Joined::new(b"[", lists.iter().map(|it| it.raw.len()).sum());
    for list in lists {
        list.write(&mut out);
    }
    out.finish(b"]")
}

pub(super) fn merge(question: &Question<'_>) -> Merged {
    let mut heard = question.hear(read);
    if let Some(settled) = question.settled(&heard) {
        return settled;
    }
    let related: Vec<&[u8]> = heard.parts.iter().filter_map(|(_, it)| it.related).collect();
    let related = self::related(&related);
    let mut out = Joined::new(b"{", 0);
    out.push_member("kind", br#""full""#);
    let mut lists: Vec<&mut List<'_>> =
        heard.parts.iter_mut().filter_map(|(_, it)| it.items.as_mut()).collect();
    out.push_member("items", &joined(&mut lists));
    if let Some(related) = related {
        out.push_member("relatedDocuments", &related);
    }
    let mut seen = ["kind", "items", "relatedDocuments", "resultId"].map(str::to_owned).to_vec();
    for (_, report) in &heard.parts {
        for (key, at) in members(report.raw) {
            if !seen.iter().any(|it| *it == key) {
                out.push_member(&key, &report.raw[at]);
                seen.push(key.into_owned());
            }
        }
    }
    Merged::of(out.finish(b"}"), heard.malformed)
}

/// Reports by document. One that several members report about: the items of all that are full, else the best rank's.
fn related(maps: &[&[u8]]) -> Option<Vec<u8>> {
    let mut places: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    let mut documents: Vec<(String, Vec<&[u8]>)> = Vec::new();
    for map in maps {
        for (uri, at) in members(map).filter(|(_, at)| is_object(&map[at.clone()])) {
            let quoted = serde_json::to_vec(&uri).expect("a string is always valid JSON");
            let place = *places.entry(uri_of(&quoted).unwrap_or(quoted)).or_insert(documents.len());
            if place == documents.len() {
                documents.push((uri.into_owned(), Vec::new()));
            }
            documents[place].1.push(&map[at]);
        }
    }
    if documents.is_empty() {
        return None;
    }
    let mut out = Joined::new(b"{", maps.iter().map(|it| it.len()).sum());
    for (uri, reports) in documents {
        let items = |it: &&'_ [u8]| values(it, ["items"])[0].map(|_| ()).is_some();
        let full: Vec<&[u8]> = reports.iter().copied().filter(|it| items(it)).collect();
        match (&reports[..], &full[..]) {
            (_, [only]) | ([only, ..], []) => out.push_member(&uri, only),
            (_, full) => {
                let mut lists: Vec<List<'_>> =
                    full.iter().filter_map(|it| List::of(values(it, ["items"])[0]?)).collect();
                let items = joined(&mut lists.iter_mut().collect::<Vec<_>>());
                let mut report = Joined::new(br#"{"kind":"full","#, items.len());
                report.push_member("items", &items);
                out.push_member(&uri, &report.finish(b"}"));
            }
        }
    }
    Some(out.finish(b"}"))
}
