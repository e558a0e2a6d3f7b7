//! `lspool mcp`: the code tools for an agent, over the Model Context Protocol on stdin and stdout.
//!
//! `rmcp` speaks the protocol; a call becomes one of [`code_tools`]. stdout carries nothing else.

mod handler;
mod install;
mod lines;
mod roots;
mod tools;

use std::{
    io::{self, IsTerminal as _},
    path::PathBuf,
    process::ExitCode,
    rc::Rc,
    time::Duration,
};

use anyhow::Context as _;
use rmcp::ServiceExt as _;
use tokio::time::timeout;

use self::{handler::Handler, lines::Streams};
use super::{
    NOTHING_TO_SERVE,
    args::{Args, Mcp},
    code_tools::{
        self,
        workspace::{Folders, Workspace},
    },
    editor_link::RunningEditors,
    tell, world,
};
use crate::shell::{control, discover::Env, signals, stdio};

/// The message for a person who starts `lspool mcp` at a terminal.
const ALONE: &str = "an agent starts lspool mcp; it speaks the Model Context Protocol on stdin

  lspool mcp --install AGENT   prints the settings for an agent
  lspool lsp                   asks language servers from a shell";

/// How long the client may take to read the last answers.
const PATIENCE: Duration = Duration::from_secs(2);

/// Serves an agent until it ends, or prints settings for one.
pub(super) fn run(args: &Args, asked: &Mcp) -> anyhow::Result<ExitCode> {
    let env = Env::real();
    if let Some(agent) = asked.install {
        return install::run(agent, asked.write, &env);
    }
    let given = asked.roots.iter().map(|it| roots::check(it, &env));
    let given: Vec<PathBuf> = given.collect::<Result<_, _>>().map_err(anyhow::Error::msg)?;
    if io::stdin().is_terminal() {
        tell(ALONE);
        return Ok(ExitCode::from(NOTHING_TO_SERVE));
    }
    let runtime = world::runtime()?;
    let code = runtime.block_on(serve(args, given, env));
    // A read of stdin that is no pipe cannot be cancelled.
    runtime.shutdown_background();
    code.map(ExitCode::from).context("cannot serve")
}

async fn serve(args: &Args, given: Vec<PathBuf>, env: Env) -> io::Result<u8> {
    let mut signals = signals::listen();
    let stdio::Stdio { input, output, modes } = stdio::open();
    let search = code_tools::search(args);
    let is_given = !given.is_empty();
    let folders = if is_given { Folders::Known(given) } else { Folders::Unknown };
    let editors = RunningEditors::new(control::folders(&env));
    let workspace = Rc::new(Workspace::new(folders, roots::HINT, Some(Rc::new(editors))));
    let (lines, Streams { ended, mut writer }) = lines::open(input, output);
    let settings = search.first.as_ref().map(|it| it.lsp_tools.clone()).unwrap_or_default();
    let handler = Handler::new(Rc::clone(&workspace), Rc::new(env), is_given, ended, &settings);
    let speaking = async {
        // It fails if stdin ends before the client has said anything.
        match handler.serve(lines).await {
            Ok(service) => drop(service.waiting().await),
            Err(error) => tracing::debug!(%error, "the client left"),
        }
    };
    let client = async {
        let signal = tokio::select! {
            () = speaking => {
                // The last answers are still to be written.
                timeout(PATIENCE, &mut writer).await.ok();
                None
            }
            _ = &mut writer => None,
            signal = signals.recv() => signal,
        };
        workspace.set(Folders::Done(signal));
        signal
    };
    let (signal, ()) = tokio::join!(client, workspace.serve(args, search));
    drop(modes);
    Ok(signal.map_or(0, |it| u8::try_from(128 + it).unwrap_or(u8::MAX)))
}
