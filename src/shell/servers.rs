//! What the shell keeps of the servers that it has prepared: what the log calls them, and how long they may take to end.

use std::{rc::Rc, time::Duration};

use crate::core::event::{Launch, Prepared};

/// The servers behind the editor.
#[derive(Debug)]
pub(super) struct Servers {
    first: Rc<str>,
    others: Vec<(Launch, Rc<str>)>,
    exit_grace: Duration,
}

impl Servers {
    /// None are known yet.
    pub(super) fn unknown(exit_grace: Duration) -> Servers {
        Servers { first: "server".into(), others: Vec::new(), exit_grace }
    }

    /// Those that were prepared.
    pub(super) fn of(prepared: &Prepared) -> Servers {
        let members = prepared.group.iter().flat_map(|it| &it.others);
        let own = prepared.server.shutdown_grace;
        Servers {
            first: prepared.name.as_str().into(),
            others: members.clone().map(|it| (private(&it.launch), it.name.as_str().into())).collect(),
            exit_grace: members.map(|it| it.server.shutdown_grace).fold(own, Duration::max),
        }
    }

    /// The name of the server that is started so. A process of the first may be started otherwise than configured.
    pub(super) fn name(&self, launch: &Launch) -> Rc<str> {
        let launch = private(launch);
        let other = self.others.iter().find(|(it, _)| *it == launch);
        other.map_or_else(|| self.first.clone(), |(_, name)| name.clone())
    }

    /// How long a process may take to end: as long as the most patient section says.
    pub(super) fn exit_grace(&self) -> Duration {
        self.exit_grace
    }
}

/// A launch without what others have to do with it, which differs from process to process.
fn private(launch: &Launch) -> Launch {
    Launch { share: None, ..launch.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::{Config, ServerConfig},
        core::event::{Group, Member},
    };

    fn launch(program: &str) -> Launch {
        let write_stall = Duration::from_mins(1);
        Launch {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: None,
            max_message: 1,
            write_stall,
            root: None,
            remote: None,
            share: None,
        }
    }

    #[test]
    fn servers_of_a_group_have_their_own_names() {
        let of = |seconds| ServerConfig {
            shutdown_grace: Duration::from_secs(seconds),
            ..ServerConfig::default()
        };
        let other =
            |name: &str| Member { name: name.to_owned(), server: of(9), launch: launch(name), missing: None };
        let group = Group {
            name: "g".to_owned(),
            start_wait: Duration::ZERO,
            diagnostics_wait: Duration::ZERO,
            order: [].into(),
            combine: [].into(),
            wait: [].into(),
            others: vec![other("b"), other("c")],
        };
        let servers = Servers::of(&Prepared {
            config: Config::default().into(),
            name: "a".to_owned(),
            server: of(7),
            launch: launch("a").into(),
            missing: None,
            warnings: Vec::new(),
            transcripts: None,
            group: Some(group),
            has_code_tools: false,
        });
        let names = ["a", "b", "c", "a with more"].map(|it| servers.name(&launch(it)).to_string());
        assert_eq!(names, ["a", "b", "c", "a"]);
        assert_eq!(servers.exit_grace(), Duration::from_secs(9));
    }
}
