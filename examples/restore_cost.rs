//! What it costs to keep documents for a server that may die: the time that a restart takes beyond the server's own
//! start, and the memory. `cargo build --release && cargo run --release --example restore_cost`.
//!
//! The server is this program too. It reads all that it is told and answers at once, so that what is measured is
//! lspool. Each figure is the median of several runs, side by side with runs without documents.

#![allow(
    clippy::print_stdout,
    clippy::exit,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a program whose output is the figures"
)]

use std::{
    error::Error,
    fs,
    io::{self, BufRead, BufReader, BufWriter, Write},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const RUNS: usize = 9;
const DOCUMENTS: usize = 200;
const SIZE: usize = 50 << 10;
const EDITS: usize = 100;

fn main() -> Result<()> {
    if std::env::args().any(|it| it == "--server") {
        return serve();
    }
    println!("{DOCUMENTS} documents of {} KiB, {EDITS} edits of each; medians of {RUNS} runs", SIZE >> 10);
    let (mut without, mut with, mut busy) = (vec![], vec![], vec![]);
    let (mut memory, mut peak) = (vec![], vec![]);
    for _ in 0..RUNS {
        let bare = Editor::run(0, SIZE, EDITS)?;
        let full = Editor::run(DOCUMENTS, SIZE, EDITS)?;
        without.push(bare.restart.as_secs_f64() * 1e3);
        with.push(full.restart.as_secs_f64() * 1e3);
        busy.push((full.busy.saturating_sub(bare.busy)).as_secs_f64() * 1e3);
        memory.push((full.resident.saturating_sub(bare.resident)) as f64 / 1024.0);
        peak.push((full.peak.saturating_sub(bare.peak)) as f64 / 1024.0);
    }
    let (without, with) = (median(without), median(with));
    println!("restart: {with:.1} ms, without documents {without:.1} ms: {:.1} ms more", with - without);
    println!("         lspool computes for {:.1} ms of them", median(busy));
    let text = (DOCUMENTS * SIZE) as f64 / 1_048_576.0;
    let memory = median(memory);
    println!("memory:  {memory:.1} MiB more, {:.2} times the text ({text:.1} MiB)", memory / text);
    println!("         {:.1} MiB more at the restart", median(peak));
    let large = Editor::run(1, 1 << 20, 10_000)?;
    println!(
        "1 document of 1 MiB, 10000 edits: {:.2} s until all are passed on, restart {:.1} ms",
        large.edits.as_secs_f64(),
        large.restart.as_secs_f64() * 1e3
    );
    Ok(())
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// What came of one session.
struct Figures {
    edits: Duration,
    /// From the death of the server to the first answer of the next one.
    restart: Duration,
    /// The part of that for which lspool was computing.
    busy: Duration,
    /// Of lspool, in KiB: after the edits, and at its most.
    resident: u64,
    peak: u64,
}

struct Editor {
    lspool: Child,
    stdin: BufWriter<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Editor {
    fn run(documents: usize, size: usize, edits: usize) -> Result<Figures> {
        let own = std::env::current_exe()?;
        let lspool: PathBuf = own.ancestors().nth(2).ok_or("no folder")?.join("lspool");
        let mut lspool = Command::new(lspool);
        lspool.arg("--").arg(own).arg("--server").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut lspool = lspool.stderr(Stdio::null()).spawn()?;
        let stdin = BufWriter::new(lspool.stdin.take().ok_or("no stdin")?);
        let stdout = BufReader::new(lspool.stdout.take().ok_or("no stdout")?);
        let mut it = Editor { lspool, stdin, stdout };
        it.ask("initialize", &json!({"capabilities": {}}))?;
        it.tell("initialized", &json!({}))?;
        let server = it.ask("fake/pid", &json!({}))?.as_i64().ok_or("no pid")?;
        let line = "let value = \"°C 😀 x\"; // é\n";
        let text = line.repeat(size / line.len() + 1);
        let lines = text.lines().count();
        for n in 0..documents {
            let item = json!({"uri": uri(n), "languageId": "x", "version": 0, "text": text});
            it.tell("textDocument/didOpen", &json!({"textDocument": item}))?;
        }
        it.ask("textDocument/hover", &json!({}))?;
        let start = Instant::now();
        for edit in 0..edits {
            for n in 0..documents {
                let at = json!({"line": edit * 37 % lines, "character": 13 + edit % 4});
                let change = json!({"range": {"start": at, "end": at}, "text": "é"});
                let document = json!({"uri": uri(n), "version": edit + 1});
                it.tell(
                    "textDocument/didChange",
                    &json!({"textDocument": document, "contentChanges": [change]}),
                )?;
            }
        }
        it.ask("textDocument/hover", &json!({}))?;
        let edits = start.elapsed();
        let resident = it.status("VmRSS:")?;
        let pid = Pid::from_raw(i32::try_from(server)?).ok_or("no pid")?;
        let busy = it.busy()?;
        kill_process(pid, Signal::KILL)?;
        let start = Instant::now();
        it.ask("textDocument/hover", &json!({}))?;
        let restart = start.elapsed();
        let busy = it.busy()?.saturating_sub(busy);
        let peak = it.status("VmHWM:")?;
        it.ask("shutdown", &Value::Null)?;
        it.tell("exit", &Value::Null)?;
        it.stdin.flush()?;
        it.lspool.wait()?;
        Ok(Figures { edits, restart, busy, resident, peak })
    }

    fn tell(&mut self, method: &str, params: &Value) -> Result<()> {
        write(&mut self.stdin, &json!({"jsonrpc": "2.0", "method": method, "params": params}))
    }

    fn ask(&mut self, method: &str, params: &Value) -> Result<Value> {
        write(&mut self.stdin, &json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))?;
        self.stdin.flush()?;
        loop {
            let message: Value = serde_json::from_slice(&read(&mut self.stdout)?.ok_or("lspool has ended")?)?;
            if message["id"] == 1 {
                return match message.get("error") {
                    Some(error) => Err(format!("{method}: {error}").into()),
                    None => Ok(message["result"].clone()),
                };
            }
        }
    }

    /// How long lspool has been computing.
    fn busy(&self) -> Result<Duration> {
        let mut sum = 0;
        for task in fs::read_dir(format!("/proc/{}/task", self.lspool.id()))? {
            let times = fs::read_to_string(task?.path().join("schedstat"))?;
            sum += times.split_whitespace().next().ok_or("no time")?.parse::<u64>()?;
        }
        Ok(Duration::from_nanos(sum))
    }

    fn status(&self, name: &str) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.lspool.id()))?;
        let line = status.lines().find_map(|it| it.strip_prefix(name)).ok_or("no such line")?;
        Ok(line.split_whitespace().next().ok_or("no number")?.parse()?)
    }
}

fn uri(n: usize) -> String {
    format!("file:///workspace/document-{n}.rs")
}

fn write(to: &mut impl Write, message: &Value) -> Result<()> {
    let body = message.to_string();
    Ok(write!(to, "Content-Length: {}\r\n\r\n{body}", body.len())?)
}

fn read(from: &mut impl BufRead) -> Result<Option<Vec<u8>>> {
    let mut length = None;
    loop {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        match line.trim_end().split_once(": ") {
            Some(("Content-Length", n)) => length = Some(n.parse()?),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length.ok_or("no length")?];
    from.read_exact(&mut body)?;
    Ok(Some(body))
}

/// A server that understands nothing of what it reads, at once.
fn serve() -> Result<()> {
    let mut stdin = BufReader::with_capacity(1 << 16, io::stdin().lock());
    let mut stdout = io::stdout().lock();
    while let Some(body) = read(&mut stdin)? {
        // Documents are long, questions are short.
        if body.len() > 4096 || body.starts_with(br#"{"jsonrpc":"2.0","method":"#) {
            continue;
        }
        let message: Value = serde_json::from_slice(&body)?;
        let result = match message["method"].as_str() {
            Some("initialize") => json!({"capabilities": {}}),
            Some("fake/pid") => json!(std::process::id()),
            Some("exit") => return Ok(()),
            Some(_) | None => Value::Null,
        };
        if message.get("id").is_some() {
            write(&mut stdout, &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))?;
            stdout.flush()?;
        }
    }
    Ok(())
}
