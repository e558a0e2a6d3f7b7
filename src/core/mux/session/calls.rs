//! Calls for later processes, in order, without those that later calls undo or repeat.
//!
//! Only a readable call undoes another one. An unreadable one is kept.

use std::collections::BTreeSet;

use super::KeptMessage;
use crate::{
    core::mux::routes::{Dialect, Names},
    rpc::{elements, member, members, text},
};

/// The calls.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<KeptMessage>);

impl Calls {
    pub(super) fn iter(&self) -> impl Iterator<Item = &KeptMessage> {
        self.0.iter()
    }

    /// A repeated call counts as its last occurrence.
    pub(super) fn push(&mut self, call: KeptMessage, dialect: &Dialect) {
        let rule = dialect.call(&call.method);
        let names = |it: &KeptMessage| dialect.call(&it.method).and_then(|rule| named(it, &rule.names));
        let named = names(&call);
        if rule.is_some_and(|it| it.restates) {
            let is_said_again = |it: &KeptMessage| {
                it.method == call.method
                    && rest(it, dialect) == rest(&call, dialect)
                    && is_within(names(it), named.as_ref())
            };
            self.0.retain(|it| !is_said_again(it));
        }
        if let Some(undone) = rule.and_then(|it| it.undoes)
            && self.undo(undone, &call.method, named.as_ref(), names)
        {
            return;
        }
        self.0.retain(|it| *it != call);
        self.0.push(call);
    }

    /// Removes the calls of one method whose things are all undone by another. Returns whether nothing is left to
    /// undo.
    fn undo(
        &mut self,
        undone: &str,
        by: &str,
        named: Option<&BTreeSet<String>>,
        names: impl Fn(&KeptMessage) -> Option<BTreeSet<String>>,
    ) -> bool {
        let Some(named) = named else { return false };
        let mut left = named.clone();
        let mut is_older = false;
        self.0.retain(|it| {
            let of = names(it).filter(|_| it.method == undone || it.method == by);
            let Some(of) = of.filter(|it| it.is_subset(named)) else { return true };
            // A thing that was undone first belonged to the server.
            is_older |= it.method == by;
            left.retain(|it| !of.contains(it));
            false
        });
        let remains =
            |it: &KeptMessage| it.method == undone && names(it).is_none_or(|it| !it.is_disjoint(named));
        left.is_empty() && !is_older && !self.0.iter().any(remains)
    }
}

fn is_within(one: Option<BTreeSet<String>>, other: Option<&BTreeSet<String>>) -> bool {
    one.zip(other).is_some_and(|(one, other)| one.is_subset(other))
}

/// The things that a call names. `None`: it is unreadable.
fn named(call: &KeptMessage, names: &Names) -> Option<BTreeSet<String>> {
    let params = call.params();
    match names {
        Names::Each { list, key } => {
            let list = &params[member(params, list)?];
            let each = list.starts_with(b"[").then(|| elements(list).map(|it| &list[it]))?;
            each.map(|it| text(it, &[key])).collect()
        }
        Names::One(key) => Some([text(params, &[key])?].into()),
    }
}

/// The other members of a call.
fn rest<'a>(call: &'a KeptMessage, dialect: &Dialect) -> Vec<(String, &'a [u8])> {
    let list = match dialect.call(&call.method).map(|it| &it.names) {
        Some(Names::Each { list, .. }) => *list,
        Some(Names::One(_)) | None => "",
    };
    let others = members(call.params()).filter(|(key, _)| key != list);
    others.map(|(key, range)| (key.into_owned(), &call.params()[range])).collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::{Value, json};

    use super::*;
    use crate::{core::copilot::routes::DIALECT, rpc::Kind};

    const REGISTER: &str = "context/registerProviders";
    const UNREGISTER: &str = "context/unregisterProviders";

    fn left(calls: &[(&str, Value)]) -> Vec<usize> {
        let mut all = Calls::default();
        let kept = |(method, params): &(&str, Value)| KeptMessage {
            kind: Kind::Request,
            method: (*method).to_owned(),
            params: Some(Bytes::from(params.to_string())),
        };
        for call in calls {
            all.push(kept(call), &DIALECT);
        }
        let at = |it: &KeptMessage| calls.iter().rposition(|call| kept(call) == *it).unwrap();
        all.iter().map(at).collect()
    }

    fn providers(ids: &[&str]) -> Value {
        let all: Vec<Value> = ids.iter().map(|it| json!({"id": it})).collect();
        json!({"providers": all})
    }

    #[test]
    fn session_drops_calls_that_undo_each_other() {
        let register = (REGISTER, providers(&["a"]));
        let unregister = (UNREGISTER, providers(&["a"]));
        let pair = [register.clone(), unregister.clone()];
        assert!(left(&pair).is_empty());
        assert_eq!(left(&[&pair[..], &pair[..], &pair[..1]].concat()), [4]);
        let agents = |uri: &str| json!({"extensionId": "x", "agents": [{"uri": uri}]});
        let calls = [
            ("customAgent/registerExtensionAgents", agents("1")),
            ("customAgent/registerExtensionAgents", agents("2")),
            ("customAgent/unregisterExtensionAgents", json!({"extensionId": "y"})),
            ("customAgent/unregisterExtensionAgents", json!({"extensionId": "x"})),
        ];
        assert_eq!(left(&calls), [2], "which was not registered here");
    }

    #[test]
    fn session_keeps_calls_that_are_not_fully_undone() {
        let both = (REGISTER, providers(&["a", "b"]));
        let a = (UNREGISTER, providers(&["a"]));
        assert_eq!(left(&[both.clone(), a.clone()]), [0, 1]);
        assert_eq!(
            left(&[both.clone(), a.clone(), (UNREGISTER, providers(&["a", "b"]))]),
            [2],
            "it is harmless"
        );
        // The thing of the server was removed first.
        assert_eq!(left(&[a.clone(), (REGISTER, providers(&["a"])), a.clone()]), [2]);
        let odd = (REGISTER, json!({"providers": [{"id": 1}]}));
        assert_eq!(left(&[odd, (UNREGISTER, json!({"providers": 7}))]), [0, 1]);
    }

    #[test]
    fn session_keeps_last_trust_call_per_folder() {
        let trust = |uri: &str, trusted: bool| {
            ("copilot/workspace/didChangeTrust", json!({"items": [{"folderUri": uri, "trusted": trusted}]}))
        };
        assert_eq!(left(&[trust("u", true), trust("v", true), trust("u", false)]), [1, 2]);
    }
}
