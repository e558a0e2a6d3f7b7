//! What members register while they run: the editor has one registration of a method, however many members are behind it.

use serde_json::{Value, json};

use super::{A, B, START_WAIT, ask, at, backend, documents, group, initialize, only, pair, ready};
use crate::core::{
    event::{Exit, ProcessId},
    tests::stage::{EDITOR, Stage, process},
};

const COMPLETION: &str = "textDocument/completion";
const FORMATTING: &str = "textDocument/formatting";

fn register(it: &mut Stage, by: ProcessId, id: &str, method: &str, options: &Value) {
    let one = json!({"id": id, "method": method, "registerOptions": options});
    say(it, by, "client/registerCapability", &json!({"registrations": [one]}));
}

fn unregister(it: &mut Stage, by: ProcessId, id: &str, method: &str) {
    let one = json!({"id": id, "method": method});
    say(it, by, "client/unregisterCapability", &json!({"unregisterations": [one]}));
}

fn say(it: &mut Stage, by: ProcessId, method: &str, params: &Value) {
    it.server(by, json!({"id": 1, "method": method, "params": params}));
}

/// What an editor has, by what it was asked: of each registration the id, method and options.
#[derive(Default)]
struct Screen(Vec<(String, String, Value)>);

impl Screen {
    fn look(&mut self, it: &mut Stage) -> Vec<(String, Value)> {
        for told in it.take(EDITOR) {
            let list = |key: &str| told["params"][key].as_array().cloned().unwrap_or_default();
            let text = |it: &Value| it.as_str().unwrap().to_owned();
            for one in list("unregisterations") {
                let known = self.0.iter().position(|(id, ..)| *id == one["id"]);
                let (_, method, _) = self.0.remove(known.unwrap_or_else(|| panic!("{one} of {:?}", self.0)));
                assert_eq!(method, one["method"]);
            }
            for one in list("registrations") {
                let id = text(&one["id"]);
                assert!(self.0.iter().all(|it| it.0 != id), "{id} is there");
                self.0.push((id, text(&one["method"]), one["registerOptions"].clone()));
            }
            it.editor(json!({"id": told["id"], "result": null}));
        }
        let mut all: Vec<_> =
            self.0.iter().map(|(_, method, options)| (method.clone(), options.clone())).collect();
        all.sort_by_key(|it| it.0.clone());
        all
    }
}

fn characters(all: &[&str]) -> Value {
    json!({"triggerCharacters": all})
}

fn completions(all: &[&str]) -> Vec<(String, Value)> {
    vec![(COMPLETION.to_owned(), characters(all))]
}

#[test]
fn registration_of_a_method_has_what_its_members_say_together() {
    let mut it = pair(&json!({}));
    let mut screen = Screen::default();
    register(&mut it, B, "b", COMPLETION, &characters(&["."]));
    assert_eq!(screen.look(&mut it), completions(&["."]));
    register(&mut it, A, "a", COMPLETION, &characters(&[":", "."]));
    assert_eq!(screen.look(&mut it), completions(&[":", "."]), "by rank");
    register(&mut it, A, "more", COMPLETION, &characters(&["<"]));
    assert_eq!(screen.look(&mut it), completions(&[":", ".", "<"]));
    for by in [A, B] {
        assert!(it.take(backend(by)).iter().all(|it| it["result"].is_null()), "each is answered");
    }
    unregister(&mut it, A, "a", COMPLETION);
    assert_eq!(screen.look(&mut it), completions(&["<", "."]));
    unregister(&mut it, A, "more", COMPLETION);
    unregister(&mut it, B, "b", COMPLETION);
    assert_eq!(screen.look(&mut it), []);
}

#[test]
fn two_registrations_of_a_member_in_one_message_are_one() {
    let mut it = pair(&json!({}));
    let of = |id: &str, language: &str| {
        let options = json!({"documentSelector": [{"language": language}]});
        json!({"id": id, "method": FORMATTING, "registerOptions": options})
    };
    say(&mut it, A, "client/registerCapability", &json!({"registrations": [of("1", "a"), of("2", "b")]}));
    let both = json!({"documentSelector": [{"language": "a"}, {"language": "b"}]});
    assert_eq!(Screen::default().look(&mut it), [(FORMATTING.to_owned(), both)]);
}

#[test]
fn registration_stays_until_the_last_member_that_has_it_is_gone() {
    for first in [A, B] {
        let second = if first == A { B } else { A };
        let mut it = pair(&json!({}));
        let mut screen = Screen::default();
        for by in [A, B] {
            register(&mut it, by, "r", FORMATTING, &json!({}));
            register(&mut it, by, "c", COMPLETION, &characters(&[&format!("{}", by.backend.0)]));
            it.take(backend(by));
        }
        assert_eq!(screen.look(&mut it).len(), 2);
        let name = if first == A { "a" } else { "b" };
        it.editor(json!({"id": "s", "method": "lspool/stop", "params": {"name": name}}));
        it.exited(first, Exit::Code(0));
        let left = [
            (COMPLETION.to_owned(), characters(&[&format!("{}", second.backend.0)])),
            (FORMATTING.to_owned(), json!({})),
        ];
        assert_eq!(screen.look(&mut it), left, "{name}");
        it.take(backend(second));
        ask(&mut it, 1, FORMATTING, &at("u"));
        assert_eq!(only(&mut it, second)["method"], FORMATTING);
        unregister(&mut it, second, "r", FORMATTING);
        unregister(&mut it, second, "c", COMPLETION);
        assert_eq!(screen.look(&mut it), []);
    }
}

#[test]
fn registrations_of_a_process_that_comes_back_are_told_if_they_differ() {
    let mut it = pair(&json!({}));
    let mut screen = Screen::default();
    register(&mut it, A, "r", COMPLETION, &characters(&["a"]));
    register(&mut it, B, "r", COMPLETION, &characters(&["b"]));
    screen.look(&mut it);
    let ids = |screen: &Screen| screen.0.iter().map(|it| it.0.clone()).collect::<Vec<_>>();
    let before = ids(&screen);
    it.exited(B, Exit::Signal(9));
    let again = process(1, 2);
    ready(&mut it, again, &json!({}));
    register(&mut it, again, "r", COMPLETION, &characters(&["b"]));
    it.pass(std::time::Duration::from_secs(6));
    assert_eq!(screen.look(&mut it), completions(&["a", "b"]));
    assert_eq!(ids(&screen), before, "nothing has changed for the editor");
    it.exited(again, Exit::Signal(9));
    let last = process(1, 3);
    it.pass(std::time::Duration::from_secs(2));
    ready(&mut it, last, &json!({}));
    assert_eq!(screen.look(&mut it), completions(&["a", "b"]), "it has a moment to repeat it");
    it.pass(std::time::Duration::from_secs(6));
    assert_eq!(screen.look(&mut it), completions(&["a"]), "it has not");
}

#[test]
fn commands_are_registered_once_and_under_distinct_names() {
    let mut it = pair(&json!({"executeCommandProvider": {"commands": ["told"]}}));
    let mut screen = Screen::default();
    let commands = |screen: &mut Screen, it: &mut Stage| -> Vec<Value> {
        screen.look(it).into_iter().map(|it| it.1["commands"].clone()).collect()
    };
    register(&mut it, A, "1", "workspace/executeCommand", &json!({"commands": ["told", "run"]}));
    assert_eq!(commands(&mut screen, &mut it), [json!(["run"])]);
    register(&mut it, B, "1", "workspace/executeCommand", &json!({"commands": ["run", "own"]}));
    assert_eq!(commands(&mut screen, &mut it), [json!(["run"]), json!(["run@b", "own"])]);
    it.take(backend(A));
    it.take(backend(B));
    ask(&mut it, 1, "workspace/executeCommand", &json!({"command": "run@b"}));
    assert_eq!(only(&mut it, B)["params"]["command"], "run");
    unregister(&mut it, B, "1", "workspace/executeCommand");
    assert_eq!(commands(&mut screen, &mut it), [json!(["run"])]);
}

/// A group whose `b` joins late, with this ability, and an editor that takes it.
fn late(capability: &str, client: &str) -> (Stage, Screen) {
    let mut it = group(&["a", "b"]);
    initialize(&mut it, &json!({"textDocument": {client: {"dynamicRegistration": true}}}));
    ready(&mut it, A, &documents());
    it.pass(START_WAIT);
    it.editor(json!({"method": "initialized", "params": {}}));
    it.take(EDITOR);
    ready(&mut it, B, &json!({capability: true}));
    (it, Screen::default())
}

#[test]
fn what_was_registered_for_a_late_member_is_taken_back_with_it() {
    let (mut it, mut screen) = late("documentFormattingProvider", "formatting");
    let formatting = [(FORMATTING.to_owned(), json!({"documentSelector": null}))];
    assert_eq!(screen.look(&mut it), formatting);
    // It comes back, and nothing is new.
    it.exited(B, Exit::Signal(9));
    ready(&mut it, process(1, 2), &json!({"documentFormattingProvider": true}));
    it.pass(std::time::Duration::from_secs(6));
    assert_eq!(screen.look(&mut it), formatting);
    it.editor(json!({"id": "s", "method": "lspool/stop", "params": {"name": "b"}}));
    it.exited(process(1, 2), Exit::Code(0));
    assert_eq!(screen.look(&mut it), []);
    it.editor(json!({"id": "r", "method": "lspool/restart", "params": {"name": "b"}}));
    ready(&mut it, process(1, 3), &json!({"documentFormattingProvider": true}));
    assert_eq!(screen.look(&mut it), formatting);
}

#[test]
fn abilities_that_a_member_comes_back_with_are_registered_and_lost_ones_taken_back() {
    let (mut it, mut screen) = late("documentFormattingProvider", "formatting");
    assert_eq!(screen.look(&mut it).len(), 1);
    it.exited(B, Exit::Signal(9));
    ready(&mut it, process(1, 2), &json!({}));
    it.pass(std::time::Duration::from_secs(6));
    assert_eq!(screen.look(&mut it), []);
    it.exited(process(1, 2), Exit::Signal(9));
    it.pass(std::time::Duration::from_secs(9));
    ready(&mut it, process(1, 3), &json!({"documentFormattingProvider": true}));
    assert_eq!(screen.look(&mut it).len(), 1);
}

#[test]
fn tokens_of_two_late_members_have_the_numbers_of_one_legend() {
    let tokens = |types: &[&str]| json!({"semanticTokensProvider": {"legend": {"tokenTypes": types, "tokenModifiers": []}, "full": true}});
    let mut it = group(&["a", "b", "c"]);
    initialize(&mut it, &json!({"textDocument": {"semanticTokens": {"dynamicRegistration": true}}}));
    ready(&mut it, A, &documents());
    it.pass(START_WAIT);
    it.editor(json!({"method": "initialized", "params": {}}));
    it.take(EDITOR);
    ready(&mut it, B, &tokens(&["class", "variable"]));
    ready(&mut it, super::C, &tokens(&["variable"]));
    let told = Screen::default().look(&mut it);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].1["legend"]["tokenTypes"], json!(["class", "variable"]));
    it.take(backend(B));
    it.take(backend(super::C));
    ask(&mut it, 1, "textDocument/semanticTokens/full", &at("u"));
    for (by, data) in [(B, json!([0, 0, 3, 0, 0])), (super::C, json!([0, 4, 3, 0, 0]))] {
        let asked = only(&mut it, by);
        super::answer(&mut it, by, &asked, &json!({"data": data}));
    }
    assert_eq!(it.take(EDITOR)[0]["result"]["data"], json!([0, 0, 3, 0, 0, 0, 4, 3, 1, 0]));
}
