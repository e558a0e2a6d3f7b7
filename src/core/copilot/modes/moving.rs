//! Moves conversations between the kinds of isolation: on request, after a change of the configuration, or because a
//! mode is unsafe.
//!
//! **A running turn stays where it is.** The other process gets the conversation before its next turn, as after a
//! crash.

use std::{borrow::Cow, collections::BTreeSet};

use serde::Deserialize;
use serde_json::json;
use tracing::{error, info};

use super::Mode;
use crate::{
    config::Isolation,
    core::{
        copilot::{
            Copilot,
            conversation::Conversation,
            progress::{Report, Round},
            tools::tool_set::ToolSet,
        },
        event::{BackendId, ProcessId},
        ids::ConversationId,
        mux::{
            Mux, Severity,
            cancel::cancellation,
            failure::{Cause, Failure},
            pool::backend::Role,
            requests::Owner,
        },
        purpose::{CopilotPurpose, Purpose, Restriction},
    },
    rpc::text,
};

/// The parameters of a move.
#[derive(Deserialize)]
struct Move {
    /// A conversation or a tool set. Without it, all.
    name: Option<String>,
    to: Isolation,
}

/// Handles `lspool/move`: changes the isolation of conversations, by id or by tool set.
pub(crate) fn on_move(copilot: Option<&mut Copilot>, mux: &mut Mux, owner: &Owner, params: &[u8]) {
    let Ok(asked) = serde_json::from_slice::<Move>(params) else {
        let message = "`to` must be \"process\" or \"mode\"; `name` is a conversation or a tool set, or missing for all";
        return mux.fail(owner, &Failure::new(Cause::InvalidParams, message));
    };
    match (copilot, asked) {
        (Some(copilot), asked) => copilot.move_conversations(mux, owner, asked),
        (None, Move { name: Some(name), .. }) => mux.fail(owner, &nothing_to_move(&name, &BTreeSet::new())),
        (None, Move { name: None, to }) => {
            mux.answer(owner, &json!({"conversations": [], "isolation": to.word(), "refused": []}));
        }
    }
}

/// No conversation or tool set has this name.
fn nothing_to_move(name: &str, sets: &BTreeSet<String>) -> Failure {
    let there_are = match sets.len() {
        0 => "nothing to move: every conversation has all tools".to_owned(),
        _ => {
            let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
            format!("expected one of {}", sets.join("; "))
        }
    };
    let message = format!("unknown conversation or tool set {name:?}; {there_are}");
    Failure::new(Cause::InvalidParams, message)
}

impl Copilot {
    /// Applies changed wishes: each conversation that is elsewhere moves with its next turn. Stops an idle process
    /// that only such conversations use.
    pub(crate) fn note_isolation(&mut self, mux: &mut Mux) {
        // The change may have corrected the modes.
        self.modes.unverify();
        let differs: Vec<(ConversationId, bool)> = self
            .conversations
            .iter()
            .filter(|(_, it)| !it.set.is_all() && it.parent.is_none())
            .map(|(id, it)| (id.clone(), (self.wish(mux, &it.wish) == Isolation::Mode) != it.mode.is_some()))
            .collect();
        for (id, moves) in differs {
            if let Some(conversation) = self.conversations.get_mut(&id) {
                conversation.wish.moves = moves;
            }
        }
        // A conversation that no mode can serve keeps its process.
        let goes = |it: &Conversation| it.mode.is_none() && it.wish.moves;
        let going = self.conversations.iter().filter(|(_, it)| goes(it));
        let going: Vec<_> =
            going.map(|(_, it)| (it.backend, it.set.clone(), it.history.create.clone())).collect();
        let mut stays: BTreeSet<BackendId> =
            self.conversations.iter().filter(|(_, it)| !it.wish.moves).map(|(_, it)| it.backend).collect();
        for (backend, set, create) in going {
            if let Err(why) = self.mode_for(mux, &set, &create) {
                self.note_reason(&set, why);
                stays.insert(backend);
            }
        }
        let is_left = |id: BackendId| {
            self.conversations.iter().any(|(_, it)| it.backend == id && it.mode.is_none())
                && !stays.contains(&id)
        };
        let is_quiet = |id| mux.requests().n_owed_by(id) == 0;
        let others = mux.backends().iter().filter(|it| it.role == Role::Partition && it.accepts());
        let left: Vec<BackendId> =
            others.map(|it| it.id).filter(|it| is_left(*it) && is_quiet(*it)).collect();
        for id in left {
            info!(backend = mux.name_of(id), "its conversations continue in chat modes: stopped");
            self.stop(mux, id, "its conversations continue in chat modes");
        }
    }

    fn move_conversations(&mut self, mux: &mut Mux, owner: &Owner, asked: Move) {
        let Move { name, to } = asked;
        let is_meant = |id: &ConversationId, set: &ToolSet, backend: BackendId| {
            let Some(name) = &name else { return true };
            id.as_text().is_some_and(|it| it == *name)
                || id.to_string() == *name
                || set.to_string() == *name
                || set.shown() == *name
                || mux.name_of(backend) == name
        };
        let meant: Vec<ConversationId> = self
            .conversations
            .iter()
            .filter(|(id, it)| !it.set.is_all() && it.parent.is_none() && !self.internal.contains(id))
            .filter(|(id, it)| is_meant(id, &it.set, it.backend))
            .map(|(id, _)| id.clone())
            .collect();
        if let (true, Some(name)) = (meant.is_empty(), &name) {
            return mux.fail(owner, &self.nothing_to_move(name));
        }
        let mut refused = Vec::new();
        for id in meant.iter().filter(|_| to == Isolation::Mode) {
            let Some(conversation) = self.conversations.get(id) else { continue };
            let (set, create) = (conversation.set.clone(), conversation.history.create.clone());
            // Gives an unusable mode another chance.
            self.modes.all.values_mut().filter(|it| it.key.set == set).for_each(Mode::unverify);
            if let Err(why) = self.mode_for(mux, &set, &create) {
                refused.push((id.clone(), why));
            }
        }
        let meant: Vec<ConversationId> =
            meant.into_iter().filter(|id| !refused.iter().any(|(it, _)| it == id)).collect();
        if let ([], [(id, why), ..]) = (&meant[..], &refused[..]) {
            let others = match refused.len() {
                1 => String::new(),
                n => format!("; nor {} other conversations", n - 1),
            };
            let message = format!("a chat mode cannot serve conversation {id}: {why}{others}");
            return mux.fail(owner, &Failure::new(Cause::Unavailable, message));
        }
        for id in &meant {
            if let Some(conversation) = self.conversations.get_mut(id) {
                conversation.wish.isolation = Some(to);
            }
        }
        info!(?meant, to = to.word(), "conversations moved on request");
        self.note_isolation(mux);
        let shown = |it: &ConversationId| it.as_text().map_or_else(|| it.to_string(), Cow::into_owned);
        let moved: Vec<String> = meant.iter().map(shown).collect();
        let refused: Vec<_> =
            refused.iter().map(|(id, why)| json!({"conversation": shown(id), "why": why})).collect();
        let result = json!({"conversations": moved, "isolation": to.word(), "refused": refused});
        mux.answer(owner, &result);
    }

    fn nothing_to_move(&self, name: &str) -> Failure {
        let movable = |id: &ConversationId, it: &Conversation| {
            !it.set.is_all() && it.parent.is_none() && !self.internal.contains(id)
        };
        let movable = self.conversations.iter().filter(|(id, it)| movable(id, it));
        nothing_to_move(name, &movable.map(|(_, it)| it.set.shown()).collect())
    }

    /// Checks the reported calls of a turn in a mode. After one outside the set, ends the turn and quarantines the
    /// mode.
    pub(crate) fn look_at_calls(
        &mut self,
        mux: &mut Mux,
        process: ProcessId,
        id: &ConversationId,
        report: &Report<'_>,
    ) {
        let Some(conversation) = self.conversations.get(id) else { return };
        let (set, active) = (&conversation.set, conversation.active());
        // Its conversation may be in another mode by now, with the waiting turns.
        let mode = match active.and_then(|it| mux.requests().get(it)).map(|it| &it.purpose) {
            Some(Purpose::Copilot(CopilotPurpose::Turn { restriction: Restriction::Mode(mode), .. })) => {
                Some(*mode)
            }
            Some(_) | None => conversation.mode,
        };
        let is_outside = |call: &&[u8]| {
            let name = text(call, &["name"]).unwrap_or_default();
            let of_mcp = text(call, &["toolType"]).as_deref() == Some("mcp");
            let is_in = match of_mcp {
                true => self.modes.mcp.keys().any(|server| set.contains_mcp(server, &name)),
                false => set.contains(&name),
            };
            !is_in
        };
        let Some(call) = report.rounds().flat_map(Round::calls).find(is_outside) else { return };
        let (tool, set) = (text(call, &["name"]).unwrap_or_default(), set.clone());
        error!(conversation = %id, tool, %set, "turn in a mode called a tool outside its set");
        if let Some(mode) = mode {
            self.quarantine_mode(mux, mode, format!("a turn in it has called {tool}"));
        }
        if let Some(partition) = self.partitions.get_mut(process.backend) {
            partition.refused += 1;
        }
        let Some(sent) = active.filter(|_| !mux.is_cancelled(active)) else { return };
        let message = format!(
            "lspool ended a turn that called {tool}, which is outside its tool set ({set}). The conversation \
             continues in its own process."
        );
        mux.show(Severity::Error, &message);
        mux.tell(process, cancellation(sent));
        self.note_cancelled(mux, sent, process);
    }
}
