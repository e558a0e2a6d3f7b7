//! Edits that fail, are killed, and meet other programs.

use std::{
    cell::Cell,
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    process::Command,
};

use rustix::process::{Signal, getpid, kill_process};

use super::*;
use crate::{builtin_tools::lsp::hash_of, shell::tools::workspace::Known};

/// The folder of a test that was killed, for its process.
const FOLDER: &str = "LSPOOL_TEST_FOLDER";
/// At which moment that process kills itself.
const MOMENT: &str = "LSPOOL_TEST_MOMENT";

struct Disk {
    root: PathBuf,
    _folder: Option<tempfile::TempDir>,
}

/// What is in a workspace, by path.
type Content = BTreeMap<String, String>;

impl Disk {
    fn new(files: &[(&str, &str)]) -> Disk {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let disk = Disk { root, _folder: Some(folder) };
        fs::create_dir(disk.path("")).unwrap();
        for (name, text) in files {
            disk.write(name, text);
        }
        disk
    }

    fn path(&self, name: &str) -> PathBuf {
        let workspace = self.root.join("ws");
        if name.is_empty() { workspace } else { workspace.join(name) }
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    fn workspace(&self) -> Workspace {
        Workspace::open(&[self.path("")], &Known::default()).unwrap()
    }

    fn journals(&self) -> Journals {
        Journals::of(Some(&self.root.join("state")), &[self.path("")])
    }

    fn edit(&self, changes: Vec<FileChange>, moment: Moment<'_>) -> Result<(), WriteFault> {
        let write = Write { number: 1, folders: vec![self.path("")], changes };
        super::write(&write, &self.workspace(), &self.journals(), moment)
    }

    fn recover(&self) {
        recover(&self.workspace(), &self.journals());
    }

    fn put(&self, name: &str, before: Option<&str>, text: &str) -> FileChange {
        let before = before.map(hash_of);
        FileChange::Put { file: self.path(name), before, text: text.to_owned(), like: None }
    }

    fn content(&self) -> Content {
        let mut all = Content::new();
        let mut folders = vec![self.path("")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                let path = entry.path();
                let name = path.strip_prefix(self.path("")).unwrap().to_str().unwrap().to_owned();
                if path.is_dir() && !path.is_symlink() {
                    all.insert(name, "folder".to_owned());
                    folders.push(path);
                } else {
                    all.insert(name, fs::read_to_string(&path).unwrap());
                }
            }
        }
        all
    }

    fn n_journals(&self) -> usize {
        let folder = self.root.join("state/lspool/edits");
        let all = fs::read_dir(folder).into_iter().flatten().flatten();
        all.map(|it| fs::read_dir(it.path()).unwrap().count()).sum()
    }
}

/// One of everything: a new text, a new file in a new folder, a removed one, a moved one, and a moved folder with a
/// changed file.
fn example() -> Disk {
    let files = [("a.py", "one\n"), ("b.py", "two\n"), ("gone.py", "old\n"), ("from.py", "same\n")];
    let disk = Disk::new(&files);
    disk.write("package/m.py", "in\n");
    disk
}

fn changes(disk: &Disk) -> Vec<FileChange> {
    vec![
        disk.put("a.py", Some("one\n"), "ONE\n"),
        disk.put("b.py", Some("two\n"), "TWO\n"),
        disk.put("package/m.py", Some("in\n"), "IN\n"),
        disk.put("new/folder/n.py", None, "new\n"),
        FileChange::Remove { file: disk.path("gone.py"), before: Some(hash_of("old\n")) },
        FileChange::Move {
            from: disk.path("from.py"),
            to: disk.path("to.py"),
            before: Some(hash_of("same\n")),
        },
        FileChange::Move { from: disk.path("package"), to: disk.path("renamed"), before: None },
    ]
}

fn content(all: &[(&str, &str)]) -> Content {
    all.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

fn after() -> Content {
    content(&[
        ("a.py", "ONE\n"),
        ("b.py", "TWO\n"),
        ("renamed", "folder"),
        ("renamed/m.py", "IN\n"),
        ("new", "folder"),
        ("new/folder", "folder"),
        ("new/folder/n.py", "new\n"),
        ("to.py", "same\n"),
    ])
}

#[test]
fn edit_is_made_and_leaves_nothing_beside() {
    let disk = example();
    fs::set_permissions(disk.path("a.py"), fs::Permissions::from_mode(0o754)).unwrap();
    disk.edit(changes(&disk), UNDISTURBED).unwrap();
    assert_eq!(disk.content(), after());
    let mode = |name: &str| fs::metadata(disk.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("a.py"), 0o754);
    assert_eq!(disk.n_journals(), 0);
}

#[test]
fn byte_order_mark_and_permissions_stay() {
    let disk = Disk::new(&[("a.py", "\u{feff}one\r\n"), ("old.py", "\u{feff}x\n")]);
    fs::set_permissions(disk.path("old.py"), fs::Permissions::from_mode(0o700)).unwrap();
    let renamed = FileChange::Put {
        file: disk.path("new.py"),
        before: None,
        text: "y\n".to_owned(),
        like: Some(disk.path("old.py")),
    };
    let removed = FileChange::Remove { file: disk.path("old.py"), before: Some(hash_of("x\n")) };
    let changed = disk.put("a.py", Some("one\r\n"), "two\r\n");
    disk.edit(vec![changed, renamed, removed], UNDISTURBED).unwrap();
    assert_eq!(disk.content(), content(&[("a.py", "\u{feff}two\r\n"), ("new.py", "\u{feff}y\n")]));
    assert_eq!(fs::metadata(disk.path("new.py")).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn failure_at_any_moment_puts_everything_back() {
    let n_moments = Cell::new(0);
    let counted: Moment<'_> = &|| {
        n_moments.set(n_moments.get() + 1);
        Ok(())
    };
    let disk = example();
    disk.edit(changes(&disk), counted).unwrap();
    assert!(n_moments.get() > 15, "{n_moments:?}");
    for fails_at in 1..=n_moments.get() {
        let disk = example();
        let before = disk.content();
        let left = Cell::new(fails_at);
        let moment: Moment<'_> = &|| {
            left.set(left.get() - 1);
            if left.get() == 0 {
                Err(std::io::Error::from(std::io::ErrorKind::StorageFull).into())
            } else {
                Ok(())
            }
        };
        let fault = disk.edit(changes(&disk), moment).unwrap_err();
        assert!(matches!(&fault, WriteFault::Failed(_)), "{fault:?}");
        assert_eq!(disk.content(), before, "at moment {fails_at}");
        assert_eq!(disk.n_journals(), 0);
    }
}

#[test]
fn text_that_has_changed_stops_the_edit_before_it_begins() {
    for name in ["a.py", "gone.py", "from.py", "package/m.py"] {
        let disk = example();
        disk.write(name, "changed\n");
        let before = disk.content();
        assert_eq!(disk.edit(changes(&disk), UNDISTURBED), Err(WriteFault::Changed(disk.path(name))));
        assert_eq!(disk.content(), before);
    }
    for (name, wanted) in [("to.py", "to.py"), ("new/folder/n.py", "new/folder/n.py")] {
        let disk = example();
        disk.write(name, "was not there\n");
        let before = disk.content();
        assert_eq!(disk.edit(changes(&disk), UNDISTURBED), Err(WriteFault::Changed(disk.path(wanted))));
        assert_eq!(disk.content(), before);
    }
    let disk = example();
    fs::remove_file(disk.path("b.py")).unwrap();
    assert_eq!(disk.edit(changes(&disk), UNDISTURBED), Err(WriteFault::Changed(disk.path("b.py"))));
}

#[test]
fn text_that_changes_meanwhile_is_not_replaced() {
    let write = |disk: &Disk| fs::write(disk.path("b.py"), "by another program\n").unwrap();
    let replace = |disk: &Disk| {
        fs::write(disk.path("other"), "by another program\n").unwrap();
        fs::rename(disk.path("other"), disk.path("b.py")).unwrap();
    };
    let mut n_changed = 0;
    for (at, way) in (0..12).flat_map(|at| [(at, 0), (at, 1)]) {
        let disk = example();
        let n = Cell::new(0);
        let moment: Moment<'_> = &|| {
            if n.replace(n.get() + 1) == at {
                if way == 0 { write(&disk) } else { replace(&disk) }
            }
            Ok(())
        };
        let done = disk.edit(changes(&disk), moment);
        // It is kept whenever it comes: before the edit, or after it.
        assert_eq!(fs::read_to_string(disk.path("b.py")).unwrap(), "by another program\n", "at {at} {way}");
        if done.is_err() {
            assert_eq!(done, Err(WriteFault::Changed(disk.path("b.py"))), "at {at} {way}");
            assert_eq!(fs::read_to_string(disk.path("a.py")).unwrap(), "one\n");
            n_changed += 1;
        }
    }
    assert!(n_changed >= 14, "{n_changed}");
}

#[test]
fn links_lead_nowhere_else() {
    let disk = example();
    let outside = disk.root.join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("x.py"), "one\n").unwrap();
    symlink(&outside, disk.path("out")).unwrap();
    symlink("a.py", disk.path("link.py")).unwrap();
    fs::create_dir(disk.path(".git")).unwrap();
    let edit = |change| disk.edit(vec![disk.put("b.py", Some("two\n"), "TWO\n"), change], UNDISTURBED);
    let out = disk.put("out/x.py", Some("one\n"), "written\n");
    assert_eq!(edit(out), Err(WriteFault::Outside(disk.path("out/x.py"))));
    for change in [
        disk.put("out/new.py", None, "written\n"),
        disk.put("out/new/new.py", None, "written\n"),
        disk.put(".git/config", None, "written\n"),
        disk.put(".git/hooks/pre-commit", None, "written\n"),
        FileChange::Remove { file: disk.path("out/x.py"), before: Some(hash_of("one\n")) },
        FileChange::Remove { file: disk.path("link.py"), before: Some(hash_of("one\n")) },
        FileChange::Move { from: disk.path("b.py"), to: disk.path("out/b.py"), before: None },
        FileChange::Put {
            file: outside.join("x.py"),
            before: Some(hash_of("one\n")),
            text: String::new(),
            like: None,
        },
    ] {
        let done = edit(change.clone());
        assert!(done.is_err(), "{change:?}");
        assert_eq!(fs::read_to_string(disk.path("b.py")).unwrap(), "two\n", "{change:?}");
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(fs::read_dir(disk.path(".git")).unwrap().count(), 0);
    // A link inside is followed, and stays.
    disk.edit(vec![disk.put("link.py", Some("one\n"), "ONE\n")], UNDISTURBED).unwrap();
    assert!(disk.path("link.py").is_symlink());
    assert_eq!(fs::read_to_string(disk.path("a.py")).unwrap(), "ONE\n");
    // One file under two names gets one text.
    let same =
        |text: &str| vec![disk.put("link.py", Some("ONE\n"), "1\n"), disk.put("a.py", Some("ONE\n"), text)];
    assert!(matches!(disk.edit(same("2\n"), UNDISTURBED), Err(WriteFault::Refused(_))));
    disk.edit(same("1\n"), UNDISTURBED).unwrap();
    assert_eq!(fs::read_to_string(disk.path("a.py")).unwrap(), "1\n");
}

#[test]
fn folder_that_becomes_a_link_meanwhile_is_not_followed() {
    let disk = example();
    let outside = disk.root.join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("m.py"), "in\n").unwrap();
    let moment: Moment<'_> = &|| {
        if disk.path("package").is_dir() && !disk.path("package").is_symlink() {
            fs::rename(disk.path("package"), disk.root.join("away")).unwrap();
            symlink(&outside, disk.path("package")).unwrap();
        }
        Ok(())
    };
    disk.edit(vec![disk.put("package/m.py", Some("in\n"), "IN\n")], moment).ok();
    assert_eq!(fs::read_to_string(outside.join("m.py")).unwrap(), "in\n");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn read_only_files_are_refused() {
    if rustix::process::geteuid().is_root() {
        // Root can write everything.
        return;
    }
    let disk = example();
    fs::set_permissions(disk.path("b.py"), fs::Permissions::from_mode(0o444)).unwrap();
    let fault = disk.edit(changes(&disk), UNDISTURBED).unwrap_err();
    assert!(matches!(fault, WriteFault::Refused(_)), "{fault:?}");
    assert_eq!(fs::read_to_string(disk.path("a.py")).unwrap(), "one\n");
}

/// Not a test by itself: the process that [`edit_that_is_killed_at_any_moment_is_settled`] kills.
#[test]
#[ignore = "it is run by another test, which it is killed for"]
fn killed_edit() {
    let (Ok(root), Ok(moment)) = (std::env::var(FOLDER), std::env::var(MOMENT)) else { return };
    let disk = Disk { root: PathBuf::from(root), _folder: None };
    let left = Cell::new(moment.parse::<u32>().unwrap());
    let moment: Moment<'_> = &|| {
        left.set(left.get() - 1);
        if left.get() == 0 {
            kill_process(getpid(), Signal::KILL).unwrap();
        }
        Ok(())
    };
    disk.edit(changes(&disk), moment).unwrap();
}

/// Runs an edit in a process that is killed at this moment. Whether it was.
fn is_killed(disk: &Disk, moment: u32) -> bool {
    let name = "shell::tools::write::tests::killed_edit";
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--ignored", "--nocapture"]);
    let done = command.env(FOLDER, &disk.root).env(MOMENT, moment.to_string()).output().unwrap();
    !done.status.success()
}

#[test]
fn edit_that_is_killed_at_any_moment_is_settled() {
    let mut n_of = [0, 0];
    for moment in 1.. {
        let disk = example();
        let before = disk.content();
        if !is_killed(&disk, moment) {
            assert_eq!(disk.content(), after());
            break;
        }
        assert_eq!(disk.n_journals(), 1, "at moment {moment}");
        disk.recover();
        let now = disk.content();
        assert!(now == before || now == after(), "at moment {moment}: {now:?}");
        n_of[usize::from(now == after())] += 1;
        assert_eq!(disk.n_journals(), 0);
        // The same edit can be made again.
        if now == before {
            disk.edit(changes(&disk), UNDISTURBED).unwrap();
        }
        assert_eq!(disk.content(), after());
    }
    assert!(n_of[0] > 10 && n_of[1] > 0, "{n_of:?}");
}

#[test]
fn killed_edit_is_finished_if_it_cannot_be_undone() {
    let mut n_finished = 0;
    for moment in 1.. {
        let disk = example();
        if !is_killed(&disk, moment) {
            break;
        }
        // Its user has gone on with the first file.
        let was_begun = fs::read_to_string(disk.path("a.py")).unwrap() == "ONE\n";
        disk.write("a.py", "ONE, and more\n");
        disk.recover();
        let mut expected = after();
        expected.insert("a.py".to_owned(), "ONE, and more\n".to_owned());
        let now = disk.content();
        if was_begun {
            assert_eq!(now, expected, "at moment {moment}");
            n_finished += 1;
        } else {
            assert_eq!(now["b.py"], "two\n");
        }
        assert_eq!(now["a.py"], "ONE, and more\n");
    }
    assert!(n_finished > 5, "{n_finished}");
}

#[test]
fn journal_of_a_living_lspool_is_left_alone() {
    let disk = example();
    let during: Moment<'_> = &|| {
        disk.recover();
        Ok(())
    };
    disk.edit(changes(&disk), during).unwrap();
    assert_eq!(disk.content(), after());
}

#[test]
fn journal_names_no_file_elsewhere() {
    let disk = example();
    let folder = disk.root.join("state/lspool/edits").join(crate::shell::teams::folder_name(&disk.path("")));
    fs::create_dir_all(&folder).unwrap();
    let victim = disk.root.join("victim");
    fs::write(&victim, "precious\n").unwrap();
    for change in [
        serde_json::json!({"put": {"file": disk.path("a.py"), "draft": "../../victim", "backup": null, "before": null, "after": 1}}),
        serde_json::json!({"put": {"file": victim, "draft": ".lspool-1", "backup": null, "before": null, "after": 1}}),
    ] {
        let notes = serde_json::json!({"changes": [change], "made": []});
        fs::write(folder.join("1-1.json"), notes.to_string()).unwrap();
        disk.recover();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious\n");
        assert_eq!(fs::read_to_string(disk.path("a.py")).unwrap(), "one\n");
    }
}
