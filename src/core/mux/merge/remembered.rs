//! What members could do when they were started before. It stands in for those that answer `initialize` too late.
//!
//! **It decides what the editor learns, and which members lspool asks meanwhile.** The member's own answer takes its place. What the
//! member turns out not to have is answered with nothing.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use serde_json::Value;

use crate::{
    core::{
        event::{Effect, Recalled, ServerId, Started},
        mux::{
            Mux,
            failure::{Cause, Failure},
            merge::{
                abilities::TextDocument,
                capabilities::capabilities,
                group::Group,
                methods::{Method, method},
            },
            requests::{Owner, Pending, To},
            servers::Server,
        },
        purpose::Purpose,
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

fn lost() -> Failure {
    Failure::new(Cause::MethodNotFound, "the server cannot do this any more")
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

    /// Whether lspool has said to the editor that some member can do this.
    pub(super) fn has_offered(&self, row: &Method) -> bool {
        row.capability.of(&capabilities(&self.offered)).is_some()
    }
}

impl Mux {
    /// Whether there is one member only: nobody can be told anything before it has answered.
    fn is_alone(&self) -> bool {
        self.servers.iter().count() < 2
    }

    /// Has the shell look up what the members could do before.
    pub(super) fn recall_members(&mut self) {
        if self.is_alone() {
            return;
        }
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

    /// Requests that wait for a member, and that it cannot answer after all, go to those that can.
    pub(super) fn reroute(&mut self, server: ServerId) {
        let primary = self.servers.get(server).primary;
        let Some(abilities) = self.group.as_deref().and_then(|it| it.abilities(server)) else { return };
        let is_wrong = |it: &Pending| {
            let row = it.frame.method().and_then(method);
            let params = it.frame.params().unwrap_or(b"null");
            it.to == To::Queue(primary)
                && matches!(it.purpose, Purpose::Plain)
                && row.is_some_and(|row| !abilities.can(row, params, &TextDocument::of(params)))
        };
        for sent in self.requests.filter(is_wrong) {
            self.cancel_queued(sent);
            let Some(Pending { owner, frame, .. }) = self.requests.take(sent) else { continue };
            match owner {
                Owner::Part(part) => self.fail_part(part, &lost()),
                Owner::Client(..) => self.ask_group(owner, &frame),
                Owner::Backend(..) | Owner::Proxy => {}
            }
        }
    }

    /// A member has answered `initialize`. Remembers it if that is news.
    pub(super) fn remember_member(&mut self, server: ServerId, result: &[u8]) {
        if self.is_alone() {
            return;
        }
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
