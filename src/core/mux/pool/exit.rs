//! What the exit of a process means.

use super::{
    away::{Stage, is_missing, is_refused, is_unreachable, remote_of},
    lifecycle::End,
};
use crate::{
    config::ServerConfig,
    core::{
        event::{Exit, ProcessId},
        mux::{Mux, failure::Cause},
    },
};

/// How lspool ends a process that does not end with its stdin.
const SIGTERM: i32 = 15;

pub(super) fn end_of(cause: Cause, settings: &ServerConfig) -> End {
    match cause {
        Cause::Unreachable => End::Unreachable { longest: remote_of(settings).reconnect_max },
        _ => End::Crash,
    }
}

impl Mux {
    /// Handles an exit: returns the cause, and the words for people. `None`: it is an older process.
    pub(crate) fn on_exited(
        &mut self,
        process: ProcessId,
        exit: Exit,
        stderr: &str,
    ) -> Option<(Cause, String)> {
        let backend = self.backends.get_mut(process.backend).filter(|it| it.is_current(process))?;
        let is_starting = backend.is_starting();
        let told = backend.sharing.take_end();
        let (exit, stderr) = told.as_ref().map_or((exit, stderr), |(exit, stderr)| (*exit, stderr));
        let remote = self.servers.get(backend.server).launch.remote.as_ref();
        let stage = if is_starting { Stage::Starting } else { Stage::Ready };
        let is_unreachable = match exit {
            Exit::Code(code) if backend.life.has_been_ready() => remote
                .is_some_and(|it| is_unreachable(it.engine, code, stage) && !is_refused(it.engine, stderr)),
            Exit::Code(_) | Exit::Signal(_) | Exit::Unknown => false,
        };
        if is_starting && remote.is_some() && matches!(exit, Exit::Code(code) if is_missing(code)) {
            backend.life.note_missing();
        }
        // A process that another program has killed says nothing about the next one.
        if is_starting && (backend.is_terminated() || !exit.is_from_outside()) {
            backend.life.note_failed_start();
        }
        let (cause, end, words) = match backend.ending.take_fault() {
            // The connection hangs: nothing of a server has come.
            Some((Cause::InitTimeout, fault))
                if remote.is_some() && backend.life.has_been_ready() && !backend.health.has_spoken() =>
            {
                (Cause::Unreachable, format!("cannot be reached ({fault})"), stderr)
            }
            Some((cause, fault)) => (cause, format!("was ended ({fault})"), stderr),
            // One that dies closes its stdout too.
            None if backend.closed_at.is_some() && matches!(exit, Exit::Code(0) | Exit::Signal(SIGTERM)) => {
                (Cause::Transport, "was ended (it had closed its stdout)".to_owned(), stderr)
            }
            None if exit == Exit::Unknown && backend.sharing.is_shared() => {
                (Cause::Crashed, "is gone with its hub".to_owned(), stderr)
            }
            None if is_unreachable => (Cause::Unreachable, format!("cannot be reached ({exit})"), stderr),
            None if exit.is_from_outside() => (Cause::Crashed, format!("exited ({exit})"), ""),
            None => (Cause::Crashed, format!("exited ({exit})"), stderr),
        };
        let what = match is_starting {
            true => format!("{end} before it answered initialize{}", tail(words)),
            false => format!("{end}{}", tail(words)),
        };
        Some((cause, what))
    }
}

/// The last lines of stderr, as the end of a sentence.
fn tail(stderr: &str) -> String {
    let lines: Vec<&str> = stderr.lines().map(str::trim).filter(|it| !it.is_empty()).collect();
    match lines.split_at(lines.len().saturating_sub(5)).1 {
        [] => String::new(),
        last => format!("; end of stderr: {}", last.join(" | ")),
    }
}
