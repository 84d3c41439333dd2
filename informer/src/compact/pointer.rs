//! A field of an object by JSON pointer, read from the object's text before the text is compressed.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::fields::Text;

/// A JSON pointer (RFC 6901) through members of objects, such as `/spec/nodeName`.
pub(super) struct Pointer {
    pub(super) text: String,
    /// The names of the members, from the outermost one.
    names: Vec<String>,
}

impl Pointer {
    pub(super) fn new(text: &str) -> Self {
        let name = |name: &str| name.replace("~1", "/").replace("~0", "~");
        Self { text: text.to_owned(), names: text.split('/').skip(1).map(name).collect() }
    }

    /// Returns the field of the object `json`: the contents of a string, or the text of a number or
    /// boolean. Returns `None` if there is no such field, or if it is of another type. O(length).
    pub(super) fn read<'a>(&self, json: &'a str) -> Option<Cow<'a, str>> {
        let (first, names) = self.names.split_first()?;
        let member = |json: &'a str, name: &String| {
            let mut json = serde_json::Deserializer::from_str(json);
            Some(MemberSeed(name).deserialize(&mut json).ok()??.get())
        };
        let field = names.iter().try_fold(member(json, first)?, member)?;
        match field.as_bytes().first()? {
            b'"' => serde_json::from_str(field).ok().map(|Text(text)| text),
            b'{' | b'[' | b'n' => None,
            _ => Some(field.into()),
        }
    }
}

/// A seed that reads the member of this name from an object, and skips all other members.
struct MemberSeed<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for MemberSeed<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for MemberSeed<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut member = None;
        while let Some(Text(name)) = map.next_key()? {
            if *name == *self.0 {
                member = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(member)
    }
}

#[cfg(test)]
mod tests {
    use super::Pointer;

    #[test]
    fn pointer_returns_strings_numbers_and_booleans() {
        let json = r#"{"spec":{"nodeName":"n\u0031","replicas":3,"paused":true,"list":["a"],"none":null,
            "empty":"","a/b":{"c~d":"deep"}},"kind":"Pod"}"#;
        for (pointer, field) in [
            ("/spec/nodeName", Some("n1")),
            ("/spec/replicas", Some("3")),
            ("/spec/paused", Some("true")),
            ("/spec/empty", Some("")),
            ("/spec/a~1b/c~0d", Some("deep")),
            ("/kind", Some("Pod")),
            ("/kind/name", None),
            ("/spec", None),
            ("/spec/list", None),
            ("/spec/list/0", None),
            ("/spec/none", None),
            ("/spec/missing", None),
            ("/missing/nodeName", None),
            ("", None),
        ] {
            assert_eq!(Pointer::new(pointer).read(json).as_deref(), field, "{pointer}");
        }
    }
}
