//! Reads one peer's stream: bytes to events, in order.
//!
//! Owns the read buffer. **No byte is ever lost to a wait that is given up**: what was read is in the buffer
//! before anything else is awaited, and the buffer outlives every wait.

use std::borrow::Cow;

use bytes::BytesMut;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    sync::watch,
};
use tokio_util::codec::Decoder as _;

use super::{brake::Brake, inbox::Events};
use crate::{
    core::event::{Event, Peer},
    redact::redact,
    rpc::{Codec, Frame, Incoming, LARGE},
};

const SMALL_READ: usize = 8 * 1024;
const LARGE_READ: usize = 64 * 1024;

/// What holds a reader back.
#[derive(Debug)]
pub(super) enum Gate {
    /// An outbox over high water.
    Shut {
        /// While this holds, nothing is read,
        paused: watch::Receiver<bool>,
        /// unless this does: what a dead process left in its pipe is little, and waits for nobody.
        dead: watch::Receiver<bool>,
    },
    /// Nothing does for long.
    Brake(Brake),
}

impl Gate {
    async fn open(&mut self) {
        match self {
            Gate::Shut { paused, dead } => {
                if *paused.borrow() {
                    // An error means that nobody is left who could pause.
                    tokio::select! {
                        _ = paused.wait_for(|paused| !paused) => {}
                        _ = dead.wait_for(|dead| *dead) => {}
                    }
                }
            }
            Gate::Brake(brake) => brake.wait().await,
        }
    }
}

/// How a stream ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The other side closed it, perhaps within a message.
    Eof(Option<String>),
    /// What it says cannot be told apart into messages.
    Broken(String),
}

/// Delivers what a peer says until its stream ends. `junk` is told what is no message.
pub(super) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    max_len: usize,
    peer: Peer,
    mut gate: Gate,
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
        gate.open().await;
        // Nor should a message that was large once.
        if buffer.is_empty() && buffer.capacity() > 2 * LARGE_READ {
            buffer = BytesMut::new();
        }
        let missing = codec.missing(&buffer);
        let is_large = missing >= LARGE;
        if !is_large {
            buffer.reserve(chunk);
        }
        let room = buffer.capacity() - buffer.len();
        let limit = if is_large { room.min(missing) } else { room };
        let n = match (&mut *stream).take(limit as u64).read_buf(&mut buffer).await {
            Ok(0) => break,
            Ok(n) => n,
            Err(error) => return End::Eof(Some(error.to_string())),
        };
        // Few and small messages should not hold a large buffer alive.
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
    events.tell(match incoming {
        Incoming::Junk(text) => return junk(&text),
        Incoming::Body(body) => match Frame::parse(body.clone()) {
            Ok(frame) => Event::Received(peer, frame),
            Err(malformed) => {
                Event::Malformed { peer, id: Frame::salvage_id(&body), reason: malformed.to_string() }
            }
        },
    });
}

/// As much of a text as a log should hold of it.
pub(super) fn excerpt(text: &str) -> Cow<'_, str> {
    redact(&text[..text.floor_char_boundary(200)])
}
