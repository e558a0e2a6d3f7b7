//! The folders in which two sessions live.

use serde_json::Value;

/// Recorded and live: each folder of the two `initialize`, as a URI and as a path.
pub(super) fn pairs(recorded: &Value, live: &Value) -> Vec<(String, String)> {
    let both = folders(recorded).into_iter().zip(folders(live));
    both.flat_map(|(a, b)| {
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

fn path(uri: &str) -> Option<String> {
    let path = uri.strip_prefix("file://")?;
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail.get(..2).filter(|_| *first == b'%');
        let code = code.and_then(|it| u8::from_str_radix(std::str::from_utf8(it).ok()?, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8(bytes).ok()
}
