//! One line of a watch: an event and its object, not decoded.

use bytes::Bytes;
use serde_json::json;

use super::members::{Members, text};
use super::{WireError, check};
use crate::lister_watcher::{EventType, RawEvent, RequestError};

/// A line of a watch.
#[derive(Debug)]
pub(crate) enum Line {
    Event(RawEvent),
    /// A type that this program does not know, as it is written. A newer server may send such events, and client-go and kube
    /// pass over them, too.
    Unknown(String),
}

/// Reads a line. An ERROR event is returned as the error that it carries.
pub(crate) fn parse(line: &Bytes) -> Result<Line, RequestError> {
    let (mut members, mut kind, mut object) = (Members::of(line), None, None);
    while let Some(name) = members.name()? {
        match name.as_ref() {
            "type" if kind.is_none() => kind = Some(members.value()?),
            "object" if object.is_none() => object = Some(members.value()?),
            "type" | "object" => return Err(WireError::not_that("an event with two types or objects", line).into()),
            _ => {}
        }
    }
    members.end()?;
    let Some(kind) = kind else { return Err(WireError::not_that("an event without its type", line).into()) };
    let event = match text(kind).unwrap_or_default().as_ref() {
        "ADDED" => Some(EventType::Added),
        "MODIFIED" => Some(EventType::Modified),
        "DELETED" => Some(EventType::Deleted),
        "BOOKMARK" => Some(EventType::Bookmark),
        "ERROR" => None,
        _ => {
            // A line that is no JSON is damaged, and may have been any event.
            check(line)?;
            return Ok(Line::Unknown(String::from_utf8_lossy(kind).into_owned()));
        }
    };
    let Some(object) = object else { return Err(WireError::not_that("an event without its object", line).into()) };
    let Some(kind) = event else { return Err(RequestError::from_status(object, None)) };
    if kind == EventType::Bookmark {
        // Nobody decodes it.
        check(object)?;
    }
    Ok(Line::Event(RawEvent { kind, object: line.slice_ref(object) }))
}

/// The object of a bookmark.
pub(crate) fn bookmark(version: &str, ends_initial_events: bool) -> String {
    let annotations = if ends_initial_events { json!({ "k8s.io/initial-events-end": "true" }) } else { json!({}) };
    json!({ "metadata": { "resourceVersion": version, "annotations": annotations } }).to_string()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::{Line, parse};
    use crate::lister_watcher::{EventType, RequestError};

    #[test]
    fn an_event_has_a_type_and_a_raw_object() {
        let line = Bytes::from_static(br#"{"type":"MODIFIED","object": {"metadata":{"name":"a"}} }"#);
        let Line::Event(event) = parse(&line).unwrap() else { panic!("it is a known type") };
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
    fn event_of_unknown_type_is_no_error() {
        for (kind, line) in [
            (r#""NEW""#, r#"{"type":"NEW","object":{}}"#),
            (r#""NEW""#, r#"{"object":[],"type":"NEW"}"#),
            (r#""NEW""#, r#"{"type":"NEW"}"#),
            ("7", r#"{"type":7,"object":{}}"#),
            ("null", r#"{"type":null}"#),
        ] {
            let line = Bytes::from(line);
            assert!(matches!(parse(&line), Ok(Line::Unknown(unknown)) if unknown == kind), "{line:?}");
        }
    }

    #[test]
    fn what_is_no_event_is_an_error() {
        for line in [
            "",
            "{}",
            "null",
            r#"{"type":"ADDED"}"#,
            "garbage",
            r#"{"type":"ADDED","object":{}}x"#,
            r#"{"type":"NEW","object":{x}}"#,
            r#"{"type":N"EW","object":{}}"#,
            r#"{"type":"ADDED","object":{},"object":{}}"#,
        ] {
            assert!(parse(&Bytes::from(line)).is_err(), "{line}");
        }
    }
}
