//! What users of language servers complain of, each as a test.
//!
//! | they say | the test |
//! |---|---|
//! | the first references are 1 of 161 | `references_wait_for_late_index`, `server_that_loads_again_is_waited_for_again` |
//! | errors that are mended are reported | `diagnostics_are_of_the_text_that_is_there`, `late_publication_of_an_older_text_is_not_believed` |
//! | silence is taken for clean | `silence_is_not_taken_for_clean` |
//! | a question hangs on a server that cannot answer it | `server_is_asked_only_what_it_offers` |
//! | edits of other programs are not seen | `edits_of_other_programs_are_seen`, `server_that_watches_no_files_is_shown_what_has_changed` |
//! | a language without a server has no symbols | `language_without_server_is_named` |
//! | a rename reports success with 0 files, or leaves closed files out | `rename_without_a_whole_index_is_not_made`, `rename_changes_all_files_and_tells_what_is_left` |
//! | edits land in wrong columns, files are corrupted | `edits_of_another_text_are_not_made`, `what_is_not_understood_refuses_all`, `change_at_the_last_moment_stops_the_write` |
//! | one answer is 43,000 tokens, an empty query is everything | `answers_stay_small`, `rest_of_an_answer_is_shown_page_by_page` |
//! | a crash ends the language for the session | `crash_during_a_call_costs_a_delay`, `crash_between_calls_is_not_noticed` |
//! | a search by name walks for hours | `of_very_many_files_with_the_word_some_are_tested` |
//! | places outside the workspace are passed on | `places_outside_are_external_and_have_no_text` |
//! | an edit changes files outside | `edits_elsewhere_and_odd_edits_are_refused_whole` |
//! | a program of the project is run | `typescript_is_taken_from_beside_its_server`, `server_that_runs_project_is_used_only_where_user_trusts` in `src/shell/discover/tools.rs` |
//! | 11 servers of one kind; processes that stay | `no_more_servers_are_chosen_than_allowed` in `src/cli/code_tools.rs`, `no_process_of_a_real_server_survives_the_agent` in `tests/it/mcp.rs` |
//! | the server answers for another folder | `folders_of_the_client_are_asked_for_and_followed` there |
//! | what the editor has not saved is not seen | `server_gets_unsaved_texts_and_keeps_them`, and in a conversation `code_tools_of_conversation_see_and_change_what_editor_has_open` |
//! | a language gets no server because its files came later | `language_that_appears_gets_its_real_server_at_the_next_call` in `tests/it/mcp.rs` |
//! | an answer to a cancelled call breaks the client | `cancelled_calls_are_not_answered_and_progress_counts_up` there |
//! | 50,000 tokens of tool descriptions | `list_is_small_and_the_same_each_time` in `src/cli/mcp/tools.rs` |

use serde_json::json;

use super::{
    check, codes, freshness, places, references,
    world::{Publishes, World},
};

#[test]
fn server_that_loads_again_is_waited_for_again() {
    let mut world = World::new(1).file("a.py", "def foo").file("b.py", "use foo");
    assert_eq!(world.call("lsp_references", &references("foo"))["structured"]["complete"], true);
    world.server_works("begin");
    let id = world.begin("lsp_references", &references("foo"));
    world.pass(10_000);
    assert!(world.answer(id).is_none(), "it works on a new project");
    world.server_works("end");
    world.pass(5_000);
    let answer = world.answer(id).expect("an answer")["result"].clone();
    assert_eq!(answer["structured"]["complete"], true, "{answer}");
}

#[test]
fn server_is_asked_only_what_it_offers() {
    // The server panics at a question that it does not offer.
    for publishes in [Publishes::Versions, Publishes::Plain, Publishes::Never] {
        let mut world = World::new(1).file("a.py", "bad");
        world.server.publishes = publishes;
        let answer = world.call("lsp_diagnostics", &check("a.py"));
        assert_eq!(freshness(&answer).0 == "unknown", publishes == Publishes::Never, "{answer}");
    }
    let mut world = World::new(1).file("a.py", "def foo");
    for tool in ["lsp_implementations", "lsp_type_hierarchy"] {
        let answer = world.call(tool, &json!({"symbol": "foo", "direction": "subtypes"}));
        assert!(["not_supported", "bad_arguments"].contains(&codes(&answer).as_str()), "{answer}");
    }
}

#[test]
fn answers_stay_small() {
    let line = format!("use foo {}", "x".repeat(5_000));
    let mut world = World::new(1).file("a.py", "def foo");
    for n in 0..50 {
        world = world.file(&format!("m{n}.py"), &format!("{line}\nuse foo\n").repeat(20));
    }
    for empty in ["", " ", "/", "."] {
        let answer = world.call("lsp_workspace_symbols", &json!({"query": empty}));
        assert_eq!(codes(&answer), "bad_arguments", "{answer}");
    }
    let answer = world.call("lsp_references", &references("foo"));
    assert_eq!(answer["structured"]["total"], 1001, "{answer}");
    assert!(answer["text"].as_str().unwrap().len() < 17 << 10);
    assert!(answer["structured"].to_string().len() < 200 << 10, "{}", answer["structured"].to_string().len());
}

#[test]
fn search_names_symbol_of_each_hit_if_server_is_ready() {
    let mut world = World::new(1).file("a.py", "def foo").file("b.py", "use foo");
    let found = |world: &mut World| {
        let answer = world.call("code_search", &json!({"query": "foo"}));
        answer["structured"]["hits"].as_array().unwrap_or_else(|| panic!("{answer}")).clone()
    };
    // It has answered nothing yet: nobody waits for it.
    let hits = found(&mut world);
    assert!(hits.len() == 2 && hits.iter().all(|it| it["in"].is_null()), "{hits:?}");
    world.call("lsp_references", &references("foo"));
    let hits = found(&mut world);
    assert_eq!((&hits[0]["in"], &hits[1]["in"]), (&json!("foo"), &json!(null)), "{hits:?}");
}

#[test]
fn crash_between_calls_is_not_noticed() {
    let mut world = World::new(1).file("a.py", "def foo\nbad").file("b.py", "use foo");
    for _ in 0..3 {
        assert_eq!(places(&world.call("lsp_references", &references("foo"))).len(), 2);
        assert_eq!(freshness(&world.call("lsp_diagnostics", &check("a.py"))), ("exact".to_owned(), 1));
        world.kill();
        // Its restarts have a budget for each while.
        world.pass(600_000);
    }
}

#[test]
fn places_outside_are_external_and_have_no_text() {
    let mut world = World::new(1).file("a.py", "def foo").file("b.py", "use foo");
    world.server.names_outside = true;
    let answer = world.call("lsp_references", &references("foo"));
    assert_eq!((places(&answer).len(), &answer["structured"]["external"]), (2, &json!(1)), "{answer}");
    assert!(!answer["text"].as_str().unwrap().contains("/usr/lib"), "{answer}");
    let answer =
        world.call("lsp_definition", &json!({"symbol": "foo", "file": "b.py", "line": 1, "body": true}));
    let all = answer["structured"]["definitions"].as_array().unwrap();
    let outside = all.iter().find(|it| it["external"] == true).unwrap_or_else(|| panic!("{answer}"));
    assert_eq!((&outside["file"], &outside["external"]), (&json!("/usr/lib/x.py"), &json!(true)), "{answer}");
    assert!(outside["text"].is_null(), "{answer}");
}
