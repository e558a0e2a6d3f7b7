//! `lsp_start`, `lsp_request`, `lsp_stop`: questions in terms of the protocol, off unless the user turns them on.
//!
//! **No command, no path outside the workspace, no edit.** Starting joins a server that the session has; stopping lets
//! go of it, for other tools use it as well.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::call::{Cx, Step, fail, reason};
use crate::{
    builtin_tools::lsp::{Answer, Code, LspCall, RawNeed, RawTarget, clipped_list, raw_need},
    core::event::{ServerId, Unreadable},
    rpc::{file_path, file_uri},
};

/// How many names an agent can hold.
const MOST_HANDLES: usize = 100;

/// How servers count characters.
const ENCODING: &str = "utf-16";

impl Cx<'_> {
    /// Joins a server of the session, by its name or its language.
    pub(super) fn start_raw(&mut self, target: &RawTarget, root: Option<&str>) -> Step<Answer> {
        self.is_raw_allowed()?;
        if let Some(root) = root {
            self.path(root)?;
        }
        let server = self.raw_server(target)?;
        self.started(server)?;
        let handle = self.once("handle", |cx| cx.new_handle(server).into());
        let Some(handle) = handle.as_str().map(ToOwned::to_owned) else {
            return fail(Code::Refused, format!("{MOST_HANDLES} servers are held: use lsp_stop"));
        };
        let view = self.view(server);
        let (name, state) = (view.name.clone(), view.state_word(self.now()).0);
        let capabilities = view.capabilities();
        let text = format!("{handle}: {name}, {state}; positions count from 0, in {ENCODING}");
        let structured = json!({
            "ok": true, "notes": [], "truncated": false, "total": 1, "server_id": handle, "name": name, "state": state,
            "position_encoding": ENCODING, "capabilities": capabilities,
        });
        Ok(Answer { ok: true, text, structured })
    }

    fn new_handle(&mut self, server: ServerId) -> Option<String> {
        if self.tools.handles.len() == MOST_HANDLES {
            return None;
        }
        let number = self.tools.next();
        let handle = format!("{}#{number}", self.view(server).name);
        self.tools.handles.insert(handle.clone(), server);
        Some(handle)
    }

    fn raw_server(&self, target: &RawTarget) -> Step<ServerId> {
        let views = || self.tools.views.values();
        let found = match target {
            RawTarget::Server(name) => views().find(|it| it.name == *name),
            RawTarget::Language(language) => views().find(|it| it.speaks(language)),
        };
        if let Some(view) = found {
            return Ok(view.server);
        }
        let names: Vec<&str> = views().map(|it| it.name.as_str()).collect();
        let wanted = match target {
            RawTarget::Server(name) => format!("no server of this session is named {name:?}"),
            RawTarget::Language(language) => format!("no server of this session is for {language:?}"),
        };
        fail(Code::NoServer, format!("{wanted}; there are {}", names.join(", ")))
    }

    /// Lets go of a server.
    pub(super) fn stop_raw(&mut self, handle: &str) -> Step<Answer> {
        self.is_raw_allowed()?;
        // A call runs again from its beginning, with the server let go.
        let name = self.once("stop", |cx| match cx.tools.handles.remove(handle) {
            Some(server) => cx.view(server).name.clone().into(),
            None => Value::Null,
        });
        let Some(name) = name.as_str() else { return not_held(handle) };
        let text = format!("{handle} is let go; {name} goes on for the other tools");
        let structured = json!({"ok": true, "notes": [], "truncated": false, "total": 0});
        Ok(Answer { ok: true, text, structured })
    }

    /// Whether a call may have an effect, so that it is not carried out again.
    pub(super) fn runs_once(&self, call: &LspCall) -> bool {
        let LspCall::Request { method, params, .. } = call else { return false };
        let settings = &self.tools.settings;
        let need = raw_need(method, params, &settings.raw_methods, &settings.raw_commands);
        matches!(need, Ok(RawNeed::Command(_) | RawNeed::Nothing))
    }

    /// Asks a server. Its answer is passed on as it is.
    pub(super) fn request_raw(&mut self, handle: &str, method: &str, params: &Value) -> Step<Answer> {
        self.is_raw_allowed()?;
        let server = self.held(handle)?;
        let settings = &self.tools.settings;
        let need = match raw_need(method, params, &settings.raw_methods, &settings.raw_commands) {
            Ok(need) => need,
            Err(why) => return fail(Code::Refused, why),
        };
        let params = self.inside_params(params)?;
        self.started(server)?;
        match need {
            RawNeed::Capability(provider) => self.require(server, provider, method)?,
            RawNeed::Command(command) if !self.view(server).runs(&command) => {
                let name = &self.view(server).name;
                return fail(Code::NotSupported, format!("{name} has no command {command:?}"));
            }
            RawNeed::Command(_) | RawNeed::Nothing => {}
        }
        let document = params["textDocument"]["uri"].as_str().and_then(file_path);
        let loading = match &document {
            Some(file) => {
                self.outline_if_any(server, file)?;
                self.ready("ready", server)?
            }
            // Only an answer about a document shows that a server is ready.
            None => self.loading("ready", server),
        };
        let unseen = self.unseen(server)?;
        let result = match need {
            RawNeed::Capability(_) => self.ask("raw", server, method, &params)??,
            RawNeed::Command(_) | RawNeed::Nothing => self.ask_once("raw", server, method, &params)??,
        };
        let name = self.view(server).name.clone();
        let notes: Vec<String> =
            loading.or(unseen).map(|why| format!("{why}: this may change")).into_iter().collect();
        let (result, total, is_cut) = clipped_list(result, self.most_of_text());
        let mut text = String::new();
        for note in &notes {
            writeln!(text, "note: {note}").unwrap_or_default();
        }
        write!(text, "{name} answers {method}:\n{result}").unwrap_or_default();
        if is_cut {
            write!(text, "\n[cut: {total} elements in all]").unwrap_or_default();
        }
        let structured =
            json!({"ok": true, "notes": notes, "truncated": is_cut, "total": total, "result": result});
        Ok(Answer { ok: true, text, structured })
    }

    fn is_raw_allowed(&self) -> Step<()> {
        match self.tools.settings.raw {
            true => Ok(()),
            false => {
                fail(Code::Refused, "raw requests are off: the user can set `raw = true` in [lsp_tools]")
            }
        }
    }

    fn held(&self, handle: &str) -> Step<ServerId> {
        match self.tools.handles.get(handle) {
            Some(server) => Ok(*server),
            None => not_held(handle),
        }
    }

    /// Parameters in which each path is one of the workspace, without links above it.
    fn inside_params(&mut self, params: &Value) -> Step<Value> {
        Ok(match params {
            Value::String(text) => self.inside_text(text)?.into(),
            Value::Array(all) => {
                all.iter().map(|it| self.inside_params(it)).collect::<Step<Vec<Value>>>()?.into()
            }
            Value::Object(members) => {
                let mut inside = serde_json::Map::new();
                for (key, value) in members {
                    // Such as `changes` by URI.
                    inside.insert(self.inside_text(key)?, self.inside_params(value)?);
                }
                inside.into()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => params.clone(),
        })
    }

    fn inside_text(&mut self, text: &str) -> Step<String> {
        match path_in(text) {
            PathIn::None => Ok(text.to_owned()),
            PathIn::Path(path) => Ok(self.place_inside(&path)?.to_string_lossy().into_owned()),
            PathIn::Uri(path) => Ok(file_uri(&self.place_inside(&path)?)),
            PathIn::Other => fail(Code::OutsideWorkspace, format!("{text} is outside the workspace")),
        }
    }

    fn place_inside(&mut self, path: &Path) -> Step<PathBuf> {
        let path = self.path(&path.to_string_lossy())?;
        // A link inside may lead out.
        match self.text_if_readable(&path)? {
            Err(Unreadable::Outside) => {
                fail(Code::OutsideWorkspace, format!("{} {}", self.shown(&path), reason(Unreadable::Outside)))
            }
            Ok(_) | Err(_) => Ok(path),
        }
    }
}

fn not_held<T>(handle: &str) -> Step<T> {
    fail(Code::BadArguments, format!("no server is held as {handle:?}: `lsp_start` gives a name"))
}

/// What a text of parameters names.
#[derive(Debug, PartialEq, Eq)]
enum PathIn {
    None,
    Path(PathBuf),
    Uri(PathBuf),
    /// Something that is no file of this machine.
    Other,
}

fn path_in(text: &str) -> PathIn {
    if text.starts_with(['/', '\\']) {
        return PathIn::Path(text.into());
    }
    let scheme = text.split_once(':').map(|(scheme, _)| scheme);
    let is_scheme = |it: &str| {
        it.starts_with(|it: char| it.is_ascii_alphabetic())
            && it.chars().all(|it| it.is_ascii_alphanumeric() || "+-.".contains(it))
    };
    match scheme {
        Some(scheme) if scheme.eq_ignore_ascii_case("file") => match file_path(text) {
            Some(path) => PathIn::Uri(path),
            None => PathIn::Other,
        },
        // `std::vec` and `key: value` are no URIs.
        Some(scheme) if is_scheme(scheme) && text[scheme.len()..].starts_with(":/") => PathIn::Other,
        Some("untitled" | "data" | "javascript" | "vscode-notebook-cell") => PathIn::Other,
        Some(_) | None => PathIn::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_in_texts() {
        for text in ["foo", "std::vec", "a: b", "", "sub/a.py", "C"] {
            assert_eq!(path_in(text), PathIn::None, "{text}");
        }
        assert_eq!(path_in("/a b"), PathIn::Path("/a b".into()));
        assert_eq!(path_in("file:///a%20b"), PathIn::Uri("/a b".into()));
        assert_eq!(path_in("FILE:///a"), path_in("file:///a"));
        for text in ["https://x/y", "untitled:1", "file:relative", "ssh://a"] {
            assert_eq!(path_in(text), PathIn::Other, "{text}");
        }
    }
}
