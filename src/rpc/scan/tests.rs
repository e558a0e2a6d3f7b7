use std::{collections::BTreeMap, fmt::Write as _};

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::value::RawValue;

use super::{arbitrary, *};
use crate::rpc::{Frame, Kind, RawId};

fn check(body: &str, expected: &Expect) {
    expected.assert_eq(&match scan(body) {
        Ok(envelope) => render(body, &envelope),
        Err(malformed) => format!("{malformed}\n"),
    });
}

fn render(body: &str, envelope: &Envelope) -> String {
    let mut out = String::new();
    for (name, span) in spans(envelope) {
        if let Some(raw) = span.get(body) {
            writeln!(out, "{name} {:?} {raw}", span.range()).unwrap();
        }
    }
    out
}

fn spans(envelope: &Envelope) -> [(&'static str, Span); 5] {
    let Envelope { id, method, params, result, error, rewritten_method: _ } = *envelope;
    [("id", id), ("method", method), ("params", params), ("result", result), ("error", error)]
}

#[test]
fn scan_finds_members_of_request() {
    check(
        r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"id":9,"a":["}"]}}"#,
        &expect![[r#"
            id 22..23 7
            method 33..36 "m"
            params 46..64 {"id":9,"a":["}"]}
        "#]],
    );
}

#[test]
fn scan_accepts_any_order_and_whitespace() {
    check(
        " \r\n{ \"params\" :\t[ ] ,\n\"method\":\"m\" , \"id\" : \"x\\\"y\" }\n",
        &expect![[r#"
            id 44..50 "x\"y"
            method 31..34 "m"
            params 16..19 [ ]
        "#]],
    );
}

#[test]
fn scan_finds_members_of_answer() {
    check(
        r#"{"id":null,"error":{"code":1},"result":-1.5e3}"#,
        &expect![[r#"
            id 6..10 null
            result 39..45 -1.5e3
            error 19..29 {"code":1}
        "#]],
    );
}

#[test]
fn scan_decodes_escaped_keys() {
    check(
        r#"{"\u0069d":1,"meth\u006fd":"m","i\\d":2}"#,
        &expect![[r#"
            id 11..12 1
            method 27..30 "m"
        "#]],
    );
    check(r#"{"\u0069d":1,"id":1}"#, &expect!["duplicate member at byte 13\n"]);
    check(r#"{"\x":1}"#, &expect!["undecodable string at byte 1\n"]);
}

#[test]
fn scan_reports_position_of_malformed_json() {
    for (body, expected) in [
        ("", expect!["unexpected end at byte 0\n"]),
        ("  ", expect!["unexpected end at byte 2\n"]),
        ("[]", expect!["expected an object at byte 0\n"]),
        ("\u{feff}{}", expect!["expected an object at byte 0\n"]),
        ("null", expect!["expected an object at byte 0\n"]),
        ("{", expect!["unexpected end at byte 1\n"]),
        ("{,}", expect!["expected a string at byte 1\n"]),
        (r#"{"a"}"#, expect!["expected a colon after a key at byte 4\n"]),
        (r#"{"a":}"#, expect!["expected a value at byte 5\n"]),
        (r#"{"a":1,}"#, expect!["expected a string at byte 7\n"]),
        (r#"{"a":1 "b":2}"#, expect!["expected a comma or brace after a member at byte 7\n"]),
        (r#"{"a":1"#, expect!["unexpected end at byte 6\n"]),
        (r#"{"a":"#, expect!["unexpected end at byte 5\n"]),
        (r#"{"a":"b"#, expect!["unexpected end in a string at byte 7\n"]),
        (r#"{"a":"b\"#, expect!["unexpected end in a string at byte 8\n"]),
        (r#"{"a":[{}"#, expect!["unexpected end in an object or array at byte 8\n"]),
        (r#"{"a":01}"#, expect!["expected a comma or brace after a member at byte 6\n"]),
        (r#"{"a":-}"#, expect!["expected a digit in a number at byte 6\n"]),
        (r#"{"a":1.}"#, expect!["expected a digit in a number at byte 7\n"]),
        (r#"{"a":1e+}"#, expect!["expected a digit in a number at byte 8\n"]),
        (r#"{"a":+1}"#, expect!["expected a value at byte 5\n"]),
        (r#"{"a":nul}"#, expect!["expected a value at byte 5\n"]),
        (r#"{"a":nulll}"#, expect!["expected a comma or brace after a member at byte 9\n"]),
        (r"{} {}", expect!["trailing bytes at byte 3\n"]),
        (r#"{"id":1,"id":1}"#, expect!["duplicate member at byte 8\n"]),
        (r#"{"params":1,"params":1}"#, expect!["duplicate member at byte 12\n"]),
        (r#"{"id":[1]}"#, expect!["id that is not a string, number, or null at byte 6\n"]),
        (r#"{"id":true}"#, expect!["id that is not a string, number, or null at byte 6\n"]),
        (r#"{"id":"\q"}"#, expect!["undecodable string at byte 6\n"]),
        (r#"{"method":1}"#, expect!["method that is not a string at byte 10\n"]),
        ("{\"method\":\"a\tb\"}", expect!["control character in a string at byte 10\n"]),
        ("{\"a\tb\":1}", expect!["control character in a string at byte 1\n"]),
    ] {
        check(body, &expected);
    }
}

#[test]
fn parse_accepts_strings_that_are_no_unicode_anywhere() {
    let parse = |body: &'static [u8]| Frame::parse(body.into()).unwrap();
    let frame = parse(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\xff\"}");
    assert_eq!(frame.result(), Some(&b"\"\xff\""[..]));
    for body in [
        b"{\"jsonrpc\":\"2.0\",\"id\":\"a\xff\",\"method\":\"m\xff\",\"params\":1}".as_slice(),
        br#"{"jsonrpc":"2.0","id":"a\udc00","method":"m\ud83d","params":1}"#,
        b"{\"\xff\":1,\"id\":\"a\xff\",\"method\":\"m\xff\",\"params\":1}",
    ] {
        let frame = parse(body);
        assert_eq!((frame.kind(), frame.method()), (Kind::Request, Some("m\u{fffd}")));
        let id = frame.id().unwrap();
        assert_eq!(frame.with_id(RawId::from(7)).with_id(id).to_bytes(), body);
    }
    let id = |raw: &[u8]| RawId::from_raw(raw).unwrap();
    assert_eq!(id(br#""\ud83d""#), id(br#""\uD83D""#));
    assert_ne!(id(b"\"\xff\""), id(b"\"\xfe\""));
    let members: Vec<_> = members(b"{\"\xff\":1,\"b\":2}").map(|(key, _)| key.into_owned()).collect();
    assert_eq!(members, ["\u{fffd}", "b"], "what follows is still read");
}

#[test]
fn usual_layout_is_scanned_in_one_pass() {
    for body in [
        r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[1]}}"#,
        r#"{"jsonrpc":"2.0","id":"a","method":"m","params":[]}"#,
        r#"{"jsonrpc":"2.0","method":"m","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":null}"#,
        r#"{"jsonrpc":"2.0","id":-1,"error":{"code":1}}"#,
    ] {
        assert_eq!(usual(body.as_bytes()), Some(scan(body).unwrap()), "{body}");
    }
}

#[test]
fn scan_ignores_duplicates_outside_envelope() {
    check(
        r#"{"params":{"id":1,"id":2},"x":1,"x":2}"#,
        &expect![[r#"
        params 10..25 {"id":1,"id":2}
    "#]],
    );
}

#[test]
fn scan_handles_deep_nesting_without_stack() {
    let body = format!(r#"{{"params":{}{},"id":1}}"#, "[".repeat(1 << 20), "]".repeat(1 << 20));
    assert_eq!(scan(&body).unwrap().id.range(), body.len() - 2..body.len() - 1);
}

#[test]
fn members_and_elements_stop_at_first_invalid_byte() {
    let keys =
        |text: &'static str| members(text.as_bytes()).map(|(key, _)| key.into_owned()).collect::<Vec<_>>();
    assert_eq!(keys(r#" {"a":1,"\u0062":[2],"c":"#), ["a", "b"]);
    assert_eq!(keys("[1]"), [""; 0]);
    let spans = |text: &'static str| elements(text.as_bytes()).map(|it| &text[it]).collect::<Vec<_>>();
    assert_eq!(spans(r#" [1, {"a":[]} ,"]" ] "#), ["1", r#"{"a":[]}"#, r#""]""#]);
    assert_eq!(spans("[1,,2]"), ["1"]);
    assert_eq!(spans("[]"), [""; 0]);
    assert_eq!(spans("{}"), [""; 0]);
}

#[test]
fn path_finds_last_of_duplicate_members() {
    let text = r#" {"a":{"b":{"c":1},"b":{"c": [2]}},"d":null}"#;
    let at = |keys: &[&str]| path(text.as_bytes(), keys).map(|it| &text[it]);
    assert_eq!(at(&["a", "b", "c"]), Some("[2]"), "the last duplicate counts");
    assert_eq!(at(&["d"]), Some("null"));
    assert_eq!(at(&["d", "e"]), None);
    assert_eq!(at(&["a", "x", "c"]), None);
    assert_eq!(at(&[]), Some(text));
}

/// The same result as with the masks, one byte at a time.
fn container_end(text: &[u8]) -> Option<usize> {
    let (mut depth, mut in_string, mut escaped) = (0, false, false);
    for (at, byte) in text.iter().enumerate() {
        let was_escaped = std::mem::replace(&mut escaped, false);
        match byte {
            b'\\' if !was_escaped => escaped = true,
            b'"' if !was_escaped => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

/// Every member in order, with duplicates.
fn oracle(body: &[u8]) -> Option<Vec<(String, Box<RawValue>)>> {
    struct Pairs;
    impl<'de> serde::de::Visitor<'de> for Pairs {
        type Value = Vec<(String, Box<RawValue>)>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            std::iter::from_fn(|| map.next_entry().transpose()).collect()
        }
    }
    let mut reader = serde_json::Deserializer::from_slice(body);
    let pairs = serde::Deserializer::deserialize_map(&mut reader, Pairs).ok()?;
    reader.end().ok()?;
    Some(pairs)
}

/// The result of [`scan`] for a body that serde accepts.
fn expected(pairs: &[(String, Box<RawValue>)]) -> Option<BTreeMap<&str, &str>> {
    let mut envelope = BTreeMap::new();
    for (key, value) in pairs {
        let is_ours = ["id", "method", "params", "result", "error"].contains(&key.as_str());
        if is_ours && envelope.insert(key.as_str(), value.get()).is_some() {
            return None;
        }
    }
    let starts = |key, with: &[char]| envelope.get(key).is_none_or(|it: &&str| it.starts_with(with));
    // The oracle does not decode skipped strings.
    let decodes = |key| {
        let is_text =
            |it: &str| LooseText::of(it.as_bytes()).is_some() && it.bytes().all(|byte| byte >= b' ');
        envelope.get(key).is_none_or(|it| !it.starts_with('"') || is_text(it))
    };
    let digits = ['"', 'n', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'];
    let sound = starts("id", &digits) && starts("method", &['"']) && decodes("id") && decodes("method");
    sound.then_some(envelope)
}

fn agrees(body: &[u8]) -> Result<(), TestCaseError> {
    let Ok(text) = std::str::from_utf8(body) else { return Ok(()) };
    let Some(pairs) = oracle(body) else {
        // The oracle reads nested values, the scanner does not.
        return Ok(());
    };
    let found = scan(text);
    let Some(expected) = expected(&pairs) else {
        prop_assert!(found.is_err(), "{found:?}");
        return Ok(());
    };
    let found = found.map_err(|error| TestCaseError::fail(error.to_string()))?;
    let found: BTreeMap<&str, &str> =
        spans(&found).into_iter().filter_map(|(name, span)| Some((name, span.get(text)?))).collect();
    prop_assert_eq!(found, expected);
    let keys: Vec<_> = members(body).map(|(key, at)| (key.into_owned(), &body[at])).collect();
    let theirs: Vec<_> = pairs.iter().map(|(key, value)| (key.clone(), value.get().as_bytes())).collect();
    prop_assert_eq!(keys, theirs);
    for (key, _) in &pairs {
        let last = pairs.iter().rfind(|(other, _)| other == key).map(|(_, value)| value.get().as_bytes());
        prop_assert_eq!(member(body, key).map(|at| &body[at]), last);
    }
    Ok(())
}

proptest! {
    #[test]
    fn scan_agrees_with_serde_on_valid_messages(body in arbitrary::message()) {
        prop_assert!(oracle(body.as_bytes()).is_some(), "the generator writes valid JSON");
        agrees(body.as_bytes())?;
    }

    #[test]
    fn usual_scan_agrees_with_general_scan(body in arbitrary::usual()) {
        if let Some(found) = usual(body.as_bytes()) {
            prop_assert_eq!(unusual(body.as_bytes()), Ok(found));
        }
        agrees(body.as_bytes())?;
    }

    #[test]
    fn scan_agrees_with_serde_where_serde_accepts(body in arbitrary::soup()) {
        agrees(&body)?;
    }

    #[test]
    fn scan_refuses_flat_text_that_serde_refuses(body in arbitrary::soup()) {
        // Without nested values both read the same level.
        let is_flat = !body.iter().skip(1).any(|byte| b"{[".contains(byte));
        let has_escapes = body.contains(&b'\\');
        let has_controls = body.iter().any(|byte| *byte < b' ');
        if is_flat && !has_escapes && !has_controls && oracle(&body).is_none() {
            prop_assert!(std::str::from_utf8(&body).map_or(true, |it| scan(it).is_err()));
        }
    }

    #[test]
    fn elements_agree_with_serde(values in prop::collection::vec(arbitrary::value(), 0..6)) {
        let array = format!(" [ {} ] ", values.join(" , "));
        let theirs: Vec<Box<RawValue>> = serde_json::from_str(&array).unwrap();
        let ours: Vec<_> = elements(array.as_bytes()).map(|at| &array[at]).collect();
        prop_assert_eq!(ours, theirs.iter().map(|it| it.get()).collect::<Vec<_>>());
    }

    #[test]
    fn block_scan_agrees_with_byte_scan(text in "\\{[a{}\\[\\]\"\\\\]{0,400}") {
        let mut cursor = Cursor { text: text.as_bytes(), at: 0 };
        let end = cursor.container().ok().map(|()| cursor.at);
        prop_assert_eq!(end, container_end(text.as_bytes()));
    }

    #[test]
    fn block_scan_handles_long_runs_of_backslashes(
        before in 0..130usize,
        run in 0..200usize,
        after in 0..70usize,
    ) {
        let text = format!("[\"{}{}\"]{}", "a".repeat(before), "\\".repeat(run), "\"]".repeat(after));
        let mut cursor = Cursor { text: text.as_bytes(), at: 0 };
        let end = cursor.container().ok().map(|()| cursor.at);
        prop_assert_eq!(end, container_end(text.as_bytes()));
    }

    #[test]
    fn scanning_never_panics(bytes in arbitrary::soup(), key in "[a-z]{0,2}") {
        let in_bounds = |at: Range<usize>| assert!(at.start < at.end && at.end <= bytes.len());
        members(&bytes).for_each(|(_, at)| in_bounds(at));
        elements(&bytes).for_each(in_bounds);
        member(&bytes, &key).into_iter().for_each(in_bounds);
        let _ = path(&bytes, &[&key, "id"]);
        drop((is_id(&bytes), decode(&bytes), std::str::from_utf8(&bytes).map(scan)));
    }
}
