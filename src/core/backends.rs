//! Operations on a backend as a whole: the mux acts on its process, and the Copilot half on its conversations.

use super::{
    copilot::Copilot,
    event::{BackendId, ClientId},
    mux::{Mux, failure::Failure},
};
use crate::rpc::Frame;

/// The Copilot half, if a backend is of its server.
pub(super) fn half<'a>(
    copilot: &'a mut Option<Copilot>,
    mux: &Mux,
    id: BackendId,
) -> Option<&'a mut Copilot> {
    copilot.as_mut().filter(|it| it.has(mux, id))
}

/// Passes on what has waited, as far as the process can take it.
pub(super) fn flush(copilot: &mut Option<Copilot>, mux: &mut Mux, id: BackendId) {
    match half(copilot, mux, id) {
        Some(it) => it.flush(mux, id),
        None => mux.flush(id),
    }
}

/// Starts waiting processes, as far as there is room.
pub(super) fn start_waiting(copilot: &mut Option<Copilot>, mux: &mut Mux) {
    match copilot {
        Some(it) => {
            it.start_waiting(mux);
            if mux.is_group() {
                mux.start_waiting_beside(it.server_id());
            }
        }
        None => mux.start_waiting(),
    }
}

/// Stops an unneeded process. The next one gets its state.
pub(super) fn stop(copilot: &mut Option<Copilot>, mux: &mut Mux, id: BackendId, why: &'static str) {
    match half(copilot, mux, id) {
        Some(it) => it.stop(mux, id, why),
        None => {
            mux.stop(id, why);
            start_waiting(copilot, mux);
        }
    }
}

/// Fails a backend with all its requests.
pub(super) fn fail_backend(copilot: &mut Option<Copilot>, mux: &mut Mux, id: BackendId, failure: &Failure) {
    match half(copilot, mux, id) {
        Some(it) => it.fail_backend(mux, id, failure),
        None => {
            mux.fail_backend(id, failure);
            start_waiting(copilot, mux);
            mux.on_shutdown_progress();
        }
    }
}

/// Starts a backend, or replaces its process. Does not count as a failure.
pub(super) fn restart(copilot: &mut Option<Copilot>, mux: &mut Mux, id: BackendId) -> Result<(), Failure> {
    match half(copilot, mux, id) {
        Some(it) => it.restart(mux, id),
        None => mux.restart(id),
    }
}

/// Replaces the process.
pub(super) fn replace(copilot: &mut Option<Copilot>, mux: &mut Mux, id: BackendId) {
    match half(copilot, mux, id) {
        Some(it) => it.replace(mux, id),
        None => {
            mux.replace(id);
            start_waiting(copilot, mux);
        }
    }
}

/// Replaces the processes that are due and have no open request, or cannot wait longer.
pub(super) fn renew(copilot: &mut Option<Copilot>, mux: &mut Mux) {
    for id in mux.due_renewals() {
        mux.log_renewal(id);
        replace(copilot, mux, id);
    }
}

/// Handles `$/cancelRequest` of a client. A request with an unknown id has been answered already.
pub(super) fn cancel(copilot: &mut Option<Copilot>, mux: &mut Mux, client: ClientId, frame: &Frame) {
    if mux.cancel_question(client, frame) {
        return;
    }
    let Some(sent) = mux.cancelled_by(client, frame) else { return };
    match copilot {
        Some(it) => it.cancel(mux, sent, Some(frame)),
        None => mux.cancel(sent, Some(frame)),
    }
}
