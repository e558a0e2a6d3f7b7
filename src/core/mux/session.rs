//! The session: what a new process must get, from the editor's messages, in the order of replay.
//!
//! Contains nothing that only one kind of server has.

mod calls;
pub(crate) mod documents;
pub(crate) mod folders;

use std::{collections::BTreeMap, path::PathBuf};

use bytes::Bytes;
use serde_json::json;

use self::{
    calls::Calls,
    documents::{DocumentKey, Documents, uri},
    folders::Folders,
};
use crate::{
    core::mux::routes::{Dialect, Keep},
    rpc::{Frame, Kind, RawId, file_path, member, members, text},
};

/// The session.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// The parameters of the editor's `initialize`, as forwarded, without its token.
    pub(super) initialize: Bytes,
    /// Whether the editor has sent `initialized`.
    pub(super) initialized: bool,
    /// Whether a server has answered the editor's `initialize`.
    pub(super) is_open: bool,
    pub(super) documents: Documents,
    /// The last push of settings, as the editor wrote it.
    pushed: Option<Frame>,
    /// The latest value of each section of the pushed settings.
    settings: Vec<(String, Bytes)>,
    folders: Folders,
    /// The first answer to `initialize`, on which the editor relies.
    pub(super) offered: Bytes,
    /// The latest message of each method, in the order of sending.
    latest: Vec<KeptMessage>,
    /// The latest messages about open documents.
    of_documents: BTreeMap<String, KeptMessage>,
    calls: Calls,
}

#[derive(Clone, Debug, PartialEq)]
struct KeptMessage {
    kind: Kind,
    method: String,
    /// `None`: it has none.
    params: Option<Bytes>,
}

impl KeptMessage {
    fn frame(&self) -> Frame {
        // The request gets its id when it is sent.
        match self.kind {
            Kind::Request => Frame::request(RawId::from(0), &self.method, self.params.as_deref()),
            Kind::Notification | Kind::Response => Frame::notification(&self.method, self.params.as_deref()),
        }
    }

    fn params(&self) -> &[u8] {
        self.params.as_deref().unwrap_or(b"{}")
    }
}

/// The messages after `initialized`, in this order.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    pub(crate) latest: Vec<Frame>,
    pub(crate) settings: Option<Frame>,
    pub(crate) folders: Option<Frame>,
    pub(crate) documents: Vec<DocumentKey>,
    /// What concerns open documents.
    pub(crate) of_documents: Vec<Frame>,
    pub(crate) calls: Vec<Frame>,
}

impl Session {
    /// The parameters of the editor's `initialize`, as forwarded, without its token; empty before.
    pub(crate) fn initialize(&self) -> &Bytes {
        &self.initialize
    }

    /// Whether the editor has sent `initialized`.
    pub(crate) fn is_initialized(&self) -> bool {
        self.initialized
    }

    /// Whether a server has answered the editor's `initialize`.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Keeps a message for later processes.
    pub(crate) fn keep(&mut self, keep: Keep, frame: &Frame, dialect: &Dialect) {
        if matches!(keep, Keep::Never | Keep::Elsewhere) {
            return;
        }
        if let (Keep::Change, Some(params)) = (keep, frame.params()) {
            return self.documents.changed(params);
        }
        if keep == Keep::Configuration {
            let params = frame.params();
            self.pushed = frame.method().map(|method| Frame::notification(method, params));
        }
        // A copy, because a slice would keep the whole read buffer.
        let params = frame.params().map(Bytes::copy_from_slice);
        let kept = || kept(frame, params.clone());
        match keep {
            Keep::Latest => {
                if let Some(kept) = kept() {
                    self.latest.retain(|it| it.method != kept.method);
                    return self.latest.push(kept);
                }
            }
            Keep::LatestOfDocument => {
                if let Some(kept) = kept() {
                    self.of_documents.insert(kept.method.clone(), kept);
                }
            }
            Keep::All => {
                if let Some(kept) = kept() {
                    self.calls.push(kept, dialect);
                }
            }
            _ => {}
        }
        let Some(params) = params else { return };
        match keep {
            Keep::Never
            | Keep::Elsewhere
            | Keep::Change
            | Keep::Latest
            | Keep::LatestOfDocument
            | Keep::All => {}
            Keep::Configuration => self.configure(&params),
            Keep::Folders => self.folders.change(&self.initialize, &params),
            Keep::Open => self.documents.opened(&params),
            Keep::Close => self.close(&params),
            Keep::NotebookOpen => self.documents.notebook_opened(&params),
            Keep::NotebookChange => self.documents.notebook_changed(&params),
            Keep::NotebookClose => self.documents.notebook_closed(&params),
        }
    }

    /// The open documents.
    pub(crate) fn documents(&self) -> &Documents {
        &self.documents
    }

    pub(crate) fn documents_mut(&mut self) -> &mut Documents {
        &mut self.documents
    }

    /// A missing section keeps its value; a present one replaces it.
    fn configure(&mut self, params: &Bytes) {
        let Some(range) = member(params, "settings") else { return };
        let settings = params.slice(range);
        for (section, range) in members(&settings) {
            let value = settings.slice(range);
            match self.settings.iter_mut().find(|(name, _)| *name == section) {
                Some(slot) => slot.1 = value,
                None => self.settings.push((section.into_owned(), value)),
            }
        }
    }

    /// The parameters of `initialize` for a later process: the editor's, with the current workspace folders.
    pub(crate) fn initialize_now(&self) -> Bytes {
        self.folders.named_in(&self.initialize)
    }

    /// The current workspace folders, given those of `initialize`.
    pub(crate) fn folders_now(&self, first: &[PathBuf]) -> Vec<PathBuf> {
        let gone: Vec<PathBuf> = self.folders.gone().iter().filter_map(|it| file_path(it)).collect();
        let stays: Vec<PathBuf> = first.iter().filter(|it| !gone.contains(it)).cloned().collect();
        self.with_added(stays)
    }

    /// Adds the folders that have come since `initialize`.
    pub(crate) fn with_added(&self, mut folders: Vec<PathBuf>) -> Vec<PathBuf> {
        let come = self.folders.come(&self.initialize);
        let come = come.iter().filter_map(|it| file_path(it)).filter(|it| !folders.contains(it));
        let come: Vec<PathBuf> = come.collect();
        folders.extend(come);
        folders
    }

    /// The latest message of each method, in the order of sending.
    pub(super) fn latest(&self) -> impl Iterator<Item = Frame> {
        self.latest.iter().map(KeptMessage::frame)
    }

    /// The folders for another session of the same editor; those of its `initialize` if it has a root of its own.
    pub(super) fn folders_of(&self, has_own_root: bool) -> Folders {
        if has_own_root { Folders::default() } else { self.folders.clone() }
    }

    pub(super) fn set_folders(&mut self, folders: Folders) {
        self.folders = folders;
    }

    fn close(&mut self, params: &[u8]) {
        self.documents.closed(params);
        let closed = uri(params, "textDocument");
        self.of_documents.retain(|_, it| uri(it.params(), "textDocument") != closed);
    }

    /// Everything after `initialized`, for a process that was asked to initialize with these folders.
    pub(crate) fn replay(&self, folders: &[Bytes]) -> Replay {
        let notify = |method: &str, params: &[u8]| Frame::notification(method, Some(params));
        Replay {
            latest: self.latest.iter().map(KeptMessage::frame).collect(),
            settings: self.pushed.clone(),
            folders: self
                .folders
                .changes_since(folders)
                .map(|it| notify("workspace/didChangeWorkspaceFolders", &it)),
            documents: self.documents.open(),
            of_documents: self.of_documents.values().map(KeptMessage::frame).collect(),
            calls: self.calls.iter().map(KeptMessage::frame).collect(),
        }
    }

    /// The name and version of the editor, if known.
    pub(crate) fn editor(&self) -> Option<String> {
        // Older editors send them only in their server's own form.
        let places: [&[&str]; 2] = [&["clientInfo"], &["initializationOptions", "editorInfo"]];
        places.iter().find_map(|place| {
            let word = |key| text(&self.initialize, &[place, &[key][..]].concat());
            let name = word("name")?;
            Some(word("version").map_or(name.clone(), |version| format!("{name} {version}")))
        })
    }

    /// The latest value of a section of the pushed settings.
    pub(crate) fn setting(&self, section: &str) -> Option<&[u8]> {
        self.settings.iter().find(|(name, _)| name == section).map(|(_, it)| &it[..])
    }

    /// The pushed settings for a server that keeps missing sections.
    pub(crate) fn merged_settings(&self) -> Option<Frame> {
        if self.settings.is_empty() {
            return self.pushed.clone();
        }
        let mut out = br#"{"settings":{"#.to_vec();
        for (n, (section, value)) in self.settings.iter().enumerate() {
            if n > 0 {
                out.push(b',');
            }
            out.extend_from_slice(json!(section).to_string().as_bytes());
            out.push(b':');
            out.extend_from_slice(value);
        }
        out.extend_from_slice(b"}}");
        Some(Frame::notification("workspace/didChangeConfiguration", Some(&out)))
    }
}

fn kept(frame: &Frame, params: Option<Bytes>) -> Option<KeptMessage> {
    Some(KeptMessage { kind: frame.kind(), method: frame.method()?.to_owned(), params })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::mux::routes::LSP;

    fn keep(session: &mut Session, keep: Keep, method: &str, params: &str) {
        session.keep(keep, &Frame::notification(method, Some(params.as_bytes())), &LSP);
    }

    fn restored(session: &mut Session) -> Vec<String> {
        let text = |it: Frame| String::from_utf8_lossy(&it.to_bytes()).replace(r#""jsonrpc":"2.0","#, "");
        let Replay { latest, settings, folders, documents, of_documents, calls } = session.replay(&[]);
        let documents = documents.iter().filter_map(|it| session.documents.restored(it));
        let documents = documents.map(|(method, params)| Frame::notification(method, Some(&params)));
        let first = latest.into_iter().chain(settings).chain(folders);
        first.chain(documents).chain(of_documents).chain(calls).map(text).collect()
    }

    #[test]
    fn session_repeats_last_settings_as_written_and_merges_them_for_copilot() {
        let mut it = Session::default();
        let configure = "workspace/didChangeConfiguration";
        let mut push = |params: Option<&str>| {
            let frame = Frame::notification(configure, params.map(str::as_bytes));
            it.keep(Keep::Configuration, &frame, &LSP);
            let merged = it.merged_settings().unwrap();
            let text = |it: &Frame| String::from_utf8_lossy(it.params().unwrap_or(b"none")).into_owned();
            let last = it.replay(&[]).settings.unwrap();
            (text(&last), text(&merged))
        };
        for odd in [r#"{"settings":{}}"#, r#"{"settings": null }"#, r#"{"settings":[]}"#, "{}"] {
            assert_eq!(push(Some(odd)), (odd.to_owned(), odd.to_owned()));
        }
        assert_eq!(push(None), ("none".to_owned(), "none".to_owned()));
        push(Some(r#"{"settings":{"http":{"a":1},"github.copilot":{"x":1}}}"#));
        let last = r#"{"settings":{"github.copilot":{"y":2}}}"#;
        let merged = r#"{"settings":{"http":{"a":1},"github.copilot":{"y":2}}}"#;
        assert_eq!(push(Some(last)), (last.to_owned(), merged.to_owned()));
    }

    #[test]
    fn session_replays_focus_after_document_and_drops_it_on_close() {
        let mut it = Session::default();
        keep(
            &mut it,
            Keep::Open,
            "textDocument/didOpen",
            r#"{"textDocument":{"uri":"u","text":"","version":1}}"#,
        );
        keep(&mut it, Keep::LatestOfDocument, "textDocument/didFocus", r#"{"textDocument":{"uri":"u"}}"#);
        let all = restored(&mut it);
        assert!(all[0].contains("didOpen") && all[1].contains("didFocus"), "{all:?}");
        keep(&mut it, Keep::Close, "textDocument/didClose", r#"{"textDocument":{"uri":"u"}}"#);
        assert!(restored(&mut it).is_empty());
    }

    #[test]
    fn session_repeats_latest_messages_as_written_in_their_order() {
        let mut it = Session::default();
        keep(&mut it, Keep::Latest, "b", "1");
        keep(&mut it, Keep::Latest, "c", "1");
        keep(&mut it, Keep::Latest, "a", "1");
        it.keep(Keep::Latest, &Frame::notification("c", None), &LSP);
        assert_eq!(
            restored(&mut it),
            [r#"{"method":"b","params":1}"#, r#"{"method":"a","params":1}"#, r#"{"method":"c"}"#]
        );
    }

    #[test]
    fn session_keeps_only_last_occurrence_of_repeated_call() {
        let mut it = Session::default();
        for params in ["1", "2", "1"] {
            keep(&mut it, Keep::All, "m", params);
        }
        assert_eq!(restored(&mut it), [r#"{"method":"m","params":2}"#, r#"{"method":"m","params":1}"#]);
    }
}
