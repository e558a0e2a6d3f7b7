//! Members that work in a folder of their own instead of those of the editor.

use serde_json::json;

use crate::{
    core::{
        event::{ProcessId, ServerId},
        mux::{Mux, servers::Server},
    },
    rpc::{Frame, Patch, file_uri},
};

/// The folder as the protocol has it in lists: its URI and its name.
fn folders(server: &Server) -> Option<(String, Vec<u8>)> {
    let root = server.launch.root.as_deref()?;
    let uri = file_uri(root);
    let name = root.file_name().map_or_else(String::new, |it| it.to_string_lossy().into_owned());
    let list = json!([{"uri": uri, "name": name}]).to_string().into_bytes();
    Some((uri, list))
}

/// The parameters of `initialize` as a member gets them.
pub(super) fn rooted(server: &Server, params: Vec<u8>) -> Vec<u8> {
    let Some((uri, list)) = folders(server) else { return params };
    let path = server.launch.root.as_deref().map(|it| it.to_string_lossy().into_owned());
    let mut rooted = Patch::of(&params);
    rooted.set("rootUri", json!(uri).to_string().as_bytes());
    rooted.set("rootPath", json!(path).to_string().as_bytes());
    rooted.set("workspaceFolders", &list);
    rooted.finish()
}

impl Mux {
    /// `workspace/workspaceFolders` of a member. Whether lspool has answered it.
    pub(in crate::core::mux) fn answer_root(&mut self, process: ProcessId, frame: &Frame) -> bool {
        let (Some(server), Some(id)) = (self.backend(process.backend).map(|it| it.server), frame.id()) else {
            return false;
        };
        let Some((_, list)) = folders(self.servers.get(server)).filter(|_| self.is_group()) else {
            return false;
        };
        self.tell(process, Frame::response(id, &list));
        true
    }

    /// Whether the editor's folders are not those of this member.
    pub(super) fn has_own_root(&self, server: ServerId) -> bool {
        self.servers.get(server).launch.root.is_some()
    }
}
