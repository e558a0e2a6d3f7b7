//! What a server says of documents, files and notebooks that concern it: selectors, filters, watchers.
//!
//! **A filter that lspool does not understand fits**: a server that is told too much ignores it, one that is told too
//! little is wrong.

use std::{
    cell::OnceCell,
    path::{Path, PathBuf},
};

use globset::{GlobBuilder, GlobMatcher};
use lsp_types::{
    DocumentFilter, FileOperationFilter, FileSystemWatcher, GlobPattern, Notebook, NotebookDocumentFilter,
    NotebookSelector, OneOf, WatchKind,
};
use serde::Deserialize as _;
use serde_json::Value;

use crate::rpc::{file_path, member, text, values};

/// A document or a file, as it is asked about.
#[derive(Clone, Debug)]
pub(super) struct Place {
    scheme: String,
    path: PathBuf,
}

impl Place {
    pub(super) fn of(uri: &str) -> Option<Place> {
        let (scheme, rest) = uri.split_once(':')?;
        let path = file_path(uri).unwrap_or_else(|| PathBuf::from(rest.trim_start_matches("//")));
        Some(Place { scheme: scheme.to_ascii_lowercase(), path })
    }

    pub(super) fn is_of_scheme(&self, scheme: &str) -> bool {
        self.scheme.eq_ignore_ascii_case(scheme)
    }
}

/// The document that a message is about: read at most once for all members.
#[derive(Debug)]
pub(crate) struct TextDocument<'a> {
    params: &'a [u8],
    members: OnceCell<Members>,
    place: OnceCell<Option<Place>>,
}

#[derive(Debug, Default)]
struct Members {
    uri: Option<String>,
    /// Only `didOpen` has it.
    language: Option<String>,
}

impl<'a> TextDocument<'a> {
    /// Of a message with these parameters.
    pub(crate) fn of(params: &'a [u8]) -> TextDocument<'a> {
        TextDocument { params, members: OnceCell::new(), place: OnceCell::new() }
    }

    /// The same, if its URI has been read, and there is no language in it.
    pub(crate) fn with(params: &'a [u8], uri: &str) -> TextDocument<'a> {
        let members = Members { uri: Some(uri.to_owned()), language: None };
        TextDocument { params, members: OnceCell::from(members), place: OnceCell::new() }
    }

    pub(crate) fn uri(&self) -> Option<&str> {
        self.members().uri.as_deref()
    }

    pub(crate) fn language(&self) -> Option<&str> {
        self.members().language.as_deref()
    }

    fn members(&self) -> &Members {
        self.members.get_or_init(|| {
            let Some(document) = member(self.params, "textDocument") else { return Members::default() };
            let document = &self.params[document];
            let [uri, language] = values(document, ["uri", "languageId"]).map(|it| text(it?, &[]));
            Members { uri, language }
        })
    }

    fn place(&self) -> Option<&Place> {
        self.place.get_or_init(|| Place::of(self.uri()?)).as_ref()
    }
}

/// A pattern of paths.
#[derive(Debug)]
enum Pattern {
    /// None was given, or it cannot be read.
    Any,
    Glob(GlobMatcher),
}

/// The most alternatives in a pattern: they are read by recursion.
const MOST_ALTERNATIVES: usize = 64;

#[derive(Clone, Copy)]
enum Case {
    Exact,
    Ignored,
}

impl Pattern {
    fn of(pattern: Option<&str>, case: Case) -> Pattern {
        let Some(pattern) = pattern.filter(|it| it.matches('{').count() <= MOST_ALTERNATIVES) else {
            return Pattern::Any;
        };
        // Not of a whole path: it counts from a folder that lspool does not know.
        let is_whole = pattern.starts_with('/') || pattern.starts_with("**");
        let pattern = if is_whole { pattern.to_owned() } else { format!("**/{pattern}") };
        let mut glob = GlobBuilder::new(&pattern);
        glob.literal_separator(true).empty_alternates(true).case_insensitive(matches!(case, Case::Ignored));
        glob.build().map_or(Pattern::Any, |it| Pattern::Glob(it.compile_matcher()))
    }

    fn is_any(&self) -> bool {
        matches!(self, Pattern::Any)
    }

    fn fits(&self, path: &Path) -> bool {
        match self {
            Pattern::Any => true,
            Pattern::Glob(glob) => glob.is_match(path),
        }
    }
}

/// Patterns of which one must fit.
#[derive(Debug)]
pub(crate) struct Globs(Vec<Pattern>);

impl Globs {
    /// `None`: there are none.
    pub(crate) fn of(globs: &[String]) -> Option<Globs> {
        let all: Vec<Pattern> = globs.iter().map(|it| Pattern::of(Some(it), Case::Exact)).collect();
        (!all.is_empty()).then_some(Globs(all))
    }

    pub(crate) fn fit(&self, uri: &str) -> bool {
        Place::of(uri).is_some_and(|it| self.0.iter().any(|glob| glob.fits(&it.path)))
    }
}

/// Which documents a registration is for.
#[derive(Debug, Default)]
pub(super) struct Selector(Option<Vec<OneDocument>>);

#[derive(Debug)]
struct OneDocument {
    language: Option<String>,
    scheme: Option<String>,
    pattern: Pattern,
}

impl Selector {
    /// What `documentSelector` of these options says. Without one: all that the editor asks this server about.
    pub(super) fn of(options: &Value) -> Selector {
        let list = options.get("documentSelector").and_then(Value::as_array);
        Selector(list.map(|it| it.iter().map(OneDocument::of).collect()))
    }

    /// Whether there is a document that it does not fit.
    pub(super) fn is_limit(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn fits(&self, document: &TextDocument<'_>) -> bool {
        self.0.as_ref().is_none_or(|all| all.iter().any(|it| it.fits(document)))
    }
}

impl OneDocument {
    fn of(value: &Value) -> OneDocument {
        let read = match value {
            // A language alone, as of old.
            Value::String(language) => {
                DocumentFilter { language: Some(language.clone()), scheme: None, pattern: None }
            }
            other => DocumentFilter::deserialize(other).unwrap_or(DocumentFilter {
                language: None,
                scheme: None,
                pattern: None,
            }),
        };
        let pattern = Pattern::of(read.pattern.as_deref(), Case::Exact);
        OneDocument { language: read.language, scheme: read.scheme, pattern }
    }

    /// What is not known of the document is no reason against it.
    fn fits(&self, document: &TextDocument<'_>) -> bool {
        let is_language = |wanted: &str| wanted == "*" || document.language().is_none_or(|it| it == wanted);
        let is_scheme =
            |wanted: &str| wanted == "*" || document.place().is_none_or(|it| it.is_of_scheme(wanted));
        self.language.as_deref().is_none_or(is_language)
            && self.scheme.as_deref().is_none_or(is_scheme)
            && (self.pattern.is_any() || document.place().is_none_or(|it| self.pattern.fits(&it.path)))
    }
}

/// Files of an operation. Whether a path is of a file or a folder is not known, so both fit.
#[derive(Debug)]
pub(super) struct FileFilter {
    scheme: Option<String>,
    pattern: Pattern,
}

impl FileFilter {
    /// The `filters` of these options; `None`: they cannot be read.
    pub(super) fn all(options: &Value) -> Option<Vec<FileFilter>> {
        Some(options.get("filters")?.as_array()?.iter().map(FileFilter::of).collect())
    }

    fn of(value: &Value) -> FileFilter {
        let Ok(read) = FileOperationFilter::deserialize(value) else {
            return FileFilter { scheme: None, pattern: Pattern::Any };
        };
        let ignores_case = read.pattern.options.and_then(|it| it.ignore_case).unwrap_or(false);
        let case = if ignores_case { Case::Ignored } else { Case::Exact };
        FileFilter { scheme: read.scheme, pattern: Pattern::of(Some(&read.pattern.glob), case) }
    }

    pub(super) fn fits(&self, place: &Place) -> bool {
        self.scheme.as_deref().is_none_or(|it| place.is_of_scheme(it)) && self.pattern.fits(&place.path)
    }
}

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileChange {
    Created,
    Changed,
    Deleted,
}

impl FileChange {
    /// The `FileChangeType` of the protocol.
    pub(crate) fn of_type(number: u64) -> Option<FileChange> {
        match number {
            1 => Some(FileChange::Created),
            2 => Some(FileChange::Changed),
            3 => Some(FileChange::Deleted),
            _ => None,
        }
    }

    fn kind(self) -> WatchKind {
        match self {
            FileChange::Created => WatchKind::Create,
            FileChange::Changed => WatchKind::Change,
            FileChange::Deleted => WatchKind::Delete,
        }
    }
}

/// Files that a server wants to hear of.
#[derive(Debug)]
pub(super) struct Watcher {
    pattern: Pattern,
    kinds: WatchKind,
}

impl Watcher {
    pub(super) fn all(options: &Value) -> Vec<Watcher> {
        let list = options.get("watchers").and_then(Value::as_array);
        list.map_or_else(Vec::new, |it| it.iter().map(Watcher::of).collect())
    }

    fn of(value: &Value) -> Watcher {
        let Ok(read) = FileSystemWatcher::deserialize(value) else {
            return Watcher { pattern: Pattern::Any, kinds: WatchKind::all() };
        };
        let pattern = match read.glob_pattern {
            GlobPattern::String(it) => Pattern::of(Some(&it), Case::Exact),
            GlobPattern::Relative(it) => {
                let base = match &it.base_uri {
                    OneOf::Left(folder) => folder.uri.as_str(),
                    OneOf::Right(uri) => uri.as_str(),
                };
                Pattern::below(base, &it.pattern)
            }
        };
        Watcher { pattern, kinds: read.kind.unwrap_or(WatchKind::all()) }
    }

    pub(super) fn fits(&self, place: &Place, change: Option<FileChange>) -> bool {
        change.is_none_or(|it| self.kinds.contains(it.kind())) && self.pattern.fits(&place.path)
    }
}

impl Pattern {
    /// A pattern that counts from a folder.
    fn below(base: &str, pattern: &str) -> Pattern {
        let Some(base) = file_path(base) else { return Pattern::of(Some(pattern), Case::Exact) };
        let base = globset::escape(base.to_string_lossy().trim_end_matches('/'));
        Pattern::of(Some(&format!("{base}/{pattern}")), Case::Exact)
    }
}

/// A notebook, as far as a message tells.
#[derive(Debug)]
pub(super) struct OpenNotebook<'a> {
    pub(super) kind: Option<&'a str>,
    pub(super) place: Option<Place>,
    /// Languages of its cells, if they are known.
    pub(super) languages: Option<Vec<&'a str>>,
}

/// Which notebooks a server is told of.
#[derive(Debug, Default)]
pub(super) struct Notebooks {
    selectors: Vec<OneNotebook>,
}

#[derive(Debug)]
struct OneNotebook {
    kind: Option<String>,
    scheme: Option<String>,
    pattern: Pattern,
    languages: Option<Vec<String>>,
}

impl Notebooks {
    pub(super) fn of(options: &Value) -> Notebooks {
        let list = options.get("notebookSelector").and_then(Value::as_array);
        let unreadable = || vec![OneNotebook::any()];
        Notebooks { selectors: list.map_or_else(unreadable, |it| it.iter().map(OneNotebook::of).collect()) }
    }

    pub(super) fn fits(&self, notebook: &OpenNotebook<'_>) -> bool {
        self.selectors.iter().any(|it| it.fits(notebook))
    }
}

impl OneNotebook {
    fn any() -> OneNotebook {
        OneNotebook { kind: None, scheme: None, pattern: Pattern::Any, languages: None }
    }

    fn of(value: &Value) -> OneNotebook {
        let Ok(read) = NotebookSelector::deserialize(value) else { return OneNotebook::any() };
        let (notebook, cells) = match read {
            NotebookSelector::ByNotebook { notebook, cells } => (Some(notebook), cells),
            NotebookSelector::ByCells { notebook, cells } => (notebook, Some(cells)),
        };
        let (kind, scheme, pattern) = match notebook {
            None => (None, None, None),
            Some(Notebook::String(kind)) => (Some(kind), None, None),
            Some(Notebook::NotebookDocumentFilter(filter)) => match filter {
                NotebookDocumentFilter::ByType { notebook_type, scheme, pattern } => {
                    (Some(notebook_type), scheme, pattern)
                }
                NotebookDocumentFilter::ByScheme { notebook_type, scheme, pattern } => {
                    (notebook_type, Some(scheme), pattern)
                }
                NotebookDocumentFilter::ByPattern { notebook_type, scheme, pattern } => {
                    (notebook_type, scheme, Some(pattern))
                }
            },
        };
        let languages = cells.map(|it| it.into_iter().map(|cell| cell.language).collect());
        OneNotebook { kind, scheme, pattern: Pattern::of(pattern.as_deref(), Case::Exact), languages }
    }

    fn fits(&self, notebook: &OpenNotebook<'_>) -> bool {
        let OpenNotebook { kind, place, languages } = notebook;
        let is_kind = |wanted: &str| wanted == "*" || kind.is_none_or(|it| it == wanted);
        let has_cell = |wanted: &[String], cells: &[&str]| {
            cells.iter().any(|cell| wanted.iter().any(|it| it == "*" || it == cell))
        };
        let cells_fit = match (&self.languages, languages) {
            (Some(wanted), Some(cells)) => has_cell(wanted, cells),
            (None, _) | (_, None) => true,
        };
        let place_fits = |it: &Place| {
            self.scheme.as_deref().is_none_or(|wanted| it.is_of_scheme(wanted)) && self.pattern.fits(&it.path)
        };
        self.kind.as_deref().is_none_or(is_kind) && place.as_ref().is_none_or(place_fits) && cells_fit
    }
}
