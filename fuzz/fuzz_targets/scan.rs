//! Reading spans never panics, and agrees with serde_json wherever that accepts the text.
#![no_main]

use std::{collections::BTreeMap, fmt, ops::Range};

use libfuzzer_sys::fuzz_target;
use lspool::rpc::{Frame, Kind, Patch, RawId, elements, member, members, path, scan};
use serde::{
    Deserializer as _,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

type Pairs = Vec<(String, Box<RawValue>)>;

fuzz_target!(|body: &[u8]| {
    let in_bounds = |at: Range<usize>| assert!(at.start < at.end && at.end <= body.len());
    elements(body).for_each(in_bounds);
    members(body).for_each(|(_, at)| in_bounds(at));
    path(body, &["params", "a", "b"]).into_iter().for_each(in_bounds);
    let scanned = std::str::from_utf8(body).ok().map(scan).and_then(Result::ok);
    let frame = Frame::parse(body.to_vec().into());
    let salvaged = Frame::salvage_id(body);
    if let Ok(frame) = &frame {
        assert_eq!(salvaged.map(|(id, _)| id), frame.id());
        let passed = frame.parts().concat();
        let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
        match frame.kind() {
            // An answer without a result is `null`, and is passed on so.
            Kind::Response if passed != body => {
                let had = |key| member(body, key).is_some();
                assert!(!had("result") && !had("error") && frame.result() == Some(b"null"));
                let without = Patch::of(&passed).remove("result").finish();
                assert_eq!(self::pairs(&without).map(names), self::pairs(body).map(names));
            }
            Kind::Request | Kind::Response | Kind::Notification => assert_eq!(passed, body),
        }
        let numbered = frame.with_id(RawId::from(4711)).to_bytes();
        let numbered = Frame::parse(numbered).expect("another id leaves a message a message");
        assert_eq!((numbered.kind(), numbered.method()), (frame.kind(), frame.method()));
        assert_eq!((numbered.params(), numbered.result()), (frame.params(), frame.result()));
        let edited = frame.with_params(b"[0]");
        assert_eq!(edited.params(), Some(&b"[0]"[..]));
        Frame::parse(edited.to_bytes()).expect("other parameters leave a message a message");
    }
    let set = Patch::of(body).set("params", b"[0]").finish();
    let removed = Patch::of(&set).remove("params").finish();

    let Some(pairs) = pairs(body) else { return };
    let keys: Vec<_> = members(body).map(|(key, at)| (key.into_owned(), &body[at])).collect();
    let theirs: Vec<_> = pairs.iter().map(|(key, value)| (key.clone(), value.get().as_bytes())).collect();
    assert_eq!(keys, theirs);
    for (key, _) in &pairs {
        let last = pairs.iter().rfind(|(other, _)| other == key).map(|(_, value)| value.get().as_bytes());
        assert_eq!(member(body, key).map(|at| &body[at]), last);
    }

    let others = |pairs: &Pairs| {
        let pairs = pairs.iter().filter(|(key, _)| key != "params");
        pairs.map(|(key, value)| (key.clone(), value.get().to_owned())).collect::<Vec<_>>()
    };
    for edited in [&set, &removed] {
        let edited = self::pairs(edited).expect("an edit leaves an object an object");
        assert_eq!(others(&edited), others(&pairs));
    }
    assert_eq!(member(&set, "params").map(|at| &set[at]), Some(&b"[0]"[..]));
    assert_eq!(member(&removed, "params"), None);

    let expected = envelope(&pairs);
    assert_eq!(scanned.is_some(), expected.is_some(), "{scanned:?}");
    let (Some(envelope), Some(expected)) = (scanned, expected) else { return };
    let spans = [
        ("id", envelope.id),
        ("method", envelope.method),
        ("params", envelope.params),
        ("result", envelope.result),
        ("error", envelope.error),
    ];
    for (name, span) in spans {
        let found = (!span.is_absent()).then(|| &body[span.range()]);
        assert_eq!(found, expected.get(name).map(|raw| raw.as_bytes()), "{name}");
    }
});

/// The members by name and text.
fn names(pairs: Pairs) -> Vec<(String, String)> {
    pairs.into_iter().map(|(key, value)| (key, value.get().to_owned())).collect()
}

/// The envelope as serde reads it: `None` where [`scan`] must refuse it.
fn envelope(pairs: &Pairs) -> Option<BTreeMap<&str, &str>> {
    let mut envelope = BTreeMap::new();
    for (key, value) in pairs {
        let is_ours = ["id", "method", "params", "result", "error"].contains(&key.as_str());
        if is_ours && envelope.insert(key.as_str(), value.get()).is_some() {
            return None;
        }
    }
    let is_text = |raw: &str| serde_json::from_str::<String>(raw).is_ok();
    let is_id = |raw: &str| is_text(raw) || raw == "null" || raw.starts_with(|it| "-0123456789".contains(it));
    let sound =
        envelope.get("id").is_none_or(|it| is_id(it)) && envelope.get("method").is_none_or(|it| is_text(it));
    sound.then_some(envelope)
}

/// All members in order, duplicates too.
fn pairs(text: &[u8]) -> Option<Pairs> {
    struct Object;
    impl<'de> Visitor<'de> for Object {
        type Value = Pairs;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
            std::iter::from_fn(|| map.next_entry().transpose()).collect()
        }
    }
    let mut reader = serde_json::Deserializer::from_slice(text);
    let pairs = reader.deserialize_map(Object).ok()?;
    reader.end().ok()?;
    Some(pairs)
}
