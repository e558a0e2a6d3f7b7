//! What has happened and is not yet told to the core: a queue of this thread.
//!
//! - **[`Events::tell`] never waits**, so that no task is held up by another one that has much to say.
//! - Who can say as much as it likes waits for [`Events::room`] in between, so what waits is bounded.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
};

use tokio::sync::Notify;

use crate::core::event::Event;

/// Where events are told.
#[derive(Clone, Debug)]
pub struct Events(Rc<Shared>);

/// Where they are taken, in order.
#[derive(Debug)]
pub struct Inbox(Rc<Shared>);

#[derive(Debug)]
struct Shared {
    queue: RefCell<VecDeque<Event>>,
    /// What the events in the queue weigh.
    weight: Cell<usize>,
    limit: usize,
    filled: Notify,
    taken: Notify,
    is_left: Cell<bool>,
}

/// A queue of which those who wait for [`Events::room`] do so while it holds more than `limit` bytes.
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
    /// Appends an event. If nobody takes them any more, lspool is at its end and nobody cares.
    pub fn tell(&self, event: Event) {
        if self.0.is_left.get() {
            return;
        }
        self.0.weight.set(self.0.weight.get() + weight(&event));
        let mut queue = self.0.queue.borrow_mut();
        queue.push_back(event);
        if queue.len() == 1 {
            self.0.filled.notify_one();
        }
    }

    /// Waits until what was told is taken, if it is much.
    pub async fn room(&self) {
        while self.0.weight.get() > self.0.limit {
            self.0.taken.notified().await;
        }
    }
}

impl Inbox {
    /// The next event.
    pub async fn next(&mut self) -> Event {
        loop {
            if let Some(event) = self.0.queue.borrow_mut().pop_front() {
                self.0.weight.set(self.0.weight.get() - weight(&event));
                self.0.taken.notify_waiters();
                return event;
            }
            self.0.filled.notified().await;
        }
    }

    /// All events that are there, at least one. `all` is empty before.
    pub async fn take(&mut self, all: &mut VecDeque<Event>) {
        while self.0.queue.borrow().is_empty() {
            self.0.filled.notified().await;
        }
        std::mem::swap(all, &mut *self.0.queue.borrow_mut());
        self.0.weight.set(0);
        self.0.taken.notify_waiters();
    }
}

/// What it takes in memory, but for what is small or rare.
fn weight(event: &Event) -> usize {
    let body = if let Event::Received(_, frame) = event { frame.body().len() } else { 0 };
    body + size_of::<Event>()
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.0.is_left.set(true);
        self.0.queue.borrow_mut().clear();
        self.0.weight.set(0);
        self.0.taken.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn events_are_taken_in_order_and_make_room() {
        let (events, mut inbox) = inbox(size_of::<Event>());
        let mut all = VecDeque::new();
        for signal in 1..=3 {
            events.tell(Event::Quit(signal));
        }
        let soon = Duration::from_secs(1);
        assert!(timeout(soon, events.room()).await.is_err(), "three wait, and one may");
        assert!(matches!(inbox.next().await, Event::Quit(1)));
        assert!(timeout(soon, events.room()).await.is_err(), "two wait");
        let ((), ()) = tokio::join!(events.room(), inbox.take(&mut all));
        assert!(matches!(all.make_contiguous(), [Event::Quit(2), Event::Quit(3)]));
        all.clear();
        assert!(timeout(soon, inbox.take(&mut all)).await.is_err(), "none is left");
        let ((), ()) = tokio::join!(inbox.take(&mut all), async { events.tell(Event::Quit(4)) });
        assert!(matches!(all.make_contiguous(), [Event::Quit(4)]));
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_a_queue_that_is_left() {
        let (events, inbox) = inbox(0);
        events.tell(Event::Quit(1));
        let ((), ()) = tokio::join!(events.room(), async { drop(inbox) });
        events.tell(Event::Quit(2));
        events.room().await;
    }
}
