//! One connection to a running lspool.

use std::{collections::VecDeque, fmt, io, path::Path};

use bytes::BytesMut;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::codec::{Decoder as _, Encoder as _};

use crate::{
    rpc::{Codec, ErrorCode, Frame, Incoming, Kind, RawId},
    shell::os::sockets::{Stream, connect},
};

/// The longest answers are logs.
const LONGEST: usize = 16 << 20;

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Error {
    /// lspool does not know the subject, and lists the known ones.
    #[error("{0}")]
    Invalid(String),
    /// lspool refused or failed, with the reason.
    #[error("{0}")]
    Refused(String),
    /// lspool has ended.
    #[error("{0}")]
    Gone(String),
}

fn gone(error: impl fmt::Display) -> Error {
    Error::Gone(error.to_string())
}

/// The connection.
#[derive(Debug)]
pub(super) struct Client {
    stream: Stream,
    codec: Codec,
    buffer: BytesMut,
    /// Messages that came while the client waited for an answer.
    told: VecDeque<Frame>,
    last: u64,
}

impl Client {
    /// Connects to a socket of this user.
    pub(super) async fn connect(socket: &Path) -> io::Result<Client> {
        let stream = connect(socket).await?;
        let (codec, buffer, told) = (Codec::new(LONGEST), BytesMut::new(), VecDeque::new());
        Ok(Client { stream, codec, buffer, told, last: 0 })
    }

    /// Sends a request and waits for the answer.
    pub(super) async fn request(&mut self, method: &str, params: &Value) -> Result<Value, Error> {
        self.last += 1;
        let id = RawId::from(self.last);
        let frame = Frame::request(id.clone(), method, Some(params.to_string().as_bytes()));
        let mut bytes = BytesMut::new();
        self.codec.encode(&frame, &mut bytes).map_err(gone)?;
        self.stream.write_all(&bytes).await.map_err(gone)?;
        loop {
            let frame = self.hear().await?;
            match frame.kind() {
                Kind::Response if frame.id().as_ref() == Some(&id) => return outcome(&frame),
                Kind::Notification => self.told.push_back(frame),
                _ => {}
            }
        }
    }

    /// Reads the next notification: its method and parameters. Cancelling the future loses nothing.
    pub(super) async fn told(&mut self) -> Result<(String, Value), Error> {
        loop {
            let frame = match self.told.pop_front() {
                Some(frame) => frame,
                None => self.hear().await?,
            };
            if let (Kind::Notification, Some(method)) = (frame.kind(), frame.method()) {
                let params = frame.params().and_then(|it| serde_json::from_slice(it).ok());
                return Ok((method.to_owned(), params.unwrap_or_default()));
            }
        }
    }

    async fn hear(&mut self) -> Result<Frame, Error> {
        loop {
            while let Some(incoming) = self.codec.decode(&mut self.buffer).map_err(gone)? {
                if let Incoming::Body(body) = incoming {
                    return Frame::parse(body).map_err(gone);
                }
            }
            if self.stream.read_buf(&mut self.buffer).await.map_err(gone)? == 0 {
                return Err(gone("it has closed the connection"));
            }
        }
    }
}

fn outcome(answer: &Frame) -> Result<Value, Error> {
    if let Some(result) = answer.result() {
        return serde_json::from_slice(result).map_err(gone);
    }
    let error = answer.error_value().and_then(|it| serde_json::from_slice(it).ok());
    let error: Value = error.unwrap_or_default();
    let message = error["message"].as_str().unwrap_or("it gives no reason").to_owned();
    let is_invalid = error["code"].as_i64() == Some(ErrorCode::InvalidParams.code());
    Err(if is_invalid { Error::Invalid(message) } else { Error::Refused(message) })
}
