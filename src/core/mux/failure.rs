//! Failures inside lspool: one mapping from cause to error code, message and data.

use serde_json::{Value, json};

use crate::{
    core::ids::RequestId,
    rpc::{ErrorCode, Frame, RawId, member, text},
    util::redact::redact,
};

/// The error of a server's answer, without secrets such as the password of a proxy, for the log, a status, or the
/// user. The answer itself passes unchanged.
pub(crate) fn reason(answer: &Frame) -> String {
    let error = answer.error_value().unwrap_or_default();
    let said = text(error, &["message"]).unwrap_or_else(|| String::from_utf8_lossy(error).into_owned());
    redact(&said).into_owned()
}

/// The code of an error answer.
pub(crate) fn error_code(answer: &Frame) -> Option<i64> {
    let error = answer.error_value()?;
    std::str::from_utf8(&error[member(error, "code")?]).ok()?.parse().ok()
}

/// Why a server did not answer a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The process exited or was ended by a signal.
    Crashed,
    /// Its stream broke, it read nothing, or it hung, so lspool ended it.
    Transport,
    /// The server runs elsewhere, and its engine does not get there.
    Unreachable,
    /// The process could not start, or has failed too often.
    Unavailable,
    /// The process crashed repeatedly, and the next one starts only after a while.
    Restarting,
    /// A user or lspool stopped the process.
    NotStarted,
    /// The process did not finish its start in time.
    InitTimeout,
    /// A request was unreadable.
    Malformed,
    /// The answer to a request was unreadable.
    BadAnswer,
    /// All `max_processes` processes are in use.
    Limit,
    /// The client cancelled it before a server got it.
    Cancelled,
    /// The parameters are wrong.
    InvalidParams,
    /// The subject of the request does not exist.
    Unknown,
    /// lspool does not know the method.
    MethodNotFound,
    /// Requests before `initialize` are errors.
    NotInitialized,
    /// The request is not allowed in this state, or with this id.
    InvalidRequest,
    /// lspool cannot restrict a partition to its tool set.
    Unrestricted,
    /// The orchestration has no plan.
    NoPlan,
}

/// The kind of a malformed message, as far as it is readable.
#[derive(Clone, Debug)]
pub(crate) enum MalformedMessage {
    Request(RequestId),
    /// The answer to a request of lspool.
    Answer(RawId),
    Other,
}

impl From<Option<(RawId, bool)>> for MalformedMessage {
    fn from(id: Option<(RawId, bool)>) -> MalformedMessage {
        match id {
            Some((id, true)) => MalformedMessage::Request(id.into()),
            Some((id, false)) => MalformedMessage::Answer(id),
            None => MalformedMessage::Other,
        }
    }
}

/// A request that failed in lspool, with the information for its client.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) cause: Cause,
    /// The partition, for people.
    pub(crate) partition: Option<String>,
    pub(crate) message: String,
    /// Whether the same request can succeed later.
    pub(crate) retry: bool,
}

impl Failure {
    /// A failure without a partition, for which a retry is useless.
    pub(crate) fn new(cause: Cause, message: impl Into<String>) -> Failure {
        Failure { cause, partition: None, message: message.into(), retry: false }
    }

    /// A request came before `initialize`.
    pub(crate) fn not_initialized() -> Failure {
        Failure::new(Cause::NotInitialized, "the editor has not sent initialize")
    }

    /// The error answer.
    pub(crate) fn answer(&self, id: RequestId) -> Frame {
        let (code, data) = self.code_and_data();
        Frame::error(id.into(), code, &self.message, Some(data.to_string().as_bytes()))
    }

    /// The error answer to `initialize`, in which the protocol has a place for `retry`.
    pub(crate) fn handshake_answer(&self, id: RequestId) -> Frame {
        let (code, mut data) = self.code_and_data();
        data["retry"] = self.retry.into();
        Frame::error(id.into(), code, &self.message, Some(data.to_string().as_bytes()))
    }

    fn code_and_data(&self) -> (ErrorCode, Value) {
        let (code, name) = match self.cause {
            Cause::Crashed => (ErrorCode::RequestFailed, "crashed"),
            Cause::Transport => (ErrorCode::RequestFailed, "transport"),
            Cause::Unreachable => (ErrorCode::RequestFailed, "unreachable"),
            Cause::Restarting => (ErrorCode::RequestFailed, "restarting"),
            Cause::NotStarted => (ErrorCode::RequestFailed, "not started"),
            Cause::Unavailable => (ErrorCode::RequestFailed, "unavailable"),
            Cause::InitTimeout => (ErrorCode::RequestFailed, "init timeout"),
            Cause::Malformed => (ErrorCode::InvalidRequest, "malformed"),
            Cause::BadAnswer => (ErrorCode::RequestFailed, "malformed"),
            Cause::Limit => (ErrorCode::RequestFailed, "max_processes"),
            Cause::Cancelled => (ErrorCode::RequestCancelled, "cancelled"),
            Cause::InvalidParams => (ErrorCode::InvalidParams, "invalid params"),
            Cause::Unknown => (ErrorCode::InternalError, "unknown"),
            Cause::MethodNotFound => (ErrorCode::MethodNotFound, "method not found"),
            Cause::NotInitialized => (ErrorCode::ServerNotInitialized, "not initialized"),
            Cause::InvalidRequest => (ErrorCode::InvalidRequest, "invalid request"),
            Cause::NoPlan => (ErrorCode::RequestFailed, "no plan"),
            Cause::Unrestricted => (ErrorCode::RequestFailed, "not restricted"),
        };
        (code, json!({"lspool": {"partition": self.partition, "cause": name, "retry": self.retry}}))
    }
}
