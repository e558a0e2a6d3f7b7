//! The ways in which editors and tools write a file, against the real system.

use std::{
    io::Write as _,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use tokio::{
    task::LocalSet,
    time::{error::Elapsed, timeout},
};

use super::*;
use crate::shell::inbox::{Inbox, inbox};
use crate::shell::os::watching::hinges;

/// A guard against hanging, not a measure of anything.
const PATIENCE: Duration = Duration::from_secs(30);

struct Stage {
    root: tempfile::TempDir,
    watch: Watch,
    told: Inbox,
    files: Vec<PathBuf>,
}

impl Stage {
    async fn hears(&mut self) {
        let told = timeout(PATIENCE, self.told.next()).await.expect("it is told");
        assert!(matches!(told, Event::FilesChanged), "{told:?}");
    }

    /// Changes another file. Its report shows that no other change was reported before.
    async fn hears_only_of(&mut self, file: &Path) {
        fs::write(file, format!("{:?}", self.root)).unwrap();
        self.hears().await;
        fs::remove_file(file).unwrap();
        self.hears().await;
        let more: Result<_, Elapsed> = timeout(Duration::from_millis(60), self.told.next()).await;
        assert!(more.is_err(), "{more:?}");
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }
}

/// Plays with files of which `names` are watched.
fn play(names: &[&str], prepare: impl FnOnce(&Path), script: impl AsyncFnOnce(&mut Stage)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        let root = tempfile::tempdir().unwrap();
        prepare(root.path());
        let (events, told) = inbox(0);
        let watch = Watch::start(Duration::from_millis(20), events);
        let files: Vec<_> = names.iter().map(|it| root.path().join(it)).collect();
        watch.look(files.clone()).await;
        let mut stage = Stage { root, watch, told, files };
        script(&mut stage).await;
    });
}

fn write(file: &Path, text: &str) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

#[test]
fn watch_reports_file_written_in_place() {
    play(
        &["a"],
        |_| {},
        async |it| {
            let file = it.files[0].clone();
            for text in ["one", "two", ""] {
                write(&file, text);
                it.hears().await;
            }
            // Written in two steps and slowly: told once, at the end.
            let mut slowly = fs::OpenOptions::new().write(true).truncate(true).open(&file).unwrap();
            slowly.write_all(b"thr").unwrap();
            tokio::time::sleep(Duration::from_millis(60)).await;
            assert!(timeout(Duration::ZERO, it.told.next()).await.is_err());
            slowly.write_all(b"ee").unwrap();
            drop(slowly);
            it.hears().await;
            fs::remove_file(&file).unwrap();
            it.hears().await;
        },
    );
}

#[test]
fn watch_follows_how_editors_save_files() {
    play(
        &["a", "other"],
        |root| write(&root.join("a"), "one"),
        async |it| {
            let (file, other) = (it.files[0].clone(), it.files[1].clone());
            // Another file takes its place.
            write(&it.at("a.new"), "two");
            fs::rename(it.at("a.new"), &file).unwrap();
            it.hears().await;
            // It becomes the backup, and a new one is written (vim, Emacs).
            fs::rename(&file, it.at("a~")).unwrap();
            write(&file, "three");
            it.hears().await;
            // The same again, from the backup: nothing new.
            fs::rename(&file, it.at("a~")).unwrap();
            fs::copy(it.at("a~"), &file).unwrap();
            // Touching a file, changing an unregistered file, and reading.
            fs::File::open(&file).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
            write(&it.at("swap"), "x");
            fs::read(&file).unwrap();
            it.hears_only_of(&other).await;
        },
    );
}

#[test]
fn watch_reports_folder_created_later() {
    play(
        &["deep/er/a"],
        |_| {},
        async |it| {
            let file = it.files[0].clone();
            write(&file, "one");
            it.hears().await;
            write(&file, "two");
            it.hears().await;
            fs::rename(it.at("deep/er"), it.at("deep/away")).unwrap();
            it.hears().await;
            write(&it.at("deep/er/a"), "three");
            it.hears().await;
            fs::remove_dir_all(it.at("deep/er")).unwrap();
            it.hears().await;
            fs::create_dir(it.at("new")).unwrap();
            write(&it.at("new/a"), "four");
            fs::rename(it.at("new"), it.at("deep/er")).unwrap();
            it.hears().await;
        },
    );
}

#[test]
fn watch_follows_links_that_change() {
    let dotfiles = |root: &Path| {
        write(&root.join("dotfiles/v1/a"), "one");
        write(&root.join("dotfiles/v2/a"), "two");
        symlink("v1", root.join("dotfiles/current")).unwrap();
        symlink("dotfiles/current", root.join("config")).unwrap();
        symlink("/nowhere/at/all", root.join("loose")).unwrap();
        symlink("round", root.join("round")).unwrap();
    };
    play(&["config/a", "loose", "round"], dotfiles, async |it| {
        write(&it.at("dotfiles/v1/a"), "one and a half");
        it.hears().await;
        symlink("v2", it.at("dotfiles/next")).unwrap();
        fs::rename(it.at("dotfiles/next"), it.at("dotfiles/current")).unwrap();
        it.hears().await;
        write(&it.at("dotfiles/v2/a"), "three");
        it.hears().await;
        // The link itself is replaced by a file.
        fs::remove_file(it.at("loose")).unwrap();
        write(&it.at("loose"), "tight");
        it.hears().await;
    });
}

#[test]
fn watch_ignores_files_no_longer_watched() {
    play(
        &["x/a"],
        |root| write(&root.join("x/a"), "one"),
        async |it| {
            fs::create_dir(it.at("y")).unwrap();
            it.watch.look(vec![it.at("y/b")]).await;
            write(&it.at("x/a"), "two");
            it.hears_only_of(&it.at("y/b")).await;
            it.watch.look(vec![]).await;
            it.watch.look(vec![it.at("x/a")]).await;
            write(&it.at("x/a"), "three");
            it.hears().await;
        },
    );
}

#[test]
fn watch_does_not_read_pipes() {
    let pipe = |root: &Path| {
        rustix::fs::mknodat(
            rustix::fs::CWD,
            root.join("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
    };
    play(&["pipe", "a"], pipe, async |it| it.hears_only_of(&it.at("a")).await);
}

#[test]
fn hinges_list_entries_that_decide_a_path() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    write(&root.join("v1/a"), "");
    symlink("../..", root.join("v1/up")).unwrap();
    symlink(root.join("v1"), root.join("link")).unwrap();
    let found = |path: &str| -> Vec<String> {
        let short = |(folder, name): (PathBuf, std::ffi::OsString)| {
            let folder = folder.strip_prefix(&root).map_or("…".into(), |it| it.display().to_string());
            format!("{folder}:{}", name.display())
        };
        hinges(&root.join(path)).into_iter().map(short).collect()
    };
    assert_eq!(found("v1/a"), ["v1:a"]);
    assert_eq!(found("./v1/../v1/./a"), ["v1:a"]);
    assert_eq!(found("link/a"), [":link", "v1:a"]);
    assert_eq!(found("link/a/b"), [":link", "v1:a"]);
    assert_eq!(found("link/b/c"), [":link", "v1:b"]);
    assert_eq!(found("v1/up/b"), ["v1:up", "…:b"]);
}

#[test]
fn watch_reports_changes_of_files_in_folder() {
    play(
        &["agents", "config"],
        |root| write(&root.join("config"), "x"),
        async |it| {
            let folder = it.files[0].clone();
            write(&folder.join("a.md"), "one");
            it.hears().await;
            write(&folder.join("a.md"), "two");
            it.hears().await;
            write(&folder.join("b.md"), "");
            it.hears().await;
            fs::rename(folder.join("b.md"), folder.join("c.md")).unwrap();
            it.hears().await;
            fs::remove_file(folder.join("a.md")).unwrap();
            it.hears().await;
            fs::remove_dir_all(&folder).unwrap();
            it.hears().await;
            write(&folder.join("a.md"), "one");
            it.hears().await;
        },
    );
}

#[test]
fn watch_follows_links_inside_folder() {
    let linked = |root: &Path| {
        write(&root.join("config"), "x");
        write(&root.join("dotfiles/a.md"), "one");
        write(&root.join("agents/b.md"), "");
        symlink("../dotfiles/a.md", root.join("agents/a.md")).unwrap();
    };
    play(&["agents", "config"], linked, async |it| {
        write(&it.at("dotfiles/a.md"), "two");
        it.hears().await;
        let config = it.files[1].clone();
        write(&config, "y");
        it.hears().await;
        write(&it.at("dotfiles/other.md"), "nobody's");
        fs::remove_file(&config).unwrap();
        it.hears().await;
        symlink("../dotfiles/other.md", it.at("agents/c.md")).unwrap();
        it.hears().await;
        write(&it.at("dotfiles/other.md"), "somebody's");
        it.hears().await;
    });
}
