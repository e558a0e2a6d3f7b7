//! The command line.
//!
//! Owns what the flags are. Whoever calls it decides what they lead to. The guard's command line is its own:
//! it is looked at before this one.

use std::{ffi::OsString, path::PathBuf};

use clap::{
    ArgAction, CommandFactory, Parser, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::{
    config::{LogLevel, nearest},
    control, inspect,
    player::Speed,
    shell::discover::{CliServer, Env},
};

/// What lspool is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cli {
    /// The configuration file, if it is not at its usual place.
    pub config: Option<PathBuf>,
    /// Where the log goes; before what the configuration says.
    pub log_file: Option<PathBuf>,
    /// How much is logged; before what the configuration says.
    pub log_level: Option<LogLevel>,
    /// Where the session is recorded; before what the configuration says.
    pub record: Option<PathBuf>,
    /// Whether the recording has texts as they are; before what the configuration says.
    pub record_texts: Option<bool>,
    /// The task itself.
    pub mode: Mode,
}

impl Cli {
    /// An option that the command has no use for, and why.
    fn unused(&self) -> Option<(&'static str, &'static str)> {
        const UNREAD: &str = "reads no configuration";
        const UNSERVED: &str = "does not serve an editor";
        let (is_configured, serves) = match &self.mode {
            Mode::Serve(_) | Mode::Orchestrate(_) => (true, true),
            Mode::Check | Mode::Agents { .. } => (true, false),
            Mode::Replay(_) | Mode::Control { .. } | Mode::ServeRecording { .. } | Mode::Inspect { .. } => {
                (false, false)
            }
        };
        let given = [
            (self.config.is_some() && !is_configured, ("--config", UNREAD)),
            (self.log_file.is_some() && !serves, ("--log-file", UNSERVED)),
            (self.log_level.is_some() && !serves, ("--log-level", UNSERVED)),
            (self.record.is_some() && !serves, ("--record", UNSERVED)),
            (self.record_texts.is_some() && !serves, ("--record-texts", UNSERVED)),
        ];
        given.into_iter().find(|(is_unused, _)| *is_unused).map(|(_, option)| option)
    }

    /// `~/` in paths expanded: editors pass them as they are written, where a shell would do it.
    #[must_use]
    pub fn at_home(mut self, env: &Env) -> Cli {
        for file in [&mut self.config, &mut self.log_file, &mut self.record].into_iter().flatten() {
            *file = env.expand(file).unwrap_or_else(|_| file.clone());
        }
        self
    }
}

/// The tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Serve the editor on stdin and stdout.
    Serve(CliServer),
    /// Try the configuration and tell what there is.
    Check,
    /// List the agents of the current folder.
    Agents {
        /// For a program.
        json: bool,
    },
    /// Do again what a recording says, and compare.
    Replay(Replay),
    /// Work on a goal.
    Orchestrate(Orchestrate),
    /// Say something to those that are running.
    Control {
        /// What.
        task: control::Task,
        /// To the one with this process id.
        pid: Option<u32>,
    },
    /// Be a language server made of a recording.
    ServeRecording {
        /// The recording; none: the one that lspool has with it.
        file: Option<PathBuf>,
        /// Which process of it.
        process: Option<String>,
        /// When things are said.
        speed: Speed,
        /// Whether a client that is not like the recorded one is a failure.
        is_strict: bool,
    },
    /// Show what a recording holds.
    Inspect {
        /// The recording.
        file: PathBuf,
        /// What of it.
        filter: inspect::Filter,
    },
}

/// `lspool replay`.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct Replay {
    /// The recording
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Compare with the effects in another file: a recording, or what an earlier replay has printed
    #[arg(long, value_name = "EXPECTED")]
    pub diff: Option<PathBuf>,
    /// Stop after what follows from line N
    #[arg(long, value_name = "N")]
    pub until: Option<usize>,
}

/// `lspool orchestrate`.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct Orchestrate {
    /// What is to be done
    #[arg(value_name = "GOAL")]
    pub goal: String,
    /// Who can be given tasks: a file with [worker.ROLE] sections [default: those of the configuration]
    #[arg(long, value_name = "FILE")]
    pub workers: Option<PathBuf>,
    /// The model of the plan, the summary, and of workers that have none of their own: an id, a name, or a tier
    #[arg(long, value_name = "ID")]
    pub model: Option<String>,
    /// For a program: one event per line
    #[arg(long)]
    pub json: bool,
    /// Run every command that a worker wants to run, without asking; files are written without asking in any case
    #[arg(long)]
    pub yes: bool,
    /// The server, and its arguments [default: that of the configuration file, or copilot-language-server, which is searched for]
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Reads the command line. Tells what is wrong with it on stderr and exits with 2; `--help` and `--version` are
/// answered on stdout.
pub fn parse() -> Cli {
    parse_from(std::env::args_os()).unwrap_or_else(|error| error.exit())
}

/// Reads a command line, the name of the program included.
pub fn parse_from(words: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Cli, clap::Error> {
    let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
    let flags = Flags::try_parse_from(&words).map_err(|error| explained(error, &words))?;
    if let Some(way) = flags.other_way() {
        let message = format!("lspool speaks with the editor on stdin and stdout (--stdio); it has no {way}");
        return Err(Flags::command().error(ErrorKind::ArgumentConflict, message));
    }
    let mut words = flags.command.into_iter();
    let mode = match flags.task {
        None => Mode::Serve(CliServer { command: words.next(), args: words.collect() }),
        Some(task) => task.mode(),
    };
    let cli = Cli {
        config: flags.config,
        log_file: flags.log_file,
        log_level: flags.log_level,
        record: flags.record,
        record_texts: flags.record_texts,
        mode,
    };
    match cli.unused() {
        Some((option, why)) => {
            let message = format!("{option} would do nothing: this command {why}");
            Err(Flags::command().error(ErrorKind::ArgumentConflict, message))
        }
        None => Ok(cli),
    }
}

/// A word that is no task, with what was probably meant by it.
fn explained(error: clap::Error, words: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(odd)) = error.get(ContextKind::InvalidArg) else { return error };
    let is_odd = |(_, it): &(usize, &OsString)| it.to_str() == Some(odd);
    let Some((at, _)) = words.iter().enumerate().skip(1).find(is_odd) else { return error };
    let command = Flags::command();
    let is_task = |word: &OsString| word.to_str().is_some_and(|it| command.find_subcommand(it).is_some());
    if error.kind() != ErrorKind::UnknownArgument || odd.starts_with('-') || words[1..at].iter().any(is_task)
    {
        return error;
    }
    let tasks = command.get_subcommands().map(clap::Command::get_name);
    let hint = match (odd.as_str(), nearest(odd, tasks)) {
        ("help", _) => "did you mean `lspool --help`?".to_owned(),
        (_, Some(task)) => format!("did you mean `lspool {task}`?"),
        (_, None) => {
            let rest: Vec<_> = words[at..].iter().map(|it| it.to_string_lossy()).collect();
            format!(
                "to stand in front of a server, put -- before its command: `lspool -- {}`",
                rest.join(" ")
            )
        }
    };
    Flags::command().error(ErrorKind::UnknownArgument, format!("there is no task {odd:?}; {hint}"))
}

#[derive(Debug, Parser)]
#[command(
    name = "lspool",
    version,
    about = "A language server that stands in front of another one",
    // clap breaks no lines.
    long_about = "A language server that stands in front of another one: the editor starts lspool\n\
                  instead of its server. Conversations of a Copilot server run in processes of\n\
                  their own, one for each set of tools; everything else passes unchanged.\n\n\
                  COMMAND, which must come after --, is the server and its arguments. Without it the\n\
                  server is taken from the configuration file, or copilot-language-server is\n\
                  searched for.",
    after_long_help = "Example, for an editor's configuration:\n  lspool -- copilot-language-server --stdio",
    override_usage = "lspool [OPTIONS] [-- COMMAND [ARG]...]\n       lspool agents|check|status|restart|stop|move|logs|reload [OPTIONS]\n       lspool inspect|replay|serve-recording FILE [OPTIONS]\n       lspool orchestrate GOAL [OPTIONS] [-- COMMAND [ARG]...]",
    disable_help_subcommand = true
)]
struct Flags {
    /// The configuration file [default: lspool/config.toml in the user's configuration folder]
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,

    /// Write the log to this file; without one there is no log
    #[arg(long, value_name = "FILE", global = true)]
    log_file: Option<PathBuf>,

    /// How much is logged [default: info]
    #[arg(
        long,
        value_name = "LEVEL",
        global = true,
        value_parser = PossibleValuesParser::new(LogLevel::WORDS)
            .try_map(|it| LogLevel::from_word(&it).ok_or("no level"))
    )]
    log_level: Option<LogLevel>,

    #[arg(
        long,
        value_name = "FILE",
        help = "Record the session in this file, or in the next free one of FILE-2 and so on [env: LSPOOL_RECORD]"
    )]
    record: Option<PathBuf>,

    /// Whether the recording has documents, prompts and answers as they are [default: no]
    #[arg(
        long,
        value_name = "yes|no",
        value_parser = PossibleValuesParser::new(["yes", "no"]).map(|it| it == "yes"),
        hide_possible_values = true
    )]
    record_texts: Option<bool>,

    /// Accepted and ignored: lspool always speaks on stdin and stdout
    #[arg(long, overrides_with = "stdio")]
    stdio: bool,

    /// Accepted and ignored: the process is named in `initialize`
    #[arg(
        long = "clientProcessId",
        value_name = "N",
        action = ArgAction::Append,
        allow_hyphen_values = true
    )]
    client_process_id: Vec<OsString>,

    #[arg(long, hide = true)]
    node_ipc: bool,

    #[arg(long, hide = true)]
    acp: bool,

    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "", value_name = "N")]
    socket: Option<OsString>,

    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "", value_name = "N")]
    port: Option<OsString>,

    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "", value_name = "NAME")]
    pipe: Option<OsString>,

    // Help would show it as if it needed no `--`.
    #[arg(last = true, value_name = "COMMAND", hide = true)]
    command: Vec<String>,

    #[command(subcommand)]
    task: Option<Task>,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Find and try all servers that are configured, and tell what there is
    Check,
    /// The agents of the current folder: where they come from, their tools, models and processes
    Agents {
        /// For a program: one JSON document
        #[arg(long)]
        json: bool,
    },
    /// What each running lspool and its servers are doing
    Status {
        /// For a program: one JSON document
        #[arg(long)]
        json: bool,
        /// Again and again, whenever something changes
        #[arg(long)]
        watch: bool,
        /// Also the ids of conversations that have not every tool
        #[arg(short, long, conflicts_with = "watch")]
        long: bool,
        #[command(flatten)]
        which: Which,
    },
    /// Start a server, or a partition of it, anew; also one that was stopped or has failed
    Restart {
        #[command(flatten)]
        backend: Named,
        #[command(flatten)]
        which: Which,
    },
    /// Stop a server, or a partition of it, until it is needed again
    Stop {
        #[command(flatten)]
        backend: Named,
        #[command(flatten)]
        which: Which,
    },
    /// Keep conversations to their tools by a process of their own, or by a chat mode, from their next turn on
    Move {
        /// A conversation, or what `lspool status` shows under TOOLS; all, if it is left out
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// By what
        #[arg(long, value_name = "KIND", value_parser = ["process", "mode"])]
        to: String,
        #[command(flatten)]
        which: Which,
    },
    /// What a server has written to stderr
    Logs {
        #[command(flatten)]
        backend: Named,
        /// And what it goes on to write
        #[arg(short, long)]
        follow: bool,
        #[command(flatten)]
        which: Which,
    },
    /// Read the configuration files anew
    Reload {
        #[command(flatten)]
        which: Which,
    },
    /// Show what a recording holds: conversations, requests, how long they took, crashes
    Inspect {
        /// A recording of lspool, or a transcript
        file: PathBuf,
        /// Only this conversation
        #[arg(long, value_name = "ID")]
        conversation: Option<String>,
        /// Only messages of these methods; `*` stands for anything
        #[arg(long, value_name = "GLOB")]
        method: Option<String>,
        /// Only what went wrong
        #[arg(long)]
        errors: bool,
    },
    /// Be a language server made of a recording: answer as the recorded one did, on stdin and stdout
    ServeRecording {
        /// A recording of lspool, or a transcript [default: a session with four agents that lspool has with it]
        file: Option<PathBuf>,
        /// The process whose part is played, where several are in the file, or `*` for each that is asked the same [default:
        /// of a recording of lspool, lspool itself]
        #[arg(long, value_name = "NAME")]
        proc: Option<String>,
        /// Take the time that it took, or none
        #[arg(
            long,
            default_value = "fast",
            value_parser = PossibleValuesParser::new(["real", "fast"])
                .map(|it| if it == "real" { Speed::Real } else { Speed::Fast })
        )]
        speed: Speed,
        /// Fail at the end, and say why on stderr, if the client was not like the recorded one
        #[arg(long)]
        strict: bool,
        /// Accepted and ignored
        #[arg(long, hide = true)]
        stdio: bool,
    },
    /// Do again what a recording says: prints each effect, and the first that is not as it was
    #[command(
        after_help = "Exit status: 0 if all is as it was, 1 if something is different, 2 if a file cannot be used."
    )]
    Replay(Replay),
    /// Have workers reach a goal in the current folder: a plan is made, its tasks are done, and you are told what has come of it
    #[command(
        after_help = "Workers create and overwrite files in the current folder without asking; only commands are asked about. Begin \
                      with a clean git tree.\n\n\
                      Exit status: 0 if all tasks are done, 1 if one has failed or was skipped, 2 if nothing could be done, 130 after \
                      Ctrl-C."
    )]
    Orchestrate(Orchestrate),
}

#[derive(Debug, clap::Args)]
struct Which {
    /// The lspool with this process id, where several are running
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
}

#[derive(Debug, clap::Args)]
struct Named {
    /// What `lspool status` shows under SERVER; for a partition what it shows under TOOLS, or the beginning of it
    #[arg(value_name = "NAME")]
    name: String,
}

impl Task {
    fn mode(self) -> Mode {
        let (task, which) = match self {
            Task::Check => return Mode::Check,
            Task::Agents { json } => return Mode::Agents { json },
            Task::Replay(replay) => return Mode::Replay(replay),
            Task::Orchestrate(it) => return Mode::Orchestrate(it),
            Task::Status { json, watch, long, which } => (control::Task::Status { json, watch, long }, which),
            Task::Restart { backend, which } => (control::Task::Restart(backend.name), which),
            Task::Stop { backend, which } => (control::Task::Stop(backend.name), which),
            Task::Move { name, to, which } => (control::Task::Move { name, to }, which),
            Task::Logs { backend, follow, which } => {
                (control::Task::Logs { name: backend.name, follow }, which)
            }
            Task::Reload { which } => (control::Task::Reload, which),
            Task::Inspect { file, conversation, method, errors } => {
                let filter = inspect::Filter { conversation, method, only_errors: errors };
                return Mode::Inspect { file, filter };
            }
            Task::ServeRecording { file, proc: process, speed, strict: is_strict, stdio: _ } => {
                return Mode::ServeRecording { file, process, speed, is_strict };
            }
        };
        Mode::Control { task, pid: which.pid }
    }
}

impl Flags {
    /// A way to speak that other language servers have.
    fn other_way(&self) -> Option<&'static str> {
        let ways = [
            (self.node_ipc, "--node-ipc"),
            (self.acp, "--acp"),
            (self.socket.is_some(), "--socket"),
            (self.port.is_some(), "--port"),
            (self.pipe.is_some(), "--pipe"),
        ];
        ways.into_iter().find(|(is_there, _)| *is_there).map(|(_, way)| way)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn parse(line: &str) -> Cli {
        parse_from(format!("lspool {line}").split_whitespace()).unwrap()
    }

    fn check_error(line: &str, expected: &Expect) {
        let error = parse_from(format!("lspool {line}").split_whitespace()).unwrap_err();
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
            let error = parse_from(format!("lspool {line}").split_whitespace()).unwrap_err().to_string();
            assert!(error.starts_with(&format!("error: {option} would do nothing: ")), "{error}");
        }
        for line in
            ["check --config x", "agents --config x", "--record x orchestrate goal", "--log-file x -- y"]
        {
            parse(line);
        }
    }

    fn serve(command: Option<&str>, args: &[&str]) -> Mode {
        let args = args.iter().map(ToString::to_string).collect();
        Mode::Serve(CliServer { command: command.map(ToOwned::to_owned), args })
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
            let nothing = Cli {
                config: None,
                log_file: None,
                log_level: None,
                record: None,
                record_texts: None,
                mode: serve(None, &[]),
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
        assert_eq!(cli.mode, serve(Some("~/d"), &[]), "a command is expanded where it is searched for");
        assert_eq!(parse("--record x").at_home(&env).record, Some("x".into()));
    }

    #[test]
    fn cli_passes_everything_after_two_dashes_to_server() {
        let cli = parse(
            "--config a.toml --log-file=b.log --log-level debug --stdio -- node --x check --stdio -- y",
        );
        assert_eq!(cli.config, Some("a.toml".into()));
        assert_eq!(cli.log_file, Some("b.log".into()));
        assert_eq!(cli.log_level, Some(LogLevel::Debug));
        assert_eq!(cli.mode, serve(Some("node"), &["--x", "check", "--stdio", "--", "y"]));
        assert_eq!(parse("--").mode, serve(None, &[]));
    }

    #[test]
    fn cli_parses_check_and_agents() {
        assert_eq!(parse("check").mode, Mode::Check);
        assert_eq!(parse("agents").mode, Mode::Agents { json: false });
        assert_eq!(parse("agents --json").mode, Mode::Agents { json: true });
        assert_eq!(parse("check --config x").config, Some("x".into()));
        assert_eq!(parse("--config x check").config, Some("x".into()));
    }

    #[test]
    fn cli_parses_control_commands() {
        use control::Task;
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
            assert_eq!(parse(line).mode, Mode::Control { task, pid }, "{line}");
        }
        // A server of that name is still one.
        assert_eq!(parse("-- status --json").mode, serve(Some("status"), &["--json"]));
        for line in ["restart", "stop", "logs", "restart a b", "status --pid x", "reload copilot"] {
            let error = parse_from(format!("lspool {line}").split_whitespace()).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn cli_parses_recording_commands_and_orchestrate() {
        let file = || PathBuf::from("a.jsonl");
        let serve = |process: Option<&str>, speed, is_strict| Mode::ServeRecording {
            file: Some(file()),
            process: process.map(ToOwned::to_owned),
            speed,
            is_strict,
        };
        assert_eq!(parse("serve-recording a.jsonl").mode, serve(None, Speed::Fast, false));
        assert_eq!(parse("serve-recording a.jsonl --stdio").mode, serve(None, Speed::Fast, false));
        let all = parse("serve-recording --proc A --speed=real --strict a.jsonl").mode;
        assert_eq!(all, serve(Some("A"), Speed::Real, true));
        let filter = inspect::Filter::default();
        assert_eq!(parse("inspect a.jsonl").mode, Mode::Inspect { file: file(), filter });
        let filter = inspect::Filter {
            conversation: Some("c".to_owned()),
            method: Some("conversation/*".to_owned()),
            only_errors: true,
        };
        let all = parse("inspect a.jsonl --conversation c --method conversation/* --errors").mode;
        assert_eq!(all, Mode::Inspect { file: file(), filter });
        let mut work = Orchestrate {
            goal: "g".to_owned(),
            workers: None,
            model: None,
            json: false,
            yes: false,
            command: vec![],
        };
        assert_eq!(parse("orchestrate g").mode, Mode::Orchestrate(work.clone()));
        (work.workers, work.model, work.json, work.yes) =
            (Some("w".into()), Some("m".to_owned()), true, true);
        work.command = vec!["node".to_owned(), "--stdio".to_owned()];
        let all = parse("orchestrate g --workers w --model=m --json --yes -- node --stdio").mode;
        assert_eq!(all, Mode::Orchestrate(work));
        let Mode::ServeRecording { file: None, .. } = parse("serve-recording").mode else { panic!("a file") };
        for line in ["serve-recording a b", "serve-recording a --speed 2", "inspect", "inspect a b"] {
            let error = parse_from(format!("lspool {line}").split_whitespace()).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn help_and_version_exit_with_zero() {
        for line in ["--help", "-h", "--version", "-V", "check --help"] {
            let answer = parse_from(format!("lspool {line}").split_whitespace()).unwrap_err();
            assert!(!answer.use_stderr(), "{line}");
            assert_eq!(answer.exit_code(), 0, "{line}");
        }
        let help = parse_from(["lspool", "-h"]).unwrap_err().to_string();
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
            let error = parse_from(format!("lspool {line}").split_whitespace()).unwrap_err().to_string();
            assert!(error.lines().next().unwrap().ends_with(hint), "{error}");
        }
        // What follows a task is no server.
        let error = parse_from(["lspool", "reload", "copilot"]).unwrap_err().to_string();
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
}
