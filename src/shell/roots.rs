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
    let (events, member) = (events.clone(), it.member.clone());
    spawn_local(async move {
        let search = spawn_blocking(move || nearest_root(&it));
        let root = timeout(WAIT, search).await.ok().and_then(Result::ok).flatten();
        events.tell(Event::RootFound(RootFound { member, root }));
    });
}
