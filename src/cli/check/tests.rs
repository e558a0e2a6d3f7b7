//! Scripts of events, and the report at the end.

use expect_test::{Expect, expect};

use super::*;
use crate::{
    cli::columns,
    config::ServerConfig,
    core::event::{Exit, Launch, SpawnFailure},
    shell::discover::{Absent, Missing, Skipped},
};

/// Two servers, in a core that a test drives.
struct Script {
    core: Trials,
    rows: Rc<RefCell<Vec<Row>>>,
    now: Instant,
    effects: Effects,
}

fn target(name: &str, kind: Option<ServerKind>) -> Target {
    let program = format!("/bin/{name}").into();
    let launch = Launch {
        program,
        args: vec!["--stdio".to_owned()],
        env: Vec::new(),
        cwd: None,
        max_message: 1 << 20,
        write_stall: Duration::from_mins(1),
        root: None,
        remote: None,
        share: None,
    };
    let startup_timeout = Duration::from_millis(1500);
    let server = ServerConfig { kind, startup_timeout, ..ServerConfig::default() };
    let skipped = vec![Skipped { path: "/ws/x".into(), reason: "inside the workspace /ws".to_owned() }];
    Target { name: name.to_owned(), server, launch, place: "PATH", skipped }
}

fn process(n: u32) -> ProcessId {
    ProcessId { backend: BackendId(n), generation: Generation(1) }
}

impl Script {
    fn new() -> Script {
        let (a, b) = (target("a", Some(ServerKind::Copilot)), target("b", None));
        let rows =
            Rc::new(RefCell::new(vec![Row::found("a".to_owned(), &a), Row::found("b".to_owned(), &b)]));
        let now = tokio::time::Instant::now().into_std();
        let core = Trials::new(now, [(0, a), (1, b)].into(), rows.clone(), Progress { is_shown: false });
        let mut script = Script { core, rows, now, effects: Effects::new() };
        script.wait(Duration::ZERO);
        script
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        while let Some((at, _)) = self.core.poll_timeout()
            && at <= self.now
            && !self.effects.iter().any(|it| matches!(it, Effect::Exit(_)))
        {
            self.core.handle_timeout(self.now, &mut self.effects);
        }
    }

    fn event(&mut self, event: Event) {
        self.core.handle(self.now, event, &mut self.effects);
    }

    fn says(&mut self, n: u32, body: &str) {
        let frame = Frame::parse(body.to_owned().into()).unwrap();
        self.event(Event::Received(Peer::Backend(process(n)), frame));
    }

    fn spawned(&mut self, n: u32) {
        self.event(Event::Spawned { process: process(n), pid: 17 });
    }

    /// A Copilot server answers who is signed in, and that it has all there is.
    fn can(&mut self, n: u32, account: &str) {
        self.says(n, &format!(r#"{{"id":3,"result":{account}}}"#));
        self.says(n, r#"{"id":4,"error":{"code":-32602,"message":"- /restoreToTurnId: Expected string"}}"#);
        self.says(n, r#"{"id":5,"result":null}"#);
    }

    fn exited(&mut self, n: u32, exit: Exit, stderr: &str) {
        self.event(Event::Exited { process: process(n), exit, stderr: stderr.to_owned() });
    }

    /// A trial without an error.
    fn goes_well(&mut self, n: u32) {
        self.spawned(n);
        self.says(n, r#"{"id":1,"result":{}}"#);
        self.can(n, r#"{"status":"OK"}"#);
        self.says(n, r#"{"id":2,"result":null}"#);
        self.exited(n, Exit::Code(0), "");
    }

    /// Checks the effects since the last call, in short.
    fn check(&mut self, expected: &Expect) {
        let pid = std::process::id().to_string();
        let told = self.effects.drain(..).map(|effect| match effect {
            Effect::Send(Peer::Backend(to), frame) => {
                let body = String::from_utf8(frame.to_bytes().to_vec()).unwrap();
                format!("{} < {}\n", to.backend.0, body.replace(&pid, "PID"))
            }
            Effect::Spawn(id, launch) => format!("{} starts {}\n", id.backend.0, launch.program.display()),
            Effect::Terminate(id) => format!("{} ends\n", id.backend.0),
            Effect::Exit(status) => format!("exit {status}\n"),
            other => panic!("{other:?}"),
        });
        expected.assert_eq(&told.collect::<String>());
    }

    fn report(&self) -> Report {
        let rows = self.rows.take();
        Report {
            file: Ok("/home/config.toml".into()),
            warnings: Vec::new(),
            rows,
            n_members: 1,
            group: None,
            absent: Absent::default(),
            interrupted: None,
        }
    }
}

#[test]
fn check_hints_at_missing_args_when_server_exits_early() {
    let mut target = target("a", None);
    target.launch.args.clear();
    target.skipped.clear();
    let mut row = Row::found("a".to_owned(), &target);
    row.ended("exit code 1");
    let rows = vec![row];
    let report = Report {
        file: Ok("c".into()),
        warnings: Vec::new(),
        rows,
        n_members: 1,
        group: None,
        absent: Absent::default(),
        interrupted: None,
    };
    let expected =
        "  hint: it may need an argument such as --stdio: write it after the command, or in `args`";
    assert_eq!(report.text(false, Screen::default()).lines().last(), Some(expected));
}

#[test]
fn check_starts_initializes_and_stops_servers_one_by_one() {
    let mut script = Script::new();
    script.check(&expect![[r"
        0 starts /bin/a
    "]]);
    script.spawned(0);
    script.check(&expect![[r#"
        0 < {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"processId":PID,"clientInfo":{"name":"lspool","version":"0.1.0"},"rootUri":null,"workspaceFolders":null,"capabilities":{},"initializationOptions":{"editorInfo":{"name":"lspool","version":"0.1.0"},"editorPluginInfo":{"name":"lspool","version":"0.1.0"}}}}
    "#]]);
    script.says(0, r#"{"method":"window/logMessage","params":{}}"#);
    script.says(0, r#"{"id":1,"method":"workspace/configuration","params":{}}"#);
    script.check(&expect![[r#"
        0 < {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"lspool only checks this server"}}
    "#]]);
    script.wait(Duration::from_millis(840));
    script
        .says(0, r#"{"id":1,"result":{"capabilities":{},"serverInfo":{"name":"A server","version":"1.2"}}}"#);
    script.check(&expect![[r#"
        0 < {"jsonrpc":"2.0","method":"initialized","params":{}}
        0 < {"jsonrpc":"2.0","id":3,"method":"checkStatus","params":{}}
        0 < {"jsonrpc":"2.0","id":4,"method":"conversation/create","params":{"restoreToTurnId":0}}
        0 < {"jsonrpc":"2.0","id":5,"method":"customAgent/registerExtensionAgents","params":{"extensionId":"lspool","agents":[]}}
    "#]]);
    script.can(0, r#"{"status":"OK","user":"me"}"#);
    script.check(&expect![[r#"
        0 < {"jsonrpc":"2.0","id":2,"method":"shutdown"}
    "#]]);
    script.says(0, r#"{"id":2,"result":null}"#);
    script.check(&expect![[r#"
        0 < {"jsonrpc":"2.0","method":"exit"}
        0 ends
    "#]]);
    script.exited(0, Exit::Code(0), "");
    script.spawned(1);
    script.check(&expect![[r#"
        1 starts /bin/b
        1 < {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"processId":PID,"clientInfo":{"name":"lspool","version":"0.1.0"},"rootUri":null,"workspaceFolders":null,"capabilities":{}}}
    "#]]);
    script.says(1, r#"{"id":1,"result":{"capabilities":{}}}"#);
    script.says(1, r#"{"id":2,"result":null}"#);
    script.effects.clear();
    script.exited(1, Exit::Code(0), "");
    script.check(&expect![[r"
        exit 0
    "]]);
    let report = script.report();
    assert_eq!(report.status(), 0);
    expect![[r#"
        configuration: /home/config.toml

        SERVER  STATE  START-UP  VERSION
        a       ok     0.84 s    A server 1.2
        b       ok     0.00 s    -

        a
          /bin/a --stdio (from PATH)
          restores conversations as text, without their tool calls; versions from 1.449 restore these too
          has chat modes for tool sets (`isolation = "mode"`)
          uses about 1 GB of memory for each process, three times as much as versions from 1.520: at most 4 run, unless you set `max_processes`
          skipped /ws/x: inside the workspace /ws

        b
          /bin/b --stdio (from PATH)
          skipped /ws/x: inside the workspace /ws
    "#]]
    .assert_eq(&report.text(true, Screen::default()));
}

#[track_caller]
fn check_failure(play: fn(&mut Script), expected: &Expect) {
    let mut script = Script::new();
    play(&mut script);
    script.goes_well(1);
    assert!(script.effects.iter().any(|it| matches!(it, Effect::Exit(0))), "it goes on to the end");
    let report = script.report();
    assert_eq!(report.status(), 1);
    let told = report.text(true, Screen::default());
    // The report on the first one.
    let (_, told) = told.split_once("\na\n").unwrap();
    let (told, _) = told.split_once("\n\nb\n").unwrap();
    let told: Vec<_> = told
        .lines()
        .skip(1)
        .filter(|it| !it.contains("skipped "))
        .map(|it| it.strip_prefix("  ").unwrap_or(it))
        .collect();
    expected.assert_eq(&(told.join("\n") + "\n"));
}

#[test]
fn check_reports_each_kind_of_failure() {
    check_failure(
        |it| {
            it.event(Event::SpawnFailed(
                process(0),
                SpawnFailure { permanent: true, message: "cannot start".into(), moved: None },
            ));
        },
        &expect![[r#"
              cannot start
        "#]],
    );
    check_failure(
        |it| {
            it.wait(Duration::from_millis(1499));
            assert!(!it.effects.iter().any(|it| matches!(it, Effect::Terminate(_))));
            it.wait(Duration::from_millis(1));
            assert!(it.effects.iter().any(|it| matches!(it, Effect::Terminate(_))));
            // The process starts after all.
            it.spawned(0);
            it.exited(0, Exit::Signal(15), "late");
        },
        &expect![[r#"
            it did not start within 1.5 s: its disk may not respond
        "#]],
    );
    check_failure(
        |it| {
            it.spawned(0);
            it.exited(0, Exit::Code(1), "first\nlast\u{1b}[2J");
        },
        &expect![[r#"
              it exited before it answered `initialize` (exit code 1)
              stderr ends with:
                first
                last�[2J
        "#]],
    );
    check_failure(
        |it| {
            it.spawned(0);
            it.says(0, r#"{"id":1,"method":"initialize","params":{}}"#);
            it.exited(0, Exit::Code(0), "");
        },
        &expect![[r#"
              it echoes lspool's messages: it is not a language server
        "#]],
    );
    check_failure(
        |it| {
            it.spawned(0);
            it.wait(Duration::from_millis(1499));
            assert!(!it.effects.iter().any(|it| matches!(it, Effect::Terminate(_))));
            it.wait(Duration::from_millis(1));
            it.exited(0, Exit::Signal(9), "");
        },
        &expect![[r#"
              it did not answer `initialize` within 1.5 s
              hint: if it needs more time, raise `startup_timeout`
        "#]],
    );
    check_failure(
        |it| {
            it.spawned(0);
            it.says(0, r#"{"id":1,"error":{"code":-32603,"message":"no"}}"#);
            it.exited(0, Exit::Code(0), "");
        },
        &expect![[r#"
              it answered `initialize` with an error: no
        "#]],
    );
    check_failure(
        |it| {
            it.spawned(0);
            it.event(Event::Closed { peer: Peer::Backend(process(0)), error: None });
            it.exited(0, Exit::Code(0), "");
        },
        &expect![[r#"
              it closes its output
        "#]],
    );
    check_failure(
        |it| {
            it.spawned(0);
            let peer = Peer::Backend(process(0));
            it.event(Event::Malformed { peer, id: None, reason: "no JSON".to_owned() });
            it.exited(0, Exit::Code(0), "");
        },
        &expect![[r#"
              it sent an invalid message: no JSON
        "#]],
    );
}

#[test]
fn check_terminates_server_that_ignores_shutdown() {
    let mut script = Script::new();
    script.spawned(0);
    script.says(0, r#"{"id":1,"result":{}}"#);
    // The server does not report the sign-in either.
    script.wait(ACCOUNT);
    script.effects.clear();
    script.wait(STOP);
    script.check(&expect![[r"
        0 ends
    "]]);
    script.exited(0, Exit::Signal(15), "");
    script.goes_well(1);
    assert_eq!(script.report().status(), 0);
}

#[test]
fn check_reports_sign_in_problems_without_failing() {
    for (said, state, told) in [
        (r#"{"status":"NotSignedIn"}"#, "signed out", "nobody is signed in\n  hint: run `lspool login`"),
        (r#"{"status":"NotAuthorized","user":"me"}"#, "no access", "me has no access to Copilot"),
        (r#"{"status":"Odd"}"#, "no access", "the server reports the account status \"Odd\""),
    ] {
        let mut script = Script::new();
        script.spawned(0);
        script.says(0, r#"{"id":1,"result":{}}"#);
        script.can(0, said);
        script.says(0, r#"{"id":2,"result":null}"#);
        script.exited(0, Exit::Code(0), "");
        script.goes_well(1);
        let report = script.report();
        assert_eq!(report.status(), 0, "the server is well");
        let text = report.text(true, Screen::default());
        assert!(
            text.contains(&format!("a       {state}  ")) && text.contains(&format!("\n  {told}")),
            "{text}"
        );
    }
}

#[test]
fn check_reports_what_old_versions_lack() {
    let mut script = Script::new();
    script.spawned(0);
    script.says(0, r#"{"id":1,"result":{"serverInfo":{"name":"S","version":"1.430.0"}}}"#);
    script.says(0, r#"{"id":4,"error":{"code":-32602,"message":"- /restoreToTurnId: Expected string"}}"#);
    script.says(0, r#"{"id":5,"error":{"code":-32601,"message":"Method not found"}}"#);
    // The answer that is waited for longest.
    script.says(0, r#"{"id":3,"result":{"status":"OK"}}"#);
    script.says(0, r#"{"id":2,"result":null}"#);
    script.exited(0, Exit::Code(0), "");
    script.goes_well(1);
    let text = script.report().text(false, Screen { size: Some((90, 24)), is_colored: false });
    expect![[r#"
        configuration: /home/config.toml

        SERVER  STATE  START-UP  VERSION
        a       ok     0.00 s    S 1.430.0
        b       ok     0.00 s    -

        a
          /bin/a --stdio (from PATH)
          restores conversations as text, without their tool calls; versions from 1.449 restore
            these too
          has no chat modes: each tool set has a process; versions from 1.520 have them
          uses about 1 GB of memory for each process, three times as much as versions from 1.520:
            at most 4 run, unless you set `max_processes`

        b
          /bin/b --stdio (from PATH)
    "#]]
    .assert_eq(&text);
}

#[test]
fn check_exits_on_signal() {
    let mut script = Script::new();
    script.effects.clear();
    script.event(Event::Quit(15));
    script.check(&expect![[r"
        exit 143
    "]]);
}

#[test]
fn check_fails_when_server_is_missing() {
    let missing = Missing { message: "\"x\" was not found".to_owned(), skipped: Vec::new() };
    let rows = vec![Row::missing("x".to_owned(), missing)];
    let file = Err(Some("/home/config.toml".into()));
    let report = Report {
        file,
        warnings: vec!["shadowed".to_owned()],
        rows,
        n_members: 1,
        group: None,
        absent: Absent::default(),
        interrupted: None,
    };
    assert_eq!(report.status(), 1);
    expect![[r#"
        configuration: defaults (no file /home/config.toml)
        warning: shadowed

        SERVER  STATE    START-UP  VERSION
        x       missing  -         -

        x
          "x" was not found
    "#]]
    .assert_eq(&report.text(true, Screen::default()));
}

#[test]
fn check_report_fits_the_terminal() {
    let mut well =
        Row::found("pyright-langserver in /home/me/projects/one".to_owned(), &target("pyright", None));
    well.state = State::Well {
        version: "GitHub Copilot Language Server 1.539.0".to_owned(),
        after: Duration::from_millis(840),
        answer: b"{}".to_vec(),
        account: None,
        abilities: Abilities::default(),
    };
    let message =
        "\"gopls\" was not found on PATH\nhint: install it, or write its absolute path as `command`";
    let missing = Missing { message: message.to_owned(), skipped: Vec::new() };
    let rows = vec![well, Row::missing("gopls".to_owned(), missing)];
    let file = Ok("/home/me/.config/lspool/a/rather/long/path/to/config.toml".into());
    let report = Report {
        file,
        warnings: vec!["shadowed".to_owned()],
        rows,
        n_members: 1,
        group: None,
        absent: Absent::default(),
        interrupted: None,
    };
    for room in [60, 80, 120] {
        let plain = report.text(true, Screen { size: Some((room, 24)), is_colored: false });
        let longest = plain.lines().map(columns::width).max().unwrap();
        assert!(longest <= room, "{room}: {longest}\n{plain}");
        let colored = report.text(true, Screen { size: Some((room, 24)), is_colored: true });
        assert_eq!(strip_colors(&colored), plain);
    }
    expect![[r#"
        configuration:
          /home/me/.config/lspool/a/rather/long/path/to/config.toml
        warning: shadowed

        SERVER                           STATE    START-UP  VERSION
        pyright-langserver in /home/me…  ok       0.84 s    GitHub …
        gopls                            missing  -         -

        pyright-langserver in /home/me/projects/one
          /bin/pyright --stdio (from PATH)

        gopls
          "gopls" was not found on PATH
          hint: install it, or write its absolute path as `command`
    "#]]
    .assert_eq(&report.text(false, Screen { size: Some((60, 24)), is_colored: false }));
}

fn strip_colors(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, it| all + it.split_once('m').map_or("", |(_, rest)| rest))
}

#[test]
fn check_says_whether_clients_can_share_a_server() {
    let text = |place: Result<&std::path::Path, String>| {
        let mut row = Row::found("a".to_owned(), &target("a", None));
        row.note_sharing(place);
        let report = Report {
            file: Ok("c".into()),
            warnings: Vec::new(),
            rows: vec![row],
            n_members: 1,
            group: None,
            absent: Absent::default(),
            interrupted: None,
        };
        report.text(false, Screen::default())
    };
    let well = text(Ok(std::path::Path::new("/run/user/7/lspool")));
    assert!(well.contains("\n  shared: clients meet in /run/user/7/lspool\n"), "{well}");
    let not = text(Err("/run/user/7/lspool has mode 755; expected 700".to_owned()));
    assert!(
        not.contains("\n  not shared, although `share` is set: /run/user/7/lspool has mode 755"),
        "{not}"
    );
}
