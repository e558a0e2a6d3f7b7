//! A core among fake peers: carries out effects, and checks each against what may happen.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{
    editor::EditorModel,
    message::{N, Said, body, frame, id, number, numbered, same_bytes, value, without},
    people::People,
    script::{Script, Shell, Step},
    server::ServerModel,
};
use crate::{
    core::{
        Identity,
        copilot::routes::DIALECT,
        event::{Effect, Event, Exit, Peer, ProcessId, SpawnFailure},
        tests::{stage::EDITOR, taped::Taped},
    },
    rpc::{Frame, Kind},
};

/// How far the shell has come with a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Spawning,
    Running,
    Gone,
}

pub(super) struct World {
    pub(super) core: Taped,
    pub(super) now: Instant,
    start: Instant,
    pub(super) script: Script,
    pub(super) editor: EditorModel,
    pub(super) servers: BTreeMap<ProcessId, ServerModel>,
    pub(super) said: BTreeMap<N, Said>,
    pub(super) preparing: bool,
    pub(super) exit: Option<i32>,
    /// Since when the core may end without having been asked.
    pub(super) leaving: Option<Instant>,
    /// All effects, as text.
    pub(super) trace: Vec<String>,
    /// The effects of the current event.
    pub(super) sent: Vec<(Peer, Value)>,
    /// Processes whose diagnostics lspool has withdrawn at the current event.
    pub(super) withdrawn: Vec<ProcessId>,
    /// Transcripts that are being written.
    to_write: Vec<(ProcessId, String)>,
    pub(super) people: People,
    /// The editor lets too much wait.
    is_paused: bool,
    pub(super) faults: u64,
    /// How many places of processes were taken when the last event had been dealt with.
    held: usize,
    /// When processes that were kept ready died, or could not be started or used.
    lost_spares: Vec<Instant>,
    pub(super) has_lost_spares: bool,
}

impl World {
    pub(super) fn new(script: &Script) -> World {
        let start = Instant::now();
        let mut world = World {
            core: Taped::new(Identity { pid: 77, started: 5 }),
            now: start,
            start,
            script: script.clone(),
            editor: EditorModel::default(),
            servers: BTreeMap::new(),
            said: BTreeMap::new(),
            preparing: false,
            to_write: Vec::new(),
            people: People::new(script.server.clone()),
            is_paused: false,
            withdrawn: Vec::new(),
            faults: 0,
            held: 0,
            lost_spares: Vec::new(),
            has_lost_spares: false,
            exit: None,
            leaving: None,
            trace: Vec::new(),
            sent: Vec::new(),
        };
        if script.started {
            world.start_up();
        }
        world
    }

    pub(super) fn is_over(&self) -> bool {
        self.exit.is_some()
    }

    pub(super) fn step(&mut self, step: &Step) {
        if self.is_over() {
            return;
        }
        match step {
            Step::Editor(it) => self.editor_does(it),
            Step::Server(process, it) => {
                let running = self.with(Life::Running);
                if let Some(process) = pick(&running, *process) {
                    let before = self.trace.len();
                    self.server_does(process, it);
                    self.faults += u64::from(it.is_fault() && self.trace.len() > before);
                }
            }
            Step::Shell(it) => self.shell_does(it),
            Step::Control(who, it) => self.control_does(*who, it),
            Step::Pass(time) => {
                self.faults += u64::from(*time > 40_000);
                self.pass(Duration::from_millis(u64::from(*time)));
            }
        }
    }

    fn shell_does(&mut self, it: &Shell) {
        match *it {
            Shell::Prepared => self.prepared(true),
            Shell::Unprepared => self.prepared(false),
            Shell::Spawned(process) => {
                if let Some(process) = pick(&self.with(Life::Spawning), process) {
                    self.spawned(process);
                }
            }
            Shell::SpawnFailed(process, permanent) => {
                if let Some(process) = pick(&self.with(Life::Spawning), process) {
                    self.faults += 1;
                    self.spawn_failed(process, permanent);
                }
            }
            Shell::Exited(process) => {
                if let Some(process) = pick(&self.with(Life::Running), process) {
                    self.faults += 1;
                    self.exited(process);
                }
            }
            Shell::Measured { over } => {
                let bytes = if over { 1 << 40 } else { 1 << 20 };
                self.faults += u64::from(self.measured(bytes) && over);
            }
            Shell::Edit(ref edit, is_noticed) => {
                self.faults += 1;
                self.edit(edit.clone(), is_noticed);
            }
            Shell::Reads(reads) => {
                if self.is_paused == reads {
                    self.faults += u64::from(!reads);
                    self.is_paused = !reads;
                    self.event(Event::EditorReads(reads));
                }
            }
            Shell::Written { fails } => self.faults += u64::from(self.written(fails) && fails),
            Shell::Serve => while self.serve() {},
        }
    }

    /// Answers the oldest wish to write a transcript; whether there was one.
    fn written(&mut self, fails: bool) -> bool {
        if self.to_write.is_empty() || self.is_over() {
            return false;
        }
        let (process, conversation) = self.to_write.remove(0);
        let folder = if fails { Err("no room".to_owned()) } else { Ok("/private".into()) };
        self.event(Event::TranscriptWritten { process, conversation, folder });
        true
    }

    /// Everything that comes before and after the handshake of a process; whether there was any.
    fn serve(&mut self) -> bool {
        let spawning = self.with(Life::Spawning);
        for process in &spawning {
            // A start is called off.
            if self.servers[process].is_to_end() {
                self.spawn_failed(*process, false);
            } else {
                self.spawned(*process);
            }
        }
        let answered = self.with(Life::Running).into_iter().filter(|it| self.answer_own(*it)).count();
        !self.is_over() && (!spawning.is_empty() || answered > 0)
    }

    pub(super) fn prepared(&mut self, found: bool) {
        if !std::mem::take(&mut self.preparing) {
            return;
        }
        if !found {
            if self.core.mux.servers().first().is_none() {
                self.leaving = Some(self.start);
            }
            return self.event(Event::Prepared(Err("no server".to_owned())));
        }
        let prepared = self.read();
        let is_first = self.core.mux.servers().first().is_none();
        if prepared.is_err() && is_first {
            self.leaving = Some(self.start);
        }
        self.event(Event::Prepared(prepared));
    }

    pub(super) fn spawned(&mut self, process: ProcessId) {
        self.life(process, Life::Running);
        self.event(Event::Spawned { process, pid: 1000 + process.backend.0 });
    }

    fn spawn_failed(&mut self, process: ProcessId, permanent: bool) {
        self.note_lost(process);
        self.life(process, Life::Gone);
        let failure = SpawnFailure { permanent, message: "no such file".to_owned(), moved: None };
        self.event(Event::SpawnFailed(process, failure));
    }

    pub(super) fn exited(&mut self, process: ProcessId) {
        self.life(process, Life::Gone);
        self.note_lost(process);
        self.editor.tokens.retain(|(owner, _), _| *owner != process.backend);
        self.event(Event::Exited { process, exit: Exit::Signal(9), stderr: "last words".to_owned() });
    }

    /// A process is gone, or unusable: a spare is not replaced without a limit.
    pub(super) fn note_lost(&mut self, process: ProcessId) {
        let server = &self.servers[&process];
        self.has_lost_spares |= server.is_spare;
        if server.is_spare && !server.is_to_end() {
            self.lost_spares.push(self.now);
        }
    }

    fn life(&mut self, process: ProcessId, life: Life) {
        self.servers.get_mut(&process).expect("spawned before").life = life;
    }

    /// Processes of which this is true.
    pub(super) fn with(&self, life: Life) -> Vec<ProcessId> {
        self.servers.iter().filter(|(_, it)| it.life == life).map(|(id, _)| *id).collect()
    }

    /// Lets time pass, with everything that falls due.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some((at, _)) = self.core.poll_timeout().filter(|(at, _)| *at <= end) {
            self.now = at.max(self.now);
            self.timeout();
        }
        self.now = end;
    }

    pub(super) fn event(&mut self, event: Event) {
        if self.is_over() {
            return;
        }
        self.trace.push(format!("> {:?} {event:?}", self.now - self.start));
        let mut out = Vec::new();
        self.core.handle(self.now, event, &mut out);
        self.carry_out(out);
        let mut n = 0;
        while self.core.poll_timeout().is_some_and(|(at, _)| at <= self.now) {
            self.timeout();
            n += 1;
            assert!(n < 20, "a timeout that is handled and due again: {:?}", self.core.poll_timeout());
        }
    }

    fn timeout(&mut self) {
        let mut out = Vec::new();
        let due = self.core.poll_timeout();
        let why = due.map(|(_, why)| why);
        self.trace.push(format!("> {:?} timeout {why:?}", self.now - self.start));

        self.core.handle_timeout(self.now, &mut out);
        let idle = out.is_empty();
        self.carry_out(out);
        let next = self.core.poll_timeout();
        assert!(!idle || next != due, "a timeout at which nothing is done: {due:?}");
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        self.sent.clear();
        for effect in effects {
            assert!(self.exit.is_none(), "an effect after the exit: {effect:?}");
            match effect {
                Effect::Send(peer, frame) => {
                    self.trace.push(format!("{peer:?} < {}", String::from_utf8_lossy(&frame.to_bytes())));
                    self.hear(peer, &frame);
                }
                Effect::Prepare { .. } => {
                    assert!(!self.preparing, "read again while it is being read");
                    self.preparing = true;
                }
                Effect::Spawn(process, _) => self.spawn(process),
                Effect::Adopt { spare, process } => self.adopt(spare, process),
                Effect::Terminate(process) => {
                    self.trace.push(format!("terminate {process:?}"));
                    let server = self.servers.get_mut(&process).expect("terminated before it was spawned");
                    assert_ne!(server.life, Life::Gone, "a process is ended that is gone");
                    server.ending = true;
                }
                Effect::WriteTranscript { process, conversation, .. } => {
                    self.trace.push(format!("write {process:?} {conversation}"));
                    self.to_write.push((process, conversation));
                }
                Effect::RemoveTranscripts(process) => self.trace.push(format!("remove {process:?}")),
                Effect::RemoveTranscript { .. } => {}
                Effect::LoadTeams { .. } | Effect::WriteTeam { .. } | Effect::RemoveTeam { .. } => {
                    self.trace.push("teams".to_owned());
                }
                Effect::AwaitDrained(_) => unreachable!("no document is large"),
                Effect::KeepMode(_) => unreachable!("no mode is wanted"),
                Effect::FindRoot(_) | Effect::Recall(_) | Effect::Remember(..) => {
                    unreachable!("there is no group")
                }
                Effect::ReadFile(_) | Effect::HangUp(_) => {
                    unreachable!("lspool does not close the connection of a client")
                }
                Effect::CloseInput(process) => {
                    self.trace.push(format!("close {process:?}"));
                    let server = self.servers.get_mut(&process).expect("closed before it was spawned");
                    assert_ne!(server.life, Life::Gone, "the input of a process is closed that is gone");
                    server.ending = true;
                    server.deaf = true;
                }
                Effect::Exit(code) => {
                    self.trace.push(format!("exit {code}"));
                    self.exit = Some(code);
                    self.check_exit();
                }
                Effect::Measure(processes) => {
                    let lives = |it: &ProcessId| self.servers.get(it).is_some_and(|it| it.life != Life::Gone);
                    assert!(processes.iter().all(lives), "measured though it is gone: {processes:?}");
                    self.people.to_measure.push(processes);
                }
                Effect::Logs { client, id, .. } => self.logs_answered(client, &id),
                Effect::RunTool { .. }
                | Effect::CancelTool(_)
                | Effect::Look(_)
                | Effect::Write(_)
                | Effect::Fetch(_) => {
                    unreachable!("there are none")
                }
                Effect::WatchEditor(_) => {}
            }
        }
        self.held = self.core.mux.backends().iter().filter(|it| it.holds_a_place()).count();
        self.check_withdrawn();
        if let Err(broken) = self.core.check() {
            panic!("{broken}");
        }
    }

    /// Diagnostics are withdrawn if their process has ended, or is asked to end at the same event.
    fn check_withdrawn(&mut self) {
        for process in std::mem::take(&mut self.withdrawn) {
            let server = &self.servers[&process];
            let lives = server.life == Life::Running && !server.is_to_end();
            if let Some(backend) = self.core.mux.backend(process.backend).filter(|_| lives) {
                assert!(!backend.accepts(), "the diagnostics of {process:?} are withdrawn, and it goes on");
            }
        }
    }

    fn spawn(&mut self, process: ProcessId) {
        self.trace.push(format!("spawn {process:?}"));
        self.check_new(process, 0);
        let backend = &self.core.mux.backends()[process.backend];
        let (set, is_spare) = (self.core.set_of(process.backend), backend.is_spare());
        let policy = &self.core.mux.servers().first().expect("it was found").settings.policy;
        let recent = self.lost_spares.iter().filter(|it| **it + policy.restart_window >= self.now).count();
        assert!(!is_spare || recent < policy.max_restarts, "spares are lost again and again");
        let mut server = ServerModel::new(process, set, self.script.stubborn);
        server.is_spare = is_spare;
        self.servers.insert(process, server);
    }

    /// `more`: how many of the living ones end after this.
    fn check_new(&self, process: ProcessId, more: usize) {
        let living: Vec<_> = self.servers.iter().filter(|(_, it)| it.life != Life::Gone).collect();
        let server = self.core.mux.servers().first().expect("it was found");
        let (most, held) = (server.settings.max_processes, self.held.max(1));
        // A restarting backend keeps its place, also under a lower limit.
        let most = if server.shrinks { most.max(held) } else { most };
        assert!(living.len() < most + more, "too many processes");
        assert!(living.iter().all(|(it, _)| it.backend != process.backend), "two processes of one backend");
        let newest = self.servers.keys().filter(|it| it.backend == process.backend).map(|it| it.generation.0);
        assert_eq!(process.generation.0, newest.max().unwrap_or(0) + 1);
    }

    /// A process that was kept ready is another one's from now on, in all that was ever said.
    fn adopt(&mut self, spare: ProcessId, process: ProcessId) {
        self.trace.push(format!("adopt {spare:?} as {process:?}"));
        self.check_new(process, 1);
        let mut server = self.servers.remove(&spare).expect("adopted before it was spawned");
        assert!(server.is_spare && server.life == Life::Running && !server.is_to_end());
        let said = self.said.keys().next_back().copied().unwrap_or_default();
        server.adopted(process, self.core.set_of(process.backend), said);
        self.servers.insert(process, server);
        let rename = |it: &mut ProcessId| *it = if *it == spare { process } else { *it };
        let rename_peer =
            |it: &mut Peer| *it = if *it == Peer::Backend(spare) { Peer::Backend(process) } else { *it };
        for said in self.said.values_mut() {
            rename_peer(&mut said.by);
            said.heard.iter_mut().for_each(rename_peer);
        }
        self.to_write.iter_mut().for_each(|(it, _)| rename(it));
        self.people.to_measure.iter_mut().flatten().for_each(rename);
        self.editor.rename(spare, process);
    }

    /// lspool leaves when it was told to, or when the editor has gone and is owed nothing.
    fn check_exit(&self) {
        let since = self.leaving.expect("lspool ends although nobody has asked for it");
        let in_time = self.now < since + Duration::from_secs(2);
        assert!(!in_time || self.editor.open.is_empty(), "left, owing {:?}", self.editor.open);
    }

    fn hear(&mut self, peer: Peer, frame: &Frame) {
        let message = value(frame);
        self.sent.push((peer, message.clone()));
        if let Some(n) = number(&message) {
            self.check_passed(peer, n, frame, &message);
        }
        match peer {
            EDITOR => self.editor_hears(frame, &message),
            Peer::Client(client) => self.control_hears(client, &message),
            Peer::Backend(process) => {
                let server = &self.servers[&process];
                assert_eq!(server.life, Life::Running, "sent to a process that does not run: {message}");
                let newest = self.servers.keys().filter(|it| it.backend == process.backend).max();
                assert_eq!(newest, Some(&process), "sent to an old generation");
                self.server_hears(process, frame, &message);
            }
        }
    }

    /// A forwarded message keeps its content, comes in order, and comes once.
    fn check_passed(&mut self, to: Peer, n: N, frame: &Frame, message: &Value) {
        let said = self.said.get_mut(&n).expect("a number that nobody has used");
        assert_ne!(said.by, to, "{message} is sent back");
        let restored = match to {
            Peer::Backend(process) => {
                self.servers[&process].restored.is_some_and(|until| n <= until) && is_session(said.method())
            }
            Peer::Client(_) => false,
        };
        assert!(restored || !said.heard.contains(&to), "{to:?} hears {message} twice");
        said.heard.push(to);
        let everyone = is_session(said.method()) || said.method() == "initialize";
        // A turn that a process has not begun is asked of the next one, and what only reads, once.
        let reads = DIALECT.is_read(said.method()) && said.heard.len() <= 2;
        let turns =
            self.script.copilot && matches!(said.method(), "conversation/create" | "conversation/turn");
        let again = (reads || turns)
            && said.heard.is_sorted()
            && said.heard.iter().all(
                |it| matches!((it, to), (Peer::Backend(it), Peer::Backend(to)) if it.backend == to.backend),
            );
        // Requests to a process that was never ready go to the next one.
        let same_backend = |it: &Peer| matches!((it, to), (Peer::Backend(it), Peer::Backend(to)) if it.backend == to.backend);
        let unopened = |it: &Peer| matches!(it, Peer::Backend(it) if !self.servers[it].opened);
        let earlier = &said.heard[..said.heard.len() - 1];
        let again = again || earlier.iter().all(|it| same_backend(it) && unopened(it));
        assert!(said.heard.len() == 1 || everyone || again, "{message} is sent to {:?}", said.heard);
        match said.method() {
            "textDocument/didOpen" if restored => {}
            // A second one is for the server to refuse.
            "initialize" if !same_bytes(&said.frame, frame) => {
                let text =
                    |frame: &Frame| String::from_utf8_lossy(frame.params().unwrap_or(b"{}")).into_owned();
                let mut expected = text(&said.frame).replace("\"processId\":1,", "\"processId\":77,");
                let mut told = text(frame);
                let Peer::Backend(process) = to else { panic!("{to:?} is initialized") };
                let is_spare = self.servers[&process].is_spare;
                if is_spare || !self.may_use(to, "run_subagent") {
                    let has = told.contains("\"subAgent\":true");
                    assert!(is_spare || !has, "the capability brings a tool: {told}");
                    expected = expected.replace("\"subAgent\":true", "");
                    told = told.replace("\"subAgent\":true", "");
                }
                assert_eq!(told, expected);
            }
            "conversation/create" if self.script.copilot => {
                let keys: &[&str] = match said.params().get("conversationId") {
                    Some(Value::Null) | None => &["lspool", "conversationId"],
                    Some(_) => &["lspool"],
                };
                assert!(message["params"].get("lspool").is_none(), "{message}");
                // The turn gets an id, or is restored and continued.
                let keys = &[keys, &["turns", "restoreToTurnId"]].concat();
                let (was, is) = (without(&said.value, keys), without(message, keys));
                match message["params"]["turns"] == said.params()["turns"] || said.heard.len() == 1 {
                    true => assert_eq!(was, is),
                    false => assert_eq!(was["params"], is["params"]),
                }
            }
            // It has an id, so that it can continue in another process.
            "conversation/turn" if message["method"] == "conversation/turn" && self.script.copilot => {
                assert_eq!(without(&said.value, &["turnId"]), without(message, &["turnId"]));
            }
            // The process does not know the conversation, and gets its history.
            "conversation/turn" if message["method"] == "conversation/create" => {
                for key in ["conversationId", "workDoneToken", "n"] {
                    assert_eq!(said.params()[key], message["params"][key], "{message}");
                }
                assert!(message["params"]["turns"].is_array(), "{message}");
            }
            "$/cancelRequest" => assert_eq!(without(&said.value, &["id"]), without(message, &["id"])),
            "window/workDoneProgress/create" | "$/progress" | "window/workDoneProgress/cancel" => {
                let renamed = said.params()["token"] != message["params"]["token"];
                let rounds = &message["params"]["value"]["editAgentRounds"];
                let renumbered = said.params()["value"]["editAgentRounds"] != *rounds;
                let same = same_bytes(&said.frame, frame);
                assert!(renamed || renumbered || same, "{} became {message}", said.value);
                let plain = |it: &Value| {
                    let mut it = without(it, &["token"]);
                    if let Some(value) = it["params"]["value"].as_object_mut() {
                        value.shift_remove("editAgentRounds");
                    }
                    it
                };
                assert_eq!(plain(&said.value), plain(message));
            }
            "conversation/invokeClientTool" | "conversation/invokeClientToolConfirmation" => {
                let keys = ["roundId", "toolCallId"];
                assert_eq!(without(&said.value, &keys), without(message, &keys));
            }
            "client/registerCapability" | "client/unregisterCapability" => {
                let lists = ["registrations", "unregisterations"];
                assert_eq!(without(&said.value, &lists), without(message, &lists));
            }
            "workspace/didChangeConfiguration" => {
                let primary =
                    matches!(to, Peer::Backend(it) if it.backend == crate::core::tests::stage::PRIMARY);
                let restricted = !primary && said.value.to_string().contains("mcp");
                let same =
                    same_bytes(&said.frame, frame) || restored && said.frame.params() == frame.params();
                assert!(restricted || same, "{} became {message}", said.value);
                let mcp = &message["params"]["settings"]["github"]["copilot"]["mcp"];
                let none = mcp.is_null() || mcp == "{}";
                assert!(none || self.may_use(to, "mcp_m_x"), "told of MCP servers: {message}");
            }
            "" if to == EDITOR && message["result"]["capabilities"].is_object() => {
                let mut answer = message.clone();
                answer["result"].as_object_mut().expect("it is one").shift_remove("capabilities");
                answer["id"] = said.value["id"].clone();
                assert_eq!(answer, said.value, "the answer to initialize, and lspool's commands");
            }
            _ if restored => assert_eq!(said.frame.params(), frame.params()),
            _ => {
                let (was, is) = (said.frame.to_bytes(), frame.to_bytes());
                assert!(same_bytes(&said.frame, frame), "{was:?} is passed on as {is:?}");
            }
        }
        // Messages of a restore are outside the queue.
        assert!(restored || self.in_order(to, n), "{message} is overtaken on its way to {to:?}");
    }

    fn may_use(&self, to: Peer, tool: &str) -> bool {
        match to {
            Peer::Backend(process) => super::message::allows(&self.servers[&process].set, tool),
            Peer::Client(_) => true,
        }
    }

    /// Whether nothing that its author said later has come before.
    fn in_order(&mut self, to: Peer, n: N) -> bool {
        let said = &self.said[&n];
        // A turn waits in its conversation. Messages that a process waits for overtake those that wait for the
        // process.
        let cancels = ["$/cancelRequest", "window/workDoneProgress/cancel"].contains(&said.method());
        // A turn that another process has begun waits for the editor's open answers.
        let creates = said.method() == "conversation/create";
        let again = creates && said.heard.len() > 1;
        // A create waits while lspool asks whether somebody is signed in, and with it what is about its conversation.
        let signs = |it: &Said| it.by == EDITOR && ["signOut", "github/didChangeAuth"].contains(&it.method());
        let is_of_conversation = creates || said.params().get("conversationId").is_some();
        let asks_first = is_of_conversation && self.said.values().any(signs);
        let aside = again
            || asks_first
            || said.method() == "conversation/turn"
            || (said.by == EDITOR && (cancels || said.frame.kind() == Kind::Response));
        let last = match (to, said.by) {
            (EDITOR, Peer::Backend(process)) => {
                &mut self.servers.get_mut(&process).expect("who speaks exists").heard_until
            }
            (Peer::Backend(process), Peer::Client(_)) => {
                &mut self.servers.get_mut(&process).expect("who hears exists").told_until
            }
            (Peer::Client(_), _) | (Peer::Backend(_), Peer::Backend(_)) => {
                panic!("{to:?} hears {:?}", said.by)
            }
        };
        let in_order = aside || n > *last;
        if !aside {
            *last = n.max(*last);
        }
        in_order
    }

    /// A message that a fake peer sends; gives its number.
    pub(super) fn say(
        &mut self,
        by: Peer,
        id: Option<&str>,
        rest: impl FnOnce(N) -> Vec<(&'static str, String)>,
    ) -> N {
        let n = u64::try_from(self.said.len()).expect("not that many") + 1;
        let rest = rest(n);
        let rest: Vec<(&str, &str)> = rest.iter().map(|(key, raw)| (*key, raw.as_str())).collect();
        let frame = frame(body(n, id, &rest));
        let said = Said { by, value: value(&frame), frame: frame.clone(), heard: Vec::new() };
        self.said.insert(n, said);
        if by == EDITOR {
            self.editor_has_said(n, &frame);
        }
        self.event(Event::Received(by, frame));
        n
    }

    /// A request or notification: `members` is empty or ends with a comma.
    pub(super) fn call(&mut self, by: Peer, id: Option<&str>, method: &str, members: &str) -> N {
        self.say(by, id, |n| vec![("method", format!("\"{method}\"")), ("params", numbered(n, members))])
    }

    pub(super) fn respond(&mut self, by: Peer, id: &str, fails: bool, result: impl FnOnce(N) -> String) -> N {
        self.say(by, Some(id), |n| match fails {
            true => vec![("error", format!(r#"{{"code":-32001,"message":"no", "data":{{"n":{n}}} }}"#))],
            false => vec![("result", result(n))],
        })
    }

    /// Delivers the last messages; time passes; nothing is left.
    pub(super) fn settle(&mut self) {
        self.shell_does(&Shell::Reads(true));
        // In steps that are shorter than a start may last.
        for _ in 0..32 {
            self.until_quiet();
            self.pass(Duration::from_secs(25));
        }
        self.until_quiet();
    }

    pub(super) fn until_quiet(&mut self) {
        for _ in 0..1000 {
            if self.is_over() {
                return;
            }
            let before = self.trace.len();
            while self.written(false) {}
            while self.measured(1 << 20) {}
            self.prepared(true);
            let served = (0..10_000).take_while(|_| self.serve()).count();
            assert!(served < 10_000, "servers are asked for ever");
            for process in self.with(Life::Running) {
                self.answer_all(process);
                let is_to_end = self.servers.get(&process).is_some_and(ServerModel::is_to_end);
                if is_to_end && !self.is_over() {
                    self.exited(process);
                }
            }
            self.editor_answers_all();
            if self.trace.len() == before {
                return;
            }
        }
        panic!("it never comes to rest");
    }
}

/// Methods for every process, running or later.
pub(super) fn is_session(method: &str) -> bool {
    DIALECT.keep(method).is_some()
}

/// One of these.
pub(super) fn pick<T: Copy>(all: &[T], index: u8) -> Option<T> {
    all.get(usize::from(index).checked_rem(all.len())?).copied()
}

/// The id of a request.
pub(super) fn asked_id(message: &Value) -> Option<String> {
    message.get("method").and(message.get("id")).map(|_| id(message))
}

/// Recognizes kinds like a frame.
pub(super) fn is_response(frame: &Frame) -> bool {
    frame.kind() == Kind::Response
}
