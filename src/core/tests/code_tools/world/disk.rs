//! The disk, as the shell reads and writes it.

use super::*;

impl World {
    /// Makes an edit as the shell does: of the texts that are there, or not at all.
    pub(super) fn make(&mut self, write: &Write) -> Result<(), WriteFault> {
        if let Some(fault) = self.write_fault.take() {
            return Err(fault);
        }
        let hash = |file: &PathBuf| self.disk.get(file).map(|it| hash_of(it));
        for change in &write.changes {
            let (file, is_same) = match change {
                FileChange::Put { file, before, .. } => (file, hash(file) == *before),
                FileChange::Remove { file, before } | FileChange::Move { from: file, before, .. } => {
                    (file, hash(file).is_some() && hash(file) == *before)
                }
            };
            if !is_same {
                return Err(WriteFault::Changed(file.clone()));
            }
        }
        self.writes.push((write.clone(), self.history[self.looked_at..].to_vec()));
        for change in &write.changes {
            match change {
                FileChange::Put { file, text, .. } => drop(self.disk.insert(file.clone(), text.clone())),
                FileChange::Remove { file, .. } => drop(self.disk.remove(file)),
                FileChange::Move { from, to, .. } => {
                    let text = self.disk.remove(from).unwrap();
                    self.disk.insert(to.clone(), text);
                }
            }
        }
        self.history.push(self.disk.clone());
        Ok(())
    }

    pub(in crate::core::tests::code_tools) fn text(&self, name: &str) -> Option<&str> {
        self.disk.get(&Path::new(ROOT).join(name)).map(String::as_str)
    }

    /// The user types a text, and does not save it.
    pub(in crate::core::tests::code_tools) fn type_text(&mut self, name: &str, text: &str) {
        let file = Path::new(ROOT).join(name);
        let on_disk = self.disk.insert(file.clone(), text.to_owned());
        self.behind.entry(file).or_insert(on_disk);
        self.history.push(self.disk.clone());
    }

    /// The user saves a file.
    pub(in crate::core::tests::code_tools) fn save(&mut self, name: &str) {
        self.behind.remove(&Path::new(ROOT).join(name));
    }

    /// The user closes a file without saving it.
    pub(in crate::core::tests::code_tools) fn discard(&mut self, name: &str) {
        let file = Path::new(ROOT).join(name);
        match self.behind.remove(&file) {
            Some(Some(text)) => drop(self.disk.insert(file, text)),
            Some(None) => drop(self.disk.remove(&file)),
            None => {}
        }
        self.history.push(self.disk.clone());
    }

    pub(in crate::core::tests::code_tools) fn is_unsaved(&self, name: &str) -> bool {
        self.behind.contains_key(&Path::new(ROOT).join(name))
    }

    /// What the server reads.
    pub(super) fn on_disk(&self, file: &Path) -> Option<String> {
        self.behind.get(file).cloned().unwrap_or_else(|| self.disk.get(file).cloned())
    }

    pub(super) fn look(&mut self, look: &Look) -> Seen {
        let mut seen = Seen { number: look.number, ..Seen::default() };
        seen.partial.clone_from(&self.partial);
        let entered = |it: &PathBuf| Some((it.clone(), self.links.get(it)?.clone()));
        seen.resolved = look.resolve.iter().filter_map(entered).collect();
        let is_there =
            |it: &&String| self.disk.keys().any(|file| file.to_str().unwrap().ends_with(it.as_str()));
        seen.others = look.others.iter().filter(is_there).cloned().collect();
        let counts =
            |file: &PathBuf| look.endings.iter().any(|it| file.to_str().unwrap().ends_with(it.as_str()));
        let now: BTreeMap<PathBuf, String> = self
            .disk
            .iter()
            .filter(|(file, _)| counts(file))
            .map(|(file, text)| (file.clone(), text.clone()))
            .collect();
        if let Some(before) = &self.looked {
            for (file, text) in &now {
                match before.get(file) {
                    None => seen.created.push(file.clone()),
                    Some((old, was_saved)) if old != text || *was_saved == self.behind.contains_key(file) => {
                        seen.changed.push(file.clone());
                    }
                    Some(_) => {}
                }
            }
            seen.removed = before.keys().filter(|it| !now.contains_key(*it)).cloned().collect();
        }
        let mut wanted: BTreeSet<&PathBuf> = look.read.iter().collect();
        wanted.extend(seen.created.iter());
        seen.unsaved = self.behind.keys().filter(|it| counts(it)).cloned().collect();
        let is_first = self.looked.is_none();
        wanted.extend(seen.unsaved.iter().filter(|it| is_first || seen.changed.contains(it)));
        wanted.extend(look.open.iter().filter(|it| seen.changed.contains(it)));
        seen.texts = wanted
            .into_iter()
            .map(|it| {
                let text = match it.starts_with(ROOT) {
                    _ if self.unread.contains_key(it) => Err(self.unread[it]),
                    true => self.disk.get(it).cloned().ok_or(Unreadable::Missing),
                    false => Err(Unreadable::Outside),
                };
                (it.clone(), text)
            })
            .collect();
        if let Some(word) = &look.word {
            for (file, text) in &now {
                let holds = |line: &&str| match word.matching {
                    WordMatch::Whole => line.split_whitespace().any(|it| it == word.text),
                    WordMatch::Part => line.to_lowercase().contains(&word.text.to_lowercase()),
                    WordMatch::Any => false,
                };
                let lines: Vec<(u32, String)> = text
                    .lines()
                    .enumerate()
                    .filter(|(_, it)| holds(it))
                    .map(|(n, it)| (u32::try_from(n).unwrap(), it.to_owned()))
                    .collect();
                let is_hit = !lines.is_empty() || word.matching == WordMatch::Any;
                match self.unread.get(file) {
                    // The bytes hold the word.
                    Some(why) if is_hit && *why != Unreadable::Binary => {
                        seen.unread.push((file.clone(), *why));
                        continue;
                    }
                    Some(_) | None => {}
                }
                if is_hit {
                    seen.hits.push(WordHits { file: file.clone(), n_lines: lines.len(), lines });
                }
            }
        }
        if let Some(grep) = &look.grep {
            for (file, text) in &self.disk {
                let lines = text.lines().enumerate().filter(|(_, it)| it.contains(&grep.query));
                let lines: Vec<_> = lines.map(|(n, _)| (u32::try_from(n).unwrap(), String::new())).collect();
                if !lines.is_empty() {
                    seen.hits.push(WordHits { file: file.clone(), n_lines: lines.len(), lines });
                }
            }
        }
        seen.n_files = now.len();
        let is_saved = |file: &PathBuf| !self.behind.contains_key(file);
        self.looked =
            Some(now.into_iter().map(|(file, text)| (file.clone(), (text, is_saved(&file)))).collect());
        seen
    }
}
