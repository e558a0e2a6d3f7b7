//! Published diagnostics: who sees which.
//!
//! **Diagnostics go to the clients whose texts they are about**: those whose view the server has. What others see
//! stays until their view has had a turn.

use std::{collections::BTreeMap, time::Duration};

use super::{
    Hub,
    texts::{TextId, number},
};
use crate::{
    core::event::ClientId,
    rpc::{Frame, Patch, text},
};

/// Diagnostics without a version that come so soon after a switch of their document may be about the text before:
/// only the client that the switch was for gets them.
const UNSURE: Duration = Duration::from_secs(1);

/// Diagnostics that say that there are none.
const NONE: &[u8] = br#""diagnostics":[]"#;

/// The last diagnostics of each document that has some.
#[derive(Debug, Default)]
pub(super) struct Published(BTreeMap<String, Publication>);

#[derive(Debug)]
struct Publication {
    frame: Frame,
    /// The text that they are about, if the server has the document open.
    text: Option<TextId>,
}

impl Hub {
    pub(super) fn on_published(&mut self, frame: &Frame) {
        let Some(uri) = frame.params().and_then(|it| text(it, &["uri"])) else {
            return self.tell_all(frame);
        };
        let now = self.now();
        let version = frame.params().and_then(|it| number(it, &["version"]));
        let text = match version {
            Some(version) => self.texts.text_of_version(&uri, version),
            None => self.texts.shared_text(&uri),
        };
        let is_unsure = version.is_none()
            && self.texts.was_switched_since(&uri, now.checked_sub(UNSURE))
            && self.turns.current().is_some();
        for client in self.initialized() {
            let is_for = match is_unsure {
                true => self.turns.current() == Some(client),
                false => self.sees(client, &uri, version.and(text)),
            };
            if is_for {
                self.tell_client(client, self.publication_for(client, &uri, frame, text));
            }
        }
        if self.texts.was_switched_since(&uri, None) {
            self.turns.release(now);
        }
        match memchr::memmem::find(frame.body(), NONE) {
            Some(_) => drop(self.published.0.remove(&uri)),
            None => drop(self.published.0.insert(uri, Publication { frame: frame.unshared(), text })),
        }
    }

    /// Whether diagnostics about this text of a document are what a server of this client alone would say.
    fn sees(&mut self, client: ClientId, uri: &str, text: Option<TextId>) -> bool {
        if !self.texts.is_aligned(client) {
            return false;
        }
        match text {
            Some(text) if self.texts.is_open(client, uri) => {
                self.texts.version_of_text(client, uri, text).is_some()
            }
            Some(_) | None => true,
        }
    }

    /// Diagnostics with the client's number of their version.
    fn publication_for(&self, client: ClientId, uri: &str, frame: &Frame, text: Option<TextId>) -> Frame {
        let params = frame.params().unwrap_or_default();
        let Some(version) = number(params, &["version"]) else { return frame.clone() };
        let theirs = text.and_then(|it| self.texts.version_of_text(client, uri, it));
        match theirs {
            Some(theirs) if theirs == version => frame.clone(),
            Some(theirs) => {
                frame.with_params(&Patch::of(params).set("version", theirs.to_string().as_bytes()).finish())
            }
            None => frame.with_params(&Patch::of(params).remove("version").finish()),
        }
    }

    /// A client has opened a document that the server has open already, and will not tell of again.
    pub(super) fn show_published_of(&mut self, client: ClientId, open: &Frame) {
        let uri = open.params().and_then(|it| text(it, &["textDocument", "uri"]));
        let Some(uri) = uri else { return };
        let Some(Publication { frame, text }) = self.published.0.get(&uri) else { return };
        let (frame, text) = (frame.clone(), *text);
        let is_about_it = text.is_some() && text == self.texts.text_of(client, &uri);
        if is_about_it && self.texts.is_aligned(client) {
            self.tell_client(client, self.publication_for(client, &uri, &frame, text));
        }
    }

    /// A client has come, and the server has told others of files that it will not tell of again.
    pub(super) fn show_published(&mut self, client: ClientId) {
        if !self.texts.is_aligned(client) {
            return;
        }
        let all: Vec<Frame> = self.published.0.values().map(|it| it.frame.clone()).collect();
        for frame in all {
            let uri = frame.params().and_then(|it| text(it, &["uri"])).unwrap_or_default();
            self.tell_client(client, self.publication_for(client, &uri, &frame, None));
        }
    }
}
