//! The processes of backends: how one starts, what it is told, what its end means.
//!
//! What the end of a process means takes three steps, so that a higher owner can say in between what is still wanted:
//! [`Mux::begin_gone`], [`Mux::decide_gone`], [`Mux::finish_gone`].

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::json;
use tracing::{debug, info, warn};

use crate::{
    core::{
        event::{BackendId, Displaced, Effect, Exit, Peer, ProcessId, SpawnFailure},
        ids::ConversationId,
        mux::{
            Mux, Severity,
            failure::{Cause, Failure, MalformedMessage, reason},
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

/// A process is gone, or was never there.
#[derive(Debug)]
pub(crate) struct Gone {
    pub(crate) process: ProcessId,
    cause: Cause,
    /// What became of it, as people read it.
    what: String,
    before: LifecycleState,
    /// It was kept ready, and nobody has asked for its end.
    pub(crate) is_lost_spare: bool,
    pub(crate) outlook: Outlook,
    /// So that several lspool do not restart their servers in step.
    chance: u64,
}

/// Whether another process would follow one that is gone, if one is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outlook {
    Follows,
    Ends,
}

/// What follows a process that is gone.
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
    /// What comes after it.
    pub(crate) fn next(&self) -> Successor {
        self.next
    }
}

/// What comes after a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Successor {
    Follows,
    None,
    Failed,
}

/// What is still wanted of what a process that is gone had begun.
#[derive(Debug, Default)]
pub(crate) struct StillWanted {
    /// Subjects whose progress the next process goes on with.
    pub(crate) subjects: Vec<ConversationId>,
    /// Queued requests that are not asked any more.
    pub(crate) cut_off: Vec<SentId>,
    /// Turns that are refused because the next process starts only after a while.
    pub(crate) refused: Vec<SentId>,
}

/// What came of the end of a spawn.
#[derive(Debug)]
pub(crate) enum SpawnEnd {
    /// It counts as a process that is gone.
    Gone(Cause, String),
    /// Trying again cannot help.
    Hopeless(Failure),
}

/// What an answer to `initialize` means.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) handshake: Handshake,
    /// No process of the server has answered before.
    pub(crate) is_first: bool,
}

/// What is due for a backend.
#[derive(Debug)]
pub(crate) enum Due {
    Nothing,
    /// It has been idle for long enough.
    Stop(&'static str),
    /// It cannot be started.
    GiveUp(Failure),
}

impl Mux {
    /// Somebody needs a process of this backend.
    pub(crate) fn start(&mut self, id: BackendId) {
        let now = self.now();
        if let Some(backend) = self.backends.get_mut(id) {
            backend.life.start(now);
        }
    }

    /// Starts a process of a backend that is due. An error: it cannot be started.
    pub(crate) fn spawn(&mut self, id: BackendId) -> Result<(), Failure> {
        let now = self.now();
        let Some(backend) = self.backends.get_mut(id) else { return Ok(()) };
        let server = self.servers.get(backend.server);
        if let Some(missing) = &server.missing {
            let name = backend.name.clone();
            let message = format!("{name} cannot be started: {missing}");
            return Err(Failure { partition: Some(name), ..Failure::new(Cause::Unavailable, message) });
        }
        let asks = |it: &Pending| matches!(it.purpose, Purpose::Initialize);
        let is_answered = !server.session.initialize.is_empty() && self.requests.filter(asks).is_empty();
        let is_first = backend.is_primary() && backend.life.generation().0 == 0 && !is_answered;
        let handshake = if is_first { Handshake::Editor } else { Handshake::Own };
        backend.life.spawn(now, handshake, now + server.settings.startup_timeout);
        backend.begin(now);
        let spawn = Effect::Spawn(backend.process(), Arc::clone(&server.launch));
        self.act(spawn);
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

    /// Asks a process to initialize: under the editor's request if that has not been answered, else with these
    /// parameters.
    pub(crate) fn initialize(&mut self, process: ProcessId, params: &[u8]) {
        let id = process.backend;
        let unanswered = |it: &Pending| it.to == To::Queue(id) && matches!(it.purpose, Purpose::Initialize);
        let unanswered = self.requests.filter(unanswered).first().copied();
        let Some(backend) = self.backends.get_mut(id) else { return };
        backend.folders = folders_of(params);
        let is_it = |it: &Frame| SentId::of(it) == unanswered;
        let at = unanswered.and_then(|_| backend.queued().iter().position(is_it));
        match at.and_then(|at| backend.queue().remove(at)) {
            // The first process may have begun under the token, and the editor has been told of its end.
            Some(frame) if process.generation.0 > 1 => self.deliver(process, frame.with_params(params)),
            Some(frame) => self.deliver(process, frame),
            None => self.ask_backend(id, Purpose::Initialize, "initialize", params),
        }
    }

    /// Asks a process to initialize as the editor has asked.
    pub(crate) fn initialize_as_editor(&mut self, process: ProcessId) {
        let Some(backend) = self.backend(process.backend) else { return };
        let params = self.servers.of(backend).session.initialize_now();
        self.initialize(process, &params);
    }

    /// The process has answered `initialize`. An error: it has refused. `None`: nobody waited for that.
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
        let (process, name) = (backend.process(), backend.name.clone());
        info!(backend = name, "takes a process that was kept ready");
        self.act(Effect::Adopt { spare: theirs, process });
        self.rename_process(theirs, process);
        self.backends.remove(spare);
        Some(process)
    }

    /// Tells a process everything that the one before it, or the primary, was told.
    pub(crate) fn replay_session(&mut self, process: ProcessId) {
        self.replay_initialized(process);
        let Some(backend) = self.backend(process.backend) else { return };
        let folders = backend.folders.clone();
        let replay = self.servers.of(backend).session.replay(&folders);
        let Replay { latest, settings, folders, documents, of_documents, calls } = replay;
        for frame in latest.into_iter().chain(settings).chain(folders) {
            self.replay(process, frame);
        }
        self.begin_feed(process, documents, of_documents.into_iter().chain(calls).collect());
    }

    /// The first thing of a session that is replayed.
    pub(crate) fn replay_initialized(&mut self, process: ProcessId) {
        let Some(backend) = self.backend(process.backend) else { return };
        if self.servers.of(backend).session.initialized {
            self.tell(process, Frame::notification("initialized", Some(b"{}")));
        }
    }

    /// Tells a process one thing of a session.
    pub(crate) fn replay(&mut self, process: ProcessId, frame: Frame) {
        match (frame.kind(), frame.method()) {
            (Kind::Request, Some(method)) => {
                let params = frame.params().unwrap_or(b"{}");
                self.ask_backend(process.backend, Purpose::Plain, method, params);
            }
            (_, _) => self.tell(process, frame),
        }
    }

    /// The process of a spawn could not be started. `None`: it is an older one.
    pub(crate) fn on_spawn_failed(&mut self, process: ProcessId, failure: &SpawnFailure) -> Option<SpawnEnd> {
        let now = self.now();
        let backend = self.backends.get_mut(process.backend).filter(|it| it.is_current(process))?;
        let (cause, what) = match backend.ending.take_fault() {
            Some((cause, fault)) => (cause, format!("was ended ({fault})")),
            None => (Cause::Unavailable, format!("cannot be started: {}", failure.message)),
        };
        warn!(backend = backend.name, what, failure.permanent, "no process");
        // Why a process is not there that nobody wants any more matters to nobody.
        if !failure.permanent || !backend.goes_on() {
            return Some(SpawnEnd::Gone(cause, what));
        }
        let name = backend.name.clone();
        backend.life.fail_to_start(now);
        self.servers.get_mut(backend.server).is_gone = true;
        let failure = Failure::new(Cause::Unavailable, format!("{name} {what}"));
        Some(SpawnEnd::Hopeless(Failure { partition: Some(name), ..failure }))
    }

    /// A process is gone and reaped: why, and how people read it. `None`: it is an older one.
    pub(crate) fn on_exited(
        &mut self,
        process: ProcessId,
        exit: Exit,
        stderr: &str,
    ) -> Option<(Cause, String)> {
        let backend = self.backends.get_mut(process.backend).filter(|it| it.is_current(process))?;
        let is_starting = matches!(
            backend.life.state(),
            LifecycleState::Spawning { .. } | LifecycleState::Initializing { .. }
        );
        // Whoever has killed it, or took its memory, may let the next one live.
        if is_starting && (backend.is_terminated() || !exit.is_from_outside()) {
            backend.life.note_failed_start();
        }
        let (cause, end, words) = match backend.ending.take_fault() {
            Some((cause, fault)) => (cause, format!("was ended ({fault})"), stderr),
            // One that dies closes its stdout too.
            None if backend.closed_at.is_some() && matches!(exit, Exit::Code(0) | Exit::Signal(SIGTERM)) => {
                (Cause::Transport, "was ended (it had closed its stdout)".to_owned(), stderr)
            }
            None if exit.is_from_outside() => (Cause::Crashed, format!("exited ({exit})"), ""),
            None => (Cause::Crashed, format!("exited ({exit})"), stderr),
        };
        let what = match is_starting {
            true => format!("{end} before it had answered initialize{}", tail(words)),
            false => format!("{end}{}", tail(words)),
        };
        Some((cause, what))
    }

    /// A process is gone, or was never there.
    pub(crate) fn begin_gone(&mut self, process: ProcessId, cause: Cause, what: String) -> Option<Gone> {
        let now = self.now();
        let goes_on = !self.clients.is_shut_down();
        let chance = self.identity.mixed(self.requests.n_sent());
        let backend = self.backends.get_mut(process.backend)?;
        let policy = &self.servers.get(backend.server).settings.policy;
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
            warn!(backend = backend.name, what, "gone");
        }
        let comes_back = match before {
            LifecycleState::Restarting { .. } | LifecycleState::Waiting => goes_on,
            LifecycleState::Spawning { .. }
            | LifecycleState::Initializing { .. }
            | LifecycleState::Ready
            | LifecycleState::Degraded => goes_on && backend.life.would_restart(now, policy),
            LifecycleState::Stopped | LifecycleState::Failed => false,
        };
        let outlook = if comes_back { Outlook::Follows } else { Outlook::Ends };
        Some(Gone { process, cause, what, before, is_lost_spare, outlook, chance })
    }

    /// Decides whether another process follows. `waiting`: what waits for it and is in no queue. `None`: nothing
    /// follows from it.
    pub(crate) fn decide_gone(&mut self, gone: Gone, waiting: Demand) -> Option<Aftermath> {
        let now = self.now();
        let Gone { process, cause, what, before, is_lost_spare: _, outlook, chance } = gone;
        let waits = self.has_queued_requests(process.backend) || waiting == Demand::Somebody;
        let backend = self.backends.get_mut(process.backend)?;
        let policy = &self.servers.get(backend.server).settings.policy;
        let demand = match outlook == Outlook::Follows && (waits || backend.is_primary()) {
            true => Demand::Somebody,
            false => Demand::Nobody,
        };
        let death = backend.life.exited(now, process.generation, policy, demand, chance)?;
        backend.pid = None;
        let is_expected = !matches!(before, LifecycleState::Ready | LifecycleState::Degraded);
        let cause = if death == Death::Expected && is_expected { Cause::NotStarted } else { cause };
        let (next, advice) = match (death, backend.life.state()) {
            (Death::Expected, LifecycleState::Restarting { .. } | LifecycleState::Waiting) => {
                (Successor::Follows, "another process takes its place, send the request again")
            }
            (Death::Expected, _) => (Successor::None, "it was stopped"),
            (Death::Restarts, _) => (Successor::Follows, "it is being restarted, send the request again"),
            (Death::Stops, _) => (Successor::None, "send the request again"),
            (Death::Fails, _) => (Successor::Failed, "it is not restarted"),
        };
        if death != Death::Expected {
            warn!(backend = backend.name, ?death, what, "gone");
            backend.last_error = Some(format!("it {what}"));
        }
        debug!(backend = backend.name, ?before, ?death, "its process is gone");
        Some(Aftermath { process, cause, what, death, next, advice })
    }

    /// What a process that is gone owed and what it asked comes to an end, or waits for the next.
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

    /// Tells the user that no process follows one that is gone, or that it was one of several.
    pub(crate) fn report_gone(&mut self, after: &Aftermath) {
        let id = after.process.backend;
        let Some(name) = self.backend(id).map(|it| it.name.clone()) else { return };
        match after.death {
            Death::Fails => {
                self.tell_failed(id, &format!("{name} {}; it is not restarted any more", after.what));
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

    /// What a process that is gone has asked the editor is cancelled there; late answers find nothing.
    fn withdraw_questions(&mut self, process: ProcessId) {
        let asked = |it: &Pending| matches!(&it.owner, Owner::Backend(by, _) if *by == process);
        for sent in self.requests.filter(asked) {
            let Some(taken) = self.requests.take(sent) else { continue };
            // What the editor was told to register it shall have: the editor has already what the next process repeats.
            let method = taken.frame.method();
            if !matches!(method, Some("client/registerCapability" | "client/unregisterCapability")) {
                self.withdraw(sent, taken.to);
            }
        }
    }

    /// A backend will not serve: what it owes and what waits for it fails.
    pub(crate) fn fail_backend(&mut self, id: BackendId, failure: &Failure) {
        let now = self.now();
        warn!(failure.message, "given up");
        let Some(backend) = self.backends.get_mut(id) else { return };
        backend.last_error = Some(failure.message.clone());
        let (process, todo) = (backend.process(), backend.life.fail(now));
        self.abandon(id, failure);
        if todo == Todo::Terminate {
            self.act(Effect::Terminate(process));
        }
        self.tell_failed(id, &failure.message);
    }

    /// Ends a process that nobody needs. What it knows is told to the next one.
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

    /// A backend that has no process, and was promised one, will not have it.
    pub(crate) fn deny(&mut self, id: BackendId, why: &'static str, failure: &Failure) {
        let now = self.now();
        let Some(backend) = self.backends.get_mut(id) else { return };
        backend.life.stop(now);
        backend.stopped = Some(why);
        self.abandon(id, failure);
    }

    /// Nothing is expected of a process any more: whoever waits for it is answered, whatever it waits for is
    /// withdrawn.
    fn abandon(&mut self, id: BackendId, failure: &Failure) {
        let Some(backend) = self.backends.get_mut(id) else { return };
        let process = backend.process();
        backend.abandon();
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

    /// The failures of a backend are forgotten.
    pub(crate) fn reset_restarts(&mut self, id: BackendId) {
        if let Some(backend) = self.backends.get_mut(id) {
            backend.life.reset_restarts();
        }
    }

    /// Another process takes the place of the one there is. Gives the numbers under which that was asked before it was
    /// ready, and the next one is.
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

    /// Ends a process that cannot go on, perhaps for a fault of its own. What it says until then counts.
    pub(crate) fn terminate(&mut self, process: ProcessId, fault: Option<Fault>) {
        let Some(backend) = self.backends.get_mut(process.backend) else { return };
        let why = fault.as_ref().map(|(_, why)| why.clone()).unwrap_or_default();
        // What one that is being ended does wrong is none of its faults.
        if backend.terminate(fault) {
            warn!(backend = backend.name, why, "ending it");
        }
        self.act(Effect::Terminate(process));
    }

    /// A server has sent a malformed message. If an answer was lost, gives the request that it belongs to and why that
    /// request fails.
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
        warn!(name, reason, "malformed message of a server");
        let message = format!("{name} sent a malformed message: {reason}");
        let failure = Failure { partition: Some(name), ..Failure::new(Cause::Malformed, message) };
        match id {
            MalformedMessage::Request(id) => self.tell(process, failure.answer(id)),
            MalformedMessage::Answer(id) => {
                let (sent, pending) = self.requests.take_answered(&id, Peer::Backend(process))?;
                return Some((sent, pending, Failure { cause: Cause::BadAnswer, ..failure }));
            }
            // An answer may have been lost with it: nobody shall wait for that for ever.
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

    /// A request failed although its process lives on.
    pub(crate) fn on_lost_answer(&mut self, process: ProcessId, pending: &Pending) {
        match pending.purpose {
            // Without it a process cannot be used.
            Purpose::Initialize => self.terminate(process, None),
            Purpose::Shutdown => self.on_shutdown_progress(),
            Purpose::Plain
            | Purpose::Configuration { .. }
            | Purpose::Offer(_)
            | Purpose::Allow(_)
            | Purpose::Copilot(_) => {}
        }
    }

    /// How long the backends of a server may be idle.
    pub(crate) fn idle_timeout(&self) -> Duration {
        self.servers.first().map_or(Duration::MAX, |it| it.settings.idle_timeout)
    }

    /// An event has been dealt with.
    pub(crate) fn settle_backends(&mut self) {
        if self.backends.have_changed() {
            let (now, idle) = (self.now(), self.idle_timeout());
            self.backends.settle(now, idle);
        }
    }

    /// The backends for which something is due.
    pub(crate) fn due_backends(&self) -> Vec<BackendId> {
        let (now, idle) = (self.now(), self.idle_timeout());
        let due = |it: &&Backend| it.deadline(idle).is_some_and(|(at, _)| at <= now);
        self.backends.iter().filter(due).map(|it| it.id).collect()
    }

    /// Does what is due for a backend, or says it.
    pub(crate) fn on_due(&mut self, id: BackendId) -> Due {
        let (now, idle) = (self.now(), self.idle_timeout());
        let Some(backend) = self.backend(id) else { return Due::Nothing };
        match backend.life.state() {
            LifecycleState::Spawning { .. } | LifecycleState::Initializing { .. } => {
                self.on_startup_timeout(id)
            }
            LifecycleState::Ready | LifecycleState::Degraded => {
                if backend.idling == Idling::Ends && backend.idle_since.is_some_and(|it| it + idle <= now) {
                    info!(backend = backend.name, "idle: stopping it");
                    return Due::Stop("it was idle");
                }
                self.look_after(id);
                Due::Nothing
            }
            // Started with all others.
            LifecycleState::Restarting { .. }
            | LifecycleState::Waiting
            | LifecycleState::Stopped
            | LifecycleState::Failed => Due::Nothing,
        }
    }

    /// Silence counts, not the time that it takes to start. One that has been ready before has its chances left.
    fn on_startup_timeout(&mut self, id: BackendId) -> Due {
        let now = self.now();
        // What it says is not read then.
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
                format!("has not answered initialize, and has said nothing for {time} s")
            }
            Some(_) => format!("has not answered initialize within {time} s"),
            None => format!("has not started within {time} s: its disk may not answer"),
        };
        if backend.life.has_been_ready() {
            backend.life.overdue();
            // It may be on its way out already.
            if !backend.is_terminated() {
                let process = backend.process();
                self.terminate(process, Some((Cause::InitTimeout, format!("it {what}"))));
            }
            return Due::Nothing;
        }
        let name = backend.name.clone();
        let message = format!("{name} {what}; it is stopped; if it needs more time, raise startup_timeout");
        Due::GiveUp(Failure { partition: Some(name), ..Failure::new(Cause::InitTimeout, message) })
    }

    /// A backend has failed: the editor's user hears of it, once, and can do something about it.
    fn tell_failed(&mut self, id: BackendId, why: &str) {
        let Some(backend) = self.backends.get_mut(id) else { return };
        let server = self.servers.get(backend.server);
        // The answer to `initialize` has said it.
        let is_said = server.settings.policy.required && !server.session.is_open;
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

/// How lspool ends a process that does not end with its stdin.
const SIGTERM: i32 = 15;

/// What the user can choose when a backend has failed.
pub(crate) const RESTART: &str = "Restart";
pub(crate) const SHOW_LOG: &str = "Show log";

/// The last lines of stderr, as the end of a sentence.
fn tail(stderr: &str) -> String {
    let lines: Vec<&str> = stderr.lines().map(str::trim).filter(|it| !it.is_empty()).collect();
    match lines.split_at(lines.len().saturating_sub(5)).1 {
        [] => String::new(),
        last => format!("; its last words: {}", last.join(" | ")),
    }
}
