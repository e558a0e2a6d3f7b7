//! One message: its bytes as they came, where its members are, and perhaps another id.
//!
//! A frame never changes a byte it was not asked to change. It does not look into `params`, `result` or `error`.

use std::{fmt, ops::Range, sync::Arc};

use bytes::Bytes;
use bytestring::ByteString;

use super::{
    patch::quoted,
    scan::{Envelope, Malformed, Object, decode, scan},
};

mod id;

pub use id::RawId;
pub(crate) use id::decimal;

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
    /// Behind a pointer, for frames are moved and queued a lot.
    message: Arc<Message>,
    /// Sent instead of the id in the body.
    id: Option<RawId>,
}

struct Message {
    body: ByteString,
    spans: Spans,
    kind: Kind,
    /// The method, if the body writes it with escapes.
    decoded: Option<Box<str>>,
}

impl Frame {
    /// Checks the envelope of a body and says what the message is.
    pub fn parse(body: Bytes) -> Result<Frame, Malformed> {
        if u32::try_from(body.len()).is_err() {
            return Err(Malformed { at: body.len(), what: "end of a message of more than 4 GiB" });
        }
        let body = ByteString::try_from(body)
            .map_err(|error| Malformed { at: error.valid_up_to(), what: "invalid UTF-8" })?;
        let envelope = scan(&body)?;
        let spans = Spans::of(&envelope);
        let kind = match (&envelope.method, &envelope.id) {
            (Some(_), Some(id)) if body.as_bytes()[id.start] == b'n' => {
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
        let decoded = if envelope.escaped_method { decoded(&body, spans.method) } else { None };
        Ok(Frame::of(Message { body, spans, kind, decoded }))
    }

    fn of(message: Message) -> Frame {
        Frame { message: Arc::new(message), id: None }
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
        self.message.kind
    }

    /// The method of a request or notification, decoded.
    pub fn method(&self) -> Option<&str> {
        let Message { body, spans, decoded, .. } = &*self.message;
        if decoded.is_some() {
            return decoded.as_deref();
        }
        let Range { start, end } = spans.method.range();
        (start < end).then(|| &body[start + 1..end - 1])
    }

    /// The id of a request or answer, as it will be sent.
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

    /// The body as it came, with the id it came with.
    pub fn body(&self) -> &Bytes {
        self.message.body.as_bytes()
    }

    fn raw(&self, span: fn(&Spans) -> Span) -> Option<&[u8]> {
        span(&self.message.spans).get(self.body())
    }

    /// The same message, for whoever may have it for long: it keeps no other alive. A large one has its buffer nearly for
    /// itself, and stays as it is.
    #[must_use]
    pub fn unshared(&self) -> Frame {
        const LARGE: usize = 64 * 1024;
        let Message { body, spans, kind, decoded } = &*self.message;
        if body.len() >= LARGE {
            return self.clone();
        }
        let body = ByteString::from(&**body);
        let message = Message { body, spans: *spans, kind: *kind, decoded: decoded.clone() };
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
        self.with_value("params", |spans| &mut spans.params, params)
    }

    /// The same message with another result.
    #[must_use]
    pub fn with_result(&self, result: &[u8]) -> Frame {
        self.with_value("result", |spans| &mut spans.result, result)
    }

    /// Length of the body as sent.
    pub fn wire_len(&self) -> usize {
        match &self.id {
            Some(id) => self.body().len() - self.message.spans.id.range().len() + id.as_bytes().len(),
            None => self.body().len(),
        }
    }

    /// The body as sent: what precedes the id, the id, what follows it.
    pub fn parts(&self) -> [&[u8]; 3] {
        let body = self.body();
        let Range { start, end } = self.message.spans.id.range();
        if start == end {
            return [body, &[], &[]];
        }
        let id = self.id.as_ref().map_or(&body[start..end], RawId::as_bytes);
        [&body[..start], id, &body[end..]]
    }

    /// The body as sent. Not copied if the id is still its own.
    pub fn to_bytes(&self) -> Bytes {
        if self.id.is_none() { self.body().clone() } else { self.parts().concat().into() }
    }

    fn with_value(&self, key: &str, span: fn(&mut Spans) -> &mut Span, raw: &[u8]) -> Frame {
        let Message { body, spans, kind, decoded } = &*self.message;
        let (body, mut spans) = (body.as_bytes(), *spans);
        let old = *span(&mut spans);
        // A new member goes behind the one that each message of its kind has.
        let anchor = if spans.method.is_absent() { spans.id } else { spans.method }.range().end;
        let (cut, label) = if old.is_absent() {
            (anchor..anchor, [b",", &*quoted(key), b":"].concat())
        } else {
            (old.range(), Vec::new())
        };
        let body = [&body[..cut.start], &label, raw, &body[cut.end..]].concat();
        spans.shift(cut.end, cut.len(), label.len() + raw.len());
        let start = cut.start + label.len();
        *span(&mut spans) = Span::of(start..start + raw.len());
        let message = Message { body: text(body), spans, kind: *kind, decoded: decoded.clone() };
        Frame { message: Arc::new(message), id: self.id.clone() }
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
        out.field("kind", &self.kind()).field("len", &self.wire_len()).finish_non_exhaustive()
    }
}

/// [`Envelope`] without the options.
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
        let span = |range: &Option<Range<usize>>| range.clone().map_or(Span::default(), Span::of);
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
            let Range { start, end } = span.range();
            if start >= at {
                *span = Span::of(start - removed + added..end - removed + added);
            }
        }
    }
}

/// No value is empty, so an empty span is that of a member that is not there. Small, for many messages may wait.
#[derive(Clone, Copy, Default)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    fn of(range: Range<usize>) -> Span {
        let small = |it| u32::try_from(it).unwrap_or(u32::MAX);
        Span { start: small(range.start), end: small(range.end) }
    }

    fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    fn is_absent(self) -> bool {
        self.start == self.end
    }

    fn get(self, body: &[u8]) -> Option<&[u8]> {
        if self.is_absent() { None } else { body.get(self.range()) }
    }
}

/// What was put together of JSON values. Spans stay right even if one of them was none.
fn text(body: Vec<u8>) -> ByteString {
    let mended =
        |body: &[u8]| body.iter().map(|it| if it.is_ascii() { char::from(*it) } else { '?' }).collect();
    String::from_utf8(body).unwrap_or_else(|it| mended(it.as_bytes())).into()
}

/// The method, which is written with escapes.
fn decoded(body: &str, method: Span) -> Option<Box<str>> {
    decode(method.get(body.as_bytes())?).map(|it| it.into_owned().into())
}

/// Writes a body and notes where its members are.
struct Builder {
    kind: Kind,
    body: Vec<u8>,
    spans: Spans,
    decoded: Option<Box<str>>,
}

impl Builder {
    fn new(kind: Kind) -> Builder {
        Builder { kind, body: br#"{"jsonrpc":"2.0""#.to_vec(), spans: Spans::default(), decoded: None }
    }

    fn member(&mut self, label: &str, raw: &[u8]) -> Span {
        self.body.extend_from_slice(label.as_bytes());
        let start = self.body.len();
        self.body.extend_from_slice(raw);
        Span::of(start..self.body.len())
    }

    fn id(mut self, id: &RawId) -> Builder {
        self.spans.id = self.member(r#","id":"#, id.as_bytes());
        self
    }

    fn method(mut self, method: &str) -> Builder {
        let quoted = quoted(method);
        self.spans.method = self.member(r#","method":"#, &quoted);
        if quoted.len() > method.len() + 2 {
            self.decoded = Some(method.into());
        }
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
        let Builder { kind, body, spans, decoded } = self;
        Frame::of(Message { body: text(body), spans, kind, decoded })
    }
}

#[cfg(test)]
mod tests;
