//! Groups, and what a server of a group is used for.

use expect_test::expect;

use super::*;

#[test]
fn config_reads_groups() {
    let config = user(
        r#"
default_group = "python"
[group.python]
servers = ["basedpyright", { server = "mine", only = ["format"], except = ["hover"] }, "copilot"]
order = { format = ["mine"], code-action = ["mine", "basedpyright"] }
start_wait = "1500ms"
[server.mine]
"#,
    );
    let list = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mine =
        MemberConfig { only: Some(list(&["format"])), except: list(&["hover"]), ..MemberConfig::of("mine") };
    let group = GroupConfig {
        servers: vec![MemberConfig::of("basedpyright"), mine, MemberConfig::of("copilot")],
        order: [
            ("format".to_owned(), list(&["mine"])),
            ("code-action".to_owned(), list(&["mine", "basedpyright"])),
        ]
        .into(),
        combine: BTreeMap::new(),
        wait: BTreeMap::new(),
        start_wait: Duration::from_millis(1500),
        diagnostics_wait: Duration::ZERO,
    };
    assert_eq!(config.groups, [("python".to_owned(), group)].into());
    assert_eq!(config.default_group.as_deref(), Some("python"));
    assert_eq!(user("default_group = \"python\"").default_group.as_deref(), Some("python"), "a preset");
}

#[test]
fn config_reports_mistakes_in_groups() {
    check_problems(
        r#"
default_group = "pyhton"
[group.a]
servers = ["ruff", "mine", "ruff", 1,
  { server = "mine", onyl = [] }, { only = ["hover"] }]
order = { fromat = ["ruff"], hover = ["raff", "x"], completion = "ruff" }
[group.b]
servers = []
[group.c]
start_wait = 3
[group.d]
servers = "ruff"
order = []
wait = "1s"
[server.mine]
"#,
        &expect![[r#"
            config.toml:2: `default_group`: unknown group "pyhton"; did you mean "python"?
            config.toml:4: `group.a.servers[2]`: the group names "ruff" twice
            config.toml:4: `group.a.servers[3]`: expected a string, found a number; put it in quotes
            config.toml:5: `group.a.servers[4]`: the group names "mine" twice
            config.toml:5: `group.a.servers[4].onyl`: unknown key; did you mean `only`?
            config.toml:5: `group.a.servers[5].server`: missing; this key is required
            config.toml:6: `group.a.order.completion`: expected a list of strings such as ["ruff"], found a string
            config.toml:6: `group.a.order.fromat`: unknown feature "fromat"; did you mean "format"?
            config.toml:6: `group.a.order.hover[0]`: unknown member "raff"; did you mean "ruff"?
            config.toml:6: `group.a.order.hover[1]`: unknown member "x"; expected one of ruff, mine, ruff, mine
            config.toml:8: `group.b.servers`: expected at least one server
            config.toml:9: `group.c.servers`: missing; this key is required
            config.toml:10: `group.c.start_wait`: expected a duration such as "5m", found 3
            config.toml:12: `group.d.servers`: expected a list of servers such as ["pyright", "ruff"], found a string
            config.toml:13: `group.d.order`: expected a table such as { format = ["ruff"] }, found a list
            config.toml:14: `group.d.wait`: expected a table such as { completion = "500ms" }, found a string"#]],
    );
}

#[test]
fn config_reports_unknown_features() {
    check_problems(
        r#"
[server.a]
only = []
except = ["hovr", "textDocument/rename", "code-action:", "code-action:source.fixAll"]
settings = [1]
init_options = { x = inf }
"#,
        &expect![[r#"
            config.toml:3: `server.a.only`: expected at least one feature
            config.toml:4: `server.a.except[0]`: unknown feature "hovr"; did you mean "hover"?
            config.toml:4: `server.a.except[1]`: unknown feature "textDocument/rename"; did you mean "rename-symbol"?
            config.toml:4: `server.a.except[2]`: unknown feature "code-action:"; did you mean "code-action"?
            config.toml:5: `server.a.settings`: expected a table, found a list
            config.toml:6: `server.a.init_options.x`: JSON has no such number"#]],
    );
}

#[test]
fn workspace_file_only_narrows_features() {
    let user_file = "[server.a]\nonly = [\"code-action\", \"hover\"]\nexcept = [\"format\"]\n[server.b]\n";
    let (config, _) = workspace(
        user_file,
        "[server.a]\nonly = [\"code-action:source\"]\nexcept = [\"hover\", \"format\"]\n\
         [server.b]\nonly = [\"hover\"]\n[server.c]\nexcept = [\"hover\"]\n",
    )
    .unwrap();
    assert_eq!(config.servers["a"].only.as_deref(), Some(&["code-action:source".to_owned()][..]));
    assert_eq!(config.servers["a"].except, ["format", "hover"]);
    assert_eq!(config.servers["b"].only.as_deref(), Some(&["hover".to_owned()][..]));
    assert!(!config.servers.contains_key("c"), "a repository gives nobody a server");
    check_workspace_problems(
        user_file,
        "default_group = \"python\"\n[server.a]\nonly = [\"hover\", \"format\"]\nsettings = {}\nlanguages = []\n\
         [group.mine]\nservers = [\"a\"]\n",
        &expect![[r#"
            .lspool.toml:1: `default_group`: a workspace file cannot set this key; set it in your own configuration file
            .lspool.toml:3: `server.a.only`: "format" is not allowed: a workspace file can only remove features
            .lspool.toml:4: `server.a.settings`: a workspace file cannot set this key; set it in your own configuration file
            .lspool.toml:5: `server.a.languages`: a workspace file cannot set this key; set it in your own configuration file
            .lspool.toml:6: `group`: a workspace file cannot set this key; set it in your own configuration file"#]],
    );
}

#[test]
fn config_reads_who_gets_what_and_how_answers_are_combined() {
    let config = user(
        r#"
[group.g]
servers = ["a"]
combine = { hover = "first", document-symbols = "all", "textDocument/foldingRange" = "all" }
wait = { completion = "500ms" }
diagnostics_wait = "1s"
[server.a]
files = ["**/*.ts", "e2e/**"]
root_markers = ["biome.json", "node_modules/x"]
root_required = true
handles = ["a/*", "b/c"]
start = "document"
"#,
    );
    let (group, server) = (&config.groups["g"], &config.servers["a"]);
    let combine = [
        ("document-symbols", Combine::All),
        ("hover", Combine::First),
        ("textDocument/foldingRange", Combine::All),
    ];
    assert_eq!(group.combine, combine.map(|(feature, how)| (feature.to_owned(), how)).into());
    assert_eq!(group.wait, [("completion".to_owned(), Duration::from_millis(500))].into());
    assert_eq!(group.diagnostics_wait, Duration::from_secs(1));
    assert_eq!(server.files, ["**/*.ts", "e2e/**"]);
    assert_eq!(server.root_markers, ["biome.json", "node_modules/x"]);
    assert_eq!(server.handles, ["a/*", "b/c"]);
    assert_eq!((server.root_required, server.start), (true, StartAt::Document));
}

#[test]
fn config_reports_mistakes_in_who_gets_what() {
    check_problems(
        r#"
[group.g]
servers = ["a"]
combine = { format = "all", hover = "best", signature-help = "all", hovr = "first" }
wait = { hover = 3 }
[server.a]
files = ["a{b"]
root_markers = ["/a", "../b"]
handles = ["*", "a*b"]
start = "later"
"#,
        &expect![[r#"
            config.toml:4: `group.g.combine.format`: "format" goes to one server, or its answers are always joined
            config.toml:4: `group.g.combine.hover`: expected one of "all", "first", found "best"
            config.toml:4: `group.g.combine.hovr`: unknown feature "hovr"; did you mean "hover"?
            config.toml:4: `group.g.combine.signature-help`: "signature-help" has one answer, which cannot be joined with others
            config.toml:5: `group.g.wait.hover`: expected a duration such as "500ms", found 3
            config.toml:7: `server.a.files[0]`: expected a glob such as "**/*.ts", found "a{b": unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)
            config.toml:8: `server.a.root_markers[0]`: expected a path below a folder such as "biome.json", found "/a"
            config.toml:8: `server.a.root_markers[1]`: expected a path below a folder such as "biome.json", found "../b"
            config.toml:9: `server.a.handles[0]`: expected a method such as "rust-analyzer/*", found "*"
            config.toml:9: `server.a.handles[1]`: expected a method such as "rust-analyzer/*", found "a*b"
            config.toml:10: `server.a.start`: expected one of "now", "document", found "later""#]],
    );
}
