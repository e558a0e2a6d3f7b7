//! Tool sets: the tools of an agent, and the key by which conversations share a process.
//!
//! Names are compared as declared. Shorthands (`ide`, a trailing `*`) are expanded when a name is judged, so they
//! cover a tool that is registered later, with the same key.

use std::{collections::BTreeSet, fmt};

use crate::{
    agents::{DELEGATE, team},
    builtin_tools::lsp::LspTool,
};

/// The server's edit tools: registering one enables all, and the server asks the client for another one than the
/// model called. A set with one of them has all four.
pub(crate) const EDIT_FAMILY: [&str; 4] =
    ["insert_edit_into_file", "create_file", "apply_patch", "replace_string_in_file"];

/// The server's tool for its own sub-agents, which have other tools.
pub(crate) const SUB_AGENT: &str = "run_subagent";

/// The code tools that change nothing.
const READING: &str = "lsp_read";

/// A set of tool names, which is the key of a partition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ToolSet {
    /// The allowed tools; `None` is every tool.
    allowed: Option<BTreeSet<String>>,
    /// The removed tools; empty unless `allowed` is `None`.
    denied: BTreeSet<String>,
    /// The kind of conversations, if lspool has tools for them.
    used_by: BuiltinToolsFor,
}

/// The kinds of conversations that lspool has tools for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BuiltinToolsFor {
    #[default]
    Nobody,
    /// Leads, which may start sub-agents and make teams.
    Lead,
    /// Members of a team.
    Member,
}

impl BuiltinToolsFor {
    fn tools(self) -> &'static [&'static str] {
        match self {
            BuiltinToolsFor::Nobody => &[],
            BuiltinToolsFor::Lead => &[DELEGATE, team::CREATE, team::SEND, team::DELETE],
            BuiltinToolsFor::Member => &[team::SEND],
        }
    }
}

impl ToolSet {
    /// Every tool: the set of the primary.
    pub(crate) fn all() -> ToolSet {
        ToolSet { allowed: None, denied: BTreeSet::new(), used_by: BuiltinToolsFor::Nobody }
    }

    /// No tool.
    pub(crate) fn none() -> ToolSet {
        ToolSet { allowed: Some(BTreeSet::new()), denied: BTreeSet::new(), used_by: BuiltinToolsFor::Nobody }
    }

    /// A declared list (`None` is every tool, empty is none) without the names in `denied`.
    pub(crate) fn new<S: AsRef<str>>(tools: Option<&[S]>, denied: &[S]) -> ToolSet {
        let clean = |names: &[S]| -> BTreeSet<String> {
            names.iter().map(|it| it.as_ref().trim().to_owned()).filter(|it| !it.is_empty()).collect()
        };
        let denied = clean(denied);
        match tools {
            None => ToolSet { allowed: None, denied, used_by: BuiltinToolsFor::Nobody },
            Some(tools) => {
                let mut allowed = clean(tools);
                // A declared `*` is every tool in any spelling.
                if allowed.contains("*") {
                    return ToolSet { allowed: None, denied, used_by: BuiltinToolsFor::Nobody };
                }
                allowed.retain(|name| !denied.iter().any(|it| matches(it, name)));
                // A shorthand may still cover a denied name, which then stays in the key.
                let denied = denied
                    .into_iter()
                    .filter(|it| allowed.iter().any(|name| is_shorthand(name) || same_family(name, it)))
                    .collect();
                ToolSet { allowed: Some(allowed), denied, used_by: BuiltinToolsFor::Nobody }
            }
        }
    }

    /// The same set for leads, or for others.
    pub(crate) fn with_lead(self, lead: bool) -> ToolSet {
        ToolSet { used_by: if lead { BuiltinToolsFor::Lead } else { BuiltinToolsFor::Nobody }, ..self }
    }

    /// The same set for members of a team.
    pub(crate) fn with_member(self) -> ToolSet {
        ToolSet { used_by: BuiltinToolsFor::Member, ..self }
    }

    /// Whether its conversations may start sub-agents.
    pub(crate) fn is_lead(&self) -> bool {
        self.used_by == BuiltinToolsFor::Lead
    }

    /// The kind of its conversations.
    pub(crate) fn used_by(&self) -> BuiltinToolsFor {
        self.used_by
    }

    /// Whether it has every tool except the removed ones.
    pub(crate) fn is_open(&self) -> bool {
        self.allowed.is_none()
    }

    /// The names that are not shorthands.
    pub(crate) fn spelled_out(&self) -> impl Iterator<Item = &String> {
        self.allowed.iter().flatten().filter(|it| !is_shorthand(it))
    }

    /// Whether it has shorthands.
    pub(crate) fn has_shorthands(&self) -> bool {
        self.allowed.as_ref().is_none_or(|it| it.iter().any(|it| is_shorthand(it)))
    }

    /// The declared names; `!` before the removed ones.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = match &self.allowed {
            None => vec!["*".to_owned()],
            Some(names) => names.iter().cloned().collect(),
        };
        names.extend(self.denied.iter().map(|it| format!("!{it}")));
        // One of lspool's tools stands for all.
        names.extend(self.used_by.tools().first().map(|it| format!("+{it}")));
        names
    }

    /// The set for people.
    pub(crate) fn shown(&self) -> String {
        match self.to_string() {
            _ if self.is_all() => "all".to_owned(),
            none if none.is_empty() => "none".to_owned(),
            names => names,
        }
    }

    /// Whether it is every tool: the primary serves such conversations.
    pub(crate) fn is_all(&self) -> bool {
        self.allowed.is_none() && self.denied.is_empty() && self.used_by == BuiltinToolsFor::Nobody
    }

    /// Whether it has a tool of this name.
    pub(crate) fn contains(&self, name: &str) -> bool {
        if self.used_by.tools().contains(&name) {
            return true;
        }
        let hit = |names: &BTreeSet<String>| names.iter().any(|it| matches(it, name));
        let allowed = match &self.allowed {
            None => true,
            Some(names) => hit(names),
        };
        allowed && !hit(&self.denied)
    }

    /// Whether it has an MCP tool, by the model's name for it or as `server/tool`.
    pub(crate) fn contains_mcp(&self, server: &str, tool: &str) -> bool {
        let names = [mcp_model_name(server, tool), format!("{server}/{tool}")];
        let hit = |set: &BTreeSet<String>| {
            set.iter().any(|it| names.iter().any(|name| matches(it, name)) || it == &format!("{server}/*"))
        };
        let allowed = match &self.allowed {
            None => true,
            Some(set) => hit(set),
        };
        allowed && !hit(&self.denied)
    }

    /// Whether it may name a tool of this MCP server, so that its process needs the server.
    pub(crate) fn wants_mcp_server(&self, server: &str) -> bool {
        let Some(allowed) = &self.allowed else { return true };
        let model = model_name(&format!("mcp_{}_", server.to_lowercase()));
        let slash = format!("{server}/");
        allowed.iter().any(|it| match it.strip_suffix('*') {
            Some(prefix) => {
                [&model, &slash].iter().any(|name| prefix.starts_with(*name) || name.starts_with(prefix))
            }
            None => it.starts_with(&model) || it.starts_with(&slash),
        })
    }
}

impl fmt::Display for ToolSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().join(","))
    }
}

/// The model's name for the tool of an MCP server.
pub(crate) fn mcp_model_name(server: &str, tool: &str) -> String {
    model_name(&format!("mcp_{}_{tool}", server.to_lowercase()))
}

/// The server's spelling of a tool's name for the model. It counts UTF-16 units.
pub(crate) fn model_name(name: &str) -> String {
    let is_kept =
        |it: &u16| u8::try_from(*it).is_ok_and(|it| it.is_ascii_alphanumeric() || it == b'_' || it == b'-');
    let clean = |it: u16| u8::try_from(it).ok().filter(|_| is_kept(&it)).map_or('_', char::from);
    name.encode_utf16().map(clean).take(64).collect()
}

fn is_shorthand(declared: &str) -> bool {
    declared == READING || prefix(declared).is_some()
}

/// Whether the server may ask the client for another tool than the one that the model called.
pub(crate) fn is_edit_tool(name: &str) -> bool {
    EDIT_FAMILY.contains(&name)
}

fn same_family(one: &str, other: &str) -> bool {
    is_edit_tool(one) && is_edit_tool(other)
}

fn matches(declared: &str, name: &str) -> bool {
    if declared == name || same_family(declared, name) {
        return true;
    }
    if declared == READING {
        return LspTool::named(name).is_some_and(|it| name.starts_with("lsp_") && !it.writes());
    }
    prefix(declared).is_some_and(|it| name.starts_with(it))
}

/// What the names begin with that a shorthand stands for.
fn prefix(declared: &str) -> Option<&str> {
    match declared {
        "ide" => Some("ide_"),
        "lsp" => Some("lsp_"),
        _ => declared.strip_suffix('*'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(tools: &[&str], denied: &[&str]) -> ToolSet {
        ToolSet::new(Some(tools), denied)
    }

    #[test]
    fn tool_set_ignores_order_blanks_and_duplicates() {
        assert_eq!(set(&["b", " a", "a", ""], &[]), set(&["a", "b"], &[]));
        assert_eq!(set(&["b", "a"], &[]).to_string(), "a,b");
    }

    #[test]
    fn reading_code_tools_change_nothing() {
        let read = set(&["lsp_read"], &[]);
        assert!(read.contains("lsp_references") && read.contains("lsp_hover") && read.has_shorthands());
        for other in ["lsp_rename", "lsp_apply_edit", "lsp_format", "lsp_of_an_editor", "code_search", "read"]
        {
            assert!(!read.contains(other), "{other}");
        }
        assert!(set(&["lsp"], &[]).contains("lsp_rename"));
        assert!(!set(&["lsp_read"], &["lsp_hover"]).contains("lsp_hover"));
    }

    #[test]
    fn absent_tool_list_means_all_and_empty_none() {
        assert!(ToolSet::new::<&str>(None, &[]).is_all());
        assert!(set(&["*"], &[]).is_all());
        let none = set(&[], &[]);
        assert!(!none.is_all() && !none.contains("read_file"));
    }

    #[test]
    fn tool_set_removes_denied_names() {
        assert_eq!(set(&["a", "b"], &["b"]), set(&["a"], &[]));
        let all_but = ToolSet::new(None, &["x"]);
        assert_eq!(all_but.to_string(), "*,!x");
        assert!(all_but.contains("y") && !all_but.contains("x") && !all_but.is_all());
        let ide = set(&["ide"], &["ide_run"]);
        assert!(ide.contains("ide_open") && !ide.contains("ide_run"));
        assert_ne!(ide, set(&["ide"], &[]));
    }

    #[test]
    fn tool_set_expands_shorthands_and_edit_family() {
        let some = set(&["ide", "read_*", "apply_patch"], &[]);
        for name in ["ide_open", "read_file", "create_file", "insert_edit_into_file"] {
            assert!(some.contains(name), "{name}");
        }
        for name in ["ideal", "write_file", "run_in_terminal"] {
            assert!(!some.contains(name), "{name}");
        }
        assert!(!set(&["create_file"], &["apply_patch"]).contains("create_file"));
    }

    #[test]
    fn tool_set_matches_mcp_tools_by_either_name() {
        let by_model = set(&["mcp_mini_echo"], &[]);
        assert!(by_model.wants_mcp_server("mini") && by_model.contains_mcp("mini", "echo"));
        assert!(!by_model.contains_mcp("mini", "other") && !by_model.wants_mcp_server("maxi"));
        let by_slash = set(&["mini/echo"], &[]);
        assert!(by_slash.wants_mcp_server("mini") && by_slash.contains_mcp("mini", "echo"));
        assert!(set(&["mini/*"], &[]).contains_mcp("mini", "any"));
        assert!(!set(&["read_file"], &[]).wants_mcp_server("mini"));
        assert!(set(&["mcp_my_server_x"], &[]).wants_mcp_server("My server"));
        for tool in ["get.ticket", "get ticket", "gét", "get😀"] {
            assert!(set(&[&format!("mini/{tool}")], &[]).contains_mcp("mini", tool), "{tool}");
        }
        assert!(set(&["mcp_mini_get__"], &[]).contains_mcp("mini", "get😀"), "as JavaScript counts");
    }
}
