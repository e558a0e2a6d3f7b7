//! Watches folders with inotify.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
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

use super::{ANY, Names, wanted};

/// The end of a write counts, not each write.
const WHAT: WatchFlags = WatchFlags::ATTRIB
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

#[derive(Debug, Default)]
pub(crate) struct WatchedFolders {
    inotify: Option<AsyncFd<OwnedFd>>,
    /// By the system's number of a watch.
    watched: BTreeMap<i32, Names>,
    has_failed: bool,
}

impl WatchedFolders {
    /// Watches only the folders that decide about the content of these files.
    pub(crate) fn watch_around<'a, I: Iterator<Item = &'a Path>>(&mut self, files: impl Fn() -> I) {
        let mut before = None;
        // Repeats until nothing has changed while the watches were set.
        for _ in 0..5 {
            let wanted = wanted(files());
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
    pub(crate) async fn touched(&self) {
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
                        (Some(names), Some(name)) => names.contains(name) || names.contains(OsStr::new(ANY)),
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
