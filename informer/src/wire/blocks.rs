//! Finds brackets and the ends of strings in JSON text, many bytes at a time. The method is that of
//! simdjson (Langdale and Lemire, "Parsing Gigabytes of JSON per Second", 2019).
//!
//! A mask has a bit for each byte, the lowest one for the first byte.

use wide::{i8x16, u8x16};

/// The number of bytes of a block.
pub(super) const BLOCK: usize = 64;

/// The brackets of a block that are outside strings, and the state of a scan after the block.
pub(super) struct Brackets {
    opening: u64,
    closing: u64,
    pub(super) ends_in_string: bool,
    /// Whether the last byte is a backslash that begins an escape.
    pub(super) ends_escaped: bool,
}

impl Brackets {
    /// Finds the brackets of a block. `in_string` says whether the block begins within a string,
    /// and `escaped` whether its first byte is escaped. Returns `None` if a backslash is outside
    /// strings, where JSON has none.
    #[inline]
    pub(super) fn of(block: &[u8; BLOCK], in_string: bool, escaped: bool) -> Option<Self> {
        let masks = Masks::of(block);
        let (escaped, ends_escaped) = escaped_bytes(masks.backslashes, escaped);
        let before = if in_string { u64::MAX } else { 0 };
        // The bytes of strings, each with its opening quote and without its closing one.
        let strings = parity(masks.quotes & !escaped) ^ before;
        (masks.backslashes & !strings == 0).then_some(Self {
            opening: masks.opening & !strings,
            closing: masks.closing & !strings,
            ends_in_string: strings >> (BLOCK - 1) == 1,
            ends_escaped,
        })
    }

    /// Returns the number of bytes up to and including the bracket that closes the outermost of
    /// `depth` open brackets, or `None` if the block does not have that bracket.
    #[inline]
    pub(super) fn end(&self, depth: usize) -> Option<usize> {
        if self.closed() < depth {
            return None;
        }
        let (mut closing, mut closed) = (self.closing, 0);
        while closing != 0 {
            let place = closing.trailing_zeros();
            closed += 1;
            if depth + bits(self.opening & ((1 << place) - 1)) == closed {
                return Some(place as usize + 1);
            }
            closing &= closing - 1;
        }
        None
    }

    pub(super) fn opened(&self) -> usize {
        bits(self.opening)
    }

    pub(super) fn closed(&self) -> usize {
        bits(self.closing)
    }
}

/// The masks of the bytes that decide where strings and values end.
#[derive(Default)]
struct Masks {
    quotes: u64,
    backslashes: u64,
    /// Both kinds of brackets.
    opening: u64,
    closing: u64,
}

impl Masks {
    #[inline]
    fn of(block: &[u8; BLOCK]) -> Self {
        let mut masks = Self::default();
        for (number, part) in block.as_chunks().0.iter().enumerate() {
            let part = u8x16::new(*part);
            // `[` and `{` differ in this bit alone, and so do `]` and `}`.
            let folded = part | u8x16::splat(b'[' ^ b'{');
            let mask = |part: u8x16, byte| {
                u64::from(part.simd_eq(u8x16::splat(byte)).to_bitmask()) << (16 * number)
            };
            masks.quotes |= mask(part, b'"');
            masks.backslashes |= mask(part, b'\\');
            masks.opening |= mask(folded, b'{');
            masks.closing |= mask(folded, b'}');
        }
        masks
    }
}

/// Returns the mask of the bytes that a backslash before them escapes, and whether the byte after
/// the block is escaped. A backslash that is escaped escapes nothing.
fn escaped_bytes(backslashes: u64, escaped: bool) -> (u64, bool) {
    const EVEN: u64 = 0x5555_5555_5555_5555;
    let before = u64::from(escaped);
    let backslashes = backslashes & !before;
    let after = backslashes << 1 | before;
    // In a run of backslashes, the first one escapes the byte after it, the third one does, and so
    // on. If the run begins at an even bit, the escaped bytes are at odd bits, and otherwise at
    // even bits. The sum distinguishes the runs. If a run begins at an odd bit, its first bit is
    // added to it, so all its bits become 0 and the bit after the run becomes 1. That bit is
    // carried out of the mask if the run ends the block: then the next block begins escaped.
    let odd_starts = backslashes & !EVEN & !after;
    let (sum, carry) = odd_starts.overflowing_add(backslashes);
    ((EVEN ^ (sum << 1)) & after, carry)
}

/// Returns for each bit the parity of the bits up to and including it.
fn parity(mut mask: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        mask ^= mask << shift;
    }
    mask
}

fn bits(mask: u64) -> usize {
    mask.count_ones() as usize
}

/// Returns the number of bytes before the first one that is a quote, a backslash, not ASCII or a
/// control character, or `None` if there is no such byte.
#[inline]
pub(super) fn plain_len(text: &[u8]) -> Option<usize> {
    let (parts, rest) = text.as_chunks();
    for (number, part) in parts.iter().enumerate() {
        let mask = u8x16::new(*part).simd_eq(u8x16::splat(b'"')).to_bitmask()
            | u8x16::new(*part).simd_eq(u8x16::splat(b'\\')).to_bitmask()
            // Bytes that are not ASCII are negative.
            | i8x16::new(part.map(u8::cast_signed)).simd_lt(i8x16::splat(0x20)).to_bitmask();
        if mask != 0 {
            return Some(16 * number + mask.trailing_zeros() as usize);
        }
    }
    let found = rest
        .iter()
        .position(|byte| !matches!(byte, b' '..=b'\x7f') || matches!(byte, b'"' | b'\\'))?;
    Some(16 * parts.len() + found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Brackets, plain_len};

    /// Returns the brackets of `text` and spaces behind it.
    fn brackets(text: &str, in_string: bool, escaped: bool) -> Option<Brackets> {
        let block = format!("{text:64}");
        let block = block.as_bytes().first_chunk().expect("a text of at most 64 bytes");
        Brackets::of(block, in_string, escaped)
    }

    #[test]
    fn block_begins_where_the_one_before_it_ended() {
        for (text, in_string, escaped, end) in [
            ("}", false, false, Some(1)),
            ("}\"}", true, false, Some(3)),
            ("\"}\"}", true, true, Some(4)),
            ("[{]", false, false, None),
            ("[{]}}", false, false, Some(5)),
        ] {
            let brackets = brackets(text, in_string, escaped).unwrap();
            assert_eq!(brackets.end(1), end, "{text}");
        }
    }

    #[test]
    fn block_with_a_backslash_outside_strings_is_refused() {
        assert!(brackets("\\", false, false).is_none());
        assert!(brackets("\"\\\\\"", false, false).is_some());
        assert!(brackets("\"\\\\\"\\", false, false).is_none());
    }

    proptest! {
        #[test]
        fn plain_text_ends_at_the_first_byte_that_is_not_plain(
            text in proptest::collection::vec(
                prop_oneof![40 => b' '..=b'\x7f', 1 => any::<u8>()],
                0..80,
            ),
        ) {
            let is_plain = |byte: &u8| !byte.is_ascii_control() || *byte == b'\x7f';
            let is_plain = |byte: &u8| byte.is_ascii() && is_plain(byte) && !b"\"\\".contains(byte);
            prop_assert_eq!(plain_len(&text), text.iter().position(|byte| !is_plain(byte)));
        }
    }
}
