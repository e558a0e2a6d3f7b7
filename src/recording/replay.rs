//! Replays a recording: the core gets the same events, and must give the same effects.
//!
//! Reads the file event by event, and keeps one event with its effects in memory.

mod difference;

use std::{
    collections::VecDeque,
    io::BufRead,
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

pub use difference::Difference;
use difference::Same;

use super::{
    decode::{self, Input},
    encode::{Encoder, about},
    format::{Dir, Header, Kind, Line},
    reader::{Problem, Reader},
};
use crate::core::{Proxy, event::Effects};

/// How many lines to show before a difference.
const CONTEXT: usize = 8;

/// A replay in progress.
#[derive(Debug)]
pub struct Replay<R> {
    reader: Reader<R>,
    /// The line after the last step.
    pending: Option<Pending>,
    proxy: Proxy,
    encoder: Encoder,
    start: Instant,
    context: VecDeque<(usize, String)>,
    same: Same,
    has_panicked: bool,
    is_masked: bool,
}

/// A line that is not an effect of the previous event.
#[derive(Debug)]
struct Pending {
    number: usize,
    text: Vec<u8>,
    at: Duration,
    dir: Dir,
    /// The input of the core, or its error.
    input: Result<Input, String>,
}

impl Pending {
    fn of(line: &Line<'_>) -> Pending {
        let input = match line.dir {
            Dir::In => decode::input(line),
            Dir::Out => Err("an effect before any event".to_owned()),
            Dir::End => Err("the recording ends here".to_owned()),
        };
        Pending { number: 0, text: Vec::new(), at: line.t.0, dir: line.dir, input }
    }
}

/// An event with its effects.
#[derive(Debug)]
pub struct Step {
    /// The line of the event.
    pub line: usize,
    /// The text of the event.
    pub event: Vec<u8>,
    /// The effects of the core: lines, with line ends.
    pub effects: Vec<Vec<u8>>,
    /// The recorded effects, without line ends: number and text of each line.
    pub recorded: Vec<(usize, Vec<u8>)>,
    /// Whether the file ends here before lspool did, so that effects may be missing.
    pub is_cut: bool,
}

impl<R: BufRead> Replay<R> {
    /// Starts a replay. `now` is the time of its start.
    pub fn new(input: R, now: Instant) -> Result<(Replay<R>, Header), Problem> {
        let (reader, header) = Reader::open(input)?;
        let replay = Replay {
            reader,
            pending: None,
            proxy: Proxy::new(header.identity()),
            encoder: Encoder::new(header.texts, []),
            start: now,
            context: VecDeque::new(),
            same: Same::default(),
            has_panicked: false,
            is_masked: !header.texts,
        };
        Ok((replay, header))
    }

    /// Handles the next event, if any.
    pub fn step(&mut self) -> Result<Option<Step>, Problem> {
        if self.has_panicked {
            return Ok(None);
        }
        if self.pending.is_none() {
            self.pending = self.reader.advance()?.as_ref().map(Pending::of);
            self.note_pending();
        }
        let Some(pending) = self.pending.take_if(|it| it.dir != Dir::End) else { return Ok(None) };
        let Pending { number, text, at, input, .. } = pending;
        let problem = |what: String| Problem { line: number, what };
        let input = input.map_err(problem)?;
        let now = self.start.checked_add(at).ok_or_else(|| problem("its time is too far away".to_owned()))?;
        let mut step = Step {
            line: number,
            event: text,
            effects: self.handle(now, at, input),
            recorded: Vec::new(),
            is_cut: false,
        };
        while let Some(line) = self.reader.advance()? {
            if line.dir != Dir::Out {
                step.is_cut = line.dir == Dir::End && line.kind != Kind::Done;
                self.pending = Some(Pending::of(&line));
                self.note_pending();
                break;
            }
            step.recorded.push((self.reader.number(), self.reader.text().to_vec()));
        }
        step.is_cut |= self.pending.is_none();
        Ok(Some(step))
    }

    /// Notes the line after the step.
    fn note_pending(&mut self) {
        if let Some(pending) = &mut self.pending {
            pending.number = self.reader.number();
            pending.text = self.reader.text().to_vec();
        }
    }

    /// Whether the file ends within a line.
    pub fn is_torn(&self) -> bool {
        self.reader.is_torn()
    }

    /// Compares a step with the recording. Call it for each step in turn.
    pub fn difference(&mut self, step: &Step) -> Option<Difference> {
        let Step { line, event, effects, recorded, is_cut } = step;
        self.note(*line, event);
        for (n, effect) in effects.iter().enumerate() {
            let expected = recorded.get(n);
            if expected.is_none() && *is_cut {
                return None;
            }
            if expected.is_none_or(|(_, it)| !self.same.is_same(it, effect)) {
                return Some(self.found(*line, expected.cloned(), Some(effect)));
            }
            if let Some((line, text)) = expected {
                self.note(*line, text);
            }
        }
        let missing = recorded.get(effects.len())?;
        Some(self.found(*line, Some(missing.clone()), None))
    }

    /// Compares a step with the effects in another file. Call it for each step in turn.
    pub fn difference_from<E: BufRead>(
        &mut self,
        step: &Step,
        expected: &mut Reader<E>,
    ) -> Result<Option<Difference>, Problem> {
        self.note(step.line, &step.event);
        for effect in &step.effects {
            let found = expected.next_effect()?;
            let wanted = found.then(|| (expected.number(), expected.text().to_vec()));
            if wanted.as_ref().is_none_or(|(_, it)| !self.same.is_same(it, effect)) {
                return Ok(Some(self.found(step.line, wanted, Some(effect))));
            }
            self.note(expected.number(), effect);
        }
        Ok(None)
    }

    /// The effects in another file after the last event.
    pub fn left_over<E: BufRead>(&self, expected: &mut Reader<E>) -> Result<Option<Difference>, Problem> {
        if !expected.next_effect()? {
            return Ok(None);
        }
        let wanted = (expected.number(), expected.text().to_vec());
        Ok(Some(self.found(self.reader.number(), Some(wanted), None)))
    }

    fn found(&self, event: usize, expected: Option<(usize, Vec<u8>)>, actual: Option<&[u8]>) -> Difference {
        Difference {
            event,
            expected: expected.map(|(line, it)| (line, difference::shown(&it))),
            actual: actual.map(difference::shown),
            context: self.context.iter().cloned().collect(),
            is_masked: self.is_masked,
        }
    }

    fn note(&mut self, line: usize, text: &[u8]) {
        if self.context.len() == CONTEXT {
            self.context.pop_front();
        }
        self.context.push_back((line, difference::shown(text)));
    }

    fn handle(&mut self, now: Instant, at: Duration, input: Input) -> Vec<Vec<u8>> {
        let mut effects = Effects::new();
        if let Input::Event(event) = &input {
            // The encoder notes the requests.
            self.encoder.event(at, event);
        }
        let proxy = &mut self.proxy;
        let out = &mut effects;
        // A panicked core is not called again.
        let called = catch_unwind(AssertUnwindSafe(|| match input {
            Input::Event(event) => proxy.handle(now, event, out),
            Input::Timeout => proxy.handle_timeout(now, out),
        }));
        self.has_panicked = called.is_err();
        let mut lines: Vec<_> = effects
            .iter()
            .map(|effect| self.encoder.effect(at, effect, about(&self.proxy, effect)))
            .collect();
        if self.has_panicked {
            lines.push(Encoder::panic(at));
        }
        lines
    }
}

/// Finds the first difference in a recording.
pub fn first_difference(recording: &[u8], now: Instant) -> Result<Option<Difference>, Problem> {
    let (mut replay, _) = Replay::new(recording, now)?;
    while let Some(step) = replay.step()? {
        let difference = replay.difference(&step);
        if difference.is_some() {
            return Ok(difference);
        }
    }
    Ok(None)
}

/// Replaces the effects in a recording by those of this core.
pub fn renewed(recording: &[u8], now: Instant) -> Result<Vec<u8>, Problem> {
    let (mut replay, _) = Replay::new(recording, now)?;
    let mut out = recording.split_inclusive(|it| *it == b'\n').next().unwrap_or_default().to_vec();
    while let Some(step) = replay.step()? {
        out.extend_from_slice(&step.event);
        out.push(b'\n');
        step.effects.iter().for_each(|it| out.extend_from_slice(it));
    }
    if let Some(pending) = replay.pending {
        out.extend_from_slice(&pending.text);
        out.push(b'\n');
    }
    Ok(out)
}

#[cfg(test)]
mod tests;
