//! `lspool check`: starts every configured server, or those of its command line, and reports whether they work.
//!
//! Owns the steps of a trial: start, initialize, stop, one server after the other. It is a core, so the same shell as
//! usual starts the servers, reads them, and ends them.
//!
//! ```text
//! Starting ─Spawned→ Initializing ─answer→ (Copilot: Asking ─all answers→) Stopping ─answer→ Ending ─Exited→ (next)
//!     └─────────────────────┴── anything wrong ───────────────────────────────────────────┘
//! ```

mod members;
mod report;
#[cfg(test)]
mod tests;

use std::{
    cell::RefCell,
    collections::VecDeque,
    io::{self, IsTerminal as _, Write as _},
    process::ExitCode,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use self::report::{Abilities, Report, Row, State};
use super::{args::Args, columns::shorten, print, screen::Screen, world};
use crate::{
    config::ServerKind,
    core::{
        QUESTION, Version,
        event::{BackendId, Effect, Effects, Event, Generation, Peer, ProcessId},
    },
    rpc::{ErrorCode, Frame, Kind, RawId},
    shell::{
        Settings, control,
        discover::{CliServers, Env, Target, Targets, named_targets, probe, read_user, targets, user_file},
        driver::{Core, Driver},
        process::World,
        shared::meeting_place,
        signals,
    },
};

/// How long a Copilot server may take to report the sign-in: it asks GitHub.
const ACCOUNT: Duration = Duration::from_secs(10);
/// How long a server may take to answer `shutdown`.
const STOP: Duration = Duration::from_secs(2);

/// Tries, prints, and fails if a server does. Tries all that are configured if `servers` names none.
pub(super) fn run(
    args: &Args,
    servers: &CliServers,
    is_verbose: bool,
    screen: Screen,
) -> anyhow::Result<ExitCode> {
    let runtime = world::runtime()?;
    let checked = runtime.block_on(async {
        let (world, env) = (world::world(&world::identity()), Env::real());
        try_all(args, servers, &env, world, signals::listen()).await
    });
    let report = checked.map_err(anyhow::Error::msg)?;
    print(&report.text(is_verbose, screen))?;
    Ok(ExitCode::from(u8::try_from(report.status()).unwrap_or(u8::MAX)))
}

/// Finds and tries the named servers, or all of the configuration. Fails if that cannot be read.
async fn try_all<W: World>(
    args: &Args,
    named: &CliServers,
    env: &Env,
    world: W,
    signals: mpsc::Receiver<i32>,
) -> Result<Report, String> {
    let user = read_user(args.config.as_deref(), env)?;
    // In the home folder, everything that the user installed would be in the workspace.
    let is_home = env.home.as_ref().is_some_and(|home| home.starts_with(&env.cwd));
    let folders: Vec<_> = (!is_home).then(|| env.cwd.clone()).into_iter().collect();
    let Targets { servers, others, warnings, group, absent } = match named.is_empty() {
        true => targets(&user, &folders, env)?,
        false => named_targets(named, &user, &folders, env)?,
    };

    let n_members = servers.len();
    let mut rows = Vec::new();
    let mut trials = VecDeque::new();
    let mut elsewhere = Vec::new();
    for (n, (name, target)) in servers.into_iter().chain(others).enumerate() {
        match target {
            Ok(target) => {
                let mut row = Row::found(name, &target);
                if target.server.share.is_on() {
                    row.note_sharing(meeting_place(&control::folders(env)));
                }
                rows.push(row);
                elsewhere.extend(target.launch.remote.is_some().then(|| (n, target.launch.clone())));
                trials.push_back((n, target));
            }
            Err(missing) => rows.push(Row::missing(name, missing)),
        }
    }
    let rows = Rc::new(RefCell::new(rows));
    let core =
        Trials::new(tokio::time::Instant::now().into_std(), trials, rows.clone(), Progress::to_stderr());
    let driver = Driver::new(core, world, Arc::new(()), Settings::default());
    let status = driver.run(Box::new(tokio::io::empty()), Box::new(tokio::io::sink()), signals).await;
    if status == 0 {
        for (n, launch) in elsewhere {
            rows.borrow_mut()[n].note_place(|| probe(&launch));
        }
    }
    let file = user.file.ok_or_else(|| user_file(env));
    Ok(Report {
        file,
        warnings,
        rows: rows.take(),
        n_members,
        group,
        absent,
        interrupted: (status != 0).then_some(status),
    })
}

/// All trials, as a core that the shell drives.
struct Trials {
    rows: Rc<RefCell<Vec<Row>>>,
    waiting: VecDeque<(usize, Target)>,
    current: Option<Trial>,
    /// When the next step is due.
    at: Instant,
    progress: Progress,
}

/// The progress that a person sees while a server starts: one line of a terminal, removed at the end.
#[derive(Clone, Copy, Debug)]
struct Progress {
    is_shown: bool,
}

impl Progress {
    /// Shows progress if stderr is a terminal.
    fn to_stderr() -> Progress {
        Progress { is_shown: io::stderr().is_terminal() }
    }

    /// Replaces the line.
    fn show(self, text: &str) {
        if self.is_shown {
            // Short enough for any terminal: a line that wraps cannot be replaced.
            write!(io::stderr(), "\r\x1b[K{}", shorten(text, 50)).ok();
        }
    }
}

/// A server that is being tried.
struct Trial {
    row: usize,
    process: ProcessId,
    kind: Option<ServerKind>,
    is_elsewhere: bool,
    /// How long it may take to start, and to answer `initialize`.
    patience: Duration,
    began: Instant,
    step: Step,
}

/// The step of a trial.
enum Step {
    Starting {
        until: Instant,
    },
    Initializing {
        until: Instant,
    },
    /// So many answers are missing.
    Asking {
        until: Instant,
        open: usize,
    },
    Stopping {
        until: Instant,
    },
    Ending,
}

impl Trials {
    fn new(
        now: Instant,
        waiting: VecDeque<(usize, Target)>,
        rows: Rc<RefCell<Vec<Row>>>,
        progress: Progress,
    ) -> Trials {
        Trials { rows, waiting, current: None, at: now, progress }
    }

    fn next(&mut self, now: Instant, out: &mut Effects) {
        self.at = now;
        let Some((row, target)) = self.waiting.pop_front() else {
            self.current = None;
            self.progress.show("");
            out.push(Effect::Exit(0));
            return;
        };
        self.progress.show(&format!("starting {} …", target.name));
        let backend = BackendId(u32::try_from(row).unwrap_or(u32::MAX));
        let process = ProcessId { backend, generation: Generation(1) };
        let (kind, patience) = (target.server.kind, target.server.startup_timeout);
        let step = Step::Starting { until: now + patience };
        let is_elsewhere = target.launch.is_elsewhere();
        self.current = Some(Trial { row, process, kind, is_elsewhere, patience, began: now, step });
        out.push(Effect::Spawn(process, Arc::new(target.launch.settled())));
    }

    fn on_message(&mut self, now: Instant, frame: &Frame, out: &mut Effects) {
        let Some(trial) = &mut self.current else { return };
        let to = Peer::Backend(trial.process);
        match frame.kind() {
            Kind::Notification => {}
            Kind::Request if frame.method() == Some("initialize") => {
                self.fail("it echoes lspool's messages: it is not a language server".to_owned(), out);
            }
            Kind::Request => {
                let id = frame.id().unwrap_or_else(RawId::null);
                let refused =
                    Frame::error(id, ErrorCode::MethodNotFound, "lspool only checks this server", None);
                out.push(Effect::Send(to, refused));
            }
            Kind::Response => {
                let id = frame.id().and_then(|id| id.as_u64());
                match trial.step {
                    Step::Initializing { .. } if id == Some(INITIALIZE) => {
                        self.on_initialized(now, frame, out);
                    }
                    Step::Asking { until, open } => {
                        let row = &mut self.rows.borrow_mut()[trial.row];
                        match id {
                            Some(ACCOUNT_ID) => row.note_account(frame),
                            Some(PROOF_ID) => row.note_proof(frame),
                            Some(AGENTS_ID) => row.note_agents(frame),
                            Some(_) | None => return,
                        }
                        match open.saturating_sub(1) {
                            0 => trial.stop(now, out),
                            open => trial.step = Step::Asking { until, open },
                        }
                    }
                    Step::Stopping { .. } if id == Some(SHUTDOWN) => {
                        out.push(Effect::Send(to, Frame::notification("exit", None)));
                        trial.end(out);
                    }
                    Step::Starting { .. }
                    | Step::Initializing { .. }
                    | Step::Stopping { .. }
                    | Step::Ending => {}
                }
            }
        }
    }

    fn on_initialized(&mut self, now: Instant, frame: &Frame, out: &mut Effects) {
        let Some(result) = frame.result() else {
            let error: Value =
                frame.error_value().and_then(|it| serde_json::from_slice(it).ok()).unwrap_or_default();
            let message = error["message"].as_str().unwrap_or("without a message").to_owned();
            return self.fail(format!("it answered `initialize` with an error: {message}"), out);
        };
        let answer = result.to_vec();
        let result: Value = serde_json::from_slice(result).unwrap_or_default();
        let Some(trial) = &mut self.current else { return };
        let word = |key: &str| result["serverInfo"][key].as_str().map(ToOwned::to_owned);
        let version = [word("name"), word("version")].into_iter().flatten().collect::<Vec<_>>().join(" ");
        self.rows.borrow_mut()[trial.row].state = State::Well {
            version,
            after: now - trial.began,
            account: None,
            abilities: Abilities::default(),
            answer,
        };
        let to = Peer::Backend(trial.process);
        out.push(Effect::Send(to, Frame::notification("initialized", Some(b"{}"))));
        if trial.kind != Some(ServerKind::Copilot) {
            return trial.stop(now, out);
        }
        if let Some(version) = word("version").as_deref().and_then(Version::parse) {
            self.rows.borrow_mut()[trial.row].note_version(version);
        }
        trial.step = Step::Asking { until: now + ACCOUNT, open: QUESTIONS.len() };
        self.progress.show("checking the sign-in …");
        for (number, (method, params)) in QUESTIONS {
            out.push(Effect::Send(to, Frame::request(id(number), method, Some(params))));
        }
    }

    /// Notes an error, and ends the server.
    fn fail(&mut self, message: String, out: &mut Effects) {
        let Some(trial) = &mut self.current else { return };
        self.rows.borrow_mut()[trial.row].fail(message);
        trial.end(out);
    }

    fn on_exited(&mut self, now: Instant, how: &str, stderr: &str, out: &mut Effects) {
        let Some(trial) = &self.current else { return };
        {
            let row = &mut self.rows.borrow_mut()[trial.row];
            if let Step::Starting { .. } | Step::Initializing { .. } = trial.step {
                row.ended(how);
            }
            if let State::Failed(message) = &mut row.state
                && !stderr.is_empty()
            {
                message.push_str("\nstderr ends with:");
                message.extend(stderr.lines().flat_map(|line| ["\n  ", line]));
            }
        }
        self.next(now, out);
    }
}

impl Trial {
    fn stop(&mut self, now: Instant, out: &mut Effects) {
        self.step = Step::Stopping { until: now + STOP };
        let to = Peer::Backend(self.process);
        out.push(Effect::Send(to, Frame::request(id(SHUTDOWN), "shutdown", None)));
    }

    fn end(&mut self, out: &mut Effects) {
        if !matches!(self.step, Step::Ending) {
            self.step = Step::Ending;
            out.push(Effect::Terminate(self.process));
        }
    }

    fn is(&self, process: ProcessId) -> bool {
        self.process == process
    }
}

impl Core for Trials {
    fn handle(&mut self, now: Instant, event: Event, out: &mut Effects) {
        let is_current = |process| self.current.as_ref().is_some_and(|it| it.is(process));
        match event {
            Event::Received(Peer::Backend(process), frame) if is_current(process) => {
                self.on_message(now, &frame, out);
            }
            Event::Malformed { peer: Peer::Backend(process), reason, .. } if is_current(process) => {
                self.fail(format!("it sent an invalid message: {reason}"), out);
            }
            Event::Closed { peer: Peer::Backend(process), error } if is_current(process) => {
                let error = error.map(|it| format!(": {it}")).unwrap_or_default();
                self.fail(format!("it closes its output{error}"), out);
            }
            Event::Stalled(Peer::Backend(process)) if is_current(process) => {
                self.fail("it reads nothing".to_owned(), out);
            }
            Event::Spawned { process, pid: _ } if is_current(process) => {
                let Some(trial) = &mut self.current else { return };
                trial.step = Step::Initializing { until: now + trial.patience };
                let mut params = initialize(trial.kind);
                if trial.is_elsewhere {
                    params["processId"] = Value::Null;
                }
                let params = params.to_string();
                let request = Frame::request(id(INITIALIZE), "initialize", Some(params.as_bytes()));
                out.push(Effect::Send(Peer::Backend(process), request));
            }
            Event::SpawnFailed(process, failure) if is_current(process) => {
                if let Some(trial) = &self.current {
                    self.rows.borrow_mut()[trial.row].fail(failure.message);
                }
                self.next(now, out);
            }
            Event::Exited { process, exit, stderr } if is_current(process) => {
                self.on_exited(now, &exit.to_string(), &stderr, out);
            }
            Event::Quit(signal) => {
                self.progress.show("");
                out.push(Effect::Exit(128 + signal));
            }
            // No editor is connected, and messages of an ended server do not matter.
            Event::Received(..)
            | Event::Malformed { .. }
            | Event::Closed { .. }
            | Event::Unwritable(_)
            | Event::Prepared(_)
            | Event::ToolRan(_)
            | Event::Looked(_)
            | Event::FileRead { .. }
            | Event::Wrote(_)
            | Event::Fetched(_)
            | Event::Measured(_)
            | Event::FilesChanged
            | Event::EditorReads(_)
            | Event::Muttered(_)
            | Event::Displaced(..)
            | Event::Unshared(..)
            | Event::Drained(_)
            | Event::Spawned { .. }
            | Event::SpawnFailed(..)
            | Event::Exited { .. }
            | Event::TranscriptWritten { .. }
            | Event::TeamsLoaded(_)
            | Event::TeamWritten { .. }
            | Event::ModeKept { .. }
            | Event::Recalled(_)
            | Event::RootFound(_)
            | Event::Stalled(_)
            | Event::EditorGone => {}
        }
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Effects) {
        match &mut self.current {
            None => self.next(now, out),
            Some(trial) => match trial.step {
                Step::Starting { until } if now >= until => {
                    let patience = trial.patience.as_secs_f64();
                    self.fail(format!("it did not start within {patience} s: its disk may not respond"), out);
                    // If the process starts after all, it is ended then.
                    self.next(now, out);
                }
                Step::Initializing { until } if now >= until => {
                    let patience = trial.patience.as_secs_f64();
                    let hint = "hint: if it needs more time, raise `startup_timeout`";
                    self.fail(format!("it did not answer `initialize` within {patience} s\n{hint}"), out);
                }
                Step::Asking { until, .. } if now >= until => trial.stop(now, out),
                Step::Stopping { until } if now >= until => trial.end(out),
                Step::Starting { .. }
                | Step::Initializing { .. }
                | Step::Asking { .. }
                | Step::Stopping { .. }
                | Step::Ending => {}
            },
        }
    }

    fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        match self.current.as_ref().map(|it| &it.step) {
            None => Some((self.at, "the first trial")),
            Some(Step::Starting { until }) => Some((*until, "a process is not there")),
            Some(Step::Initializing { until }) => Some((*until, "no answer to initialize")),
            Some(Step::Asking { until, .. }) => Some((*until, "no answer about what it can do")),
            Some(Step::Stopping { until }) => Some((*until, "no answer to shutdown")),
            Some(Step::Ending) => None,
        }
    }
}

const INITIALIZE: u64 = 1;
const SHUTDOWN: u64 = 2;
const ACCOUNT_ID: u64 = 3;
const PROOF_ID: u64 = 4;
const AGENTS_ID: u64 = 5;

/// What a Copilot server is asked, under which number: who is signed in, and what it can do.
const QUESTIONS: [(u64, (&str, &[u8])); 3] = [
    (ACCOUNT_ID, ("checkStatus", b"{}")),
    (PROOF_ID, QUESTION),
    (AGENTS_ID, ("customAgent/registerExtensionAgents", br#"{"extensionId":"lspool","agents":[]}"#)),
];

fn id(number: u64) -> RawId {
    number.into()
}

fn initialize(kind: Option<ServerKind>) -> Value {
    let me = json!({ "name": "lspool", "version": env!("CARGO_PKG_VERSION") });
    let mut params = json!({
        "processId": std::process::id(),
        "clientInfo": me,
        "rootUri": null,
        "workspaceFolders": null,
        "capabilities": {},
    });
    if kind == Some(ServerKind::Copilot) {
        params["initializationOptions"] = json!({ "editorInfo": me, "editorPluginInfo": me });
    }
    params
}
