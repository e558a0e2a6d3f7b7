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
    let path = decoded(path)?;
    // `/C:/x` on Windows.
    let drive = path.as_bytes().get(2) == Some(&b':') && cfg!(windows);
    Some(PathBuf::from(if drive { &path[1..] } else { &path }))
}

/// A path as a `file:` URI.
pub fn file_uri(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    format!("file://{}", encoded(path.as_os_str().as_bytes()))
}

/// The bytes of a path as a part of a URI.
pub(super) fn encoded(path: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut uri = String::new();
    for byte in path {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => uri.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
            byte => write!(uri, "%{byte:02X}").unwrap_or_default(),
        }
    }
    uri
}

/// A part of a URI, decoded. `None`: it is no text.
pub(super) fn decoded(part: &str) -> Option<String> {
    let (mut out, mut rest) = (Vec::with_capacity(part.len()), part.as_bytes());
    while let Some((byte, after)) = first_decoded(rest) {
        out.push(byte);
        rest = after;
    }
    String::from_utf8(out).ok()
}

/// The first byte of a part of a URI, decoded, and the rest. `None`: it is empty.
pub(super) fn first_decoded(part: &[u8]) -> Option<(u8, &[u8])> {
    let hex = |it: u8| char::from(it).to_digit(16).and_then(|it| u8::try_from(it).ok());
    if let [b'%', high, low, rest @ ..] = part
        && let (Some(high), Some(low)) = (hex(*high), hex(*low))
    {
        return Some((high * 16 + low, rest));
    }
    part.split_first().map(|(byte, rest)| (*byte, rest))
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
