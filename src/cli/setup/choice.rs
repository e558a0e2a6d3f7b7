//! Which servers get settings, and which could take their place.

use super::servers::Server;

/// What an editor is to start for some languages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// What `lspool setup` calls it, and Helix.
    pub(super) name: String,
    /// Its name in Neovim.
    pub(super) nvim: String,
    /// Its name in Zed, if Zed knows it.
    pub(super) zed: Option<String>,
    /// The arguments of lspool.
    pub(super) args: Vec<String>,
    /// File types in Neovim.
    pub(super) filetypes: Vec<String>,
    /// Files that mark the folder of a project.
    pub(super) markers: Vec<String>,
    /// Languages in Helix.
    pub(super) helix: Vec<String>,
    /// Major modes in Emacs.
    pub(super) modes: Vec<String>,
    /// Languages in VS Code.
    pub(super) vscode: Vec<String>,
}

impl Entry {
    /// One server.
    pub(super) fn of(server: &Server) -> Entry {
        let list = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let args = ["--"].into_iter().chain(server.command.iter().copied());
        Entry {
            name: server.name.to_owned(),
            nvim: server.nvim.to_owned(),
            zed: Some(server.name.to_owned()),
            args: args.map(ToOwned::to_owned).collect(),
            filetypes: list(server.filetypes),
            markers: list(server.markers),
            helix: list(server.helix),
            modes: list(server.modes),
            vscode: list(server.vscode),
        }
    }

    fn shares_language(&self, other: &Entry) -> bool {
        self.vscode.iter().any(|it| other.vscode.contains(it))
    }
}

/// The servers that get settings.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) active: Vec<Entry>,
    /// What could be there instead: the name of an active one, and the words that name the other.
    instead: Vec<(String, String)>,
}

impl Choice {
    /// The first server of each language; the others, and groups, could be there instead.
    pub(super) fn of(entries: Vec<Entry>, groups: &[Entry]) -> Choice {
        let mut active: Vec<Entry> = Vec::new();
        let mut others = Vec::new();
        for entry in entries {
            match active.iter().find(|it| it.shares_language(&entry)) {
                Some(first) => others.push((first.name.clone(), entry.name)),
                None => active.push(entry),
            }
        }
        let grouped = active.iter().flat_map(|first| {
            let fitting = groups.iter().filter(|it| it.shares_language(first));
            fitting.map(|it| (first.name.clone(), format!("{}  (several servers as one)", it.name)))
        });
        let instead = grouped.chain(others).collect();
        Choice { active, instead }
    }

    /// All of them.
    pub(super) fn all(active: Vec<Entry>) -> Choice {
        Choice { active, instead: Vec::new() }
    }

    /// How to get the settings of what could be there instead.
    pub(super) fn comment(&self, mark: &str, editor: &str) -> String {
        let of = |first: &Entry| {
            let names = self.instead.iter().filter(|(it, _)| *it == first.name).map(|(_, name)| name);
            let lines: Vec<_> = names.map(|it| format!("{mark}   lspool setup {editor} {it}\n")).collect();
            match lines.is_empty() {
                true => String::new(),
                false => format!("\n{mark} Instead of {}:\n{}", first.name, lines.concat()),
            }
        };
        self.active.iter().map(of).collect()
    }
}
