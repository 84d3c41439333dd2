//! The hash FNV-1a with 64 bits. It is easy to write in every language, and is used for values
//! that this crate and the peer in Go (`peers/client-go`) must compute alike.

/// An unfinished hash.
#[derive(Clone, Copy)]
pub struct Fnv(u64);

impl Fnv {
    /// Returns the hash of the empty text.
    pub fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Continues the hash with a text.
    pub fn text(self, text: &str) -> Self {
        Self(
            text.bytes()
                .fold(self.0, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)),
        )
    }

    /// Returns the hash of all texts so far.
    pub fn value(self) -> u64 {
        self.0
    }
}
