//! The program: command line, log, runtime, exit status.

use std::{
    ffi::OsStr,
    fs::OpenOptions,
    io::{self, IsTerminal as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;
use lspool::{
    check,
    cli::{self, Cli, Mode},
    config::{Config, LogLevel},
    core::{Identity, Proxy, event::Prepared},
    shell::{
        Settings,
        discover::{CliServer, Env, prepare, read_user},
        driver::Driver,
        guard::{self, Guard, Mark},
        signals, stdio,
        system::System,
    },
};
use rustix::fs::OFlags;
use tracing::level_filters::LevelFilter;

/// Exit status when there is nothing to serve with.
const NOTHING_TO_SERVE: u8 = 2;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    // Before all else: the guard should be small, and there at once.
    if words.next().as_deref() == Some(OsStr::new(guard::SUBCOMMAND)) {
        return guard::serve(&words.next().unwrap_or_default());
    }
    let cli = cli::parse();
    let done = match cli.mode.clone() {
        Mode::Serve(server) => serve(&cli, server),
        Mode::Check => check(&cli),
    };
    done.unwrap_or_else(|error| {
        tell(&format!("{error:#}"));
        ExitCode::from(NOTHING_TO_SERVE)
    })
}

fn serve(cli: &Cli, server: CliServer) -> anyhow::Result<ExitCode> {
    let search = Search::new(cli, server);
    // Nobody is there who could be told by an error answer.
    if io::stdin().is_terminal() && search.prepare(&[]).is_err() {
        return Ok(ExitCode::from(NOTHING_TO_SERVE));
    }
    let search = Arc::new(search);
    let identity = identity();
    let world = world(&identity);
    let prepare = {
        let search = search.clone();
        Arc::new(move |folders: Vec<PathBuf>| search.prepare(&folders))
    };
    let driver = Driver::new(Proxy::new(identity), world, prepare, Settings::default());

    let runtime = runtime()?;
    let code = runtime.block_on(async {
        let stdio::Stdio { input, output, modes } = stdio::open();
        let code = driver.run(input, output, signals::listen()).await;
        drop(modes);
        code
    });
    // A read of a terminal cannot be called off; it ends with the process.
    runtime.shutdown_background();
    let code = u8::try_from(code).unwrap_or(u8::MAX);
    // An editor that went away before it said anything has not been told what is wrong.
    if code < NOTHING_TO_SERVE && search.has_failed() {
        return Ok(ExitCode::from(NOTHING_TO_SERVE));
    }
    Ok(ExitCode::from(code))
}

/// What is known before an editor speaks, and the search for the server when it does.
struct Search {
    server: CliServer,
    env: Env,
    /// What is wrong with the user's file or the log, if anything.
    config: Result<Config, String>,
    is_done: AtomicBool,
    is_vain: AtomicBool,
}

impl Search {
    /// Reads the user's file and begins the log. What is wrong is told on stderr at once, and later to the editor.
    fn new(cli: &Cli, server: CliServer) -> Search {
        let env = Env::real();
        let config = read_user(cli.config.as_deref(), &env).map(|user| user.config).and_then(|config| {
            log_to(cli, &config, &env).map_err(|error| format!("{error:#}"))?;
            Ok(config)
        });
        if let Err(problem) = &config {
            tell(problem);
        }
        Search { server, env, config, is_done: AtomicBool::new(false), is_vain: AtomicBool::new(false) }
    }

    fn prepare(&self, folders: &[PathBuf]) -> Result<Prepared, String> {
        let found = self.find(folders);
        self.is_vain.store(found.is_err(), Ordering::Relaxed);
        self.is_done.store(true, Ordering::Release);
        found
    }

    fn find(&self, folders: &[PathBuf]) -> Result<Prepared, String> {
        let config = self.config.as_ref().map_err(String::clone)?;
        prepare(&self.server, config, folders, &self.env).inspect_err(|problem| tell(problem))
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

/// On stderr, which nobody may read any more.
fn tell(problem: &str) {
    writeln!(io::stderr(), "lspool: {problem}").ok();
}

fn identity() -> Identity {
    Identity { pid: std::process::id(), started: unix_millis() }
}

fn world(identity: &Identity) -> System {
    let program = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    System::new(Guard::new(program, Mark::new(identity.pid, identity.started)))
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")
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
