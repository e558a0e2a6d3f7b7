//! Groups that lspool has without a configuration, and how the servers in them are started.
//!
//! Data. A group of the same name in the user's file takes the place of a preset. What a section says takes the place of
//! what is written here about its server, key by key.

use serde_json::{Map, Value};

use super::ServerConfig;

/// What the configuration need not say of a server.
struct Known {
    name: &'static str,
    command: &'static str,
    args: &'static [&'static str],
    languages: &'static [&'static str],
    /// It is not used in workspaces without any of these, if there are some.
    root_markers: &'static [&'static str],
    /// JSON.
    settings: &'static str,
    /// JSON. `${package:NAME}` is the folder of the package that the server NAME comes with.
    init_options: &'static str,
}

const fn known(name: &'static str, command: &'static str, args: &'static [&'static str]) -> Known {
    Known { name, command, args, languages: &[], root_markers: &[], settings: "{}", init_options: "{}" }
}

impl Known {
    const fn of_languages(mut self, languages: &'static [&'static str]) -> Known {
        self.languages = languages;
        self
    }

    const fn where_there_is(mut self, root_markers: &'static [&'static str]) -> Known {
        self.root_markers = root_markers;
        self
    }

    const fn with_settings(mut self, settings: &'static str) -> Known {
        self.settings = settings;
        self
    }

    const fn with_init_options(mut self, init_options: &'static str) -> Known {
        self.init_options = init_options;
        self
    }
}

const STDIO: &[&str] = &["--stdio"];

const SCRIPTS: &[&str] =
    &["javascript", "javascript.jsx", "javascriptreact", "typescript", "typescript.tsx", "typescriptreact"];

const SERVERS: [Known; 18] = [
    known("basedpyright", "basedpyright-langserver", STDIO),
    known("biome", "biome", &["lsp-proxy"])
        .of_languages(&[
            "css",
            "graphql",
            "javascript",
            "javascript.jsx",
            "javascriptreact",
            "json",
            "jsonc",
            "typescript",
            "typescript.tsx",
            "typescriptreact",
        ])
        .where_there_is(&["biome.json", "biome.jsonc"]),
    known("clangd", "clangd", &[]),
    known("css", "vscode-css-language-server", STDIO)
        .of_languages(&["css", "less", "scss"])
        // Without them it fails to check a document.
        .with_settings(
            r#"{
                "css": {"validate": true, "lint": {}},
                "less": {"validate": true, "lint": {}},
                "scss": {"validate": true, "lint": {}}
            }"#,
        )
        .with_init_options(r#"{"provideFormatter":true}"#),
    // Without these settings it answers every request for diagnostics with an error.
    known("eslint", "vscode-eslint-language-server", STDIO)
        .of_languages(&[
            "astro",
            "html",
            "javascript",
            "javascript.jsx",
            "javascriptreact",
            "svelte",
            "typescript",
            "typescript.tsx",
            "typescriptreact",
            "vue",
        ])
        .where_there_is(&[
            "eslint.config.js",
            "eslint.config.mjs",
            "eslint.config.cjs",
            "eslint.config.ts",
            "eslint.config.mts",
            "eslint.config.cts",
            ".eslintrc",
            ".eslintrc.js",
            ".eslintrc.cjs",
            ".eslintrc.json",
            ".eslintrc.yaml",
            ".eslintrc.yml",
        ])
        .with_settings(
            r#"{
                "validate": "probe",
                "probe": ["astro", "html", "javascript", "javascriptreact", "svelte", "typescript",
                    "typescriptreact", "vue"],
                "packageManager": null,
                "useESLintClass": false,
                "experimental": {},
                "codeActionOnSave": {"enable": false, "mode": "all"},
                "format": false,
                "quiet": false,
                "onIgnoredFiles": "off",
                "options": {},
                "rulesCustomizations": [],
                "run": "onType",
                "problems": {"shortenToSingleLine": false},
                "nodePath": null,
                "workingDirectory": {"mode": "auto"},
                "codeAction": {
                    "disableRuleComment": {"enable": true, "location": "separateLine"},
                    "showDocumentation": {"enable": true}
                }
            }"#,
        ),
    known("gopls", "gopls", &[]),
    known("html", "vscode-html-language-server", STDIO)
        .of_languages(&["html"])
        .with_settings(r#"{"css": {"validate": true, "lint": {}}}"#)
        .with_init_options(
        r#"{"provideFormatter":true,"embeddedLanguages":{"css":true,"javascript":true},"configurationSection":["html","css","javascript"]}"#,
    ),
    known("json", "vscode-json-language-server", STDIO)
        .of_languages(&["json", "jsonc"])
        .with_init_options(r#"{"provideFormatter":true}"#),
    known("pylsp", "pylsp", &[]),
    known("pyright", "pyright-langserver", STDIO),
    known("ruff", "ruff", &["server"]),
    known("rust-analyzer", "rust-analyzer", &[]),
    known("tailwind", "tailwindcss-language-server", STDIO)
        .of_languages(&[
            "astro",
            "css",
            "html",
            "javascript",
            "javascript.jsx",
            "javascriptreact",
            "less",
            "scss",
            "svelte",
            "typescript",
            "typescript.tsx",
            "typescriptreact",
            "vue",
        ])
        .where_there_is(&[
            "tailwind.config.js",
            "tailwind.config.cjs",
            "tailwind.config.mjs",
            "tailwind.config.ts",
            "node_modules/tailwindcss",
        ]),
    known("ty", "ty", &["server"]),
    known("typescript", "typescript-language-server", STDIO).of_languages(SCRIPTS),
    known("typescript-language-server", "typescript-language-server", STDIO),
    known("vue", "vue-language-server", STDIO).of_languages(&["vue"]),
    // The plug-in lets the server of Vue ask this one about the scripts in its documents.
    known("vue-typescript", "typescript-language-server", STDIO)
        .of_languages(&[
            "javascript",
            "javascript.jsx",
            "javascriptreact",
            "typescript",
            "typescript.tsx",
            "typescriptreact",
            "vue",
        ])
        .with_init_options(
            r#"{"plugins":[{"name":"@vue/typescript-plugin","location":"${package:vue}","languages":["vue"]}]}"#,
        ),
];

/// Servers of which a preset takes the first that is installed; at least one.
pub(crate) type Choice = &'static [&'static str];

/// Members by rank.
pub(crate) type Preset = &'static [Choice];

const PRESETS: [(&str, Preset); 4] = [
    ("python", &[&["basedpyright", "pyright", "ty"], &["ruff"]]),
    ("typescript", &[&["typescript"], &["eslint"], &["biome"], &["tailwind"]]),
    ("vue", &[&["vue"], &["vue-typescript"], &["eslint"], &["tailwind"]]),
    ("web", &[&["html"], &["css"], &["json"], &["eslint"], &["tailwind"]]),
];

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
    let list = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    if server.command.is_none() && server.args.is_empty() {
        server.command = Some(known.command.to_owned());
        server.args = list(known.args);
    }
    if server.languages.is_empty() {
        server.languages = list(known.languages);
    }
    if server.root_markers.is_empty() {
        server.root_required |= !known.root_markers.is_empty();
        server.root_markers = list(known.root_markers);
    }
    lay_under(&mut server.settings, &object(known.settings));
    lay_under(&mut server.init_options, &object(known.init_options));
}

fn object(json: &str) -> Map<String, Value> {
    serde_json::from_str(json).expect("a test reads all of them")
}

/// Adds what is not said.
fn lay_under(said: &mut Map<String, Value>, below: &Map<String, Value>) {
    for (key, value) in below {
        match (said.get_mut(key), value) {
            (Some(Value::Object(said)), Value::Object(below)) => lay_under(said, below),
            (Some(_), _) => {}
            (None, value) => drop(said.insert(key.clone(), value.clone())),
        }
    }
}

/// The server whose package a text in `init_options` stands for.
pub(crate) fn package_of(text: &str) -> Option<&str> {
    text.strip_prefix("${package:")?.strip_suffix('}')
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
    fn known_servers_are_sorted_and_completed_key_by_key() {
        assert!(SERVERS.is_sorted_by_key(|it| it.name));
        for it in &SERVERS {
            complete(it.name, &mut ServerConfig::default());
        }
        let own = serde_json::json!({"run": "onSave", "problems": {"more": 1}});
        let mut server = ServerConfig {
            command: Some("/x/eslint".to_owned()),
            settings: own.as_object().unwrap().clone(),
            root_markers: vec!["mine".to_owned()],
            ..ServerConfig::default()
        };
        complete("eslint", &mut server);
        assert_eq!(server.settings["run"], "onSave");
        assert_eq!(server.settings["onIgnoredFiles"], "off");
        assert_eq!(server.settings["problems"], serde_json::json!({"more": 1, "shortenToSingleLine": false}));
        assert_eq!((server.root_markers.len(), server.root_required), (1, false));
        assert!(server.languages.contains(&"vue".to_owned()));
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
