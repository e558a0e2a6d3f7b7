//! URIs of files in messages.

use std::path::{Path, PathBuf};

/// The path of a `file:` URI.
pub fn file_path(uri: &str) -> Option<PathBuf> {
    let (_, rest) = uri.split_once(':').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("file"))?;
    // `file:/path` means `file:///path`.
    let path = match rest.strip_prefix("//") {
        Some(rest) => &rest[rest.find('/')?..],
        None => rest.starts_with('/').then_some(rest)?,
    };
    let path = &path[..path.find(['?', '#']).unwrap_or(path.len())];
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex = |it: &u8| char::from(*it).to_digit(16).and_then(|it| u8::try_from(it).ok());
        match (first, tail) {
            (b'%', [high, low, after @ ..]) if hex(high).is_some() && hex(low).is_some() => {
                bytes.push(hex(high)? * 16 + hex(low)?);
                rest = after;
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    let path = String::from_utf8(bytes).ok()?;
    // `/C:/x` on Windows.
    let drive = path.as_bytes().get(2) == Some(&b':') && cfg!(windows);
    Some(PathBuf::from(if drive { &path[1..] } else { &path }))
}

/// A path as a `file:` URI.
pub fn file_uri(path: &Path) -> String {
    use std::{fmt::Write as _, os::unix::ffi::OsStrExt as _};
    let mut uri = "file://".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => uri.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
            byte => write!(uri, "%{byte:02X}").unwrap_or_default(),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_uri_round_trips_through_path() {
        let path = Path::new("/a b/ä%.rs");
        assert_eq!(file_uri(path), "file:///a%20b/%C3%A4%25.rs");
        assert_eq!(file_path(&file_uri(path)).as_deref(), Some(path));
    }
}
