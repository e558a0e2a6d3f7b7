//! What the numbers in semantic tokens mean: to each member, and to the editor.

use serde_json::{Value, json};

use super::to_json;
use crate::core::mux::merge::capabilities::{SEMANTIC_TOKENS, capabilities, strings};

/// The names of kinds and modifiers, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Legend {
    pub(crate) types: Vec<String>,
    pub(crate) modifiers: Vec<String>,
}

/// Modifiers are bits of a number of 31 bits.
const MOST_MODIFIERS: usize = 31;

impl Legend {
    /// The `legend` of options.
    pub(super) fn of(options: &Value) -> Legend {
        let names = |key| options.get("legend").and_then(|it| strings(it, key)).unwrap_or_default();
        Legend { types: names("tokenTypes"), modifiers: names("tokenModifiers") }
    }

    /// The names of all, each once. Modifiers for which there is no bit are left out.
    pub(super) fn united(all: impl Iterator<Item = Legend>) -> Legend {
        let mut united = Legend::default();
        for legend in all {
            for (into, names) in
                [(&mut united.types, legend.types), (&mut united.modifiers, legend.modifiers)]
            {
                for name in names {
                    if !into.contains(&name) {
                        into.push(name);
                    }
                }
            }
        }
        united.modifiers.truncate(MOST_MODIFIERS);
        united
    }

    pub(super) fn to_value(&self) -> Value {
        json!({"tokenTypes": self.types, "tokenModifiers": self.modifiers})
    }
}

/// The legends of a group, as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemberLegends {
    /// What the editor is told.
    pub(crate) united: Vec<u8>,
    /// By the place of the member; `None`: it has no semantic tokens.
    pub(crate) members: Vec<Option<Vec<u8>>>,
}

/// The legends of members, by their answers to `initialize`. `told`: the one that the editor got. `None`: only one member
/// has semantic tokens, and its numbers are those of the editor.
pub(crate) fn legends<'a>(told: &[u8], members: impl IntoIterator<Item = &'a [u8]>) -> Option<MemberLegends> {
    let united = of_answer(told)?;
    let members: Vec<Option<Legend>> = members.into_iter().map(of_answer).collect();
    let own: Vec<&Legend> = members.iter().flatten().collect();
    if own.len() < 2 && own.iter().all(|it| **it == united) {
        return None;
    }
    let bytes = |it: &Legend| to_json(&it.to_value());
    Some(MemberLegends {
        united: bytes(&united),
        members: members.iter().map(|it| it.as_ref().map(bytes)).collect(),
    })
}

fn of_answer(result: &[u8]) -> Option<Legend> {
    SEMANTIC_TOKENS.of(&capabilities(result)).map(Legend::of)
}
