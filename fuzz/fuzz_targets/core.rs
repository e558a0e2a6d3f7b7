//! The core goes on, and its tables agree, whatever its peers and the system do.
//!
//! The input is read as steps. Messages are mostly made of the words that the core knows, put together in any way,
//! and sometimes of bytes as they come.
#![no_main]

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use libfuzzer_sys::{
    arbitrary::{Result, Unstructured},
    fuzz_target,
};
use lspool::{
    config::{AgentConfig, AgentSource, Config, RouteConfig, ServerConfig, ServerKind},
    core::{
        Identity, Proxy,
        event::{ClientId, Effect, Event, Exit, Launch, Peer, Prepared, ProcessId, SpawnFailure},
    },
    rpc::{Frame, Kind, RawId},
};

const EDITOR: Peer = Peer::Client(ClientId::EDITOR);

fuzz_target!(|input: &[u8]| {
    let mut input = Unstructured::new(input);
    let Ok(mut world) = World::new(&mut input) else { return };
    while !input.is_empty() && !world.over {
        if world.step(&mut input).is_err() {
            break;
        }
    }
});

#[derive(Clone, Copy, PartialEq)]
enum Life {
    Spawning,
    /// Nothing has been sent to it.
    Fresh,
    Running,
    Gone,
}

struct World {
    core: Proxy,
    now: Instant,
    server: ServerConfig,
    preparing: bool,
    processes: BTreeMap<ProcessId, Life>,
    /// Who was asked something that is not answered, and under which id.
    asked: Vec<(Peer, RawId)>,
    /// Transcripts that are to be written.
    to_write: Vec<(ProcessId, String)>,
    over: bool,
}

impl World {
    fn new(input: &mut Unstructured<'_>) -> Result<World> {
        let kind = if input.ratio(7, 8)? { ServerKind::Copilot } else { ServerKind::Generic };
        let server = ServerConfig {
            kind: Some(kind),
            max_processes: input.int_in_range(1..=3)?,
            idle_timeout: Duration::from_secs(*input.choose(&[0, 300])?),
            ..ServerConfig::default()
        };
        let mut world = World {
            core: Proxy::new(Identity { pid: 77, started: 5 }),
            now: Instant::now(),
            server,
            preparing: false,
            processes: BTreeMap::new(),
            asked: Vec::new(),
            to_write: Vec::new(),
            over: false,
        };
        if input.ratio(7, 8)? {
            world.start_up();
        }
        Ok(world)
    }

    fn start_up(&mut self) {
        let first = ProcessId {
            backend: lspool::core::event::BackendId(0),
            generation: lspool::core::event::Generation(1),
        };
        let said = |text: &str| Frame::parse(Bytes::copy_from_slice(text.as_bytes())).expect("a message");
        self.event(Event::Received(
            EDITOR,
            said(r#"{"id":0,"method":"initialize","params":{"processId":1}}"#),
        ));
        self.prepared();
        self.life(first, Life::Fresh);
        self.event(Event::Spawned { process: first, pid: 1 });
        let answer = said(r#"{"id":1,"result":{"capabilities":{}}}"#);
        self.event(Event::Received(Peer::Backend(first), answer));
        self.event(Event::Received(EDITOR, said(r#"{"method":"initialized","params":{}}"#)));
    }

    fn step(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        match input.int_in_range(0..=15)? {
            0..=5 => {
                let peer = self.peer(input)?;
                let body = message(input)?;
                self.receive(peer, body.into());
            }
            6..=10 => self.answer(input)?,
            11 => {
                let peer = self.peer(input)?;
                let len = input.int_in_range(0..=200)?.min(input.len());
                let body = Bytes::copy_from_slice(input.bytes(len)?);
                self.receive(peer, body);
            }
            12 => self.serve(),
            13 => self.system(input)?,
            14 => self.pass(Duration::from_secs(*input.choose(&[0, 1, 3, 40, 400])?)),
            _ => self.end(input)?,
        }
        Ok(())
    }

    /// The editor, or a process that runs.
    fn peer(&self, input: &mut Unstructured<'_>) -> Result<Peer> {
        let running = self.with(|it| matches!(it, Life::Fresh | Life::Running));
        if running.is_empty() || input.ratio(1, 2)? {
            return Ok(EDITOR);
        }
        Ok(Peer::Backend(*input.choose(&running)?))
    }

    fn with(&self, wanted: impl Fn(Life) -> bool) -> Vec<ProcessId> {
        self.processes.iter().filter(|(_, life)| wanted(**life)).map(|(id, _)| *id).collect()
    }

    fn receive(&mut self, peer: Peer, body: Bytes) {
        match Frame::parse(body.clone()) {
            Ok(frame) => self.event(Event::Received(peer, frame)),
            Err(error) => {
                let id = Frame::salvage_id(&body);
                self.event(Event::Malformed { peer, id, reason: error.to_string() });
            }
        }
    }

    /// Somebody answers a question, mostly the one who was asked.
    fn answer(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        if self.asked.is_empty() {
            return Ok(());
        }
        let at = input.choose_index(self.asked.len())?;
        let (peer, id) = self.asked[at].clone();
        let peer = if input.ratio(15, 16)? { peer } else { self.peer(input)? };
        if input.ratio(15, 16)? {
            self.asked.remove(at);
        }
        let body = match input.ratio(3, 4)? {
            true => format!(r#"{{"id":{id},"result":{}}}"#, value(input, 3)?),
            false => format!(r#"{{"id":{id},"error":{}}}"#, value(input, 1)?),
        };
        let wanted = |it: Life| matches!(it, Life::Fresh | Life::Running);
        if !matches!(peer, Peer::Backend(process) if !wanted(self.processes[&process])) {
            self.receive(peer, body.into());
        }
        Ok(())
    }

    /// Processes start, and answer what they were asked with an empty list or object, for a while.
    fn serve(&mut self) {
        for _ in 0..8 {
            self.prepared();
            while self.written(true) {}
            for process in self.with(|it| it == Life::Spawning) {
                self.life(process, Life::Fresh);
                self.event(Event::Spawned { process, pid: 1 });
            }
            for (peer, id) in std::mem::take(&mut self.asked) {
                match peer {
                    Peer::Backend(process) if self.processes[&process] == Life::Running => {
                        self.receive(peer, format!(r#"{{"id":{id},"result":[]}}"#).into());
                    }
                    _ => self.asked.push((peer, id)),
                }
            }
        }
    }

    /// Whether there was a transcript to write.
    fn written(&mut self, succeeds: bool) -> bool {
        let Some((process, conversation)) = self.to_write.pop() else { return false };
        let folder = if succeeds { Ok("/private".into()) } else { Err("no room".to_owned()) };
        self.event(Event::TranscriptWritten { process, conversation, folder });
        true
    }

    fn system(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let spawning = self.with(|it| it == Life::Spawning);
        let running = self.with(|it| matches!(it, Life::Fresh | Life::Running));
        let known: Vec<ProcessId> = self.processes.keys().copied().collect();
        match input.int_in_range(0..=6)? {
            0 => self.prepared(),
            6 => drop(self.written(input.arbitrary()?)),
            1 if !spawning.is_empty() => {
                let process = *input.choose(&spawning)?;
                self.life(process, Life::Fresh);
                self.event(Event::Spawned { process, pid: 1 });
            }
            2 if !spawning.is_empty() => {
                let process = *input.choose(&spawning)?;
                self.life(process, Life::Gone);
                let failure =
                    SpawnFailure { permanent: input.arbitrary()?, message: "no".to_owned(), moved: None };
                self.event(Event::SpawnFailed(process, failure));
            }
            3 if !running.is_empty() => {
                let process = *input.choose(&running)?;
                self.life(process, Life::Gone);
                self.event(Event::Exited { process, exit: Exit::Unknown, stderr: String::new() });
            }
            4 if !known.is_empty() => {
                let error = input.ratio(1, 2)?.then(|| "odd".to_owned());
                self.event(Event::Closed { peer: Peer::Backend(*input.choose(&known)?), error });
            }
            5 if !known.is_empty() => self.event(Event::Stalled(Peer::Backend(*input.choose(&known)?))),
            _ => {}
        }
        Ok(())
    }

    /// What ends the run, sooner or later.
    fn end(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        match input.int_in_range(0..=63)? {
            0 => self.event(Event::Closed { peer: EDITOR, error: None }),
            1 => self.event(Event::Closed { peer: EDITOR, error: Some("odd".to_owned()) }),
            2 => self.event(Event::Unwritable(ClientId::EDITOR)),
            3 => self.event(Event::Stalled(EDITOR)),
            4 => self.event(Event::EditorGone),
            5 => self.event(Event::Quit(15)),
            6 if std::mem::take(&mut self.preparing) => self.event(Event::Prepared(Err("no".to_owned()))),
            7 => self.receive(EDITOR, Bytes::from_static(br#"{"id":"end","method":"shutdown"}"#)),
            8 => self.receive(EDITOR, Bytes::from_static(br#"{"method":"exit"}"#)),
            _ => {}
        }
        Ok(())
    }

    fn prepared(&mut self) {
        if !std::mem::take(&mut self.preparing) {
            return;
        }
        let mut config = Config::default();
        let agent =
            AgentConfig { disallowed_tools: vec!["a".to_owned()], ..AgentConfig::of(AgentSource::User) };
        config.agents.insert("most".to_owned(), agent);
        let route = RouteConfig {
            chat_mode: Some("Agent".to_owned()),
            agent: "most".to_owned(),
            ..RouteConfig::default()
        };
        config.routes.push(route);
        let launch = Launch {
            program: "/bin/s".into(),
            args: vec![],
            env: vec![],
            cwd: None,
            max_message: 1 << 20,
            write_stall: std::time::Duration::from_mins(1),
            root: None,
            remote: None,
            share: None,
        };
        self.event(Event::Prepared(Ok(Box::new(Prepared {
            config: Arc::new(config),
            name: "copilot".to_owned(),
            server: self.server.clone(),
            launch: Arc::new(launch),
            warnings: vec!["odd".to_owned()],
            transcripts: None,
            missing: None,
            group: None,
            has_code_tools: false,
        }))));
    }

    fn life(&mut self, process: ProcessId, life: Life) {
        self.processes.insert(process, life);
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        let mut n = 0;
        while let Some((at, why)) = self.core.poll_timeout().filter(|(at, _)| *at <= end) {
            n += 1;
            assert!(n < 100, "due again and again: {why}");
            self.now = at.max(self.now);
            let mut out = Vec::new();
            self.core.handle_timeout(self.now, &mut out);
            self.carry_out(out);
        }
        self.now = end;
    }

    fn event(&mut self, event: Event) {
        if self.over {
            return;
        }
        let mut out = Vec::new();
        self.core.handle(self.now, event, &mut out);
        self.carry_out(out);
        self.pass(Duration::ZERO);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            assert!(!self.over, "an effect after the exit");
            match effect {
                Effect::Send(peer, frame) => self.sent(peer, &frame),
                Effect::Prepare { .. } => self.preparing = true,
                Effect::WatchEditor(_) | Effect::RemoveTranscripts(_) | Effect::RemoveTranscript { .. } => {}
                Effect::RunTool { .. }
                | Effect::CancelTool(_)
                | Effect::Look(_)
                | Effect::Write(_)
                | Effect::Fetch(_)
                | Effect::ReadFile(_)
                | Effect::HangUp(_) => {
                    unreachable!("there are none")
                }
                Effect::FindRoot(_) | Effect::Recall(_) | Effect::Remember(..) => {
                    unreachable!("there is no group")
                }
                Effect::Adopt { .. } => unreachable!("nothing is kept ready"),
                Effect::LoadTeams { .. } | Effect::WriteTeam { .. } | Effect::RemoveTeam { .. } => {}
                Effect::Measure(_) | Effect::Logs { .. } | Effect::KeepMode(_) => {}
                Effect::WriteTranscript { process, conversation, .. } => {
                    assert!(!conversation.contains(['/', '\\']), "no plain file name: {conversation}");
                    self.to_write.push((process, conversation));
                }
                Effect::Spawn(process, _) => {
                    let others = self.with(|it| it != Life::Gone);
                    assert!(others.len() < self.server.max_processes, "too many processes");
                    assert!(others.iter().all(|it| it.backend != process.backend), "two of one backend");
                    assert!(self.processes.insert(process, Life::Spawning).is_none(), "spawned twice");
                }
                Effect::Terminate(process) | Effect::CloseInput(process) => {
                    assert!(self.processes[&process] != Life::Gone, "ends what is gone");
                }
                Effect::AwaitDrained(process) => {
                    assert!(self.processes[&process] != Life::Gone, "waits for what is gone");
                }
                Effect::Exit(_) => self.over = true,
            }
        }
        if let Err(broken) = self.core.check() {
            panic!("{broken}");
        }
    }

    fn sent(&mut self, peer: Peer, frame: &Frame) {
        let again = Frame::parse(frame.to_bytes()).expect("what is sent is a message");
        assert_eq!((again.kind(), again.id()), (frame.kind(), frame.id()));
        if let Peer::Backend(process) = peer {
            match self.processes[&process] {
                Life::Fresh => assert_eq!(frame.method(), Some("initialize")),
                Life::Running => {}
                Life::Spawning | Life::Gone => panic!("{frame:?} is sent to a process that does not run"),
            }
            self.life(process, Life::Running);
        }
        if frame.kind() == Kind::Request {
            self.asked.push((peer, frame.id().expect("a request has an id")));
        }
    }
}

/// A message of words that mean something.
fn message(input: &mut Unstructured<'_>) -> Result<String> {
    let method = input.choose(METHODS)?;
    let id = *input.choose(IDS)?;
    let params = match input.ratio(15, 16)? {
        true => object(input, 4)?,
        false => value(input, 2)?,
    };
    Ok(match input.ratio(2, 3)? {
        true => format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#),
        false => format!(r#"{{"params":{params},"method":"{method}"}}"#),
    })
}

fn object(input: &mut Unstructured<'_>, depth: u8) -> Result<String> {
    let mut members = Vec::new();
    for _ in 0..input.int_in_range(0..=5)? {
        let key = *input.choose(KEYS)?;
        members.push(format!(r#""{key}":{}"#, value(input, depth - 1)?));
    }
    Ok(format!("{{{}}}", members.join(",")))
}

fn value(input: &mut Unstructured<'_>, depth: u8) -> Result<String> {
    match input.int_in_range(0..=7)? {
        0 | 1 if depth > 0 => object(input, depth),
        2 | 3 if depth > 0 => {
            let n = input.int_in_range(0..=3)?;
            let items: Result<Vec<String>> = (0..n).map(|_| value(input, depth - 1)).collect();
            Ok(format!("[{}]", items?.join(",")))
        }
        _ => Ok((*input.choose(ATOMS)?).to_owned()),
    }
}

const IDS: &[&str] = &["0", "1", "2", "\"0\"", "\"1\"", "\"\\u0031\"", "-1", "1e2"];

const ATOMS: &[&str] = &[
    "0",
    "1",
    "2",
    "7",
    "4711",
    "-1",
    "1.5",
    "null",
    "true",
    "false",
    "\"\"",
    "\"0\"",
    "\"c\"",
    "\"\\u0063\"",
    "\"4711\"",
    "\"t\"",
    "\"a\"",
    "\"b\"",
    "\"*\"",
    "\"ide\"",
    "\"most\"",
    "\"Agent\"",
    "\"begin\"",
    "\"report\"",
    "\"end\"",
    "\"copilot.a\"",
    "\"copilot-editor.a\"",
    "\"disabled\"",
    "\"enabled\"",
    "\"file:///u\"",
    "\"x\\ny\"",
    "\"{\\\"m\\\":{}}\"",
    "\"github.copilot\"",
    "\"github.copilot.finishDeviceFlow\"",
    "\"apply_patch\"",
    "\"utf-8\"",
    "\"insert_edit_into_file\"",
];

const KEYS: &[&str] = &[
    "conversationId",
    "lspool",
    "tools",
    "agent",
    "workDoneToken",
    "partialResultToken",
    "token",
    "turnId",
    "parentTurnId",
    "value",
    "kind",
    "id",
    "name",
    "status",
    "toolIds",
    "toolCallId",
    "toolCalls",
    "editAgentRounds",
    "input",
    "mcpServerName",
    "mcpToolName",
    "textDocument",
    "notebookDocument",
    "uri",
    "version",
    "text",
    "contentChanges",
    "range",
    "start",
    "line",
    "character",
    "settings",
    "github.copilot",
    "github",
    "copilot",
    "mcp",
    "items",
    "section",
    "event",
    "added",
    "removed",
    "registrations",
    "unregisterations",
    "method",
    "registerOptions",
    "processId",
    "initializationOptions",
    "copilotCapabilities",
    "subAgent",
    "capabilities",
    "positionEncoding",
    "command",
    "servers",
    "_status",
    "customChatModeId",
    "chatMode",
    "turns",
    "model",
    "\\u0069d",
];

const METHODS: &[&str] = &[
    "$/cancelRequest",
    "$/progress",
    "client/registerCapability",
    "client/unregisterCapability",
    "context/update",
    "conversation/create",
    "conversation/destroy",
    "conversation/invokeClientTool",
    "conversation/invokeClientToolConfirmation",
    "conversation/rating",
    "conversation/registerTools",
    "conversation/turn",
    "conversation/unregisterTools",
    "conversation/updateToolsStatus",
    "copilot/mcpTools",
    "didChangeStatus",
    "github/didChangeAuth",
    "initialize",
    "initialized",
    "mcp/updateToolsStatus",
    "notebookDocument/didChange",
    "notebookDocument/didOpen",
    "signInConfirm",
    "signOut",
    "textDocument/didChange",
    "textDocument/didClose",
    "textDocument/didFocus",
    "textDocument/didOpen",
    "textDocument/hover",
    "window/showMessage",
    "window/workDoneProgress/cancel",
    "window/workDoneProgress/create",
    "workspace/configuration",
    "workspace/didChangeConfiguration",
    "workspace/didChangeWorkspaceFolders",
    "workspace/executeCommand",
];
