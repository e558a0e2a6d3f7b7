//! FNV-1a: a number for a name in the file system, the same in every version and on every machine.

/// Hashes these bytes.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |it, byte| (it ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A text of 32 digits for these bytes: so long that no two of them meet by chance.
pub fn hashed(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |it, byte| {
        (it ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    });
    format!("#{hash:032x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv1a_matches_published_values() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
        assert_eq!(hashed(b""), "#6c62272e07bb014262b821756295c58d");
        assert_eq!(hashed(b"foobar"), "#343e1662793c64bf6f0d3597ba446f18");
    }
}
