//! The framing of LSP: `Content-Length` headers in and out. Does not look into bodies.
//!
//! Reading is tolerant, because a language server that prints a line to stdout should keep working:
//!
//! - Header names in any case, white space around the colon, other headers before and after, bare `\n` line ends.
//! - A line that is not a header is skipped and reported. `Content-Length: N` at the *end* of such a line counts:
//!   after a body that was longer than its header said, or a `print` without newline, the next header follows on the
//!   same line.
//! - Of several lengths in one header block the last counts: its header interrupted another one.
//! - A header block without a length is skipped and reported. So is an empty body.
//!
//! Reading fails on a length over the limit (before it allocates memory), on [`JUNK_LIMIT`] bytes without a message,
//! and on an end in the middle of a message. The result does not depend on how the bytes were cut.

use std::{fmt::Write as _, io};

use bytes::{Buf, Bytes, BytesMut};
use tokio_util::codec::{Decoder, Encoder};

use super::frame::Frame;

/// How many bytes without a message are accepted in a row.
const JUNK_LIMIT: usize = 64 * 1024;

/// From this size on, the rest of a message is read separately. A part of the next message would have to be moved
/// when the buffer grows.
pub(crate) const LARGE: usize = 32 * 1024;

/// How much to reserve for a body before its bytes come.
const RESERVE: usize = 1024 * 1024;

const LENGTH: &[u8] = b"content-length";

/// A number with more digits is not a length.
const DIGITS: usize = 15;

/// A read item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// The body of a message, unchecked. Never empty.
    Body(Bytes),
    /// Text that is neither header nor body, for the log.
    Junk(String),
}

/// Why a stream cannot be read further.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The message is too long, or the limit too low.
    #[error("a message has {len} bytes, more than the limit of {max}: raise the limit, or fix the sender")]
    TooLong {
        /// The length in the header; `u64::MAX` if it does not fit.
        len: u64,
        /// The limit.
        max: usize,
    },
    /// The sender does not speak the protocol on this stream.
    #[error("64 KiB contain no message: the sender must write only LSP messages")]
    Junk,
    /// The stream ended within a message.
    #[error("the stream ended in the middle of a message: the sender stopped or crashed while it wrote")]
    Truncated,
    /// An error of the operating system.
    #[error("cannot read or write the stream: {0}")]
    Io(#[from] io::Error),
}

/// Reads and writes frames.
#[derive(Debug)]
pub struct Codec {
    max_len: usize,
    state: State,
    /// Bytes of header lines and junk since the last body.
    junk: usize,
}

#[derive(Debug)]
enum State {
    Header {
        /// The bytes before this offset hold no line end.
        searched: usize,
        length: Option<usize>,
        /// Other headers of the block.
        others: String,
    },
    Body {
        length: usize,
    },
}

impl State {
    const START: State = State::Header { searched: 0, length: None, others: String::new() };
}

impl Codec {
    /// The default limit of a body: 256 MiB.
    pub const DEFAULT_MAX: usize = 256 * 1024 * 1024;

    /// A codec that accepts bodies of up to `max_len` bytes.
    pub const fn new(max_len: usize) -> Codec {
        Codec { max_len, state: State::START, junk: 0 }
    }

    /// Takes one line from `src`, without its end.
    fn line(&mut self, src: &mut BytesMut) -> Result<Option<BytesMut>, FrameError> {
        let State::Header { searched, .. } = &mut self.state else { return Ok(None) };
        let Some(n) = memchr::memchr(b'\n', src.get(*searched..).unwrap_or_default()) else {
            *searched = src.len();
            return if self.junk + src.len() > JUNK_LIMIT { Err(FrameError::Junk) } else { Ok(None) };
        };
        let n = *searched + n;
        *searched = 0;
        self.junk += n + 1;
        if self.junk > JUNK_LIMIT {
            return Err(FrameError::Junk);
        }
        let mut line = src.split_to(n);
        src.advance(1);
        // A server that writes in text mode on Windows ends its lines with `\r\r\n`.
        while line.last() == Some(&b'\r') {
            line.truncate(line.len() - 1);
        }
        Ok(Some(line))
    }

    /// Handles one line; returns text to report.
    fn header(&mut self, line: &[u8]) -> Result<Option<String>, FrameError> {
        let State::Header { length, others, .. } = &mut self.state else { return Ok(None) };
        if line.is_empty() {
            let others = std::mem::take(others);
            return Ok(match length.take() {
                Some(0) => Some("Content-Length: 0".to_owned()),
                Some(length) => {
                    self.state = State::Body { length };
                    None
                }
                None => Some(others).filter(|it| !it.is_empty()),
            });
        }
        match Line::of(line) {
            Line::Length { before, value } => {
                if value > self.max_len as u64 {
                    return Err(FrameError::TooLong { len: value, max: self.max_len });
                }
                *length = Some(usize::try_from(value).expect("max_len is a usize"));
                Ok(Some(lossy(before)).filter(|it| !it.is_empty()))
            }
            Line::Other => {
                if !others.is_empty() {
                    others.push('\n');
                }
                others.push_str(&lossy(line));
                Ok(None)
            }
            Line::Junk => Ok(Some(lossy(line))),
        }
    }

    /// The size and the length of a header block in its usual form.
    fn plain_header(&self, src: &[u8]) -> Option<(usize, usize)> {
        let State::Header { searched: 0, length: None, others } = &self.state else { return None };
        if !others.is_empty() || self.junk > 0 {
            return None;
        }
        let digits = src.strip_prefix(b"Content-Length: ")?;
        let (mut n, mut length) = (0, 0);
        while let Some(digit @ b'0'..=b'9') = digits.get(n).filter(|_| n < DIGITS) {
            length = length * 10 + usize::from(digit - b'0');
            n += 1;
        }
        let is_whole = n > 0 && digits[n..].starts_with(b"\r\n\r\n");
        (is_whole && (1..=self.max_len).contains(&length)).then(|| (src.len() - digits.len() + n + 4, length))
    }

    /// How many bytes of the current body are missing in `src`.
    pub fn missing(&self, src: &BytesMut) -> usize {
        match self.state {
            State::Body { length } => length.saturating_sub(src.len()),
            State::Header { .. } => 0,
        }
    }

    fn body(&mut self, src: &mut BytesMut, length: usize) -> Option<Bytes> {
        if src.len() >= length {
            self.state = State::START;
            self.junk = 0;
            return Some(src.split_to(length).freeze());
        }
        // Memory follows the received bytes, not the announced ones.
        let wanted = length.min(RESERVE.max(src.len().saturating_mul(2)));
        if length - src.len() >= LARGE && src.capacity() < wanted {
            src.reserve(wanted - src.len());
        }
        None
    }
}

impl Decoder for Codec {
    type Item = Incoming;
    type Error = FrameError;

    fn decode(&mut self, src: &mut BytesMut) -> Result<Option<Incoming>, FrameError> {
        loop {
            if let State::Body { length } = self.state {
                return Ok(self.body(src, length).map(Incoming::Body));
            }
            if let Some((header, length)) = self.plain_header(src) {
                // The body is complete, as usual: the next message begins like this one.
                if src.len() - header >= length {
                    let mut message = src.split_to(header + length).freeze();
                    message.advance(header);
                    return Ok(Some(Incoming::Body(message)));
                }
                src.advance(header);
                self.state = State::Body { length };
                continue;
            }
            let Some(line) = self.line(src)? else { return Ok(None) };
            if let Some(junk) = self.header(&line)? {
                return Ok(Some(Incoming::Junk(junk)));
            }
        }
    }

    fn decode_eof(&mut self, src: &mut BytesMut) -> Result<Option<Incoming>, FrameError> {
        if let Some(item) = self.decode(src)? {
            return Ok(Some(item));
        }
        let rest = src.split();
        let rest = rest.trim_ascii();
        match std::mem::replace(&mut self.state, State::START) {
            State::Body { .. } | State::Header { length: Some(_), .. } => Err(FrameError::Truncated),
            State::Header { .. } if begins_length(rest) => Err(FrameError::Truncated),
            State::Header { mut others, .. } => {
                if !others.is_empty() && !rest.is_empty() {
                    others.push('\n');
                }
                others.push_str(&lossy(rest));
                Ok(Some(others).filter(|it| !it.is_empty()).map(Incoming::Junk))
            }
        }
    }
}

impl Encoder<&Frame> for Codec {
    type Error = FrameError;

    fn encode(&mut self, frame: &Frame, dst: &mut BytesMut) -> Result<(), FrameError> {
        let len = frame.wire_len();
        dst.reserve(len + 48);
        write!(dst, "Content-Length: {len}\r\n\r\n").expect("room for a header is reserved");
        for part in frame.parts() {
            dst.extend_from_slice(part);
        }
        Ok(())
    }
}

impl Encoder<Frame> for Codec {
    type Error = FrameError;

    fn encode(&mut self, frame: Frame, dst: &mut BytesMut) -> Result<(), FrameError> {
        self.encode(&frame, dst)
    }
}

/// The kind of a line in a header block.
enum Line<'a> {
    /// A length, and text before it that does not belong to the header.
    Length { before: &'a [u8], value: u64 },
    /// Another header.
    Other,
    /// Not a header.
    Junk,
}

impl Line<'_> {
    fn of(line: &[u8]) -> Line<'_> {
        if let Some((at, value)) = length(line) {
            return Line::Length { before: line[..at].trim_ascii(), value };
        }
        let name = line.split(|&byte| byte == b':').next().unwrap_or_default().trim_ascii_end();
        let is_name = |&byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_header = line.contains(&b':') && !name.is_empty() && name.iter().all(is_name);
        if is_header && !name.eq_ignore_ascii_case(LENGTH) { Line::Other } else { Line::Junk }
    }
}

/// The length at the end of a line, and the start of its name.
fn length(line: &[u8]) -> Option<(usize, u64)> {
    let colon = memchr::memrchr(b':', line)?;
    let digits = line[colon + 1..].trim_ascii();
    let name = line[..colon].trim_ascii_end();
    let at = name.len().checked_sub(LENGTH.len())?;
    let is_length = name[at..].eq_ignore_ascii_case(LENGTH)
        // `X-Content-Length` is another header.
        && !name[..at].ends_with(b"-")
        && !digits.is_empty()
        && digits.iter().all(u8::is_ascii_digit);
    let add = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    is_length.then(|| (at, digits.iter().fold(0, add)))
}

/// Whether the end of the stream cut a header off.
fn begins_length(rest: &[u8]) -> bool {
    let starts_alike = |(a, b): (&u8, &u8)| a.eq_ignore_ascii_case(b);
    !rest.is_empty() && rest.iter().zip(LENGTH).all(starts_alike)
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests;
