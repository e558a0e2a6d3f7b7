use std::collections::{BTreeSet, HashSet};

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::rpc::scan::{arbitrary, batch};

fn parse(body: &str) -> Frame {
    Frame::parse(Bytes::copy_from_slice(body.as_bytes())).unwrap()
}

fn sent(frame: &Frame) -> String {
    let bytes = frame.to_bytes();
    assert_eq!(bytes, frame.parts().concat());
    assert_eq!(bytes.len(), frame.wire_len());
    let again = Frame::parse(bytes.clone()).unwrap();
    assert_eq!(again.kind(), frame.kind());
    assert_eq!(again.id(), frame.id());
    assert_eq!(again.method(), frame.method());
    assert_eq!(again.params(), frame.params());
    assert_eq!(again.result(), frame.result());
    assert_eq!(again.error_value(), frame.error_value());
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn check(frame: &Frame, expected: &Expect) {
    expected.assert_eq(&sent(frame));
}

#[test]
fn parse_tells_kind_of_message() {
    for (body, expected) in [
        (r#"{"id":1,"method":"m"}"#, expect!["Request"]),
        (r#"{"id":"","method":"m","result":1}"#, expect!["Request"]),
        (r#"{"method":"m"}"#, expect!["Notification"]),
        (r#"{"id":1,"result":null}"#, expect!["Response"]),
        (r#"{"id":null,"error":{}}"#, expect!["Response"]),
        (r#"{"id":1,"result":null,"error":null}"#, expect!["Response"]),
        (r#"{"id":null,"method":"m"}"#, expect!["Notification"]),
        (r#"{"id":1}"#, expect!["Response"]),
        (r#"{"id":1,"method":null,"params":null,"result":3}"#, expect!["Response"]),
        (r#"{"id":1,"params":{}}"#, expect!["neither method, result nor error beside the id at byte 6"]),
        (r#"{"method":null}"#, expect!["neither method nor id at byte 0"]),
        (r#"{"result":1}"#, expect!["neither method nor id at byte 0"]),
        ("{}", expect!["neither method nor id at byte 0"]),
    ] {
        let kind = Frame::parse(Bytes::from_static(body.as_bytes())).map(|it| it.kind());
        expected.assert_eq(&kind.map_or_else(|error| error.to_string(), |kind| format!("{kind:?}")));
    }
}

#[test]
fn answer_has_one_outcome() {
    for (body, result, error) in [
        (r#"{"id":1}"#, Some("null"), None),
        (r#"{"id":1,"error":null}"#, Some("null"), None),
        (r#"{"id":1,"method":null,"params":null}"#, Some("null"), None),
        (r#"{"id":1,"result":null,"error":null}"#, Some("null"), None),
        (r#"{"id":1,"error":null,"result":[1]}"#, Some("[1]"), None),
        (r#"{"jsonrpc":"2.0","id":1,"method":null,"result":3}"#, Some("3"), None),
        (r#"{"id":1,"result":null,"error":{"code":1}}"#, None, Some(r#"{"code":1}"#)),
    ] {
        let frame = parse(body).with_id(RawId::from(1234));
        assert_eq!(frame.kind(), Kind::Response, "{body}");
        assert_eq!(frame.result(), result.map(str::as_bytes), "{body}");
        assert_eq!(frame.error_value(), error.map(str::as_bytes), "{body}");
        sent(&frame);
    }
    check(&parse(r#"{"id":1}"#), &expect![[r#"{"id":1,"result":null}"#]]);
    let told = r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#;
    assert_eq!((parse(told).id(), &*sent(&parse(told))), (None, told), "it passes as it is");
}

#[test]
fn batch_is_an_array_of_objects() {
    let messages = |body: &'static str| {
        batch(body.as_bytes()).map(|it| it.into_iter().map(|it| &body[it]).collect::<Vec<_>>())
    };
    assert_eq!(messages(r#" [{"a":[1]} , {"b":2}] "#), Some(vec![r#"{"a":[1]}"#, r#"{"b":2}"#]));
    for other in ["{}", "[]", "[1]", "[{},1]", "[{}", "[{}] x", "[{}{}]", ""] {
        assert_eq!(messages(other), None, "{other}");
    }
}

#[test]
fn frame_exposes_members_of_message() {
    let frame = parse(r#" {"jsonrpc":"2.0","id":"a","method":"m\u002fn","params":[1]} "#);
    assert_eq!(frame.method(), Some("m/n"));
    assert_eq!(frame.id(), Some(RawId::text("a")));
    assert_eq!(frame.params(), Some(&b"[1]"[..]));
    assert_eq!((frame.result(), frame.error_value()), (None, None));
    expect![[r#"Frame { method: "m/n", id: "a", kind: Request, len: 61, .. }"#]]
        .assert_eq(&format!("{frame:?}"));
    let failed = parse(r#"{"id":1,"error":{"code":-1}}"#);
    assert_eq!(failed.error_value(), Some(&br#"{"code":-1}"#[..]));
    assert_eq!(failed.method(), None);
}

#[test]
fn with_id_replaces_id_without_copying() {
    let frame = parse(r#"{ "params" : [ 1 ], "id" : 5, "method" : "m" }"#);
    let body = frame.body().as_ptr();
    let numbered = frame.with_id(RawId::from(4711));
    assert_eq!(numbered.body().as_ptr(), body);
    assert_eq!(numbered.id(), Some(RawId::from(4711)));
    check(&numbered, &expect![[r#"{ "params" : [ 1 ], "id" : 4711, "method" : "m" }"#]]);
    let back = numbered.with_id(RawId::from(5));
    assert_eq!(back.to_bytes().as_ptr(), body, "its own id needs no copy");
    assert_eq!(parse(r#"{"method":"m"}"#).with_id(RawId::from(1)).id(), None);
}

#[test]
fn with_params_and_with_result_replace_one_member() {
    let request = parse(r#"{ "id":1, "params":{"a":1}, "method":"m" }"#).with_id(RawId::text("x"));
    check(&request.with_params(b"[]"), &expect![[r#"{ "id":"x", "params":[], "method":"m" }"#]]);
    let again = request.with_params(b"{\"long\":[1,2,3]}").with_params(b"{}");
    check(&again, &expect![[r#"{ "id":"x", "params":{}, "method":"m" }"#]]);
    assert_eq!(again.method(), Some("m"));
    let bare = parse(r#"{"method":"m" ,"id":1}"#);
    check(&bare.with_params(b"[]"), &expect![[r#"{"method":"m","params":[] ,"id":1}"#]]);
    check(
        &bare.with_params(b"[]").with_id(RawId::from(22)).with_params(b"{}"),
        &expect![[r#"{"method":"m","params":{} ,"id":22}"#]],
    );
    let answer = parse(r#"{"result":{"old":true},"id":1,"jsonrpc":"2.0"}"#);
    check(&answer.with_result(b"0"), &expect![[r#"{"result":0,"id":1,"jsonrpc":"2.0"}"#]]);
}

#[test]
fn constructors_write_valid_messages() {
    check(
        &Frame::request(RawId::from(1), "a/b", Some(b"{}")),
        &expect![[r#"{"jsonrpc":"2.0","id":1,"method":"a/b","params":{}}"#]],
    );
    check(
        &Frame::request(RawId::text("é"), "m", None),
        &expect![[r#"{"jsonrpc":"2.0","id":"é","method":"m"}"#]],
    );
    check(&Frame::notification("say \"x\"", None), &expect![[r#"{"jsonrpc":"2.0","method":"say \"x\""}"#]]);
    check(
        &Frame::notification("m", Some(b"[1]")),
        &expect![[r#"{"jsonrpc":"2.0","method":"m","params":[1]}"#]],
    );
    check(
        &Frame::response(RawId::from(2), b"null").with_id(RawId::text("back")),
        &expect![[r#"{"jsonrpc":"2.0","id":"back","result":null}"#]],
    );
    check(
        &Frame::error(RawId::null(), ErrorCode::RequestFailed, "no\n\"way\"", Some(b"{\"retry\":true}")),
        &expect![[
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32803,"message":"no\n\"way\"","data":{"retry":true}}}"#
        ]],
    );
    check(
        &Frame::error(RawId::from(3), ErrorCode::MethodNotFound, "", None),
        &expect![[r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32601,"message":""}}"#]],
    );
}

#[test]
fn salvage_id_finds_id_in_broken_messages() {
    for (body, expected) in [
        (&br#"{"id":1,"method":"m","params":{"a":"#[..], expect!["Some((RawId(1), true))"]),
        (br#"{"method":1,"id":"x"}"#, expect![[r#"Some((RawId("x"), true))"#]]),
        (b"{\"id\":1,\"result\":\"\xff\"}", expect!["Some((RawId(1), false))"]),
        (b"{\"method\":\"\xff\",\"id\":1}", expect!["Some((RawId(1), true))"]),
        (br#"{"id":1,"result":[1}}"#, expect!["Some((RawId(1), false))"]),
        (br#"{"id":1}"#, expect!["Some((RawId(1), false))"]),
        (br#"{"id":1,"result":1} x"#, expect!["Some((RawId(1), false))"]),
        (br#"{"id":1,"id":2,"method":"m"}"#, expect!["None"]),
        (br#"{"id":[],"method":"m"}"#, expect!["None"]),
        (br#"{"params":{"id":1}}"#, expect!["None"]),
        (br#"[{"id":1}]"#, expect!["None"]),
        (b"", expect!["None"]),
    ] {
        expected.assert_eq(&format!("{:?}", Frame::salvage_id(body)));
    }
}

#[test]
fn ids_compare_by_meaning() {
    let id = |raw: &str| RawId::from_raw(raw.as_bytes()).unwrap();
    assert_eq!(id(r#""a""#), id(r#""\u0061""#));
    assert_eq!(id(r#""\u0061""#), RawId::text("a"));
    assert_ne!(id("1"), id(r#""1""#));
    assert_ne!(id("null"), id(r#""null""#));
    assert_ne!(id("18446744073709551616"), id("18446744073709551617"));
    let ids = ["1", r#""1""#, r#""\u0031""#, "null", r#""null""#, r#""""#].map(id);
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 5);
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 5);
}

#[test]
fn ids_keep_their_bytes() {
    let raw = r#""\u0061""#;
    let id = RawId::from_raw(raw.as_bytes()).unwrap();
    assert_eq!((id.as_bytes(), id.to_string()), (raw.as_bytes(), raw.to_owned()));
    assert_eq!(id.as_text().as_deref(), Some("a"));
    assert_eq!(RawId::from(u64::MAX).to_string(), u64::MAX.to_string());
    assert_eq!(RawId::from(u64::MAX).as_u64(), Some(u64::MAX));
    assert_eq!((RawId::text("1").as_u64(), RawId::from(1).as_text()), (None, None));
    for same in ["2", "2.0", "2e0", "0.2E+1", "20e-1"] {
        assert_eq!(RawId::from_raw(same.as_bytes()).and_then(|it| it.as_u64()), Some(2), "{same}");
    }
    for other in ["2.5", "-2", "null", "1e300"] {
        assert_eq!(RawId::from_raw(other.as_bytes()).and_then(|it| it.as_u64()), None, "{other}");
    }
    assert!(RawId::null().is_null() && !RawId::text("null").is_null());
    for len in [35, 36, 37, 300, 70_000] {
        let text = "x".repeat(len);
        assert_eq!(RawId::text(&text).as_text().as_deref(), Some(text.as_str()), "inline or not");
    }
    for raw in ["", " 1", "1 ", "true", "[1]", "{}", "01", "\"", "\"\\x\"", "\"\n\"", "1,2", "nul"] {
        assert!(RawId::from_raw(raw.as_bytes()).is_none(), "{raw}");
    }
    assert!(RawId::from_raw(b"\"\xff\"").is_some());
}

#[test]
fn frame_and_id_stay_small() {
    assert!(size_of::<RawId>() <= 40, "{}", size_of::<RawId>());
    assert!(size_of::<Frame>() <= 176, "{}", size_of::<Frame>());
}

/// A message that [`Frame::parse`] accepts.
fn frame() -> impl Strategy<Value = Frame> {
    arbitrary::message().prop_filter_map("no message", |it| Frame::parse(it.into()).ok())
}

/// `body` without `span`.
fn without(body: &[u8], span: Span) -> (Vec<u8>, Vec<u8>) {
    (body[..span.range().start].to_vec(), body[span.range().end..].to_vec())
}

proptest! {
    #[test]
    fn with_id_changes_only_the_id(frame in frame(), id in arbitrary::string()) {
        let id = RawId::from_raw(id.as_bytes()).unwrap();
        let [before, _, after] = frame.parts();
        let numbered = frame.with_id(id.clone());
        let expected = if frame.kind() == Kind::Notification { None } else { Some(id.clone()) };
        prop_assert_eq!(numbered.id(), expected.clone());
        let middle = expected.as_ref().map_or(&b""[..], RawId::as_bytes);
        prop_assert_eq!(sent(&numbered).into_bytes(), [before, middle, after].concat());
    }

    #[test]
    fn with_params_and_with_result_change_only_their_value(
        frame in frame(),
        params in arbitrary::value(),
        result in arbitrary::value(),
    ) {
        let frame = frame.with_id(RawId::from(77));
        for (edited, raw, span, was) in [
            (frame.with_params(params.as_bytes()), &params, (|it: &Frame| it.message.envelope.params) as fn(&Frame) -> Span, frame.params()),
            (frame.with_result(result.as_bytes()), &result, |it: &Frame| it.message.envelope.result, frame.result()),
        ] {
            prop_assert_eq!(span(&edited).get(std::str::from_utf8(&edited.message.body).unwrap()), Some(raw.as_str()));
            prop_assert_eq!(edited.id(), frame.id());
            if was.is_some() {
                prop_assert_eq!(without(edited.body(), span(&edited)), without(frame.body(), span(&frame)));
            }
            if edited.kind() == frame.kind() && edited.kind() != Kind::Response {
                sent(&edited);
            }
        }
    }

    #[test]
    fn frame_parsing_never_panics(bytes in arbitrary::soup()) {
        drop((RawId::from_raw(&bytes), Frame::salvage_id(&bytes), Frame::parse(bytes.into())));
    }

    #[test]
    fn salvage_id_agrees_with_parse(frame in frame()) {
        let salvaged = Frame::salvage_id(frame.body()).map(|(id, _)| id);
        // A notification has `null`.
        prop_assert_eq!(salvaged.filter(|_| frame.kind() != Kind::Notification), frame.id());
    }
}

#[test]
fn numeric_ids_compare_by_value() {
    let id = |raw: &str| RawId::from_raw(raw.as_bytes()).unwrap();
    for (one, other) in
        [("7", "7.0"), ("1e1", "10"), ("-0", "0"), ("0.0", "-0.0"), ("1.50", "15E-1"), ("-3", "-3.0")]
    {
        assert_eq!(id(one), id(other), "{one} {other}");
        assert_eq!(id(one).cmp(&id(other)), std::cmp::Ordering::Equal, "{one} {other}");
        assert_eq!(HashSet::from([id(one), id(other)]).len(), 1, "{one} {other}");
    }
    for (one, other) in
        [("7", "\"7\""), ("7", "7.5"), ("9007199254740993", "9007199254740992"), ("null", "0")]
    {
        assert_ne!(id(one), id(other), "{one} {other}");
    }
}

#[test]
fn byte_order_mark_is_skipped() {
    let frame = Frame::parse(Bytes::from_static(b"\xEF\xBB\xBF{\"id\":1,\"result\":2}")).unwrap();
    assert_eq!((frame.result(), &*frame.to_bytes()), (Some(&b"2"[..]), &b"{\"id\":1,\"result\":2}"[..]));
    assert!(Frame::parse(Bytes::from_static(b"\xEF\xBB{}")).is_err());
    let malformed = b"\xEF\xBB\xBF{\"id\":7,\"method\":1}";
    assert_eq!(Frame::salvage_id(malformed), Some((RawId::from(7), true)));
}
