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

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    runtime::Handle,
    sync::oneshot::{self, error::TryRecvError},
};

/// A process that is about to be, as whoever starts it has it. Whoever drops this calls it off.
pub(super) struct Coming<T, E> {
    outcome: oneshot::Receiver<Result<(T, Parent), E>>,
    thread: Arc<OnceLock<Pid>>,
}

/// The parent thread of a process. Dropping it ends the thread.
pub(super) struct Parent {
    _stays: mpsc::Sender<Infallible>,
}

impl<T: Send + 'static, E: Send + 'static> Coming<T, E> {
    /// Starts a process. It must be one that is killed when its handle is dropped.
    pub(super) fn new(start: impl FnOnce() -> Result<T, E> + Send + 'static) -> Coming<T, E> {
        let (tell, outcome) = oneshot::channel();
        let (runtime, thread) = (Handle::current(), Arc::new(OnceLock::new()));
        let own = thread.clone();
        let spawned = thread::Builder::new().name("parent".to_owned()).spawn(move || {
            let _runtime = runtime.enter();
            own.set(thread_id()).ok();
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
        Coming { outcome, thread }
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
        if let (Err(TryRecvError::Empty), Some(thread)) = (self.outcome.try_recv(), self.thread.get()) {
            for child in children(*thread) {
                // The child may exist, or have ended, by now.
                kill_process(child, Signal::KILL).ok();
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn thread_id() -> Pid {
    rustix::thread::gettid()
}

/// The process that this thread has forked.
#[cfg(target_os = "linux")]
fn children(thread: Pid) -> Vec<Pid> {
    let file = format!("/proc/self/task/{}/children", thread.as_raw_nonzero());
    let children = std::fs::read_to_string(file).unwrap_or_default();
    children.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

#[cfg(not(target_os = "linux"))]
fn thread_id() -> Pid {
    rustix::process::getpid()
}

/// This system does not report what a thread has forked: the child is killed when it exists.
#[cfg(not(target_os = "linux"))]
fn children(_thread: Pid) -> Vec<Pid> {
    Vec::new()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{path::PathBuf, time::Duration};

    use super::*;

    #[tokio::test]
    async fn parent_thread_lives_as_long_as_child_handle() {
        let start = || tokio::process::Command::new("sleep").arg("60").kill_on_drop(true).spawn();
        let coming = Coming::new(start);
        let thread = coming.thread.clone();
        let (child, parent) = coming.await.unwrap().unwrap();
        let thread = *thread.get().unwrap();
        let task = PathBuf::from(format!("/proc/self/task/{}", thread.as_raw_nonzero()));
        for _ in 0..20 {
            assert_eq!(
                children(thread).first().map(|it| it.as_raw_nonzero().get().unsigned_abs()),
                child.id()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        drop((child, parent));
        while task.exists() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
