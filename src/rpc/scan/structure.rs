//! What is in a string, and what gives a text its structure, 64 bytes at once.

use super::block::Block;

/// The state between blocks.
#[derive(Default)]
pub(super) struct Strings {
    /// All ones if the block starts within a string.
    in_string: u64,
    /// One if the first byte of the block is escaped.
    escaped: u64,
}

impl Strings {
    /// The bytes in strings, with their opening quotes. `None`: all are in the middle of a string.
    #[inline]
    pub(super) fn feed(&mut self, block: Block) -> Option<u64> {
        if self.in_string & !self.escaped == u64::MAX && !block.has_either(b'"', b'\\') {
            return None;
        }
        let backslashes = block.equal(b'\\');
        let mut quotes = block.equal(b'"');
        if backslashes | self.escaped != 0 {
            quotes &= !self.escapes(backslashes);
        }
        let strings = prefix_xor(quotes) ^ self.in_string;
        self.in_string = 0u64.wrapping_sub(strings >> 63);
        Some(strings)
    }

    /// Bytes that follow an odd number of backslashes (those in a run of backslashes do not matter).
    fn escapes(&mut self, backslashes: u64) -> u64 {
        const EVEN: u64 = 0x5555_5555_5555_5555;
        // A backslash that is itself escaped escapes nothing.
        let runs = backslashes & !self.escaped;
        let starts = runs & !(runs << 1);
        // Adding its first bit to a run of ones leaves a single one just behind it.
        let behind_even = runs.wrapping_add(starts & EVEN) & !runs;
        let (behind_odd, beyond) = runs.overflowing_add(starts & !EVEN);
        let escaped = (behind_even & !EVEN) | (behind_odd & !runs & EVEN) | self.escaped;
        self.escaped = u64::from(beyond);
        escaped
    }
}

/// Sets bit n if the number of set bits up to and including n is odd.
fn prefix_xor(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

/// Finds brackets and colons outside strings, in their order.
pub(crate) struct Structure<'a> {
    text: &'a [u8],
    strings: Strings,
    /// Where the block after the last one begins.
    next: usize,
    /// The marks of the last block that have not been returned.
    bits: u64,
}

impl<'a> Structure<'a> {
    pub(crate) fn of(text: &'a [u8]) -> Structure<'a> {
        Structure { text, strings: Strings::default(), next: 0, bits: 0 }
    }

    /// The next mark before `end`, with its offset.
    #[inline]
    pub(crate) fn next_before(&mut self, end: usize) -> Option<(u8, usize)> {
        while self.bits == 0 {
            if self.next >= end.min(self.text.len()) {
                return None;
            }
            self.read_block();
        }
        let at = self.next - 64 + self.bits.trailing_zeros() as usize;
        (at < end).then(|| {
            self.bits &= self.bits - 1;
            (self.text[at], at)
        })
    }

    fn read_block(&mut self) {
        let rest = &self.text[self.next..];
        let block = rest.first_chunk().copied().unwrap_or_else(|| {
            let mut block = [b' '; 64];
            block[..rest.len()].copy_from_slice(rest);
            block
        });
        let block = Block::of(&block);
        self.next += 64;
        let Some(strings) = self.strings.feed(block) else { return };
        // Square brackets and braces differ in one bit.
        let braces = block.or(0x20);
        self.bits = (braces.equal(b'{') | braces.equal(b'}') | block.equal(b':')) & !strings;
    }
}
