//! The base protocol, read strictly: bytes outside frames are reported.

use std::{
    io::{BufRead, BufReader, Read as _, Write},
    process::ChildStdin,
    sync::mpsc::Receiver,
};

use lspool::recording::source::parsed;
use serde_json::Value;

use super::ToServer;

/// A message as it goes over the wire.
pub fn frame(message: &Value) -> Vec<u8> {
    let body = message.to_string();
    format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Writes the queue in order, until stdin is to be closed.
pub(super) fn write_all(stdin: Option<ChildStdin>, queue: &Receiver<ToServer>) {
    let mut stdin = stdin;
    for item in queue {
        match item {
            ToServer::Bytes(bytes) => {
                let failed = stdin.as_mut().is_some_and(|pipe| pipe.write_all(&bytes).is_err());
                if failed {
                    stdin = None;
                }
            }
            ToServer::Close => return,
        }
    }
}

/// A read item.
pub enum Read {
    /// A message, and the bytes that it came in.
    Frame { raw: Vec<u8>, message: Value },
    /// Bytes that are no frame.
    Stray(Vec<u8>),
    /// The stream has ended.
    End,
}

/// The frames of a stream.
pub struct Frames<R> {
    stream: BufReader<R>,
}

impl<R: std::io::Read> Frames<R> {
    /// A stream from its beginning.
    pub fn new(stream: R) -> Self {
        Frames { stream: BufReader::new(stream) }
    }

    /// Waits for the next frame.
    pub fn next(&mut self) -> Read {
        let mut raw = Vec::new();
        let mut length = None;
        loop {
            let start = raw.len();
            match self.stream.read_until(b'\n', &mut raw) {
                Ok(0) | Err(_) if raw.is_empty() => return Read::End,
                Ok(0) | Err(_) => return Read::Stray(raw),
                Ok(_) => {}
            }
            let line = &raw[start..];
            if line == b"\r\n" {
                break;
            }
            let Some((name, value)) = header(line) else { return Read::Stray(raw) };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.parse::<usize>().ok();
            }
        }
        let Some(length) = length else { return Read::Stray(raw) };
        let start = raw.len();
        let mut body = (&mut self.stream).take(length as u64);
        match body.read_to_end(&mut raw) {
            Ok(n) if n == length => {}
            Ok(_) | Err(_) => return Read::Stray(raw),
        }
        // Invalid text is replaced, as in most clients and servers.
        match parsed(Some(String::from_utf8_lossy(&raw[start..]).as_bytes())) {
            Value::Null => Read::Stray(raw),
            message => Read::Frame { raw, message },
        }
    }
}

fn header(line: &[u8]) -> Option<(&str, &str)> {
    let line = std::str::from_utf8(line).ok()?.strip_suffix("\r\n")?;
    let (name, value) = line.split_once(':')?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_name.then(|| (name, value.trim()))
}
