//! Looks at the files of the workspace for the code tools: what has changed since the last look, texts, and words.
//!
//! Remembers a stamp of each file that counts. Decides nothing: what a change means is up to the core. **Looks are
//! carried out one after the other**, so that their results come in the order of the files' history.

use std::{
    collections::BTreeMap,
    fs::{self, File, Metadata},
    io::Read as _,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
    time::{Duration, SystemTime},
};

use memchr::memmem::Finder;
use rustix::{fs::Stat, io::Errno};
use tokio::task::spawn_local;

use super::{
    search::Until,
    walk::Walk,
    workspace::{Missing, Place, Workspace},
    write::{Journals, UNDISTURBED, recover},
};
use crate::{
    config::ToolsConfig,
    core::event::{Event, Look, Seen, Unreadable, Word, WordHits, WordMatch, Write, WriteFault, Wrote},
    shell::{inbox::Events, private::Files},
    util::fnv::fnv1a,
};

/// The most files that count.
const MOST_FILES: usize = 100_000;
/// The largest text that is read, in bytes.
const MOST_OF_FILE: u64 = 4 << 20;
/// How many created files are read, to send their texts to servers.
const MOST_CREATED: usize = 256;
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
    modified: (i64, i64),
    changed: (i64, i64),
    /// The hash of the content, if the file was so young that its times prove nothing.
    content: Option<u64>,
}

impl Stamp {
    fn of(it: &Metadata) -> Stamp {
        Stamp {
            place: (it.dev(), it.ino()),
            size: it.size(),
            modified: (it.mtime(), it.mtime_nsec()),
            changed: (it.ctime(), it.ctime_nsec()),
            content: None,
        }
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
        open: impl FnOnce(&[PathBuf]) -> Result<Workspace, String> + Send + 'static,
        events: &Events,
    ) {
        let (number, state) = (write.number, self.state.clone());
        let writing = self.order.after(move || {
            let workspace = open(&write.folders).map_err(WriteFault::Failed)?;
            let journals = Journals::of(state.as_deref(), &write.folders);
            super::write::write(&write, &workspace, &journals, UNDISTURBED)
        });
        let events = events.clone();
        spawn_local(async move {
            let failed = |error: String| Err(WriteFault::Failed(error));
            let result = match writing.await.and_then(|it| it) {
                Ok(result) => result,
                Err(error) => failed(error.to_string()),
            };
            events.tell(Event::Wrote(Box::new(Wrote { number, result })));
        });
    }

    /// Looks, after all earlier looks.
    pub(super) fn look(
        &self,
        look: Look,
        open: impl FnOnce(&[PathBuf]) -> Result<Workspace, String> + Send + 'static,
        events: &Events,
    ) {
        let (known, number) = (self.known.clone(), look.number);
        let state = self.state.clone();
        let looking = self.order.after(move || {
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            match open(&look.folders) {
                Ok(workspace) => {
                    if known.counted.is_none() {
                        recover(&workspace, &Journals::of(state.as_deref(), &look.folders));
                    }
                    seen(&look, &workspace, &mut known)
                }
                Err(why) => Seen { number, partial: Some(why), ..Seen::default() },
            }
        });
        let events = events.clone();
        spawn_local(async move {
            let seen = looking.await.and_then(|it| it).unwrap_or_else(|error| Seen {
                number,
                partial: Some(error.to_string()),
                ..Seen::default()
            });
            events.tell(Event::Looked(Box::new(seen)));
        });
    }
}

fn seen(look: &Look, workspace: &Workspace, known: &mut Stamps) -> Seen {
    let (never, limits) = (AtomicBool::new(false), ToolsConfig::default());
    let until = Until::new(&never, &limits);
    let mut it = Sight {
        seen: Seen { number: look.number, ..Seen::default() },
        workspace,
        now: now(),
        is_first: known.counted.is_none(),
        before: known.counted.take().unwrap_or_default(),
        after: BTreeMap::new(),
        files: Vec::new(),
        others: Vec::new(),
    };
    for root in workspace.folders().map(Path::to_owned).collect::<Vec<_>>() {
        for path in Walk::new(workspace, &root, &until) {
            if has_ending(&path, &look.endings) {
                it.count(path);
            } else if look.word.as_ref().is_some_and(|word| has_ending(&path, &word.endings)) {
                it.others.push(path);
            }
            if it.after.len() == MOST_FILES {
                it.seen.partial = Some(format!("lspool looks at {MOST_FILES} files at most"));
                break;
            }
        }
    }
    if let Err(why) = until.check() {
        it.seen.partial = Some(why);
    }
    it.note_removed();
    it.read_open(look, &mut known.others);
    for path in &look.read {
        it.add_text(path);
    }
    if let Some(word) = &look.word {
        it.search(word, &until);
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
    now: SystemTime,
    is_first: bool,
    before: BTreeMap<PathBuf, Stamp>,
    after: BTreeMap<PathBuf, Stamp>,
    /// The files that count, in their order.
    files: Vec<PathBuf>,
    /// Others that are searched.
    others: Vec<PathBuf>,
}

impl Sight<'_> {
    fn count(&mut self, path: PathBuf) {
        let Some(stamp) = stamp(self.workspace, &path, self.before.get(&path), self.now) else { return };
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
            match stamp(self.workspace, path, others.get(path), self.now) {
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
        for path in self.seen.created.clone().iter().take(MOST_CREATED) {
            self.add_text(path);
        }
    }

    fn add_text(&mut self, path: &Path) {
        if self.seen.texts.iter().all(|(it, _)| it != path) {
            self.seen.texts.push((path.to_owned(), text(self.workspace, path)));
        }
    }

    fn search(&mut self, word: &Word, until: &Until<'_>) {
        let search = WordSearch::new(word);
        let files = self.files.iter().chain(&self.others);
        for path in files.filter(|it| has_ending(it, &word.endings)) {
            if let Err(why) = until.check() {
                self.seen.partial = Some(why);
                return;
            }
            if word.matching == WordMatch::Any {
                let file = path.clone();
                self.seen.hits.push(WordHits { file, n_lines: 0, lines: Vec::new() });
                continue;
            }
            let Some(text) = self.workspace.found(path).and_then(|it| content(&it).ok()) else { continue };
            if let Some(hits) = search.hits(path, &text) {
                self.seen.hits.push(hits);
            }
        }
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
    let is_young = meta.modified().is_ok_and(|it| now.duration_since(it).is_ok_and(|age| age < RACY))
        || meta.modified().is_ok_and(|it| it > now);
    let mut stamp = Stamp::of(&meta);
    let was_young = before.is_some_and(|it| it.content.is_some() && it.is_same_but_for_content(&stamp));
    if is_young || was_young {
        stamp.content = workspace.found(path).and_then(|it| content(&it).ok()).map(|it| fnv1a(&it));
    }
    Some(stamp)
}

/// The text of a file of the workspace, without its byte order mark.
fn text(workspace: &Workspace, path: &Path) -> Result<String, Unreadable> {
    let name = path.to_str().ok_or(Unreadable::Missing)?;
    let place = workspace.find(name, Missing::Refuse).map_err(|_| match fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Unreadable::Missing,
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
    let (file, stat): (_, Stat) = place.open_plain().map_err(|errno| match errno {
        Errno::NOENT | Errno::NOTDIR => Unreadable::Missing,
        Errno::ISDIR => Unreadable::Folder,
        _ => Unreadable::Denied,
    })?;
    if u64::try_from(stat.st_size).unwrap_or(u64::MAX) > MOST_OF_FILE {
        return Err(Unreadable::Large);
    }
    let mut bytes = Vec::new();
    File::from(file).take(MOST_OF_FILE + 1).read_to_end(&mut bytes).map_err(|_| Unreadable::Denied)?;
    if bytes.len() as u64 > MOST_OF_FILE { Err(Unreadable::Large) } else { Ok(bytes) }
}

/// A search for a word.
struct WordSearch {
    finder: Finder<'static>,
    matching: WordMatch,
}

impl WordSearch {
    fn new(word: &Word) -> WordSearch {
        let text = match word.matching {
            WordMatch::Whole | WordMatch::Any => word.text.clone(),
            WordMatch::Part => word.text.to_lowercase(),
        };
        WordSearch { finder: Finder::new(text.as_bytes()).into_owned(), matching: word.matching }
    }

    fn hits(&self, path: &Path, bytes: &[u8]) -> Option<WordHits> {
        let is_quick = self.matching == WordMatch::Whole;
        if bytes.contains(&0) || is_quick && self.finder.find(bytes).is_none() {
            return None;
        }
        let text = String::from_utf8_lossy(bytes);
        let holds = |line: &&str| match self.matching {
            WordMatch::Whole => self.is_word_in(line),
            WordMatch::Part => self.finder.find(line.to_lowercase().as_bytes()).is_some(),
            WordMatch::Any => true,
        };
        let mut hits = WordHits { file: path.to_owned(), n_lines: 0, lines: Vec::new() };
        for (number, line) in text.lines().enumerate().filter(|(_, line)| holds(line)) {
            hits.n_lines += 1;
            if hits.lines.len() < MOST_LINES {
                let end = line.floor_char_boundary(MOST_OF_LINE);
                hits.lines.push((u32::try_from(number).unwrap_or(u32::MAX), line[..end].to_owned()));
            }
        }
        (hits.n_lines > 0).then_some(hits)
    }

    fn is_word_in(&self, line: &str) -> bool {
        let is_part = |it: Option<char>| it.is_some_and(|it| it.is_alphanumeric() || it == '_');
        let length = self.finder.needle().len();
        let stands = |at: usize| {
            !is_part(line[..at].chars().next_back()) && !is_part(line[at + length..].chars().next())
        };
        self.finder.find_iter(line.as_bytes()).any(stands)
    }
}

#[cfg(test)]
mod tests {
    use Unreadable::{Binary, Folder, Missing, Outside};

    use super::*;
    use crate::shell::tools::workspace::Known;

    struct Disk {
        folder: tempfile::TempDir,
        known: Known,
        stamps: Stamps,
    }

    impl Disk {
        fn new() -> Disk {
            let folder = tempfile::tempdir().unwrap();
            Disk { folder, known: Known::default(), stamps: Stamps::default() }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().canonicalize().unwrap().join(name)
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn look(&mut self, look: Look) -> Seen {
            let folders = vec![self.path("")];
            let workspace = Workspace::open(&folders, &self.known).unwrap();
            let endings = vec![".py".to_owned(), "setup.cfg".to_owned()];
            seen(&Look { folders, endings, ..look }, &workspace, &mut self.stamps)
        }

        fn names(&self, paths: &[PathBuf]) -> Vec<String> {
            let root = self.path("");
            paths.iter().map(|it| it.strip_prefix(&root).unwrap().to_str().unwrap().to_owned()).collect()
        }
    }

    #[test]
    fn look_reports_each_change_once() {
        let mut disk = Disk::new();
        for name in ["a.py", "b/c.py", "setup.cfg", "d.txt", ".gitignore"] {
            disk.write(name, "one\n");
        }
        let first = disk.look(Look::default());
        assert_eq!((first.n_files, first.created.len(), first.changed.len()), (3, 0, 0));
        // Equal in size, and within the same moment as far as their times show.
        disk.write("a.py", "two\n");
        disk.write("new.py", "three\n");
        fs::remove_file(disk.path("b/c.py")).unwrap();
        let open = vec![disk.path("a.py")];
        let second = disk.look(Look { open: open.clone(), ..Look::default() });
        assert_eq!(disk.names(&second.changed), ["a.py"]);
        assert_eq!(disk.names(&second.created), ["new.py"]);
        assert_eq!(disk.names(&second.removed), ["b/c.py"]);
        let texts: Vec<_> = second.texts.iter().map(|(_, it)| it.clone().unwrap()).collect();
        assert_eq!(texts, ["two\n", "three\n"]);
        let third = disk.look(Look { open, ..Look::default() });
        assert_eq!((third.changed.len(), third.created.len(), third.removed.len()), (0, 0, 0));
        assert!(third.texts.is_empty());
    }

    #[test]
    fn look_reads_only_text_of_workspace() {
        let mut disk = Disk::new();
        disk.write("a.py", "\u{feff}x = 1\n");
        disk.write("b.py", "a\0b");
        fs::write(disk.path("c.py"), b"caf\xe9").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", disk.path("d.py")).unwrap();
        let read: Vec<PathBuf> =
            ["a.py", "b.py", "c.py", "d.py", "e.py", "../x.py", ""].iter().map(|it| disk.path(it)).collect();
        let seen = disk.look(Look { read, ..Look::default() });
        let texts: Vec<_> = seen.texts.into_iter().map(|(_, it)| it).collect();
        assert_eq!(texts[0], Ok("x = 1\n".to_owned()));
        assert_eq!(texts[1..5], [Err(Binary), Err(Binary), Err(Outside), Err(Missing)]);
        assert!(matches!(texts[5], Err(Outside | Missing)), "{texts:?}");
        assert_eq!(texts[6], Err(Folder));
    }

    #[test]
    fn word_is_found_whole_or_in_part() {
        let mut disk = Disk::new();
        disk.write("a.py", "add_node\nx = add\n# re-add\nadded\nÜadd\n");
        let mut lines = |text: &str, matching| {
            let word = Word { text: text.to_owned(), matching, endings: vec![".py".to_owned()] };
            let seen = disk.look(Look { word: Some(word), ..Look::default() });
            seen.hits.iter().flat_map(|it| &it.lines).map(|(n, _)| *n).collect::<Vec<_>>()
        };
        assert_eq!(lines("add", WordMatch::Whole), [1, 2]);
        assert_eq!(lines("ADD", WordMatch::Part), [0, 1, 2, 3, 4]);
        assert_eq!(lines("nothing", WordMatch::Whole), [0_u32; 0]);
    }
}
