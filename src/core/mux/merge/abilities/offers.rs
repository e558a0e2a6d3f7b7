//! One thing that a server can do, by its answer to `initialize` or by a registration, and when it wants to be asked.

use serde_json::{Map, Value};

use super::{
    FileChange, IncludeText, Sync, SyncKind,
    filters::{FileFilter, Notebooks, OpenNotebook, Place, Selector, TextDocument, Watcher},
};
use crate::{
    core::{
        ids::RegistrationId,
        mux::merge::{
            capabilities::{Capability, Options, flag, is_yes, strings},
            methods::{MethodId, Methods, methods},
        },
    },
    rpc::{decode, elements, path, text},
};

#[derive(Debug)]
pub(super) struct Offer {
    /// Under which the server may take it back.
    pub(super) id: Option<RegistrationId>,
    /// The method of the registration.
    pub(super) registered: String,
    pub(super) what: What,
    pub(super) selector: Selector,
    pub(super) said: Said,
    /// Under which it wants to be asked for diagnostics.
    pub(super) identifier: Option<String>,
}

/// Where the server has said it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    InAnswer,
    InRegistration,
}

#[derive(Debug)]
pub(super) enum What {
    Requests(Methods, Condition),
    Commands(Methods, Vec<String>),
    Documents(Sync),
    /// The notification of this method, for these files.
    Operations(&'static str, Option<Vec<FileFilter>>),
    Folders,
    Notebooks(Notebooks, Saves),
    Watchers(Vec<Watcher>),
}

/// Whether a server of notebooks wants to know that one is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Saves {
    Told,
    Untold,
}

/// What the parameters of a request must say.
#[derive(Debug)]
pub(super) enum Condition {
    None,
    /// If typing caused the request: one of these was typed. The second ones count while there is an answer already.
    Typed(Vec<String>, Vec<String>),
    /// One of these was typed.
    OnType(Vec<String>),
    /// Kinds of code actions.
    Kinds(Vec<String>),
    Files(Vec<FileFilter>),
    Schemes(Vec<String>),
}

impl Offer {
    /// What an answer to `initialize` says of a capability.
    pub(super) fn fixed(capability: &'static Capability, options: &Value) -> Offer {
        // A string is the id of what may be taken back.
        let id = options.get("id").unwrap_or(options).as_str().map(RegistrationId::text);
        Offer::of(id, capability, options, Said::InAnswer)
    }

    fn of(id: Option<RegistrationId>, capability: &'static Capability, options: &Value, said: Said) -> Offer {
        let what = match capability.options {
            Options::Folders => What::Folders,
            Options::Notebooks => {
                let saves = if flag(options, &["save"]) { Saves::Told } else { Saves::Untold };
                What::Notebooks(Notebooks::of(options), saves)
            }
            Options::Commands => {
                let names = strings(options, "commands").unwrap_or_default();
                What::Commands(requests(capability, options), names)
            }
            Options::Files if requests(capability, options).is_empty() => {
                What::Operations(capability.registered, FileFilter::all(options))
            }
            _ => What::Requests(requests(capability, options), Condition::of(capability.options, options)),
        };
        let identifier = match capability.options {
            Options::Diagnostics => options.get("identifier").and_then(Value::as_str).map(str::to_owned),
            _ => None,
        };
        let registered = capability.registered.to_owned();
        Offer { id, registered, what, selector: Selector::of(options), said, identifier }
    }

    /// What a registration says; `None`: it is of nothing that lspool routes by.
    pub(super) fn registered(id: RegistrationId, method: &str, options: &Value) -> Option<Offer> {
        let what = match method {
            "textDocument/didOpen" | "textDocument/didClose" => {
                What::Documents(Sync { open_close: true, ..Sync::default() })
            }
            "textDocument/didChange" => {
                let change = SyncKind::of(options.get("syncKind"));
                What::Documents(Sync { change, ..Sync::default() })
            }
            "textDocument/didSave" => {
                What::Documents(Sync { save: Some(IncludeText::of(options)), ..Sync::default() })
            }
            "textDocument/willSave" => What::Documents(Sync { will_save: true, ..Sync::default() }),
            "workspace/didChangeWatchedFiles" => What::Watchers(Watcher::all(options)),
            method => {
                let capability = crate::core::mux::merge::capabilities::registered(method)?;
                return Some(Offer::of(Some(id), capability, options, Said::InRegistration));
            }
        };
        let (selector, said) = (Selector::of(options), Said::InRegistration);
        Some(Offer { id: Some(id), registered: method.to_owned(), what, selector, said, identifier: None })
    }

    /// What an answer to `initialize` says of documents.
    pub(super) fn documents(capabilities: &Map<String, Value>) -> Option<Offer> {
        let sync = Sync::of(capabilities.get("textDocumentSync").filter(|it| is_yes(it))?);
        let what = What::Documents(sync);
        let (selector, said) = (Selector::default(), Said::InAnswer);
        Some(Offer { id: None, registered: String::new(), what, selector, said, identifier: None })
    }

    /// The requests that it is about, and whether one of these may still be none for it.
    pub(super) fn requests(&self) -> (Methods, bool) {
        match &self.what {
            What::Requests(all, condition) => {
                (*all, self.selector.is_limit() || !matches!(condition, Condition::None))
            }
            What::Commands(all, _) => (*all, self.selector.is_limit()),
            What::Documents(_)
            | What::Operations(..)
            | What::Folders
            | What::Notebooks(..)
            | What::Watchers(_) => (Methods::NONE, false),
        }
    }

    pub(super) fn fits(&self, id: MethodId, params: &[u8], document: &TextDocument<'_>) -> bool {
        let (has_it, condition) = match &self.what {
            What::Requests(all, condition) => (all.has(id), condition.fits(params)),
            What::Commands(all, _) => (all.has(id), true),
            What::Documents(_)
            | What::Operations(..)
            | What::Folders
            | What::Notebooks(..)
            | What::Watchers(_) => return false,
        };
        has_it && condition && self.selector.fits(document)
    }

    /// Whether a file fits that a request or notification of this method is about.
    pub(super) fn fits_file(&self, method: &str, place: &Place) -> bool {
        match &self.what {
            What::Operations(told, filters) => {
                *told == method
                    && filters.as_ref().is_none_or(|all| all.iter().any(|filter| filter.fits(place)))
            }
            What::Requests(_, Condition::Files(filters)) => {
                self.registered == method && filters.iter().any(|filter| filter.fits(place))
            }
            What::Requests(..) => self.registered == method,
            What::Commands(..)
            | What::Documents(_)
            | What::Folders
            | What::Notebooks(..)
            | What::Watchers(_) => false,
        }
    }

    /// Whether it watches this file; `None`: it watches nothing.
    pub(super) fn watches(&self, place: &Place, change: Option<FileChange>) -> Option<bool> {
        match &self.what {
            What::Watchers(all) => Some(all.iter().any(|it| it.fits(place, change))),
            What::Requests(..)
            | What::Commands(..)
            | What::Documents(_)
            | What::Operations(..)
            | What::Folders
            | What::Notebooks(..) => None,
        }
    }

    pub(super) fn wants_notebook(&self, saved: Saves, notebook: &OpenNotebook<'_>) -> bool {
        match &self.what {
            What::Notebooks(all, saves) => {
                (saved == Saves::Untold || *saves == Saves::Told) && all.fits(notebook)
            }
            What::Requests(..)
            | What::Commands(..)
            | What::Documents(_)
            | What::Operations(..)
            | What::Folders
            | What::Watchers(_) => false,
        }
    }
}

/// The requests that a server with these options takes.
fn requests(capability: &Capability, options: &Value) -> Methods {
    let of_it = methods().filter(|it| it.capability == capability);
    of_it.filter(|it| it.option.is_empty() || flag(options, it.option)).map(|it| it.id).collect()
}

impl Condition {
    fn of(about: Options, options: &Value) -> Condition {
        let list = |key| strings(options, key).unwrap_or_default();
        match about {
            Options::Completion => Condition::Typed(list("triggerCharacters"), Vec::new()),
            Options::Signatures => Condition::Typed(list("triggerCharacters"), list("retriggerCharacters")),
            Options::OnType => {
                let first = options.get("firstTriggerCharacter").and_then(Value::as_str).map(str::to_owned);
                let mut all = list("moreTriggerCharacter");
                all.extend(first);
                if all.is_empty() { Condition::None } else { Condition::OnType(all) }
            }
            Options::CodeActions => match list("codeActionKinds") {
                none if none.is_empty() => Condition::None,
                kinds => Condition::Kinds(kinds),
            },
            Options::Files => FileFilter::all(options).map_or(Condition::None, Condition::Files),
            Options::Schemes => strings(options, "schemes").map_or(Condition::None, Condition::Schemes),
            Options::Plain
            | Options::Commands
            | Options::Diagnostics
            | Options::Folders
            | Options::Notebooks
            | Options::Sync
            | Options::Tokens => Condition::None,
        }
    }

    fn fits(&self, params: &[u8]) -> bool {
        match self {
            Condition::None => true,
            Condition::Typed(first, again) => {
                let Some(typed) = typed(params) else { return true };
                first.contains(&typed) || (is_again(params) && again.contains(&typed))
            }
            Condition::OnType(all) => text(params, &["ch"]).is_none_or(|it| all.contains(&it)),
            Condition::Kinds(all) => {
                let wanted = wanted_kinds(params);
                wanted.is_empty() || wanted.iter().any(|it| all.iter().any(|kind| overlap(it, kind)))
            }
            Condition::Files(filters) => {
                let mut files = operated(params);
                let fits = |it: Option<Place>| it.is_none_or(|it| filters.iter().any(|one| one.fits(&it)));
                files.next().is_none_or(fits) || files.any(fits)
            }
            Condition::Schemes(all) => {
                let place = text(params, &["uri"]).and_then(|it| Place::of(&it));
                place.is_none_or(|it| all.iter().any(|scheme| it.is_of_scheme(scheme)))
            }
        }
    }
}

/// What was typed, if typing is why the editor asks.
fn typed(params: &[u8]) -> Option<String> {
    let kind = path(params, &["context", "triggerKind"])?;
    (&params[kind] == b"2").then(|| text(params, &["context", "triggerCharacter"]))?
}

fn is_again(params: &[u8]) -> bool {
    path(params, &["context", "isRetrigger"]).is_some_and(|it| &params[it] == b"true")
}

/// The only kinds of code actions that are asked for.
pub(super) fn wanted_kinds(params: &[u8]) -> Vec<String> {
    let Some(only) = path(params, &["context", "only"]) else { return Vec::new() };
    let only = &params[only];
    elements(only).filter_map(|it| decode(&only[it]).map(std::borrow::Cow::into_owned)).collect()
}

/// The files of an operation; `None`: one that cannot be read.
pub(super) fn operated(params: &[u8]) -> impl Iterator<Item = Option<Place>> {
    let list = path(params, &["files"]).map_or(&b""[..], |it| &params[it]);
    elements(list).map(|it| place_of(&list[it]))
}

/// The file of an element of `files`: where it was, if it is renamed.
pub(super) fn place_of(file: &[u8]) -> Option<Place> {
    let uri = text(file, &["uri"]).or_else(|| text(file, &["oldUri"]))?;
    Place::of(uri.trim_end_matches('/'))
}

/// Whether a kind of code actions is the other one, or a part of it.
pub(super) fn is_within(narrow: &str, wide: &str) -> bool {
    wide.is_empty() || narrow.strip_prefix(wide).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Whether there may be code actions of both kinds.
pub(super) fn overlap(one: &str, other: &str) -> bool {
    is_within(one, other) || is_within(other, one)
}
