//! What the editor says to a group: each member is told what it wants to hear, in the editor's order.

use std::cell::OnceCell;

use bytes::Bytes;

use crate::{
    core::{
        event::ServerId,
        mux::{
            Mux,
            merge::{
                abilities::{Abilities, SyncKind, TextDocument},
                roots::CHANGED_FOLDERS,
            },
            pool::backend::Backend,
            routes::Keep,
            servers::Server,
            session::documents::ReadChange,
        },
    },
    rpc::{Frame, Kind},
};

const WATCHED: &str = "workspace/didChangeWatchedFiles";

impl Mux {
    /// Remembers what a request of the editor's means for processes of each member that start later. What a
    /// notification means is remembered when it is passed on.
    pub(in crate::core::mux) fn keep_in_group(&mut self, frame: &Frame) -> Option<Keep> {
        let method = frame.method()?;
        let mut kept = None;
        for id in self.servers.ids() {
            let server = self.servers.get_mut(id);
            let Some(keep) = server.keep(method) else { continue };
            kept = kept.or(Some(keep));
            if frame.kind() != Kind::Request {
                break;
            }
            server.session.keep(keep, frame, server.dialect);
        }
        kept
    }

    /// The editor has sent `initialized`: members that are ready are told so, the others with their session.
    pub(in crate::core::mux) fn initialized_group(&mut self) {
        for id in self.servers.ids() {
            let server = self.servers.get_mut(id);
            server.session.initialized = true;
            let primary = server.primary;
            self.backends.note_change();
            if self.backend(primary).is_some_and(Backend::has_session) {
                self.notify_backend(primary, &Frame::notification("initialized", Some(b"{}")));
            }
        }
    }

    /// Whether a member is told this notification.
    pub(crate) fn is_for_member(&self, id: ServerId, frame: &Frame) -> bool {
        let document = TextDocument::of(frame.params().unwrap_or(b"null"));
        self.is_meant_for(id, frame.method().unwrap_or_default(), &document)
    }

    /// Remembers a notification for a member whose processes a higher owner tells. Gives what is remembered of it.
    pub(crate) fn keep_for_member(&mut self, id: ServerId, frame: &Frame) -> Option<Keep> {
        let server = self.servers.get_mut(id);
        let keep = server.keep(frame.method()?)?;
        server.session.keep(keep, frame, server.dialect);
        Some(keep)
    }

    /// Remembers a notification for each member that it concerns, and passes it on to those that want it. `except`: one
    /// that a higher owner tells.
    pub(crate) fn notify_group(&mut self, frame: &Frame, except: Option<ServerId>) {
        let (method, params) = (frame.method().unwrap_or_default(), frame.params().unwrap_or(b"null"));
        let change = OnceCell::new();
        let changed = match method {
            "textDocument/didChange" => change.get_or_init(|| ReadChange::of(params)).uri(),
            _ => None,
        };
        // A change is read once for all that is to be known of it.
        let document =
            changed.map_or_else(|| TextDocument::of(params), |uri| TextDocument::with(params, uri));
        self.note_document(method, params, &document);
        self.note_configuration(frame);
        let is_meant = |it: &ServerId| Some(*it) != except && self.is_meant_for(*it, method, &document);
        let concerned: Vec<ServerId> = self.servers.ids().filter(is_meant).collect();
        if method == "textDocument/didOpen" {
            self.start_for_document(&concerned);
            if let Some(uri) = document.uri() {
                for id in &concerned {
                    self.look_for_root(*id, uri);
                }
            }
        }
        if concerned.is_empty() {
            self.note_unclaimed(method, params, &document);
        }
        for id in concerned {
            let configured = self.configuration_for(id, frame);
            let frame = configured.as_ref().unwrap_or(frame);
            let server = self.servers.get_mut(id);
            let (primary, keep) = (server.primary, server.keep(method));
            match keep {
                Some(Keep::Change) => {
                    server.session.documents.apply(change.get_or_init(|| ReadChange::of(params)));
                }
                Some(keep) => server.session.keep(keep, frame, server.dialect),
                None => {}
            }
            let is_wanted = self.wants_of(id, method, params, &document);
            let Some(group) = self.group.as_deref() else { return };
            let abilities = group.abilities(id);
            if !is_wanted || (method == WATCHED && group.are_watched_by_others(id)) {
                continue;
            }
            let takes_whole = method == "textDocument/didChange"
                && abilities.is_some_and(|it| it.sync().change == SyncKind::Full);
            let own = group.with_own_files(id, frame);
            let frame = own.as_ref().unwrap_or(frame);
            let server = self.servers.get_mut(id);
            let whole = if takes_whole { server.session.documents.as_whole(params) } else { None };
            match whole {
                Some(params) => self.notify_primary(primary, keep, &frame.with_params(&params)),
                None => self.notify_primary(primary, keep, frame),
            }
        }
        if method == CHANGED_FOLDERS {
            self.servers.ids().for_each(|id| self.renew_roots(id, params));
        }
    }

    /// Whether a server wants to hear this of a document.
    pub(in crate::core::mux) fn wants(&self, id: ServerId, method: &str, params: &[u8]) -> bool {
        self.wants_of(id, method, params, &TextDocument::of(params))
    }

    fn wants_of(&self, id: ServerId, method: &str, params: &[u8], document: &TextDocument<'_>) -> bool {
        let Some(group) = self.group.as_deref() else { return true };
        let wants = |it: &Abilities| it.wants_notification(method, params, document);
        group.abilities(id).is_none_or(wants) || group.is_told_unasked(method)
    }

    /// A document that no member is used for: one may be added that is.
    fn note_unclaimed(&mut self, method: &str, params: &[u8], document: &TextDocument<'_>) {
        let Some(group) = self.group.as_deref_mut() else { return };
        let is_known = document.uri().is_some_and(|it| group.unclaimed.has(it));
        match method {
            "textDocument/didOpen" => group.unclaimed.opened(&Bytes::copy_from_slice(params)),
            "textDocument/didChange" if is_known => group.unclaimed.changed(params),
            "textDocument/didClose" if is_known => group.unclaimed.closed(params),
            _ => {}
        }
    }

    /// Whether a member gets messages about a document.
    pub(super) fn is_for(&self, id: ServerId, document: &TextDocument<'_>) -> bool {
        let server = self.servers.get(id);
        let languages = &server.settings.languages;
        let Some(group) = self.group.as_deref() else { return true };
        if !group.has(id) {
            return false;
        }
        if languages.is_empty() && !group.has_files(id) {
            return true;
        }
        let has_file = |uri: &str| group.is_for_file(id, uri);
        if let Some(language) = document.language() {
            let is_language = languages.is_empty() || languages.iter().any(|it| it == language);
            return is_language && document.uri().is_none_or(has_file);
        }
        let Some(uri) = document.uri() else { return true };
        if group.unclaimed.has(uri) {
            return false;
        }
        let is_open = |it: ServerId| self.servers.get(it).session.documents.has(uri);
        // A document that nobody was told of is for whoever can.
        is_open(id) || (!self.servers.ids().any(is_open) && has_file(uri))
    }

    /// Whether a message of the editor is for a member, or for another one by its method.
    fn is_meant_for(&self, id: ServerId, method: &str, document: &TextDocument<'_>) -> bool {
        let handler = self.handler(method);
        let is_folders = method == CHANGED_FOLDERS;
        handler.is_none_or(|it| it == id)
            && !(is_folders && self.has_own_root(id))
            && self.is_for(id, document)
    }

    /// The member that the configuration sends all messages of a method to.
    pub(super) fn handler(&self, method: &str) -> Option<ServerId> {
        let fits = |it: &String| match it.strip_suffix('*') {
            Some(beginning) => method.starts_with(beginning),
            None => it == method,
        };
        let handles = |it: &&Server| it.settings.handles.iter().any(fits) && self.is_member(it.id);
        self.servers.iter().find(handles).map(|it| it.id)
    }
}
