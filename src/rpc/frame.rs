//! One message: its bytes, the spans of its members, and perhaps another id.
//!
//! A frame changes no byte without a request, and does not look into `params`, `result` or `error`.

use std::{fmt, ops::Range, sync::Arc};

use bytes::{Buf as _, Bytes};
use bytestring::ByteString;

use super::{
    patch::quoted,
    scan::{Envelope, LooseText, Malformed, Object, Span, scan_bytes},
};

mod id;

pub use id::RawId;
pub(crate) use id::decimal;

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A method with an id, which needs an answer.
    Request,
    /// A method without an id.
    Notification,
    /// An id with a result or an error.
    Response,
}

/// An error code of JSON-RPC or LSP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// The body is not JSON.
    ParseError,
    /// The body is not a request.
    InvalidRequest,
    /// The method is unknown.
    MethodNotFound,
    /// The parameters do not fit the method.
    InvalidParams,
    /// The receiver has an internal error.
    InternalError,
    /// `initialize` has not been answered yet.
    ServerNotInitialized,
    /// The request was valid and failed.
    RequestFailed,
    /// The server cancelled the request.
    ServerCancelled,
    /// The answer would be outdated.
    ContentModified,
    /// The client cancelled the request.
    RequestCancelled,
}

impl ErrorCode {
    /// The number on the wire.
    pub const fn code(self) -> i64 {
        match self {
            ErrorCode::ParseError => -32700,
            ErrorCode::InvalidRequest => -32600,
            ErrorCode::MethodNotFound => -32601,
            ErrorCode::InvalidParams => -32602,
            ErrorCode::InternalError => -32603,
            ErrorCode::ServerNotInitialized => -32002,
            ErrorCode::RequestFailed => -32803,
            ErrorCode::ServerCancelled => -32802,
            ErrorCode::ContentModified => -32801,
            ErrorCode::RequestCancelled => -32800,
        }
    }
}

/// A JSON-RPC message. Cheap to clone: the body is shared.
///
/// The body may share its buffer with other messages. Copy a part that is kept for long.
#[derive(Clone)]
pub struct Frame {
    /// In an `Arc`, because frames are moved and queued often.
    message: Arc<Message>,
    /// The id to send instead of the one in the body.
    id: Option<RawId>,
}

struct Message {
    /// JSON, except that strings may contain bytes that are not UTF-8.
    body: Bytes,
    envelope: Envelope,
    kind: Kind,
    /// The method, decoded once: every owner of the core looks at it. Usually a part of the body.
    method: Option<ByteString>,
}

/// U+FEFF.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

impl Frame {
    /// Checks the envelope of a body and finds the kind of the message.
    ///
    /// Accepts messages of other implementations: a notification with the id `null`, an answer with the method
    /// `null`, an answer with both members of which one is `null`, and an answer without a result, which counts as
    /// `null`.
    pub fn parse(mut body: Bytes) -> Result<Frame, Malformed> {
        // Some servers write a byte order mark, and other clients skip it.
        if body.starts_with(BYTE_ORDER_MARK) {
            body.advance(BYTE_ORDER_MARK.len());
        }
        let mut envelope = scan_bytes(&body)?;
        let Envelope { id, method, params, result: _, error: _, rewritten_method: _ } = envelope;
        let is_null = |it: Span| &body[it.range()] == b"null";
        let kind = match (method.is_absent(), id.is_absent()) {
            (false, false) if is_null(id) => {
                envelope.id = Span::default();
                Kind::Notification
            }
            (false, false) => Kind::Request,
            (false, true) => Kind::Notification,
            (true, false) => {
                envelope.decide_outcome(is_null(envelope.error));
                Kind::Response
            }
            (true, true) => return Err(Malformed { at: 0, what: "neither method nor id" }),
        };
        let has_outcome = !envelope.result.is_absent() || !envelope.error.is_absent();
        let is_incomplete = kind == Kind::Response && !has_outcome;
        // It may be a request without its method.
        if is_incomplete && !params.is_absent() && !is_null(params) {
            let at = id.range().start;
            return Err(Malformed { at, what: "neither method, result nor error beside the id" });
        }
        let frame = Frame::of(Message::new(body, envelope, kind));
        Ok(if is_incomplete { frame.with_result(b"null") } else { frame })
    }

    fn of(message: Message) -> Frame {
        Frame { message: Arc::new(message), id: None }
    }

    /// The id in a body that [`Frame::parse`] refused, if it is readable, and whether the body looks like a request.
    /// Trusts only the text before the first wrong byte of the top level.
    pub fn salvage_id(body: &[u8]) -> Option<(RawId, bool)> {
        let body = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
        let mut object = Object::open(body).ok()?;
        let mut found = None;
        let mut is_request = false;
        while let Ok(Some(entry)) = object.next() {
            is_request |= entry.key.is(body, "method") || entry.key.is(body, "params");
            if entry.key.is(body, "id") {
                if found.is_some() {
                    return None;
                }
                found = Some(RawId::from_raw(&body[entry.value])?);
            }
        }
        Some((found?, is_request))
    }

    /// The kind of the message.
    pub fn kind(&self) -> Kind {
        self.message.kind
    }

    /// The method of a request or notification, decoded, with U+FFFD for what is no Unicode.
    pub fn method(&self) -> Option<&str> {
        self.message.method.as_deref()
    }

    /// The id of a request or answer, as sent.
    pub fn id(&self) -> Option<RawId> {
        match &self.id {
            Some(id) => Some(id.clone()),
            None => self.raw(|it| it.id).map(RawId::keep),
        }
    }

    /// The raw parameters.
    pub fn params(&self) -> Option<&[u8]> {
        self.raw(|it| it.params)
    }

    /// The raw result.
    pub fn result(&self) -> Option<&[u8]> {
        self.raw(|it| it.result)
    }

    /// The raw error.
    pub fn error_value(&self) -> Option<&[u8]> {
        self.raw(|it| it.error)
    }

    /// The received body with its own id.
    pub fn body(&self) -> &Bytes {
        &self.message.body
    }

    fn raw(&self, span: fn(&Envelope) -> Span) -> Option<&[u8]> {
        let span = span(&self.message.envelope);
        if span.is_absent() { None } else { self.message.body.get(span.range()) }
    }

    /// The same message in its own buffer, for keeping it long. A large message nearly fills its buffer, and stays.
    #[must_use]
    pub fn unshared(&self) -> Frame {
        const LARGE: usize = 64 * 1024;
        let Message { body, envelope, kind, method: _ } = &*self.message;
        if body.len() >= LARGE {
            return self.clone();
        }
        let body = Bytes::copy_from_slice(body);
        let message = Message::new(body, *envelope, *kind);
        Frame { message: Arc::new(message), id: self.id.clone() }
    }

    /// The same message with another id; the body is not copied. A notification has no id and stays as it is.
    #[must_use]
    pub fn with_id(&self, id: RawId) -> Frame {
        let id = self.raw(|it| it.id).and_then(|own| (own != id.as_bytes()).then_some(id));
        Frame { id, message: self.message.clone() }
    }

    /// The same message with other parameters.
    #[must_use]
    pub fn with_params(&self, params: &[u8]) -> Frame {
        self.with_value("params", |it| &mut it.params, params)
    }

    /// The same message with another result.
    #[must_use]
    pub fn with_result(&self, result: &[u8]) -> Frame {
        self.with_value("result", |it| &mut it.result, result)
    }

    /// Length of the body as sent.
    pub fn wire_len(&self) -> usize {
        match &self.id {
            Some(id) => self.body().len() - self.message.envelope.id.range().len() + id.as_bytes().len(),
            None => self.body().len(),
        }
    }

    /// The body as sent: what precedes the id, the id, what follows it.
    pub fn parts(&self) -> [&[u8]; 3] {
        let body = self.body();
        let Range { start, end } = self.message.envelope.id.range();
        if start == end {
            return [body, &[], &[]];
        }
        let id = self.id.as_ref().map_or(&body[start..end], RawId::as_bytes);
        [&body[..start], id, &body[end..]]
    }

    /// The body as sent. Not copied if the id is its own.
    pub fn to_bytes(&self) -> Bytes {
        if self.id.is_none() { self.body().clone() } else { self.parts().concat().into() }
    }

    fn with_value(&self, key: &str, span: fn(&mut Envelope) -> &mut Span, raw: &[u8]) -> Frame {
        let Message { body, envelope, kind, method: _ } = &*self.message;
        let mut envelope = *envelope;
        let old = *span(&mut envelope);
        // A new member follows a member that each message of its kind has.
        let anchor = if envelope.method.is_absent() { envelope.id } else { envelope.method }.range().end;
        let (cut, label) = if old.is_absent() {
            (anchor..anchor, [b",", &*quoted(key), b":"].concat())
        } else {
            (old.range(), Vec::new())
        };
        let body = [&body[..cut.start], &label, raw, &body[cut.end..]].concat();
        envelope.shift(cut.end, cut.len(), label.len() + raw.len());
        let start = cut.start + label.len();
        *span(&mut envelope) = Span::of(start..start + raw.len());
        let message = Message::new(body.into(), envelope, *kind);
        Frame { message: Arc::new(message), id: self.id.clone() }
    }
}

/// Messages of lspool. Raw values must be valid JSON.
#[expect(clippy::needless_pass_by_value, reason = "an id is handed over with the message it is for")]
impl Frame {
    /// A request.
    pub fn request(id: RawId, method: &str, params: Option<&[u8]>) -> Frame {
        Builder::new(Kind::Request).id(&id).method(method).params(params).build()
    }

    /// A notification.
    pub fn notification(method: &str, params: Option<&[u8]>) -> Frame {
        Builder::new(Kind::Notification).method(method).params(params).build()
    }

    /// An answer.
    pub fn response(id: RawId, result: &[u8]) -> Frame {
        Builder::new(Kind::Response).id(&id).result(result).build()
    }

    /// An error answer.
    pub fn error(id: RawId, code: ErrorCode, message: &str, data: Option<&[u8]>) -> Frame {
        let mut error = format!("{{\"code\":{},\"message\":", code.code()).into_bytes();
        error.extend_from_slice(&quoted(message));
        if let Some(data) = data {
            error.extend_from_slice(b",\"data\":");
            error.extend_from_slice(data);
        }
        error.push(b'}');
        Builder::new(Kind::Response).id(&id).error(&error).build()
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Frame");
        if let Some(method) = self.method() {
            out.field("method", &method);
        }
        if let Some(id) = self.id() {
            out.field("id", &format_args!("{id}"));
        }
        out.field("kind", &self.kind()).field("len", &self.wire_len()).finish_non_exhaustive()
    }
}

impl Message {
    fn new(body: Bytes, envelope: Envelope, kind: Kind) -> Message {
        let method = method(&body, &envelope);
        Message { body, envelope, kind, method }
    }
}

fn method(body: &Bytes, envelope: &Envelope) -> Option<ByteString> {
    let Range { start, end } = envelope.method.range();
    if start == end {
        return None;
    }
    let as_written = || ByteString::try_from(body.slice(start + 1..end - 1)).ok();
    let plain = if envelope.rewritten_method { None } else { as_written() };
    plain.or_else(|| LooseText::of(&body[start..end]).map(|it| it.into_text().into()))
}

/// Writes a body and notes the spans of its members.
struct Builder {
    kind: Kind,
    body: Vec<u8>,
    envelope: Envelope,
}

impl Builder {
    fn new(kind: Kind) -> Builder {
        Builder { kind, body: br#"{"jsonrpc":"2.0""#.to_vec(), envelope: Envelope::default() }
    }

    fn member(&mut self, label: &str, raw: &[u8]) -> Span {
        self.body.extend_from_slice(label.as_bytes());
        let start = self.body.len();
        self.body.extend_from_slice(raw);
        Span::of(start..self.body.len())
    }

    fn id(mut self, id: &RawId) -> Builder {
        self.envelope.id = self.member(r#","id":"#, id.as_bytes());
        self
    }

    fn method(mut self, method: &str) -> Builder {
        let quoted = quoted(method);
        self.envelope.method = self.member(r#","method":"#, &quoted);
        self.envelope.rewritten_method = quoted.len() > method.len() + 2;
        self
    }

    fn params(mut self, params: Option<&[u8]>) -> Builder {
        if let Some(params) = params {
            self.envelope.params = self.member(r#","params":"#, params);
        }
        self
    }

    fn result(mut self, result: &[u8]) -> Builder {
        self.envelope.result = self.member(r#","result":"#, result);
        self
    }

    fn error(mut self, error: &[u8]) -> Builder {
        self.envelope.error = self.member(r#","error":"#, error);
        self
    }

    fn build(mut self) -> Frame {
        self.body.push(b'}');
        let Builder { kind, body, envelope } = self;
        Frame::of(Message::new(body.into(), envelope, kind))
    }
}

#[cfg(test)]
mod tests;
