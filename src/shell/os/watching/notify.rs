//! Watches folders with what the system has: FSEvents, or `ReadDirectoryChangesW`.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    future::pending,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

use super::{ANY, Names, wanted};

/// What the system's thread needs.
#[derive(Debug, Default)]
struct Shared {
    /// The names in all folders, in lower case: the system may spell names and folders in another way.
    names: Mutex<Names>,
    touched: Notify,
}

#[derive(Debug, Default)]
pub(crate) struct WatchedFolders {
    watcher: Option<RecommendedWatcher>,
    shared: Arc<Shared>,
    watched: BTreeMap<PathBuf, Names>,
    has_failed: bool,
}

impl WatchedFolders {
    /// Watches only the folders that decide about the content of these files.
    pub(crate) fn watch_around<'a, I: Iterator<Item = &'a Path>>(&mut self, files: impl Fn() -> I) {
        // A folder may have been replaced by another one of its name, so all are watched again.
        if let Some(watcher) = &mut self.watcher {
            for folder in std::mem::take(&mut self.watched).into_keys() {
                // It may be gone with its folder.
                watcher.unwatch(&folder).ok();
            }
        }
        // Repeats until nothing has changed while the watches were set.
        for _ in 0..5 {
            let wanted = wanted(files());
            if wanted == self.watched {
                return;
            }
            if let Err(error) = self.watch(wanted)
                && !std::mem::replace(&mut self.has_failed, true)
            {
                tracing::warn!(%error, "could not watch a folder of configuration files");
            }
        }
    }

    /// Fails with the last folder that cannot be watched.
    fn watch(&mut self, wanted: BTreeMap<PathBuf, Names>) -> notify::Result<()> {
        *self.shared.names.lock().unwrap_or_else(PoisonError::into_inner) =
            wanted.values().flatten().map(|it| it.to_ascii_lowercase()).collect();
        let watcher = match &mut self.watcher {
            Some(watcher) => watcher,
            None => {
                let shared = self.shared.clone();
                let told = move |event| shared.note(event);
                self.watcher.insert(notify::recommended_watcher(told)?)
            }
        };
        for folder in self.watched.keys().filter(|it| !wanted.contains_key(*it)) {
            // It may be gone with its folder.
            watcher.unwatch(folder).ok();
        }
        let new = wanted.keys().filter(|it| !self.watched.contains_key(*it));
        let result =
            new.fold(Ok(()), |result, folder| watcher.watch(folder, RecursiveMode::NonRecursive).and(result));
        self.watched = wanted;
        result
    }

    /// Waits until one of the names changes.
    pub(crate) async fn touched(&self) {
        match &self.watcher {
            Some(_) => self.shared.touched.notified().await,
            None => pending().await,
        }
    }
}

impl Shared {
    fn note(&self, event: notify::Result<Event>) {
        let matters = match event {
            // More events than the system could queue.
            Ok(event) if event.need_rescan() => true,
            Ok(Event { kind: EventKind::Access(_), .. }) => false,
            Ok(event) => {
                let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
                let is_any = names.contains(OsStr::new(ANY));
                is_any
                    || event
                        .paths
                        .iter()
                        .any(|it| it.file_name().is_none_or(|it| names.contains(&it.to_ascii_lowercase())))
            }
            Err(_) => true,
        };
        if matters {
            // A look that is about to begin counts, too.
            self.touched.notify_one();
        }
    }
}
