//! Reports when the content of a configuration file has changed since the last read.
//!
//! Owns a fingerprint of files and of folders of files. Reads them for nobody else: a reader registers the files
//! before it reads them, so that no change is missed.
//!
//! **Nothing polls.** The system reports changes in folders, in which files appear, disappear and are replaced. The
//! watched folders are all that decide about the content of a file: its own, that of each link on the way, and for a
//! missing folder the one in which it would appear. Without reports of the system, nothing is watched.

use std::{
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::Read as _,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot},
    task::{spawn_blocking, spawn_local},
    time::sleep,
};

use super::{inbox::Events, os::watching::WatchedFolders};
use crate::core::event::Event;

/// A longer file is not a configuration file.
const LONGEST: u64 = (1 << 20) + 1;

/// The limit of files in a folder.
const MOST: usize = 1000;

/// How often to wait for quiet.
const PATIENCE: u32 = 10;

/// The task that watches.
#[derive(Debug)]
pub(super) struct Watch(mpsc::Sender<Request>);

/// Files to watch from now on, and the signal for having read them.
type Request = (Vec<PathBuf>, oneshot::Sender<()>);

impl Watch {
    /// A task that watches nothing yet. After a change it waits for `quiet`.
    pub(super) fn start(quiet: Duration, events: Events) -> Watch {
        let (requests, asked) = mpsc::channel(1);
        spawn_local(run(asked, quiet, events));
        Watch(requests)
    }

    /// Watches only these files. When this returns, it knows their content.
    pub(super) fn look(&self, files: Vec<PathBuf>) -> impl Future<Output = ()> + use<> {
        let requests = self.0.clone();
        async move {
            let (done, is_done) = oneshot::channel();
            // An error would mean that the task has ended with lspool.
            if requests.send((files, done)).await.is_ok() {
                is_done.await.ok();
            }
        }
    }
}

async fn run(mut asked: mpsc::Receiver<Request>, quiet: Duration, events: Events) {
    let mut watched = Watched::default();
    loop {
        tokio::select! {
            request = asked.recv() => {
                let Some((files, done)) = request else { return };
                watched.files = files.into_iter().map(|path| File { path, said: None }).collect();
                watched = look(watched).await.0;
                done.send(()).ok();
            }
            () = watched.touched() => {
                for _ in 0..PATIENCE {
                    tokio::select! {
                        () = sleep(quiet) => break,
                        () = watched.touched() => {}
                    }
                }
                let is_changed;
                (watched, is_changed) = look(watched).await;
                if is_changed {
                    events.tell(Event::FilesChanged);
                }
            }
        }
    }
}

/// Checks the files in a thread, because the disk may be slow. Returns whether one has changed.
async fn look(mut watched: Watched) -> (Watched, bool) {
    let looking = spawn_blocking(move || {
        let is_changed = watched.look();
        (watched, is_changed)
    });
    looking.await.unwrap_or_else(|error| {
        tracing::error!(%error, "stopped watching the configuration files");
        (Watched::default(), false)
    })
}

#[derive(Debug)]
struct File {
    path: PathBuf,
    /// The fingerprint of the content; `None` if it is missing or unreadable.
    said: Option<u64>,
}

impl File {
    fn look(&mut self) -> bool {
        let said = print_of(&self.path);
        let is_changed = said != self.said;
        self.said = said;
        is_changed
    }
}

/// The fingerprint of a path. For a folder, of its files and their contents.
fn print_of(path: &Path) -> Option<u64> {
    let mut print = DefaultHasher::new();
    let kind = fs::metadata(path).ok()?;
    if !kind.is_dir() {
        add(path, &kind, &mut print)?;
        return Some(print.finish());
    }
    let mut files: Vec<PathBuf> = fs::read_dir(path).ok()?.flatten().map(|it| it.path()).collect();
    files.sort();
    for file in files.iter().take(MOST) {
        file.hash(&mut print);
        // An unreadable file differs from an empty one.
        let is_read = fs::metadata(file).is_ok_and(|kind| add(file, &kind, &mut print).is_some());
        is_read.hash(&mut print);
    }
    files.len().hash(&mut print);
    Some(print.finish())
}

/// Adds the content of a file. Reading a pipe would take its content from the real reader.
fn add(file: &Path, kind: &fs::Metadata, print: &mut DefaultHasher) -> Option<()> {
    let mut read = kind.is_file().then(|| fs::File::open(file))?.ok()?.take(LONGEST);
    let mut some = [0; 8192];
    loop {
        match read.read(&mut some).ok()? {
            0 => return Some(()),
            n => print.write(&some[..n]),
        }
    }
}

/// The files, with the folders around them.
#[derive(Debug, Default)]
struct Watched {
    files: Vec<File>,
    folders: WatchedFolders,
}

impl Watched {
    /// Watches the current folders, then checks the files.
    fn look(&mut self) -> bool {
        self.folders.watch_around(|| self.files.iter().map(|it| it.path.as_path()));
        // All files, so that each is known.
        self.files.iter_mut().fold(false, |is_changed, file| file.look() | is_changed)
    }

    /// Waits for a change around one of the files.
    async fn touched(&self) {
        self.folders.touched().await;
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
