//! Command lines and the commands that they give.

use expect_test::{Expect, expect};

use super::*;
use crate::shell::discover::CliServer;

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
        ("--config x status", "--config"),
        ("--log-file x check", "--log-file"),
        ("--log-level debug agents", "--log-level"),
        ("--record x check", "--record"),
        ("--record-texts yes reload", "--record-texts"),
    ] {
        let error = read(line).unwrap_err().to_string();
        assert!(error.starts_with(&format!("error: {option} would do nothing: ")), "{error}");
    }
    for line in ["status --config x", "check --log-file x", "reload --record x"] {
        let error = read(line).unwrap_err().to_string();
        assert!(error.starts_with("error: unexpected argument '--"), "{error}");
    }
    for line in [
        "check --config x",
        "agents --config x",
        "--record x orchestrate goal",
        "orchestrate goal --record x --log-level debug --config y",
        "--log-file x -- y",
    ] {
        parse(line);
    }
}

fn serve(command: Option<&str>, args: &[&str]) -> Command {
    let words = command.map(|command| [&[command], args].concat());
    Command::Serve(servers(None, &words.iter().map(Vec::as_slice).collect::<Vec<_>>()))
}

fn servers(group: Option<&str>, commands: &[&[&str]]) -> CliServers {
    let command = |words: &&[&str]| {
        let args = words[1..].iter().map(ToString::to_string).collect();
        CliServer { command: words[0].to_owned(), args }
    };
    CliServers { group: group.map(ToOwned::to_owned), commands: commands.iter().map(command).collect() }
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
            color: ColorChoice::Auto,
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
    let cli = parse("--config a.toml --log-file=b.log --log-level debug --stdio -- node --x check --stdio");
    assert_eq!(cli.config, Some("a.toml".into()));
    assert_eq!(cli.log_file, Some("b.log".into()));
    assert_eq!(cli.log_level, Some(LogLevel::Debug));
    assert_eq!(cli.command, serve(Some("node"), &["--x", "check", "--stdio"]));
    assert_eq!(parse("--").command, serve(None, &[]));
}

#[test]
fn two_dashes_between_commands_begin_another_server() {
    for (line, group, commands) in [
        ("-- a 1 -- b -- c --x", None, &[&["a", "1"][..], &["b"], &["c", "--x"]][..]),
        ("-- a -- -- b", None, &[&["a", "--", "b"]]),
        ("-- a -- -- -- b", None, &[&["a", "--"], &["b"]]),
        ("-- a --", None, &[&["a"]]),
        ("-- a -- b --", None, &[&["a"], &["b"]]),
        ("-- a -- --", None, &[&["a", "--"]]),
        ("-- --", None, &[]),
        ("--group g", Some("g"), &[]),
        ("--group=g -- a -- b", Some("g"), &[&["a"], &["b"]]),
    ] {
        assert_eq!(parse(line).command, Command::Serve(servers(group, commands)), "{line}");
    }
    for line in ["-- -- a", "-- -- -- a", "check -- -- a"] {
        let error = read(line).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("the command of a server is missing before `--`"), "{error}");
    }
    let error = read("orchestrate goal -- a -- b").unwrap_err().to_string();
    assert!(error.contains("works with one server"), "{error}");
    let error = read("--group g status").unwrap_err().to_string();
    assert!(error.contains("--group would do nothing"), "{error}");
}

#[test]
fn cli_parses_check_and_agents() {
    let check = |is_verbose, servers: CliServers| Command::Check { is_verbose, servers };
    assert_eq!(parse("check").command, check(false, CliServers::default()));
    let gopls = servers(None, &[&["gopls", "-x", "--config"]]);
    assert_eq!(parse("check -v -- gopls -x --config").command, check(true, gopls));
    let group = servers(Some("g"), &[&["a", "1"], &["b"]]);
    assert_eq!(parse("check --group g -- a 1 -- b").command, check(false, group.clone()));
    assert_eq!(parse("--group g check -- a 1 -- b").command, check(false, group));
    assert_eq!(parse("agents").command, Command::Agents { json: false, check: false });
    assert_eq!(parse("agents --json --check").command, Command::Agents { json: true, check: true });
    assert_eq!(parse("check --config x").config, Some("x".into()));
    assert_eq!(parse("--config x check").config, Some("x".into()));
}

#[test]
fn cli_parses_control_commands() {
    use instances::{Reach, Task};
    let name = || "copilot".to_owned();
    for (line, task, pid) in [
        ("status", Task::Status { json: false, watch: false, long: false }, None),
        ("status -l", Task::Status { json: false, watch: false, long: true }, None),
        ("status --json --watch --pid 7", Task::Status { json: true, watch: true, long: false }, Some(7)),
        ("restart copilot --pid=7", Task::Restart { name: name(), reach: Reach::One }, Some(7)),
        ("restart copilot --all", Task::Restart { name: name(), reach: Reach::All }, None),
        ("stop copilot", Task::Stop { name: name(), reach: Reach::One }, None),
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
    // A server of that name is still a server.
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
    assert_eq!(parse("inspect a.jsonl").command, Command::Inspect { file: file(), filter, html: false });
    let filter = inspect::Filter {
        conversation: Some("c".to_owned()),
        method: Some("conversation/*".to_owned()),
        only_errors: true,
    };
    let all = parse("inspect a.jsonl --conversation c --method conversation/* --errors").command;
    assert_eq!(all, Command::Inspect { file: file(), filter, html: false });
    let mut work = Orchestrate {
        goal: Some("g".to_owned()),
        resume: false,
        worker: None,
        retries: None,
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
    assert_eq!(all, Command::Orchestrate(work.clone()));
    (work.goal, work.workers, work.model) = (None, None, None);
    (work.resume, work.retries) = (true, Some(2));
    let all = parse("orchestrate --resume --retries 2 --json --yes -- node --stdio").command;
    assert_eq!(all, Command::Orchestrate(work));
    for line in ["orchestrate", "orchestrate g --resume", "orchestrate --resume --worker coder"] {
        assert_eq!(read(line).unwrap_err().exit_code(), 2, "{line}");
    }
    assert_eq!(parse("login -- node").command, Command::Login(vec!["node".to_owned()]));
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
        A language server proxy: a crashed server comes back, agents keep to their tools

        Usage: lspool [OPTIONS] [-- SERVER [ARG]...]...
               lspool COMMAND [OPTIONS]

        Commands:
          demo             Show a crash that the editor does not notice
          setup            Print the settings for an editor
          check            Start every configured server and report whether it works
          agents           List the agents of the current folder
          status           Show each running lspool and its servers
          restart          Restart a server or partition
          stop             Stop a server, or a partition until its next turn
          cancel           Cancel one sub-agent, team member or worker
          move             Move conversations to a process or a chat mode
          logs             Print what a server wrote to stderr
          reload           Read the configuration files again
          inspect          Show a recording as a timeline
          replay           Replay a recording and compare
          serve-recording  Act as a server from a recording
          login            Sign in to GitHub Copilot, without an editor
          lsp              Ask language servers about code, without an editor
          mcp              Serve the code tools to an agent, over MCP
          trust            Let language servers run programs of a project
          orchestrate      Let workers reach a goal in the current folder
          config           Print what a configuration file may contain
          completions      Print completions for a shell
          man              Print a manual page
          help             Print this message or the help of the given subcommand(s)

        Options:
              --group <NAME>           Start the servers of this group, and then those of the command line
              --config <FILE>          The configuration file [default: lspool/config.toml in the user's
                                       configuration folder]
              --log-file <FILE>        Write the log to this file [default: no log]
              --log-level <LEVEL>      How much to log [default: info] [possible values: error, warn, info,
                                       debug, trace]
              --record <FILE>          Record the session in this file, or in FILE-2 and so on if it exists
                                       [env: LSPOOL_RECORD]
              --record-texts <yes|no>  Record documents, prompts and answers as they are [default: no]
              --stdio                  Accepted and ignored: lspool always uses stdin and stdout
              --clientProcessId <N>    Accepted and ignored: `initialize` names the process

        Global options:
              --color <WHEN>  When to use color [default: auto] [possible values: auto, always, never]
          -h, --help          Print help
          -V, --version       Print the version

        Run `lspool demo` to see it work, and `lspool setup EDITOR` for the settings of an editor.
    "#]]
    .assert_eq(&help);
}

#[test]
fn cli_reports_wrong_arguments() {
    check_error(
        "--node-ipc",
        &expect![[r#"
            error: lspool speaks with the editor on stdin and stdout (--stdio); it has no --node-ipc

            Usage: lspool [OPTIONS] [-- SERVER [ARG]...]...
                   lspool COMMAND [OPTIONS]

            For more information, try '--help'.
        "#]],
    );
    check_error(
        "--pipe=/tmp/x",
        &expect![[r#"
            error: lspool speaks with the editor on stdin and stdout (--stdio); it has no --pipe

            Usage: lspool [OPTIONS] [-- SERVER [ARG]...]...
                   lspool COMMAND [OPTIONS]

            For more information, try '--help'.
        "#]],
    );
    check_error(
        "--socket 4711",
        &expect![[r#"
            error: lspool speaks with the editor on stdin and stdout (--stdio); it has no --socket

            Usage: lspool [OPTIONS] [-- SERVER [ARG]...]...
                   lspool COMMAND [OPTIONS]

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

            Usage: lspool [OPTIONS] [-- SERVER [ARG]...]...
                   lspool COMMAND [OPTIONS]

            For more information, try '--help'.
        "#]],
    );
    for (line, tip) in [
        ("stauts", "did you mean `lspool status`?"),
        ("--log-file x restrat copilot", "did you mean `lspool restart`?"),
        ("orchestrate add a flag", "put the goal in quotes"),
    ] {
        let error = read(line).unwrap_err().to_string();
        assert!(error.contains(&format!("\n\n  tip: {tip}\n")), "{error}");
    }
    // A word after a command is not a server.
    let error = read("reload copilot").unwrap_err().to_string();
    assert!(error.contains("unexpected argument 'copilot' found"), "{error}");
    check_error(
        "pyright-langserver --stdio",
        &expect![[r#"
            error: unknown command 'pyright-langserver'

              tip: put -- before the command of a server: `lspool -- pyright-langserver --stdio`

            Usage: lspool [OPTIONS] [-- SERVER [ARG]...]...
                   lspool COMMAND [OPTIONS]

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

/// lspool and each of its commands, as words of a line.
fn commands() -> Vec<String> {
    let definition = definition();
    let names = definition.get_subcommands().map(|it| it.get_name().to_owned());
    let inner = definition.get_subcommands().flat_map(|outer| {
        outer.get_subcommands().map(|it| format!("{} {}", outer.get_name(), it.get_name()))
    });
    std::iter::once(String::new()).chain(names).chain(inner).collect()
}

/// The output of clap at this width, with or without colors.
fn help(line: &str, flag: &str, columns: usize, is_colored: bool) -> String {
    let words: Vec<OsString> =
        ["lspool"].into_iter().chain(line.split_whitespace()).chain([flag]).map(Into::into).collect();
    let definition = definition().term_width(columns.min(100));
    let text = definition.try_get_matches_from(words).unwrap_err().render();
    if is_colored { text.ansi().to_string() } else { text.to_string() }
}

#[test]
fn help_of_every_command_fits_the_terminal() {
    for line in commands() {
        for flag in ["-h", "--help"] {
            for columns in [60, 80, 120] {
                let text = help(&line, flag, columns, false);
                // clap does not wrap the lines of usage.
                let lines = text.lines().filter(|it| columns >= 80 || !it.contains("lspool "));
                for it in lines {
                    assert!(it.chars().count() <= columns.min(100), "{line} {flag} at {columns}: {it}");
                }
                let colored = help(&line, flag, columns, true);
                assert!(colored.contains('\u{1b}'), "{line}");
                let mut parts = colored.split('\u{1b}');
                let mut bare = parts.next().unwrap_or_default().to_owned();
                parts.for_each(|it| bare += it.split_once('m').map_or("", |(_, rest)| rest));
                assert_eq!(bare, text);
            }
        }
    }
}

#[test]
fn summaries_of_commands_are_short() {
    for it in definition().get_subcommands() {
        let about = it.get_about().map(ToString::to_string).unwrap_or_default();
        assert!(!about.is_empty() && about.chars().count() < 60 && !about.ends_with('.'), "{about}");
    }
}

#[test]
fn every_listed_option_is_accepted() {
    // Required arguments.
    let needed = [
        ("setup", "nvim"),
        ("restart", "x"),
        ("stop", "x"),
        ("cancel", "x"),
        ("move", "--to=mode"),
        ("logs", "x"),
        ("inspect", "x"),
        ("replay", "x"),
        ("orchestrate", "x"),
        ("completions", "bash"),
        ("lsp", "servers"),
        ("lsp references", "x"),
        ("lsp definition", "x"),
        ("lsp implementations", "x"),
        ("lsp calls", "x"),
        ("lsp hover", "x"),
        ("lsp symbols", "x"),
        ("lsp rename", "x y"),
        ("lsp format", "x"),
        ("lsp actions", "x:1"),
        ("lsp diagnostics", "x"),
        ("lsp call", "x"),
        ("mcp", "--install=codex"),
    ];
    // `config` needs a command of its own.
    for line in commands().into_iter().filter(|it| it != "config") {
        let mut definition = definition();
        definition.build();
        let mut command = &definition;
        for name in line.split_whitespace() {
            command = command.find_subcommand(name).unwrap();
        }
        let listed = command.get_arguments().filter(|it| !it.is_hide_set() && !it.is_positional());
        for option in listed {
            let name = option.get_long().unwrap();
            if matches!(name, "help" | "version") || (line == "move" && name == "to") {
                continue;
            }
            let values = option.get_possible_values();
            let value = match (option.get_action().takes_values(), values.first()) {
                (false, _) => String::new(),
                (true, Some(value)) => format!("={}", value.get_name()),
                (true, None) => "=7".to_owned(),
            };
            // The goal is stored.
            let is_needed =
                |it: &&(&str, &str)| it.0 == line && name != "resume" && (line != "mcp" || name == "write");
            let rest = needed.iter().find(is_needed).map_or("", |it| it.1);
            let whole = format!("{line} --{name}{value} {rest}");
            assert!(read(&whole).is_ok(), "{whole}: {}", read(&whole).unwrap_err());
        }
    }
}

#[test]
fn color_is_read_before_the_rest() {
    let color_of =
        |line: &str| color(&format!("lspool {line}").split(' ').map(OsString::from).collect::<Vec<_>>());
    for (line, expected) in [
        ("--color always status", ColorChoice::Always),
        ("status --color=never --wrong", ColorChoice::Never),
        ("-- server --color always", ColorChoice::Auto),
        ("--color pink", ColorChoice::Auto),
    ] {
        assert_eq!(color_of(line), expected, "{line}");
    }
    assert_eq!(parse("status --color always").color, ColorChoice::Always);
}
