//! Tools of the server that come with a capability of the client.

use crate::{
    core::copilot::tools::tool_set::{SUB_AGENT, ToolSet},
    rpc::{Patch, path},
};

/// The kind of a spare: its capabilities, of those that bring tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SpareKind([bool; BRINGS.len()]);

impl SpareKind {
    /// The kind for this set, with an editor whose `initialize` is given.
    pub(crate) fn of(set: &ToolSet, initialize: &[u8]) -> SpareKind {
        let offers = |capability: &str| {
            path(initialize, &["initializationOptions", "copilotCapabilities", capability]).is_some()
                || path(initialize, &["capabilities", "copilot", capability]).is_some()
        };
        SpareKind(BRINGS.map(|(capability, tool)| offers(capability) && set.contains(tool)))
    }

    /// Whether it has the capability that brings this tool.
    pub(crate) fn contains(self, tool: &str) -> bool {
        BRINGS.iter().zip(self.0).any(|((_, it), held)| held && *it == tool)
    }
}

/// Three tools of the server come with a capability of the client, and come back at every refresh of the token: so a
/// process whose set lacks such a tool does not get the capability.
pub(in crate::core::copilot) const BRINGS: [(&str, &str); 3] = [
    ("subAgent", SUB_AGENT),
    ("manageTodoListTool", "manage_todo_list"),
    ("watchedFiles", "semantic_search"),
];

/// The parameters of `initialize` with these capabilities, of those that bring tools.
pub(in crate::core::copilot) fn initialize_for(params: &[u8], spare_kind: SpareKind) -> Vec<u8> {
    let mut patch = Patch::of(params);
    for (capability, _) in BRINGS.iter().filter(|(_, tool)| !spare_kind.contains(tool)) {
        patch.remove_path(&["initializationOptions", "copilotCapabilities", capability]);
        patch.remove_path(&["capabilities", "copilot", capability]);
    }
    patch.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initialize_hides_capabilities_of_tools_outside_set() {
        let params = br#"{"initializationOptions":{"copilotCapabilities":{"subAgent":true,"watchedFiles":true,"token":true}},"capabilities":{"copilot":{"watchedFiles":true}}}"#;
        let set = ToolSet::new(Some(&["run_subagent"]), &[]);
        let expected = r#"{"initializationOptions":{"copilotCapabilities":{"subAgent":true,"token":true}},"capabilities":{"copilot":{}}}"#;
        assert_eq!(String::from_utf8_lossy(&initialize_for(params, SpareKind::of(&set, params))), expected);
        assert_eq!(initialize_for(params, SpareKind::of(&ToolSet::all(), params)), params);
    }
}
