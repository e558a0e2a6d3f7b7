//! Several servers: from the command line, from the configuration, from a preset.

use super::*;
use crate::core::event::Prepared;

/// What stands behind the editor, a line for each member.
fn told(tree: &Tree, prepared: Result<Prepared, String>) -> String {
    let member = |name: &str, launch: &crate::core::event::Launch, missing: Option<&String>| {
        let words = [launch.program.display().to_string()].into_iter().chain(launch.args.iter().cloned());
        let how = missing.cloned().unwrap_or_else(|| words.collect::<Vec<_>>().join(" "));
        format!("{name}: {how}\n")
    };
    let text = match prepared {
        Err(error) => error,
        Ok(it) => {
            let first = member(&it.name, &it.launch, it.missing.as_ref());
            let group = it.group.map(|group| {
                let others = group.others.iter().map(|it| member(&it.name, &it.launch, it.missing.as_ref()));
                (format!("[{}]\n", group.name), others.collect::<String>())
            });
            let (head, others) = group.unwrap_or_default();
            head + &first + &others
        }
    };
    tree.show(&text)
}

impl Tree {
    fn check_group(&self, group: Option<&str>, commands: &[&[&str]], user: &str, expected: &Expect) {
        let commands = commands.iter().map(|it| self.command(it)).collect();
        let cli = CliServers { group: group.map(ToOwned::to_owned), commands };
        expected.assert_eq(&told(self, self.prepare_all(&cli, user)));
    }
}

fn tree(programs: &[&str]) -> Tree {
    let tree = Tree::new();
    for program in programs {
        tree.program(&format!("bin/{program}"));
    }
    tree
}

#[test]
fn commands_are_a_group_in_their_order() {
    let tree = tree(&["a", "b", "node"]);
    tree.check_group(
        None,
        &[&["b", "1"], &["a"]],
        "",
        &expect![[r"
        [b+a]
        b: /bin/b 1
        a: /bin/a
    "]],
    );
    tree.check_group(
        None,
        &[&["node", "x"], &["node", "y"], &["node", "z"]],
        "",
        &expect![[r"
        [node+node#2+node#3]
        node: /bin/node x
        node#2: /bin/node y
        node#3: /bin/node z
    "]],
    );
    tree.check_group(
        None,
        &[&["a"]],
        "",
        &expect![[r"
        a: /bin/a
    "]],
    );
    let user = "[server.\"node#2\"]\nmax_processes = 3\nargs = [\"q\"]\n";
    let cli =
        CliServers { group: None, commands: vec![tree.command(&["node"]), tree.command(&["node", "y"])] };
    let group = tree.prepare_all(&cli, user).unwrap().group.unwrap();
    assert_eq!(group.others[0].server.max_processes, 3, "it has a section of its own");
    assert_eq!(group.others[0].launch.args, ["y"]);
}

#[test]
fn group_has_members_of_configuration_then_commands() {
    let tree = tree(&["a", "b", "ruff"]);
    let user = "[group.g]\nservers = [\"b\", { server = \"a\", except = [\"hover\"] }]\norder = { hover = [\"a\"] }\n\
                start_wait = \"5s\"\n[server.a]\nexcept = [\"format\"]\n[server.b]\nargs = [\"x\"]\n\
                [group.one]\nservers = [\"ruff\"]\n";
    tree.check_group(
        Some("g"),
        &[&["ruff", "server"], &["a", "1"]],
        user,
        &expect![[r"
        [g]
        b: /bin/b x
        a: /bin/a
        ruff: /bin/ruff server
        a#2: /bin/a 1
    "]],
    );
    let cli = CliServers { group: Some("g".to_owned()), commands: Vec::new() };
    let group = tree.prepare_all(&cli, user).unwrap().group.unwrap();
    assert_eq!(group.start_wait, std::time::Duration::from_secs(5));
    assert_eq!(group.order["hover"], ["a"]);
    assert_eq!(group.others[0].server.except, ["format", "hover"]);
    tree.check_group(
        Some("one"),
        &[],
        user,
        &expect![[r"
        ruff: /bin/ruff server
    "]],
    );
    tree.check_group(
        Some("grp"),
        &[],
        user,
        &expect![[r#"unknown group "grp"; expected one of g, one, python, typescript, vue, web"#]],
    );
    tree.check_group(
        Some("pyhton"),
        &[],
        user,
        &expect![[r#"unknown group "pyhton"; did you mean "python"?"#]],
    );
}

#[test]
fn default_group_goes_before_default_server() {
    let tree = tree(&["a", "b"]);
    let user = "default_server = \"a\"\ndefault_group = \"g\"\n[group.g]\nservers = [\"a\", \"b\"]\n[server.a]\n[server.b]\n";
    tree.check_group(
        None,
        &[],
        user,
        &expect![[r"
        [g]
        a: /bin/a
        b: /bin/b
    "]],
    );
    tree.check_group(
        None,
        &[&["b"]],
        user,
        &expect![[r"
        b: /bin/b
    "]],
    );
    let folder = format!("{user}[[folder]]\npath = \"ROOT/ws\"\ndefault_server = \"b\"\n");
    tree.check_group(
        None,
        &[],
        &folder,
        &expect![[r"
        b: /bin/b
    "]],
    );
}

#[test]
fn preset_takes_first_installed_server() {
    let all = tree(&["basedpyright-langserver", "pyright-langserver", "ty", "ruff"]);
    all.check_group(
        Some("python"),
        &[],
        "",
        &expect![[r"
        [python]
        basedpyright: /bin/basedpyright-langserver --stdio
        ruff: /bin/ruff server
    "]],
    );
    let some = tree(&["ty", "ruff"]);
    some.check_group(
        Some("python"),
        &[],
        "",
        &expect![[r"
        [python]
        ty: /bin/ty server
        ruff: /bin/ruff server
    "]],
    );
    let user = "[server.pyright]\ncommand = \"ROOT/bin/ty\"\nargs = [\"mine\"]\n[group.web]\nservers = [\"ty\", \"ruff\"]\n";
    some.check_group(
        Some("python"),
        &[],
        user,
        &expect![[r"
        [python]
        pyright: /bin/ty mine
        ruff: /bin/ruff server
    "]],
    );
    some.check_group(
        Some("python"),
        &[],
        "[group.python]\nservers = [\"ruff\", \"ty\"]\n",
        &expect![[r"
        [python]
        ruff: /bin/ruff server
        ty: /bin/ty server
    "]],
    );
}

#[test]
fn missing_member_does_not_keep_others_from_starting() {
    let tree = tree(&["ruff"]);
    tree.program("ws/.venv/bin/ty");
    tree.check_group(
        Some("python"),
        &[&["a"]],
        "",
        &expect![[r#"
        [python]
        basedpyright: "basedpyright-langserver" is not on PATH: install it, or write its absolute path
        hint: the group also takes pyright or ty
        ruff: /bin/ruff server
        a: "a" is not on PATH: install it, or write its absolute path
    "#]],
    );
    let cli = CliServers { group: None, commands: vec![tree.command(&["a"]), tree.command(&["ruff"])] };
    let warnings = tree.prepare_all(&cli, "").unwrap().warnings;
    assert_eq!(
        warnings,
        ["lspool: a could not start: \"a\" is not on PATH: install it, or write its absolute path"]
    );
    tree.check_group(
        None,
        &[&["a"], &["~/b"]],
        "",
        &expect![[r#"
        no server of the group could start:
        a: "a" is not on PATH: install it, or write its absolute path
        b: /home/b does not exist"#]],
    );
}

#[test]
fn workspace_file_narrows_members() {
    let tree = tree(&["a", "b"]);
    tree.file("ws/.lspool.toml", "[server.b]\nexcept = [\"hover\"]\n");
    let cli = CliServers { group: None, commands: vec![tree.command(&["a"]), tree.command(&["b"])] };
    let group = tree.prepare_all(&cli, "").unwrap().group.unwrap();
    assert_eq!(group.others[0].server.except, ["hover"]);
}
