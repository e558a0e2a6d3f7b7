//! The open documents of a session that is replayed: a process is told them as fast as it reads. All of them together
//! may be more than memory should hold twice.
//!
//! What the editor says of a document that is still to be told goes into the session only, and so is told with it.
//! Everything else waits in the queue until all is told.

use std::collections::{BTreeSet, VecDeque};

use crate::{
    core::{
        event::{BackendId, Effect, ProcessId},
        mux::{
            Mux,
            pool::backend::Backend,
            session::documents::{DocumentKey, uri},
        },
    },
    rpc::Frame,
};

/// So much is handed over at once.
const PORTION: usize = 4 << 20;

/// What a process is still to be told of a session.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    documents: VecDeque<DocumentKey>,
    /// The same.
    left: BTreeSet<DocumentKey>,
    after: VecDeque<Frame>,
}

impl Feed {
    pub(crate) fn is_over(&self) -> bool {
        self.documents.is_empty() && self.after.is_empty()
    }

    fn next_document(&mut self) -> Option<DocumentKey> {
        let next = self.documents.pop_front()?;
        self.left.remove(&next);
        Some(next)
    }

    /// Whether a message is about a document that is still to be told.
    fn covers(&self, frame: &Frame) -> bool {
        if self.left.is_empty() {
            return false;
        }
        let (Some(method), Some(params)) = (frame.method(), frame.params()) else { return false };
        let key = match method {
            "textDocument/didOpen" | "textDocument/didChange" | "textDocument/didClose" => {
                uri(params, "textDocument").map(DocumentKey::Text)
            }
            "notebookDocument/didOpen" | "notebookDocument/didChange" | "notebookDocument/didClose" => {
                uri(params, "notebookDocument").map(DocumentKey::Notebook)
            }
            _ => None,
        };
        key.is_some_and(|it| self.left.contains(&it))
    }
}

impl Mux {
    /// Tells a process these documents and then these messages, as it reads.
    pub(crate) fn begin_feed(&mut self, process: ProcessId, documents: Vec<DocumentKey>, after: Vec<Frame>) {
        if let Some(backend) = self.backends.get_mut(process.backend) {
            let left = documents.iter().cloned().collect();
            backend.feed = Feed { documents: documents.into(), left, after: after.into() };
        }
        self.feed(process);
    }

    /// Hands over the next portion.
    fn feed(&mut self, process: ProcessId) {
        let mut n_bytes = 0;
        while n_bytes < PORTION {
            let Some(backend) = self.backends.get_mut(process.backend) else { return };
            let next = backend.feed.next_document();
            let Some(key) = next else {
                for frame in std::mem::take(&mut backend.feed.after) {
                    self.replay(process, frame);
                }
                return;
            };
            let server = backend.server;
            let documents = &mut self.servers.get_mut(server).session.documents;
            // It may have been closed meanwhile.
            let Some((method, params)) = documents.restored(&key) else { continue };
            if !self.wants(server, method, &params) {
                continue;
            }
            n_bytes += params.len();
            self.tell(process, Frame::notification(method, Some(&params)));
        }
        self.act(Effect::AwaitDrained(process));
    }

    /// A process has read nearly all that it was told. Whether it has the session now.
    pub(crate) fn on_drained(&mut self, process: ProcessId) -> bool {
        let feeds = |it: &Backend| it.is_current(process) && !it.feed.is_over() && !it.is_terminated();
        if !self.backend(process.backend).is_some_and(feeds) {
            return false;
        }
        self.feed(process);
        self.backend(process.backend).is_some_and(|it| it.feed.is_over())
    }

    /// Whether a process will be told with the rest of its session what this message says.
    pub(in crate::core::mux) fn is_fed(&self, id: BackendId, frame: &Frame) -> bool {
        self.backend(id).is_some_and(|it| it.feed.covers(frame))
    }
}
