//! Why an operation on a file failed, in the same words on every system.

use std::{fmt, io};

use super::folder;

/// What a caller tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Missing,
    /// A parent, or what should be a folder, is none.
    NotFolder,
    IsFolder,
    Exists,
    Denied,
    /// A link, or too many of them.
    Links,
    TooLong,
    TooLarge,
    /// A pipe, a device, or a socket is no file to open.
    NotPlain,
    /// There is something else than what was seen.
    Stale,
    /// The system or the file system cannot do that.
    Unsupported,
    /// The system reads such a name as that of something else.
    BadName,
    Other,
}

/// An error, with what the system says about it.
#[derive(Debug)]
pub(crate) struct Fault {
    why: Why,
    error: io::Error,
}

impl Fault {
    pub(crate) fn why(&self) -> Why {
        self.why
    }

    pub(crate) fn into_error(self) -> io::Error {
        self.error
    }
}

impl From<Why> for Fault {
    fn from(why: Why) -> Fault {
        Fault { why, error: folder::error(why) }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        use io::ErrorKind;
        let why = match error.kind() {
            ErrorKind::NotFound => Why::Missing,
            ErrorKind::NotADirectory => Why::NotFolder,
            ErrorKind::IsADirectory => Why::IsFolder,
            ErrorKind::AlreadyExists => Why::Exists,
            ErrorKind::PermissionDenied => Why::Denied,
            ErrorKind::InvalidFilename => Why::TooLong,
            ErrorKind::FileTooLarge => Why::TooLarge,
            ErrorKind::StaleNetworkFileHandle => Why::Stale,
            ErrorKind::Unsupported => Why::Unsupported,
            _ if folder::is_about_links(&error) => Why::Links,
            _ => Why::Other,
        };
        Fault { why, error }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

/// What a name in a folder leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Folder,
    Link,
    Other,
}

/// Who may use a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Only the user.
    Private,
    /// Whoever may use other new files of the user.
    Usual,
}

/// Why a file cannot get the permissions of another one.
#[derive(Debug)]
#[cfg_attr(windows, expect(dead_code, reason = "a file has the permissions of its folder there"))]
pub(crate) enum Unlike {
    /// The other one belongs to another user, and giving it away is not allowed.
    Owner,
    Failed(io::Error),
}
