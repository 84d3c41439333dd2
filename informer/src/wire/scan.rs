//! Finds the end of a JSON value while its bytes arrive. Only brackets and strings are parsed:
//! whether the value is valid JSON is found by the code that decodes it.

use super::blocks::{BLOCK, Brackets};
use super::space::is_space;

/// A scan of one value, which may arrive in pieces.
#[derive(Default)]
pub(super) struct Scan {
    /// The value. `None` before its first byte.
    value: Option<ValueScan>,
}

/// A scan of the rest of a value.
enum ValueScan {
    /// A number, `true`, `false` or `null`.
    Bare,
    Delimited(DelimitedScan),
}

/// A scan of the rest of a string, array or object.
struct DelimitedScan {
    /// The number of open brackets. 0 in a string that is the whole value.
    depth: usize,
    at: ScanPosition,
}

/// The position of a scan.
#[derive(Clone, Copy)]
enum ScanPosition {
    /// In a string.
    String,
    /// After a backslash in a string.
    Escaped,
    /// Outside strings, within brackets.
    Inside,
}

impl Scan {
    /// Scans the next bytes of the value. If the value ends within these bytes, returns how many
    /// of them belong to it, and otherwise `None`. A number, `true`, `false` or `null` ends before
    /// the byte that follows it.
    pub(super) fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        let (value, rest) = if let Some(value) = &mut self.value {
            (value, bytes)
        } else {
            let (first, rest) = bytes.split_first()?;
            let Some(value) = ValueScan::after(*first) else { return Some(0) };
            (self.value.insert(value), rest)
        };
        let end = match value {
            ValueScan::Bare => rest.iter().position(|byte| ends_bare(*byte)),
            ValueScan::Delimited(scan) => scan.end(rest),
        };
        end.map(|end| bytes.len() - rest.len() + end)
    }
}

impl ValueScan {
    /// Begins a scan after the first byte of a value. Returns `None` if no value starts with it.
    fn after(first: u8) -> Option<Self> {
        let (depth, at) = match first {
            b',' | b':' | b'}' | b']' => return None,
            b'"' => (0, ScanPosition::String),
            b'{' | b'[' => (1, ScanPosition::Inside),
            _ => return Some(Self::Bare),
        };
        Some(Self::Delimited(DelimitedScan { depth, at }))
    }
}

/// Returns whether a byte is the first one after a number, `true`, `false` or `null`.
fn ends_bare(byte: u8) -> bool {
    matches!(byte, b',' | b'}' | b']') || is_space(byte)
}

impl DelimitedScan {
    fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut rest = bytes;
        while self.depth > 0
            && let Some((block, after)) = rest.split_first_chunk()
        {
            if let Some(end) = self.end_in_block(block) {
                return Some(bytes.len() - rest.len() + end);
            }
            rest = after;
        }
        Some(bytes.len() - rest.len() + self.end_by_bytes(rest)?)
    }

    /// Scans a block within brackets.
    #[inline]
    fn end_in_block(&mut self, block: &[u8; BLOCK]) -> Option<usize> {
        let (in_string, escaped) = match self.at {
            ScanPosition::String => (true, false),
            ScanPosition::Escaped => (true, true),
            ScanPosition::Inside => (false, false),
        };
        let Some(brackets) = Brackets::of(block, in_string, escaped) else {
            return self.end_by_bytes(block);
        };
        if let Some(end) = brackets.end(self.depth) {
            return Some(end);
        }
        self.depth = self.depth + brackets.opened() - brackets.closed();
        self.at = match (brackets.ends_in_string, brackets.ends_escaped) {
            (true, true) => ScanPosition::Escaped,
            (true, false) => ScanPosition::String,
            (false, _) => ScanPosition::Inside,
        };
        None
    }

    /// Scans bytes that are too few for a block, are not within brackets, or have a backslash
    /// outside strings.
    fn end_by_bytes(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut next = 0;
        while let Some(&byte) = bytes.get(next) {
            next += 1;
            self.at = match (self.at, byte) {
                (ScanPosition::String, b'"') if self.depth == 0 => return Some(next),
                (ScanPosition::String, b'"') => ScanPosition::Inside,
                (ScanPosition::String, b'\\') => ScanPosition::Escaped,
                (ScanPosition::String, _) => {
                    // Most bytes are in strings, so search for their end at once.
                    next += memchr::memchr2(b'"', b'\\', bytes.get(next..)?)?;
                    ScanPosition::String
                }
                (ScanPosition::Escaped, _) | (ScanPosition::Inside, b'"') => ScanPosition::String,
                (ScanPosition::Inside, b'{' | b'[') => {
                    self.depth += 1;
                    ScanPosition::Inside
                }
                (ScanPosition::Inside, b'}' | b']') => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Some(next);
                    }
                    ScanPosition::Inside
                }
                (ScanPosition::Inside, _) => ScanPosition::Inside,
            };
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{BLOCK, Scan};

    fn end(pieces: &[&str]) -> Option<usize> {
        let (mut scan, mut before) = (Scan::default(), 0);
        for piece in pieces {
            if let Some(end) = scan.end(piece.as_bytes()) {
                return Some(before + end);
            }
            before += piece.len();
        }
        None
    }

    #[test]
    fn value_ends_where_its_last_bracket_closes() {
        assert_eq!(end(&[r#"{"a":[1,{"b":2}]},{"c":3}"#]), Some(17));
        assert_eq!(end(&[r#""a","b""#]), Some(3));
        assert_eq!(end(&["[[[]]]", "]"]), Some(6));
    }

    #[test]
    fn brackets_and_quotes_in_strings_are_text() {
        assert_eq!(end(&[r#"{"a":"}]\"}\\"}"#, "}"]), Some(15));
    }

    #[test]
    fn bare_word_ends_before_the_next_token() {
        assert_eq!(end(&["null]"]), Some(4));
        assert_eq!(end(&["12 }"]), Some(2));
        assert_eq!(end(&["tr", "ue,"]), Some(4));
    }

    #[test]
    fn missing_value_is_empty() {
        for none in [",\"a\":1", "}", "]", ":"] {
            assert_eq!(end(&[none]), Some(0), "{none}");
        }
    }

    #[test]
    fn value_is_found_however_it_is_split() {
        let value = r#"{"k\"ey":"a\\","n":{"x":["}",{}]}}"#;
        for cut in 0..value.len() {
            let (left, right) = value.split_at(cut);
            assert_eq!(end(&[left, right, "]"]), Some(value.len()), "cut at {cut}");
            assert_eq!(end(&[left]), None, "cut at {cut}");
        }
    }

    #[test]
    fn value_is_found_wherever_its_blocks_begin() {
        for padding in 0..2 * BLOCK {
            for text in [r"\\", r#"\""#, r#"\\\""#, r"\\\\", "}", "["] {
                // The rest is longer than a block, so that a block follows each place.
                let value = format!(
                    r#"{{"{}{text}":[{{"a":"]"}},"}}"],"b":"{}"}}"#,
                    "a".repeat(padding),
                    "b".repeat(BLOCK),
                );
                assert_eq!(end(&[&value, "}]"]), Some(value.len()), "{value}");
            }
        }
    }

    /// Returns text that is mostly JSON: strings with escapes, and brackets. A backslash outside
    /// strings is rare, because the scan goes byte by byte over a block that has one.
    fn text() -> impl Strategy<Value = String> {
        let token = prop_oneof![
            100 => r#""(\\\\|\\"|[a{}\[\],]){0,60}""#,
            100 => r"[{}\[\],]",
            1 => r"\\",
        ];
        proptest::collection::vec(token, 0..20).prop_map(|tokens| tokens.concat())
    }

    proptest! {
        #[test]
        fn blocks_end_where_single_bytes_end(
            text in text(),
            cut in 0_usize..1_000,
            brackets in 1_usize..20,
        ) {
            // All open brackets are closed at the end: if a scan never ended, nothing would differ.
            let text = "[".repeat(brackets) + &text + &"]".repeat(BLOCK);
            let text = text.as_bytes();
            let mut by_bytes = Scan::default();
            let position = text.iter().position(|byte| by_bytes.end(&[*byte]).is_some());
            let expected = position.map(|position| position + 1);
            prop_assert_eq!(Scan::default().end(text), expected);
            let (left, right) = text.split_at(cut.min(text.len()));
            let mut scan = Scan::default();
            let end = scan.end(left).or_else(|| scan.end(right).map(|end| left.len() + end));
            prop_assert_eq!(end, expected);
        }
    }
}
