//! Reads the lines of a recording one at a time, and reports errors.

use std::io::{BufRead, Read as _};

use serde::Deserialize;

use super::format::{Dir, FORMAT, Header, Line, Time};

/// Longer than any line that lspool writes.
const LONGEST: u64 = 2 << 30;

/// An error in a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct Problem {
    /// The line, counted from 1.
    pub line: usize,
    /// The error.
    pub what: String,
}

/// Reads a recording. Keeps one line in memory.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    /// The number of the current line.
    number: usize,
    buffer: Vec<u8>,
    is_torn: bool,
    is_ended: bool,
    last: Time,
}

/// The part of a header that every format has.
#[derive(Deserialize)]
struct AnyHeader {
    #[serde(rename = "lspool-recording")]
    format: u32,
    #[serde(default)]
    version: String,
}

impl<R: BufRead> Reader<R> {
    /// Reads the header.
    pub fn open(input: R) -> Result<(Reader<R>, Header), Problem> {
        let mut reader = Reader::new(input);
        let foreign = |what: &str| format!("not a recording of lspool: {what}");
        if !reader.read()? {
            return Err(Problem { line: 1, what: foreign("it is empty") });
        }
        let header = reader.header()?.map_err(|no_header| reader.problem(&foreign(&no_header)))?;
        Ok((reader, header))
    }

    /// The current line as a header, or why it is not one.
    pub(super) fn header(&self) -> Result<Result<Header, String>, Problem> {
        let any: AnyHeader = match serde_json::from_slice(self.text()) {
            Ok(any) => any,
            Err(error) => return Ok(Err(format!("its first line is not a header: {}", words(&error)))),
        };
        if any.format != FORMAT {
            let what = format!(
                "it has format {}, of lspool {}; this one reads format {FORMAT}",
                any.format, any.version
            );
            return Err(self.problem(&what));
        }
        let header = serde_json::from_slice(self.text());
        header.map(Ok).map_err(|error| self.problem(&format!("the header: {}", words(&error))))
    }

    /// Reads lines of a recording, or effects that a replay has printed.
    pub fn new(input: R) -> Reader<R> {
        Reader {
            input,
            number: 0,
            buffer: Vec::new(),
            is_torn: false,
            is_ended: false,
            last: Time::default(),
        }
    }

    /// Reads the next line, if any.
    pub fn advance(&mut self) -> Result<Option<Line<'_>>, Problem> {
        if !self.read()? {
            return Ok(None);
        }
        if self.is_torn {
            // It may be complete without a line end.
            match serde_json::from_slice::<Line<'_>>(&self.buffer) {
                Ok(_) => self.is_torn = false,
                Err(_) => return Ok(None),
            }
        }
        self.line().map(Some)
    }

    /// Parses the current line, and checks its place. Call it once for a line.
    pub(super) fn line(&mut self) -> Result<Line<'_>, Problem> {
        let number = self.number;
        let problem = |what: &str| Problem { line: number, what: what.to_owned() };
        let line: Line<'_> = serde_json::from_slice(&self.buffer).map_err(|error| problem(&words(&error)))?;
        if self.is_ended {
            return Err(problem("a line follows the end of the recording"));
        }
        if line.t < self.last {
            return Err(problem("it is earlier than the line before"));
        }
        self.last = line.t;
        self.is_ended = line.dir == Dir::End;
        Ok(line)
    }

    /// Moves to the next effect. False at the end.
    pub fn next_effect(&mut self) -> Result<bool, Problem> {
        loop {
            if !self.read()? {
                return Ok(false);
            }
            if self.number == 1 && serde_json::from_slice::<AnyHeader>(&self.buffer).is_ok() {
                continue;
            }
            match serde_json::from_slice::<Line<'_>>(&self.buffer) {
                Ok(line) if line.dir == Dir::Out => return Ok(true),
                Ok(_) => {}
                Err(_) if self.is_torn => return Ok(false),
                Err(error) => return Err(self.problem(&words(&error))),
            }
        }
    }

    /// The text of the current line, without a line end.
    pub fn text(&self) -> &[u8] {
        self.buffer.trim_ascii_end()
    }

    /// The number of the current line, counted from 1.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Whether the file ends within a line, because its writer was killed.
    pub fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// Whether the last line was the end of the recording.
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// An error in the current line.
    pub fn problem(&self, what: &str) -> Problem {
        Problem { line: self.number, what: what.to_owned() }
    }

    /// Reads a line that is not blank. False at the end of the file.
    pub(super) fn read(&mut self) -> Result<bool, Problem> {
        loop {
            self.buffer.clear();
            self.number += 1;
            let read = (&mut self.input).take(LONGEST).read_until(b'\n', &mut self.buffer);
            let n = read.map_err(|error| self.problem(&format!("cannot be read: {error}")))?;
            if n == 0 {
                return Ok(false);
            }
            if n as u64 == LONGEST {
                return Err(self.problem("it is too long for a line of a recording"));
            }
            self.is_torn = !self.buffer.ends_with(b"\n");
            if !self.buffer.trim_ascii().is_empty() {
                return Ok(true);
            }
        }
    }
}

/// The message of serde, without its own line number.
pub(super) fn words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(&*text, |(what, _)| what);
    if error.column() == 0 { what.to_owned() } else { format!("{what} (column {})", error.column()) }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::{config::Config, core::Identity, recording::encode::Encoder};

    fn header() -> String {
        let header = Encoder::new(true, []).header(Identity { pid: 1, started: 2 }, &Config::default());
        String::from_utf8(header).unwrap()
    }

    fn read(text: &str) -> Result<(usize, bool, bool), Problem> {
        let (mut reader, _) = Reader::open(text.as_bytes())?;
        let mut n = 0;
        while reader.advance()?.is_some() {
            n += 1;
        }
        Ok((n, reader.is_torn(), reader.is_ended()))
    }

    fn check_problem(text: &str, expected: &Expect) {
        expected.assert_eq(&read(text).unwrap_err().to_string());
    }

    #[test]
    fn reader_accepts_whole_and_torn_files() {
        let timeout = r#"{"t":1.5,"dir":"in","kind":"timeout"}"#;
        let done = r#"{"t":2,"dir":"end","kind":"done"}"#;
        let header = header();
        assert_eq!(read(&header), Ok((0, false, false)));
        assert_eq!(read(&format!("{header}{timeout}\n\n{done}\n\n")), Ok((2, false, true)));
        assert_eq!(read(&format!("{header}{timeout}\n{done}")), Ok((2, false, true)));
        for cut in 1..timeout.len() {
            let torn = &timeout[..cut];
            assert_eq!(read(&format!("{header}{timeout}\n{torn}")), Ok((1, true, false)), "{torn}");
        }
    }

    #[test]
    fn reader_reports_invalid_lines() {
        let header = header();
        check_problem("", &expect!["line 1: not a recording of lspool: it is empty"]);
        check_problem(
            "hello\n",
            &expect![
                "line 1: not a recording of lspool: its first line is not a header: expected value (column 1)"
            ],
        );
        check_problem(
            "{\"t\":0,\"dir\":\"c2s\",\"msg\":{}}\n",
            &expect![
                "line 1: not a recording of lspool: its first line is not a header: missing field \
                 `lspool-recording` (column 28)"
            ],
        );
        check_problem(
            "{\"lspool-recording\":2,\"version\":\"9.0\",\"x\":1}\n",
            &expect!["line 1: it has format 2, of lspool 9.0; this one reads format 1"],
        );
        check_problem(
            "{\"lspool-recording\":1,\"version\":\"0.1.0\"}\n",
            &expect!["line 1: the header: missing field `pid` (column 40)"],
        );
        check_problem(
            &format!("{header}{{\"t\":1,\"dir\":\"in\",\"kin\n{{}}\n"),
            &expect![[r#"line 2: control character (\u0000-\u001F) found while parsing a string"#]],
        );
        check_problem(
            &format!("{header}\n{{\"t\":1,\"dir\":\"in\",\"kind\":\"foo\"}}\n"),
            &expect![
                "line 3: unknown variant `foo`, expected one of `message`, `malformed`, `closed`, `unwritable`, `prepared`, `unprepared`, `displaced`, `unshared`, `spawned`, `spawn-failed`, `exited`, `transcript-written`, `teams-loaded`, `team-written`, `mode-kept`, `recalled`, `root-found`, `tool-ran`, `looked`, `wrote`, `fetched`, `measured`, `files-changed`, `editor-reads`, `muttered`, `drained`, `stalled`, `editor-gone`, `quit`, `timeout`, `prepare`, `watch-editor`, `spawn`, `adopt`, `write-transcript`, `remove-transcript`, `remove-transcripts`, `load-teams`, `write-team`, `remove-team`, `keep-mode`, `find-root`, `recall`, `remember`, `run-tool`, `cancel-tool`, `look`, `write`, `fetch`, `measure`, `logs`, `file-read`, `read-file`, `hang-up`, `close-input`, `await-drained`, `terminate`, `exit`, `panic`, `done`, `full`, `too-slow` (column 30)"
            ],
        );
        check_problem(
            &format!("{header}{{\"t\":1,\"dir\":\"in\",\"kind\":\"closed\",\"peer\":{{\"process\":1}}}}\n"),
            &expect![[
                r#"line 2: `peer` must be {"client": 0} or {"backend": 0, "generation": 1} (column 55)"#
            ]],
        );
        let timeout = |t: u8| format!("{{\"t\":{t},\"dir\":\"in\",\"kind\":\"timeout\"}}\n");
        check_problem(
            &format!("{header}{}{}", timeout(2), timeout(1)),
            &expect!["line 3: it is earlier than the line before"],
        );
        let done = "{\"t\":2,\"dir\":\"end\",\"kind\":\"done\"}\n";
        check_problem(
            &format!("{header}{done}{}", timeout(3)),
            &expect!["line 3: a line follows the end of the recording"],
        );
    }
}
