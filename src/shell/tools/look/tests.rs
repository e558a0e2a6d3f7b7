//! Looks at real files.

#[cfg(unix)]
use std::os::unix::fs::{PermissionsExt as _, symlink};

use Unreadable::{Binary, Folder, Missing, Outside};

use super::*;
use crate::{
    builtin_tools::lsp::{EditorDocument, EditorDocuments, EditorId, FileChange, hash_of},
    shell::tools::workspace::Known,
};

struct Disk {
    folder: tempfile::TempDir,
    known: Known,
    stamps: Stamps,
    editors: Editors,
}

impl Disk {
    fn new() -> Disk {
        let folder = tempfile::tempdir().unwrap();
        Disk { folder, known: Known::default(), stamps: Stamps::default(), editors: Editors::default() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn look(&mut self, look: Look) -> Seen {
        let folders = vec![self.path("")];
        let workspace = Workspace::open(&folders, &self.known).unwrap();
        let endings = vec![".py".to_owned(), "setup.cfg".to_owned()];
        seen(&Look { folders, endings, ..look }, &workspace, &mut self.stamps, &self.editors)
    }

    fn names(&self, paths: &[PathBuf]) -> Vec<String> {
        let root = self.path("");
        paths.iter().map(|it| it.strip_prefix(&root).unwrap().to_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn look_reports_each_change_once() {
    let mut disk = Disk::new();
    for name in ["a.py", "b/c.py", "setup.cfg", "d.txt", ".gitignore"] {
        disk.write(name, "one\n");
    }
    let first = disk.look(Look::default());
    assert_eq!((first.n_files, first.created.len(), first.changed.len()), (3, 0, 0));
    // Equal in size, and within the same moment as far as their times show.
    disk.write("a.py", "two\n");
    disk.write("new.py", "three\n");
    fs::remove_file(disk.path("b/c.py")).unwrap();
    let open = vec![disk.path("a.py")];
    let second = disk.look(Look { open: open.clone(), ..Look::default() });
    assert_eq!(disk.names(&second.changed), ["a.py"]);
    assert_eq!(disk.names(&second.created), ["new.py"]);
    assert_eq!(disk.names(&second.removed), ["b/c.py"]);
    let texts: Vec<_> = second.texts.iter().map(|(_, it)| it.clone().unwrap()).collect();
    assert_eq!(texts, ["two\n", "three\n"]);
    let third = disk.look(Look { open, ..Look::default() });
    assert_eq!((third.changed.len(), third.created.len(), third.removed.len()), (0, 0, 0));
    assert!(third.texts.is_empty());
}

#[cfg(unix)]
#[test]
fn look_reads_only_text_of_workspace() {
    let mut disk = Disk::new();
    disk.write("a.py", "\u{feff}x = 1\n");
    disk.write("b.py", "a\0b");
    fs::write(disk.path("c.py"), b"caf\xe9").unwrap();
    symlink("/etc/passwd", disk.path("d.py")).unwrap();
    let read: Vec<PathBuf> =
        ["a.py", "b.py", "c.py", "d.py", "e.py", "../x.py", ""].iter().map(|it| disk.path(it)).collect();
    let seen = disk.look(Look { read, ..Look::default() });
    let texts: Vec<_> = seen.texts.into_iter().map(|(_, it)| it).collect();
    assert_eq!(texts[0], Ok("x = 1\n".to_owned()));
    assert_eq!(texts[1..5], [Err(Binary), Err(Binary), Err(Outside), Err(Missing)]);
    assert!(matches!(texts[5], Err(Outside | Missing)), "{texts:?}");
    assert_eq!(texts[6], Err(Folder));
}

#[cfg(unix)]
#[test]
fn open_files_behind_links_are_seen_to_change() {
    let mut disk = Disk::new();
    disk.write("real/a.py", "one\n");
    disk.write("real/b.py", "bee\n");
    symlink("real", disk.path("folder")).unwrap();
    symlink("real/a.py", disk.path("link.py")).unwrap();
    let open = vec![disk.path("link.py"), disk.path("folder/a.py")];
    let texts = |disk: &mut Disk| {
        let seen = disk.look(Look { open: open.clone(), ..Look::default() });
        let texts = seen.texts.into_iter().filter(|(it, _)| open.contains(it));
        texts.map(|(_, it)| it).collect::<Vec<_>>()
    };
    let both = |text: &str| vec![Ok(text.to_owned()), Ok(text.to_owned())];
    assert_eq!(texts(&mut disk), both("one\n"));
    assert_eq!(texts(&mut disk), []);
    // Equal in size, and within the same moment.
    disk.write("real/a.py", "two\n");
    assert_eq!(texts(&mut disk), both("two\n"));
    let lead_to = |disk: &Disk, target: &str| {
        fs::remove_file(disk.path("link.py")).unwrap();
        symlink(target, disk.path("link.py")).unwrap();
    };
    lead_to(&disk, "real/b.py");
    assert_eq!(texts(&mut disk), [Ok("bee\n".to_owned())]);
    lead_to(&disk, "/etc/passwd");
    assert_eq!(texts(&mut disk), [Err(Outside)]);
}

#[test]
fn files_that_hold_word_and_cannot_be_read_are_reported() {
    let mut disk = Disk::new();
    disk.write("a.py", "use foo\n");
    let large = |word: &str| format!("{}\n{word}\n", "#\n".repeat((5 << 20) / 2));
    disk.write("large.py", &large("foo"));
    disk.write("large_without.py", &large("bar"));
    let utf16 = |text: &str| -> Vec<u8> {
        [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
    };
    fs::write(disk.path("utf16.py"), utf16("use foo\n")).unwrap();
    fs::write(disk.path("utf16_without.py"), utf16("use bar\n")).unwrap();
    fs::write(disk.path("latin.py"), b"use foo # caf\xe9\n").unwrap();
    fs::write(disk.path("zero.py"), b"use foo\0\n").unwrap();
    let mut look = |text: &str, matching| {
        let word = Word { text: text.to_owned(), matching, endings: vec![".py".to_owned()] };
        let seen = disk.look(Look { word: Some(word), ..Look::default() });
        let unread: Vec<PathBuf> = seen.unread.into_iter().map(|it| it.0).collect();
        let hits: Vec<PathBuf> = seen.hits.into_iter().map(|it| it.file).collect();
        (disk.names(&hits), disk.names(&unread))
    };
    let unread = ["large.py", "utf16.py", "zero.py"].map(ToOwned::to_owned).to_vec();
    // The core finds out itself that a file with a hit is not UTF-8.
    let hits = ["a.py", "latin.py"].map(ToOwned::to_owned).to_vec();
    assert_eq!(look("foo", WordMatch::Whole), (hits.clone(), unread.clone()));
    assert_eq!(look("FOO", WordMatch::Part), (hits, unread));
    assert_eq!(look("caf\u{e9}", WordMatch::Whole).1, ["latin.py"]);
}

#[cfg(unix)]
#[test]
fn files_and_folders_without_permission_are_reported() {
    let mut disk = Disk::new();
    for name in ["a.py", "denied.py", "closed/b.py"] {
        disk.write(name, "use foo\n");
    }
    let forbid = |name: &str, mode| {
        fs::set_permissions(disk.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    forbid("denied.py", 0);
    forbid("closed", 0);
    if fs::read(disk.path("denied.py")).is_ok() {
        // Nothing is forbidden to root.
        return;
    }
    let word = Word { text: "foo".to_owned(), matching: WordMatch::Whole, endings: vec![".py".to_owned()] };
    let seen = disk.look(Look { word: Some(word), ..Look::default() });
    assert_eq!(seen.unread, [(disk.path("denied.py"), Unreadable::Denied)]);
    assert_eq!(seen.closed, [disk.path("closed")]);
    fs::set_permissions(disk.path("closed"), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn limit_of_files_holds_for_all_folders_together() {
    let disk = Disk::new();
    for name in ["one/a.py", "one/b.py", "two/c.py", "two/d.py"] {
        disk.write(name, "x\n");
    }
    let folders = vec![disk.path("one"), disk.path("two"), disk.path("")];
    let workspace = Workspace::open(&folders, &disk.known).unwrap();
    let count = |most| {
        let look = Look { folders: folders.clone(), endings: vec![".py".to_owned()], ..Look::default() };
        let seen = seen_of(&look, &workspace, &mut Stamps::default(), (&Editors::default(), most));
        (seen.n_files, seen.partial.is_some())
    };
    assert_eq!([count(2), count(3), count(4)], [(2, true), (3, true), (4, false)]);
}

#[cfg(unix)]
#[test]
fn paths_that_lead_into_workspace_through_links_above_it_are_resolved() {
    let mut disk = Disk::new();
    disk.write("sub/a.py", "x\n");
    let above = tempfile::tempdir().unwrap();
    let link = above.path().join("link");
    symlink(disk.path(""), &link).unwrap();
    symlink("/etc", disk.path("out")).unwrap();
    let root = disk.path("");
    let cases = [
        (link.join("sub/a.py"), Some(disk.path("sub/a.py"))),
        (link.join("missing/../sub/a.py"), Some(disk.path("sub/a.py"))),
        (link.join("new.py"), Some(disk.path("new.py"))),
        (link.clone(), Some(root.clone())),
        (link.join("../other.py"), None),
        (link.join("sub/../../other.py"), None),
        (PathBuf::from("/etc/passwd"), None),
    ];
    let resolve = cases.iter().map(|it| it.0.clone()).collect();
    let seen = disk.look(Look { resolve, ..Look::default() });
    for (path, expected) in cases {
        let found = seen.resolved.iter().find(|it| it.0 == path).map(|it| it.1.clone());
        assert_eq!(found, expected, "{path:?}");
    }
    // A link inside that leads out is the business of whoever opens the file.
    let read = vec![disk.path("out/passwd")];
    let seen = disk.look(Look { read, ..Look::default() });
    assert_eq!(seen.texts[0].1, Err(Outside));
}

#[test]
fn other_languages_are_noticed() {
    let mut disk = Disk::new();
    for name in ["a.py", "b.rs", "sub/c.rs", "Makefile"] {
        disk.write(name, "x\n");
    }
    let others = vec![".rs".to_owned(), ".go".to_owned()];
    let seen = disk.look(Look { others, ..Look::default() });
    assert_eq!((seen.others, seen.n_files), (vec![".rs".to_owned()], 1));
}

#[test]
fn word_is_found_whole_or_in_part() {
    let mut disk = Disk::new();
    disk.write("a.py", "add_node\nx = add\n# re-add\nadded\nÜadd\n");
    let mut lines = |text: &str, matching| {
        let word = Word { text: text.to_owned(), matching, endings: vec![".py".to_owned()] };
        let seen = disk.look(Look { word: Some(word), ..Look::default() });
        seen.hits.iter().flat_map(|it| &it.lines).map(|(n, _)| *n).collect::<Vec<_>>()
    };
    assert_eq!(lines("add", WordMatch::Whole), [1, 2]);
    assert_eq!(lines("ADD", WordMatch::Part), [0, 1, 2, 3, 4]);
    assert_eq!(lines("nothing", WordMatch::Whole), [0_u32; 0]);
}

impl Disk {
    fn open_in_editor(&mut self, name: &str, text: Option<&str>) {
        self.open_in(0, name, text);
    }

    fn open_in(&mut self, editor: usize, name: &str, text: Option<&str>) {
        let path = self.path(name);
        while self.editors.all.len() <= editor {
            let editor = EditorId(self.editors.all.len() as u64);
            self.editors.all.push(EditorDocuments { editor, applies: true, ..EditorDocuments::default() });
        }
        let documents = &mut self.editors.all[editor].documents;
        documents.retain(|it| it.path != path);
        if let Some(text) = text {
            let uri = crate::rpc::file_uri(&path);
            let document = EditorDocument { uri, path, version: Some(1), text: Some(text.into()) };
            documents.push(document);
        }
    }
}

#[test]
fn look_sees_unsaved_texts_instead_of_files() {
    let mut disk = Disk::new();
    disk.write("a.py", "one\n");
    disk.write("b.py", "one\n");
    disk.open_in_editor("a.py", Some("two\n"));
    disk.open_in_editor("b.py", Some("one\n"));
    disk.open_in_editor("new.py", Some("two\n"));
    let word = Word { text: "two".to_owned(), matching: WordMatch::Whole, endings: vec![".py".to_owned()] };
    let grep = Grep { query: "two".to_owned(), is_regex: false };
    let read = vec![disk.path("a.py"), disk.path("new.py")];
    let first = disk.look(Look { word: Some(word), read, ..Look::default() });
    // Of texts that are as on the disk, nothing is said.
    assert_eq!(disk.names(&first.unsaved), ["a.py", "new.py"]);
    assert!(first.texts.iter().all(|(_, it)| *it == Ok("two\n".to_owned())), "{:?}", first.texts);
    let hits = |seen: &Seen| seen.hits.iter().map(|it| it.file.clone()).collect::<Vec<_>>();
    assert_eq!(disk.names(&hits(&first)), ["a.py", "new.py"]);
    assert_eq!(first.n_files, 3);
    let second = disk.look(Look { grep: Some(grep), ..Look::default() });
    assert_eq!(disk.names(&hits(&second)), ["a.py", "new.py"]);
    assert!(second.changed.is_empty() && second.created.is_empty() && second.texts.is_empty(), "{second:?}");

    disk.open_in_editor("a.py", Some("three\n"));
    let third = disk.look(Look::default());
    assert_eq!(disk.names(&third.changed), ["a.py"]);
    assert_eq!(third.texts, [(disk.path("a.py"), Ok("three\n".to_owned()))]);
    // The editor forgets its texts: those of the disk count again.
    disk.open_in_editor("a.py", None);
    disk.open_in_editor("new.py", None);
    let open = vec![disk.path("a.py")];
    let last = disk.look(Look { open, ..Look::default() });
    assert_eq!(last.texts, [(disk.path("a.py"), Ok("one\n".to_owned()))]);
    assert_eq!(disk.names(&last.removed), ["new.py"]);
    assert!(last.unsaved.is_empty());
}

#[cfg(unix)]
#[test]
fn document_of_editor_outside_workspace_is_not_seen() {
    let mut disk = Disk::new();
    let outside = tempfile::tempdir().unwrap();
    symlink(outside.path(), disk.path("link")).unwrap();
    fs::write(outside.path().join("a.py"), "one\n").unwrap();
    disk.open_in_editor("link/a.py", Some("two\n"));
    let read = vec![disk.path("link/a.py")];
    let seen = disk.look(Look { read, ..Look::default() });
    assert_eq!(seen.texts, [(disk.path("link/a.py"), Err(Outside))]);
    assert!(seen.unsaved.is_empty());
}

#[test]
fn unsaved_text_of_one_editor_counts_beside_saved_one_of_another() {
    for (saved, unsaved) in [(0, 1), (1, 0)] {
        let mut disk = Disk::new();
        disk.write("a.py", "one\n");
        disk.open_in(saved, "a.py", Some("one\n"));
        disk.open_in(unsaved, "a.py", Some("two\n"));
        let read = vec![disk.path("a.py")];
        let seen = disk.look(Look { read, ..Look::default() });
        assert_eq!(seen.texts, [(disk.path("a.py"), Ok("two\n".to_owned()))]);
        assert_eq!(disk.names(&seen.unsaved), ["a.py"]);
    }
}

#[test]
fn unsaved_texts_that_cannot_be_known_make_look_partial() {
    let mut disk = Disk::new();
    disk.write("a.py", "one\n");
    disk.editors.unknown = Some("lspool 7 does not answer".to_owned());
    let seen = disk.look(Look::default());
    assert_eq!((seen.partial.as_deref(), seen.n_files), (Some("lspool 7 does not answer"), 1));
}

#[test]
fn edit_is_for_editor_that_has_all_its_open_files() {
    let mut disk = Disk::new();
    for name in ["a.py", "b.py", "c.py"] {
        disk.write(name, "one\n");
    }
    let change = |name: &str, before: &str| FileChange::Put {
        file: disk.path(name),
        before: Some(hash_of(before)),
        text: "new\n".to_owned(),
        like: None,
    };
    let changes = vec![change("a.py", "one\n"), change("b.py", "two\n"), change("c.py", "one\n")];
    let write = Write { number: 1, folders: vec![disk.path("")], changes };
    let workspace = Workspace::open(&write.folders, &disk.known).unwrap();
    let way = |disk: &Disk| match through_editor::way(&write, &disk.editors, &workspace) {
        Ok(Some(Way::Editor(editor, _))) => Ok(Some(editor.0)),
        Ok(Some(Way::Written(_)) | None) => Ok(None),
        Err(fault) => Err(fault),
    };
    assert_eq!(way(&disk), Ok(None));
    disk.open_in(0, "a.py", Some("one\n"));
    disk.open_in(1, "b.py", Some("two\n"));
    assert!(matches!(way(&disk), Err(WriteFault::Refused(_))), "no editor has both");
    disk.open_in(1, "a.py", Some("one\n"));
    assert_eq!(way(&disk), Ok(Some(1)));
    // Its text is not the one that counts.
    disk.open_in(0, "a.py", Some("other\n"));
    assert!(matches!(way(&disk), Err(WriteFault::Refused(_))), "the texts differ");
    disk.open_in(0, "a.py", Some("one\n"));
    disk.open_in(0, "b.py", Some("two\n"));
    disk.editors.all[0].applies = false;
    assert_eq!(way(&disk), Ok(Some(1)), "the other one makes no edits");
}
