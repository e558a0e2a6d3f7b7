//! Stored teams: one private file for each, owned by one lspool at a time.
//!
//! The files are in `$XDG_STATE_HOME/lspool/teams`, in a folder for their workspace. The owner of a team holds a lock
//! on a file beside it. The system releases the lock when lspool ends in any way.

use std::{
    collections::BTreeMap,
    fs::{self, TryLockError},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use tokio::task::spawn_local;

use super::{
    goals::NO_STATE,
    inbox::Events,
    os::files::{canonicalize, is_at, private_file, sync_folder},
    private::{self, Files},
};
use crate::{
    agents::team::is_name,
    core::event::{Event, StoredTeam, TeamFault},
    util::fnv::fnv1a,
};

/// The suffix of a team's file.
const ENDING: &str = ".json";

/// The teams that this lspool owns.
#[derive(Debug, Default)]
struct Teams {
    locks: BTreeMap<PathBuf, fs::File>,
}

/// The store of teams.
#[derive(Debug)]
pub(super) struct Store {
    /// The folder for the user's state.
    state: Option<PathBuf>,
    teams: Arc<Mutex<Teams>>,
    /// A separate queue, so that a large team delays neither transcripts nor mode files.
    files: Files,
}

impl Store {
    /// An empty store.
    pub(super) fn new(state: Option<PathBuf>) -> Store {
        Store { state, teams: Arc::default(), files: Files::default() }
    }

    /// Answers [`Effect::LoadTeams`](crate::core::event::Effect::LoadTeams).
    pub(super) fn load(&self, events: &Events, folders: &[PathBuf]) {
        let (place, teams) = (self.place(folders), Arc::clone(&self.teams));
        let loading = self.files.after(move || match (place(), teams.lock()) {
            (Ok(place), Ok(mut teams)) => teams.load(&place),
            (Err(_), _) | (_, Err(_)) => Vec::new(),
        });
        let events = events.clone();
        spawn_local(async move {
            let found = loading.await.and_then(|it| it).unwrap_or_default();
            events.tell(Event::TeamsLoaded(found));
        });
    }

    /// Answers [`Effect::WriteTeam`](crate::core::event::Effect::WriteTeam): its content, and whether it is new.
    pub(super) fn write(
        &self,
        events: &Events,
        folders: &[PathBuf],
        (number, team): (u64, String),
        (content, is_new): (Bytes, bool),
    ) {
        let (place, teams) = (self.place(folders), Arc::clone(&self.teams));
        let internal = |error: String| TeamFault::Failed(format!("internal error: {error}"));
        let name = team.clone();
        let writing = self.files.after(move || {
            let mut teams = teams.lock().map_err(|error| internal(error.to_string()))?;
            teams.write(&place()?, &name, &content, is_new)
        });
        let events = events.clone();
        spawn_local(async move {
            let written = match writing.await.and_then(|it| it) {
                Ok(written) => written,
                Err(error) => Err(internal(error.to_string())),
            };
            events.tell(Event::TeamWritten { number, team, written });
        });
    }

    /// Carries out [`Effect::RemoveTeam`](crate::core::event::Effect::RemoveTeam).
    pub(super) fn remove(&self, folders: &[PathBuf], team: String) {
        let (place, teams) = (self.place(folders), Arc::clone(&self.teams));
        self.files.after(move || {
            if let (Ok(place), Ok(mut teams)) = (place(), teams.lock()) {
                teams.remove(&place, &team);
            }
        });
    }

    /// Finds the folder of the teams of a workspace. The disk may be slow, so a thread runs the result.
    fn place(&self, folders: &[PathBuf]) -> impl FnOnce() -> Result<PathBuf, TeamFault> + Send + use<> {
        let (state, first) = (self.state.clone(), folders.first().cloned());
        move || place(state.as_deref(), first.as_deref())
    }
}

/// The folder of the teams of a workspace.
fn place(state: Option<&Path>, first: Option<&Path>) -> Result<PathBuf, TeamFault> {
    let none = || TeamFault::Failed(format!("no folder for it: {NO_STATE}"));
    let root = state.ok_or_else(none)?.join("lspool").join("teams");
    let Some(first) = first else { return Ok(root.join("none")) };
    Ok(root.join(folder_name(first)))
}

/// What a folder is called that keeps things of a workspace.
pub(super) fn folder_name(workspace: &Path) -> String {
    let workspace = canonicalize(workspace).unwrap_or_else(|_| workspace.to_owned());
    let number = fnv1a(workspace.as_os_str().as_encoded_bytes());
    let plain = |it: char| if it.is_ascii_alphanumeric() || matches!(it, '-' | '_') { it } else { '_' };
    let name: String =
        workspace.file_name().unwrap_or_default().to_string_lossy().chars().map(plain).take(40).collect();
    format!("{name}-{number:016x}")
}

fn failed(error: &io::Error) -> TeamFault {
    TeamFault::Failed(format!("cannot read its file: {error}"))
}

impl Teams {
    /// Loads all teams of a folder. This lspool owns them then.
    fn load(&mut self, folder: &Path) -> Vec<StoredTeam> {
        let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
        let name = |it: fs::DirEntry| it.file_name().to_str()?.strip_suffix(ENDING).map(str::to_owned);
        let mut names: Vec<String> =
            entries.flatten().filter_map(name).filter(|it| is_name(it).is_ok()).collect();
        names.sort();
        let team = |name: String| StoredTeam { state: self.take(folder, &name), name };
        names.into_iter().map(team).collect()
    }

    fn take(&mut self, folder: &Path, name: &str) -> Result<Bytes, TeamFault> {
        self.lock(folder, name)?;
        fs::read(file(folder, name)).map(Bytes::from).map_err(|error| failed(&error))
    }

    /// Stores a team, whole or not at all.
    fn write(&mut self, folder: &Path, name: &str, content: &[u8], is_new: bool) -> Result<(), TeamFault> {
        private::make(folder).map_err(|error| failed(&error))?;
        self.lock(folder, name)?;
        let file = file(folder, name);
        if is_new && file.exists() {
            return Err(TeamFault::Failed("another lspool has a team of that name".to_owned()));
        }
        let written = || {
            private::replace(&file, |out| {
                out.write_all(content)?;
                out.sync_all()
            })?;
            sync_folder(folder)
        };
        written().map_err(|error| failed(&error))
    }

    /// Removes the file of a team.
    fn remove(&mut self, folder: &Path, name: &str) {
        if self.lock(folder, name).is_err() {
            return;
        }
        let lock = lock_file(folder, name);
        for path in [file(folder, name), lock.clone()] {
            if let Err(error) = fs::remove_file(&path)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(%error, file = %path.display(), "could not remove");
            }
        }
        self.locks.remove(&lock);
    }

    fn lock(&mut self, folder: &Path, name: &str) -> Result<(), TeamFault> {
        let path = lock_file(folder, name);
        if self.locks.contains_key(&path) {
            return Ok(());
        }
        loop {
            let open = || private_file().read(true).write(true).create(true).truncate(false).open(&path);
            let mut lock = open().map_err(|error| failed(&error))?;
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::Error(error)) => return Err(failed(&error)),
                Err(TryLockError::WouldBlock) => {
                    // Some systems let only its owner read it.
                    let mut holder = String::new();
                    return Err(TeamFault::Busy(match lock.read_to_string(&mut holder) {
                        Ok(_) => format!("process {}", holder.trim()),
                        Err(_) => "another process".to_owned(),
                    }));
                }
            }
            // Its owner may have removed it.
            if is_at(&lock, &path) {
                let mut note = || {
                    lock.set_len(0)?;
                    lock.write_all(std::process::id().to_string().as_bytes())
                };
                // Only for people.
                note().ok();
                self.locks.insert(path, lock);
                return Ok(());
            }
        }
    }
}

fn file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}{ENDING}"))
}

fn lock_file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!(".{name}.lock"))
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    use std::os::unix::fs::PermissionsExt as _;

    use tokio::runtime::LocalOptions;

    use super::*;
    use crate::shell::inbox::inbox;

    #[cfg(unix)]
    #[test]
    fn team_folder_is_private_and_locked_by_one_lspool() {
        let root = tempfile::tempdir().unwrap();
        let workspace = root.path().join("w s");
        let folder = place(Some(root.path()), Some(&workspace)).unwrap();
        assert!(folder.file_name().unwrap().to_string_lossy().starts_with("w_s-"));
        let (mut one, mut other) = (Teams::default(), Teams::default());
        assert_eq!(one.load(&folder), []);
        one.write(&folder, "t", b"1", true).unwrap();
        one.write(&folder, "t", b"2", false).unwrap();
        let busy = Err(TeamFault::Busy(format!("process {}", std::process::id())));
        assert_eq!(other.load(&folder), [StoredTeam { name: "t".to_owned(), state: busy.clone() }]);
        assert_eq!(other.write(&folder, "t", b"3", true), busy.map(drop));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&file(&folder, "t"))), (0o700, 0o600));
        drop(one);
        let state = Ok(Bytes::from_static(b"2"));
        assert_eq!(other.load(&folder), [StoredTeam { name: "t".to_owned(), state }]);
        let again = other.write(&folder, "t", b"3", true).unwrap_err();
        assert!(again.to_string().contains("of that name"), "{again}");
        other.remove(&folder, "t");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "nothing is left");
        let mut third = Teams::default();
        third.write(&folder, "t", b"4", true).unwrap();
        assert!(place(None, Some(&workspace)).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn team_write_does_not_block_on_workspace_path() {
        let root = tempfile::tempdir().unwrap();
        let link = root.path().join("link");
        for folder in ["before", "after"] {
            fs::create_dir(root.path().join(folder)).unwrap();
        }
        std::os::unix::fs::symlink(root.path().join("before"), &link).unwrap();
        let (events, _inbox) = inbox(0);
        let runtime = tokio::runtime::Builder::new_current_thread().build_local(LocalOptions::default());
        runtime.unwrap().block_on(async {
            let store = Store::new(Some(root.path().to_owned()));
            let folders = vec![link.clone()];
            store.write(&events, &folders, (1, "t".to_owned()), (Bytes::from_static(b"1"), true));
            // A thread resolves the path, because it may wait.
            fs::remove_file(&link).unwrap();
            std::os::unix::fs::symlink(root.path().join("after"), &link).unwrap();
            store.files.after(|| ()).await.unwrap().unwrap();
        });
        let place = place(Some(root.path()), Some(&root.path().join("after"))).unwrap();
        assert_eq!(fs::read(file(&place, "t")).unwrap(), b"1");
    }

    #[test]
    fn team_folder_path_is_stable_across_versions() {
        let place = place(Some(Path::new("/state")), Some(Path::new("/no such/work space"))).unwrap();
        assert_eq!(place, Path::new("/state/lspool/teams/work_space-9724cab9a6696d6e"));
    }
}
