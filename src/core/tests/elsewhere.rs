//! A server elsewhere: copies of its files, and what happens while there is no way to it.

use std::time::Duration;

use serde_json::{Value, json};

use super::stage::{EDITOR, Stage, name, process};
use crate::{
    config::{Engine, RemoteConfig, ServerKind},
    core::event::{Event, Exit, Fetched, Peer, Remote, SpawnFailure},
    rpc::PathPair,
};

fn far() -> Stage {
    far_by(Engine::Ssh, ServerKind::Generic)
}

fn far_by(engine: Engine, kind: ServerKind) -> Stage {
    let mut it = Stage::new(kind);
    it.server.remote = Some(RemoteConfig { engine, ..RemoteConfig::default() });
    it.server.policy.backoff.jitter = 0;
    it.remote = Some(Remote {
        engine,
        name: "ssh box".to_owned(),
        paths: vec![PathPair { local: "/w".to_owned(), remote: "/app".to_owned() }],
        shell: vec!["box".to_owned()],
        copies: Some("/cache/far".to_owned()),
        ..Remote::default()
    });
    it.initialize();
    it.take(EDITOR);
    it.take(Peer::Backend(process(0, 1)));
    it
}

fn ask(it: &mut Stage, id: u32, method: &str, uri: &str) {
    it.editor(json!({"id": id, "method": method, "params": {"textDocument": {"uri": uri}}}));
}

/// The process answers the only request that it has got.
fn answer(it: &mut Stage, generation: u32, result: &Value) -> Value {
    let by = process(0, generation);
    let asked = it.take(Peer::Backend(by)).remove(0);
    it.server(by, json!({"id": asked["id"], "result": result}));
    asked
}

fn fetched(it: &mut Stage, files: &[&str]) {
    let (number, wanted) = it.fetches.remove(0);
    assert!(files.iter().all(|file| wanted.iter().any(|it| it == file)), "{wanted:?}");
    let files = files.iter().map(ToString::to_string).collect();
    let untried = Vec::new();
    it.event(Event::Fetched(Fetched { number, files, untried }));
}

#[test]
fn only_the_answer_with_a_foreign_file_waits_for_its_copy() {
    let mut it = far();
    ask(&mut it, 1, "textDocument/definition", "file:///w/a.py");
    answer(&mut it, 1, &json!([{"uri": "file:///usr/lib/os.py"}, {"uri": "file:///app/b.py"}]));
    ask(&mut it, 2, "textDocument/hover", "file:///w/a.py");
    answer(&mut it, 1, &json!({"contents": "file:///usr/lib/os.py"}));
    let told = it.take(EDITOR);
    assert_eq!((told.len(), &told[0]["id"]), (1, &json!(2)), "{told:?}");
    fetched(&mut it, &["/usr/lib/os.py"]);
    let copy = "file:///cache/far/usr/lib/os.py";
    assert_eq!(
        it.take(EDITOR)[0],
        json!({"jsonrpc": "2.0", "id": 1, "result": [{"uri": copy}, {"uri": "file:///w/b.py"}]})
    );

    ask(&mut it, 3, "textDocument/definition", copy);
    let asked = answer(&mut it, 1, &json!([{"uri": "file:///usr/lib/os.py"}]));
    assert_eq!(asked["params"]["textDocument"]["uri"], "file:///usr/lib/os.py");
    assert_eq!(it.take(EDITOR)[0]["result"], json!([{"uri": copy}]), "it has been copied");
    assert!(it.fetches.is_empty());

    // It cannot be copied.
    ask(&mut it, 4, "textDocument/definition", copy);
    answer(&mut it, 1, &json!([{"uri": "file:///usr/lib/large.py"}]));
    fetched(&mut it, &[]);
    assert_eq!(it.take(EDITOR)[0]["result"], json!([{"uri": "file:///usr/lib/large.py"}]));

    it.server(
        process(0, 1),
        json!({"method": "textDocument/publishDiagnostics",
        "params": {"uri": "file:///usr/lib/x.py", "diagnostics": []}}),
    );
    assert_eq!((it.take(EDITOR).len(), it.fetches.len()), (1, 0), "nobody opens it because of that");
}

#[test]
fn file_that_there_was_no_time_for_is_wanted_again() {
    let mut it = far();
    let (untried, failed) =
        (json!({"uri": "file:///usr/lib/late.py"}), json!({"uri": "file:///usr/lib/no.py"}));
    ask(&mut it, 1, "textDocument/definition", "file:///w/a.py");
    answer(&mut it, 1, &json!([untried, failed]));
    let (number, wanted) = it.fetches.remove(0);
    assert_eq!(wanted, ["/usr/lib/late.py", "/usr/lib/no.py"]);
    let late = vec!["/usr/lib/late.py".to_owned()];
    it.event(Event::Fetched(Fetched { number, files: Vec::new(), untried: late.clone() }));
    assert_eq!(it.take(EDITOR)[0]["result"], json!([untried, failed]));

    ask(&mut it, 2, "textDocument/definition", "file:///w/a.py");
    answer(&mut it, 1, &json!([untried, failed]));
    assert_eq!(it.fetches.remove(0).1, late);
}

#[test]
fn document_that_the_server_shows_is_copied_first() {
    let mut it = far();
    let show = json!({"uri": "file:///usr/lib/os.py"});
    it.server(process(0, 1), json!({"id": "s", "method": "window/showDocument", "params": show}));
    assert!(it.take(EDITOR).is_empty());
    fetched(&mut it, &["/usr/lib/os.py"]);
    assert_eq!(it.take(EDITOR)[0]["params"]["uri"], "file:///cache/far/usr/lib/os.py");
}

#[test]
fn answer_of_a_dead_process_that_waits_for_a_copy_is_not_given() {
    let mut it = far();
    ask(&mut it, 1, "textDocument/definition", "file:///w/a.py");
    answer(&mut it, 1, &json!([{"uri": "file:///usr/lib/os.py"}]));
    it.exited(process(0, 1), Exit::Signal(9));
    fetched(&mut it, &["/usr/lib/os.py"]);
    assert!(it.take(EDITOR).is_empty());
    ready(&mut it, 2);
    answer(&mut it, 2, &json!([{"uri": "file:///usr/lib/os.py"}]));
    fetched(&mut it, &["/usr/lib/os.py"]);
    let told = it.take(EDITOR);
    assert_eq!((told.len(), &told[0]["result"][0]["uri"]), (1, &json!("file:///cache/far/usr/lib/os.py")));
}

/// The process answers `initialize`, and gets the session.
fn ready(it: &mut Stage, generation: u32) {
    let next = process(0, generation);
    let asked = it.take(Peer::Backend(next));
    assert_eq!(asked[0]["method"], "initialize");
    it.server(next, json!({"id": asked[0]["id"], "result": {"capabilities": {}}}));
    let mut told = it.take(Peer::Backend(next));
    assert_eq!(told.remove(0)["method"], "initialized");
    for message in told {
        it.put_back(Peer::Backend(next), message);
    }
}

/// The engine does not get there, this often.
fn no_way(it: &mut Stage, generations: impl IntoIterator<Item = u32>) {
    for generation in generations {
        it.exited(process(0, generation), Exit::Code(255));
    }
}

fn state(it: &mut Stage) -> Value {
    it.editor(json!({"id": "status", "method": "lspool/status"}));
    it.event(super::stage::measured(Vec::new()));
    let told = it.take(EDITOR);
    told.iter().find(|it| it["id"] == "status").unwrap()["result"]["backends"][0].clone()
}

#[test]
fn request_waits_for_the_way_and_then_fails() {
    let mut it = far();
    ask(&mut it, 1, "textDocument/hover", "file:///w/a.py");
    no_way(&mut it, [1, 2]);
    let first = state(&mut it);
    assert_eq!(first["state"], "unreachable");
    it.pass(Duration::from_secs(1));
    let tried = state(&mut it);
    assert_eq!((&tried["state"], &tried["since"]), (&first["state"], &first["since"]));
    no_way(&mut it, [3]);
    it.pass(Duration::from_millis(1500));
    ask(&mut it, 2, "textDocument/hover", "file:///w/a.py");
    it.pass(Duration::from_secs(1));
    no_way(&mut it, [4]);
    assert!(it.take(EDITOR).is_empty());
    it.pass(Duration::from_secs(2));
    let told = it.take(EDITOR);
    let said = "lspool: copilot cannot be reached (ssh box); lspool keeps trying";
    assert_eq!((told.len(), &told[0]["params"]["message"]), (1, &json!(said)), "{told:?}");
    it.pass(Duration::from_secs(5));
    let told = it.take(EDITOR);
    assert_eq!(
        (told.len(), &told[0]["id"], &told[0]["error"]["code"]),
        (1, &json!(1), &json!(-32803)),
        "{told:?}"
    );
    let data = &told[0]["error"]["data"]["lspool"];
    assert_eq!((&data["cause"], &data["retry"]), (&json!("unreachable"), &json!(true)));
    it.pass(Duration::from_secs(10));
    assert_eq!(it.take(EDITOR)[0]["id"], 2);
    assert_eq!(state(&mut it)["crashes"], 0);
}

#[test]
fn request_makes_the_next_attempt_come_at_once() {
    let mut it = far();
    no_way(&mut it, [1, 2]);
    for generation in 3..8 {
        it.pass(Duration::from_secs(16));
        no_way(&mut it, [generation]);
    }
    it.pass(Duration::from_secs(1));
    assert_eq!(it.spawned.last(), Some(&process(0, 7)));
    ask(&mut it, 1, "textDocument/hover", "file:///w/a.py");
    assert_eq!(it.spawned.last(), Some(&process(0, 7)), "the last attempt was just now");
    it.pass(Duration::from_secs(1));
    ask(&mut it, 2, "textDocument/hover", "file:///w/a.py");
    it.pass(Duration::ZERO);
    assert_eq!(it.spawned.last(), Some(&process(0, 8)));
    let told = it.take(EDITOR);
    assert_eq!(told.len(), 1, "that it is away: {told:?}");

    let next = process(0, 8);
    let asked = it.take(Peer::Backend(next));
    it.server(next, json!({"id": asked[0]["id"], "result": {"capabilities": {}}}));
    let asked = it.take(Peer::Backend(next));
    let hovers: Vec<&Value> = asked.iter().filter(|it| it["method"] == "textDocument/hover").collect();
    assert_eq!(hovers.len(), 2, "{asked:?}");
    for hover in hovers {
        it.server(next, json!({"id": hover["id"], "result": null}));
    }
    let told = it.take(EDITOR);
    assert_eq!(told[0]["params"]["message"], "lspool: copilot can be reached again");
    assert_eq!((told.len(), &told[1]["id"], &told[2]["id"]), (3, &json!(1), &json!(2)), "{told:?}");
    it.pass(Duration::from_mins(1));
    assert!(it.take(EDITOR).is_empty());
}

/// Also one that has begun, and one that waits behind it.
#[test]
fn turn_waits_for_the_way_and_then_fails() {
    let of = |id: &str| json!({"conversationId": id});
    let mut it = far_by(Engine::Ssh, ServerKind::Copilot);
    it.create(5, &of("begun"));
    let value = json!({"kind": "begin", "conversationId": "begun", "turnId": "t"});
    it.server(process(0, 1), json!({"method": "$/progress", "params": {"token": "t5", "value": value}}));
    let behind = json!({"conversationId": "begun", "message": "more", "workDoneToken": "t6"});
    it.editor(json!({"id": 6, "method": "conversation/turn", "params": behind}));
    it.create(7, &of("silent"));
    it.take(EDITOR);
    no_way(&mut it, [1, 2]);
    it.pass(Duration::from_secs(9));
    assert!(it.take(EDITOR).iter().all(|it| it.get("id").is_none()), "they wait");
    it.pass(Duration::from_secs(1));
    let told = it.take(EDITOR);
    let ends: Vec<&Value> = told.iter().filter(|it| it["method"] == "$/progress").collect();
    assert_eq!((ends.len(), &ends[0]["params"]["token"]), (1, &json!("t5")), "{told:?}");
    assert_eq!(ends[0]["params"]["value"]["kind"], "end");
    assert!(ends[0]["params"]["value"]["error"]["message"].to_string().contains("cannot be reached"));
    let mut answers: Vec<&Value> = told.iter().filter(|it| it.get("error").is_some()).collect();
    answers.sort_by_key(|it| it["id"].as_u64());
    assert_eq!(answers.iter().map(|it| &it["id"]).collect::<Vec<_>>(), [&json!(5), &json!(6), &json!(7)]);
    for it in answers {
        let data = &it["error"]["data"]["lspool"];
        assert_eq!((&data["cause"], &data["retry"]), (&json!("unreachable"), &json!(true)), "{it}");
    }
    // There is a way again: what has failed does not come, and the next turn of the conversation does.
    let told = it.start(process(0, 3), &[]);
    assert!(told.iter().all(|it| name(it) != "conversation/create"), "{told:?}");
    let more = json!({"conversationId": "begun", "message": "again", "workDoneToken": "t8"});
    it.editor(json!({"id": 8, "method": "conversation/turn", "params": more}));
    let restored: Vec<&str> = it.transcripts.iter().map(|(_, id, _)| id.as_str()).collect();
    assert_eq!(restored, ["begun"], "the process gets the history before the turn");
}

/// A container that was made again may have other folders.
#[test]
fn process_after_a_move_has_the_folders_of_the_new_place() {
    let mut it = far_by(Engine::Docker, ServerKind::Generic);
    it.holds_spawns = true;
    it.exited(process(0, 1), Exit::Code(255));
    it.pass(Duration::ZERO);
    let moved = Some(vec![PathPair { local: "/w".to_owned(), remote: "/new".to_owned() }]);
    let failure = SpawnFailure { permanent: false, message: "its folders have changed".to_owned(), moved };
    it.holds_spawns = false;
    it.event(Event::SpawnFailed(process(0, 2), failure));
    it.pass(Duration::ZERO);
    assert_eq!(it.spawned.last(), Some(&process(0, 3)), "it is not waited for");
    let remote = it.launches.last().unwrap().remote.clone().unwrap();
    assert_eq!(remote.paths[0].remote, "/new");
    ready(&mut it, 3);
    ask(&mut it, 1, "textDocument/hover", "file:///w/a.py");
    let asked = answer(&mut it, 3, &json!(null));
    assert_eq!(asked["params"]["textDocument"]["uri"], "file:///new/a.py");
    assert_eq!(state(&mut it)["crashes"], 1, "the first exit, which was one of the server");
}

/// An engine whose connection is gone may not notice. Its client is ended, and the way is not there.
#[test]
fn silent_server_in_a_container_is_probed_soon_and_replaced() {
    let mut it = far_by(Engine::Kubectl, ServerKind::Generic);
    ask(&mut it, 1, "textDocument/hover", "file:///w/a.py");
    it.take(Peer::Backend(process(0, 1)));
    it.pass(Duration::from_secs(14));
    assert!(it.told(process(0, 1)).is_empty());
    it.pass(Duration::from_secs(1));
    assert_eq!(it.told(process(0, 1)), ["$/lspool/ping"]);
    it.pass(Duration::from_secs(69));
    assert!(it.terminated.is_empty());
    it.pass(Duration::from_secs(1));
    assert_eq!(it.terminated, [process(0, 1)]);
}

/// `ssh` finds out by itself, and a server may well think for long.
#[test]
fn silent_server_on_another_host_is_left_alone() {
    let mut it = far();
    ask(&mut it, 1, "textDocument/hover", "file:///w/a.py");
    it.pass(Duration::from_mins(10));
    assert!(it.terminated.is_empty());
}

/// Nothing there runs the server, or nobody is let in: another attempt is useless, or one of a few.
#[test]
fn refusals_of_the_other_side_do_not_go_on_for_ever() {
    let gone = |it: &mut Stage, generation: u32, code: i32, stderr: &str| {
        let (process, stderr) = (process(0, generation), stderr.to_owned());
        it.event(Event::Exited { process, exit: Exit::Code(code), stderr });
    };
    let mut it = far();
    gone(&mut it, 1, 255, "Connection to box closed by remote host.");
    gone(&mut it, 2, 127, "sh: 1: pyright-langserver: not found");
    let told = it.take(EDITOR);
    assert_eq!(state(&mut it)["state"], "failed");
    assert!(told[0]["params"]["message"].to_string().contains("pyright-langserver: not found"), "{told:?}");
    assert!(it.spawned.len() == 2 && told.len() == 1, "{told:?}");

    let mut it = far();
    let changed = "@@@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @@@\nHost key verification failed.";
    for generation in 1..=20 {
        if it.spawned.contains(&process(0, generation)) {
            gone(&mut it, generation, 255, changed);
            it.pass(Duration::from_secs(10));
        }
    }
    assert!(it.spawned.len() < 10, "{:?}", it.spawned);
    let told = it.take(EDITOR);
    assert_eq!(state(&mut it)["state"], "failed");
    let last = told.last().unwrap().to_string();
    assert!(last.contains("Host key verification failed"), "{last}");
}
