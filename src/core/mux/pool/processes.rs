//! The processes of backends: their start, their session, and the consequences of their end.
//!
//! The end of a process takes three steps, so that a higher owner can say in between what is still wanted:
//! [`Mux::begin_gone`], [`Mux::decide_gone`], [`Mux::finish_gone`].

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tracing::{debug, info, warn};

use super::exit::end_of;
use crate::{
    core::{
        event::{BackendId, Displaced, Effect, Peer, ProcessId, SpawnFailure},
        ids::ConversationId,
        mux::{
            Mux, Severity,
            failure::{Cause, Failure, MalformedMessage, reason},
            merge::group,
            pool::{
                backend::{Backend, Fault, Idling},
                lifecycle::{Death, Demand, Handshake, LifecycleState, Todo},
            },
            requests::{Owner, Pending, To},
            session::{Replay, documents::Encoding, folders::folders_of},
        },
        purpose::{Purpose, SentId},
    },
    rpc::{Frame, Kind},
};

/// A process is gone, or has failed to start.
#[derive(Debug)]
pub(crate) struct Gone {
    pub(crate) process: ProcessId,
    cause: Cause,
    /// Its end, for people.
    what: String,
    before: LifecycleState,
    /// Whether it was a spare that nobody has stopped.
    pub(crate) is_lost_spare: bool,
    pub(crate) outlook: Outlook,
    /// Varies the delays, so that several lspools do not restart their servers at the same time.
    chance: u64,
}

/// Whether another process would follow, if it is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outlook {
    Follows,
    Ends,
}

/// The consequences of a process's end.
#[derive(Debug)]
pub(crate) struct Aftermath {
    pub(crate) process: ProcessId,
    cause: Cause,
    what: String,
    death: Death,
    next: Successor,
    advice: &'static str,
}

impl Aftermath {
    /// The next process, if any.
    pub(crate) fn next(&self) -> Successor {
        self.next
    }
}

/// The successor of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Successor {
    Follows,
    None,
    Failed,
}

/// The parts of a dead process's work that are still wanted.
#[derive(Debug, Default)]
pub(crate) struct StillWanted {
    /// The conversations whose progress the next process continues.
    pub(crate) subjects: Vec<ConversationId>,
    /// Queued requests that are not needed.
    pub(crate) cut_off: Vec<SentId>,
    /// Turns that are refused because the next process starts only after a while.
    pub(crate) refused: Vec<SentId>,
}

/// The consequence of a failed spawn.
#[derive(Debug)]
pub(crate) enum SpawnEnd {
    /// It counts as an exit.
    Gone(Cause, String),
    /// Another attempt is useless.
    Hopeless(Failure),
}

/// The answer to `initialize`.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) handshake: Handshake,
    /// Whether it is the first answer of the server.
    pub(crate) is_first: bool,
}

/// The due action for a backend.
#[derive(Debug)]
pub(crate) enum Due {
    Nothing,
    /// Stop it, because it was idle long enough.
    Stop(&'static str),
    /// Fail it, because it cannot start.
    GiveUp(Failure),
    /// End these turns, which have waited long enough for a server elsewhere.
    Late {
        turns: Vec<SentId>,
        failure: Failure,
    },
}

impl Mux {
    /// Starts a backend on demand.
    pub(crate) fn start(&mut self, id: BackendId) {
        let now = self.now();
        if let Some(backend) = self.backends.get_mut(id) {
            backend.life.start(now);
        }
    }

    /// Spawns the process of a due backend. An error: it cannot start.
    pub(crate) fn spawn(&mut self, id: BackendId) -> Result<(), Failure> {
        let now = self.now();
        let Some(backend) = self.backends.get_mut(id) else { return Ok(()) };
        let server = self.servers.get(backend.server);
        if let Some(missing) = &server.missing {
            let name = backend.name.clone();
            let message = format!("{name} could not start: {missing}");
            return Err(Failure { partition: Some(name), ..Failure::new(Cause::Unavailable, message) });
        }
        let asks = |it: &Pending| matches!(it.purpose, Purpose::Initialize);
        let is_answered = !server.session.initialize.is_empty() && self.requests.filter(asks).is_empty();
        let is_first = backend.is_primary() && backend.life.generation().0 == 0 && !is_answered;
        let is_editors = is_first && self.group.is_none();
        let handshake = if is_editors { Handshake::Editor } else { Handshake::Own };
        backend.life.spawn(now, handshake, now + server.settings.startup_timeout);
        backend.begin(now);
        let process = backend.process();
        self.backends.set_paths(id, &server.launch);
        if let Some(launch) = self.launch_for(id) {
            self.act(Effect::Spawn(process, launch));
        }
        Ok(())
    }

    /// A process is about to run elsewhere than in its working folder. The user hears of it once, until one is in its
    /// folder again.
    pub(crate) fn on_displaced(&mut self, process: ProcessId, displaced: &Displaced) {
        let Some(backend) = self.backends.get(process.backend) else { return };
        let (name, server) = (backend.name.clone(), self.servers.get_mut(backend.server));
        if server.displaced.replace(process).is_none() {
            let Displaced { missing, instead } = displaced;
            let message = format!(
                "lspool: the working folder {missing} is not there any more; {name} runs in {instead}"
            );
            self.show(Severity::Warning, &message);
        }
    }

    /// A process runs. Gives whose handshake follows.
    pub(crate) fn on_spawned(&mut self, process: ProcessId, pid: u32) -> Option<Handshake> {
        let now = self.now();
        let backend = self.backends.get_mut(process.backend).filter(|it| it.is_current(process))?;
        backend.pid = Some(pid);
        self.servers.get_mut(backend.server).displaced.take_if(|it| *it != process);
        let handshake = backend.life.spawned(now)?;
        info!(backend = backend.name, pid, generation = process.generation.0, "started");
        Some(handshake)
    }

    /// Sends `initialize` to a process: as the editor's request if that is unanswered, else with these parameters.
    pub(crate) fn initialize(&mut self, process: ProcessId, params: &[u8]) {
        let id = process.backend;
        let unanswered = |it: &Pending| it.to == To::Queue(id) && matches!(it.purpose, Purpose::Initialize);
        let unanswered = self.requests.filter(unanswered).first().copied();
        let Some(backend) = self.backends.get_mut(id) else { return };
        let params = &*self.servers.get(backend.server).watching(params);
        backend.folders = folders_of(params);
        let is_it = |it: &Frame| SentId::of(it) == unanswered;
        let at = unanswered.and_then(|_| backend.queued().iter().position(is_it));
        match at.and_then(|at| backend.queue().remove(at)) {
            // The first process may have begun to report under the token, whose end the editor has seen.
            Some(frame) if process.generation.0 > 1 => self.deliver(process, frame.with_params(params)),
            Some(frame) => self.deliver(process, frame),
            None => self.ask_backend(id, Purpose::Initialize, "initialize", params),
        }
    }

    /// Sends the editor's `initialize` to a process.
    pub(crate) fn initialize_as_editor(&mut self, process: ProcessId) {
        let Some(backend) = self.backend(process.backend) else { return };
        let params = self.servers.of(backend).session.initialize_now();
        self.initialize(process, &params);
    }

    /// Handles the answer to `initialize`. An error: the process refused. `None`: the answer was not expected.
    pub(crate) fn on_initialized(
        &mut self,
        process: ProcessId,
        answer: &Frame,
    ) -> Option<Result<Ready, Failure>> {
        let now = self.now();
        let backend = self.backends.get_mut(process.backend)?;
        let Some(result) = answer.result() else {
            let name = backend.name.clone();
            let message = format!("{name} refused initialize: {}", reason(answer));
            return Some(Err(Failure { partition: Some(name), ..Failure::new(Cause::Unavailable, message) }));
        };
        if let Some(encoding) = self.group.as_ref().and_then(|_| group::foreign_encoding(result)) {
            let name = backend.name.clone();
            let message = format!("{name} counts characters in {encoding}, although lspool asked for utf-16");
            return Some(Err(Failure { partition: Some(name), ..Failure::new(Cause::Unavailable, message) }));
        }
        let handshake = backend.life.ready(now)?;
        info!(backend = backend.name, "ready");
        backend.failure_told = false;
        let session = &mut self.servers.get_mut(backend.server).session;
        let is_first = backend.is_primary() && !session.is_open;
        if is_first {
            session.is_open = true;
            session.documents.set_encoding(Encoding::of_result(result));
            session.offered = Bytes::copy_from_slice(result);
            self.answer_handshakes(process.backend, answer);
        }
        self.note_back(process.backend);
        self.on_member_initialized(process, result);
        Some(Ok(Ready { handshake, is_first }))
    }

    /// An editor that was refused its `initialize`, and has asked again meanwhile, gets the answer that lspool has got.
    fn answer_handshakes(&mut self, id: BackendId, answer: &Frame) {
        let asks = |it: &Pending| it.to == To::Queue(id) && matches!(it.purpose, Purpose::Initialize);
        for sent in self.requests.filter(asks) {
            let Some(pending) = self.requests.take(sent) else { continue };
            if let Some(backend) = self.backends.get_mut(id) {
                backend.queue().retain(|it| SentId::of(it) != Some(sent));
            }
            self.answer_client(&pending, answer);
        }
    }

    /// A backend takes the process of a spare: it is ready at once.
    pub(crate) fn adopt(&mut self, id: BackendId, spare: BackendId) -> Option<ProcessId> {
        let now = self.now();
        let (theirs, pid) = self.backend(spare).map(|it| (it.process(), it.pid))?;
        let backend = self.backends.get_mut(id)?;
        backend.life.spawn(now, Handshake::Own, now);
        backend.begin(now);
        backend.pid = pid;
        backend.life.spawned(now);
        backend.life.ready(now);
        backend.failure_told = false;
        let (process, server, name) = (backend.process(), backend.server, backend.name.clone());
        self.backends.set_paths(id, &self.servers.get(server).launch);
        info!(backend = name, "adopted a spare");
        self.act(Effect::Adopt { spare: theirs, process });
        self.rename_process(theirs, process);
        self.backends.remove(spare);
        Some(process)
    }

    /// Replays the session for a process.
    pub(crate) fn replay_session(&mut self, process: ProcessId) {
        self.replay_initialized(process);
        let Some(backend) = self.backend(process.backend) else { return };
        let folders = backend.folders.clone();
        let replay = self.servers.of(backend).session.replay(&folders);
        let Replay { latest, settings, folders, documents, of_documents, calls } = replay;
        let further = self.further_folders(process);
        for frame in latest.into_iter().chain(settings).chain(folders).chain(further) {
            self.replay(process, frame);
        }
        self.begin_feed(process, documents, of_documents.into_iter().chain(calls).collect());
    }

    /// Sends the first message of a replayed session.
    pub(crate) fn replay_initialized(&mut self, process: ProcessId) {
        let Some(backend) = self.backend(process.backend) else { return };
        if self.servers.of(backend).session.initialized {
            self.tell(process, Frame::notification("initialized", Some(b"{}")));
        }
    }

    /// Sends one message of a replayed session.
    pub(crate) fn replay(&mut self, process: ProcessId, frame: Frame) {
        match (frame.kind(), frame.method()) {
            (Kind::Request, Some(method)) => {
                let params = frame.params().unwrap_or(b"{}");
                self.ask_backend(process.backend, Purpose::Plain, method, params);
            }
            (_, _) => self.tell(process, frame),
        }
    }

    /// Handles a failed spawn. `None`: it is an older process.
    pub(crate) fn on_spawn_failed(&mut self, process: ProcessId, failure: &SpawnFailure) -> Option<SpawnEnd> {
        let now = self.now();
        let backend = self.backends.get_mut(process.backend).filter(|it| it.is_current(process))?;
        let fault = backend.ending.take_fault();
        if let (None, Some(paths)) = (&fault, &failure.moved) {
            self.note_moved(process.backend, paths);
            return Some(SpawnEnd::Gone(Cause::Unreachable, format!("was not started: {}", failure.message)));
        }
        let (cause, what) = match fault {
            Some((cause, fault)) => (cause, format!("was ended ({fault})")),
            None => (Cause::Unavailable, format!("could not start: {}", failure.message)),
        };
        warn!(backend = backend.name, what, failure.permanent, "could not start");
        // The error of an unwanted process does not matter.
        if !failure.permanent || !backend.goes_on() {
            return Some(SpawnEnd::Gone(cause, what));
        }
        let name = backend.name.clone();
        backend.life.fail_to_start(now);
        self.servers.get_mut(backend.server).is_gone = true;
        let failure = Failure::new(Cause::Unavailable, format!("{name} {what}"));
        Some(SpawnEnd::Hopeless(Failure { partition: Some(name), ..failure }))
    }

    /// Notes that a process is gone, or failed to start.
    pub(crate) fn begin_gone(&mut self, process: ProcessId, cause: Cause, what: String) -> Option<Gone> {
        let now = self.now();
        let goes_on = !self.clients.is_shut_down();
        let chance = self.identity.mixed(self.requests.n_sent());
        self.encodings.forget(process);
        let backend = self.backends.get_mut(process.backend)?;
        let settings = &self.servers.get(backend.server).settings;
        let policy = &settings.policy;
        let before = backend.life.state();
        let died = !matches!(
            before,
            LifecycleState::Stopped
                | LifecycleState::Failed
                | LifecycleState::Waiting
                | LifecycleState::Restarting { .. }
        );
        let is_lost_spare = backend.is_spare() && died;
        if died {
            backend.stopped = None;
        }
        if (!goes_on || is_lost_spare) && !matches!(before, LifecycleState::Failed) {
            backend.life.stop(now);
        }
        if is_lost_spare {
            warn!(backend = backend.name, what, "exited");
        }
        let comes_back = match before {
            LifecycleState::Restarting { .. } | LifecycleState::Waiting => goes_on,
            LifecycleState::Spawning { .. }
            | LifecycleState::Initializing { .. }
            | LifecycleState::Ready
            | LifecycleState::Degraded => {
                goes_on && backend.life.would_restart(now, policy, end_of(cause, settings))
            }
            LifecycleState::Stopped | LifecycleState::Failed => false,
        };
        let outlook = if comes_back { Outlook::Follows } else { Outlook::Ends };
        Some(Gone { process, cause, what, before, is_lost_spare, outlook, chance })
    }

    /// Decides whether another process follows. `waiting` is the demand outside queues. `None`: there is no
    /// consequence.
    pub(crate) fn decide_gone(&mut self, gone: Gone, waiting: Demand) -> Option<Aftermath> {
        let now = self.now();
        let Gone { process, cause, what, before, is_lost_spare: _, outlook, chance } = gone;
        let waits = self.has_queued_requests(process.backend) || waiting == Demand::Somebody;
        let backend = self.backends.get_mut(process.backend)?;
        let settings = &self.servers.get(backend.server).settings;
        let policy = &settings.policy;
        let demand = match outlook == Outlook::Follows && (waits || backend.is_primary()) {
            true => Demand::Somebody,
            false => Demand::Nobody,
        };
        let death =
            backend.life.exited(now, process.generation, policy, demand, end_of(cause, settings), chance)?;
        backend.pid = None;
        let is_expected = !matches!(before, LifecycleState::Ready | LifecycleState::Degraded);
        let cause = if death == Death::Expected && is_expected { Cause::NotStarted } else { cause };
        let (next, advice) = match (death, backend.life.state()) {
            (Death::Expected, LifecycleState::Restarting { .. } | LifecycleState::Waiting) => {
                (Successor::Follows, "another process replaces it; send the request again")
            }
            (Death::Expected, _) => (Successor::None, "it was stopped"),
            (Death::Restarts, _) => (Successor::Follows, "lspool restarts it; send the request again"),
            (Death::Stops, _) => (Successor::None, "send the request again"),
            (Death::Fails, _) => (Successor::Failed, "lspool does not restart it"),
        };
        if death != Death::Expected {
            warn!(backend = backend.name, ?death, what, "exited");
            let often = backend.life.spent(policy).unwrap_or_default();
            backend.note_error(now, format!("it {what}{often}"));
        }
        debug!(backend = backend.name, ?before, ?death, "process ended");
        Some(Aftermath { process, cause, what, death, next, advice })
    }

    /// Ends or keeps the requests in both directions of a process that is gone.
    pub(crate) fn finish_gone(&mut self, after: &Aftermath, wanted: &StillWanted) {
        let Aftermath { process, cause, ref what, next, advice, .. } = *after;
        let id = process.backend;
        let Some(name) = self.backend(id).map(|it| it.name.clone()) else { return };
        self.end_progress(id, &format!("{name} {what}"), |it| wanted.subjects.contains(it));
        self.withdraw_questions(process);
        self.retry_requests(process, next, cause, what);
        let lost = |sent: &SentId, it: &Pending| match it.to {
            To::Process(asked) => asked == process,
            To::Queue(asked) => asked == id && (next != Successor::Follows || wanted.cut_off.contains(sent)),
            To::Client(_) | To::BuiltinTools => false,
        };
        let lost: Vec<_> = self.requests.iter().filter(|(sent, it)| lost(sent, it)).map(|it| it.0).collect();
        for sent in lost {
            let Some(pending) = self.requests.take(sent) else { continue };
            let during = pending.frame.method().unwrap_or_default();
            let message = match pending.purpose {
                Purpose::Initialize => format!("{name} {what}"),
                _ => format!("{name} {what} during {during}; {advice}"),
            };
            let retry = next != Successor::Failed;
            let failure = Failure { cause, partition: Some(name.clone()), message, retry };
            self.fail_request(&pending.owner, &pending.purpose, &failure);
        }
        match next {
            Successor::Follows => {
                self.drop_replayed(id);
                if cause == Cause::Unreachable {
                    self.note_away(id);
                }
                self.refuse_queued(id, &wanted.refused);
            }
            Successor::None | Successor::Failed => {
                if let Some(backend) = self.backends.get_mut(id) {
                    backend.queue().clear();
                }
                self.forget_shown(id);
            }
        }
    }

    /// Tells the user that no process follows, or that the server crashes repeatedly.
    pub(crate) fn report_gone(&mut self, after: &Aftermath) {
        let id = after.process.backend;
        let Some(name) = self.backend(id).map(|it| it.name.clone()) else { return };
        match after.death {
            Death::Fails => {
                let often = self.backend(id).and_then(|it| {
                    let policy = &self.servers.get(it.server).settings.policy;
                    it.life.spent(policy)
                });
                let often = often.unwrap_or_default();
                self.tell_failed(
                    id,
                    &format!("{name} {}{often}; lspool does not restart it again", after.what),
                );
            }
            Death::Restarts => self.tell_crashing(id, &after.what),
            Death::Expected | Death::Stops => {}
        }
    }

    /// Every progress token of a process that is gone comes to its end, so that no spinner turns for ever.
    fn end_progress(&mut self, id: BackendId, message: &str, goes_on: impl Fn(&ConversationId) -> bool) {
        for params in self.tokens.abandoned(id, message, goes_on) {
            self.tell_editor(Frame::notification("$/progress", Some(&params)));
        }
    }

    /// Cancels the questions of a process that is gone. Late answers have no receiver.
    fn withdraw_questions(&mut self, process: ProcessId) {
        let asked = |it: &Pending| matches!(&it.owner, Owner::Backend(by, _) if *by == process);
        for sent in self.requests.filter(asked) {
            let Some(taken) = self.requests.take(sent) else { continue };
            // A registration that the editor was asked for stays, so that the next process need not repeat it.
            let method = taken.frame.method();
            if !matches!(method, Some("client/registerCapability" | "client/unregisterCapability")) {
                self.withdraw(sent, taken.to);
            }
        }
    }

    /// Fails a backend with its open and queued requests.
    pub(crate) fn fail_backend(&mut self, id: BackendId, failure: &Failure) {
        let now = self.now();
        warn!(failure.message, "failed");
        let Some(backend) = self.backends.get_mut(id) else { return };
        backend.note_error(now, failure.message.clone());
        let (process, todo) = (backend.process(), backend.life.fail(now));
        self.abandon(id, failure);
        if todo == Todo::Terminate {
            self.act(Effect::Terminate(process));
        }
        self.tell_failed(id, &failure.message);
    }

    /// Stops an unneeded process. The next one gets its state.
    pub(crate) fn stop(&mut self, id: BackendId, why: &'static str) {
        let now = self.now();
        let Some(backend) = self.backends.get_mut(id) else { return };
        backend.stopped = Some(why);
        let (process, before, name) = (backend.process(), backend.life.state(), backend.name.clone());
        let todo = backend.life.stop(now);
        let message = format!("{name} was stopped");
        let failure = Failure { partition: Some(name), ..Failure::new(Cause::NotStarted, message) };
        self.abandon(id, &failure);
        self.end_gently(process, before, todo);
    }

    /// Withdraws the promised process of a backend without one.
    pub(crate) fn deny(&mut self, id: BackendId, why: &'static str, failure: &Failure) {
        let now = self.now();
        let Some(backend) = self.backends.get_mut(id) else { return };
        backend.life.stop(now);
        backend.stopped = Some(why);
        self.abandon(id, failure);
    }

    /// Stops listening to a process: answers the requests that wait for it, and withdraws its own.
    fn abandon(&mut self, id: BackendId, failure: &Failure) {
        let Some(backend) = self.backends.get_mut(id) else { return };
        let process = backend.process();
        backend.abandon();
        backend.away = None;
        self.end_progress(id, &failure.message, |_| false);
        self.withdraw_questions(process);
        let owed = |it: &Pending| match it.to {
            To::Process(asked) => asked == process,
            To::Queue(asked) => asked == id,
            To::Client(_) | To::BuiltinTools => false,
        };
        for sent in self.requests.filter(owed) {
            let Some(pending) = self.requests.take(sent) else { continue };
            self.fail_request(&pending.owner, &pending.purpose, failure);
        }
        self.forget_shown(id);
    }

    /// Resets the restart budget of a backend.
    pub(crate) fn reset_restarts(&mut self, id: BackendId) {
        if let Some(backend) = self.backends.get_mut(id) {
            backend.life.reset_restarts();
        }
    }

    /// Replaces the process. Returns the old and new numbers of the requests that it got before it was ready.
    pub(crate) fn replace(&mut self, id: BackendId) -> Vec<(SentId, SentId)> {
        let now = self.now();
        let Some(process) = self.backend(id).map(Backend::process) else { return Vec::new() };
        let again = self.requeue(process);
        let Some(backend) = self.backends.get_mut(id) else { return again };
        let before = backend.life.state();
        backend.failure_told = false;
        let todo = backend.life.restart(now);
        self.end_gently(process, before, todo);
        again
    }

    fn end_gently(&mut self, process: ProcessId, before: LifecycleState, todo: Todo) {
        if todo == Todo::Nothing {
            return;
        }
        if matches!(before, LifecycleState::Ready | LifecycleState::Degraded) {
            self.ask_backend(process.backend, Purpose::Plain, "shutdown", b"null");
            self.tell(process, Frame::notification("exit", None));
        }
        self.act(Effect::Terminate(process));
    }

    pub(crate) fn on_server_closed(&mut self, process: ProcessId, error: Option<String>) {
        if !self.is_current(process) {
            return;
        }
        debug!(?process, error, "has closed its stream, or must not go on");
        let is_wanted =
            !self.clients.is_shut_down() && self.backend(process.backend).is_some_and(Backend::goes_on);
        let now = self.now();
        if let Some(backend) = self.backends.get_mut(process.backend).filter(|_| is_wanted) {
            backend.closed_at = Some(now);
        }
        self.terminate(process, error.map(|it| (Cause::Transport, it)));
    }

    /// Ends a process that cannot continue, perhaps for a fault of its own. Its messages still count.
    pub(crate) fn terminate(&mut self, process: ProcessId, fault: Option<Fault>) {
        let Some(backend) = self.backends.get_mut(process.backend) else { return };
        let why = fault.as_ref().map(|(_, why)| why.clone()).unwrap_or_default();
        // Further faults of a process that is being ended do not count.
        if backend.terminate(fault) {
            warn!(backend = backend.name, why, "terminating");
        }
        self.act(Effect::Terminate(process));
    }

    /// Handles a malformed message of a server. If an answer was lost, returns its request with the failure.
    pub(crate) fn on_malformed_server(
        &mut self,
        process: ProcessId,
        id: MalformedMessage,
        reason: &str,
    ) -> Option<(SentId, Pending, Failure)> {
        let serves = |it: &&Backend| it.accepts() && !it.is_abandoned();
        let backend = self.backend(process.backend).filter(serves)?;
        if !self.is_current(process) {
            return None;
        }
        let name = backend.name.clone();
        warn!(name, reason, "server sent a malformed message");
        let message = format!("{name} sent a malformed message: {reason}");
        let failure = Failure { partition: Some(name), ..Failure::new(Cause::Malformed, message) };
        match id {
            MalformedMessage::Request(id) => self.tell(process, failure.answer(id)),
            MalformedMessage::Answer(id) => {
                let (sent, pending) = self.requests.take_answered(&id, Peer::Backend(process))?;
                return Some((sent, pending, Failure { cause: Cause::BadAnswer, ..failure }));
            }
            // An answer may have been lost: its request must not wait forever.
            MalformedMessage::Other
                if !self.requests.filter(|it| it.to == To::Process(process)).is_empty() =>
            {
                let fault = format!("it sent a malformed message: {reason}");
                self.terminate(process, Some((Cause::Transport, fault)));
            }
            MalformedMessage::Other => {}
        }
        None
    }

    /// Handles a request that failed although its process lives.
    pub(crate) fn on_lost_answer(&mut self, process: ProcessId, pending: &Pending) {
        match pending.purpose {
            // Without `initialize`, a process is useless.
            Purpose::Initialize => self.terminate(process, None),
            Purpose::Shutdown => self.on_shutdown_progress(),
            Purpose::Pull { .. } => self.on_lost_pull(process, pending),
            Purpose::Relay { .. } => self.fail_relayed(&pending.purpose),
            Purpose::Plain
            | Purpose::Configuration { .. }
            | Purpose::Offer(_)
            | Purpose::Allow(_)
            | Purpose::Edit
            | Purpose::Copilot(_) => {}
        }
    }

    /// The idle timeout of the backends that may be idle: those beside the primary of a server.
    pub(crate) fn idle_timeout(&self) -> Duration {
        let divided = self.servers.iter().find(|it| it.has_partitions());
        divided.or(self.servers.first()).map_or(Duration::MAX, |it| it.settings.idle_timeout)
    }

    /// Updates the backends after an event.
    pub(crate) fn settle_backends(&mut self) {
        if self.backends.have_changed() {
            let (now, idle) = (self.now(), self.idle_timeout());
            self.backends.settle(now, idle);
        }
    }

    /// The backends with a due action.
    pub(crate) fn due_backends(&self) -> Vec<BackendId> {
        let (now, idle) = (self.now(), self.idle_timeout());
        let due = |it: &&Backend| it.deadline(idle).is_some_and(|(at, _)| at <= now);
        self.backends.iter().filter(due).map(|it| it.id).collect()
    }

    /// Does the due action for a backend, or returns it.
    pub(crate) fn on_due(&mut self, id: BackendId) -> Due {
        let (now, idle) = (self.now(), self.idle_timeout());
        if let Some(late) = self.look_after_away(id) {
            return late;
        }
        let Some(backend) = self.backend(id) else { return Due::Nothing };
        match backend.life.state() {
            LifecycleState::Spawning { deadline, .. } | LifecycleState::Initializing { deadline, .. }
                if deadline.is_none_or(|it| it > now) =>
            {
                Due::Nothing
            }
            LifecycleState::Spawning { .. } | LifecycleState::Initializing { .. } => {
                self.on_startup_timeout(id)
            }
            LifecycleState::Ready | LifecycleState::Degraded => {
                if backend.idling == Idling::Ends && backend.idle_since.is_some_and(|it| it + idle <= now) {
                    info!(backend = backend.name, "stopped: idle");
                    return Due::Stop("it was idle");
                }
                self.look_after(id);
                Due::Nothing
            }
            // Starts with all others.
            LifecycleState::Restarting { .. }
            | LifecycleState::Waiting
            | LifecycleState::Stopped
            | LifecycleState::Failed => Due::Nothing,
        }
    }

    /// Silence counts, not the time of the start. A server that was ready before keeps its restart budget.
    fn on_startup_timeout(&mut self, id: BackendId) -> Due {
        let now = self.now();
        // lspool does not read it then.
        let is_excused = self.clients.is_slow();
        let Some(backend) = self.backends.get_mut(id) else { return Due::Nothing };
        let time = self.servers.get(backend.server).settings.startup_timeout;
        let silent_since = if is_excused { now } else { backend.health.silent_since() };
        if backend.pid.is_some() && silent_since + time > now {
            backend.life.put_off(silent_since + time);
            return Due::Nothing;
        }
        let time = time.as_secs_f64();
        let what = match backend.pid {
            Some(_) if backend.health.has_spoken() => {
                format!("did not answer initialize and was silent for {time} s")
            }
            Some(_) => format!("did not answer initialize within {time} s"),
            None => format!("did not start within {time} s: its disk may not respond"),
        };
        if backend.life.has_been_ready() {
            backend.life.overdue();
            // It may be ending already.
            if !backend.is_terminated() {
                let process = backend.process();
                self.terminate(process, Some((Cause::InitTimeout, format!("it {what}"))));
            }
            return Due::Nothing;
        }
        let name = backend.name.clone();
        let message = format!("{name} {what}; lspool stops it; if it needs more time, raise startup_timeout");
        Due::GiveUp(Failure { partition: Some(name), ..Failure::new(Cause::InitTimeout, message) })
    }

    /// Tells the user once that a backend has failed, and offers actions.
    fn tell_failed(&mut self, id: BackendId, why: &str) {
        let Some(backend) = self.backends.get_mut(id) else { return };
        let server = self.servers.get(backend.server);
        // The answer to `initialize` has said it.
        let is_said = match self.group {
            // The warnings at the start have named what is missing.
            Some(_) => server.missing.is_some(),
            None => server.settings.policy.required && !server.session.is_open,
        };
        if backend.is_spare() || backend.failure_told || is_said {
            return;
        }
        backend.failure_told = true;
        let actions = json!([{"title": RESTART}, {"title": SHOW_LOG}]);
        let params = json!({"type": 1, "message": format!("lspool: {why}"), "actions": actions}).to_string();
        self.ask_editor(Purpose::Offer(id), "window/showMessageRequest", Some(params.as_bytes()));
    }

    /// Shows the user a message.
    pub(crate) fn show(&mut self, severity: Severity, message: &str) {
        let params = json!({"type": severity.message_type(), "message": message}).to_string();
        self.tell_editor(Frame::notification("window/showMessage", Some(params.as_bytes())));
    }
}

/// The user's choices for a failed backend.
pub(crate) const RESTART: &str = "Restart";
pub(crate) const SHOW_LOG: &str = "Show log";
