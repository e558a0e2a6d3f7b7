//! The shared knowledge of the peers of a run, the randomness, and the source of processes.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{io::duplex, sync::watch, task::spawn_local, time::sleep};

use super::{editor::End, server};
use crate::{
    config::{Backoff, Config, Policy, Profile, Restart, ServerConfig, ServerKind},
    core::{
        Proxy,
        event::{Effect, Effects, Event, Exit, Launch, Prepared, ProcessId, SpawnFailure},
    },
    shell::{
        driver::{Core, Search},
        outbox::Limits,
        process::{Spawned, Starting, Waiting, World},
        settings::Settings,
        tests::{Fake, Log},
    },
};

/// A small generator: xorshift64*.
#[derive(Clone, Debug)]
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Rng {
        let mut it = Rng((seed ^ 0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            it.next();
        }
        it
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    /// A child of it, for another peer.
    pub(super) fn fork(&mut self) -> Rng {
        Rng::new(self.next())
    }

    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    pub(super) fn within(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        let at = self.below(all.len() as u64);
        all.get(usize::try_from(at).ok()?)
    }

    pub(super) fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.within(least, most))
    }

    /// How much a pipe holds: mostly little.
    pub(super) fn pipe(&mut self) -> usize {
        let most = *self.pick(&[16, 200, 4096, 65536]).expect("there are some");
        usize::try_from(self.within(8, most)).expect("it is small")
    }
}

/// Version and text by URI.
pub(super) type Documents = BTreeMap<String, (u64, String)>;

/// A process, as it knows itself.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) is_alive: bool,
    pub(super) is_open: bool,
    pub(super) documents: Documents,
    /// How many notifications it has sent to the editor, to the last byte.
    pub(super) told: u64,
    /// How many of them the editor has heard.
    pub(super) heard: u64,
    /// Its requests to the editor.
    pub(super) asked: BTreeSet<u64>,
}

pub(super) type Ground = Rc<RefCell<Inner>>;

/// The shared knowledge.
#[expect(clippy::struct_excessive_bools, reason = "what has happened, in any combination")]
pub(super) struct Inner {
    pub(super) kind: ServerKind,
    pub(super) server: ServerConfig,
    pub(super) faults: u64,
    /// The faults are over.
    pub(super) is_calm: bool,
    pub(super) documents: Documents,
    /// By number of the process, as counted by [`Plant`].
    pub(super) processes: BTreeMap<u32, Known>,
    /// The methods of the editor's open requests, by id.
    pub(super) open: BTreeMap<u64, String>,
    launches: Arc<AtomicU64>,
    traces: bool,
    started: tokio::time::Instant,
    is_closed: bool,
    /// A task of a peer has panicked: it got a message that it must not get.
    has_failed: bool,
}

impl Inner {
    pub(super) fn new(rng: &mut Rng) -> Inner {
        let kind = if rng.chance(50) { ServerKind::Copilot } else { ServerKind::Generic };
        let usual = Profile::Resilient.policy();
        let restart = *rng
            .pick(&[Restart::OnFailure, Restart::OnFailure, Restart::Always, Restart::Never])
            .expect("there are some");
        let policy = Policy {
            restart,
            max_restarts: *rng.pick(&[0, 2, 5, 1000, 1000, 1000]).expect("there are some"),
            immediate_first: rng.chance(50),
            backoff: Backoff { initial: rng.millis(0, 1000), ..usual.backoff },
            ..usual
        };
        let server = ServerConfig {
            kind: Some(kind),
            max_processes: usize::try_from(rng.within(2, 4)).expect("it is small"),
            warm_spares: usize::try_from(rng.below(3).saturating_sub(1)).expect("it is small"),
            idle_timeout: Duration::from_secs(*rng.pick(&[0, 20, 300]).expect("there are some")),
            policy,
            ..ServerConfig::default()
        };
        Inner {
            kind,
            server,
            faults: 0,
            is_calm: false,
            documents: Documents::new(),
            processes: BTreeMap::new(),
            open: BTreeMap::new(),
            launches: Arc::default(),
            traces: std::env::var_os("LSPOOL_TRACE").is_some(),
            started: tokio::time::Instant::now(),
            is_closed: false,
            has_failed: false,
        }
    }

    /// Something happened.
    pub(super) fn note(&self, what: &str) {
        if self.traces {
            eprintln!("{:?} {what}", self.started.elapsed());
        }
    }

    pub(super) fn fault(&mut self, what: &str) {
        self.faults += 1;
        self.note(&format!("fault: {what}"));
    }

    /// Another way to start the server is configured.
    pub(super) fn relaunch(&self) {
        self.launches.fetch_add(1, Ordering::Relaxed);
    }

    /// How everything stands.
    pub(super) fn told(&self) -> String {
        let open = &self.open;
        let processes: Vec<_> = self.processes.iter().filter(|(_, it)| it.is_alive).collect();
        format!("after {:?}: the editor waits for {open:?}; alive are {processes:?}", self.started.elapsed())
    }

    /// Whether everybody has heard only what may be heard.
    pub(super) fn check(&self) {
        assert!(!self.has_failed, "a peer has panicked, see above");
    }

    /// The conditions after the last message.
    pub(super) fn check_rest(&self) {
        for (n, it) in self.processes.iter().filter(|(_, it)| it.is_alive && it.is_open) {
            assert_eq!(it.documents, self.documents, "documents of process {n}");
            assert_eq!(it.heard, it.told, "the editor has not heard all of process {n}");
            assert!(it.asked.is_empty(), "process {n} waits for {:?}", it.asked);
        }
    }

    pub(super) fn check_end(&self, code: i32, end: End) {
        self.check();
        assert_eq!(code, 0, "{end:?}");
        assert!(end == End::Abruptly || self.open.is_empty(), "{}", self.told());
        assert!(self.processes.values().all(|it| !it.is_alive), "{}", self.told());
        assert!(self.is_closed, "some processes have not ended");
    }
}

/// Small queues, so that they are full.
pub(super) fn shell_settings(rng: &mut Rng) -> Settings {
    let high_water = *rng.pick(&[1, 500, 4 << 20]).expect("there are some");
    Settings {
        limits: Limits { high_water, low_water: high_water / 2, ..Limits::default() },
        ..Settings::default()
    }
}

/// The configuration files.
pub(super) struct Searched {
    server: ServerConfig,
    launches: Arc<AtomicU64>,
}

impl Searched {
    pub(super) fn new(ground: &Ground) -> Searched {
        let ground = ground.borrow();
        Searched { server: ground.server.clone(), launches: ground.launches.clone() }
    }
}

impl Search for Searched {
    fn files(&self, _folders: &[PathBuf]) -> Vec<PathBuf> {
        Vec::new()
    }

    fn prepare(&self, _folders: &[PathBuf]) -> Result<Prepared, String> {
        // On another thread: the current work ends first, or the run could not be repeated.
        std::thread::sleep(Duration::from_millis(3));
        let launch = Launch {
            program: "/server".into(),
            args: vec![self.launches.load(Ordering::Relaxed).to_string()],
            env: vec![],
            cwd: None,
            max_message: 256 << 20,
            write_stall: Duration::from_mins(1),
            root: None,
            remote: None,
            share: None,
        };
        Ok(Prepared {
            config: Arc::new(Config::default()),
            name: "fake".to_owned(),
            server: self.server.clone(),
            launch: Arc::new(launch),
            missing: None,
            warnings: Vec::new(),
            transcripts: None,
            group: None,
            has_code_tools: false,
        })
    }
}

/// A core that is looked at after each event, and whose effects are looked at before they are carried out.
pub(super) struct Watched {
    core: Proxy,
    alive: BTreeSet<ProcessId>,
    ground: Ground,
}

impl Watched {
    pub(super) fn new(core: Proxy, ground: Ground) -> Watched {
        Watched { core, alive: BTreeSet::new(), ground }
    }

    fn look(&mut self, effects: &Effects) {
        for effect in effects {
            match effect {
                Effect::Spawn(process, _) => self.begins(*process),
                Effect::Adopt { spare, process } => {
                    assert!(self.alive.remove(spare), "{spare:?} is not there to be adopted");
                    self.begins(*process);
                }
                _ => {}
            }
        }
        if let Err(broken) = self.core.check() {
            panic!("{broken}");
        }
    }

    fn begins(&mut self, process: ProcessId) {
        self.ground.borrow_mut().note(&format!("{process:?} begins"));
        let other = self.alive.iter().find(|it| it.backend == process.backend);
        assert!(other.is_none(), "{other:?} is there when {process:?} begins");
        self.alive.insert(process);
        let most = self.ground.borrow().server.max_processes;
        assert!(self.alive.len() <= most, "too many processes: {:?}", self.alive);
    }
}

impl Core for Watched {
    fn handle(&mut self, now: Instant, event: Event, out: &mut Effects) {
        if let Event::Exited { process, .. } | Event::SpawnFailed(process, _) = &event {
            self.alive.remove(process);
        }
        self.core.handle(now, event, out);
        self.look(out);
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Effects) {
        let due = self.core.poll_timeout();
        self.core.handle_timeout(now, out);
        assert!(!out.is_empty() || self.core.poll_timeout() != due, "nothing is done at {due:?}");
        self.look(out);
    }

    fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        self.core.poll_timeout()
    }
}

/// The source of processes.
pub(super) struct Plant {
    ground: Ground,
    rng: Rng,
    n: u32,
}

impl Plant {
    pub(super) fn new(ground: Ground, rng: Rng) -> Plant {
        Plant { ground, rng, n: 0 }
    }
}

impl World for Plant {
    fn spawn(&mut self, _launch: Arc<Launch>) -> Starting {
        let is_calm = self.ground.borrow().is_calm;
        let hanging = (!is_calm && self.rng.chance(10)).then(|| sleep(self.rng.millis(1, 2500)));
        if hanging.is_some() {
            self.ground.borrow_mut().fault("a start hangs");
        }
        let hanging = async {
            if let Some(hanging) = hanging {
                hanging.await;
            }
        };
        if !is_calm && self.rng.chance(4) {
            self.ground.borrow_mut().fault("cannot be started");
            let failure =
                SpawnFailure { permanent: self.rng.chance(10), message: "no room".to_owned(), moved: None };
            return Box::pin(async move {
                hanging.await;
                Err(failure)
            });
        }
        self.n += 1;
        let n = self.n;
        let (stdin, input) = duplex(self.rng.pipe());
        let (output, stdout) = duplex(self.rng.pipe());
        let (muttering, stderr) = duplex(64);
        let server = server::Server::new(n, self.ground.clone(), self.rng.fork(), input, output);
        let (ground, is_polite) = (self.ground.clone(), self.rng.chance(50));
        Box::pin(async move {
            hanging.await;
            ground.borrow_mut().note(&format!("process {n} is started"));
            let known = Known { is_alive: true, ..Known::default() };
            ground.borrow_mut().processes.insert(n, known);
            let kill = watch::Sender::new(None);
            // The end of its task is its end, however that came.
            let alive = Alive { n, ground };
            let task = spawn_local({
                let kill = kill.clone();
                async move {
                    let _alive = alive;
                    let _muttering = muttering;
                    let exit = server.run().await;
                    kill.send_modify(|it: &mut Option<Exit>| *it = it.or(Some(exit)));
                }
            })
            .abort_handle();
            let leader =
                Fake { pid: 1000 + n, task, dead: kill.subscribe(), kill, log: Log::default(), is_polite };
            Ok(Spawned {
                leader: Box::new(leader),
                stdin: Box::new(stdin),
                stdout: Box::new(stdout),
                stderr: Box::new(stderr),
                displaced: None,
                unshared: None,
            })
        })
    }

    fn private_folder(&mut self) -> Result<PathBuf, String> {
        Err("there is none in memory".to_owned())
    }

    fn close(&mut self) -> Waiting<'_, ()> {
        self.ground.borrow_mut().is_closed = true;
        Box::pin(async {})
    }
}

/// The life of a peer: it ends with its task, however that ends.
pub(super) struct Alive {
    pub(super) n: u32,
    pub(super) ground: Ground,
}

impl Drop for Alive {
    fn drop(&mut self) {
        let mut ground = self.ground.borrow_mut();
        ground.note(&format!("process {} is gone", self.n));
        ground.has_failed |= std::thread::panicking();
        if let Some(known) = ground.processes.get_mut(&self.n) {
            known.is_alive = false;
        }
    }
}
