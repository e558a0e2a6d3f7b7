mod code_tools;
mod groups;
mod remote;
mod secrets;
mod share;

use expect_test::{Expect, expect, expect_file};

use super::*;

fn user(text: &str) -> Config {
    Config::parse_user(text, "config.toml").unwrap()
}

fn workspace(user: &str, text: &str) -> Result<(Config, Vec<Shadowed>), Problems> {
    let mut config = self::user(user);
    let shadowed = config.merge_workspace(text, Path::new(".lspool.toml"))?;
    Ok((config, shadowed))
}

fn json(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).unwrap()
}

fn check_problems(text: &str, expected: &Expect) {
    expected.assert_eq(&Config::parse_user(text, "config.toml").unwrap_err().to_string());
}

fn check_workspace_problems(user: &str, text: &str, expected: &Expect) {
    expected.assert_eq(&workspace(user, text).unwrap_err().to_string());
}

#[test]
fn configuration_docs_match_key_table() {
    expect_file!["../../docs/configuration.md"].assert_eq(&markdown());
}

#[test]
fn config_translates_tool_aliases_of_agent_files() {
    let config = user(
        "[agent.a]\ntools = [\"Read\", \"search\", \"mcp__jira__get\", \"fetch_ticket\", \"MyTool\"]\n\
         [agent.b]\ndisallowed_tools = [\"Bash\"]\n[worker.w]\ntools = [\"Grep\", \"*\"]\n",
    );
    let names = ["read_file", "grep_search", "file_search", "jira/get", "fetch_ticket", "MyTool"];
    assert_eq!(config.agents["a"].tools.as_deref().unwrap(), names);
    assert_eq!(config.agents["b"].disallowed_tools, ["run_in_terminal"]);
    let worker = config.workers.iter().find(|it| it.role == "w").unwrap();
    assert_eq!(worker.tools.as_deref().unwrap(), ["grep_search", "*"]);
    check_problems(
        "[agent.a]\ntools = [\"Read\", \"Bash(git:*)\"]\ndisallowed_tools = [\n\"Skill\"]\n",
        &expect![[r#"
            config.toml:2: `agent.a.tools[1]`: "Bash(git:*)": lspool cannot limit a tool to some arguments; write "run_in_terminal" to allow the whole tool, or remove the entry
            config.toml:4: `agent.a.disallowed_tools[0]`: "Skill" is a tool of another program and does not exist here; remove it"#]],
    );
}

#[test]
fn json_schema_file_matches_key_table() {
    expect_file!["../../docs/config.schema.json"].assert_eq(&schema());
}

#[test]
fn empty_file_gives_builtin_configuration() {
    for text in ["", "\n", "# a comment", "\u{feff}", "[server]\n[agent]\n[log]\n"] {
        assert_eq!(user(text), Config::default(), "{text:?}");
    }
    let names: Vec<_> = Config::default().agents.into_keys().collect();
    assert_eq!(names, ["bash", "explore", "general-purpose", "plan"]);
}

#[test]
fn config_reads_every_key() {
    let config = user(
        r#"
default_server = "copilot"
[server.copilot]
command = "/opt/copilot"
args = ["--stdio", ""]
env = { A = "1", B = "" }
cwd = "~/work"
kind = "copilot"
max_processes = 0x3
warm_spares = 2
idle_timeout = "0s"
startup_timeout = "1500ms"
mcp_wait = "2500ms"
max_message = "1MiB"
restart = "always"
profile = "strict"
max_restarts = 9
restart_window = "1h"
immediate_first = false
backoff = { initial = "0s", max = "10s", multiplier = 1.5, jitter = 0 }
memory_limit = "3GiB"
write_stall = "2s"
shutdown_grace = "3s"
stall_timeout = "4s"
probe_timeout = "5s"
hang_timeout = "0s"
turn_recovery = "fail"
isolation = "mode"
on_limit = "error"
delegation = "run_in_terminal"
builtin_tools = "fallback"
exact_restore = true
repeat = ["my/setUp"]
languages = ["python"]
only = ["format", "code-action:source.fixAll"]
except = ["textDocument/semanticTokens/*"]
settings.a.b = [1, "x", { c = -1.5, d = true }]
init_options = { day = 1979-05-27, hex = 0x10 }
[server.pyright]
command = "pyright-langserver"
kind = "generic"
profile = "best-effort"
[[folder]]
path = "~/one"
default_server = "ruff"
[folder.server.ruff]
command = "ruff"
[agent.explore]
tools = []
[agent."two words"]
disallowed_tools = ["x"]
[[route]]
agent = "explore"
chat_mode = "Agent"
custom_chat_mode = "m"
source = "panel"
agent_slug = "s"
model = "gpt"
[tools]
allow = ["git status", "cargo test *"]
confine = false
writable = ["~/.cargo", "/srv"]
shell = ["fish", "-c"]
time_limit = "5s"
max_output = "128KiB"
max_file = "2MiB"
[lsp_tools]
enabled = false
offer = ["core", "code_search"]
raw = true
raw_methods = ["my/*"]
raw_commands = ["my.command"]
time_limit = "9s"
ready_wait = "8s"
diagnostics_wait = "7s"
settle = "6s"
max_output = "5KiB"
max_results = 4
max_edit_files = 10
max_servers = 3
max_open = 2
on_loading = "error"
[log]
file = "/var/log/lspool"
level = "trace"
"#,
    );
    let copilot = &config.servers["copilot"];
    assert_eq!(
        *copilot,
        ServerConfig {
            command: Some("/opt/copilot".to_owned()),
            args: vec!["--stdio".to_owned(), String::new()],
            env: [("A".to_owned(), "1".to_owned()), ("B".to_owned(), String::new())].into(),
            cwd: Some("~/work".into()),
            remote: None,
            share: ShareConfig::default(),
            kind: Some(ServerKind::Copilot),
            max_processes: 3,
            max_large_processes: 3,
            warm_spares: 2,
            idle_timeout: Duration::ZERO,
            startup_timeout: Duration::from_millis(1500),
            mcp_wait: Duration::from_millis(2500),
            max_message: 1 << 20,
            policy: Policy {
                restart: Restart::Always,
                required: true,
                max_restarts: 9,
                restart_window: Duration::from_hours(1),
                immediate_first: false,
                backoff: Backoff {
                    initial: Duration::ZERO,
                    max: Duration::from_secs(10),
                    multiplier: 1500,
                    jitter: 0,
                },
            },
            memory_limit: Some(3 << 30),
            write_stall: Duration::from_secs(2),
            shutdown_grace: Duration::from_secs(3),
            stall_timeout: Some(Duration::from_secs(4)),
            probe_timeout: Duration::from_secs(5),
            hang_timeout: Some(Duration::ZERO),
            turn_recovery: TurnRecovery::Fail,
            delegation: Delegation::RunInTerminal,
            builtin_tools: BuiltinTools::Fallback,
            exact_restore: true,
            repeat: vec!["my/setUp".to_owned()],
            isolation: Isolation::Mode,
            on_limit: OnLimit::Error,
            files: Vec::new(),
            root_markers: Vec::new(),
            root_required: false,
            handles: Vec::new(),
            start: StartAt::Now,
            languages: vec!["python".to_owned()],
            only: Some(vec!["format".to_owned(), "code-action:source.fixAll".to_owned()]),
            except: vec!["textDocument/semanticTokens/*".to_owned()],
            settings: json(r#"{"a": {"b": [1, "x", {"c": -1.5, "d": true}]}}"#),
            init_options: json(r#"{"day": "1979-05-27", "hex": 16}"#),
        }
    );
    assert_eq!(config.servers["pyright"].kind, Some(ServerKind::Generic));
    assert_eq!(config.servers["pyright"].max_processes, 8);
    assert_eq!(config.servers["pyright"].policy, Profile::BestEffort.policy());
    assert_eq!(config.default_server.as_deref(), Some("copilot"));
    assert_eq!(config.folders[0].path, Path::new("~/one"));
    assert_eq!(config.folders[0].default_server.as_deref(), Some("ruff"));
    assert_eq!(config.folders[0].servers["ruff"].command.as_deref(), Some("ruff"));
    assert_eq!(config.agents["explore"].tools, Some(Vec::new()), "the user may redefine a builtin agent");
    assert_eq!(config.agents["explore"].source, AgentSource::User);
    assert_eq!(config.agents["two words"].tools, None);
    assert_eq!(config.agents["two words"].disallowed_tools, ["x"]);
    let some = |it: &str| Some(it.to_owned());
    assert_eq!(
        config.routes,
        [RouteConfig {
            chat_mode: some("Agent"),
            custom_chat_mode: some("m"),
            source: some("panel"),
            agent_slug: some("s"),
            model: some("gpt"),
            agent: "explore".to_owned(),
        }]
    );
    assert_eq!(
        config.tools,
        ToolsConfig {
            allow: vec!["git status".to_owned(), "cargo test *".to_owned()],
            writable: vec!["~/.cargo".into(), "/srv".into()],
            shell: vec!["fish".to_owned(), "-c".to_owned()],
            confine: false,
            time_limit: Duration::from_secs(5),
            max_output: 128 << 10,
            max_file: 2 << 20,
        }
    );
    assert_eq!(
        config.lsp_tools,
        LspToolsConfig {
            enabled: false,
            offer: vec!["core".to_owned(), "code_search".to_owned()],
            raw: true,
            raw_methods: vec!["my/*".to_owned()],
            raw_commands: vec!["my.command".to_owned()],
            time_limit: Duration::from_secs(9),
            ready_wait: Duration::from_secs(8),
            diagnostics_wait: Duration::from_secs(7),
            settle: Duration::from_secs(6),
            max_output: 5 << 10,
            max_results: 4,
            max_edit_files: 10,
            max_servers: 3,
            max_open: 2,
            on_loading: OnLoading::Error,
        }
    );
    assert_eq!(config.log, LogConfig { file: Some("/var/log/lspool".into()), level: LogLevel::Trace });
}

#[test]
fn config_reports_unknown_keys_with_suggestions() {
    check_problems(
        r#"
tools = ["read_file"]
[server.copilot]
comand = "x"
max-processes = 3
xyzzy = 1
[agents.explore]
tools = []
[[routes]]
agent = "explore"
[log]
lvel = "info"
"#,
        &expect![[r#"
            config.toml:2: `tools`: expected the table [tools], found a list
            config.toml:4: `server.copilot.comand`: unknown key; did you mean `command`?
            config.toml:5: `server.copilot.max-processes`: unknown key; did you mean `max_processes`?
            config.toml:6: `server.copilot.xyzzy`: unknown key; expected one of `command`, `args`, `env`, `cwd`, `remote`, `kind`, `share`, `share_idle`, `share_env`, `share_views`, `share_limit`, `max_processes`, `isolation`, `on_limit`, `warm_spares`, `idle_timeout`, `startup_timeout`, `mcp_wait`, `max_message`, `turn_recovery`, `delegation`, `builtin_tools`, `exact_restore`, `repeat`, `languages`, `files`, `root_markers`, `root_required`, `handles`, `start`, `only`, `except`, `settings`, `init_options`, `profile`, `restart`, `required`, `max_restarts`, `restart_window`, `immediate_first`, `backoff`, `stall_timeout`, `probe_timeout`, `hang_timeout`, `write_stall`, `shutdown_grace`, `memory_limit`
            config.toml:7: `agents`: unknown key; did you mean `agent`?
            config.toml:9: `routes`: unknown key; did you mean `route`?
            config.toml:12: `log.lvel`: unknown key; did you mean `level`?"#]],
    );
}

#[test]
fn config_reports_wrong_values_with_expected_ones() {
    check_problems(
        r#"
[server.copilot]
command = ""
args = "--stdio"
env = { A = 1, "B=" = "x", C = true }
cwd = "relative"
kind = "copliot"
max_processes = 0
idle_timeout = 300
max_message = "1MB"
[server.a]
command = "node_modules/.bin/x"
args = ["a", 2, ["b"]]
env = ["A=1"]
kind = 1
max_processes = "3"
warm_spares = -1
idle_timeout = "5 minutes"
max_message = 1.5
required = "yes"
restart = true
profile = "lax"
backoff = { multiplier = 0.5, jitter = "much", initial = 1, first = 2 }
memory_limit = "1B"
hang_timeout = "never"
[server.b]
backoff = 1
[server.""]
[agent.explore]
tools = "read_file"
disallowed_tools = ["", 1979-05-27]
[log]
level = "verbose"
file = "~"
"#,
        &expect![[r#"
            config.toml:3: `server.copilot.command`: must not be empty
            config.toml:4: `server.copilot.args`: expected a list of strings such as ["--stdio"], found a string
            config.toml:5: `server.copilot.env."B="`: a variable name must not be empty or contain "="
            config.toml:5: `server.copilot.env.A`: expected a string in quotes
            config.toml:5: `server.copilot.env.C`: expected a string in quotes
            config.toml:6: `server.copilot.cwd`: expected an absolute path, or one that starts with "~/", found "relative"
            config.toml:7: `server.copilot.kind`: expected one of "copilot", "generic", found "copliot"; did you mean "copilot"?
            config.toml:8: `server.copilot.max_processes`: expected an integer from 1 to 65535, found 0
            config.toml:9: `server.copilot.idle_timeout`: expected a duration such as "5m", found 300
            config.toml:10: `server.copilot.max_message`: expected a size such as "256MiB", in B, KiB, MiB, or GiB, found "1MB"
            config.toml:12: `server.a.command`: expected an absolute path, one that starts with "~/", or a bare name, found the relative path "node_modules/.bin/x"
            config.toml:13: `server.a.args[1]`: expected a string, found a number; put it in quotes
            config.toml:13: `server.a.args[2]`: expected a string in quotes, found a list
            config.toml:14: `server.a.env`: expected a table such as { NAME = "value" }, found a list
            config.toml:15: `server.a.kind`: expected one of "copilot", "generic", found 1
            config.toml:16: `server.a.max_processes`: expected an integer from 1 to 65535, found a string
            config.toml:17: `server.a.warm_spares`: expected an integer from 0 to 65535, found -1
            config.toml:18: `server.a.idle_timeout`: expected a duration such as "5m", in ms, s, m, or h, found "5 minutes"
            config.toml:19: `server.a.max_message`: expected a size such as "256MiB", found 1.5
            config.toml:20: `server.a.required`: expected true or false, found a string
            config.toml:21: `server.a.restart`: expected one of "never", "on-failure", "always", found true
            config.toml:22: `server.a.profile`: expected one of "resilient", "strict", "best-effort", found "lax"
            config.toml:23: `server.a.backoff.first`: unknown key; expected one of `initial`, `max`, `multiplier`, `jitter`
            config.toml:23: `server.a.backoff.initial`: expected a duration such as "5m", found 1
            config.toml:23: `server.a.backoff.jitter`: expected a number from 0 to 1, found a string
            config.toml:23: `server.a.backoff.multiplier`: expected a number from 1 to 10, found 0.5
            config.toml:24: `server.a.memory_limit`: expected a size from "1MiB" to "1024GiB", found "1B"
            config.toml:25: `server.a.hang_timeout`: expected a duration such as "5m", in ms, s, m, or h, found "never"
            config.toml:27: `server.b.backoff`: expected the table [server.NAME.backoff], found 1
            config.toml:28: `server.""`: the NAME in [server.NAME] must not be empty or contain control characters
            config.toml:30: `agent.explore.tools`: expected a list of strings such as ["read_file"], found a string
            config.toml:31: `agent.explore.disallowed_tools[0]`: must not be empty
            config.toml:31: `agent.explore.disallowed_tools[1]`: expected a string in quotes, found a date
            config.toml:33: `log.level`: expected one of "error", "warn", "info", "debug", "trace", found "verbose""#]],
    );
}

#[test]
fn config_reports_wrong_table_shapes() {
    check_problems(
        r#"
log = true
agent = "explore"
folder = []
[server]
command = "x"
[route]
agent = "explore"
"#,
        &expect![[r"
            config.toml:2: `log`: expected the table [log], found true
            config.toml:3: `agent`: expected [agent.NAME] with keys below, found a string
            config.toml:4: `folder`: expected [[folder]] with keys below, found a list
            config.toml:6: `server.command`: expected the table [server.NAME], found a string
            config.toml:7: `route`: expected [[route]] with keys below, found a table"]],
    );
}

#[test]
fn config_reports_missing_keys_at_their_table() {
    check_problems(
        r#"
[[route]]
chat_mode = "Agent"

[[route]]
[[folder]]
"#,
        &expect![[r"
            config.toml:2: `route[0].agent`: missing; this key is required
            config.toml:5: `route[1].agent`: missing; this key is required
            config.toml:6: `folder[0].path`: missing; this key is required"]],
    );
}

#[test]
fn config_reports_unknown_server_and_agent_names() {
    check_problems(
        r#"
default_server = "copliot"
[server.pyright]
command = "pyright"
[[folder]]
path = "/a"
default_server = "ruff"
[folder.server.ruff]
command = "ruff"
[[folder]]
path = "/b"
default_server = "ruff"
[[route]]
agent = "exlpore"
[[route]]
agent = "reviewer"
"#,
        &expect![[r#"
            config.toml:2: `default_server`: unknown server "copliot"; did you mean "copilot"?
            config.toml:12: `folder[1].default_server`: unknown server "ruff"; expected one of copilot, pyright
            config.toml:14: `route[0].agent`: unknown agent "exlpore"; did you mean "explore"?
            config.toml:16: `route[1].agent`: unknown agent "reviewer"; expected one of bash, explore, general-purpose, plan"#]],
    );
    user("default_server = \"copilot\"");
    user("[[route]]\nagent = \"later\"\n[agent.later]\n");
}

#[test]
fn config_reports_invalid_toml_beside_other_errors() {
    check_problems(
        "[server.copilot]\ncommand = \n[agent.explore\ntools = []\n[log]\nlvl = \"info\"\nlevel = 1\n[log]\n",
        &expect![[r#"
            config.toml:2: invalid TOML at column 11: put strings in quotes
            config.toml:3: invalid TOML at column 15: unclosed table, expected `]`
            config.toml:6: `log.lvl`: unknown key; expected one of `file`, `level`
            config.toml:7: `log.level`: expected one of "error", "warn", "info", "debug", "trace", found 1
            config.toml:8: invalid TOML at column 2: duplicate key"#]],
    );
    check_problems(
        "x = \"",
        &expect![[r#"config.toml:1: invalid TOML at column 6: invalid basic string, expected `"`"#]],
    );
    check_problems(
        "a = 1\na = 2\n",
        &expect![[r#"
            config.toml:1: `a`: unknown key; expected one of `default_server`, `server`, `default_group`, `group`, `folder`, `agent`, `models`, `subagents`, `worker`, `orchestration`, `tools`, `lsp_tools`, `route`, `log`, `record`, `record_texts`, `record_max_size`
            config.toml:2: invalid TOML at column 1: duplicate key"#]],
    );
}

#[test]
fn config_ignores_keys_below_broken_header() {
    check_problems(
        "[server.copilot\nmax_processes = 2\n",
        &expect!["config.toml:1: invalid TOML at column 16: unclosed table, expected `]`"],
    );
}

#[test]
fn config_treats_agent_names_as_case_insensitive() {
    let config = user("[agent.Explore]\ntools = []\n");
    assert!(config.agents["Explore"].tools.as_ref().unwrap().is_empty());
    assert!(!config.agents.contains_key("explore"), "it replaces the builtin agent");
    check_problems(
        "[agent.doc]\n[agent.Doc]\n",
        &expect![[r#"config.toml:1: `agent.doc`: same name as the agent "Doc": names ignore case"#]],
    );
}

#[test]
fn workspace_file_appends_agents_and_routes_to_the_users() {
    let (config, shadowed) = workspace(
        "[[route]]\nagent = \"plan\"\nchat_mode = \"Ask\"\n",
        "[agent.reviewer]\ntools = [\"read_file\"]\n[[route]]\nagent = \"reviewer\"\n",
    )
    .unwrap();
    assert_eq!(shadowed, []);
    assert_eq!(config.agents["reviewer"].source, AgentSource::Workspace(".lspool.toml".into()));
    let agents: Vec<_> = config.routes.iter().map(|it| it.agent.as_str()).collect();
    assert_eq!(agents, ["plan", "reviewer"]);
}

#[test]
fn workspace_file_redefines_no_agent() {
    let (mut config, shadowed) = workspace(
        "[agent.mine]\ntools = [\"a\"]\n",
        "[agent.mine]\n\n[agent.bash]\ntools = [\"b\"]\n[agent.new]\n",
    )
    .unwrap();
    let told: Vec<_> = shadowed.iter().map(ToString::to_string).collect();
    expect![[r#"
        .lspool.toml:3: agent "bash" is shadowed: lspool has an agent of that name
        .lspool.toml:1: agent "mine" is shadowed: the user's configuration has an agent of that name"#]]
    .assert_eq(&told.join("\n"));
    assert_eq!(config.agents["mine"].tools, Some(vec!["a".to_owned()]));
    assert_eq!(config.agents["bash"], Config::default().agents["bash"]);

    let again = config.merge_workspace("[agent.new]\ntools = []", Path::new("b/.lspool.toml")).unwrap();
    expect![[r#"b/.lspool.toml:1: agent "new" is shadowed: .lspool.toml has an agent of that name"#]]
        .assert_eq(&again[0].to_string());
    assert_eq!(config.agents["new"].tools, None);
}

#[test]
fn config_adds_workers_in_file_order_and_keeps_preset_defaults() {
    let text = "[worker.zoologist]\ndescription = \"animals\"\ntools = []\nagent_mode = false\n\
                [worker.tester]\nenabled = false\n[worker.artist]\nsystem_prompt = \"p\"\nmodel = \"m\"\n\
                [orchestration]\nmax_parallel = 2\nmax_tasks = 5\ntime_limit = \"1m\"\n";
    let config = user(text);
    let roles: Vec<_> = config.workers.iter().map(|it| it.role.as_str()).collect();
    assert_eq!(roles, ["coder", "reviewer", "tester", "zoologist", "artist"]);
    let preset = &Config::default().workers[2];
    let tester = WorkerConfig { enabled: false, source: AgentSource::User, ..preset.clone() };
    assert_eq!(config.workers[2], tester);
    let zoologist = WorkerConfig {
        description: Some("animals".to_owned()),
        tools: Some(Vec::new()),
        agent_mode: false,
        ..WorkerConfig::of("zoologist", AgentSource::User)
    };
    assert_eq!(config.workers[3], zoologist);
    let time_limit = Duration::from_mins(1);
    let expected = OrchestrationConfig { max_parallel: 2, max_tasks: 5, time_limit, retries: 0 };
    assert_eq!(config.orchestration, expected);
}

#[test]
fn config_treats_worker_roles_as_case_insensitive() {
    let config = user("[worker.Coder]\nmodel = \"m\"\n");
    let preset = Config::default().workers[0].clone();
    let coder = WorkerConfig {
        role: "Coder".to_owned(),
        model: Some("m".to_owned()),
        source: AgentSource::User,
        ..preset
    };
    assert_eq!(config.workers[0], coder);
    assert_eq!(config.workers[1..], Config::default().workers[1..]);
    check_problems(
        "[worker.poet]\n[worker.Poet]\n",
        &expect![[r#"config.toml:2: `worker.Poet`: same name as the worker "poet": names ignore case"#]],
    );
}

#[test]
fn config_suggests_local_name_for_key_of_another_section() {
    check_problems(
        "[agent.a]\nsystem_prompt = \"p\"\n[worker.a]\nprompt = \"p\"\n[[route]]\nagent = \"a\"\nmode = \"Ask\"\n",
        &expect![[r"
            config.toml:2: `agent.a.system_prompt`: unknown key; did you mean `prompt`?
            config.toml:4: `worker.a.prompt`: unknown key; did you mean `system_prompt`?
            config.toml:7: `route[0].mode`: unknown key; did you mean `chat_mode`?"]],
    );
}

#[test]
fn workspace_file_adds_workers_and_redefines_none() {
    let (config, shadowed) = workspace(
        "[worker.mine]\ntools = [\"a\"]\n",
        "[worker.Coder]\ntools = [\"b\"]\n[worker.mine]\n[worker.new]\n[orchestration]\nmax_tasks = 3\n",
    )
    .unwrap();
    let told: Vec<_> = shadowed.iter().map(ToString::to_string).collect();
    expect![[r#"
        .lspool.toml:1: worker "Coder" is shadowed: lspool has a worker of that name
        .lspool.toml:3: worker "mine" is shadowed: the user's configuration has a worker of that name"#]]
    .assert_eq(&told.join("\n"));
    assert_eq!(config.workers[..3], Config::default().workers);
    assert_eq!(config.workers[3].tools, Some(vec!["a".to_owned()]));
    let new = WorkerConfig::of("new", AgentSource::Workspace(".lspool.toml".into()));
    assert_eq!(config.workers[4..], [new]);
    assert_eq!(config.orchestration.max_tasks, 3);
    check_workspace_problems(
        "",
        "[orchestration]\nmax_parallel = 5\n",
        &expect![
            ".lspool.toml:2: `orchestration.max_parallel`: expected at most 4, found 5: a workspace file can only lower a limit"
        ],
    );
}

#[test]
fn workspace_file_can_only_lower_limits() {
    let (config, _) = workspace(
        "[server.copilot]\nmax_processes = 4\n",
        "[server.copilot]\nmax_processes = 4\nidle_timeout = \"1m\"\n[server.other]\nmax_processes = 2\n",
    )
    .unwrap();
    assert_eq!(config.servers["copilot"].max_processes, 4);
    assert_eq!(config.servers["copilot"].idle_timeout, Duration::from_mins(1));
    assert!(!config.servers.contains_key("other"), "a repository cannot add a server");
    check_workspace_problems(
        "[server.copilot]\nmax_processes = 4\n",
        "[server.copilot]\nmax_processes = 5\nidle_timeout = \"1h\"\n[server.other]\nmax_processes = 9\n",
        &expect![[r"
            .lspool.toml:2: `server.copilot.max_processes`: expected at most 4, found 5: a workspace file can only lower a limit
            .lspool.toml:3: `server.copilot.idle_timeout`: expected at most 5m, found 1h: a workspace file can only lower a limit
            .lspool.toml:5: `server.other.max_processes`: expected at most 8, found 9: a workspace file can only lower a limit"]],
    );
}

#[test]
fn workspace_file_with_forbidden_keys_changes_nothing() {
    let text = r#"
default_server = "x"
[server.copilot]
command = "./evil"
args = []
env = { LD_PRELOAD = "./evil.so" }
cwd = "/"
kind = "generic"
max_message = "64KiB"
[agent.fine]
[[folder]]
path = "/"
[log]
file = "/etc/passwd"
"#;
    check_workspace_problems(
        "",
        text,
        &expect![[r"
        .lspool.toml:2: `default_server`: a workspace file cannot set this key; set it in your own configuration file
        .lspool.toml:4: `server.copilot.command`: a workspace file cannot set this key; set it in your own configuration file
        .lspool.toml:5: `server.copilot.args`: a workspace file cannot set this key; set it in your own configuration file
        .lspool.toml:6: `server.copilot.env`: a workspace file cannot set this key; set it in your own configuration file
        .lspool.toml:7: `server.copilot.cwd`: a workspace file cannot set this key; set it in your own configuration file
        .lspool.toml:8: `server.copilot.kind`: a workspace file cannot set this key; set it in your own configuration file
        .lspool.toml:9: `server.copilot.max_message`: a workspace file cannot set this key; set it in your own configuration file
        .lspool.toml:11: `folder`: a workspace file cannot set this key; set it in your own configuration file
        .lspool.toml:13: `log`: a workspace file cannot set this key; set it in your own configuration file"]],
    );
    let mut config = Config::default();
    config.merge_workspace(text, Path::new(".lspool.toml")).unwrap_err();
    assert_eq!(config, Config::default());
}

#[test]
fn limit_of_large_processes_is_lower_until_the_user_sets_one() {
    let limits = |config: &Config| {
        let it = &config.servers["copilot"];
        (it.max_processes, it.max_large_processes)
    };
    let mut config = user("[server.copilot]\n");
    assert_eq!(limits(&config), (8, 4));
    let path = Path::new(".lspool.toml");
    config.merge_workspace("[server.copilot]\nmax_processes = 6\n", path).unwrap();
    assert_eq!(limits(&config), (6, 4), "a workspace raises none");
    config.merge_workspace("[server.copilot]\nmax_processes = 3\n", path).unwrap();
    assert_eq!(limits(&config), (3, 3));
    assert_eq!(limits(&user("[server.copilot]\nmax_processes = 7\n")), (7, 7));
}

#[test]
fn folder_section_replaces_sections_of_same_name() {
    let mut config = user(
        "[server.a]\ncommand = \"a\"\nmax_processes = 2\n[server.b]\ncommand = \"b\"\n\
         [[folder]]\npath = \"/p\"\ndefault_server = \"a\"\n[folder.server.a]\ncommand = \"other\"\n",
    );
    let folder = config.folders[0].clone();
    config.enter_folder(&folder);
    assert_eq!(config.servers["a"].command.as_deref(), Some("other"));
    assert_eq!(config.servers["a"].max_processes, 8);
    assert_eq!(config.servers["b"].command.as_deref(), Some("b"));
    assert_eq!(config.default_server.as_deref(), Some("a"));
}

#[test]
fn key_table_lets_workspaces_lower_only_limits() {
    fn check<T>(section: &keys::Section<T>) {
        for key in section.keys.iter().filter(|key| key.workspace == keys::Workspace::Smaller) {
            let is_limit = matches!(
                key.ty,
                keys::Type::Duration(_)
                    | keys::Type::Flag(_)
                    | keys::Type::Size(_)
                    | keys::Type::TextSize(_)
                    | keys::Type::Count(_)
                    | keys::Type::CountOrLess(..)
                    | keys::Type::Amount(_)
                    | keys::Type::Only(_)
                    | keys::Type::Except(_)
            );
            assert!(is_limit, "{} {}", section.header, key.name);
        }
    }
    check(&keys::ROOT);
    check(&keys::SERVER);
    check(&keys::FOLDER);
    check(&keys::AGENT);
    check(&keys::ROUTE);
    check(&keys::GROUP);
    check(&keys::MEMBER);
    check(&keys::SUB_AGENTS);
    check(&keys::WORKER);
    check(&keys::ORCHESTRATION);
    check(&keys::TOOLS);
    check(&keys::LSP_TOOLS);
    check(&keys::LOG);
}

/// The schema has the keys of the table, in the same order.
#[test]
fn schema_contains_every_server_key() {
    let schema: serde_json::Value = serde_json::from_str(&schema()).unwrap();
    let server = &schema["properties"]["server"]["additionalProperties"]["properties"];
    let names: Vec<_> = server.as_object().unwrap().keys().collect();
    let keys: Vec<_> = keys::SERVER.keys.iter().map(|key| key.name).collect();
    assert_eq!(names, keys);
    assert_eq!(server["max_processes"]["default"], 8);
    assert_eq!(schema["properties"]["route"]["items"]["required"], serde_json::json!(["agent"]));
}

proptest::proptest! {
    /// For any text, reading ends, and each error has an existing line.
    #[test]
    fn config_parses_any_text_or_reports_valid_lines(
        words in proptest::collection::vec(proptest::sample::select(WORDS), 0..24),
    ) {
        let text = words.concat();
        let n_lines = text.lines().count().max(1) + 1;
        for result in [
            Config::parse_user(&text, "").map(|_| ()),
            Config::default().merge_workspace(&text, Path::new("")).map(|_| ()),
        ] {
            let problems = result.err().map(|it| it.list);
            proptest::prop_assert!(problems.iter().flatten().all(|it| (1..=n_lines).contains(&it.line)));
            proptest::prop_assert!(problems.is_none_or(|it| !it.is_empty()));
        }
    }
}

/// Parts of valid and invalid files.
#[rustfmt::skip]
const WORDS: &[&str] = &[
    "[", "]", "[[", "]]", "=", ".", ",", "{", "}", "\"", "'", "\"\"\"", "\n", " ", "#", "\\", "\u{feff}",
    "é", "\r\n", "server", "copilot", "folder", "path", "\"/x\"", "agent", "route", "log", "level",
    "tools", "idle_timeout", "max_processes", "default_server", "group", "servers", "order", "except",
    "settings", "[\"ruff\"]", "0x10", "1.5", "\"5m\"", "true", "1979-05-27", "[server.copilot]\n",
    "[[route]]\n", "agent = \"plan\"\n", "\u{1}", "_1", "inf",
];
