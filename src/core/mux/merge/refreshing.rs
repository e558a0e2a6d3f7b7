//! Asking the editor to ask again: several such wishes within a moment are one.
//!
//! Knows when to ask, not why.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::group::Group;
use crate::{
    core::{
        event::ProcessId,
        mux::{Mux, failure::error_code},
        purpose::Purpose,
    },
    rpc::{Frame, path},
};

/// How long one waits for others.
const TOGETHER: Duration = Duration::from_millis(50);

/// How soon the editor is asked to pull again from a member that could not answer. Each time takes twice as long.
const FIRST_RETRY: Duration = Duration::from_millis(500);

/// How often, until the member has answered.
const RETRIES: u32 = 5;

/// A request of a server, and what an editor that takes it has below `workspace`.
const REFRESHES: [(&str, &str); 6] = [
    ("workspace/codeLens/refresh", "codeLens"),
    (DIAGNOSTIC_REFRESH, "diagnostics"),
    ("workspace/foldingRange/refresh", "foldingRange"),
    ("workspace/inlayHint/refresh", "inlayHint"),
    ("workspace/inlineValue/refresh", "inlineValue"),
    ("workspace/semanticTokens/refresh", "semanticTokens"),
];

pub(super) const DIAGNOSTIC_REFRESH: &str = "workspace/diagnostic/refresh";

/// When the editor is asked what.
#[derive(Debug, Default)]
pub(super) struct Refreshes {
    due: BTreeMap<&'static str, Instant>,
    /// How often members have failed to report since they last did, by rank.
    failures: BTreeMap<usize, u32>,
}

impl Refreshes {
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.due.values().min().copied()
    }

    fn ask(&mut self, method: &'static str, at: Instant) {
        let due = self.due.entry(method).or_insert(at);
        *due = at.min(*due);
    }

    fn take_due(&mut self, now: Instant) -> Vec<&'static str> {
        self.due.extract_if(.., |_, at| *at <= now).map(|(method, _)| method).collect()
    }

    /// A member has reported.
    pub(super) fn note_reported(&mut self, rank: usize) {
        self.failures.remove(&rank);
    }

    /// A member has not reported. `has_findings`: something that it said before stands in for the answer.
    pub(super) fn note_failed(&mut self, now: Instant, rank: usize, error: &Frame, has_findings: bool) {
        let failures = self.failures.entry(rank).or_default();
        let retries = match (is_passing(error), has_findings) {
            (true, _) => RETRIES,
            (false, true) => 1,
            (false, false) => 0,
        };
        if *failures < retries {
            let wait = FIRST_RETRY * 2_u32.pow(*failures);
            *failures += 1;
            self.ask(DIAGNOSTIC_REFRESH, now + wait);
        }
    }
}

/// Whether a server would answer if it were asked again: it was too busy, or its documents changed meanwhile.
pub(super) fn is_passing(error: &Frame) -> bool {
    let value = error.error_value().unwrap_or(b"{}");
    let again = path(value, &["data", "retriggerRequest"]).map(|it| &value[it]);
    matches!(error_code(error), Some(-32802 | -32801)) && again != Some(b"false")
}

impl Group {
    fn refreshes_editor(&self, capability: &str) -> bool {
        let keys = ["capabilities", "workspace", capability, "refreshSupport"];
        path(self.editor(), &keys).is_some_and(|it| &self.editor()[it] == b"true")
    }
}

impl Mux {
    /// A member asks the editor to ask again. Whether this is such a request; then it is answered.
    pub(in crate::core::mux) fn on_refresh(&mut self, process: ProcessId, frame: &Frame) -> bool {
        let Some((method, _)) = REFRESHES.iter().find(|(it, _)| Some(*it) == frame.method()) else {
            return false;
        };
        let (Some(id), true) = (frame.id(), self.is_group()) else { return false };
        self.tell(process, Frame::response(id, b"null"));
        if *method == DIAGNOSTIC_REFRESH {
            self.pull_again(process);
        }
        self.ask_for_refresh(method);
        true
    }

    /// Asks the editor to ask again, if it can be asked that.
    pub(super) fn ask_for_refresh(&mut self, method: &'static str) {
        let at = self.now() + TOGETHER;
        let Some(group) = self.group.as_deref_mut() else { return };
        let known = REFRESHES.iter().find(|(it, _)| *it == method);
        if known.is_some_and(|(_, capability)| group.refreshes_editor(capability)) {
            group.refreshes.ask(method, at);
        }
    }

    pub(super) fn on_refresh_deadlines(&mut self) {
        let now = self.now();
        let Some(group) = self.group.as_deref_mut() else { return };
        for method in group.refreshes.take_due(now) {
            let known = REFRESHES.iter().find(|(it, _)| *it == method);
            if known
                .is_some_and(|(_, it)| self.group.as_deref().is_some_and(|group| group.refreshes_editor(it)))
            {
                self.ask_editor(Purpose::Plain, method, None);
            }
        }
    }
}
