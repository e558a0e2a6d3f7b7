//! Messages of the editor to a plain language server: lspool keeps the session, and all messages go to the primary.

use super::{Mux, Severity};
use crate::{
    core::{
        event::BackendId,
        mux::{pool::backend::Backend, requests::Owner, routes::Keep},
        purpose::Purpose,
    },
    rpc::{Frame, RawId, member},
};

impl Mux {
    /// Notes the meaning of a message for later processes. `None`: only its receiver needs it.
    pub(crate) fn keep(&mut self, frame: &Frame) -> Option<Keep> {
        let keep = match self.is_group() {
            true => self.keep_in_group(frame)?,
            false => {
                let server = self.servers.first_mut()?;
                let keep = server.keep(frame.method()?)?;
                server.session.keep(keep, frame, server.dialect);
                keep
            }
        };
        if keep == Keep::Change {
            self.tell_of_torn_documents();
        }
        Some(keep)
    }

    /// Warns about a document whose text lspool has lost: the next process would not get it.
    fn tell_of_torn_documents(&mut self) {
        let torn = self.servers.iter_mut().filter_map(|it| it.session.documents.take_torn());
        if let Some(uri) = torn.last() {
            let text = format!(
                "lspool: an edit of {uri} could not be read. If the server restarts, close the file and open it again."
            );
            self.show(Severity::Warning, &text);
        }
    }

    /// Handles `initialized` of the editor. Returns whether to forward it; otherwise the replayed session contains
    /// it.
    pub(crate) fn on_editor_initialized(&mut self) -> bool {
        if self.is_group() {
            self.initialized_group();
            return false;
        }
        let Some(server) = self.servers.first_mut() else { return false };
        server.session.initialized = true;
        let primary = server.primary;
        self.backends.note_change();
        self.backend(primary).is_some_and(Backend::has_session)
    }

    /// Forwards a request to the server.
    pub(crate) fn forward_request(&mut self, owner: Owner, frame: &Frame) {
        if self.is_group() {
            return self.ask_group(owner, frame);
        }
        if let Some(primary) = self.primary() {
            self.send_to_backend(primary, owner, Purpose::Plain, frame);
        }
    }

    /// Forwards a notification to the server.
    pub(crate) fn forward_notification(&mut self, keep: Option<Keep>, frame: &Frame) {
        if self.is_group() {
            return self.notify_group(frame, None);
        }
        if let Some(primary) = self.primary() {
            self.notify_primary(primary, keep, frame);
        }
    }

    /// Forwards a notification to a primary, unless the replayed session will contain it.
    pub(crate) fn notify_primary(&mut self, primary: BackendId, keep: Option<Keep>, frame: &Frame) {
        let is_absorbed = keep.is_some_and(|it| it != Keep::Never);
        if !is_absorbed || self.backend(primary).is_some_and(Backend::has_session) {
            self.notify_backend(primary, frame);
        }
    }
}

/// The id under a key of the parameters.
pub(crate) fn field<T: From<RawId>>(frame: &Frame, key: &str) -> Option<T> {
    let params = frame.params()?;
    RawId::from_raw(&params[member(params, key)?]).filter(|it| !it.is_null()).map(T::from)
}
