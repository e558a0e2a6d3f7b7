//! `lspool orchestrate`: lspool with a terminal instead of an editor.
//!
//! Runs both in one process, and owns the exit status. `terminal` owns the messages to lspool and the questions,
//! `view` the drawing of an orchestration.
//!
//! - No text of a model can move the cursor.
//! - A command of a worker runs only if the user, `--yes` or the configuration allows it.

mod pen;
mod questions;
mod saved;
mod terminal;
mod view;
mod workers;

use std::{
    io::{self, IsTerminal as _},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context as _;
use serde_json::{Value, json};

use self::{questions::May, saved::Saved};
use super::{
    args::{self, Args},
    client::serve_self,
    conversation_tools::ConversationTools,
    screen::Screen,
    search::Search,
    world,
};
use crate::{
    config::BuiltinTools,
    core::{Proxy, event::Prepared},
    shell::{discover::CliServers, driver, goals::GoalFile, record::Recorded},
};

/// Exit status if every task is done.
const DONE: u8 = 0;
/// Exit status if a task has failed or was skipped, or if the summary is missing.
const FAILED: u8 = 1;
/// Exit status if nothing was done, because of the command line, the server, or the plan.
const NOTHING: u8 = 2;
/// Exit status after Ctrl-C.
const INTERRUPTED: u8 = 130;

/// What is to be done.
#[derive(Clone, Debug)]
struct Task {
    /// The goal.
    goal: String,
    /// Parameters of [`workers::read`], instead of the workers of the configuration.
    workers: Option<Value>,
    /// The worker that does it alone.
    worker: Option<String>,
    /// Tasks of an earlier run, with what has come of them.
    tasks: Option<Value>,
    /// The model.
    model: Option<String>,
    /// How often a failed task starts again.
    retries: Option<u32>,
    /// Whether the events are printed as they are.
    json: bool,
    /// What workers may do without a question.
    may: May,
    /// The workspace.
    folder: PathBuf,
    /// What is stored of it, and where.
    saved: Option<(Saved, GoalFile)>,
}

/// Acts as the editor for a goal.
pub(super) fn run(args: &Args, task: args::Orchestrate, screen: Screen) -> anyhow::Result<ExitCode> {
    let args::Orchestrate { goal, resume, worker, retries, workers, model, json, yes, command } = task;
    let search = Arc::new(Search::new(args, CliServers::one(command)));
    let folder = search.env.cwd.clone();
    let file = GoalFile::of(&search.env, &folder);
    let workers = match workers {
        None => None,
        Some(file) => {
            let name = file.display().to_string();
            let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {name}"))?;
            let config = search.first.clone().unwrap_or_default();
            Some(workers::read(&text, &name, &config).map_err(anyhow::Error::msg)?)
        }
    };
    let saved = match resume {
        true => earlier(file.as_ref())?,
        false => Saved { goal: goal.unwrap_or_default(), workers, worker, ..Saved::default() },
    };
    let saved = Saved { model: model.or(saved.model), retries: retries.or(saved.retries), ..saved };
    let can_be_asked = io::stdin().is_terminal() && io::stderr().is_terminal();
    let may = match (yes, can_be_asked) {
        (true, _) => May::All,
        (false, true) => May::Ask,
        (false, false) => May::Nothing,
    };
    let Saved { goal, workers, worker, model, retries, tasks } = saved.clone();
    // The only task of a worker is the goal.
    let tasks = tasks.filter(|_| worker.is_none()).map(|it| json!(it));
    let saved = file.map(|file| (saved, file));
    let task = Task { goal, workers, worker, tasks, model, retries, json, may, folder, saved };
    let identity = world::identity();
    let (tools, connections) = ConversationTools::new(args, &search);
    let world = world::open_world(&identity, &search).with_code_tools(tools.clone(), connections);
    let core = Proxy::new(identity);
    let recorder = search.recorder(args, identity);
    let search = Arc::new(WithTools(search));
    let editor = async |stream, signals, quit| {
        let done = terminal::run(&task, stream, signals, quit, &mut io::stdout(), screen).await;
        tools.end().await;
        done
    };
    match recorder {
        Some(recorder) => serve_self(Recorded::new(core, recorder), world, search, editor),
        None => serve_self(core, world, search, editor),
    }
}

/// What is stored of the goal of this folder.
fn earlier(file: Option<&GoalFile>) -> anyhow::Result<Saved> {
    let content = file.map(GoalFile::load).transpose().context("cannot read the stored goal")?.flatten();
    let content = content.context("this folder has no unfinished goal")?;
    serde_json::from_slice(&content).context("the stored goal is damaged")
}

/// The server as an editor has it, with the tools that no editor is there to have.
struct WithTools(Arc<Search>);

impl driver::Search for WithTools {
    fn files(&self, folders: &[PathBuf]) -> Vec<PathBuf> {
        self.0.files(folders)
    }

    fn prepare(&self, folders: &[PathBuf]) -> Result<Prepared, String> {
        let mut found = self.0.find(folders)?;
        if let Some(group) = &found.group {
            let hint = "name it: `lspool orchestrate GOAL -- COMMAND`";
            return Err(format!(
                "{} is a group, and the work on a goal takes one server; {hint}",
                group.name
            ));
        }
        found.server.builtin_tools = BuiltinTools::Fallback;
        Ok(self.0.with_code_tools(found, folders))
    }
}
