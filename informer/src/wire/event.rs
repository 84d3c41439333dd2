//! One line of a watch: an event and its object, not decoded.

use bytes::Bytes;
use serde_json::json;

use super::members::{Members, text};
use super::{WireError, check};
use crate::lister_watcher::{EventType, RawEvent, RequestError};

/// What the line says; an ERROR event as the error that it is.
pub(crate) fn parse(line: &Bytes) -> Result<RawEvent, RequestError> {
    let (mut members, mut kind, mut object) = (Members::of(line), None, None);
    while let Some(name) = members.name()? {
        match name.as_ref() {
            "type" if kind.is_none() => kind = Some(text(members.value()?)?),
            "object" if object.is_none() => object = Some(members.value()?),
            "type" | "object" => return Err(WireError::not_that("an event with two types or objects", line).into()),
            _ => {}
        }
    }
    members.end()?;
    let (Some(kind), Some(object)) = (kind, object) else {
        return Err(WireError::not_that("an event without its type or its object", line).into());
    };
    let kind = match kind.as_ref() {
        "ADDED" => EventType::Added,
        "MODIFIED" => EventType::Modified,
        "DELETED" => EventType::Deleted,
        "BOOKMARK" => EventType::Bookmark,
        "ERROR" => return Err(RequestError::from_status(object, None)),
        other => return Err(WireError::not_that(format!("an event of type {other:?}"), line).into()),
    };
    if kind == EventType::Bookmark {
        // Nobody decodes it.
        check(object)?;
    }
    Ok(RawEvent { kind, object: line.slice_ref(object) })
}

/// The object of a bookmark.
pub(crate) fn bookmark(version: &str, ends_initial_events: bool) -> String {
    let annotations = if ends_initial_events { json!({ "k8s.io/initial-events-end": "true" }) } else { json!({}) };
    json!({ "metadata": { "resourceVersion": version, "annotations": annotations } }).to_string()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::parse;
    use crate::lister_watcher::{EventType, RequestError};

    #[test]
    fn an_event_has_a_type_and_a_raw_object() {
        let line = Bytes::from_static(br#"{"type":"MODIFIED","object": {"metadata":{"name":"a"}} }"#);
        let event = parse(&line).unwrap();
        assert_eq!((event.kind, event.object.as_ref()), (EventType::Modified, &br#"{"metadata":{"name":"a"}}"#[..]));
    }

    #[test]
    fn an_error_event_is_the_status_it_carries() {
        let line = Bytes::from_static(br#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}"#);
        assert!(parse(&line).unwrap_err().is_expired());
        let line = Bytes::from_static(br#"{"type":"ERROR","object":"what?"}"#);
        assert!(matches!(parse(&line), Err(RequestError::Wire(_))));
    }

    #[test]
    fn what_is_no_event_is_an_error() {
        for line in [
            "",
            "{}",
            "null",
            r#"{"type":"ADDED"}"#,
            r#"{"type":"NEW","object":{}}"#,
            "garbage",
            r#"{"type":"ADDED","object":{}}x"#,
            r#"{"type":"ADDED","object":{},"object":{}}"#,
        ] {
            assert!(parse(&Bytes::from(line)).is_err(), "{line}");
        }
    }
}
