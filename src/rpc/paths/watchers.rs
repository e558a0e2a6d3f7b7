//! Watchers of files that only the server has: the editor would watch its own files of that name.

use serde_json::Value;

use super::prefix::{Folder, is_absolute, uri_parts};

/// Registrations without the watchers of files outside these folders. `None`: there are none.
pub(super) fn without_foreign_watchers(params: &[u8], folders: &[&Folder]) -> Option<Vec<u8>> {
    let mut params: Value = serde_json::from_slice(params).ok()?;
    let mut is_changed = false;
    for registration in params.get_mut("registrations")?.as_array_mut()? {
        let watchers = registration.pointer_mut("/registerOptions/watchers").and_then(Value::as_array_mut);
        let Some(watchers) = watchers else { continue };
        let all = watchers.len();
        watchers.retain(|it| is_within(it, folders));
        is_changed |= watchers.len() < all;
    }
    is_changed.then(|| params.to_string().into_bytes())
}

fn is_within(watcher: &Value, folders: &[&Folder]) -> bool {
    let pattern = &watcher["globPattern"];
    if let Some(path) = pattern.as_str().filter(|it| is_absolute(it)) {
        return folders.iter().any(|it| it.rest_of_path(path).is_some());
    }
    let base = &pattern["baseUri"];
    let Some(base) = base.as_str().or_else(|| base["uri"].as_str()) else { return true };
    let Some((_, path)) = uri_parts(base) else { return true };
    folders.iter().any(|it| it.rest_of_uri(path).is_some())
}
