//! How a process of a server is started.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    config::{Engine, ShareViews, runs_elsewhere},
    rpc::PathPair,
};

/// Everything needed to start a process of a server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// Absolute path of the executable.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables in addition to lspool's environment.
    #[serde(with = "pairs")]
    pub env: Vec<(String, String)>,
    /// Working folder. Without it, lspool's.
    pub cwd: Option<PathBuf>,
    /// The longest message to accept from it, in bytes.
    pub max_message: usize,
    /// How long it may read nothing while messages wait for it.
    pub write_stall: Duration,
    /// In a group: the folder that it works in, instead of those of the editor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
    /// Set if the program runs the server elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<Remote>,
    /// Set if several clients may use one process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Share>,
}

/// How several clients use one process of a server: by a hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// The name of the server's section.
    pub server: String,
    /// What must be equal for two clients to use one process: the names of things, and their values.
    pub key: Vec<(String, String)>,
    /// How long the process stays without clients.
    pub idle: Duration,
    /// What becomes of clients whose texts differ.
    pub views: ShareViews,
    /// The limit of clients.
    pub limit: usize,
    /// The editor of this client, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub editor: Option<String>,
}

impl Share {
    /// Without hashes, which are those of another text once that is masked.
    pub(crate) fn masked(mut self) -> Share {
        self.key.iter_mut().filter(|(_, value)| value.starts_with('#')).for_each(|it| it.1.truncate(1));
        self
    }
}

impl Launch {
    /// As in a recording.
    pub(crate) fn masked(&self) -> Launch {
        Launch { share: self.share.clone().map(Share::masked), ..self.clone() }
    }

    /// The same, with folders that are known to hold.
    #[must_use]
    pub fn settled(mut self) -> Launch {
        self.remote.iter_mut().for_each(|it| it.inspect = None);
        self
    }

    /// Whether the server sees other processes than lspool does.
    pub fn is_elsewhere(&self) -> bool {
        self.remote.is_some() || runs_elsewhere(&self.program)
    }
}

/// A place for a server other than beside lspool.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remote {
    /// What starts it there.
    pub engine: Engine,
    /// The place for people: the engine and the target.
    pub name: String,
    /// The folders that the server has there.
    pub paths: Vec<PathPair>,
    /// The arguments with which the program runs a shell there, which reads commands from its stdin. Empty: there is
    /// no shell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shell: Vec<String>,
    /// The arguments with which the program ends a server whose client is gone. A shell gets commands for that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub farewell: Vec<String>,
    /// Variables for the server that the shell there reads, and that are on no command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "pairs")]
    pub env: Vec<(String, String)>,
    /// How to ask again which folders it has. `None`: they are settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inspect: Option<Inspect>,
    /// Whether its settings stay as the editor has them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skips_settings: bool,
    /// The folder on this side for copies of files that only the other side has. `None`: they are not wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<String>,
}

/// How to ask an engine which folders a place has: it may be made again with others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inspect {
    /// The arguments of the program.
    pub args: Vec<String>,
    /// The workspace folders, as the editor names them.
    pub folders: Vec<PathBuf>,
}

/// A request for copies of files that only the other side has.
#[derive(Clone, Debug)]
pub struct Fetch {
    /// The number for the answer.
    pub number: u64,
    /// How the server was started that names the files.
    pub launch: Arc<Launch>,
    /// Their paths there.
    pub files: Vec<String>,
}

/// The copies that were made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fetched {
    /// The number of the [`Fetch`].
    pub number: u64,
    /// The paths there of the files that have a copy now.
    pub files: Vec<String>,
    /// The files that no run tried before the time limit. Files in neither list could not be copied in time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untried: Vec<String>,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("name", &self.name).field("paths", &self.paths).finish_non_exhaustive()
    }
}

// The values of variables may be secret.
impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let env: Vec<&String> = self.env.iter().map(|(name, _)| name).collect();
        let mut it = f.debug_struct("Launch");
        it.field("program", &self.program).field("env", &env).finish_non_exhaustive()
    }
}

/// Variables as a JSON object, in their order.
mod pairs {
    use std::fmt;

    use serde::{
        Deserializer, Serializer,
        de::{MapAccess, Visitor},
    };

    pub(super) fn serialize<S: Serializer>(
        it: &[(String, String)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(it.iter().map(|(name, value)| (name, value)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(it: D) -> Result<Vec<(String, String)>, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Vec<(String, String)>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                std::iter::from_fn(|| map.next_entry().transpose()).collect()
            }
        }
        it.deserialize_map(Pairs)
    }
}
