//! Runs calls of builtin tools, off the thread that forwards messages.
//!
//! [`crate::builtin_tools`] owns the meaning of calls and answers; this module touches files and runs commands.
//!
//! - **Each call gets one answer**, also if it is cancelled or fails.
//! - It opens nothing outside the workspace folders (`workspace`).
//! - When a call of a command is answered, the whole process group has ended.

mod command;
mod confine;
mod files;
mod look;
mod search;
// They make links, pipes, and modes.
#[cfg(unix)]
#[cfg(test)]
mod tests;
mod walk;
mod workspace;
mod write;

use std::{
    cell::Cell,
    collections::BTreeMap,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::Value;
use tokio::{
    sync::watch,
    task::{JoinHandle, spawn_blocking, spawn_local},
    time::sleep,
};

pub use self::confine::{SUBCOMMAND, serve};
pub(crate) use self::look::real_path;
use self::{
    look::Looker,
    search::Until,
    workspace::{Known, Workspace},
};
use super::{
    inbox::Events,
    os::command::{UNCONFINED, can_confine},
    process::{Commands, EditorLink, Waiting, World},
};
use crate::{
    builtin_tools::{Call, CodeTool, Outcome, Tool, accepted, bare, is_allowed, lsp::LspTool},
    config::ToolsConfig,
    core::event::{Event, Launch, Look, Scope, Write},
    rpc::{Frame, RawId, path, text},
    util::json,
};

/// A search ends by itself at its limit. After this much more, lspool does not wait for it.
const SLACK: Duration = Duration::from_secs(5);

/// Opens workspace folders. The disk may be slow.
type Opener = Arc<dyn Fn(&[PathBuf]) -> Result<Workspace, String> + Send + Sync>;

/// The running calls.
pub(super) struct Tools {
    running: BTreeMap<RawId, Running>,
    means: Rc<Means>,
    looker: Looker,
}

impl fmt::Debug for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tools").field("running", &self.running).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Running {
    stopped: Arc<AtomicBool>,
    cancelled: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Tools {
    /// `state` is the folder for state that outlives lspool.
    pub(super) fn new(state: Option<PathBuf>) -> Tools {
        let known = Known::default();
        let open: Opener = Arc::new(move |folders| Workspace::open(folders, &known));
        Tools { looker: Looker::new(state), ..Tools::with(open, can_confine) }
    }

    fn with(open: Opener, can_confine: fn() -> bool) -> Tools {
        let means = Means { open, can_confine, is_told: Cell::default() };
        Tools { running: BTreeMap::new(), means: Rc::new(means), looker: Looker::default() }
    }

    /// Starts a call. Waits for nothing; [`Event::ToolRan`] has the answer.
    pub(super) fn run(&mut self, call: &Frame, scope: Scope, world: &impl World, events: &Events) {
        let Some(id) = call.id() else { return };
        let asked = match Asked::read(call) {
            Ok(asked) => asked,
            Err(why) => return events.tell(ran(id, &Outcome::Failed(why))),
        };
        let is_allowed = |command: &str| scope.is_confirmed || is_allowed(command, &scope.limits.allow);
        let (stopped, (cancelled, is_cancelled)) = (Arc::new(AtomicBool::new(false)), watch::channel(false));
        let (answered, told) = (id.clone(), events.clone());
        let task = match asked {
            Asked::Confirm(command) => return events.tell(verdict(id, is_allowed(&command))),
            Asked::Run(Call::Terminal { command }) if !is_allowed(&command) => {
                return events.tell(verdict(id, false));
            }
            Asked::Run(Call::Terminal { command }) => {
                let (means, commands) = (self.means.clone(), world.commands());
                spawn_local(async move {
                    let outcome = in_terminal(command, scope, means, commands, is_cancelled).await;
                    told.tell(ran(answered, &outcome));
                })
            }
            Asked::Run(call) => {
                let (open, stopped) = (self.means.open.clone(), stopped.clone());
                spawn_local(async move {
                    let outcome = off_thread(call, scope, open, stopped, is_cancelled).await;
                    told.tell(ran(answered, &outcome));
                })
            }
            Asked::Code(tool, input) => {
                let calling = world.code_tools().map(|it| it.call(scope.folders, tool, input));
                spawn_local(async move {
                    let outcome = on_servers(calling, is_cancelled).await;
                    told.tell(ran(answered, &outcome));
                })
            }
        };
        self.running.insert(id, Running { stopped, cancelled, task });
    }

    /// Looks at files, after all earlier looks; [`Event::Looked`] has the result.
    pub(super) fn look(&self, look: Look, editors: Option<Rc<dyn EditorLink>>, events: &Events) {
        let open = self.means.open.clone();
        self.looker.look(look, editors, move |folders| open(folders), events);
    }

    /// Makes an edit of files, after all earlier looks; [`Event::Wrote`] has the result.
    pub(super) fn write(&self, write: Write, editors: Option<Rc<dyn EditorLink>>, events: &Events) {
        let open = self.means.open.clone();
        self.looker.write(write, editors, move |folders| open(folders), events);
    }

    /// Cancels a call. It still gets an answer.
    pub(super) fn cancel(&mut self, id: &RawId) {
        if let Some(it) = self.running.get(id) {
            it.stop();
        }
    }

    /// Notes the answer of a call.
    pub(super) fn note_ran(&mut self, id: &RawId) {
        self.running.remove(id);
    }

    /// Cancels all calls and waits for their ends.
    pub(super) async fn end(self) {
        self.running.values().for_each(Running::stop);
        for it in self.running.into_values() {
            it.task.await.ok();
        }
    }
}

impl Running {
    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.cancelled.send_replace(true);
    }
}

/// A request to the tools.
enum Asked {
    Run(Call),
    Code(LspTool, Value),
    /// Whether this command needs a question.
    Confirm(String),
}

impl Asked {
    fn read(frame: &Frame) -> Result<Asked, String> {
        let params = frame.params().unwrap_or(b"{}");
        let name = text(params, &["name"]).unwrap_or_default();
        let input = path(params, &["input"]).map_or(&b"{}"[..], |it| &params[it]);
        if let Some(tool) = CodeTool::named(bare(&name)) {
            let input = json::read(input).map_err(|_| "the input is not JSON".to_owned())?;
            let (tool, arguments) = tool.call(input);
            return Ok(Asked::Code(tool, arguments));
        }
        let tool = Tool::named(bare(&name));
        let tool = tool.ok_or_else(|| format!("unknown tool {name:?}"))?;
        match frame.method() {
            Some("conversation/invokeClientToolConfirmation") => {
                Ok(Asked::Confirm(text(input, &["command"]).unwrap_or_default()))
            }
            Some(_) | None => Call::read(tool, input).map(Asked::Run),
        }
    }
}

/// Waits for a call of a code tool.
async fn on_servers(
    calling: Option<Waiting<'static, Outcome>>,
    mut cancelled: watch::Receiver<bool>,
) -> Outcome {
    let Some(calling) = calling else {
        return Outcome::Failed("this lspool cannot start language servers".to_owned());
    };
    tokio::select! {
        biased;
        _ = cancelled.wait_for(|it| *it) => Outcome::Cancelled,
        outcome = calling => outcome,
    }
}

fn ran(id: RawId, outcome: &Outcome) -> Event {
    Event::ToolRan(Frame::response(id, outcome.answer().to_string().as_bytes()))
}

fn verdict(id: RawId, is_allowed: bool) -> Event {
    Event::ToolRan(Frame::response(id, accepted(is_allowed).to_string().as_bytes()))
}

/// The environment of a call.
struct Means {
    open: Opener,
    /// Whether this system can confine a command.
    can_confine: fn() -> bool,
    /// Whether a model has been told that it cannot.
    is_told: Cell<bool>,
}

/// Starts a command, and waits for its end.
async fn in_terminal(
    command: String,
    scope: Scope,
    means: Rc<Means>,
    commands: Option<Rc<dyn Commands>>,
    mut cancelled: watch::Receiver<bool>,
) -> Outcome {
    let Some(commands) = commands else {
        return Outcome::Failed("this lspool cannot run commands".to_owned());
    };
    let (program, limits) = (commands.program(), scope.limits.clone());
    let (open, can_confine) = (means.open.clone(), means.can_confine);
    // In a thread, because opening folders and finding programs may wait for a disk.
    let preparing = spawn_blocking(move || {
        let workspace = open(&scope.folders)?;
        let folders: Vec<_> = workspace.folders().map(ToOwned::to_owned).collect();
        let is_confined = scope.limits.confine && can_confine();
        let launch = command::launch(program, &command, &folders, &scope.limits, is_confined);
        Ok::<(Launch, bool), String>((launch, is_confined))
    });
    let limit = limits.time_limit + SLACK;
    let prepared = tokio::select! {
        biased;
        _ = cancelled.wait_for(|it| *it) => return Outcome::Cancelled,
        prepared = preparing => prepared.unwrap_or_else(|error| Err(error.to_string())),
        () = sleep(limit) => Err(took(limit)),
    };
    let (launch, is_confined) = match prepared {
        Ok(prepared) => prepared,
        Err(why) => return Outcome::Failed(why),
    };
    let started = tokio::select! {
        // A running command has priority: it must be ended in order.
        biased;
        started = commands.start(launch.into()) => started.map_err(|failure| failure.message),
        _ = cancelled.wait_for(|it| *it) => return Outcome::Cancelled,
        () = sleep(limit) => Err(took(limit)),
    };
    let spawned = match started {
        Ok(spawned) => spawned,
        Err(why) => return Outcome::Failed(why),
    };
    let is_first = limits.confine && !is_confined && !means.is_told.replace(true);
    let outcome = command::run(spawned, &limits, cancelled).await;
    if !is_first {
        return outcome;
    }
    tracing::warn!("{UNCONFINED}");
    outcome.noting(UNCONFINED)
}

fn took(limit: Duration) -> String {
    format!("it took more than {} s", limit.as_secs())
}

/// Runs a call in a thread of the pool, and does not wait for a disk that does not answer.
async fn off_thread(
    call: Call,
    scope: Scope,
    open: Opener,
    stopped: Arc<AtomicBool>,
    mut cancelled: watch::Receiver<bool>,
) -> Outcome {
    let (changes_nothing, limit) = (call.changes_nothing(), scope.limits.time_limit + SLACK);
    let stop = stopped.clone();
    let working = spawn_blocking(move || carry_out(&call, &scope, &stopped, &open));
    tokio::select! {
        done = working => done.unwrap_or_else(|error| Outcome::Failed(error.to_string())),
        _ = cancelled.wait_for(|it| *it), if changes_nothing => Outcome::Cancelled,
        () = sleep(limit) => {
            // A call that was reported as failed must not happen later.
            stop.store(true, Ordering::Relaxed);
            Outcome::Failed(took(limit))
        }
    }
}

/// Runs a call that waits only for the disk.
fn carry_out(call: &Call, scope: &Scope, stopped: &AtomicBool, open: &Opener) -> Outcome {
    // A panic of a library on a strange file costs only this call.
    let done = catch_unwind(AssertUnwindSafe(|| {
        // The limit of time starts here, because it includes opening a folder.
        let until = Until::new(stopped, &scope.limits);
        on_disk(call, &open(&scope.folders)?, &scope.limits, &until)
    }));
    match done {
        Ok(done) => done.into(),
        Err(_) => Outcome::Failed("the tool failed because of a bug in lspool".to_owned()),
    }
}

fn on_disk(
    call: &Call,
    workspace: &Workspace,
    limits: &ToolsConfig,
    until: &Until<'_>,
) -> Result<String, String> {
    match call {
        Call::ReadFile { path, lines } => files::read(workspace, path, *lines, limits),
        Call::ListDir { path } => files::list(workspace, path, limits),
        Call::FileSearch { pattern, most } => search::by_name(workspace, pattern, *most, limits, until),
        Call::GrepSearch { pattern, is_regex, include } => {
            search::by_content(workspace, (pattern, *is_regex), include.as_deref(), limits, until)
        }
        Call::CreateFile { path, text } => files::create(workspace, path, text, limits, until),
        Call::ReplaceString { path, old, new } => files::replace(workspace, path, (old, new), limits, until),
        Call::InsertEdit { path, text } => files::rewrite(workspace, path, text, limits, until),
        Call::Terminal { .. } => Err("a command is run in another way".to_owned()),
    }
}
