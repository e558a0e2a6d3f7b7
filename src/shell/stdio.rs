//! Streams of any kind: lspool's stdin and stdout, those of a process, and connections.

use tokio::io::{AsyncRead, AsyncWrite};

pub use super::os::streams::{Modes, Stdio, open};

/// A stream that is read.
pub type Input = Box<dyn AsyncRead + Unpin>;
/// A stream that is written.
pub type Output = Box<dyn AsyncWrite + Unpin>;
