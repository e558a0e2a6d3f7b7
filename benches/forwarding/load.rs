//! What is asked of a peer, as much as it can.

use std::{
    error::Error,
    thread::sleep,
    time::{Duration, Instant},
};

use crate::{
    session::{Session, hear_again, notification},
    wire::id,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What is asked of a peer, and in what the answer is given.
#[derive(Clone, Copy)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) setting: Setting,
    pub(crate) unit: Unit,
    pub(crate) against: Against,
    /// How the figure may stand to that: at most (times), at least (rates).
    pub(crate) aim: f64,
    /// How many messages, or pairs of them.
    pub(crate) n: usize,
    run: Run,
}

/// What a figure is compared with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Against {
    /// The same, done by the relay.
    Relay,
    /// Another scenario, done by the same peer.
    Other(&'static str),
}

/// Which process is asked. One serves all scenarios of a setting, one after the other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setting {
    /// In front of one server.
    Plain,
    /// The same, a process for what may leave much memory behind.
    Slow,
    /// In front of a Copilot server, with one conversation that has all tools and one that has few. What does not know
    /// of conversations is in front of one server for both.
    Partitions,
    /// In front of so many equal servers, which answer as one.
    Group(usize),
    /// In front of a server that has the paths of another place.
    Elsewhere,
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
    Asks { method: &'static str },
    Edits,
    GroupEdits,
    Streams,
    Told { editor_reads: bool },
    SharedEdits { all_read: bool },
    SharedPipelined { all_read: bool },
}

/// Where something is asked about.
const PLACE: &str = r#"{"textDocument":{"uri":"file:///bench/one.rs"},"position":{"line":0,"character":0}}"#;
const IN_FLIGHT: usize = 64;
/// The documented cap of what waits for a peer is 64 MiB, so much less is sent while one does not read.
const TOLD: usize = 200_000;
const SHARED: usize = 100_000;

/// In this order. Each takes some tenths of a second with a relay.
pub(crate) const SCENARIOS: [Scenario; 26] = {
    use Unit::{KiloMessages, Megabytes, Microseconds};
    const fn it(name: &'static str, unit: Unit, aim: f64, n: usize, run: Run) -> Scenario {
        Scenario { name, setting: Setting::Plain, unit, against: Against::Relay, aim, n, run }
    }
    const fn told(name: &'static str, against: Against, aim: f64, editor_reads: bool) -> Scenario {
        let run = Run::Told { editor_reads };
        Scenario { name, setting: Setting::Slow, unit: KiloMessages, against, aim, n: TOLD, run }
    }
    const fn shared(name: &'static str, against: Against, aim: f64, run: Run) -> Scenario {
        Scenario { name, setting: Setting::Partitions, unit: KiloMessages, against, aim, n: SHARED, run }
    }
    const fn grouped(n: usize, name: &'static str, alone: &'static str, scenario: Scenario) -> Scenario {
        Scenario { name, setting: Setting::Group(n), against: Against::Other(alone), ..scenario }
    }
    const fn elsewhere(name: &'static str, here: &'static str, scenario: Scenario) -> Scenario {
        Scenario { name, setting: Setting::Elsewhere, against: Against::Other(here), ..scenario }
    }
    const SMALL: &str = "round trip, 200 B";
    const LARGE: &str = "round trip, 64 KB";
    const ITEMS: &str = "completion, 1000 items";
    const CHANGES: &str = "didChange";
    const HOVER: Run = Run::Asks { method: "textDocument/hover" };
    const PLACES: &str = "references, 200 B";
    const FIND: Run = Run::Asks { method: "textDocument/references" };
    const PATHS: &str = "completion, 64 KB";
    const FILL: Run = Run::Asks { method: "bench/completion" };
    const COMPLETE: Run = Run::Asks { method: "textDocument/completion" };
    const TELLS: &str = "to the server, 200 B";
    const EDITS: &str = "2 partitions: didChange";
    const IN_ONE: &str = "2 partitions: 64 in flight";
    [
        it(SMALL, Microseconds, 1.5, 10_000, Run::RoundTrips { size: 200 }),
        it("round trip, 4 KB", Microseconds, 1.5, 10_000, Run::RoundTrips { size: 4 << 10 }),
        it(LARGE, Microseconds, 1.2, 2_000, Run::RoundTrips { size: 64 << 10 }),
        it("round trip, 1 MB", Microseconds, 1.2, 200, Run::RoundTrips { size: 1 << 20 }),
        it("flood, 200 B", KiloMessages, 0.6, 400_000, Run::Flood { size: 200 }),
        it("flood, 64 KB", Megabytes, 0.85, 8_000, Run::Flood { size: 64 << 10 }),
        it("64 requests in flight", KiloMessages, 0.6, 100_000, Run::Pipelined),
        it(CHANGES, KiloMessages, 0.5, 400_000, Run::Edits),
        it(ITEMS, Microseconds, 1.5, 200, COMPLETE),
        it(PLACES, Microseconds, 1.5, 10_000, FIND),
        it(PATHS, Microseconds, 1.5, 1_000, FILL),
        told(TELLS, Against::Relay, 0.5, true),
        told("  the editor does not read", Against::Other(TELLS), 0.9, false),
        Scenario { n: 400_000, ..shared("2 partitions: reports, 200 B", Against::Relay, 0.4, Run::Streams) },
        shared(EDITS, Against::Relay, 0.0, Run::SharedEdits { all_read: true }),
        shared(
            "  one does not read: didChange",
            Against::Other(EDITS),
            0.9,
            Run::SharedEdits { all_read: false },
        ),
        shared(IN_ONE, Against::Relay, 0.0, Run::SharedPipelined { all_read: true }),
        shared(
            "  one does not read: 64 in flight",
            Against::Other(IN_ONE),
            0.9,
            Run::SharedPipelined { all_read: false },
        ),
        grouped(
            2,
            "group of 2: round trip, 200 B",
            SMALL,
            it("", Microseconds, 1.1, 10_000, Run::RoundTrips { size: 200 }),
        ),
        grouped(
            2,
            "group of 2: round trip, 64 KB",
            LARGE,
            it("", Microseconds, 1.1, 2_000, Run::RoundTrips { size: 64 << 10 }),
        ),
        grouped(2, "group of 2: hover of both", SMALL, it("", Microseconds, 3.0, 10_000, HOVER)),
        // 1.5 ms more, where one server takes 120 µs.
        grouped(2, "group of 2: 2 x 1000 items", ITEMS, it("", Microseconds, 13.0, 200, COMPLETE)),
        grouped(2, "group of 2: didChange", CHANGES, it("", KiloMessages, 0.7, 400_000, Run::GroupEdits)),
        grouped(3, "group of 3: didChange", CHANGES, it("", KiloMessages, 0.55, 400_000, Run::GroupEdits)),
        elsewhere("elsewhere: references, 200 B", PLACES, it("", Microseconds, 1.3, 10_000, FIND)),
        elsewhere("elsewhere: completion, 64 KB", PATHS, it("", Microseconds, 1.5, 1_000, FILL)),
    ]
};

/// One figure, and what it cost whoever stands between.
pub(crate) struct Figure {
    pub(crate) value: f64,
    /// Of CPU time, for each message.
    pub(crate) nanos: f64,
    /// Bytes at most meanwhile, and at the end.
    pub(crate) peak: f64,
    pub(crate) resident: f64,
}

impl Scenario {
    /// Whether only a peer that knows of partitions can do it.
    pub(crate) fn needs_partitions(&self) -> bool {
        match self.run {
            Run::SharedEdits { .. } | Run::SharedPipelined { .. } => true,
            Run::RoundTrips { .. }
            | Run::Flood { .. }
            | Run::Pipelined
            | Run::Asks { .. }
            | Run::Edits
            | Run::GroupEdits
            | Run::Streams
            | Run::Told { .. } => false,
        }
    }
}

impl Session {
    /// A peer in this setting.
    pub(crate) fn start_in(setting: Setting, command: &[String]) -> Result<Session> {
        let mut it = Session::start(command)?;
        match setting {
            Setting::Plain | Setting::Slow | Setting::Group(_) | Setting::Elsewhere => {}
            Setting::Partitions => {
                it.create("one", None)?;
                it.create("two", Some(r#"["list_dir"]"#))?;
            }
        }
        Ok(it)
    }

    pub(crate) fn run(&mut self, scenario: &Scenario, n: usize) -> Result<Figure> {
        let cpu = self.family.cpu();
        self.family.forget_peak();
        let (value, messages) = match scenario.run {
            Run::RoundTrips { size } => (self.round_trips(size, n)?, 2 * n),
            Run::Flood { size } => (self.flood(size, n, scenario.unit)?, n),
            Run::Pipelined => (self.pipelined(n)?, 2 * n),
            Run::Asks { method } => (self.asks(method, n)?, 2 * n),
            Run::Edits => (self.edits(n)?, n),
            Run::GroupEdits => (self.edits_until(n, "textDocument/references")?, n),
            Run::Streams => (self.streams(n)?, n),
            Run::Told { editor_reads } => (self.told(n, editor_reads)?, n),
            Run::SharedEdits { all_read } => (self.shared(n, all_read, Session::edits)?, 2 * n),
            Run::SharedPipelined { all_read } => {
                (self.shared(n, all_read, Session::pipelined_behind_edits)?, 2 * n)
            }
        };
        let cpu = self.family.cpu().saturating_sub(cpu);
        let (peak, resident) = (self.family.peak(), self.family.resident());
        Ok(Figure { value, nanos: cpu.as_secs_f64() * 1e9 / as_f64(messages), peak, resident })
    }

    fn round_trips(&mut self, size: usize, n: usize) -> Result<f64> {
        self.times("bench/reply", &format!(r#"{{"size":{size}}}"#), n)
    }

    /// A question about a document, of each server that can answer it.
    fn asks(&mut self, method: &str, n: usize) -> Result<f64> {
        self.times(method, PLACE, n)
    }

    fn times(&mut self, method: &str, params: &str, n: usize) -> Result<f64> {
        let mut times = Vec::with_capacity(n);
        for _ in 0..n {
            let start = Instant::now();
            self.ask(method, params)?;
            times.push(start.elapsed());
        }
        times.sort_unstable();
        Ok(times[n / 2].as_secs_f64() * 1e6)
    }

    fn flood(&mut self, size: usize, n: usize, unit: Unit) -> Result<f64> {
        let start = Instant::now();
        let (id, request) = self.request("bench/flood", &format!(r#"{{"count":{n},"size":{size}}}"#));
        self.write(&request)?;
        let came = self.wait(&[id])?;
        let seconds = start.elapsed().as_secs_f64();
        if came <= n {
            return Err(format!("{} of {n} notifications have come", came - 1).into());
        }
        Ok(match unit {
            Unit::Megabytes => as_f64(size * n) / seconds / 1e6,
            Unit::KiloMessages | Unit::Microseconds => as_f64(n) / seconds / 1e3,
        })
    }

    /// The reports of two turns at the same time, of two processes if there are two.
    fn streams(&mut self, n: usize) -> Result<f64> {
        let more = format!(r#""count":{}"#, n / 2);
        let start = Instant::now();
        let (one, mut requests) = self.turn("one", &more);
        let (two, request) = self.turn("two", &more);
        requests.extend(request);
        self.write(&requests)?;
        let came = self.wait(&[one, two])?;
        let seconds = start.elapsed().as_secs_f64();
        // With both answers, and the begin and the end of each.
        if came < n + 6 {
            return Err(format!("{came} messages have come, {n} reports were wanted").into());
        }
        Ok(as_f64(n) / seconds / 1e3)
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
            self.write(&out)?;
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

    pub(crate) fn edits(&mut self, n: usize) -> Result<f64> {
        self.edits_until(n, "bench/ready")
    }

    /// Changes of a document, until every server that answers this has read them.
    fn edits_until(&mut self, n: usize, method: &str) -> Result<f64> {
        let uri = "file:///bench/one.rs";
        self.open(uri)?;
        let start = Instant::now();
        self.write_all((1..=n).map(|version| edit(uri, version)))?;
        self.n_edits += n;
        self.ask(method, PLACE)?;
        let seconds = start.elapsed().as_secs_f64();
        self.tell("textDocument/didClose", &format!(r#"{{"textDocument":{{"uri":"{uri}"}}}}"#))?;
        Ok(as_f64(n) / seconds / 1e3)
    }

    pub(crate) fn open(&mut self, uri: &str) -> Result<()> {
        let text = "fn main() {}\\n".repeat(500);
        let item = format!(r#"{{"uri":"{uri}","languageId":"rust","version":0,"text":"{text}"}}"#);
        self.tell("textDocument/didOpen", &format!(r#"{{"textDocument":{item}}}"#))
    }

    /// Notifications to the server, while it talks to an editor that does not read, or does.
    fn told(&mut self, n: usize, editor_reads: bool) -> Result<f64> {
        let spout = if editor_reads { None } else { Some(self.spout()?) };
        let note = notification("bench/told", &format!(r#"{{"text":"{}"}}"#, "x".repeat(140)));
        let mark = notification("bench/mark", &format!(r#"{{"path":"{}"}}"#, self.mark()));
        let start = Instant::now();
        self.write_all((0..n).map(|_| note.clone()).chain([mark]))?;
        self.wait_for_mark()?;
        let seconds = start.elapsed().as_secs_f64();
        if let Some(spout) = spout {
            self.tell("bench/hush", "{}")?;
            let (came, said) = self.wait_for_number(spout, "result")?;
            if came != said + 1 {
                return Err(format!("{} of {said} notifications have come", came - 1).into());
            }
        }
        Ok(as_f64(n) / seconds / 1e3)
    }

    /// The server talks until it can say no more.
    fn spout(&mut self) -> Result<usize> {
        let (id, request) = self.request("bench/spout", r#"{"size":200}"#);
        self.write(&request)?;
        sleep(Duration::from_millis(200));
        Ok(id)
    }

    /// Something that both partitions are told of, while both read, or one does not. Then it hears all.
    fn shared(
        &mut self,
        n: usize,
        all_read: bool,
        run: impl Fn(&mut Session, usize) -> Result<f64>,
    ) -> Result<f64> {
        let deaf = if all_read {
            None
        } else {
            let (id, request) = self.turn("two", &format!(r#""count":0,"deaf":"{}""#, self.mark()));
            self.write(&request)?;
            self.wait(&[id])?;
            Some(self.wait_for_mark()?)
        };
        let value = run(self, n)?;
        if let Some(stream) = deaf {
            hear_again(&stream)?;
        }
        let (id, request) = self.turn("two", r#""count":0"#);
        self.write(&request)?;
        let (_, edits) = self.wait_for_number(id, "edits")?;
        if edits != self.n_edits {
            return Err(format!("{edits} of {} edits have come", self.n_edits).into());
        }
        Ok(value)
    }

    fn pipelined_behind_edits(&mut self, n: usize) -> Result<f64> {
        self.edits(n / 4)?;
        self.pipelined(n)
    }
}

/// One of many changes: a character comes, the same character goes.
pub(crate) fn edit(uri: &str, version: usize) -> Vec<u8> {
    let (end, new) = if version % 2 == 1 { (0, "x") } else { (1, "") };
    notification(
        "textDocument/didChange",
        &format!(
            r#"{{"textDocument":{{"uri":"{uri}","version":{version}}},"contentChanges":[{{"range":{{"start":{{"line":7,"character":0}},"end":{{"line":7,"character":{end}}}}},"text":"{new}"}}]}}"#
        ),
    )
}

#[expect(clippy::cast_precision_loss, reason = "so many are not counted here")]
pub(crate) fn as_f64(n: usize) -> f64 {
    n as f64
}
