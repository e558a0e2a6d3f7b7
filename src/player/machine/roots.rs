//! The workspace folders of two sessions.

use serde_json::Value;

use crate::rpc::file_path;

/// Pairs of recorded and live folders from the two `initialize`, as URIs and as paths.
pub(super) fn pairs(recorded: &Value, live: &Value) -> Vec<(String, String)> {
    let both = folders(recorded).into_iter().zip(folders(live));
    both.flat_map(|(a, b)| {
        let path = |uri: &str| file_path(uri)?.into_os_string().into_string().ok();
        let paths = path(&a).zip(path(&b));
        [(a, b)].into_iter().chain(paths)
    })
    .filter(|(a, _)| a.trim_start_matches("file://").len() > 1)
    .collect()
}

/// URIs of the folders, without a `/` at the end.
fn folders(params: &Value) -> Vec<String> {
    let listed = params["workspaceFolders"].as_array().into_iter().flatten();
    let mut all: Vec<String> = listed.filter_map(|it| it["uri"].as_str()).map(ToOwned::to_owned).collect();
    if all.is_empty() {
        let path = params["rootPath"].as_str().map(|it| format!("file://{it}"));
        all.extend(params["rootUri"].as_str().map(ToOwned::to_owned).or(path));
    }
    all.iter().map(|it| it.trim_end_matches('/').to_owned()).collect()
}
