//! The editor of the demo, and its folder.

use std::{env, fs, io, path::PathBuf, process::Stdio, time::Duration};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use tokio::{
    io::{Join, join},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use crate::{
    cli::client::Client,
    rpc::{Frame, Kind, RawId, file_uri},
    shell::os::files::private_folder,
    shell::os::processes,
};

/// How long a step may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A folder for everything that the demo writes. Dropping it removes the folder.
#[derive(Debug)]
pub(super) struct Stage {
    folder: PathBuf,
    program: PathBuf,
}

impl Stage {
    pub(super) fn new() -> anyhow::Result<Stage> {
        let program = env::current_exe().context("cannot find the program itself")?;
        let folder = env::temp_dir().join(format!("lspool-demo-{}", std::process::id()));
        let stage = Stage { folder, program };
        for folder in [stage.folder.clone(), stage.workspace(), stage.folder.join("run")] {
            let made = private_folder().create(&folder);
            made.with_context(|| format!("cannot make {}", folder.display()))?;
        }
        Ok(stage)
    }

    fn workspace(&self) -> PathBuf {
        self.folder.join("workspace")
    }

    fn write(&self, name: &str, text: &str) -> anyhow::Result<PathBuf> {
        let file = self.folder.join(name);
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(file)
    }

    /// The command that starts lspool with a recording as a server of this kind.
    fn command(&self, recording: &str, kind: &str) -> anyhow::Result<Command> {
        let section = self.program.file_stem().unwrap_or_default().to_string_lossy();
        let config = format!("[server.{}]\nkind = \"{kind}\"\n", json!(section));
        let config = self.write(&format!("{kind}.toml"), &config)?;
        let recording = self.write(&format!("{kind}.jsonl"), recording)?;
        let mut command = Command::new(&self.program);
        command.arg("--config").arg(config).arg("--").arg(&self.program);
        command.arg("serve-recording").arg("--proc=*").arg(recording);
        // The demo must not use the user's files or lspools.
        command.env_remove("LSPOOL_RECORD");
        for name in ["HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"] {
            command.env(name, &self.folder);
        }
        for name in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"] {
            command.env_remove(name);
        }
        command.env("XDG_RUNTIME_DIR", self.folder.join("run")).current_dir(self.workspace());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        Ok(command)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::warn!(%error, "could not remove the folder of the demo");
        }
    }
}

/// Kills a process.
pub(super) fn kill(pid: u32) -> anyhow::Result<()> {
    processes::kill(pid).context("cannot kill the server of the demo")
}

/// An editor that sends the messages of a recorded one.
pub(super) struct Editor {
    pub(super) client: Client<Join<ChildStdout, ChildStdin>>,
    child: Child,
    /// The messages of the recorded editor, for this workspace.
    said: Vec<Value>,
    /// The reply of an agent so far.
    pub(super) reply: String,
    /// How many turns have begun and ended.
    pub(super) n_begins: usize,
    pub(super) n_ends: usize,
    /// How many tools were called.
    pub(super) n_calls: usize,
    /// Errors that a user would see.
    errors: Vec<String>,
}

impl Editor {
    /// Starts lspool with a recording, and initializes it.
    pub(super) async fn start(stage: &Stage, recording: &str, kind: &str) -> anyhow::Result<Editor> {
        let mut child = stage.command(recording, kind)?.spawn().context("cannot start lspool")?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (input, output) = input.zip(output).context("lspool has no streams")?;
        let workspace = file_uri(&stage.workspace());
        let lines = recording.replace("file:///workspace", &workspace);
        let lines = lines.lines().filter_map(|it| serde_json::from_str::<Value>(it).ok());
        let said = lines.filter(|it| it["dir"] == "c2s").map(|mut it| it["msg"].take()).collect();
        let client = Client::new(join(output, input));
        let (reply, errors) = (String::new(), Vec::new());
        let mut editor = Editor { client, child, said, reply, n_begins: 0, n_ends: 0, n_calls: 0, errors };
        let mut initialize = editor.recorded("initialize");
        initialize["processId"] = json!(std::process::id());
        editor.call("initialize", &initialize).await?;
        editor.client.notify("initialized", &json!({})).await?;
        Ok(editor)
    }

    /// The recorded parameters of the first message of this method, without ids that lspool has added.
    pub(super) fn recorded(&self, method: &str) -> Value {
        let message = self.said.iter().find(|it| it["method"] == method);
        let mut params = message.map(|it| it["params"].clone()).unwrap_or_default();
        if let Some(members) = params.as_object_mut().filter(|_| method == "conversation/create") {
            members.remove("conversationId");
            members["turns"][0].as_object_mut().and_then(|it| it.remove("turnId"));
        }
        params
    }

    /// Sends a request and waits for the answer.
    pub(super) async fn call(&mut self, method: &str, params: &Value) -> anyhow::Result<Value> {
        let id = self.client.ask(method, params).await?;
        self.answer(&id).await
    }

    /// Waits for the answer to a request.
    pub(super) async fn answer(&mut self, id: &RawId) -> anyhow::Result<Value> {
        let is_it = |it: &Frame| it.kind() == Kind::Response && it.id().as_ref() == Some(id);
        let frame = self.hear(is_it).await?;
        match frame.result() {
            Some(result) => Ok(serde_json::from_slice(result)?),
            None => {
                bail!("an error answer: {}", String::from_utf8_lossy(frame.error_value().unwrap_or(b"none")))
            }
        }
    }

    /// Waits for the diagnostics of a document.
    pub(super) async fn diagnostics(&mut self) -> anyhow::Result<Vec<String>> {
        let frame = self.hear(|it| it.method() == Some("textDocument/publishDiagnostics")).await?;
        let params = params(&frame);
        let messages = params["diagnostics"].as_array().into_iter().flatten();
        Ok(messages.filter_map(|it| it["message"].as_str().map(ToOwned::to_owned)).collect())
    }

    /// Waits for a tool call: its id and the name of the tool.
    pub(super) async fn tool_call(&mut self) -> anyhow::Result<(RawId, String)> {
        let frame = self.hear(|it| it.method() == Some("conversation/invokeClientTool")).await?;
        let name = params(&frame)["name"].as_str().unwrap_or_default().to_owned();
        Ok((frame.id().context("a call has an id")?, name))
    }

    /// The process of the server, once it is ready.
    pub(super) async fn server(&mut self) -> anyhow::Result<u32> {
        let status = self.call("lspool/status", &json!({})).await?;
        let pid = status["backends"][0]["pid"].as_u64().and_then(|it| u32::try_from(it).ok());
        pid.context("the server has no process")
    }

    /// Ends the session. True if the user has seen no error, and lspool exited with 0.
    pub(super) async fn leave(&mut self) -> anyhow::Result<bool> {
        self.client.leave(PATIENCE).await;
        let status = timeout(PATIENCE, self.child.wait()).await.context("lspool does not end")??;
        Ok(self.errors.is_empty() && status.success())
    }

    /// Reads messages up to the wanted one, and notes all others.
    async fn hear(&mut self, is_wanted: impl Fn(&Frame) -> bool) -> anyhow::Result<Frame> {
        loop {
            let heard = timeout(PATIENCE, self.client.hear()).await;
            let frame = heard.map_err(|_| io::Error::from(io::ErrorKind::TimedOut)).and_then(|it| it);
            let frame = frame.context("lspool does not answer")?;
            self.note(&frame);
            if is_wanted(&frame) {
                return Ok(frame);
            }
        }
    }

    fn note(&mut self, frame: &Frame) {
        match frame.method() {
            Some("conversation/invokeClientTool") => self.n_calls += 1,
            Some("window/showMessage") => {
                let params = params(frame);
                if params["type"] == 1 {
                    self.errors.push(params["message"].to_string());
                }
            }
            Some("$/progress") => {
                let value = &params(frame)["value"];
                match value["kind"].as_str() {
                    Some("begin") => self.n_begins += 1,
                    Some("end") => self.n_ends += 1,
                    _ => {
                        let rounds = value["editAgentRounds"].as_array().into_iter().flatten();
                        self.reply.extend(rounds.filter_map(|it| it["reply"].as_str()));
                    }
                }
            }
            _ => {}
        }
    }
}

fn params(frame: &Frame) -> Value {
    frame.params().and_then(|it| serde_json::from_slice(it).ok()).unwrap_or_default()
}
