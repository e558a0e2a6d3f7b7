//! A process on its way. The system changes to its folder and reads its executable before the process exists, and a
//! disk that does not answer delays that.
//!
//! Owns the thread that starts the process and waits. Each process has a thread of its own, so hanging starts do not
//! delay the reading of files.
//!
//! - **A cancelled start has no effect**: the forked process is killed before it becomes the program.
//! - **The thread lives as long as the process**: for the system it is the parent, and a process may have asked to
//!   end with its parent.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{Arc, OnceLock, mpsc},
    task::{Context, Poll},
    thread,
};

use tokio::{
    runtime::Handle,
    sync::oneshot::{self, error::TryRecvError},
};

use super::os::processes::Forks;

/// A process that is about to be, as whoever starts it has it. Whoever drops this calls it off.
pub(super) struct Coming<T, E> {
    outcome: oneshot::Receiver<Result<(T, Parent), E>>,
    forks: Arc<OnceLock<Forks>>,
}

/// The parent thread of a process. Dropping it ends the thread.
pub(super) struct Parent {
    _stays: mpsc::Sender<Infallible>,
}

impl<T: Send + 'static, E: Send + 'static> Coming<T, E> {
    /// Starts a process. It must be one that is killed when its handle is dropped.
    pub(super) fn new(start: impl FnOnce() -> Result<T, E> + Send + 'static) -> Coming<T, E> {
        let (tell, outcome) = oneshot::channel();
        let (runtime, forks) = (Handle::current(), Arc::new(OnceLock::new()));
        let own = forks.clone();
        let spawned = thread::Builder::new().name("parent".to_owned()).spawn(move || {
            let _runtime = runtime.enter();
            own.set(Forks::of_this_thread()).ok();
            if tell.is_closed() {
                return;
            }
            let (stays, goes) = mpsc::channel();
            tell.send(start().map(|child| (child, Parent { _stays: stays }))).ok();
            goes.recv().ok();
        });
        if let Err(error) = spawned {
            tracing::warn!(%error, "could not make a thread to start a process");
        }
        Coming { outcome, forks }
    }
}

impl<T, E> Future for Coming<T, E> {
    /// Nothing if there is no thread for it.
    type Output = Option<Result<(T, Parent), E>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.outcome).poll(context).map(Result::ok)
    }
}

impl<T, E> Drop for Coming<T, E> {
    fn drop(&mut self) {
        if let (Err(TryRecvError::Empty), Some(forks)) = (self.outcome.try_recv(), self.forks.get()) {
            forks.kill();
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{path::PathBuf, time::Duration};

    use super::*;

    #[tokio::test]
    async fn parent_thread_lives_as_long_as_child_handle() {
        let start = || tokio::process::Command::new("sleep").arg("60").kill_on_drop(true).spawn();
        let coming = Coming::new(start);
        let forks = coming.forks.clone();
        let (child, parent) = coming.await.unwrap().unwrap();
        let forks = forks.get().unwrap();
        let task = PathBuf::from(format!("/proc/self/task/{}", forks.thread()));
        for _ in 0..20 {
            assert_eq!(forks.pids().first().copied(), child.id());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        drop((child, parent));
        while task.exists() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
