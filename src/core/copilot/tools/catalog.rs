//! The editor's tool catalog: what `registerTools`, `unregisterTools` and `updateToolsStatus` add up to, and
//! its projection onto a tool set.
//!
//! It follows the primary: a change counts once the primary has accepted it. Schemas are kept as the editor
//! wrote them.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::json;

use crate::{
    core::{copilot::tools::tool_set::ToolSet, purpose::ToolChange},
    rpc::{elements, member, text},
};

/// How the server forms the id of a tool that a client registered.
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

    /// What of this change a partition with this set is told: method and parameters.
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

/// As servers are told of it.
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

/// What the calls so far add up to.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    /// In the order in which they were registered: that is the order in which models are told of them.
    tools: IndexMap<String, Bytes>,
    /// lspool's own, each of which stands in for one that the client has not registered.
    own: BTreeMap<String, Bytes>,
    /// Names of those that the client has taken away.
    unwanted: BTreeSet<String>,
    /// Ids of the server's own tools that the editor has taken away.
    removed: BTreeSet<String>,
    /// Names whose status was set, with the last one.
    statuses: BTreeMap<String, bool>,
    /// Changes that the primary has not answered yet.
    pub(crate) undecided: usize,
}

impl Catalog {
    /// A tool that the client has registered, as it was written, or one of lspool's own in its place.
    pub(crate) fn tool(&self, name: &str) -> Option<&Bytes> {
        self.tools.get(name).or_else(|| self.own.get(name))
    }

    /// From now on these stand in for what the client has not registered.
    pub(super) fn stand_in(&mut self, own: BTreeMap<String, Bytes>) {
        self.own = own;
        self.own.retain(|name, _| !self.unwanted.contains(name));
    }

    /// Whether calls of this tool are lspool's own to carry out.
    pub(super) fn is_builtin(&self, name: &str) -> bool {
        self.own.contains_key(name) && !self.tools.contains_key(name)
    }

    /// All, in the order in which a process was told of them.
    fn all(&self) -> impl Iterator<Item = (&String, &Bytes)> {
        let first = self.own.iter().map(|(name, own)| (name, self.tools.get(name).unwrap_or(own)));
        first.chain(self.tools.iter().filter(|(name, _)| !self.own.contains_key(*name)))
    }

    fn own(&self) -> impl Iterator<Item = (&String, &Bytes)> {
        self.own.iter().filter(|(name, _)| !self.tools.contains_key(*name))
    }

    /// Parameters that register the builtin tools, if there are any.
    pub(crate) fn builtin_tools(&self) -> Option<Vec<u8>> {
        self.own().next().map(|_| register_params(self.own().map(|(_, it)| it)))
    }

    /// How the server calls them.
    pub(super) fn builtin_ids(&self) -> Vec<String> {
        self.own().map(|(name, _)| format!("{CLIENT_TOOL_ID}{name}")).collect()
    }

    /// Whether a tool is one that the client has registered.
    pub(crate) fn is_clients(&self, name: &str) -> bool {
        self.tools.contains_key(name)
    }

    /// The names of the tools that the client has registered, and of lspool's own.
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.all().map(|(name, _)| name)
    }

    /// Whether the editor has switched a tool off.
    pub(crate) fn is_switched_off(&self, name: &str) -> bool {
        self.statuses.get(name) == Some(&false)
    }

    /// The primary has accepted this change.
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

    /// Everything a fresh process with this set is told. The first call is made even when it registers nothing:
    /// its answer lists what the process offers.
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

/// Ids of the tools in a register answer that are not in the set.
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
        // Registering a name again enables it.
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
