//! Watches the health of processes: probes a silent one that owes an answer (any message is an answer), and measures
//! memory.
//!
//! A model may think for minutes, and the server answers a ping meanwhile. lspool does not probe a process that waits
//! for the editor, or that it does not read.

use std::time::{Duration, Instant};

use tracing::{info, warn};

use crate::{
    config::Engine,
    core::{
        event::{BackendId, Effect, Measured, ProcessId, Remote},
        mux::{
            Mux, Severity,
            failure::Cause,
            pool::backend::{Backend, Deadline},
            requests::To,
            servers::Server,
        },
        purpose::Purpose,
    },
};

/// A request that no server knows. Its error answer is enough.
const PING: &str = "$/lspool/ping";

/// The default of `stall_timeout`, and that for a server elsewhere, whose connection may be gone.
const STALL: Duration = Duration::from_mins(1);
const STALL_ELSEWHERE: Duration = Duration::from_secs(15);

/// The default time that a degraded process has.
const PATIENCE: Duration = Duration::from_mins(1);

/// How often to measure limited memory.
const MEASURE_EVERY: Duration = Duration::from_secs(10);

/// The default of `hang_timeout` for a server that a broken connection can keep silent. `ssh` finds that out itself.
const LONGEST_SILENCE: Duration = Duration::from_mins(1);

/// After this time a process has the memory of its start.
const SOON: Duration = Duration::from_mins(1);

/// The health of one process.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    /// The time of its last message.
    heard: Instant,
    /// Since when it owes answers.
    owes_since: Option<Instant>,
    probe: Probe,
    /// The resident bytes at the last measurement.
    pub(crate) memory: Option<u64>,
    /// The planned replacement, once no request is open.
    pub(crate) renewal: Option<Renewal>,
    began: Instant,
    /// The memory at which it exceeded its limit soon after its start. Its successor would too.
    needs: Option<u64>,
}

/// A replacement once no request is open.
#[derive(Clone, Debug)]
pub(crate) struct Renewal {
    pub(crate) why: String,
    pub(crate) until: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    /// It owes no answer.
    Off,
    /// It owes, or owed, an answer. Its silence is checked at `until`.
    Watching { until: Instant },
    /// It was probed, and may be silent until then.
    Asked { at: Instant, until: Instant },
    /// It did not answer; at `until` lspool ends it, or probes it again.
    Hanging { at: Instant, until: Instant },
}

/// The memory of a process, compared to the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Fits,
    /// Over the limit, and a successor would use less.
    Outgrown,
    /// Over the limit, and a successor would be too.
    Needed,
}

/// Whether a process is expected to send messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Silence {
    /// It waits for another peer, or lspool does not read it.
    Excused,
    Unexplained,
}

/// The next step for a silent process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProbeFinding {
    Lives,
    Ask,
    Degraded,
    Hangs,
}

impl Health {
    pub(crate) fn new(now: Instant) -> Health {
        Health {
            heard: now,
            owes_since: None,
            probe: Probe::Off,
            memory: None,
            renewal: None,
            began: now,
            needs: None,
        }
    }

    pub(crate) fn heard(&mut self, now: Instant) {
        self.heard = now;
    }

    /// Since when it is silent: since its start, if it has never sent a message.
    pub(super) fn silent_since(&self) -> Instant {
        self.heard
    }

    /// Whether it has sent a message.
    pub(super) fn has_spoken(&self) -> bool {
        self.heard > self.began
    }

    pub(crate) fn deadline(&self) -> Option<Deadline> {
        let probe = match self.probe {
            Probe::Off => None,
            Probe::Watching { until } => Some((until, "it owes an answer and is silent")),
            Probe::Asked { until, .. } => Some((until, "it does not say whether it lives")),
            Probe::Hanging { until, .. } => Some((until, "it hangs")),
        };
        let renewal = self.renewal.as_ref().and_then(|it| it.until).map(|at| (at, "it is to be replaced"));
        probe.into_iter().chain(renewal).min_by_key(|(at, _)| *at)
    }

    /// Notes that it owes answers, or owes none. Returns whether its deadline has changed. The deadline of an earlier
    /// debt stays, because this runs for most messages.
    fn owes(&mut self, now: Instant, n_owed: usize, times: &Times) -> bool {
        match n_owed {
            0 => self.owes_since = None,
            _ => drop(self.owes_since.get_or_insert(now)),
        }
        let begins = n_owed > 0 && self.probe == Probe::Off;
        if begins {
            self.watch(now, times);
        }
        begins
    }

    /// Compares its memory to the limit. Soon after its start it uses what it needs.
    fn size(&mut self, now: Instant, bytes: u64, limit: u64, window: Duration) -> Size {
        if bytes <= limit {
            return Size::Fits;
        }
        match self.needs {
            Some(needs) if bytes <= needs.saturating_mul(2) => Size::Fits,
            None if now.duration_since(self.began) < window => {
                self.needs = Some(bytes);
                Size::Needed
            }
            Some(_) | None => Size::Outgrown,
        }
    }

    fn watch(&mut self, from: Instant, times: &Times) {
        self.probe = times.stall.map_or(Probe::Off, |it| Probe::Watching { until: from + it });
    }

    /// Checks its silence, if that is due.
    fn look(&mut self, now: Instant, silence: Silence, times: &Times) -> ProbeFinding {
        let is_due = |until: Instant| until <= now;
        let Some(owes_since) = self.owes_since else {
            self.probe = Probe::Off;
            return ProbeFinding::Lives;
        };
        let silent_since = match silence {
            Silence::Excused => now,
            Silence::Unexplained => self.heard.max(owes_since),
        };
        match self.probe {
            Probe::Watching { until } if is_due(until) => {
                if times.stall.is_none_or(|it| now < silent_since + it) {
                    self.watch(silent_since, times);
                    return ProbeFinding::Lives;
                }
                self.probe = Probe::Asked { at: now, until: now + times.probe };
                ProbeFinding::Ask
            }
            Probe::Asked { at, .. } | Probe::Hanging { at, .. } if silent_since >= at => {
                self.watch(silent_since, times);
                ProbeFinding::Lives
            }
            Probe::Asked { at, until } if is_due(until) => {
                self.probe = Probe::Hanging { at, until: now + times.patience() };
                ProbeFinding::Degraded
            }
            Probe::Hanging { at, until } if is_due(until) => {
                self.probe = Probe::Hanging { at, until: now + times.patience() };
                if times.hang.is_some() { ProbeFinding::Hangs } else { ProbeFinding::Lives }
            }
            Probe::Off | Probe::Watching { .. } | Probe::Asked { .. } | Probe::Hanging { .. } => {
                ProbeFinding::Lives
            }
        }
    }
}

/// The limits of silence.
#[derive(Clone, Copy, Debug)]
struct Times {
    stall: Option<Duration>,
    probe: Duration,
    hang: Option<Duration>,
}

impl Times {
    /// How long a degraded process may stay silent.
    fn patience(&self) -> Duration {
        self.hang.or(self.stall).unwrap_or(PATIENCE)
    }
}

impl Times {
    fn of(server: &Server) -> Times {
        let some = |it: Duration| (it > Duration::ZERO).then_some(it);
        let settings = &server.settings;
        let remote = server.launch.remote.as_ref();
        let usual_stall = if remote.is_some() { STALL_ELSEWHERE } else { STALL };
        let needs_watching = |it: &Remote| match it.engine {
            Engine::Docker | Engine::Podman | Engine::Kubectl | Engine::Devcontainer => true,
            Engine::Ssh | Engine::Command => false,
        };
        let is_watched = remote.is_some_and(needs_watching);
        let usual_hang = server.usual_hang_timeout.or(is_watched.then_some(LONGEST_SILENCE));
        Times {
            stall: some(settings.stall_timeout.unwrap_or(usual_stall)),
            probe: settings.probe_timeout,
            hang: settings.hang_timeout.map_or(usual_hang, some),
        }
    }
}

impl Mux {
    /// The limits of silence for the processes of a backend.
    fn times(&self, id: BackendId) -> Option<Times> {
        self.backend(id).map(|it| Times::of(self.servers.of(it)))
    }

    /// Notes that a backend owes answers, or owes none.
    pub(super) fn note_debts(&mut self, id: BackendId) {
        let (now, n_owed) = (self.now(), self.requests.n_owed_by(id));
        let Some(times) = self.times(id) else { return };
        self.backends.note_debts(id, |it| it.owes(now, n_owed, &times));
    }

    /// Probes a process that was silent for too long, or ends it.
    pub(super) fn look_after(&mut self, id: BackendId) {
        let now = self.now();
        let Some(times) = self.times(id) else { return };
        let Some(process) = self.backend(id).map(Backend::process) else { return };
        let silence = match self.clients.is_slow() || self.waits_for_the_editor(process) {
            true => Silence::Excused,
            false => Silence::Unexplained,
        };
        let Some(backend) = self.backends.get_mut(id) else { return };
        match backend.health.look(now, silence, &times) {
            ProbeFinding::Lives => {}
            ProbeFinding::Ask => {
                info!(backend = backend.name, "sent a probe: it owes an answer and is silent");
                self.ask_backend(id, Purpose::Plain, PING, b"{}");
            }
            ProbeFinding::Degraded => {
                warn!(backend = backend.name, "did not answer the probe");
                backend.life.silent(now);
                backend.note_error(now, "it owes an answer and is silent".to_owned());
                let server = backend.server;
                self.on_silent_member(server);
            }
            ProbeFinding::Hangs => {
                let silent = (now - backend.health.heard).as_secs_f64();
                let why = format!("it owes an answer and was silent for {silent:.0} s");
                let fault = format!("it hangs: {why}");
                self.note_hanging(id, &why);
                self.terminate(process, Some((Cause::Transport, fault)));
            }
        }
    }

    /// Whether a process waits for an answer of the editor or an action of the user.
    fn waits_for_the_editor(&self, process: ProcessId) -> bool {
        let waits = |it: &_| matches!(it, To::Process(of) if *of == process);
        self.requests.has_asked(process)
            || self.requests.iter().any(|(_, it)| it.marks.waits_for_user && waits(&it.to))
    }

    /// When to measure memory.
    pub(crate) fn measure_deadline(&self) -> Option<Deadline> {
        self.backends.next_measure.map(|at| (at, "memory is to be looked at"))
    }

    /// Measures limited memory at intervals.
    pub(crate) fn look_at_memory(&mut self) {
        let now = self.now();
        let is_limited = self.servers.iter().any(|it| it.settings.memory_limit.is_some());
        if !is_limited {
            self.backends.next_measure = None;
        } else if self.backends.next_measure.is_none_or(|at| at <= now) {
            self.backends.next_measure = Some(now + MEASURE_EVERY);
            if self.backends.iter().any(|it| it.life.is_alive()) {
                self.measure();
            }
        }
    }

    /// Requests a measurement of memory and dropped messages.
    pub(crate) fn measure(&mut self) {
        // The process here of a server elsewhere is the engine's client.
        let is_here = |it: &&Backend| self.servers.of(it).launch.remote.is_none();
        let alive =
            self.backends.iter().filter(|it| it.life.is_alive()).filter(is_here).map(Backend::process);
        let measure = Effect::Measure(alive.collect());
        self.act(measure);
    }

    pub(crate) fn on_measured(&mut self, measured: &Measured) {
        for (process, bytes) in &measured.resident {
            if let Some(why) = self.note_memory(*process, *bytes) {
                self.show(Severity::Warning, &why);
            }
        }
    }

    /// Notes the memory of a process. Returns a message for the user, if any.
    fn note_memory(&mut self, process: ProcessId, bytes: u64) -> Option<String> {
        let now = self.now();
        let backend = self.backends.get_mut(process.backend).filter(|it| it.is_current(process))?;
        let server = self.servers.get_mut(backend.server);
        let limit = server.settings.memory_limit.and_then(|it| u64::try_from(it).ok());
        let window = server.settings.policy.restart_window.max(SOON);
        backend.health.memory = Some(bytes);
        let limit = limit.filter(|_| backend.health.renewal.is_none() && !backend.sharing.is_shared())?;
        let (mib, limit_mib) = (bytes >> 20, limit >> 20);
        match backend.health.size(now, bytes, limit, window) {
            Size::Fits => None,
            Size::Outgrown => {
                let why = format!("it uses {mib} MiB, more than memory_limit");
                warn!(
                    backend = backend.name,
                    mib, "exceeded memory_limit; lspool replaces it when no request is open"
                );
                backend.note_error(now, why.clone());
                backend.health.renewal = Some(Renewal { why, until: None });
                None
            }
            Size::Needed => {
                let why = format!(
                    "it uses {mib} MiB soon after its start, more than memory_limit ({limit_mib} MiB); \
                     lspool replaces it only at twice the limit; raise memory_limit"
                );
                warn!(backend = backend.name, why);
                backend.note_error(now, why.clone());
                let is_told = backend.is_spare() || std::mem::replace(&mut server.limit_told, true);
                (!is_told).then(|| format!("{}: {why}", backend.name))
            }
        }
    }

    /// Whether a replacement of the backend's process is planned.
    pub(crate) fn is_to_be_replaced(&self, id: BackendId) -> bool {
        self.backend(id).is_some_and(|it| it.health.renewal.is_some())
    }

    /// The backends whose replacement is due: no request is open, or it cannot wait longer.
    pub(crate) fn due_renewals(&self) -> Vec<BackendId> {
        let now = self.now();
        let due = |it: &&Backend| {
            it.is_ready()
                && it.health.renewal.as_ref().is_some_and(|renewal| {
                    self.requests.n_owed_by(it.id) == 0 || renewal.until.is_some_and(|at| at <= now)
                })
        };
        self.backends.iter().filter(due).map(|it| it.id).collect()
    }

    /// Plans the replacement of all processes, because their configuration has changed.
    pub(crate) fn renew_later(&mut self, grace: Duration) {
        let until = Some(self.now() + grace);
        for backend in self.backends.iter_mut() {
            backend.life.reset_restarts();
            let why = "its configuration has changed".to_owned();
            backend.health.renewal = Some(Renewal { why, until });
        }
    }

    /// Logs the replacement of a process.
    pub(crate) fn log_renewal(&self, id: BackendId) {
        if let Some(backend) = self.backend(id)
            && let Some(Renewal { why, .. }) = &backend.health.renewal
        {
            info!(backend.name, why, "process replaced");
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests are the clock")]
mod tests {
    use super::*;

    const TIMES: Times = Times {
        stall: Some(Duration::from_mins(1)),
        probe: Duration::from_secs(10),
        hang: Some(Duration::from_mins(1)),
    };

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn health_probes_silent_process_before_judging_it() {
        let start = Instant::now();
        let mut it = Health::new(start);
        assert_eq!(
            it.look(start + seconds(600), Silence::Unexplained, &TIMES),
            ProbeFinding::Lives,
            "it owes nothing"
        );
        it.owes(start, 1, &TIMES);
        assert_eq!(it.deadline().map(|it| it.0), Some(start + seconds(60)));
        assert_eq!(it.look(start + seconds(59), Silence::Unexplained, &TIMES), ProbeFinding::Lives);
        assert_eq!(it.look(start + seconds(60), Silence::Unexplained, &TIMES), ProbeFinding::Ask);
        assert_eq!(it.look(start + seconds(69), Silence::Unexplained, &TIMES), ProbeFinding::Lives);
        assert_eq!(it.look(start + seconds(70), Silence::Unexplained, &TIMES), ProbeFinding::Degraded);
        assert_eq!(it.look(start + seconds(129), Silence::Unexplained, &TIMES), ProbeFinding::Lives);
        assert_eq!(it.look(start + seconds(130), Silence::Unexplained, &TIMES), ProbeFinding::Hangs);
    }

    #[test]
    fn health_replaces_outgrown_process_unless_it_needs_the_memory() {
        let start = Instant::now();
        let size = |it: &mut Health, at, bytes| it.size(start + seconds(at), bytes, 100, seconds(180));
        let mut it = Health::new(start);
        assert_eq!(size(&mut it, 10, 100), Size::Fits);
        assert_eq!(size(&mut it, 200, 101), Size::Outgrown);
        let mut it = Health::new(start);
        assert_eq!(size(&mut it, 10, 120), Size::Needed);
        assert_eq!(size(&mut it, 3600, 240), Size::Fits, "and that is said once");
        assert_eq!(size(&mut it, 7200, 241), Size::Outgrown);
    }

    #[test]
    fn health_counts_any_message_as_life() {
        let start = Instant::now();
        let mut it = Health::new(start);
        it.owes(start, 1, &TIMES);
        it.heard(start + seconds(50));
        assert_eq!(it.look(start + seconds(60), Silence::Unexplained, &TIMES), ProbeFinding::Lives);
        assert_eq!(it.deadline().map(|it| it.0), Some(start + seconds(110)));
        assert_eq!(it.look(start + seconds(110), Silence::Unexplained, &TIMES), ProbeFinding::Ask);
        it.heard(start + seconds(111));
        assert_eq!(it.look(start + seconds(120), Silence::Unexplained, &TIMES), ProbeFinding::Lives);
        assert_eq!(it.deadline().map(|it| it.0), Some(start + seconds(171)));
    }

    #[test]
    fn health_skips_probe_while_process_waits_for_editor() {
        let start = Instant::now();
        let mut it = Health::new(start);
        it.owes(start, 1, &TIMES);
        for n in 1..=5 {
            assert_eq!(it.look(start + seconds(60 * n), Silence::Excused, &TIMES), ProbeFinding::Lives);
        }
        assert_eq!(it.look(start + seconds(360), Silence::Unexplained, &TIMES), ProbeFinding::Ask);
        assert_eq!(it.look(start + seconds(370), Silence::Excused, &TIMES), ProbeFinding::Lives);
    }
}
