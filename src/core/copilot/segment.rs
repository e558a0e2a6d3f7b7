//! The ids of a turn that another process continues: rounds count on, and no call reuses an id.

use std::{borrow::Cow, collections::BTreeSet, ops::Range};

use serde_json::json;

use crate::{
    core::copilot::history::RecordedTurn,
    rpc::{Frame, Patch, elements, member},
    util::json,
};

/// The segment of a turn that one process answers after another one.
#[derive(Debug, Default)]
pub(crate) struct TurnSegment {
    /// The offset of its round ids.
    offset: u64,
    /// The ids of earlier calls.
    calls: BTreeSet<String>,
    /// The number of the segment; the first is 1.
    number: u32,
}

impl TurnSegment {
    /// The segment after the recorded part.
    pub(super) fn after(before: Option<TurnSegment>, record: &mut RecordedTurn) -> TurnSegment {
        let mut segment = TurnSegment::again(before);
        segment.offset = segment.offset.max(record.cut());
        segment.calls.extend(record.call_ids());
        segment
    }

    /// The segment for a message after all earlier output: its rounds are new.
    pub(crate) fn following(before: Option<TurnSegment>, record: &mut RecordedTurn) -> TurnSegment {
        let mut segment = TurnSegment::again(before);
        segment.offset = segment.offset.max(record.last_round());
        segment.calls.extend(record.call_ids());
        segment
    }

    /// The segment after one without reports.
    pub(super) fn again(before: Option<TurnSegment>) -> TurnSegment {
        let before = before.unwrap_or(TurnSegment { number: 1, ..TurnSegment::default() });
        TurnSegment { number: before.number + 1, ..before }
    }

    /// The editor's id for a call.
    fn call<'a>(&self, id: &'a str) -> Cow<'a, str> {
        let mut id = Cow::Borrowed(id);
        while self.calls.contains(&*id) {
            id = format!("{id}-{}", self.number).into();
        }
        id
    }

    fn round(&self, raw: &[u8]) -> Option<Vec<u8>> {
        let round: u64 = serde_json::from_slice(raw).ok()?;
        (self.offset > 0).then(|| round.saturating_add(self.offset).to_string().into_bytes())
    }

    fn renamed(&self, raw: &[u8]) -> Option<Vec<u8>> {
        let id: String = json::read(raw).ok()?;
        let ours = self.call(&id);
        (ours != id).then(|| json!(ours).to_string().into_bytes())
    }

    /// The changed parameters of a report for the editor, if they differ.
    pub(crate) fn report(&self, params: &[u8]) -> Option<Vec<u8>> {
        let mut edits: Vec<(Range<usize>, Vec<u8>)> = Vec::new();
        let whole = 0..params.len();
        let rounds = inner(params, &whole, "value").and_then(|it| inner(params, &it, "editAgentRounds"))?;
        for round in items(params, &rounds) {
            if let Some(at) = inner(params, &round, "roundId") {
                edits.extend(self.round(&params[at.clone()]).map(|it| (at, it)));
            }
            let Some(calls) = inner(params, &round, "toolCalls") else { continue };
            for call in items(params, &calls) {
                if let Some(at) = inner(params, &call, "id") {
                    edits.extend(self.renamed(&params[at.clone()]).map(|it| (at, it)));
                }
            }
        }
        edits.sort_by_key(|(at, _)| at.start);
        let mut out = params.to_vec();
        for (at, raw) in edits.into_iter().rev() {
            out.splice(at, raw);
        }
        (out != params).then_some(out)
    }

    /// A tool call or confirmation for the editor.
    pub(crate) fn asked(&self, frame: &Frame) -> Frame {
        let params = frame.params().unwrap_or(b"{}");
        let mut patch = Patch::of(params);
        if let Some(round) = member(params, "roundId").and_then(|it| self.round(&params[it])) {
            patch.set("roundId", &round);
        }
        if let Some(call) = member(params, "toolCallId").and_then(|it| self.renamed(&params[it])) {
            patch.set("toolCallId", &call);
        }
        frame.with_params(&patch.finish())
    }
}

/// The range of a member of the object at a range.
fn inner(text: &[u8], at: &Range<usize>, key: &str) -> Option<Range<usize>> {
    member(&text[at.clone()], key).map(|it| at.start + it.start..at.start + it.end)
}

/// The ranges of the elements of the array at a range.
fn items(text: &[u8], at: &Range<usize>) -> Vec<Range<usize>> {
    elements(&text[at.clone()]).map(|it| at.start + it.start..at.start + it.end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turn_segment_renumbers_rounds_and_renames_calls() {
        let segment = TurnSegment { offset: 2, calls: ["a".to_owned(), "a-2".to_owned()].into(), number: 2 };
        let said = br#"{"token":1, "value":{"editAgentRounds":[{"roundId":1,"reply":"x"},{"toolCalls":[{"id":"a","n":1},{"id":"b"}],"roundId": 2}],"z":1}}"#;
        let heard = br#"{"token":1, "value":{"editAgentRounds":[{"roundId":3,"reply":"x"},{"toolCalls":[{"id":"a-2-2","n":1},{"id":"b"}],"roundId": 4}],"z":1}}"#;
        assert_eq!(segment.report(said).as_deref(), Some(heard.as_slice()));
        let asked = Frame::notification("m", Some(br#"{"roundId":1,"toolCallId":"a"}"#));
        assert_eq!(segment.asked(&asked).params(), Some(br#"{"roundId":3,"toolCallId":"a-2-2"}"#.as_slice()));
        assert_eq!(segment.report(br#"{"value":{"kind":"report"}}"#), None);
        // The largest number.
        let most = format!(r#"{{"roundId":{}}}"#, u64::MAX);
        let asked = Frame::notification("m", Some(most.as_bytes()));
        assert_eq!(segment.asked(&asked).params(), Some(most.as_bytes()));
    }
}
