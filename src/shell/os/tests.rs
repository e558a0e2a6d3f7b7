//! What every system does with files.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
};

use super::{
    fault::{Access, Kind, Why},
    files::{canonicalize, is_at, is_executable, is_private, private_file, private_folder, rest_of},
    folder::{Folder, is_name, make_like},
};

struct Ground {
    folder: Folder,
    path: PathBuf,
    _root: tempfile::TempDir,
}

impl Ground {
    fn new() -> Ground {
        let root = tempfile::tempdir().unwrap();
        let path = canonicalize(root.path()).unwrap();
        Ground { folder: Folder::open(&path).unwrap(), path, _root: root }
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path.join(name), text).unwrap();
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path.join(name)).unwrap()
    }
}

fn name(it: &str) -> &OsStr {
    OsStr::new(it)
}

#[test]
fn folder_finds_makes_and_lists_its_names() {
    let it = Ground::new();
    it.write("a ä.rs", "one");
    it.folder.make(name("inner")).unwrap();
    assert_eq!(it.folder.make(name("inner")).unwrap_err().why(), Why::Exists);
    let inner = it.folder.enter(name("inner")).unwrap();
    let made = it.folder.stat(name("inner")).unwrap();
    assert_eq!((made.kind(), made.identity()), (Kind::Folder, inner.identity().unwrap()));
    assert_ne!(inner.identity().unwrap(), it.folder.identity().unwrap());
    inner.create(name("x"), Access::Usual).unwrap().write_all(b"two").unwrap();
    assert_eq!(it.text("inner/x"), "two");
    assert_eq!(inner.create(name("x"), Access::Private).unwrap_err().why(), Why::Exists);
    let listed = it.folder.to_list(None).unwrap();
    let mut entries: Vec<_> = listed.entries().unwrap().map(Result::unwrap).collect();
    entries.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(entries, [("a ä.rs".into(), Kind::File), ("inner".into(), Kind::Folder)]);
    assert_eq!(it.folder.to_list(Some(name("inner"))).unwrap().entries().unwrap().count(), 1);
    assert_eq!(it.folder.stat(name("missing")).unwrap_err().why(), Why::Missing);
    assert_eq!(it.folder.enter(name("missing")).unwrap_err().why(), Why::Missing);
    assert_eq!(it.folder.enter(name("a ä.rs")).unwrap_err().why(), Why::NotFolder);
    assert_eq!(Folder::open(&it.path.join("a ä.rs")).unwrap_err().why(), Why::NotFolder);
    listed.sync().unwrap();
}

#[test]
fn only_plain_files_are_opened() {
    let it = Ground::new();
    it.write("a", "one");
    it.folder.make(name("inner")).unwrap();
    let (mut file, stat) = it.folder.open_plain(name("a")).unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    drop(file);
    assert_eq!((text.as_str(), stat.size(), stat.kind()), ("one", 3, Kind::File));
    assert_eq!(stat.version(), it.folder.stat(name("a")).unwrap().version());
    assert_eq!(it.folder.open_plain(name("inner")).unwrap_err().why(), Why::IsFolder);
    assert_eq!(it.folder.open_plain(name("b")).unwrap_err().why(), Why::Missing);
    it.write("b", "other");
    it.folder.rename(name("b"), &it.folder, name("a")).unwrap();
    assert_ne!(stat.version(), it.folder.stat(name("a")).unwrap().version());
    assert_ne!(stat.identity(), it.folder.stat(name("a")).unwrap().identity());
}

#[test]
fn names_are_changed_with_or_without_replacing() {
    let it = Ground::new();
    it.write("a", "a");
    it.write("b", "b");
    it.folder.make(name("inner")).unwrap();
    let inner = it.folder.enter(name("inner")).unwrap();
    assert_eq!(it.folder.rename_new(name("a"), &it.folder, name("b")).unwrap_err().why(), Why::Exists);
    assert_eq!((it.text("a"), it.text("b")), ("a".to_owned(), "b".to_owned()));
    it.folder.rename_new(name("a"), &inner, name("c")).unwrap();
    it.folder.link(name("b"), name("second")).unwrap();
    let same = |one: &str, other: &str| {
        it.folder.stat(name(one)).unwrap().identity() == it.folder.stat(name(other)).unwrap().identity()
    };
    assert!(same("b", "second"));
    inner.rename(name("c"), &it.folder, name("b")).unwrap();
    assert_eq!((it.text("b"), it.text("second")), ("a".to_owned(), "b".to_owned()));
    match it.folder.exchange(name("b"), name("second")) {
        Ok(()) => assert_eq!((it.text("b"), it.text("second")), ("b".to_owned(), "a".to_owned())),
        Err(fault) => assert_eq!(fault.why(), Why::Unsupported),
    }
    drop(inner);
    it.folder.rename_new(name("inner"), &it.folder, name("moved")).unwrap();
    assert_eq!(it.folder.stat(name("moved")).unwrap().kind(), Kind::Folder);
    it.folder.remove_folder(name("moved")).unwrap();
    it.folder.remove_file(name("b")).unwrap();
    it.folder.remove_file(name("second")).unwrap();
    assert_eq!(fs::read_dir(&it.path).unwrap().count(), 0);
}

#[test]
fn file_that_may_not_be_written_is_known() {
    let it = Ground::new();
    it.write("a", "one");
    assert!(it.folder.is_writable(name("a")));
    let stat = it.folder.stat(name("a")).unwrap();
    make_like(&it.folder.create(name("b"), Access::Private).unwrap(), &stat).unwrap();
    let permissions = |is_read_only| {
        let mut it = fs::metadata(it.path.join("a")).unwrap().permissions();
        it.set_readonly(is_read_only);
        it
    };
    fs::set_permissions(it.path.join("a"), permissions(true)).unwrap();
    let may_all = File::options().write(true).open(it.path.join("a")).is_ok();
    assert_eq!(it.folder.is_writable(name("a")), may_all);
    #[cfg(windows)]
    fs::set_permissions(it.path.join("a"), permissions(false)).unwrap();
}

#[test]
fn open_file_is_known_by_its_path() {
    let it = Ground::new();
    it.write("a", "one");
    let file = File::open(it.path.join("a")).unwrap();
    assert!(is_at(&file, &it.path.join("a")));
    it.write("b", "one");
    assert!(!is_at(&file, &it.path.join("b")) && !is_at(&file, &it.path.join("c")));
    fs::rename(it.path.join("a"), it.path.join("c")).unwrap();
    fs::rename(it.path.join("b"), it.path.join("a")).unwrap();
    assert!(is_at(&file, &it.path.join("c")) && !is_at(&file, &it.path.join("a")));
}

#[test]
fn locked_file_cannot_be_locked_twice() {
    let it = Ground::new();
    let open =
        || private_file().read(true).write(true).create(true).truncate(false).open(it.path.join("lock"));
    let first = open().unwrap();
    first.try_lock().unwrap();
    assert!(open().unwrap().try_lock().is_err());
    drop(first);
    open().unwrap().try_lock().unwrap();
}

#[test]
fn paths_lead_below_folders_by_whole_names() {
    let it = Ground::new();
    let inner = it.path.join("a").join("b");
    assert_eq!(rest_of(&inner, &it.path).as_deref(), Some(Path::new("a/b")));
    assert_eq!(rest_of(&it.path, &it.path).as_deref(), Some(Path::new("")));
    assert_eq!(rest_of(&it.path.join("ab"), &it.path.join("a")), None);
    assert!(is_name(name("a ä.rs")) && is_name(name(".gitignore")));
}

#[test]
fn private_folder_is_closed_to_others() {
    let it = Ground::new();
    private_folder().create(it.path.join("own")).unwrap();
    let is_in_profile = std::env::home_dir()
        .is_some_and(|home| canonicalize(&home).is_ok_and(|home| rest_of(&it.path, &home).is_some()));
    assert_eq!(is_private(&it.path.join("own")), cfg!(unix) || is_in_profile);
    assert!(!is_executable(&it.path.join("own")));
}
