//! What a member of a group can do: as it said in the answer to `initialize`, and as it has registered since.
//!
//! It decides nothing about who is asked: it says who could be. **What it does not understand is a yes**: a member that is
//! asked too much says so.

mod filters;
mod limit;
mod offers;

pub(crate) use self::{
    filters::{FileChange, Globs, TextDocument},
    limit::Limit,
};
use self::{
    filters::{OpenNotebook, Place},
    offers::{Offer, Said, Saves, What},
};
use super::{
    capabilities::{self, capabilities, flag, is_yes},
    methods::{Method, MethodId, Methods, method},
};
use crate::{
    core::ids::RegistrationId,
    rpc::{Patch, decode, elements, member, path, text, values},
    util::json,
};
use serde_json::Value;

/// What a server wants to hear of documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sync {
    pub(crate) open_close: bool,
    pub(crate) change: SyncKind,
    pub(crate) will_save: bool,
    pub(crate) will_save_wait_until: bool,
    pub(crate) save: Option<IncludeText>,
}

/// How a server takes changes of a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SyncKind {
    #[default]
    None,
    Full,
    Incremental,
}

/// Whether a server wants the text of a document that is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum IncludeText {
    Without,
    With,
}

impl SyncKind {
    /// One that the protocol does not have gets whole texts: they are right whatever it means.
    fn of(value: Option<&Value>) -> SyncKind {
        match value.filter(|it| is_yes(it)).map(Value::as_u64) {
            None | Some(Some(0)) => SyncKind::None,
            Some(Some(2)) => SyncKind::Incremental,
            Some(Some(_) | None) => SyncKind::Full,
        }
    }
}

impl IncludeText {
    fn of(options: &Value) -> IncludeText {
        if flag(options, &["includeText"]) { IncludeText::With } else { IncludeText::Without }
    }
}

impl Sync {
    /// What `textDocumentSync` says: a kind, as of old, or options.
    pub(super) fn of(value: &Value) -> Sync {
        let Value::Object(_) = value else {
            let change = SyncKind::of(Some(value));
            let is_any = change != SyncKind::None;
            let save = is_any.then_some(IncludeText::Without);
            return Sync { open_close: is_any, change, save, ..Sync::default() };
        };
        Sync {
            open_close: flag(value, &["openClose"]),
            change: SyncKind::of(value.get("change")),
            will_save: flag(value, &["willSave"]),
            will_save_wait_until: flag(value, &["willSaveWaitUntil"]),
            save: value.get("save").filter(|it| is_yes(it)).map(IncludeText::of),
        }
    }

    /// What one of two wants.
    #[must_use]
    pub(super) fn or(self, other: Sync) -> Sync {
        Sync {
            open_close: self.open_close | other.open_close,
            change: self.change.max(other.change),
            will_save: self.will_save | other.will_save,
            will_save_wait_until: self.will_save_wait_until | other.will_save_wait_until,
            save: self.save.max(other.save),
        }
    }
}

/// What of a message a member is to get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Portion {
    Nothing,
    /// These parameters instead.
    Some(Vec<u8>),
    Whole,
}

/// What a member can do.
#[derive(Debug)]
pub(crate) struct Abilities {
    offers: Vec<Offer>,
    limit: Limit,
    encoding: String,
    commit_characters: Option<Vec<u8>>,
    /// What follows from the offers: requests that it takes always, and those that it takes for some parameters.
    always: Methods,
    sometimes: Methods,
    sync: Sync,
    commands: Vec<String>,
}

impl Abilities {
    /// What the answer to `initialize` says.
    pub(crate) fn of_result(result: &[u8]) -> Abilities {
        let told = capabilities(result);
        let fixed = |it: &'static capabilities::Capability| Some(Offer::fixed(it, it.of(&told)?));
        let mut offers: Vec<Offer> = capabilities::ALL.iter().filter_map(fixed).collect();
        offers.extend(Offer::documents(&told));
        let encoding = told.get("positionEncoding").and_then(Value::as_str);
        let commit = path(result, &["capabilities", "completionProvider", "allCommitCharacters"]);
        let mut abilities = Abilities {
            offers,
            limit: Limit::default(),
            encoding: encoding.unwrap_or("utf-16").to_owned(),
            commit_characters: commit.map(|it| result[it].to_vec()).filter(|it| it.starts_with(b"[")),
            always: Methods::NONE,
            sometimes: Methods::NONE,
            sync: Sync::default(),
            commands: Vec::new(),
        };
        abilities.renew();
        abilities
    }

    /// `client/registerCapability`.
    pub(crate) fn register(&mut self, params: &[u8]) {
        let Some(list) = member(params, "registrations") else { return };
        let list = &params[list];
        for one in elements(list) {
            self.add(&list[one]);
        }
        self.renew();
    }

    fn add(&mut self, one: &[u8]) {
        let [Some(id), Some(method), options] = values(one, ["id", "method", "registerOptions"]) else {
            return;
        };
        let (Some(id), Some(method)) = (RegistrationId::from_raw(id), decode(method)) else { return };
        let options = options.map_or(Value::Null, |it| json::read(it).unwrap_or(Value::Null));
        self.offers.retain(|it| it.id.as_ref() != Some(&id) || it.registered != method);
        self.offers.extend(Offer::registered(id, &method, &options));
    }

    /// `client/unregisterCapability`, in the protocol's own spelling or in the right one.
    pub(crate) fn unregister(&mut self, params: &[u8]) {
        let spelled = |key| member(params, key);
        let Some(list) = spelled("unregisterations").or_else(|| spelled("unregistrations")) else { return };
        let list = &params[list];
        for one in elements(list) {
            let one = &list[one];
            let Some(id) = member(one, "id").and_then(|it| RegistrationId::from_raw(&one[it])) else {
                continue;
            };
            let method = text(one, &["method"]);
            let is_it = |it: &Offer| {
                it.id.as_ref() == Some(&id) && method.as_ref().is_none_or(|method| it.registered == *method)
            };
            self.offers.retain(|it| !is_it(it));
        }
        self.renew();
    }

    /// What the configuration lets the member be used for.
    pub(crate) fn limit(&mut self, limit: Limit) {
        self.limit = limit;
        self.renew();
    }

    /// Computes anew what follows from the offers.
    fn renew(&mut self) {
        (self.always, self.sometimes) = (Methods::NONE, Methods::NONE);
        (self.sync, self.commands) = (Sync::default(), Vec::new());
        for offer in &self.offers {
            match offer.requests() {
                (all, true) => self.sometimes = self.sometimes.and(all),
                (all, false) => self.always = self.always.and(all),
            }
            match &offer.what {
                What::Documents(sync) => self.sync = self.sync.or(*sync),
                What::Commands(_, names) => self.commands.extend(names.iter().cloned()),
                What::Requests(..)
                | What::Operations(..)
                | What::Folders
                | What::Notebooks(..)
                | What::Watchers(_) => {}
            }
        }
        let waits = method("textDocument/willSaveWaitUntil").expect("it is in the table").id;
        self.sync.will_save_wait_until =
            self.always.and(self.sometimes).has(waits) && self.limit.methods().has(waits);
        if self.limit.has_kinds() {
            let actions = method("textDocument/codeAction").expect("it is in the table").id;
            if self.always.has(actions) {
                self.always = self.always.without(Methods::NONE.with(actions));
                self.sometimes = self.sometimes.with(actions);
            }
        }
    }

    /// Whether it takes this request about a document.
    pub(crate) fn can(&self, method: &Method, params: &[u8], document: &TextDocument<'_>) -> bool {
        if !self.limit.methods().has(method.id) {
            return false;
        }
        self.always.has(method.id)
            || (self.sometimes.has(method.id) && self.can_this(method, params, document))
    }

    fn can_this(&self, method: &Method, params: &[u8], document: &TextDocument<'_>) -> bool {
        if method.name == "textDocument/codeAction" && !self.limit.allows_one(&offers::wanted_kinds(params)) {
            return false;
        }
        self.offers.iter().any(|it| it.fits(method.id, params, document))
    }

    /// Whether it takes some request of this method.
    pub(crate) fn has(&self, method: &Method) -> bool {
        self.limit.methods().has(method.id) && self.always.and(self.sometimes).has(method.id)
    }

    /// Whether its diagnostics are shown that it says unasked.
    pub(crate) fn publishes(&self) -> bool {
        self.limit.methods().has(MethodId::PUBLISH)
    }

    /// Whether code actions of this kind are taken from it; `None`: of no kind, or commands.
    pub(crate) fn allows_kind(&self, kind: Option<&str>) -> bool {
        self.limit.allows_kind(kind)
    }

    /// Whether some kinds of code actions are not taken from it.
    pub(crate) fn has_kinds(&self) -> bool {
        self.limit.has_kinds()
    }

    /// What it wants to hear of documents.
    pub(crate) fn sync(&self) -> Sync {
        self.sync
    }

    /// How it counts in a line.
    pub(crate) fn encoding(&self) -> &str {
        &self.encoding
    }

    fn diagnostics(&self) -> impl Iterator<Item = &Offer> {
        self.offers.iter().filter(|it| it.registered == capabilities::DIAGNOSTIC.registered)
    }

    /// Under which name it is asked for diagnostics, if it has said one.
    pub(crate) fn diagnostics_identifier(&self) -> Option<&str> {
        self.diagnostics().find_map(|it| it.identifier.as_deref())
    }

    /// Whether it has said that it is asked for diagnostics under this name.
    pub(crate) fn has_identifier(&self, identifier: &str) -> bool {
        self.diagnostics().any(|it| it.identifier.as_deref() == Some(identifier))
    }

    /// Whether it is asked for diagnostics with others, because it said so at once or has no name for it.
    pub(crate) fn is_asked_with_others(&self) -> bool {
        self.diagnostics().any(|it| it.said == Said::InAnswer || it.identifier.is_none())
    }

    /// What its commands are called.
    pub(crate) fn commands(&self) -> &[String] {
        let commands = method("workspace/executeCommand").expect("it is in the table").id;
        if self.limit.methods().has(commands) { &self.commands } else { &[] }
    }

    /// The `allCommitCharacters` of its completions, as JSON.
    pub(crate) fn commit_characters(&self) -> Option<&[u8]> {
        self.commit_characters.as_deref()
    }

    /// Whether it has asked for this change of a file; `None`: it has registered no watcher. A kind of change that the
    /// protocol does not have is of all kinds.
    pub(crate) fn watches(&self, uri: &str, change: Option<FileChange>) -> Option<bool> {
        let Some(place) = Place::of(uri) else { return self.has_watcher().then_some(true) };
        self.offers.iter().filter_map(|it| it.watches(&place, change)).reduce(|one, other| one | other)
    }

    /// Whether it has asked to hear of changes of files.
    pub(crate) fn has_watcher(&self) -> bool {
        self.offers.iter().any(|it| matches!(it.what, What::Watchers(_)))
    }

    /// What of a `workspace/didChangeWatchedFiles` it has asked for; `None`: it has registered no watcher.
    pub(crate) fn watched(&self, params: &[u8]) -> Option<Portion> {
        if !self.has_watcher() {
            return None;
        }
        let is_asked = |change: &[u8]| {
            let [uri, kind] = values(change, ["uri", "type"]);
            let uri = uri.and_then(decode);
            let kind = kind.and_then(|it| std::str::from_utf8(it).ok()?.parse().ok());
            uri.is_none_or(|it| self.watches(&it, kind.and_then(FileChange::of_type)) == Some(true))
        };
        Some(portion(params, "changes", is_asked))
    }

    /// What of an operation on files it has asked for.
    pub(crate) fn operated(&self, method: &str, params: &[u8]) -> Portion {
        if !self.limit.allows(method) {
            return Portion::Nothing;
        }
        let is_asked = |file: &[u8]| match offers::place_of(file) {
            Some(place) => self.offers.iter().any(|it| it.fits_file(method, &place)),
            None => self.offers.iter().any(|it| it.registered == method),
        };
        portion(params, "files", is_asked)
    }

    /// Whether it wants a notification of the editor about a document.
    pub(crate) fn wants_notification(
        &self,
        method: &str,
        params: &[u8],
        document: &TextDocument<'_>,
    ) -> bool {
        match method {
            "textDocument/didOpen" | "textDocument/didClose" => self.wants(document, |it| it.open_close),
            "textDocument/didChange" => self.wants(document, |it| it.change != SyncKind::None),
            "textDocument/didSave" => self.wants(document, |it| it.save.is_some()),
            "textDocument/willSave" => self.wants(document, |it| it.will_save),
            "workspace/didChangeWatchedFiles" => self.watched(params) != Some(Portion::Nothing),
            "workspace/didChangeWorkspaceFolders" => {
                self.offers.iter().any(|it| matches!(it.what, What::Folders))
            }
            "workspace/didCreateFiles" | "workspace/didDeleteFiles" | "workspace/didRenameFiles" => {
                self.operated(method, params) != Portion::Nothing
            }
            "notebookDocument/didSave" => self.wants_notebook(Saves::Told, params),
            "notebookDocument/didOpen" | "notebookDocument/didChange" | "notebookDocument/didClose" => {
                self.wants_notebook(Saves::Untold, params)
            }
            _ => true,
        }
    }

    fn wants(&self, document: &TextDocument<'_>, is_wanted: impl Fn(&Sync) -> bool) -> bool {
        let wants = |it: &Offer| match &it.what {
            What::Documents(sync) => is_wanted(sync) && it.selector.fits(document),
            What::Requests(..)
            | What::Commands(..)
            | What::Operations(..)
            | What::Folders
            | What::Notebooks(..)
            | What::Watchers(_) => false,
        };
        self.offers.iter().any(wants)
    }

    /// Whether it wants to hear of some notebooks.
    pub(crate) fn has_notebooks(&self) -> bool {
        self.offers.iter().any(|it| matches!(it.what, What::Notebooks(..)))
    }

    fn wants_notebook(&self, saved: Saves, params: &[u8]) -> bool {
        let kind = text(params, &["notebookDocument", "notebookType"]);
        let place = text(params, &["notebookDocument", "uri"]).and_then(|it| Place::of(&it));
        let cells = member(params, "cellTextDocuments").map(|it| &params[it]);
        let language = |cells: &[u8], it| text(&cells[it], &["languageId"]);
        let languages: Option<Vec<String>> =
            cells.map(|cells| elements(cells).filter_map(|it| language(cells, it)).collect());
        let notebook = OpenNotebook {
            kind: kind.as_deref(),
            place,
            languages: languages.as_ref().map(|it| it.iter().map(String::as_str).collect()),
        };
        self.offers.iter().any(|it| it.wants_notebook(saved, &notebook))
    }
}

/// The elements of a list in these parameters that are asked for.
fn portion(params: &[u8], key: &str, is_asked: impl Fn(&[u8]) -> bool) -> Portion {
    let Some(range) = member(params, key) else { return Portion::Whole };
    let list = &params[range];
    let all: Vec<&[u8]> = elements(list).map(|it| &list[it]).collect();
    let asked: Vec<&[u8]> = all.iter().copied().filter(|it| is_asked(it)).collect();
    match asked.len() {
        n if n == all.len() => Portion::Whole,
        0 => Portion::Nothing,
        _ => {
            let list = [b"[", &asked.join(&b","[..])[..], b"]"].concat();
            Portion::Some(Patch::of(params).set(key, &list).finish())
        }
    }
}

#[cfg(test)]
mod tests;
