//! Iterates over the members of a JSON object in their order, without reading further than needed.

use std::borrow::Cow;

use super::blocks::plain_len;
use super::scan::Scan;
use super::space::trim_start;
use super::{WireError, check};

/// An iterator over the members of an object. Only brackets and strings are parsed: whether a
/// skipped value is valid JSON is found later, by the code that decodes the object.
pub(crate) struct Members<'a> {
    object: &'a [u8],
    /// The unread rest of the object.
    rest: &'a [u8],
    at: MemberPosition,
}

/// The position of an iterator.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MemberPosition {
    /// Before the object.
    Start,
    /// After a name, before its value.
    Value,
    /// After a value.
    ValueEnd,
    /// After the object.
    End,
}

impl<'a> Members<'a> {
    /// Creates an iterator over the members of the object at the beginning of `object`.
    pub(crate) fn of(object: &'a [u8]) -> Self {
        Self { object, rest: trim_start(object), at: MemberPosition::Start }
    }

    /// Returns the name of the next member, or `None` after the last. Skips the value of the
    /// previous member if it was not read.
    pub(crate) fn name(&mut self) -> Result<Option<Cow<'a, str>>, WireError> {
        if self.at == MemberPosition::Value {
            self.value()?;
        }
        match (self.at, self.rest) {
            (MemberPosition::Start, [b'{', rest @ ..]) => self.rest = trim_start(rest),
            (MemberPosition::ValueEnd, [b',', rest @ ..]) => {
                self.rest = trim_start(rest);
                return self.named().map(Some);
            }
            (MemberPosition::ValueEnd, [b'}', ..]) => {}
            (MemberPosition::End, _) => return Ok(None),
            _ => return Err(self.broken()),
        }
        if let [b'}', rest @ ..] = self.rest {
            (self.rest, self.at) = (rest, MemberPosition::End);
            return Ok(None);
        }
        self.named().map(Some)
    }

    /// Returns the raw value of the member whose name was returned last.
    pub(crate) fn value(&mut self) -> Result<&'a [u8], WireError> {
        self.at = MemberPosition::ValueEnd;
        self.take()
    }

    /// Returns the decoded value of the member whose name was returned last, or `None` if it is not
    /// a string.
    pub(super) fn text(&mut self) -> Result<Option<Cow<'a, str>>, WireError> {
        self.at = MemberPosition::ValueEnd;
        if let Some(text) = self.string()? {
            return Ok(Some(text));
        }
        check(self.take_scanned()?)?;
        Ok(None)
    }

    /// Returns an iterator over the members of the value whose name was returned last, or `None`
    /// if that value is not an object. The rest of the outer object is not read.
    pub(super) fn into_members(mut self) -> Result<Option<Self>, WireError> {
        if self.rest.starts_with(b"{") {
            return Ok(Some(Self::of(self.rest)));
        }
        check(self.value()?)?;
        Ok(None)
    }

    /// Returns the unread rest: from the bracket, the comma or the value that comes next.
    #[cfg(feature = "compact")]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Skips the rest of the object, and checks that only white space follows it.
    pub(crate) fn end(mut self) -> Result<(), WireError> {
        while self.name()?.is_some() {}
        if trim_start(self.rest).is_empty() { Ok(()) } else { Err(self.broken()) }
    }

    fn named(&mut self) -> Result<Cow<'a, str>, WireError> {
        let name = self.string()?.ok_or_else(|| self.broken())?;
        let [b':', rest @ ..] = self.rest else { return Err(self.broken()) };
        (self.rest, self.at) = (trim_start(rest), MemberPosition::Value);
        Ok(name)
    }

    /// Takes the string at the beginning of the rest, or returns `None` if there is none.
    fn string(&mut self) -> Result<Option<Cow<'a, str>>, WireError> {
        if let Some((plain, rest)) = plain_string(self.rest) {
            self.rest = trim_start(rest);
            return Ok(Some(Cow::Borrowed(plain)));
        }
        if !self.rest.starts_with(b"\"") {
            return Ok(None);
        }
        decoded(self.take_scanned()?).map(Some)
    }

    /// Takes the value at the beginning of the rest.
    fn take(&mut self) -> Result<&'a [u8], WireError> {
        match plain_string(self.rest) {
            Some((_, after)) => self.take_first(self.rest.len() - after.len()),
            None => self.take_scanned(),
        }
    }

    /// Takes the value at the beginning of the rest, which is not a plain string.
    fn take_scanned(&mut self) -> Result<&'a [u8], WireError> {
        let end = Scan::default().end(self.rest).filter(|end| *end > 0);
        self.take_first(end.ok_or_else(|| self.broken())?)
    }

    fn take_first(&mut self, len: usize) -> Result<&'a [u8], WireError> {
        let (value, rest) = self.rest.split_at_checked(len).ok_or_else(|| self.broken())?;
        self.rest = trim_start(rest);
        Ok(value)
    }

    fn broken(&self) -> WireError {
        WireError::not_that("no JSON object", self.object)
    }
}

/// Decodes a JSON string. The result is borrowed if the string has no escapes.
pub(super) fn text(json: &[u8]) -> Result<Cow<'_, str>, WireError> {
    match plain_string(json) {
        Some((plain, [])) => Ok(Cow::Borrowed(plain)),
        _ => decoded(json),
    }
}

/// Decodes a JSON string that probably has escapes.
fn decoded(json: &[u8]) -> Result<Cow<'_, str>, WireError> {
    /// A wrapper that is needed because serde borrows a `Cow` only with `#[serde(borrow)]`.
    #[derive(serde::Deserialize)]
    struct JsonStr<'a>(#[serde(borrow)] Cow<'a, str>);
    let JsonStr(text) =
        serde_json::from_slice(json).map_err(|e| WireError::not_that(e.to_string(), json))?;
    Ok(text)
}

/// Returns the text of the JSON string at the beginning of `json`, and the bytes after it, if the
/// string is ASCII without escapes, as most names and versions are.
fn plain_string(json: &[u8]) -> Option<(&str, &[u8])> {
    let json = json.strip_prefix(b"\"")?;
    let (text, rest) = json.split_at_checked(plain_len(json)?)?;
    Some((std::str::from_utf8(text).ok()?, rest.strip_prefix(b"\"")?))
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use proptest::prelude::*;
    use serde_json::Value;

    use super::{Members, plain_string, text};
    use crate::wire::WireError;

    fn all(object: &str) -> Result<Vec<(String, &str)>, WireError> {
        let (mut members, mut all) = (Members::of(object.as_bytes()), Vec::new());
        while let Some(name) = members.name()? {
            all.push((
                name.into_owned(),
                std::str::from_utf8(members.value()?).expect("valid UTF-8"),
            ));
        }
        Ok(all)
    }

    #[test]
    fn members_are_returned_as_written() {
        let object = r#" { "a\"b" : "x,\"}" ,"c":[1,{"d":2}],"e":{"f":"]"} , "g" :null,"h":1e3 } "#;
        let expected = [
            ("a\"b", r#""x,\"}""#),
            ("c", r#"[1,{"d":2}]"#),
            ("e", r#"{"f":"]"}"#),
            ("g", "null"),
            ("h", "1e3"),
        ];
        assert_eq!(all(object).unwrap(), expected.map(|(name, value)| (name.to_owned(), value)));
        assert_eq!(all("{}").unwrap(), []);
        assert_eq!(all(" { } ").unwrap(), []);
    }

    /// Returns the members of an object whose values are read as text.
    fn texts(object: &str) -> Result<Vec<(String, Option<String>)>, WireError> {
        let (mut members, mut texts) = (Members::of(object.as_bytes()), Vec::new());
        while let Some(name) = members.name()? {
            texts.push((name.into_owned(), members.text()?.map(Cow::into_owned)));
        }
        Ok(texts)
    }

    #[test]
    fn only_strings_have_a_text() {
        let object = r#"{"a":"b" ,"c": "\u0064" , "e":{"f":"]"} ,"g":null,"h":1e3 ,"i":"ä"}"#;
        let expected = [
            ("a", Some("b")),
            ("c", Some("d")),
            ("e", None),
            ("g", None),
            ("h", None),
            ("i", Some("ä")),
        ];
        let expected = expected.map(|(name, text)| (name.to_owned(), text.map(str::to_owned)));
        assert_eq!(texts(object).unwrap(), expected);
        for broken in [r#"{"a":x}"#, r#"{"a":"\x"}"#, r#"{"a":[}]}"#, r#"{"a":}"#, r#"{"a":""#] {
            assert!(texts(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn unread_values_are_skipped() {
        let mut members = Members::of(br#"{"a":{"b":1},"c":{"d":2}}"#);
        assert_eq!(members.name().unwrap().unwrap(), "a");
        assert_eq!(members.name().unwrap().unwrap(), "c");
        let mut inner = members.into_members().unwrap().unwrap();
        assert_eq!(inner.name().unwrap().unwrap(), "d");
        assert_eq!(inner.value().unwrap(), b"2");
        assert_eq!(inner.name().unwrap(), None);
        assert_eq!(inner.name().unwrap(), None, "no member behind the end");
    }

    #[test]
    fn strings_with_and_without_escapes_are_decoded() {
        for (json, expected) in [
            (r#""""#, Some("")),
            (r#""config-7.x/y ~""#, Some("config-7.x/y ~")),
            (r#""a\u0062\n""#, None),
            (r#""ä""#, None),
            ("\"\u{7f}\"", Some("\u{7f}")),
            (
                r#""a name that is longer than a part of sixteen bytes""#,
                Some("a name that is longer than a part of sixteen bytes"),
            ),
            (r#""an escape behind the first sixteen bytes \" and more text""#, None),
            ("\"a letter behind the first sixteen bytes: ä\"", None),
        ] {
            assert_eq!(
                plain_string(json.as_bytes()),
                expected.map(|text| (text, &b""[..])),
                "{json}"
            );
            let whole: String = serde_json::from_str(json).expect("a string");
            assert_eq!(text(json.as_bytes()), Ok(whole.into()), "{json}");
        }
        for broken in ["", "\"", "a", "\"a\nb\"", r#""a"b""#, r#""a\""#, "\"\t\""] {
            assert!(text(broken.as_bytes()).is_err(), "{broken}");
        }
    }

    #[test]
    fn text_behind_the_end_is_an_error() {
        assert!(Members::of(b"{\"a\":1}\x0c").end().is_err());
        assert!(Members::of(b"{\"a\":1} \n").end().is_ok());
        assert!(Members::of(b"{\"a\":1} \"b\"").end().is_err());
    }

    #[test]
    fn incomplete_or_missing_object_is_an_error() {
        for broken in [
            "",
            "null",
            "[]",
            "7",
            "{",
            "{,}",
            r#"{"a"}"#,
            r#"{"a" 1}"#,
            r#"{"a":1 "b":2}"#,
            r#"{"a":1,}"#,
            r#"{"a":,"b":2}"#,
            r#"{"a":}"#,
            "\x0c{}",
            "{\x0c\"a\":1}",
            "{\"a\":{}\x0c}",
        ] {
            assert!(all(broken).is_err(), "{broken}");
        }
        let whole = r#"{"a":{"b":"c"},"d":1}"#;
        for cut in 0..whole.len() {
            assert!(all(&whole[..cut]).is_err(), "cut at {cut}");
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            ".{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map(".{0,4}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_object_is_read_as_by_a_parser(
            members in proptest::collection::btree_map(".{0,4}", json(), 0..5),
            is_pretty in any::<bool>(),
        ) {
            let object = Value::Object(members.clone().into_iter().collect());
            let text = if is_pretty { serde_json::to_string_pretty(&object) } else { serde_json::to_string(&object) };
            let text = text.expect("a value is JSON");
            let read = all(&text).expect("an object");
            let read: Vec<_> =
                read.into_iter().map(|(name, value)| (name, serde_json::from_str(value).expect("a value"))).collect();
            let strings = members.iter().map(|(name, value)| {
                (name.clone(), value.as_str().map(str::to_owned))
            });
            prop_assert_eq!(texts(&text).expect("an object"), strings.collect::<Vec<_>>());
            prop_assert_eq!(read, members.into_iter().collect::<Vec<(String, Value)>>());
        }

        #[test]
        fn arbitrary_text_does_not_panic(object in proptest::collection::vec(proptest::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"", "\\", "\"a\":", "null", "1", " ",
        ]), 0..20)) {
            let _ = all(&object.concat());
        }
    }
}
