//! Answers that span files, and the proof that they are whole.
//!
//! No signal of a server proves that its index is whole. So the text is the proof: a file that holds the word and is not
//! in the answer either does not mean the symbol, or the server has not looked at it yet. lspool opens such files, which
//! servers know at once, and asks again. **If one of them comes into the answer, the index was not whole**, and lspool
//! waits.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};

use super::{
    call::{Cx, Step, Stop},
    places::Location,
    reading::{Unread, is_gone},
    target::Meant,
    view::Readiness,
};
use crate::{
    core::event::{ServerId, Unreadable, Word, WordHits, WordMatch},
    util::fnv::fnv1a,
};

/// How many files are opened as a test, at first and at most.
const FIRST: usize = 5;
const MOST: usize = 60;

/// With more files that hold the word, the test proves too little.
const TOO_MANY: usize = 2000;

/// How many refuted files are remembered.
const MOST_REFUTED: usize = 50_000;

/// A name of so few characters stands everywhere.
const TOO_SHORT: usize = 2;

/// How long a server must have been ready to be believed without a test.
const BELIEVED: Duration = Duration::from_secs(5);

/// How long to wait for an index that is not whole, at first and at most.
const WAIT: Duration = Duration::from_millis(300);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// A question whose answer spans files.
pub(super) struct Question<'a> {
    pub(super) key: &'a str,
    pub(super) method: &'a str,
    pub(super) params: Value,
}

/// All places, and what is known of the rest.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) places: Vec<Location>,
    /// Why there may be more.
    pub(super) incomplete: Option<String>,
    pub(super) notes: Vec<String>,
    /// Files that hold the word and do not mean the symbol.
    pub(super) text_only: Vec<PathBuf>,
}

impl Cx<'_> {
    /// Asks until the answer is whole, or the time is over.
    pub(super) fn whole(&mut self, meant: &Meant, question: &Question<'_>) -> Step<Whole> {
        let unseen = self.unseen(meant.server)?;
        let mut unread = Unread::new();
        let mut whole = self.proven(meant, question, &mut unread)?;
        // The server may read what lspool cannot.
        let answered = files(&whole.places);
        unread.retain(|it, why| *why != Unreadable::Missing && !answered.contains(it));
        whole.text_only.retain(|it| !unread.contains_key(it));
        let unread = self.why_unread(&meant.word, &unread);
        whole.incomplete = whole.incomplete.or(unread).or(unseen);
        Ok(whole)
    }

    fn proven(&mut self, meant: &Meant, question: &Question<'_>, unread: &mut Unread) -> Step<Whole> {
        let server = meant.server;
        let mut wait = WAIT;
        let mut n_tested = 0;
        for n in 0_usize.. {
            let key = |part: &str| format!("{} {n} {part}", question.key);
            // With what the next round begins.
            let next = format!("{} {} first", question.key, n + 1);
            let mut places = self.asked(&key("first"), server, question)?;
            let mut candidates = self.candidates(&key("word"), meant, &places, unread)?;
            let doubtful = self.once_files(&key("doubtful"), |_| candidates.doubtful.clone());
            if !doubtful.is_empty() {
                unread.extend(self.open_all(&key("doubtful texts"), server, &doubtful)?);
                places = self.asked(&key("sure"), server, question)?;
                // Of an old index.
                places.retain(|it| !is_gone(unread, &it.file));
                candidates = self.candidates(&key("word"), meant, &places, unread)?;
            }
            // Before a test: an index that becomes whole during the test is whole for the second answer only.
            let loading = self.loading(&key("loading"), server);
            let untested = self.once_files(&key("untested"), |cx| {
                candidates.files.iter().filter(|it| !cx.is_refuted(meant, it)).cloned().collect()
            });
            if let Some(note) = candidates.unfit.clone() {
                if self.is_believed(&key("believed"), server) {
                    let notes = candidates.noted(note);
                    return Ok(whole(places, candidates.files, notes));
                }
                if self.must_end(&next) {
                    return Ok(partial(
                        places,
                        candidates.files,
                        format!("{note}, and the server has just started"),
                    ));
                }
            } else if untested.is_empty() {
                if loading.is_none() {
                    return Ok(whole(places, candidates.files, candidates.notes));
                }
            } else if n_tested >= MOST && loading.is_none() {
                let rest = untested.len();
                let note = format!(
                    "{rest} files hold the word and were not opened; {n_tested} others were, in vain"
                );
                if self.is_believed(&key("believed"), server) {
                    let notes = candidates.noted(note);
                    return Ok(whole(places, candidates.files, notes));
                }
            } else {
                let tested = spread(&untested, FIRST << n.min(3));
                n_tested += tested.len();
                unread.extend(self.open_all(&key("texts"), server, &tested)?);
                let before: BTreeSet<PathBuf> = files(&places);
                places = self.asked(&key("again"), server, question)?;
                places.retain(|it| !is_gone(unread, &it.file));
                let after = files(&places);
                let has_grown = after.difference(&before).next().is_some();
                if !has_grown && loading.is_none() {
                    self.refute(meant, &tested);
                    if tested.len() == untested.len() {
                        return Ok(whole(places, candidates.files, candidates.notes));
                    }
                    // The next files, at once.
                    if !self.must_end(&next) {
                        continue;
                    }
                }
            }
            if self.must_end(&next) {
                let name = self.view(server).name.clone();
                let state = loading.unwrap_or_else(|| format!("the index of {name} is not whole"));
                let why = match untested.len() {
                    0 => state,
                    n => format!("{state}; {n} files with the word may be missing"),
                };
                return Ok(partial(places, candidates.files, why));
            }
            let name = self.view(server).name.clone();
            self.pause(&key("pause"), wait, &format!("{name} is still indexing"))?;
            wait = wait.mul_f64(1.5).min(LONGEST_WAIT);
        }
        Err(Stop::Wait)
    }

    /// The places that a server gives. A file that has changed on the disk is opened first: of closed ones the index may
    /// be old.
    fn asked(&mut self, key: &str, server: ServerId, question: &Question<'_>) -> Step<Vec<Location>> {
        let answer = self.ask(key, server, question.method, &question.params)??;
        let mut places = Location::read_all(&answer);
        let old = self.once_files(&format!("{key} old"), |cx| {
            let is_old =
                |it: &PathBuf| cx.tools.files.has_changed(it) && !cx.view(server).open.contains_key(it);
            files(&places).into_iter().filter(is_old).collect()
        });
        if old.is_empty() {
            return Ok(places);
        }
        let unread = self.open_all(&format!("{key} texts"), server, &old)?;
        let answer = self.ask(&format!("{key} anew"), server, question.method, &question.params)??;
        places = Location::read_all(&answer);
        places.retain(|it| !is_gone(&unread, &it.file));
        Ok(places)
    }

    /// Whether the call must end, and has not gone on to this question already.
    fn must_end(&mut self, next: &str) -> bool {
        self.is_late() && !self.has_asked(next)
    }

    /// Files that were found out once.
    pub(super) fn once_files(
        &mut self,
        key: &str,
        files: impl FnOnce(&mut Self) -> Vec<PathBuf>,
    ) -> Vec<PathBuf> {
        let found = self.once(key, |cx| files(cx).iter().filter_map(|it| it.to_str()).collect());
        let names = found.as_array().into_iter().flatten();
        names.filter_map(|it| it.as_str().map(PathBuf::from)).collect()
    }

    /// Why a server is not ready, at this point of the call.
    pub(super) fn loading(&mut self, key: &str, server: ServerId) -> Option<String> {
        let word = self.once(key, |cx| {
            let name = &cx.view(server).name;
            match cx.view(server).readiness(cx.now()) {
                Readiness::Ready(_) => Value::Null,
                Readiness::Starting => format!("{name} is starting").into(),
                Readiness::Loading { percent: Some(percent), .. } => {
                    format!("{name} is loading, {percent} %").into()
                }
                Readiness::Loading { percent: None, .. } => format!("{name} is loading").into(),
                Readiness::Failed(why) => format!("{name} does not run: {why}").into(),
            }
        });
        word.as_str().map(ToOwned::to_owned)
    }

    fn is_believed(&mut self, key: &str, server: ServerId) -> bool {
        let believed = self.once(key, |cx| match cx.view(server).readiness(cx.now()) {
            Readiness::Ready(since) => (cx.now() >= since + BELIEVED).into(),
            Readiness::Starting | Readiness::Loading { .. } | Readiness::Failed(_) => false.into(),
        });
        believed == Value::Bool(true)
    }

    /// The files that hold the word and are not in the answer.
    fn candidates(
        &mut self,
        key: &str,
        meant: &Meant,
        places: &[Location],
        unread: &mut Unread,
    ) -> Step<Candidates> {
        let endings = self.view(meant.server).code_endings();
        let word = Word { text: meant.word.clone(), matching: WordMatch::Whole, endings };
        let seen = self.look(key, Vec::new(), Some(word))?;
        unread.extend(seen.unread.iter().cloned());
        let answered = files(places);
        let doubtful = self.doubtful(meant.server, places, &seen.hits);
        let files: Vec<PathBuf> =
            seen.hits.iter().map(|it| it.file.clone()).filter(|it| !answered.contains(it)).collect();
        let unfit = if meant.word.chars().count() <= TOO_SHORT {
            Some(format!("{:?} is too short for a check by text", meant.word))
        } else if files.len() > TOO_MANY {
            Some(format!("{} files hold {:?}: too many for a check by text", files.len(), meant.word))
        } else {
            seen.partial.clone().map(|it| format!("the check by text is not whole: {it}"))
        };
        let closed = seen.closed.iter().map(|it| format!("{} cannot be listed", self.shown(it)));
        Ok(Candidates { files, unfit, doubtful, notes: closed.collect() })
    }

    fn doubtful(&self, server: ServerId, places: &[Location], hits: &[WordHits]) -> Vec<PathBuf> {
        let hits: BTreeMap<&PathBuf, &WordHits> = hits.iter().map(|it| (&it.file, it)).collect();
        let is_doubtful = |it: &&Location| {
            if self.view(server).open.contains_key(&it.file) || !self.is_inside(&it.file) {
                return false;
            }
            let line = it.range.start.line;
            hits.get(&it.file).is_none_or(|of| {
                of.n_lines <= of.lines.len() && of.lines.iter().all(|(number, _)| *number != line)
            })
        };
        let doubtful: BTreeSet<&PathBuf> = places.iter().filter(is_doubtful).map(|it| &it.file).collect();
        doubtful.into_iter().cloned().collect()
    }

    fn refuted_key(meant: &Meant, file: &Path) -> (ServerId, String, PathBuf) {
        let symbol = format!("{} {}", meant.word, meant.file.display());
        (meant.server, symbol, file.to_owned())
    }

    /// Whether a file was found not to mean the symbol, and has the same text.
    fn is_refuted(&self, meant: &Meant, file: &Path) -> bool {
        let hash = self.tools.refuted.get(&Self::refuted_key(meant, file));
        let text = self.tools.files.text(file);
        hash.is_some() && hash.copied() == text.map(|it| fnv1a(it.as_str().as_bytes()))
    }

    fn refute(&mut self, meant: &Meant, tested: &[PathBuf]) {
        if self.tools.refuted.len() + tested.len() > MOST_REFUTED {
            // They are only a saving.
            self.tools.refuted.clear();
        }
        for file in tested {
            if let Some(text) = self.tools.files.text(file) {
                self.tools.refuted.insert(Self::refuted_key(meant, file), fnv1a(text.as_str().as_bytes()));
            }
        }
    }
}

struct Candidates {
    files: Vec<PathBuf>,
    /// Why they cannot be tested.
    unfit: Option<String>,
    /// Files of the answer whose text does not hold the word where the answer says so: another name for the symbol, or
    /// an old index.
    doubtful: Vec<PathBuf>,
    notes: Vec<String>,
}

impl Candidates {
    fn noted(&self, note: String) -> Vec<String> {
        [note].into_iter().chain(self.notes.iter().cloned()).collect()
    }
}

fn files(places: &[Location]) -> BTreeSet<PathBuf> {
    places.iter().map(|it| it.file.clone()).collect()
}

fn whole(places: Vec<Location>, text_only: Vec<PathBuf>, notes: Vec<String>) -> Whole {
    let answered = files(&places);
    let text_only = text_only.into_iter().filter(|it| !answered.contains(it)).collect();
    Whole { places, incomplete: None, notes, text_only }
}

fn partial(places: Vec<Location>, text_only: Vec<PathBuf>, why: String) -> Whole {
    Whole { incomplete: Some(why), ..whole(places, text_only, Vec::new()) }
}

/// Some of these files, from different folders first.
fn spread(files: &[PathBuf], most: usize) -> Vec<PathBuf> {
    let mut folders = BTreeSet::new();
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for file in files {
        match folders.insert(file.parent()) {
            true => first.push(file.clone()),
            false => rest.push(file.clone()),
        }
    }
    first.extend(rest);
    first.truncate(most);
    first
}

/// The member of an answer about files that only hold the word.
pub(super) fn text_only(files: &[String]) -> Value {
    json!({"total": files.len(), "files": &files[..files.len().min(20)]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tested_files_come_from_different_folders() {
        let files: Vec<PathBuf> = ["/a/1", "/a/2", "/b/3", "/c/4"].iter().map(PathBuf::from).collect();
        assert_eq!(spread(&files, 3), ["/a/1", "/b/3", "/c/4"].map(PathBuf::from));
        assert_eq!(spread(&files, 9).len(), 4);
    }
}
