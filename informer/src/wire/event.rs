//! One line of a watch: an event and its object, not decoded.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::WireError;
use crate::lister_watcher::{EventType, RawEvent, RequestError};

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// What the line says; an ERROR event as the error that it is.
pub(crate) fn parse(line: &Bytes) -> Result<RawEvent, RequestError> {
    let event: Line = serde_json::from_slice(line).map_err(|e| WireError::not_that(e.to_string(), line))?;
    let kind = match event.r#type.as_ref() {
        "ADDED" => EventType::Added,
        "MODIFIED" => EventType::Modified,
        "DELETED" => EventType::Deleted,
        "BOOKMARK" => EventType::Bookmark,
        "ERROR" => return Err(RequestError::from_status(event.object.get().as_bytes(), None)),
        other => return Err(WireError::not_that(format!("an event of type {other:?}"), line).into()),
    };
    Ok(RawEvent { kind, object: line.slice_ref(event.object.get().as_bytes()) })
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
        for line in ["", "{}", "null", r#"{"type":"ADDED"}"#, r#"{"type":"NEW","object":{}}"#, "garbage"] {
            assert!(parse(&Bytes::from(line)).is_err(), "{line}");
        }
    }
}
