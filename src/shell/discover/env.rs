//! The environment: variables, the working folder, the home folder.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

/// The environment of the process, read once. Tests make their own.
#[derive(Clone, Debug, Default)]
pub struct Env {
    /// The variables.
    pub vars: BTreeMap<OsString, OsString>,
    /// The working folder.
    pub cwd: PathBuf,
    /// The user's home folder.
    pub home: Option<PathBuf>,
}

impl Env {
    /// Reads the environment of this process.
    pub fn real() -> Env {
        Env {
            vars: std::env::vars_os().collect(),
            // Without a working folder, relative paths lead nowhere.
            cwd: std::env::current_dir().unwrap_or_default(),
            home: std::env::home_dir().filter(|it| it.is_absolute()),
        }
    }

    /// A variable that is set and not empty.
    pub fn var(&self, name: &str) -> Option<&OsStr> {
        let value = if cfg!(windows) {
            let is = |(key, _): &(&OsString, &OsString)| key.eq_ignore_ascii_case(name);
            self.vars.iter().find(is).map(|(_, value)| value)
        } else {
            self.vars.get(OsStr::new(name))
        };
        value.map(OsString::as_os_str).filter(|it| !it.is_empty())
    }

    /// The absolute folder in a variable.
    pub fn folder(&self, name: &str) -> Option<PathBuf> {
        self.var(name).map(PathBuf::from).filter(|it| it.is_absolute())
    }

    /// A path in the home folder.
    pub fn at_home(&self, path: &str) -> Option<PathBuf> {
        self.home.as_ref().map(|home| home.join(path))
    }

    /// The folder for what programs keep on this machine, on Windows.
    pub(crate) fn local(&self) -> Option<PathBuf> {
        self.folder("LOCALAPPDATA").or_else(|| self.at_home("AppData/Local"))
    }

    /// The folder for settings of programs, on Windows.
    pub(crate) fn roaming(&self) -> Option<PathBuf> {
        self.folder("APPDATA").or_else(|| self.at_home("AppData/Roaming"))
    }

    /// Expands `~/`.
    pub fn expand(&self, path: &Path) -> Result<PathBuf, String> {
        let Ok(rest) = path.strip_prefix("~") else { return Ok(path.to_owned()) };
        match &self.home {
            Some(home) => Ok(home.join(rest)),
            None => Err(format!("{}: cannot expand \"~\": the home folder is unknown", path.display())),
        }
    }
}

/// The platform in npm's package names, such as `linux-x64`.
pub(super) fn npm_platform() -> String {
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        "windows" => "win32",
        other => other,
    };
    let machine = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{system}-{machine}")
}
