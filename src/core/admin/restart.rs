//! Handles requests for a restart or a stop, and the user's choice about a failed backend.

use serde_json::json;
use tracing::info;

use super::{Admin, named};
use crate::{
    core::{
        backends::{restart, stop},
        copilot::Copilot,
        event::{BackendId, ClientId},
        mux::{
            Mux, Severity,
            failure::{Cause, Failure},
            pool::{
                lifecycle::LifecycleState,
                processes::{RESTART, SHOW_LOG},
            },
            requests::Owner,
        },
    },
    rpc::{Frame, text},
};

/// The backends that a new configuration has started already when a restart was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Started {
    Nothing,
    /// All that have neither failed nor been stopped.
    Others,
}

impl Admin {
    pub(super) fn ask_restart(
        &mut self,
        mux: &mut Mux,
        copilot: &mut Option<Copilot>,
        owner: Owner,
        params: &[u8],
    ) {
        let named = match named(mux, params) {
            Ok(named) => named,
            Err(failure) => return mux.fail(&owner, &failure),
        };
        // The executable may be installed by now.
        if is_missing(mux) {
            self.searches.push((owner, named));
            return self.reload(mux);
        }
        self.restart_named(mux, copilot, owner, &named, |_| true);
    }

    /// Restarts the backends of requests that waited for a missing executable.
    pub(super) fn restart_found(&mut self, mux: &mut Mux, copilot: &mut Option<Copilot>, started: Started) {
        for (owner, named) in std::mem::take(&mut self.searches) {
            let is_due = |state| match started {
                Started::Nothing => true,
                Started::Others => matches!(state, LifecycleState::Failed | LifecycleState::Stopped),
            };
            self.restart_named(mux, copilot, owner, &named, is_due);
        }
    }

    /// Restarts backends, and answers when all are ready or one has failed.
    fn restart_named(
        &mut self,
        mux: &mut Mux,
        copilot: &mut Option<Copilot>,
        owner: Owner,
        named: &[BackendId],
        is_due: impl Fn(LifecycleState) -> bool,
    ) {
        let mut awaited = Vec::new();
        for id in named {
            // A backend may end meanwhile, and with it the need for another.
            let Some(backend) = mux.backend(*id) else { continue };
            // Spares come and go, so the request does not wait for them.
            if named.len() == 1 || !backend.is_spare() {
                awaited.push((*id, backend.name.clone()));
            }
            if !is_due(backend.life.state()) {
                continue;
            }
            info!(backend.name, "restart requested");
            if let Err(failure) = restart(copilot, mux, *id) {
                return mux.fail(&owner, &failure);
            }
        }
        if named.len() > 1 {
            awaited.retain(|(id, _)| mux.backend(*id).is_some());
        }
        self.restarts.push((owner, awaited));
    }

    /// Answers the requests whose backends are ready or have failed.
    pub(crate) fn answer_restarts(&mut self, mux: &mut Mux) {
        if self.restarts.is_empty() {
            return;
        }
        for (owner, ids) in std::mem::take(&mut self.restarts) {
            // An unneeded partition disappears when it stops.
            let state = |id| mux.backend(id).map_or(LifecycleState::Stopped, |it| it.life.state());
            let failed = ids
                .iter()
                .find(|(id, _)| matches!(state(*id), LifecycleState::Failed | LifecycleState::Stopped));
            if let Some((id, name)) = failed {
                let last_error = mux.backend(*id).and_then(|it| it.last_error.as_deref());
                let message = match (state(*id), last_error) {
                    (LifecycleState::Failed, Some(why)) => format!("{name} has failed: {why}"),
                    (LifecycleState::Failed, None) => format!("{name} has failed"),
                    (_, _) => format!("{name} was stopped before it was ready"),
                };
                let failure = Failure::new(Cause::Unavailable, message);
                mux.fail(&owner, &Failure { partition: Some(name.clone()), ..failure });
            } else if ids.iter().all(|(id, _)| matches!(state(*id), LifecycleState::Ready)) {
                let names: Vec<&str> = ids.iter().map(|(_, name)| name.as_str()).collect();
                mux.answer(&owner, &json!({"name": names.first(), "names": names, "state": "ready"}));
            } else {
                self.restarts.push((owner, ids));
            }
        }
    }

    /// Handles the user's choice about a failed backend.
    pub(crate) fn on_offer_answered(
        &mut self,
        mux: &mut Mux,
        copilot: &mut Option<Copilot>,
        id: BackendId,
        answer: &Frame,
    ) {
        let chosen = answer.result().and_then(|it| text(it, &["title"]));
        let Some(backend) = mux.backend(id) else { return };
        match chosen.as_deref() {
            // The executable may be installed by now.
            Some(RESTART) if is_missing(mux) => {
                self.searches.push((Owner::Proxy, vec![id]));
                self.reload(mux);
            }
            Some(RESTART) if !backend.accepts() => {
                if let Err(failure) = restart(copilot, mux, id) {
                    mux.show(Severity::Error, &failure.message);
                }
            }
            Some(SHOW_LOG) => {
                let last = backend.last_error.as_deref().unwrap_or("no error");
                let message = format!(
                    "{}: {last}. All it wrote to stderr: lspool logs {} --pid {}",
                    backend.name,
                    backend.alias(),
                    mux.identity().pid
                );
                mux.show(Severity::Info, &message);
            }
            Some(_) | None => {}
        }
    }
}

fn is_missing(mux: &Mux) -> bool {
    mux.servers().iter().any(super::super::mux::servers::Server::is_missing)
}

pub(super) fn ask_stop(mux: &mut Mux, copilot: &mut Option<Copilot>, owner: &Owner, params: &[u8]) {
    let named = match named(mux, params) {
        Ok(named) => named,
        Err(failure) => return mux.fail(owner, &failure),
    };
    let mut names = Vec::new();
    for id in named {
        let Some(backend) = mux.backend(id) else { continue };
        info!(backend.name, "stop requested");
        names.push(json!(backend.name));
        // An editor may drop the errors of a hover. A partition starts again with the next turn.
        let is_elsewhere = !matches!(owner, Owner::Client(ClientId::EDITOR, _));
        let told = (is_elsewhere && backend.is_primary() && backend.accepts()).then(|| {
            let (name, alias) = (&backend.name, backend.alias());
            format!("lspool: a command stopped {name}. To start it again: lspool restart {alias}")
        });
        stop(copilot, mux, id, "a user asked for it");
        if let Some(told) = told {
            mux.show(Severity::Info, &told);
        }
    }
    mux.answer(owner, &json!({"name": names.first(), "names": names, "state": "stopped"}));
}
