//! The settings for a group: what its members say of their languages, in the words of each editor.

use anyhow::bail;

use super::{
    choice::Entry,
    servers::{SERVERS, Server},
};
use crate::config::{
    Config, ServerConfig,
    presets::{complete, preset, preset_names},
};

/// A language that a server in a preset has: its LSP name, that in Helix, and the modes in Emacs.
type Language = (&'static str, &'static str, &'static [&'static str]);

/// The others have the same name everywhere.
const LANGUAGES: [Language; 15] = [
    ("c", "c", &["c-mode", "c-ts-mode"]),
    ("cpp", "cpp", &["c++-mode", "c++-ts-mode"]),
    ("css", "css", &["css-mode", "css-ts-mode"]),
    ("go", "go", &["go-mode", "go-ts-mode"]),
    ("html", "html", &["mhtml-mode", "html-mode", "html-ts-mode"]),
    ("javascript", "javascript", &["js-mode", "js-ts-mode"]),
    ("javascriptreact", "jsx", &["js-jsx-mode"]),
    ("json", "json", &["js-json-mode", "json-mode", "json-ts-mode"]),
    ("less", "less", &["less-css-mode"]),
    ("lua", "lua", &["lua-mode", "lua-ts-mode"]),
    ("python", "python", &["python-mode", "python-ts-mode"]),
    ("rust", "rust", &["rust-mode", "rust-ts-mode"]),
    ("shellscript", "bash", &["sh-mode", "bash-ts-mode"]),
    ("typescript", "typescript", &["typescript-mode", "typescript-ts-mode"]),
    ("typescriptreact", "tsx", &["tsx-ts-mode"]),
];

/// The names of all groups.
pub(super) fn names(config: &Config) -> Vec<String> {
    let own = config.groups.keys().cloned();
    let mut names: Vec<String> = own.chain(preset_names().map(ToOwned::to_owned)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The presets of which several members are installed.
pub(super) fn installed(is_on_path: &dyn Fn(&str) -> bool) -> Vec<Entry> {
    let config = Config::default();
    let is_there = |name: &&str| {
        let server = section(name, &config);
        server.command.is_some_and(|it| is_on_path(&it))
    };
    let has_several = |name: &&str| {
        let choices = preset(name).unwrap_or_default();
        choices.iter().filter(|it| it.iter().any(is_there)).count() > 1
    };
    preset_names().filter(has_several).filter_map(|it| find(it, &config)?.ok()).collect()
}

/// The settings for a group of the user, or for a preset. Fails if nobody knows its languages.
pub(super) fn find(name: &str, config: &Config) -> Option<anyhow::Result<Entry>> {
    let own = config.groups.get(name).map(|it| it.servers.iter().map(|it| it.server.clone()).collect());
    let of_preset = || preset(name).map(|it| it.iter().map(|choice| choice[0].to_owned()).collect());
    let members: Vec<String> = own.or_else(of_preset)?;
    Some(entry(name, &members, config))
}

fn entry(name: &str, members: &[String], config: &Config) -> anyhow::Result<Entry> {
    let sections: Vec<(&String, ServerConfig)> = members.iter().map(|it| (it, section(it, config))).collect();
    let languages = |are_extra: bool| {
        let wanted = sections.iter().filter(|(_, it)| it.root_required == are_extra);
        let mut all: Vec<String> = Vec::new();
        for language in wanted.flat_map(|(name, it)| languages(name, it)) {
            if !all.contains(&language) {
                all.push(language);
            }
        }
        all
    };
    // Members that not every project uses have languages of projects of other kinds.
    let vscode = Some(languages(false)).filter(|it| !it.is_empty()).unwrap_or_else(|| languages(true));
    let Some((first, server)) = sections.first().filter(|_| !vscode.is_empty()) else {
        let first = members.first().map_or("NAME", String::as_str);
        bail!(
            "the languages of the group {name:?} are unknown\nhint: set `languages` under [server.{first}]"
        );
    };
    let known = known(first, server);
    let markers = match known {
        Some(it) => it.markers.iter().map(ToString::to_string).collect(),
        None => vec![".git".to_owned()],
    };
    let of = |it: &String| LANGUAGES.iter().find(|(name, ..)| name == it);
    let modes = |it: &String| match of(it) {
        Some((_, _, modes)) => modes.iter().map(ToString::to_string).collect(),
        None => vec![format!("{it}-mode")],
    };
    let nvim = |it: &String| if it == "shellscript" { "sh".to_owned() } else { it.clone() };
    // A name with a dot is that of one language in some editors, but of two in others.
    let plain: Vec<&String> = vscode.iter().filter(|it| !it.contains('.')).collect();
    Ok(Entry {
        name: name.to_owned(),
        nvim: format!("lspool-{name}"),
        zed: known.map(|it| it.name.to_owned()),
        args: vec!["--group".to_owned(), name.to_owned()],
        filetypes: vscode.iter().map(nvim).collect(),
        markers,
        helix: plain
            .iter()
            .map(|it| of(it).map_or((*it).clone(), |(_, name, _)| (*name).to_owned()))
            .collect(),
        modes: plain.iter().flat_map(|it| modes(it)).collect(),
        vscode: plain.iter().map(|it| (*it).clone()).collect(),
    })
}

/// The section of a server, with what lspool knows about it.
fn section(name: &str, config: &Config) -> ServerConfig {
    let mut server = config.servers.get(name).cloned().unwrap_or_default();
    complete(name, &mut server);
    server
}

fn languages(name: &str, server: &ServerConfig) -> Vec<String> {
    if !server.languages.is_empty() {
        return server.languages.clone();
    }
    let known = known(name, server).map(|it| it.vscode).unwrap_or_default();
    known.iter().map(ToString::to_string).collect()
}

/// The server in the table that a section starts.
fn known(name: &str, server: &ServerConfig) -> Option<&'static Server> {
    let command = server.command.as_deref().unwrap_or(name);
    let command = command.rsplit('/').next().unwrap_or(command);
    SERVERS.iter().find(|it| it.command[0] == command)
}
