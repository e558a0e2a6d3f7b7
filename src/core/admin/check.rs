//! Checks that the tables of the core agree. Changes nothing.

use std::collections::BTreeMap;

use crate::{
    core::{
        agents::Agents,
        copilot::Copilot,
        event::BackendId,
        mux::{
            Mux,
            pool::backend::{Backend, Role},
            requests::To,
        },
        purpose::SentId,
    },
    rpc::{Frame, Kind},
};

/// The first broken invariant, in words.
type Checked = Result<(), String>;

/// Finds a broken invariant. The cost grows with the size of the tables.
pub(in crate::core) fn check(mux: &Mux, copilot: Option<&Copilot>, agents: &Agents) -> Checked {
    if mux.clients().is_exiting() {
        return Ok(());
    }
    mux.requests().check()?;
    if let Some(copilot) = copilot {
        copilot.conversations().check()?;
        agents.check(copilot, mux)?;
    }
    check_requests(mux, copilot)?;
    check_backends(mux)?;
    mux.check_group()?;
    if let Some(copilot) = copilot {
        copilot.check(mux)?;
    }
    mux.check_tokens(|id| copilot.is_some_and(|it| it.goes_on(mux, id)))
}

/// Each request is in exactly the place of its entry.
fn check_requests(mux: &Mux, copilot: Option<&Copilot>) -> Checked {
    let mut held: BTreeMap<SentId, Vec<BackendId>> = BTreeMap::new();
    for backend in mux.backends().iter() {
        for sent in backend.queued().iter().filter_map(request) {
            held.entry(sent).or_default().push(backend.id);
        }
    }
    for (sent, id) in copilot.into_iter().flat_map(Copilot::held_turns) {
        held.entry(sent).or_default().push(id);
    }
    for (sent, pending) in mux.requests().iter() {
        let held = held.get(&sent).map_or(&[][..], Vec::as_slice);
        let right = match pending.to {
            To::Queue(id) => held == [id] && mux.backends().contains(id),
            To::Process(process) => held.is_empty() && mux.is_current(process),
            To::Client(_) | To::BuiltinTools => held.is_empty(),
        };
        if !right {
            return Err(format!("request {sent} to {:?} is held by {held:?}", pending.to));
        }
    }
    // A queue may still hold requests that `shutdown` did not wait for.
    match held.keys().find(|it| mux.requests().get(**it).is_none()) {
        Some(sent) if !mux.clients().is_shut_down() => Err(format!("{sent} is held and owed to nobody")),
        _ => Ok(()),
    }
}

fn check_backends(mux: &Mux) -> Checked {
    for server in mux.servers().iter() {
        if !mux.backends().contains(server.primary) {
            return Err(format!("{} has no primary", server.name));
        }
        let alive = mux.backends().iter().filter(|it| it.server == server.id && it.life.is_alive()).count();
        let most = server.max_processes();
        if alive > most && !server.shrinks {
            return Err(format!("{alive} processes, and {most} may be"));
        }
    }
    mux.backends().check(mux.idle_timeout())?;
    mux.backends().iter().try_for_each(|it| check_backend(mux, it))
}

fn check_backend(mux: &Mux, backend: &Backend) -> Checked {
    let name = &backend.name;
    if !backend.queued().is_empty() && backend.is_open() {
        return Err(format!("{name}: something waits in the queue of an open backend"));
    }
    if !backend.queued().is_empty() && !backend.accepts() {
        return Err(format!("{name}: something waits for a process that will not be"));
    }
    let is_partition = backend.role == Role::Partition && backend.accepts();
    if is_partition && backend.idle_since.is_some() == mux.is_busy(backend.id) {
        return Err(format!("{name}: in use and counted as idle, or the reverse"));
    }
    Ok(())
}

/// The number of a waiting request.
fn request(frame: &Frame) -> Option<SentId> {
    SentId::of(frame).filter(|_| frame.kind() == Kind::Request)
}
