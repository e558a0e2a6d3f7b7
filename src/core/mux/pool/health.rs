//! Whether a process that is there still lives: one that owes an answer and has been silent for long is asked, and
//! any message is an answer. How much memory it holds.
//!
//! A model may think for minutes, and the server still answers a ping meanwhile. It is not asked while it waits for
//! the editor itself, nor while it is not being read.

use std::time::{Duration, Instant};

use tracing::{info, warn};

use crate::core::{
    event::{BackendId, Effect, Measured, ProcessId},
    mux::{
        Mux, Severity,
        failure::Cause,
        pool::backend::{Backend, Deadline},
        requests::To,
        servers::Server,
    },
    purpose::Purpose,
};

/// A request that no server knows; its error answer is as good as any.
const PING: &str = "$/lspool/ping";

/// How long lspool leaves a degraded process alone, unless the configuration says otherwise.
const PATIENCE: Duration = Duration::from_mins(1);

/// How often memory is looked at, if it is limited.
const MEASURE_EVERY: Duration = Duration::from_secs(10);

/// By then a process has the memory that it needs from its start.
const SOON: Duration = Duration::from_mins(1);

/// What is known of the health of one process.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    /// When it last said something.
    heard: Instant,
    /// Since when it owes answers.
    owes_since: Option<Instant>,
    probe: Probe,
    /// Resident bytes, as last measured.
    pub(crate) memory: Option<u64>,
    /// It is to be replaced once it is quiet, for this reason; at the latest then.
    pub(crate) renewal: Option<Renewal>,
    began: Instant,
    /// What it held when it was over its limit soon after its start, as its successor would be.
    needs: Option<u64>,
}

/// A process is to be replaced once no request is open.
#[derive(Clone, Debug)]
pub(crate) struct Renewal {
    pub(crate) why: String,
    pub(crate) until: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    /// It owes nothing.
    Off,
    /// It owes an answer, or did. Its silence is looked at then.
    Watching { until: Instant },
    /// It was asked, and has this long to say anything.
    Asked { at: Instant, until: Instant },
    /// It did not answer; at `until` lspool ends it, or probes it again.
    Hanging { at: Instant, until: Instant },
}

/// What a process holds, compared to its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Fits,
    /// More, and its successor will hold less.
    Outgrown,
    /// More, and its successor would, too.
    Needed,
}

/// Whether anybody can expect a process to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Silence {
    /// It waits for somebody else, or is not read.
    Excused,
    Unexplained,
}

/// What the silence of a process calls for.
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

    /// Since when it has been silent: since its start, if it has said nothing.
    pub(super) fn silent_since(&self) -> Instant {
        self.heard
    }

    /// Whether it has said anything.
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

    /// It came to owe an answer, or owes none any more. Whether it has another deadline by that: one that was set
    /// for an earlier debt stands, since this is done for most messages.
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

    /// What it holds, compared to its limit. Soon after its start it holds what it needs.
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

    /// Looks at its silence, if that is due.
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

/// How long silence may last.
#[derive(Clone, Copy, Debug)]
struct Times {
    stall: Option<Duration>,
    probe: Duration,
    hang: Option<Duration>,
}

impl Times {
    /// How long one that is degraded is let be.
    fn patience(&self) -> Duration {
        self.hang.or(self.stall).unwrap_or(PATIENCE)
    }
}

impl Times {
    fn of(server: &Server) -> Times {
        let some = |it: Duration| (it > Duration::ZERO).then_some(it);
        let settings = &server.settings;
        let hang = settings.hang_timeout.map_or(server.usual_hang_timeout, some);
        Times { stall: some(settings.stall_timeout), probe: settings.probe_timeout, hang }
    }
}

impl Mux {
    /// How long the processes of a backend may be silent.
    fn times(&self, id: BackendId) -> Option<Times> {
        self.backend(id).map(|it| Times::of(self.servers.of(it)))
    }

    /// A backend came to owe answers, or owes none any more.
    pub(super) fn note_debts(&mut self, id: BackendId) {
        let (now, n_owed) = (self.now(), self.requests.n_owed_by(id));
        let Some(times) = self.times(id) else { return };
        self.backends.note_debts(id, |it| it.owes(now, n_owed, &times));
    }

    /// Asks after a process that has been silent too long, or ends it.
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
                info!(backend = backend.name, "it owes an answer and is silent: asking whether it lives");
                self.ask_backend(id, Purpose::Plain, PING, b"{}");
            }
            ProbeFinding::Degraded => {
                warn!(backend = backend.name, "it does not say whether it lives");
                backend.life.silent(now);
                backend.note_error(now, "it owes an answer and says nothing".to_owned());
            }
            ProbeFinding::Hangs => {
                let silent = (now - backend.health.heard).as_secs_f64();
                let fault = format!("it hangs: it owes an answer and has said nothing for {silent:.0} s");
                self.terminate(process, Some((Cause::Transport, fault)));
            }
        }
    }

    /// Whether a process has asked the editor something, or does what only the user can complete.
    fn waits_for_the_editor(&self, process: ProcessId) -> bool {
        let waits = |it: &_| matches!(it, To::Process(of) if *of == process);
        self.requests.has_asked(process)
            || self.requests.iter().any(|(_, it)| it.marks.waits_for_user && waits(&it.to))
    }

    /// When memory is to be looked at.
    pub(crate) fn measure_deadline(&self) -> Option<Deadline> {
        self.backends.next_measure.map(|at| (at, "memory is to be looked at"))
    }

    /// What a process holds is looked at from time to time if it is limited.
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

    /// Asks what the processes hold, and what was dropped.
    pub(crate) fn measure(&mut self) {
        let alive = self.backends.iter().filter(|it| it.life.is_alive()).map(Backend::process);
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

    /// Notes what a process holds. Gives what the user is to know of it.
    fn note_memory(&mut self, process: ProcessId, bytes: u64) -> Option<String> {
        let now = self.now();
        let backend = self.backends.get_mut(process.backend).filter(|it| it.is_current(process))?;
        let server = self.servers.get_mut(backend.server);
        let limit = server.settings.memory_limit.and_then(|it| u64::try_from(it).ok());
        let window = server.settings.policy.restart_window.max(SOON);
        backend.health.memory = Some(bytes);
        let limit = limit.filter(|_| backend.health.renewal.is_none())?;
        let (mib, limit_mib) = (bytes >> 20, limit >> 20);
        match backend.health.size(now, bytes, limit, window) {
            Size::Fits => None,
            Size::Outgrown => {
                let why = format!("it holds {mib} MiB, more than its memory_limit");
                warn!(
                    backend = backend.name,
                    mib, "more than its memory_limit: it is replaced when it is quiet"
                );
                backend.note_error(now, why.clone());
                backend.health.renewal = Some(Renewal { why, until: None });
                None
            }
            Size::Needed => {
                let why = format!(
                    "it holds {mib} MiB soon after its start, and its memory_limit is {limit_mib} MiB: another \
                     process would need as much, so it is replaced only when it holds twice that; raise \
                     memory_limit"
                );
                warn!(backend = backend.name, why);
                backend.note_error(now, why.clone());
                let is_told = backend.is_spare() || std::mem::replace(&mut server.limit_told, true);
                (!is_told).then(|| format!("{}: {why}", backend.name))
            }
        }
    }

    /// Whether a process of this backend is to be replaced.
    pub(crate) fn is_to_be_replaced(&self, id: BackendId) -> bool {
        self.backend(id).is_some_and(|it| it.health.renewal.is_some())
    }

    /// Those whose processes are to be replaced and are quiet, or can be waited for no longer.
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

    /// All processes are to be replaced, when they are quiet or after this time: their configuration has changed.
    pub(crate) fn renew_later(&mut self, grace: Duration) {
        let until = Some(self.now() + grace);
        for backend in self.backends.iter_mut() {
            backend.life.reset_restarts();
            let why = "its configuration has changed".to_owned();
            backend.health.renewal = Some(Renewal { why, until });
        }
    }

    /// Logs why the process of a backend is replaced.
    pub(crate) fn log_renewal(&self, id: BackendId) {
        if let Some(backend) = self.backend(id)
            && let Some(Renewal { why, .. }) = &backend.health.renewal
        {
            info!(backend.name, why, "replacing its process");
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
