//! `lspool replay`: does a recording again, prints what comes of it, and what is not as it was.

use std::{
    fs::File,
    io::{self, BufReader, Write},
    path::Path,
    time::Instant,
};

use anyhow::Context as _;

use crate::{
    cli,
    recording::{
        reader::Reader,
        replay::{Difference, Replay},
    },
};

/// Bytes that are read at once.
const BUFFER: usize = 1 << 20;

/// Does the recording again. The answer is the first difference, if there is one. Without another file to compare with,
/// effects are printed up to there.
pub fn run(task: &cli::Replay, out: &mut dyn Write) -> anyhow::Result<Option<Difference>> {
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
            return Ok(None);
        }
        events += 1;
        let difference = match &mut expected {
            Some((expected, file)) => {
                replay.difference_from(&step, expected).with_context(|| file.display().to_string())?
            }
            None => {
                for effect in &step.effects {
                    match out.write_all(effect) {
                        // Nobody reads on.
                        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(None),
                        done => done.context("cannot print")?,
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
    let cut = if replay.is_torn() { "; the file ends within a line, which was left out" } else { "" };
    tell(&format!("{events} events, and all effects are as they were{cut}"));
    Ok(None)
}

/// Opens a recording.
pub fn open(file: &Path) -> anyhow::Result<BufReader<File>> {
    let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(BufReader::with_capacity(BUFFER, opened))
}

/// Says something on stderr, which nobody may read any more.
pub fn tell(words: &str) {
    writeln!(io::stderr(), "lspool: {words}").ok();
}
