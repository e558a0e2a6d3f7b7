//! 64 bytes, asked at once which of them are this or that. The answer has one bit for each byte, the lowest for the
//! first.

use wide::u8x16;

#[derive(Clone, Copy)]
pub(super) struct Block([u8x16; 4]);

impl Block {
    #[inline]
    pub(super) fn of(bytes: &[u8; 64]) -> Block {
        let (quarters, _) = bytes.as_chunks::<16>();
        Block([0, 1, 2, 3].map(|n| u8x16::from(quarters[n])))
    }

    #[inline]
    pub(super) fn equal(self, byte: u8) -> u64 {
        let wanted = u8x16::splat(byte);
        let [a, b, c, d] = self.0.map(|it| u64::from(it.simd_eq(wanted).to_bitmask()));
        a | b << 16 | c << 32 | d << 48
    }

    /// With these bits set in each byte.
    #[inline]
    pub(super) fn or(self, bits: u8) -> Block {
        let bits = u8x16::splat(bits);
        Block(self.0.map(|it| it | bits))
    }
}

#[cfg(test)]
mod tests {
    use super::Block;

    #[test]
    fn each_byte_has_its_bit() {
        for at in 0..64 {
            let mut bytes = [b'x'; 64];
            bytes[at] = b'[';
            assert_eq!(Block::of(&bytes).equal(b'['), 1 << at);
            assert_eq!(Block::of(&bytes).or(0x20).equal(b'{'), 1 << at);
            assert_eq!(Block::of(&bytes).equal(b'x'), !(1 << at));
        }
    }
}
