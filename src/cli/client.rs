//! Frames to and from lspool, as an editor sends and gets them.

use std::{io, time::Duration};

use bytes::BytesMut;
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};
use tokio_util::codec::{Decoder as _, Encoder as _};

use crate::rpc::{Codec, Frame, Incoming, Kind, Patch, RawId};

/// A message of lspool is as long as one of its server.
const LONGEST: usize = 256 << 20;

/// A connection to lspool.
#[derive(Debug)]
pub(super) struct Client<S> {
    stream: S,
    codec: Codec,
    buffer: BytesMut,
    last: u64,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(super) fn new(stream: S) -> Client<S> {
        Client { stream, codec: Codec::new(LONGEST), buffer: BytesMut::new(), last: 0 }
    }

    /// Sends a request; gives its id.
    pub(super) async fn ask(&mut self, method: &str, params: &Value) -> io::Result<RawId> {
        self.last += 1;
        let id = RawId::from(self.last);
        let frame = Frame::request(id.clone(), method, Some(params.to_string().as_bytes()));
        self.send(&frame).await.map(|()| id)
    }

    pub(super) async fn notify(&mut self, method: &str, params: &Value) -> io::Result<()> {
        self.send(&Frame::notification(method, Some(params.to_string().as_bytes()))).await
    }

    /// Sends a notification about a request.
    pub(super) async fn notify_raw(&mut self, method: &str, id: &RawId) -> io::Result<()> {
        let params = Patch::of(b"{}").set("id", id.as_bytes()).finish();
        self.send(&Frame::notification(method, Some(&params))).await
    }

    pub(super) async fn answer(&mut self, id: RawId, result: &Value) -> io::Result<()> {
        self.send(&Frame::response(id, result.to_string().as_bytes())).await
    }

    async fn send(&mut self, frame: &Frame) -> io::Result<()> {
        let mut bytes = BytesMut::new();
        self.codec.encode(frame, &mut bytes).map_err(io::Error::other)?;
        self.stream.write_all(&bytes).await
    }

    /// Reads the next message. Cancelling the future loses nothing.
    pub(super) async fn hear(&mut self) -> io::Result<Frame> {
        loop {
            while let Some(incoming) = self.codec.decode(&mut self.buffer).map_err(io::Error::other)? {
                if let Incoming::Body(body) = incoming {
                    return Frame::parse(body).map_err(io::Error::other);
                }
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "lspool has ended"));
            }
        }
    }

    /// Ends the session in order, within the time.
    pub(super) async fn leave(&mut self, patience: Duration) {
        let leaving = async {
            let id = self.ask("shutdown", &Value::Null).await?;
            loop {
                let frame = self.hear().await?;
                if frame.kind() == Kind::Response && frame.id().as_ref() == Some(&id) {
                    return self.send(&Frame::notification("exit", None)).await;
                }
            }
        };
        if let Ok(Err(error)) = timeout(patience, leaving).await {
            tracing::debug!(%error, "lspool ended before the connection did");
        }
    }
}
