//! A language server that does nothing but say as much as it is asked to.
//!
//! | asked | done |
//! |---|---|
//! | `bench/reply {size}` | answered with so many bytes |
//! | `bench/flood {count, size}` | so many notifications, then the answer |
//! | `bench/spout {size}` | notifications until `bench/hush`, then their number as the answer; meanwhile it reads on |
//! | `textDocument/hover`, `…/references`, `…/completion` | answered with its process id; a thousand items of 250 bytes |
//! | `bench/completion` | answered with items of 250 bytes, 64 KB in all; as with pyright, the `data` of each names a file |
//! | `bench/mark {path}` | connects to this socket, to say how far it has read |
//! | `conversation/create`, `…/turn {conversationId, turnId, workDoneToken, count}` | a turn as a Copilot server has it, with so many reports |
//! | the same with `{deaf}` | once it has answered, it reads nothing until whoever listens on this socket hangs up |
//!
//! A turn is answered with how many `didChange` the server has read. Everything else is answered with `null`.

use std::{
    fs::File,
    io::{self, Read as _, Write},
    os::unix::net::UnixStream,
    process,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use crate::wire::{Frames, answer, frame, id, member, raw};

/// So much is written at once.
const BLOCK: usize = 64 << 10;
/// Of a report, so that it is as long as what it is compared with.
const REPORT: usize = 200;

pub(crate) fn run() -> io::Result<()> {
    let mut input = Frames::new(raw(io::stdin())?);
    let mut server = Server {
        output: Arc::new(Mutex::new(raw(io::stdout())?)),
        is_hushed: Arc::default(),
        n_edits: 0,
        items: items(),
        far_items: far_items(),
    };
    let mut answers = Vec::new();
    while let Some(body) = input.next()? {
        let method = member(body, "method");
        let Some(id) = id(body) else {
            match method {
                Some("exit") => return Ok(()),
                Some("textDocument/didChange") => server.n_edits += 1,
                Some("bench/hush") => server.is_hushed.store(true, Ordering::Relaxed),
                Some("bench/mark") => drop(UnixStream::connect(member(body, "path").unwrap_or_default())?),
                Some(_) | None => {}
            }
            continue;
        };
        let Some(method) = method else { continue };
        let deaf = member(body, "deaf").map(str::to_owned);
        if let Some(result) = server.answer(method, id, body)? {
            answers.extend(answer(id, &result));
        }
        // What was asked in one go is answered in one.
        if !answers.is_empty() && (!input.has_more() || answers.len() >= BLOCK) {
            server.output().write_all(&answers)?;
            answers.clear();
        }
        if let Some(path) = deaf {
            UnixStream::connect(path)?.read_to_end(&mut Vec::new())?;
        }
    }
    Ok(())
}

struct Server {
    output: Arc<Mutex<File>>,
    is_hushed: Arc<AtomicBool>,
    n_edits: usize,
    items: String,
    far_items: String,
}

impl Server {
    fn output(&self) -> MutexGuard<'_, File> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The result, if it is to be told now.
    fn answer(&self, method: &str, id: &str, body: &[u8]) -> io::Result<Option<String>> {
        let number = |key| member(body, key).and_then(|it| it.parse::<usize>().ok()).unwrap_or(0);
        let result = match method {
            "initialize" => {
                r#"{"capabilities":{"textDocumentSync":2,"hoverProvider":true,"referencesProvider":true,"completionProvider":{"triggerCharacters":["."]}}}"#.to_owned()
            }
            "textDocument/hover" => format!(r#"{{"contents":{{"kind":"markdown","value":"{}"}}}}"#, process::id()),
            "textDocument/references" => format!(
                r#"[{{"uri":"file:///far/{}","range":{{"start":{{"line":0,"character":0}},"end":{{"line":0,"character":0}}}}}}]"#,
                process::id()
            ),
            "textDocument/completion" => self.items.clone(),
            "bench/completion" => self.far_items.clone(),
            "bench/reply" => format!("\"{}\"", "x".repeat(number("size"))),
            "bench/flood" => {
                repeat(&mut *self.output(), &note(number("size")), number("count"))?;
                "null".to_owned()
            }
            "bench/spout" => {
                self.spout(id.to_owned(), &note(number("size")));
                return Ok(None);
            }
            "conversation/create" | "conversation/turn" => self.turn(body, number("count"))?,
            tools if tools.ends_with("Tools") || tools.ends_with("ToolsStatus") => "[]".to_owned(),
            _ => "null".to_owned(),
        };
        Ok(Some(result))
    }

    fn spout(&self, id: String, note: &[u8]) {
        let (output, is_hushed) = (self.output.clone(), self.is_hushed.clone());
        let in_block = (BLOCK / note.len()).max(1);
        let block = note.repeat(in_block);
        let write = move |bytes: &[u8]| {
            output.lock().unwrap_or_else(PoisonError::into_inner).write_all(bytes).is_ok()
        };
        is_hushed.store(false, Ordering::Relaxed);
        thread::spawn(move || {
            let mut n = 0;
            while !is_hushed.load(Ordering::Relaxed) && write(&block) {
                n += in_block;
            }
            write(&answer(&id, &n.to_string()));
        });
    }

    fn turn(&self, body: &[u8], count: usize) -> io::Result<String> {
        let of = |key| member(body, key).unwrap_or("none");
        let (conversation, turn, token) = (of("conversationId"), of("turnId"), of("workDoneToken"));
        let ids = format!(r#""conversationId":"{conversation}","turnId":"{turn}""#);
        let progress = |kind: &str, more: &str| {
            frame(&format!(
                r#"{{"jsonrpc":"2.0","method":"$/progress","params":{{"token":"{token}","value":{{"kind":"{kind}",{ids}{more}}}}}}}"#
            ))
        };
        let report = |text: &str| {
            progress("report", &format!(r#","editAgentRounds":[{{"roundId":1,"reply":"{text}"}}]"#))
        };
        let text = "x".repeat((frame("").len() + REPORT).saturating_sub(report("").len()));
        let mut output = self.output();
        output.write_all(&progress("begin", ""))?;
        repeat(&mut *output, &report(&text), count)?;
        output.write_all(&progress("end", ""))?;
        Ok(format!(r#"{{{ids},"edits":{}}}"#, self.n_edits))
    }
}

/// A completion list as servers write them.
fn items() -> String {
    let item = |n: usize| {
        let (id, text) = (process::id(), "x".repeat(120));
        format!(
            r#"{{"label":"item_{id}_{n}","kind":3,"detail":"{text}","sortText":"{n:05}","insertText":"item_{id}_{n}"}}"#
        )
    };
    format!("[{}]", (0..1000).map(item).collect::<Vec<_>>().join(","))
}

/// The same with a file in each, as servers write it that look up the rest of an item later.
fn far_items() -> String {
    let item = |n: usize| {
        let (id, text) = (process::id(), "x".repeat(134));
        format!(
            r#"{{"label":"item_{id}_{n}","kind":3,"detail":"{text}","sortText":"{n:05}","data":{{"uri":"file:///far/one.rs"}},"additionalTextEdits":[]}}"#
        )
    };
    format!("[{}]", (0..256).map(item).collect::<Vec<_>>().join(","))
}

/// A notification whose body has about so many bytes.
fn note(size: usize) -> Vec<u8> {
    let rest = r#"{"jsonrpc":"2.0","method":"bench/note","params":{"text":""}}"#.len();
    let text = "x".repeat(size.saturating_sub(rest));
    frame(&format!(r#"{{"jsonrpc":"2.0","method":"bench/note","params":{{"text":"{text}"}}}}"#))
}

/// The same frame again and again, in blocks.
fn repeat(output: &mut impl Write, frame: &[u8], n: usize) -> io::Result<()> {
    let in_block = (BLOCK / frame.len()).max(1);
    let block = frame.repeat(in_block);
    for _ in 0..n / in_block {
        output.write_all(&block)?;
    }
    output.write_all(&block[..frame.len() * (n % in_block)])
}
