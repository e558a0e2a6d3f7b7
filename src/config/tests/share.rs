//! The keys of `[server.NAME]` that begin with `share`.

use std::time::Duration;

use expect_test::expect;

use super::{check_problems, check_workspace_problems, user, workspace};
use crate::config::{ShareConfig, ShareMode, ShareViews};

#[test]
fn server_is_not_shared_unless_the_user_says_so() {
    let config = user("[server.a]\n[server.b]\nshare = \"same-client\"\n");
    assert_eq!(config.servers["a"].share, ShareConfig::default());
    assert!(!config.servers["a"].share.is_on() && config.servers["b"].share.is_on());
    // A recording of a server that is not shared is as it was.
    assert!(!serde_json::to_string(&config.servers["a"]).unwrap().contains("share"));
}

#[test]
fn share_keys_are_read() {
    let config = user(
        "[server.a]\nshare = \"same-client\"\nshare_idle = \"0s\"\nshare_env = [\"GOFLAGS\"]\n\
         share_views = \"private\"\nshare_limit = 2\n",
    );
    let expected = ShareConfig {
        mode: ShareMode::SameClient,
        idle: Duration::ZERO,
        env: vec!["GOFLAGS".to_owned()],
        views: ShareViews::Private,
        limit: 2,
    };
    assert_eq!(config.servers["a"].share, expected);
}

#[test]
fn server_that_cannot_be_shared_is_an_error() {
    check_problems(
        "[server.copilot]\nshare = \"same-client\"\n[server.b]\nkind = \"copilot\"\nshare = \"same-client\"\n\
         [server.c]\nshare = \"same-client\"\nbuiltin_tools = \"fallback\"\n\
         [server.e]\nshare = \"any-client\"\n[server.f]\nshare = true\nshare_views = \"merged\"\nshare_limit = 0\n",
        &expect![[r#"
            config.toml:1: `server.copilot.share`: must be "off": a Copilot server has the conversations of one editor
            config.toml:3: `server.b.share`: must be "off": a Copilot server has the conversations of one editor
            config.toml:6: `server.c.share`: must be "off": `builtin_tools` are for one editor
            config.toml:10: `server.e.share`: "any-client" is not available yet; "same-client" is
            config.toml:12: `server.f.share`: expected one of "off", "same-client", found true
            config.toml:13: `server.f.share_views`: expected one of "exact", "private", found "merged"
            config.toml:14: `server.f.share_limit`: expected an integer from 1 to 65535, found 0"#]],
    );
}

#[test]
fn workspace_file_only_lowers_what_is_shared() {
    let own = "[server.a]\nshare = \"same-client\"\n";
    let (config, _) = workspace(own, "[server.a]\nshare_idle = \"1m\"\nshare_limit = 2\n").unwrap();
    assert_eq!(
        (config.servers["a"].share.idle, config.servers["a"].share.limit),
        (Duration::from_mins(1), 2)
    );
    check_workspace_problems(
        own,
        "[server.a]\nshare = \"off\"\nshare_idle = \"1h\"\nshare_env = []\nshare_views = \"exact\"\nshare_limit = 99\n",
        &expect![[r#"
            .lspool.toml:2: `server.a.share`: a workspace file cannot set this key; set it in your own configuration file
            .lspool.toml:3: `server.a.share_idle`: expected at most 5m, found 1h: a workspace file can only lower a limit
            .lspool.toml:4: `server.a.share_env`: a workspace file cannot set this key; set it in your own configuration file
            .lspool.toml:5: `server.a.share_views`: a workspace file cannot set this key; set it in your own configuration file
            .lspool.toml:6: `server.a.share_limit`: expected at most 16, found 99: a workspace file can only lower a limit"#]],
    );
}
