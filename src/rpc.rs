//! JSON-RPC messages as bytes: envelopes, frames, and edits.
//!
//! Parses no body into a tree. A message passes byte for byte, except for the spans that a caller replaces.

mod codec;
mod frame;
mod patch;
mod paths;
mod scan;
mod uri;

pub(crate) use codec::LARGE;
pub use codec::{Codec, FrameError, Incoming};
pub(crate) use frame::decimal;
pub use frame::{ErrorCode, Frame, Kind, RawId};
pub use patch::Patch;
pub use paths::PathPair;
pub(crate) use paths::{PathMap, conflict};
pub(crate) use scan::{Cursor, LooseText};
pub use scan::{
    Envelope, Malformed, Span, batch, decode, elements, member, members, path, scan, spans, text, values,
    without_escapes,
};
pub use uri::{file_path, file_uri};

/// What fuzz targets reach of the inside.
#[cfg(feature = "testing")]
pub mod testing {
    pub use super::paths::check::check as check_paths;
}
