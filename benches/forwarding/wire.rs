//! Frames as bytes, with as little work as a peer can get by with, so that what is measured is what stands between.

use std::{
    fs::File,
    io::{self, Read},
    os::fd::AsFd,
};

/// A standard stream without the buffer that the library gives it.
pub(crate) fn raw(stream: impl AsFd) -> io::Result<File> {
    Ok(stream.as_fd().try_clone_to_owned()?.into())
}

/// A whole frame.
pub(crate) fn frame(body: &str) -> Vec<u8> {
    format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// A response, with a raw result.
pub(crate) fn answer(id: &str, result: &str) -> Vec<u8> {
    frame(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
}

/// Cuts a stream into bodies.
pub(crate) struct Frames<R> {
    stream: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl<R: Read> Frames<R> {
    pub(crate) fn new(stream: R) -> Frames<R> {
        Frames { stream, buffer: vec![0; 256 << 10], start: 0, end: 0 }
    }

    /// The next body; `None` at the end of the stream.
    pub(crate) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        loop {
            let there = &self.buffer[self.start..self.end];
            let whole = header(there).filter(|(header, body)| header + body <= there.len());
            if let Some((header, body)) = whole {
                let start = self.start + header;
                self.start = start + body;
                return Ok(Some(&self.buffer[start..start + body]));
            }
            let wanted = header(there).map_or(0, |(header, body)| header + body);
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.buffer.len() < wanted {
                self.buffer.resize(wanted, 0);
            }
            match self.stream.read(&mut self.buffer[self.end..])? {
                0 => return Ok(None),
                n => self.end += n,
            }
        }
    }

    /// Whether a further body is there already.
    pub(crate) fn has_more(&self) -> bool {
        let there = &self.buffer[self.start..self.end];
        header(there).is_some_and(|(header, body)| header + body <= there.len())
    }
}

/// How long the header is, and how long it says that the body is.
fn header(bytes: &[u8]) -> Option<(usize, usize)> {
    let n = memchr::memmem::find(bytes, b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&bytes[..n]).ok()?;
    let mut headers = text.lines().filter_map(|it| it.split_once(':'));
    let length =
        headers.find(|(key, _)| key.eq_ignore_ascii_case("content-length"))?.1.trim().parse().ok()?;
    Some((n, length))
}

/// The raw `id` of a message, wherever a peer puts it: in front or, in some, behind everything else.
pub(crate) fn id(body: &[u8]) -> Option<&str> {
    const NEAR: usize = 300;
    let near = |part: usize| {
        let part = &body[part..(part + NEAR).min(body.len())];
        let at = memchr::memmem::find(part, b"\"id\"")? + 4;
        let rest = part[at..].trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        let end = rest.iter().position(|it| matches!(it, b',' | b'}' | b' '))?;
        std::str::from_utf8(&rest[..end]).ok()
    };
    near(0).or_else(|| near(body.len().saturating_sub(NEAR)))
}

/// A member that is a text without escapes, or a number, near the beginning.
pub(crate) fn member<'a>(body: &'a [u8], key: &str) -> Option<&'a str> {
    let near = &body[..body.len().min(2000)];
    let at = memchr::memmem::find(near, format!("\"{key}\"").as_bytes())? + key.len() + 2;
    let rest = near[at..].trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let (rest, is_end): (_, fn(&u8) -> bool) = match rest.strip_prefix(b"\"") {
        Some(text) => (text, |it| *it == b'"'),
        None => (rest, |it| matches!(it, b',' | b'}' | b' ')),
    };
    std::str::from_utf8(&rest[..rest.iter().position(is_end)?]).ok()
}
