//! The texts of open documents, and what lspool sends to servers when files change.
//!
//! **A server gets a text before a question about it.** A look at files has the texts of editors where they have any, and
//! those of the disk elsewhere.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Value, json};

use super::{CodeTools, view::OpenDocument};
use crate::{
    builtin_tools::lsp::Text,
    config::languages::language_of,
    core::{
        event::{Seen, ServerId},
        mux::Mux,
    },
    rpc::{Frame, file_uri},
};

/// What is known of files.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// The texts of the documents that a server has open, as lspool sent them.
    texts: BTreeMap<PathBuf, Arc<Text>>,
    /// When files were last seen to have changed.
    changed: BTreeMap<PathBuf, u64>,
    /// When any file was.
    last_change: u64,
    /// Files whose texts only editors have. They stay open at servers, which would read the disk.
    unsaved: BTreeMap<PathBuf, Arc<Text>>,
}

impl Files {
    /// The text of an open document.
    pub(super) fn text(&self, file: &Path) -> Option<Arc<Text>> {
        self.texts.get(file).cloned()
    }

    /// When any file was last seen to have changed.
    pub(super) fn last_change(&self) -> u64 {
        self.last_change
    }

    /// When a file was last seen to have changed; 0 if never.
    pub(super) fn last_change_of(&self, file: &Path) -> u64 {
        self.changed.get(file).copied().unwrap_or_default()
    }

    /// Whether a file has changed since the servers started.
    pub(super) fn has_changed(&self, file: &Path) -> bool {
        self.changed.contains_key(file)
    }

    /// The files that have been seen to have changed after a moment.
    pub(super) fn changed_since(&self, tick: u64) -> Vec<PathBuf> {
        self.changed.iter().filter(|(_, at)| **at > tick).map(|(file, _)| file.clone()).collect()
    }
}

fn notification(method: &str, params: &Value) -> Frame {
    Frame::notification(method, Some(params.to_string().as_bytes()))
}

/// `FileChangeType`, with its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileChange {
    Created = 1,
    Changed = 2,
    Removed = 3,
}

/// How all files have changed that a look has seen to change.
fn changes(seen: &Seen) -> impl Iterator<Item = (&PathBuf, FileChange)> {
    let created = seen.created.iter().map(|it| (it, FileChange::Created));
    let changed = seen.changed.iter().map(|it| (it, FileChange::Changed));
    created.chain(changed).chain(seen.removed.iter().map(|it| (it, FileChange::Removed)))
}

impl CodeTools {
    /// Sends what has changed to the servers.
    pub(super) fn apply(&mut self, mux: &mut Mux, seen: &Seen) {
        let tick = self.next();
        for file in seen.created.iter().chain(&seen.changed).chain(&seen.removed) {
            self.files.changed.insert(file.clone(), tick);
            self.files.last_change = tick;
        }
        self.note_unseen(seen);
        for (file, text) in &seen.texts {
            match text {
                Ok(text) => self.change(mux, file, text, tick),
                Err(_) => self.close(mux, file, tick),
            }
        }
        for file in &seen.removed {
            self.close(mux, file, tick);
        }
        self.tell_watchers(mux, seen);
        let text_of = |file: &PathBuf| {
            let text = seen.texts.iter().find(|(it, _)| it == file).and_then(|(_, text)| text.as_ref().ok());
            text.map(|it| Arc::new(Text::new(it.as_str())))
        };
        let mut unsaved = BTreeMap::new();
        for file in &seen.unsaved {
            // A look has the texts that are new to it.
            if let Some(text) = text_of(file).or_else(|| self.files.unsaved.get(file).cloned()) {
                unsaved.insert(file.clone(), text);
            }
        }
        match seen.partial {
            None => self.files.unsaved = unsaved,
            Some(_) => self.files.unsaved.extend(unsaved),
        }
        self.open_unsaved(mux);
        // A server lists a new file late, but it knows at once what is open.
        for file in &seen.created {
            let Some(text) = text_of(file) else { continue };
            for server in self.servers_for(file) {
                if !self.views[&server].open.is_empty() {
                    self.open(mux, server, file, &text);
                }
            }
        }
    }

    /// Opens the unsaved texts at the servers that have started. An earlier document would be lost. Without a call, it may
    /// be too early: servers get `initialized` before the first one.
    pub(super) fn open_unsaved(&mut self, mux: &mut Mux) {
        if self.calls.is_empty() {
            return;
        }
        for (file, text) in self.files.unsaved.clone() {
            for server in self.servers_for(&file) {
                if self.views[&server].process().is_some() && !self.views[&server].open.contains_key(&file) {
                    self.open(mux, server, &file, &text);
                }
            }
        }
    }

    /// The servers for the language of a file.
    fn servers_for(&self, file: &Path) -> Vec<ServerId> {
        let Some((language, _)) = language_of_file(file) else { return Vec::new() };
        self.views.iter().filter(|(_, it)| it.serves(language)).map(|(id, _)| *id).collect()
    }

    /// Sends the text of a document to the servers that have it open with another text.
    fn change(&mut self, mux: &mut Mux, file: &Path, text: &str, tick: u64) {
        let Some(known) = self.files.texts.get(file).filter(|it| it.as_str() != text) else { return };
        tracing::debug!(file = %file.display(), before = known.as_str().len(), now = text.len(), "changed");
        self.files.changed.insert(file.to_owned(), tick);
        self.files.last_change = tick;
        self.files.texts.insert(file.to_owned(), Arc::new(Text::new(text)));
        let servers: Vec<ServerId> =
            self.views.values().filter(|it| it.open.contains_key(file)).map(|it| it.server).collect();
        for server in servers {
            self.tell_text(mux, server, file);
        }
    }

    /// Sends the new text of an open document to a server.
    fn tell_text(&mut self, mux: &mut Mux, server: ServerId, file: &Path) {
        let tick = self.next();
        let Some(view) = self.views.get_mut(&server) else { return };
        let Some(document) = view.open.get_mut(file) else { return };
        document.text_version = document.version + 1;
        document.told = tick;
        document.is_first_text = false;
        view.last_change = tick;
        self.nudge(mux, server, file);
    }

    /// Sends the text of an open document to a server, under the next version: it is the same text as before, or
    /// [`OpenDocument`] says that it is not.
    pub(super) fn nudge(&mut self, mux: &mut Mux, server: ServerId, file: &Path) {
        let Some(text) = self.files.text(file) else { return };
        let Some(view) = self.views.get_mut(&server) else { return };
        let Some(document) = view.open.get_mut(file) else { return };
        document.version += 1;
        let (uri, version) = (file_uri(file), document.version);
        let params = json!({
            "textDocument": {"uri": uri, "version": version},
            "contentChanges": [{"text": text.as_str()}],
        });
        let wants_saves = view.wants_saves() && !self.files.unsaved.contains_key(file);
        mux.tell_server(server, &notification("textDocument/didChange", &params));
        if wants_saves {
            let params = json!({"textDocument": {"uri": uri}, "text": text.as_str()});
            mux.tell_server(server, &notification("textDocument/didSave", &params));
        }
    }

    /// Opens a document at a server, if it is not open there.
    pub(super) fn open(&mut self, mux: &mut Mux, server: ServerId, file: &Path, text: &Arc<Text>) {
        let tick = self.next();
        let Some(view) = self.views.get_mut(&server) else { return };
        if let Some(document) = view.open.get_mut(file) {
            document.used = tick;
            return;
        }
        let text = self.files.texts.entry(file.to_owned()).or_insert_with(|| Arc::clone(text));
        let document =
            OpenDocument { version: 1, text_version: 1, told: tick, is_first_text: true, used: tick };
        view.open.insert(file.to_owned(), document);
        view.unseen.remove(file);
        view.last_change = tick;
        let language = language_of_file(file).map_or("plaintext", |(_, id)| id);
        let params = json!({"textDocument": {
            "uri": file_uri(file), "languageId": language, "version": 1, "text": text.as_str(),
        }});
        mux.tell_server(server, &notification("textDocument/didOpen", &params));
        if self.files.unsaved.contains_key(file) {
            // pyright looks at files that depend on this one again after a change only.
            self.nudge(mux, server, file);
        }
        if self.views[&server].open.len() > self.settings.max_open {
            let open = &self.views[&server].open;
            let closable = open.iter().filter(|(file, _)| !self.files.unsaved.contains_key(*file));
            let oldest = closable.min_by_key(|(_, it)| it.used).map(|(file, _)| file.clone());
            if let Some(oldest) = oldest {
                self.close_at(mux, server, &oldest);
            }
        }
    }

    /// Closes a document at all servers: it is gone, or is not text.
    fn close(&mut self, mux: &mut Mux, file: &Path, tick: u64) {
        let servers: Vec<ServerId> =
            self.views.values().filter(|it| it.open.contains_key(file)).map(|it| it.server).collect();
        for server in servers {
            self.close_at(mux, server, file);
            self.files.changed.insert(file.to_owned(), tick);
            self.files.last_change = tick;
        }
    }

    fn close_at(&mut self, mux: &mut Mux, server: ServerId, file: &Path) {
        let tick = self.next();
        let Some(view) = self.views.get_mut(&server) else { return };
        view.open.remove(file);
        view.last_change = tick;
        let params = json!({"textDocument": {"uri": file_uri(file)}});
        mux.tell_server(server, &notification("textDocument/didClose", &params));
        if self.views.values().all(|it| !it.open.contains_key(file)) {
            self.files.texts.remove(file);
        }
    }

    /// Notes changes that no message tells a server.
    fn note_unseen(&mut self, seen: &Seen) {
        for view in self.views.values_mut().filter(|it| it.process().is_some() && !it.watches_files()) {
            for (file, change) in changes(seen) {
                if view.is_concerned(file) && !view.open.contains_key(file) {
                    view.unseen.insert(file.clone(), change);
                }
            }
        }
    }

    fn tell_watchers(&mut self, mux: &mut Mux, seen: &Seen) {
        for view in self.views.values_mut().filter(|it| it.watches_files()) {
            // It may have begun to watch only now.
            let earlier = std::mem::take(&mut view.unseen);
            let now = changes(seen).filter(|(file, _)| view.is_concerned(file));
            let all = earlier.iter().map(|(file, change)| (file, *change)).chain(now);
            let all = all.map(|(file, change)| json!({"uri": file_uri(file), "type": change as u8}));
            let changes: Vec<Value> = all.collect();
            if !changes.is_empty() {
                let params = json!({"changes": changes});
                mux.tell_server(view.server, &notification("workspace/didChangeWatchedFiles", &params));
            }
        }
    }
}

pub(super) fn language_of_file(
    file: &Path,
) -> Option<(&'static crate::config::languages::Language, &'static str)> {
    file.to_str().and_then(language_of)
}
