//! A number by which two stores are compared: equal when they hold the same keys in the same versions.

use deltafifo::Meta;

use crate::data::with_key;

/// Sums a hash of every object's key and version. The sum does not depend on the order.
#[derive(Default)]
pub struct Digest {
    sum: u64,
    len: usize,
}

impl Digest {
    /// Takes an object in.
    pub fn add<T>(&mut self, meta: &impl Meta<T>, object: &T) {
        let hash = with_key(meta, object, |key| fnv1a(FNV_OFFSET, key.as_bytes()));
        let hash = fnv1a(fnv1a(hash, b"\0"), meta.version(object).unwrap_or_default().as_bytes());
        self.sum = self.sum.wrapping_add(hash);
        self.len += 1;
    }

    /// How many objects were taken in.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a figure, not a collection")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The sum as text, since not every reader of JSON takes 64 bits whole.
    #[must_use]
    pub fn hex(&self) -> String {
        format!("{:016x}", self.sum)
    }
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a of 64 bits, from where a hash stands.
fn fnv1a(hash: u64, text: &[u8]) -> u64 {
    text.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::{FNV_OFFSET, fnv1a};

    /// Values known from elsewhere, so that the golden file cannot be wrong as a whole.
    #[test]
    fn known_hashes() {
        for (text, hash) in
            [("", 0xcbf2_9ce4_8422_2325), ("a", 0xaf63_dc4c_8601_ec8c), ("foobar", 0x8594_4171_f739_67e8)]
        {
            assert_eq!(fnv1a(FNV_OFFSET, text.as_bytes()), hash, "{text:?}");
        }
    }
}
