//! Slows the editor down while it says more than a server takes.
//!
//! It is read always, or servers that wait for it could wait for each other; but a little later while much waits for
//! a server that goes on reading. So what waits is what a server needs to be busy, not all that an editor can say.

use std::{cell::Cell, rc::Rc, time::Duration};

use tokio::{sync::Notify, time::timeout};

/// How long a read waits at most, so that a server which reads slowly hardly holds up the others.
pub(super) const PATIENCE: Duration = Duration::from_millis(5);

/// One for all servers.
#[derive(Clone, Debug, Default)]
pub(super) struct Brake(Rc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    n_behind: Cell<usize>,
    /// Nobody who is behind has taken anything since the last wait: waiting is of no use.
    in_vain: Cell<bool>,
    caught_up: Notify,
}

impl Brake {
    /// For one more server.
    pub(super) fn pedal(&self) -> Pedal {
        Pedal { brake: self.clone(), is_behind: Cell::default() }
    }

    /// Waits until nobody is behind any more, or not so long.
    pub(super) async fn wait(&self) {
        let Shared { n_behind, in_vain, caught_up } = &*self.0;
        if n_behind.get() > 0 && !in_vain.get() {
            in_vain.set(timeout(PATIENCE, caught_up.notified()).await.is_err());
        }
    }
}

/// What one server does to the brake. It lets go of it when dropped.
#[derive(Debug)]
pub(super) struct Pedal {
    brake: Brake,
    is_behind: Cell<bool>,
}

impl Pedal {
    /// Whether much waits for it.
    pub(super) fn is_behind(&self) -> bool {
        self.is_behind.get()
    }

    /// It has taken something.
    pub(super) fn moved(&self) {
        self.brake.0.in_vain.set(false);
    }

    /// Much waits for it, or not any more.
    pub(super) fn set(&self, is_behind: bool) {
        let Shared { n_behind, in_vain, caught_up } = &*self.brake.0;
        match (self.is_behind.replace(is_behind), is_behind) {
            (false, true) => {
                n_behind.set(n_behind.get() + 1);
                in_vain.set(false);
            }
            (true, false) => {
                n_behind.set(n_behind.get() - 1);
                if n_behind.get() == 0 {
                    caught_up.notify_waiters();
                }
            }
            (true, true) | (false, false) => {}
        }
    }
}

impl Drop for Pedal {
    fn drop(&mut self) {
        self.set(false);
    }
}
