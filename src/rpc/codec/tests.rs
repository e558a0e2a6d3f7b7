use expect_test::{Expect, expect};
use proptest::{collection::vec, prelude::*, sample::select};

use super::*;
use crate::rpc::frame::RawId;

/// The items that are read if the bytes arrive in these pieces and then end.
fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let mut codec = Codec::new(1000);
    let mut src = BytesMut::new();
    let mut out = Vec::new();
    for piece in pieces {
        src.extend_from_slice(piece);
        while let Some(item) = codec.decode(&mut src).transpose() {
            let ended = item.is_err();
            out.push(render(item));
            if ended {
                return out;
            }
        }
    }
    while let Some(item) = codec.decode_eof(&mut src).transpose() {
        out.push(render(item));
    }
    out
}

fn render(item: Result<Incoming, FrameError>) -> String {
    match item {
        Ok(Incoming::Body(body)) => format!("body {}", lossy(&body)),
        Ok(Incoming::Junk(text)) => format!("junk {text:?}"),
        Err(error) => format!("error {error}"),
    }
}

/// Checks the whole input and every cut in two.
fn check(input: &str, expected: &Expect) {
    let whole = read([input.as_bytes()]);
    expected.assert_eq(&whole.join("\n"));
    for at in 0..=input.len() {
        let (left, right) = input.as_bytes().split_at(at);
        assert_eq!(read([left, right]), whole, "cut at {at}");
    }
    assert_eq!(read(input.as_bytes().chunks(1)), whole, "byte by byte");
}

#[test]
fn codec_reads_plain_messages() {
    check(
        "Content-Length: 2\r\n\r\n{}Content-Length: 7\r\n\r\n{\"é\"}\n",
        &expect![[r#"
        body {}
        body {"é"}
    "#]],
    );
    check("", &expect![""]);
}

#[test]
fn codec_accepts_header_variants() {
    check("content-length:   2\r\n\r\n{}", &expect!["body {}"]);
    check("CONTENT-LENGTH:2\r\n\r\n{}", &expect!["body {}"]);
    check("Content-Length \t:\t2 \r\n\r\n{}", &expect!["body {}"]);
    check("Content-Length: 2\n\n{}", &expect!["body {}"]);
    check("Content-Length: 2\r\r\n\r\r\n{}", &expect!["body {}"]);
    check("Content-Type: a; charset=utf-8\r\nContent-Length: 2\r\n\r\n{}", &expect!["body {}"]);
    check("Content-Length: 2\r\nContent-Type: a\r\nX-Other:\r\n\r\n{}", &expect!["body {}"]);
    check("Content-Length: 002\r\n\r\n{}", &expect!["body {}"]);
    check("X-Content-Length: 9\r\nContent-Length: 2\r\n\r\n{}", &expect!["body {}"]);
}

#[test]
fn codec_uses_last_content_length() {
    check("Content-Length: 9\r\nContent-Length: 2\r\n\r\n{}", &expect!["body {}"]);
}

#[test]
fn codec_reports_and_skips_junk() {
    check(
        "Info: 35 declarations\n\ncont\nContent-Length: 2\r\n\r\n{}",
        &expect![[r#"
        junk "Info: 35 declarations"
        junk "cont"
        body {}"#]],
    );
    check("\n\r\n\nContent-Length: 2\r\n\r\n{}", &expect!["body {}"]);
    check(
        "Content-Length: 2\r\nwarming up\r\n\r\n{}",
        &expect![[r#"
        junk "warming up"
        body {}"#]],
    );
    check(
        "X-Other: 1\r\nY: 2\r\n\r\nContent-Length: 2\r\n\r\n{}",
        &expect![[r#"
        junk "X-Other: 1\nY: 2"
        body {}"#]],
    );
    check(
        "Content-Length: two\r\n\r\n{}\nContent-Length: 2\r\n\r\n[]",
        &expect![[r#"
        junk "Content-Length: two"
        junk "{}"
        body []"#]],
    );
    check(
        "Content-Length: -2\r\nContent-Length: 2 3\r\nContent-Length:\r\n\r\n",
        &expect![[r#"
        junk "Content-Length: -2"
        junk "Content-Length: 2 3"
        junk "Content-Length:""#]],
    );
    check(
        "Content-Length: 0\r\n\r\nContent-Length: 2\r\n\r\n{}",
        &expect![[r#"
        junk "Content-Length: 0"
        body {}"#]],
    );
}

#[test]
fn codec_finds_header_after_other_text() {
    check(
        "Content-Length: 2\r\n\r\n{\"a\":1}Content-Length: 2\r\n\r\n{}",
        &expect![[r#"
        body {"
        junk "a\":1}"
        body {}"#]],
    );
    check(
        "Loading... donecontent-length: 2\r\n\r\n{}",
        &expect![[r#"
        junk "Loading... done"
        body {}"#]],
    );
    check(
        "{\"t\":\"Content-Length: 7\"}Content-Length: 2\r\n\r\n{}",
        &expect![[r#"
        junk "{\"t\":\"Content-Length: 7\"}"
        body {}"#]],
    );
}

#[test]
fn codec_loses_one_message_after_excessive_length() {
    check(
        "Content-Length: 5\r\n\r\n{}Content-Length: 2\r\n\r\n[]Content-Length: 2\r\n\r\n{}",
        &expect![[r#"
            body {}Con
            junk "tent-Length: 2"
            junk "[]"
            body {}"#]],
    );
}

#[test]
fn codec_reports_end_inside_message() {
    for cut in [
        "c",
        "Content-Le",
        "Content-Length: 2",
        "Content-Length: 2\r\n",
        "Content-Length: 2\r\n\r\n",
        "content-length:2\n\n{",
    ] {
        check(
            cut,
            &expect![
                "error the stream ended in the middle of a message: the sender stopped or crashed while it wrote"
            ],
        );
    }
    check("panicked at", &expect![[r#"junk "panicked at""#]]);
    check("X: 1\r\npanicked", &expect![[r#"junk "X: 1\npanicked""#]]);
    check("\r\n \r", &expect![""]);
}

#[test]
fn codec_refuses_huge_length_without_allocating() {
    check(
        "Content-Length: 1001\r\n",
        &expect![
            "error a message has 1001 bytes, more than the limit of 1000: raise the limit, or fix the sender"
        ],
    );
    check(
        &format!("Content-Length: {}\r\n", "9".repeat(40)),
        &expect![
            "error a message has 18446744073709551615 bytes, more than the limit of 1000: raise the limit, or fix the sender"
        ],
    );
    let mut src = BytesMut::from("Content-Length: 200000000\r\n\r\n{");
    let mut codec = Codec::new(Codec::DEFAULT_MAX);
    assert_eq!(codec.decode(&mut src).unwrap(), None);
    assert!(src.capacity() < 2 * RESERVE, "{}", src.capacity());
}

#[test]
fn codec_grows_long_body_without_copying() {
    let len = 5 * RESERVE;
    let mut codec = Codec::new(Codec::DEFAULT_MAX);
    let mut src = BytesMut::from(format!("Content-Length: {len}\r\n\r\n").as_str());
    let mut came = 0;
    while came < len {
        assert_eq!(codec.decode(&mut src).unwrap(), None);
        assert!(src.capacity() <= RESERVE.max(came * 2) + 8192, "{} for {came}", src.capacity());
        let n = (src.capacity() - src.len()).min(len - came);
        assert!(n > 0, "room for more is reserved");
        src.extend_from_slice(&vec![b'x'; n]);
        came += n;
    }
    let at = src.as_ptr();
    let Some(Incoming::Body(body)) = codec.decode(&mut src).unwrap() else { panic!("a body") };
    assert_eq!((body.as_ptr(), body.len(), src.len()), (at, len, 0));
}

#[test]
fn codec_refuses_too_much_junk() {
    let line = "junk that never ends\n".repeat(JUNK_LIMIT / 21);
    let fill = "x".repeat(JUNK_LIMIT - line.len() - 1);
    let enough = format!("{line}{fill}\n");
    assert_eq!(enough.len(), JUNK_LIMIT);
    let read_all = |text: &str| {
        [read([text.as_bytes()]), read(text.as_bytes().chunks(1)), read(text.as_bytes().chunks(1000))]
    };
    for items in read_all(&enough) {
        assert!(items.iter().all(|it| it.starts_with("junk ")));
    }
    for text in [format!("{enough}x"), format!("{line}{fill}x\n"), "x".repeat(JUNK_LIMIT + 1)] {
        for items in read_all(&text) {
            assert!(
                items.last().unwrap().starts_with("error 64 KiB contain no message"),
                "{:?}",
                items.last()
            );
        }
    }
}

#[test]
fn codec_resets_junk_limit_after_message() {
    let round = format!("{}\nContent-Length: 2\r\n\r\n{{}}", "x".repeat(JUNK_LIMIT - 100));
    assert_eq!(read([round.repeat(3).as_bytes()]).iter().filter(|it| *it == "body {}").count(), 3);
}

#[test]
fn codec_writes_headers_and_bodies() {
    let mut dst = BytesMut::new();
    let request = Frame::request(RawId::from(1), "é", None);
    Codec::new(0).encode(&request.with_id(RawId::text("x")), &mut dst).unwrap();
    Codec::new(0).encode(Frame::notification("m", None), &mut dst).unwrap();
    expect![[r#"
        Content-Length: 40\r
        \r
        {"jsonrpc":"2.0","id":"x","method":"é"}Content-Length: 30\r
        \r
        {"jsonrpc":"2.0","method":"m"}"#]]
    .assert_eq(&lossy(&dst).replace('\r', "\\r"));
}

/// Valid and invalid streams.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => "\\PC{1,60}".prop_map(|body| format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()),
        3 => select(vec![
            "Content-Length: 2\r\n\r\n{}", "content-length:9\n\n", "Content-Length: 3", "\r\n", "\n", "\r", "Content-Type: x\r\n",
            "Content-", "Length: 1", "log line\n", "Info: x\n", "{\"a\":1}", "Content-Length: 99999\r\n", "Content-Length: x\r\n", ":",
        ])
        .prop_map(|it| it.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..20),
    ];
    vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn codec_reads_same_messages_at_any_cuts(
        bytes in stream(),
        cuts in vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let whole = read([&bytes[..]]);
        let mut cuts: Vec<_> = cuts.iter().map(|at| at.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        prop_assert_eq!(read(cuts.windows(2).map(|it| &bytes[it[0]..it[1]])), whole.clone());
        prop_assert_eq!(read(bytes.chunks(1)), whole);
    }

    #[test]
    fn codec_reads_what_it_writes(methods in vec(".{0,30}", 0..8), junk in "([a-z ]{1,9}\n){0,2}") {
        let mut bytes = BytesMut::from(junk.as_str());
        let mut expected: Vec<_> = junk.lines().map(|it| format!("junk {it:?}")).collect();
        for method in &methods {
            let frame = Frame::request(RawId::from(1), method, None).with_id(RawId::text(method));
            Codec::new(0).encode(&frame, &mut bytes).unwrap();
            expected.push(format!("body {}", lossy(&frame.to_bytes())));
        }
        prop_assert_eq!(read([&bytes[..]]), expected);
    }
}
