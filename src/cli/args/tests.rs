//! Lines and what they ask for.

use expect_test::{Expect, expect};

use super::*;

fn read(line: &str) -> Result<Args, clap::Error> {
    try_parse(&format!("lspool {line}").split_whitespace().map(OsString::from).collect::<Vec<_>>())
}

fn parse(line: &str) -> Args {
    read(line).unwrap()
}

fn check_error(line: &str, expected: &Expect) {
    let error = read(line).unwrap_err();
    assert!(error.use_stderr());
    assert_eq!(error.exit_code(), 2);
    expected.assert_eq(&error.to_string());
}

#[test]
fn cli_refuses_options_without_effect() {
    for (line, option) in [
        ("status --config x", "--config"),
        ("check --log-file x", "--log-file"),
        ("agents --log-level debug", "--log-level"),
        ("--record x check", "--record"),
        ("--record-texts yes reload", "--record-texts"),
    ] {
        let error = read(line).unwrap_err().to_string();
        assert!(error.starts_with(&format!("error: {option} would do nothing: ")), "{error}");
    }
    for line in ["check --config x", "agents --config x", "--record x orchestrate goal", "--log-file x -- y"]
    {
        parse(line);
    }
}

fn serve(command: Option<&str>, args: &[&str]) -> Command {
    let args = args.iter().map(ToString::to_string).collect();
    Command::Serve(CliServer { command: command.map(ToOwned::to_owned), args })
}

#[test]
fn cli_definition_is_valid() {
    Flags::command().debug_assert();
}

#[test]
fn cli_ignores_flags_that_editors_pass() {
    for line in [
        "",
        "--stdio",
        "--stdio --stdio",
        "--clientProcessId 17",
        "--clientProcessId=17 --stdio",
        "--stdio --clientProcessId -1 --clientProcessId=2",
    ] {
        let nothing = Args {
            config: None,
            log_file: None,
            log_level: None,
            record: None,
            record_texts: None,
            command: serve(None, &[]),
        };
        assert_eq!(parse(line), nothing, "{line}");
    }
}

#[test]
fn cli_expands_tilde_in_paths() {
    let env = Env { home: Some("/home/me".into()), ..Env::default() };
    let cli = parse("--config ~/a --log-file=~/b --record ~/c -- ~/d").at_home(&env);
    assert_eq!(cli.config, Some("/home/me/a".into()));
    assert_eq!(cli.log_file, Some("/home/me/b".into()));
    assert_eq!(cli.record, Some("/home/me/c".into()));
    assert_eq!(cli.command, serve(Some("~/d"), &[]), "a command is expanded where it is searched for");
    assert_eq!(parse("--record x").at_home(&env).record, Some("x".into()));
}

#[test]
fn cli_passes_everything_after_two_dashes_to_server() {
    let cli =
        parse("--config a.toml --log-file=b.log --log-level debug --stdio -- node --x check --stdio -- y");
    assert_eq!(cli.config, Some("a.toml".into()));
    assert_eq!(cli.log_file, Some("b.log".into()));
    assert_eq!(cli.log_level, Some(LogLevel::Debug));
    assert_eq!(cli.command, serve(Some("node"), &["--x", "check", "--stdio", "--", "y"]));
    assert_eq!(parse("--").command, serve(None, &[]));
}

#[test]
fn cli_parses_check_and_agents() {
    assert_eq!(parse("check").command, Command::Check);
    assert_eq!(parse("agents").command, Command::Agents { json: false });
    assert_eq!(parse("agents --json").command, Command::Agents { json: true });
    assert_eq!(parse("check --config x").config, Some("x".into()));
    assert_eq!(parse("--config x check").config, Some("x".into()));
}

#[test]
fn cli_parses_control_commands() {
    use instances::Task;
    let name = || "copilot".to_owned();
    for (line, task, pid) in [
        ("status", Task::Status { json: false, watch: false, long: false }, None),
        ("status -l", Task::Status { json: false, watch: false, long: true }, None),
        ("status --json --watch --pid 7", Task::Status { json: true, watch: true, long: false }, Some(7)),
        ("restart copilot --pid=7", Task::Restart(name()), Some(7)),
        ("stop copilot", Task::Stop(name()), None),
        ("move --to mode", Task::Move { name: None, to: "mode".to_owned() }, None),
        (
            "move copilot --to=process --pid 7",
            Task::Move { name: Some(name()), to: "process".to_owned() },
            Some(7),
        ),
        ("logs copilot", Task::Logs { name: name(), follow: false }, None),
        ("logs -f copilot", Task::Logs { name: name(), follow: true }, None),
        ("logs copilot --follow", Task::Logs { name: name(), follow: true }, None),
        ("reload", Task::Reload, None),
    ] {
        assert_eq!(parse(line).command, Command::Instances { task, pid }, "{line}");
    }
    // A server of that name is still one.
    assert_eq!(parse("-- status --json").command, serve(Some("status"), &["--json"]));
    for line in ["restart", "stop", "logs", "restart a b", "status --pid x", "reload copilot"] {
        let error = read(line).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{line}");
    }
}

#[test]
fn cli_parses_recording_commands_and_orchestrate() {
    let file = || PathBuf::from("a.jsonl");
    let serve = |process: Option<&str>, speed, is_strict| Command::ServeRecording {
        file: Some(file()),
        process: process.map(ToOwned::to_owned),
        speed,
        is_strict,
    };
    assert_eq!(parse("serve-recording a.jsonl").command, serve(None, Speed::Fast, false));
    assert_eq!(parse("serve-recording a.jsonl --stdio").command, serve(None, Speed::Fast, false));
    let all = parse("serve-recording --proc A --speed=real --strict a.jsonl").command;
    assert_eq!(all, serve(Some("A"), Speed::Real, true));
    let filter = inspect::Filter::default();
    assert_eq!(parse("inspect a.jsonl").command, Command::Inspect { file: file(), filter });
    let filter = inspect::Filter {
        conversation: Some("c".to_owned()),
        method: Some("conversation/*".to_owned()),
        only_errors: true,
    };
    let all = parse("inspect a.jsonl --conversation c --method conversation/* --errors").command;
    assert_eq!(all, Command::Inspect { file: file(), filter });
    let mut work = Orchestrate {
        goal: "g".to_owned(),
        workers: None,
        model: None,
        json: false,
        yes: false,
        command: vec![],
    };
    assert_eq!(parse("orchestrate g").command, Command::Orchestrate(work.clone()));
    (work.workers, work.model, work.json, work.yes) = (Some("w".into()), Some("m".to_owned()), true, true);
    work.command = vec!["node".to_owned(), "--stdio".to_owned()];
    let all = parse("orchestrate g --workers w --model=m --json --yes -- node --stdio").command;
    assert_eq!(all, Command::Orchestrate(work));
    let Command::ServeRecording { file: None, .. } = parse("serve-recording").command else {
        panic!("a file")
    };
    for line in ["serve-recording a b", "serve-recording a --speed 2", "inspect", "inspect a b"] {
        let error = read(line).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{line}");
    }
}

#[test]
fn help_and_version_exit_with_zero() {
    for line in ["--help", "-h", "--version", "-V", "check --help"] {
        let answer = read(line).unwrap_err();
        assert!(!answer.use_stderr(), "{line}");
        assert_eq!(answer.exit_code(), 0, "{line}");
    }
    let help = read("-h").unwrap_err().to_string();
    expect![[r#"
        A language server that stands in front of another one

        Usage: lspool [OPTIONS] [-- COMMAND [ARG]...]
               lspool agents|check|status|restart|stop|move|logs|reload [OPTIONS]
               lspool inspect|replay|serve-recording FILE [OPTIONS]
               lspool orchestrate GOAL [OPTIONS] [-- COMMAND [ARG]...]

        Commands:
          check            Find and try all servers that are configured, and tell what there is
          agents           The agents of the current folder: where they come from, their tools, models and processes
          status           What each running lspool and its servers are doing
          restart          Start a server, or a partition of it, anew; also one that was stopped or has failed
          stop             Stop a server, or a partition of it, until it is needed again
          move             Keep conversations to their tools by a process of their own, or by a chat mode, from their next turn on
          logs             What a server has written to stderr
          reload           Read the configuration files anew
          inspect          Show what a recording holds: conversations, requests, how long they took, crashes
          serve-recording  Be a language server made of a recording: answer as the recorded one did, on stdin and stdout
          replay           Do again what a recording says: prints each effect, and the first that is not as it was
          orchestrate      Have workers reach a goal in the current folder: a plan is made, its tasks are done, and you are told what has come of it

        Options:
              --config <FILE>          The configuration file [default: lspool/config.toml in the user's configuration folder]
              --log-file <FILE>        Write the log to this file; without one there is no log
              --log-level <LEVEL>      How much is logged [default: info] [possible values: error, warn, info, debug, trace]
              --record <FILE>          Record the session in this file, or in the next free one of FILE-2 and so on [env: LSPOOL_RECORD]
              --record-texts <yes|no>  Whether the recording has documents, prompts and answers as they are [default: no]
              --stdio                  Accepted and ignored: lspool always speaks on stdin and stdout
              --clientProcessId <N>    Accepted and ignored: the process is named in `initialize`
          -h, --help                   Print help (see more with '--help')
          -V, --version                Print version
    "#]].assert_eq(&help);
}

#[test]
fn cli_reports_wrong_arguments() {
    check_error(
        "--node-ipc",
        &expect![[r#"
            error: lspool speaks with the editor on stdin and stdout (--stdio); it has no --node-ipc

            Usage: lspool [OPTIONS] [-- COMMAND [ARG]...]
                   lspool agents|check|status|restart|stop|move|logs|reload [OPTIONS]
                   lspool inspect|replay|serve-recording FILE [OPTIONS]
                   lspool orchestrate GOAL [OPTIONS] [-- COMMAND [ARG]...]

            For more information, try '--help'.
        "#]],
    );
    check_error(
        "--pipe=/tmp/x",
        &expect![[r#"
            error: lspool speaks with the editor on stdin and stdout (--stdio); it has no --pipe

            Usage: lspool [OPTIONS] [-- COMMAND [ARG]...]
                   lspool agents|check|status|restart|stop|move|logs|reload [OPTIONS]
                   lspool inspect|replay|serve-recording FILE [OPTIONS]
                   lspool orchestrate GOAL [OPTIONS] [-- COMMAND [ARG]...]

            For more information, try '--help'.
        "#]],
    );
    check_error(
        "--socket 4711",
        &expect![[r#"
            error: lspool speaks with the editor on stdin and stdout (--stdio); it has no --socket

            Usage: lspool [OPTIONS] [-- COMMAND [ARG]...]
                   lspool agents|check|status|restart|stop|move|logs|reload [OPTIONS]
                   lspool inspect|replay|serve-recording FILE [OPTIONS]
                   lspool orchestrate GOAL [OPTIONS] [-- COMMAND [ARG]...]

            For more information, try '--help'.
        "#]],
    );
    check_error(
        "--log-level loud",
        &expect![[r"
        error: invalid value 'loud' for '--log-level <LEVEL>'
          [possible values: error, warn, info, debug, trace]

        For more information, try '--help'.
    "]],
    );
    check_error(
        "--lgo-file x",
        &expect![[r#"
            error: unexpected argument '--lgo-file' found

              tip: a similar argument exists: '--log-file'
              tip: to pass '--lgo-file' as a value, use '-- --lgo-file'

            Usage: lspool [OPTIONS] [-- COMMAND [ARG]...]
                   lspool agents|check|status|restart|stop|move|logs|reload [OPTIONS]
                   lspool inspect|replay|serve-recording FILE [OPTIONS]
                   lspool orchestrate GOAL [OPTIONS] [-- COMMAND [ARG]...]

            For more information, try '--help'.
        "#]],
    );
    for (line, hint) in [
        ("stauts", "did you mean `lspool status`?"),
        ("help", "did you mean `lspool --help`?"),
        ("--log-file x restrat copilot", "did you mean `lspool restart`?"),
    ] {
        let error = read(line).unwrap_err().to_string();
        assert!(error.lines().next().unwrap().ends_with(hint), "{error}");
    }
    // What follows a task is no server.
    let error = read("reload copilot").unwrap_err().to_string();
    assert!(error.contains("unexpected argument 'copilot' found"), "{error}");
    check_error(
        "pyright-langserver --stdio",
        &expect![[r#"
            error: there is no task "pyright-langserver"; to stand in front of a server, put -- before its command: `lspool -- pyright-langserver --stdio`

            Usage: lspool [OPTIONS] [-- COMMAND [ARG]...]
                   lspool agents|check|status|restart|stop|move|logs|reload [OPTIONS]
                   lspool inspect|replay|serve-recording FILE [OPTIONS]
                   lspool orchestrate GOAL [OPTIONS] [-- COMMAND [ARG]...]

            For more information, try '--help'.
        "#]],
    );
    check_error(
        "--config",
        &expect![[r"
        error: a value is required for '--config <FILE>' but none was supplied

        For more information, try '--help'.
    "]],
    );
}

#[test]
fn log_levels_round_trip_through_words() {
    for word in LogLevel::WORDS {
        assert_eq!(LogLevel::from_word(word).map(LogLevel::word), Some(word));
    }
}
