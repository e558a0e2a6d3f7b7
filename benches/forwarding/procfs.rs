//! What processes cost, from `/proc`.

use std::{fs, path::PathBuf, time::Duration};

/// A process and those that it has started, but not the servers at the far end.
pub(crate) struct Family(pub(crate) Vec<u32>);

impl Family {
    pub(crate) fn of(root: u32) -> Family {
        let us = std::env::current_exe().ok();
        let exe = |pid: u32| fs::read_link(format!("/proc/{pid}/exe")).ok();
        let mut family = vec![root];
        let mut at = 0;
        while let Some(parent) = family.get(at).copied() {
            family.extend(children(parent).into_iter().filter(|it| exe(*it) != us));
            at += 1;
        }
        Family(family)
    }

    /// CPU time so far, of all threads that still are.
    pub(crate) fn cpu(&self) -> Duration {
        let of_task = |task: PathBuf| -> Option<u64> {
            fs::read_to_string(task.join("schedstat")).ok()?.split(' ').next()?.parse().ok()
        };
        let tasks = |pid: &u32| fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        Duration::from_nanos(self.0.iter().flat_map(tasks).filter_map(|it| of_task(it.path())).sum())
    }

    /// Resident bytes of the first of them.
    pub(crate) fn resident(&self) -> f64 {
        self.status("VmRSS:")
    }

    /// Of these, what is its own: not mapped from a file that all share.
    pub(crate) fn private(&self) -> f64 {
        self.status("RssAnon:")
    }

    /// Resident bytes, at most since [`Family::forget_peak`].
    pub(crate) fn peak(&self) -> f64 {
        self.status("VmHWM:")
    }

    pub(crate) fn forget_peak(&self) {
        // Where that is not allowed, the peak is that of its life.
        fs::write(format!("/proc/{}/clear_refs", self.0[0]), "5").ok();
    }

    fn status(&self, key: &str) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0[0])).unwrap_or_default();
        let line = status.lines().find_map(|it| it.strip_prefix(key));
        line.and_then(|it| it.trim().strip_suffix(" kB")?.parse::<f64>().ok()).unwrap_or(f64::NAN) * 1024.0
    }
}

fn children(parent: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|it| fs::read_to_string(it.path().join("children")).ok());
    lists.flat_map(|it| it.split_whitespace().filter_map(|it| it.parse().ok()).collect::<Vec<_>>()).collect()
}
