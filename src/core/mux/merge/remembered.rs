//! What members could do when they were started before. It stands in for those that answer `initialize` too late.
//!
//! **It decides what the editor is told, and who is asked meanwhile.** The member's own answer takes its place. What the
//! member turns out not to have is answered with nothing.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use serde_json::Value;

use crate::{
    core::{
        event::{Effect, Recalled, ServerId, Started},
        mux::{
            Mux,
            merge::{capabilities::capabilities, group::Group, methods::Method},
            servers::Server,
        },
    },
    util::json,
};

/// Answers to `initialize` of earlier starts.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    lookup: Lookup,
    /// By the member's name.
    results: BTreeMap<String, Bytes>,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Lookup {
    #[default]
    Unasked,
    Asked,
    Done,
}

fn started(server: &Server) -> Started {
    Started {
        member: server.name.clone(),
        launch: Arc::clone(&server.launch),
        params: server.session.initialize.clone(),
    }
}

impl Group {
    /// Whether the shell is still looking up what is remembered.
    pub(super) fn is_recalling(&self) -> bool {
        self.remembered.lookup == Lookup::Asked
    }

    /// What a member has answered when it was started before.
    pub(super) fn recalled(&self, name: &str) -> Option<Bytes> {
        self.remembered.results.get(name).cloned()
    }

    /// Whether the editor was told that some member can do this.
    pub(super) fn has_offered(&self, row: &Method) -> bool {
        row.capability.of(&capabilities(&self.offered)).is_some()
    }
}

impl Mux {
    /// Has the shell look up what the members could do before.
    pub(super) fn recall_members(&mut self) {
        let all: Vec<Started> = self.servers.iter().filter(|it| it.missing.is_none()).map(started).collect();
        if let Some(group) = self.group.as_deref_mut() {
            group.remembered.lookup = Lookup::Asked;
            self.act(Effect::Recall(all));
        }
    }

    /// The shell has looked it up.
    pub(crate) fn on_recalled(&mut self, found: Vec<Recalled>) {
        let Some(group) = self.group.as_deref_mut() else { return };
        let Remembered { lookup, results } = &mut group.remembered;
        *lookup = Lookup::Done;
        for Recalled { member, result } in found.into_iter().filter(|it| it.result.is_object()) {
            // A member that has answered meanwhile knows it better.
            results.entry(member).or_insert_with(|| result.to_string().into());
        }
    }

    /// A member has answered `initialize`. Remembers it if that is news.
    pub(super) fn remember_member(&mut self, server: ServerId, result: &[u8]) {
        let started = started(self.servers.get(server));
        let Some(group) = self.group.as_deref_mut() else { return };
        let before = group.remembered.results.get(&started.member);
        let value = |it: &[u8]| json::read::<Value>(it).ok();
        let is_same = before.is_some_and(|it| value(it) == value(result));
        if !is_same {
            let result = Bytes::copy_from_slice(result);
            group.remembered.results.insert(started.member.clone(), result.clone());
            self.act(Effect::Remember(started, result));
        }
    }
}
