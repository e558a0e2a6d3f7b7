//! Files that a call needs at a server, and what keeps lspool from reading them.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::{
    call::{Cx, Step, reason},
    files::language_of_file,
};
use crate::core::event::{ServerId, Unreadable};

/// How many changed files are opened at a server that does not watch files.
const MOST_UNSEEN: usize = 60;

/// Files that lspool cannot read, and why.
pub(super) type Unread = BTreeMap<PathBuf, Unreadable>;

impl Cx<'_> {
    /// Opens files at a server. Gives those that it could not open.
    pub(super) fn open_all(&mut self, key: &str, server: ServerId, files: &[PathBuf]) -> Step<Unread> {
        self.read_all(key, files)?;
        let mut unread = Unread::new();
        for file in files {
            match self.text_if_readable(file)? {
                Ok(_) => drop(self.open(server, file)?),
                Err(why) => drop(unread.insert(file.clone(), why)),
            }
        }
        Ok(unread)
    }

    /// Shows a server that does not watch files the ones that have changed, by opening them. Gives why the server may
    /// not know of a change.
    pub(super) fn unseen(&mut self, server: ServerId) -> Step<Option<String>> {
        let key = format!("unseen {}", server.number());
        let files = self.once_files(&key, |cx| cx.view(server).unseen.keys().cloned().collect());
        if files.len() <= MOST_UNSEEN {
            let is_code = |it: &&PathBuf| {
                language_of_file(it).is_some_and(|(language, _)| self.view(server).serves(language))
            };
            let code: Vec<PathBuf> = files.iter().filter(is_code).cloned().collect();
            self.open_all(&format!("{key} texts"), server, &code)?;
        }
        let view = self.view(server);
        let left: Vec<&PathBuf> = files.iter().filter(|it| view.unseen.contains_key(*it)).collect();
        Ok(left.first().map(|first| {
            let (n, first) = (left.len(), self.shown(first));
            let such = if n == 1 { String::new() } else { format!(" and {} more files", n - 1) };
            format!("{first}{such} changed, and {} does not watch files", view.name)
        }))
    }

    /// Why an answer about a word may lack places in files that lspool cannot read.
    pub(super) fn why_unread(&self, word: &str, unread: &Unread) -> Option<String> {
        let shown = |(file, why): (&PathBuf, &Unreadable)| format!("{} {}", self.shown(file), reason(*why));
        let first: Vec<String> = unread.iter().take(3).map(shown).collect();
        let rest = unread.len().saturating_sub(first.len());
        let such = if rest == 0 { String::new() } else { format!(", and {rest} more") };
        (!first.is_empty())
            .then(|| format!("{word:?} may be in files that lspool cannot read: {}{such}", first.join(", ")))
    }
}

/// Whether lspool knows that a file is not there.
pub(super) fn is_gone(unread: &Unread, file: &Path) -> bool {
    unread.get(file) == Some(&Unreadable::Missing)
}
