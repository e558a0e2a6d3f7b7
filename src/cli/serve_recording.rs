//! `lspool serve-recording`: a language server from a recording, on stdin and stdout.
//!
//! Puts a [`Player`] on streams, and reports how its client differed from the recorded one.

use std::{
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
    time::Duration,
};

use anyhow::Context as _;
use bytes::BytesMut;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::Instant,
};
use tokio_util::codec::{Decoder as _, Encoder as _};

use super::{replay, tell, world};
use crate::{
    player::{self, Player, Script, Speed},
    recording::source::{EVERY, dialogue},
    rpc::{Codec, ErrorCode, Frame, Incoming, RawId},
    shell::stdio,
};

/// Errors contain the name of the file.
pub(super) fn run(
    file: Option<&Path>,
    process: Option<&str>,
    speed: Speed,
    is_strict: bool,
) -> anyhow::Result<ExitCode> {
    let name = file.map_or_else(|| "the session of lspool".to_owned(), |it| it.display().to_string());
    let dialogue = match file {
        Some(file) => dialogue(replay::open(file)?, process),
        None => dialogue(player::SESSION.as_bytes(), process.or(Some(EVERY))),
    };
    let dialogue = dialogue.with_context(|| name.clone())?;
    if let Some(note) = &dialogue.note {
        tell(&format!("{name}: {note}"));
    }
    let script = Script::new(dialogue).with_context(|| name.clone())?;
    let mut player = Player::new(script, speed);
    let runtime = world::runtime()?;
    let played = runtime.block_on(async {
        let stdio::Stdio { input, output, modes } = stdio::open();
        let status = serve(&mut player, input, output).await;
        drop(modes);
        status
    });
    runtime.shutdown_background();
    let status = played.context("lost the connection to the client")?;
    let deviations = player.deviations();
    if !is_strict || deviations.is_empty() {
        return Ok(ExitCode::from(status));
    }
    tell(&format!("the client differed from the one in {name}:"));
    for it in deviations {
        writeln!(io::stderr(), "  {}", it.replace('\n', "\n  ")).ok();
    }
    Ok(ExitCode::FAILURE)
}

/// Plays until the client ends it. Reading never waits for writing, so neither side waits for the other. Returns the
/// exit status of a language server.
async fn serve(
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
        // A client that has closed its side may still read.
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
