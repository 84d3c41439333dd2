//! The form of DNS names.

/// Returns whether a text is a DNS label (RFC 1123).
pub(crate) fn is_label(text: &str) -> bool {
    has_form_of_label(text) && text.len() <= 63
}

/// Returns whether a text has the form of a DNS label (RFC 1123) but may be too long for one:
/// lower-case letters, digits and hyphens, with a letter or digit at each end.
pub(crate) fn has_form_of_label(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.bytes().all(is_inner) && !text.is_empty() && !text.starts_with('-') && !text.ends_with('-')
}
