//! The stderr of a backend's processes, kept also after they end.
//!
//! Owns the lines, without secrets, and the clients that follow them. lspool adds a line when a process starts and
//! when it ends.

use std::{cell::RefCell, collections::VecDeque, fmt, rc::Rc, time::Duration};

use serde_json::json;
use tokio::time::Instant;
use tracing_subscriber::fmt::{
    format::Writer,
    time::{FormatTime as _, SystemTime},
};

use super::outbox::Outbox;
use crate::{
    core::event::{ClientId, Generation},
    rpc::{Frame, RawId},
    util::redact::redact,
};

/// The notification with a new line.
pub(super) const LINE: &str = "lspool/log";

/// How many bytes are kept in all.
const KEPT: usize = 64 * 1024;
/// How many bytes of a line are kept.
const LONGEST: usize = 4 * 1024;
/// How many bytes of a process's last output are shown.
const SHOWN: usize = 4 * 1024;

/// An older process has finished the output of its start.
const YOUNG: Duration = Duration::from_mins(1);
/// For an older process, only the output of this period is shown.
const LAST: Duration = Duration::from_secs(10);

/// The lines of one backend, shared by the processes that write and the driver that reads.
#[derive(Clone, Debug, Default)]
pub(super) struct Log(Rc<RefCell<Lines>>);

#[derive(Debug, Default)]
struct Lines {
    kept: VecDeque<Line>,
    n_bytes: usize,
    followers: Vec<Follower>,
    /// The log that further lines go to.
    moved: Option<Log>,
}

#[derive(Debug)]
struct Line {
    /// The process that wrote it; `None` for a line of lspool.
    by: Option<Generation>,
    at: Instant,
    text: String,
}

#[derive(Debug)]
struct Follower {
    client: ClientId,
    id: RawId,
    outbox: Outbox,
}

impl Log {
    /// Answers a request for the lines. A follower gets each further line, under the id of its last request.
    pub(super) fn answer(&self, client: ClientId, id: RawId, outbox: &Outbox, follow: bool) -> Frame {
        let mut it = self.0.borrow_mut();
        let lines: Vec<&str> = it.kept.iter().map(|line| line.text.as_str()).collect();
        let result = json!({"lines": lines}).to_string();
        if follow {
            it.followers.retain(|it| it.client != client);
            it.followers.push(Follower { client, id: id.clone(), outbox: outbox.clone() });
        }
        Frame::response(id, result.as_bytes())
    }

    /// Sends this client no further lines.
    pub(super) fn unfollow(&self, client: ClientId) {
        self.0.borrow_mut().followers.retain(|it| it.client != client);
    }

    /// Notes something about the processes, and when it was.
    pub(super) fn note(&self, what: impl fmt::Display) {
        self.add(None, format!("[lspool] {what} ({})", utc()));
    }

    /// Moves the lines to another backend, because its process was adopted.
    pub(super) fn continue_in(&self, other: &Log) {
        let (kept, followers) = {
            let mut it = self.0.borrow_mut();
            it.moved = Some(other.clone());
            (std::mem::take(&mut it.kept), std::mem::take(&mut it.followers))
        };
        for line in &mut other.0.borrow_mut().kept {
            line.by = None;
        }
        for line in kept {
            other.put(line);
        }
        // They have got these lines.
        other.0.borrow_mut().followers.extend(followers);
    }

    fn add(&self, by: Option<Generation>, text: String) {
        self.put(Line { by, at: Instant::now(), text });
    }

    fn put(&self, line: Line) {
        let moved = self.0.borrow().moved.clone();
        if let Some(moved) = moved {
            return moved.put(line);
        }
        let text = &line.text;
        let mut it = self.0.borrow_mut();
        for follower in &it.followers {
            let id = String::from_utf8_lossy(follower.id.as_bytes());
            let params = format!("{{\"id\":{id},\"line\":{}}}", json!(text));
            // A slow reader may lose a line.
            let _pushed = follower.outbox.push(Frame::notification(LINE, Some(params.as_bytes())));
        }
        it.n_bytes += text.len() + 1;
        it.kept.push_back(line);
        while it.n_bytes > KEPT
            && let Some(line) = it.kept.pop_front()
        {
            it.n_bytes -= line.text.len() + 1;
        }
    }
}

/// The time of day on the wall, to a second.
fn utc() -> String {
    let mut text = String::new();
    let written = SystemTime.format_time(&mut Writer::new(&mut text));
    // As RFC 3339 has it: `2026-11-29T20:35:09.123456Z`.
    match (written, text.split_once('T')) {
        (Ok(()), Some((day, time))) => format!("{day} {} UTC", time.get(..8).unwrap_or(time)),
        (Ok(()) | Err(_), _) => text,
    }
}

/// Writes down what one process says.
#[derive(Debug)]
pub(super) struct Scribe {
    log: Log,
    process: Generation,
    began: Instant,
    /// The kept beginning of an unfinished line.
    begun: Vec<u8>,
}

impl Scribe {
    /// A scribe for a new process.
    pub(super) fn new(log: Log, process: Generation) -> Scribe {
        Scribe { log, process, began: Instant::now(), begun: Vec::new() }
    }

    /// Adds bytes of stderr.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            let (text, is_whole) = part.strip_suffix(b"\n").map_or((part, false), |text| (text, true));
            // A long line loses its end, not its beginning: secrets are recognized by their beginning.
            let room = (LONGEST + 1).saturating_sub(self.begun.len()).min(text.len());
            self.begun.extend_from_slice(&text[..room]);
            if is_whole {
                let line = std::mem::take(&mut self.begun);
                self.line(&line);
            }
        }
    }

    /// Adds a whole line.
    pub(super) fn line(&self, line: &[u8]) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let mut text = String::from_utf8_lossy(&line[..line.len().min(LONGEST)]).into_owned();
        text = redact(&text).into_owned();
        if line.len() > LONGEST {
            text.push('…');
        }
        self.log.add(Some(self.process), text);
    }

    /// Adds a line of lspool about the process.
    pub(super) fn note(&self, what: impl fmt::Display) {
        self.log.note(what);
    }

    /// Ends the log of the process. Returns the last lines for a person, up to a limit, without lines that are
    /// unrelated to its end.
    pub(super) fn finish(&mut self) -> String {
        if !self.begun.is_empty() {
            let line = std::mem::take(&mut self.begun);
            self.line(&line);
        }
        let log = self.log.0.borrow();
        let mut n_bytes = 0;
        let now = Instant::now();
        let from = if now - self.began > YOUNG { now - LAST } else { self.began };
        let own = log.kept.iter().rev().filter(|line| line.by == Some(self.process) && line.at >= from);
        let fitting = own.map(|line| line.text.as_str()).take_while(|text| {
            n_bytes += text.len() + 1;
            n_bytes <= SHOWN || n_bytes == text.len() + 1
        });
        let mut lines: Vec<&str> = fitting.collect();
        lines.reverse();
        lines.join("\n").trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::outbox::Limits;

    fn scribe(log: &Log, process: u32) -> Scribe {
        Scribe::new(log.clone(), Generation(process))
    }

    fn lines(log: &Log) -> Vec<String> {
        log.0.borrow().kept.iter().map(|line| line.text.clone()).collect()
    }

    #[test]
    fn log_lines_do_not_depend_on_chunk_boundaries() {
        let text = b"one\r\ntwo with GH_TOKEN=ghu_abc123\n\nlast";
        for step in 1..=text.len() {
            let log = Log::default();
            let mut scribe = scribe(&log, 1);
            text.chunks(step).for_each(|bytes| scribe.push(bytes));
            let tail = scribe.finish();
            assert_eq!(lines(&log), ["one", "two with GH_TOKEN=<secret>", "", "last"], "{step}");
            assert_eq!(tail, "one\ntwo with GH_TOKEN=<secret>\n\nlast");
        }
    }

    #[test]
    fn log_hides_secret_at_cut_of_long_line() {
        for before in LONGEST - 60..LONGEST + 2 {
            let log = Log::default();
            let mut scribe = scribe(&log, 1);
            scribe.push("x ".repeat(before / 2).as_bytes());
            scribe.push(format!("token gho_{}\n", "s3cr3t".repeat(20)).as_bytes());
            scribe.push(b"next\n");
            let kept = lines(&log);
            assert!(!kept[0].contains("s3cr"), "{}", kept[0]);
            assert!(kept[0].len() <= LONGEST + 20);
            assert_eq!(kept[1], "next");
        }
    }

    #[test]
    fn log_is_bounded_and_outlives_process() {
        let log = Log::default();
        let mut first = scribe(&log, 1);
        first.push(b"of the first\n");
        assert_eq!(first.finish(), "of the first");
        log.note("process 2 started");
        let mut second = scribe(&log, 2);
        second.push(b"of the second\n");
        assert_eq!(second.finish(), "of the second");
        let lines_now = lines(&log);
        assert_eq!((&*lines_now[0], &*lines_now[2], lines_now.len()), ("of the first", "of the second", 3));
        let when = lines_now[1].strip_prefix("[lspool] process 2 started (").unwrap();
        // The shape of 2026-11-29 20:35:09 UTC.
        let shape: String = when.chars().map(|it| if it.is_ascii_digit() { '0' } else { it }).collect();
        assert_eq!(shape, "0000-00-00 00:00:00 UTC)");
        for _ in 0..1000 {
            second.push(&[b'y'; 1000]);
            second.push(b"\n");
        }
        let kept: usize = lines(&log).iter().map(|it| it.len() + 1).sum();
        assert!((KEPT - 1001..=KEPT).contains(&kept), "{kept}");
        assert_eq!(log.0.borrow().n_bytes, kept);
        assert!(second.finish().len() <= SHOWN);
    }

    #[tokio::test(start_paused = true)]
    async fn log_tail_omits_startup_output_after_late_exit() {
        let log = Log::default();
        let mut it = scribe(&log, 1);
        it.push(b"no keychain\n");
        tokio::time::advance(YOUNG).await;
        assert_eq!(it.finish(), "no keychain", "it is young");
        tokio::time::advance(LAST).await;
        assert_eq!(it.finish(), "");
        it.push(b"out of memory\n");
        tokio::time::advance(LAST).await;
        assert_eq!(it.finish(), "out of memory");
    }

    #[test]
    fn log_tail_shows_start_of_oversized_line() {
        let log = Log::default();
        let mut scribe = scribe(&log, 1);
        scribe.push(b"before\n");
        scribe.push("z".repeat(100_000).as_bytes());
        assert_eq!(scribe.finish(), format!("{}…", "z".repeat(LONGEST)));
    }

    #[test]
    fn log_follower_gets_lines_until_it_leaves() {
        let (log, outbox) = (Log::default(), Outbox::new(Limits::default()));
        let mut scribe = scribe(&log, 1);
        scribe.push(b"before\n");
        let answer = log.answer(ClientId(3), RawId::text("a"), &outbox, true);
        assert_eq!(answer.result(), Some(&br#"{"lines":["before"]}"#[..]));
        scribe.push(b"after\n");
        let told = Frame::notification(LINE, Some(br#"{"id":"a","line":"after"}"#));
        let len = outbox.n_bytes();
        assert_eq!(len, told.wire_len() + "Content-Length: 00\r\n\r\n".len());
        log.unfollow(ClientId(3));
        scribe.push(b"later\n");
        assert_eq!(outbox.n_bytes(), len);
    }

    #[test]
    fn log_follower_stays_with_adopted_process() {
        let (spare, other, outbox) = (Log::default(), Log::default(), Outbox::new(Limits::default()));
        let mut scribe = scribe(&spare, 1);
        scribe.push(b"before\n");
        spare.answer(ClientId(3), RawId::text("a"), &outbox, true);
        spare.continue_in(&other);
        assert_eq!(outbox.n_bytes(), 0, "what it was told is not told again");
        scribe.push(b"after\n");
        let told = Frame::notification(LINE, Some(br#"{"id":"a","line":"after"}"#));
        assert_eq!(outbox.n_bytes(), told.wire_len() + "Content-Length: 00\r\n\r\n".len());
        other.unfollow(ClientId(3));
        scribe.push(b"later\n");
        assert_eq!(outbox.n_bytes(), told.wire_len() + "Content-Length: 00\r\n\r\n".len());
    }
}
