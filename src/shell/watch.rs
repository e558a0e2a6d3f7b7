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

use super::inbox::Events;
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
    folders: folders::Folders,
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

#[cfg(target_os = "linux")]
mod folders {
    //! Watches folders with inotify.

    use std::{
        collections::{BTreeMap, BTreeSet, VecDeque},
        ffi::{OsStr, OsString},
        future::pending,
        io,
        mem::MaybeUninit,
        os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
        path::{Path, PathBuf},
    };

    use rustix::{
        fs::inotify::{self, CreateFlags, WatchFlags},
        io::Errno,
    };
    use tokio::io::{Interest, unix::AsyncFd};

    /// The system follows as many.
    const LINKS: u32 = 40;

    /// The end of a write counts, not each write.
    const WHAT: WatchFlags = WatchFlags::ATTRIB
        .union(WatchFlags::CLOSE_WRITE)
        .union(WatchFlags::CREATE)
        .union(WatchFlags::DELETE)
        .union(WatchFlags::MOVE)
        .union(WatchFlags::DELETE_SELF)
        .union(WatchFlags::MOVE_SELF)
        .union(WatchFlags::ONLYDIR);

    /// Instead of a name: all names in the folder.
    const ANY: &str = "/";

    /// The watched names in a folder.
    type Names = BTreeSet<OsString>;

    #[derive(Debug, Default)]
    pub(super) struct Folders {
        inotify: Option<AsyncFd<OwnedFd>>,
        /// By the system's number of a watch.
        watched: BTreeMap<i32, Names>,
        has_failed: bool,
    }

    impl Folders {
        /// Watches only the folders that decide about the content of these files.
        pub(super) fn watch_around<'a, I: Iterator<Item = &'a Path>>(&mut self, files: impl Fn() -> I) {
            let mut before = None;
            // Repeats until nothing has changed while the watches were set.
            for _ in 0..5 {
                let mut wanted: BTreeMap<PathBuf, Names> = BTreeMap::new();
                for (folder, name) in files().flat_map(all_hinges) {
                    wanted.entry(folder).or_default().insert(name);
                }
                if before.as_ref() == Some(&wanted) {
                    return;
                }
                if let Err((folder, error)) = self.watch(&wanted)
                    && !std::mem::replace(&mut self.has_failed, true)
                {
                    tracing::warn!(
                        %error, folder = %folder.display(), "could not watch a folder of configuration files"
                    );
                }
                before = Some(wanted);
            }
        }

        /// Fails with the last folder that cannot be watched.
        fn watch(&mut self, wanted: &BTreeMap<PathBuf, Names>) -> Result<(), (PathBuf, io::Error)> {
            let mut result = Ok(());
            let mut watched: BTreeMap<i32, Names> = BTreeMap::new();
            for (folder, names) in wanted {
                match self.inotify().and_then(|it| Ok(inotify::add_watch(it, folder, WHAT)?)) {
                    Ok(number) => watched.entry(number).or_default().extend(names.iter().cloned()),
                    Err(error) => result = Err((folder.clone(), error)),
                }
            }
            if let Some(inotify) = &self.inotify {
                for number in self.watched.keys().filter(|it| !watched.contains_key(it)) {
                    // The system removes it with its folder.
                    inotify::remove_watch(inotify, *number).ok();
                }
            }
            self.watched = watched;
            result
        }

        fn inotify(&mut self) -> io::Result<&AsyncFd<OwnedFd>> {
            if self.inotify.is_none() {
                let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
                #[expect(
                    deprecated,
                    reason = "unsound for types that lie about their descriptor; an OwnedFd does not"
                )]
                let fd = AsyncFd::with_interest(fd, Interest::READABLE)?;
                self.inotify = Some(fd);
            }
            self.inotify.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
        }

        /// Waits until one of the names changes.
        pub(super) async fn touched(&self) {
            let Some(inotify) = &self.inotify else { return pending().await };
            loop {
                let Ok(mut ready) = inotify.readable().await else { return pending().await };
                let is_touched = self.read(inotify.get_ref());
                ready.clear_ready();
                if is_touched {
                    return;
                }
            }
        }

        /// Reads all events of the system. Returns whether one matters.
        fn read(&self, inotify: &OwnedFd) -> bool {
            let mut buffer = [MaybeUninit::uninit(); 4096];
            let mut reader = inotify::Reader::new(inotify, &mut buffer);
            let mut is_touched = false;
            loop {
                match reader.next() {
                    Ok(event) => {
                        let name = event.file_name().map(|it| OsStr::from_bytes(it.to_bytes()));
                        is_touched |= match (self.watched.get(&event.wd()), name) {
                            (Some(names), Some(name)) => {
                                names.contains(name) || names.contains(OsStr::new(ANY))
                            }
                            // The folder itself.
                            (Some(_), None) => true,
                            // More events than the system could queue.
                            (None, _) => event.wd() < 0,
                        };
                    }
                    Err(Errno::INTR) => {}
                    Err(_) => return is_touched,
                }
            }
        }
    }

    /// The hinges of a file, or of a folder and the links in it.
    fn all_hinges(file: &Path) -> Vec<(PathBuf, OsString)> {
        let mut all = hinges(file);
        let entries = std::fs::read_dir(file).into_iter().flatten().flatten();
        let is_link = |it: &std::fs::DirEntry| it.file_type().is_ok_and(|it| it.is_symlink());
        let links = entries.filter(is_link).take(super::MOST);
        all.extend(links.flat_map(|it| hinges(&it.path())));
        all
    }

    /// The places that decide what a path leads to: the name of each link on the way and of the file, with their
    /// folders; or the first missing name.
    pub(super) fn hinges(file: &Path) -> Vec<(PathBuf, OsString)> {
        let Ok(file) = std::path::absolute(file) else { return Vec::new() };
        let mut all = Vec::new();
        // A path without links.
        let mut at = PathBuf::from("/");
        let mut rest: VecDeque<OsString> = names(&file);
        let mut n_links = 0;
        while let Some(name) = rest.pop_front() {
            if name == ".." {
                at.pop();
                continue;
            }
            let next = at.join(&name);
            if let Ok(target) = std::fs::read_link(&next) {
                all.push((at.clone(), name));
                n_links += 1;
                if n_links > LINKS {
                    break;
                }
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                for name in names(&target).into_iter().rev() {
                    rest.push_front(name);
                }
            } else if !rest.is_empty() && next.is_dir() {
                at = next;
            } else {
                all.push((at, name));
                if next.is_dir() {
                    all.push((next, ANY.into()));
                }
                break;
            }
        }
        all
    }

    fn names(path: &Path) -> VecDeque<OsString> {
        let parts = path.components().map(std::path::Component::as_os_str);
        parts.filter(|it| *it != "/" && *it != ".").map(OsStr::to_owned).collect()
    }
}

#[cfg(not(target_os = "linux"))]
mod folders {
    //! This system does not report changes.

    use std::{future::pending, path::Path};

    #[derive(Debug, Default)]
    pub(super) struct Folders;

    impl Folders {
        pub(super) fn watch_around<'a, I: Iterator<Item = &'a Path>>(&mut self, _files: impl Fn() -> I) {}

        pub(super) async fn touched(&self) {
            pending().await
        }
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
