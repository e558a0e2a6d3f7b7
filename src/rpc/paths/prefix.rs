//! Folders as beginnings of paths and URIs. They are compared decoded, by whole segments.

use super::super::uri::{self, encoded, first_decoded};

/// The schemes whose URIs have paths of files.
const SCHEMES: [&str; 3] = ["file", "vscode-notebook-cell", "vscode-notebook"];

/// A folder on one side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Folder {
    /// Without a slash at the end: the root is empty.
    path: String,
    /// The same in a URI.
    uri: String,
}

impl Folder {
    pub(super) fn of(path: &str) -> Folder {
        let path = path.trim_end_matches('/');
        Folder { path: path.to_owned(), uri: encoded(path.as_bytes()) }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn uri(&self) -> &str {
        &self.uri
    }

    /// The folder for people.
    pub(super) fn shown(&self) -> &str {
        if self.path.is_empty() { "/" } else { &self.path }
    }

    /// What follows this folder in a path. `None`: the path is not in it.
    pub(super) fn rest_of_path<'a>(&self, path: &'a str) -> Option<&'a str> {
        path.strip_prefix(&*self.path).filter(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// What follows this folder in the path of a URI, byte for byte.
    pub(super) fn rest_of_uri<'a>(&self, path: &'a str) -> Option<&'a str> {
        let mut rest = path.as_bytes();
        for wanted in self.path.bytes() {
            let (byte, after) = first_decoded(rest)?;
            rest = (byte == wanted).then_some(after)?;
        }
        let rest = path.get(path.len() - rest.len()..)?;
        (rest.is_empty() || rest.starts_with(['/', '?', '#'])).then_some(rest)
    }
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
