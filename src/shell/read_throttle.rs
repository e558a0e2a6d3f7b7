//! The read throttle: delays reading the editor while it sends more than a server takes.
//!
//! lspool always reads the editor, or servers that wait for it could wait for each other. But each read comes a
//! little later while much waits for a server that reads. So the queue holds what keeps a server busy, and not all
//! that the editor can send.

use std::{
    cell::{Cell, RefCell},
    rc::{Rc, Weak},
    time::Duration,
};

use tokio::{sync::Notify, time::timeout};

/// The longest delay of a read, so that a slow server hardly delays the others.
pub(super) const PATIENCE: Duration = Duration::from_millis(5);

/// The throttle for all servers: the delay of the next read of the editor.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadThrottle(Rc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    servers: RefCell<Vec<Weak<Server>>>,
    n_behind: Cell<usize>,
    caught_up: Notify,
}

#[derive(Debug, Default)]
struct Server {
    is_behind: Cell<bool>,
    /// Whether the server has read since a wait began.
    has_moved: Cell<bool>,
    /// Whether a wait for the server was in vain, and it has not read since.
    is_stuck: Cell<bool>,
}

impl Server {
    fn is_worth_waiting_for(&self) -> bool {
        self.is_behind.get() && !self.is_stuck.get()
    }
}

impl ReadThrottle {
    /// Adds a server.
    pub(super) fn handle(&self) -> ThrottleHandle {
        let server = Rc::new(Server::default());
        let mut servers = self.0.servers.borrow_mut();
        servers.retain(|it| it.strong_count() > 0);
        servers.push(Rc::downgrade(&server));
        ThrottleHandle { throttle: self.clone(), server }
    }

    /// Waits until no reading server is behind, for at most [`PATIENCE`].
    pub(super) async fn wait(&self) {
        if self.0.n_behind.get() == 0 {
            return;
        }
        let waited_for = self.behind();
        for it in &waited_for {
            it.has_moved.set(false);
        }
        let caught_up = async {
            while waited_for.iter().any(|it| it.is_worth_waiting_for()) {
                self.0.caught_up.notified().await;
            }
        };
        if timeout(PATIENCE, caught_up).await.is_err() {
            for it in &waited_for {
                it.is_stuck.set(!it.has_moved.get());
            }
        }
    }

    fn behind(&self) -> Vec<Rc<Server>> {
        let servers = self.0.servers.borrow();
        servers.iter().filter_map(Weak::upgrade).filter(|it| it.is_worth_waiting_for()).collect()
    }
}

/// The handle of one server. Dropping it removes the server.
#[derive(Debug)]
pub(super) struct ThrottleHandle {
    throttle: ReadThrottle,
    server: Rc<Server>,
}

impl ThrottleHandle {
    /// Notes that the server has read.
    pub(super) fn moved(&self) {
        self.server.has_moved.set(true);
        self.server.is_stuck.set(false);
    }

    /// Notes whether much waits for the server.
    pub(super) fn set_behind(&self, is_behind: bool) {
        let Shared { n_behind, caught_up, .. } = &*self.throttle.0;
        match (self.server.is_behind.replace(is_behind), is_behind) {
            (false, true) => n_behind.set(n_behind.get() + 1),
            (true, false) => {
                n_behind.set(n_behind.get() - 1);
                caught_up.notify_waiters();
            }
            (true, true) | (false, false) => {}
        }
    }
}

impl Drop for ThrottleHandle {
    fn drop(&mut self) {
        self.set_behind(false);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};

    use super::*;

    async fn waits(throttle: &ReadThrottle) -> Duration {
        let start = Instant::now();
        throttle.wait().await;
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn read_throttle_waits_once_for_server_that_does_not_read() {
        let throttle = ReadThrottle::default();
        let (deaf, busy) = (throttle.handle(), throttle.handle());
        assert_eq!(waits(&throttle).await, Duration::ZERO);
        deaf.set_behind(true);
        assert_eq!(waits(&throttle).await, PATIENCE);
        for _ in 0..3 {
            assert_eq!(waits(&throttle).await, Duration::ZERO);
            busy.set_behind(true);
            let reads = async {
                sleep(PATIENCE / 5).await;
                busy.moved();
                busy.set_behind(false);
            };
            let (waited, ()) = tokio::join!(waits(&throttle), reads);
            assert_eq!(waited, PATIENCE / 5, "for the one that reads, and not for the other");
        }
        deaf.moved();
        assert_eq!(waits(&throttle).await, PATIENCE, "it reads again");
        let ((), waited) = tokio::join!(async { drop(deaf) }, waits(&throttle));
        assert_eq!(waited, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn read_throttle_waits_again_for_slow_server() {
        let throttle = ReadThrottle::default();
        let slow = throttle.handle();
        slow.set_behind(true);
        for _ in 0..3 {
            let (waited, ()) = tokio::join!(waits(&throttle), async { slow.moved() });
            assert_eq!(waited, PATIENCE);
        }
    }
}
