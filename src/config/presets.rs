//! Groups that lspool has without a configuration, and how the servers in them are started.
//!
//! Data. A group of the same name in the user's file takes the place of a preset, and a section with a `command` or
//! `args` takes the place of what is written here about its server.

use super::ServerConfig;

/// How a server is started of which the configuration says nothing.
struct Known {
    name: &'static str,
    command: &'static str,
    args: &'static [&'static str],
}

const SERVERS: [Known; 7] = [
    Known { name: "basedpyright", command: "basedpyright-langserver", args: &["--stdio"] },
    Known { name: "clangd", command: "clangd", args: &[] },
    Known { name: "pylsp", command: "pylsp", args: &[] },
    Known { name: "pyright", command: "pyright-langserver", args: &["--stdio"] },
    Known { name: "ruff", command: "ruff", args: &["server"] },
    Known { name: "ty", command: "ty", args: &["server"] },
    Known { name: "typescript-language-server", command: "typescript-language-server", args: &["--stdio"] },
];

/// Servers of which a preset takes the first that is installed; at least one.
pub(crate) type Choice = &'static [&'static str];

/// Members by rank.
pub(crate) type Preset = &'static [Choice];

const PRESETS: [(&str, Preset); 1] = [("python", &[&["basedpyright", "pyright", "ty"], &["ruff"]])];

/// The preset of this name.
pub(crate) fn preset(name: &str) -> Option<Preset> {
    PRESETS.iter().find(|(it, _)| *it == name).map(|(_, preset)| *preset)
}

/// The names of all presets.
pub(crate) fn preset_names<'a>() -> impl Iterator<Item = &'a str> {
    PRESETS.iter().map(|(name, _)| *name)
}

/// The names of all servers that lspool knows how to start.
pub(crate) fn known_servers<'a>() -> impl Iterator<Item = &'a str> {
    SERVERS.iter().map(|it| it.name)
}

/// Says how a server is started, if its section does not and lspool knows it.
pub(crate) fn complete(name: &str, server: &mut ServerConfig) {
    let Some(known) = SERVERS.iter().find(|it| it.name == name) else { return };
    if server.command.is_none() && server.args.is_empty() {
        server.command = Some(known.command.to_owned());
        server.args = known.args.iter().map(ToString::to_string).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_name_known_servers_once() {
        for (name, preset) in PRESETS {
            let mut members: Vec<&str> = preset.iter().copied().flatten().copied().collect();
            assert!(members.iter().all(|it| known_servers().any(|known| known == *it)), "{name}");
            let n = members.len();
            members.sort_unstable();
            members.dedup();
            assert_eq!(members.len(), n, "{name}");
        }
    }

    #[test]
    fn section_with_command_or_args_stays_as_it_is() {
        let mut server = ServerConfig::default();
        complete("ruff", &mut server);
        assert_eq!(
            (server.command.as_deref(), server.args.as_slice()),
            (Some("ruff"), &["server".to_owned()][..])
        );
        let own = ServerConfig { args: vec!["x".to_owned()], ..ServerConfig::default() };
        let mut server = own.clone();
        complete("ruff", &mut server);
        assert_eq!(server, own);
    }
}
