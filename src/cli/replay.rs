//! `lspool replay`: replays a recording, and reports the first effect that differs.

use std::{
    fs::File,
    io::{self, BufReader, IsTerminal as _, Write},
    path::Path,
    process::ExitCode,
    time::Instant,
};

use anyhow::Context as _;

use super::{args, tell};
use crate::recording::{
    reader::Reader,
    replay::{Difference, Replay},
};

const UNWRITABLE: &str = "cannot write to stdout";
/// The size of the read buffer, in bytes.
const BUFFER: usize = 1 << 20;

/// Replays, and fails with 1 at the first difference.
pub(super) fn run(task: &args::Replay) -> anyhow::Result<ExitCode> {
    let mut out = io::BufWriter::new(io::stdout());
    // On a terminal, hundreds of lines of JSON would hide the verdict.
    let prints = task.effects || !io::stdout().is_terminal();
    let done = replay(task, prints, &mut out)?;
    flush(&mut out)?;
    match done {
        None => Ok(ExitCode::SUCCESS),
        Some(difference) => {
            write!(io::stderr(), "lspool: {difference}").ok();
            Ok(ExitCode::from(1))
        }
    }
}

/// Replays a recording. Returns the first difference. With `prints`, and without another file to compare with, prints
/// the effects up to there.
fn replay(task: &args::Replay, prints: bool, out: &mut dyn Write) -> anyhow::Result<Option<Difference>> {
    let name = || task.file.display().to_string();
    let (mut replay, header) = Replay::new(open(&task.file)?, Instant::now()).with_context(name)?;
    let other = |file: &Path| Ok::<_, anyhow::Error>((Reader::new(open(file)?), file.to_owned()));
    let mut expected = task.diff.as_deref().map(other).transpose()?;
    let version = env!("CARGO_PKG_VERSION");
    if header.version != version {
        tell(&format!("recorded by lspool {}, replayed by {version}", header.version));
    }
    let mut events = 0u64;
    while let Some(step) = replay.step().with_context(name)? {
        if task.until.is_some_and(|until| step.line > until) {
            flush(out)?;
            tell(&format!(
                "{events} events up to line {}, and all effects are the same",
                step.line.saturating_sub(1)
            ));
            return Ok(None);
        }
        events += 1;
        let difference = match &mut expected {
            Some((expected, file)) => {
                replay.difference_from(&step, expected).with_context(|| file.display().to_string())?
            }
            None => {
                for effect in step.effects.iter().filter(|_| prints) {
                    match out.write_all(effect) {
                        // The reader has closed the pipe.
                        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(None),
                        done => done.context(UNWRITABLE)?,
                    }
                }
                replay.difference(&step)
            }
        };
        if difference.is_some() {
            return Ok(difference);
        }
    }
    if let Some((expected, file)) = &mut expected
        && task.until.is_none()
        && let Some(difference) = replay.left_over(expected).with_context(|| file.display().to_string())?
    {
        return Ok(Some(difference));
    }
    flush(out)?;
    let cut = if replay.is_torn() { "; lspool ignored the incomplete last line" } else { "" };
    tell(&format!("{events} events, and all effects are the same{cut}"));
    Ok(None)
}

/// Writes the buffered lines, so that they come before the verdict. Ignores a reader that has closed the pipe.
fn flush(out: &mut dyn Write) -> anyhow::Result<()> {
    match out.flush() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context(UNWRITABLE),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Opens a recording.
pub(super) fn open(file: &Path) -> anyhow::Result<BufReader<File>> {
    let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(BufReader::with_capacity(BUFFER, opened))
}
