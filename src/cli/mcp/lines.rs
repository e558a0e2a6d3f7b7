//! Messages as lines of JSON on stdin and stdout: bounds, and answers to lines that are no message.
//!
//! Knows no method. `rmcp` has a reader of its own, which is silent about a line that is too long or is not JSON: the
//! client would wait for ever.

use std::io;

use bytes::{Buf as _, BytesMut};
use memchr::memchr;
use rmcp::{
    ErrorData, RoleServer,
    model::{ErrorCode, JsonRpcMessage, NumberOrString, RequestId},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::mpsc,
    task::{JoinHandle, spawn_local},
};
use tokio_util::sync::CancellationToken;

use crate::shell::stdio::{Input, Output};

/// The longest line that is read, in bytes. Requests are a few hundred bytes long.
const LONGEST: usize = 4 << 20;

/// How many messages wait in each direction.
const WAITING: usize = 64;

type Received = RxJsonRpcMessage<RoleServer>;
type Sent = TxJsonRpcMessage<RoleServer>;

/// The messages of a client, as `rmcp` takes them.
pub(super) struct Lines {
    received: mpsc::Receiver<Received>,
    replies: Option<mpsc::Sender<Sent>>,
}

/// What is known of the two streams.
pub(super) struct Streams {
    /// Is cancelled at the end of stdin.
    pub(super) ended: CancellationToken,
    /// Ends when stdout is closed, or when everything is written and nobody can send any more.
    pub(super) writer: JoinHandle<()>,
}

/// Begins to read and write.
pub(super) fn open(input: Input, output: Output) -> (Lines, Streams) {
    let (messages, received) = mpsc::channel(WAITING);
    let (replies, to_write) = mpsc::channel(WAITING);
    let ended = CancellationToken::new();
    let at_end = ended.clone();
    let answers = replies.clone();
    spawn_local(async move {
        let why = read(input, &messages, &answers).await;
        tracing::debug!(?why, "stdin ended");
        at_end.cancel();
    });
    let writer = spawn_local(async move {
        if let Err(error) = write(output, to_write).await {
            tracing::debug!(%error, "could not write to stdout");
        }
    });
    (Lines { received, replies: Some(replies) }, Streams { ended, writer })
}

impl Transport<RoleServer> for Lines {
    type Error = io::Error;

    fn send(&mut self, message: Sent) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let replies = self.replies.clone();
        async move {
            let closed = || io::Error::new(io::ErrorKind::BrokenPipe, "stdout is closed");
            replies.ok_or_else(closed)?.send(message).await.map_err(|_| closed())
        }
    }

    async fn receive(&mut self) -> Option<Received> {
        self.received.recv().await
    }

    async fn close(&mut self) -> io::Result<()> {
        self.replies = None;
        Ok(())
    }
}

async fn write(mut output: Output, mut messages: mpsc::Receiver<Sent>) -> io::Result<()> {
    while let Some(message) = messages.recv().await {
        let mut line = serde_json::to_vec(&message)?;
        line.push(b'\n');
        output.write_all(&line).await?;
        output.flush().await?;
    }
    Ok(())
}

/// Reads until the end, or until nobody takes the messages.
async fn read(
    mut input: Input,
    messages: &mpsc::Sender<Received>,
    replies: &mpsc::Sender<Sent>,
) -> io::Result<()> {
    let mut splitter = Splitter::default();
    let mut first = First::default();
    loop {
        let is_end = input.read_buf(&mut splitter.buffer).await? == 0;
        while let Some(line) = splitter.next(is_end) {
            let message = match line {
                Ok(line) => message(&line),
                Err(TooLong) => Err(refusal(
                    ErrorCode::INVALID_REQUEST,
                    format!("the line is longer than {LONGEST} bytes, which is the most that lspool reads"),
                    None,
                )),
            };
            let is_open = match message {
                Ok(Some(message)) if first.takes(&message) => messages.send(message).await.is_ok(),
                Ok(Some(_) | None) => true,
                Err(refusal) => replies.send(*refusal).await.is_ok(),
            };
            if !is_open {
                return Ok(());
            }
        }
        if is_end {
            return Ok(());
        }
    }
}

/// Whether a request has come. `rmcp` ends at anything else before, though a client may well cancel its probe.
#[derive(Default)]
struct First {
    has_come: bool,
}

impl First {
    fn takes(&mut self, message: &Received) -> bool {
        self.has_come |= matches!(message, JsonRpcMessage::Request(_));
        self.has_come
    }
}

/// A line of which the rest is not read.
#[derive(Debug, PartialEq, Eq)]
struct TooLong;

/// Cuts what is read into lines.
#[derive(Default)]
struct Splitter {
    buffer: BytesMut,
    /// How far the buffer holds no end of a line.
    searched: usize,
    /// Whether the rest of a line is being dropped.
    is_dropping: bool,
}

impl Splitter {
    /// The next line, without its end. At the end of the input, the rest is a line as well.
    fn next(&mut self, is_end: bool) -> Option<Result<BytesMut, TooLong>> {
        loop {
            let end = memchr(b'\n', &self.buffer[self.searched..]).map(|it| self.searched + it);
            match (end, self.is_dropping) {
                (Some(end), true) => {
                    self.buffer.advance(end + 1);
                    (self.searched, self.is_dropping) = (0, false);
                }
                (Some(end), false) => {
                    let mut line = self.buffer.split_to(end + 1);
                    line.truncate(end);
                    self.searched = 0;
                    if end > LONGEST {
                        return Some(Err(TooLong));
                    }
                    return Some(Ok(line));
                }
                (None, true) => {
                    self.buffer.clear();
                    return None;
                }
                (None, false) if self.buffer.len() > LONGEST => {
                    self.buffer.clear();
                    (self.searched, self.is_dropping) = (0, true);
                    return Some(Err(TooLong));
                }
                (None, false) if is_end && !self.buffer.is_empty() => {
                    self.searched = 0;
                    return Some(Ok(self.buffer.split()));
                }
                (None, false) => {
                    self.searched = self.buffer.len();
                    return None;
                }
            }
        }
    }
}

/// A message; nothing for an empty line; or what to answer.
fn message(line: &[u8]) -> Result<Option<Received>, Box<Sent>> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let value: Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(error) => {
            let what = format!("the line is not JSON ({error}): write each message as one line of JSON");
            return Err(refusal(ErrorCode::PARSE_ERROR, what, None));
        }
    };
    let Value::Object(members) = &value else {
        let what = match value {
            Value::Array(_) => "a list of messages is not supported: write each message as a line of its own",
            _ => "a message is a JSON object",
        };
        return Err(refusal(ErrorCode::INVALID_REQUEST, what.to_owned(), None));
    };
    let id = match members.get("id") {
        Some(Value::String(id)) => Some(NumberOrString::String(id.as_str().into())),
        Some(Value::Number(id)) => id.as_i64().map(NumberOrString::Number),
        _ => None,
    };
    let is_answer =
        !members.contains_key("method") && (members.contains_key("result") || members.contains_key("error"));
    let is_notification = members.contains_key("method") && !members.contains_key("id");
    let fault = match (&id, members.get("id")) {
        (None, Some(_)) => Some("`id` must be a string or a whole number".to_owned()),
        _ if members.get("jsonrpc").is_none_or(|it| it != "2.0") => {
            Some("`jsonrpc` must be \"2.0\"".to_owned())
        }
        _ if !is_answer && members.get("method").is_none_or(|it| !it.is_string()) => {
            Some("`method` must be a string".to_owned())
        }
        _ if members.get("params").is_some_and(|it| !it.is_object()) => {
            Some("`params` must be an object".to_owned())
        }
        _ => None,
    };
    match (fault, serde_json::from_value(value)) {
        (None, Ok(message)) => Ok(Some(message)),
        // Nobody waits for an answer.
        _ if is_answer || is_notification => Ok(None),
        (Some(fault), _) => Err(refusal(ErrorCode::INVALID_REQUEST, fault, id)),
        (None, Err(error)) => {
            Err(refusal(ErrorCode::INVALID_REQUEST, format!("not a valid message: {error}"), id))
        }
    }
}

fn refusal(code: ErrorCode, what: String, id: Option<RequestId>) -> Box<Sent> {
    Box::new(Sent::error(ErrorData::new(code, what, None), id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_and_the_next_one_is_read() {
        let mut splitter = Splitter::default();
        splitter.buffer.extend_from_slice(b"one\ntwo");
        assert_eq!(splitter.next(false), Some(Ok(BytesMut::from("one"))));
        assert_eq!(splitter.next(false), None);
        splitter.buffer.extend_from_slice(b"\n");
        assert_eq!(splitter.next(false), Some(Ok(BytesMut::from("two"))));
        for _ in 0..=LONGEST / 1024 {
            splitter.buffer.extend_from_slice(&[b'x'; 1024]);
            match splitter.next(false) {
                None => assert!(splitter.buffer.len() <= LONGEST),
                too_long => assert_eq!(too_long, Some(Err(TooLong))),
            }
        }
        assert!(splitter.is_dropping);
        splitter.buffer.extend_from_slice(b"xx\nthree");
        assert_eq!(splitter.next(false), None);
        assert_eq!(splitter.next(true), Some(Ok(BytesMut::from("three"))));
        assert_eq!(splitter.next(true), None);
    }

    #[test]
    fn what_is_no_message_is_answered_if_somebody_waits() {
        let answer = |line: &str| match message(line.as_bytes()) {
            Ok(Some(_)) => "message".to_owned(),
            Ok(None) => "nothing".to_owned(),
            Err(refusal) => serde_json::to_string(&refusal).unwrap(),
        };
        for (line, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "message"),
            (r#"{"jsonrpc":"2.0","id":"a","method":"no/such","params":{}}"#, "message"),
            (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, "message"),
            ("  ", "nothing"),
            (r#"{"jsonrpc":"2.0","method":5}"#, "nothing"),
            (r#"{"id":1,"result":{}}"#, "nothing"),
            ("{nope", "-32700"),
            ("\"text\"", "a message is a JSON object"),
            ("[]", "-32600"),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, "a line of its own"),
            (r#"{"id":7,"method":"ping"}"#, r#""id":7"#),
            (r#"{"jsonrpc":"2.0","id":7}"#, "`method` must be a string"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, "`id` must be"),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, "`id` must be"),
            (r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":[1]}"#, "`params` must be an object"),
        ] {
            let answer = answer(line);
            assert!(answer.contains(expected), "{line}: {answer}");
        }
    }
}
