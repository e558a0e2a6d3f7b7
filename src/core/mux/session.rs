//! What a fresh process must be told to serve: recorded from the editor's messages, in the order of replay.
//!
//! It holds no conversations and no tools; those have tables of their own.

mod calls;
pub(crate) mod documents;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use serde_json::json;

use self::calls::Calls;
use crate::{
    core::{
        documents::{Documents, uri},
        mcp::SwitchedOff,
        route::Keep,
        toolset::ToolSet,
    },
    rpc::{Frame, Kind, Patch, RawId, elements, file_path, member, members, path, text},
};

/// Sent to a process whose sign-in it would otherwise not look at until it needs a token.
pub(crate) const CHECK_STATUS: (&str, &[u8]) = ("checkStatus", b"{}");

/// The record.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// Parameters of the editor's `initialize`, as forwarded.
    pub(crate) initialize: Bytes,
    /// Whether the editor has sent `initialized`.
    pub(crate) initialized: bool,
    /// Whether a server has answered the editor's `initialize`.
    pub(crate) is_open: bool,
    pub(crate) documents: Documents,
    /// Sections of the pushed settings, each as last pushed.
    settings: Vec<(String, Bytes)>,
    /// The section `github.copilot` as last pulled.
    pulled: Option<Bytes>,
    /// Where processes keep what they tell the model, if they shall.
    pub(crate) kept_transcripts: Option<PathBuf>,
    auth: Option<Bytes>,
    /// Workspace folders since `initialize`, by uri: added (with the folder) or removed.
    folders: BTreeMap<String, (bool, Bytes)>,
    latest: BTreeMap<String, Kept>,
    calls: Calls,
    /// Taken away from each process as soon as it has them.
    pub(crate) switched_off: SwitchedOff,
}

#[derive(Clone, Debug, PartialEq)]
struct Kept {
    kind: Kind,
    method: String,
    params: Bytes,
}

impl Kept {
    fn frame(&self) -> Frame {
        // The id of a request is set when it is sent.
        match self.kind {
            Kind::Request => Frame::request(RawId::from(0), &self.method, Some(&self.params)),
            Kind::Notification | Kind::Response => Frame::notification(&self.method, Some(&self.params)),
        }
    }
}

impl Session {
    /// Remembers what this message of the editor means for later processes.
    pub(crate) fn keep(&mut self, keep: Keep, frame: &Frame) {
        if keep == Keep::Nothing {
            return;
        }
        if let (Keep::Change, Some(params)) = (keep, frame.params()) {
            return self.documents.changed(params);
        }
        // Copied: a slice would keep the buffer that it was read into.
        let Some(params) = frame.params().map(Bytes::copy_from_slice) else { return };
        match keep {
            Keep::Nothing | Keep::Change => {}
            Keep::Latest => {
                if let Some(kept) = kept(frame, params) {
                    self.latest.insert(kept.method.clone(), kept);
                }
            }
            Keep::All => {
                if let Some(kept) = kept(frame, params) {
                    self.calls.push(kept);
                }
            }
            Keep::Configuration => self.configure(&params),
            Keep::Folders => self.change_folders(&params),
            Keep::Auth => self.auth = Some(params),
            Keep::SignOut => self.auth = None,
            Keep::Open => self.documents.opened(&params),
            Keep::Close => self.close(&params),
            Keep::NotebookOpen => self.documents.notebook_opened(&params),
            Keep::NotebookChange => self.documents.notebook_changed(&params),
            Keep::NotebookClose => self.documents.notebook_closed(&params),
        }
    }

    /// A section that is absent keeps its value; one that is present replaces it whole.
    fn configure(&mut self, params: &Bytes) {
        let Some(range) = member(params, "settings") else { return };
        let settings = params.slice(range);
        for (section, range) in members(&settings) {
            let value = settings.slice(range);
            match self.settings.iter_mut().find(|(name, _)| *name == section) {
                Some(slot) => slot.1 = value,
                None => self.settings.push((section.into_owned(), value)),
            }
        }
    }

    fn change_folders(&mut self, params: &Bytes) {
        for (key, added) in [("removed", false), ("added", true)] {
            let Some(range) = path(params, &["event", key]) else { continue };
            let folders = params.slice(range);
            for range in elements(&folders) {
                let folder = folders.slice(range);
                let uri = member(&folder, "uri").and_then(|it| serde_json::from_slice(&folder[it]).ok());
                if let Some(uri) = uri {
                    self.folders.insert(uri, (added, folder));
                }
            }
        }
    }

    /// The workspace folders, as they have become of those of `initialize`.
    pub(crate) fn folders_now(&self, first: &[PathBuf]) -> Vec<PathBuf> {
        let gone: Vec<PathBuf> = self.folder_paths(false).collect();
        let stays: Vec<PathBuf> = first.iter().filter(|it| !gone.contains(it)).cloned().collect();
        self.with_added(stays)
    }

    /// These, and the folders that have come since `initialize`.
    pub(crate) fn with_added(&self, mut folders: Vec<PathBuf>) -> Vec<PathBuf> {
        let come: Vec<PathBuf> = self.folder_paths(true).filter(|it| !folders.contains(it)).collect();
        folders.extend(come);
        folders
    }

    fn folder_paths(&self, added: bool) -> impl Iterator<Item = PathBuf> {
        self.folders.iter().filter(move |(_, it)| it.0 == added).filter_map(|(uri, _)| file_path(uri))
    }

    fn close(&mut self, params: &[u8]) {
        self.documents.closed(params);
        let focus = "textDocument/didFocus";
        let closed = uri(params, "textDocument");
        if self.latest.get(focus).is_some_and(|it| uri(&it.params, "textDocument") == closed) {
            self.latest.remove(focus);
        }
    }

    /// Everything between `initialized` and the tools, in order. `set` decides which MCP servers the settings keep.
    pub(crate) fn restored(&mut self, set: &ToolSet) -> Vec<Frame> {
        let mut out = Vec::new();
        let notify = |method: &str, params: &[u8]| Frame::notification(method, Some(params));
        let kept = |it: &Kept| for_set(&it.frame(), set);
        let (first, later): (Vec<&Kept>, Vec<&Kept>) =
            self.latest.values().partition(|it| it.method != "textDocument/didFocus");
        out.extend(first.into_iter().map(kept));
        if let Some(params) = self.settings() {
            out.push(for_set(&notify("workspace/didChangeConfiguration", &params), set));
        }
        if let Some(folder) = &self.kept_transcripts {
            out.push(self.transcripts(set, Some(folder)));
        }
        if let Some(params) = &self.auth {
            out.push(notify("github/didChangeAuth", params));
            out.push(Frame::request(RawId::from(0), CHECK_STATUS.0, Some(CHECK_STATUS.1)));
        }
        if let Some(params) = self.folder_changes() {
            out.push(notify("workspace/didChangeWorkspaceFolders", &params));
        }
        out.extend(self.documents.restored().iter().map(|(method, params)| notify(method, params)));
        out.extend(later.into_iter().map(kept));
        out.extend(self.calls.iter().map(kept));
        out
    }

    /// Name and version of the editor, if it has said them.
    pub(crate) fn editor(&self) -> Option<String> {
        // The older editors of a Copilot server say it in its own words only.
        let places: [&[&str]; 2] = [&["clientInfo"], &["initializationOptions", "editorInfo"]];
        places.iter().find_map(|place| {
            let word = |key| text(&self.initialize, &[place, &[key][..]].concat());
            let name = word("name")?;
            Some(word("version").map_or(name.clone(), |version| format!("{name} {version}")))
        })
    }

    /// The MCP servers that the settings name.
    pub(crate) fn mcp_servers(&self) -> Vec<String> {
        self.section().and_then(mcp_servers).unwrap_or_default()
    }

    /// The section `github.copilot` as it holds: as last pushed, else as last pulled.
    fn section(&self) -> Option<&[u8]> {
        let github = self.settings.iter().find(|(name, _)| name == "github").map(|(_, it)| &it[..]);
        let pushed = github.and_then(|it| Some(&it[member(it, "copilot")?]));
        pushed.or(self.pulled.as_deref())
    }

    /// Whether processes are signed in by the editor.
    pub(crate) fn has_auth(&self) -> bool {
        self.auth.is_some()
    }

    /// The editor has answered `workspace/configuration`.
    pub(crate) fn pulled(&mut self, sections: &[Option<String>], answer: &[u8]) {
        let at = sections.iter().position(|it| it.as_deref() == Some("github.copilot"));
        if let Some(value) = at.and_then(|at| elements(answer).nth(at)).map(|range| &answer[range]) {
            self.pulled = Some(Bytes::copy_from_slice(value)).filter(|it| it.starts_with(b"{"));
        }
    }

    /// Settings that name the folder of transcripts, or that are as they were. The section is replaced as a whole,
    /// so all of it is said.
    pub(crate) fn transcripts(&self, set: &ToolSet, folder: Option<&Path>) -> Frame {
        let github = self.settings.iter().find(|(name, _)| name == "github").map_or(&b"{}"[..], |(_, it)| it);
        let mut section = self.section().unwrap_or(b"{}").to_vec();
        if let Some(folder) = folder {
            section =
                Patch::of(&section).set_path(&["agent", "transcriptDirectory"], &quoted(folder)).finish();
        }
        let github = Patch::of(github).set("copilot", &section).finish();
        let params = Patch::of(b"{}").set_path(&["settings", "github"], &github).finish();
        for_set(&Frame::notification("workspace/didChangeConfiguration", Some(&params)), set)
    }

    /// A push of settings as processes get it instead: one that keeps what it tells the model goes on to do so.
    pub(crate) fn keeping(&self, frame: &Frame) -> Option<Frame> {
        let folder = self.kept_transcripts.as_ref()?;
        let params = frame.params()?;
        let keys = pushed(frame).filter(|it| path(params, it).is_some())?;
        let keys = [&keys[..], &["agent", "transcriptDirectory"]].concat();
        Some(frame.with_params(&Patch::of(params).set_path(&keys, &quoted(folder)).finish()))
    }

    /// The section `github.copilot` of an answer to `workspace/configuration`, likewise.
    pub(crate) fn keeping_section(&self, section: Vec<u8>) -> Vec<u8> {
        let Some(folder) = &self.kept_transcripts else { return section };
        let object = if section.starts_with(b"{") { &section[..] } else { b"{}" };
        Patch::of(object).set_path(&["agent", "transcriptDirectory"], &quoted(folder)).finish()
    }

    fn settings(&self) -> Option<Vec<u8>> {
        if self.settings.is_empty() {
            return None;
        }
        let mut out = br#"{"settings":{"#.to_vec();
        for (n, (section, value)) in self.settings.iter().enumerate() {
            if n > 0 {
                out.push(b',');
            }
            out.extend_from_slice(json!(section).to_string().as_bytes());
            out.push(b':');
            out.extend_from_slice(value);
        }
        out.extend_from_slice(b"}}");
        Some(out)
    }

    fn folder_changes(&self) -> Option<Vec<u8>> {
        if self.folders.is_empty() {
            return None;
        }
        let list = |wanted: bool| -> Vec<u8> {
            let chosen = self.folders.values().filter(|(added, _)| *added == wanted);
            array(&chosen.map(|(_, folder)| folder).collect::<Vec<_>>())
        };
        let parts: [&[u8]; 5] =
            [br#"{"event":{"added":"#, &list(true), br#","removed":"#, &list(false), b"}}"];
        Some(parts.concat())
    }
}

/// A path as JSON.
fn quoted(folder: &Path) -> Vec<u8> {
    json!(folder.to_string_lossy()).to_string().into_bytes()
}

fn kept(frame: &Frame, params: Bytes) -> Option<Kept> {
    Some(Kept { kind: frame.kind(), method: frame.method()?.to_owned(), params })
}

/// What a process with this set is told of a message to every process.
pub(crate) fn for_set(frame: &Frame, set: &ToolSet) -> Frame {
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

/// Parameters of `mcp/updateToolsStatus` without the tools outside the set, which it would switch on.
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

/// Where a message that pushes settings has the section `github.copilot`. A server takes it from nowhere else: what is
/// called `"github.copilot"` in a push is nothing to it.
fn pushed(frame: &Frame) -> Option<[&'static str; 3]> {
    let settings = match frame.method()? {
        "workspace/didChangeConfiguration" => "settings",
        "setEditorInfo" => "editorConfiguration",
        _ => return None,
    };
    Some([settings, "github", "copilot"])
}

/// The MCP servers that a push of settings names, if it is about them.
pub(crate) fn pushed_mcp_servers(frame: &Frame) -> Option<Vec<String>> {
    let params = frame.params()?;
    mcp_servers(&params[path(params, &pushed(frame)?)?])
}

/// The MCP servers that the section `github.copilot` names, if it is about them.
pub(crate) fn mcp_servers(section: &[u8]) -> Option<Vec<String>> {
    let raw = &section[member(section, "mcp")?];
    let text: Option<String> = serde_json::from_slice(raw).ok();
    let map = text.as_ref().map_or(raw, |it| it.as_bytes());
    Some(members(map).map(|(server, _)| server.into_owned()).collect())
}

/// The section `github.copilot` of the settings, likewise. `mcp` is a JSON string that holds a map by server.
pub(crate) fn section_without_foreign_mcp(section: &[u8], set: &ToolSet) -> Vec<u8> {
    let Some(range) = member(section, "mcp") else { return section.to_vec() };
    let raw = &section[range];
    let text: Option<String> = serde_json::from_slice(raw).ok();
    let map = text.as_ref().map_or(raw, |it| it.as_bytes());
    let foreign: Vec<String> =
        members(map).map(|(server, _)| server.into_owned()).filter(|it| !set.wants_mcp_server(it)).collect();
    if foreign.is_empty() {
        return section.to_vec();
    }
    // With none left the map is empty rather than absent: a server stops what is taken out of the map, and leaves
    // running what it has when it is told nothing.
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

    fn keep(session: &mut Session, keep: Keep, method: &str, params: &str) {
        session.keep(keep, &Frame::notification(method, Some(params.as_bytes())));
    }

    fn restored(session: &mut Session) -> Vec<String> {
        let text = |it: Frame| String::from_utf8_lossy(&it.to_bytes()).replace(r#""jsonrpc":"2.0","#, "");
        session.restored(&ToolSet::all()).into_iter().map(text).collect()
    }

    #[test]
    fn session_merges_settings_by_section_and_folders_by_uri() {
        let mut it = Session::default();
        let configure = "workspace/didChangeConfiguration";
        keep(
            &mut it,
            Keep::Configuration,
            configure,
            r#"{"settings":{"http":{"a":1},"github.copilot":{"x":1}}}"#,
        );
        keep(&mut it, Keep::Configuration, configure, r#"{"settings":{"github.copilot":{"y":2}}}"#);
        keep(&mut it, Keep::Configuration, configure, r#"{"settings":null}"#);
        let folders = "workspace/didChangeWorkspaceFolders";
        keep(
            &mut it,
            Keep::Folders,
            folders,
            r#"{"event":{"added":[{"uri":"a"},{"uri":"b"}],"removed":[]}}"#,
        );
        keep(&mut it, Keep::Folders, folders, r#"{"event":{"added":[],"removed":[{"uri":"a"}]}}"#);
        let all = restored(&mut it);
        assert!(all[0].contains(r#"{"settings":{"http":{"a":1},"github.copilot":{"y":2}}}"#), "{all:?}");
        assert!(all[1].contains(r#"{"event":{"added":[{"uri":"b"}],"removed":[{"uri":"a"}]}}"#), "{all:?}");
    }

    #[test]
    fn session_replays_focus_after_document_and_drops_it_on_close() {
        let mut it = Session::default();
        keep(
            &mut it,
            Keep::Open,
            "textDocument/didOpen",
            r#"{"textDocument":{"uri":"u","text":"","version":1}}"#,
        );
        keep(&mut it, Keep::Latest, "textDocument/didFocus", r#"{"textDocument":{"uri":"u"}}"#);
        let all = restored(&mut it);
        assert!(all[0].contains("didOpen") && all[1].contains("didFocus"), "{all:?}");
        keep(&mut it, Keep::Close, "textDocument/didClose", r#"{"textDocument":{"uri":"u"}}"#);
        assert!(restored(&mut it).is_empty());
    }

    #[test]
    fn session_keeps_only_last_occurrence_of_repeated_call() {
        let mut it = Session::default();
        for params in ["1", "2", "1"] {
            keep(&mut it, Keep::All, "m", params);
        }
        assert_eq!(restored(&mut it), [r#"{"method":"m","params":2}"#, r#"{"method":"m","params":1}"#]);
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
        let mut it = Session::default();
        let configure = "workspace/didChangeConfiguration";
        let flat = r#"{"settings":{"github.copilot":{"mcp":"{\"x\":{}}"}}}"#;
        keep(&mut it, Keep::Configuration, configure, flat);
        assert_eq!(pushed_mcp_servers(&Frame::notification(configure, Some(flat.as_bytes()))), None);
        assert!(it.mcp_servers().is_empty());
        it.pulled(&[Some("github.copilot".to_owned())], br#"[{"mcp":"{\"y\":{}}"}]"#);
        assert_eq!(it.mcp_servers(), ["y"]);
        let nested = r#"{"settings":{"github":{"copilot":{"mcp":"{\"z\":{}}"}}}}"#;
        keep(&mut it, Keep::Configuration, configure, nested);
        assert_eq!(it.mcp_servers(), ["z"]);
        // A push that says nothing of the section leaves it as it is at the server.
        it.kept_transcripts = Some("/t".into());
        let other = Frame::notification(configure, Some(br#"{"settings":{"github":{}}}"#));
        assert_eq!(it.keeping(&other).map(|it| it.to_bytes()), None);
    }
}
