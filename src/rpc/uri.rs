//! URIs of files in messages.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

/// How paths are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spelling {
    /// `/a b/c`.
    Slashes,
    /// `C:\a b\c` and `\\server\share\c`.
    Drives,
}

const HERE: Spelling = if cfg!(windows) { Spelling::Drives } else { Spelling::Slashes };

/// The path of a `file:` URI.
pub fn file_path(uri: &str) -> Option<PathBuf> {
    path_of(uri, HERE).map(PathBuf::from)
}

/// A path as a `file:` URI, as VS Code writes it.
pub fn file_uri(path: &Path) -> String {
    uri_of(path.as_os_str().as_encoded_bytes(), HERE)
}

fn path_of(uri: &str, spelling: Spelling) -> Option<String> {
    let (_, rest) = uri.split_once(':').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("file"))?;
    // `file:/path` means `file:///path`.
    let (server, path) = match rest.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find('/')?),
        None => ("", rest.starts_with('/').then_some(rest)?),
    };
    let path = decoded(&path[..path.find(['?', '#']).unwrap_or(path.len())])?;
    match spelling {
        Spelling::Slashes => Some(path),
        Spelling::Drives => {
            let path = match drive(&path[1..]) {
                _ if !server.is_empty() && !server.eq_ignore_ascii_case("localhost") => {
                    format!("//{}{path}", decoded(server)?)
                }
                Some((drive, "")) => format!("{}:/", drive.to_ascii_uppercase()),
                Some((drive, rest)) => format!("{}:{rest}", drive.to_ascii_uppercase()),
                None => path,
            };
            Some(path.replace('/', "\\"))
        }
    }
}

/// The letter of a drive at the beginning of a path, and what follows its colon.
fn drive(path: &str) -> Option<(char, &str)> {
    let (drive, rest) = path.split_once(':')?;
    let letter = drive.chars().next().filter(|it| it.is_ascii_alphabetic() && drive.len() == 1)?;
    (rest.is_empty() || rest.starts_with(['/', '\\'])).then_some((letter, rest))
}

fn uri_of(path: &[u8], spelling: Spelling) -> String {
    if spelling == Spelling::Slashes {
        return format!("file://{}", encoded(path));
    }
    let path = String::from_utf8_lossy(path);
    let path = match (path.strip_prefix(r"\\?\UNC\"), path.strip_prefix(r"\\?\")) {
        (Some(share), _) => Cow::from(format!("//{share}")),
        (None, Some(path)) => Cow::from(path),
        (None, None) => path,
    };
    let path = path.replace('\\', "/");
    if let Some(share) = path.strip_prefix("//") {
        let (server, rest) = share.split_at(share.find('/').unwrap_or(share.len()));
        return format!("file://{}{}", encoded(server.to_lowercase().as_bytes()), encoded(rest.as_bytes()));
    }
    match drive(&path) {
        Some((drive, rest)) => {
            format!("file:///{}%3A{}", drive.to_ascii_lowercase(), encoded(rest.as_bytes()))
        }
        None => format!("file://{}", encoded(path.as_bytes())),
    }
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
        let path = "/a b/ä%.rs";
        let uri = "file:///a%20b/%C3%A4%25.rs";
        assert_eq!(uri_of(path.as_bytes(), Spelling::Slashes), uri);
        assert_eq!(path_of(uri, Spelling::Slashes).as_deref(), Some(path));
        for (path, uri) in [
            (r"C:\dir\a b.rs", "file:///c%3A/dir/a%20b.rs"),
            (r"Z:\ä%.rs", "file:///z%3A/%C3%A4%25.rs"),
            (r"C:\", "file:///c%3A/"),
            (r"\\server\share\a b.rs", "file://server/share/a%20b.rs"),
            (r"\\wsl$\Debian\x", "file://wsl%24/Debian/x"),
            (r"\rooted\x", "file:///rooted/x"),
        ] {
            assert_eq!(uri_of(path.as_bytes(), Spelling::Drives), uri);
            assert_eq!(path_of(uri, Spelling::Drives).as_deref(), Some(path));
        }
        assert_eq!(file_path(&file_uri(Path::new("/a b"))).as_deref(), Some(Path::new("/a b")));
    }

    #[test]
    fn drives_and_shares_are_read_in_any_spelling() {
        for (uri, path) in [
            ("file:///C:/x", r"C:\x"),
            ("file:///c:/x", r"C:\x"),
            ("file:///c%3a/x", r"C:\x"),
            ("file:///C%3A/x#L1", r"C:\x"),
            ("FILE:/c:/x", r"C:\x"),
            ("file://localhost/c:/x", r"C:\x"),
            ("file:///c:", r"C:\"),
            ("file:////server/share/x", r"\\server\share\x"),
            ("file:///cd:/x", r"\cd:\x"),
        ] {
            assert_eq!(path_of(uri, Spelling::Drives).as_deref(), Some(path), "{uri}");
        }
        for (path, uri) in [
            (r"\\?\C:\x", "file:///c%3A/x"),
            (r"\\?\UNC\Server\share\x", "file://server/share/x"),
            ("C:/x", "file:///c%3A/x"),
            (r"c:\x", "file:///c%3A/x"),
        ] {
            assert_eq!(uri_of(path.as_bytes(), Spelling::Drives), uri);
        }
        for (uri, path) in [
            ("file:///c%3A/x", Some("/c:/x")),
            ("file://localhost/x?y", Some("/x")),
            ("http://localhost/x", None),
            ("file:x", None),
            ("file://x", None),
        ] {
            assert_eq!(path_of(uri, Spelling::Slashes).as_deref(), path, "{uri}");
        }
    }
}
