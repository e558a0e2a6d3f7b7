//! What the editor has pulled of the members, by document: it stands in for a member that says *unchanged*, or fails.
//!
//! The editor knows the reports of all members under one result id, which names what they say together. A member is
//! asked with its own. **No id stands for two different contents.**

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::{
    answers::{self, ClientShape, Part, Shape},
    shown::{has_same, inner, key},
};
use crate::{
    core::event::{BackendId, ProcessId},
    rpc::{Patch, RawId, elements, member, members, text, values},
};

/// What result ids of several members begin with.
const PREFIX: &str = "lspool-";

/// One member's report about one document.
#[derive(Debug)]
struct Report {
    process: ProcessId,
    /// Its result id, raw.
    id: Option<Bytes>,
    /// The elements, without the brackets around them.
    elements: Bytes,
}

/// What is known of one document.
#[derive(Debug, Default)]
struct Document {
    /// Names what the reports say. Changes with them.
    revision: u64,
    /// By rank.
    reports: BTreeMap<usize, Report>,
}

impl Document {
    /// The name of what these members have reported.
    fn id(&self, ranks: &[usize]) -> RawId {
        let mut id = format!("{PREFIX}{}", self.revision);
        if ranks.len() < self.reports.len() {
            id.extend(ranks.iter().map(|it| format!("-{it}")));
        }
        RawId::text(&id)
    }
}

/// By document.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    last: u64,
    documents: BTreeMap<String, Document>,
}

/// The contents of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noted {
    Changed,
    Same,
    /// It is none.
    Malformed,
}

/// Whether a result id, raw, is one of several members.
fn is_merged(id: &[u8]) -> bool {
    id.starts_with(b"\"lspool-")
}

/// Whether a request for diagnostics has a result id of several members.
pub(super) fn has_merged_id(params: &[u8]) -> bool {
    member(params, "previousResultId").is_some_and(|it| is_merged(&params[it]))
}

impl Reports {
    /// A member has answered a pull of this document.
    pub(crate) fn note(&mut self, (process, rank): (ProcessId, usize), uri: &str, result: &[u8]) -> Noted {
        let mut noted = self.note_one((process, rank), uri, result);
        let related = member(result, "relatedDocuments").map_or(&b"{}"[..], |it| &result[it]);
        for (uri, at) in members(related) {
            if self.note_one((process, rank), &uri, &related[at]) == Noted::Changed && noted == Noted::Same {
                noted = Noted::Changed;
            }
        }
        noted
    }

    fn note_one(&mut self, (process, rank): (ProcessId, usize), uri: &str, result: &[u8]) -> Noted {
        let [kind, items, id] = values(result, ["kind", "items", "resultId"]);
        let id = id.filter(|it| it.starts_with(b"\"")).map(Bytes::copy_from_slice);
        let document = self.documents.entry(key(uri)).or_default();
        let known = document.reports.get_mut(&rank);
        match (kind, items, known) {
            (Some(br#""unchanged""#), _, Some(known)) if known.process == process => {
                known.id = id.or(known.id.take());
                Noted::Same
            }
            (Some(br#""full""#), Some(items), Some(known)) if known.elements == inner(items) => {
                (known.process, known.id) = (process, id);
                Noted::Same
            }
            (Some(br#""full""#), Some(items), _) if items.starts_with(b"[") => {
                let elements = Bytes::copy_from_slice(inner(items));
                document.reports.insert(rank, Report { process, id, elements });
                self.last += 1;
                document.revision = self.last;
                Noted::Changed
            }
            _ => {
                if document.reports.is_empty() {
                    self.documents.remove(&key(uri));
                }
                Noted::Malformed
            }
        }
    }

    /// The result id of the last report of a process, raw.
    pub(crate) fn previous(&self, process: ProcessId, rank: usize, uri: &str) -> Option<&[u8]> {
        let report = self.documents.get(&key(uri))?.reports.get(&rank)?;
        report.id.as_deref().filter(|_| report.process == process)
    }

    /// What the editor is answered. `members`: the ranks of all whose reports count. `answered`: what some of them have
    /// just said; it is noted. `None`: nothing is known.
    pub(crate) fn answer(
        &self,
        params: &[u8],
        members: &BTreeSet<usize>,
        answered: &[(usize, &[u8])],
        client: &ClientShape,
    ) -> Option<Vec<u8>> {
        let document = self.documents.get(&key(&text(params, &["textDocument", "uri"])?))?;
        let known: Vec<usize> = document.reports.keys().copied().filter(|it| members.contains(it)).collect();
        let related: Vec<String> = answered.iter().flat_map(|(_, it)| related(it)).collect();
        let id = document.id(&known);
        let previous = member(params, "previousResultId").map(|it| &params[it]);
        if known.is_empty() {
            return None;
        }
        if previous == Some(id.as_bytes()) && related.is_empty() {
            let report = Patch::of(br#"{"kind":"unchanged"}"#).set("resultId", id.as_bytes()).finish();
            return Some(report);
        }
        let full = |rank: &usize| {
            let said = answered.iter().find(|(it, _)| it == rank).map(|it| it.1);
            let said = said.filter(|it| values(it, ["kind"])[0] == Some(br#""full""#)).unwrap_or(b"{}");
            let mut report = Patch::of(said);
            report.remove("resultId").remove("relatedDocuments");
            report.set("kind", br#""full""#).set("items", &listed(document.reports.get(rank)));
            let mut all = Patch::of(b"{}");
            for uri in &related {
                let known = self.documents.get(&key(uri)).and_then(|it| it.reports.get(rank));
                if known.is_some() {
                    let one = [br#"{"kind":"full","items":"#.as_slice(), &listed(known), b"}"].concat();
                    all.set(uri, &one);
                }
            }
            let all = all.finish();
            if all != b"{}" {
                report.set("relatedDocuments", &all);
            }
            report.finish()
        };
        let full: Vec<Vec<u8>> = known.iter().map(full).collect();
        let parts: Vec<Part<'_>> =
            full.iter().map(|it| Part { result: it, maker: None, commit_characters: None }).collect();
        let merged =
            answers::merge(Shape::Diagnostics, "textDocument/diagnostic", &parts, client, false, None);
        Some(Patch::of(&merged.result).set("resultId", id.as_bytes()).finish())
    }

    /// A request for the diagnostics of a workspace as a member is asked it: with its own result ids. None: as it is.
    pub(crate) fn with_own_ids(&self, process: ProcessId, rank: usize, params: &[u8]) -> Option<Vec<u8>> {
        let list = &params[member(params, "previousResultIds")?];
        let all: Vec<&[u8]> = elements(list).map(|it| &list[it]).collect();
        let is_foreign = |one: &&[u8]| values(one, ["value"])[0].is_some_and(is_merged);
        if !all.iter().any(is_foreign) {
            return None;
        }
        let own = |one: &&[u8]| {
            if !is_foreign(one) {
                return Some(one.to_vec());
            }
            let id = self.previous(process, rank, &text(one, &["uri"])?)?;
            Some(Patch::of(one).set("value", id).finish())
        };
        let own: Vec<Vec<u8>> = all.iter().filter_map(own).collect();
        let list = [b"[".as_slice(), &own.join(b",".as_slice()), b"]"].concat();
        Some(Patch::of(params).set("previousResultIds", &list).finish())
    }

    /// A document is closed: nobody asks about what was pulled for it.
    pub(crate) fn closed(&mut self, uri: &str) {
        self.documents.remove(&key(uri));
    }

    /// What older processes of this backend have reported and this one has not counts no more.
    pub(crate) fn stale(&mut self, process: ProcessId) {
        self.without(|it| it.backend == process.backend && it.generation < process.generation);
    }

    /// Whether older processes of this backend have reported something that counts.
    pub(crate) fn has_stale(&self, process: ProcessId) -> bool {
        let is_older =
            |it: &Report| it.process.backend == process.backend && it.process.generation < process.generation;
        self.documents.values().any(|it| it.reports.values().any(is_older))
    }

    /// A backend has no process any more. Whether it has reported something.
    pub(crate) fn abandoned(&mut self, backend: BackendId) -> bool {
        self.without(|it| it.backend == backend)
    }

    /// Members have other ranks. `place`: the new rank of an old one; `None`: it is not a member any more.
    pub(super) fn renumber(&mut self, place: impl Fn(usize) -> Option<usize>) {
        for document in self.documents.values_mut() {
            let reports = std::mem::take(&mut document.reports).into_iter();
            document.reports = reports.filter_map(|(rank, it)| Some((place(rank)?, it))).collect();
            // Ranks are in its ids.
            self.last += 1;
            document.revision = self.last;
        }
        self.documents.retain(|_, it| !it.reports.is_empty());
    }

    fn without(&mut self, is_gone: impl Fn(ProcessId) -> bool) -> bool {
        let mut has_changed = false;
        self.documents.retain(|_, document| {
            let mut lost = document.reports.extract_if(.., |_, it| is_gone(it.process));
            if lost.by_ref().any(|(_, it)| !it.elements.is_empty()) {
                has_changed = true;
                self.last += 1;
                document.revision = self.last;
            }
            lost.for_each(drop);
            !document.reports.is_empty()
        });
        has_changed
    }

    /// Whether a member has findings in this document that stand in for a failing answer.
    pub(crate) fn has_findings(&self, rank: usize, uri: &str) -> bool {
        let report = self.documents.get(&key(uri)).and_then(|it| it.reports.get(&rank));
        report.is_some_and(|it| !it.elements.is_empty())
    }

    /// The ranks of those who have reported an equal diagnostic of a document.
    pub(crate) fn makers(&self, uri: &str, diagnostic: &[u8]) -> BTreeSet<usize> {
        let reports = self.documents.get(&key(uri)).into_iter().flat_map(|it| &it.reports);
        reports.filter(|(_, it)| has_same(&it.elements, diagnostic)).map(|(rank, _)| *rank).collect()
    }
}

fn listed(report: Option<&Report>) -> Vec<u8> {
    [b"[".as_slice(), report.map_or(b"", |it| &it.elements), b"]"].concat()
}

/// The documents that a report is also about.
fn related(report: &[u8]) -> Vec<String> {
    let all = member(report, "relatedDocuments").map_or(&b"{}"[..], |it| &report[it]);
    members(all).map(|(uri, _)| uri.into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::core::event::Generation;

    fn of(rank: u32, generation: u32) -> (ProcessId, usize) {
        (ProcessId { backend: BackendId(rank), generation: Generation(generation) }, rank as usize)
    }

    fn note(it: &mut Reports, by: (ProcessId, usize), report: &Value) -> Noted {
        it.note(by, "file:///u", report.to_string().as_bytes())
    }

    fn full(id: Option<&str>, items: &Value) -> Value {
        match id {
            Some(id) => json!({"kind": "full", "resultId": id, "items": items}),
            None => json!({"kind": "full", "items": items}),
        }
    }

    /// The answer if these have just said this.
    fn answer(it: &Reports, previous: Option<&Value>, said: &[(usize, &Value)]) -> Value {
        let mut params = json!({"textDocument": {"uri": "file:///u"}});
        if let Some(previous) = previous {
            params["previousResultId"] = previous.clone();
        }
        let said: Vec<(usize, Vec<u8>)> =
            said.iter().map(|(n, it)| (*n, it.to_string().into_bytes())).collect();
        let said: Vec<(usize, &[u8])> = said.iter().map(|(n, it)| (*n, &it[..])).collect();
        let members = BTreeSet::from([0, 1]);
        let client = ClientShape::default();
        let answer = it.answer(params.to_string().as_bytes(), &members, &said, &client);
        answer.map_or(Value::Null, |it| serde_json::from_slice(&it).unwrap())
    }

    #[test]
    fn reports_of_several_have_one_id_for_what_they_say() {
        let mut it = Reports::default();
        assert_eq!(answer(&it, None, &[]), Value::Null);
        let (one, two) =
            (full(Some("x"), &json!([{"message": "a"}])), full(None, &json!([{"message": "b"}])));
        assert_eq!(note(&mut it, of(0, 1), &one), Noted::Changed);
        assert_eq!(note(&mut it, of(1, 1), &two), Noted::Changed);
        let told = answer(&it, None, &[(0, &one), (1, &two)]);
        assert_eq!(told["items"], json!([{"message": "a"}, {"message": "b"}]));
        let id = told["resultId"].clone();
        assert!(id.as_str().unwrap().starts_with(PREFIX), "{id}");
        assert_eq!(it.previous(of(0, 1).0, 0, "file:///u"), Some(&b"\"x\""[..]));
        assert_eq!(it.previous(of(0, 2).0, 0, "file:///u"), None, "of another process");
        assert_eq!(it.previous(of(1, 1).0, 1, "file:///u"), None, "it gave none");

        // One says that nothing has changed, the other says the same again.
        let unchanged = json!({"kind": "unchanged", "resultId": "x2"});
        assert_eq!(note(&mut it, of(0, 1), &unchanged), Noted::Same);
        assert_eq!(note(&mut it, of(1, 1), &two), Noted::Same);
        assert_eq!(
            answer(&it, Some(&id), &[(0, &unchanged), (1, &two)]),
            json!({"kind": "unchanged", "resultId": id})
        );
        assert_eq!(it.previous(of(0, 1).0, 0, "file:///u"), Some(&b"\"x2\""[..]));
        // With another id the editor gets what is known.
        let told = answer(&it, Some(&json!("y")), &[(0, &unchanged), (1, &two)]);
        assert_eq!(
            (&told["kind"], &told["resultId"], told["items"].as_array().unwrap().len()),
            (&json!("full"), &id, 2)
        );

        // One changes; the other one fails.
        let three = full(Some("x3"), &json!([]));
        assert_eq!(note(&mut it, of(0, 1), &three), Noted::Changed);
        let told = answer(&it, Some(&id), &[(0, &three)]);
        assert_eq!((&told["kind"], &told["items"]), (&json!("full"), &json!([{"message": "b"}])));
        assert_ne!(told["resultId"], id);
        assert!(it.has_findings(1, "file:///u") && !it.has_findings(0, "file:///u"));
    }

    #[test]
    fn unchanged_report_of_unknown_content_is_malformed() {
        let mut it = Reports::default();
        let unchanged = json!({"kind": "unchanged", "resultId": "x"});
        assert_eq!(note(&mut it, of(0, 1), &unchanged), Noted::Malformed);
        note(&mut it, of(0, 1), &full(Some("x"), &json!([{"message": "a"}])));
        assert_eq!(note(&mut it, of(0, 2), &unchanged), Noted::Malformed, "of another process");
        assert_eq!(note(&mut it, of(0, 1), &json!(null)), Noted::Malformed);
        assert_eq!(note(&mut it, of(0, 1), &json!({"kind": "full", "items": 5})), Noted::Malformed);
        assert!(it.has_findings(0, "file:///u"));
    }

    #[test]
    fn related_documents_have_the_reports_of_all_members() {
        let mut it = Reports::default();
        it.note(of(1, 1), "file:///v", full(None, &json!([{"message": "of b"}])).to_string().as_bytes());
        let mut report = full(Some("x"), &json!([]));
        report["more"] = json!(1);
        report["relatedDocuments"] = json!({"file:///v": full(Some("v"), &json!([{"message": "of a"}]))});
        note(&mut it, of(0, 1), &report);
        note(&mut it, of(1, 1), &full(None, &json!([])));
        let told = answer(&it, None, &[(0, &report)]);
        let both = json!({"kind": "full", "items": [{"message": "of a"}, {"message": "of b"}]});
        assert_eq!(told["relatedDocuments"], json!({"file:///v": both}), "{told}");
        assert_eq!((&told["items"], &told["more"]), (&json!([]), &json!(1)));
        assert_eq!(it.previous(of(0, 1).0, 0, "file:///v"), Some(&b"\"v\""[..]));
        let unchanged = json!({"kind": "unchanged", "resultId": "x",
            "relatedDocuments": {"file:///v": {"kind": "unchanged", "resultId": "v"}}});
        assert_eq!(note(&mut it, of(0, 1), &unchanged), Noted::Same);
        assert_eq!(
            answer(&it, Some(&told["resultId"]), &[(0, &unchanged)])["relatedDocuments"],
            told["relatedDocuments"]
        );
    }

    #[test]
    fn reports_of_gone_processes_do_not_count() {
        let mut it = Reports::default();
        let items = json!([{"message": "a"}]);
        note(&mut it, of(0, 1), &full(None, &items));
        note(&mut it, of(1, 1), &full(None, &json!([])));
        let id = answer(&it, None, &[])["resultId"].clone();
        it.stale(of(0, 1).0);
        assert_eq!(answer(&it, None, &[])["resultId"], id);
        assert!(!it.abandoned(BackendId(1)), "it had no findings");
        assert_eq!(answer(&it, None, &[])["resultId"], id);
        it.stale(of(0, 2).0);
        assert_eq!(answer(&it, None, &[]), Value::Null);
        note(&mut it, of(0, 2), &full(None, &items));
        assert_ne!(answer(&it, None, &[])["resultId"], id);
        assert!(it.abandoned(BackendId(0)));
        note(&mut it, of(0, 2), &full(None, &items));
        it.closed("file:///u");
        assert_eq!(answer(&it, None, &[]), Value::Null);
    }

    #[test]
    fn workspace_is_pulled_with_ids_of_the_member() {
        let mut it = Reports::default();
        note(&mut it, of(0, 1), &full(Some("x"), &json!([])));
        let asked = |it: &Reports, list: &Value| {
            let params = json!({"previousResultIds": list}).to_string();
            let own = it.with_own_ids(of(0, 1).0, 0, params.as_bytes());
            own.map(|it| serde_json::from_slice::<Value>(&it).unwrap()["previousResultIds"].clone())
        };
        let id = |uri: &str, value: &str| json!({"uri": uri, "value": value});
        assert_eq!(asked(&it, &json!([id("file:///u", "y")])), None);
        let list = json!([id("file:///u", "lspool-1"), id("file:///v", "lspool-2"), id("file:///w", "w")]);
        assert_eq!(asked(&it, &list), Some(json!([id("file:///u", "x"), id("file:///w", "w")])));
    }
}
