//! A line of a watch: an event with its raw object.

use std::sync::LazyLock;

use bytes::Bytes;
use memchr::memmem::Finder;
use serde_json::Value;

use super::members::{Members, text};
use super::outline::Outline;
use super::{WireError, check};
use crate::lister_watcher::{EventType, RawObject, RequestError, TooLarge};

/// Finds the name of a member `object`, with its colon.
static OBJECT_MEMBER: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(br#""object":"#));

/// A line of a watch.
#[derive(Debug)]
pub(crate) enum Line {
    /// An event of a known type.
    Event(EventType, RawObject),
    /// The type of an event that is not known here. Newer servers may send such events; client-go
    /// and kube ignore them, too.
    Unknown(String),
}

/// The type of a line.
enum LineType {
    Event(EventType),
    Error,
    Unknown,
}

impl LineType {
    fn of(text: &str) -> Self {
        match text {
            "ADDED" => Self::Event(EventType::Added),
            "MODIFIED" => Self::Event(EventType::Modified),
            "DELETED" => Self::Event(EventType::Deleted),
            "BOOKMARK" => Self::Event(EventType::Bookmark),
            "ERROR" => Self::Error,
            _ => Self::Unknown,
        }
    }
}

/// Parses a line. An object of more than `limit` bytes is not kept: the event has a
/// [`RawObject::TooLarge`] in its place. An ERROR event is returned as the error that it contains.
pub(crate) fn parse(line: &Bytes, limit: usize) -> Result<Line, RequestError> {
    let (mut members, mut kind, mut object) = (Members::of(line), None, None);
    while let Some(name) = members.name()? {
        match name.as_ref() {
            "type" if kind.is_none() => kind = Some(members.value()?),
            "object" if object.is_none() => object = Some(members.value()?),
            "type" | "object" => {
                return Err(WireError::not_that("an event with two types or objects", line).into());
            }
            _ => {}
        }
    }
    members.end()?;
    let Some(raw_kind) = kind else { return Err(without("type", line)) };
    let kind = LineType::of(&text(raw_kind).unwrap_or_default());
    if matches!(kind, LineType::Unknown) {
        // If the line is not valid JSON it is damaged, and may have been any event.
        check(line)?;
        return Ok(Line::Unknown(String::from_utf8_lossy(raw_kind).into_owned()));
    }
    let Some(object) = object else { return Err(without("object", line)) };
    match kind {
        LineType::Event(EventType::Bookmark) | LineType::Error if object.len() > limit => {
            Err(WireError::TooLong.into())
        }
        LineType::Event(kind) if object.len() > limit => {
            Ok(Line::Event(kind, TooLarge::read(object, limit).into()))
        }
        LineType::Event(kind) => {
            if kind == EventType::Bookmark {
                // A bookmark is never decoded, so its JSON is checked here.
                check(object)?;
            }
            Ok(Line::Event(kind, line.slice_ref(object).into()))
        }
        LineType::Error | LineType::Unknown => Err(RequestError::from_event(object)),
    }
}

/// A parser of the initial events of a watch, which does not read an object to find its end.
///
/// Go servers write an event as `{"type":"ADDED","object":{…}}`, so the object is the rest of the
/// line, up to the last bracket. The first object of a watch shows whether its server does that
/// too. Two events in one line have a second member `object`, so a line with that name in its
/// object is parsed. A line that is damaged in another way is not noticed before its object is
/// decoded. An object is not decoded if the store has it in the version that its metadata names,
/// and then the damage has no effect.
#[derive(Default)]
pub(crate) struct InitialEvents {
    /// Whether lines have this form. `None` before the first object.
    is_plain: Option<bool>,
}

impl InitialEvents {
    /// Parses a line as [`parse`] does.
    pub(crate) fn parse(&mut self, line: &Bytes, limit: usize) -> Result<Line, RequestError> {
        let plain = line.strip_prefix(br#"{"type":"ADDED","object":"#);
        let plain = plain.and_then(|rest| rest.strip_suffix(b"}"));
        let plain = plain.filter(|object| object.starts_with(b"{") && object.ends_with(b"}"));
        if let Some(object) = plain
            && self.is_plain == Some(true)
            && object.len() <= limit
            && OBJECT_MEMBER.find(object).is_none()
        {
            return Ok(Line::Event(EventType::Added, line.slice_ref(object).into()));
        }
        let parsed = parse(line, limit)?;
        if self.is_plain.is_none()
            && let Line::Event(EventType::Added, RawObject::Json(object)) = &parsed
        {
            self.is_plain = Some(plain == Some(&object[..]));
        }
        Ok(parsed)
    }
}

/// Converts the [outline](super::outline) of a line that was too large to be kept into an event
/// with a [`RawObject::TooLarge`].
pub(crate) fn skipped(mut outline: Outline, limit: usize) -> Result<Line, RequestError> {
    let Some(text) = outline.kind.take() else { return Err(without("type", b"")) };
    match LineType::of(&text) {
        LineType::Unknown => Ok(Line::Unknown(text)),
        LineType::Error | LineType::Event(EventType::Bookmark) => Err(WireError::TooLong.into()),
        LineType::Event(kind) => Ok(Line::Event(kind, TooLarge::of(outline, limit).into())),
    }
}

fn without(member: &str, line: &[u8]) -> RequestError {
    WireError::not_that(format!("an event without its {member}"), line).into()
}

/// Returns the object of a bookmark, as JSON text.
pub(crate) fn bookmark(version: &str, ends_initial_events: bool) -> String {
    let annotations =
        if ends_initial_events { r#"{"k8s.io/initial-events-end":"true"}"# } else { "{}" };
    // Not a `Value`: a filter makes a bookmark of each event that it drops.
    let version = Value::from(version);
    format!(r#"{{"metadata":{{"resourceVersion":{version},"annotations":{annotations}}}}}"#)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::{InitialEvents, Line, parse};
    use crate::lister_watcher::{EventType, RawObject, RequestError};

    #[test]
    fn event_has_a_type_and_a_raw_object() {
        let line =
            Bytes::from_static(br#"{"type":"MODIFIED","object": {"metadata":{"name":"a"}} }"#);
        let Line::Event(kind, object) = parse(&line, usize::MAX).unwrap() else {
            panic!("it is a known type")
        };
        assert_eq!(
            (kind, object),
            (EventType::Modified, Bytes::from(r#"{"metadata":{"name":"a"}}"#).into())
        );
    }

    #[test]
    fn error_event_returns_its_status() {
        let line = Bytes::from_static(
            br#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}"#,
        );
        assert!(parse(&line, usize::MAX).unwrap_err().is_expired());
        let line = Bytes::from_static(br#"{"type":"ERROR","object":"what?"}"#);
        assert!(matches!(parse(&line, usize::MAX), Err(RequestError::Wire(_))));
    }

    #[test]
    fn object_of_an_event_is_too_large_by_its_own_length() {
        let object = r#"{"metadata":{"name":"a","resourceVersion":"7"}}"#;
        let line = Bytes::from(format!(r#"{{"type":"ADDED","object": {object} ,"beside":"it"}}"#));
        let read = |limit| match parse(&line, limit).unwrap() {
            Line::Event(_, object) => object,
            Line::Unknown(_) => panic!("it is a known type"),
        };
        assert_eq!(read(object.len()), Bytes::from(object).into());
        let RawObject::TooLarge(large) = read(object.len() - 1) else { panic!("it is too large") };
        assert_eq!((large.key().as_deref(), large.resource_version.as_str()), (Some("a"), "7"));
        assert_eq!((large.size, large.limit), (object.len(), object.len() - 1));
    }

    #[test]
    fn event_of_unknown_type_is_not_an_error() {
        for (kind, line) in [
            (r#""NEW""#, r#"{"type":"NEW","object":{}}"#),
            (r#""NEW""#, r#"{"object":[],"type":"NEW"}"#),
            (r#""NEW""#, r#"{"type":"NEW"}"#),
            ("7", r#"{"type":7,"object":{}}"#),
            ("null", r#"{"type":null}"#),
        ] {
            let line = Bytes::from(line);
            assert!(
                matches!(parse(&line, usize::MAX), Ok(Line::Unknown(unknown)) if unknown == kind),
                "{line:?}"
            );
        }
    }

    #[test]
    fn malformed_event_is_an_error() {
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
            assert!(parse(&Bytes::from(line), usize::MAX).is_err(), "{line}");
        }
    }

    /// Returns the objects of these initial events, or the number of events before the first
    /// error.
    fn objects(lines: &[&str], limit: usize) -> Result<Vec<Bytes>, usize> {
        let mut events = InitialEvents::default();
        let parsed = lines.iter().enumerate().map(|(number, line)| {
            match events.parse(&Bytes::from((*line).to_owned()), limit) {
                Ok(Line::Event(_, RawObject::Json(object))) => Ok(object),
                Ok(Line::Event(_, RawObject::TooLarge(_)) | Line::Unknown(_)) => Ok(Bytes::new()),
                Err(_) => Err(number),
            }
        });
        parsed.collect()
    }

    #[test]
    fn object_of_a_plain_initial_event_is_the_rest_of_its_line() {
        let plain = r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#;
        let object = r#"{"metadata":{"name":"a"}}"#;
        assert_eq!(objects(&[plain; 2], object.len()), Ok(vec![Bytes::from(object); 2]));
        assert_eq!(objects(&[plain; 2], object.len() - 1), Ok(vec![Bytes::new(); 2]));
        // A plain line is not scanned: whether its object is valid is found by the decoder.
        let damaged = r#"{"type":"ADDED","object":{"metadata":{"name":"a"}"#.to_owned() + "}";
        assert_eq!(objects(&[plain, &damaged], 100).map(|objects| objects.len()), Ok(2));
        assert_eq!(objects(&[&damaged], 100), Err(0), "the first line is scanned");
        for other in [
            "garbage",
            "",
            r#"{"type":"ADDED","object":{"#,
            r#"{"type":"ADDED","object":}"#,
            r#"{"type":"ADDED","object":{}"#,
            r#"{"type":"BOOKMARK","object":{x}}"#,
            r#"{"type":"ADDED","object":{"a":1}}{"type":"ADDED","object":{"b":1}}"#,
            r#"{"type":"ADDED","object":{"a":1}}{"type":"BOOKMARK","object":{"b":1}}"#,
            r#"{"type":"ADDED","object":{"a":{"type":"ADDED","object":{"b":1}}"#,
        ] {
            assert_eq!(objects(&[plain, other], 100), Err(1), "{other}");
        }
        let member = r#"{"type":"ADDED","object":{"a":{"object":{}}}}"#;
        let object = r#"{"a":{"object":{}}}"#;
        assert_eq!(objects(&[plain, member], 100).expect("both are valid")[1], object);
    }

    #[test]
    fn initial_events_in_another_form_are_scanned() {
        for first in [
            r#"{"type":"ADDED","object":{},"beside":{}}"#,
            r#"{"object":{},"type":"ADDED"}"#,
            r#"{"type":"ADDED","object": {}}"#,
            r#"{"type":"NEW"}"#,
        ] {
            let beside = r#"{"type":"ADDED","object":{"a":1},"beside":{}}"#;
            let objects = objects(&[first, beside], 100).expect("both are valid");
            assert_eq!(objects[1], r#"{"a":1}"#, "{first}");
        }
    }
}
