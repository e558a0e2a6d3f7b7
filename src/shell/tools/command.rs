//! A running command, from its start to its end.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{
    io::AsyncReadExt as _,
    sync::watch,
    time::{Instant, sleep, timeout},
};

use super::confine;
use crate::{
    builtin_tools::{Kept, Outcome},
    config::ToolsConfig,
    core::event::{Exit, Launch},
    shell::{
        os::command::{line, shell, temporary},
        process::{Request, Spawned},
        stdio::Input,
    },
};

/// From SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_millis(500);

/// From the end of a command to the end of its output, which a process outside its group may hold open.
const DRAIN: Duration = Duration::from_millis(250);

/// No useful command writes more than this.
const RUNAWAY: u64 = 256 << 20;

/// The launch of a command in a folder. `program` is lspool itself.
pub(super) fn launch(
    program: PathBuf,
    command: &str,
    folders: &[PathBuf],
    limits: &ToolsConfig,
    is_confined: bool,
) -> Launch {
    let mut args = vec![confine::SUBCOMMAND.to_owned()];
    if is_confined {
        for folder in folders
            .iter()
            .cloned()
            .chain(temporary())
            .chain(limits.writable.iter().filter_map(|it| expanded(it)))
        {
            // A folder whose path is not UTF-8 cannot be passed on, and so is not writable.
            if let Some(folder) = folder.to_str() {
                args.extend(["--write".to_owned(), folder.to_owned()]);
            }
        }
    }
    // The process itself changes to the folder, so that a hanging folder delays nothing else.
    let (told, cwd) = match folders.first().map(|it| (it, it.to_str())) {
        Some((_, Some(folder))) => (Some(["--in".to_owned(), folder.to_owned()]), None),
        Some((folder, None)) => (None, Some(folder.clone())),
        None => (None, None),
    };
    args.extend(told.into_iter().flatten());
    args.push("--".to_owned());
    match limits.shell.is_empty() {
        true => args.extend(shell().into_iter().chain([line(command)])),
        false => args.extend(limits.shell.iter().cloned().chain([command.to_owned()])),
    }
    Launch {
        program,
        args,
        // A shell would read this script first.
        env: ["BASH_ENV", "ENV"].map(|it| (it.to_owned(), String::new())).into(),
        cwd,
        max_message: 0,
        write_stall: Duration::MAX,
        root: None,
        remote: None,
        share: None,
    }
}

/// Expands `~/`.
fn expanded(path: &Path) -> Option<PathBuf> {
    match path.strip_prefix("~") {
        Ok(rest) => Some(std::env::home_dir().filter(|it| it.is_absolute())?.join(rest)),
        Err(_) => Some(path.to_owned()),
    }
}

/// Why a command ends.
enum End {
    Own,
    TooLong,
    TooMuch,
    Cancelled,
}

/// Runs a command to its end, with its whole group.
pub(super) async fn run(
    spawned: Spawned,
    limits: &ToolsConfig,
    mut cancelled: watch::Receiver<bool>,
) -> Outcome {
    let Spawned { mut leader, stdin, mut stdout, stderr, displaced: _, unshared: _ } = spawned;
    // It has no input, and writes to one stream.
    drop((stdin, stderr));
    let started = Instant::now();
    let mut kept = Kept::new(limits.max_output);
    let end = tokio::select! {
        biased;
        () = leader.dead() => End::Own,
        // The driver is gone, so the command must end.
        _ = cancelled.wait_for(|it| *it) => End::Cancelled,
        () = sleep(limits.time_limit) => End::TooLong,
        () = read(&mut stdout, &mut kept) => End::TooMuch,
    };
    if !matches!(end, End::Own) {
        leader.signal(Request::Terminate);
        // It may still write its last output.
        tokio::select! {
            () = leader.dead() => {}
            () = read(&mut stdout, &mut kept) => {}
            () = sleep(GRACE) => {}
        }
    }
    // The processes that it started end with it.
    leader.signal(Request::Kill);
    leader.dead().await;
    timeout(DRAIN, read_to_end(&mut stdout, &mut kept)).await.ok();
    let exit = leader.reap().await;
    let (text, seconds) = (kept.text(), started.elapsed().as_secs());
    let said = |last: &str| match text.trim_end() {
        "" => last.to_owned(),
        text => format!("{text}\n{last}"),
    };
    match end {
        End::Own => Outcome::Done(said(&match exit {
            Exit::Code(code) => format!("[exit code {code}]"),
            Exit::Signal(signal) => format!("[killed by signal {signal}]"),
            Exit::Unknown => "[ended]".to_owned(),
        })),
        End::TooLong => Outcome::Failed(said(&format!("[stopped after {seconds} s: time limit reached]"))),
        End::TooMuch => {
            Outcome::Failed(said(&format!("[stopped after {} bytes: output limit reached]", kept.total())))
        }
        End::Cancelled => Outcome::Cancelled,
    }
}

/// Reads forever, or until the output is too large. After the end of the output there is still a process to wait for.
async fn read(stream: &mut Input, kept: &mut Kept) {
    read_to_end(stream, kept).await;
    if kept.total() <= RUNAWAY {
        std::future::pending::<()>().await;
    }
}

async fn read_to_end(stream: &mut Input, kept: &mut Kept) {
    let mut buffer = vec![0; 16 << 10];
    while kept.total() <= RUNAWAY {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(n) => kept.push(&buffer[..n]),
        }
    }
}
