use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn redacted(redactor: &mut Redactor, method: &str, is_answer: bool, body: &Value) -> String {
    let about = About { method, is_answer };
    String::from_utf8(redactor.message(about, &body.to_string()).unwrap()).unwrap()
}

fn check(method: &str, params: &Value, expected: &Expect) {
    let message = json!({"id": "two words", "method": method, "params": params});
    let once = redacted(&mut Redactor::new(false, []), method, false, &message);
    let twice = redacted(&mut Redactor::new(false, []), method, false, &serde_json::from_str(&once).unwrap());
    assert_eq!(once, twice);
    let message: Value = serde_json::from_str(&once).unwrap();
    assert_eq!((&message["id"], &message["method"]), (&json!("two words"), &json!(method)));
    expected.assert_eq(&message["params"].to_string());
}

#[test]
fn redactor_masks_documents_and_keeps_positions() {
    check(
        "textDocument/didOpen",
        &json!({"textDocument": {"uri": "file:///a b.rs", "languageId": "rust", "version": 1, "text": "let é = \"€😀\";\r\n\tx"}}),
        &expect![[
            r#"{"textDocument":{"uri":"file:///a b.rs","languageId":"rust","version":1,"text":"xxxx×xxxxｘ𝗑xx\r\nxx"}}"#
        ]],
    );
    check(
        "textDocument/didChange",
        &json!({"textDocument": {"uri": "u", "version": 2}, "contentChanges": [{"range": {"start": {"line": 0, "character": 4}}, "text": "word"}]}),
        &expect![[
            r#"{"textDocument":{"uri":"u","version":2},"contentChanges":[{"range":{"start":{"line":0,"character":4}},"text":"xxxx"}]}"#
        ]],
    );
}

#[test]
fn redactor_keeps_tags_of_members_in_masked_data() {
    check(
        "codeAction/resolve",
        &json!({"data": {"lspool": "1.12", "data": "two words"}, "other": {"data": {"lspool": "my word"}}}),
        &expect![[r#"{"data":{"lspool":"1.12","data":"xxxxxxxxx"},"other":{"data":{"lspool":"xxxxxxx"}}}"#]],
    );
}

#[test]
fn redactor_keeps_errors_that_cannot_quote_documents() {
    let check = |method: &str, error: &Value, expected: &str| {
        let message = json!({"id": 1, "error": error});
        let told = redacted(&mut Redactor::new(false, []), method, true, &message);
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told["error"]["message"], expected, "{method}");
    };
    let error = json!({"code": 1, "message": "no fn foo, ghu_0123"});
    check("conversation/create", &error, "no fn foo, <secret-1>");
    check("textDocument/hover", &error, "xxxxxxxxxxxxxxxxxxx");
    let unknown = json!({"code": -32601, "message": "Unknown request: textDocument/hover"});
    check("textDocument/hover", &unknown, "Unknown request: textDocument/hover");
    let own = json!({"code": 1, "message": "the server has died", "data": {"lspool": {"retry": true}}});
    check("textDocument/hover", &own, "the server has died");
}

#[test]
fn redactor_masks_conversations() {
    check(
        "conversation/create",
        &json!({
            "workDoneToken": "t 1", "chatMode": "Agent", "turns": [{"request": "word"}],
            "message": [{"type": "text", "text": "hello"}], "lspool": {"tools": ["a b"]},
        }),
        &expect![[
            r#"{"workDoneToken":"t 1","chatMode":"Agent","turns":[{"request":"xxxx"}],"message":[{"type":"text","text":"xxxxx"}],"lspool":{"tools":["a b"]}}"#
        ]],
    );
    check(
        "$/progress",
        &json!({"token": "t", "value": {"kind": "report", "editAgentRounds": [{"roundId": 1, "reply": "word", "toolCalls": [{
            "id": "call_1", "name": "run", "toolType": "client", "status": "completed", "inputMessage": "{\"k\": 1}",
            "input": {"filePath": "/a b", "command": "ls", "n": 1, "list": ["word"]},
            "result": [{"type": "text", "value": "out"}],
        }]}]}}),
        &expect![[
            r#"{"token":"t","value":{"kind":"report","editAgentRounds":[{"roundId":1,"reply":"xxxx","toolCalls":[{"id":"call_1","name":"run","toolType":"client","status":"completed","inputMessage":"xxxxxxxx","input":{"filePath":"/a b","command":"xx","n":1,"list":["xxxx"]},"result":[{"type":"text","value":"xxx"}]}]}]}}"#
        ]],
    );
    check(
        "conversation/invokeClientTool",
        &json!({"name": "run", "toolCallId": "call_1", "input": {"query": "word", "deep": {"code": "x\ny"}}}),
        &expect![[r#"{"name":"run","toolCallId":"call_1","input":{"query":"xxxx","deep":{"code":"x\nx"}}}"#]],
    );
}

#[test]
fn redactor_numbers_secrets_consistently() {
    check(
        "github/didChangeAuth",
        &json!({
            "accessToken": "abc", "other": "gho_1234", "again": {"token": "abc"}, "empty": {"token": ""}, "n": {"token": 1},
            "headers": {"X-Anything": "two words"}, "url": "http://user:password@host/", "key": ["x", "gho_1234"],
        }),
        &expect![[
            r#"{"accessToken":"<secret-1>","other":"<secret-2>","again":{"token":"<secret-1>"},"empty":{"token":""},"n":{"token":1},"headers":{"X-Anything":"<secret-3>"},"url":"http://user:<secret-4>@host/","key":["x","<secret-2>"]}"#
        ]],
    );
    check(
        "workspace/didChangeConfiguration",
        &json!({"settings": {"github.copilot": {"mcp": "{\"servers\":{\"x\":{\"command\":\"npx\",\"args\":[\"--token\",\"abc\",\"y\"],\"env\":{\"K\":\"v\"}}}}"}}}),
        &expect![[
            r#"{"settings":{"github.copilot":{"mcp":"{\"servers\":{\"x\":{\"command\":\"npx\",\"args\":[\"--token\",\"<secret-1>\",\"y\"],\"env\":{\"K\":\"<secret-2>\"}}}}"}}}"#
        ]],
    );
}

#[test]
fn redactor_hides_known_secret_everywhere() {
    let mut redactor = Redactor::new(true, ["from-the-environment".to_owned()]);
    let message =
        json!({"method": "x", "params": {"userCode": "ABCD-1234", "text": "no from-the-environment here"}});
    let first = redacted(&mut redactor, "x", false, &message);
    assert_eq!(first, r#"{"method":"x","params":{"userCode":"<secret-1>","text":"no <secret-2> here"}}"#);
    let message = json!({"method": "y", "params": {"a": "enter ABCD-1234!", "from-the-environment": 1}});
    let second = redacted(&mut redactor, "y", false, &message);
    assert_eq!(second, r#"{"method":"y","params":{"a":"enter <secret-1>!","<secret-2>":1}}"#);
    assert_eq!(redactor.own(r#"{"stderr":"ABCD-1234"}"#).unwrap(), br#"{"stderr":"<secret-1>"}"#);
}

#[test]
fn redactor_hides_settings_only_at_their_own_place() {
    check(
        "x",
        &json!({
            "headers": [{"name": "Authorization", "value": "Basic abcdefgh1"}, {"accept": "application/json"}],
            "env": {"ROOT": "/home/me/project1", "MY_TOKEN": "correcthorse"},
            "again": {"proxyAuthorization": "a b", "type": "application/json", "uri": "file:///home/me/project1/a"},
            "id": "Basic abcdefgh1, correcthorse",
        }),
        &expect![[
            r#"{"headers":[{"name":"<secret-1>","value":"<secret-2>"},{"accept":"<secret-3>"}],"env":{"ROOT":"<secret-4>","MY_TOKEN":"<secret-5>"},"again":{"proxyAuthorization":"<secret-6>","type":"application/json","uri":"file:///home/me/project1/a"},"id":"<secret-2>, <secret-5>"}"#
        ]],
    );
}

#[test]
fn redactor_hides_secrets_in_sections_of_any_name() {
    let server = |value: &str| {
        let settings = json!({"lint": {"apiKey": value, "select": ["ALL"]}});
        json!({"env": {"A": value}, "policy": {"restart": "on-failure"}, "settings": settings})
    };
    let agent = |value: &str| json!({"tools": ["read_file"], "other": {"servers": {"env": {"A": value}}}});
    for name in ["env", "headers", "my-token", "servers", "agents"] {
        let config = |value: &str| {
            json!({"config": {
                "servers": {name: server(value)},
                "folders": [{"servers": {name: server(value)}}],
                "agents": {name: agent(value)},
                "models": {name: "gpt-4.1"},
                "groups": {name: {"servers": [{"server": name}], "order": {"hover": [name]}}},
            }, "group": {"name": name, "others": [
                {"name": name, "server": server(value), "launch": {"args": ["--token", value], "env": {"A": value}}},
            ]}})
        };
        let told = Redactor::new(false, []).own(&config("two words").to_string()).unwrap();
        let told: Value = serde_json::from_slice(&told).unwrap();
        assert_eq!(told, config("<secret-1>"), "what else is called so holds secrets");
    }
    // In a message the name decides.
    let message = json!({"method": "x", "params": {"config": {"servers": {"token": {"a": "b c"}}}}});
    let told = redacted(&mut Redactor::new(true, []), "", false, &message);
    assert!(!told.contains("b c"), "{told}");
}

#[test]
fn redactor_finds_secrets_beside_lone_surrogates() {
    for texts in [false, true] {
        let about = About { method: "x", is_answer: false };
        let body =
            r#"{"params":{"\ud83d gho_1":"\\ \ude00","path":"\ud83d\ude00 \ud83d gho_2","id":"\ud83d"}}"#;
        let out = Redactor::new(texts, []).message(about, body).unwrap();
        let text = if texts { r"\\ \ude00" } else { r"xx\ude00" };
        assert_eq!(
            String::from_utf8(out).unwrap(),
            format!(
                "{{\"params\":{{\"\u{fffd} <secret-1>\":\"{text}\",\"path\":\"😀 \u{fffd} <secret-2>\",\"id\":\"\\ud83d\"}}}}"
            )
        );
    }
}

#[test]
fn redactor_judges_answers_by_their_request() {
    let mut redactor = Redactor::new(false, []);
    let answer =
        json!({"id": 1, "result": {"capabilities": {"x": "two words"}, "serverInfo": {"name": "a b"}}});
    assert_eq!(redacted(&mut redactor, "initialize", true, &answer), answer.to_string());
    let symbols =
        json!({"id": 1, "result": [{"name": "secret_plan", "location": {"uri": "u"}}, {"name": "kept"}]});
    assert_eq!(
        redacted(&mut redactor, "workspace/symbol", true, &symbols),
        r#"{"id":1,"result":[{"name":"xxxxxxxxxxx","location":{"uri":"u"}},{"name":"kept"}]}"#
    );
    let error = json!({"id": 1, "error": {"code": 1, "message": "it did not work"}});
    assert_eq!(redacted(&mut redactor, "x", true, &error), error.to_string());
}

#[test]
fn redactor_keeps_other_text_byte_for_byte() {
    let body = " {\"id\" :1e3,\"method\":\"\\u0078\",\n\t\"params\":{\"a\":1.50,\"a\":\"\\/x\",\"b\":[ ],\"c\":{ },\"d\":null}} ";
    let about = About { method: "x", is_answer: false };
    let out = Redactor::new(false, []).message(about, body).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), body.replace('\n', " "));
}

#[test]
fn redactor_keeps_only_the_shape_of_invalid_json() {
    let mut redactor = Redactor::new(false, []);
    let body = r#"{"id":"gho_1","method":"x","params":{"text":"a\"b gho_2",}}"#;
    assert_eq!(redactor.message(About { method: "x", is_answer: false }, body), None);
    assert_eq!(redactor.broken(body), r#"{"id":"<secret-1>","method":"x","params":{"xxxx":"x\"x xxxxx",}}"#);
}

#[test]
fn redactor_drops_values_nested_too_deep() {
    let about = About { method: "x", is_answer: false };
    let nested = |depth: usize| {
        let inner = format!("{}{{\"accessToken\":\"abc\"}}{}", "[".repeat(depth), "]".repeat(depth));
        format!(r#"{{"params":{{"before":"a b","mcp":{inner},"after":1}}}}"#)
    };
    let redact =
        |body: &str| String::from_utf8(Redactor::new(true, []).message(about, body).unwrap()).unwrap();
    // Two levels surround it.
    assert_eq!(redact(&nested(DEEPEST - 3)), nested(DEEPEST - 3).replace("abc", "<secret-1>"));
    let once = redact(&nested(100_000));
    let null = format!("{}null{}", "[".repeat(DEEPEST - 2), "]".repeat(DEEPEST - 2));
    assert_eq!(once, format!(r#"{{"params":{{"before":"a b","mcp":{null},"after":1}}}}"#));
    assert_eq!(redact(&once), once);
    redact(&format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000)));
    // Also within strings.
    let deep = |inner: &str| format!("{}{inner}{}", "[".repeat(DEEPEST - 3), "]".repeat(DEEPEST - 3));
    let mut body = deep("1");
    for _ in 0..=NESTED {
        body = deep(&json!({ "arguments": body }).to_string());
    }
    redact(&body);
}

#[test]
fn redactor_masks_transcripts() {
    let arguments = json!({"code": "a\"b", "n": 1}).to_string();
    let messages = json!([{"role": "assistant", "content": "word", "tool_calls": [{"id": "c", "function": {"name": "run", "arguments": arguments}}]}]);
    let line =
        json!({"type": "assistant.message", "data": {"content": messages.to_string(), "messageId": "m"}});
    let question = json!({"type": "user.message", "data": {"content": "[{\"secret\":1}]", "turnId": "t"}});
    let text = format!("{question}\n{line}\n");
    let once = Redactor::new(false, []).transcript(&text);
    assert_eq!(Redactor::new(false, []).transcript(&once), once);
    expect![[r#"
        {"type":"user.message","data":{"content":"xxxxxxxxxxxxxx","turnId":"t"}}
        {"type":"assistant.message","data":{"content":"[{\"role\":\"assistant\",\"content\":\"xxxx\",\"tool_calls\":[{\"id\":\"c\",\"function\":{\"name\":\"run\",\"arguments\":\"{\\\"code\\\":\\\"xxx\\\",\\\"n\\\":1}\"}}]}]","messageId":"m"}}
    "#]].assert_eq(&once);
}

fn json_value() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        Just("text".to_owned()),
        Just("token".to_owned()),
        Just("arguments".to_owned()),
        Just("mcp".to_owned()),
        Just("input".to_owned()),
        Just("name".to_owned()),
        "[a-z]{1,5}",
    ];
    let text = prop_oneof![
        any::<String>(),
        "[a-z ]{0,12}",
        Just("ghp_abcdefgh1".to_owned()),
        Just("{\"text\":\"a\\\"\",\"token\":\"t\"}".to_owned()),
        Just("Bearer abcdefgh1".to_owned()),
        Just("<secret-7>".to_owned()),
    ];
    let leaf = prop_oneof![text.prop_map(Value::from), any::<i32>().prop_map(Value::from), Just(Value::Null)];
    leaf.prop_recursive(4, 24, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..5)
                .prop_map(|it| Value::Object(it.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn redaction_is_idempotent(params in json_value(), texts: bool) {
        let body = json!({"method": "x", "params": params}).to_string();
        let about = About { method: "x", is_answer: false };
        let once = Redactor::new(texts, []).message(about, &body).unwrap();
        let once = String::from_utf8(once).unwrap();
        prop_assert!(serde_json::from_str::<Value>(&once).is_ok());
        prop_assert!(!once.contains("ghp_abcdefgh1"), "{}", once);
        let twice = Redactor::new(texts, []).message(about, &once).unwrap();
        prop_assert_eq!(String::from_utf8(twice).unwrap(), once);
    }

    #[test]
    fn redactor_never_panics_on_any_text(body: String) {
        let mut redactor = Redactor::new(false, []);
        redactor.message(About { method: "x", is_answer: false }, &body);
        redactor.broken(&body);
        redactor.transcript(&body);
    }
}
