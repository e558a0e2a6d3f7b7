//! What no compiler checks: the layers, the size of files, the links between the documents.

mod core_layers;
mod paths;

use std::{fs, path::Path};

/// All files in a folder with this extension: path from the root, and text.
fn files(folder: &str, extension: &str) -> Vec<(String, String)> {
    let entries = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).expect("a folder");
    let names = entries.flatten().filter_map(|it| it.file_name().into_string().ok());
    let mut found = Vec::new();
    for path in names.filter(|it| it != "node_modules" && it != ".venv").map(|it| format!("{folder}/{it}")) {
        match Path::new(&path).extension() {
            None if Path::new(env!("CARGO_MANIFEST_DIR")).join(&path).is_dir() => {
                found.extend(files(&path, extension));
            }
            Some(it) if it == extension => found.push((path.clone(), read(&path))),
            Some(_) | None => {}
        }
    }
    found
}

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("a text file")
}

/// Whether the text names `root::module`, be it in a group: `use root::{a, module::b};`.
fn uses(text: &str, root: &str, module: &str) -> bool {
    let is_other = |c: char| !c.is_alphanumeric() && c != '_';
    let opening = format!("{root}::{{");
    let mut groups = text.split(&opening).skip(1).filter_map(|it| it.split(';').next());
    let is_grouped = groups.any(|it| it.split(is_other).any(|word| word == module));
    let path = format!("{root}::{module}");
    is_grouped || text.split(&path).skip(1).any(|after| after.is_empty() || after.starts_with(is_other))
}

#[test]
fn lower_layers_do_not_use_higher_ones() {
    for (layer, higher) in [
        ("rpc", &["core", "shell", "cli"][..]),
        ("config", &["core", "shell", "cli"]),
        ("agents", &["core", "shell", "cli"]),
        ("builtin_tools", &["core", "shell", "cli", "recording"]),
        ("core", &["shell", "cli", "recording", "hub"]),
        ("hub", &["shell", "cli", "recording"]),
        ("recording", &["shell", "cli"]),
        ("player", &["shell", "cli"]),
    ] {
        let module = format!("src/{layer}.rs");
        let mut all = files(&format!("src/{layer}"), "rs");
        all.push((module.clone(), read(&module)));
        // The tests of a layer may ask the world how long they are to run.
        all.retain(|(path, _)| !path.contains("/tests/") && !path.ends_with("/tests.rs"));
        assert!(all.len() > 1);
        for (path, text) in all {
            let found = higher.iter().find(|it| uses(&text, "crate", it));
            assert_eq!(found, None, "{path} uses a higher layer");
            let found = ["fs", "process", "env", "net"].into_iter().find(|it| uses(&text, "std", it));
            // A test may be told by the world how long to run.
            assert!(found.is_none() || path.contains("/tests/"), "{path} touches the world: {found:?}");
            assert!(!text.contains("tokio::"), "{path} uses the runtime");
        }
    }
    assert!(
        uses("use std::{\n    io,\n    fs,\n};", "std", "fs") && uses("crate::shell::x", "crate", "shell")
    );
    assert!(uses("use crate::cli;", "crate", "cli") && !uses("crate::client::x", "crate", "cli"));
}

#[test]
fn only_the_program_uses_the_commands() {
    let all = files("src", "rs").into_iter();
    let lower = all.filter(|(path, _)| !path.starts_with("src/cli") && path != "src/main.rs");
    let users: Vec<_> = lower.filter(|(_, text)| uses(text, "crate", "cli")).map(|(path, _)| path).collect();
    assert_eq!(users, Vec::<String>::new());
}

#[test]
fn no_file_exceeds_800_lines() {
    for (path, text) in
        ["src", "tests", "examples", "fuzz/fuzz_targets"].iter().flat_map(|it| files(it, "rs"))
    {
        assert!(text.lines().count() <= 800, "{path} has {} lines", text.lines().count());
    }
}

#[test]
fn links_between_documents_resolve() {
    let top = ["./README.md", "./CONTRIBUTING.md"].map(|it| (it.to_owned(), read(it)));
    for (path, text) in files("docs", "md").into_iter().chain(top) {
        let targets = text.split("](").skip(1).filter_map(|it| it.split([')', '#']).next());
        for target in targets.filter(|it| !it.is_empty() && !it.contains("://")) {
            let there = Path::new(env!("CARGO_MANIFEST_DIR")).join(&path).with_file_name(target);
            assert!(there.exists(), "{path} links to {target}");
        }
    }
}

#[test]
fn only_one_place_names_operating_systems() {
    let words = [
        "rustix",
        "os::unix",
        "os::fd",
        "os::windows",
        "signal::unix",
        "cfg(unix",
        "cfg(windows",
        "cfg(target_os",
    ];
    for (path, text) in files("src", "rs") {
        let is_test = path.contains("/tests/") || path.ends_with("/tests.rs");
        if path.starts_with("src/shell/os") || is_test {
            continue;
        }
        // Tests may be of one system.
        let text = text.replace("#[cfg(unix)]\n#[cfg(test)]", "#[cfg(test)]");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code = code.split("#[cfg(all(test").next().unwrap_or_default();
        let found = words.iter().find(|it| code.contains(*it));
        assert_eq!(found, None, "{path} names an operating system: src/shell/os does");
    }
}
