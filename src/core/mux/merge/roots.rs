//! Folders of members that are not those of the editor: one that a member works in instead, and the projects below the
//! workspace that its documents belong to.
//!
//! One process serves all projects of a member. It hears of each as of a further workspace folder, if it takes those.

use std::{collections::BTreeSet, path::PathBuf};

use bytes::Bytes;
use serde_json::json;
use tracing::info;

use crate::{
    core::{
        event::{Effect, FindRoot, ProcessId, RootFound, ServerId},
        mux::{Mux, routes::Keep, servers::Server, session::folders::folders_of},
    },
    rpc::{Frame, Patch, elements, file_path, file_uri, path, text},
};

/// The projects that the documents of a member belong to.
#[derive(Debug, Default)]
pub(super) struct Roots {
    /// Folders of documents for which a project was looked for.
    looked: BTreeSet<PathBuf>,
    /// The projects, beside the folders that the member was started in.
    found: Vec<PathBuf>,
}

pub(super) const CHANGED_FOLDERS: &str = "workspace/didChangeWorkspaceFolders";

/// A folder as the protocol has it in lists: its URI and its name.
fn item(folder: &std::path::Path) -> Vec<u8> {
    let name = folder.file_name().map_or_else(String::new, |it| it.to_string_lossy().into_owned());
    json!({"uri": file_uri(folder), "name": name}).to_string().into_bytes()
}

fn list<T: AsRef<[u8]>>(items: &[T]) -> Vec<u8> {
    let items: Vec<&[u8]> = items.iter().map(AsRef::as_ref).collect();
    [b"[".as_slice(), &items.join(b",".as_slice()), b"]"].concat()
}

/// The parameters of `initialize` as a member gets them.
pub(super) fn rooted(server: &Server, params: Vec<u8>) -> Vec<u8> {
    let Some(root) = server.launch.root.as_deref() else { return params };
    let mut rooted = Patch::of(&params);
    rooted.set("rootUri", json!(file_uri(root)).to_string().as_bytes());
    rooted.set("rootPath", json!(root.to_string_lossy()).to_string().as_bytes());
    rooted.set("workspaceFolders", &list(&[item(root)]));
    rooted.finish()
}

impl Mux {
    /// `workspace/workspaceFolders` of a member. Whether lspool has answered it.
    pub(in crate::core::mux) fn answer_root(&mut self, process: ProcessId, frame: &Frame) -> bool {
        let (Some(id), Some(frame_id)) = (self.backend(process.backend).map(|it| it.server), frame.id())
        else {
            return false;
        };
        let projects = self.projects(id);
        if !self.is_group() || projects.is_empty() && !self.has_own_root(id) {
            return false;
        }
        let mut all = folders_of(&self.servers.get(id).session.initialize_now());
        all.extend(projects.iter().map(|it| Bytes::from(item(it))));
        self.tell(process, Frame::response(frame_id, &list(&all)));
        true
    }

    /// Whether the editor's folders are not those of this member.
    pub(super) fn has_own_root(&self, server: ServerId) -> bool {
        self.servers.get(server).launch.root.is_some()
    }

    /// The projects of a member that are not among the folders it was started in.
    fn projects(&self, id: ServerId) -> Vec<PathBuf> {
        let member = self.group.as_deref().and_then(|it| it.members().iter().find(|it| it.server == id));
        let known = self.folders_of_member(id);
        let found = member.map_or(&[][..], |it| &it.roots.found);
        found.iter().filter(|it| !known.contains(it)).cloned().collect()
    }

    /// The folders that a member was started in, as paths.
    fn folders_of_member(&self, id: ServerId) -> Vec<PathBuf> {
        let server = self.servers.get(id);
        match &server.launch.root {
            Some(root) => vec![root.clone()],
            None => server.session.folders_now(self.clients.folders()),
        }
    }

    /// A document is opened that a member is used for: the shell looks for its project, if the member has some. Not for
    /// a process that others share, who would get its folders.
    pub(super) fn look_for_root(&mut self, id: ServerId, uri: &str) {
        let Server { settings, launch, name, .. } = self.servers.get(id);
        if settings.root_markers.is_empty() || launch.share.is_some() {
            return;
        }
        let file = file_path(uri);
        let Some(folder) = file.as_deref().and_then(std::path::Path::parent) else { return };
        let find = FindRoot {
            member: name.clone(),
            folder: folder.to_owned(),
            within: self.folders_of_member(id),
            markers: settings.root_markers.clone(),
            // They rather say that the workspace uses the server.
            is_whole: settings.root_required,
        };
        let Some(member) = self.group.as_deref_mut().and_then(|it| it.member_mut(id)) else { return };
        if member.roots.looked.insert(find.folder.clone()) {
            self.act(Effect::FindRoot(find));
        }
    }

    /// The shell has looked for a project.
    pub(crate) fn on_root_found(&mut self, found: RootFound) {
        let RootFound { member, root } = found;
        let Some(group) = self.group.as_deref_mut() else { return };
        let Some(it) = group.members.iter_mut().find(|it| it.name == member) else { return };
        let id = it.server;
        let Some(root) = root.filter(|root| !it.roots.found.contains(root)) else { return };
        let within = self.folders_of_member(id);
        // The folder that it is in may have been removed.
        if within.contains(&root) || !within.iter().any(|it| root.starts_with(it)) {
            return;
        }
        if let Some(it) = self.group.as_deref_mut().and_then(|it| it.member_mut(id)) {
            it.roots.found.push(root.clone());
        }
        info!(name = member, root = %root.display(), "found a further project");
        self.tell_projects(id, &[root], &[]);
    }

    /// The editor has changed its folders. Projects in those that are left are looked for again.
    pub(super) fn renew_roots(&mut self, id: ServerId, params: &[u8]) {
        let within = self.folders_of_member(id);
        let list = path(params, &["event", "removed"]).map_or(&b"[]"[..], |it| &params[it]);
        let removed = elements(list).filter_map(|it| file_path(&text(&list[it], &["uri"])?));
        let removed: Vec<PathBuf> = removed.collect();
        if self.has_own_root(id) || self.servers.get(id).settings.root_markers.is_empty() {
            return;
        }
        let Some(member) = self.group.as_deref_mut().and_then(|it| it.member_mut(id)) else { return };
        member.roots.looked.clear();
        let is_left =
            |it: &PathBuf| !removed.contains(it) && within.iter().any(|within| it.starts_with(within));
        let (left, gone) = std::mem::take(&mut member.roots.found).into_iter().partition(is_left);
        member.roots.found = left;
        let gone: Vec<PathBuf> = gone;
        // The editor itself has told of the others.
        let gone: Vec<PathBuf> = gone.into_iter().filter(|it| !removed.contains(it)).collect();
        self.tell_projects(id, &[], &gone);
        let open: Vec<String> =
            self.servers.get(id).session.documents().revisions().map(|(uri, _)| uri.to_owned()).collect();
        for it in open {
            self.look_for_root(id, &it);
        }
    }

    fn tell_projects(&mut self, id: ServerId, added: &[PathBuf], removed: &[PathBuf]) {
        if let Some(frame) = self.told_of(id, added, removed) {
            let primary = self.servers.get(id).primary;
            self.notify_primary(primary, Some(Keep::Folders), &frame);
        }
    }

    /// The message about projects that were found before the process started, or before it wanted to know of them.
    /// `None`: there are none.
    pub(in crate::core::mux) fn further_folders(&self, process: ProcessId) -> Option<Frame> {
        let id = self.backend(process.backend)?.server;
        self.told_of(id, &self.projects(id), &[])
    }

    fn told_of(&self, id: ServerId, added: &[PathBuf], removed: &[PathBuf]) -> Option<Frame> {
        let [added, removed] =
            [added, removed].map(|all| all.iter().map(|it| item(it)).collect::<Vec<Vec<u8>>>());
        let is_empty = added.is_empty() && removed.is_empty();
        let event =
            [br#"{"added":"#.as_slice(), &list(&added), br#","removed":"#, &list(&removed), b"}"].concat();
        let params = [br#"{"event":"#.as_slice(), &event, b"}"].concat();
        let wants = !is_empty && self.wants(id, CHANGED_FOLDERS, &params);
        wants.then(|| Frame::notification(CHANGED_FOLDERS, Some(&params)))
    }
}
