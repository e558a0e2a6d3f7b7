//! Reads the configuration again, and applies the changes that are possible during a session.
//!
//! An invalid file changes nothing.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tracing::{info, warn};

use super::{Admin, offered_commands, restart::Started};
use crate::{
    config::ServerKind,
    core::{
        backends::{renew, replace, restart, stop},
        copilot::{Copilot, hooks::Reloaded},
        event::{BackendId, Effect, Member, Prepared},
        mux::{
            Mux, Severity,
            failure::{Cause, Failure},
            pool::lifecycle::LifecycleState,
        },
    },
};

/// How long a process may continue with open requests before a reload replaces it.
const RELOAD_GRACE: Duration = Duration::from_secs(30);

/// How long a change that lspool has noticed by itself belongs to the next report.
const RECENT: Duration = Duration::from_mins(1);

/// Why the configuration is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// Somebody waits for a report.
    Asked,
    /// A file or the folders have changed.
    ByItself,
}

impl Admin {
    /// Reads the configuration again, after a change of a file, a request, or a change of the workspace folders.
    pub(crate) fn reload(&mut self, mux: &mut Mux) {
        let Some(server) = mux.servers().first() else {
            // The first reading has not ended, or has failed.
            let failure = Failure::not_initialized();
            for owner in std::mem::take(&mut self.reloads) {
                mux.fail(&owner, &failure);
            }
            return;
        };
        if self.is_reading {
            self.read_again = true;
            return;
        }
        self.is_reading = true;
        // The folders of `initialize` stay: the first one has chosen the server, and their restrictions apply.
        let folders = server.session().with_added(mux.clients().folders().to_vec());
        mux.act(Effect::Prepare { folders });
    }

    /// Applies the configuration. An error changes nothing.
    pub(crate) fn on_reloaded(
        &mut self,
        mux: &mut Mux,
        copilot: &mut Option<Copilot>,
        prepared: Result<Box<Prepared>, String>,
    ) {
        self.is_reading = false;
        if std::mem::take(&mut self.read_again) {
            return self.reload(mux);
        }
        let waiting = std::mem::take(&mut self.reloads);
        let prepared = prepared.and_then(|it| is_adoptable(mux, copilot.as_ref(), &it).map(|()| it));
        let reading = if waiting.is_empty() { Reading::ByItself } else { Reading::Asked };
        let mut started = Started::Nothing;
        match prepared {
            Ok(prepared) => {
                self.problem = None;
                let changed = self.adopt(mux, copilot, *prepared);
                if changed.contains(&"processes") {
                    started = Started::Others;
                }
                info!(?changed, "the configuration was read again");
                let changed = self.with_unreported(mux, changed, reading);
                for it in &waiting {
                    mux.answer(it, &json!({"changed": changed}));
                }
            }
            Err(problem) => {
                warn!(problem, "reloading failed; the configuration is unchanged");
                let failure = Failure::new(Cause::Unavailable, problem.clone());
                for it in &waiting {
                    mux.fail(it, &failure);
                }
                if self.problem.as_ref() != Some(&problem) {
                    mux.show(Severity::Error, &format!("lspool keeps its configuration: {problem}"));
                }
                self.problem = Some(problem);
            }
        }
        self.restart_found(mux, copilot, started);
    }

    /// What a reload reports: what it has changed, and before that what lspool has just changed by itself, because it
    /// watches the files.
    fn with_unreported(
        &mut self,
        mux: &Mux,
        changed: Vec<&'static str>,
        reading: Reading,
    ) -> Vec<&'static str> {
        let recent = self.unreported.take().filter(|(at, _)| mux.now() < *at + RECENT);
        let mut all = recent.map(|(_, it)| it).unwrap_or_default();
        all.retain(|it| !changed.contains(it));
        all.extend(changed);
        if reading == Reading::ByItself && !all.is_empty() {
            self.unreported = Some((mux.now(), all.clone()));
        }
        all
    }

    /// Tells the user what is new among the warnings of a reading.
    pub(crate) fn warn_of(&mut self, mux: &mut Mux, warnings: &[String]) {
        let before = std::mem::replace(&mut self.warned, warnings.iter().cloned().collect());
        for warning in warnings.iter().filter(|it| !before.contains(*it)) {
            warn!("{warning}");
            mux.show(Severity::Warning, warning);
        }
    }

    /// Applies a configuration; returns the changes. Replaces only processes that would start differently.
    fn adopt(
        &mut self,
        mux: &mut Mux,
        copilot: &mut Option<Copilot>,
        mut prepared: Prepared,
    ) -> Vec<&'static str> {
        self.warn_of(mux, &prepared.warnings);
        let Some(server) = mux.servers().first() else { return Vec::new() };
        let id = server.id;
        let (mut changed, mut of_copilot) = (Vec::new(), Vec::new());
        if server.config.agents != prepared.config.agents {
            changed.push("agents");
            of_copilot.push(Reloaded::Agents);
        }
        let (old, new) = (&*server.config, &*prepared.config);
        let sections = [
            ("models", old.models != new.models),
            ("orchestration", old.orchestration != new.orchestration),
            ("routes", old.routes != new.routes),
            ("subagents", old.subagents != new.subagents),
            ("tools", old.tools != new.tools),
            ("workers", old.workers != new.workers),
        ];
        changed.extend(sections.iter().filter(|(_, is_changed)| *is_changed).map(|(name, _)| *name));
        let mut group = prepared.group.take();
        let others = group.as_mut().map(|it| std::mem::take(&mut it.others)).unwrap_or_default();
        if mux.has_new_members(&others) {
            changed.push("servers");
        }
        let relaunch = server.launch != prepared.launch || mux.has_new_launch(&others);
        if server.settings != prepared.server || mux.has_new_settings(&others) {
            changed.push("settings");
        }
        if relaunch {
            changed.push("processes");
        }
        let (kind, current) = (prepared.server.kind, kind_of_first(mux, copilot.as_ref()));
        let builtin_tools = |mux: &Mux, copilot: &Option<Copilot>| {
            let server = copilot.as_ref().map(|it| it.server(mux));
            server.map(|it| (it.settings.builtin_tools, it.has_code_tools))
        };
        let before = (builtin_tools(mux, copilot), mux.member_settings());
        for id in mux.removed_members(&others) {
            let primary = mux.servers().get(id).primary;
            stop(copilot, mux, primary, "removed from the group");
            mux.retire_member(id);
        }
        let new = mux.adopt_members(&prepared.config, others, prepared.has_code_tools);
        mux.adopt_settings(id, prepared);
        if builtin_tools(mux, copilot) != before.0 {
            of_copilot.push(Reloaded::BuiltinTools);
        }
        if let Some(group) = group {
            mux.adopt_group(group);
        }
        match (kind, current) {
            (Some(ServerKind::Copilot), ServerKind::Generic) if copilot.is_none() => {
                *copilot = Some(Copilot::new(mux, id));
            }
            (Some(ServerKind::Generic), ServerKind::Copilot) => *copilot = None,
            (_, _) => {}
        }
        for id in new {
            if let Err(failure) = restart(copilot, mux, id) {
                warn!(failure.message, "a new member does not start");
            }
        }
        tell_settings(mux, copilot, &before.1);
        let commands = offered_commands(mux.title(), copilot.is_some(), mux.identity());
        mux.server_mut(id).commands = commands;
        if relaunch {
            mux.renew_later(RELOAD_GRACE);
        }
        if let Some(copilot) = copilot {
            copilot.on_reloaded(mux, &of_copilot);
        }
        if relaunch {
            renew_all(mux, copilot);
        }
        match copilot {
            Some(copilot) => copilot.shrink(mux),
            None => mux.note_shrunk(id),
        }
        changed
    }
}

/// What the server is that no other one comes before.
fn kind_of_first(mux: &Mux, copilot: Option<&Copilot>) -> ServerKind {
    let first = mux.servers().first().map(|it| it.id);
    match copilot {
        Some(it) if Some(it.server_id()) == first => ServerKind::Copilot,
        Some(_) | None => ServerKind::Generic,
    }
}

/// Sends the members of a group their settings, if those are others than before.
fn tell_settings(mux: &mut Mux, copilot: &mut Option<Copilot>, before: &[Map<String, Value>]) {
    for (id, frame) in mux.changed_settings(before) {
        match copilot.as_mut().filter(|it| it.server_id() == id) {
            Some(copilot) => {
                let keep = mux.keep_for_member(id, &frame);
                copilot.on_client_notification(mux, keep, &frame);
            }
            None => mux.tell_configuration(id, &frame),
        }
    }
}

/// Whether a configuration can replace the current one. Another first server, or another kind of server, must wait for the
/// next session, because the editor knows the current one.
fn is_adoptable(mux: &Mux, copilot: Option<&Copilot>, prepared: &Prepared) -> Result<(), String> {
    let Some(server) = mux.servers().first() else { return Ok(()) };
    let current = kind_of_first(mux, copilot);
    let others = prepared.group.as_ref().map_or(&[][..], |it| &it.others);
    let changes_copilot = || {
        let is_copilot = |it: &Member| it.server.kind == Some(ServerKind::Copilot);
        let removed = mux.removed_members(others);
        mux.new_members(others).any(is_copilot) || copilot.is_some_and(|it| removed.contains(&it.server_id()))
    };
    let hint = "applies when the editor starts lspool again";
    let is_other = |it: ServerKind| it != current;
    match (&prepared.missing, prepared.server.kind) {
        _ if !mux.is_group() && prepared.group.is_some() => {
            Err(format!("a group has taken the place of {}; this {hint}", server.name))
        }
        _ if changes_copilot() => {
            Err(format!("a Copilot server was added to the group or removed from it; this {hint}"))
        }
        _ if prepared.name != server.name => {
            Err(format!("the server changed from {} to {}; this {hint}", server.name, prepared.name))
        }
        (Some(missing), _) if server.missing.is_none() => Err(missing.clone()),
        (None, kind) if server.missing.is_none() && kind.is_some_and(is_other) => {
            Err(format!("the kind of {} changed; this {hint}", server.name))
        }
        (Some(_) | None, _) => Ok(()),
    }
}

/// Replaces processes as soon as no request is open, and gives failed ones another chance.
fn renew_all(mux: &mut Mux, copilot: &mut Option<Copilot>) {
    renew(copilot, mux);
    let others: Vec<(BackendId, LifecycleState)> = mux
        .backends()
        .iter()
        .filter(|it| it.health.renewal.is_some() && !it.is_ready())
        .map(|it| (it.id, it.life.state()))
        .collect();
    for (id, state) in others {
        match state {
            LifecycleState::Spawning { .. } | LifecycleState::Initializing { .. } => {
                replace(copilot, mux, id);
            }
            LifecycleState::Failed => {
                if let Err(failure) = restart(copilot, mux, id) {
                    warn!(failure.message, "restart failed");
                }
            }
            // The next process has the new configuration.
            LifecycleState::Stopped | LifecycleState::Waiting | LifecycleState::Restarting { .. } => {}
            LifecycleState::Ready | LifecycleState::Degraded => {}
        }
    }
}
