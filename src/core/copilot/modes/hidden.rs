//! Hides lspool's modes from the editor.

use super::Registering;
use crate::{
    core::{copilot::Copilot, event::ProcessId, mux::requests::Pending},
    rpc::{Frame, elements, text},
};

/// Requests whose answers list modes.
const LISTS: [&str; 2] = ["conversation/modes", "copilot/customAgent/list"];

/// Sent after each change of the modes.
const CHANGED: &str = "copilot/customAgent/didChange";

impl Copilot {
    /// Removes lspool's modes from an answer to the editor.
    pub(crate) fn without_modes(&self, asked: &Pending, answer: &Frame) -> Option<Frame> {
        let folder = self.modes.folder.as_ref()?;
        if !asked.frame.method().is_some_and(|it| LISTS.contains(&it)) {
            return None;
        }
        let list = answer.result()?;
        let is_own = |it: &[u8]| {
            ["id", "uri"].iter().any(|key| text(it, &[key]).is_some_and(|it| it.starts_with(folder)))
        };
        let (own, others): (Vec<&[u8]>, Vec<&[u8]>) =
            elements(list).map(|range| &list[range]).partition(|it| is_own(it));
        let others = [b"[".as_slice(), &others.join(b",".as_slice()), b"]"].concat();
        (!own.is_empty()).then(|| answer.with_result(&others))
    }

    /// Handles a notification about modes. Returns whether it is only about lspool's changes; otherwise every mode
    /// needs another verification.
    pub(crate) fn is_about_modes(&mut self, process: ProcessId, method: &str) -> bool {
        if process.backend != self.primary || !matches!(method, CHANGED | "policy/didChange") {
            return false;
        }
        let Registering { of, n, changes } = &mut self.modes.registering;
        if method == CHANGED && *of == Some(process) && *n > 0 && *changes > 0 {
            *changes -= 1;
            return true;
        }
        self.modes.unverify();
        false
    }
}
