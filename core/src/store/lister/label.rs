//! Kubernetes' rules for labels. A key is a name of at most 63 characters. A DNS subdomain of at
//! most 253 characters and a `/` may precede it. A value is such a name, or empty.

use crate::SelectorError;

const LONGEST_NAME: usize = 63;
const LONGEST_PREFIX: usize = 253;

/// Checks whether `key` may be the key of a label.
pub(super) fn check_key(key: &str) -> Result<(), SelectorError> {
    let faulty = |fault| Err(SelectorError::Key { key: key.to_owned(), fault });
    let (prefix, name) =
        key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    if name.contains('/') {
        return faulty("has more than one '/': write at most one, after the prefix");
    }
    match prefix {
        Some("") => {
            return faulty("starts with '/': write a prefix before it, or leave the '/' out");
        }
        Some(prefix) if prefix.len() > LONGEST_PREFIX => {
            return faulty("has a prefix of more than 253 characters: shorten it");
        }
        Some(prefix)
            if !prefix.split('.').all(|part| is_made_of(part, |byte| byte == b'-', is_lower)) =>
        {
            return faulty(
                "has a prefix that is no DNS subdomain: use lower case letters, digits, '-' and '.', each part with a \
                 letter or digit at both ends",
            );
        }
        _ => {}
    }
    match name_fault(name) {
        _ if name.is_empty() => faulty("has no name: write one, after the '/' if there is one"),
        Some(fault) => faulty(fault),
        None => Ok(()),
    }
}

/// Checks whether `value` may be the value of label `key`.
pub(super) fn check_value(key: &str, value: &str) -> Result<(), SelectorError> {
    match name_fault(value) {
        Some(fault) if !value.is_empty() => {
            Err(SelectorError::Value { key: key.to_owned(), value: value.to_owned(), fault })
        }
        _ => Ok(()),
    }
}

/// Returns the fault of `name`, the name part of a key or a value, or `None` if it has no fault.
fn name_fault(name: &str) -> Option<&'static str> {
    if name.len() > LONGEST_NAME {
        return Some("has more than 63 characters: shorten it");
    }
    (!is_made_of(name, |byte| b"-_.".contains(&byte), |byte| byte.is_ascii_alphanumeric()))
        .then_some("has other characters than letters, digits, '-', '_' and '.', or no letter or digit at both ends")
}

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Returns whether the first and the last byte of `text` satisfy `end`, and every byte between them
/// satisfies `end` or `inner`.
fn is_made_of(text: &str, inner: impl Fn(u8) -> bool, end: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|&byte| end(byte))
        && bytes.last().is_some_and(|&byte| end(byte))
        && bytes.iter().all(|&byte| end(byte) || inner(byte))
}
