//! Tests 64 bytes at once. The result has one bit for each byte, the lowest for the first.

use wide::u8x16;

#[derive(Clone, Copy)]
pub(super) struct Block([u8x16; 4]);

impl Block {
    #[inline]
    pub(super) fn of(bytes: &[u8; 64]) -> Block {
        let (quarters, _) = bytes.as_chunks::<16>();
        let quarter = |n: usize| u8x16::from(quarters[n]);
        Block([quarter(0), quarter(1), quarter(2), quarter(3)])
    }

    #[inline]
    pub(super) fn equal(self, byte: u8) -> u64 {
        let wanted = u8x16::splat(byte);
        let bits = |it: u8x16| u64::from(it.simd_eq(wanted).to_bitmask());
        let [a, b, c, d] = self.0;
        bits(a) | bits(b) << 16 | bits(c) << 32 | bits(d) << 48
    }

    #[inline]
    pub(super) fn has_either(self, one: u8, other: u8) -> bool {
        let (one, other) = (u8x16::splat(one), u8x16::splat(other));
        let [a, b, c, d] = self.0.map(|it| it.simd_eq(one) | it.simd_eq(other));
        (a | b | c | d).any()
    }

    /// Sets these bits in each byte.
    #[inline]
    pub(super) fn or(self, bits: u8) -> Block {
        let bits = u8x16::splat(bits);
        let [a, b, c, d] = self.0;
        Block([a | bits, b | bits, c | bits, d | bits])
    }
}

/// Offset of the first quote or backslash.
#[inline]
pub(super) fn end_of_string(bytes: &[u8; 16]) -> Option<usize> {
    let bytes = u8x16::from(*bytes);
    let ends = bytes.simd_eq(u8x16::splat(b'"')) | bytes.simd_eq(u8x16::splat(b'\\'));
    let bits = ends.to_bitmask();
    (bits != 0).then(|| bits.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::Block;

    #[test]
    fn block_marks_each_matching_byte() {
        for at in 0..64 {
            let mut bytes = [b'x'; 64];
            bytes[at] = b'[';
            assert_eq!(Block::of(&bytes).equal(b'['), 1 << at);
            assert_eq!(Block::of(&bytes).or(0x20).equal(b'{'), 1 << at);
            assert_eq!(Block::of(&bytes).equal(b'x'), !(1 << at));
            assert!(Block::of(&bytes).has_either(b'"', b'[') && Block::of(&bytes).has_either(b'[', b'"'));
            assert!(!Block::of(&bytes).has_either(b'"', b'{'));
        }
    }
}
