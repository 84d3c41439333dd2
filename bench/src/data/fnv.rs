//! The hash FNV-1a with 64 bits. It is easy to write in every language, and is used for values
//! that this crate and the peer in Go (`peers/client-go`) must compute alike.

/// An unfinished hash.
#[derive(Clone, Copy)]
pub struct Fnv(u64);

impl Fnv {
    /// Returns the hash of the empty text.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "nothing asks for a default")]
    pub fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Continues the hash with a text.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        Self(
            text.bytes()
                .fold(self.0, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)),
        )
    }

    /// Returns the hash of all texts so far.
    #[must_use]
    pub fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Fnv;

    /// Checks hashes against published values of FNV-1a. `peers/client-go/golden.json`, against
    /// which the tests in Rust and in Go check their data, would not show an error that both
    /// implementations share.
    #[test]
    fn published_hashes_are_computed() {
        for (text, hash) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
        ] {
            assert_eq!(Fnv::new().text(text).value(), hash, "{text:?}");
        }
    }
}
