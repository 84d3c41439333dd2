//! Cuts values out of a text before it is packed. They are values that similar objects do not
//! share: the object's own name, uid and version, which its header also has, and ids and times.
//!
//! zstd cannot match such values, and needs two thirds of their length or more. Here, besides a
//! mark of one or two bytes, a time takes 4 bytes instead of 20, a uid 16 instead of 36, the id of
//! a container 32 instead of 64, and a value of the header none. Fewer literals are also faster to
//! pack. The mark begins with a control character, which JSON never contains, at the place of the
//! value. An id or time that the base also has stays in the text, since a match takes less. A
//! digest (`sha256:…`) stays, too, because the base or the dictionary is likely to have it.

use std::borrow::Cow;
use std::ops::{Deref, Range};
use std::sync::OnceLock;

use super::bytes::Reader;
use super::codec::CodecError;
use super::fields::{Fields, Text};
use super::sketch::hash;
use super::uid::{from_bits, to_bits};

/// The mark of a time. The value takes 4 bytes.
const TIME: u8 = 1;
/// The mark of 64 hexadecimal digits, such as the id of a container. The value takes 32 bytes.
const ID: u8 = 2;
/// The mark of any other value. The first byte of the value says what it is: the index of a value
/// of the header, [`UUID`] with 16 bytes more, or [`EARLIER`] with the number of an equal value
/// that was cut out earlier.
const OTHER: u8 = 3;
/// The first byte for a uid that is not the uid in the header: see [`OTHER`].
const UUID: u8 = 3;
/// The first byte for a value that equals an earlier one: see [`OTHER`].
const EARLIER: u8 = 4;

/// The largest number of values that are cut out of a text. Each is compared with all earlier ones,
/// so later values stay in the text.
const MOST_VALUES: usize = 256;

const TIME_LENGTH: usize = 20;
const ID_LENGTH: usize = 64;
const UUID_LENGTH: usize = 36;

/// A text, and those of its values that need not be stored, because the header has them.
pub(super) struct Document<'a> {
    pub(super) text: &'a [u8],
    own: Own<'a>,
}

/// The name, uid and version of an object. A missing one is empty.
#[derive(Default)]
pub(super) struct Own<'a>([Cow<'a, str>; 3]);

/// The text of a base. Other texts are cut and packed against it.
pub(super) struct BaseText {
    text: Box<[u8]>,
    /// Hashes of the values that occur in the text, in ascending order. They are needed only to
    /// pack, not to unpack.
    values: OnceLock<Box<[u64]>>,
}

/// A text without its values, and the values in binary.
pub(super) struct Cut {
    pub(super) text: Vec<u8>,
    pub(super) values: Vec<u8>,
}

enum Value {
    Own(u8),
    Time([u8; 4]),
    Id([u8; 32]),
    Uuid([u8; 16]),
}

impl<'a> Own<'a> {
    pub(super) fn new(name: Option<&'a str>, uid: Cow<'a, str>, version: Option<&'a str>) -> Self {
        Self([name.unwrap_or_default().into(), uid, version.unwrap_or_default().into()])
    }

    /// Returns the index of the value in the header that equals `text`, or `None` if there is none.
    fn number(&self, text: &[u8]) -> Option<u8> {
        let at = self.0.iter().position(|own| !own.is_empty() && own.as_bytes() == text)?;
        u8::try_from(at).ok()
    }
}

impl<'a> Document<'a> {
    /// Creates the document of a text whose header has the values `own`.
    pub(super) fn new(text: &'a [u8], own: Own<'a>) -> Self {
        Self { text, own }
    }

    pub(super) fn with_fields(text: &'a [u8], fields: &'a Fields) -> Self {
        let value = |text: &'a Option<Text<'a>>| text.as_ref().map(|Text(text)| &**text);
        let uid = value(&fields.uid).unwrap_or_default().into();
        Self::new(text, Own::new(value(&fields.name), uid, value(&fields.resource_version)))
    }

    /// Creates the document of a text without a header.
    pub(super) fn plain(text: &'a [u8]) -> Self {
        Self::new(text, Own::default())
    }

    /// Cuts out the values of the header, and those ids and times that `base` does not have.
    pub(super) fn cut(&self, base: Option<&BaseText>) -> Cut {
        let text = self.text;
        let mut cut = Cut { text: Vec::with_capacity(text.len()), values: Vec::with_capacity(256) };
        let mut taken: Vec<Range<usize>> = Vec::with_capacity(16);
        let mut kept = 0;
        for (value, range) in self.values().take(MOST_VALUES) {
            let is_in_base = || base.is_some_and(|base| base.has(&text[range.clone()]));
            if !matches!(value, Value::Own(_)) && is_in_base() {
                continue;
            }
            cut.text.extend_from_slice(&text[kept..range.start]);
            kept = range.end;
            let earlier = taken.iter().position(|one| text[one.clone()] == text[range.clone()]);
            match (value, earlier.and_then(|at| u8::try_from(at).ok())) {
                (Value::Own(number), _) => cut.put(OTHER, &[number]),
                (_, Some(at)) => cut.put(OTHER, &[EARLIER, at]),
                (Value::Time(bytes), _) => cut.put(TIME, &bytes),
                (Value::Id(bytes), _) => cut.put(ID, &bytes),
                (Value::Uuid(bytes), _) => {
                    cut.put(OTHER, &[UUID]);
                    cut.values.extend_from_slice(&bytes);
                }
            }
            taken.push(range);
        }
        cut.text.extend_from_slice(&text[kept..]);
        cut
    }

    /// Returns the values of the text with their places, in order.
    fn values(&self) -> impl Iterator<Item = (Value, Range<usize>)> {
        let mut open = 0;
        // Each value is a whole string, or the end of one.
        memchr::memchr_iter(b'"', self.text).filter_map(move |quote| {
            let from = std::mem::replace(&mut open, quote + 1);
            let (value, length) = self.value(&self.text[from..quote])?;
            Some((value, quote - length..quote))
        })
    }

    /// Returns the value that `string`, which is the text between two quotes, is or ends with, and
    /// the length of the value in the text. Returns `None` if there is no such value.
    fn value(&self, string: &[u8]) -> Option<(Value, usize)> {
        if let Some(number) = self.own.number(string) {
            return Some((Value::Own(number), string.len()));
        }
        let last = *string.last()?;
        if last == b'Z' && string.len() == TIME_LENGTH {
            return Some((Value::Time(time(string.try_into().ok()?)?), TIME_LENGTH));
        }
        if !last.is_ascii_hexdigit() {
            return None;
        }
        if string.len() == UUID_LENGTH {
            let bits = to_bits(std::str::from_utf8(string).ok()?)?;
            return Some((Value::Uuid(bits.to_le_bytes()), UUID_LENGTH));
        }
        let (before, digits) = string.split_at_checked(string.len().checked_sub(ID_LENGTH)?)?;
        (before.last() != Some(&b':')).then_some(())?;
        Some((Value::Id(id(digits)?), ID_LENGTH))
    }
}

impl BaseText {
    pub(super) fn new(text: impl Into<Box<[u8]>>) -> Self {
        Self { text: text.into(), values: OnceLock::new() }
    }

    /// Returns whether the text has `value`. The result may be wrongly true if hashes collide; the
    /// value then stays in the text that is cut, and is packed less well.
    fn has(&self, value: &[u8]) -> bool {
        let values = self.values.get_or_init(|| {
            let document = Document::plain(self);
            let values = document.values().take(MOST_VALUES);
            let mut hashes: Vec<_> = values.map(|(_, range)| hash(&self[range])).collect();
            hashes.sort_unstable();
            hashes.into()
        });
        values.binary_search(&hash(value)).is_ok()
    }
}

impl Deref for BaseText {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.text
    }
}

impl Cut {
    fn put(&mut self, mark: u8, value: &[u8]) {
        self.text.push(mark);
        self.values.extend_from_slice(value);
    }
}

/// Returns the text of `length` bytes that was cut into `text` and `values`. Stops at the first
/// value that makes the text longer, so that damaged values cannot make it grow without a bound.
pub(super) fn join(
    text: &[u8],
    values: &[u8],
    own: &Own,
    length: usize,
) -> Result<Vec<u8>, CodecError> {
    let mut out = Vec::with_capacity(length);
    let mut values = Reader(values);
    let mut put: Vec<Range<usize>> = Vec::new();
    let mut kept = 0;
    for mark in memchr::memchr3_iter(TIME, ID, OTHER, text) {
        out.extend_from_slice(&text[kept..mark]);
        kept = mark + 1;
        let from = out.len();
        let is_done = match text[mark] {
            TIME => put_time(&mut out, values.take(4)),
            ID => put_id(&mut out, values.take(32)),
            _ => match values.take(1) {
                [UUID] => put_uuid(&mut out, values.take(16)),
                [EARLIER] => put_earlier(&mut out, values.take(1), &put),
                [number] => put_own(&mut out, *number, own),
                _ => None,
            },
        };
        if is_done.is_none() || out.len() > length {
            return Err(CodecError::Values);
        }
        put.push(from..out.len());
    }
    out.extend_from_slice(&text[kept..]);
    if out.len() == length {
        Ok(out)
    } else {
        Err(CodecError::Length { expected: length, found: out.len() })
    }
}

fn put_own(out: &mut Vec<u8>, number: u8, own: &Own) -> Option<()> {
    out.extend_from_slice(own.0.get(usize::from(number))?.as_bytes());
    Some(())
}

fn put_earlier(out: &mut Vec<u8>, number: &[u8], put: &[Range<usize>]) -> Option<()> {
    let range = put.get(usize::from(*number.first()?))?;
    out.extend_from_within(range.clone());
    Some(())
}

fn put_uuid(out: &mut Vec<u8>, bytes: &[u8]) -> Option<()> {
    let bits = u128::from_le_bytes(bytes.try_into().ok()?);
    out.extend_from_slice(from_bits(bits).as_bytes());
    Some(())
}

fn put_id(out: &mut Vec<u8>, bytes: &[u8]) -> Option<()> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let bytes: &[u8; 32] = bytes.try_into().ok()?;
    let digits = |byte: &u8| [byte >> 4, byte & 0xf].map(|digit| DIGITS[usize::from(digit)]);
    out.extend(bytes.iter().flat_map(digits));
    Some(())
}

/// Returns 64 hexadecimal digits as bytes, or `None` if one of them is not a digit in lower case.
fn id(digits: &[u8]) -> Option<[u8; 32]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

/// The first two digits of a time that can be cut out, such as `2026-01-02T03:04:05Z`. Six parts of
/// two digits each follow, from the year to the second.
const CENTURY: &[u8] = b"20";
/// The character that follows each of the six parts of a time.
const BEHIND: &[u8; 6] = b"--T::Z";
/// The number of bits in which each of the six parts of a time is stored. A year beyond 2063 does
/// not fit, so such a time stays in the text.
const BITS: [u32; 6] = [6, 4, 5, 5, 6, 6];

/// Returns a time such as `2026-01-02T03:04:05Z` in 32 bits: six numbers of two digits each.
/// Returns `None` if the text is not such a time, or a number does not fit into its [`BITS`].
fn time(text: &[u8; TIME_LENGTH]) -> Option<[u8; 4]> {
    let parts = text.strip_prefix(CENTURY)?;
    let mut bits = 0;
    for ((part, behind), size) in parts.chunks_exact(3).zip(BEHIND).zip(BITS) {
        let digits = [part[0], part[1]];
        if part[2] != *behind || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let number = u32::from(digits[0] - b'0') * 10 + u32::from(digits[1] - b'0');
        (number < 1 << size).then_some(())?;
        bits = bits << size | number;
    }
    Some(bits.to_le_bytes())
}

fn put_time(out: &mut Vec<u8>, bytes: &[u8]) -> Option<()> {
    let mut left = 32;
    let bits = u32::from_le_bytes(bytes.try_into().ok()?);
    out.extend_from_slice(CENTURY);
    for (size, behind) in BITS.into_iter().zip(BEHIND) {
        left -= size;
        let number = (bits >> left & ((1 << size) - 1)).to_le_bytes()[0];
        out.extend_from_slice(&[b'0' + number / 10, b'0' + number % 10, *behind]);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{BaseText, Document, MOST_VALUES, Own, join};

    fn own() -> Own<'static> {
        Own::new(Some("web-0"), "085e74f4-004f-1586-2120-06060001000e".into(), Some("7654321"))
    }

    /// Returns the size of the values and the size of the text without them, in bytes.
    fn sizes(text: &str, base: Option<&str>) -> (usize, usize) {
        let base = base.map(|base| BaseText::new(base.as_bytes()));
        let cut = Document::new(text.as_bytes(), own()).cut(base.as_ref());
        let joined = join(&cut.text, &cut.values, &own(), text.len()).unwrap();
        assert_eq!(String::from_utf8(joined).unwrap(), text);
        (cut.values.len(), cut.text.len())
    }

    #[test]
    fn each_kind_of_value_is_cut_out() {
        let digits = "0123456789abcdef".repeat(4);
        for (string, values, text) in [
            ("web-0".to_owned(), 1, 1),
            ("7654321".to_owned(), 1, 1),
            ("085e74f4-004f-1586-2120-06060001000e".to_owned(), 1, 1),
            ("185e74f4-004f-1586-2120-06060001000e".to_owned(), 17, 1),
            ("2026-11-25T19:58:07Z".to_owned(), 4, 1),
            (format!("containerd://{digits}"), 32, 14),
            (digits.clone(), 32, 1),
        ] {
            assert_eq!(sizes(&format!(r#""{string}""#), None), (values, text + 2), "{string}");
        }
        for string in [
            "web-00".to_owned(),
            "2064-11-25T19:58:07Z".to_owned(),
            "2026-11-25 19:58:07Z".to_owned(),
            "2026-11-25T19:58:64Z".to_owned(),
            "2026-1a-25T19:58:07Z".to_owned(),
            "185E74F4-004F-1586-2120-06060001000E".to_owned(),
            format!("sha256:{digits}"),
            digits.to_uppercase(),
            digits[1..].to_owned(),
        ] {
            assert_eq!(sizes(&format!(r#""{string}""#), None), (0, string.len() + 2), "{string}");
        }
    }

    #[test]
    fn repeated_value_is_stored_once_and_one_of_the_base_stays() {
        let text = r#"["2026-11-25T19:58:07Z","2026-11-25T19:58:07Z"]"#;
        assert_eq!(sizes(text, None), (4 + 2, text.len() - 38));
        assert_eq!(sizes(text, Some(r#"{"a":"2026-11-25T19:58:07Z"}"#)), (0, text.len()));
        assert_eq!(sizes(r#""web-0""#, Some(r#""web-0""#)), (1, 3), "the header has it too");
    }

    #[test]
    fn values_beyond_the_limit_stay_in_the_text() {
        let times = |count: usize| {
            let time =
                |at| format!("\"2026-11-25T{:02}:{:02}:{:02}Z\"", at / 3600, at / 60 % 60, at % 60);
            (0..count).map(time).collect::<String>()
        };
        let most = times(MOST_VALUES);
        assert_eq!(sizes(&most, None), (4 * MOST_VALUES, 3 * MOST_VALUES));
        let more = times(if cfg!(miri) { 1_000 } else { 40_000 });
        let (values, text) = sizes(&more, Some(&more[..100]));
        assert!(values < 4 * MOST_VALUES && text > more.len() - 20 * MOST_VALUES);
    }

    proptest! {
        #[test]
        fn any_text_without_control_characters_comes_back(
            strings in prop::collection::vec(
                prop_oneof![
                    "[ -~é]{0,70}",
                    "20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z",
                    "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
                    "[a-z:/]{0,3}[0-9a-f]{60,66}",
                    Just("web-0".to_owned()),
                ],
                0..400,
            ),
            base in "[ -~]{0,100}",
        ) {
            let text = strings.join("\"");
            sizes(&text, None);
            sizes(&text, Some(&base));
            sizes(&text, Some(&text));
        }

        #[test]
        fn damaged_text_or_values_are_an_error_or_another_text(
            text in prop::collection::vec(0u8..6, 0..40),
            values in prop::collection::vec(any::<u8>(), 0..80),
            length in 0usize..200,
        ) {
            if let Ok(joined) = join(&text, &values, &own(), length) {
                prop_assert_eq!(joined.len(), length);
            }
        }
    }
}
