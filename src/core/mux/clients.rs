//! Who may ask: the editor, from its first byte to the last (`initialize`, `shutdown`, `exit`, end of file), and other
//! clients, which have no handshake.

use std::{
    collections::VecDeque,
    path::PathBuf,
    time::{Duration, Instant},
};

use tracing::{info, warn};

use super::Mux;
use crate::{
    core::{
        event::{BackendId, ClientId, Effect, Peer, Prepared, ServerId},
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

/// How long the answers to `shutdown` are waited for.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
/// How long the next of the answers is waited for that an editor is owed when it has closed its stream.
const DRAIN_GRACE: Duration = Duration::from_secs(2);
/// The same while the server starts: a pipe is often filled and closed before it is ready.
const START_GRACE: Duration = Duration::from_millis(2500);
/// How long servers may finish what they were told once their stream is closed too.
const FINISH_GRACE: Duration = Duration::from_millis(1500);

/// How far the editor has come.
#[derive(Debug, Default)]
enum Phase {
    /// Before `initialize`.
    #[default]
    Waiting,
    /// `initialize` has come; the workspace is being looked at. What the editor sends meanwhile waits.
    Preparing { early: VecDeque<Frame> },
    /// Messages flow.
    Open,
    /// `shutdown` has come; it is answered when the servers have, or at the deadline. `exit`: has come too.
    ShuttingDown { id: RequestId, deadline: Instant, exit: bool },
    /// `shutdown` is answered; only `exit` is expected.
    ShutDown,
    /// The editor has closed its stream and is owed nothing; so the servers have seen the end of theirs. What they
    /// still say is passed on.
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
    /// How many answers it is still owed.
    owed: usize,
}

impl Draining {
    fn deadline(&self) -> (Instant, &'static str) {
        (self.until, "the editor has closed its stream")
    }
}

/// What is known of the clients.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    phase: Phase,
    /// The editor has closed its stream.
    draining: Option<Draining>,
    /// The editor gives one id to several requests.
    is_unnumbered: bool,
    /// The editor lets so much wait that servers are not read.
    is_slow: bool,
    /// Workspace folders of `initialize`.
    folders: Vec<PathBuf>,
}

impl Clients {
    /// Workspace folders of `initialize`.
    pub(crate) fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// Whether messages flow.
    #[cfg(test)]
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Whether the editor has asked to initialize, and not to shut down.
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

    /// Whether the editor lets so much wait that servers are not read.
    pub(super) fn is_slow(&self) -> bool {
        self.is_slow
    }
}

/// What is left of a message of the editor's once its handshake has been looked at.
#[derive(Debug)]
pub(crate) enum FromEditor {
    /// Nothing.
    Handled,
    /// It is to be routed.
    Open(Frame),
    /// It answers a server after the editor has shut lspool down.
    LateAnswer(Frame),
}

impl Mux {
    /// Takes in a message of the editor's as far as the handshake is concerned.
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
                warn!(?frame, "dropped: the editor has not sent initialize");
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

    /// The workspace is known: messages flow from now on. Gives what the editor has sent meanwhile, if it waits.
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

    /// Adds a server, with a primary that waits for its process.
    pub(crate) fn add_server(&mut self, prepared: Prepared) -> ServerId {
        let now = self.now();
        let Prepared { config, name, server, launch, missing, warnings: _, transcripts: _ } = prepared;
        let primary = self.backends.next_id();
        let settings = server;
        let definition = Definition { name: name.clone(), settings, launch, config, missing };
        let server = self.servers.add(definition, primary);
        let new = NewBackend { server, role: Role::Primary, alias: name.clone(), name };
        self.backends.add(new, now);
        self.start(primary);
        server
    }

    /// Passes the editor's `initialize` on to the server, if none has been.
    pub(crate) fn forward_initialize(&mut self, frame: &Frame) {
        let params = self.initialize_params(frame.params().unwrap_or(b"{}"));
        let (Some(server), Some(id)) = (self.servers.first_mut(), frame.id()) else { return };
        let (primary, frame) = (server.primary, frame.with_params(&params));
        // The editor knows the token until its end: only one process may report under it.
        server.session.initialize = Patch::of(&params).remove("workDoneToken").finish().into();
        let owner = Owner::Client(ClientId::EDITOR, id.into());
        self.send_to_backend(primary, owner, Purpose::Initialize, &frame);
    }

    /// Whether this is the `initialize` that is still to be passed on.
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
    fn initialize_params(&self, params: &[u8]) -> Vec<u8> {
        let mut patch = Patch::of(params);
        patch.remove_path(&["initializationOptions", "lspool"]);
        if path(params, &["processId"]).is_some_and(|it| &params[it] != b"null") {
            patch.set("processId", self.identity.pid.to_string().as_bytes());
        }
        patch.finish()
    }

    /// No server can be started: the editor's user reads the reason as the error of `initialize`.
    pub(crate) fn on_unprepared(&mut self, message: &str) {
        let failure = Failure::new(Cause::Unavailable, message);
        let early = self.open().into_iter().flatten();
        for id in early.filter(|it| it.kind() == Kind::Request).filter_map(|it| it.id()) {
            self.tell_editor(failure.answer(id.into()));
        }
        self.exit(2);
    }

    /// Two requests with one id could not be told apart. But a client that gives the same id to its `initialize` and
    /// to what it sends without waiting for the answer does not number its requests: it goes by their order.
    /// `is_owed_elsewhere`: whether lspool itself owes an answer under it.
    pub(crate) fn is_in_use(&mut self, id: &RequestId, is_owed_elsewhere: impl FnOnce() -> bool) -> bool {
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
        let usual = self.servers.first().map_or(SHUTDOWN_GRACE, |it| it.settings.shutdown_grace);
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
                let failure = Failure::new(Cause::InvalidRequest, "shut down: only exit may follow");
                self.tell_editor(failure.answer(id.into()));
                FromEditor::Handled
            }
            (Kind::Response, _) => FromEditor::LateAnswer(frame),
            (Kind::Request | Kind::Notification, _) => FromEditor::Handled,
        }
    }

    /// An `exit` that was sent together with `shutdown` comes after its answer.
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

    /// The editor reads again, or has let so much wait that servers are not read any more.
    pub(crate) fn on_editor_reads(&mut self, reads: bool) {
        self.clients.is_slow = !reads;
    }

    /// The editor will send no more. Whether it is still owed something, or servers are to finish.
    pub(crate) fn on_editor_closed(&mut self, error: Option<String>) -> bool {
        if let Some(error) = error {
            warn!(error, "the editor's stream cannot be read any further");
            self.exit(2);
            return false;
        }
        info!("the editor has closed its stream");
        if matches!(self.clients.phase, Phase::Waiting | Phase::ShutDown) {
            self.exit(0);
            return false;
        }
        true
    }

    /// The editor is left once it is owed nothing. `elsewhere`: how many answers lspool itself owes it.
    pub(crate) fn begin_draining(&mut self, elsewhere: usize) {
        let until = self.now() + self.grace(DRAIN_GRACE);
        let owed = self.requests.n_owed_to_clients() + elsewhere;
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

    /// An editor that has closed its stream is left once it is owed nothing and the servers have said what they had
    /// to say. As long as answers come, the rest is waited for.
    pub(crate) fn drain(&mut self, elsewhere: impl FnOnce() -> usize) {
        let now = self.now();
        let Some(draining) = &mut self.clients.draining else { return };
        let owed = self.requests.n_owed_to_clients() + elsewhere();
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

    /// When something is to be done about the editor, and what.
    pub(crate) fn editor_deadlines(&self) -> [Option<(Instant, &'static str)>; 2] {
        [self.clients.draining.as_ref().map(Draining::deadline), self.clients.phase.deadline()]
    }

    pub(crate) fn on_editor_deadlines(&mut self) {
        let now = self.now();
        if self.clients.phase.deadline().is_some_and(|(at, _)| at <= now) {
            warn!("a server has not answered shutdown");
            for id in self.requests.filter(|it| matches!(it.purpose, Purpose::Shutdown)) {
                self.requests.take(id);
            }
            self.on_shutdown_progress();
        }
        if let Some(draining) = self.clients.draining.as_ref().filter(|it| it.until <= now) {
            if draining.owed > 0 {
                warn!(n = draining.owed, "answers have not come in time; the editor has closed its stream");
            }
            self.exit(0);
        }
    }

    /// A request is answered, the answer to a server's request becomes an error; the rest can only be logged, as
    /// any server does. Gives what was asked, if it was lspool itself who had asked it.
    pub(crate) fn on_malformed_client(
        &mut self,
        client: ClientId,
        id: MalformedMessage,
        reason: &str,
    ) -> Option<(SentId, Pending)> {
        warn!(?client, reason, "malformed message");
        let failure = Failure::new(Cause::Malformed, format!("malformed message: {reason}"));
        match id {
            MalformedMessage::Request(id) => self.send(Peer::Client(client), failure.answer(id)),
            MalformedMessage::Answer(id) => {
                let (sent, pending) = self.requests.take_answered(&id, Peer::Client(client))?;
                self.fail(&pending.owner, &Failure { cause: Cause::BadAnswer, ..failure });
                match pending.owner {
                    Owner::Backend(process, _) => self.release_token(process, &pending.frame),
                    Owner::Proxy => return Some((sent, pending)),
                    Owner::Client(..) => {}
                }
            }
            MalformedMessage::Other => {}
        }
        None
    }

    /// The primary of the server that gets what belongs to no other.
    pub(crate) fn primary(&self) -> Option<BackendId> {
        self.servers.first().map(|it| it.primary)
    }
}

/// What `initialize` says that concerns lspool. Each part is read for itself: one that is odd is the server's to
/// judge, and must not hide where the workspace is.
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
