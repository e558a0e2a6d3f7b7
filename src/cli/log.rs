//! The log: its file and level.

use std::sync::Arc;

use anyhow::Context as _;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Layer as _, filter::Targets, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use super::{args::Args, tell};
use crate::{
    config::{Config, LogLevel},
    shell::{discover::Env, os::files::log_file, shared::HubLog},
};

/// Begins the log, if it is wanted; returns its place. A pipe without a reader loses lines and does not hold up lspool.
pub(super) fn begin(args: &Args, config: &Config, env: &Env) -> anyhow::Result<Option<HubLog>> {
    let file = match (&args.log_file, &config.log.file) {
        (Some(file), _) => env.cwd.join(file),
        (None, Some(file)) => env.expand(file).map_err(anyhow::Error::msg)?,
        (None, None) => {
            if args.log_level.is_some() {
                tell("--log-level has no effect without --log-file");
            }
            return Ok(None);
        }
    };
    let log = HubLog { file, level: args.log_level.unwrap_or(config.log.level) };
    begin_at(&log)?;
    Ok(Some(log))
}

/// Begins the log in a file.
pub(super) fn begin_at(HubLog { file, level }: &HubLog) -> anyhow::Result<()> {
    let log = log_file().open(file);
    let log = log.with_context(|| format!("cannot write the log file {}", file.display()))?;
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let log = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .log_internal_errors(false)
        .with_writer(Arc::new(log));
    // It logs whole messages, which have the texts of the user.
    let targets = Targets::new().with_default(level).with_target("rmcp", LevelFilter::OFF);
    tracing_subscriber::registry().with(log.with_filter(targets)).init();
    // With the name of the program as target, because people filter by it.
    let (version, pid) = (env!("CARGO_PKG_VERSION"), std::process::id());
    tracing::info!(target: "lspool", version, pid, "lspool started");
    Ok(())
}
