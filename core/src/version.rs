//! Resource versions that can be compared: decimal numbers of any length, as Kubernetes uses
//! them.

use std::cmp::Ordering;
use std::fmt;

/// A resource version: a decimal number of any length. Displayed without leading zeros.
///
/// ```
/// use deltafifo::ResourceVersion;
///
/// assert!(ResourceVersion::parse("9") < ResourceVersion::parse("10"));
/// assert_eq!(ResourceVersion::parse("latest"), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceVersion(Box<str>);

impl ResourceVersion {
    /// Returns the least version, which names no state.
    pub(crate) fn zero() -> Self {
        Self(Box::default())
    }

    /// Parses a version. Returns `None` if `text` is empty or contains anything but decimal
    /// digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| Self(text.trim_start_matches('0').into()))
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "0" } else { &self.0 })
    }
}

impl Ord for ResourceVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for ResourceVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::ResourceVersion;

    #[test]
    fn versions_compare_as_numbers_of_any_length() {
        let version = |text: &str| ResourceVersion::parse(text).unwrap();
        assert!(version("9") < version("10"));
        assert!(version("0") < version("1"));
        assert!(
            version("18446744073709551616") > version("18446744073709551615"),
            "more than 64 bits"
        );
        assert_eq!(version("007"), version("7"));
        assert_eq!(version("000"), version("0"));
    }

    #[test]
    fn leading_zeros_are_not_displayed() {
        let shown = |text: &str| ResourceVersion::parse(text).unwrap().to_string();
        assert_eq!(["070", "7", "000"].map(shown), ["70", "7", "0"]);
    }

    #[test]
    fn text_with_other_characters_than_digits_is_rejected() {
        for text in ["", "-1", "+1", "1.0", " 1", "1a", "٣"] {
            assert_eq!(ResourceVersion::parse(text), None, "{text:?}");
        }
    }
}
