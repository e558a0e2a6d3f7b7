//! Ids that peers choose. Each kind is a type, so that no kind is taken for another.
//!
//! They are compared by meaning and written in their received form, see [`RawId`].

use std::{borrow::Cow, fmt, marker::PhantomData};

use crate::rpc::RawId;

/// An id of one kind. It is as small as a [`RawId`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id<Of> {
    raw: RawId,
    of: PhantomData<Of>,
}

/// The kind of a [`ConversationId`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum OfConversation {}

/// The kind of a [`TurnId`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum OfTurn {}

/// The kind of a [`Token`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum OfToken {}

/// The kind of a [`RequestId`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum OfRequest {}

/// The kind of a [`RegistrationId`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum OfRegistration {}

/// A conversation with a Copilot server.
pub(crate) type ConversationId = Id<OfConversation>;

/// A turn of a conversation.
pub(crate) type TurnId = Id<OfTurn>;

/// A progress token.
pub(crate) type Token = Id<OfToken>;

/// A request, by its number at the asking peer. Its number at lspool is a [`SentId`](super::purpose::SentId).
pub(crate) type RequestId = Id<OfRequest>;

/// A capability that a server has registered.
pub(crate) type RegistrationId = Id<OfRegistration>;

impl<Of> Id<Of> {
    /// `None` unless `raw` is exactly one JSON string, number or `null`.
    pub(crate) fn from_raw(raw: &[u8]) -> Option<Id<Of>> {
        RawId::from_raw(raw).map(Id::from)
    }

    /// The JSON string for `text`.
    pub(crate) fn text(text: &str) -> Id<Of> {
        RawId::text(text).into()
    }

    /// The same id for something else: a peer may give two things one name.
    pub(crate) fn cast<As>(self) -> Id<As> {
        self.raw.into()
    }

    /// The raw JSON.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.raw.as_bytes()
    }

    /// The decoded text of a string.
    pub(crate) fn as_text(&self) -> Option<Cow<'_, str>> {
        self.raw.as_text()
    }
}

impl<Of> From<RawId> for Id<Of> {
    fn from(raw: RawId) -> Id<Of> {
        Id { raw, of: PhantomData }
    }
}

impl<Of> From<Id<Of>> for RawId {
    fn from(id: Id<Of>) -> RawId {
        id.raw
    }
}

impl<Of> AsRef<RawId> for Id<Of> {
    fn as_ref(&self) -> &RawId {
        &self.raw
    }
}

impl<Of> fmt::Display for Id<Of> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

impl<Of> fmt::Debug for Id<Of> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.raw, f)
    }
}
