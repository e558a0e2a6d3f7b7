//! One message: its bytes as they came, where its members are, and perhaps another id.
//!
//! A frame never changes a byte it was not asked to change. It does not look into `params`, `result` or `error`.

use std::{borrow::Cow, fmt, ops::Range, sync::Arc};

use bytes::Bytes;

use super::{
    patch::quoted,
    scan::{Envelope, Malformed, Object, decode, scan},
};

mod id;

pub use id::RawId;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Has a method and an id, and wants an answer.
    Request,
    /// Has a method only.
    Notification,
    /// Has an id, and a result or an error.
    Response,
}

/// Why a request fails, as a number that JSON-RPC or LSP gives a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// The body is no JSON.
    ParseError,
    /// The body is no request.
    InvalidRequest,
    /// Nobody knows the method.
    MethodNotFound,
    /// The parameters are not those of the method.
    InvalidParams,
    /// Whoever answers is at fault.
    InternalError,
    /// `initialize` has not been answered yet.
    ServerNotInitialized,
    /// The request was fine and failed.
    RequestFailed,
    /// The server gave up, the client did not ask it to.
    ServerCancelled,
    /// The answer would be outdated.
    ContentModified,
    /// The client asked for it.
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
/// The body may share its buffer with messages that came with it, so who keeps a part for long copies it.
#[derive(Clone)]
pub struct Frame {
    body: Bytes,
    spans: Spans,
    kind: Kind,
    /// Sent instead of the id in the body.
    id: Option<RawId>,
    /// The method, if the body writes it with escapes.
    decoded: Option<Arc<str>>,
}

impl Frame {
    /// Checks the envelope of a body and says what the message is.
    pub fn parse(body: Bytes) -> Result<Frame, Malformed> {
        let envelope = scan(&body)?;
        let spans = Spans::of(&envelope);
        let kind = match (&envelope.method, &envelope.id) {
            (Some(_), Some(id)) if body[id.start] == b'n' => {
                return Err(Malformed { at: id.start, what: "request with null id" });
            }
            (Some(_), Some(_)) => Kind::Request,
            (Some(_), None) => Kind::Notification,
            (None, Some(_)) if envelope.result.is_some() || envelope.error.is_some() => Kind::Response,
            (None, Some(id)) => {
                return Err(Malformed {
                    at: id.start,
                    what: "neither method, result nor error beside the id",
                });
            }
            (None, None) => return Err(Malformed { at: 0, what: "neither method nor id" }),
        };
        let decoded = decoded(&body, spans.method);
        Ok(Frame { body, spans, kind, id: None, decoded })
    }

    /// The id in a body that [`Frame::parse`] refused, if it can be read anyway, and whether the body seems to be
    /// a request. Only what precedes the first wrong byte of the top level is trusted.
    pub fn salvage_id(body: &[u8]) -> Option<(RawId, bool)> {
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

    /// What the message is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The method of a request or notification, decoded.
    pub fn method(&self) -> Option<&str> {
        if let Some(decoded) = &self.decoded {
            return Some(decoded);
        }
        let quoted = self.spans.method.get(&self.body)?;
        std::str::from_utf8(&quoted[1..quoted.len() - 1]).ok()
    }

    /// The id of a request or answer, as it will be sent.
    pub fn id(&self) -> Option<RawId> {
        match &self.id {
            Some(id) => Some(id.clone()),
            None => self.spans.id.get(&self.body).map(RawId::keep),
        }
    }

    /// The raw parameters.
    pub fn params(&self) -> Option<&[u8]> {
        self.spans.params.get(&self.body)
    }

    /// The raw result.
    pub fn result(&self) -> Option<&[u8]> {
        self.spans.result.get(&self.body)
    }

    /// The raw error.
    pub fn error_value(&self) -> Option<&[u8]> {
        self.spans.error.get(&self.body)
    }

    /// The body as it came, with the id it came with.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The same message, for whoever may have it for long: it keeps no other alive. A large one has its buffer nearly for
    /// itself, and stays as it is.
    #[must_use]
    pub fn unshared(&self) -> Frame {
        const LARGE: usize = 64 * 1024;
        if self.body.len() >= LARGE {
            return self.clone();
        }
        Frame { body: Bytes::copy_from_slice(&self.body), ..self.clone() }
    }

    /// The same message with another id; the body is not copied. A notification has no id and stays as it is.
    #[must_use]
    pub fn with_id(&self, id: RawId) -> Frame {
        let id = self.spans.id.get(&self.body).and_then(|own| (own != id.as_bytes()).then_some(id));
        Frame { id, ..self.clone() }
    }

    /// The same message with other parameters.
    #[must_use]
    pub fn with_params(&self, params: &[u8]) -> Frame {
        self.with_value("params", |spans| &mut spans.params, params)
    }

    /// The same message with another result.
    #[must_use]
    pub fn with_result(&self, result: &[u8]) -> Frame {
        self.with_value("result", |spans| &mut spans.result, result)
    }

    /// The same message with another method. An answer has none and stays as it is.
    #[must_use]
    pub fn with_method(&self, method: &str) -> Frame {
        if self.kind == Kind::Response {
            return self.clone();
        }
        let mut frame = self.with_value("method", |spans| &mut spans.method, &quoted(method));
        frame.decoded = decoded(&frame.body, frame.spans.method);
        frame
    }

    /// Length of the body as sent.
    pub fn wire_len(&self) -> usize {
        self.parts().iter().map(|part| part.len()).sum()
    }

    /// The body as sent: what precedes the id, the id, what follows it.
    pub fn parts(&self) -> [&[u8]; 3] {
        let Some(own) = self.spans.id.get(&self.body) else { return [&self.body, &[], &[]] };
        let id = self.id.as_ref().map_or(own, RawId::as_bytes);
        [&self.body[..self.spans.id.start], id, &self.body[self.spans.id.end..]]
    }

    /// The body as sent. Not copied if the id is still its own.
    pub fn to_bytes(&self) -> Bytes {
        if self.id.is_none() { self.body.clone() } else { self.parts().concat().into() }
    }

    fn with_value(&self, key: &str, span: fn(&mut Spans) -> &mut Span, raw: &[u8]) -> Frame {
        let mut spans = self.spans;
        let old = *span(&mut spans);
        // A new member goes behind the one that each message of its kind has.
        let anchor = if spans.method.is_absent() { spans.id.end } else { spans.method.end };
        let (cut, label) = if old.is_absent() {
            (Span { start: anchor, end: anchor }, [b",", &*quoted(key), b":"].concat())
        } else {
            (old, Vec::new())
        };
        let body = [&self.body[..cut.start], &label, raw, &self.body[cut.end..]].concat();
        spans.shift(cut.end, cut.end - cut.start, label.len() + raw.len());
        let start = cut.start + label.len();
        *span(&mut spans) = Span { start, end: start + raw.len() };
        Frame { body: body.into(), spans, ..self.clone() }
    }
}

/// Messages of our own. Raw values are trusted to be valid JSON.
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

    /// An answer that says why there is none.
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
        out.field("kind", &self.kind).field("len", &self.wire_len()).finish_non_exhaustive()
    }
}

/// [`Envelope`] without the options: frames are moved and queued a lot.
#[derive(Clone, Copy, Default)]
struct Spans {
    id: Span,
    method: Span,
    params: Span,
    result: Span,
    error: Span,
}

impl Spans {
    fn of(envelope: &Envelope) -> Spans {
        let span = |range: &Option<Range<usize>>| {
            range.as_ref().map_or(Span::default(), |it| Span { start: it.start, end: it.end })
        };
        Spans {
            id: span(&envelope.id),
            method: span(&envelope.method),
            params: span(&envelope.params),
            result: span(&envelope.result),
            error: span(&envelope.error),
        }
    }

    /// Follows an edit: `removed` bytes that ended at `at` gave way to `added` ones.
    fn shift(&mut self, at: usize, removed: usize, added: usize) {
        let Spans { id, method, params, result, error } = self;
        for span in [id, method, params, result, error] {
            if span.start >= at {
                *span = Span { start: span.start - removed + added, end: span.end - removed + added };
            }
        }
    }
}

/// No value is empty, so an empty span is that of a member that is not there.
#[derive(Clone, Copy, Default)]
struct Span {
    start: usize,
    end: usize,
}

impl Span {
    fn is_absent(self) -> bool {
        self.start == self.end
    }

    fn get(self, body: &[u8]) -> Option<&[u8]> {
        if self.is_absent() { None } else { Some(&body[self.start..self.end]) }
    }
}

/// The method, if it is there and written with escapes.
fn decoded(body: &[u8], method: Span) -> Option<Arc<str>> {
    let method = method.get(body)?;
    if !method.contains(&b'\\') {
        return None;
    }
    match decode(method) {
        Some(Cow::Owned(text)) => Some(text.into()),
        Some(Cow::Borrowed(_)) | None => None,
    }
}

/// Writes a body and notes where its members are.
struct Builder {
    kind: Kind,
    body: Vec<u8>,
    spans: Spans,
}

impl Builder {
    fn new(kind: Kind) -> Builder {
        Builder { kind, body: br#"{"jsonrpc":"2.0""#.to_vec(), spans: Spans::default() }
    }

    fn member(&mut self, label: &str, raw: &[u8]) -> Span {
        self.body.extend_from_slice(label.as_bytes());
        let start = self.body.len();
        self.body.extend_from_slice(raw);
        Span { start, end: self.body.len() }
    }

    fn id(mut self, id: &RawId) -> Builder {
        self.spans.id = self.member(r#","id":"#, id.as_bytes());
        self
    }

    fn method(mut self, method: &str) -> Builder {
        self.spans.method = self.member(r#","method":"#, &quoted(method));
        self
    }

    fn params(mut self, params: Option<&[u8]>) -> Builder {
        if let Some(params) = params {
            self.spans.params = self.member(r#","params":"#, params);
        }
        self
    }

    fn result(mut self, result: &[u8]) -> Builder {
        self.spans.result = self.member(r#","result":"#, result);
        self
    }

    fn error(mut self, error: &[u8]) -> Builder {
        self.spans.error = self.member(r#","error":"#, error);
        self
    }

    fn build(mut self) -> Frame {
        self.body.push(b'}');
        let decoded = decoded(&self.body, self.spans.method);
        Frame { body: self.body.into(), spans: self.spans, kind: self.kind, id: None, decoded }
    }
}

#[cfg(test)]
mod tests;
