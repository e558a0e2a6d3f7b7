//! Folders of members that are not those of the editor: one that a member works in instead, and the projects below the
//! workspace that its documents belong to.
//!
//! One process serves all projects of a member. It hears of each as of a further workspace folder, if it takes those.

use std::{collections::BTreeSet, path::PathBuf};

use bytes::Bytes;
use serde_json::json;
use tracing::info;

use super::abilities::TextDocument;
use crate::{
    core::{
        event::{Effect, FindRoot, ProcessId, RootFound, ServerId},
        mux::{Mux, routes::Keep, servers::Server, session::folders::folders_of},
    },
    rpc::{Frame, Patch, file_path, file_uri},
};

/// The projects that the documents of a member belong to.
#[derive(Debug, Default)]
pub(super) struct Roots {
    /// Folders of documents for which a project was looked for.
    looked: BTreeSet<PathBuf>,
    /// The projects, beside the folders that the member was started in.
    found: Vec<PathBuf>,
}

const CHANGED: &str = "workspace/didChangeWorkspaceFolders";

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
    pub(super) fn look_for_root(&mut self, id: ServerId, document: &TextDocument<'_>) {
        let Server { settings, launch, name, .. } = self.servers.get(id);
        if settings.root_markers.is_empty() || launch.share.is_some() {
            return;
        }
        let file = document.uri().and_then(file_path);
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
        let RootFound { member, root: Some(root) } = found else { return };
        let Some(group) = self.group.as_deref_mut() else { return };
        let Some(it) = group.members.iter_mut().find(|it| it.name == member) else { return };
        let id = it.server;
        if it.roots.found.contains(&root) {
            return;
        }
        it.roots.found.push(root.clone());
        if self.folders_of_member(id).contains(&root) {
            return;
        }
        info!(name = member, root = %root.display(), "found a further project");
        if let Some(frame) = self.told_of(id, &[root]) {
            let primary = self.servers.get(id).primary;
            self.notify_primary(primary, Some(Keep::Folders), &frame);
        }
    }

    /// The message about projects that were found before the process started. `None`: there are none.
    pub(in crate::core::mux) fn further_folders(&self, process: ProcessId) -> Option<Frame> {
        let id = self.backend(process.backend)?.server;
        self.told_of(id, &self.projects(id))
    }

    fn told_of(&self, id: ServerId, folders: &[PathBuf]) -> Option<Frame> {
        let added: Vec<Vec<u8>> = folders.iter().map(|it| item(it)).collect();
        let params = [br#"{"event":{"added":"#.as_slice(), &list(&added), br#","removed":[]}}"#].concat();
        let wants = !folders.is_empty() && self.wants(id, CHANGED, &params);
        wants.then(|| Frame::notification(CHANGED, Some(&params)))
    }
}
