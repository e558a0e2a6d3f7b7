//! Checks that the tables of the Copilot half agree with each other and with the mux. Changes nothing.

use super::Copilot;
use crate::{
    core::{
        event::BackendId,
        mux::{
            Mux,
            pool::backend::{Backend, Role},
            requests::{Pending, To},
        },
        purpose::{CopilotPurpose, Purpose, Restriction, SentId},
    },
    rpc::{Frame, Kind},
};

/// The first broken invariant, in words.
type Checked = Result<(), String>;

impl Copilot {
    /// Finds a broken invariant.
    pub(crate) fn check(&self, mux: &Mux) -> Checked {
        let undecided = count(mux, |it| matches!(it, CopilotPurpose::Tools(_)), |_| true);
        if undecided != self.catalog.undecided {
            return Err(format!("{undecided} changes of the catalog, {} noted", self.catalog.undecided));
        }
        for backend in self.backends(mux) {
            self.check_partition(mux, backend)?;
        }
        if let Some((id, _)) = self.partitions.iter().find(|(id, _)| !mux.backends().contains(*id)) {
            return Err(format!("there is a partition of {id:?}, which is gone"));
        }
        self.check_conversations(mux)
    }

    fn check_partition(&self, mux: &Mux, backend: &Backend) -> Checked {
        let name = &backend.name;
        let Some(partition) = self.partitions.get(backend.id) else {
            return Err(format!("{name} is no partition"));
        };
        if self.is_held(backend.id) != Some(backend.is_held()) {
            return Err(format!("{name}: it is held, or not, for another reason than its tools"));
        }
        let is_own = |it: &_| matches!(it, CopilotPurpose::Project | CopilotPurpose::Narrow);
        let process = backend.process();
        let projecting = count(mux, is_own, |it| it.to == To::Process(process));
        // After a lost answer the number stays: the queue is held until the process is gone.
        if projecting > partition.projecting && backend.accepts() {
            return Err(format!("{name}: {projecting} projections, {} noted", partition.projecting));
        }
        let is_partition = backend.role == Role::Partition && backend.accepts();
        if is_partition && backend.idling != self.idling(mux, backend.id) {
            return Err(format!("{name}: it goes on while idle, and need not, or the reverse"));
        }
        Ok(())
    }

    fn check_conversations(&self, mux: &Mux) -> Checked {
        for (id, conversation) in self.conversations.iter() {
            Self::check_active_turn(mux, id, conversation)?;
            if !mux.backends().contains(conversation.backend) {
                return Err(format!("conversation {id} is with a backend that is gone"));
            }
            if conversation.mode.is_some() && conversation.backend != self.primary {
                return Err(format!("conversation {id} is in a mode, and not with the primary"));
            }
            if conversation.active().is_none() && !conversation.waiting.is_empty() {
                return Err(format!("turns of conversation {id} wait for nothing"));
            }
            let waiting = conversation.waiting.iter().filter_map(request);
            for sent in conversation.active().into_iter().chain(waiting) {
                match mux.requests().get(sent).map(|it| &it.purpose) {
                    Some(Purpose::Copilot(CopilotPurpose::Turn {
                        conversation: of,
                        restriction: Restriction::Process,
                        ..
                    })) if of == id && conversation.backend == self.primary && !conversation.set.is_all() => {
                        return Err(format!("a turn of conversation {id} has every tool"));
                    }
                    Some(Purpose::Copilot(CopilotPurpose::Turn { conversation, .. }))
                        if conversation == id => {}
                    other => return Err(format!("conversation {id} has turn {sent}, which is {other:?}")),
                }
            }
        }
        Ok(())
    }

    /// Turns that wait outside the queue of their backend.
    pub(crate) fn held_turns(&self) -> impl Iterator<Item = (SentId, BackendId)> {
        let waiting = self.conversations.iter().flat_map(|(_, it)| {
            let suspended = it.active_turn.suspended.as_ref().map(|it| &it.request);
            let frames = it.waiting.iter().chain(suspended).filter_map(request);
            frames.map(|sent| (sent, it.backend))
        });
        let to_come =
            self.partitions.iter().flat_map(|(id, it)| it.restores.to_come().map(move |sent| (sent, id)));
        waiting.chain(to_come)
    }
}

fn count(mux: &Mux, is_meant: impl Fn(&CopilotPurpose) -> bool, wanted: impl Fn(&Pending) -> bool) -> usize {
    let is_it = |it: &Pending| match &it.purpose {
        Purpose::Copilot(purpose) => is_meant(purpose) && wanted(it),
        _ => false,
    };
    mux.requests().filter(is_it).len()
}

/// The number of a waiting request.
fn request(frame: &Frame) -> Option<SentId> {
    SentId::of(frame).filter(|_| frame.kind() == Kind::Request)
}
