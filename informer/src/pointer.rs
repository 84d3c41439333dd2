//! A field of an object by JSON pointer, read from the object's JSON.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A JSON pointer (RFC 6901), such as `/spec/nodeName` or `/spec/containers/0/image`.
pub(crate) struct Pointer {
    /// The pointer as it was written.
    #[cfg(feature = "compact")]
    pub(crate) text: String,
    /// The names of members and the numbers of elements, from the outermost one.
    steps: Vec<String>,
}

/// The error of text that is not the pointer of a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the JSON pointer {0:?} does not begin with `/`: write a pointer such as /spec/nodeName")]
pub struct InvalidPointer(String);

impl Pointer {
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidPointer> {
        if !text.starts_with('/') {
            return Err(InvalidPointer(text.to_owned()));
        }
        let step = |step: &str| step.replace("~1", "/").replace("~0", "~");
        Ok(Self {
            #[cfg(feature = "compact")]
            text: text.to_owned(),
            steps: text.split('/').skip(1).map(step).collect(),
        })
    }

    /// Returns the field of the object `json`: the contents of a string, or the text of a number or
    /// boolean. Returns `None` if there is no such field, or if it is of another type. O(length).
    pub(crate) fn read<'a>(&self, json: &'a str) -> Option<Cow<'a, str>> {
        let step = |json: &'a str, step: &String| {
            let mut json = serde_json::Deserializer::from_str(json);
            Some(Step(step).deserialize(&mut json).ok()??.get())
        };
        let field = self.steps.iter().try_fold(json, step)?;
        match field.as_bytes().first()? {
            b'"' => serde_json::from_str(field).ok().map(|JsonStr(text)| text),
            b'{' | b'[' | b'n' => None,
            _ => Some(field.into()),
        }
    }
}

/// A string, borrowed if it has no escapes.
#[derive(Deserialize)]
struct JsonStr<'a>(#[serde(borrow)] Cow<'a, str>);

/// A seed that reads the member of this name from an object, or the element of this number from an
/// array, and skips all others.
struct Step<'s>(&'s str);

impl<'de> DeserializeSeed<'de> for Step<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Step<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut member = None;
        while let Some(JsonStr(name)) = map.next_key()? {
            if *name == *self.0 {
                member = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(member)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let mut element = None;
        let mut numbers = 0..;
        while let Some(found) = elements.next_element()? {
            // A number with leading zeros names no element.
            if numbers.next().is_some_and(|number: usize| number.to_string() == *self.0) {
                element = Some(found);
            }
        }
        Ok(element)
    }
}

#[cfg(test)]
mod tests {
    use super::Pointer;

    #[test]
    fn pointer_returns_strings_numbers_and_booleans() {
        let json = r#"{"spec":{"nodeName":"n\u0031","replicas":3,"paused":true,"list":["a",{"b":"c"}],"none":null,
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
            ("/spec/list/0", Some("a")),
            ("/spec/list/1/b", Some("c")),
            ("/spec/list/00", None),
            ("/spec/list/2", None),
            ("/spec/list/-", None),
            ("/spec/none", None),
            ("/spec/missing", None),
            ("/missing/nodeName", None),
            ("/", None),
        ] {
            let read = Pointer::parse(pointer).unwrap();
            assert_eq!(read.read(json).as_deref(), field, "{pointer}");
        }
    }
}
