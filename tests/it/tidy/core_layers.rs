//! The layers inside the core: four owners, of which none uses one above it, and the one way out.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    files,
    paths::{Modules, Named},
    read,
};

/// The owners and what puts them together, from below.
const LAYERS: [&str; 8] =
    ["mux", "copilot", "agents", "code_tools", "backends", "admin", "messages", "process_events"];

/// The values that the owners hand to one another.
const VALUES: [&str; 4] = ["event", "identity", "ids", "purpose"];

/// The effects, and who makes each. In the wire, a message becomes one.
const MAKERS: [(&str, &[&str]); 27] = [
    ("Send", &["mux::wire"]),
    ("Prepare", &["mux", "admin"]),
    ("WatchEditor", &["mux"]),
    ("Spawn", &["mux"]),
    ("Adopt", &["mux"]),
    ("WriteTranscript", &["copilot"]),
    ("RemoveTranscript", &["copilot"]),
    ("RemoveTranscripts", &["copilot"]),
    ("LoadTeams", &["agents"]),
    ("WriteTeam", &["agents"]),
    ("RemoveTeam", &["agents"]),
    ("KeepMode", &["copilot"]),
    ("RunTool", &["copilot"]),
    ("CancelTool", &["mux"]),
    ("Look", &["code_tools"]),
    ("Write", &["code_tools"]),
    ("Fetch", &["mux"]),
    ("Measure", &["mux"]),
    ("FindRoot", &["mux"]),
    ("ReadFile", &["mux"]),
    ("Recall", &["mux"]),
    ("Remember", &["mux"]),
    ("Logs", &["admin"]),
    ("CloseInput", &["mux"]),
    ("AwaitDrained", &["mux"]),
    ("Terminate", &["mux"]),
    ("Exit", &["mux"]),
];

/// Methods that ask the file system or the clock, with any import.
const WORLDLY: [&str; 9] = [
    "canonicalize",
    "elapsed",
    "exists",
    "is_dir",
    "is_file",
    "metadata",
    "read_dir",
    "symlink_metadata",
    "try_exists",
];

fn core() -> Modules {
    let is_read = |path: &str| path == "src/lib.rs" || path == "src/core.rs" || path.starts_with("src/core/");
    Modules::read(&|path| is_read(path).then(|| read(path)))
}

/// Whether a path is this one, or in it, or a glob that contains it.
fn is_in(path: &str, root: &str) -> bool {
    let is_below = |path: &str, root: &str| {
        path.strip_prefix(root).is_some_and(|it| it.is_empty() || it.starts_with("::"))
    };
    is_below(path, root) || path.strip_suffix("::*").is_some_and(|it| is_below(root, it))
}

/// Says who of these names any of those.
fn users(all: &[Named], who: &str, whom: &[String]) -> BTreeSet<String> {
    let own = all.iter().filter(|it| is_in(&it.by, who));
    let found = own.filter(|it| whom.iter().any(|root| is_in(&it.path, root)));
    found.map(|it| format!("{} uses {}", it.by, it.path)).collect()
}

fn in_core(modules: &[&str]) -> Vec<String> {
    modules.iter().map(|it| format!("crate::core::{it}")).collect()
}

/// Checks that an owner uses none above it, nor what puts them together.
fn check_layer(owner: &str) {
    let all = core().named();
    let who = format!("crate::core::{owner}");
    assert!(all.iter().any(|it| is_in(&it.by, &who)), "{owner} is not there");
    let n = LAYERS.iter().position(|it| *it == owner).expect("a layer");
    assert_eq!(users(&all, &who, &in_core(&LAYERS[n + 1..])), BTreeSet::new());
}

#[test]
fn mux_uses_no_higher_owner() {
    check_layer("mux");
    // Nor what only those above need to know.
    let whom = ["agents", "tools", "mode_file"].map(|it| format!("crate::{it}"));
    assert_eq!(users(&core().named(), "crate::core::mux", &whom), BTreeSet::new());
}

#[test]
fn copilot_uses_no_higher_owner() {
    check_layer("copilot");
}

#[test]
fn agents_use_no_higher_owner() {
    check_layer("agents");
}

#[test]
fn admin_and_backends_use_no_higher_owner() {
    check_layer("backends");
    check_layer("admin");
}

#[test]
fn events_and_purposes_use_no_owner() {
    let all = core().named();
    for who in in_core(&VALUES) {
        assert_eq!(users(&all, &who, &in_core(&LAYERS)), BTreeSet::new());
    }
}

#[test]
fn every_module_of_core_has_its_layer() {
    let modules = files("src/core", "rs").into_iter().map(|(path, _)| path);
    let top =
        modules.filter_map(|it| Some(it.strip_prefix("src/core/")?.split(['/', '.']).next()?.to_owned()));
    let known = LAYERS.iter().chain(&VALUES).chain(&["tests"]).map(|it| (*it).to_owned());
    assert_eq!(top.collect::<BTreeSet<_>>(), known.collect());
}

#[test]
fn only_the_top_of_core_names_proxy() {
    let all = core().named();
    let top = ["crate", "crate::core", "crate::core::messages", "crate::core::process_events"];
    let users = users(&all, "crate::core", &in_core(&["Proxy"]));
    let lower: Vec<_> =
        users.iter().filter(|it| !top.iter().any(|top| it.starts_with(&format!("{top} ")))).collect();
    assert_eq!(lower, Vec::<&String>::new());
}

#[test]
fn owners_keep_their_fields_private() {
    for (owner, name) in [
        ("mux", "Mux"),
        ("copilot", "Copilot"),
        ("agents", "Agents"),
        ("code_tools", "CodeTools"),
        ("admin", "Admin"),
    ] {
        let text = read(&format!("src/core/{owner}.rs"));
        let fields = text.split_once(&format!("struct {name} {{\n")).and_then(|(_, it)| it.split_once("\n}"));
        let (fields, _) = fields.expect("the owner");
        let public: Vec<_> = fields.lines().filter(|it| it.trim_start().starts_with("pub")).collect();
        assert_eq!(public, Vec::<&str>::new(), "{name}");
    }
}

#[test]
fn each_effect_is_made_by_its_owner() {
    let mut made: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for it in core().named().iter().filter(|it| !it.is_pattern) {
        if let Some(effect) = it.path.strip_prefix("crate::core::event::Effect::") {
            let by = it.by.strip_prefix("crate::core::").unwrap_or("core");
            let owner = by.split("::").next().unwrap_or(by);
            let maker = if effect == "Send" { by } else { owner };
            made.entry(effect.to_owned()).or_default().insert(maker.to_owned());
        }
    }
    let intended =
        MAKERS.map(|(effect, by)| (effect.to_owned(), by.iter().map(|it| (*it).to_owned()).collect()));
    assert_eq!(made, BTreeMap::from(intended));
}

#[test]
fn only_wire_holds_effects() {
    let core = core();
    let named = users(&core.named(), "crate::core", &in_core(&["event::Effects"]));
    let by = named.iter().filter_map(|it| it.split(' ').next());
    assert_eq!(by.collect::<Vec<_>>(), ["crate::core", "crate::core::mux::wire"]);
    // Messages for internal conversations are taken out again.
    let readers: BTreeSet<_> =
        core.calls().filter(|(_, it)| ["effects", "take_effects"].contains(it)).collect();
    let intended = [
        ("crate::core::agents::conversations", "effects"),
        ("crate::core::agents::conversations::delivery", "take_effects"),
        ("crate::core::code_tools", "effects"),
        ("crate::core::code_tools", "take_effects"),
    ];
    assert_eq!(readers, BTreeSet::from(intended));
}

#[test]
fn core_touches_no_world() {
    let core = core();
    let higher = ["shell", "cli", "recording", "player"].map(|it| format!("crate::{it}"));
    let world = ["env", "fs", "io", "net", "os", "process", "thread"].map(|it| format!("std::{it}"));
    let runtime = ["landlock", "rustix", "tokio", "tokio_util"].map(str::to_owned);
    let whom: Vec<_> = higher.into_iter().chain(world).chain(runtime).collect();
    assert_eq!(users(&core.named(), "crate::core", &whom), BTreeSet::new());
    let calls: Vec<_> = core.calls().filter(|(_, it)| WORLDLY.contains(it)).collect();
    assert_eq!(calls, []);
}

#[test]
fn core_imports_by_name() {
    let globs = core().named().into_iter().filter(|it| it.path.ends_with("::*"));
    assert_eq!(globs.collect::<Vec<_>>(), [], "what is imported by `*` cannot be followed");
}

#[test]
fn mux_has_no_word_of_copilot() {
    let mux = files("src/core/mux", "rs")
        .into_iter()
        .chain([("src/core/mux.rs".to_owned(), read("src/core/mux.rs"))]);
    for (path, text) in mux.filter(|(path, _)| !path.ends_with("/tests.rs")) {
        let (product, _) = text.split_once("\n#[cfg(test)]\nmod ").unwrap_or((&text, ""));
        for line in product.lines() {
            let rest = line.replace("Purpose::Copilot", "").replace("CopilotPurpose", "");
            assert!(!rest.to_lowercase().contains("copilot"), "{path}: {line}");
        }
    }
}
