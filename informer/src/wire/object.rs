//! The few fields of an object that are needed before it is decoded: a scan of its JSON, several times faster than
//! decoding it.

use std::borrow::Cow;

use bytes::{BufMut, Bytes, BytesMut};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::WireError;

/// An object's head: borrowed from its JSON where that has no escapes.
pub(crate) struct Head<'a> {
    pub(crate) namespace: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
    pub(crate) version: Cow<'a, str>,
    /// Whether it is the bookmark after which all initial events have been sent.
    pub(crate) ends_initial_events: bool,
    /// Whether it says its `kind`. Items of a list do not, where the list does.
    pub(crate) has_kind: bool,
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(default)]
    kind: Option<IgnoredAny>,
    #[serde(borrow, default)]
    metadata: Option<Metadata<'a>>,
}

/// By itself, since a `Cow` in an `Option` is never borrowed.
#[derive(Default, Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    namespace: Option<Text<'a>>,
    #[serde(borrow, default)]
    name: Option<Text<'a>>,
    #[serde(borrow, default)]
    resource_version: Option<Text<'a>>,
    #[serde(borrow, default)]
    annotations: Option<Annotations<'a>>,
}

#[derive(Default, Deserialize)]
struct Annotations<'a> {
    #[serde(borrow, default, rename = "k8s.io/initial-events-end")]
    initial_events_end: Option<Text<'a>>,
}

impl<'a> Head<'a> {
    pub(crate) fn of(object: &'a [u8]) -> Result<Self, WireError> {
        let head: Object = serde_json::from_slice(object).map_err(|e| WireError::not_that(e.to_string(), object))?;
        let metadata = head.metadata.unwrap_or_default();
        let ends = metadata.annotations.and_then(|annotations| annotations.initial_events_end);
        Ok(Self {
            namespace: metadata.namespace.unwrap_or_default().0,
            name: metadata.name.unwrap_or_default().0,
            version: metadata.resource_version.unwrap_or_default().0,
            ends_initial_events: ends.is_some_and(|Text(ends)| ends == "true"),
            has_kind: head.kind.is_some(),
        })
    }

    /// `namespace/name`, or `name`.
    pub(crate) fn key(&self) -> Cow<'a, str> {
        if self.namespace.is_empty() { self.name.clone() } else { format!("{}/{}", self.namespace, self.name).into() }
    }
}

/// `object`, which does not say its types, with them.
pub(crate) fn with_types(object: &[u8], api_version: &str, kind: &str) -> Bytes {
    let types = serde_json::json!({ "apiVersion": api_version, "kind": kind }).to_string();
    let members = object.strip_prefix(b"{").unwrap_or(object).trim_ascii_start();
    let mut whole = BytesMut::with_capacity(types.len() + object.len());
    whole.put_slice(types.strip_suffix('}').unwrap_or(&types).as_bytes());
    if !members.starts_with(b"}") {
        whole.put_u8(b',');
    }
    whole.put_slice(members);
    whole.freeze()
}

#[cfg(test)]
mod tests {
    use super::{Head, with_types};

    #[test]
    fn the_head_of_an_object_is_read_without_the_rest() {
        let pod = br#"{"spec":{"metadata":{"name":"no"}},"kind":"Pod","metadata":{"name":"a\u0062","namespace":"ns",
            "annotations":{"x":"y"},"resourceVersion":"12"},"status":[1,2]}"#;
        let head = Head::of(pod).unwrap();
        assert_eq!((head.key().as_ref(), head.version.as_ref()), ("ns/ab", "12"));
        assert!(head.has_kind && !head.ends_initial_events);
    }

    #[test]
    fn what_is_missing_is_empty() {
        for object in ["{}", r#"{"metadata":null}"#, r#"{"metadata":{"name":null}}"#] {
            let head = Head::of(object.as_bytes()).unwrap();
            assert_eq!((head.key().as_ref(), head.version.as_ref(), head.has_kind), ("", "", false), "{object}");
        }
        assert!(Head::of(b"{\"metadata\":{\"name\":1}}").is_err());
    }

    #[test]
    fn the_bookmark_that_ends_the_initial_events_is_told_from_others() {
        let ends = br#"{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"},"resourceVersion":"5"}}"#;
        assert!(Head::of(ends).unwrap().ends_initial_events);
        assert!(!Head::of(br#"{"metadata":{"resourceVersion":"5","annotations":{}}}"#).unwrap().ends_initial_events);
    }

    #[test]
    fn an_item_of_a_list_gets_the_lists_types() {
        let typed = |object: &str| String::from_utf8(with_types(object.as_bytes(), "v1", "Pod").to_vec()).unwrap();
        assert_eq!(typed("{}"), r#"{"apiVersion":"v1","kind":"Pod"}"#);
        assert_eq!(typed(r#"{ "metadata":{}}"#), r#"{"apiVersion":"v1","kind":"Pod","metadata":{}}"#);
    }
}
