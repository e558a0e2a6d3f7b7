//! Finds servers in trees of files. `PATH` never leads out of a tree.

mod groups;

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use expect_test::{Expect, expect};
use tempfile::TempDir;

use super::{env::npm_platform, *};
use crate::config::{Config, ServerKind};

/// A temporary folder with a home folder, a workspace, and others.
struct Tree {
    root: PathBuf,
    env: Env,
    _dir: TempDir,
}

impl Tree {
    fn new() -> Tree {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        for folder in ["home", "ws", "bin"] {
            fs::create_dir(root.join(folder)).unwrap();
        }
        let env = Env { cwd: root.join("ws"), home: Some(root.join("home")), ..Env::default() };
        let mut tree = Tree { root, env, _dir: dir };
        tree.var("PATH", tree.at("bin"));
        tree
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.replace("PLATFORM", &npm_platform()))
    }

    fn var(&mut self, name: &str, value: impl Into<OsString>) {
        self.env.vars.insert(name.into(), value.into());
    }

    fn file(&self, path: &str, text: &str) -> PathBuf {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn program(&self, path: &str) -> PathBuf {
        let path = self.file(path, "\x7fELF");
        executable(&path);
        path
    }

    /// The package as npm installs it: the link in `bin`, the script, and perhaps the native executable.
    fn npm_package(&self, prefix: &str, native: Option<&str>) {
        let modules = format!("{prefix}/lib/node_modules/@github");
        let script = format!("{modules}/copilot-language-server/dist/language-server.js");
        executable(&self.file(&script, "#!/usr/bin/env node\n"));
        self.link(
            &format!("{prefix}/bin/copilot-language-server"),
            "../lib/node_modules/@github/copilot-language-server/dist/language-server.js",
        );
        if let Some(native) = native {
            self.program(&format!("{modules}/{native}"));
        }
    }

    fn link(&self, path: &str, to: impl AsRef<Path>) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(to, path).unwrap();
    }

    fn workspace(&self) -> Workspace {
        Workspace::new(&[self.at("ws")])
    }

    fn show(&self, text: &str) -> String {
        text.replace(self.root.to_str().unwrap(), "").replace(&npm_platform(), "PLATFORM")
    }

    fn check_search(&self, expected: &Expect) {
        let told = match search(&self.env, &self.workspace()) {
            Ok(Found { program, script, place, skipped }) => {
                let script = script.map(|it| format!(" {}", it.display())).unwrap_or_default();
                let found = format!("{}{script} ({place})", program.display());
                skipped.iter().fold(found, |told, it| format!("{told}\n{it}"))
            }
            Err(error) => error.to_string(),
        };
        expected.assert_eq(&self.show(&told));
    }

    fn prepare(&self, command: &[&str], user: &str) -> Result<crate::core::event::Prepared, String> {
        let commands = (!command.is_empty()).then(|| self.command(command));
        self.prepare_all(&CliServers { group: None, commands: commands.into_iter().collect() }, user)
    }

    fn prepare_all(&self, cli: &CliServers, user: &str) -> Result<crate::core::event::Prepared, String> {
        let user = Config::parse_user(&self.root_in(user), "config.toml").unwrap();
        prepare(cli, &user.into(), &[self.at("ws")], &self.env)
    }

    fn command(&self, words: &[&str]) -> CliServer {
        let mut words = words.iter().map(|it| self.root_in(it));
        CliServer { command: words.next().unwrap(), args: words.collect() }
    }

    fn root_in(&self, text: &str) -> String {
        text.replace("ROOT", self.root.to_str().unwrap())
    }

    fn check_prepare(&self, command: &[&str], user: &str, expected: &Expect) {
        let told = match self.prepare(command, user) {
            Ok(it) => {
                let kind = it.server.kind;
                let args = it.launch.args.join(" ");
                format!("{}: {} {args} ({kind:?})", it.name, it.launch.program.display())
            }
            Err(error) => error,
        };
        expected.assert_eq(&self.show(&told));
    }
}

fn executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn search_reports_missing_server() {
    Tree::new().check_search(&expect!["found no copilot-language-server on PATH, in npm's global folder, or in the folders of editor plug-ins; install it (npm install -g @github/copilot-language-server), or name it: as `lspool -- /absolute/path/copilot-language-server --stdio`, or as `command` under [server.copilot] in the configuration file"]);
}

#[test]
fn search_prefers_executable_on_path() {
    let mut tree = Tree::new();
    tree.program("bin/copilot-language-server");
    tree.program("usr/bin/copilot-language-server");
    tree.file("data/copilot-language-server", "may not be executed");
    let path = std::env::join_paths(["data", "bin", "usr/bin"].map(|it| tree.at(it))).unwrap();
    tree.var("PATH", path);
    tree.check_search(&expect![[r"
        /bin/copilot-language-server (PATH)
        skipped /usr/bin/copilot-language-server: an earlier one goes first"]]);
}

#[test]
fn search_prefers_native_binary_to_linked_script() {
    for native in [
        "copilot-language-server/node_modules/@github/copilot-language-server-PLATFORM/copilot-language-server",
        "copilot-language-server-PLATFORM/copilot-language-server",
    ] {
        let mut tree = Tree::new();
        tree.npm_package("npm", Some(native));
        tree.program("npm/bin/node");
        tree.var("PATH", tree.at("npm/bin"));
        let found = search(&tree.env, &tree.workspace()).unwrap();
        assert_eq!(
            found.program,
            tree.at("npm/lib/node_modules/@github")
                .join(tree.root_in(native).replace("PLATFORM", &npm_platform()))
        );
        assert_eq!(found.script, None);
        assert_eq!(found.skipped.len(), 1, "the script: {:?}", found.skipped);
    }
}

#[test]
fn search_runs_script_with_node() {
    let mut tree = Tree::new();
    tree.npm_package("npm", None);
    tree.var("PATH", tree.at("npm/bin"));
    tree.check_search(&expect![[r"
        found no copilot-language-server on PATH, in npm's global folder, or in the folders of editor plug-ins; install it (npm install -g @github/copilot-language-server), or name it: as `lspool -- /absolute/path/copilot-language-server --stdio`, or as `command` under [server.copilot] in the configuration file
        skipped /npm/lib/node_modules/@github/copilot-language-server/dist/language-server.js: a script for node, which is not on PATH"]]);
    tree.program("bin/node");
    tree.var("PATH", std::env::join_paths([tree.at("npm/bin"), tree.at("bin")]).unwrap());
    tree.check_search(&expect![
        "/bin/node /npm/lib/node_modules/@github/copilot-language-server/dist/language-server.js (PATH)"
    ]);
}

#[test]
fn search_uses_node_outside_workspace_for_any_shebang() {
    let mut tree = Tree::new();
    executable(&tree.file("bin/copilot-language-server", "#!/usr/bin/env -S node --no-warnings\n"));
    tree.program("ws/bin/node");
    tree.program("opt/node");
    tree.var("PATH", ["ws/bin", "bin", "opt"].map(|it| tree.at(it).display().to_string()).join(":"));
    let found = search(&tree.env, &tree.workspace()).unwrap();
    assert_eq!(
        (found.program, found.script),
        (tree.at("opt/node"), Some(tree.at("bin/copilot-language-server")))
    );
}

#[test]
fn search_prefers_native_binary_to_script_on_path() {
    let mut tree = Tree::new();
    tree.npm_package("npm", None);
    tree.program("npm/bin/node");
    tree.var("PATH", tree.at("npm/bin"));
    tree.program("home/.local/share/JetBrains/IdeaIC2025.3/github-copilot-intellij/copilot-agent/native/PLATFORM/copilot-language-server");
    tree.check_search(&expect![[r"
        /home/.local/share/JetBrains/IdeaIC2025.3/github-copilot-intellij/copilot-agent/native/PLATFORM/copilot-language-server (a JetBrains plug-in)
        skipped /npm/lib/node_modules/@github/copilot-language-server/dist/language-server.js: a script for node, which would only start the native server"]]);
}

#[test]
fn search_refuses_relative_path_entries_and_workspace() {
    let mut tree = Tree::new();
    tree.program("ws/node_modules/.bin/copilot-language-server");
    tree.program("ws/tools/copilot-language-server");
    tree.program("ws/copilot-language-server");
    let absolute = tree.at("ws/tools");
    tree.var("PATH", format!("node_modules/.bin::.:{}", absolute.display()));
    tree.check_search(&expect![[r"
        found no copilot-language-server on PATH, in npm's global folder, or in the folders of editor plug-ins; install it (npm install -g @github/copilot-language-server), or name it: as `lspool -- /absolute/path/copilot-language-server --stdio`, or as `command` under [server.copilot] in the configuration file
        skipped /ws/node_modules/.bin/copilot-language-server: inside the workspace /ws
        skipped /ws/copilot-language-server: inside the workspace /ws
        skipped /ws/tools/copilot-language-server: inside the workspace /ws"]]);
}

#[test]
fn search_refuses_links_into_workspace() {
    // A folder of PATH that is a link into the workspace.
    let mut tree = Tree::new();
    tree.program("ws/a/copilot-language-server");
    tree.link("link", tree.at("ws/a"));
    tree.var("PATH", tree.at("link"));
    assert!(search(&tree.env, &tree.workspace()).is_err());

    // A link to a file in the workspace.
    let tree = Tree::new();
    tree.program("ws/a/copilot-language-server");
    tree.link("bin/copilot-language-server", tree.at("ws/a/copilot-language-server"));
    assert!(search(&tree.env, &tree.workspace()).is_err());

    // A link through the workspace to a file outside: the owner of the link chooses its target.
    let tree = Tree::new();
    tree.program("opt/copilot-language-server");
    tree.link("ws/link", tree.at("opt/copilot-language-server"));
    tree.link("bin/copilot-language-server", tree.at("ws/link"));
    assert!(search(&tree.env, &tree.workspace()).is_err());

    // The same for a link to a folder: an entry of PATH in the workspace, or one that leads there.
    for entry in ["ws/link", "via"] {
        let mut tree = Tree::new();
        tree.program("opt/copilot-language-server");
        tree.link("ws/link", tree.at("opt"));
        tree.link("via", tree.at("ws/link"));
        tree.var("PATH", tree.at(entry));
        assert!(search(&tree.env, &tree.workspace()).is_err(), "{entry}");
    }

    // A workspace that the editor names by a link.
    let mut tree = Tree::new();
    tree.program("ws/a/copilot-language-server");
    tree.link("project", tree.at("ws"));
    tree.var("PATH", tree.at("ws/a"));
    assert!(search(&tree.env, &Workspace::new(&[tree.at("project")])).is_err());

    // A folder whose name begins like the workspace's.
    let mut tree = Tree::new();
    tree.program("ws-tools/copilot-language-server");
    tree.var("PATH", tree.at("ws-tools"));
    assert!(search(&tree.env, &tree.workspace()).is_ok());
}

#[test]
fn search_finds_npm_global_folder_in_several_places() {
    let native = Some("copilot-language-server-PLATFORM/copilot-language-server");
    let found = |tree: &Tree| search(&tree.env, &tree.workspace()).unwrap().place;

    let mut tree = Tree::new();
    tree.npm_package("one", native);
    tree.var("npm_config_prefix", tree.at("one"));
    assert_eq!(found(&tree), "npm's global folder");

    for prefix in ["~/npm", "${HOME}/npm", "\"ROOT/home/npm\"", "${NPM}", "~/npm ; ours"] {
        let mut tree = Tree::new();
        tree.var("NPM", tree.at("home/npm"));
        tree.npm_package("home/npm", native);
        tree.file("home/.npmrc", &tree.root_in(&format!("registry=x\nprefix = {prefix}\n")));
        assert_eq!(found(&tree), "npm's global folder");
    }

    let mut tree = Tree::new();
    tree.npm_package("node", native);
    fs::remove_file(tree.at("node/bin/copilot-language-server")).unwrap();
    tree.program("node/bin/node");
    tree.var("PATH", tree.at("node/bin"));
    assert_eq!(found(&tree), "npm's global folder");

    let tree = Tree::new();
    tree.npm_package("node", native);
    tree.program("node/bin/node");
    tree.link("bin/node", tree.at("node/bin/node"));
    assert_eq!(found(&tree), "npm's global folder");

    let mut tree = Tree::new();
    tree.npm_package("ws/npm", native);
    tree.var("npm_config_prefix", tree.at("ws/npm"));
    assert!(search(&tree.env, &tree.workspace()).is_err(), "npm's global folder in the workspace");
}

#[test]
fn search_finds_servers_of_editor_plugins() {
    let package = "node_modules/@github/copilot-language-server";
    let nested = format!("{package}/{package}-PLATFORM/copilot-language-server");
    let places = [
        ("mason.nvim", format!(".local/share/nvim/mason/packages/copilot-language-server/{nested}")),
        (
            "the folder of copilot.lua",
            ".local/share/nvim/copilot.lua/lsp/1.9.0/PLATFORM/0ab/copilot-language-server".to_owned(),
        ),
        (
            "the folder of copilot.lua",
            ".local/share/nvim/lazy/copilot.lua/copilot/PLATFORM/copilot-language-server-1.9".to_owned(),
        ),
        (
            "the folder of copilot.vim",
            format!(".vim/pack/github/start/copilot.vim/copilot-language-server/{nested}")
                .replace(&format!("{package}/node"), "node"),
        ),
        ("the folder of copilot.el", format!(".emacs.d/.cache/copilot/lib/{nested}")),
        ("the folder of copilot.el", format!(".config/emacs/.local/cache/copilot/lib/{nested}")),
        ("the folder of Zed", format!(".local/share/zed/copilot/{nested}")),
        ("bun's global folder", format!(".bun/install/global/{nested}")),
        ("pnpm's global folder", format!(".local/share/pnpm/global/5/{nested}")),
    ];
    for (name, path) in places {
        let tree = Tree::new();
        let program = tree.program(&format!("home/{path}"));
        let found = search(&tree.env, &tree.workspace()).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!((found.place, found.program), (name, program));
    }
}

#[test]
fn search_takes_newest_version() {
    let tree = Tree::new();
    for version in ["1.9.0", "1.10.0", "1.2.0"] {
        tree.program(&format!(
            "home/.local/share/nvim/copilot.lua/lsp/{version}/PLATFORM/0ab/copilot-language-server"
        ));
    }
    let found = search(&tree.env, &tree.workspace()).unwrap();
    assert!(found.program.to_str().unwrap().contains("/1.10.0/"), "{found:?}");
    assert_eq!(found.skipped.len(), 2);
}

#[test]
fn search_finds_plugin_with_script_only() {
    let tree = Tree::new();
    tree.file("home/.vim/plugged/copilot.vim/copilot-language-server/dist/language-server.js", "");
    tree.program("bin/node");
    tree.check_search(&expect!["/bin/node /home/.vim/plugged/copilot.vim/copilot-language-server/dist/language-server.js (the folder of copilot.vim)"]);
}

#[test]
fn command_uses_section_of_its_name() {
    let tree = Tree::new();
    tree.program("bin/pyright-langserver");
    tree.program("bin/node");
    tree.program("bin/npx");
    tree.program("opt/copilot-language-server-1.5");
    let user = "[server.pyright-langserver]\ncommand = \"x\"\nargs = [\"y\"]\nmax_processes = 3\n[server.copilot]\nmax_processes = 2\n";
    tree.check_prepare(
        &["pyright-langserver", "--stdio"],
        user,
        &expect!["pyright-langserver: /bin/pyright-langserver --stdio (None)"],
    );
    tree.check_prepare(
        &["ROOT/opt/copilot-language-server-1.5"],
        user,
        &expect!["copilot: /opt/copilot-language-server-1.5 --stdio (Some(Copilot))"],
    );
    tree.check_prepare(
        &["node", "/x/copilot/dist/language-server.js", "--stdio"],
        user,
        &expect!["copilot: /bin/node /x/copilot/dist/language-server.js --stdio (Some(Copilot))"],
    );
    tree.check_prepare(
        &["node", "/x/dist/language-server.js"],
        user,
        &expect!["node: /bin/node /x/dist/language-server.js (None)"],
    );
    tree.check_prepare(
        &["npx", "-y", "@github/copilot-language-server", "--stdio"],
        user,
        &expect!["copilot: /bin/npx -y @github/copilot-language-server --stdio (Some(Copilot))"],
    );
    let prepared = tree.prepare(&["pyright-langserver", "--stdio"], user).unwrap();
    assert_eq!(prepared.server.max_processes, 3, "the other keys apply");
    assert_eq!(prepared.server.args, ["--stdio"]);
    let prepared = tree.prepare(&["node", "/x/copilot/dist/language-server.js"], user).unwrap();
    assert_eq!(prepared.server.max_processes, 2);
    let prepared = tree.prepare(&["node", "x.js"], user).unwrap();
    assert_eq!(
        (prepared.name.as_str(), prepared.server.max_processes),
        ("node", 8),
        "defined by the command"
    );
}

#[test]
fn section_decides_kind_of_server() {
    let tree = Tree::new();
    tree.program("bin/mine");
    let user = "[server.mine]\nkind = \"copilot\"\n";
    assert_eq!(tree.prepare(&["mine"], user).unwrap().server.kind, Some(ServerKind::Copilot));
    tree.program("bin/copilot-language-server");
    let user = "[server.copilot]\nkind = \"generic\"\n";
    let prepared = tree.prepare(&["copilot-language-server", "x"], user).unwrap();
    assert_eq!(prepared.server.kind, Some(ServerKind::Generic));
}

#[test]
fn configuration_chooses_server_without_command() {
    let tree = Tree::new();
    for name in ["a", "b", "copilot-language-server"] {
        tree.program(&format!("bin/{name}"));
    }
    let (a, b) = ("[server.a]\ncommand = \"a\"\nargs = [\"1\"]\n", "[server.b]\ncommand = \"b\"\n");
    tree.check_prepare(&[], "", &expect!["copilot: /bin/copilot-language-server --stdio (Some(Copilot))"]);
    tree.check_prepare(&[], a, &expect!["a: /bin/a 1 (None)"]);
    tree.check_prepare(&[], &format!("{a}{b}"), &expect!["several servers are configured (a, b); choose one with `lspool -- COMMAND`, or with `default_server` in the configuration"]);
    tree.check_prepare(&[], &format!("default_server = \"b\"\n{a}{b}"), &expect!["b: /bin/b  (None)"]);
    tree.check_prepare(
        &[],
        &format!("{a}{b}[server.copilot]\n"),
        &expect!["copilot: /bin/copilot-language-server --stdio (Some(Copilot))"],
    );
    tree.check_prepare(&[], "[server.a]\nmax_processes = 1\n", &expect!["a: /bin/a  (None)"]);
    tree.check_prepare(
        &[],
        "[server.c]\nmax_processes = 1\n",
        &expect![[
            r#""c" is not on PATH: install it, or write its absolute path (`command` under [server.c])"#
        ]],
    );
    tree.check_prepare(
        &[],
        "[server.c]\nkind = \"copilot\"\n",
        &expect!["c: /bin/copilot-language-server --stdio (Some(Copilot))"],
    );
}

#[test]
fn command_refuses_relative_path_into_workspace() {
    let tree = Tree::new();
    tree.program("ws/bin/server");
    tree.program("other/server");
    tree.program("home/tools/server");
    tree.file("home/tools/text", "");
    let command = |command: &str, expected: &Expect| tree.check_prepare(&[command], "", expected);
    command("server", &expect![[r#""server" is not on PATH: install it, or write its absolute path"#]]);
    command(
        "bin/server",
        &expect![[
            r#""bin/server" is inside the workspace, where a repository can put executables; to use it, write its absolute path, /ws/bin/server"#
        ]],
    );
    command(
        "./bin/server",
        &expect![[
            r#""./bin/server" is inside the workspace, where a repository can put executables; to use it, write its absolute path, /ws/bin/server"#
        ]],
    );
    command("../other/server", &expect!["server: /other/server  (None)"]);
    command("ROOT/ws/bin/server", &expect!["server: /ws/bin/server  (None)"]);
    command("~/tools/server", &expect!["server: /home/tools/server  (None)"]);
    command("~/tools/text", &expect!["/home/tools/text is not executable"]);
    command("~/tools", &expect!["/home/tools is not a file"]);
    command("/nowhere/server", &expect!["/nowhere/server does not exist"]);
    command("..", &expect![[r#"".." names no executable"#]]);
}

#[test]
fn launch_has_environment_and_folder_of_its_section() {
    let tree = Tree::new();
    tree.program("bin/a");
    let user = "[server.a]\ncommand = \"a\"\ncwd = \"~/x\"\nenv = { B = \"2\", A = \"1\" }\n";
    let launch = tree.prepare(&[], user).unwrap().launch;
    assert_eq!(launch.cwd, Some(tree.at("home/x")));
    assert_eq!(launch.env, [("A".to_owned(), "1".to_owned()), ("B".to_owned(), "2".to_owned())]);
}

#[test]
fn innermost_folder_section_applies() {
    let tree = Tree::new();
    for name in ["outer", "inner", "general"] {
        tree.program(&format!("bin/{name}"));
    }
    let user = "[server.s]\ncommand = \"general\"\n\
                [[folder]]\npath = \"ROOT/ws\"\n[folder.server.s]\ncommand = \"inner\"\n\
                [[folder]]\npath = \"ROOT\"\n[folder.server.s]\ncommand = \"outer\"\n\
                [[folder]]\npath = \"ROOT/ws/deeper\"\n[folder.server.s]\ncommand = \"general\"\n";
    tree.check_prepare(&[], user, &expect!["s: /bin/inner  (None)"]);
}

#[test]
fn workspace_file_is_merged_into_configuration() {
    let tree = Tree::new();
    tree.program("bin/a");
    tree.file("ws/.lspool.toml", "[agent.new]\ntools = []\n[agent.bash]\n[server.a]\nmax_processes = 2\n");
    let prepared = tree.prepare(&["a"], "").unwrap();
    assert_eq!(prepared.server.max_processes, 2);
    assert!(prepared.config.agents.contains_key("new"));
    let warnings: Vec<_> = prepared.warnings.iter().map(|it| tree.show(it)).collect();
    expect![""].assert_eq(&warnings.join("\n"));
}

#[cfg(unix)]
#[test]
fn agent_files_define_agents_that_routes_can_name() {
    let mut tree = Tree::new();
    tree.env.home = Some(tree.at("home"));
    tree.program("bin/copilot-language-server");
    let agent = |name: &str, tools: &str| format!("---\nname: {name}\ntools: {tools}\n---\nBe {name}.\n");
    tree.file("home/.claude/agents/b.md", &agent("mine", "Read"));
    tree.file("home/.copilot/agents/c.md", &agent("mine", "Bash"));
    tree.file("home/.claude/agents/plan.md", &agent("plan", "LS"));
    tree.file("ws/.claude/agents/explore.md", &agent("explore", "*"));
    tree.file("ws/.claude/agents/own.md", &agent("own", "Read"));
    tree.file("ws/.github/agents/own.agent.md", &agent("own", "Bash"));
    tree.file("ws/.github/agents/README.md", "nothing");
    tree.file("ws/.claude/agents/Readme.md", "nothing");
    tree.file("ws/.github/agents/plain.md", "---\ntools: [read/readFile]\n---\nBe plain.\n");
    tree.file("ws/.github/agents/bad.agent.md", "nothing");
    tree.file("secret", "---\nname: x\n---\n");
    std::os::unix::fs::symlink(tree.at("secret"), tree.at("ws/.claude/agents/x.md")).unwrap();
    tree.file("ws/.lspool.toml", "[agent.own]\n[[route]]\nagent = \"own\"\n");
    tree.file("home/.claude/agents/over.md", &agent("over", "LS"));
    tree.file("xdg/lspool/config.toml", "[[route]]\nchat_mode = \"Ask\"\nagent = \"mine\"\n[agent.over]\n");
    tree.var("XDG_CONFIG_HOME", tree.at("xdg"));
    let user = read_user(None, &tree.env).unwrap();
    let prepared = prepare(&CliServers::default(), &user, &[tree.at("ws")], &tree.env).unwrap();
    let tools = |name: &str| prepared.config.agents[name].tools.clone().unwrap().join(" ");
    assert_eq!([tools("mine"), tools("plan"), tools("own")], ["read_file", "list_dir", "read_file"]);
    assert_eq!(tools("plain"), "read_file");
    assert_eq!(prepared.config.agents["own"].prompt.as_deref(), Some("Be own."));
    assert_eq!(prepared.config.routes.len(), 2);
    let warnings: Vec<_> = prepared.warnings.iter().map(|it| tree.show(it)).collect();
    expect![[r#"
        /ws/.claude/agents/explore.md:3: anchors (&) and aliases (*) are not supported; put text that begins with one in quotes
        /ws/.claude/agents/x.md: it is a link out of the workspace; lspool ignores it
        /ws/.github/agents/bad.agent.md:1: missing front matter: the file must begin with a line `---`, and a second `---` must end it
        /home/.copilot/agents/c.md:1: agent "mine" is shadowed: /home/.claude/agents/b.md has an agent of that name
        /home/.claude/agents/over.md:1: agent "over" is shadowed: the user's configuration has an agent of that name
        /ws/.github/agents/own.agent.md:1: agent "own" is shadowed: /ws/.claude/agents/own.md has an agent of that name
        /ws/.lspool.toml:1: agent "own" is shadowed: /ws/.claude/agents/own.md has an agent of that name"#]].assert_eq(&warnings.join("\n"));
}

#[test]
fn warning_names_section_that_does_not_apply() {
    let tree = Tree::new();
    for name in ["copilot-language-server", "pyright-langserver"] {
        tree.program(&format!("bin/{name}"));
    }
    let told = |command: &str, user: &str| tree.prepare(&[command, "--stdio"], user).unwrap().warnings;
    let (copilot, pyright) = ("copilot-language-server", "pyright-langserver");
    let user = "[server.copilot-language-server]\nmax_processes = 2\n";
    let warning = "[server.copilot-language-server] does not apply to `lspool -- copilot-language-server`, whose \
                   section is [server.copilot]";
    assert_eq!(told(copilot, user), [warning]);
    assert_eq!(told(pyright, user), [""; 0], "it is somebody else's");
    assert_eq!(told(copilot, &format!("{user}[server.copilot]\n")), [""; 0], "there is one for it");
    let user = "[server.pyright]\ncommand = \"/opt/pyright-langserver\"\n";
    assert_eq!(
        told(pyright, user),
        ["[server.pyright] does not apply to `lspool -- pyright-langserver`, whose section is \
          [server.pyright-langserver]"]
    );

    let checked = |user: &str| {
        targets(&Config::parse_user(user, "config.toml").unwrap().into(), &[], &tree.env).unwrap().warnings
    };
    let user = "[server.copilot-language-server]\n";
    assert_eq!(checked(user), [warning]);
    assert_eq!(checked(&format!("default_server = \"copilot-language-server\"\n{user}")), [""; 0]);
    assert_eq!(checked("[server.pyright]\ncommand = \"pyright-langserver\"\n"), [""; 0], "others start it");
}

#[cfg(unix)]
#[test]
fn invalid_workspace_file_stops_start() {
    let tree = Tree::new();
    tree.program("bin/a");
    tree.file("ws/.lspool.toml", "[server.a]\ncommand = \"./evil\"\nmax_processes = 9\n");
    tree.check_prepare(&["a"], "", &expect![[r#"
        the workspace's configuration has errors; without it agents might get more tools than it allows:
        /ws/.lspool.toml:2: `server.a.command`: a workspace file cannot set this key; set it in your own configuration file
        /ws/.lspool.toml:3: `server.a.max_processes`: expected at most 8, found 9: a workspace file can only lower a limit"#]]);

    let tree = Tree::new();
    fs::create_dir(tree.at("ws/.lspool.toml")).unwrap();
    tree.check_prepare(
        &["a"],
        "",
        &expect!["cannot read the configuration file /ws/.lspool.toml: it is not a file"],
    );

    let tree = Tree::new();
    tree.file("ws/.lspool.toml", &"#".repeat((1 << 20) + 1));
    tree.check_prepare(
        &["a"],
        "",
        &expect!["cannot read the configuration file /ws/.lspool.toml: it is longer than 1 MiB"],
    );

    // Opening this pipe would wait for a writer.
    let tree = Tree::new();
    let path = tree.at("ws/.lspool.toml");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
        .unwrap();
    tree.check_prepare(
        &["a"],
        "",
        &expect!["cannot read the configuration file /ws/.lspool.toml: it is not a file"],
    );
}

#[test]
fn user_file_is_found_by_option_or_xdg_folder() {
    let mut tree = Tree::new();
    let read = |tree: &Tree, named: Option<&Path>| match read_user(named, &tree.env) {
        Ok(user) => format!("{:?} {:?}", user.file.is_some(), user.config.default_server),
        Err(error) => tree.show(&error),
    };
    assert_eq!(read(&tree, None), "false None");
    expect!["cannot read the configuration file /nowhere.toml: No such file or directory (os error 2)"]
        .assert_eq(&read(&tree, Some(&tree.at("nowhere.toml"))));
    let text = "default_server = \"copilot\"\n";
    let named = tree.file("named.toml", text);
    assert_eq!(read(&tree, Some(&named)), "true Some(\"copilot\")");
    if cfg!(target_os = "linux") {
        tree.file("home/.config/lspool/config.toml", text);
        assert_eq!(read(&tree, None), "true Some(\"copilot\")");
        tree.var("XDG_CONFIG_HOME", "relative");
        assert_eq!(read(&tree, None), "true Some(\"copilot\")", "a relative one is to be ignored");
        tree.file("xdg/lspool/config.toml", "x = 1\n");
        tree.var("XDG_CONFIG_HOME", tree.at("xdg"));
        expect![[r#"
            the configuration has errors:
            /xdg/lspool/config.toml:1: `x`: unknown key; expected one of `default_server`, `server`, `default_group`, `group`, `folder`, `agent`, `models`, `subagents`, `worker`, `orchestration`, `tools`, `lsp_tools`, `route`, `log`, `record`, `record_texts`, `record_max_size`"#]].assert_eq(&read(&tree, None));
    }
}

#[test]
fn targets_list_every_server_with_its_problem() {
    let tree = Tree::new();
    tree.program("bin/a");
    let user = Config::parse_user(
        "[server.a]\ncommand = \"a\"\n[server.b]\ncommand = \"b\"\n\
         [[folder]]\npath = \"/nowhere\"\n[folder.server.a]\n",
        "",
    )
    .unwrap();
    let all = targets(&user.into(), &[tree.at("ws")], &tree.env).unwrap();
    let told: Vec<_> = all.others.iter().map(|(name, it)| (name.as_str(), it.is_ok())).collect();
    assert_eq!(told, [("a", true), ("b", false), ("a in /nowhere", true)]);
    let all = targets(&Config::default().into(), &[], &tree.env).unwrap();
    assert_eq!(all.others.len(), 1);
    assert_eq!(all.others[0].0, "copilot");
}

#[test]
fn agent_files_beyond_limit_are_reported() {
    let mut tree = Tree::new();
    tree.env.home = Some(tree.at("home"));
    for n in 0..1003 {
        tree.file(&format!("home/.claude/agents/{n:04}.md"), &format!("---\nname: a{n}\n---\n"));
    }
    let user = read_user(None, &tree.env).unwrap();
    let problems: Vec<_> = user.agents.problems.iter().map(|it| tree.show(it)).collect();
    expect!["/home/.claude/agents: there are 1003 files, and no more than 1000 are read: not /home/.claude/agents/1000.md, nor any after it"].assert_eq(&problems.join("\n"));
    assert!(user.config.agents.contains_key("a999") && !user.config.agents.contains_key("a1000"));
}
