//! The code tools: calls of agents about code, answered by language servers.
//!
//! Owns the calls, what lspool has sent to each server, what each has reported, and the state of files. It is a client
//! of the mux like an editor: its requests take the same routes, and its documents are kept for later processes. Knows
//! no Copilot.
//!
//! **No answer is wrong without saying so**: a call ends with a result that says whether it is complete or fresh, or
//! with an error that says whether asking again may help.

mod actions;
mod call;
mod diagnostics;
mod edits;
mod files;
mod flows;
mod hierarchy;
mod places;
mod raw;
mod reading;
mod rename;
mod search;
mod spanning;
mod target;
mod view;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use self::{
    call::{Call, Memo, ServerError},
    edits::Edits,
    files::Files,
    places::Snapshots,
    view::{View, Work},
};
use super::{
    event::{ClientId, Effect, Look, Peer, ProcessId, Seen, ServerId},
    ids::RequestId,
    mux::{
        Mux,
        failure::{Cause, Failure},
        requests::Owner,
        servers::Server,
    },
};
use crate::{
    builtin_tools::lsp::{Answer, Code, LspCall, LspTool, ToolError},
    config::{
        LspToolsConfig,
        languages::{Language, languages, languages_for},
    },
    rpc::{Frame, Kind, Patch, RawId, member, path, text},
    util::json,
};

/// The calls, and what is known of servers and files.
#[derive(Debug)]
pub(crate) struct CodeTools {
    settings: LspToolsConfig,
    folders: Vec<PathBuf>,
    views: BTreeMap<ServerId, View>,
    /// Languages without a server, and why, whether the workspace has files of them or not.
    missing: BTreeMap<String, String>,
    /// Languages without a server of which files were last seen in the workspace.
    present: BTreeSet<&'static str>,
    /// What to do about a language with a server that was not started.
    on_appearance: OnAppearance,
    calls: BTreeMap<u64, Call>,
    /// Requests to servers.
    asked: BTreeMap<u64, Asked>,
    /// Looks at files.
    looks: BTreeMap<u64, (u64, String)>,
    files: Files,
    snapshots: Snapshots,
    edits: Edits,
    /// Files that hold a word and were found not to mean the symbol, by server, symbol and file, with their text's hash.
    refuted: BTreeMap<(ServerId, String, PathBuf), u64>,
    /// The servers that `lsp_start` has given, by the names that it gave them.
    handles: BTreeMap<String, ServerId>,
    /// When files had last changed at the last call about diagnostics of all changed files.
    checked: u64,
    /// The last number of a call, a request, a look.
    last: u64,
    /// What the servers can do together, as the client was last told.
    abilities: Option<BTreeSet<&'static str>>,
    /// Whether something has happened that calls may wait for.
    is_dirty: bool,
}

/// What to do about a language whose first file appears after the servers were chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnAppearance {
    /// Tell whoever has chosen the servers, instead of answering.
    Tell,
    /// Say that it has no server.
    Answer,
}

/// A request to a server.
#[derive(Debug)]
struct Asked {
    server: ServerId,
    /// The call that asks.
    call: u64,
    /// What for.
    key: String,
}

/// What the shell says of the session: the member of `initialize` that turns the code tools on.
const OPTIONS: [&str; 3] = ["initializationOptions", "lspool", "codeTools"];

fn view_of(server: &Server) -> View {
    let languages = languages_for(&server.name, &server.settings.languages);
    View::new(server.id, server.name.clone(), languages)
}

impl CodeTools {
    /// The code tools, if the parameters of `initialize` ask for them.
    pub(crate) fn wanted(mux: &Mux, initialize: &[u8]) -> Option<CodeTools> {
        let options = path(initialize, &OPTIONS).map(|it| &initialize[it])?;
        let options: Value = json::read(options).ok()?;
        let missing = options["missing"].as_object().into_iter().flatten();
        let missing =
            missing.map(|(language, why)| (language.clone(), why.as_str().unwrap_or("").to_owned()));
        let views = mux.servers().iter().map(|it| (it.id, view_of(it)));
        // All servers of a session have the same.
        let settings = mux.servers().iter().next().map(|it| it.config.lsp_tools.clone()).unwrap_or_default();
        Some(CodeTools {
            settings,
            folders: mux.clients().folders().to_vec(),
            views: views.collect(),
            missing: missing.collect(),
            present: BTreeSet::new(),
            on_appearance: match options["chosenFor"] == "workspace" {
                true => OnAppearance::Tell,
                false => OnAppearance::Answer,
            },
            calls: BTreeMap::new(),
            asked: BTreeMap::new(),
            looks: BTreeMap::new(),
            files: Files::default(),
            snapshots: Snapshots::default(),
            edits: Edits::default(),
            refuted: BTreeMap::new(),
            handles: BTreeMap::new(),
            checked: 0,
            last: 0,
            abilities: None,
            is_dirty: false,
        })
    }

    /// Notes the servers that a reload has added, and those that it has removed.
    pub(crate) fn note_servers(&mut self, mux: &Mux) {
        for server in mux.servers().iter() {
            let view = self.views.entry(server.id).or_insert_with(|| view_of(server));
            view.is_member = mux.is_member(server.id);
        }
    }

    /// Notes the files as they are when the servers start.
    pub(crate) fn begin(&mut self, mux: &mut Mux) {
        let number = self.next();
        self.look(mux, Look { number, ..Look::default() });
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Looks at files: at least, whether any has changed.
    fn look(&mut self, mux: &mut Mux, look: Look) {
        let endings: BTreeSet<&str> = self.views.values().flat_map(View::endings).collect();
        let open: BTreeSet<PathBuf> = self.views.values().flat_map(View::open_files).cloned().collect();
        let others = languages().filter(|it| !self.is_served(it)).flat_map(|it| it.files);
        let look = Look {
            folders: self.folders.clone(),
            others: others.map(|(ending, _)| (*ending).to_owned()).collect(),
            endings: endings.into_iter().map(ToOwned::to_owned).collect(),
            open: open.into_iter().collect(),
            ..look
        };
        mux.act(Effect::Look(Box::new(look)));
    }

    fn is_served(&self, language: &Language) -> bool {
        self.views.values().any(|it| it.serves(language))
    }

    /// The languages of the workspace without a server, and why.
    fn unserved(&self) -> BTreeMap<String, String> {
        let why = |it: &'static str| {
            let why = self.missing.get(it).cloned();
            why.unwrap_or_else(|| "none was started for this call".to_owned())
        };
        self.present.iter().map(|it| ((*it).to_owned(), why(it))).collect()
    }

    /// The answer of a call if the workspace has a language that needs another server.
    fn appeared(&self) -> Option<Answer> {
        let is_new = |it: &&&'static str| !self.missing.contains_key(**it);
        let new: Vec<&str> = self.present.iter().filter(is_new).copied().collect();
        if new.is_empty() || self.on_appearance == OnAppearance::Answer {
            return None;
        }
        let structured = json!({"ok": false, "appeared": new});
        Some(Answer { ok: false, text: format!("files of {} have appeared", new.join(", ")), structured })
    }

    /// A client calls a tool.
    pub(crate) fn on_call(&mut self, mux: &mut Mux, owner: Owner, params: &[u8]) {
        let given: Value = json::read(params).unwrap_or_default();
        let name = given["name"].as_str().unwrap_or_default();
        let token = member(params, "workDoneToken").and_then(|it| RawId::from_raw(&params[it]));
        let call = match LspTool::named(name) {
            None => Err(format!("unknown tool {name:?}")),
            Some(tool) => {
                let arguments = given.get("arguments").unwrap_or(&Value::Null);
                LspCall::read(tool, arguments, self.settings.max_results)
            }
        };
        match call {
            Err(why) => {
                let error = ToolError::new(Code::BadArguments, why);
                mux.answer(&owner, &error.answer().value());
            }
            Ok(asked) => {
                let number = self.next();
                let limit = match &asked {
                    LspCall::Request { timeout: Some(seconds), .. } => {
                        self.settings.time_limit.min(Duration::from_secs(*seconds as u64))
                    }
                    _ => self.settings.time_limit,
                };
                self.calls.insert(number, Call::new(number, owner, token, asked, mux.now(), limit));
                self.is_dirty = true;
            }
        }
    }

    /// The number of answers that clients are owed.
    pub(crate) fn n_owed(&self) -> usize {
        self.calls.len()
    }

    /// Whether a client is owed an answer under this id.
    pub(crate) fn owes(&self, client: ClientId, id: &RequestId) -> bool {
        self.calls.values().any(|it| it.is_of(client, id))
    }

    /// `$/cancelRequest` of a client. Whether it is about a call.
    pub(crate) fn cancels(&mut self, mux: &mut Mux, client: ClientId, frame: &Frame) -> bool {
        let Some(params) = frame.params() else { return false };
        let id = member(params, "id").and_then(|it| RawId::from_raw(&params[it])).map(RequestId::from);
        let Some(id) = id else { return false };
        let Some(number) = self.calls.values().find(|it| it.is_of(client, &id)).map(|it| it.number) else {
            return false;
        };
        // An edit is made whole. Its answer, which comes soon, says so.
        if self.calls.get(&number).is_some_and(Call::has_begun_to_write) {
            return true;
        }
        if let Some(call) = self.calls.remove(&number) {
            mux.fail(&call.owner, &Failure::new(Cause::Cancelled, "cancelled"));
        }
        self.forget(mux, number);
        true
    }

    /// A client is gone: nobody wants its answers.
    pub(crate) fn on_client_closed(&mut self, mux: &mut Mux, client: ClientId) {
        let of_client = |it: &&Call| matches!(&it.owner, Owner::Client(by, _) if *by == client);
        let numbers: Vec<u64> = self.calls.values().filter(of_client).map(|it| it.number).collect();
        for number in numbers {
            self.calls.remove(&number);
            self.forget(mux, number);
        }
    }

    /// A call is over: cancels what it has asked of servers.
    fn forget(&mut self, mux: &mut Mux, number: u64) {
        let open: Vec<u64> =
            self.asked.iter().filter(|(_, it)| it.call == number).map(|(id, _)| *id).collect();
        for id in open {
            self.asked.remove(&id);
            let params = Patch::of(b"{}").set("id", id.to_string().as_bytes()).finish();
            let frame = Frame::notification("$/cancelRequest", Some(&params));
            if let Some(sent) = mux.cancelled_by(ClientId::CODE_TOOLS, &frame) {
                mux.cancel(sent, Some(&frame));
            }
        }
    }

    /// Notes what a server says to everybody.
    pub(crate) fn observe(&mut self, mux: &Mux, process: ProcessId, frame: &Frame) {
        if frame.kind() == Kind::Response {
            return;
        }
        let Some(server) = mux.server_of(process) else { return };
        let Some(view) = self.views.get_mut(&server) else { return };
        self.last += 1;
        // What it works on while it owes an answer may be the answer.
        let work = match self.asked.values().any(|it| it.server == server) {
            true => Work::ForAnswer,
            false => Work::OfItsOwn,
        };
        self.is_dirty |= view.observe(process, frame, work, (self.last, mux.now()));
    }

    /// Handles a look at files: sends what has changed to the servers.
    pub(crate) fn on_looked(&mut self, mux: &mut Mux, seen: Seen) {
        self.apply(mux, &seen);
        // A look that has failed has seen nothing.
        if seen.partial.is_none() || !seen.others.is_empty() {
            let is_there =
                |it: &&Language| it.files.iter().any(|(ending, _)| seen.others.iter().any(|of| of == ending));
            self.present = languages().filter(is_there).map(|it| it.name).collect();
        }
        if let Some((number, key)) = self.looks.remove(&seen.number)
            && let Some(call) = self.calls.get_mut(&number)
        {
            call.memo.insert(key, Memo::Seen(Arc::new(seen)));
        }
        self.is_dirty = true;
    }

    /// Takes the messages for the code tools out of the effects, and goes on with the calls. Returns whether there was
    /// anything to do.
    pub(crate) fn settle(&mut self, mux: &mut Mux) -> bool {
        self.take_answers(mux);
        let now = mux.now();
        let mut has_followed = false;
        for (id, view) in &mut self.views {
            has_followed |= view.follow(&mux.state_of(*id), || mux.result_of(*id).map(<[u8]>::to_vec));
        }
        if has_followed {
            self.is_dirty = true;
            self.open_unsaved(mux);
        }
        let is_due = self.calls.values().any(|it| it.wake.is_some_and(|at| at <= now));
        if !std::mem::take(&mut self.is_dirty) && !is_due {
            return false;
        }
        self.tell_abilities(mux);
        for number in self.calls.keys().copied().collect::<Vec<_>>() {
            self.run(mux, number);
        }
        true
    }

    /// Tells the client what the servers can do, once all have said it, and when that changes.
    fn tell_abilities(&mut self, mux: &mut Mux) {
        let now: BTreeSet<&str> = self.views.values().flat_map(View::abilities).collect();
        if !self.views.values().all(View::is_known) || self.abilities.as_ref() == Some(&now) {
            return;
        }
        let params = json!({"abilities": now}).to_string();
        mux.tell_editor(Frame::notification("lspool/didChangeAbilities", Some(params.as_bytes())));
        self.abilities = Some(now);
    }

    fn take_answers(&mut self, mux: &mut Mux) {
        let is_own = |it: &Effect| matches!(it, Effect::Send(Peer::Client(client), _) if *client == ClientId::CODE_TOOLS);
        let Some(first) = mux.effects().iter().position(is_own) else { return };
        for effect in mux.take_effects(first) {
            match effect {
                Effect::Send(Peer::Client(ClientId::CODE_TOOLS), frame) => self.on_answer(&frame),
                other => mux.act(other),
            }
        }
    }

    fn on_answer(&mut self, frame: &Frame) {
        let id = frame.id().and_then(|it| it.as_u64());
        let Some(asked) = id.and_then(|it| self.asked.remove(&it)) else { return };
        let Some(call) = self.calls.get_mut(&asked.call) else { return };
        let answer = match frame.error_value() {
            Some(error) => Err(ServerError::read(error)),
            None => json::read(frame.result().unwrap_or(b"null")).map_err(|error| ServerError {
                code: 0,
                message: format!("unreadable answer: {error}"),
                cause: None,
                retry: false,
            }),
        };
        self.last += 1;
        call.memo.insert(asked.key, Memo::Answer(Arc::new(answer), self.last));
        self.is_dirty = true;
    }

    /// Goes on with a call, as far as it can.
    fn run(&mut self, mux: &mut Mux, number: u64) {
        let Some(mut call) = self.calls.remove(&number) else { return };
        let now = mux.now();
        call.wake = Some(call.until);
        let answer = match call::Cx::new(self, mux, &mut call).answer() {
            Some(answer) => answer,
            None if now >= call.until => {
                let seconds = call.limit.as_secs();
                let waits = call.waits_for();
                ToolError::new(Code::Timeout, format!("no answer within {seconds} s: {waits}")).answer()
            }
            None => {
                call.tell_progress(mux);
                self.calls.insert(number, call);
                return;
            }
        };
        self.finish(mux, &call, &answer);
    }

    fn finish(&mut self, mux: &mut Mux, call: &Call, answer: &Answer) {
        mux.answer(&call.owner, &answer.value());
        self.forget(mux, call.number);
        self.is_dirty = true;
    }

    /// When calls go on by themselves.
    pub(crate) fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        self.calls.values().filter_map(|it| it.wake).min().map(|at| (at, "a call of a code tool"))
    }

    /// Whether each request and look belongs to a call.
    pub(crate) fn check(&self) -> Result<(), String> {
        let lost = self.asked.values().find(|it| !self.calls.contains_key(&it.call));
        lost.map_or(Ok(()), |it| Err(format!("no call waits for {}", it.key)))
    }

    /// The state of each server, for the answer of `lsp_workspace`.
    fn servers(&self, now: Instant) -> Vec<Value> {
        self.views
            .values()
            .map(|it| {
                let (state, percent) = it.state_word(now);
                let mut value = json!({
                    "name": it.name, "state": state, "languages": it.language_names(), "can": it.abilities(),
                });
                if let Some(percent) = percent {
                    value["percent"] = percent.into();
                }
                value
            })
            .collect()
    }
}

/// The text of a URI under keys, as a path.
fn path_of(value: &[u8], keys: &[&str]) -> Option<PathBuf> {
    text(value, keys).and_then(|it| crate::rpc::file_path(&it))
}
