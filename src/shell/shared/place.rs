//! The socket of a hub, and the lock under which it is started and removed.
//!
//! Both are in the folder of the control sockets, which is closed to others. The name of the socket has a hash of the
//! key, so clients with equal keys meet.
//!
//! **A socket is removed only under the lock, and only if nobody listens**: a hub that ends, its guard, and the client
//! that starts the next hub cannot remove the socket of another hub. A lock counts only if its file is still at its path.

use std::{
    fs::{self, File, TryLockError},
    hash::{BuildHasher as _, RandomState},
    io::{self, Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use crate::{
    hub::PROTOCOL,
    shell::{
        control,
        os::{
            files::private_file,
            sockets::{self, Bound},
        },
    },
    util::fnv::fnv1a,
};

const SUFFIX: &str = ".sock";
const LOCK: &str = "lock";

/// The file with a random number for this machine, and the number of the last hub of a server elsewhere.
const MACHINE: &str = "machine";

/// Between two looks at a lock.
const POLL: Duration = Duration::from_millis(10);

/// Where a hub listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubPlace {
    socket: PathBuf,
}

/// What is at the path of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    Socket,
    /// Something that nobody may use, in words.
    Other(String),
}

/// The right to start a hub, or to remove its socket.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    /// Unlocked when it is closed.
    _file: File,
}

impl HubPlace {
    /// The place for a key, in a folder that exists afterwards.
    pub(super) fn of(folders: &[PathBuf], key: &[(String, String)]) -> Result<HubPlace, String> {
        let folder = control::make(folders)?;
        Ok(HubPlace { socket: folder.join(name(key)) })
    }

    /// The place with this socket.
    pub fn at(socket: PathBuf) -> HubPlace {
        HubPlace { socket }
    }

    /// The path of the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// A mark for the processes that hubs at this place start elsewhere, and the number of a new hub, which is greater
    /// than those of all earlier hubs. Hubs on other machines have other marks.
    pub(in crate::shell) fn new_mark(&self, now: u32) -> io::Result<(String, u32)> {
        let path = self.socket.with_file_name(MACHINE);
        let mut file = private_file().read(true).write(true).create(true).open(&path)?;
        file.lock()?;
        let mut text = String::new();
        // A file that cannot be read is replaced.
        file.read_to_string(&mut text).ok();
        let known =
            text.trim_end().split_once(' ').and_then(|(it, last)| Some((it, last.parse::<u32>().ok()?)));
        let (machine, number) = match known {
            Some((machine, last)) => (machine.to_owned(), now.max(last.saturating_add(1))),
            None => (format!("{:016x}", RandomState::new().hash_one(&self.socket)), now),
        };
        file.rewind()?;
        file.set_len(0)?;
        write!(file, "{machine} {number}")?;
        Ok((format!("{machine}-{:016x}", fnv1a(self.socket.as_os_str().as_encoded_bytes())), number))
    }

    fn lock_path(&self) -> PathBuf {
        self.socket.with_extension(LOCK)
    }

    /// What is at the path.
    pub(super) fn look(&self) -> Found {
        let is = |what: &str| Found::Other(format!("{} {what}", self.socket.display()));
        match fs::symlink_metadata(&self.socket) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Found::Nothing,
            Err(error) => is(&format!("cannot be checked: {error}")),
            Ok(meta) => match sockets::is_own(&meta) {
                Ok(()) => Found::Socket,
                Err(what) => is(&what),
            },
        }
    }

    /// Takes the lock, unless somebody else has it.
    pub(super) fn try_lock(&self) -> Result<Option<Lock>, String> {
        let path = self.lock_path();
        let fault = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let file = sockets::lock_file(&path).map_err(|error| fault(&error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(fault(&error)),
        }
        // Its last owner may have removed it meanwhile; then others lock another file.
        Ok(sockets::is_at(&file, &path).then_some(Lock { path, _file: file }))
    }

    /// Removes a socket without a listener, under the lock.
    pub(super) fn remove_dead(&self, _lock: &Lock) {
        if self.look() == Found::Socket && sockets::is_refused(&self.socket) {
            tracing::debug!(socket = %self.socket.display(), "removed the socket of a dead hub");
            // A user may have removed it.
            fs::remove_file(&self.socket).ok();
        }
    }

    /// Begins to listen. The caller's client has the lock.
    pub(super) fn listen(&self) -> io::Result<Bound> {
        sockets::bind(&self.socket)
    }

    /// Removes socket and lock after the end of a hub. If somebody starts a hub here, they belong to that hub.
    pub fn retire(&self, patience: Duration) {
        let mut left = patience;
        loop {
            match self.try_lock() {
                Ok(Some(lock)) => {
                    self.remove_dead(&lock);
                    if self.look() == Found::Nothing {
                        // Under the lock, so that nobody else can lock this file.
                        fs::remove_file(&lock.path).ok();
                    }
                    return;
                }
                Ok(None) if left.is_zero() => return,
                Ok(None) => {
                    thread::sleep(POLL);
                    left = left.saturating_sub(POLL);
                }
                Err(_) => return,
            }
        }
    }
}

/// The name of the socket for a key. Shorter than that of a control socket.
fn name(key: &[(String, String)]) -> String {
    let mut text = Vec::new();
    for (name, value) in key {
        text.extend_from_slice(name.as_bytes());
        text.push(0);
        text.extend_from_slice(value.as_bytes());
        text.push(0);
    }
    format!("hub-{PROTOCOL}-{:016x}{SUFFIX}", fnv1a(&text))
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::{
        fs::{DirBuilderExt as _, PermissionsExt as _, symlink},
        net,
    };

    use rustix::process::geteuid;

    use super::*;

    fn key(value: &str) -> Vec<(String, String)> {
        vec![("folder".to_owned(), value.to_owned())]
    }

    fn place(root: &Path) -> HubPlace {
        HubPlace::of(&[root.join("lspool")], &key("/a")).unwrap()
    }

    #[test]
    fn equal_keys_have_one_place_in_a_private_folder() {
        let root = tempfile::tempdir().unwrap();
        let folders = [root.path().join("lspool")];
        let of = |value: &str| HubPlace::of(&folders, &key(value)).unwrap();
        assert_eq!(of("/a"), of("/a"));
        assert_ne!(of("/a"), of("/b"));
        assert!(of("/a").socket().starts_with(&folders[0]));
        fs::set_permissions(&folders[0], fs::Permissions::from_mode(0o755)).unwrap();
        assert!(HubPlace::of(&folders, &key("/a")).unwrap_err().contains("has mode 755"));
        // What is said of a socket's length holds for hubs.
        assert!(name(&key("/a")).len() <= "4294967295-18446744073709551615.sock".len());
    }

    #[test]
    fn only_own_sockets_are_used() {
        let root = tempfile::tempdir().unwrap();
        let place = place(root.path());
        assert_eq!(place.look(), Found::Nothing);
        let other = root.path().join("other.sock");
        let _other = net::UnixListener::bind(&other).unwrap();
        symlink(&other, place.socket()).unwrap();
        assert!(matches!(place.look(), Found::Other(why) if why.ends_with("is not a socket")));
        fs::remove_file(place.socket()).unwrap();
        fs::DirBuilder::new().mode(0o700).create(place.socket()).unwrap();
        assert!(matches!(place.look(), Found::Other(_)));
        fs::remove_dir(place.socket()).unwrap();
        let _socket = place.listen().unwrap();
        assert_eq!(place.look(), Found::Socket);
        if geteuid().is_root() {
            std::os::unix::fs::lchown(place.socket(), Some(12345), None).unwrap();
            assert!(matches!(place.look(), Found::Other(why) if why.ends_with("belongs to user 12345")));
        }
    }

    #[test]
    fn one_at_a_time_has_the_lock() {
        let root = tempfile::tempdir().unwrap();
        let place = place(root.path());
        let first = place.try_lock().unwrap().unwrap();
        assert!(place.try_lock().unwrap().is_none());
        // Whoever waits with the old file open must not believe that it has the lock.
        let waits = File::open(place.lock_path()).unwrap();
        fs::remove_file(place.lock_path()).unwrap();
        drop(first);
        let second = place.try_lock().unwrap().unwrap();
        waits.try_lock().unwrap();
        assert!(place.try_lock().unwrap().is_none());
        drop(second);
        symlink("/nowhere", place.lock_path().with_extension("x")).unwrap();
        fs::rename(place.lock_path().with_extension("x"), place.lock_path()).unwrap();
        assert!(place.try_lock().is_err());
    }

    #[test]
    fn end_of_a_hub_removes_its_socket_and_no_other() {
        let root = tempfile::tempdir().unwrap();
        let place = place(root.path());
        let files = || fs::read_dir(place.socket().parent().unwrap()).unwrap().count();
        let lock = place.try_lock().unwrap().unwrap();
        let socket = place.listen().unwrap();
        place.retire(Duration::ZERO);
        assert_eq!(files(), 2, "somebody starts a hub");
        drop(lock);
        place.retire(Duration::ZERO);
        assert_eq!(files(), 2, "a hub listens");
        drop(socket);
        place.retire(Duration::ZERO);
        assert_eq!(files(), 0);
        symlink("/nowhere", place.socket()).unwrap();
        place.retire(Duration::ZERO);
        assert!(fs::symlink_metadata(place.socket()).is_ok(), "it is not a hub's");
    }
}
