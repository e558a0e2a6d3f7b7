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
        start_wait: Duration::from_millis(1500),
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
            config.toml:2: default_group: there is no group "pyhton"; did you mean "python"?
            config.toml:4: group.a.servers[2]: "ruff" is in the group already
            config.toml:4: group.a.servers[3]: is the integer 1; write it in quotes: "1"
            config.toml:5: group.a.servers[4]: "mine" is in the group already
            config.toml:5: group.a.servers[4].onyl: there is no such key; did you mean "only"?
            config.toml:5: group.a.servers[5].server: is missing, and has no default
            config.toml:6: group.a.order.completion: is a text; write a list of texts, such as ["ruff"]
            config.toml:6: group.a.order.fromat: there is no feature "fromat"; did you mean "format"?
            config.toml:6: group.a.order.hover[0]: the group has no member "raff"; did you mean "ruff"?
            config.toml:6: group.a.order.hover[1]: the group has no member "x"; there are: ruff, mine, ruff, mine
            config.toml:8: group.b.servers: must name a server
            config.toml:9: group.c.servers: is missing, and has no default
            config.toml:10: group.c.start_wait: is the integer 3; write a duration with its unit, such as "5m"
            config.toml:12: group.d.servers: is a text; write a list of servers, such as ["pyright", "ruff"]
            config.toml:13: group.d.order: is a list; write a table, such as { format = ["ruff"] }
            config.toml:14: group.d.wait: there is no such key; there are: servers, order, start_wait"#]],
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
            config.toml:3: server.a.only: must name a feature
            config.toml:4: server.a.except[0]: there is no feature "hovr"; did you mean "hover"?
            config.toml:4: server.a.except[1]: there is no feature "textDocument/rename"; did you mean "rename-symbol"?
            config.toml:4: server.a.except[2]: there is no feature "code-action:"; did you mean "code-action"?
            config.toml:5: server.a.settings: is a list; write a table
            config.toml:6: server.a.init_options.x: is no number that JSON has"#]],
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
            .lspool.toml:1: default_group: is not for a workspace file, which comes from whoever wrote the repository; write it in your own configuration file
            .lspool.toml:3: server.a.only: "format" is not allowed here; a workspace file may only allow less
            .lspool.toml:4: server.a.settings: is not for a workspace file, which comes from whoever wrote the repository; write it in your own configuration file
            .lspool.toml:5: server.a.languages: is not for a workspace file, which comes from whoever wrote the repository; write it in your own configuration file
            .lspool.toml:6: group: is not for a workspace file, which comes from whoever wrote the repository; write it in your own configuration file"#]],
    );
}
