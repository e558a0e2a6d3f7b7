//! Folders as beginnings of paths and URIs. They are compared decoded, by whole segments.

use std::borrow::Cow;

use super::super::uri::{self, encoded, first_decoded};

/// The schemes whose URIs have paths of files.
const SCHEMES: [&str; 3] = ["file", "vscode-notebook-cell", "vscode-notebook"];

/// How a system writes paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Posix,
    /// With a drive letter, in any case, and backslashes.
    Windows,
}

/// A folder on one side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Folder {
    style: Style,
    /// Without a slash at the end: the root is empty.
    path: String,
    /// The same as the path of a URI, decoded.
    in_uri: String,
    /// The same, encoded.
    uri: String,
}

impl Folder {
    pub(super) fn of(path: &str) -> Folder {
        let (style, path, in_uri) = match has_drive(path) {
            true => {
                let slashed = path.replace('\\', "/");
                let slashed = slashed.trim_end_matches('/');
                (Style::Windows, slashed.replace('/', "\\"), format!("/{slashed}"))
            }
            false => {
                let path = path.trim_end_matches('/').to_owned();
                (Style::Posix, path.clone(), path)
            }
        };
        let uri = encoded(in_uri.as_bytes());
        Folder { style, path, in_uri, uri }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn uri(&self) -> &str {
        &self.uri
    }

    pub(super) fn is_of_windows(&self) -> bool {
        self.style == Style::Windows
    }

    /// The folder for people.
    pub(super) fn shown(&self) -> &str {
        if self.path.is_empty() { "/" } else { &self.path }
    }

    /// What follows this folder in a path, with slashes. `None`: the path is not in it.
    pub(super) fn rest_of_path<'a>(&self, path: &'a str) -> Option<Cow<'a, str>> {
        let is_end = |rest: &str| rest.is_empty() || rest.starts_with('/');
        match self.style {
            Style::Posix => path.strip_prefix(&*self.path).filter(|it| is_end(it)).map(Cow::Borrowed),
            Style::Windows => {
                let (drive, rest) = path.split_at_checked(1).filter(|_| has_drive(path))?;
                let rest = rest.replace('\\', "/");
                let (own_drive, own_rest) = self.in_uri[1..].split_at_checked(1)?;
                let rest = rest.strip_prefix(own_rest).filter(|it| is_end(it))?;
                drive.eq_ignore_ascii_case(own_drive).then(|| Cow::Owned(rest.to_owned()))
            }
        }
    }

    /// A path in this folder. Patterns have slashes on every system.
    pub(super) fn joined(&self, rest: &str) -> String {
        match self.style {
            Style::Posix => format!("{}{rest}", self.path),
            Style::Windows if rest.contains(['*', '?', '{', '[']) => format!("{}{rest}", &self.in_uri[1..]),
            Style::Windows => {
                let slash = if rest.is_empty() && self.path.ends_with(':') { "\\" } else { "" };
                format!("{}{}{slash}", self.path, rest.replace('/', "\\"))
            }
        }
    }

    /// What follows this folder in the path of a URI, byte for byte.
    pub(super) fn rest_of_uri<'a>(&self, path: &'a str) -> Option<&'a str> {
        let mut rest = path.as_bytes();
        for (n, wanted) in self.in_uri.bytes().enumerate() {
            let (byte, after) = first_decoded(rest)?;
            let is_drive = n == 1 && self.style == Style::Windows;
            let is_same = byte == wanted || is_drive && byte.eq_ignore_ascii_case(&wanted);
            rest = is_same.then_some(after)?;
        }
        let rest = path.get(path.len() - rest.len()..)?;
        (rest.is_empty() || rest.starts_with(['/', '?', '#'])).then_some(rest)
    }
}

/// Whether a text is a plain path from a root.
pub(super) fn is_absolute(path: &str) -> bool {
    path.starts_with('/') || has_drive(path)
}

/// Whether a path begins with a drive letter.
fn has_drive(path: &str) -> bool {
    matches!(path.as_bytes(), [drive, b':'] | [drive, b':', b'/' | b'\\', ..] if drive.is_ascii_alphabetic())
}

/// A URI of a file up to its path, and from its path on. `None`: it is none of this machine.
pub(super) fn uri_parts(uri: &str) -> Option<(&str, &str)> {
    let colon =
        uri.find(':').filter(|it| SCHEMES.iter().any(|scheme| uri[..*it].eq_ignore_ascii_case(scheme)))?;
    let after = &uri[colon + 1..];
    let start = match after.strip_prefix("//") {
        Some(rest) => {
            let authority = rest.find('/')?;
            let is_here = rest[..authority].is_empty() || rest[..authority].eq_ignore_ascii_case("localhost");
            is_here.then_some(colon + 3 + authority)?
        }
        None => after.starts_with('/').then_some(colon + 1)?,
    };
    Some(uri.split_at(start))
}

/// The path of a URI, decoded. `None`: it has more than a path, or is no text.
pub(super) fn decoded(path: &str) -> Option<String> {
    if path.contains(['?', '#']) {
        return None;
    }
    uri::decoded(path)
}
