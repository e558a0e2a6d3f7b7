//! The editor's tool catalog: the sum of `registerTools`, `unregisterTools` and `updateToolsStatus`, and its
//! projection onto a tool set.
//!
//! It follows the primary: a change counts once the primary has accepted it. Schemas stay as the editor wrote them.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::json;

use crate::{
    core::{copilot::tools::tool_set::ToolSet, purpose::ToolChange},
    rpc::{elements, member, text},
};

/// The prefix of the server's ids for tools of a client.
const CLIENT_TOOL_ID: &str = "copilot-editor.";

impl ToolChange {
    /// Reads `conversation/registerTools`.
    pub(crate) fn register(params: &[u8]) -> ToolChange {
        let Some(tools) = member(params, "tools") else { return ToolChange::Nothing };
        let tools = &params[tools];
        let named = |it: &[u8]| {
            let name = text(it, &["name"])?;
            Some((name, Bytes::copy_from_slice(it)))
        };
        ToolChange::Register(elements(tools).filter_map(|range| named(&tools[range])).collect())
    }

    /// Reads `conversation/unregisterTools`.
    pub(crate) fn unregister(params: &[u8]) -> ToolChange {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Params {
            tool_ids: Vec<String>,
        }
        match serde_json::from_slice::<Params>(params) {
            Ok(it) => ToolChange::Unregister(it.tool_ids),
            Err(_) => ToolChange::Nothing,
        }
    }

    /// Reads `conversation/updateToolsStatus`.
    pub(crate) fn status(params: &[u8]) -> ToolChange {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Params {
            tools: Vec<Tool>,
            custom_chat_mode_id: Option<serde::de::IgnoredAny>,
        }
        #[derive(Deserialize)]
        struct Tool {
            name: String,
            status: String,
        }
        match serde_json::from_slice::<Params>(params) {
            Ok(Params { tools, custom_chat_mode_id: None }) => {
                ToolChange::Status(tools.into_iter().map(|it| (it.name, it.status != "disabled")).collect())
            }
            Ok(_) | Err(_) => ToolChange::Nothing,
        }
    }

    /// The projection of this change onto a set: method and parameters.
    pub(super) fn projected(&self, set: &ToolSet) -> Option<(&'static str, Vec<u8>)> {
        match self {
            ToolChange::Register(tools) => {
                let mine: Vec<&Bytes> =
                    tools.iter().filter(|(name, _)| set.contains(name)).map(|(_, it)| it).collect();
                (!mine.is_empty()).then(|| ("conversation/registerTools", register_params(mine)))
            }
            ToolChange::Unregister(ids) => {
                Some(("conversation/unregisterTools", json!({"toolIds": ids}).to_string().into_bytes()))
            }
            ToolChange::Status(tools) => {
                let mine: Vec<_> = tools
                    .iter()
                    .filter(|(name, _)| set.contains(name))
                    .map(|(name, on)| json!({"name": name, "status": status(*on)}))
                    .collect();
                let params = json!({"tools": mine}).to_string().into_bytes();
                (!mine.is_empty()).then_some(("conversation/updateToolsStatus", params))
            }
            ToolChange::Nothing => None,
        }
    }
}

/// The status in a message to a server.
pub(crate) fn status(enabled: bool) -> &'static str {
    if enabled { "enabled" } else { "disabled" }
}

fn register_params<'a>(tools: impl IntoIterator<Item = &'a Bytes>) -> Vec<u8> {
    let mut out = br#"{"tools":["#.to_vec();
    for (n, tool) in tools.into_iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        out.extend_from_slice(tool);
    }
    out.extend_from_slice(b"]}");
    out
}

/// The catalog.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    /// In the order of registration, which is the order for models.
    tools: IndexMap<String, Bytes>,
    /// The builtin tools, each used unless the client has registered one of that name.
    own: BTreeMap<String, Bytes>,
    /// Names of builtin tools that the client has removed.
    unwanted: BTreeSet<String>,
    /// Ids of the server's tools that the editor has removed.
    removed: BTreeSet<String>,
    /// Names with their last status.
    statuses: BTreeMap<String, bool>,
    /// How many changes the primary has not answered.
    pub(crate) undecided: usize,
}

impl Catalog {
    /// The definition of a client's tool, or of a builtin tool instead.
    pub(crate) fn tool(&self, name: &str) -> Option<&Bytes> {
        self.tools.get(name).or_else(|| self.own.get(name))
    }

    /// Sets the builtin tools.
    pub(super) fn stand_in(&mut self, own: BTreeMap<String, Bytes>) {
        self.own = own;
        self.own.retain(|name, _| !self.unwanted.contains(name));
    }

    /// Whether lspool runs calls of this tool.
    pub(super) fn is_builtin(&self, name: &str) -> bool {
        self.own.contains_key(name) && !self.tools.contains_key(name)
    }

    /// All tools, in the order for a process.
    fn all(&self) -> impl Iterator<Item = (&String, &Bytes)> {
        let first = self.own.iter().map(|(name, own)| (name, self.tools.get(name).unwrap_or(own)));
        first.chain(self.tools.iter().filter(|(name, _)| !self.own.contains_key(*name)))
    }

    fn own(&self) -> impl Iterator<Item = (&String, &Bytes)> {
        self.own.iter().filter(|(name, _)| !self.tools.contains_key(*name))
    }

    /// The parameters that register the builtin tools, if there are any.
    pub(crate) fn builtin_tools(&self) -> Option<Vec<u8>> {
        self.own().next().map(|_| register_params(self.own().map(|(_, it)| it)))
    }

    /// The server's ids for the builtin tools.
    pub(super) fn builtin_ids(&self) -> Vec<String> {
        self.own().map(|(name, _)| format!("{CLIENT_TOOL_ID}{name}")).collect()
    }

    /// Whether the client has registered a tool.
    pub(crate) fn is_clients(&self, name: &str) -> bool {
        self.tools.contains_key(name)
    }

    /// The names of the client's and the builtin tools.
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.all().map(|(name, _)| name)
    }

    /// Whether the editor has switched a tool off.
    pub(crate) fn is_switched_off(&self, name: &str) -> bool {
        self.statuses.get(name) == Some(&false)
    }

    /// Applies a change that the primary has accepted.
    pub(crate) fn apply(&mut self, change: &ToolChange) {
        match change {
            ToolChange::Register(tools) => {
                for (name, definition) in tools {
                    self.tools.insert(name.clone(), definition.clone());
                    self.statuses.remove(name);
                }
            }
            ToolChange::Unregister(ids) => {
                for id in ids {
                    match id.strip_prefix(CLIENT_TOOL_ID) {
                        Some(name) => {
                            self.tools.shift_remove(name);
                            if self.own.remove(name).is_some() {
                                self.unwanted.insert(name.to_owned());
                            }
                        }
                        None => drop(self.removed.insert(id.clone())),
                    }
                }
            }
            ToolChange::Status(tools) => self.statuses.extend(tools.iter().cloned()),
            ToolChange::Nothing => {}
        }
    }

    /// The messages for a new process with this set. The first is sent even if it registers nothing, because its
    /// answer lists the offered tools.
    pub(super) fn projection(&self, set: &ToolSet) -> Vec<(&'static str, Vec<u8>)> {
        let mine = self.all().filter(|(name, _)| set.contains(name)).map(|(_, it)| it);
        let mut calls = vec![("conversation/registerTools", register_params(mine))];
        if !self.removed.is_empty() {
            let ids: Vec<_> = self.removed.iter().cloned().collect();
            calls.extend(ToolChange::Unregister(ids).projected(set));
        }
        let statuses = self.statuses.iter().map(|(name, on)| (name.clone(), *on)).collect();
        calls.extend(ToolChange::Status(statuses).projected(set));
        calls
    }
}

/// The ids in an answer to `registerTools` of tools outside the set.
pub(crate) fn outside(offered: &[u8], set: &ToolSet) -> Vec<String> {
    elements(offered)
        .map(|range| &offered[range])
        .filter(|it| !text(it, &["name"]).is_some_and(|name| set.contains(&name)))
        .filter_map(|it| text(it, &["id"]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(catalog: &Catalog, tools: &[&str]) -> Vec<String> {
        let set = ToolSet::new(Some(tools), &[]);
        let text = |(method, params): (&str, Vec<u8>)| {
            format!("{} {}", method.trim_start_matches("conversation/"), String::from_utf8_lossy(&params))
        };
        catalog.projection(&set).into_iter().map(text).collect()
    }

    #[test]
    fn catalog_projection_keeps_definitions_and_follows_changes() {
        let mut it = Catalog::default();
        it.apply(&ToolChange::register(br#"{"tools":[{"name":"a", "x" : 1e2},{"name":"b"}]}"#));
        it.apply(&ToolChange::register(br#"{"tools":[{"name":"c"},{"name":"a","x":2E0 }]}"#));
        assert_eq!(
            calls(&it, &["a", "c"]),
            [r#"registerTools {"tools":[{"name":"a","x":2E0 },{"name":"c"}]}"#]
        );
        it.apply(&ToolChange::unregister(br#"{"toolIds":["copilot-editor.c","copilot.list_dir"]}"#));
        it.apply(&ToolChange::status(br#"{"tools":[{"name":"a","status":"disabled"}]}"#));
        assert_eq!(
            calls(&it, &["a", "c"]),
            [
                r#"registerTools {"tools":[{"name":"a","x":2E0 }]}"#,
                r#"unregisterTools {"toolIds":["copilot.list_dir"]}"#,
                r#"updateToolsStatus {"tools":[{"name":"a","status":"disabled"}]}"#
            ]
        );
        assert_eq!(calls(&it, &[])[0], r#"registerTools {"tools":[]}"#);
        // A second registration enables a tool.
        it.apply(&ToolChange::register(br#"{"tools":[{"name":"a"}]}"#));
        assert_eq!(calls(&it, &["a"]).len(), 2);
    }

    #[test]
    fn catalog_ignores_status_for_custom_mode() {
        let mode = br#"{"tools":[{"name":"a","status":"disabled"}],"customChatModeId":"file:///m"}"#;
        assert!(matches!(ToolChange::status(mode), ToolChange::Nothing));
    }

    #[test]
    fn outside_lists_offered_tools_outside_set_by_id() {
        let offered = br#"[{"name":"list_dir","id":"copilot.list_dir"},{"name":"a","id":"copilot-editor.a"},{"id":"x"}]"#;
        assert_eq!(outside(offered, &ToolSet::new(Some(&["a"]), &[])), ["copilot.list_dir", "x"]);
    }
}
