//! An editor that asks as much as it can.

use std::{
    error::Error,
    io::Write,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Instant,
};

use crate::{
    procfs::Family,
    wire::{Frames, frame, id, member},
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What is asked of a peer, and in what the answer is given.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    /// How the figure may stand to that of the relay: at most (times), at least (rates).
    pub(crate) aim: f64,
    /// How many messages, or pairs of them.
    pub(crate) n: usize,
    run: Run,
}

/// What a figure is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// The median of many.
    Microseconds,
    /// Thousands of them.
    KiloMessages,
    /// Of all bodies.
    Megabytes,
}

#[derive(Clone, Copy)]
enum Run {
    RoundTrips { size: usize },
    Flood { size: usize },
    Pipelined,
    Edits,
}

const IN_FLIGHT: usize = 64;

/// In this order. Each takes some tenths of a second with a relay.
pub(crate) const SCENARIOS: [Scenario; 8] = {
    const fn it(name: &'static str, unit: Unit, aim: f64, n: usize, run: Run) -> Scenario {
        Scenario { name, unit, aim, n, run }
    }
    use Unit::{KiloMessages, Megabytes, Microseconds};
    [
        it("round trip, 200 B", Microseconds, 1.5, 10_000, Run::RoundTrips { size: 200 }),
        it("round trip, 4 KB", Microseconds, 1.5, 10_000, Run::RoundTrips { size: 4 << 10 }),
        it("round trip, 64 KB", Microseconds, 1.2, 2_000, Run::RoundTrips { size: 64 << 10 }),
        it("round trip, 1 MB", Microseconds, 1.2, 200, Run::RoundTrips { size: 1 << 20 }),
        it("flood, 200 B", KiloMessages, 0.6, 400_000, Run::Flood { size: 200 }),
        it("flood, 64 KB", Megabytes, 0.85, 8_000, Run::Flood { size: 64 << 10 }),
        it("64 requests in flight", KiloMessages, 0.6, 100_000, Run::Pipelined),
        it("didChange", KiloMessages, 0.5, 400_000, Run::Edits),
    ]
};

/// One figure, and what it cost whoever stands between.
pub(crate) struct Figure {
    pub(crate) value: f64,
    /// Of CPU time, for each message.
    pub(crate) nanos: f64,
}

/// A running peer, initialized.
pub(crate) struct Session {
    child: Child,
    to: ChildStdin,
    from: Frames<ChildStdout>,
    last_id: usize,
    family: Family,
}

impl Session {
    pub(crate) fn start(command: &[String]) -> Result<Session> {
        let (program, args) = command.split_first().ok_or("no command")?;
        let mut child =
            Command::new(program).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (to, from) = (child.stdin.take(), child.stdout.take());
        let family = Family(Vec::new());
        let (to, from) = (to.expect("it is piped"), Frames::new(from.expect("it is piped")));
        let mut it = Session { child, to, from, last_id: 0, family };
        it.ask("initialize", r#"{"processId":null,"rootUri":null,"capabilities":{"textDocument":{}}}"#)?;
        it.tell("initialized", "{}")?;
        it.ask("bench/ready", "{}")?;
        it.family = Family::of(it.child.id());
        Ok(it)
    }

    pub(crate) fn resident(&self) -> f64 {
        self.family.resident()
    }

    /// Ends it as an editor does.
    pub(crate) fn end(mut self) -> Result<()> {
        self.ask("shutdown", "null")?;
        self.tell("exit", "null")?;
        drop(self.to);
        self.child.wait()?;
        Ok(())
    }

    pub(crate) fn run(&mut self, scenario: &Scenario, n: usize) -> Result<Figure> {
        let cpu = self.family.cpu();
        let (value, messages) = match scenario.run {
            Run::RoundTrips { size } => (self.round_trips(size, n)?, 2 * n),
            Run::Flood { size } => (self.flood(size, n, scenario.unit)?, n),
            Run::Pipelined => (self.pipelined(n)?, 2 * n),
            Run::Edits => (self.edits(n)?, n),
        };
        let cpu = self.family.cpu().saturating_sub(cpu);
        Ok(Figure { value, nanos: cpu.as_secs_f64() * 1e9 / as_f64(messages) })
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask(&mut self, method: &str, params: &str) -> Result<()> {
        let (id, request) = self.request(method, params);
        self.to.write_all(&request)?;
        self.wait(id)?;
        Ok(())
    }

    pub(crate) fn tell(&mut self, method: &str, params: &str) -> Result<()> {
        let body = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#);
        self.to.write_all(&frame(&body))?;
        Ok(())
    }

    /// How many messages come until this request is answered.
    fn wait(&mut self, wanted: usize) -> Result<usize> {
        let wanted = wanted.to_string();
        let mut n = 0;
        loop {
            let body = self.from.next()?.ok_or("the stream has ended")?;
            n += 1;
            if id(body) == Some(&wanted) && member(body, "method").is_none() {
                return Ok(n);
            }
        }
    }

    fn request(&mut self, method: &str, params: &str) -> (usize, Vec<u8>) {
        self.last_id += 1;
        let id = self.last_id;
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        (id, frame(&body))
    }

    fn round_trips(&mut self, size: usize, n: usize) -> Result<f64> {
        let mut times = Vec::with_capacity(n);
        let params = format!(r#"{{"size":{size}}}"#);
        for _ in 0..n {
            let start = Instant::now();
            self.ask("bench/reply", &params)?;
            times.push(start.elapsed());
        }
        times.sort_unstable();
        Ok(times[n / 2].as_secs_f64() * 1e6)
    }

    fn flood(&mut self, size: usize, n: usize, unit: Unit) -> Result<f64> {
        let start = Instant::now();
        let (id, request) = self.request("bench/flood", &format!(r#"{{"count":{n},"size":{size}}}"#));
        self.to.write_all(&request)?;
        let came = self.wait(id)?;
        let seconds = start.elapsed().as_secs_f64();
        if came <= n {
            return Err(format!("{} of {n} notifications have come", came - 1).into());
        }
        Ok(match unit {
            Unit::Megabytes => as_f64(size * n) / seconds / 1e6,
            Unit::KiloMessages | Unit::Microseconds => as_f64(n) / seconds / 1e3,
        })
    }

    fn pipelined(&mut self, n: usize) -> Result<f64> {
        let start = Instant::now();
        let (mut asked, mut answered) = (0, 0);
        let mut out = Vec::new();
        while answered < n {
            while asked < n && asked - answered < IN_FLIGHT {
                let (_, request) = self.request("bench/reply", r#"{"size":140}"#);
                out.extend(request);
                asked += 1;
            }
            self.to.write_all(&out)?;
            out.clear();
            loop {
                let body = self.from.next()?.ok_or("the stream has ended")?;
                answered += usize::from(id(body).is_some());
                if !self.from.has_more() {
                    break;
                }
            }
        }
        Ok(as_f64(n) / start.elapsed().as_secs_f64() / 1e3)
    }

    fn edits(&mut self, n: usize) -> Result<f64> {
        const BLOCK: usize = 64 << 10;
        let uri = "file:///bench/one.rs";
        let text = "fn main() {}\\n".repeat(500);
        self.tell(
            "textDocument/didOpen",
            &format!(
                r#"{{"textDocument":{{"uri":"{uri}","languageId":"rust","version":0,"text":"{text}"}}}}"#
            ),
        )?;
        let start = Instant::now();
        let mut out = Vec::with_capacity(BLOCK + 1024);
        for version in 1..=n {
            // A character comes, the same character goes.
            let (end, new) = if version % 2 == 1 { (0, "x") } else { (1, "") };
            out.extend(frame(&format!(
                r#"{{"jsonrpc":"2.0","method":"textDocument/didChange","params":{{"textDocument":{{"uri":"{uri}","version":{version}}},"contentChanges":[{{"range":{{"start":{{"line":7,"character":0}},"end":{{"line":7,"character":{end}}}}},"text":"{new}"}}]}}}}"#
            )));
            if out.len() >= BLOCK {
                self.to.write_all(&out)?;
                out.clear();
            }
        }
        self.to.write_all(&out)?;
        self.ask("bench/ready", "{}")?;
        let seconds = start.elapsed().as_secs_f64();
        self.tell("textDocument/didClose", &format!(r#"{{"textDocument":{{"uri":"{uri}"}}}}"#))?;
        Ok(as_f64(n) / seconds / 1e3)
    }
}

#[expect(clippy::cast_precision_loss, reason = "so many are not counted here")]
pub(crate) fn as_f64(n: usize) -> f64 {
    n as f64
}
