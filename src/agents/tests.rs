//! Valid and invalid agent files.

use std::{collections::BTreeMap, path::Path};

use expect_test::{Expect, expect};
use proptest::{collection::vec, prelude::*, sample::select};

use super::{Author, Registry, aliases::ALIASES, parse, yaml::Node};
use crate::config::{AgentConfig, AgentSource, Config};

fn check(text: &str, expected: &Expect) {
    let shown = match parse(text, Path::new("x/reviewer.agent.md")) {
        Ok(it) => {
            let AgentConfig { tools, disallowed_tools, description, prompt, model, max_turns, other, .. } =
                it.agent;
            let mut lines = vec![
                format!("{}: {description:?}", it.name),
                format!("tools {tools:?} without {disallowed_tools:?}"),
                format!("model {model:?}, turns {max_turns:?}, prompt {prompt:?}"),
            ];
            lines.extend(other.iter().map(|(key, value)| format!("{key} = {value}")));
            lines.extend(it.warnings.iter().map(ToString::to_string));
            lines.join("\n")
        }
        Err(problems) => problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
    };
    expected.assert_eq(&shown);
}

#[test]
fn parser_reads_claude_code_agent_file() {
    check(
        "---\r\nname: code-reviewer\r\ndescription: Reviews code. Use it: often\r\n---\r\nx",
        &expect![[r#"
            code-reviewer: Some("Reviews code. Use it: often")
            tools None without []
            model None, turns None, prompt Some("x")
            3: description: put text that contains a colon and a space in quotes"#]],
    );
    check(
        "---\nname: code-reviewer\ndescription: >\n  Reviews code,\n  all of it\ntools: Read, Grep, Glob, Bash(git diff:*, git log:*), mcp__jira__get_issue\nmodel: sonnet\ncolor: red\nmaxTurns: 12\n---\n\nYou are careful.\n\nVery.\n",
        &expect![[r#"
            code-reviewer: Some("Reviews code, all of it")
            tools Some(["read_file", "grep_search", "file_search", "jira/get_issue"]) without []
            model Some("sonnet"), turns Some(12), prompt Some("You are careful.\n\nVery.")
            color = "red"
            6: tools: ignoring "Bash(git diff:*, git log:*)": lspool cannot limit run_in_terminal to some arguments"#]],
    );
}

#[test]
fn parser_warns_of_limits_that_are_not_honored() {
    check(
        "---\nisolation: worktree\npermissionMode: plan\nreadonly: true\ninfer: false\nmax_steps: 3\ntools: none\n---\n",
        &expect![[r#"
            reviewer: None
            tools Some([]) without []
            model None, turns None, prompt None
            infer = false
            isolation = "worktree"
            max_steps = 3
            permissionMode = "plan"
            readonly = true
            2: isolation: not honored: the agent works in the workspace itself
            3: permissionMode: not honored: lspool asks as for any agent; use tools
            4: readonly: not honored: use tools
            5: infer: not honored: a lead may start the agent
            6: max_steps: not honored: use maxTurns
            7: tools: "none" is read as `[]`: no tools"#]],
    );
    let open = "isolation: null\npermissionMode: acceptEdits\nreadonly: false\ninfer: true\ncolor: red";
    let open = parse(&format!("---\n{open}\n---\n"), Path::new("a.md")).unwrap();
    assert_eq!((open.agent.other.len(), open.warnings.len()), (5, 0));
}

#[test]
fn editor_gets_warnings_in_one_message() {
    let mut registry = Registry::default();
    assert!(registry.for_editor().is_empty());
    registry.problems.push("p".to_owned());
    registry.warnings.extend((0..7).map(|it| format!("w{it}")));
    let told = ["p", "w0\nw1\nw2\nw3\nw4\n2 more; `lspool agents` shows them all"];
    assert_eq!(registry.for_editor(), told);
}

#[test]
fn settings_without_effect_on_leads_are_told() {
    let text = "[agent.boss]\nlead = true\nprompt = \"p\"\nmodel = \"m\"\n[agent.b]\nlead = true\n[agent.c]\nprompt = \"p\"\n";
    let config = Config::parse_user(text, "c").unwrap();
    expect![[r#"
        [
            "agent \"boss\": model, prompt of a lead: no effect in its own conversations, only when another lead starts it",
        ]
    "#]]
    .assert_debug_eq(&super::unused_by_leads(&config));
}

#[test]
fn parser_reads_github_agent_file() {
    check(
        "---\ndescription: 'Plans things'\ntools: ['search', 'edit', \"jira/*\", usages]\nmodel: [GPT-4.1, o3]\nhandoffs:\n  - label: Go\n    send: true\n    n: 1.5\n---\nBody",
        &expect![[r#"
            reviewer: Some("Plans things")
            tools Some(["grep_search", "file_search", "replace_string_in_file", "jira/*", "list_code_usages"]) without []
            model Some("GPT-4.1"), turns None, prompt Some("Body")
            handoffs = [{"label":"Go","send":true,"n":1.5}]"#]],
    );
}

#[test]
fn parser_reads_names_of_vs_code_tools() {
    check(
        "---\ndescription: Use when: it's late: or \"so\"\ntools: [edit/editFiles, search/codebase, read/readFile, execute/runInTerminal, 'web/fetch', vscode/vscodeAPI, agent/runSubagent, search/tickets]\n---\n",
        &expect![[r#"
            reviewer: Some("Use when: it's late: or \"so\"")
            tools Some(["replace_string_in_file", "semantic_search", "read_file", "run_in_terminal", "fetch_webpage", "search/tickets"]) without []
            model None, turns None, prompt None
            2: description: put text that contains a colon and a space in quotes
            3: tools: ignoring "vscode/vscodeAPI": it matches no tool here
            3: tools: ignoring "agent/runSubagent": it matches no tool here"#]],
    );
}

#[test]
fn parser_takes_only_one_line_texts_with_colons() {
    for front in [
        "description: a: b\n  c",
        "tools: a: b",
        "model: a: b",
        "maxTurns: 1: 2",
        "description: a: b\nx: y: z",
    ] {
        let problems = parse(&format!("---\n{front}\n---\n"), Path::new("a.md")).unwrap_err();
        assert!(problems[0].what.starts_with("invalid YAML: mapping values"), "{front}: {problems:?}");
    }
}

#[test]
fn parser_warns_about_unknown_tools_and_widens_nothing() {
    check(
        "---\ntools: [NotebookEdit, Task, 'Web Search', raed_file, serach, my_search, fetch_ticket]\ndisallowedTools: Bash(rm:*), Skill, Write\n---\n",
        &expect![[r#"
            reviewer: None
            tools Some(["raed_file", "serach", "my_search", "fetch_ticket"]) without ["run_in_terminal", "create_file"]
            model None, turns None, prompt None
            2: tools: ignoring "NotebookEdit": it matches no tool here
            2: tools: ignoring "Task": it matches no tool here
            2: tools: ignoring "Web Search": it matches no tool here; separate names with commas
            2: tools: unknown tool "raed_file"; did you mean "read_file"?
            2: tools: unknown tool "serach"; did you mean "search"?
            3: disallowedTools: "Bash(rm:*)" removes run_in_terminal altogether: lspool cannot limit it to some arguments
            3: disallowedTools: "Skill" matches no tool here"#]],
    );
}

#[test]
fn missing_tools_key_means_all_and_empty_list_none() {
    for (front, tools) in [
        ("name: a", None),
        ("tools: '*'", None),
        ("tools: [Read, '*']", None),
        ("tools: []", Some(vec![])),
        ("tools: ''", Some(vec![])),
        ("tools: Skill", Some(vec![])),
        ("disallowedTools: none", None),
    ] {
        let agent = parse(&format!("---\n{front}\n---\n"), Path::new("a.md")).unwrap().agent;
        assert_eq!((agent.tools, agent.disallowed_tools.len()), (tools, 0), "{front}");
    }
}

#[test]
fn parser_reports_line_and_reason_for_invalid_file() {
    for (text, expected) in [
        (
            "# Hello",
            expect![
                "1: missing front matter: the file must begin with a line `---`, and a second `---` must end it"
            ],
        ),
        (
            "---\nname: a\n",
            expect![
                "1: missing front matter: the file must begin with a line `---`, and a second `---` must end it"
            ],
        ),
        ("---\n- a\n---\n", expect!["2: the front matter is a list; expected `key: value` lines"]),
        (
            "---\nname: a\ntools:\n---\n",
            expect!["3: tools: expected a list of names (`[]` for none), found empty"],
        ),
        (
            "---\nname: [a]\ntools: {a: b}\nmaxTurns: many\n---\n",
            expect![[r#"
                2: name: expected text, found a list
                3: tools: expected a list of names (`[]` for none), found a table
                4: maxTurns: expected an integer of at least 1, found a text"#]],
        ),
        ("---\nmaxTurns: 0\n---\n", expect!["2: maxTurns: expected an integer of at least 1, found 0"]),
        ("---\nname: a\nname: b\n---\n", expect!["3: duplicate key name"]),
        (
            "---\nname: &a x\ndescription: *a\n---\n",
            expect![
                "2: anchors (&) and aliases (*) are not supported; put text that begins with one in quotes"
            ],
        ),
        (
            "---\nname: \"a\n---\n",
            expect!["2: invalid YAML: while scanning a quoted scalar, found unexpected end of stream"],
        ),
        (
            "---\nname: a\n\ttools: x\n---\n",
            expect!["2: invalid YAML: while scanning a plain scalar, found a tab"],
        ),
        ("---\nname: ''\n---\n", expect!["2: name: expected text, found empty"]),
    ] {
        check(text, &expected);
    }
}

#[test]
fn parser_refuses_misspelled_keys_and_keeps_foreign_ones() {
    for (key, meant) in [
        ("tool", "tools"),
        ("Tools", "tools"),
        ("toosl", "tools"),
        ("allowed-tools", "tools"),
        ("allowed_tools", "tools"),
        ("allowedTools", "tools"),
        ("disallowed-tools", "disallowedTools"),
        ("disalowedTools", "disallowedTools"),
        ("deniedTools", "disallowedTools"),
        ("Model", "model"),
        ("modle", "model"),
        ("max-turns", "maxTurns"),
        ("Name", "name"),
    ] {
        let problems = parse(&format!("---\n{key}: Read\n---\n"), Path::new("a.md")).unwrap_err();
        let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(told, [format!("2: {key}: unknown key; did you mean {meant}?")]);
    }
    let others = "mode: subagent\ncolor: red\nargument-hint: x\nhandoffs: []\ntarget: vscode\nmcp-servers: {a: b}\n\
                  permissionMode: plan\nskills: []\nmemory: user\nhooks: []\ninfer: true\ntemperature: 1\neffort: high";
    let agent = parse(&format!("---\n{others}\n---\n"), Path::new("a.md")).unwrap().agent;
    assert_eq!(agent.other.len(), others.lines().count());
}

#[test]
fn aliases_are_sorted_and_map_to_known_tools() {
    assert!(ALIASES.windows(2).all(|it| it[0].0 < it[1].0));
    for (_, tools) in ALIASES {
        for tool in *tools {
            let text = format!("---\ntools: {tool}\n---\n");
            let read = parse(&text, Path::new("a.md")).unwrap();
            assert_eq!(read.agent.tools, Some(vec![(*tool).to_owned()]));
            assert_eq!(read.warnings, []);
        }
    }
}

#[test]
fn errors_in_files_hide_secrets() {
    let text = "---\nghp_16C7e42F292c: 1\nghp_16C7e42F292c: 2\n---\n";
    let problems = parse(text, Path::new("a.md")).unwrap_err();
    assert_eq!(problems[0].to_string(), "3: duplicate key <secret>");
}

/// The documentation has a line for each list of tools with its aliases, without those of VS Code with a slash.
#[test]
fn documentation_lists_every_alias_of_a_tool() {
    let mut lines = BTreeMap::<String, Vec<String>>::new();
    for (alias, tools) in ALIASES.iter().filter(|(it, tools)| !it.contains('/') && !tools.is_empty()) {
        let tools = tools.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ");
        lines.entry(tools).or_default().push(format!("`{alias}`"));
    }
    let text = include_str!("../../docs/agents.md").split_whitespace().collect::<Vec<_>>().join(" ");
    for (tools, aliases) in lines {
        let line = format!("- {tools}: {} ", aliases.join(", "));
        assert!(text.contains(&line), "docs/agents.md has no line {line}");
    }
}

#[test]
fn user_agents_replace_builtin_ones_and_workspace_agents_replace_none() {
    let mut config = Config::default().merge_user("[agent.mine]\ntools = []", "config.toml").unwrap().0;
    let mut registry = Registry::default();
    let mut add = |author, path: &str, name: &str| {
        let text = format!("---\nname: {name}\ntools: Read\n---\n{path}");
        registry.add(&mut config, author, Path::new(path), Ok(&text));
    };
    add(Author::User, "home/plan.md", "plan");
    add(Author::User, "home/mine.md", "mine");
    add(Author::User, "home/new.md", "new");
    add(Author::User, "other/new.md", "New");
    add(Author::User, "home/bash.md", "Bash");
    add(Author::Workspace, "w/explore.md", "Explore");
    add(Author::Workspace, "w/new.md", "new");
    add(Author::Workspace, "w/own.md", "own");
    add(Author::Workspace, "v/own.md", "own");
    registry.add(&mut config, Author::Workspace, Path::new("w/bad.md"), Ok("nothing"));
    registry.add(&mut config, Author::Workspace, Path::new("w/gone.md"), Err("it is not a file".to_owned()));
    assert_eq!(config.agents["plan"].source, AgentSource::UserFile("home/plan.md".into()));
    assert_eq!(config.agents["own"].prompt.as_deref(), Some("w/own.md"));
    assert_eq!(config.agents["explore"].source, AgentSource::Builtin);
    assert_eq!(config.agents["Bash"].source, AgentSource::UserFile("home/bash.md".into()));
    assert!(!config.agents.contains_key("bash"));
    assert!(!config.agents.contains_key("Explore"));
    expect![[r#"
        w/bad.md:1: missing front matter: the file must begin with a line `---`, and a second `---` must end it
        w/gone.md: it is not a file
        home/mine.md:1: agent "mine" is shadowed: the user's configuration has an agent of that name
        other/new.md:1: agent "New" is shadowed: home/new.md has an agent of that name
        w/explore.md:1: agent "Explore" is shadowed: lspool has an agent of that name
        w/new.md:1: agent "new" is shadowed: home/new.md has an agent of that name
        v/own.md:1: agent "own" is shadowed: w/own.md has an agent of that name"#]].assert_eq(&registry.all().collect::<Vec<_>>().join("\n"));
}

#[test]
fn broken_user_file_reserves_its_name_against_workspaces() {
    let (mut config, mut registry) = (Config::default(), Registry::default());
    registry.add(&mut config, Author::User, Path::new("home/Reviewer.md"), Ok("nothing"));
    registry.add(
        &mut config,
        Author::User,
        Path::new("home/tester.agent.md"),
        Err("it is not a file".to_owned()),
    );
    for name in ["reviewer", "Tester", "other"] {
        let text = format!("---\nname: {name}\n---\n");
        registry.add(&mut config, Author::Workspace, Path::new(&format!("w/{name}.md")), Ok(&text));
    }
    let shadowed: Vec<String> = registry.shadowed.iter().map(ToString::to_string).collect();
    assert_eq!(
        shadowed,
        [
            "w/reviewer.md:1: agent \"reviewer\" is shadowed: home/Reviewer.md has an agent of that name",
            "w/Tester.md:1: agent \"Tester\" is shadowed: home/tester.agent.md has an agent of that name",
        ]
    );
    assert!(config.agents.contains_key("other") && !config.agents.contains_key("reviewer"));
    // Another file of the user may have the name.
    registry.add(&mut config, Author::User, Path::new("other/reviewer.md"), Ok("---\nname: reviewer\n---\n"));
    assert!(config.agents.contains_key("reviewer"));
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z_]{1,8}",
        "[A-Z][a-z]{1,6}",
        "[A-Za-z]{1,5}\\([a-z:*]{0,5}\\)",
        select(ALIASES).prop_map(|(it, _)| it.to_owned()),
        "mcp__[a-z]{0,3}(__[a-z]{0,3})?",
        "[a-z]{0,3}/[a-z*]{0,3}",
        "[ -~]{1,10}",
    ]
}

proptest! {
    /// For any content, an error names an existing line.
    #[test]
    fn parser_reads_any_text_or_reports_valid_lines(text in "\\PC*|(---\n)?([a-z]{1,5}: ?[&*\\[\\]{}'\"|>#!a-z0-9, -]{0,12}\n){0,5}(---\n)?") {
        if let Err(problems) = parse(&text, Path::new("a.md")) {
            let lines = text.lines().count() + 1;
            prop_assert!(!problems.is_empty());
            prop_assert!(problems.iter().all(|it| (1..=lines).contains(&it.line)), "{problems:?}");
        }
    }

    /// A list gives the tools of its names, and only `*` gives all.
    #[test]
    fn tool_list_grants_no_more_than_its_names(names in vec(name(), 0..6), quoted in any::<bool>()) {
        let list = serde_json::to_string(&names).unwrap();
        let text = if quoted || names.iter().any(|it| it.contains([',', '(', ')'])) {
            format!("---\ntools: {list}\n---\n")
        } else {
            format!("---\ntools: {}\n---\n", serde_json::to_string(&names.join(",")).unwrap())
        };
        let Ok(read) = parse(&text, Path::new("a.md")) else { return Ok(()) };
        let is_all = names.iter().any(|it| it.trim() == "*");
        prop_assert_eq!(read.agent.tools.is_none(), is_all);
        let alone = |name: &String| {
            let text = format!("---\ntools: {}\n---\n", serde_json::to_string(&[name]).unwrap());
            let tools = parse(&text, Path::new("a.md")).map(|it| it.agent.tools);
            tools.ok().flatten().unwrap_or_default()
        };
        let each: std::collections::BTreeSet<String> = names.iter().flat_map(alone).collect();
        for tool in read.agent.tools.unwrap_or_default() {
            prop_assert!(each.contains(&tool), "{} comes of nothing in {:?}", tool, names);
        }
    }

    /// The order of the files decides, not their contents.
    #[test]
    fn registry_never_gives_workspace_agents_existing_names(
        files in vec((any::<bool>(), 0_usize..6), 0..12),
    ) {
        const NAMES: [&str; 6] = ["explore", "Explore", "bash", "a", "A", "b"];
        let mut config = Config::default();
        let mut registry = Registry::default();
        // In the order of reading: the user's first.
        let (user, workspace): (Vec<_>, Vec<_>) = files.into_iter().partition(|(is_user, _)| *is_user);
        for (n, (is_user, name)) in user.iter().chain(&workspace).enumerate() {
            let author = if *is_user { Author::User } else { Author::Workspace };
            let text = format!("---\nname: {}\n---\n", NAMES[*name]);
            registry.add(&mut config, author, Path::new(&format!("{n}.md")), Ok(&text));
        }
        let total = user.len() + workspace.len();
        let of_files = config.agents.values().filter(|it| it.source != AgentSource::Builtin).count();
        prop_assert_eq!(of_files + registry.shadowed.len(), total);
        for (name, agent) in &config.agents {
            if matches!(agent.source, AgentSource::Workspace(_)) {
                let same = config.agents.keys().filter(|it| it.to_lowercase() == name.to_lowercase()).count();
                prop_assert_eq!(same, 1, "{} of a repository is like another one", name);
            }
        }
        for builtin in Config::default().agents.keys() {
            let mut same = config.agents.iter().filter(|(it, _)| it.to_lowercase() == *builtin);
            prop_assert!(same.next().is_some_and(|(_, it)| !matches!(it.source, AgentSource::Workspace(_))));
            prop_assert!(same.next().is_none());
        }
    }
}

#[test]
fn yaml_reader_keeps_types_and_line_numbers() {
    let entries = super::yaml::read("a: [1, '1', ~, on]\nb:\n  c: |\n    x\n    y\n  d: true", 0).unwrap();
    let shown: Vec<String> = entries
        .iter()
        .map(|(key, line, node): &(String, usize, Node)| {
            format!("{line} {key} {} {}", node.line, node.to_json())
        })
        .collect();
    assert_eq!(shown, [r#"1 a 1 [1,"1",null,"on"]"#, r#"2 b 3 {"c":"x\ny\n","d":true}"#]);
}
