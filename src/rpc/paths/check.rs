//! What holds for any message that is mapped there and back.

use serde_json::Value;

use super::{PathMap, PathPair};
use crate::rpc::Frame;

/// Checks a message with these parameters. **Only the spelling of mapped paths may change**, and not again the second
/// time.
///
/// # Panics
/// If that does not hold.
pub fn check(json: &[u8]) {
    let pair = |local: &str, remote: &str| PathPair { local: local.to_owned(), remote: remote.to_owned() };
    let pairs = [pair("/home/u/my shop", "/app"), pair("/home/u/lib", "/opt/lib ä"), pair("/same", "/same")];
    let mut map = PathMap::new(&pairs, None).expect("folders differ");
    let frame = Frame::notification("x", Some(json));
    let mut there_and_back = |frame: &Frame| {
        let there = map.outgoing(frame).unwrap_or_else(|| frame.clone());
        map.incoming(&there).unwrap_or(there)
    };
    let once = there_and_back(&frame);
    let twice = there_and_back(&once);
    // Strings of some servers have bytes that no JSON has. The paths beside them are mapped.
    let value = |it: &Frame| {
        let text = String::from_utf8_lossy(it.params().unwrap_or_default());
        serde_json::from_str::<Value>(&text.replace(char::is_control, " "))
    };
    match (value(&frame), value(&once)) {
        (Ok(before), Ok(after)) => {
            assert_eq!(once.params(), twice.params(), "it changes again and again");
            compare(&before, &after);
        }
        (Err(_), _) => {}
        (Ok(_), Err(error)) => panic!("JSON became something else: {error}"),
    }
}

fn compare(before: &Value, after: &Value) {
    match (before, after) {
        (Value::Array(before), Value::Array(after)) => {
            assert_eq!(before.len(), after.len());
            before.iter().zip(after).for_each(|(before, after)| compare(before, after));
        }
        // Two spellings of one key become one.
        (Value::Object(before), Value::Object(after)) if before.len() != after.len() => {
            assert!(before.len() > after.len());
        }
        (Value::Object(before), Value::Object(after)) => {
            for (key, before) in before {
                match after.get(key) {
                    Some(after) => compare(before, after),
                    None => assert!(is_mapped(key), "{key:?} is gone"),
                }
            }
        }
        (Value::String(before), Value::String(after)) => {
            assert!(before == after || is_mapped(before), "{before:?} became {after:?}");
        }
        (before, after) => assert_eq!(before, after),
    }
}

/// Whether a text may be spelled in another way afterwards: a whole URI, or one with links.
fn is_mapped(text: &str) -> bool {
    text.contains(":/")
}
