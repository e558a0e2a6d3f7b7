//! The identity of this lspool, which makes its ids unique.

use std::time::Duration;

/// The process id and the start time, which are unique together on a machine.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Process id of this lspool.
    pub pid: u32,
    /// When it started, in milliseconds since 1970.
    pub started: u64,
}

/// A time in milliseconds since 1970.
pub(crate) fn millis_after(started: u64, since: Duration) -> u64 {
    started + u64::try_from(since.as_millis()).unwrap_or_default()
}

impl Identity {
    /// A number that looks random, and is the same for the same `n` in one run.
    pub(crate) fn mixed(&self, n: u64) -> u64 {
        let mix = |seed: u64| {
            let it = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            it ^ (it >> 31)
        };
        mix(self.started ^ mix(u64::from(self.pid) << 32 | n))
    }
}
