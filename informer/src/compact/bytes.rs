//! Numbers and texts of variable length in a byte buffer.

/// Appends `number` in groups of seven bits, the lowest first.
pub(super) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// Appends the length of `bytes`, and then `bytes`.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A reader of numbers and texts that [`put_number`] and [`put_bytes`] have written. Past the end,
/// numbers are 0 and texts are empty.
#[derive(Clone, Copy, Default)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn number(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0);
        while let Some((byte, rest)) = self.0.split_first() {
            self.0 = rest;
            number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or_default();
            if *byte < 0x80 {
                break;
            }
            shift += 7;
        }
        number
    }

    pub(super) fn bytes(&mut self) -> &'a [u8] {
        let length = usize::try_from(self.number()).unwrap_or(usize::MAX);
        self.take(length)
    }

    pub(super) fn text(&mut self) -> &'a str {
        std::str::from_utf8(self.bytes()).unwrap_or_default()
    }

    /// Reads 8 bytes.
    pub(super) fn word(&mut self) -> u64 {
        self.take(8).try_into().map_or(0, u64::from_le_bytes)
    }

    /// Reads up to `length` bytes.
    pub(super) fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Reader, put_bytes, put_number};

    proptest! {
        #[test]
        fn values_are_read_as_written(number in any::<u64>(), shift in 0u32..64, text in ".{0,200}") {
            let (number, mut out) = (number >> shift, Vec::new());
            put_number(&mut out, number);
            put_bytes(&mut out, text.as_bytes());
            out.extend_from_slice(&number.to_le_bytes());
            let mut reader = Reader(&out);
            prop_assert_eq!((reader.number(), reader.text(), reader.word()), (number, &*text, number));
            prop_assert_eq!((reader.number(), reader.text(), reader.word()), (0, "", 0));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut reader = Reader(&bytes);
            let _ = (reader.number(), reader.text(), reader.word(), reader.bytes());
        }
    }
}
