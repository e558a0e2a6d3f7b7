//! The meanings of other programs' tool names.
//!
//! `docs/agents.md` contains the list.

/// The meaning of a declared name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// These tools.
    Tools(Vec<String>),
    /// Every tool.
    All,
    /// A tool that is declared for some arguments only. lspool cannot limit a tool so.
    Limited(String),
    /// No tool.
    Nothing,
    /// A name that may be a tool of the editor, but resembles this known one.
    Like(&'static str),
}

/// Tool names of Claude Code, GitHub's `.agent.md` files and VS Code, in lower case, with their meanings.
pub(super) const ALIASES: &[(&str, &[&str])] = &[
    ("agent", &[]),
    ("agent/runsubagent", &[]),
    ("askuserquestion", &[]),
    ("bash", &["run_in_terminal"]),
    ("bashoutput", &["get_terminal_output"]),
    ("changes", &["get_changed_files"]),
    ("codebase", &["semantic_search"]),
    ("createdirectory", &[]),
    ("createfile", &["create_file"]),
    ("custom-agent", &[]),
    ("edit", &["replace_string_in_file"]),
    ("edit/createdirectory", &[]),
    ("edit/createfile", &["create_file"]),
    ("edit/createjupyternotebook", &[]),
    ("edit/editfiles", &["replace_string_in_file"]),
    ("edit/editnotebook", &[]),
    ("edit/rename", &[]),
    ("editfiles", &["replace_string_in_file"]),
    ("execute", &["run_in_terminal"]),
    ("execute/awaitterminal", &[]),
    ("execute/createandruntask", &[]),
    ("execute/getterminaloutput", &["get_terminal_output"]),
    ("execute/killterminal", &[]),
    ("execute/runinterminal", &["run_in_terminal"]),
    ("execute/runnotebookcell", &[]),
    ("execute/runtask", &[]),
    ("execute/runtests", &[]),
    ("execute/testfailure", &[]),
    ("exitplanmode", &[]),
    ("extensions", &[]),
    ("fetch", &["fetch_webpage"]),
    ("filesearch", &["file_search"]),
    ("getterminaloutput", &["get_terminal_output"]),
    ("githubrepo", &[]),
    ("glob", &["file_search"]),
    ("grep", &["grep_search"]),
    ("killbash", &[]),
    ("killshell", &[]),
    ("listdirectory", &["list_dir"]),
    ("ls", &["list_dir"]),
    ("multiedit", &["replace_string_in_file"]),
    ("notebookedit", &[]),
    ("notebookread", &[]),
    ("powershell", &["run_in_terminal"]),
    ("problems", &["get_errors"]),
    ("read", &["read_file"]),
    ("read/getnotebooksummary", &[]),
    ("read/gettaskoutput", &[]),
    ("read/problems", &["get_errors"]),
    ("read/readfile", &["read_file"]),
    ("read/terminallastcommand", &[]),
    ("read/terminalselection", &[]),
    ("read/viewimage", &[]),
    ("readfile", &["read_file"]),
    ("runcommands", &["run_in_terminal"]),
    ("runcommands/getterminaloutput", &["get_terminal_output"]),
    ("runcommands/runinterminal", &["run_in_terminal"]),
    ("runcommands/terminallastcommand", &[]),
    ("runcommands/terminalselection", &[]),
    ("runinterminal", &["run_in_terminal"]),
    ("runsubagent", &[]),
    ("runtasks", &[]),
    ("runtests", &[]),
    ("search", &["grep_search", "file_search"]),
    ("search/changes", &["get_changed_files"]),
    ("search/codebase", &["semantic_search"]),
    ("search/filesearch", &["file_search"]),
    ("search/listdirectory", &["list_dir"]),
    ("search/searchresults", &[]),
    ("search/textsearch", &["grep_search"]),
    ("search/usages", &["list_code_usages"]),
    ("shell", &["run_in_terminal"]),
    ("skill", &[]),
    ("slashcommand", &[]),
    ("task", &[]),
    ("terminallastcommand", &[]),
    ("terminalselection", &[]),
    ("testfailure", &[]),
    ("textsearch", &["grep_search"]),
    ("todo", &["manage_todo_list"]),
    ("todos", &["manage_todo_list"]),
    ("todowrite", &["manage_todo_list"]),
    ("usages", &["list_code_usages"]),
    ("vscode/askquestions", &[]),
    ("vscode/extensions", &[]),
    ("vscode/getprojectsetupinfo", &[]),
    ("vscode/installextension", &[]),
    ("vscode/memory", &[]),
    ("vscode/newworkspace", &[]),
    ("vscode/opensimplebrowser", &[]),
    ("vscode/runcommand", &[]),
    ("vscode/vscodeapi", &[]),
    ("vscodeapi", &[]),
    ("web", &["fetch_webpage"]),
    ("web/fetch", &["fetch_webpage"]),
    ("web/githubrepo", &[]),
    ("webfetch", &["fetch_webpage"]),
    ("websearch", &[]),
    ("write", &["create_file"]),
];

/// Names of tools of Copilot servers and their editors. Others may exist.
const KNOWN: &[&str] = &[
    "apply_patch",
    "create_file",
    "fetch_webpage",
    "file_search",
    "get_changed_files",
    "get_errors",
    "get_terminal_output",
    "grep_search",
    "ide",
    "insert_edit_into_file",
    "list_code_usages",
    "list_dir",
    "lsp",
    "lsp_read",
    "manage_todo_list",
    "read_file",
    "replace_string_in_file",
    "run_in_terminal",
    "run_subagent",
    "semantic_search",
    "validate_cves",
];

/// The tools for a name in a configuration file, or an error with a correction.
pub(crate) fn tool_names(declared: &str) -> Result<Vec<String>, String> {
    let name = declared.trim();
    let itself = || Ok(vec![name.to_owned()]);
    match meaning(name) {
        Meaning::Tools(names) => Ok(names),
        Meaning::All | Meaning::Like(_) => itself(),
        Meaning::Limited(tools) => Err(format!(
            "{name:?}: lspool cannot limit a tool to some arguments; write {tools:?} to allow the whole \
             tool, or remove the entry"
        )),
        Meaning::Nothing if is_alias(name) => {
            Err(format!("{name:?} is a tool of another program and does not exist here; remove it"))
        }
        // An editor may give a tool any name.
        Meaning::Nothing => itself(),
    }
}

/// The likely tools for an unknown name.
pub(crate) fn likely_tools(name: &str) -> Vec<String> {
    match meaning(name) {
        Meaning::Like(near) => match meaning(near) {
            Meaning::Tools(names) => names,
            Meaning::All | Meaning::Limited(_) | Meaning::Nothing | Meaning::Like(_) => vec![near.to_owned()],
        },
        Meaning::Tools(names) if !names.iter().any(|it| it == name) => names,
        Meaning::Limited(tool) => vec![tool],
        Meaning::Tools(_) | Meaning::All | Meaning::Nothing => Vec::new(),
    }
}

fn is_alias(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    ALIASES.binary_search_by_key(&&*lower, |(it, _)| it).is_ok()
}

/// The aliases that a name may be a mistake for. A tool of an editor may well have `search` in its name.
fn similar_aliases(name: &str) -> impl Iterator<Item = &'static str> {
    let is_similar = |it: &&str| it.len() > 4 && it.len().abs_diff(name.len()) < 2 && !it.contains('/');
    let of_tools = ALIASES.iter().filter(|(_, tools)| !tools.is_empty());
    of_tools.map(|(it, _)| *it).filter(is_similar).collect::<Vec<_>>().into_iter()
}

/// The meaning of a declared name.
pub(super) fn meaning(declared: &str) -> Meaning {
    let name = declared.trim();
    if name == "*" {
        return Meaning::All;
    }
    if let Some((tool, _)) = name.split_once('(') {
        return match meaning(tool) {
            Meaning::Tools(tools) => Meaning::Limited(tools.join(", ")),
            Meaning::All | Meaning::Limited(_) | Meaning::Nothing | Meaning::Like(_) => Meaning::Nothing,
        };
    }
    let itself = || Meaning::Tools(vec![name.to_owned()]);
    if KNOWN.contains(&name) {
        return itself();
    }
    let lower = name.to_ascii_lowercase();
    if let Ok(at) = ALIASES.binary_search_by_key(&&*lower, |(it, _)| it) {
        return match ALIASES[at].1 {
            [] => Meaning::Nothing,
            tools => Meaning::Tools(tools.iter().map(ToString::to_string).collect()),
        };
    }
    // Claude's names for the tools of MCP servers.
    if let Some(of_mcp) = name.strip_prefix("mcp__") {
        let (server, tool) = of_mcp.split_once("__").unwrap_or((of_mcp, "*"));
        return if server.is_empty() || tool.is_empty() {
            Meaning::Nothing
        } else {
            Meaning::Tools(vec![format!("{server}/{tool}")])
        };
    }
    // `server/tool`, for a server of any name.
    if let Some((server, tool)) = name.split_once('/') {
        let is_one = |it: &str| !it.is_empty() && it.trim() == it;
        return if is_one(server) && is_one(tool) { itself() } else { Meaning::Nothing };
    }
    let is_plain = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || "_-.".contains(it);
    match name.strip_suffix('*').unwrap_or(name) {
        "" => Meaning::Nothing,
        stem if !stem.chars().all(is_plain) => Meaning::Nothing,
        _ => match crate::config::nearest(name, KNOWN.iter().copied().chain(similar_aliases(name))) {
            Some(near) if !name.ends_with('*') => Meaning::Like(near),
            Some(_) | None => itself(),
        },
    }
}
