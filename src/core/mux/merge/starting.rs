//! Members that start with the first document that they are used for.

use crate::{
    config::StartAt,
    core::{
        event::ServerId,
        mux::{Mux, pool::backend::Backend},
    },
};

impl Mux {
    /// Starts those members of a group that start with it: one at least.
    pub(in crate::core::mux) fn start_members(&mut self) {
        let starts = |it: &ServerId| !self.is_group() || !self.starts_with_document(*it);
        let mut started: Vec<ServerId> = self.servers.ids().filter(starts).collect();
        if started.is_empty() {
            started.extend(self.servers.ids().next());
        }
        for id in started {
            let primary = self.servers.get(id).primary;
            self.start(primary);
        }
    }

    pub(super) fn starts_with_document(&self, id: ServerId) -> bool {
        self.servers.get(id).settings.start == StartAt::Document
    }

    /// Whether a member starts with a document, which has not come.
    pub(super) fn waits_for_document(&self, id: ServerId) -> bool {
        let server = self.servers.get(id);
        let Some(before) = self.group.as_deref().and_then(|it| it.before(id)) else { return false };
        let is_new = |it: &Backend| it.process().generation == before && !it.accepts();
        server.missing.is_none()
            && self.starts_with_document(id)
            && self.backend(server.primary).is_some_and(is_new)
    }

    /// A document is opened: starts the members that have waited for one.
    pub(super) fn start_for_document(&mut self, concerned: &[ServerId]) {
        for id in concerned.iter().copied() {
            // One that somebody has stopped stays so.
            if self.waits_for_document(id) {
                self.start(self.servers.get(id).primary);
                self.start_waiting_of(|it| it == id);
            }
        }
    }
}
