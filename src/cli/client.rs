//! lspool where a command is its editor: frames to and from it, what any such editor says, and both in one process.

use std::{io, path::Path, process::ExitCode, sync::Arc, time::Duration};

use bytes::BytesMut;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream},
    sync::mpsc,
    task::spawn_local,
    time::timeout,
};
use tokio_util::codec::{Decoder as _, Encoder as _};

use super::world;
use crate::{
    rpc::{Codec, Frame, Incoming, Kind, Patch, RawId, file_uri, text},
    shell::{
        Settings,
        driver::{self, Driver, Search},
        signals,
        system::System,
    },
    util::json,
};

/// How many bytes wait between lspool and its own editor.
const PIPE: usize = 64 << 10;

/// How long lspool may take to end.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Serves an editor in this process until it is done. The editor gets the signals of the user, and may send them on.
pub(super) fn serve_self(
    core: impl driver::Core + 'static,
    world: System,
    search: Arc<dyn Search>,
    editor: impl AsyncFnOnce(DuplexStream, mpsc::Receiver<i32>, mpsc::Sender<i32>) -> io::Result<u8>,
) -> anyhow::Result<ExitCode> {
    let runtime = world::runtime()?;
    let done = runtime.block_on(async {
        let signals = signals::listen();
        let editor = async |stream, quit| editor(stream, signals, quit).await;
        serve_within(core, world, (search, Settings::default()), editor).await
    });
    runtime.shutdown_background();
    Ok(ExitCode::from(done?))
}

/// The same in a runtime that has begun. What is sent to the last parameter of the editor ends lspool like a signal.
pub(super) async fn serve_within(
    core: impl driver::Core + 'static,
    world: System,
    (search, settings): (Arc<dyn Search>, Settings),
    editor: impl AsyncFnOnce(DuplexStream, mpsc::Sender<i32>) -> io::Result<u8>,
) -> io::Result<u8> {
    let driver = Driver::new(core, world, search, settings);
    let (near, far) = tokio::io::duplex(PIPE);
    let (input, output) = tokio::io::split(far);
    let (quit, signals) = mpsc::channel(1);
    let driver = spawn_local(driver.run(Box::new(input), Box::new(output), signals));
    let done = editor(near, quit).await;
    // Its processes end with it.
    driver.await.ok();
    done
}

/// The parameters of `initialize` for a folder.
pub(super) fn initialize(folder: &Path) -> Value {
    let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy();
    let me = json!({"name": "lspool", "version": env!("CARGO_PKG_VERSION")});
    let uri = file_uri(folder);
    json!({
        "processId": null,
        "clientInfo": me,
        "rootUri": uri,
        "workspaceFolders": [{"uri": uri, "name": name}],
        "capabilities": {"workspace": {"workspaceFolders": true}},
        "initializationOptions": {"editorInfo": me, "editorPluginInfo": me},
    })
}

/// The answer to a request that asks no person.
pub(super) fn at_once(method: &str, params: &[u8]) -> Option<Value> {
    let params = || json::read::<Value>(params).unwrap_or_default();
    match method {
        "conversation/invokeClientToolConfirmation" => None,
        "conversation/invokeClientTool" => {
            let what = "there is no editor here that has this tool";
            Some(json!([{"content": [{"value": what}], "status": "error"}, null]))
        }
        "workspace/configuration" => {
            Some(params()["items"].as_array().into_iter().flatten().map(|_| Value::Null).collect())
        }
        "window/showDocument" => Some(json!({"success": false})),
        "workspace/applyEdit" => Some(json!({"applied": false})),
        _ => Some(Value::Null),
    }
}

/// Why a request has failed, if it has.
pub(super) fn error_of(answer: &Frame) -> Option<String> {
    let error = answer.error_value()?;
    Some(text(error, &["message"]).unwrap_or_else(|| "it says nothing of why".to_owned()))
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_ask_nobody_are_answered_at_once() {
        let items = json!({"items": [{}, {}]}).to_string();
        assert_eq!(at_once("workspace/configuration", items.as_bytes()), Some(json!([null, null])));
        assert_eq!(at_once("client/registerCapability", b"{}"), Some(Value::Null));
        assert_eq!(at_once("conversation/invokeClientToolConfirmation", b"{}"), None);
    }
}
