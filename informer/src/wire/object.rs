//! The fields of an object that are read before it is decoded.

use std::borrow::Cow;

use super::WireError;
use super::members::Members;

/// Key and resource version of a raw JSON object, borrowed from the JSON where it has no escapes.
/// A field that is missing or not a string is empty; of duplicate fields the first wins.
#[derive(Default)]
pub(crate) struct Head<'a> {
    pub(crate) namespace: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
    pub(crate) version: Cow<'a, str>,
}

/// A string field, or `None` if it is missing or not a string.
type Field<'a> = Option<Cow<'a, str>>;

impl<'a> Head<'a> {
    /// Reads the fields, and stops when all of them are found. In objects that a Go server writes,
    /// they are within the first tenth.
    pub(crate) fn of(object: &'a [u8]) -> Result<Self, WireError> {
        let (mut namespace, mut name, mut version): (Field, Field, Field) = Default::default();
        let Some(mut metadata) = member(object, "metadata")? else { return Ok(Self::default()) };
        while let Some(field) = metadata.name()? {
            let found = match field.as_ref() {
                "namespace" => &mut namespace,
                "name" => &mut name,
                "resourceVersion" => &mut version,
                _ => continue,
            };
            if found.is_none() {
                *found = metadata.text()?;
            }
            if namespace.is_some() && name.is_some() && version.is_some() {
                break;
            }
        }
        let [namespace, name, version] = [namespace, name, version].map(Option::unwrap_or_default);
        Ok(Self { namespace, name, version })
    }

    /// Returns `namespace/name`, or `name`.
    pub(crate) fn key(&self) -> Cow<'a, str> {
        if self.namespace.is_empty() {
            self.name.clone()
        } else {
            format!("{}/{}", self.namespace, self.name).into()
        }
    }
}

/// Returns the uid of a raw JSON object. A uid that is missing or not a string is empty.
#[cfg(feature = "leader-election")]
pub(crate) fn uid(object: &[u8]) -> Result<Cow<'_, str>, WireError> {
    let Some(mut metadata) = member(object, "metadata")? else { return Ok(Cow::default()) };
    if !goes_to(&mut metadata, "uid")? {
        return Ok(Cow::default());
    }
    Ok(metadata.text()?.unwrap_or_default())
}

/// Returns whether a bookmark marks the end of the initial events.
pub(crate) fn ends_initial_events(object: &[u8]) -> Result<bool, WireError> {
    const ANNOTATION: &str = "k8s.io/initial-events-end";
    let Some(mut metadata) = member(object, "metadata")? else { return Ok(false) };
    if !goes_to(&mut metadata, "annotations")? {
        return Ok(false);
    }
    let Some(mut annotations) = metadata.into_members()? else { return Ok(false) };
    Ok(goes_to(&mut annotations, ANNOTATION)? && annotations.text()?.as_deref() == Some("true"))
}

/// Returns the members of the member `name`, or `None` if there is no such member or it is not an
/// object.
fn member<'a>(object: &'a [u8], name: &str) -> Result<Option<Members<'a>>, WireError> {
    let mut members = Members::of(object);
    if goes_to(&mut members, name)? { members.into_members() } else { Ok(None) }
}

/// Advances to the member `name`. Returns false if there is none.
fn goes_to(members: &mut Members, name: &str) -> Result<bool, WireError> {
    while let Some(found) = members.name()? {
        if found == name {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "leader-election")]
    use super::uid;
    use super::{Head, ends_initial_events};

    #[test]
    fn head_of_an_object_is_read_without_the_rest() {
        let pod = br#"{"spec":{"metadata":{"name":"no"}},"kind":"Pod","metadata":{"name":"a\u0062","namespace":"ns",
            "annotations":{"x":"y"},"name":"second","resourceVersion":"12"},"status":[1,2]}"#;
        let head = Head::of(pod).unwrap();
        assert_eq!((head.key().as_ref(), head.version.as_ref()), ("ns/ab", "12"));
        assert!(!ends_initial_events(pod).unwrap());
    }

    #[test]
    fn text_behind_the_metadata_is_not_read() {
        let head =
            Head::of(br#"{"metadata":{"name":"a","namespace":"ns","resourceVersion":"1","uid":"#)
                .unwrap();
        assert_eq!(head.key(), "ns/a");
    }

    #[test]
    fn missing_field_is_empty() {
        for object in [
            "{}",
            r#"{"metadata":null}"#,
            r#"{"metadata":[]}"#,
            r#"{"metadata":{"name":null}}"#,
            r#"{"metadata":{"name":1,"namespace":{}}}"#,
        ] {
            let head = Head::of(object.as_bytes()).unwrap();
            assert_eq!((head.key().as_ref(), head.version.as_ref()), ("", ""), "{object}");
        }
        for broken in [
            r#"{"metadata":{"name":x}}"#,
            r#"{"metadata":[}"#,
            "[]",
            "{",
            r#"{"metadata":{"name":"\ud800"}}"#,
        ] {
            assert!(Head::of(broken.as_bytes()).is_err(), "{broken}");
        }
    }

    #[cfg(feature = "leader-election")]
    #[test]
    fn uid_is_empty_if_it_is_missing_or_not_a_string() {
        let pod = br#"{"uid":"no","metadata":{"labels":{"uid":"no"},"name":"a","uid":"\u0061b"}}"#;
        assert_eq!(uid(pod).unwrap(), "ab");
        for object in ["{}", r#"{"metadata":null}"#, r#"{"metadata":{"uid":1,"name":"a"}}"#] {
            assert_eq!(uid(object.as_bytes()).unwrap(), "", "{object}");
        }
        assert!(uid(br#"{"metadata":{"uid":"#).is_err());
    }

    #[test]
    fn bookmark_that_ends_the_initial_events_is_recognised() {
        let ends = br#"{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"},"resourceVersion":"5"}}"#;
        assert!(ends_initial_events(ends).unwrap());
        for others in [
            "null",
            "{}",
            r#"{"k8s.io/initial-events-end":null}"#,
            r#"{"k8s.io/initial-events-end":"no"}"#,
        ] {
            let others =
                format!(r#"{{"metadata":{{"resourceVersion":"5","annotations":{others}}}}}"#);
            assert!(!ends_initial_events(others.as_bytes()).unwrap(), "{others}");
        }
        for odd in ["[]", "7", r#"{"k8s.io/initial-events-end":true}"#] {
            let odd = format!(r#"{{"metadata":{{"annotations":{odd}}}}}"#);
            assert!(!ends_initial_events(odd.as_bytes()).unwrap(), "{odd}");
        }
        assert!(!ends_initial_events(b"{}").unwrap());
    }
}
