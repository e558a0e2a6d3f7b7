//! What the user turns on, off, and limits.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    check, codes, freshness, references,
    world::{Publishes, World},
};
use crate::{config::OnLoading, core::event::Unreadable};

fn raw() -> World {
    let mut world = World::new(1).file("a.py", "def foo").file("b.py", "use foo");
    world.settings.raw = true;
    world
}

fn start(world: &mut World) -> String {
    let answer = world.call("lsp_start", &json!({"language": "python"}));
    answer["structured"]["server_id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

fn request(server: &str, method: &str, params: impl Into<Value>) -> Value {
    let params = params.into();
    json!({"server_id": server, "method": method, "params": params})
}

#[test]
fn raw_requests_are_off_by_default() {
    let mut world = raw();
    world.settings.raw = false;
    for (tool, arguments) in [
        ("lsp_start", json!({"language": "python"})),
        ("lsp_request", request("pyright#1", "textDocument/hover", json!({}))),
        ("lsp_stop", json!({"server_id": "pyright#1"})),
    ] {
        assert_eq!(codes(&world.call(tool, &arguments)), "refused", "{tool}");
    }
}

#[test]
fn raw_request_is_about_the_file_as_it_is() {
    let mut world = raw();
    let server = start(&mut world);
    assert!(server.starts_with("pyright#"), "{server}");
    let symbols =
        request(&server, "textDocument/documentSymbol", json!({"textDocument": {"uri": "file:///ws/a.py"}}));
    let names = |answer: &Value| answer["structured"]["result"][0]["name"].clone();
    assert_eq!(names(&world.call("lsp_request", &symbols)), "foo");
    world.write("a.py", "def bar");
    assert_eq!(names(&world.call("lsp_request", &symbols)), "bar");
    // It may be written as a text, with a path through a link above the workspace.
    world.links.insert("/link/a.py".into(), "/ws/a.py".into());
    let params = json!({"textDocument": {"uri": "file:///link/a.py"}}).to_string();
    let answer = world.call("lsp_request", &request(&server, "textDocument/documentSymbol", params));
    assert_eq!(names(&answer), "bar", "{answer}");
    assert_eq!(codes(&world.call("lsp_stop", &json!({"server_id": server}))), "none");
    assert_eq!(codes(&world.call("lsp_request", &symbols)), "bad_arguments");
}

#[test]
fn user_allows_further_methods_and_commands_of_raw_requests() {
    let mut world = raw();
    world.settings.raw_methods = vec!["my/*".to_owned()];
    world.settings.raw_commands = vec!["my.command".to_owned()];
    world.server.answers.insert("my/read", json!({"n": 1}));
    let server = start(&mut world);
    let answer = world.call("lsp_request", &request(&server, "my/read", json!({})));
    assert_eq!(answer["structured"]["result"], json!({"n": 1}), "{answer}");
    assert_eq!(codes(&world.call("lsp_request", &request(&server, "other/read", json!({})))), "refused");
    let command = |name: &str| request(&server, "workspace/executeCommand", json!({"command": name}));
    assert_eq!(codes(&world.call("lsp_request", &command("another"))), "refused");
    assert_eq!(codes(&world.call("lsp_request", &command("my.command"))), "not_supported", "it has none");
}

#[test]
fn edit_of_more_files_than_allowed_is_refused() {
    let mut world = World::new(1).file("a.py", "def foo").file("b.py", "use foo");
    world.settings.max_edit_files = 1;
    let rename = json!({"symbol": "foo", "file": "a.py", "new_name": "bar"});
    assert_eq!(codes(&world.call("lsp_rename", &rename)), "refused");
    assert!(world.writes.is_empty());
}

#[test]
fn raw_request_leads_nowhere_outside() {
    let mut world = raw();
    world.forbid("out.py", Unreadable::Outside);
    let server = start(&mut world);
    let hover = |uri: &str| {
        request(
            &server,
            "textDocument/hover",
            json!({"textDocument": {"uri": uri}, "position": {"line": 0, "character": 5}}),
        )
    };
    for uri in [
        "file:///etc/passwd",
        "file:///ws/../etc/passwd",
        "file:///ws/%2e%2e/x",
        "/etc/passwd",
        "https://x/y",
        "file:///ws/out.py",
    ] {
        assert_eq!(codes(&world.call("lsp_request", &hover(uri))), "outside_workspace", "{uri}");
    }
    let item = json!({"item": {"name": "foo", "kind": 12, "data": [{"deep": "file:///etc/passwd"}]}});
    let answer = world.call("lsp_request", &request(&server, "callHierarchy/incomingCalls", item));
    assert_eq!(codes(&answer), "outside_workspace", "{answer}");
    let answer = world.call("lsp_start", &json!({"server": "pyright", "root": "/etc"}));
    assert_eq!(codes(&answer), "outside_workspace", "{answer}");
    for method in
        ["workspace/executeCommand", "textDocument/rename", "shutdown", "textDocument/didChange", "x/y"]
    {
        assert_eq!(
            codes(&world.call("lsp_request", &request(&server, method, json!({})))),
            "refused",
            "{method}"
        );
    }
    // What it does not offer is not asked.
    let answer = world.call("lsp_request", &request(&server, "textDocument/moniker", json!({})));
    assert_eq!(codes(&answer), "not_supported", "{answer}");
    assert_eq!(codes(&world.call("lsp_start", &json!({"server": "other"}))), "no_server");
    assert_eq!(codes(&world.call("lsp_start", &json!({}))), "bad_arguments");
}

#[test]
fn raw_request_has_its_own_time_limit() {
    let mut world = raw();
    let server = start(&mut world);
    world.server.holds = true;
    let mut hover = request(&server, "workspace/diagnostic", json!({}));
    hover["timeout"] = json!("3");
    let answer = world.call("lsp_request", &hover);
    assert_eq!(codes(&answer), "timeout", "{answer}");
    assert!(answer["text"].as_str().unwrap().contains("within 3 s"), "{answer}");
}

#[test]
fn tools_that_are_off_are_refused() {
    let mut world = World::new(1).file("a.py", "def foo");
    world.settings.enabled = false;
    assert_eq!(codes(&world.call("lsp_workspace", &json!({}))), "refused");
}

#[test]
fn limits_of_time_hold() {
    let mut world = World::new(1).file("a.py", "def foo\nbad").file("b.py", "use foo");
    world.settings.time_limit = Duration::from_secs(8);
    world.server.holds = true;
    let answer = world.call("lsp_references", &references("foo"));
    assert!(answer["text"].as_str().unwrap().contains("within 8 s"), "{answer}");

    let mut world = World::new(1).file("a.py", "bad");
    world.settings.diagnostics_wait = Duration::from_secs(3);
    world.server.publishes = Publishes::Never;
    let answer = world.call("lsp_diagnostics", &check("a.py"));
    assert_eq!(freshness(&answer).0, "unknown");
    assert!(answer["text"].as_str().unwrap().contains("within 3 s"), "{answer}");
}

#[test]
fn server_that_loads_is_an_error_if_the_user_wants_that() {
    let mut world = World::new(1).file("a.py", "def foo").file("b.py", "use foo");
    world.settings.on_loading = OnLoading::Error;
    world.server.reports_work = true;
    world.server.index_takes = 5_000;
    let answer = world.call("lsp_references", &references("foo"));
    assert_eq!((codes(&answer).as_str(), &answer["structured"]["error"]["retry"]), ("loading", &json!(true)));
    world.pass(10_000);
    let mut answer = world.call("lsp_references", &references("foo"));
    // Its first answer about a document is what shows that it is ready.
    while codes(&answer) == "loading" {
        world.pass(1_000);
        answer = world.call("lsp_references", &references("foo"));
    }
    assert_eq!(answer["structured"]["complete"], true, "{answer}");
}

#[test]
fn limits_of_size_hold() {
    let mut world = World::new(1).file("a.py", &format!("def foo\n{}", vec!["use foo"; 200].join("\n")));
    world.settings.max_results = 7;
    world.settings.max_output = 2000;
    let answer = world.call("lsp_references", &json!({"symbol": "foo"}));
    assert_eq!(answer["structured"]["references"].as_array().unwrap().len(), 7, "{answer}");
    let answer = world.call("lsp_references", &references("foo"));
    let text = answer["text"].as_str().unwrap();
    assert!(text.len() < 2200 && answer["structured"]["next"].is_string(), "{} {answer}", text.len());
    assert_eq!(answer["structured"]["total"], 201);
}

#[test]
fn no_more_documents_are_open_than_allowed() {
    let mut world = World::new(1).file("a.py", "def foo");
    for n in 0..20 {
        world = world.file(&format!("m{n}.py"), "use foo\nbad");
    }
    world.settings.max_open = 5;
    let answer = world.call("lsp_diagnostics", &json!({"files": ["m1.py", "m2.py", "m3.py"]}));
    assert_eq!(answer["structured"]["total"], 3, "{answer}");
    for n in 4..20 {
        world.call("lsp_diagnostics", &check(&format!("m{n}.py")));
        assert!(world.server.n_open() <= 5);
    }
}

#[test]
fn texts_are_searched_page_by_page() {
    let mut world = World::new(1)
        .file("a.py", "one needle\ntwo")
        .file("b.txt", "needle\nneedle")
        .file("sub/c.md", "a needle");
    let answer = world.call("code_search", &json!({"query": "needle", "max_results": 3}));
    let lines = |answer: &Value| -> Vec<String> {
        let all = answer["structured"]["hits"].as_array().unwrap();
        all.iter().map(|it| format!("{}:{}", it["file"].as_str().unwrap(), it["line"])).collect()
    };
    assert_eq!(lines(&answer), ["a.py:1", "b.txt:1", "b.txt:2"], "{answer}");
    assert_eq!(
        (&answer["structured"]["total"], &answer["structured"]["complete"]),
        (&json!(4), &json!(true))
    );
    let next = answer["structured"]["next"].clone();
    let answer = world.call("code_search", &json!({"query": "needle", "after": next}));
    assert_eq!(lines(&answer), ["sub/c.md:1"], "{answer}");
    let answer = world.call("code_search", &json!({"query": "needle", "path": "sub"}));
    assert_eq!(lines(&answer), ["sub/c.md:1"], "{answer}");
    let answer = world.call("code_search", &json!({"query": "needle", "glob": "*.txt"}));
    assert_eq!(lines(&answer).len(), 2, "{answer}");
    assert_eq!(
        codes(&world.call("code_search", &json!({"query": "x", "path": "/etc"}))),
        "outside_workspace"
    );
}
