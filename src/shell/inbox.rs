//! Events that the core has not handled yet: a queue of this thread.
//!
//! - **[`Events::tell`] never waits**, so no task delays another one.
//! - A task that can send without a limit waits for [`Events::room`], so the queue is bounded.
//! - A message is scanned when it is taken. The core then frees it before the next one is scanned, and reuses the
//!   memory while it is in the cache.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::{
    core::event::{Event, Peer},
    rpc::Frame,
};

/// The writing end of the queue.
#[derive(Clone, Debug)]
pub struct Events(Rc<Shared>);

/// The reading end of the queue.
#[derive(Debug)]
pub struct Inbox(Rc<Shared>);

/// A queued item.
#[derive(Debug)]
pub enum Queued {
    /// An event.
    Event(Event),
    /// The body of a message, not scanned yet.
    Body(Peer, Bytes),
}

impl Queued {
    /// Makes an event of it.
    pub fn event(self) -> Event {
        match self {
            Queued::Event(event) => event,
            Queued::Body(peer, body) => match Frame::parse(body.clone()) {
                Ok(frame) => Event::Received(peer, frame),
                Err(malformed) => {
                    Event::Malformed { peer, id: Frame::salvage_id(&body), reason: malformed.to_string() }
                }
            },
        }
    }

    /// The size of the large items in memory.
    fn weight(&self) -> usize {
        let body = if let Queued::Body(_, body) = self { body.len() } else { 0 };
        body + size_of::<Queued>()
    }
}

#[derive(Debug)]
struct Shared {
    queue: RefCell<VecDeque<Queued>>,
    /// The weight of the queue.
    weight: Cell<usize>,
    limit: usize,
    filled: Notify,
    taken: Notify,
    is_left: Cell<bool>,
}

/// Makes a queue. [`Events::room`] waits while it holds more than `limit` bytes.
pub fn inbox(limit: usize) -> (Events, Inbox) {
    let shared = Rc::new(Shared {
        queue: RefCell::default(),
        weight: Cell::new(0),
        limit,
        filled: Notify::new(),
        taken: Notify::new(),
        is_left: Cell::new(false),
    });
    (Events(shared.clone()), Inbox(shared))
}

impl Events {
    /// Appends an event. Without a reader lspool is ending, and the event does not matter.
    pub fn tell(&self, event: Event) {
        self.push(Queued::Event(event));
    }

    /// Appends the body of a message.
    pub fn deliver(&self, peer: Peer, body: Bytes) {
        self.push(Queued::Body(peer, body));
    }

    fn push(&self, queued: Queued) {
        if self.0.is_left.get() {
            return;
        }
        self.0.weight.set(self.0.weight.get() + queued.weight());
        let mut queue = self.0.queue.borrow_mut();
        queue.push_back(queued);
        if queue.len() == 1 {
            self.0.filled.notify_one();
        }
    }

    /// Waits while the queue is over its limit.
    pub async fn room(&self) {
        while self.0.weight.get() > self.0.limit {
            self.0.taken.notified().await;
        }
    }
}

impl Inbox {
    /// Takes the next event.
    pub async fn next(&mut self) -> Event {
        loop {
            if let Some(queued) = self.0.queue.borrow_mut().pop_front() {
                self.0.weight.set(self.0.weight.get() - queued.weight());
                self.0.taken.notify_waiters();
                return queued.event();
            }
            self.0.filled.notified().await;
        }
    }

    /// Takes all waiting events, at least one. `all` is empty before.
    pub async fn take(&mut self, all: &mut VecDeque<Queued>) {
        while self.0.queue.borrow().is_empty() {
            self.0.filled.notified().await;
        }
        std::mem::swap(all, &mut *self.0.queue.borrow_mut());
        self.0.weight.set(0);
        self.0.taken.notify_waiters();
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.0.is_left.set(true);
        self.0.queue.borrow_mut().clear();
        self.0.weight.set(0);
        self.0.taken.notify_waiters();
    }
}

/// The kind of an event, without its contents: a configuration may contain secrets.
pub(super) fn kind(event: &Event) -> &'static str {
    match event {
        Event::Received(..) => "a message",
        Event::Malformed { .. } => "a malformed message",
        Event::Closed { .. } => "the end of a stream",
        Event::Unwritable(_) => "an unwritable client",
        Event::Prepared(_) => "what was prepared",
        Event::Displaced(..) => "a process elsewhere",
        Event::Unshared(..) => "a process that is not shared",
        Event::Spawned { .. } => "the start of a process",
        Event::SpawnFailed(..) => "a failed start",
        Event::Exited { .. } => "the end of a process",
        Event::TranscriptWritten { .. } => "a written file",
        Event::TeamsLoaded(_) => "the teams of the workspace",
        Event::TeamWritten { .. } => "a stored team",
        Event::ModeKept { .. } => "the file of a mode",
        Event::Recalled(_) => "remembered capabilities",
        Event::RootFound(_) => "the project of a document",
        Event::ToolRan(_) => "what came of a call",
        Event::Looked(_) => "a look at files",
        Event::FileRead { .. } => "a file that was read",
        Event::Wrote(_) => "an edit of files",
        Event::Fetched(_) => "copies of files",
        Event::Measured(_) => "a measurement",
        Event::FilesChanged => "a changed file",
        Event::EditorReads(_) => "a pause of the editor",
        Event::Muttered(_) => "a sign of life",
        Event::Drained(_) => "a process that reads",
        Event::Stalled(_) => "a stalled peer",
        Event::EditorGone => "the end of the editor",
        Event::Quit(_) => "a signal",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn inbox_keeps_order_and_makes_room() {
        let (events, mut inbox) = inbox(size_of::<Queued>());
        let mut all = VecDeque::new();
        for signal in 1..=3 {
            events.tell(Event::Quit(signal));
        }
        let soon = Duration::from_secs(1);
        assert!(timeout(soon, events.room()).await.is_err(), "three wait, and one may");
        assert!(matches!(inbox.next().await, Event::Quit(1)));
        assert!(timeout(soon, events.room()).await.is_err(), "two wait");
        let ((), ()) = tokio::join!(events.room(), inbox.take(&mut all));
        assert_eq!(quits(&mut all), [2, 3]);
        assert!(timeout(soon, inbox.take(&mut all)).await.is_err(), "none is left");
        let ((), ()) = tokio::join!(inbox.take(&mut all), async { events.tell(Event::Quit(4)) });
        assert_eq!(quits(&mut all), [4]);
    }

    fn quits(all: &mut VecDeque<Queued>) -> Vec<i32> {
        let signal = |it: Queued| if let Event::Quit(signal) = it.event() { Some(signal) } else { None };
        all.drain(..).filter_map(signal).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn senders_do_not_wait_for_dropped_inbox() {
        let (events, inbox) = inbox(0);
        events.tell(Event::Quit(1));
        let ((), ()) = tokio::join!(events.room(), async { drop(inbox) });
        events.tell(Event::Quit(2));
        events.room().await;
    }
}
