//! What one member asks of another in a notification, because its authors have left that to the editor.
//!
//! The server of Vue 3 asks the TypeScript server: `tsserver/request` with `[[id, command, arguments]]` becomes a command
//! of the member that offers it, and its answer `tsserver/response` with `[[id, body]]`.

use bytes::Bytes;

use crate::{
    core::{
        event::ProcessId,
        mux::{
            Mux,
            requests::{Owner, Pending},
        },
        purpose::Purpose,
    },
    rpc::{Frame, Kind, Patch, RawId, elements, member},
};

/// A way from one member to another.
#[derive(Debug)]
struct Relay {
    asks: &'static str,
    command: &'static str,
    answers: &'static str,
}

const RELAYS: [Relay; 1] =
    [Relay { asks: "tsserver/request", command: "typescript.tsserverRequest", answers: "tsserver/response" }];

/// `[[id, command, arguments]]`: the id, and what follows it as a list.
fn read(params: &[u8]) -> Option<(Bytes, Vec<u8>)> {
    let call = &params[elements(params).next()?];
    let mut parts = elements(call);
    let id = Bytes::copy_from_slice(&call[parts.next()?]);
    let arguments = match parts.next() {
        Some(first) => call[first.start..].strip_suffix(b"]")?,
        None => b"",
    };
    Some((id, [b"[".as_slice(), arguments, b"]"].concat()))
}

impl Mux {
    /// A member asks another one something. Whether it does, and that one is there.
    pub(in crate::core::mux) fn relay(&mut self, process: ProcessId, frame: &Frame) -> bool {
        let Some(group) = self.group.as_deref().filter(|_| frame.kind() == Kind::Notification) else {
            return false;
        };
        let Some(relay) = RELAYS.iter().find(|it| Some(it.asks) == frame.method()) else { return false };
        let Some((server, own)) = group.command(relay.command) else { return false };
        let Some((id, arguments)) = frame.params().and_then(read) else { return false };
        let params = Patch::of(b"{}")
            .set("arguments", &arguments)
            .set("command", RawId::text(&own).as_bytes())
            .finish();
        let asked = Frame::request(RawId::from(0), "workspace/executeCommand", Some(&params));
        let purpose = Purpose::Relay { asker: process, answers: relay.answers, id };
        let primary = self.servers.get(server).primary;
        self.send_to_backend(primary, Owner::Proxy, purpose, &asked);
        true
    }

    /// The other member has answered.
    pub(in crate::core::mux) fn on_relayed(&mut self, pending: &Pending, answer: &Frame) {
        let Purpose::Relay { asker, answers, id } = &pending.purpose else { return };
        let result = answer.result().unwrap_or(b"null");
        let body = member(result, "body").map_or(&b"null"[..], |it| &result[it]);
        self.tell_asker(*asker, answers, id, body);
    }

    /// The other member will not answer.
    pub(in crate::core::mux) fn fail_relayed(&mut self, purpose: &Purpose) {
        if let Purpose::Relay { asker, answers, id } = purpose {
            self.tell_asker(*asker, answers, id, b"null");
        }
    }

    fn tell_asker(&mut self, asker: ProcessId, method: &str, id: &[u8], body: &[u8]) {
        if self.is_current(asker) {
            let params = [b"[[".as_slice(), id, b",", body, b"]]"].concat();
            self.tell(asker, Frame::notification(method, Some(&params)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_has_an_id_and_any_arguments() {
        let text = |params: &str| {
            let (id, arguments) = read(params.as_bytes())?;
            Some((String::from_utf8(id.to_vec()).unwrap(), String::from_utf8(arguments).unwrap()))
        };
        let some = |id: &str, arguments: &str| Some((id.to_owned(), arguments.to_owned()));
        assert_eq!(text(r#"[[7,"c",{"a":[1]}]]"#), some("7", r#"["c",{"a":[1]}]"#));
        assert_eq!(text(r#"[["x"]]"#), some(r#""x""#, "[]"));
        for it in ["[]", "{}", "[1]", "null", "[[]]"] {
            assert_eq!(text(it), None, "{it}");
        }
    }
}
