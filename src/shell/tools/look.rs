//! Looks at the files of the workspace for the code tools: what has changed since the last look, texts, and words.
//!
//! Remembers a stamp of each file that counts. Decides nothing: what a change means is up to the core. **Looks are
//! carried out one after the other**, so that their results come in the order of the files' history.

#[cfg(test)]
mod tests;
mod through_editor;
mod unsaved;
mod words;

use std::{
    collections::BTreeMap,
    fs::{self, Metadata},
    io::{ErrorKind, Read as _},
    path::{Path, PathBuf},
    rc::Rc,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
    time::{Duration, SystemTime},
};

use tokio::task::{spawn_blocking, spawn_local};

pub(crate) use self::unsaved::real_path;
use self::{
    through_editor::Way,
    unsaved::Unsaved,
    words::{WordSearch, lines_matching},
};
use super::{
    search::{Until, matcher},
    walk::Walk,
    workspace::{Missing, Place, Workspace},
    write::{Journals, UNDISTURBED, recover},
};
use crate::{
    builtin_tools::lsp::Editors,
    config::ToolsConfig,
    core::event::{Event, Grep, Look, Seen, Unreadable, Word, WordHits, WordMatch, Write, WriteFault, Wrote},
    shell::{
        inbox::Events,
        os::{
            fault::Why,
            files::{Times, identity, times},
        },
        private::Files,
        process::EditorLink,
    },
    util::fnv::fnv1a,
};

/// The most files that count.
const MOST_FILES: usize = 100_000;
/// The largest text that is read, in bytes.
const MOST_OF_FILE: u64 = 4 << 20;
/// How many created files are read, to send their texts to servers.
const MOST_CREATED: usize = 256;
/// The size of all their texts, in bytes.
const MOST_OF_CREATED: usize = 32 << 20;
/// How many files that hold a word are reported.
const MOST_HITS: usize = 5000;
/// How many of their lines. Of further files, only the number of lines is reported.
const MOST_LINES_OF_ALL: usize = 40_000;
/// How many files and folders that cannot be read are reported.
const MOST_UNREAD: usize = 100;
/// The number of lines reported for each file that holds a word.
const MOST_LINES: usize = 40;
/// The longest part of such a line, in bytes.
const MOST_OF_LINE: usize = 400;
/// A file that changed this shortly before a look may change again without another time.
const RACY: Duration = Duration::from_secs(2);

/// What earlier looks have seen.
#[derive(Debug, Default)]
pub(super) struct Looker {
    known: Arc<Mutex<Stamps>>,
    order: Files,
    /// The folder for state that outlives lspool.
    state: Option<PathBuf>,
}

#[derive(Debug, Default)]
struct Stamps {
    /// The files that count. `None` before the first look.
    counted: Option<BTreeMap<PathBuf, Stamp>>,
    /// Files that are open at a server and do not count, such as ignored ones.
    others: BTreeMap<PathBuf, Stamp>,
}

/// By what a change of a file is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    place: (u64, u64),
    size: u64,
    times: Times,
    /// The hash of the content, if the file was so young that its times prove nothing.
    content: Option<u64>,
}

impl Stamp {
    fn of(it: &Metadata) -> Stamp {
        Stamp { place: identity(it), size: it.len(), times: times(it), content: None }
    }

    fn is_same_but_for_content(&self, other: &Stamp) -> bool {
        Stamp { content: None, ..*self } == Stamp { content: None, ..*other }
    }
}

impl Looker {
    pub(super) fn new(state: Option<PathBuf>) -> Looker {
        Looker { state, ..Looker::default() }
    }

    /// Makes an edit, after all earlier looks.
    pub(super) fn write(
        &self,
        write: Write,
        editors: Option<Rc<dyn EditorLink>>,
        open: impl Fn(&[PathBuf]) -> Result<Workspace, String> + Send + Sync + 'static,
        events: &Events,
    ) {
        let (order, state, events) = (self.order.clone(), self.state.clone(), events.clone());
        let open: through_editor::Opener = Arc::new(move |write| open(&write.folders));
        spawn_local(async move {
            let _turn = order.turn().await;
            let number = write.number;
            let result = written(Arc::new(write), state, editors, open).await;
            events.tell(Event::Wrote(Box::new(Wrote { number, result })));
        });
    }

    /// Looks, after all earlier looks.
    pub(super) fn look(
        &self,
        look: Look,
        editors: Option<Rc<dyn EditorLink>>,
        open: impl FnOnce(&[PathBuf]) -> Result<Workspace, String> + Send + 'static,
        events: &Events,
    ) {
        let (known, number) = (self.known.clone(), look.number);
        let (order, state, events) = (self.order.clone(), self.state.clone(), events.clone());
        spawn_local(async move {
            let _turn = order.turn().await;
            let failed = |why: String| Seen { number, partial: Some(why), ..Seen::default() };
            let looking = documents(editors.as_ref(), &look.folders).await.map(|documents| {
                spawn_blocking(move || {
                    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                    match open(&look.folders) {
                        Ok(workspace) => {
                            if known.counted.is_none() {
                                recover(&workspace, &Journals::of(state.as_deref(), &look.folders));
                            }
                            seen(&look, &workspace, &mut known, &documents)
                        }
                        Err(why) => Seen { number, partial: Some(why), ..Seen::default() },
                    }
                })
            });
            let seen = match looking {
                Ok(looking) => looking.await.unwrap_or_else(|error| failed(error.to_string())),
                Err(why) => failed(why),
            };
            events.tell(Event::Looked(Box::new(seen)));
        });
    }
}

/// What editors have open. Without editors, nothing is.
async fn documents(editors: Option<&Rc<dyn EditorLink>>, folders: &[PathBuf]) -> Result<Editors, String> {
    match editors {
        Some(editors) => editors.documents(folders.to_vec()).await,
        None => Ok(Editors::default()),
    }
}

/// Makes an edit: on the disk, or through an editor that has a file of it open.
async fn written(
    write: Arc<Write>,
    state: Option<PathBuf>,
    editors: Option<Rc<dyn EditorLink>>,
    open: through_editor::Opener,
) -> Result<(), WriteFault> {
    let documents = documents(editors.as_ref(), &write.folders).await.map_err(WriteFault::Failed)?;
    if let Some(why) = documents.unknown {
        return Err(WriteFault::Failed(why));
    }
    let (asked, opener) = (Arc::clone(&write), Arc::clone(&open));
    let writing = spawn_blocking(move || {
        let workspace = opener(&asked).map_err(WriteFault::Failed)?;
        if let Some(way) = through_editor::way(&asked, &documents, &workspace)? {
            return Ok(way);
        }
        let journals = Journals::of(state.as_deref(), &asked.folders);
        Ok(Way::Written(super::write::write(&asked, &workspace, &journals, UNDISTURBED)))
    });
    let way = writing.await.map_err(|error| WriteFault::Failed(error.to_string()))??;
    match (way, editors) {
        (Way::Written(result), _) => result,
        (Way::Editor(editor, edit), Some(editors)) => {
            through_editor::make(&write, (editor, edit), &editors, &open).await
        }
        (Way::Editor(..), None) => Err(WriteFault::Failed("there is no editor".to_owned())),
    }
}

fn seen(look: &Look, workspace: &Workspace, known: &mut Stamps, editors: &Editors) -> Seen {
    let seen = seen_of(look, workspace, known, (editors, MOST_FILES));
    Seen { partial: editors.unknown.clone().or(seen.partial), ..seen }
}

fn seen_of(
    look: &Look,
    workspace: &Workspace,
    known: &mut Stamps,
    (editors, most_files): (&Editors, usize),
) -> Seen {
    let (never, limits) = (AtomicBool::new(false), ToolsConfig::default());
    let until = Until::new(&never, &limits);
    let mut it = Sight {
        seen: Seen { number: look.number, ..Seen::default() },
        workspace,
        unsaved: Unsaved::new(editors, workspace),
        now: now(),
        is_first: known.counted.is_none(),
        before: known.counted.take().unwrap_or_default(),
        after: BTreeMap::new(),
        files: Vec::new(),
        all: Vec::new(),
        hidden: Vec::new(),
        elsewhere: Vec::new(),
    };
    'roots: for root in workspace.folders().map(Path::to_owned).collect::<Vec<_>>() {
        let mut walk = Walk::new(workspace, &root, &until);
        for path in walk.by_ref() {
            it.note_other(&path, &look.others);
            if look.grep.is_some() {
                it.all.push(path.clone());
            }
            // A workspace folder may be inside another one.
            if it.after.contains_key(&path) {
                continue;
            }
            if !has_ending(&path, &look.endings) {
                if look.word.as_ref().is_some_and(|word| has_ending(&path, &word.endings)) {
                    it.elsewhere.push(path);
                }
                continue;
            }
            if it.after.len() >= most_files {
                it.seen.partial = Some(format!("lspool looks at {most_files} files at most"));
                break 'roots;
            }
            it.count(path);
        }
        it.seen.closed.extend(walk.into_closed());
        it.seen.closed.truncate(MOST_UNREAD);
    }
    it.count_new(look);
    if let Err(why) = until.check() {
        it.seen.partial = Some(why);
    }
    it.note_removed();
    it.read_open(look, &mut known.others);
    for path in &look.read {
        it.add_text(path);
    }
    let entered = |it: &PathBuf| Some((it.clone(), workspace.entered(it)?));
    it.seen.resolved = look.resolve.iter().filter_map(entered).collect();
    if let Some(word) = &look.word {
        it.search(word, &until);
    }
    if let Some(grep) = &look.grep {
        it.grep(grep, &until);
    }
    it.seen.n_files = it.after.len();
    known.counted = Some(it.after);
    it.seen
}

/// The wall clock: file systems know no other.
fn now() -> SystemTime {
    #[expect(clippy::disallowed_methods, reason = "it is compared with times of files")]
    SystemTime::now()
}

fn has_ending(path: &Path, endings: &[String]) -> bool {
    let Some(name) = path.file_name().and_then(|it| it.to_str()) else { return false };
    endings.iter().any(|it| it.is_empty() || name == it || it.starts_with('.') && name.ends_with(it.as_str()))
}

/// A look under way.
struct Sight<'a> {
    seen: Seen,
    workspace: &'a Workspace,
    unsaved: Unsaved,
    now: SystemTime,
    is_first: bool,
    before: BTreeMap<PathBuf, Stamp>,
    after: BTreeMap<PathBuf, Stamp>,
    /// The files that count, in their order.
    files: Vec<PathBuf>,
    /// All files, if they are to be searched for a text.
    all: Vec<PathBuf>,
    /// Files that count and are in a folder that lspool may list but not enter.
    hidden: Vec<PathBuf>,
    /// Files of other languages that are searched.
    elsewhere: Vec<PathBuf>,
}

impl Sight<'_> {
    fn note_other(&mut self, path: &Path, others: &[String]) {
        let of_path = others.iter().find(|it| has_ending(path, std::slice::from_ref(it)));
        if let Some(ending) = of_path.filter(|it| !self.seen.others.contains(it)) {
            self.seen.others.push(ending.clone());
        }
    }

    /// Counts the files that only an editor has.
    fn count_new(&mut self, look: &Look) {
        for path in self.unsaved.new_files().to_vec() {
            self.note_other(&path, &look.others);
            if look.grep.is_some() {
                self.all.push(path.clone());
            }
            if self.after.contains_key(&path) {
                continue;
            }
            if has_ending(&path, &look.endings) {
                self.count(path);
            } else if look.word.as_ref().is_some_and(|word| has_ending(&path, &word.endings)) {
                self.elsewhere.push(path);
            }
        }
    }

    fn count(&mut self, path: PathBuf) {
        let on_disk = || stamp(self.workspace, &path, self.before.get(&path), self.now);
        let Some(stamp) = self.unsaved.stamp(&path).or_else(on_disk) else {
            if fs::symlink_metadata(&path).is_err_and(|it| it.kind() != ErrorKind::NotFound) {
                self.hidden.push(path);
            }
            return;
        };
        match self.before.get(&path) {
            None if self.is_first => {}
            None => self.seen.created.push(path.clone()),
            Some(before) if has_changed(before, &stamp) => self.seen.changed.push(path.clone()),
            Some(_) => {}
        }
        self.files.push(path.clone());
        self.after.insert(path, stamp);
    }

    fn note_removed(&mut self) {
        // What a look did not reach is not gone.
        if self.seen.partial.is_some() {
            let missed = self.before.iter().filter(|(path, _)| !self.after.contains_key(*path));
            let missed: Vec<_> = missed.map(|(path, it)| (path.clone(), *it)).collect();
            self.after.extend(missed);
            return;
        }
        let gone = self.before.keys().filter(|it| !self.after.contains_key(*it));
        self.seen.removed = gone.cloned().collect();
    }

    /// Reads what is open at a server and has changed, and what is new.
    fn read_open(&mut self, look: &Look, others: &mut BTreeMap<PathBuf, Stamp>) {
        for path in &look.open {
            if self.after.contains_key(path) {
                if self.seen.changed.contains(path) || self.seen.created.contains(path) {
                    self.add_text(path);
                }
                continue;
            }
            // Such as an ignored file, or a link.
            let on_disk = || stamp_of_target(self.workspace, path, others.get(path), self.now);
            match self.unsaved.stamp(path).or_else(on_disk) {
                None => {
                    others.remove(path);
                    self.add_text(path);
                }
                Some(stamp) => {
                    let is_new = others.get(path).is_none_or(|before| has_changed(before, &stamp));
                    others.insert(path.clone(), stamp);
                    if is_new {
                        self.add_text(path);
                    }
                }
            }
        }
        self.seen.unsaved = self.unsaved.files().cloned().collect();
        for path in self.seen.unsaved.clone() {
            let before = self.before.get(&path);
            let is_new = |now: &Stamp| before.is_none_or(|before| has_changed(before, now));
            if self.after.get(&path).is_some_and(is_new) {
                self.add_text(&path);
            }
        }
        let mut size = 0;
        for path in self.seen.created.clone().iter().take(MOST_CREATED) {
            let length = self.after.get(path).map_or(0, |it| usize::try_from(it.size).unwrap_or(usize::MAX));
            size = length.saturating_add(size);
            if size <= MOST_OF_CREATED {
                self.add_text(path);
            }
        }
    }

    fn add_text(&mut self, path: &Path) {
        if self.seen.texts.iter().all(|(it, _)| it != path) {
            let unsaved = self.unsaved.text_through_links(path, self.workspace);
            let text = unsaved.map_or_else(|| text(self.workspace, path), |it| it.map(ToOwned::to_owned));
            self.seen.texts.push((path.to_owned(), text));
        }
    }

    fn search(&mut self, word: &Word, until: &Until<'_>) {
        let search = WordSearch::new(word);
        let mut n_lines = 0;
        for path in self.hidden.iter().filter(|it| has_ending(it, &word.endings)) {
            self.seen.unread.push((path.clone(), Unreadable::Denied));
        }
        let files = self.files.iter().chain(&self.elsewhere);
        for path in files.filter(|it| has_ending(it, &word.endings)) {
            if let Err(why) = until.check() {
                self.seen.partial = Some(why);
                break;
            }
            if word.matching == WordMatch::Any {
                let file = path.clone();
                self.seen.hits.push(WordHits { file, n_lines: 0, lines: Vec::new() });
                continue;
            }
            if self.seen.hits.len() == MOST_HITS {
                self.seen.partial = Some(format!("more than {MOST_HITS} files hold {:?}", word.text));
                break;
            }
            let found = match self.unsaved.text(path) {
                Some(text) => text.map(|it| search.hits(path, it.as_bytes())),
                None => match self.workspace.found(path) {
                    Some(place) => search.file(path, &place, until),
                    None => continue,
                },
            };
            match found {
                Ok(None) => {}
                Ok(Some(mut hits)) => {
                    n_lines += hits.lines.len();
                    if n_lines > MOST_LINES_OF_ALL {
                        hits.lines.clear();
                    }
                    self.seen.hits.push(hits);
                }
                Err(why) => self.seen.unread.push((path.clone(), why)),
            }
        }
        self.bound_unread();
    }

    fn bound_unread(&mut self) {
        let n_unread = self.seen.unread.len();
        if n_unread > MOST_UNREAD {
            self.seen.unread.truncate(MOST_UNREAD);
            self.seen.partial.get_or_insert_with(|| format!("{n_unread} files cannot be read"));
        }
    }
}

impl Sight<'_> {
    /// Searches all files for a text.
    fn grep(&mut self, grep: &Grep, until: &Until<'_>) {
        let matcher = match matcher(&grep.query, grep.is_regex) {
            Ok(matcher) => matcher,
            Err(why) => return self.seen.invalid = Some(why),
        };
        let mut n_lines = 0;
        // A workspace folder may be inside another one.
        self.all.sort_unstable();
        self.all.dedup();
        for path in &self.all {
            if let Err(why) = until.check() {
                self.seen.partial = Some(why);
                break;
            }
            if n_lines > MOST_LINES_OF_ALL {
                self.seen.partial = Some(format!("more than {MOST_LINES_OF_ALL} lines match"));
                break;
            }
            let found = match self.unsaved.text(path) {
                Some(text) => text.map(|it| it.as_bytes().to_vec()),
                None => match self.workspace.found(path) {
                    Some(place) => content(&place),
                    None => continue,
                },
            };
            match found {
                Ok(bytes) => {
                    let hits = lines_matching(&matcher, path, &bytes);
                    n_lines += hits.as_ref().map_or(0, |it| it.lines.len());
                    self.seen.hits.extend(hits);
                }
                Err(why @ (Unreadable::Large | Unreadable::Denied)) => {
                    self.seen.unread.push((path.clone(), why));
                }
                Err(Unreadable::Missing | Unreadable::Outside | Unreadable::Folder | Unreadable::Binary) => {}
            }
        }
        self.bound_unread();
    }
}

fn has_changed(before: &Stamp, now: &Stamp) -> bool {
    match (before.content, now.content) {
        (Some(before), Some(now)) => before != now,
        // The file was young, and is the same by its times only.
        (None | Some(_), _) => !before.is_same_but_for_content(now),
    }
}

/// The stamp of a file, with the hash of its content if times prove nothing: it is young, or it was at the last look.
fn stamp(workspace: &Workspace, path: &Path, before: Option<&Stamp>, now: SystemTime) -> Option<Stamp> {
    let meta = fs::symlink_metadata(path).ok()?;
    let content = || workspace.found(path).and_then(|it| content(&it).ok());
    Some(stamped(&meta, before, now, content))
}

/// The stamp of the file to which a path leads, also through links inside the workspace.
fn stamp_of_target(
    workspace: &Workspace,
    path: &Path,
    before: Option<&Stamp>,
    now: SystemTime,
) -> Option<Stamp> {
    let place = workspace.find(path.to_str()?, Missing::Refuse).ok()?;
    let (file, _) = place.open_plain().ok()?;
    let meta = file.metadata().ok()?;
    Some(stamped(&meta, before, now, || content(&place).ok()))
}

fn stamped(
    meta: &Metadata,
    before: Option<&Stamp>,
    now: SystemTime,
    content: impl FnOnce() -> Option<Vec<u8>>,
) -> Stamp {
    let is_young = meta.modified().is_ok_and(|it| now.duration_since(it).is_ok_and(|age| age < RACY))
        || meta.modified().is_ok_and(|it| it > now);
    let mut stamp = Stamp::of(meta);
    let was_young = before.is_some_and(|it| it.content.is_some() && it.is_same_but_for_content(&stamp));
    if is_young || was_young {
        stamp.content = content().map(|it| fnv1a(&it));
    }
    stamp
}

/// The text of a file of the workspace, without its byte order mark.
fn text(workspace: &Workspace, path: &Path) -> Result<String, Unreadable> {
    let name = path.to_str().ok_or(Unreadable::Missing)?;
    let place = workspace.find(name, Missing::Refuse).map_err(|_| match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Unreadable::Missing,
        _ => Unreadable::Outside,
    })?;
    let bytes = content(&place)?;
    if bytes.contains(&0) {
        return Err(Unreadable::Binary);
    }
    let text = String::from_utf8(bytes).map_err(|_| Unreadable::Binary)?;
    Ok(text.strip_prefix('\u{feff}').map(ToOwned::to_owned).unwrap_or(text))
}

fn content(place: &Place) -> Result<Vec<u8>, Unreadable> {
    let (file, stat) = place.open_plain().map_err(|fault| match fault.why() {
        Why::Missing | Why::NotFolder => Unreadable::Missing,
        Why::IsFolder => Unreadable::Folder,
        _ => Unreadable::Denied,
    })?;
    if stat.size() > MOST_OF_FILE {
        return Err(Unreadable::Large);
    }
    let mut bytes = Vec::new();
    file.take(MOST_OF_FILE + 1).read_to_end(&mut bytes).map_err(|_| Unreadable::Denied)?;
    if bytes.len() as u64 > MOST_OF_FILE { Err(Unreadable::Large) } else { Ok(bytes) }
}
