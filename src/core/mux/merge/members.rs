//! The members of a group change while it runs: a reload of the configuration adds some and removes others.
//!
//! A new member joins like a late one. **Ranks are those of the configuration**: what is kept by rank is moved along. A
//! server that is not a member any more keeps its number, and is used again if it comes back.

use std::sync::Arc;

use serde_json::Value;

use super::{
    abilities::TextDocument,
    group::{Group, Member},
    roots, union,
};
use crate::{
    config::Config,
    core::{
        event::{self, BackendId, ServerId},
        mux::{
            Mux,
            routes::{Keep, LSP},
            servers::{Definition, Server},
            session::{Session, documents::DocumentKey},
        },
    },
    rpc::{Frame, Patch, member},
};

impl Group {
    pub(super) fn has(&self, server: ServerId) -> bool {
        self.members.iter().any(|it| it.server == server)
    }

    /// Puts the members into another order, and forgets those that are not in it.
    fn reorder(&mut self, order: &[ServerId]) {
        let before: Vec<ServerId> = self.members.iter().map(|it| it.server).collect();
        let place = |rank: usize| order.iter().position(|it| Some(it) == before.get(rank));
        self.shown.renumber(place);
        self.reports.renumber(place);
        let place = |it: &Member| order.iter().position(|of| *of == it.server);
        self.members.retain(|it| place(it).is_some());
        self.members.sort_by_key(place);
    }
}

impl Mux {
    /// Whether a server is one of those behind the editor.
    pub(crate) fn is_member(&self, server: ServerId) -> bool {
        self.group.as_deref().is_none_or(|it| it.has(server))
    }

    fn member_named(&self, name: &str) -> Option<&Server> {
        self.servers.iter().find(|it| it.name == name && self.is_member(it.id))
    }

    /// Those of these that are members, with what the configuration says of them.
    fn with_others<'a>(
        &'a self,
        others: &'a [event::Member],
    ) -> impl Iterator<Item = (&'a Server, &'a event::Member)> {
        others.iter().filter_map(|it| Some((self.member_named(&it.name)?, it)))
    }

    /// Whether one of the members after the first is started in another way than before.
    pub(crate) fn has_new_launch(&self, others: &[event::Member]) -> bool {
        self.with_others(others).any(|(server, it)| *server.launch != it.launch)
    }

    /// Whether the configuration says something else of one of them.
    pub(crate) fn has_new_settings(&self, others: &[event::Member]) -> bool {
        self.with_others(others).any(|(server, it)| server.settings != it.server)
    }

    /// Whether the members after the first are others than these, or in another order.
    pub(crate) fn has_new_members(&self, others: &[event::Member]) -> bool {
        let Some(group) = self.group.as_deref() else { return false };
        let names = group.members.iter().skip(1).map(|it| &it.name);
        !names.eq(others.iter().map(|it| &it.name))
    }

    /// Those of these that are not members.
    pub(crate) fn new_members<'a>(
        &'a self,
        others: &'a [event::Member],
    ) -> impl Iterator<Item = &'a event::Member> {
        others.iter().filter(|it| self.member_named(&it.name).is_none())
    }

    /// The members after the first that are not among these.
    pub(crate) fn removed_members(&self, others: &[event::Member]) -> Vec<ServerId> {
        let members = self.group.as_deref().map_or(&[][..], Group::members).iter().skip(1);
        let is_gone = |it: &&Member| others.iter().all(|other| other.name != it.name);
        members.filter(is_gone).map(|it| it.server).collect()
    }

    /// A member is not one any more. Its process has been stopped.
    pub(crate) fn retire_member(&mut self, id: ServerId) {
        self.keep_unclaimed(id);
        // What the editor says from now on it will not have heard.
        *self.servers.get_mut(id).session_mut() = Session::default();
        let Some(group) = self.group.as_deref_mut() else { return };
        group.pulls.left(id);
        let left: Vec<ServerId> = group.members.iter().map(|it| it.server).filter(|it| *it != id).collect();
        group.reorder(&left);
        group.note_commands();
        group.learn_legends();
        self.rejoin_registrations();
    }

    /// Keeps the documents that only this member has, for one that is added.
    fn keep_unclaimed(&mut self, id: ServerId) {
        let mut documents = std::mem::take(&mut self.servers.get_mut(id).session_mut().documents);
        for key in documents.open() {
            let DocumentKey::Text(uri) = &key else { continue };
            let is_of_other = self.servers.iter().any(|it| it.session.documents.has(uri));
            if let (false, Some((_, params))) = (is_of_other, documents.restored(&key))
                && let Some(group) = self.group.as_deref_mut()
            {
                group.unclaimed.opened(&params);
            }
        }
    }

    /// The configuration of the members after the first has been read again. Gives the backends of those that are new and
    /// start at once.
    pub(crate) fn adopt_members(
        &mut self,
        config: &Arc<Config>,
        others: Vec<event::Member>,
        has_code_tools: bool,
    ) -> Vec<BackendId> {
        let Some(first) = self.servers.first().map(|it| it.id) else { return Vec::new() };
        let (mut order, mut new) = (vec![first], Vec::new());
        for it in others {
            let event::Member { name, server: settings, launch, missing } = it;
            let known = self.servers.iter().skip(1).find(|it| it.name == name).map(|it| it.id);
            let Some(id) = known else {
                let (launch, config) = (Arc::new(launch), Arc::clone(config));
                let id =
                    self.add_primary(Definition { name, settings, launch, config, missing, has_code_tools });
                order.push(id);
                new.push(id);
                continue;
            };
            let server = self.servers.get_mut(id);
            let before = server.max_processes();
            (server.settings, server.launch, server.missing) = (settings, Arc::new(launch), missing);
            server.shrinks |= server.max_processes() < before;
            (server.config, server.is_gone) = (Arc::clone(config), false);
            if !self.is_member(id) {
                self.join_group(id, &name);
                new.push(id);
            }
            order.push(id);
        }
        let Some(group) = self.group.as_deref_mut() else { return Vec::new() };
        if !group.members.iter().map(|it| &it.server).eq(&order) {
            group.reorder(&order);
            group.note_commands();
            group.learn_legends();
            self.rejoin_registrations();
        }
        new.into_iter().filter_map(|id| self.tell_session(id)).collect()
    }

    /// A server is new behind an editor that has begun. Gives its backend, if it starts at once.
    fn tell_session(&mut self, id: ServerId) -> Option<BackendId> {
        let group = self.group.as_deref()?;
        let (editor, pushed) = (group.editor_params().clone(), group.configuration.clone());
        if editor.is_empty() {
            return None;
        }
        self.offer(id, &editor);
        let has_own_root = self.has_own_root(id);
        let first = self.servers.first()?;
        let latest: Vec<Frame> = first
            .session
            .latest()
            .filter(|it| it.method().and_then(|it| LSP.keep(it)) == Some(Keep::Latest))
            .collect();
        let (initialized, folders) = (first.session.initialized, first.session.folders_of(has_own_root));
        let server = self.servers.get_mut(id);
        server.session.initialized = initialized;
        server.session.set_folders(folders);
        let settings = pushed.map(|it| self.configuration_for(id, &it).unwrap_or(it));
        for frame in latest.iter().chain(&settings) {
            self.keep_for_member(id, frame);
        }
        for frame in self.open_documents() {
            let document = TextDocument::of(frame.params().unwrap_or(b"null"));
            if self.is_for(id, &document) {
                self.keep_for_member(id, &frame);
                if let Some(uri) = document.uri() {
                    self.look_for_root(id, uri);
                }
                if let Some(group) = self.group.as_deref_mut() {
                    group.unclaimed.closed(frame.params().unwrap_or(b"null"));
                }
            }
        }
        let server = self.servers.get(id);
        let is_wanted = !self.starts_with_document(id) || !server.session.documents.open().is_empty();
        is_wanted.then_some(server.primary)
    }

    /// What the editor has open, as it would tell it now.
    fn open_documents(&mut self) -> Vec<Frame> {
        let (mut keys, mut all) = (Vec::new(), Vec::new());
        let sessions = self.servers.iter_mut().map(|it| &mut it.session.documents);
        let unclaimed = self.group.as_deref_mut().map(|it| &mut it.unclaimed);
        for documents in sessions.chain(unclaimed) {
            for key in documents.open() {
                if keys.contains(&key) {
                    continue;
                }
                let told = documents.restored(&key);
                all.extend(told.map(|(method, params)| Frame::notification(method, Some(&params))));
                keys.push(key);
            }
        }
        all
    }

    /// What a member is offered when it is initialized, for an editor that was initialized with these parameters.
    pub(super) fn offer(&mut self, id: ServerId, editor: &[u8]) {
        let mut own = self.initialize_params(editor);
        // What the editor says to single members is there.
        if let Some(at) = member(editor, "initializationOptions") {
            own = Patch::of(&own).set("initializationOptions", &editor[at]).finish();
        }
        let server = self.servers.get_mut(id);
        let options = Value::Object(server.settings.init_options.clone());
        let offered = roots::rooted(server, union::offer(&own, &server.name, Some(&options)));
        let offered = server.watching(&offered).into_owned();
        server.session.initialize = Patch::of(&offered).remove("workDoneToken").finish().into();
    }
}
