//! Tells when a configuration file says something else than when it was last read.
//!
//! Files, and folders of files. Owns what they said. Does not read them for anybody: who reads them has them looked at before, so that no
//! change falls in between.
//!
//! **Nothing polls.** The system tells of changes in folders, which is where files come, go and are replaced. Looked at
//! are all folders in which something decides what a file says: its own, that of each link on the way, and where a
//! folder is missing, the one in which it would appear. A system that does not tell of changes means no watch.

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

/// Longer ones are no configuration files.
const LONGEST: u64 = (1 << 20) + 1;

/// More files in a folder are not looked at.
const MOST: usize = 1000;

/// How often the quiet is waited for.
const PATIENCE: u32 = 10;

/// The task that watches.
#[derive(Debug)]
pub(super) struct Watch(mpsc::Sender<Request>);

/// Look at these files from now on, and say when you have.
type Request = (Vec<PathBuf>, oneshot::Sender<()>);

impl Watch {
    /// Watches nothing yet. After a change it waits until all is quiet for so long.
    pub(super) fn start(quiet: Duration, events: Events) -> Watch {
        let (requests, asked) = mpsc::channel(1);
        spawn_local(run(asked, quiet, events));
        Watch(requests)
    }

    /// Watches these files and no others; what they say when this returns is known.
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

/// Looks at the files on a thread that may wait for a disk. Says whether one says something else than before.
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
    /// What it said, as a number; `None` if there is none, or nothing that could be read.
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

/// A number that stands for what is at a path. A folder says which files are in it, and what they say.
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
        // One that cannot be read, and one that says nothing, are not the same.
        let is_read = fs::metadata(file).is_ok_and(|kind| add(file, &kind, &mut print).is_some());
        is_read.hash(&mut print);
    }
    files.len().hash(&mut print);
    Some(print.finish())
}

/// Adds what a file says. What is read from a pipe would be lost to whoever reads it next.
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

/// The files, and the folders around them.
#[derive(Debug, Default)]
struct Watched {
    files: Vec<File>,
    folders: folders::Folders,
}

impl Watched {
    /// Watches what is to be watched by now, then looks at what the files say.
    fn look(&mut self) -> bool {
        self.folders.watch_around(|| self.files.iter().map(|it| it.path.as_path()));
        // Of all: each is to be known.
        self.files.iter_mut().fold(false, |is_changed, file| file.look() | is_changed)
    }

    /// Something has happened around one of the files.
    async fn touched(&self) {
        self.folders.touched().await;
    }
}

#[cfg(target_os = "linux")]
mod folders {
    //! Folders as inotify tells of them.

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

    /// As many as the system itself follows.
    const LINKS: u32 = 40;

    /// A file that is being written is of no interest before it is closed.
    const WHAT: WatchFlags = WatchFlags::ATTRIB
        .union(WatchFlags::CLOSE_WRITE)
        .union(WatchFlags::CREATE)
        .union(WatchFlags::DELETE)
        .union(WatchFlags::MOVE)
        .union(WatchFlags::DELETE_SELF)
        .union(WatchFlags::MOVE_SELF)
        .union(WatchFlags::ONLYDIR);

    /// In the place of a name: all that are in the folder.
    const ANY: &str = "/";

    /// The names that matter in a folder.
    type Names = BTreeSet<OsString>;

    #[derive(Debug, Default)]
    pub(super) struct Folders {
        inotify: Option<AsyncFd<OwnedFd>>,
        /// By the number that the system gives a watch.
        watched: BTreeMap<i32, Names>,
        has_failed: bool,
    }

    impl Folders {
        /// Watches the folders in which something decides what these files say, and no others.
        pub(super) fn watch_around<'a, I: Iterator<Item = &'a Path>>(&mut self, files: impl Fn() -> I) {
            let mut before = None;
            // Until nothing has changed while the watches were set.
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
                    // It goes by itself with its folder.
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

        /// Waits until something happens to one of the names.
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

        /// Reads all that the system has to tell; says whether it matters.
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
                            // More has happened than the system could note.
                            (None, _) => event.wd() < 0,
                        };
                    }
                    Err(Errno::INTR) => {}
                    Err(_) => return is_touched,
                }
            }
        }
    }

    /// The same of a file, or of a folder and the links in it.
    fn all_hinges(file: &Path) -> Vec<(PathBuf, OsString)> {
        let mut all = hinges(file);
        let entries = std::fs::read_dir(file).into_iter().flatten().flatten();
        let is_link = |it: &std::fs::DirEntry| it.file_type().is_ok_and(|it| it.is_symlink());
        let links = entries.filter(is_link).take(super::MOST);
        all.extend(links.flat_map(|it| hinges(&it.path())));
        all
    }

    /// Where something decides what is found at a path: the name of each link on the way and of the file, with the
    /// folders in which they are; or the first name that is missing.
    pub(super) fn hinges(file: &Path) -> Vec<(PathBuf, OsString)> {
        let Ok(file) = std::path::absolute(file) else { return Vec::new() };
        let mut all = Vec::new();
        // Free of links.
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
    //! No way to be told.

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
