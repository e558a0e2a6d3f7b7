//! Faults of editors and servers, played with puppet servers ([`crate::support::puppet`]): each test states a rule
//! that lspool keeps for any behavior of both.

mod copilot;
mod correlation;
mod ending;
mod flow;
mod framing;
mod hanging;
mod items;
mod orphans;
mod reviving;
mod session;
mod starting;
mod stopped;
mod successor;

use std::{process::Command, time::Duration};

use lspool::shell::record::VARIABLE;
use serde_json::{Value, json};

use crate::{
    programs::{ARE_FOREIGN, LSPOOL, PUPPET},
    support::{
        editor::{Pending, TestEditor},
        puppet::{Puppet, PuppetHost},
        real::Sandbox,
    },
};

/// lspool, with an editor in front and puppets behind. The editor is dropped first: it ends what there is.
struct Pair {
    editor: TestEditor,
    host: PuppetHost,
    sandbox: Sandbox,
}

impl Pair {
    /// lspool with a puppet that has not started yet.
    fn new() -> Pair {
        Pair::with("", &[PUPPET])
    }

    /// lspool with this configuration file, in front of this command, or of the configured one.
    fn with(config: &str, command: &[&str]) -> Pair {
        Pair::spawned(config, command, |_| ())
    }

    /// The same, without a recording, which needs memory.
    fn measured_with(config: &str, command: &[&str]) -> Pair {
        Pair::spawned(config, command, |lspool| {
            lspool.env(VARIABLE, "");
        })
    }

    fn spawned(config: &str, command: &[&str], with: impl Fn(&mut Command)) -> Pair {
        let (host, sandbox) = (PuppetHost::new(), Sandbox::new());
        let mut lspool = lspool(&sandbox, config, command);
        host.tie(&mut lspool);
        with(&mut lspool);
        Pair { editor: TestEditor::spawn(lspool), host, sandbox }
    }

    /// The same, after the handshake.
    fn started() -> (Pair, Puppet) {
        let pair = Pair::new();
        let server = pair.handshake();
        (pair, server)
    }

    /// The same, without a recording, which needs memory.
    fn measured() -> (Pair, Puppet) {
        let pair = Pair::measured_with("", &[PUPPET]);
        let server = pair.handshake();
        (pair, server)
    }

    /// lspool in front of a shell with this script. `$PUPPET` is the puppet; the shell and its children ignore
    /// SIGTERM.
    fn stubborn(script: &str) -> Pair {
        let script = format!("trap '' TERM; {}", script.replace("$PUPPET", PUPPET));
        Pair::with("", &["sh", "-c", &script])
    }

    /// The editor starts and the first puppet answers.
    fn handshake(&self) -> Puppet {
        let initialize = self.initialize();
        let server = self.host.accept();
        let asked = server.expect("initialize");
        server.answer(&asked, json!({"capabilities": {"hoverProvider": true}}));
        self.editor.wait(&initialize).expect("the puppet has said yes");
        self.editor.notify("initialized", json!({}));
        server.expect("initialized");
        server
    }

    fn initialize(&self) -> Pending {
        self.editor.request("initialize", json!({"processId": std::process::id(), "capabilities": {}}))
    }

    /// One question and its answer: both ways are open.
    #[track_caller]
    fn check_alive(&self, server: &Puppet) {
        let hover = self.editor.request("textDocument/hover", json!({"alive": true}));
        let asked = server.expect_where("textDocument/hover", |it| it["alive"] == true);
        server.answer(&asked, json!("alive"));
        assert_eq!(self.editor.wait(&hover), Ok(json!("alive")));
    }

    /// lspool reads its editor, with or without a reader of the answers.
    #[track_caller]
    fn check_that_editor_is_read(&self, server: &Puppet) {
        self.editor.notify("fake/are you there", json!({}));
        server.expect("fake/are you there");
    }

    /// `shutdown` and `exit` with an obedient server; checks that no process is left.
    #[track_caller]
    fn end(self, server: &Puppet) {
        let shutdown = self.editor.request("shutdown", Value::Null);
        let asked = server.expect("shutdown");
        server.answer(&asked, Value::Null);
        assert_eq!(self.editor.wait(&shutdown), Ok(Value::Null));
        self.editor.notify_bare("exit");
        server.expect("exit");
        server.exit(0);
        assert_eq!(self.editor.wait_exit().code(), Some(0));
        self.editor.mark().wait_gone(Duration::from_secs(2));
    }

    /// The process id of lspool, as it has it.
    fn pid(&self) -> u32 {
        if !ARE_FOREIGN {
            return self.editor.pid();
        }
        let log = std::fs::read_to_string(self.sandbox.runtime().join("log")).expect("it has begun");
        let (_, pid) = log.split_once(" pid=").expect("its first line says who it is");
        pid.split_whitespace().next().and_then(|it| it.parse().ok()).expect("a number")
    }

    /// Resident memory of lspool at its highest, in KiB.
    fn peak_kib(&self) -> u64 {
        self.editor.mark().process(self.editor.pid()).map_or(0, |it| it.peak_kib())
    }
}

fn lspool(sandbox: &Sandbox, config: &str, command: &[&str]) -> Command {
    let mut lspool = sandbox.command(LSPOOL);
    lspool.args(["--log-level", "debug", "--log-file"]).arg(sandbox.runtime().join("log"));
    if !config.is_empty() {
        let file = sandbox.home().join("lspool.toml");
        std::fs::write(&file, config).expect("the home is writable");
        lspool.arg("--config").arg(file);
    }
    if !command.is_empty() {
        lspool.arg("--").args(command);
    }
    lspool
}

/// A message as it goes over the wire.
fn frame(message: &Value) -> Vec<u8> {
    framed(message.to_string().as_bytes())
}

/// A body with the header that belongs to it.
fn framed(body: &[u8]) -> Vec<u8> {
    [format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes(), body].concat()
}
