//! Finds the server for an editor or a goal, and reads the user's configuration before.

use std::{
    path::PathBuf,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{args::Args, code_tools::has_server, log, tell};
use crate::{
    config::{BuiltinTools, Config},
    core::{Identity, event::Prepared},
    shell::{
        discover::{
            CliServers, Env, UserConfig, agent_folders, prepare, read_user, user_file, workspace_files,
        },
        driver::{self, Search as _},
        record::{self, Recorder},
        shared::HubLog,
    },
};

/// Finds the server when an editor sends `initialize`; begins the log and the recording before.
pub(super) struct Search {
    servers: CliServers,
    /// The user's file, if it is not at its usual place.
    file: Option<PathBuf>,
    pub(super) env: Env,
    /// The content of a file that can be read only once.
    piped: Option<UserConfig>,
    /// The user's configuration at the start.
    pub(super) first: Option<Config>,
    /// The log.
    pub(super) log: Option<HubLog>,
    /// Why the wanted log or recording is missing.
    problem: OnceLock<String>,
    is_done: AtomicBool,
    is_vain: AtomicBool,
}

impl Search {
    /// Begins the log as the user's file says. What is wrong with the file is told when it is read for the editor.
    pub(super) fn new(args: &Args, servers: CliServers) -> Search {
        let env = Env::real();
        let user = read_user(args.config.as_deref(), &env);
        let log = match &user {
            Ok(user) => log::begin(args, &user.config, &env).map_err(|error| format!("{error:#}")),
            Err(_) => Ok(None),
        };
        let (log, problem) = match log {
            Ok(log) => (log, OnceLock::new()),
            Err(problem) => (None, problem.into()),
        };
        let is_piped = args.config.as_deref().is_some_and(|it| it.exists() && !it.is_file());
        let user = user.ok();
        Search {
            servers,
            file: args.config.clone(),
            first: user.as_ref().map(|it| it.config.clone()),
            piped: user.filter(|_| is_piped),
            env,
            log,
            problem,
            is_done: AtomicBool::new(false),
            is_vain: AtomicBool::new(false),
        }
    }

    /// Begins the recording, if it is wanted.
    pub(super) fn recorder(&self, args: &Args, identity: Identity) -> Option<Recorder> {
        let config = self.first.clone().unwrap_or_default();
        let of_variable = self.env.var(record::VARIABLE).map(PathBuf::from);
        let file = match (args.record.clone().or(of_variable), &config.record.file) {
            (Some(file), _) => self.env.expand(&file),
            (None, Some(file)) => self.env.expand(file),
            (None, None) => return None,
        };
        let plan = record::Plan {
            texts: args.record_texts.unwrap_or(config.record.texts),
            max_size: config.record.max_size,
            max_waiting: record::WAITING,
        };
        let started = file.and_then(|file| {
            Recorder::create(&file, &plan, identity, &config)
                .map_err(|error| format!("cannot record to {}: {error}", file.display()))
        });
        match started {
            Ok((recorder, file)) => {
                tracing::info!(target: "lspool", file = %file.display(), texts = plan.texts, "started recording");
                Some(recorder)
            }
            Err(problem) => {
                self.problem.set(problem).ok();
                None
            }
        }
    }

    /// The user's configuration as it is.
    pub(super) fn user(&self) -> Result<UserConfig, String> {
        if let Some(problem) = self.problem.get() {
            return Err(problem.clone());
        }
        match &self.piped {
            Some(user) => Ok(user.clone()),
            None => read_user(self.file.as_deref(), &self.env),
        }
    }

    pub(super) fn find(&self, folders: &[PathBuf]) -> Result<Prepared, String> {
        let user = self.user()?;
        let found = prepare(&self.servers, &user, folders, &self.env)?;
        Ok(self.with_code_tools(found, folders))
    }

    /// Decides whether conversations get code tools. Reads the folders only if they may.
    pub(super) fn with_code_tools(&self, found: Prepared, folders: &[PathBuf]) -> Prepared {
        let is_wanted = found.server.builtin_tools == BuiltinTools::Fallback;
        let has_server = || self.user().is_ok_and(|it| has_server(&it, folders, &self.env));
        Prepared { has_code_tools: is_wanted && has_server(), ..found }
    }

    /// Whether no server can be started. Searches if nobody has.
    pub(super) fn has_failed(&self) -> bool {
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
        // A file that became invalid later is not a reason.
        if !self.is_done.swap(true, Ordering::AcqRel) {
            self.is_vain.store(found.is_err(), Ordering::Relaxed);
        }
        found
    }
}
