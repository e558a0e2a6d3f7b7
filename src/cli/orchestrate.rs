//! `lspool orchestrate`: lspool with a terminal in the place of the editor.
//!
//! Puts the two together, in one process, and owns the exit status. What is said to lspool and shown to its user is
//! `terminal`'s, what an orchestration looks like `view`'s.
//!
//! - Nothing that a model says moves the cursor.
//! - A command of a worker is run only if the user, `--yes` or the configuration allows it.

mod pen;
mod questions;
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
use serde_json::Value;
use tokio::task::spawn_local;

use self::questions::May;
use super::{
    args::{self, Args},
    screen::Screen,
    search::Search,
    world,
};
use crate::{
    config::BuiltinTools,
    core::{Proxy, event::Prepared},
    shell::{
        Settings,
        discover::{CliServer, CliServers},
        driver::{self, Driver},
        record::Recorded,
        signals,
        system::System,
    },
};

/// Exit status if every task is done.
const DONE: u8 = 0;
/// Exit status if a task has failed or was skipped, or there is no summary.
const FAILED: u8 = 1;
/// Exit status if nothing was done: what was asked for is wrong, or there is no server, or no plan.
const NOTHING: u8 = 2;
/// Exit status after Ctrl-C.
const INTERRUPTED: u8 = 130;

/// How many bytes wait between lspool and its own terminal.
const PIPE: usize = 64 << 10;

/// What is to be done.
#[derive(Clone, Debug)]
struct Task {
    /// The goal.
    goal: String,
    /// Parameters of [`workers::read`], if those of the configuration are not meant.
    workers: Option<Value>,
    /// The model.
    model: Option<String>,
    /// Whether the events are printed as they are.
    json: bool,
    /// What workers may do.
    may: May,
    /// The workspace.
    folder: PathBuf,
}

/// Plays the editor for a goal.
pub(super) fn run(args: &Args, task: args::Orchestrate, screen: Screen) -> anyhow::Result<ExitCode> {
    let args::Orchestrate { goal, workers, model, json, yes, command } = task;
    let mut words = command.into_iter();
    let named = words.next().map(|command| CliServer { command, args: words.collect() });
    let search = Search::new(args, CliServers { group: None, commands: named.into_iter().collect() });
    let workers = match workers {
        None => None,
        Some(file) => {
            let name = file.display().to_string();
            let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {name}"))?;
            let config = search.first.clone().unwrap_or_default();
            Some(workers::read(&text, &name, &config).map_err(anyhow::Error::msg)?)
        }
    };
    let can_be_asked = io::stdin().is_terminal() && io::stderr().is_terminal();
    let may = match (yes, can_be_asked) {
        (true, _) => May::All,
        (false, true) => May::Ask,
        (false, false) => May::Nothing,
    };
    let task = Task { goal, workers, model, json, may, folder: search.env.cwd.clone() };
    let identity = world::identity();
    let world = world::open_world(&identity, &search.env);
    let core = Proxy::new(identity);
    let search = Arc::new(search);
    match search.recorder(args, identity) {
        Some(recorder) => at_terminal(Recorded::new(core, recorder), world, search, &task, screen),
        None => at_terminal(core, world, search, &task, screen),
    }
}

/// Serves a terminal until its goal is reached or given up.
fn at_terminal(
    core: impl driver::Core + 'static,
    world: System,
    search: Arc<Search>,
    task: &Task,
    screen: Screen,
) -> anyhow::Result<ExitCode> {
    let driver = Driver::new(core, world, Arc::new(WithTools(search)), Settings::default());
    let runtime = world::runtime()?;
    let done = runtime.block_on(async {
        let (near, far) = tokio::io::duplex(PIPE);
        let (input, output) = tokio::io::split(far);
        let (quit, signals) = tokio::sync::mpsc::channel(1);
        let driver = spawn_local(driver.run(Box::new(input), Box::new(output), signals));
        let mut out = io::stdout();
        let done = terminal::run(task, near, signals::listen(), quit, &mut out, screen).await;
        // Its processes end with it.
        driver.await.ok();
        done
    });
    runtime.shutdown_background();
    Ok(ExitCode::from(done?))
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
        Ok(found)
    }
}
