//! Edits of one text by several members: equal ones once, of overlapping ones those of the best rank.

use std::{borrow::Cow, collections::HashSet};

use foldhash::fast::RandomState;

use super::{
    Merged, Question, Reading,
    shared::{Extent, Joined, List, Position, extent, some, text_of},
};
use crate::rpc::values;

/// A `TextEdit`, also one with an annotation, or with a snippet in place of a text.
#[derive(Clone, Debug)]
pub(super) struct Edit<'a> {
    pub(super) raw: Cow<'a, [u8]>,
    extent: Extent,
    text: Cow<'a, [u8]>,
}

impl<'a> Edit<'a> {
    fn of(raw: &'a [u8]) -> Option<Edit<'a>> {
        let [range, text, snippet] = values(raw, ["range", "newText", "snippet"]);
        let mut extent = extent(range?)?;
        // Some write the end first.
        extent.sort_unstable();
        Some(Edit { raw: Cow::Borrowed(raw), extent, text: text_of(text.or(some(snippet))?) })
    }
}

/// The edits of a list, and whether something else was in it. `None`: it is no list.
pub(super) fn read_edits(raw: &[u8]) -> Option<(Vec<Edit<'_>>, bool)> {
    let list = List::of(raw)?;
    let edits: Vec<Edit<'_>> = list.kept().filter_map(Edit::of).collect();
    let has_others = edits.len() < list.items.len();
    Some((edits, has_others))
}

/// The edits of a text that were taken from members so far.
#[derive(Default)]
pub(super) struct Taken<'a> {
    equal: HashSet<(Extent, Cow<'a, [u8]>), RandomState>,
    /// By start: the start of each, and how far it and those before reach.
    spans: Vec<(Position, Position)>,
    /// Of the member whose turn it is: they do not stand in their own way.
    pending: Vec<Edit<'a>>,
}

impl<'a> Taken<'a> {
    /// Which of these edits of the next member are made, and whether some overlap those of other members.
    pub(super) fn admit(&mut self, edits: Vec<Edit<'a>>) -> (Vec<Edit<'a>>, bool) {
        let mut overlap = false;
        let mut admitted = Vec::with_capacity(edits.len());
        for edit in edits {
            if self.equal.contains(&(edit.extent, edit.text.clone())) {
                continue;
            }
            match self.is_covered(edit.extent) {
                true => overlap = true,
                false => admitted.push(edit),
            }
        }
        self.pending.extend(admitted.iter().cloned());
        (admitted, overlap)
    }

    /// All edits of that member were there.
    pub(super) fn settle(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        for edit in self.pending.drain(..) {
            self.spans.push((edit.extent[0], edit.extent[1]));
            self.equal.insert((edit.extent, edit.text));
        }
        self.spans.sort_unstable();
        let mut reach = [0, 0];
        for span in &mut self.spans {
            reach = reach.max(span.1);
            span.1 = reach;
        }
    }

    /// Two insertions at one place are none of each other's business, nor is one at the edge of what is replaced.
    fn is_covered(&self, [start, end]: Extent) -> bool {
        let before = self.spans.partition_point(|it| it.0 < end);
        self.spans[..before].last().is_some_and(|it| it.1 > start)
    }
}

pub(super) fn merge(question: &Question<'_>) -> Merged {
    let heard = question.hear(|part| match read_edits(part.result) {
        None => Reading::Malformed,
        Some((edits, true)) if edits.is_empty() => Reading::Malformed,
        Some((edits, false)) if edits.is_empty() => Reading::Nothing,
        Some((edits, true)) => Reading::Partly(edits),
        Some((edits, false)) => Reading::Whole(edits),
    });
    if let Some(settled) = question.settled(&heard) {
        return settled;
    }
    let mut out = Joined::new(b"[", question.parts.iter().map(|it| it.result.len()).sum());
    let mut taken = Taken::default();
    let mut overlapping = Vec::new();
    for (n, edits) in heard.parts {
        let (admitted, overlap) = taken.admit(edits);
        taken.settle();
        for edit in &admitted {
            out.push(&edit.raw);
        }
        overlapping.extend(overlap.then_some(n));
    }
    Merged { result: out.finish(b"]"), malformed: heard.malformed, overlapping }
}
