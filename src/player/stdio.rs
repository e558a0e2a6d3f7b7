//! Puts a [`Player`] on two streams.

use std::{io, time::Duration};

use bytes::BytesMut;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::Instant,
};
use tokio_util::codec::{Decoder as _, Encoder as _};

use super::Player;
use crate::rpc::{Codec, ErrorCode, Frame, Incoming, RawId};

/// Plays until the client ends it. Nothing that is written makes it stop reading, so neither waits for the other.
/// The exit status, as a language server has it.
pub async fn serve(
    player: &mut Player,
    mut input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
) -> io::Result<u8> {
    let mut codec = Codec::new(Codec::DEFAULT_MAX);
    let (mut heard, mut said) = (BytesMut::new(), BytesMut::new());
    let start = Instant::now();
    loop {
        while let Some(incoming) = codec.decode(&mut heard).map_err(io::Error::other)? {
            hear(player, start.elapsed(), incoming, &mut codec, &mut said)?;
        }
        // Whoever closes its side may still read.
        let now = if player.end().is_some() { Duration::MAX } else { start.elapsed() };
        while let Some(frame) = player.say(now) {
            codec.encode(&frame, &mut said).map_err(io::Error::other)?;
        }
        if let Some(status) = player.end() {
            output.write_all(&said).await?;
            output.flush().await?;
            return Ok(status);
        }
        let due = player.due();
        tokio::select! {
            read = input.read_buf(&mut heard) => {
                if read? == 0 {
                    player.close();
                }
            }
            written = output.write_buf(&mut said), if !said.is_empty() => {
                written?;
                if said.is_empty() {
                    output.flush().await?;
                }
            }
            () = tokio::time::sleep_until(start + due.unwrap_or_default()), if due.is_some() => {}
        }
    }
}

fn hear(
    player: &mut Player,
    now: Duration,
    incoming: Incoming,
    codec: &mut Codec,
    said: &mut BytesMut,
) -> io::Result<()> {
    match incoming {
        Incoming::Junk(text) => player.hear_junk(&text),
        Incoming::Body(body) => match Frame::parse(body.clone()) {
            Ok(frame) => player.hear(now, &frame),
            Err(malformed) => {
                let problem = malformed.to_string();
                player.hear_junk(&problem);
                let id = Frame::salvage_id(&body).map_or_else(RawId::null, |(id, _)| id);
                let answer = Frame::error(id, ErrorCode::InvalidRequest, &problem, None);
                codec.encode(&answer, said).map_err(io::Error::other)?;
            }
        },
    }
    Ok(())
}
