//! Response bodies as the streams of a lister-watcher, read frame by frame.

use async_stream::try_stream;
use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream, StreamExt};
use http_body_util::BodyExt;
use kube::client::Body;

use super::coalesce::Coalescer;
use super::{EventType, ListStream, Listed, ObjectLimit, RawObject, RequestError, WatchStream};
use crate::wire::{
    CompleteText, InitialEvents, Line, Lines, ListSplitter, ends_initial_events, parse_line,
    skipped_line,
};

/// Reads the next bytes of a body. Returns `None` at the end of the body.
pub(super) async fn next_bytes(body: &mut Body) -> Result<Option<Bytes>, RequestError> {
    while let Some(frame) = body.frame().await {
        // Trailers have no data.
        if let Ok(data) = frame.map_err(|e| RequestError::Broken(e.into()))?.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// Converts the body of a list response into a stream of its parts.
pub(super) fn listed(mut body: Body, limit: ObjectLimit) -> ListStream {
    flattened(try_stream! {
        let (mut splitter, mut has_meta, mut coalescer) = (ListSplitter::new(limit.bytes()), false, Coalescer::new());
        while let Some(bytes) = coalescer.next_bytes(&mut body).await? {
            let mut found = Vec::new();
            splitter.push(&bytes, &mut found)?;
            drop(bytes);
            let meta = if has_meta { None } else { splitter.meta()? };
            if let Some(meta) = meta {
                has_meta = true;
                yield Ok(Listed::Meta(meta));
            }
            let mut items = Vec::with_capacity(found.len());
            for whole in found {
                // Emit the items before this one first. They may hold shares of the budget, and
                // must reach the decoder while this item waits for its share.
                if ObjectLimit::waits_for_share(&whole) && !items.is_empty() {
                    yield Ok(Listed::Items(std::mem::take(&mut items)));
                }
                match limit.item(whole).await {
                    RawObject::Json(json) => items.push(json),
                    RawObject::TooLarge(large) => {
                        yield Ok(Listed::Items(std::mem::take(&mut items)));
                        yield Err(RequestError::TooLarge(large));
                    }
                }
            }
            if !items.is_empty() {
                yield Ok(Listed::Items(items));
            }
            if let Some(most) = splitter.wants_share() {
                splitter.give(limit.share(most).await);
            }
            if splitter.is_within_item() {
                limit.goes_on();
            }
        }
        splitter.finish()?;
        // Marks the list as complete. Without this part, a list whose last object is too large
        // would count as cut.
        yield Ok(Listed::Items(Vec::new()));
    })
}

/// Converts the body of a watch response into a stream of events. `initial` says whether initial
/// events come first. The stream ends with its first error, except for [`RequestError::TooLarge`].
pub(super) fn events(mut body: Body, initial: bool, limit: ObjectLimit) -> WatchStream {
    flattened(try_stream! {
        let mut initial = initial.then(|| (Coalescer::new(), InitialEvents::default()));
        let (mut lines, mut met_unknown) = (Lines::new(limit.bytes()), false);
        while let Some(bytes) = match &mut initial {
            Some((coalescer, _)) => coalescer.next_bytes(&mut body).await?,
            None => next_bytes(&mut body).await?,
        } {
            let mut found = Vec::new();
            let whole = lines.push(&bytes, &mut found);
            drop(bytes);
            for line in found {
                let events = initial.as_mut().map(|(_, events)| events);
                let (kind, object) = match read(line, events, &limit).await? {
                    Line::Event(kind, object) => (kind, object),
                    Line::Unknown(kind) => {
                        if !std::mem::replace(&mut met_unknown, true) {
                            tracing::warn!(kind, "a watch sends events of an unknown type; they are skipped");
                        }
                        // Only shows that the watch is alive.
                        (EventType::Bookmark, Bytes::from_static(b"{}").into())
                    }
                };
                if kind == EventType::Bookmark
                    && initial.is_some()
                    && object.json().is_some_and(|object| ends_initial_events(object).unwrap_or_default())
                {
                    initial = None;
                }
                yield object.into_event(kind);
            }
            whole?;
            if let Some(most) = lines.wants_share() {
                lines.give(limit.share(most).await);
            }
            if lines.is_within_line() {
                limit.goes_on();
            }
        }
        lines.finish()?;
    })
}

/// Parses a line, with the parser of `initial` events until they have ended. A large object that
/// has no share of the process's [budget](crate::wire::process_budget) yet waits for one.
async fn read(
    line: CompleteText,
    initial: Option<&mut InitialEvents>,
    limit: &ObjectLimit,
) -> Result<Line, RequestError> {
    let (line, share) = match line {
        CompleteText::Read(line, share) => (line, share),
        CompleteText::Skipped(outline) => return skipped_line(outline, limit.bytes()),
    };
    let parsed = match initial {
        Some(events) => events.parse(&line, limit.bytes()),
        None => parse_line(&line, limit.bytes()),
    };
    Ok(match parsed? {
        Line::Event(kind, RawObject::Json(object)) => {
            drop(line);
            Line::Event(kind, limit.held(object, share).await.into())
        }
        other => other,
    })
}

/// Flattens a stream of nested results. An outer error ends the stream; an inner one, for example
/// of an object that is too large, does not.
pub(super) fn flattened<T: Send + 'static>(
    pieces: impl Stream<Item = Result<Result<T, RequestError>, RequestError>> + Send + 'static,
) -> BoxStream<'static, Result<T, RequestError>> {
    pieces.map(Result::flatten).boxed()
}
