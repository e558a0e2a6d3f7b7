//! Many tool sets in one process of the real Copilot server, each kept to by a chat mode.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::{Value, json};

use super::{
    partitions::{offered, servers},
    support::{
        copilot::{Copilot, Options, tool},
        real::{self, Sandbox},
        stub::{LogEntry, Round, Rule, Script, Stub},
    },
};

/// An editor and lspool with these keys of `[server.copilot]`, and more of the file.
fn start(sandbox: &Sandbox, stub: &Stub, keys: &str, more: &str, options: Options) -> Copilot {
    let config = sandbox.home().join("lspool.toml");
    std::fs::write(&config, format!("[server.copilot]\n{keys}\n{more}")).expect("the home is ours");
    let mut command = sandbox.signed_in_command(env!("CARGO_BIN_EXE_lspool"), stub);
    command.arg("--config").arg(config).arg("--").arg(real::copilot()).arg("--stdio");
    Copilot::start(command, options)
}

fn by_mode(sandbox: &Sandbox, stub: &Stub) -> Copilot {
    let options = Options::in_workspace(sandbox.workspace());
    start(sandbox, stub, "isolation = \"mode\"", "", options)
}

const TOOLS: [&str; 7] = [
    "zebra",
    "fetch_ticket",
    "run_in_terminal",
    "create_file",
    "insert_edit_into_file",
    "ide_open",
    "ide_errors",
];

/// Ten sets of all kinds, and what a model is to be offered.
const SETS: [(&[&str], &[&str]); 10] = [
    (&[], &[]),
    (&["fetch_ticket"], &["fetch_ticket"]),
    (&["zebra", "fetch_ticket", "list_dir"], &["zebra", "fetch_ticket", "list_dir"]),
    (&["read_file", "grep_search", "file_search"], &["read_file", "grep_search", "file_search"]),
    (&["ide", "read_*"], &["ide_open", "ide_errors", "read_file"]),
    (&["create_file"], &["create_file", "apply_patch", "insert_edit_into_file"]),
    (
        &["run_in_terminal", "apply_patch"],
        &["run_in_terminal", "create_file", "apply_patch", "insert_edit_into_file"],
    ),
    (&["nobody_has_this"], &[]),
    (&["run_in_terminal", "nobody_has_this"], &["run_in_terminal"]),
    (&["validate_cves", "zebra"], &["validate_cves", "zebra"]),
];

/// The bodies of the model requests of each conversation, by what was asked.
fn bodies(log: &[LogEntry]) -> BTreeMap<(String, usize), String> {
    let turns = log.iter().filter(|it| it.is_turn());
    let body = |it: &LogEntry| {
        let chat = it.chat.as_ref().expect("a turn has one");
        ((chat.user.clone(), chat.round), String::from_utf8_lossy(&it.body).into_owned())
    };
    turns.map(body).collect()
}

#[test]
fn for_ten_sets_the_model_is_told_what_a_process_of_its_own_would_tell_it() {
    let sandbox = Sandbox::new();
    let rule = (0..SETS.len()).fold(Script::default(), |script, n| {
        let call =
            Round::text("One.\n").call_with_id(&format!("call_{n}"), "fetch_ticket", json!({"key": "K"}));
        script.rule(Rule::on(&format!("[set {n}]")).then(call).then(Round::text("Two.")))
    });
    let stub = Stub::start(rule);
    let mut told: Vec<BTreeMap<(String, usize), String>> = Vec::new();
    for isolation in ["mode", "process"] {
        let keys = format!("isolation = \"{isolation}\"\nmax_processes = 12");
        let session = start(&sandbox, &stub, &keys, "", Options::in_workspace(sandbox.workspace()));
        session.register_tools(&TOOLS).expect("the schemas are good");
        let before = stub.log().len();
        for (n, (set, _)) in SETS.iter().enumerate() {
            let more = json!({"conversationId": format!("set-{n}"), "lspool": {"tools": set}});
            session.finish(&session.create(&format!("[set {n}] first"), more)).expect_success();
            let turn = session.turn(&json!(format!("set-{n}")), &format!("[set {n}] second"), json!({}));
            session.finish(&turn).expect_success();
        }
        let expected = if isolation == "mode" { 1 } else { 1 + SETS.len() };
        assert_eq!(servers(&session), expected);
        assert!(session.shutdown().success());
        let log = stub.log().split_off(before);
        for entry in log.iter().filter(|it| it.is_turn()) {
            let chat = entry.chat.as_ref().expect("a turn has one");
            let n: usize = chat.user[5..6].parse().expect("it says which set");
            assert_eq!(offered(chat), SETS[n].1.iter().copied().collect(), "{isolation} {:?}", SETS[n].0);
        }
        told.push(bodies(&log));
    }
    assert_eq!(told[0].len(), SETS.len() * 4);
    for (key, by_mode) in &told[0] {
        similar(key, by_mode, &told[1][key]);
    }
}

/// Whether two bodies are equal but for ids.
fn similar(key: &(String, usize), one: &str, other: &str) {
    let mut report = String::new();
    if one != other {
        let at = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
        let around =
            |it: &str| it.get(at.saturating_sub(150)..(at + 150).min(it.len())).unwrap_or("?").to_owned();
        write!(report, "{key:?} at {at}:\n{}\n{}", around(one), around(other)).expect("a string");
    }
    assert!(report.is_empty(), "{report}");
}

#[test]
fn a_hundred_conversations_in_twenty_sets_at_once() {
    let sandbox = Sandbox::new();
    let stub = Stub::start(Script::default());
    let session = by_mode(&sandbox, &stub);
    let names: Vec<String> = (0..20).map(|n| format!("tool_{n}")).collect();
    let tools: Vec<Value> = names.iter().map(|it| tool(it)).collect();
    session.ok("conversation/registerTools", json!({"tools": tools}));
    let sets: Vec<[&str; 2]> = (0..20).map(|n| [names[n].as_str(), names[(n + 7) % 20].as_str()]).collect();
    let turns: Vec<_> = (0..100)
        .map(|n| {
            let more = json!({"conversationId": format!("c{n}"), "lspool": {"tools": sets[n % 20]}});
            session.create(&format!("hello {n} of"), more)
        })
        .collect();
    for turn in &turns {
        session.finish(turn).expect_success();
    }
    let again: Vec<_> = (0..100)
        .map(|n| session.turn(&json!(format!("c{n}")), &format!("hello {n} of"), json!({})))
        .collect();
    for turn in &again {
        session.finish(turn).expect_success();
    }
    assert_eq!(servers(&session), 1);
    let turns = stub.turns();
    assert_eq!(turns.len(), 200);
    for turn in &turns {
        let n: usize = turn.user.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("it says which");
        assert_eq!(offered(turn), sets[n % 20].into_iter().collect(), "conversation {n}");
    }
    assert!(session.shutdown().success());
}
