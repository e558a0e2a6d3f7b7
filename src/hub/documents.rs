//! Messages of clients about documents and files.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{
    Hub,
    clients::Detach,
    texts::{Delivery, number},
};
use crate::{
    core::event::{ClientId, Effect},
    rpc::{Frame, PathMap, elements, file_path, path, text},
};

/// If several clients report a change of a file within this time, the server gets it once.
const SAME_CHANGE: Duration = Duration::from_secs(1);

/// The last change of each file that the server got: its kind, the client that reported it, and when.
#[derive(Debug, Default)]
pub(super) struct ReportedFiles(BTreeMap<String, (i64, ClientId, Instant)>);

/// Whether a message is about an open document. Such a message needs no turn.
pub(super) fn is_about_documents(frame: &Frame) -> bool {
    matches!(
        frame.method(),
        Some(
            "textDocument/didOpen"
                | "textDocument/didChange"
                | "textDocument/didSave"
                | "textDocument/didClose"
        )
    )
}

/// The file of a document on this machine.
fn file_of_name(paths: Option<&PathMap>, name: &str) -> Option<PathBuf> {
    paths.map_or_else(|| file_path(name), |it| it.local_file(name))
}

/// The document of which a message says that its text is the one of its file.
pub(super) fn file_of(frame: &Frame) -> Option<String> {
    let is_of_file = matches!(frame.method(), Some("textDocument/didOpen" | "textDocument/didSave"));
    frame.params().filter(|_| is_of_file).and_then(|it| text(it, &["textDocument", "uri"]))
}

impl Hub {
    pub(super) fn on_document(&mut self, id: ClientId, frame: &Frame) {
        let told = match frame.method().unwrap_or_default() {
            "textDocument/didOpen" => {
                let told = self.texts.opened(id, frame);
                if matches!(told, Delivery::Noted) {
                    self.show_published_of(id, frame);
                }
                told
            }
            "textDocument/didChange" => self.texts.changed(id, frame),
            "textDocument/didSave" => self.texts.saved(id, frame),
            "textDocument/didClose" => {
                let frames = self.texts.closed(id, frame);
                for it in frames {
                    self.tell_server_of_texts(Some(id), it);
                }
                Delivery::Noted
            }
            _ => return,
        };
        if let Some(name) = file_of(frame) {
            self.read_disk(&name);
        }
        match told {
            Delivery::Server(frame) if frame.method() == Some("textDocument/didSave") => {
                self.tell_server(frame);
            }
            Delivery::Server(frame) => self.tell_server_of_texts(Some(id), frame),
            Delivery::Noted => {}
            Delivery::Unreadable => {
                self.detach(id, Detach::Unshareable, "it sent a change of a document that cannot be read");
            }
        }
    }

    /// Asks which text a file has, if a client has it open.
    fn read_disk(&mut self, name: &str) {
        let file = file_of_name(self.paths.as_ref(), name);
        if let Some(path) = file.filter(|_| self.texts.is_open_for_any(name)) {
            self.act(Effect::ReadFile(path));
        }
    }

    /// Others than the server's text may be in a file.
    pub(super) fn doubt_disk(&mut self, name: &str) {
        self.texts.doubt_disk(name);
        self.read_disk(name);
    }

    /// A file has been read.
    pub(super) fn on_file_read(&mut self, path: &Path, text: Option<&str>) {
        let paths = self.paths.as_ref();
        let is_of_file = |name: &str| file_of_name(paths, name).as_deref() == Some(path);
        for name in self.texts.open_names(is_of_file) {
            self.texts.note_disk(&name, text);
        }
    }

    /// `workspace/didChangeWatchedFiles`: without the changes that another client has just reported.
    pub(super) fn on_files(&mut self, id: ClientId, frame: &Frame) {
        let now = self.now();
        let Some(params) = frame.params() else { return };
        let Some(list) = path(params, &["changes"]) else { return self.tell_server(frame.clone()) };
        self.reported_files.0.retain(|_, (_, _, at)| now.duration_since(*at) < SAME_CHANGE);
        let list = &params[list];
        let mut new = Vec::new();
        for range in elements(list) {
            let change = &list[range];
            let uri = text(change, &["uri"]).unwrap_or_default();
            let kind = number(change, &["type"]).unwrap_or(0);
            self.read_disk(&uri);
            let told = self.reported_files.0.get(&uri);
            if told.is_none_or(|(last, by, _)| *last != kind || *by == id) {
                self.reported_files.0.insert(uri, (kind, id, now));
                new.push(change);
            }
        }
        if !new.is_empty() {
            let changes = [br#"{"changes":["#.as_slice(), &new.join(&b','), b"]}"].concat();
            self.tell_server(Frame::notification("workspace/didChangeWatchedFiles", Some(&changes)));
        }
    }
}
