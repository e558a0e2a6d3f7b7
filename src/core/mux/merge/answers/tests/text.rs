//! Hovers and semantic tokens.

use super::*;

fn hover(contents: &Value) -> Value {
    json!({"contents": contents})
}

fn markup(kind: &str, value: &str) -> Value {
    json!({"kind": kind, "value": value})
}

#[test]
fn hovers_are_joined_with_a_rule() {
    let hovers = ask(Shape::Hover, "textDocument/hover");
    let (a, b) = (markup("markdown", "a"), markup("markdown", "b"));
    assert_eq!(
        hovers.value(&[
            json!({"contents": a, "x": 1}),
            json!({"contents": b, "range": range(1, 2, 3), "x": 2}),
        ]),
        json!({"contents": markup("markdown", "a\n\n---\n\nb"), "range": range(1, 2, 3), "x": 1})
    );
    assert_eq!(hovers.value(&[hover(&a), hover(&markup("markdown", "a\n"))]), hover(&a));
    assert_eq!(hovers.value(&[hover(&json!([""])), hover(&b)]), hover(&b));
    let plain = [hover(&markup("plaintext", "a")), hover(&markup("plaintext", "b"))];
    assert_eq!(hovers.value(&plain), hover(&markup("plaintext", "a\n\n---\n\nb")));
    assert_eq!(
        hovers.answer(&[json!({}), json!({"contents": 5}), hover(&b)]),
        (hover(&b), vec![0, 1], vec![])
    );
}

#[test]
fn plain_text_and_marked_strings_become_markdown() {
    let parts = [
        hover(&markup("plaintext", "a ``` b")),
        hover(&json!([{"language": "rust", "value": "fn f()\n"}, "doc"])),
        hover(&json!("c")),
    ];
    let hovers = ask(Shape::Hover, "textDocument/hover");
    let joined = "````text\na ``` b\n````\n\n---\n\n```rust\nfn f()\n```\n\ndoc\n\n---\n\nc";
    assert_eq!(hovers.value(&parts), hover(&markup("markdown", joined)));
    assert_eq!(
        hovers.by_old_editor().value(&parts),
        hover(&json!(["````text\na ``` b\n````", {"language": "rust", "value": "fn f()\n"}, "doc", "c"]))
    );
    let mut hovers = ask(Shape::Hover, "textDocument/hover");
    let params = json!({"capabilities": {"textDocument": {"hover": {"contentFormat": ["plaintext"]}}}});
    hovers.client = ClientShape::of_initialize(params.to_string().as_bytes());
    assert_eq!(hovers.value(&parts[1..]), hover(&markup("plaintext", "fn f()\n\n\ndoc\n\n---\n\nc")));
}

#[test]
fn half_characters_survive_in_hovers() {
    let hovers = ask(Shape::Hover, "textDocument/hover");
    let text = hovers.text(&[r#"{"contents":"\ud83d"}"#, r#"{"contents":"b"}"#]);
    assert!(text.contains(r"\ud83d\n\n---\n\nb"), "{text}");
}

fn legend(types: &[&str], modifiers: &[&str]) -> Vec<u8> {
    json!({"tokenTypes": types, "tokenModifiers": modifiers}).to_string().into_bytes()
}

fn tokens(legends: Option<&Legends>, parts: &[Value]) -> (Value, Vec<usize>) {
    let texts: Vec<String> = parts.iter().map(Value::to_string).collect();
    let parts: Vec<Part<'_>> =
        texts.iter().map(|it| Part { result: it.as_bytes(), maker: None, commit_characters: None }).collect();
    let method = "textDocument/semanticTokens/full";
    let merged = merge(Shape::SemanticTokens, method, &parts, &modern(), false, legends);
    (serde_json::from_slice(&merged.result).unwrap(), merged.malformed)
}

#[test]
fn tokens_are_put_under_one_legend_and_cut_by_rank() {
    let united = legend(&["class", "function", "string"], &["async", "static"]);
    let first = legend(&["class", "function"], &["async"]);
    let second = legend(&["string", "class", "unknown"], &["static", "async"]);
    let legends = Legends::new(&united, [&first[..], &second]);
    let best = json!({"resultId": "1", "data": [1, 4, 3, 1, 1]});
    // Line 1: 0..10 a string around the token of the best rank; line 2: a class, and one of a kind without a name.
    let other = json!({"data": [1, 0, 10, 0, 3, 1, 2, 2, 1, 1, 0, 5, 1, 2, 0]});
    assert_eq!(
        tokens(Some(&legends), &[best.clone(), other]),
        (json!({"data": [1, 0, 4, 2, 3, 0, 4, 3, 1, 1, 0, 3, 3, 2, 3, 1, 2, 2, 0, 2]}), vec![])
    );
    let nothing = json!({"data": []});
    assert_eq!(tokens(Some(&legends), &[json!(null), nothing.clone()]).0, json!(null));
    // One part alone is told in the united legend too.
    assert_eq!(
        tokens(Some(&legends), &[nothing, json!({"data": [0, 0, 1, 0, 1]})]).0,
        json!({"data": [0, 0, 1, 2, 2]})
    );
    for bad in
        [json!([1, 2, 3, 0]), json!([1, 2, 3, 0, -1]), json!(5), json!([1, 2, 3, 0, 4_294_967_296_u64])]
    {
        let parts = [best.clone(), json!({"data": bad})];
        assert_eq!(tokens(Some(&legends), &parts), (json!({"data": [1, 4, 3, 1, 1]}), vec![1]), "{bad}");
    }
    let odd = tokens(None, &[json!(5), json!(null), best.clone(), json!({"data": [0, 0, 1, 0, 1]})]);
    assert_eq!(odd, (best, vec![0]));
}
