//! The output, and the choice of a backend. `tests/it/control.rs` tests finding and asking with the program.

use std::time::Duration;

use expect_test::{Expect, expect};
use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    Interrupts,
    pick::ask,
    report::{Status, instance, memory, span, text_of},
};
use crate::{
    cli::{columns, screen::Screen},
    shell::control::Instance,
};

const NOW: u64 = 10_000_000_000;

fn backend(name: &str, more: &Value) -> Value {
    let mut it = json!({
        "name": name, "toolset": null, "state": "ready", "since": NOW - 180_000, "pid": 4712,
        "rss_bytes": 377_000_000, "restarts": 0, "conversations": 2, "in_flight": 1, "refused": 0,
        "last_error": null,
    });
    let more = more.as_object().into_iter().flatten();
    it.as_object_mut().unwrap().extend(more.map(|(key, value)| (key.clone(), value.clone())));
    it
}

fn status(backends: &[Value]) -> Value {
    json!({
        "pid": 4711, "version": "0.1.0", "workspace": "/home/me/project", "editor": "Neovim 0.11.2+v0.11.2", "started": 1,
        "config": {"error": null}, "backends": backends,
    })
}

fn many() -> Value {
    let tools = ["grep_search", "list_dir", "read_file", "semantic_search"];
    let tools_in_name = "partition \"grep_search,list_dir,read_file,semantic_search\" of copilot";
    status(&[
        backend("copilot", &json!({})),
        backend(
            tools_in_name,
            &json!({
                "toolset": tools, "state": "restarting", "pid": null, "rss_bytes": null, "restarts": 3, "refused": 12,
                "last_error": "crashed: signal 9\nthe last line\x1b[2J", "last_error_at": NOW - 120_000, "crashes": 3,
                "next_start": NOW + 2_400,
            }),
        ),
        backend(
            "partition \"\" of copilot",
            &json!({"toolset": [], "state": "failed", "since": NOW - 7_300_000}),
        ),
    ])
}

fn shows(status: &Value, screen: Screen, expected: &Expect) {
    let status = Status::read(status).unwrap();
    let mut lines = Vec::new();
    instance(4711, Ok(&status), NOW, screen, &mut lines);
    if let Some((width, _)) = screen.size.filter(|_| !screen.is_colored) {
        let longest = lines.iter().map(|it| columns::width(it)).max().unwrap_or_default();
        assert!(longest <= width, "{longest} columns of {width}");
    }
    expected.assert_eq(&(lines.join("\n") + "\n").replace('\x1b', "␛"));
}

#[test]
fn status_table_shows_every_backend() {
    shows(
        &many(),
        Screen::default(),
        &expect![[r#"
            lspool 4711  /home/me/project  Neovim 0.11.2
              SERVER   TOOLS                                           STATE       SINCE   PID   MEMORY  RESTARTS  CHATS  REQUESTS  REFUSED
              copilot  all                                             ready       3 min  4712  360 MiB         0      2         1        0
              copilot  grep_search,list_dir,read_file,semantic_search  restarting  3 min     -        -         3      2         1       12
                crashed 3 times, last error 2 min ago: crashed: signal 9
                  the last line�[2J
                next start: in 3 s
              copilot  none                                            failed        2 h  4712  360 MiB         0      2         1        0
                hint: run `lspool restart 'partition "" of copilot'`
        "#]],
    );
}

#[test]
fn status_table_shows_dropped_messages() {
    let mut it = status(&[backend("copilot", &json!({"dropped": {"log_messages": 0, "reports": 3}}))]);
    it["dropped"] = json!({"editor": {"log_messages": 20, "reports": 1}, "control": {"log_messages": 0}});
    shows(
        &it,
        Screen::default(),
        &expect![[r#"
            lspool 4711  /home/me/project  Neovim 0.11.2
                dropped for the editor: 20 log messages, 1 stale reports
              SERVER   STATE  SINCE   PID   MEMORY  RESTARTS  CHATS  REQUESTS  REFUSED
              copilot  ready  3 min  4712  360 MiB         0      2         1        0
                dropped for it: 3 stale reports
        "#]],
    );
}

#[test]
fn status_table_shows_agents_at_work() {
    let mut it = status(&[backend("copilot", &json!({}))]);
    it["agents"] = json!([
        {"name": "explore-1", "kind": "sub-agent", "of": "c", "task": null, "tool": "grep", "since": NOW - 12_000},
        {"name": "explore-2", "kind": "sub-agent", "of": "c", "task": null, "tool": null, "since": null},
        {"name": "coder-1", "kind": "worker", "of": "o", "task": 3, "tool": null, "since": NOW - 60_000},
    ]);
    shows(
        &it,
        Screen::default(),
        &expect![[r#"
            lspool 4711  /home/me/project  Neovim 0.11.2
              SERVER   STATE  SINCE   PID   MEMORY  RESTARTS  CHATS  REQUESTS  REFUSED
              copilot  ready  3 min  4712  360 MiB         0      2         1        0
                agent: explore-1 (sub-agent of c) runs grep, 12 s
                agent: explore-2 (sub-agent of c) waits
                agent: coder-1 (worker of o) works on task 3, 1 min
        "#]],
    );
}

#[test]
fn status_table_shortens_tools_in_narrow_terminal() {
    shows(
        &many(),
        Screen { size: Some((100, 24)), is_colored: false },
        &expect![[r#"
            lspool 4711  /home/me/project  Neovim 0.11.2
              SERVER   TOOLS                STATE       SINCE   PID   MEMORY  RESTARTS  CHATS  REQUESTS  REFUSED
              copilot  all                  ready       3 min  4712  360 MiB         0      2         1        0
              copilot  grep_search,list_d…  restarting  3 min     -        -         3      2         1       12
                crashed 3 times, last error 2 min ago: crashed: signal 9
                  the last line�[2J
                next start: in 3 s
              copilot  none                 failed        2 h  4712  360 MiB         0      2         1        0
                hint: run `lspool restart 'partition "" of copilot'`
        "#]],
    );
}

#[test]
fn status_table_drops_columns_in_narrower_terminal() {
    shows(
        &many(),
        Screen { size: Some((72, 24)), is_colored: false },
        &expect![[r#"
            lspool 4711  /home/me/project  Neovim 0.11.2
              SERVER   TOOLS              STATE       SINCE   PID   MEMORY  RESTARTS
              copilot  all                ready       3 min  4712  360 MiB         0
              copilot  grep_search,list…  restarting  3 min     -        -         3
                crashed 3 times, last error 2 min ago: crashed: signal 9
                  the last line�[2J
                next start: in 3 s
              copilot  none               failed        2 h  4712  360 MiB         0
                hint: run `lspool restart 'partition "" of copilot'`
        "#]],
    );
}

#[test]
fn status_table_colors_states() {
    shows(
        &many(),
        Screen { size: Some((120, 24)), is_colored: true },
        &expect![[r#"
            ␛[1mlspool 4711␛[0m  /home/me/project  Neovim 0.11.2
              ␛[2mSERVER␛[0m   ␛[2mTOOLS␛[0m                                    ␛[2mSTATE␛[0m       ␛[2mSINCE␛[0m   ␛[2mPID␛[0m   ␛[2mMEMORY␛[0m  ␛[2mRESTARTS␛[0m  ␛[2mCHATS␛[0m  ␛[2mREQUESTS␛[0m  ␛[2mREFUSED␛[0m
              copilot  all                                      ␛[32mready␛[0m       3 min  4712  360 MiB         0      2         1        0
              copilot  grep_search,list_dir,read_file,semanti…  ␛[33mrestarting␛[0m  3 min     -        -         3      2         1       12
            ␛[2m    crashed 3 times, last error 2 min ago: crashed: signal 9␛[0m
            ␛[2m      the last line�[2J␛[0m
            ␛[2m    next start: in 3 s␛[0m
              copilot  none                                     ␛[31mfailed␛[0m        2 h  4712  360 MiB         0      2         1        0
            ␛[2m    hint: run `lspool restart 'partition "" of copilot'`␛[0m
        "#]],
    );
}

#[test]
fn status_table_suggests_names_for_unknown_tools() {
    let mut it = status(&[backend("copilot", &json!({}))]);
    let set = |tools: &[&str]| json!({"toolset": tools, "isolation": "process", "conversations": 1, "unknown_tools": tools});
    it["sets"] = json!([set(&["Read", "fetch_it"]), set(&[])]);
    shows(
        &it,
        Screen::default(),
        &expect![[r#"
            lspool 4711  /home/me/project  Neovim 0.11.2
              SERVER   STATE  SINCE   PID   MEMORY  RESTARTS  CHATS  REQUESTS  REFUSED
              copilot  ready  3 min  4712  360 MiB         0      2         1        0
                unknown tool: Read (did you mean read_file?), fetch_it
        "#]],
    );
}

#[test]
fn status_table_shows_conversation_ids_in_long_form() {
    let mut it = status(&[
        backend("copilot", &json!({})),
        backend(
            "partition \"a\" of copilot",
            &json!({
                "toolset": ["a"], "state": "stopped", "pid": null, "rss_bytes": null, "stopped": "it was idle",
            }),
        ),
    ]);
    it["sets"] = json!([{"toolset": ["a"], "isolation": "process", "conversations": 2, "ids": ["c", "d"]}]);
    let mut status = Status::read(&it).unwrap();
    status.is_long = true;
    let mut lines = Vec::new();
    instance(4711, Ok(&status), NOW, Screen::default(), &mut lines);
    expect![[r#"
        lspool 4711  /home/me/project  Neovim 0.11.2
          SERVER   TOOLS  STATE    SINCE   PID   MEMORY  RESTARTS  CHATS  REQUESTS  REFUSED
          copilot  all    ready    3 min  4712  360 MiB         0      2         1        0
          copilot  a      stopped  3 min     -        -         0      2         1        0
            stopped: it was idle
            chats: a: c d by process
    "#]]
    .assert_eq(&(lines.join("\n") + "\n"));
}

#[test]
fn only_copilot_instances_may_have_agents() {
    let of = |kind: Value| {
        let mut it = status(&[]);
        it["kind"] = kind;
        Status::read(&it).unwrap().may_have_agents()
    };
    assert!(of(json!("copilot")) && of(Value::Null), "an earlier lspool does not say");
    assert!(!of(json!("generic")));
}

#[tokio::test]
async fn ask_ignores_instance_that_ends_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("7-1.sock");
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    let ends = async move {
        let (stream, _) = listener.accept().await.unwrap();
        drop(listener);
        drop(stream);
    };
    let instance = Instance { started: 1, pid: 7, socket };
    let (seen, ()) = tokio::join!(ask(instance), ends);
    assert!(seen.is_none(), "{seen:?}");
}

#[test]
fn status_table_omits_tools_column_without_tool_sets() {
    let mut it = status(&[backend("pyright", &json!({"pid": null, "state": "starting", "rss_bytes": null}))]);
    let problem = "line 3: unknown key `comand`; did you mean `command`?\n";
    it["config"]["error"] = format!("the configuration has errors:\n{}", problem.repeat(5)).into();
    it["workspace"] = Value::Null;
    it["editor"] = Value::Null;
    shows(
        &it,
        Screen::default(),
        &expect![[r#"
        lspool 4711  no workspace
            configuration: line 3: unknown key `comand`; did you mean `command`?
              line 3: unknown key `comand`; did you mean `command`?
              line 3: unknown key `comand`; did you mean `command`?
              2 more; `lspool check` shows them all
          SERVER   STATE     SINCE  PID  MEMORY  RESTARTS  CHATS  REQUESTS  REFUSED
          pyright  starting  3 min    -       -         0      2         1        0
    "#]],
    );
    shows(
        &status(&[]),
        Screen::default(),
        &expect![[r#"
        lspool 4711  /home/me/project  Neovim 0.11.2
          no server yet
    "#]],
    );
}

#[test]
fn status_reader_ignores_unknown_fields_and_states() {
    let mut it = status(&[json!({"name": "x", "state": "pensive", "news": 1})]);
    it["news"] = json!({"of": "tomorrow"});
    it.as_object_mut().unwrap().remove("config");
    shows(
        &it,
        Screen::default(),
        &expect![[r#"
        lspool 4711  /home/me/project  Neovim 0.11.2
          SERVER  STATE    SINCE  PID  MEMORY  RESTARTS  CHATS  REQUESTS  REFUSED
          x       pensive      -    -       -         0      0         0        0
    "#]],
    );
    assert!(Status::read(&json!({"backends": 7})).is_err());
}

#[test]
fn time_spans_and_memory_print_with_units() {
    let spans = [0, 59_999, 60_000, 3_599_999, 3_600_000, 172_799_999, 172_800_000].map(span);
    assert_eq!(spans, ["0 s", "59 s", "1 min", "59 min", "1 h", "47 h", "2 d"]);
    assert_eq!([0, 1, 1 << 20, (1 << 30) + 1].map(memory), ["0 MiB", "1 MiB", "1 MiB", "1025 MiB"]);
}

#[test]
fn status_table_shows_no_tools_for_spare() {
    shows(
        &status(&[backend("spare 1 of copilot", &json!({"toolset": []}))]),
        Screen::default(),
        &expect![[r#"
            lspool 4711  /home/me/project  Neovim 0.11.2
              SERVER              TOOLS  STATE  SINCE   PID   MEMORY  RESTARTS  CHATS  REQUESTS  REFUSED
              spare 1 of copilot  none   ready  3 min  4712  360 MiB         0      2         1        0
        "#]],
    );
}

#[tokio::test]
async fn interrupts_keep_ctrl_c_without_waiter() {
    let mut interrupts = Interrupts::listen();
    for _ in 0..2 {
        // While no task waits, for example while a change is being written.
        kill_process(getpid(), Signal::INT).unwrap();
        timeout(Duration::from_secs(30), interrupts.next()).await.expect("it has come");
    }
}

#[test]
fn status_table_omits_columns_of_agents_for_generic_server() {
    let mut it =
        status(&[backend("pyright", &json!({"state": "failed", "last_error": "it exited (signal 9)"}))]);
    it["kind"] = "generic".into();
    shows(
        &it,
        Screen::default(),
        &expect![[r#"
        lspool 4711  /home/me/project  Neovim 0.11.2
          SERVER   STATE   SINCE   PID   MEMORY  RESTARTS  REQUESTS
          pyright  failed  3 min  4712  360 MiB         0         1
            last error: it exited (signal 9)
            hint: run `lspool restart pyright`
    "#]],
    );
}

/// Two lspools with plain servers, and perhaps one more.
fn several(more: Option<Value>, width: Option<usize>, expected: &Expect) {
    let plain = |workspace: &str, backends: &[Value]| {
        let mut it = status(backends);
        it["kind"] = json!("generic");
        it["workspace"] = json!(workspace);
        it
    };
    let failed =
        json!({"state": "failed", "pid": null, "rss_bytes": null, "last_error": "it exited (code 1)"});
    let one = plain("/home/me/code/services/very-long-names/api", &[backend("pyright", &json!({}))]);
    let group = [backend("basedpyright", &json!({"pid": 123_456})), backend("ruff", &failed)];
    let all = [Some(one), Some(plain("/home/me/web", &group)), more].into_iter().flatten();
    let all: Vec<_> = all.zip(11..).map(|(it, pid)| (pid, Status::read(&it))).collect();
    let screen = Screen { size: width.map(|it| (it, 24)), is_colored: false };
    let text = text_of(&all, NOW, screen);
    let longest = text.lines().map(columns::width).max().unwrap_or_default();
    assert!(width.is_none_or(|it| longest <= it), "{longest} columns");
    expected.assert_eq(&text);
}

#[test]
fn plain_servers_of_several_lspools_are_one_table() {
    several(
        None,
        None,
        &expect![[r#"
        LSPOOL  WORKSPACE                                   SERVER        STATE   SINCE     PID   MEMORY  RESTARTS  REQUESTS  EDITOR
            11  /home/me/code/services/very-long-names/api  pyright       ready   3 min    4712  360 MiB         0         1  Neovim 0.11.2
            12  /home/me/web                                basedpyright  ready   3 min  123456  360 MiB         0         1  Neovim 0.11.2
            12  /home/me/web                                ruff          failed  3 min       -        -         0         1  Neovim 0.11.2
            last error: it exited (code 1)
            hint: run `lspool restart ruff`
    "#]],
    );
    several(
        None,
        Some(80),
        &expect![[r#"
        LSPOOL  WORKSPACE         SERVER        STATE   SINCE     PID   MEMORY  RESTARTS
            11  …-long-names/api  pyright       ready   3 min    4712  360 MiB         0
            12  /home/me/web      basedpyright  ready   3 min  123456  360 MiB         0
            12  /home/me/web      ruff          failed  3 min       -        -         0
            last error: it exited (code 1)
            hint: run `lspool restart ruff`
    "#]],
    );
    several(
        None,
        Some(60),
        &expect![[r#"
        LSPOOL  WORKSPACE     SERVER        STATE   SINCE     PID
            11  …g-names/api  pyright       ready   3 min    4712
            12  /home/me/web  basedpyright  ready   3 min  123456
            12  /home/me/web  ruff          failed  3 min       -
            last error: it exited (code 1)
            hint: run `lspool restart ruff`
    "#]],
    );
    // A Copilot server has more to show.
    let copilot = status(&[backend("copilot", &json!({}))]);
    several(
        Some(copilot),
        Some(80),
        &expect![[r#"
        lspool 11  /home/me/code/services/very-long-names/api  Neovim 0.11.2
          SERVER   STATE  SINCE   PID   MEMORY  RESTARTS  REQUESTS
          pyright  ready  3 min  4712  360 MiB         0         1

        lspool 12  /home/me/web  Neovim 0.11.2
          SERVER        STATE   SINCE     PID   MEMORY  RESTARTS  REQUESTS
          basedpyright  ready   3 min  123456  360 MiB         0         1
          ruff          failed  3 min       -        -         0         1
            last error: it exited (code 1)
            hint: run `lspool restart ruff`

        lspool 13  /home/me/project  Neovim 0.11.2
          SERVER   STATE  SINCE   PID   MEMORY  RESTARTS  CHATS  REQUESTS  REFUSED
          copilot  ready  3 min  4712  360 MiB         0      2         1        0
    "#]],
    );
}

#[test]
fn status_says_who_shares_a_server_and_why_somebody_does_not() {
    let plain = |backend: Value| {
        let mut it = status(&[backend]);
        it["kind"] = json!("generic");
        it
    };
    shows(
        &plain(backend("pyright", &json!({"shared": true}))),
        Screen::default(),
        &expect![[r#"
        lspool 4711  /home/me/project  Neovim 0.11.2
          SERVER   STATE  SINCE   PID   MEMORY  RESTARTS  REQUESTS
          pyright  ready  3 min  4712  360 MiB         0         1
            shared: by a hub
    "#]],
    );
    let why = "settings differ: python.analysis";
    shows(
        &plain(backend("pyright", &json!({"private": why}))),
        Screen::default(),
        &expect![[r#"
        lspool 4711  /home/me/project  Neovim 0.11.2
          SERVER   STATE  SINCE   PID   MEMORY  RESTARTS  REQUESTS
          pyright  ready  3 min  4712  360 MiB         0         1
            private: settings differ: python.analysis
    "#]],
    );
    let mut hub = plain(backend("pyright", &json!({})));
    hub["editor"] = Value::Null;
    hub["hub"] = json!({"server": "pyright", "clients": [
        {"pid": 11, "editor": "Neovim 0.11.2+v0.11.2", "documents": 2, "current": true, "private": null},
        {"pid": 12, "editor": null, "documents": 1, "current": false, "private": why},
    ]});
    shows(
        &hub,
        Screen::default(),
        &expect![[r#"
        hub 4711  /home/me/project  pyright  2 clients
            client: lspool 11 for Neovim 0.11.2, 2 documents, its texts are current
            client: lspool 12, 1 document, leaves: settings differ: python.analysis
          SERVER   STATE  SINCE   PID   MEMORY  RESTARTS  REQUESTS
          pyright  ready  3 min  4712  360 MiB         0         1
    "#]],
    );
    several(
        Some(hub),
        None,
        &expect![[r#"
        LSPOOL  WORKSPACE                                   SERVER        STATE   SINCE     PID   MEMORY  RESTARTS  REQUESTS  EDITOR
            11  /home/me/code/services/very-long-names/api  pyright       ready   3 min    4712  360 MiB         0         1  Neovim 0.11.2
            12  /home/me/web                                basedpyright  ready   3 min  123456  360 MiB         0         1  Neovim 0.11.2
            12  /home/me/web                                ruff          failed  3 min       -        -         0         1  Neovim 0.11.2
            last error: it exited (code 1)
            hint: run `lspool restart ruff`
            13  /home/me/project                            pyright       ready   3 min    4712  360 MiB         0         1  hub, 2 clients
            client: lspool 11 for Neovim 0.11.2, 2 documents, its texts are current
            client: lspool 12, 1 document, leaves: settings differ: python.analysis
    "#]],
    );
}
