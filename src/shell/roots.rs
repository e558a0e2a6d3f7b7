//! Looks for the projects of documents.

use std::time::Duration;

use tokio::{
    task::{spawn_blocking, spawn_local},
    time::timeout,
};

use super::{discover::nearest_root, inbox::Events};
use crate::core::event::{Event, FindRoot, RootFound};

/// How long a search may take: a file system may hang.
const WAIT: Duration = Duration::from_secs(2);

/// Answers [`Effect::FindRoot`](crate::core::event::Effect::FindRoot).
pub(super) fn find(it: FindRoot, events: &Events) {
    let (events, member, folder) = (events.clone(), it.member.clone(), it.folder.clone());
    spawn_local(async move {
        let search = spawn_blocking(move || nearest_root(&it));
        let (root, unsearched) = match timeout(WAIT, search).await {
            Ok(found) => (found.ok().flatten(), None),
            Err(_) => (None, Some(folder)),
        };
        events.tell(Event::RootFound(RootFound { member, root, unsearched }));
    });
}
