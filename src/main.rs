//! The program: command line, log, runtime, exit status.

use std::{
    ffi::OsStr,
    fs::OpenOptions,
    io::{self, IsTerminal as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;
use lspool::{
    agents::{Listing, Row},
    check,
    cli::{self, Cli, Mode},
    config::{AgentConfig, BuiltinTools, Config, LogLevel},
    control::{self, Screen},
    core::{Identity, Proxy, event::Prepared, partition_of},
    inspect,
    player::{self, Player, Script, Speed},
    recording::source::{EVERY, dialogue},
    replaying::{self, tell},
    shell::{
        Settings,
        control::{self as sockets, Place},
        discover::{
            CliServer, Env, UserConfig, agent_folders, known_agents, prepare, read_user, user_file,
            workspace_files,
        },
        driver::{self, Driver, Search as _},
        guard::{self, Guard, Mark},
        record::{self, Recorded, Recorder},
        signals, stdio,
        system::System,
        tools,
    },
    terminal::{self, May},
};
use rustix::fs::OFlags;
use tokio::{
    runtime::{LocalOptions, LocalRuntime},
    task::spawn_local,
};
use tracing::level_filters::LevelFilter;

/// How many bytes wait between lspool and its own terminal.
const PIPE: usize = 64 << 10;

/// Exit status when there is nothing to serve with.
const NOTHING_TO_SERVE: u8 = 2;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    // Before all else: the guard should be small, and there at once.
    let first = words.next();
    if first.as_deref() == Some(OsStr::new(guard::SUBCOMMAND)) {
        return guard::serve(&words.next().unwrap_or_default());
    }
    if first.as_deref() == Some(OsStr::new(tools::SUBCOMMAND)) {
        return tools::serve(words);
    }
    let cli = cli::parse().at_home(&Env::real());
    let done = match cli.mode.clone() {
        Mode::Serve(server) => serve(&cli, server),
        Mode::Check => check(&cli),
        Mode::Agents { json } => agents(&cli, json),
        Mode::Replay(task) => replay(&task),
        Mode::Orchestrate(task) => orchestrate(&cli, task),
        Mode::Control { task, pid } => control(&task, pid),
        Mode::ServeRecording { file, process, speed, is_strict } => {
            serve_recording(file.as_deref(), process.as_deref(), speed, is_strict)
        }
        Mode::Inspect { file, filter } => inspect(&file, &filter),
    };
    done.unwrap_or_else(|error| {
        tell(&format!("{error:#}"));
        ExitCode::from(NOTHING_TO_SERVE)
    })
}

fn serve(cli: &Cli, server: CliServer) -> anyhow::Result<ExitCode> {
    let search = Search::new(cli, server);
    if io::stdin().is_terminal() {
        // Nobody is there who could be told by an error answer.
        if search.prepare(&[]).is_err() {
            return Ok(ExitCode::from(NOTHING_TO_SERVE));
        }
        tell("this is a terminal, and an editor is waited for; `lspool --help` says what else there is");
    }
    let search = Arc::new(search);
    let identity = identity();
    let world = open_world(&identity, &search.env);
    let core = Proxy::new(identity);
    let code = match search.recorder(cli, identity) {
        Some(recorder) => drive(Recorded::new(core, recorder), world, search.clone()),
        None => drive(core, world, search.clone()),
    }?;
    let code = u8::try_from(code).unwrap_or(u8::MAX);
    // An editor that went away before it said anything has not been told what is wrong.
    if code < NOTHING_TO_SERVE && search.has_failed() {
        return Ok(ExitCode::from(NOTHING_TO_SERVE));
    }
    Ok(ExitCode::from(code))
}

/// Serves the editor until the end.
fn drive(core: impl driver::Core + 'static, world: System, search: Arc<Search>) -> anyhow::Result<i32> {
    let state = search.env.folder("XDG_STATE_HOME").or_else(|| search.env.at_home(".local/state"));
    let driver = Driver::new(core, world, search, Settings { state, ..Settings::default() });
    let runtime = runtime()?;
    let code = runtime.block_on(async {
        let stdio::Stdio { input, output, modes } = stdio::open();
        // A task like those that it talks with: what `block_on` itself waits for is looked at only after the
        // operating system has been asked once more.
        let code =
            spawn_local(driver.run(input, output, signals::listen())).await.unwrap_or(driver::INTERNAL_ERROR);
        drop(modes);
        code
    });
    // A read of a terminal cannot be called off; it ends with the process.
    runtime.shutdown_background();
    Ok(code)
}

/// Plays the editor for a goal.
fn orchestrate(cli: &Cli, task: cli::Orchestrate) -> anyhow::Result<ExitCode> {
    let cli::Orchestrate { goal, workers, model, json, yes, command } = task;
    let mut command = command.into_iter();
    let search = Search::new(cli, CliServer { command: command.next(), args: command.collect() });
    let workers = match workers {
        None => None,
        Some(file) => {
            let name = file.display().to_string();
            let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {name}"))?;
            let config = search.first.clone().unwrap_or_default();
            Some(terminal::workers(&text, &name, &config).map_err(anyhow::Error::msg)?)
        }
    };
    let can_be_asked = io::stdin().is_terminal() && io::stderr().is_terminal();
    let may = match (yes, can_be_asked) {
        (true, _) => May::All,
        (false, true) => May::Ask,
        (false, false) => May::Nothing,
    };
    let task = terminal::Task { goal, workers, model, json, may, folder: search.env.cwd.clone() };
    let identity = identity();
    let world = open_world(&identity, &search.env);
    let core = Proxy::new(identity);
    let search = Arc::new(search);
    match search.recorder(cli, identity) {
        Some(recorder) => at_terminal(Recorded::new(core, recorder), world, search, &task),
        None => at_terminal(core, world, search, &task),
    }
}

/// Serves a terminal until its goal is reached or given up.
fn at_terminal(
    core: impl driver::Core + 'static,
    world: System,
    search: Arc<Search>,
    task: &terminal::Task,
) -> anyhow::Result<ExitCode> {
    let driver = Driver::new(core, world, Arc::new(WithTools(search)), Settings::default());
    let runtime = runtime()?;
    let done = runtime.block_on(async {
        let (near, far) = tokio::io::duplex(PIPE);
        let (input, output) = tokio::io::split(far);
        let (quit, signals) = tokio::sync::mpsc::channel(1);
        let driver = spawn_local(driver.run(Box::new(input), Box::new(output), signals));
        let mut out = io::stdout();
        let done = terminal::run(task, near, signals::listen(), quit, &mut out, Screen::stdout()).await;
        // Its processes end with it.
        driver.await.ok();
        done
    });
    runtime.shutdown_background();
    Ok(ExitCode::from(done?))
}

/// The server as an editor has it, with the tools that no editor is there to have.
struct WithTools(Arc<Search>);

impl driver::Search for WithTools {
    fn files(&self, folders: &[PathBuf]) -> Vec<PathBuf> {
        self.0.files(folders)
    }

    fn prepare(&self, folders: &[PathBuf]) -> Result<Prepared, String> {
        let mut found = self.0.find(folders)?;
        found.server.builtin_tools = BuiltinTools::Fallback;
        Ok(found)
    }
}

/// What is known before an editor speaks, and the search for the server when it does.
struct Search {
    server: CliServer,
    /// The user's file, if it is not at its usual place.
    file: Option<PathBuf>,
    env: Env,
    /// What a file said that can be read only once.
    piped: Option<UserConfig>,
    /// What the user's file said at the start.
    first: Option<Config>,
    /// Why there is no log, or no recording, although one was asked for.
    problem: OnceLock<String>,
    is_done: AtomicBool,
    is_vain: AtomicBool,
}

impl Search {
    /// Begins the log as the user's file says. What is wrong with the file is told when it is read for the editor.
    fn new(cli: &Cli, server: CliServer) -> Search {
        let env = Env::real();
        let user = read_user(cli.config.as_deref(), &env);
        let log = match &user {
            Ok(user) => log_to(cli, &user.config, &env).map_err(|error| format!("{error:#}")),
            Err(_) => Ok(()),
        };
        let is_piped = cli.config.as_deref().is_some_and(|it| it.exists() && !it.is_file());
        let user = user.ok();
        Search {
            server,
            file: cli.config.clone(),
            first: user.as_ref().map(|it| it.config.clone()),
            piped: user.filter(|_| is_piped),
            env,
            problem: log.err().map(OnceLock::from).unwrap_or_default(),
            is_done: AtomicBool::new(false),
            is_vain: AtomicBool::new(false),
        }
    }

    /// Begins a recording if one is asked for.
    fn recorder(&self, cli: &Cli, identity: Identity) -> Option<Recorder> {
        let config = self.first.clone().unwrap_or_default();
        let of_variable = self.env.var(record::VARIABLE).map(PathBuf::from);
        let file = match (cli.record.clone().or(of_variable), &config.record.file) {
            (Some(file), _) => self.env.expand(&file),
            (None, Some(file)) => self.env.expand(file),
            (None, None) => return None,
        };
        let plan = record::Plan {
            texts: cli.record_texts.unwrap_or(config.record.texts),
            max_size: config.record.max_size,
            max_waiting: record::WAITING,
        };
        let started = file.and_then(|file| {
            Recorder::create(&file, &plan, identity, &config)
                .map_err(|error| format!("cannot record to {}: {error}", file.display()))
        });
        match started {
            Ok((recorder, file)) => {
                tracing::info!(file = %file.display(), texts = plan.texts, "recording");
                Some(recorder)
            }
            Err(problem) => {
                self.problem.set(problem).ok();
                None
            }
        }
    }

    fn find(&self, folders: &[PathBuf]) -> Result<Prepared, String> {
        if let Some(problem) = self.problem.get() {
            return Err(problem.clone());
        }
        let user = match &self.piped {
            Some(user) => user.clone(),
            None => read_user(self.file.as_deref(), &self.env)?,
        };
        prepare(&self.server, &user, folders, &self.env)
    }

    /// Whether there is nothing to serve with; looks if nobody has.
    fn has_failed(&self) -> bool {
        if self.is_done.load(Ordering::Acquire) {
            self.is_vain.load(Ordering::Relaxed)
        } else {
            self.prepare(&[]).is_err()
        }
    }
}

impl driver::Search for Search {
    fn files(&self, folders: &[PathBuf]) -> Vec<PathBuf> {
        let user = self.file.clone().or_else(|| user_file(&self.env));
        let agents = agent_folders(folders, &self.env);
        user.into_iter().chain(workspace_files(folders)).chain(agents).collect()
    }

    fn prepare(&self, folders: &[PathBuf]) -> Result<Prepared, String> {
        let found = self.find(folders).inspect_err(|problem| tell(problem));
        // Files that have become wrong since are no reason to have failed.
        if !self.is_done.swap(true, Ordering::AcqRel) {
            self.is_vain.store(found.is_err(), Ordering::Relaxed);
        }
        found
    }
}

fn check(cli: &Cli) -> anyhow::Result<ExitCode> {
    let runtime = runtime()?;
    let checked = runtime.block_on(async {
        let (world, env) = (world(&identity()), Env::real());
        check::run(cli.config.as_deref(), &env, world, signals::listen()).await
    });
    let report = checked.map_err(anyhow::Error::msg)?;
    // Nobody may read it any more, `head` for one.
    write!(io::stdout(), "{report}").ok();
    Ok(ExitCode::from(u8::try_from(report.status()).unwrap_or(u8::MAX)))
}

fn agents(cli: &Cli, json: bool) -> anyhow::Result<ExitCode> {
    let env = Env::real();
    let user = read_user(cli.config.as_deref(), &env).map_err(anyhow::Error::msg)?;
    let (config, registry) =
        known_agents(&user, std::slice::from_ref(&env.cwd), &env).map_err(anyhow::Error::msg)?;
    let running = runtime()?.block_on(control::partitions(&sockets::folders(&env), &env.cwd));
    let row = |(name, agent): (String, AgentConfig)| {
        let partition = partition_of(&agent);
        let running = running.get(&partition).cloned().unwrap_or_default();
        Row { name, agent, partition, running }
    };
    let listing = Listing {
        rows: config.agents.into_iter().map(row).collect(),
        workers: config.workers,
        shadowed: registry.shadowed,
        problems: registry.problems,
        warnings: registry.warnings,
    };
    let mut out = io::stdout();
    // Nobody may read it any more, `head` for one.
    match json {
        true => writeln!(out, "{:#}", listing.json()).ok(),
        false => write!(out, "{}", listing.text()).ok(),
    };
    Ok(ExitCode::SUCCESS)
}

fn replay(task: &cli::Replay) -> anyhow::Result<ExitCode> {
    let mut out = io::BufWriter::new(io::stdout());
    let done = replaying::run(task, &mut out);
    // Nobody may read it any more, `head` for one.
    out.flush().ok();
    match done? {
        None => Ok(ExitCode::SUCCESS),
        Some(difference) => {
            write!(io::stderr(), "lspool: {difference}").ok();
            Ok(ExitCode::from(1))
        }
    }
}

fn control(task: &control::Task, pid: Option<u32>) -> anyhow::Result<ExitCode> {
    let folders = sockets::folders(&Env::real());
    let mut out = io::stdout();
    let asking = control::run(task, pid, &folders, &mut out, Screen::stdout());
    let Err(failure) = runtime()?.block_on(asking) else { return Ok(ExitCode::SUCCESS) };
    // One that was shown where the result is expected has no words.
    if let Some(message) = failure.message().filter(|it| !it.is_empty()) {
        tell(message);
    }
    Ok(ExitCode::from(failure.status()))
}

/// What is wrong is told with the name of the file.
fn serve_recording(
    file: Option<&Path>,
    process: Option<&str>,
    speed: Speed,
    is_strict: bool,
) -> anyhow::Result<ExitCode> {
    let name = file.map_or_else(|| "the session of lspool".to_owned(), |it| it.display().to_string());
    let dialogue = match file {
        Some(file) => dialogue(replaying::open(file)?, process),
        None => dialogue(player::SESSION.as_bytes(), process.or(Some(EVERY))),
    };
    let dialogue = dialogue.with_context(|| name.clone())?;
    if let Some(note) = &dialogue.note {
        tell(&format!("{name}: {note}"));
    }
    let script = Script::new(dialogue).with_context(|| name.clone())?;
    let mut player = Player::new(script, speed);
    let runtime = runtime()?;
    let played = runtime.block_on(async {
        let stdio::Stdio { input, output, modes } = stdio::open();
        let status = player::serve(&mut player, input, output).await;
        drop(modes);
        status
    });
    runtime.shutdown_background();
    let status = played.context("the client cannot be spoken with any more")?;
    let deviations = player.deviations();
    if !is_strict || deviations.is_empty() {
        return Ok(ExitCode::from(status));
    }
    tell(&format!("the client was not like the one in {name}:"));
    for it in deviations {
        writeln!(io::stderr(), "  {}", it.replace('\n', "\n  ")).ok();
    }
    Ok(ExitCode::FAILURE)
}

fn inspect(file: &Path, filter: &inspect::Filter) -> anyhow::Result<ExitCode> {
    let text = inspect::text(replaying::open(file)?, filter, Screen::stdout());
    let text = text.with_context(|| file.display().to_string())?;
    write!(io::stdout(), "{text}").ok();
    Ok(ExitCode::SUCCESS)
}

fn identity() -> Identity {
    Identity { pid: std::process::id(), started: unix_millis() }
}

fn world(identity: &Identity) -> System {
    let program = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    System::new(Guard::new(program, Mark::new(identity.pid, identity.started)))
}

/// The same, and others may speak with it.
fn open_world(identity: &Identity, env: &Env) -> System {
    world(identity).with_control(Place {
        folders: sockets::folders(env),
        pid: identity.pid,
        started: identity.started,
    })
}

fn runtime() -> anyhow::Result<LocalRuntime> {
    let options = LocalOptions::default();
    tokio::runtime::Builder::new_current_thread().enable_all().build_local(options).context("cannot start")
}

/// Begins the log if one is asked for. A pipe that nobody reads loses lines rather than hold us up.
fn log_to(cli: &Cli, config: &Config, env: &Env) -> anyhow::Result<()> {
    let file = match (&cli.log_file, &config.log.file) {
        (Some(file), _) => file.clone(),
        (None, Some(file)) => env.expand(file).map_err(anyhow::Error::msg)?,
        (None, None) => return Ok(()),
    };
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let open =
        |file: &Path| OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(file);
    let log = open(&file).with_context(|| format!("cannot write the log file {}", file.display()))?;
    let level = match cli.log_level.unwrap_or(config.log.level) {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .log_internal_errors(false)
        .with_writer(Arc::new(log))
        .init();
    tracing::info!(version = env!("CARGO_PKG_VERSION"), pid = std::process::id(), "lspool starts");
    Ok(())
}

fn unix_millis() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "the core is told the time, and this is who tells it")]
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
