//! From the editor's first byte to the last: `initialize`, `shutdown`, `exit`, end of file.

use std::{
    collections::VecDeque,
    path::PathBuf,
    time::{Duration, Instant},
};

use tracing::{info, warn};

use crate::core::{Backend, Cause, Failure, PRIMARY, Proxy, Server, ToolSet, tell_editor};
use crate::{
    config::ServerKind,
    core::{
        event::{ClientId, Effect, Effects, Peer, Prepared},
        lifecycle::State,
        requests::{Owner, Purpose},
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
pub(crate) enum Phase {
    /// Before `initialize`.
    #[default]
    Waiting,
    /// `initialize` has come; the workspace is being looked at. What the editor sends meanwhile waits.
    Preparing { early: VecDeque<Frame> },
    /// Messages flow.
    Open,
    /// `shutdown` has come; it is answered when the servers have, or at the deadline. `exit`: has come too.
    ShuttingDown { id: RawId, deadline: Instant, exit: bool },
    /// `shutdown` is answered; only `exit` is expected.
    ShutDown,
    /// The editor has closed its stream and is owed nothing; so the servers have seen the end of theirs. What they
    /// still say is passed on.
    Finishing,
    /// The shell was told to exit.
    Exiting,
}

impl Phase {
    pub(crate) fn deadline(&self) -> Option<(Instant, &'static str)> {
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

    pub(crate) fn is_shut_down(&self) -> bool {
        matches!(self, Phase::ShuttingDown { .. } | Phase::ShutDown | Phase::Finishing)
    }

    pub(crate) fn is_exiting(&self) -> bool {
        matches!(self, Phase::Exiting)
    }
}

/// The editor has closed its stream.
#[derive(Debug)]
pub(crate) struct Draining {
    until: Instant,
    /// How many answers it is still owed.
    owed: usize,
}

impl Draining {
    pub(crate) fn deadline(&self) -> (Instant, &'static str) {
        (self.until, "the editor has closed its stream")
    }
}

impl Proxy {
    pub(crate) fn on_editor_frame(&mut self, now: Instant, frame: Frame, out: &mut Effects) {
        if frame.kind() == Kind::Notification && frame.method() == Some("exit") {
            return self.on_exit(frame, out);
        }
        match &mut self.phase {
            Phase::Waiting => self.before_initialize(frame, out),
            Phase::Preparing { early } => early.push_back(frame),
            Phase::Open => self.route(now, &frame, out),
            Phase::ShuttingDown { .. } | Phase::ShutDown => self.after_shutdown(now, &frame, out),
            Phase::Finishing | Phase::Exiting => {}
        }
    }

    fn before_initialize(&mut self, frame: Frame, out: &mut Effects) {
        match (frame.kind(), frame.id()) {
            (Kind::Request, Some(_)) if frame.method() == Some("initialize") => {
                self.on_initialize(frame, out);
            }
            (Kind::Request, Some(id)) => {
                let failure = Failure::new(Cause::NotInitialized, "send initialize first");
                tell_editor(failure.answer(id), out);
            }
            (Kind::Request | Kind::Notification | Kind::Response, _) => {
                warn!(?frame, "dropped: the editor has not sent initialize");
            }
        }
    }

    fn on_initialize(&mut self, frame: Frame, out: &mut Effects) {
        let params = frame.params().unwrap_or(b"{}");
        let asked = Initialize(params);
        if let Some(pid) = asked.process_id() {
            out.push(Effect::WatchEditor(pid));
        }
        self.folders = asked.folders();
        out.push(Effect::Prepare { folders: self.folders.clone() });
        self.phase = Phase::Preparing { early: VecDeque::from([frame]) };
    }

    pub(crate) fn on_prepared(&mut self, now: Instant, prepared: Prepared, out: &mut Effects) {
        let Phase::Preparing { early } = std::mem::replace(&mut self.phase, Phase::Open) else { return };
        let kind = prepared.server.kind.unwrap_or(ServerKind::Generic);
        info!(server = prepared.name, ?kind, program = %prepared.launch.program.display(), "initialize");
        self.warn_of(&prepared.warnings, out);
        self.server = Some(Server {
            name: prepared.name.clone(),
            kind,
            settings: prepared.server,
            launch: prepared.launch,
            config: prepared.config,
            missing: prepared.missing,
            is_gone: false,
            shrinks: false,
        });
        self.session.kept_transcripts = prepared.transcripts;
        self.choose_tools();
        let mut primary = Backend::new(PRIMARY, prepared.name, ToolSet::all(), now);
        primary.life.start(now);
        self.backends.insert(PRIMARY, primary);
        self.start_waiting(now, out);
        self.look_at_memory(now, out);
        for frame in early {
            if frame.method() == Some("initialize") && self.session.initialize.is_empty() {
                self.forward_initialize(&frame, out);
            } else {
                self.on_editor_frame(now, frame, out);
            }
        }
    }

    fn forward_initialize(&mut self, frame: &Frame, out: &mut Effects) {
        self.note_watching_editor(frame.params().unwrap_or(b"{}"));
        let params = self.initialize_params(frame.params().unwrap_or(b"{}"));
        self.session.initialize = params.into();
        let frame = frame.with_params(&self.session.initialize);
        let Some(id) = frame.id() else { return };
        let owner = Owner::Client(ClientId::EDITOR, id);
        self.send_to_backend(PRIMARY, owner, Purpose::Initialize, &frame, out);
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
    pub(crate) fn on_unprepared(&mut self, message: &str, out: &mut Effects) {
        if let Phase::Preparing { early } = std::mem::replace(&mut self.phase, Phase::Open) {
            let failure = Failure::new(Cause::Unavailable, message);
            let asked = early.into_iter().filter(|it| it.kind() == Kind::Request);
            for id in asked.filter_map(|it| it.id()) {
                tell_editor(failure.answer(id), out);
            }
        }
        self.exit(2, out);
    }

    pub(crate) fn on_shutdown(&mut self, now: Instant, id: RawId, out: &mut Effects) {
        self.cancel_orchestrations(now, out);
        let serving: Vec<_> = self.backends.values().filter(|it| it.has_session()).map(|it| it.id).collect();
        for backend in serving {
            let frame = Frame::request(RawId::from(0), "shutdown", None);
            self.send_to_backend(backend, Owner::Proxy, Purpose::Shutdown, &frame, out);
        }
        let usual = self.server.as_ref().map_or(SHUTDOWN_GRACE, |it| it.settings.shutdown_grace);
        let deadline = now + self.grace(usual);
        self.phase = Phase::ShuttingDown { id, deadline, exit: false };
        self.on_shutdown_progress(out);
    }

    /// Answers `shutdown` once no server owes an answer to it.
    pub(crate) fn on_shutdown_progress(&mut self, out: &mut Effects) {
        let Phase::ShuttingDown { id, exit, .. } = &self.phase else { return };
        let owed = self.requests.filter(|it| matches!(it.purpose, Purpose::Shutdown));
        if owed.is_empty() {
            tell_editor(Frame::response(id.clone(), b"null"), out);
            let exit = *exit;
            self.phase = Phase::ShutDown;
            if exit {
                self.leave(out);
            }
        }
    }

    fn after_shutdown(&mut self, now: Instant, frame: &Frame, out: &mut Effects) {
        match (frame.kind(), frame.id()) {
            (Kind::Request, Some(id)) => {
                let failure = Failure::new(Cause::InvalidRequest, "shut down: only exit may follow");
                tell_editor(failure.answer(id), out);
            }
            (Kind::Response, _) => self.on_editor_answer(now, frame, out),
            (Kind::Request | Kind::Notification, _) => {}
        }
    }

    /// An `exit` that was sent together with `shutdown` comes after its answer.
    fn on_exit(&mut self, frame: Frame, out: &mut Effects) {
        match &mut self.phase {
            Phase::Preparing { early } if early.iter().any(|it| it.method() == Some("shutdown")) => {
                early.push_back(frame);
            }
            Phase::ShuttingDown { exit, .. } => *exit = true,
            Phase::Waiting
            | Phase::Preparing { .. }
            | Phase::Open
            | Phase::ShutDown
            | Phase::Finishing
            | Phase::Exiting => {
                self.leave(out);
            }
        }
    }

    fn leave(&mut self, out: &mut Effects) {
        let begun = |it: &&Backend| it.has_session() && !matches!(it.life.state(), State::Spawning { .. });
        let living: Vec<_> = self.backends.values().filter(begun).map(Backend::process).collect();
        for process in living {
            out.push(Effect::Send(Peer::Backend(process), Frame::notification("exit", None)));
        }
        self.exit(i32::from(!self.phase.is_shut_down()), out);
    }

    pub(crate) fn on_editor_closed(&mut self, now: Instant, error: Option<String>, out: &mut Effects) {
        if let Some(error) = error {
            warn!(error, "the editor's stream cannot be read any further");
            return self.exit(2, out);
        }
        info!("the editor has closed its stream");
        if matches!(self.phase, Phase::Waiting | Phase::ShutDown) {
            return self.exit(0, out);
        }
        // It answers no question of theirs any more, and does not wait for minutes.
        self.cancel_orchestrations(now, out);
        let until = now + self.grace(DRAIN_GRACE);
        self.draining = Some(Draining { until, owed: self.n_owed_to_editor() });
    }

    fn grace(&self, usual: Duration) -> Duration {
        let starts = self.backend(PRIMARY).is_some_and(|it| {
            matches!(it.life.state(), State::Waiting | State::Spawning { .. } | State::Initializing { .. })
        });
        if starts || matches!(self.phase, Phase::Preparing { .. }) { START_GRACE } else { usual }
    }

    fn n_owed_to_editor(&self) -> usize {
        self.requests.n_owed_to_clients()
            + self.control.n_owed_to(ClientId::EDITOR)
            + self.orchestrations.n_owed()
    }

    /// An editor that has closed its stream is left once it is owed nothing and the servers have said what they had
    /// to say. As long as answers come, the rest is waited for.
    pub(crate) fn drain(&mut self, now: Instant, out: &mut Effects) {
        if self.draining.is_none() {
            return;
        }
        let owed = self.n_owed_to_editor();
        let Some(draining) = &mut self.draining else { return };
        if owed < draining.owed {
            draining.until = now + DRAIN_GRACE;
        }
        draining.owed = owed;
        if owed > 0 {
            return;
        }
        let living: Vec<_> =
            self.backends.values().filter(|it| it.life.is_alive()).map(Backend::process).collect();
        match self.phase {
            Phase::Preparing { .. } | Phase::ShuttingDown { .. } | Phase::Exiting => {}
            Phase::Open if !living.is_empty() => {
                draining.until = now + FINISH_GRACE;
                self.phase = Phase::Finishing;
                out.extend(living.into_iter().map(Effect::CloseInput));
            }
            Phase::Finishing if !living.is_empty() => {}
            Phase::Open | Phase::Finishing | Phase::Waiting | Phase::ShutDown => self.exit(0, out),
        }
    }

    pub(crate) fn on_editor_deadlines(&mut self, now: Instant, out: &mut Effects) {
        if self.phase.deadline().is_some_and(|(at, _)| at <= now) {
            warn!("a server has not answered shutdown");
            for id in self.requests.filter(|it| matches!(it.purpose, Purpose::Shutdown)) {
                self.requests.take(id);
            }
            self.on_shutdown_progress(out);
        }
        if let Some(draining) = self.draining.as_ref().filter(|it| it.until <= now) {
            if draining.owed > 0 {
                warn!(n = draining.owed, "answers have not come in time; the editor has closed its stream");
            }
            self.exit(0, out);
        }
    }

    /// A request is answered, the answer to a server's request becomes an error; the rest can only be logged, as
    /// any server does.
    pub(crate) fn on_malformed_client(
        &mut self,
        now: Instant,
        client: ClientId,
        id: Option<(RawId, bool)>,
        reason: &str,
        out: &mut Effects,
    ) {
        warn!(?client, reason, "malformed message");
        let failure = Failure::new(Cause::Malformed, format!("malformed message: {reason}"));
        match id {
            Some((id, true)) => out.push(Effect::Send(Peer::Client(client), failure.answer(id))),
            Some((id, false)) => {
                if let Some((sent, pending)) = self.requests.answered(&id, Peer::Client(client)) {
                    let failure = Failure { cause: Cause::BadAnswer, ..failure };
                    self.fail(&pending.owner, &failure, out);
                    match pending.owner {
                        Owner::Backend(process, _) => self.release_token(process, &pending.frame),
                        Owner::Proxy => self.on_late_answer(now, sent, pending, None, out),
                        Owner::Client(..) => {}
                    }
                }
            }
            None => {}
        }
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
