//! In which folder a process starts. The one it should have may have been removed, or removed and made again, since
//! lspool began: whoever is in a folder that was removed is not in the new one of that name.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use crate::core::event::{Displaced, Launch};

/// The folders in which processes start.
#[derive(Debug)]
pub(super) struct Folders {
    /// Where lspool itself was started.
    own: PathBuf,
    home: PathBuf,
    /// Those in which a process has started.
    known: Mutex<BTreeSet<PathBuf>>,
}

impl Folders {
    pub(super) fn new() -> Folders {
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
        let own = std::env::current_dir().ok().or_else(|| variable("PWD"));
        Folders {
            own: own.unwrap_or_default(),
            home: variable("HOME").unwrap_or_else(|| "/".into()),
            known: Mutex::default(),
        }
    }

    /// Where a server is started, if not where lspool is, and whether that is not where it should be. A folder that never
    /// was there is a mistake, which the start tells.
    pub(super) fn choose(&self, launch: &Launch) -> (Option<PathBuf>, Option<Displaced>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = match &launch.cwd {
            // Of a folder that was removed there is no name.
            None if std::env::current_dir().is_ok() => return (None, None),
            None => &self.own,
            Some(cwd) => {
                if cwd.is_dir() {
                    known.insert(cwd.clone());
                } else if !known.contains(cwd) {
                    return (Some(cwd.clone()), None);
                }
                cwd
            }
        };
        if wanted.is_dir() {
            return (Some(wanted.clone()), None);
        }
        let instead = if self.home.is_dir() { self.home.clone() } else { Path::new("/").to_owned() };
        let shown = |it: &Path| it.to_string_lossy().into_owned();
        let displaced = Displaced { missing: shown(wanted), instead: shown(&instead) };
        (Some(instead), Some(displaced))
    }
}
