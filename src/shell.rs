//! Everything that touches the world: bytes, processes, signals, time.
//!
//! Turns them into events for the core and carries out its effects. Decides nothing that the core could decide. Runs
//! in one thread. Each peer has a task that reads and one that writes; the [`driver`] alone owns the core.
//!
//! Why it cannot deadlock: lspool reads a server unless the editor's outbox is over high water. It always reads the
//! editor. Nothing else waits. The editor waits for lspool only when it writes, and lspool reads that.

mod capabilities;
mod clock;
mod coming;
pub mod control;
pub mod discover;
pub mod driver;
mod elsewhere;
mod fetches;
mod files;
mod folder;
pub mod goals;
pub mod guard;
pub mod inbox;
mod logs;
mod modes;
pub(crate) mod os;
pub mod outbox;
mod private;
pub mod process;
mod read_throttle;
mod reader;
pub mod record;
mod roots;
mod servers;
mod settings;
pub mod shared;
pub mod stdio;
pub mod system;
mod teams;
pub mod tools;
mod watch;

pub(crate) use os::signals;
pub use settings::{ControlLimits, Settings};

#[cfg(test)]
mod tests;
