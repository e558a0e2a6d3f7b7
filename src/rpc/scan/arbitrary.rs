//! JSON text for property tests: valid, in all forms of the grammar.

use proptest::{collection::vec, prelude::*, sample::select};

/// White space between tokens.
pub(in crate::rpc) fn space() -> impl Strategy<Value = &'static str> {
    prop_oneof![6 => Just(""), 1 => select(vec![" ", "\t", "\n", "\r\n", "    \n"])]
}

/// A raw string, sometimes longer than a block, with brackets, quotes and runs of backslashes in it.
pub(in crate::rpc) fn string() -> impl Strategy<Value = String> {
    let piece = select(vec![
        "a",
        "id",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "é",
        "😀",
        " ",
        "\\\\",
        "\\\"",
        "\\n",
        "\\u0069",
        "\\ud83d\\ude00",
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "\\\\\\\\\\\\\\\\",
    ]);
    vec(piece, 0..12).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

/// A raw number.
pub(in crate::rpc) fn number() -> impl Strategy<Value = String> {
    select(vec!["0", "-0", "7", "-12", "1.50", "1e2", "2E-3", "18446744073709551616", "0.1e+7"])
        .prop_map(str::to_owned)
}

/// A raw value of any kind.
pub(in crate::rpc) fn value() -> impl Strategy<Value = String> {
    let literal = select(vec!["null", "true", "false", "[]", "{}", "[ ]", "{\n}"]).prop_map(str::to_owned);
    let leaf = prop_oneof![literal, number(), string()];
    leaf.prop_recursive(4, 24, 5, |inner| {
        let array = vec(inner.clone(), 1..5).prop_map(|it| format!("[{}]", it.join(",")));
        let object = object(vec((string(), inner), 1..5).boxed());
        prop_oneof![array, object]
    })
}

/// A raw object with these members.
pub(in crate::rpc) fn object(members: BoxedStrategy<Vec<(String, String)>>) -> impl Strategy<Value = String> {
    (members, vec(space(), 24)).prop_map(|(members, spaces)| {
        let mut spaces = spaces.into_iter().cycle();
        let mut space = || spaces.next().unwrap_or_default();
        let mut out = String::from("{");
        for (n, (key, value)) in members.iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            let parts = [comma, space(), key, space(), ":", space(), value, space()];
            out.extend(parts);
        }
        out + "}"
    })
}

/// A message of any kind: an object that may have the members of an envelope, in any order.
pub(in crate::rpc) fn message() -> impl Strategy<Value = String> {
    let method = prop_oneof![string(), Just("\"textDocument/hover\"".to_owned())];
    let id = prop_oneof![number(), string(), Just("null".to_owned())];
    let member = |keys: Vec<&'static str>, value: BoxedStrategy<String>| {
        proptest::option::of((select(keys).prop_map(str::to_owned), value)).boxed()
    };
    let members = (
        member(vec!["\"id\"", "\"id\"", "\"\\u0069d\""], id.boxed()),
        member(vec!["\"method\"", "\"\\u006dethod\""], method.boxed()),
        member(vec!["\"params\""], value().boxed()),
        member(vec!["\"result\""], value().boxed()),
        member(vec!["\"error\""], value().boxed()),
        member(vec!["\"jsonrpc\""], Just("\"2.0\"".to_owned()).boxed()),
        member(vec!["\"x\"", "\"\"", "\"ID\"", "\"i\\\\d\""], value().boxed()),
    );
    let members = members
        .prop_map(|(a, b, c, d, e, f, g)| [a, b, c, d, e, f, g].into_iter().flatten().collect::<Vec<_>>())
        .prop_shuffle();
    (space(), object(members.boxed()), space())
        .prop_map(|(before, object, after)| [before, &object, after].concat())
}

/// A message in its usual form, or nearly so.
pub(in crate::rpc) fn usual() -> impl Strategy<Value = String> {
    let id = prop_oneof![number(), string(), Just("null".to_owned()), Just("[]".to_owned())];
    let method = prop_oneof![string(), Just("\"textDocument/hover\"".to_owned())];
    let last = select(vec!["params", "result", "error", "x"]);
    let end = select(vec!["}", "}", "}", " }", "} ", ",\"id\":1}", ""]);
    let (id, method) = (proptest::option::of(id), proptest::option::of(method));
    (id, method, proptest::option::of((last, value())), end).prop_map(|(id, method, last, end)| {
        let id = id.map_or_else(String::new, |it| format!(",\"id\":{it}"));
        let method = method.map_or_else(String::new, |it| format!(",\"method\":{it}"));
        let last = last.map_or_else(String::new, |(key, it)| format!(",\"{key}\":{it}"));
        format!("{{\"jsonrpc\":\"2.0\"{id}{method}{last}{end}")
    })
}

/// Bytes that are nearly JSON.
pub(in crate::rpc) fn soup() -> impl Strategy<Value = Vec<u8>> {
    let piece = select(vec![
        "{",
        "}",
        "[",
        "]",
        "\"",
        "\\",
        ":",
        ",",
        "\"id\"",
        "\"method\"",
        "1",
        "-",
        "e",
        ".",
        "null",
        "tru",
        " ",
        "\u{0}",
        "é",
        "{\"id\":",
        "\"a\":1,",
        "                                                          ",
    ]);
    prop_oneof![
        vec(piece, 0..40).prop_map(|it| it.concat().into_bytes()),
        vec(any::<u8>(), 0..80),
        (message(), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(text, at, byte)| {
            let mut bytes = text.into_bytes();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            bytes
        }),
        (message(), any::<prop::sample::Index>()).prop_map(|(text, at)| {
            let mut bytes = text.into_bytes();
            bytes.truncate(at.index(bytes.len()));
            bytes
        }),
    ]
}
