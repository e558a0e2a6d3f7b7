//! Attacks on the confinement, and effects of the tools on real files.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
    time::Duration,
};

use proptest::prelude::*;
use tempfile::TempDir;

use super::{
    files, on_disk,
    search::Until,
    workspace::{Known, Missing, Workspace},
};
use crate::{
    builtin_tools::{Call, Lines, words},
    config::ToolsConfig,
    core::event::Scope,
};

mod hanging;

/// A workspace folder, and a folder outside.
struct Ground {
    root: TempDir,
    limits: ToolsConfig,
    known: Known,
}

impl Ground {
    fn new() -> Ground {
        let root = TempDir::new().unwrap();
        fs::create_dir(root.path().join("ws")).unwrap();
        fs::create_dir(root.path().join("out")).unwrap();
        fs::write(root.path().join("out/secret"), "do not tell\n").unwrap();
        Ground { root, limits: ToolsConfig::default(), known: Known::default() }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.path().join("ws").join(path)
    }

    fn outside(&self, path: &str) -> PathBuf {
        self.root.path().join("out").join(path)
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), text).unwrap();
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }

    fn call(&self, call: &Call) -> Result<String, String> {
        let folders = vec![self.root.path().join("ws")];
        let workspace = Workspace::open(&folders, &self.known)?;
        on_disk(call, &workspace, &self.limits, &Until::new(&AtomicBool::new(false), &self.limits))
    }

    fn read(&self, path: &str) -> Result<String, String> {
        self.lines(path, 1, usize::MAX)
    }

    fn lines(&self, path: &str, first: usize, last: usize) -> Result<String, String> {
        self.call(&Call::ReadFile { path: path.to_owned(), lines: Lines { first, last } })
    }

    fn list(&self, path: &str) -> Result<String, String> {
        self.call(&Call::ListDir { path: path.to_owned() })
    }

    fn create(&self, path: &str, text: &str) -> Result<String, String> {
        self.call(&Call::CreateFile { path: path.to_owned(), text: text.to_owned() })
    }

    fn replace(&self, path: &str, old: &str, new: &str) -> Result<String, String> {
        self.call(&Call::ReplaceString { path: path.to_owned(), old: old.to_owned(), new: new.to_owned() })
    }

    fn rewrite(&self, path: &str, text: &str) -> Result<String, String> {
        self.call(&Call::InsertEdit { path: path.to_owned(), text: text.to_owned() })
    }

    fn find(&self, pattern: &str) -> Result<String, String> {
        self.call(&Call::FileSearch { pattern: pattern.to_owned(), most: 100 })
    }

    fn grep(&self, pattern: &str, is_regex: bool, include: Option<&str>) -> Result<String, String> {
        let include = include.map(str::to_owned);
        self.call(&Call::GrepSearch { pattern: pattern.to_owned(), is_regex, include })
    }

    /// Checks that no tool reaches a path.
    fn is_out_of_reach(&self, path: &str) {
        let before = tree(&self.outside(""));
        for told in [
            self.read(path),
            self.list(path),
            self.create(path, "x"),
            self.create(&format!("{path}/new/file"), "x"),
            self.replace(path, "do not", "do"),
            self.rewrite(path, "x"),
        ] {
            let why = told.expect_err(path);
            assert!(!why.contains("do not tell"), "{path}: {why}");
        }
        assert_eq!(tree(&self.outside("")), before, "{path}");
    }
}

/// All files with their contents.
fn tree(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.push((path.clone(), Vec::new()));
            all.extend(tree(&path));
        } else {
            all.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
    all.sort();
    all
}

#[test]
fn paths_do_not_lead_outside_workspace() {
    let it = Ground::new();
    it.write("a/b.txt", "b\n");
    for path in [
        "..",
        "../out/secret",
        "a/../../out/secret",
        "a/../../ws/a/b.txt",
        "./../out/secret",
        "a/..//../out/secret",
        "/etc/passwd",
        "/",
        "//etc/passwd",
    ] {
        it.is_out_of_reach(path);
    }
    it.is_out_of_reach(it.outside("secret").to_str().unwrap());
    // A folder whose name begins in the same way.
    fs::create_dir(it.root.path().join("ws2")).unwrap();
    fs::write(it.root.path().join("ws2/x"), "do not tell\n").unwrap();
    it.is_out_of_reach(it.root.path().join("ws2/x").to_str().unwrap());
    it.is_out_of_reach(it.at("../out/secret").to_str().unwrap());
    for inside in ["a/b.txt", "a/../a/./b.txt", "a//b.txt"] {
        assert!(it.read(inside).unwrap().ends_with("b\n"), "{inside}");
        assert!(it.read(it.at(inside).to_str().unwrap()).is_ok(), "{inside}");
    }
}

#[test]
fn links_do_not_lead_outside_workspace() {
    let it = Ground::new();
    it.write("dir/file", "in\n");
    for (name, target) in [
        ("to-file", it.outside("secret")),
        ("to-folder", it.outside("")),
        ("relative", PathBuf::from("../out/secret")),
        ("deep", PathBuf::from("dir/../../out/secret")),
        ("chain", PathBuf::from("relative")),
        ("root", PathBuf::from("/")),
        ("proc", PathBuf::from("/proc/self/root")),
        ("to-nothing", it.outside("nothing")),
    ] {
        symlink(target, it.at(name)).unwrap();
        it.is_out_of_reach(name);
    }
    it.is_out_of_reach("to-folder/secret");
    it.is_out_of_reach("to-folder/new/deep/file");
    it.is_out_of_reach("root/etc/passwd");
    symlink("loop", it.at("loop")).unwrap();
    it.is_out_of_reach("loop");

    symlink("dir", it.at("within")).unwrap();
    symlink(it.at("dir/file"), it.at("absolute")).unwrap();
    symlink("../dir/./file", it.at("dir/back")).unwrap();
    for inside in ["within/file", "absolute", "dir/back", "within/../dir/file"] {
        assert!(it.read(inside).unwrap().ends_with("in\n"), "{inside}");
    }
    // An edit changes the file, and the link stays a link.
    it.replace("absolute", "in", "out").unwrap();
    assert_eq!(it.text("dir/file"), "out\n");
    assert!(it.at("absolute").is_symlink());
    it.create("within/new/file", "x").unwrap();
    assert_eq!(it.text("dir/new/file"), "x");
    // A link to a missing file in the workspace.
    symlink("dir/made", it.at("to-be")).unwrap();
    it.create("to-be", "y").unwrap();
    assert_eq!(it.text("dir/made"), "y");
}

/// Stops the other thread, also if the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn folder_swapped_for_link_does_not_lead_outside() {
    let it = Ground::new();
    it.write("dir/secret", "in\n");
    let (dir, link) = (it.at("dir"), it.at("link"));
    symlink(it.outside(""), &link).unwrap();
    let done = AtomicBool::new(false);
    let before = tree(&it.outside(""));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                // The path is in turn a folder and a link to the outside.
                let swap = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(rustix::fs::CWD, &dir, rustix::fs::CWD, &link, swap).unwrap();
            }
        });
        let _stop = Stop(&done);
        for n in 0..500 {
            for told in [it.read("dir/secret"), it.grep("tell", false, None), it.find("**/secret")] {
                let told = told.unwrap_or_default();
                assert!(!told.contains("do not tell"), "{told}");
            }
            it.create("dir/new/x", "x").ok();
            it.rewrite("dir/secret", &format!("in {n}\n")).ok();
        }
    });
    assert_eq!(tree(&it.outside("")), before);
}

#[test]
fn tools_do_not_write_to_git_folder() {
    let it = Ground::new();
    it.write(".git/config", "[core]\n");
    symlink(".git", it.at("innocent")).unwrap();
    for path in [
        ".git/hooks/post-commit",
        ".git/config",
        "innocent/config",
        "innocent/hooks/x",
        ".GIT/x",
        "sub/.git/x",
    ] {
        it.create(path, "x").expect_err(path);
        it.rewrite(path, "x").expect_err(path);
        it.replace(path, "core", "x").expect_err(path);
    }
    assert_eq!(it.text(".git/config"), "[core]\n");
    assert!(!it.at(".git/hooks").exists() && !it.at("sub/.git").exists());
    it.write(".github/x", "a");
    it.replace(".github/x", "a", "b").unwrap();
    it.write(".gitignore", "a");
    it.replace(".gitignore", "a", "b").unwrap();
    assert!(it.read(".git/config").is_ok());
}

#[test]
fn tools_refuse_pipes_and_sockets_at_once() {
    let it = Ground::new();
    let path = it.at("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(it.at("socket")).unwrap();
    for name in ["pipe", "socket"] {
        assert!(it.read(name).unwrap_err().contains("not a regular file"), "{name}");
        it.rewrite(name, "x").unwrap_err();
        it.replace(name, "a", "b").unwrap_err();
        it.create(name, "x").unwrap_err();
    }
    assert!(it.read(".").unwrap_err().contains("is a folder"));
    assert!(it.list("pipe").unwrap_err().contains("not a folder"));
    it.write("x", "tell\n");
    assert!(it.grep("tell", false, None).unwrap().contains("x:1"), "the others are not waited for");
}

#[test]
fn read_file_returns_lines_up_to_limit() {
    let mut it = Ground::new();
    it.write("a", "one\r\ntwo\nthree");
    let path = it.at("a").display().to_string();
    assert_eq!(it.read("a").unwrap(), format!("{path}, lines 1 to 3 of 3.\none\ntwo\nthree\n"));
    assert_eq!(it.lines("a", 2, 2).unwrap(), format!("{path}, lines 2 to 2 of 3.\ntwo\n"));
    assert_eq!(it.lines("a", 3, 9).unwrap(), format!("{path}, lines 3 to 3 of 3.\nthree\n"));
    assert!(it.lines("a", 4, 9).unwrap_err().contains("has 3 lines"));
    it.write("empty", "");
    assert!(it.read("empty").unwrap().ends_with("is empty."));
    assert!(it.read("nothing").unwrap_err().contains("no such file"));

    it.limits.max_output = 8;
    assert!(
        it.read("a")
            .unwrap()
            .ends_with("lines 1 to 2 of 3.\none\ntwo\n[More lines follow: continue with `startLine` 3.]\n")
    );
    it.write("long", "äöüäöüäöü\nx\n");
    let long = it.read("long").unwrap();
    assert!(long.contains("äöüä\n[… rest of the line omitted]\n"), "{long}");
    assert!(long.contains("continue with `startLine` 2") && it.lines("long", 2, 2).unwrap().ends_with("x\n"));

    it.write("binary", b"a\0b");
    assert!(it.read("binary").unwrap_err().contains("binary file of 3 bytes"));
    it.write("latin", b"caf\xe9\n");
    it.limits.max_output = 100;
    assert!(it.read("latin").unwrap().contains("not UTF-8"));
    it.limits.max_file = 4;
    assert!(it.read("a").unwrap_err().contains("too large"));
    it.create("large", "12345").unwrap_err();
    it.rewrite("latin", "12345").unwrap_err();
}

#[test]
fn list_dir_sorts_entries_by_name() {
    let mut it = Ground::new();
    it.write("b", "");
    it.write("a/x", "");
    it.write("new\nline", "");
    symlink("/etc", it.at("link")).unwrap();
    assert_eq!(it.list(".").unwrap(), "a/\nb\nlink -> /etc\nnew\\nline");
    assert_eq!(it.list("").unwrap_or_default(), it.list(".").unwrap());
    it.limits.max_output = 6;
    assert_eq!(it.list(".").unwrap(), "a/\nb\n[… more entries omitted]");
}

#[test]
fn edit_keeps_mode_line_endings_and_encoding() {
    let it = Ground::new();
    it.write("script", "#!/bin/sh\r\necho a\r\n");
    fs::set_permissions(it.at("script"), fs::Permissions::from_mode(0o754)).unwrap();
    it.replace("script", "echo a\n", "echo b\necho c\n").unwrap();
    assert_eq!(it.text("script"), "#!/bin/sh\r\necho b\r\necho c\r\n");
    let meta = fs::metadata(it.at("script")).unwrap();
    assert_eq!(meta.permissions().mode() & 0o7777, 0o754);
    it.rewrite("script", "x\n").unwrap();
    assert_eq!(it.text("script"), "x\r\n");
    assert!(it.rewrite("script", "x\n").unwrap().contains("is unchanged"));
    assert_eq!(fs::read_dir(it.at("")).unwrap().count(), 1, "no draft is left");

    it.rewrite("renamed/to", "new\n").unwrap();
    assert_eq!(it.text("renamed/to"), "new\n");
    assert!(it.create("script", "x").unwrap_err().contains("already exists"));
    it.write("latin", b"caf\xe9\n");
    assert!(it.replace("latin", "caf", "tea").unwrap_err().contains("not UTF-8"));
    assert!(it.rewrite("latin", "x").unwrap_err().contains("not UTF-8"));
    assert_eq!(fs::read(it.at("latin")).unwrap(), b"caf\xe9\n");
    it.replace("nothing", "a", "b").unwrap_err();
}

#[test]
fn edit_replaces_file_atomically() {
    let it = Ground::new();
    let text = |n: usize| format!("{n}\n").repeat(20_000);
    it.write("a", text(1));
    let inode = fs::metadata(it.at("a")).unwrap().ino();
    let reader = fs::File::open(it.at("a")).unwrap();
    it.rewrite("a", &text(2)).unwrap();
    assert_ne!(fs::metadata(it.at("a")).unwrap().ino(), inode);
    assert_eq!(std::io::read_to_string(reader).unwrap(), text(1), "who has it open reads on");
    assert_eq!(it.text("a"), text(2));
}

#[test]
fn file_search_finds_files_by_pattern() {
    let it = Ground::new();
    for path in ["a.rs", "src/b.rs", "src/deep/c.rs", "src/d.ts", "target/e.rs", ".hidden/f.rs", ".git/g.rs"]
    {
        it.write(path, "");
    }
    it.write(".gitignore", "target\n");
    symlink(it.outside(""), it.at("link")).unwrap();
    let found = |pattern: &str| -> Vec<String> {
        let told = it.find(pattern).unwrap();
        let names = told
            .lines()
            .filter_map(|line| line.strip_prefix(&format!("{}/", it.at("").display()).replace("//", "/")));
        names.map(str::to_owned).collect()
    };
    assert_eq!(found("*.rs"), [".hidden/f.rs", "a.rs", "src/b.rs", "src/deep/c.rs"]);
    assert_eq!(found("src/*.{rs,ts}"), ["src/b.rs", "src/d.ts"]);
    assert_eq!(found("src/**"), ["src/b.rs", "src/d.ts", "src/deep/c.rs"]);
    assert_eq!(found("c.rs"), ["src/deep/c.rs"]);
    assert_eq!(found("./src/*.ts"), ["src/d.ts"]);
    assert_eq!(found(&format!("{}/*.ts", it.at("src").display())), ["src/d.ts"]);
    for nothing in ["secret", "*.md", "/etc/*", "../out/*"] {
        assert!(it.find(nothing).unwrap().starts_with("No file matches"), "{nothing}");
    }
    assert!(it.find("a[").unwrap_err().contains("invalid glob pattern"));
    let few = it.call(&Call::FileSearch { pattern: "*.rs".to_owned(), most: 2 }).unwrap();
    assert!(few.lines().count() == 3 && few.ends_with("use a narrower pattern]"), "{few}");
}

#[test]
fn grep_search_finds_lines_by_content() {
    let mut it = Ground::new();
    it.write("src/a.rs", "fn One() {}\r\nlet x = \"a.b\";\n");
    it.write("b.txt", "one\n");
    it.write("target/c.rs", "fn one() {}\n");
    it.write("binary", b"one\0\n");
    it.write(".gitignore", "target\n");
    symlink(it.outside("secret"), it.at("link")).unwrap();
    let root = format!("{}/", it.root.path().join("ws").display());
    let found = |pattern: &str, is_regex: bool, include: Option<&str>| -> String {
        it.grep(pattern, is_regex, include).unwrap().replace(&root, "")
    };
    assert_eq!(found("one", false, None), "b.txt:1: one\nsrc/a.rs:1: fn One() {}\n");
    assert_eq!(found("one", false, Some("*.rs")), "src/a.rs:1: fn One() {}\n");
    assert_eq!(found("one", false, Some("src/**")), "src/a.rs:1: fn One() {}\n");
    assert_eq!(found("a.b", false, None), "src/a.rs:2: let x = \"a.b\";\n");
    assert_eq!(found("^fn \\w+\\(\\) \\{\\}$", true, None), "src/a.rs:1: fn One() {}\n");
    assert_eq!(found("do not tell", false, None), "Nothing matches.\n");
    assert!(it.grep("a(", true, None).unwrap_err().contains("invalid `query`"));
    assert!(it.grep("a\nb", false, None).unwrap_err().contains("single line"));

    it.write("long.txt", format!("needle {}\n", "x".repeat(1000)));
    let long = it.grep("needle", false, None).unwrap();
    assert!(long.ends_with(" […]\n") && long.len() < 600, "{long}");
    it.write("many.txt", "needle\n".repeat(1000));
    it.limits.max_output = 500;
    let many = it.grep("needle", false, Some("many.txt")).unwrap();
    assert!(many.len() < 600 && many.ends_with("use a narrower query]"), "{many}");
    it.limits.max_file = 3;
    let large = it.grep("needle", false, None).unwrap();
    assert!(large.contains("larger than 3 bytes"), "{large}");
}

#[test]
fn search_stops_on_cancel_or_timeout() {
    let it = Ground::new();
    it.write("a", "x\n");
    let workspace = Workspace::open(&[it.at("")], &it.known).unwrap();
    let stopped = AtomicBool::new(true);
    let told = super::search::by_name(&workspace, "*", 1, &it.limits, &Until::new(&stopped, &it.limits));
    assert_eq!(told, Err("cancelled".to_owned()));
    let limits = ToolsConfig { time_limit: Duration::ZERO, ..it.limits.clone() };
    let going = AtomicBool::new(false);
    let told =
        super::search::by_content(&workspace, ("x", false), None, &limits, &Until::new(&going, &limits));
    assert!(told.unwrap_err().contains("stopped after 0 s"));
}

#[test]
fn search_stops_within_a_file() {
    let it = Ground::new();
    it.write("a", "x\n".repeat(1 << 20));
    let file = fs::File::open(it.at("a")).unwrap();
    let stopped = AtomicBool::new(false);
    let until = Until::new(&stopped, &it.limits);
    let mut watched = super::search::Watched { file, until: &until };
    let mut buffer = [0; 8];
    assert_eq!(std::io::Read::read(&mut watched, &mut buffer).unwrap(), 8);
    stopped.store(true, std::sync::atomic::Ordering::Relaxed);
    std::io::Read::read(&mut watched, &mut buffer).unwrap_err();
}

#[test]
fn cancelled_create_makes_no_file() {
    let it = Ground::new();
    let workspace = Workspace::open(&[it.at("")], &it.known).unwrap();
    let create = |is_stopped, limits: &ToolsConfig| {
        let stopped = AtomicBool::new(is_stopped);
        let until = Until::new(&stopped, limits);
        let made = files::create(&workspace, "new/a", "x\n", limits, &until);
        assert_eq!(files::rewrite(&workspace, "new/b", "x\n", limits, &until).is_ok(), made.is_ok());
        made
    };
    create(true, &it.limits).unwrap_err();
    let late = create(false, &ToolsConfig { time_limit: Duration::ZERO, ..it.limits.clone() });
    assert!(late.unwrap_err().contains("stopped after 0 s"));
    assert!(!it.at("new").exists(), "nor a folder for it");
    create(false, &it.limits).unwrap();
    assert_eq!(it.text("new/a"), "x\n");
}

#[test]
fn cancelled_edit_changes_nothing() {
    let it = Ground::new();
    it.write("a", "x\n");
    let workspace = Workspace::open(&[it.at("")], &it.known).unwrap();
    let edit = |is_stopped| {
        let stopped = AtomicBool::new(is_stopped);
        files::rewrite(&workspace, "a", "y\n", &it.limits, &Until::new(&stopped, &it.limits))
    };
    edit(true).unwrap_err();
    assert_eq!(it.text("a"), "x\n");
    edit(false).unwrap();
    assert_eq!(it.text("a"), "y\n");
}

#[test]
fn ignore_files_are_read_only_inside_workspace() {
    let it = Ground::new();
    for folder in ["pipe", "zero", "out", "list", "list/sub", "repo"] {
        it.write(&format!("{folder}/needle"), "");
        it.write(&format!("{folder}/other"), "");
    }
    let pipe = it.at("pipe/.ignore");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    symlink("/dev/zero", it.at("zero/.ignore")).unwrap();
    fs::write(it.outside("list"), "needle\n").unwrap();
    symlink(it.outside("list"), it.at("out/.gitignore")).unwrap();
    fs::write(it.root.path().join(".gitignore"), "needle\n").unwrap();
    it.write("list/.gitignore", "needle\n!/needle\n");
    it.write("list/.ignore", "sub/other\n");
    it.write("repo/.git/info/exclude", "needle\n");
    it.write(".gitignore", "/repo/other\n");
    let root = format!("{}/", it.root.path().join("ws").display());
    let found = |pattern: &str| it.find(pattern).unwrap().replace(&root, "");
    assert_eq!(found("needle"), "list/needle\nout/needle\npipe/needle\nzero/needle\n");
    assert_eq!(
        found("OTHER"),
        "list/other\nout/other\npipe/other\nrepo/other\nzero/other\n",
        "not of the repository"
    );
}

#[test]
fn replaced_workspace_folder_is_refused() {
    let it = Ground::new();
    it.write("a", "in\n");
    it.read("a").unwrap();
    fs::rename(it.at(""), it.root.path().join("moved")).unwrap();
    symlink(it.outside(""), it.at("").as_os_str().to_str().unwrap().trim_end_matches('/')).unwrap();
    assert!(it.read("secret").unwrap_err().contains("replaced by another folder"));
    fs::remove_file(it.root.path().join("ws")).unwrap();
    fs::create_dir(it.at("")).unwrap();
    it.write("a", "x\n");
    assert!(it.read("a").unwrap_err().contains("replaced by another folder"));
    fs::remove_dir_all(it.at("")).unwrap();
    fs::rename(it.root.path().join("moved"), it.at("")).unwrap();
    assert!(it.read("a").unwrap().ends_with("in\n"));
}

#[test]
fn several_folders_form_one_workspace() {
    let it = Ground::new();
    let other = TempDir::new().unwrap();
    fs::write(other.path().join("b"), "b\n").unwrap();
    it.write("a", "a\n");
    // A link to another folder, and to a removed one.
    symlink(other.path().join("b"), it.at("link")).unwrap();
    let folders = [it.at("."), other.path().to_owned(), "/no/such/folder".into()];
    let workspace = Workspace::open(&folders, &it.known).unwrap();
    let read = |path: &str| files::read(&workspace, path, Lines { first: 1, last: 9 }, &it.limits);
    assert!(read("a").unwrap().ends_with("a\n"));
    assert!(read(other.path().join("b").to_str().unwrap()).unwrap().ends_with("b\n"));
    assert!(read("link").unwrap().ends_with("b\n"));
    assert!(read("b").unwrap_err().contains("no such file"), "a relative path is from the first one");
    assert!(read("/no/such/folder/x").unwrap_err().contains("outside"));
    assert!(
        Workspace::open(&["/no/such/folder".into()], &it.known).unwrap_err().contains("no workspace folder")
    );
}

#[test]
fn linked_workspace_is_known_by_both_paths() {
    let it = Ground::new();
    it.write("a", "a\n");
    let link = it.root.path().join("link");
    symlink(it.at(""), &link).unwrap();
    let workspace = Workspace::open(std::slice::from_ref(&link), &it.known).unwrap();
    for path in [link.join("a"), it.at("a").canonicalize().unwrap()] {
        let place = workspace.find(path.to_str().unwrap(), Missing::Refuse).unwrap();
        assert_eq!(place.path, link.join("a"), "it is called as the editor calls it");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any path of names, links and steps back reads only files inside.
    #[test]
    fn no_path_leads_outside_workspace(steps in proptest::collection::vec(0..9_usize, 1..8)) {
        const STEPS: [&str; 9] = ["..", ".", "a", "b", "up", "out", "abs", "f", "self"];
        let it = Ground::new();
        it.write("a/b/f", "in\n");
        it.write("f", "in\n");
        for at in ["", "a", "a/b"] {
            symlink("..", it.at(at).join("up")).unwrap();
            symlink(it.outside(""), it.at(at).join("out")).unwrap();
            symlink(it.at("a"), it.at(at).join("abs")).unwrap();
            symlink(".", it.at(at).join("self")).unwrap();
        }
        fs::write(it.outside("f"), "do not tell\n").unwrap();
        let path = steps.iter().map(|it| STEPS[*it]).collect::<Vec<_>>().join("/");
        let told = it.read(&path);
        // The path as the system resolves it.
        let real = it.at(&path).canonicalize().ok();
        let inside = it.at("").canonicalize().unwrap();
        match told {
            Ok(text) => {
                prop_assert!(text.ends_with("in\n"));
                // `file/.` is the file for lspool, and an error for the system.
                prop_assert!(real.is_none_or(|it| it.starts_with(&inside)));
            }
            Err(why) => prop_assert!(!why.contains("do not tell")),
        }
        let before = tree(&it.outside(""));
        it.create(&path, "x").ok();
        it.rewrite(&path, "x").ok();
        prop_assert_eq!(tree(&it.outside("")), before);
    }

    /// A shell splits a command into the same words as the word-by-word comparison.
    #[test]
    fn command_words_match_those_of_a_shell(command in "[a-c'\" \t.=*$;&|<>~#\\\\!{},@%+:-]{0,12}") {
        if let Some(words) = words(&command).filter(|it| !it.is_empty()) {
            let script = format!("f() {{ for it in \"$@\"; do printf '%s\\n' \"$it\"; done; }}; f {command}");
            for shell in ["sh", "bash"] {
                let out = std::process::Command::new(shell).args(["-c", &script]).output().unwrap();
                let said: Vec<&str> = std::str::from_utf8(&out.stdout).unwrap().lines().collect();
                prop_assert_eq!(&said, &words, "{}: {}", shell, command);
            }
        }
    }
}
