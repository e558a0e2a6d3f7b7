//! Messages of the fake peers: each contains a unique number, by which it is recognized anywhere, and is written in
//! one of several odd ways, so that a changed byte is noticed.

use bytes::Bytes;
use serde_json::Value;

use crate::{
    core::event::Peer,
    rpc::{Frame, Kind},
};

/// The number of a message.
pub(super) type N = u64;

/// A message that a fake peer has sent.
pub(super) struct Said {
    pub(super) by: Peer,
    pub(super) frame: Frame,
    pub(super) value: Value,
    /// Its receivers, in order.
    pub(super) heard: Vec<Peer>,
}

impl Said {
    pub(super) fn method(&self) -> &str {
        self.frame.method().unwrap_or_default()
    }

    pub(super) fn params(&self) -> &Value {
        &self.value["params"]
    }
}

/// The parameters (or a result) with that number: `members` is empty or ends with a comma.
pub(super) fn numbered(n: N, members: &str) -> String {
    match n % 3 {
        0 => format!(r#"{{{members}"n":{n}}}"#),
        1 => format!("{{ \"n\" : {n},{members}\n\"odd\":[1.0E+2 , \"\\u0041\\/\"] }}"),
        _ => format!(r#"{{"x": 12345678901234567890.10,{members}"n":{n} }}"#),
    }
}

/// A body, by the style that goes with the number.
pub(super) fn body(n: N, id: Option<&str>, rest: &[(&str, &str)]) -> String {
    let version = ("jsonrpc", "\"2.0\"");
    let id = id.map(|id| ("id", id));
    let mut members: Vec<(&str, &str)> = match n % 2 {
        0 => [version].into_iter().chain(id).chain(rest.iter().copied()).collect(),
        _ => rest.iter().copied().chain([version]).chain(id).collect(),
    };
    if n.is_multiple_of(5) {
        members.push(("extra", "{ \"id\":[] }"));
    }
    let (colon, comma) = if n.is_multiple_of(3) { (" :\t", " ,\r\n") } else { (":", ",") };
    let members: Vec<String> =
        members.iter().map(|(key, value)| format!("\"{key}\"{colon}{value}")).collect();
    format!("{{{}}}", members.join(comma))
}

pub(super) fn frame(body: String) -> Frame {
    Frame::parse(Bytes::from(body)).expect("the model speaks JSON-RPC")
}

pub(super) fn value(frame: &Frame) -> Value {
    serde_json::from_slice(&frame.to_bytes()).expect("lspool speaks JSON")
}

/// The number of a message, if a fake peer made it.
pub(super) fn number(message: &Value) -> Option<N> {
    let places = [
        &message["params"]["n"],
        &message["result"]["n"],
        &message["result"][0]["n"],
        &message["error"]["data"]["n"],
    ];
    places.into_iter().find_map(Value::as_u64)
}

/// An id, type and all.
pub(super) fn id(message: &Value) -> String {
    message["id"].to_string()
}

/// Nothing but the id differs.
pub(super) fn same_bytes(said: &Frame, heard: &Frame) -> bool {
    let ([head, _, tail], [heard_head, _, heard_tail]) = (said.parts(), heard.parts());
    said.kind() == heard.kind()
        && head == heard_head
        && (tail == heard_tail || said.kind() == Kind::Notification)
}

/// Removes one member of `params`.
pub(super) fn without(message: &Value, keys: &[&str]) -> Value {
    let mut out = message.clone();
    if let Some(params) = out.get_mut("params").and_then(Value::as_object_mut) {
        for key in keys {
            params.shift_remove(*key);
        }
    }
    if let Some(message) = out.as_object_mut() {
        message.shift_remove("id");
    }
    out
}

/// Whether a tool is in a set, told from how the set is displayed.
pub(super) fn allows(set: &str, tool: &str) -> bool {
    let names = || set.split(',');
    names().any(|it| it == "*" || it == tool) && !names().any(|it| it.strip_prefix('!') == Some(tool))
}

/// The tools in a create, and the name of the set.
pub(super) const SETS: &[(&str, &str)] = &[
    ("", "*"),
    (r#""lspool":{"tools":["a"]},"#, "a"),
    (r#" "lspool" : {"tools":[" b","a","a"]} ,"#, "a,b"),
    (r#""lspool":{"agent":"reader"},"#, "a,b"),
    (r#""lspool":{"agent":"most"},"#, "*,!c"),
    (r#""lspool":{"tools":[]},"#, ""),
    (r#""lspool":null,"#, "*"),
    (r#""lspool":{"tools":["list_dir","c"]},"#, "c,list_dir"),
];

/// Tools that a client registers.
pub(super) const TOOLS: &[&str] = &["a", "b", "c", "d"];

/// The server's own tools.
pub(super) const BUILTIN: &[&str] = &["list_dir", "file_search"];
