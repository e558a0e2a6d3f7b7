//! Requests that fail inside lspool: one mapping from cause to error code, message and data.

use serde_json::{Value, json};

use crate::{
    core::ids::RequestId,
    rpc::{ErrorCode, Frame, RawId, text},
    util::redact::redact,
};

/// What a server says went wrong, where it becomes a text of lspool's: in its log, in a status, in front of the
/// user. Without secrets, such as the password of a proxy. The answer itself is passed on as it is.
pub(crate) fn reason(answer: &Frame) -> String {
    let error = answer.error_value().unwrap_or_default();
    let said = text(error, &["message"]).unwrap_or_else(|| String::from_utf8_lossy(error).into_owned());
    redact(&said).into_owned()
}

/// Why a request got no answer from a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The process exited or was ended by a signal.
    Crashed,
    /// Its stream broke, or it takes no bytes, or it says nothing: lspool has ended it.
    Transport,
    /// The process could not be started, or has failed too often.
    Unavailable,
    /// The process has crashed repeatedly, and the next one is started only after a while.
    Restarting,
    /// The process was stopped because somebody said so.
    NotStarted,
    /// The process did not finish its start in time.
    InitTimeout,
    /// A request could not be understood.
    Malformed,
    /// The answer to a request could not be understood.
    BadAnswer,
    /// `max_processes` processes are in use.
    Limit,
    /// The asker cancelled it before it was sent on.
    Cancelled,
    /// The parameters are wrong.
    InvalidParams,
    /// What is asked about is not there.
    Unknown,
    /// lspool does not know what is asked.
    MethodNotFound,
    /// Nothing may be asked before `initialize`.
    NotInitialized,
    /// Nothing may be asked in this state, or under this id.
    InvalidRequest,
    /// A partition cannot be kept to its tool set.
    Unrestricted,
    /// There is no plan for the goal of an orchestration.
    NoPlan,
}

/// What a message was that could not be understood, as far as that could be read.
#[derive(Clone, Debug)]
pub(crate) enum MalformedMessage {
    Request(RequestId),
    /// The answer to a request of lspool's.
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

/// A request that failed here, and what its asker should know.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) cause: Cause,
    /// The partition concerned, as people read it.
    pub(crate) partition: Option<String>,
    pub(crate) message: String,
    /// Whether sending the same request again can help.
    pub(crate) retry: bool,
}

impl Failure {
    /// A failure that concerns no partition and that trying again cannot mend.
    pub(crate) fn new(cause: Cause, message: impl Into<String>) -> Failure {
        Failure { cause, partition: None, message: message.into(), retry: false }
    }

    /// Nothing can be asked yet.
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
