//! A resource version as unchanged objects are told by it.

/// A version that is written as Kubernetes writes it is compared as a number, for which a slot has room; any other, byte by
/// byte. No two texts are the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version<'a> {
    /// Never 0.
    Number(u64),
    Text(&'a [u8]),
}

impl<'a> Version<'a> {
    pub(crate) fn of(text: &'a [u8]) -> Self {
        Self::number_of(text).map_or(Self::Text(text), Self::Number)
    }

    fn number_of(text: &[u8]) -> Option<u64> {
        if !matches!(text, [b'1'..=b'9', ..]) || text.len() > 16 {
            return None;
        }
        // In one pass: a relist reads the version of everything it lists.
        text.iter().try_fold(0, |number, byte| {
            let digit = byte.wrapping_sub(b'0');
            (digit < 10).then(|| number * 10 + u64::from(digit))
        })
    }

    /// Whether it says nothing.
    pub(crate) fn is_empty(self) -> bool {
        self == Self::Text(b"")
    }

    /// The number, or 0.
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Number(number) => number,
            Self::Text(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Version;

    #[test]
    fn only_what_kubernetes_would_write_is_a_number() {
        for (text, number) in [("1", 1), ("70", 70), ("9999999999999999", 9_999_999_999_999_999)] {
            assert_eq!(Version::of(text.as_bytes()), Version::Number(number), "{text}");
        }
        for text in ["", "0", "07", "7a", "-1", " 1", "10000000000000000", "é"] {
            assert_eq!(Version::of(text.as_bytes()), Version::Text(text.as_bytes()), "{text:?}");
        }
    }
}
