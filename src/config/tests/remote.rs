//! `[server.NAME.remote]`.

use std::time::Duration;

use expect_test::expect;

use super::{check_problems, check_workspace_problems, user};
use crate::{
    config::{Cleanup, Engine, RemoteConfig, Unmapped},
    rpc::PathPair,
};

#[test]
fn remote_says_where_a_server_runs() {
    let config = user(
        "[server.a]\nremote = { engine = \"docker\", target = \"web\" }\n\
         [server.b.remote]\nengine = \"command\"\nengine_command = [\"bwrap\", \"--\"]\nengine_args = [\"-x\"]\n\
         paths = [{ local = \"~/shop\", remote = \"/app\" }]\ncleanup = \"none\"\nunmapped = \"pass\"\n\
         map_settings = false\nreconnect_max = \"1m\"\nrequest_wait = \"1s\"\n\
         [server.c.remote]\nengine = \"podman\"\nimage = \"py\"\n",
    );
    let of = |name: &str| config.servers[name].remote.clone().unwrap();
    let docker =
        RemoteConfig { engine: Engine::Docker, target: Some("web".to_owned()), ..RemoteConfig::default() };
    assert_eq!((of("a"), of("a").paths), (docker, None));
    let words = |all: &[&str]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
    let command = RemoteConfig {
        engine: Engine::Command,
        target: None,
        engine_command: words(&["bwrap", "--"]),
        engine_args: words(&["-x"]),
        paths: Some(vec![PathPair { local: "~/shop".to_owned(), remote: "/app".to_owned() }]),
        cleanup: Cleanup::None,
        image: None,
        unmapped: Unmapped::Pass,
        map_settings: false,
        reconnect_max: Duration::from_mins(1),
        request_wait: Duration::from_secs(1),
    };
    assert_eq!(of("b"), command);
    let image = Some("py".to_owned());
    assert_eq!(of("c"), RemoteConfig { engine: Engine::Podman, image, ..RemoteConfig::default() });
}

#[test]
fn incomplete_remote_is_an_error() {
    check_problems(
        "[server.a.remote]\ntarget = \"web\"\n[server.b.remote]\nengine = \"ssh\"\n\
         [server.c.remote]\nengine = \"command\"\n[server.d.remote]\nengine = \"docker\"\ntarget = \"--privileged\"\n\
         [server.e.remote]\nengine = \"docker\"\ntarget = \"x\"\npaths = [{ local = \"shop\", remote = \"/app/..\" }, 7]\n\
         [server.f.remote]\nengine = \"docker\"\ntarget = \"x\"\n\
         paths = [{ local = \"/a\", remote = \"/x\" }, { local = \"/b\", remote = \"/x\" }]\n\
         [server.g.remote]\nengine = \"dokcer\"\ntarget = \"x\"\npaths = \"all\"\n\
         [server.h.remote]\nengine = \"podman\"\n[server.i.remote]\nengine = \"ssh\"\nimage = \"x\"\n\
         [server.j.remote]\nengine = \"docker\"\nimage = \"x\"\ntarget = \"x\"\n\
         [server.k.remote]\nengine = \"kubectl\"\ntarget = \"a/b/c/d\"\n\
         [server.l.remote]\nengine = \"kubectl\"\ntarget = \"a//c\"\n\
         [server.m]\nmemory_limit = \"1GiB\"\nremote = { engine = \"ssh\", target = \"x\" }\n",
        &expect![[r#"
            config.toml:1: `server.a.remote.engine`: missing; this key is required
            config.toml:3: `server.b.remote`: expected `target`, because `engine` is "ssh"
            config.toml:5: `server.c.remote`: expected `engine_command`, because `engine` is "command"
            config.toml:7: `server.d.remote`: `target` begins with a dash, so the engine would take it as an option
            config.toml:13: `server.e.remote.paths[0].local`: expected an absolute path, or one that starts with "~/", found "shop"
            config.toml:13: `server.e.remote.paths[0].remote`: expected an absolute path without . and .., found "/app/.."
            config.toml:13: `server.e.remote.paths[1]`: expected "auto", or a list such as [{ local = "~/shop", remote = "/app" }], found 7
            config.toml:17: `server.f.remote.paths`: /a = /x and /b = /x contradict each other
            config.toml:19: `server.g.remote.engine`: expected one of "docker", "podman", "kubectl", "ssh", "devcontainer", "command", found "dokcer"; did you mean "docker"?
            config.toml:21: `server.g.remote.paths`: expected "auto", or a list such as [{ local = "~/shop", remote = "/app" }], found a string
            config.toml:22: `server.h.remote`: expected `target` or `image`, because `engine` is "podman"
            config.toml:24: `server.i.remote`: `image` has no meaning with `engine = "ssh"`
            config.toml:27: `server.j.remote`: expected one of `target` and `image`, found both
            config.toml:31: `server.k.remote`: expected `target` as POD, NAMESPACE/POD or NAMESPACE/POD/CONTAINER, found "a/b/c/d"
            config.toml:34: `server.l.remote`: expected `target` as POD, NAMESPACE/POD or NAMESPACE/POD/CONTAINER, found "a//c"
            config.toml:37: `server.m.memory_limit`: has no meaning with `remote`: lspool does not see the memory of that server"#]],
    );
}

#[test]
fn workspace_file_sets_no_remote() {
    check_workspace_problems(
        "[server.a]\n",
        "[server.a]\nremote = { engine = \"command\", engine_command = [\"sh\"] }\n",
        &expect![
            ".lspool.toml:2: `server.a.remote`: a workspace file cannot set this key; set it in your own configuration file"
        ],
    );
}
