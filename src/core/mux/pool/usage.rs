//! The number of uses of each backend, updated with each change. Counting them for each message would cost more the
//! larger the session is.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::event::BackendId;

/// Uses by backend.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    /// Backends without uses are left out.
    uses: BTreeMap<BackendId, usize>,
    changed: BTreeSet<BackendId>,
}

impl Usage {
    pub(crate) fn add(&mut self, id: BackendId) {
        let uses = self.uses.entry(id).or_default();
        *uses += 1;
        if *uses == 1 {
            self.changed.insert(id);
        }
    }

    pub(crate) fn remove(&mut self, id: BackendId) {
        let uses = self.uses.remove(&id).unwrap_or_default();
        match uses.checked_sub(1) {
            None => {}
            Some(0) => drop(self.changed.insert(id)),
            Some(left) => drop(self.uses.insert(id, left)),
        }
    }

    /// The uses of a backend.
    pub(crate) fn of(&self, id: BackendId) -> usize {
        self.uses.get(&id).copied().unwrap_or_default()
    }

    /// Whether [`Usage::take_changed`] has any.
    pub(crate) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The backends that got their first use or lost their last one since the last call.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<BackendId> {
        std::mem::take(&mut self.changed)
    }

    /// Compares with a new count.
    pub(crate) fn check(&self, counted: impl Iterator<Item = BackendId>) -> Result<(), String> {
        let mut uses: BTreeMap<BackendId, usize> = BTreeMap::new();
        counted.for_each(|id| *uses.entry(id).or_default() += 1);
        if uses == self.uses { Ok(()) } else { Err(format!("uses are {uses:?}, noted are {:?}", self.uses)) }
    }
}
