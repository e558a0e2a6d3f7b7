//! The clients: the editor, from its first byte to the last (`initialize`, `shutdown`, `exit`, end of file), and
//! other clients, which have no handshake.

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use tracing::{info, warn};

use super::Mux;
use crate::{
    core::{
        event::{BackendId, ClientId, Effect, Member, Peer, Prepared, ServerId},
        ids::RequestId,
        mux::{
            failure::{Cause, Failure, MalformedMessage},
            pool::{
                backend::{Backend, NewBackend, Role},
                lifecycle::LifecycleState,
            },
            requests::{Owner, Pending},
            servers::Definition,
        },
        purpose::{Purpose, SentId},
    },
    rpc::{Frame, Kind, Patch, RawId, elements, file_path, member, path, text},
};

/// How long lspool waits for the answers to `shutdown`.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
/// How long lspool waits for each further answer after the editor has closed its stream.
const DRAIN_GRACE: Duration = Duration::from_secs(2);
/// The same while the server starts: a script often fills a pipe and closes it before the server is ready.
const START_GRACE: Duration = Duration::from_millis(2500);
/// How long servers may work after lspool has closed their stream too.
const FINISH_GRACE: Duration = Duration::from_millis(1500);

/// The state of the editor's session.
#[derive(Debug, Default)]
enum Phase {
    /// Before `initialize`.
    #[default]
    Waiting,
    /// `initialize` has come, and the shell searches for the server. Further messages wait.
    Preparing { early: VecDeque<Frame> },
    /// Messages flow.
    Open,
    /// `shutdown` has come; lspool answers it after the servers, or at the deadline. `exit`: it has come too.
    ShuttingDown { id: RequestId, deadline: Instant, exit: bool },
    /// `shutdown` is answered; only `exit` is expected.
    ShutDown,
    /// The editor has closed its stream and is owed nothing, so lspool has closed the streams of the servers. Their
    /// messages still pass.
    Finishing,
    /// The shell was told to exit.
    Exiting,
}

impl Phase {
    fn deadline(&self) -> Option<(Instant, &'static str)> {
        match self {
            Phase::ShuttingDown { deadline, .. } => Some((*deadline, "shutdown is not answered")),
            Phase::Waiting
            | Phase::Preparing { .. }
            | Phase::Open
            | Phase::ShutDown
            | Phase::Finishing
            | Phase::Exiting => None,
        }
    }

    fn is_shut_down(&self) -> bool {
        matches!(self, Phase::ShuttingDown { .. } | Phase::ShutDown | Phase::Finishing)
    }

    fn is_exiting(&self) -> bool {
        matches!(self, Phase::Exiting)
    }
}

/// The editor has closed its stream.
#[derive(Debug)]
struct Draining {
    until: Instant,
    /// The number of owed answers.
    owed: usize,
}

impl Draining {
    fn deadline(&self) -> (Instant, &'static str) {
        (self.until, "the editor has closed its stream")
    }
}

/// The state of the clients.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    phase: Phase,
    /// Set after the editor has closed its stream.
    draining: Option<Draining>,
    /// Whether the editor gives one id to several requests.
    is_unnumbered: bool,
    /// Whether the editor's queue is over high water, so that servers are not read.
    is_slow: bool,
    /// The workspace folders in `initialize`.
    folders: Vec<PathBuf>,
}

impl Clients {
    /// The workspace folders in `initialize`.
    pub(crate) fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// Whether messages flow.
    #[cfg(test)]
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Whether `initialize` has come, and `shutdown` has not.
    #[cfg(test)]
    pub(crate) fn is_serving(&self) -> bool {
        matches!(self.phase, Phase::Preparing { .. } | Phase::Open)
    }

    /// Whether `shutdown` is answered.
    #[cfg(test)]
    pub(crate) fn has_shut_down(&self) -> bool {
        matches!(self.phase, Phase::ShutDown)
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.phase.is_shut_down()
    }

    pub(crate) fn is_exiting(&self) -> bool {
        self.phase.is_exiting()
    }

    /// Whether the editor's queue is over high water, so that servers are not read.
    pub(super) fn is_slow(&self) -> bool {
        self.is_slow
    }
}

/// The next step for a message of the editor, after the handshake.
#[derive(Debug)]
pub(crate) enum FromEditor {
    /// Nothing.
    Handled,
    /// Route it.
    Open(Frame),
    /// An answer to a server after `shutdown`.
    LateAnswer(Frame),
}

impl Mux {
    /// Handles the handshake part of an editor's message.
    pub(crate) fn on_editor_frame(&mut self, frame: Frame) -> FromEditor {
        if frame.kind() == Kind::Notification && frame.method() == Some("exit") {
            self.on_exit(frame);
            return FromEditor::Handled;
        }
        match &mut self.clients.phase {
            Phase::Waiting => self.before_initialize(frame),
            Phase::Preparing { early } => early.push_back(frame),
            Phase::Open => return FromEditor::Open(frame),
            Phase::ShuttingDown { .. } | Phase::ShutDown => return self.after_shutdown(frame),
            Phase::Finishing | Phase::Exiting => {}
        }
        FromEditor::Handled
    }

    fn before_initialize(&mut self, frame: Frame) {
        match (frame.kind(), frame.id()) {
            (Kind::Request, Some(_)) if frame.method() == Some("initialize") => self.on_initialize(frame),
            (Kind::Request, Some(id)) => {
                let failure = Failure::new(Cause::NotInitialized, "send initialize first");
                self.tell_editor(failure.answer(id.into()));
            }
            (Kind::Request | Kind::Notification | Kind::Response, _) => {
                warn!(?frame, "dropped: editor has not sent initialize");
            }
        }
    }

    fn on_initialize(&mut self, frame: Frame) {
        let params = frame.params().unwrap_or(b"{}");
        let asked = Initialize(params);
        if let Some(pid) = asked.process_id() {
            self.act(Effect::WatchEditor(pid));
        }
        self.clients.folders = asked.folders();
        self.act(Effect::Prepare { folders: self.clients.folders.clone() });
        self.clients.phase = Phase::Preparing { early: VecDeque::from([frame]) };
    }

    /// Opens the session. Returns the messages that the editor has sent meanwhile, if it waits.
    pub(crate) fn open(&mut self) -> Option<VecDeque<Frame>> {
        match std::mem::replace(&mut self.clients.phase, Phase::Open) {
            Phase::Preparing { early } => Some(early),
            Phase::Waiting
            | Phase::Open
            | Phase::ShuttingDown { .. }
            | Phase::ShutDown
            | Phase::Finishing
            | Phase::Exiting => None,
        }
    }

    /// Adds a server with a primary that waits for its process.
    pub(crate) fn add_server(&mut self, prepared: Prepared) -> ServerId {
        let Prepared {
            config,
            name,
            server,
            launch,
            missing,
            warnings: _,
            transcripts: _,
            group,
            has_code_tools,
        } = prepared;
        let others = group.map(|it| self.begin_group(it)).unwrap_or_default();
        let definition = Definition {
            name,
            settings: server,
            launch,
            config: Arc::clone(&config),
            missing,
            has_code_tools,
        };
        let first = self.add_primary(definition);
        for Member { name, server, launch, missing } in others {
            let (launch, config) = (Arc::new(launch), Arc::clone(&config));
            self.add_primary(Definition { name, settings: server, launch, config, missing, has_code_tools });
        }
        self.start_members();
        first
    }

    pub(in crate::core::mux) fn add_primary(&mut self, definition: Definition) -> ServerId {
        let now = self.now();
        let primary = self.backends.next_id();
        let name = definition.name.clone();
        let server = self.servers.add(definition, primary);
        self.join_group(server, &name);
        let new = NewBackend { server, role: Role::Primary, alias: name.clone(), name };
        self.backends.add(new, now);
        server
    }

    /// Forwards the editor's `initialize` to the server, once.
    pub(crate) fn forward_initialize(&mut self, frame: &Frame) {
        if self.is_group() {
            return self.open_group(frame);
        }
        let params = self.initialize_params(frame.params().unwrap_or(b"{}"));
        let (Some(server), Some(id)) = (self.servers.first_mut(), frame.id()) else { return };
        let (primary, frame) = (server.primary, frame.with_params(&server.watching(&params)));
        // The editor knows the token until its end: only one process may report under it.
        server.session.initialize = Patch::of(&params).remove("workDoneToken").finish().into();
        let owner = Owner::Client(ClientId::EDITOR, id.into());
        self.send_to_backend(primary, owner, Purpose::Initialize, &frame);
    }

    /// Whether this is the `initialize` to forward.
    pub(crate) fn is_opening(&self, frame: &Frame) -> bool {
        let is_first = self.servers.first().is_some_and(|it| it.session.initialize.is_empty());
        is_first && frame.method() == Some("initialize")
    }

    /// Whether the editor may ask again to initialize: it was refused, because the server starts only after a while.
    pub(crate) fn is_refused_handshake(&self) -> bool {
        let is_open = self.servers.first().is_none_or(|it| it.session.is_open);
        let asks =
            |it: &Pending| matches!((&it.owner, &it.purpose), (Owner::Client(..), Purpose::Initialize));
        !is_open && self.requests.filter(asks).is_empty()
    }

    /// The server must watch lspool, not the editor, and is not told what is meant for lspool.
    pub(super) fn initialize_params(&self, params: &[u8]) -> Vec<u8> {
        let mut patch = Patch::of(params);
        patch.remove_path(&["initializationOptions", "lspool"]);
        if path(params, &["processId"]).is_some_and(|it| &params[it] != b"null") {
            patch.set("processId", self.identity.pid.to_string().as_bytes());
        }
        patch.finish()
    }

    /// Fails `initialize`, because no server can start. The message is for the user.
    pub(crate) fn on_unprepared(&mut self, message: &str) {
        let failure = Failure::new(Cause::Unavailable, message);
        let early = self.open().into_iter().flatten();
        for id in early.filter(|it| it.kind() == Kind::Request).filter_map(|it| it.id()) {
            self.tell_editor(failure.answer(id.into()));
        }
        self.exit(2);
    }

    /// Whether an id is in use: two requests with one id would collide. But a client that gives the id of its
    /// `initialize` to further requests, before the answer, does not number its requests; it relies on their order.
    /// `is_owed_elsewhere`: whether lspool itself owes an answer under the id.
    pub(crate) fn is_in_use(&mut self, id: &RequestId, is_owed_elsewhere: impl FnOnce() -> bool) -> bool {
        if self.asks_under(id) {
            return true;
        }
        let Some(earlier) = self.requests.of_client(ClientId::EDITOR, id) else {
            return is_owed_elsewhere() && !self.clients.is_unnumbered;
        };
        let opening = self.requests.get(earlier).map(|it| &it.purpose);
        self.clients.is_unnumbered |= matches!(opening, Some(Purpose::Initialize));
        !self.clients.is_unnumbered
    }

    pub(crate) fn on_shutdown(&mut self, id: RequestId) {
        let serving: Vec<_> = self.backends.iter().filter(|it| it.has_session()).map(|it| it.id).collect();
        for backend in serving {
            let frame = Frame::request(RawId::from(0), "shutdown", None);
            self.send_to_backend(backend, Owner::Proxy, Purpose::Shutdown, &frame);
        }
        let graces = self.servers.iter().map(|it| it.settings.shutdown_grace);
        let usual = graces.max().unwrap_or(SHUTDOWN_GRACE);
        let deadline = self.now() + self.grace(usual);
        self.clients.phase = Phase::ShuttingDown { id, deadline, exit: false };
        self.on_shutdown_progress();
    }

    /// Answers `shutdown` once no server owes an answer to it.
    pub(crate) fn on_shutdown_progress(&mut self) {
        let Phase::ShuttingDown { id, exit, .. } = &self.clients.phase else { return };
        let owed = self.requests.filter(|it| matches!(it.purpose, Purpose::Shutdown));
        if owed.is_empty() {
            let (answer, exit) = (Frame::response(id.clone().into(), b"null"), *exit);
            self.tell_editor(answer);
            self.clients.phase = Phase::ShutDown;
            if exit {
                self.leave();
            }
        }
    }

    fn after_shutdown(&mut self, frame: Frame) -> FromEditor {
        match (frame.kind(), frame.id()) {
            (Kind::Request, Some(id)) => {
                let failure = Failure::new(Cause::InvalidRequest, "lspool is shut down: send only `exit`");
                self.tell_editor(failure.answer(id.into()));
                FromEditor::Handled
            }
            (Kind::Response, _) => FromEditor::LateAnswer(frame),
            (Kind::Request | Kind::Notification, _) => FromEditor::Handled,
        }
    }

    /// An `exit` that came together with `shutdown` waits for the answer.
    fn on_exit(&mut self, frame: Frame) {
        match &mut self.clients.phase {
            Phase::Preparing { early } if early.iter().any(|it| it.method() == Some("shutdown")) => {
                early.push_back(frame);
            }
            Phase::ShuttingDown { exit, .. } => *exit = true,
            Phase::Waiting
            | Phase::Preparing { .. }
            | Phase::Open
            | Phase::ShutDown
            | Phase::Finishing
            | Phase::Exiting => self.leave(),
        }
    }

    fn leave(&mut self) {
        let begun =
            |it: &&Backend| it.has_session() && !matches!(it.life.state(), LifecycleState::Spawning { .. });
        let living: Vec<_> = self.backends.iter().filter(begun).map(Backend::process).collect();
        for process in living {
            self.tell(process, Frame::notification("exit", None));
        }
        self.exit(i32::from(!self.clients.is_shut_down()));
    }

    pub(crate) fn exit(&mut self, code: i32) {
        if !self.clients.is_exiting() {
            tracing::debug!(
                code,
                unanswered = self.requests.len(),
                open_tokens = self.tokens.n_open(),
                "exit"
            );
            self.clients.phase = Phase::Exiting;
            self.act(Effect::Exit(code));
        }
    }

    /// Notes whether the editor's queue is over high water.
    pub(crate) fn on_editor_reads(&mut self, reads: bool) {
        self.clients.is_slow = !reads;
    }

    /// Handles the end of the editor's stream. Returns whether answers are owed, or servers must finish.
    pub(crate) fn on_editor_closed(&mut self, error: Option<String>) -> bool {
        if let Some(error) = error {
            warn!(error, "could not read the editor's stream");
            self.exit(2);
            return false;
        }
        info!("editor closed its stream");
        if matches!(self.clients.phase, Phase::Waiting | Phase::ShutDown) {
            self.exit(0);
            return false;
        }
        true
    }

    /// Begins to wait for owed answers. `elsewhere` is the number of answers that lspool itself owes.
    pub(crate) fn begin_draining(&mut self, elsewhere: usize) {
        let until = self.now() + self.grace(DRAIN_GRACE);
        let owed = self.n_owed_to_clients() + elsewhere;
        self.clients.draining = Some(Draining { until, owed });
    }

    fn grace(&self, usual: Duration) -> Duration {
        let starting = |it: &Backend| {
            it.is_primary()
                && matches!(
                    it.life.state(),
                    LifecycleState::Waiting
                        | LifecycleState::Spawning { .. }
                        | LifecycleState::Initializing { .. }
                )
        };
        let starts = self.backends.iter().any(starting);
        if starts || matches!(self.clients.phase, Phase::Preparing { .. }) { START_GRACE } else { usual }
    }

    /// Ends the session of an editor that has closed its stream, once it is owed nothing and the servers have
    /// finished. As long as answers come, lspool waits for the others.
    pub(crate) fn drain(&mut self, elsewhere: impl FnOnce() -> usize) {
        let now = self.now();
        if self.clients.draining.is_none() {
            return;
        }
        let owed = self.n_owed_to_clients() + elsewhere();
        let Some(draining) = &mut self.clients.draining else { return };
        if owed < draining.owed {
            draining.until = now + DRAIN_GRACE;
        }
        draining.owed = owed;
        if owed > 0 {
            return;
        }
        let living: Vec<_> =
            self.backends.iter().filter(|it| it.life.is_alive()).map(Backend::process).collect();
        match self.clients.phase {
            Phase::Preparing { .. } | Phase::ShuttingDown { .. } | Phase::Exiting => {}
            Phase::Open if !living.is_empty() => {
                draining.until = now + FINISH_GRACE;
                self.clients.phase = Phase::Finishing;
                for it in living {
                    self.act(Effect::CloseInput(it));
                }
            }
            Phase::Finishing if !living.is_empty() => {}
            Phase::Open | Phase::Finishing | Phase::Waiting | Phase::ShutDown => self.exit(0),
        }
    }

    /// The deadlines of the editor, with reasons.
    pub(crate) fn editor_deadlines(&self) -> [Option<(Instant, &'static str)>; 2] {
        [self.clients.draining.as_ref().map(Draining::deadline), self.clients.phase.deadline()]
    }

    pub(crate) fn on_editor_deadlines(&mut self) {
        let now = self.now();
        if self.clients.phase.deadline().is_some_and(|(at, _)| at <= now) {
            warn!("server did not answer shutdown");
            for id in self.requests.filter(|it| matches!(it.purpose, Purpose::Shutdown)) {
                self.requests.take(id);
            }
            self.on_shutdown_progress();
        }
        if let Some(draining) = self.clients.draining.as_ref().filter(|it| it.until <= now) {
            if draining.owed > 0 {
                warn!(n = draining.owed, "answers did not arrive in time after the editor closed its stream");
            }
            self.exit(0);
        }
    }

    /// Handles a malformed message: answers a request with an error, turns an answer to a server into an error, and
    /// logs the rest. Returns the purpose of the answer if lspool itself had asked.
    pub(crate) fn on_malformed_client(
        &mut self,
        client: ClientId,
        id: MalformedMessage,
        reason: &str,
    ) -> Option<(SentId, Pending)> {
        warn!(?client, reason, "received a malformed message");
        let failure = Failure::new(Cause::Malformed, format!("malformed message: {reason}"));
        match id {
            MalformedMessage::Request(id) => self.send(Peer::Client(client), failure.answer(id)),
            MalformedMessage::Answer(id) => {
                let (sent, pending) = self.requests.take_answered(&id, Peer::Client(client))?;
                self.fail(&pending.owner, &Failure { cause: Cause::BadAnswer, ..failure });
                match pending.owner {
                    Owner::Backend(process, _) => self.release_token(process, &pending.frame),
                    Owner::Proxy => return Some((sent, pending)),
                    Owner::Client(..) | Owner::Part(_) => {}
                }
            }
            MalformedMessage::Other => {}
        }
        None
    }

    /// The primary of the server that gets all messages that belong to no other.
    pub(crate) fn primary(&self) -> Option<BackendId> {
        self.servers.first().map(|it| it.primary)
    }
}

/// The parts of `initialize` that concern lspool. Each part is read separately, because an odd one is for the server
/// to judge, and must not hide the workspace.
struct Initialize<'a>(&'a [u8]);

impl Initialize<'_> {
    fn process_id(&self) -> Option<u32> {
        serde_json::from_slice(&self.0[member(self.0, "processId")?]).ok()
    }

    fn folders(&self) -> Vec<PathBuf> {
        let list = member(self.0, "workspaceFolders").map_or(&b""[..], |range| &self.0[range]);
        let folders = elements(list).map(|range| &list[range]);
        let listed: Vec<_> = folders.filter_map(|it| file_path(&text(it, &["uri"])?)).collect();
        if !listed.is_empty() {
            return listed;
        }
        let root = text(self.0, &["rootUri"]).and_then(|it| file_path(&it));
        let path =
            || text(self.0, &["rootPath"]).map(|it| file_path(&it).unwrap_or_else(|| PathBuf::from(it)));
        root.or_else(path).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workspace_folders_take_precedence_over_root() {
        let read = |text: &str| Initialize(text.as_bytes()).folders();
        let both = read(r#"{"rootUri":"file:///r","workspaceFolders":[{"uri":"file:///a%20b","name":"x"}]}"#);
        assert_eq!(both, [PathBuf::from("/a b")]);
        assert_eq!(read(r#"{"rootUri":"file:///r","workspaceFolders":null}"#), [PathBuf::from("/r")]);
        assert_eq!(read(r#"{"rootPath":"/p"}"#), [PathBuf::from("/p")]);
        assert!(read(r#"{"rootUri":"untitled:x"}"#).is_empty());
    }

    #[test]
    fn initialize_finds_workspace_despite_malformed_fields() {
        for odd in [
            r#"{"processId":-1,"rootUri":"file:///r"}"#,
            r#"{"processId":"7","rootUri":"file:///r"}"#,
            r#"{"rootPath":5,"rootUri":"file:///r"}"#,
            r#"{"rootUri":null,"rootUri":"file:///r"}"#,
            r#"{"workspaceFolders":{"uri":"file:///x"},"rootUri":"file:///r"}"#,
            r#"{"workspaceFolders":[{"name":"x"},7,{"uri":"file:///r"}]}"#,
            r#"{"rootUri":"file:/r"}"#,
            r#"{"rootUri":"FILE://localhost/r"}"#,
            r#"{"rootUri":"file:///r?x=1#y"}"#,
            r#"{"rootPath":"file:///r"}"#,
        ] {
            assert_eq!(Initialize(odd.as_bytes()).folders(), [PathBuf::from("/r")], "{odd}");
        }
        assert_eq!(Initialize(br#"{"processId":7,"rootPath":{}}"#).process_id(), Some(7));
    }
}
