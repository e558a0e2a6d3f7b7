//! `lspool [-- COMMAND]…`: serves the editor on stdin and stdout.

use std::{
    io::{self, IsTerminal as _},
    process::ExitCode,
    sync::Arc,
};

use tokio::task::spawn_local;

use super::{
    NOTHING_TO_SERVE, args::Args, conversation_tools::ConversationTools, search::Search, tell, world,
};
use crate::{
    core::Proxy,
    shell::{
        Settings,
        discover::CliServers,
        driver::{self, Driver, Search as _},
        goals::state_folder,
        record::Recorded,
        signals, stdio,
        system::System,
    },
};

/// The message for a person who starts `lspool` at a terminal.
const ALONE: &str = "an editor starts lspool; it speaks the Language Server Protocol on stdin

  lspool demo           shows a crash that the editor does not notice
  lspool setup EDITOR   prints the settings for an editor
  lspool check          starts your servers and reports whether they work
  lspool --help         lists the other commands";

/// Serves until the editor ends it.
pub(super) fn run(args: &Args, servers: CliServers) -> anyhow::Result<ExitCode> {
    if io::stdin().is_terminal() && servers.is_empty() {
        tell(ALONE);
        return Ok(ExitCode::from(NOTHING_TO_SERVE));
    }
    let search = Search::new(args, servers);
    if io::stdin().is_terminal() {
        // There is no client for an error answer.
        if search.prepare(&[]).is_err() {
            return Ok(ExitCode::from(NOTHING_TO_SERVE));
        }
        tell("waiting for an editor to speak the Language Server Protocol on stdin; Ctrl-C ends lspool");
    }
    let search = Arc::new(search);
    let identity = world::identity();
    let (tools, connections) = ConversationTools::new(args, &search);
    let world = world::open_world(&identity, &search).with_code_tools(tools.clone(), connections);
    let core = Proxy::new(identity);
    let code = match search.recorder(args, identity) {
        Some(recorder) => drive(Recorded::new(core, recorder), world, search.clone(), &tools),
        None => drive(core, world, search.clone(), &tools),
    }?;
    let code = u8::try_from(code).unwrap_or(u8::MAX);
    // The editor left before it got the error.
    if code < NOTHING_TO_SERVE && search.has_failed() {
        return Ok(ExitCode::from(NOTHING_TO_SERVE));
    }
    Ok(ExitCode::from(code))
}

/// Serves the editor until the end.
fn drive(
    core: impl driver::Core + 'static,
    world: System,
    search: Arc<Search>,
    tools: &ConversationTools,
) -> anyhow::Result<i32> {
    let state = state_folder(&search.env);
    let driver = Driver::new(core, world, search, Settings { state, ..Settings::default() });
    let runtime = world::runtime()?;
    let code = runtime.block_on(async {
        let stdio::Stdio { input, output, modes } = stdio::open();
        // In a task of its own, like the tasks that it works with: `block_on` looks at its own future only after
        // another call of the operating system.
        let code =
            spawn_local(driver.run(input, output, signals::listen())).await.unwrap_or(driver::INTERNAL_ERROR);
        tools.end().await;
        drop(modes);
        code
    });
    // A read of a terminal cannot be cancelled; it ends with the process.
    runtime.shutdown_background();
    Ok(code)
}
