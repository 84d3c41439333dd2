//! Resource versions in the form in which the engine compares them to find unchanged objects.

/// A resource version, as a number or as text. A version in the form that Kubernetes writes (at
/// most 16 decimal digits, the first of which is not 0) is a number, for which a slot has room. Any
/// other version is compared byte by byte. Two different texts never have the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version<'a> {
    /// A version in the form that Kubernetes writes. The number is never 0.
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
        // In one pass, because a relist parses the version of every listed object.
        text.iter().try_fold(0, |number, byte| {
            let digit = byte.wrapping_sub(b'0');
            (digit < 10).then(|| number * 10 + u64::from(digit))
        })
    }

    /// Returns whether the version is empty, which means unknown.
    pub(crate) fn is_empty(self) -> bool {
        self == Self::Text(b"")
    }

    /// Returns the number, or 0 for a text.
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
    fn only_versions_in_kubernetes_form_are_numbers() {
        for (text, number) in [("1", 1), ("70", 70), ("9999999999999999", 9_999_999_999_999_999)] {
            assert_eq!(Version::of(text.as_bytes()), Version::Number(number), "{text}");
        }
        for text in ["", "0", "07", "7a", "-1", " 1", "10000000000000000", "é"] {
            assert_eq!(Version::of(text.as_bytes()), Version::Text(text.as_bytes()), "{text:?}");
        }
    }
}
