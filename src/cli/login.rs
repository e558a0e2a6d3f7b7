//! `lspool login`: the device flow of a Copilot server, without an editor.
//!
//! lspool speaks with itself as an editor does. The server keeps the sign-in for all editors of the user.

use std::{
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
    sync::Arc,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};

use super::{
    args::Args,
    client::{Client, PATIENCE, at_once, error_of, initialize, serve_self},
    search::Search,
    tell, world,
};
use crate::{
    core::Proxy,
    rpc::{Frame, Kind, RawId, text},
    shell::{discover::CliServers, record::Recorded},
    util::{json, text::plain},
};

/// Exit status if somebody is signed in.
const SIGNED_IN: u8 = 0;
/// Exit status if nobody is.
const NOT_SIGNED_IN: u8 = 1;
/// Exit status if the server cannot be asked.
const NOTHING: u8 = 2;

/// Signs in.
pub(super) fn run(args: &Args, server: Vec<String>) -> anyhow::Result<ExitCode> {
    let search = Search::new(args, CliServers::one(server));
    let identity = world::identity();
    let world = world::open_world(&identity, &search);
    let folder = search.env.cwd.clone();
    let core = Proxy::new(identity);
    let recorder = search.recorder(args, identity);
    let search = Arc::new(search);
    let editor = async |stream, signals, quit| sign_in(&folder, stream, signals, quit).await;
    match recorder {
        Some(recorder) => serve_self(Recorded::new(core, recorder), world, search, editor),
        None => serve_self(core, world, search, editor),
    }
}

/// How far the sign-in has come: each is a request that has no answer yet.
enum Step {
    Initialize(RawId),
    /// For a code.
    SignIn(RawId),
    /// For the user, who enters the code.
    Finish(RawId),
}

impl Step {
    fn id(&self) -> &RawId {
        match self {
            Step::Initialize(id) | Step::SignIn(id) | Step::Finish(id) => id,
        }
    }
}

async fn sign_in(
    folder: &Path,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    mut signals: mpsc::Receiver<i32>,
    quit: mpsc::Sender<i32>,
) -> io::Result<u8> {
    let mut client = Client::new(stream);
    let mut step = Step::Initialize(client.ask("initialize", &initialize(folder)).await?);
    let status = loop {
        let frame = tokio::select! {
            heard = client.hear() => heard?,
            Some(signal) = signals.recv() => {
                quit.send(signal).await.ok();
                return Ok(u8::try_from(128 + signal).unwrap_or(u8::MAX));
            }
        };
        let params = frame.params().unwrap_or(b"{}");
        match (frame.kind(), frame.id(), frame.method()) {
            (Kind::Request, Some(id), Some(method)) => {
                let answer = at_once(method, params).unwrap_or(Value::Null);
                client.answer(id, &answer).await?;
            }
            (Kind::Response, Some(id), _) if id == *step.id() => {
                match next(&mut client, &step, &frame).await? {
                    Ok(next) => step = next,
                    Err(status) => break status,
                }
            }
            _ => {}
        }
    };
    client.leave(PATIENCE).await;
    Ok(status)
}

/// What follows an answer: the next step, or the exit status.
async fn next<S: AsyncRead + AsyncWrite + Unpin>(
    client: &mut Client<S>,
    step: &Step,
    answer: &Frame,
) -> io::Result<Result<Step, u8>> {
    if let Some(error) = error_of(answer) {
        tell(&plain(&error));
        let is_early = matches!(step, Step::Initialize(_));
        return Ok(Err(if is_early { NOTHING } else { NOT_SIGNED_IN }));
    }
    let result = answer.result().unwrap_or(b"{}");
    Ok(match step {
        Step::Initialize(_) => {
            client.notify("initialized", &json!({})).await?;
            Ok(Step::SignIn(client.ask("signIn", &json!({})).await?))
        }
        Step::SignIn(_) => match [["userCode"], ["verificationUri"]].map(|it| text(result, &it)) {
            [Some(code), Some(uri)] => {
                show(&format!(
                    "Open {uri} in a browser and enter the code {code}",
                    uri = plain(&uri),
                    code = plain(&code)
                ))?;
                let command = json::read::<Value>(result).unwrap_or_default()["command"].take();
                Ok(Step::Finish(client.ask("workspace/executeCommand", &command).await?))
            }
            _ => Err(end(result)?),
        },
        Step::Finish(_) => Err(end(result)?),
    })
}

/// Says who is signed in, if anybody is.
fn end(result: &[u8]) -> io::Result<u8> {
    let status = text(result, &["status"]).unwrap_or_default();
    let user = text(result, &["user"]).map(|it| format!(" as {}", plain(&it))).unwrap_or_default();
    match status.as_str() {
        "OK" | "MaybeOK" => show(&format!("signed in{user}")).map(|()| SIGNED_IN),
        "AlreadySignedIn" => show(&format!("already signed in{user}")).map(|()| SIGNED_IN),
        other => {
            tell(&format!("not signed in: {}", plain(other)));
            Ok(NOT_SIGNED_IN)
        }
    }
}

fn show(line: &str) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{line}")?;
    out.flush()
}
