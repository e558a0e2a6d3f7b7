//! The users: control clients that come and go, the configuration files, and the memory of processes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::{Value, json};

use super::{
    super::stage::{PRIMARY, measured},
    message::{frame, id},
    script::{Control, Edit},
    world::{Life, World, pick},
};
use crate::{
    config::{AgentConfig, AgentSource, Config, ServerConfig, ServerKind},
    core::{
        copilot::Copilot,
        event::{ClientId, Event, Launch, Peer, Prepared, ProcessId},
        mux::pool::backend::Backend,
        mux::pool::lifecycle::LifecycleState,
    },
    rpc::RawId,
};

/// The content of the configuration files.
#[derive(Clone)]
pub(super) struct Files {
    pub(super) server: ServerConfig,
    args: Vec<String>,
    /// Whether there is one agent more.
    has_another: bool,
    unreadable: bool,
}

#[derive(Default)]
pub(super) struct ControlModel {
    /// Requests that are not answered: how many under each id.
    pub(super) open: BTreeMap<String, usize>,
    watches: bool,
    /// The last status it was told unasked.
    told: Value,
}

pub(super) struct People {
    pub(super) files: Files,
    clients: BTreeMap<ClientId, ControlModel>,
    /// Which clients those are that a script speaks of.
    current: [ClientId; 2],
    last: ClientId,
    /// The processes in a request for a measurement.
    pub(super) to_measure: Vec<Vec<ProcessId>>,
    /// The editor hears of changes of the status.
    editor_watches: bool,
}

/// Possible requests.
const METHODS: [&str; 7] = [
    "lspool/status",
    "lspool/restart",
    "lspool/restart",
    "lspool/stop",
    "lspool/reload",
    "lspool/watch",
    "lspool/logs",
];

impl People {
    pub(super) fn new(server: ServerConfig) -> People {
        let files = Files { server, args: Vec::new(), has_another: false, unreadable: false };
        People {
            files,
            clients: BTreeMap::new(),
            current: [ClientId(1), ClientId(2)],
            last: ClientId(2),
            to_measure: Vec::new(),
            editor_watches: false,
        }
    }
}

impl World {
    /// The result of reading the current files.
    pub(super) fn read(&self) -> Result<Box<Prepared>, String> {
        let files = &self.people.files;
        if files.unreadable {
            return Err("line 1: what is that?".to_owned());
        }
        let agent = |tools: Option<&[&str]>, denied: &[&str]| AgentConfig {
            tools: tools.map(|it| it.iter().map(ToString::to_string).collect()),
            disallowed_tools: denied.iter().map(ToString::to_string).collect(),
            ..AgentConfig::of(AgentSource::User)
        };
        let mut config = Config::default();
        config.agents.insert("reader".to_owned(), agent(Some(&["b", "a"]), &[]));
        config.agents.insert("most".to_owned(), agent(None, &["c"]));
        if files.has_another {
            config.agents.insert("another".to_owned(), agent(Some(&["d"]), &[]));
        }
        let kind = if self.script.copilot { ServerKind::Copilot } else { ServerKind::Generic };
        let launch = Launch {
            program: "/bin/server".into(),
            args: files.args.clone(),
            env: vec![],
            cwd: None,
            max_message: 256 << 20,
            write_stall: std::time::Duration::from_mins(1),
            root: None,
            remote: None,
            share: None,
        };
        Ok(Box::new(Prepared {
            config: Arc::new(config),
            name: "copilot".to_owned(),
            server: ServerConfig { kind: Some(kind), ..files.server.clone() },
            launch: Arc::new(launch),
            missing: None,
            warnings: Vec::new(),
            transcripts: None,
            group: None,
            has_code_tools: false,
        }))
    }

    /// A user edits the files.
    pub(super) fn edit(&mut self, edit: Edit, is_noticed: bool) {
        let files = &mut self.people.files;
        match edit {
            Edit::Launch => files.args.push("more".to_owned()),
            Edit::Agents => files.has_another = !files.has_another,
            Edit::Settings(server) => files.server = *server,
            Edit::Mistake => files.unreadable = !files.unreadable,
        }
        if is_noticed {
            self.event(Event::FilesChanged);
        }
    }

    /// Answers the oldest wish to know how much memory processes hold; whether there was one.
    pub(super) fn measured(&mut self, bytes: u64) -> bool {
        if self.people.to_measure.is_empty() || self.is_over() {
            return false;
        }
        let alive = |it: &ProcessId| self.servers.get(it).is_some_and(|it| it.life == Life::Running);
        let processes = self.people.to_measure.remove(0);
        let resident = processes.into_iter().filter(alive).map(|it| (it, bytes)).collect();
        self.event(measured(resident));
        true
    }

    pub(super) fn control_does(&mut self, who: u8, it: &Control) {
        let client = self.people.current[usize::from(who % 2)];
        let peer = Peer::Client(client);
        match *it {
            Control::Ask { id, method, of } => {
                let method = pick(&METHODS, method).expect("there are some");
                let id = format!("{}", id % 3);
                *self.client(client).open.entry(id.clone()).or_default() += 1;
                self.client(client).watches |= method == "lspool/watch";
                let params = self.control_params(of);
                let text = format!(r#"{{"id":{id},"method":"{method}","params":{params}}}"#);
                self.event(Event::Received(peer, frame(text)));
            }
            Control::Odd { id } => {
                let id = format!("{}", id % 3);
                *self.client(client).open.entry(id.clone()).or_default() += 1;
                let id = Some((RawId::from_raw(id.as_bytes()).expect("an id"), true));
                self.event(Event::Malformed { peer, id, reason: "odd".to_owned() });
            }
            Control::Unknown { id } => {
                let id = format!("{}", id % 3);
                *self.client(client).open.entry(id.clone()).or_default() += 1;
                self.event(Event::Received(
                    peer,
                    frame(format!(r#"{{"id":{id},"method":"textDocument/hover"}}"#)),
                ));
            }
            Control::Leave => {
                self.people.clients.remove(&client);
                self.people.last = ClientId(self.people.last.0 + 1);
                self.people.current[usize::from(who % 2)] = self.people.last;
                self.event(Event::Closed { peer, error: None });
            }
        }
    }

    fn client(&mut self, client: ClientId) -> &mut ControlModel {
        self.people.clients.entry(client).or_default()
    }

    fn control_params(&self, of: u8) -> Value {
        let names: Vec<&String> = self.core.mux.backends().iter().map(|it| &it.name).collect();
        match (of % 4, pick(&names, of / 4)) {
            (0, _) => json!({}),
            (3, _) => json!({"name": "nobody", "follow": true}),
            (_, Some(name)) => json!({"name": name, "follow": of >= 128}),
            (_, None) => json!({"name": 7}),
        }
    }

    /// The editor's form of a request: the members of the parameters.
    pub(super) fn control_members(&self, method: u8, of: u8) -> (&'static str, String) {
        let params = self.control_params(of).to_string();
        let inner = params.trim_matches(['{', '}']);
        let inner = if inner.is_empty() { String::new() } else { format!("{inner},") };
        match pick(&METHODS, method).expect("there are some") {
            "lspool/restart" if of >= 128 => {
                let command = format!(r#""command":"lspool.restart","arguments":[{params}],"#);
                ("workspace/executeCommand", command)
            }
            method => (method, inner),
        }
    }

    pub(super) fn note_editor_watches(&mut self) {
        self.people.editor_watches = true;
    }

    pub(super) fn editor_hears_status(&self) {
        assert!(self.people.editor_watches, "the editor has not asked to hear of changes of the status");
    }

    pub(super) fn control_hears(&mut self, client: ClientId, message: &Value) {
        let known = self.people.clients.get_mut(&client);
        let known = known.unwrap_or_else(|| panic!("{client:?} has left, and is told {message}"));
        match message["method"].as_str() {
            None => self.control_answered(client, &id(message)),
            Some("lspool/didChangeStatus") => {
                assert!(known.watches, "nobody watches");
                assert_ne!(known.told, message["params"], "nothing has changed");
                known.told = message["params"].clone();
                let names: Vec<&str> = message["params"]["backends"]
                    .as_array()
                    .expect("a list")
                    .iter()
                    .map(|it| it["name"].as_str().expect("a name"))
                    .collect();
                assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len(), "{message}");
            }
            Some(_) => panic!("a control client is told {message}"),
        }
    }

    /// The shell answers for the core.
    pub(super) fn logs_answered(&mut self, client: ClientId, wire: &RawId) {
        let wire: Value = serde_json::from_slice(wire.as_bytes()).expect("an id is JSON");
        let wire = wire.to_string();
        if client == ClientId::EDITOR {
            return self.editor_is_answered(&wire);
        }
        self.control_answered(client, &wire);
    }

    fn control_answered(&mut self, client: ClientId, id: &str) {
        let open = &mut self.client(client).open;
        let n = open.get_mut(id).unwrap_or_else(|| panic!("{client:?} does not wait for an answer to {id}"));
        *n -= 1;
        if *n == 0 {
            open.remove(id);
        }
    }

    /// The conditions after the last message.
    pub(super) fn check_people(&self) {
        for (client, it) in &self.people.clients {
            assert_eq!(it.open, BTreeMap::new(), "{client:?} was never answered");
        }
    }

    /// The tables of the core are empty, and no unneeded process is left.
    pub(super) fn check_tables(&self) {
        let core = &self.core;
        assert_eq!(core.mux.requests().len(), 0, "{:?}", core.mux.requests());
        assert!(core.all_conversations().all(|(_, it)| it.active().is_none()));
        assert_eq!(core.copilot.as_ref().map_or(0, |it| it.catalog().undecided), 0);
        assert!(core.admin.is_quiet(), "{:?}", core.admin);
        let Some(settings) = core.mux.servers().first().map(|it| &it.settings) else { return };
        let serves = |id| settings.idle_timeout.is_zero() && core.n_served_by(id) > 0;
        let is_idle =
            |it: &&Backend| it.id != PRIMARY && !it.is_spare() && it.life.is_alive() && !serves(it.id);
        let idle = core.mux.backends().iter().find(is_idle);
        assert!(idle.is_none(), "an idle partition is left: {idle:?}");
        let living = self.servers.values().filter(|it| it.life != Life::Gone);
        let (spares, others): (Vec<_>, Vec<_>) = living.partition(|it| it.is_spare);
        assert!(
            !core.mux.servers().first().is_some_and(|it| it.shrinks) || others.len() > settings.max_processes
        );
        // There are two kinds: with sub-agents, and without.
        let goes_on = !core.mux.clients().is_shut_down();
        assert!(!goes_on || spares.len() <= 2 * settings.warm_spares, "too many are kept ready");
        let room = settings.max_processes.saturating_sub(others.len());
        let ready = core.mux.backends()[PRIMARY].is_ready()
            && core.mux.servers().first().is_some_and(|it| it.session().is_initialized())
            && core.copilot.as_ref().is_some_and(Copilot::may_start_spares)
            && self.script.copilot;
        let wanted = settings.warm_spares > 0 && settings.policy.max_restarts > 0;
        if ready && goes_on && room > 0 && !self.has_lost_spares && wanted {
            assert!(!spares.is_empty(), "none is kept ready");
        }
        for it in core.mux.backends().iter().filter(|it| !it.is_spare()) {
            let settled = matches!(
                it.life.state(),
                LifecycleState::Stopped | LifecycleState::Ready | LifecycleState::Failed
            );
            assert!(settled, "{it:?}");
        }
    }
}
