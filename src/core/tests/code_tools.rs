//! Calls of code tools on a disk and a server that the test controls.

mod complaints;
mod edits;
mod model;
mod proofs;
mod settings;
mod world;

use serde_json::{Value, json};

use self::world::{Publishes, World};

fn codes(answer: &Value) -> String {
    answer["structured"]["error"]["code"].as_str().unwrap_or("none").to_owned()
}

fn places(answer: &Value) -> Vec<(String, u64)> {
    let all = answer["structured"]["references"].as_array().into_iter().flatten();
    all.map(|it| (it["file"].as_str().unwrap().to_owned(), it["line"].as_u64().unwrap())).collect()
}

fn references(symbol: &str) -> Value {
    json!({"symbol": symbol, "max_results": 1000})
}

#[test]
fn references_wait_for_late_index() {
    let mut world =
        World::new(1).file("a.py", "def foo").file("b.py", "use foo").file("c.py", "# foo\nuse foo");
    world.server.index_takes = 8_000;
    let answer = world.call("lsp_references", &references("foo"));
    assert_eq!(answer["structured"]["complete"], true, "{answer}");
    assert_eq!(places(&answer), [("a.py".to_owned(), 1), ("b.py".to_owned(), 1), ("c.py".to_owned(), 2)]);
    assert_eq!(answer["structured"]["references"][0]["declaration"], true);
}

#[test]
fn index_that_never_ends_makes_an_incomplete_answer() {
    let mut world = World::new(1).file("a.py", "def foo").file("b.py", "use foo").file("c.py", "use foo");
    world.server.index_takes = 10_000_000;
    world.server.reports_work = true;
    let answer = world.call("lsp_references", &references("foo"));
    assert_eq!(answer["structured"]["complete"], false, "{answer}");
    assert!(answer["text"].as_str().unwrap().starts_with("INCOMPLETE: "), "{answer}");
}

#[test]
fn words_in_comments_do_not_keep_an_answer_from_being_complete() {
    let mut world = World::new(1).file("a.py", "def foo\nuse foo");
    for n in 0..20 {
        world = world.file(&format!("d{n}/x.py"), "# foo");
    }
    let answer = world.call("lsp_references", &references("foo"));
    assert_eq!(answer["structured"]["complete"], true, "{answer}");
    assert_eq!(answer["structured"]["text_only"]["total"], 20);
    assert_eq!(places(&answer).len(), 2);
    let n_opened = world.server.n_opened;
    world.call("lsp_references", &references("foo"));
    assert_eq!(world.server.n_opened, n_opened, "what was refuted is remembered");
}

#[test]
fn of_very_many_files_with_the_word_some_are_tested() {
    let mut world = World::new(1).file("a.py", "def foo\nuse foo");
    for n in 0..300 {
        world = world.file(&format!("d{n}/x.py"), "# foo");
    }
    let answer = world.call("lsp_references", &references("foo"));
    assert_eq!(answer["structured"]["complete"], true, "{answer}");
    let notes = answer["structured"]["notes"].to_string();
    assert!(notes.contains("were not opened"), "{notes}");
    assert!((60..120).contains(&world.server.n_opened), "{}", world.server.n_opened);
}

#[test]
fn edits_of_other_programs_are_seen() {
    let mut world = World::new(1).file("a.py", "def foo").file("b.py", "use foo");
    assert_eq!(places(&world.call("lsp_references", &references("foo"))).len(), 2);
    world.server.watch_takes = 60_000;
    world.write("b.py", "\nuse foo\nuse foo");
    world.write("new.py", "use foo");
    world.remove("nothing.py");
    let answer = world.call("lsp_references", &references("foo"));
    let expected = [("a.py", 1), ("b.py", 2), ("b.py", 3), ("new.py", 1)];
    assert_eq!(places(&answer), expected.map(|(file, line)| (file.to_owned(), line)), "{answer}");
    world.remove("b.py");
    let answer = world.call("lsp_references", &references("foo"));
    assert_eq!(places(&answer).len(), 2, "{answer}");
    assert_eq!(answer["structured"]["complete"], true);
}

#[test]
fn crash_during_a_call_costs_a_delay() {
    let mut world = World::new(1).file("a.py", "def foo").file("b.py", "use foo");
    world.server.dies_at = vec!["textDocument/references"];
    let answer = world.call("lsp_references", &references("foo"));
    assert_eq!(places(&answer).len(), 2, "{answer}");
    assert_eq!(answer["structured"]["complete"], true);
}

#[test]
fn server_that_always_dies_is_told_as_a_failure() {
    let mut world = World::new(1).file("a.py", "def foo");
    world.server.dies_at = vec!["textDocument/references"; 50];
    let answer = world.call("lsp_references", &references("foo"));
    assert_eq!(codes(&answer), "server_failed", "{answer}");
}

#[test]
fn ambiguous_names_are_candidates_that_can_be_handed_back() {
    let mut world = World::new(1).file("a.py", "def foo").file("b.py", "def foo\nuse foo");
    let answer = world.call("lsp_references", &references("foo"));
    assert_eq!(codes(&answer), "ambiguous", "{answer}");
    let candidate = answer["structured"]["error"]["candidates"][1].clone();
    let again = json!({"symbol": candidate["symbol"], "file": candidate["file"]});
    let answer = world.call("lsp_definition", &again);
    assert_eq!(answer["structured"]["definitions"][0]["file"], "b.py", "{answer}");
}

#[test]
fn names_that_are_not_there_are_errors() {
    let mut world = World::new(1).file("a.py", "def foobar").file("x.txt", "foo");
    let answer = world.call("lsp_references", &references("foobaz"));
    assert_eq!(codes(&answer), "no_symbol", "{answer}");
    let answer = world.call("lsp_hover", &json!({"symbol": "foobaz", "file": "a.py"}));
    assert_eq!(answer["structured"]["error"]["candidates"][0]["symbol"], "foobar", "{answer}");
    let answer = world.call("lsp_hover", &json!({"symbol": "foo", "file": "x.txt"}));
    assert_eq!(codes(&answer), "no_server", "{answer}");
    let answer = world.call("lsp_hover", &json!({"symbol": "foo", "file": "none.py"}));
    assert_eq!(codes(&answer), "no_file", "{answer}");
    for outside in ["../x.py", "/etc/passwd", "a/../../x.py", "/ws/../x.py"] {
        let answer = world.call("lsp_hover", &json!({"symbol": "foo", "file": outside}));
        assert_eq!(codes(&answer), "outside_workspace", "{answer}");
    }
}

#[test]
fn wrong_arguments_and_missing_abilities_are_named() {
    let mut world = World::new(1).file("a.py", "def foo");
    assert_eq!(codes(&world.call("lsp_nothing", &json!({}))), "bad_arguments");
    assert_eq!(codes(&world.call("lsp_hover", &json!({"simbol": "foo"}))), "bad_arguments");
    let answer = world.call("lsp_implementations", &json!({"symbol": "foo"}));
    assert_eq!(codes(&answer), "not_supported", "{answer}");
}

fn freshness(answer: &Value) -> (String, usize) {
    let file = &answer["structured"]["files"][0];
    (
        file["freshness"].as_str().unwrap_or("none").to_owned(),
        file["diagnostics"].as_array().map_or(0, Vec::len),
    )
}

fn check(file: &str) -> Value {
    json!({"files": [file]})
}

#[test]
fn diagnostics_are_of_the_text_that_is_there() {
    for (publishes, grade) in [
        (Publishes::OnRequest, "exact"),
        (Publishes::Versions, "exact"),
        (Publishes::Plain, "settled"),
        (Publishes::BeforeAnswers, "settled"),
    ] {
        let mut world = World::new(1).file("a.py", "def foo\nbad");
        world.server.publishes = publishes;
        let mut seen = vec![freshness(&world.call("lsp_diagnostics", &check("a.py")))];
        world.write("a.py", "def foo");
        seen.push(freshness(&world.call("lsp_diagnostics", &check("a.py"))));
        world.write("a.py", "bad\nbad");
        seen.push(freshness(&world.call("lsp_diagnostics", &check("a.py"))));
        let expected = [1, 0, 2].map(|n| (grade.to_owned(), n));
        assert_eq!(seen, expected, "{publishes:?}");
    }
}

#[test]
fn silence_is_not_taken_for_clean() {
    let mut world = World::new(1).file("a.py", "bad");
    world.server.publishes = Publishes::Never;
    let answer = world.call("lsp_diagnostics", &check("a.py"));
    assert_eq!(freshness(&answer), ("unknown".to_owned(), 0));
    assert!(answer["text"].as_str().unwrap().starts_with("NOT CHECKED: a.py"), "{answer}");
}

#[test]
fn late_publication_of_an_older_text_is_not_believed() {
    let mut world = World::new(1).file("a.py", "bad");
    world.server.publishes = Publishes::Versions;
    world.call("lsp_diagnostics", &check("a.py"));
    world.server.publishes = Publishes::OldVersions;
    world.write("a.py", "def foo");
    let answer = world.call("lsp_diagnostics", &check("a.py"));
    assert_eq!(freshness(&answer).0, "unknown", "{answer}");
}

#[test]
fn changed_files_are_checked_without_being_named() {
    let mut world = World::new(1).file("a.py", "bad").file("b.py", "bad");
    let answer = world.call("lsp_diagnostics", &json!({}));
    assert_eq!(answer["structured"]["files"], json!([]));
    world.write("b.py", "bad\nbad");
    let answer = world.call("lsp_diagnostics", &json!({}));
    assert_eq!(answer["structured"]["files"][0]["file"], "b.py", "{answer}");
    assert_eq!(freshness(&answer).1, 2);
    let answer = world.call("lsp_diagnostics", &json!({}));
    assert_eq!(answer["structured"]["files"], json!([]), "{answer}");
}

#[test]
fn cancelled_call_is_not_answered_with_a_result() {
    let mut world = World::new(1).file("a.py", "def foo");
    world.server.holds = true;
    let id = world.begin("lsp_references", &references("foo"));
    world.pass(3_000);
    world.cancel(id);
    world.pass(1_000);
    let answer = world.answer(id).expect("an answer");
    assert_eq!(answer["error"]["code"], -32800, "{answer}");
}

#[test]
fn hanging_server_makes_a_time_out() {
    let mut world = World::new(1).file("a.py", "def foo");
    world.server.holds = true;
    let answer = world.call("lsp_references", &references("foo"));
    assert_eq!(codes(&answer), "timeout", "{answer}");
    assert_eq!(answer["structured"]["error"]["retry"], true);
}

#[test]
fn rest_of_an_answer_is_shown_page_by_page() {
    let lines = vec!["use foo"; 30].join("\n");
    let mut world = World::new(1).file("a.py", &format!("def foo\n{lines}"));
    let first = world.call("lsp_references", &json!({"symbol": "foo", "max_results": 20}));
    let next = first["structured"]["next"].as_str().unwrap().to_owned();
    assert!(first["text"].as_str().unwrap().contains("11 more: lsp_references"), "{first}");
    let second = world.call("lsp_references", &json!({"after": next, "max_results": 20}));
    assert_eq!([places(&first).len(), places(&second).len()], [20, 11]);
    assert_eq!(second["structured"]["truncated"], false);
    world.write("a.py", "def foo");
    assert_eq!(codes(&world.call("lsp_references", &json!({"after": next}))), "changed");
    assert_eq!(codes(&world.call("lsp_references", &json!({"after": "r9.9"}))), "expired");
}
