//! Errors quote no secrets.

use super::*;

#[test]
fn config_errors_hide_secrets() {
    check_problems(
        r#"
default_server = "github_pat_11AB22CD33"
token = "ghp_16C7e42F292c"
ghp_16C7e42F292c = 1
[server.copilot]
command = "API_KEY=abc123def456 ./server"
cwd = "https://me:hunter2@host/"
args = ["--token", 1234567890]
idle_timeout = "Bearer abc123def456"
env = { GH_TOKEN = 1234567890 }
kind = ghp_16C7e42F292c
"#,
        &expect![[r#"
            config.toml:3: `token`: unknown key; expected one of `default_server`, `server`, `default_group`, `group`, `folder`, `agent`, `models`, `subagents`, `worker`, `orchestration`, `tools`, `lsp_tools`, `route`, `log`, `record`, `record_texts`, `record_max_size`
            config.toml:4: `<secret>`: unknown key; expected one of `default_server`, `server`, `default_group`, `group`, `folder`, `agent`, `models`, `subagents`, `worker`, `orchestration`, `tools`, `lsp_tools`, `route`, `log`, `record`, `record_texts`, `record_max_size`
            config.toml:6: `server.copilot.command`: expected an absolute path, one that starts with "~/", or a bare name, found the relative path "API_KEY=<secret> ./server"
            config.toml:7: `server.copilot.cwd`: expected an absolute path, or one that starts with "~/", found "https://me:<secret>@host/"
            config.toml:8: `server.copilot.args[1]`: expected a string, found a number; put it in quotes
            config.toml:9: `server.copilot.idle_timeout`: expected a duration such as "5m", in ms, s, m, or h, found "Bearer <secret>"
            config.toml:10: `server.copilot.env.GH_TOKEN`: expected a string in quotes
            config.toml:11: invalid TOML at column 8: put strings in quotes"#]],
    );
}
