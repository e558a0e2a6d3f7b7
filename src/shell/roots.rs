//! Looks for the projects of documents.

use tokio::task::{spawn_blocking, spawn_local};

use super::{discover::nearest_root, inbox::Events};
use crate::core::event::{Event, FindRoot, RootFound};

/// Answers [`Effect::FindRoot`](crate::core::event::Effect::FindRoot).
pub(super) fn find(it: FindRoot, events: &Events) {
    let (events, member) = (events.clone(), it.member.clone());
    spawn_local(async move {
        // Nobody waits for it, so a file system that hangs costs nothing but a thread.
        let root = spawn_blocking(move || nearest_root(&it)).await.ok().flatten();
        events.tell(Event::RootFound(RootFound { member, root }));
    });
}
