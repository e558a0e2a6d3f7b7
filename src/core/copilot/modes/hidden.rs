//! The editor sees no mode of lspool's, and hears of none.

use super::Registering;
use crate::{
    core::{copilot::Copilot, event::ProcessId, mux::requests::Pending},
    rpc::{Frame, elements, text},
};

/// Requests that are answered with a list of modes.
const LISTS: [&str; 2] = ["conversation/modes", "copilot/customAgent/list"];

/// Said whenever a mode has come, gone or changed.
const CHANGED: &str = "copilot/customAgent/didChange";

impl Copilot {
    /// The answer to a question of the editor's, without what is lspool's own.
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

    /// A notification of a process. Whether it tells of nothing but what lspool has done; else, if it says that
    /// modes may have changed, none is taken for what it was.
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
