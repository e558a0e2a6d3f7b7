//! Reads the stream of one peer: bytes to messages, in order.
//!
//! Owns the read buffer. **A cancelled wait loses no byte**: what was read is in the buffer before the next wait, and
//! the buffer outlives every wait.

use std::borrow::Cow;

use bytes::BytesMut;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    sync::watch,
};
use tokio_util::codec::Decoder as _;

use super::{inbox::Events, read_throttle::ReadThrottle};
use crate::{
    core::event::Peer,
    rpc::{Codec, Incoming, LARGE, batch},
    util::redact::redact,
};

const SMALL_READ: usize = 8 * 1024;
const LARGE_READ: usize = 64 * 1024;

/// The back pressure on a reader.
#[derive(Debug)]
pub(super) enum Backpressure {
    /// It pauses for an outbox over high water.
    Pause {
        /// While this is true, nothing is read,
        paused: watch::Receiver<bool>,
        /// unless this is true: a dead process left little in its pipe.
        dead: watch::Receiver<bool>,
    },
    /// It only slows down.
    Throttle(ReadThrottle),
}

impl Backpressure {
    async fn wait(&mut self) {
        match self {
            Backpressure::Pause { paused, dead } => {
                if *paused.borrow() {
                    // An error means that nothing can pause it.
                    tokio::select! {
                        _ = paused.wait_for(|paused| !paused) => {}
                        _ = dead.wait_for(|dead| *dead) => {}
                    }
                }
            }
            Backpressure::Throttle(throttle) => throttle.wait().await,
        }
    }
}

/// The end of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The other side closed it, perhaps within a message.
    Eof(Option<String>),
    /// Its bytes are not messages.
    Broken(String),
}

/// Delivers messages of a peer until its stream ends. `junk` gets text between messages.
pub(super) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    max_len: usize,
    peer: Peer,
    mut backpressure: Backpressure,
    events: &Events,
    mut junk: impl FnMut(&str),
) -> End {
    let mut codec = Codec::new(max_len);
    let mut buffer = BytesMut::new();
    let mut chunk = SMALL_READ;
    loop {
        loop {
            match codec.decode(&mut buffer) {
                Ok(Some(incoming)) => deliver(incoming, peer, events, &mut junk),
                Ok(None) => break,
                Err(error) => return End::Broken(error.to_string()),
            }
        }
        events.room().await;
        backpressure.wait().await;
        let missing = codec.missing(&buffer);
        // A large message should not keep a large buffer alive. Between header and body there is room for the body.
        if buffer.is_empty() && missing == 0 && buffer.capacity() > 2 * LARGE_READ {
            buffer = BytesMut::new();
        }
        let is_large = missing >= LARGE;
        // A large message has room for its rest; no room at all would read as the end of the stream.
        buffer.reserve(if is_large { 1 } else { chunk });
        let room = buffer.capacity() - buffer.len();
        let limit = if is_large { room.min(missing) } else { room };
        let n = match (&mut *stream).take(limit as u64).read_buf(&mut buffer).await {
            Ok(0) => break,
            Ok(n) => n,
            Err(error) => return End::Eof(Some(error.to_string())),
        };
        // Few and small messages should not keep a large buffer alive.
        let is_more = n >= room && !is_large;
        chunk = if is_more { (chunk * 2).min(LARGE_READ) } else { (chunk / 2).max(SMALL_READ) };
    }
    loop {
        match codec.decode_eof(&mut buffer) {
            Ok(Some(incoming)) => deliver(incoming, peer, events, &mut junk),
            Ok(None) => return End::Eof(None),
            Err(error) => return End::Eof(Some(error.to_string())),
        }
    }
}

fn deliver(incoming: Incoming, peer: Peer, events: &Events, junk: &mut impl FnMut(&str)) {
    match incoming {
        Incoming::Junk(text) => junk(&text),
        Incoming::Body(body) => match batch(&body) {
            Some(messages) => messages.into_iter().for_each(|it| events.deliver(peer, body.slice(it))),
            None => events.deliver(peer, body),
        },
    }
}

/// An excerpt of a text for the log.
pub(super) fn excerpt(text: &str) -> Cow<'_, str> {
    redact(&text[..text.floor_char_boundary(200)])
}

#[cfg(test)]
mod tests {
    use std::{
        collections::VecDeque,
        io,
        pin::Pin,
        task::{Context, Poll},
    };

    use tokio::io::ReadBuf;

    use super::*;
    use crate::{
        core::event::{ClientId, Event},
        shell::inbox::{Inbox, inbox},
    };

    const PEER: Peer = Peer::Client(ClientId::EDITOR);

    /// Returns each write in one read, if there is room.
    struct Writes(VecDeque<Vec<u8>>);

    impl AsyncRead for Writes {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            into: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if let Some(mut written) = self.0.pop_front() {
                let rest = written.split_off(written.len().min(into.remaining()));
                into.put_slice(&written);
                if !rest.is_empty() {
                    self.0.push_front(rest);
                }
            }
            Poll::Ready(Ok(()))
        }
    }

    /// The lengths of the messages, and the end of the stream.
    async fn lengths(writes: Vec<Vec<u8>>) -> (Vec<usize>, End) {
        let (events, mut inbox): (Events, Inbox) = inbox(usize::MAX);
        let (paused, dead) = (watch::Sender::new(false), watch::Sender::new(false));
        let backpressure = Backpressure::Pause { paused: paused.subscribe(), dead: dead.subscribe() };
        let end = read(&mut Writes(writes.into()), usize::MAX, PEER, backpressure, &events, |_| {}).await;
        events.tell(Event::Closed { peer: PEER, error: None });
        let mut lengths = Vec::new();
        while let Event::Received(_, frame) = inbox.next().await {
            lengths.push(frame.body().len());
        }
        (lengths, end)
    }

    #[tokio::test]
    async fn reader_accepts_header_and_body_in_separate_writes() {
        for len in [100, LARGE, 2 * LARGE_READ, 200_000, 3_000_000] {
            let body = format!("{{\"method\":\"{}\"}}", "m".repeat(len)).into_bytes();
            let header = format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes();
            let message = [&header[..], &body].concat();
            for cut in [header.len() - 1, header.len(), header.len() + 1] {
                let parts = [message[..cut].to_vec(), message[cut..].to_vec()];
                let writes = [&parts[..], &parts[..]].concat();
                assert_eq!(
                    lengths(writes).await,
                    (vec![body.len(); 2], End::Eof(None)),
                    "{len}, cut at {cut}"
                );
            }
        }
    }
}
