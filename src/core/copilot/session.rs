//! The parts of a session that only a Copilot server has: the sign-in, the section `github.copilot` of the settings,
//! and the folder for records.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde_json::json;

use crate::{
    core::{
        copilot::tools::{mcp::SwitchedOff, tool_set::ToolSet},
        mux::session::{Replay, Session, documents::DocumentKey},
    },
    rpc::{Frame, Patch, RawId, elements, member, members, path, text},
};

/// Makes a process check its sign-in, which it would otherwise do only when it needs a token.
pub(super) const CHECK_STATUS: (&str, &[u8]) = ("checkStatus", b"{}");

/// The Copilot part of the session.
#[derive(Debug, Default)]
pub(crate) struct CopilotSession {
    /// The last pulled section `github.copilot`.
    pulled: Option<Bytes>,
    /// The folder in which processes record their requests to the model, if wanted.
    pub(crate) kept_transcripts: Option<PathBuf>,
    auth: Option<Bytes>,
    /// The primary says that nobody is signed in, or somebody has signed out. Before lspool acts on it, it asks.
    pub(super) may_be_signed_out: bool,
    /// Taken away from each process as soon as it has them.
    pub(crate) switched_off: SwitchedOff,
}

/// What a fresh process is told before its tools, in this order.
#[derive(Debug)]
pub(crate) struct CopilotReplay {
    pub(crate) before: Vec<Frame>,
    pub(crate) documents: Vec<DocumentKey>,
    pub(crate) after: Vec<Frame>,
}

impl CopilotSession {
    /// Notes the editor's sign-in.
    pub(super) fn sign_in(&mut self, params: &[u8]) {
        self.auth = Some(Bytes::copy_from_slice(params));
        self.may_be_signed_out = false;
    }

    pub(super) fn sign_out(&mut self) {
        self.auth = None;
    }

    /// Whether the editor signs processes in.
    pub(super) fn has_auth(&self) -> bool {
        self.auth.is_some()
    }

    /// Everything between `initialized` and the tools, in order. `set` decides which MCP servers the settings keep.
    pub(crate) fn replay(&self, session: &Session, replay: Replay, set: &ToolSet) -> CopilotReplay {
        let Replay { latest, settings: _, folders, documents, of_documents, calls } = replay;
        // This server keeps a section that is missing in a push.
        let settings = session.merged_settings();
        let mut out: Vec<Frame> = latest.into_iter().chain(settings).map(|it| for_set(&it, set)).collect();
        if let Some(folder) = &self.kept_transcripts {
            out.push(self.transcripts(session, set, Some(folder)));
        }
        if let Some(params) = &self.auth {
            out.push(Frame::notification("github/didChangeAuth", Some(params)));
            out.push(Frame::request(RawId::from(0), CHECK_STATUS.0, Some(CHECK_STATUS.1)));
        }
        out.extend(folders);
        let after = of_documents.into_iter().chain(calls).map(|it| for_set(&it, set)).collect();
        CopilotReplay { before: out, documents, after }
    }

    /// The MCP servers in the settings.
    pub(super) fn mcp_servers(&self, session: &Session) -> Vec<String> {
        self.section(session).and_then(mcp_servers).unwrap_or_default()
    }

    /// The current section `github.copilot`: as last pushed, else as last pulled.
    fn section<'a>(&'a self, session: &'a Session) -> Option<&'a [u8]> {
        let github = session.setting("github");
        let pushed = github.and_then(|it| Some(&it[member(it, "copilot")?]));
        pushed.or(self.pulled.as_deref())
    }

    /// Notes the editor's answer to `workspace/configuration`.
    pub(super) fn pulled(&mut self, sections: &[Option<String>], answer: &[u8]) {
        let at = sections.iter().position(|it| it.as_deref() == Some("github.copilot"));
        if let Some(value) = at.and_then(|at| elements(answer).nth(at)).map(|range| &answer[range]) {
            self.pulled = Some(Bytes::copy_from_slice(value)).filter(|it| it.starts_with(b"{"));
        }
    }

    /// Settings with or without the folder of transcripts. They contain the whole section, because a push replaces
    /// it.
    pub(crate) fn transcripts(&self, session: &Session, set: &ToolSet, folder: Option<&Path>) -> Frame {
        let github = session.setting("github").unwrap_or(b"{}");
        let mut section = self.section(session).unwrap_or(b"{}").to_vec();
        if let Some(folder) = folder {
            section =
                Patch::of(&section).set_path(&["agent", "transcriptDirectory"], &quoted(folder)).finish();
        }
        let github = Patch::of(github).set("copilot", &section).finish();
        let params = Patch::of(b"{}").set_path(&["settings", "github"], &github).finish();
        for_set(&Frame::notification("workspace/didChangeConfiguration", Some(&params)), set)
    }

    /// Adds the folder for records to a push of settings.
    pub(crate) fn keeping(&self, frame: &Frame) -> Option<Frame> {
        let folder = self.kept_transcripts.as_ref()?;
        let params = frame.params()?;
        let keys = pushed(frame).filter(|it| path(params, it).is_some())?;
        let keys = [&keys[..], &["agent", "transcriptDirectory"]].concat();
        Some(frame.with_params(&Patch::of(params).set_path(&keys, &quoted(folder)).finish()))
    }

    /// Adds the folder for records to the section `github.copilot` of an answer to `workspace/configuration`.
    pub(super) fn keeping_section(&self, section: Vec<u8>) -> Vec<u8> {
        let Some(folder) = &self.kept_transcripts else { return section };
        let object = if section.starts_with(b"{") { &section[..] } else { b"{}" };
        Patch::of(object).set_path(&["agent", "transcriptDirectory"], &quoted(folder)).finish()
    }
}

/// A path as JSON.
fn quoted(folder: &Path) -> Vec<u8> {
    json!(folder.to_string_lossy()).to_string().into_bytes()
}

/// The form of a message for a process with this set.
pub(super) fn for_set(frame: &Frame, set: &ToolSet) -> Frame {
    if set.is_all() {
        return frame.clone();
    }
    let Some(params) = frame.params() else { return frame.clone() };
    if let Some(range) = pushed(frame).and_then(|it| path(params, &it)) {
        let section = section_without_foreign_mcp(&params[range.clone()], set);
        return frame.with_params(&[&params[..range.start], &section, &params[range.end..]].concat());
    }
    match frame.method() {
        Some("mcp/updateToolsStatus") => frame.with_params(&without_foreign_statuses(params, set)),
        Some(_) | None => frame.clone(),
    }
}

/// Removes tools outside the set from the parameters of `mcp/updateToolsStatus`, which would enable them.
fn without_foreign_statuses(params: &[u8], set: &ToolSet) -> Vec<u8> {
    let Some(range) = member(params, "servers") else { return params.to_vec() };
    let servers = &params[range];
    let narrowed = |server: &[u8]| -> Option<Vec<u8>> {
        let name = text(server, &["name"])?;
        let tools = &server[member(server, "tools")?];
        let is_mine = |it: &&[u8]| text(it, &["name"]).is_some_and(|tool| set.contains_mcp(&name, &tool));
        let mine: Vec<&[u8]> = elements(tools).map(|it| &tools[it]).filter(is_mine).collect();
        Some(Patch::of(server).set("tools", &array(&mine)).finish())
    };
    let servers: Vec<Vec<u8>> = elements(servers).filter_map(|it| narrowed(&servers[it])).collect();
    Patch::of(params).set("servers", &array(&servers)).finish()
}

fn array<T: AsRef<[u8]>>(items: &[T]) -> Vec<u8> {
    let items: Vec<&[u8]> = items.iter().map(AsRef::as_ref).collect();
    [b"[".as_slice(), &items.join(b",".as_slice()), b"]"].concat()
}

/// The path to the section `github.copilot` in a message that pushes settings. The server reads no other place: it
/// ignores a key `"github.copilot"`.
fn pushed(frame: &Frame) -> Option<[&'static str; 3]> {
    let settings = match frame.method()? {
        "workspace/didChangeConfiguration" => "settings",
        "setEditorInfo" => "editorConfiguration",
        _ => return None,
    };
    Some([settings, "github", "copilot"])
}

/// The MCP servers in a push of settings, if it contains any section with them.
pub(super) fn pushed_mcp_servers(frame: &Frame) -> Option<Vec<String>> {
    let params = frame.params()?;
    mcp_servers(&params[path(params, &pushed(frame)?)?])
}

/// The MCP servers in the section `github.copilot`, if it has any.
pub(super) fn mcp_servers(section: &[u8]) -> Option<Vec<String>> {
    let raw = &section[member(section, "mcp")?];
    let text: Option<String> = serde_json::from_slice(raw).ok();
    let map = text.as_ref().map_or(raw, |it| it.as_bytes());
    Some(members(map).map(|(server, _)| server.into_owned()).collect())
}

/// Removes MCP servers outside the set from the section `github.copilot`. `mcp` is a JSON string with a map by
/// server.
pub(super) fn section_without_foreign_mcp(section: &[u8], set: &ToolSet) -> Vec<u8> {
    let Some(range) = member(section, "mcp") else { return section.to_vec() };
    let raw = &section[range];
    let text: Option<String> = serde_json::from_slice(raw).ok();
    let map = text.as_ref().map_or(raw, |it| it.as_bytes());
    let foreign: Vec<String> =
        members(map).map(|(server, _)| server.into_owned()).filter(|it| !set.wants_mcp_server(it)).collect();
    if foreign.is_empty() {
        return section.to_vec();
    }
    // An empty map rather than none: a server stops the MCP servers that disappear from the map, and keeps all
    // without a map.
    let mut patch = Patch::of(map);
    for server in &foreign {
        patch.remove(server);
    }
    let kept = patch.finish();
    let kept = match text {
        Some(_) => json!(String::from_utf8_lossy(&kept)).to_string().into_bytes(),
        None => kept,
    };
    Patch::of(section).set("mcp", &kept).finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{copilot::routes::DIALECT, mux::routes::Keep};

    fn keep(session: &mut Session, method: &str, params: &str) {
        let frame = Frame::notification(method, Some(params.as_bytes()));
        session.keep(Keep::Configuration, &frame, &DIALECT);
    }

    #[test]
    fn restricted_process_gets_no_status_of_foreign_mcp_tools() {
        let set = ToolSet::new(Some(&["mini/echo"]), &[]);
        let params = br#"{"servers":[{"name":"mini","tools":[{"name":"echo","status":"enabled"},{"name":"x","status":"enabled"}]}]}"#;
        let frame = Frame::notification("mcp/updateToolsStatus", Some(params));
        let told = for_set(&frame, &set);
        let expected = r#"{"servers":[{"name":"mini","tools":[{"name":"echo","status":"enabled"}]}]}"#;
        assert_eq!(String::from_utf8_lossy(told.params().unwrap_or_default()), expected);
    }

    #[test]
    fn restricted_process_gets_only_mcp_servers_of_its_set() {
        let set = ToolSet::new(Some(&["mini/echo"]), &[]);
        let none = ToolSet::new::<&str>(Some(&[]), &[]);
        for (method, key) in
            [("workspace/didChangeConfiguration", "settings"), ("setEditorInfo", "editorConfiguration")]
        {
            let push = |mcp: &str| {
                format!(r#"{{"{key}":{{"github":{{"x":1,"copilot":{{"a":1,"mcp":"{mcp}"}}}},"http":{{}}}}}}"#)
            };
            let params = push(r#"{\"mini\":{\"command\":\"x\"},\"other\":{}}"#);
            let frame = Frame::notification(method, Some(params.as_bytes()));
            let told =
                |set| String::from_utf8_lossy(for_set(&frame, set).params().unwrap_or_default()).into_owned();
            assert_eq!(told(&set), push(r#"{\"mini\":{\"command\":\"x\"}}"#));
            assert_eq!(told(&none), push("{}"));
            assert_eq!(told(&ToolSet::all()), params);
            assert_eq!(pushed_mcp_servers(&frame), Some(vec!["mini".to_owned(), "other".to_owned()]));
        }
    }

    #[test]
    fn session_finds_mcp_servers_where_a_server_reads_them() {
        let mut session = Session::default();
        let mut it = CopilotSession::default();
        let configure = "workspace/didChangeConfiguration";
        let flat = r#"{"settings":{"github.copilot":{"mcp":"{\"x\":{}}"}}}"#;
        keep(&mut session, configure, flat);
        assert_eq!(pushed_mcp_servers(&Frame::notification(configure, Some(flat.as_bytes()))), None);
        assert!(it.mcp_servers(&session).is_empty());
        it.pulled(&[Some("github.copilot".to_owned())], br#"[{"mcp":"{\"y\":{}}"}]"#);
        assert_eq!(it.mcp_servers(&session), ["y"]);
        let nested = r#"{"settings":{"github":{"copilot":{"mcp":"{\"z\":{}}"}}}}"#;
        keep(&mut session, configure, nested);
        assert_eq!(it.mcp_servers(&session), ["z"]);
        // A push without the section leaves it unchanged at the server.
        it.kept_transcripts = Some("/t".into());
        let other = Frame::notification(configure, Some(br#"{"settings":{"github":{}}}"#));
        assert_eq!(it.keeping(&other).map(|it| it.to_bytes()), None);
    }
}
