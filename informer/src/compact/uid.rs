//! A uid in 19 bytes instead of 36.
//!
//! A UUID has 128 bits. They are stored as 19 ASCII characters of seven bits each, so that the
//! short form is a `str`, too, and two uids are equal if their short forms are equal.

use std::borrow::Cow;

/// The positions of the hyphens in the text of a UUID.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];
const LENGTH: usize = 36;
const SHORT: usize = 19;

/// Returns the short form of `uid`; `None` if `uid` is not a UUID in lower case, as an API server
/// writes it.
pub(super) fn shorten(uid: &str) -> Option<[u8; SHORT]> {
    let bits = to_bits(uid)?;
    Some(std::array::from_fn(|at| (bits >> (7 * (SHORT - 1 - at))).to_le_bytes()[0] & 0x7f))
}

/// Returns the uid that has the short form `short`.
pub(super) fn lengthen(short: &str) -> Cow<'static, str> {
    from_bits(short.bytes().fold(0, |bits, byte| bits << 7 | u128::from(byte))).into()
}

/// Returns the bits of `uid`; `None` if it has no [short form](shorten).
pub(super) fn to_bits(uid: &str) -> Option<u128> {
    if uid.len() != LENGTH {
        return None;
    }
    let mut bits = 0u128;
    for (at, byte) in uid.bytes().enumerate() {
        let digit = match byte {
            b'-' if HYPHENS.contains(&at) => continue,
            _ if HYPHENS.contains(&at) => return None,
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        bits = bits << 4 | u128::from(digit);
    }
    Some(bits)
}

/// Returns the uid with these bits.
pub(super) fn from_bits(bits: u128) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(LENGTH);
    for at in (0..32).rev() {
        if HYPHENS.contains(&text.len()) {
            text.push('-');
        }
        text.push(DIGITS[usize::from((bits >> (4 * at)).to_le_bytes()[0] & 0xf)].into());
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{lengthen, shorten};

    #[test]
    fn text_that_is_not_a_uuid_has_no_short_form() {
        for uid in [
            "",
            "085e74f4-ss4f-1586-2120-06060001000e",
            "085E74F4-004F-1586-2120-06060001000E",
            "085e74f40004f-1586-2120-06060001000e",
            "085e74f4-004f-1586-2120-06060001000e0",
            "085e74f4-004f-1586-2120-0606000100-e",
        ] {
            assert_eq!(shorten(uid), None, "{uid}");
        }
    }

    proptest! {
        #[test]
        fn uuid_comes_back(uid in "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}") {
            let short = shorten(&uid).unwrap();
            prop_assert_eq!(lengthen(std::str::from_utf8(&short).unwrap()), uid);
        }
    }
}
