//! A call under way.
//!
//! A call is a plain function that runs from its beginning whenever something has happened. What it has asked is
//! remembered under a key, so it goes as far as there are answers, asks the next question, and stops. **Each question is
//! asked once**, and what a call has once seen stays the same for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    Asked, CodeTools,
    edits::Ready,
    view::{Readiness, View},
};
use crate::{
    builtin_tools::lsp::{Answer, Code, FileReport, LspCall, Text, ToolError},
    config::OnLoading,
    core::{
        event::{ClientId, Look, Peer, Seen, ServerId, Unreadable, Word, WriteFault},
        ids::RequestId,
        mux::{Mux, requests::Owner},
    },
    rpc::{Frame, RawId, file_uri, text},
    util::json,
};

/// How long before its end a call answers with what it has, at most.
const LAST: Duration = Duration::from_secs(4);

/// How long to wait before a question is repeated.
const AGAIN: Duration = Duration::from_millis(500);

/// How often a question is asked.
const TRIES: u32 = 4;

/// Keys without a prefix.
const PLANNED: &str = "planned";
const WRITES: &str = "writes";

/// A call.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) number: u64,
    pub(super) owner: Owner,
    token: Option<RawId>,
    asked: LspCall,
    pub(super) limit: Duration,
    pub(super) until: Instant,
    /// When it answers with what it has.
    last_words: Instant,
    pub(super) memo: BTreeMap<String, Memo>,
    /// When it goes on by itself.
    pub(super) wake: Option<Instant>,
    /// What it waits for, for people.
    waits: String,
    told: String,
    n_told: u32,
}

/// What is known under a key.
#[derive(Clone, Debug)]
pub(super) enum Memo {
    Asked,
    /// The answer of a server, and when it came.
    Answer(Arc<Result<Value, ServerError>>, u64),
    Seen(Arc<Seen>),
    /// The edit of the call, once it is planned.
    Ready(Ready),
    /// What servers said of files at a time.
    Reports(Arc<[FileReport]>),
    /// Whether files are written.
    Wrote(Result<(), WriteFault>),
    Since(Instant),
    Value(Value),
}

/// An error of a server, or of lspool in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerError {
    pub(super) code: i64,
    pub(super) message: String,
    /// Why lspool says it: the server did not answer.
    pub(super) cause: Option<String>,
    pub(super) retry: bool,
}

impl ServerError {
    pub(super) fn read(error: &[u8]) -> ServerError {
        let value: Value = json::read(error).unwrap_or_default();
        ServerError {
            code: value["code"].as_i64().unwrap_or_default(),
            message: text(error, &["message"]).unwrap_or_default(),
            cause: value["data"]["lspool"]["cause"].as_str().map(ToOwned::to_owned),
            retry: value["data"]["lspool"]["retry"].as_bool().unwrap_or_default(),
        }
    }

    /// Whether the same question may get an answer soon: the server has died, or was at another text.
    fn passes(&self) -> bool {
        const CONTENT_MODIFIED: i64 = -32801;
        const SERVER_CANCELLED: i64 = -32802;
        match self.cause.as_deref() {
            Some(cause) => self.retry || cause == "crashed" || cause == "transport" || cause == "restarting",
            None => [CONTENT_MODIFIED, SERVER_CANCELLED].contains(&self.code),
        }
    }
}

impl From<ServerError> for Stop {
    fn from(it: ServerError) -> Stop {
        let code = if it.cause.is_some() { Code::ServerFailed } else { Code::ServerError };
        let retry = it.retry || it.passes();
        Stop::Fail(Box::new(ToolError { retry, ..ToolError::new(code, it.message) }))
    }
}

/// Why a call does not go on.
#[derive(Clone, Debug)]
pub(super) enum Stop {
    /// It waits for something.
    Wait,
    /// It fails.
    Fail(Box<ToolError>),
}

/// One step of a call.
pub(super) type Step<T> = Result<T, Stop>;

/// Fails a call.
pub(super) fn fail<T>(code: Code, message: impl Into<String>) -> Step<T> {
    Err(Stop::Fail(Box::new(ToolError::new(code, message))))
}

impl Call {
    pub(super) fn new(
        number: u64,
        owner: Owner,
        token: Option<RawId>,
        asked: LspCall,
        now: Instant,
        limit: Duration,
    ) -> Call {
        Call {
            number,
            owner,
            token,
            asked,
            limit,
            until: now + limit,
            last_words: now + limit.saturating_sub(LAST.min(limit / 4)),
            memo: BTreeMap::new(),
            wake: None,
            waits: String::new(),
            told: String::new(),
            n_told: 0,
        }
    }

    pub(super) fn is_of(&self, client: ClientId, id: &RequestId) -> bool {
        matches!(&self.owner, Owner::Client(by, of) if *by == client && of == id)
    }

    /// Whether it changes files, or has.
    pub(super) fn has_begun_to_write(&self) -> bool {
        self.memo.contains_key(WRITES)
    }

    pub(super) fn waits_for(&self) -> &str {
        &self.waits
    }

    /// Reports to the caller what it waits for, if the caller wants progress.
    pub(super) fn tell_progress(&mut self, mux: &mut Mux) {
        let (Some(token), Owner::Client(client, _)) = (&self.token, &self.owner) else { return };
        if self.told == self.waits {
            return;
        }
        self.told.clone_from(&self.waits);
        let kind = if self.n_told == 0 { "begin" } else { "report" };
        self.n_told += 1;
        let token: Value = json::read(token.as_bytes()).unwrap_or_default();
        let value = json!({"kind": kind, "title": "lspool", "message": self.waits});
        let params = json!({"token": token, "value": value}).to_string();
        mux.send(Peer::Client(*client), Frame::notification("$/progress", Some(params.as_bytes())));
    }
}

/// A call with all that it may use.
pub(super) struct Cx<'a> {
    pub(super) tools: &'a mut CodeTools,
    pub(super) mux: &'a mut Mux,
    call: &'a mut Call,
    /// Goes before each key: a call that begins again asks all again.
    pub(super) prefix: String,
    /// The files whose text the answer uses.
    pub(super) used: BTreeSet<PathBuf>,
}

impl<'a> Cx<'a> {
    pub(super) fn new(tools: &'a mut CodeTools, mux: &'a mut Mux, call: &'a mut Call) -> Cx<'a> {
        Cx { tools, mux, call, prefix: String::new(), used: BTreeSet::new() }
    }

    /// The answer, if it is known.
    pub(super) fn answer(mut self) -> Option<Answer> {
        let asked = self.call.asked.clone();
        self.call.waits.clear();
        match self.carry_out(&asked) {
            Ok(answer) => Some(answer),
            Err(Stop::Fail(error)) => Some(error.answer()),
            Err(Stop::Wait) => None,
        }
    }

    pub(super) fn now(&self) -> Instant {
        self.mux.now()
    }

    pub(super) fn view(&self, server: ServerId) -> &View {
        self.tools.views.get(&server).expect("a view of each server is there from the beginning")
    }

    fn view_mut(&mut self, server: ServerId) -> &mut View {
        self.tools.views.get_mut(&server).expect("a view of each server is there from the beginning")
    }

    /// When a call must have said what it knows.
    pub(super) fn last_moment(&self) -> Instant {
        self.call.last_words + LAST / 2
    }

    /// Whether a call must end soon.
    pub(super) fn is_late(&mut self) -> bool {
        let at = self.call.last_words;
        self.wake_at(at);
        self.now() >= at
    }

    pub(super) fn wake_at(&mut self, at: Instant) {
        if at > self.now() {
            self.call.wake = Some(self.call.wake.map_or(at, |it| it.min(at)));
        }
    }

    pub(super) fn waiting<T>(&mut self, what: String) -> Step<T> {
        if self.call.waits.is_empty() {
            self.call.waits = what;
        }
        Err(Stop::Wait)
    }

    fn key(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// What was found out once.
    pub(super) fn once(&mut self, key: &str, value: impl FnOnce(&mut Self) -> Value) -> Value {
        let key = self.key(key);
        if let Some(Memo::Value(value)) = self.call.memo.get(&key) {
            return value.clone();
        }
        let value = value(self);
        self.call.memo.insert(key, Memo::Value(value.clone()));
        value
    }

    pub(super) fn known(&self, key: &str) -> Option<&Value> {
        match self.call.memo.get(&self.key(key)) {
            Some(Memo::Value(value)) => Some(value),
            _ => None,
        }
    }

    /// The edit of the call, once it is planned.
    pub(super) fn planned_edit(&self) -> Option<Ready> {
        match self.call.memo.get(PLANNED) {
            Some(Memo::Ready(ready)) => Some(ready.clone()),
            _ => None,
        }
    }

    pub(super) fn note_planned(&mut self, ready: Ready) -> Ready {
        self.call.memo.insert(PLANNED.to_owned(), Memo::Ready(ready.clone()));
        ready
    }

    pub(super) fn reports(&self, key: &str) -> Option<Arc<[FileReport]>> {
        match self.call.memo.get(&self.key(key)) {
            Some(Memo::Reports(reports)) => Some(Arc::clone(reports)),
            _ => None,
        }
    }

    pub(super) fn note_reports(&mut self, key: &str, reports: Vec<FileReport>) -> Arc<[FileReport]> {
        let reports: Arc<[FileReport]> = reports.into();
        let key = self.key(key);
        self.call.memo.insert(key, Memo::Reports(Arc::clone(&reports)));
        reports
    }

    /// The result of a write that has ended.
    pub(super) fn written(&self, key: &str) -> Option<Result<(), WriteFault>> {
        match self.call.memo.get(&self.key(key)) {
            Some(Memo::Wrote(result)) => Some(result.clone()),
            _ => None,
        }
    }

    /// Notes that the call writes. Gives the call and the full key, for the result.
    pub(super) fn begin_to_write(&mut self, key: &str) -> (u64, String) {
        let key = self.key(key);
        self.call.memo.insert(WRITES.to_owned(), Memo::Asked);
        (self.call.number, key)
    }

    pub(super) fn has_begun_to_write(&self) -> bool {
        self.call.has_begun_to_write()
    }

    /// When a key was first asked for.
    pub(super) fn since(&mut self, key: &str) -> Instant {
        let (key, now) = (self.key(key), self.now());
        match self.call.memo.entry(key).or_insert(Memo::Since(now)) {
            Memo::Since(at) => *at,
            _ => now,
        }
    }

    /// Waits for a while.
    pub(super) fn pause(&mut self, key: &str, time: Duration, what: &str) -> Step<()> {
        let until = self.since(key) + time;
        if self.now() >= until {
            return Ok(());
        }
        self.wake_at(until);
        self.waiting(what.to_owned())
    }

    /// Asks a server. What passes is asked again.
    pub(super) fn ask(
        &mut self,
        key: &str,
        server: ServerId,
        method: &str,
        params: &Value,
    ) -> Step<Result<Value, ServerError>> {
        self.ask_at(key, server, method, params).map(|it| it.0)
    }

    /// The same, with the moment of the answer.
    pub(super) fn ask_at(
        &mut self,
        key: &str,
        server: ServerId,
        method: &str,
        params: &Value,
    ) -> Step<(Result<Value, ServerError>, u64)> {
        self.ask_up_to(TRIES, key, server, method, params)
    }

    /// Asks a server for something that may have an effect: once, whatever comes.
    pub(super) fn ask_once(
        &mut self,
        key: &str,
        server: ServerId,
        method: &str,
        params: &Value,
    ) -> Step<Result<Value, ServerError>> {
        self.ask_up_to(1, key, server, method, params).map(|it| it.0)
    }

    fn ask_up_to(
        &mut self,
        tries: u32,
        key: &str,
        server: ServerId,
        method: &str,
        params: &Value,
    ) -> Step<(Result<Value, ServerError>, u64)> {
        let last =
            (0..tries).rfind(|n| self.call.memo.contains_key(&self.key(&format!("{key}~{n}")))).unwrap_or(0);
        for n in 0..tries {
            let key = format!("{key}~{n}");
            let full = self.key(&key);
            let (answer, at) = match self.call.memo.get(&full) {
                Some(Memo::Answer(answer, at)) => (Arc::clone(answer), *at),
                Some(_) => {
                    let what = format!("{} is working on {method}", self.view(server).name);
                    return self.waiting(what);
                }
                None => {
                    let id = self.tools.next();
                    let asked = Asked { server, call: self.call.number, key: full.clone() };
                    self.tools.asked.insert(id, asked);
                    self.call.memo.insert(full, Memo::Asked);
                    let frame = Frame::request(RawId::from(id), method, Some(params.to_string().as_bytes()));
                    self.mux.ask_server(server, ClientId::CODE_TOOLS, RawId::from(id).into(), &frame);
                    let what = format!("{} is working on {method}", self.view(server).name);
                    return self.waiting(what);
                }
            };
            match &*answer {
                Err(error) if error.passes() && n + 1 < tries && (n < last || !self.is_late()) => {
                    let what = format!("{} has not answered, and is asked again", self.view(server).name);
                    self.pause(&format!("{key}.again"), AGAIN, &what)?;
                }
                answer => return Ok((answer.clone(), at)),
            }
        }
        fail(Code::ServerFailed, format!("{} did not answer {method}", self.view(server).name))
    }

    /// Whether a question was asked.
    pub(super) fn has_asked(&self, key: &str) -> bool {
        self.call.memo.contains_key(&self.key(&format!("{key}~0")))
    }

    /// Looks at files.
    pub(super) fn look(&mut self, key: &str, read: Vec<PathBuf>, word: Option<Word>) -> Step<Arc<Seen>> {
        self.look_for(key, Look { read, word, ..Look::default() })
    }

    /// The same, for anything that a look can tell.
    pub(super) fn look_for(&mut self, key: &str, look: Look) -> Step<Arc<Seen>> {
        let full = self.key(key);
        match self.call.memo.get(&full) {
            Some(Memo::Seen(seen)) => return Ok(Arc::clone(seen)),
            Some(_) => {}
            None => {
                let number = self.tools.next();
                self.tools.looks.insert(number, (self.call.number, full.clone()));
                self.call.memo.insert(full, Memo::Asked);
                self.tools.look(self.mux, Look { number, ..look });
            }
        }
        self.waiting("lspool looks at the files".to_owned())
    }

    /// What the looks of the call may have missed.
    pub(super) fn missed(&self) -> Option<String> {
        self.call.memo.values().find_map(|it| {
            let Memo::Seen(seen) = it else { return None };
            seen.partial.clone()
        })
    }

    /// The text of a file: as lspool sent it to servers, or as it was read.
    pub(super) fn text(&mut self, file: &Path) -> Step<Arc<Text>> {
        match self.text_if_readable(file)? {
            Ok(text) => Ok(text),
            Err(why) => {
                let code = match why {
                    Unreadable::Outside => Code::OutsideWorkspace,
                    Unreadable::Missing
                    | Unreadable::Folder
                    | Unreadable::Binary
                    | Unreadable::Large
                    | Unreadable::Denied => Code::NoFile,
                };
                fail(code, format!("{} {}", self.shown(file), reason(why)))
            }
        }
    }

    /// Reads several files with one look, before each is asked for.
    pub(super) fn read_all(&mut self, key: &str, files: &[PathBuf]) -> Step<()> {
        let is_unread = |it: &&PathBuf| {
            self.tools.files.text(it).is_none() && !self.call.memo.contains_key(&self.key(&self.text_key(it)))
        };
        let unread: Vec<PathBuf> = files.iter().filter(is_unread).cloned().collect();
        if unread.len() < 2 {
            return Ok(());
        }
        let names: Vec<String> = unread.iter().map(|it| self.text_key(it)).collect();
        // The files that are left to be read are others when the call runs again.
        let seen = self.look(&format!("{key} {}", names.join(" ")), unread, None)?;
        for name in names {
            let name = self.key(&name);
            self.call.memo.insert(name, Memo::Seen(Arc::clone(&seen)));
        }
        Ok(())
    }

    /// A text that was read before a change was seen is not read again by itself.
    fn text_key(&self, file: &Path) -> String {
        format!("text {} {}", self.tools.files.last_change_of(file), file.display())
    }

    /// The same; or why it cannot be read.
    pub(super) fn text_if_readable(&mut self, file: &Path) -> Step<Result<Arc<Text>, Unreadable>> {
        self.used.insert(file.to_owned());
        if let Some(text) = self.tools.files.text(file) {
            return Ok(Ok(text));
        }
        let key = self.text_key(file);
        let seen = self.look(&key, vec![file.to_owned()], None)?;
        let found = seen.texts.iter().find(|(it, _)| it == file).map(|(_, it)| it);
        Ok(match found {
            Some(Ok(text)) => Ok(Arc::new(Text::new(text.as_str()))),
            Some(Err(why)) => Err(*why),
            None => Err(Unreadable::Denied),
        })
    }

    /// Opens a document at a server.
    pub(super) fn open(&mut self, server: ServerId, file: &Path) -> Step<Arc<Text>> {
        let text = self.text(file)?;
        self.tools.open(self.mux, server, file, &text);
        Ok(text)
    }

    /// Notes that a server has answered about a document.
    pub(super) fn note_answered(&mut self, server: ServerId) {
        let now = self.now();
        self.view_mut(server).note_answered(now);
    }

    /// Waits until a server has loaded its project, for a while. Returns why it has not.
    pub(super) fn ready(&mut self, key: &str, server: ServerId) -> Step<Option<String>> {
        if let Some(known) = self.known(key) {
            return Ok(known.as_str().map(ToOwned::to_owned));
        }
        let until =
            (self.since(&format!("{key}.since")) + self.tools.settings.ready_wait).min(self.call.last_words);
        let (now, name) = (self.now(), self.view(server).name.clone());
        let (why, check) = match self.view(server).readiness(now) {
            Readiness::Ready(_) => {
                self.once(key, |_| Value::Null);
                return Ok(None);
            }
            Readiness::Failed(why) => return fail(Code::ServerFailed, format!("{name} does not run: {why}")),
            Readiness::Starting => (format!("{name} is starting"), None),
            Readiness::Loading { percent: Some(percent), until } => {
                (format!("{name} is loading, {percent} %"), until)
            }
            Readiness::Loading { percent: None, until } => (format!("{name} is loading"), until),
        };
        if self.tools.settings.on_loading == OnLoading::Error {
            return fail(Code::Loading, format!("{why}: ask again later"));
        }
        if now >= until {
            self.once(key, |_| why.clone().into());
            return Ok(Some(why));
        }
        self.wake_at(check.unwrap_or(until).min(until));
        self.waiting(why)
    }

    /// The size of an answer's text, in bytes.
    pub(super) fn most_of_text(&self) -> usize {
        self.tools.settings.max_output
    }

    /// A path as people read it: relative to the first folder, if it is in there.
    pub(super) fn shown(&self, file: &Path) -> String {
        let folder = self.tools.folders.first();
        let below = folder.and_then(|it| file.strip_prefix(it).ok()).filter(|it| !it.as_os_str().is_empty());
        below.unwrap_or(file).display().to_string()
    }

    /// Whether a file is in a folder of the workspace.
    pub(super) fn is_inside(&self, file: &Path) -> bool {
        self.tools.folders.iter().any(|it| file.starts_with(it))
    }
}

/// Why the text of a file is missing, after its name.
pub(super) fn reason(why: Unreadable) -> &'static str {
    match why {
        Unreadable::Missing => "does not exist",
        Unreadable::Outside => "is outside the workspace",
        Unreadable::Folder => "is a folder",
        Unreadable::Binary => "is not text in UTF-8",
        Unreadable::Large => "is larger than lspool reads",
        Unreadable::Denied => "cannot be read",
    }
}

/// The parameters of a question about a document.
pub(super) fn document(file: &Path) -> Value {
    json!({"textDocument": {"uri": file_uri(file)}})
}
