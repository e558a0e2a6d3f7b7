//! Where a server runs, and which folders it has there.

use toml::{Spanned, de::DeValue};

use super::{At, Reader, join, path, shown, text};
use crate::{
    config::{RemoteConfig, keys::REMOTE},
    rpc::{PathPair, conflict},
};

/// What is expected of `paths`.
const PAIRS: &str = "expected \"auto\", or a list such as [{ local = \"~/shop\", remote = \"/app\" }]";

impl Reader<'_> {
    pub(super) fn remote(&mut self, at: &At<'_>, raw: &DeValue<'_>, field: &mut Option<RemoteConfig>) {
        let before = self.problems.len();
        let mut remote = (REMOTE.fresh)();
        self.table(&REMOTE, at, raw, &mut remote);
        if self.problems.len() == before
            && let Some(problem) = remote.problem()
        {
            self.problem(at.line, at.key, problem);
        }
        *field = Some(remote);
    }

    pub(super) fn path_pairs(
        &mut self,
        at: &At<'_>,
        value: &Spanned<DeValue<'_>>,
        field: &mut Option<Vec<PathPair>>,
    ) {
        if value.get_ref().as_str() == Some("auto") {
            *field = None;
            return;
        }
        let Some(items) = value.get_ref().as_array() else {
            let message = format!("{PAIRS}, found {}", shown(value.get_ref()));
            return self.problem(at.line, at.key, message);
        };
        let mut pairs = Vec::new();
        for (n, item) in items.iter().enumerate() {
            let at = At { line: self.line(item.span().start), key: &format!("{}[{n}]", at.key) };
            if let Some(pair) = self.path_pair(&at, item.get_ref()) {
                pairs.push(pair);
            }
        }
        if let Some(conflict) = conflict(&pairs) {
            self.problem(at.line, at.key, conflict);
        }
        *field = Some(pairs);
    }

    fn path_pair(&mut self, at: &At<'_>, raw: &DeValue<'_>) -> Option<PathPair> {
        let Some(table) = raw.as_table() else {
            self.problem(at.line, at.key, format!("{PAIRS}, found {}", shown(raw)));
            return None;
        };
        let mut side = |name: &str, read: fn(&DeValue<'_>) -> Result<String, String>| {
            let found = table.get(name).map_or(Err("expected this key".to_owned()), |it| read(it.get_ref()));
            found.map_err(|message| self.problem(at.line, &join(at.key, name), message)).ok()
        };
        let pair = (side("local", path), side("remote", absolute));
        for name in table.keys().filter(|it| !matches!(it.get_ref().as_ref(), "local" | "remote")) {
            let message = "unknown key; expected local, remote";
            self.problem(at.line, &join(at.key, name.get_ref()), message);
        }
        Some(PathPair { local: pair.0?, remote: pair.1? })
    }
}

/// A path of the other side.
fn absolute(value: &DeValue<'_>) -> Result<String, String> {
    let path = text(value)?;
    let is_plain = path.starts_with('/') && !path.split('/').any(|it| it == "." || it == "..");
    if is_plain {
        Ok(path)
    } else {
        Err(format!("expected an absolute path without . and .., found {path:?}"))
    }
}
