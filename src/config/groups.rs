//! Groups: several servers behind one editor.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use super::{ServerConfig, features::common};

/// `[group.NAME]`: several servers that the editor sees as one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GroupConfig {
    /// Its members, by rank.
    pub servers: Vec<MemberConfig>,
    /// By feature: who goes before the others.
    pub order: BTreeMap<String, Vec<String>>,
    /// By feature: how the answers of several members become one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub combine: BTreeMap<String, Combine>,
    /// By feature: how long others are waited for once a member has something to say.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub wait: BTreeMap<String, Duration>,
    /// How long `initialize` is held for members that have not answered, once one has.
    pub start_wait: Duration,
    /// How long the first publication of diagnostics for a version waits for the other members.
    pub diagnostics_wait: Duration,
}

impl Default for GroupConfig {
    fn default() -> GroupConfig {
        GroupConfig {
            servers: Vec::new(),
            order: BTreeMap::new(),
            combine: BTreeMap::new(),
            wait: BTreeMap::new(),
            start_wait: Duration::from_secs(3),
            diagnostics_wait: Duration::ZERO,
        }
    }
}

/// How the answers of several members become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Combine {
    /// lspool joins them.
    All,
    /// The best that says something is the answer.
    First,
}

/// A server in a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MemberConfig {
    /// Name of its section.
    pub server: String,
    /// The only features that the group uses it for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only: Option<Vec<String>>,
    /// Features that the group does not use it for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
}

impl MemberConfig {
    /// A server that the group uses for all that it can do.
    pub(crate) fn of(server: &str) -> MemberConfig {
        MemberConfig { server: server.to_owned(), ..MemberConfig::default() }
    }
}

impl ServerConfig {
    /// Makes what a group says of it hold, too.
    pub(crate) fn narrow(&mut self, member: &MemberConfig) {
        self.only = match (self.only.take(), &member.only) {
            (Some(own), Some(of_group)) => Some(common(&own, of_group)),
            (own, of_group) => own.or_else(|| of_group.clone()),
        };
        let more = member.except.iter().filter(|it| !self.except.contains(it));
        let more: Vec<String> = more.cloned().collect();
        self.except.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_narrows_its_section() {
        let list = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (only, except) = (Some(list(&["hover", "format"])), list(&["rename-symbol"]));
        let mut server = ServerConfig { only: only.clone(), except, ..ServerConfig::default() };
        server.narrow(&MemberConfig::of("a"));
        assert_eq!(server.only, only);
        let except = list(&["rename-symbol", "completion"]);
        server.narrow(&MemberConfig {
            only: Some(list(&["hover", "completion"])),
            except: except.clone(),
            ..MemberConfig::of("a")
        });
        assert_eq!((server.only.clone(), server.except.clone()), (Some(list(&["hover"])), except));
        server.narrow(&MemberConfig { only: Some(list(&["format"])), ..MemberConfig::of("a") });
        assert_eq!(server.only, Some(Vec::new()), "nothing is left");
    }
}
