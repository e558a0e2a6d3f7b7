//! JSON-RPC messages as bytes: what an envelope says, how frames are read and written, how bytes are edited.
//!
//! Nothing here parses a body into a tree. A message is passed on byte for byte but for the spans that
//! somebody asks to be replaced.

mod codec;
mod frame;
mod patch;
mod scan;
mod uri;

pub(crate) use codec::LARGE;
pub use codec::{Codec, FrameError, Incoming};
pub(crate) use frame::decimal;
pub use frame::{ErrorCode, Frame, Kind, RawId};
pub use patch::Patch;
pub(crate) use scan::{Cursor, LooseText};
pub use scan::{
    Envelope, Malformed, Span, batch, decode, elements, member, members, path, scan, spans, text, values,
};
pub use uri::{file_path, file_uri};
