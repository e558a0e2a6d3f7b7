//! The partitions that the running lspools of a folder have for the tool sets of agents.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::pick;
use crate::shell::os::files::canonicalize;

/// The state of each partition, by its tools as `lspool status` shows them, in each lspool whose workspace is this
/// folder. `folders` are those with sockets.
pub(in crate::cli) async fn partitions(
    folders: &[PathBuf],
    workspace: &Path,
) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let real = |it: &Path| canonicalize(it).unwrap_or_else(|_| it.to_owned());
    for seen in pick::look(folders, None).await.seen {
        let Ok(answer) = &seen.answer else { continue };
        if !answer.status.may_have_agents() {
            continue;
        }
        let is_here =
            answer.status.workspace.as_ref().is_some_and(|it| real(Path::new(it)) == real(workspace));
        for (tools, doing) in answer.status.backends.iter().filter(|_| is_here).filter_map(pick::serves) {
            found.entry(tools).or_default().push(doing);
        }
    }
    found
}
