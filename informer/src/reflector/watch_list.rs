//! Lists all objects by a watch that sends them first (`WatchList`), so that the server does not
//! have to build a list.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::task::Poll;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::Instant;

use super::alarm::Alarm;
use super::batches::{Batch, BatchSender};
use super::error::{ListFailure, ReflectorError, Stop};
use super::limits::Limits;
use super::watch::{MOST_ATTEMPTS, VERY_SHORT};
use super::{Backoff, Reflector, Watch};
use crate::lister_watcher::{EventType, RawEvent, RawObject, RequestError, WatchStream};
use crate::wire::{Head, WireError, ends_initial_events};

/// The time after which added items are flushed if no further item arrives. A server that sends
/// without pauses sends many items in this time.
const PAUSE: Duration = Duration::from_millis(5);
/// The largest number of events that are taken at once. A chunk of a body has few.
const AT_ONCE: usize = 16;
/// The time for which lists are requested after a server did not complete a streamed list.
const UNSTREAMED: Duration = Duration::from_secs(3_600);

impl<K: Send + Sync + 'static> Reflector<K> {
    /// Streams all objects, and returns the watch that continues from there. Returns `None` if a
    /// list is needed instead: the server refused the watch, failed too often, or, within the last
    /// [`UNSTREAMED`], failed to complete a streamed list.
    pub(super) async fn list_by_watch(&self, backoff: &mut Backoff) -> Result<Option<Watch>, Stop> {
        let began = Instant::now();
        if self.unstreamed_until.lock().is_some_and(|until| began < until) {
            return Ok(None);
        }
        let deadline = began + self.watch_list_timeout;
        let mut attempts = 1;
        loop {
            let requested_at = Instant::now();
            let error = match self.stream_list(deadline).await? {
                ControlFlow::Break(watch) => return Ok(Some(watch)),
                ControlFlow::Continue(error) => error,
            };
            if error.is_version_unavailable() {
                self.versions.lock().set_unavailable(&error);
            }
            // After silence the server may not know the parameter, and then it will never mark the
            // end. After a late failure another attempt would take as long.
            let is_brief = !matches!(error, RequestError::Silent { .. })
                && requested_at.elapsed() < self.silence;
            let is_for_later = error.is_for_later() || error.retry_after().is_some();
            let repeats =
                error.is_cut() && is_brief || is_for_later || error.is_version_unavailable();
            // These errors cost only one request.
            let is_refusal = matches!(
                error,
                RequestError::Status { .. }
                    | RequestError::ErrorEvent { .. }
                    | RequestError::Unreachable(_)
            );
            if repeats {
                self.retry_later(error, backoff).await;
            } else {
                self.report(&ReflectorError::Watch(error));
            }
            if !repeats || attempts == MOST_ATTEMPTS || Instant::now() >= deadline {
                if !is_refusal {
                    *self.unstreamed_until.lock() = Some(Instant::now() + UNSTREAMED);
                }
                return Ok(None);
            }
            attempts += 1;
        }
    }

    async fn stream_list(
        &self,
        deadline: Instant,
    ) -> Result<ControlFlow<Watch, RequestError>, Stop> {
        let from = self.versions.lock().for_watch_list();
        match self.listing("watch", &from, self.stream_all(&from, deadline)).await {
            Ok(watch) => Ok(ControlFlow::Break(watch)),
            Err(ListFailure::Request(error)) => Ok(ControlFlow::Continue(error)),
            Err(ListFailure::Stop(stop)) => Err(stop),
        }
    }

    /// Streams all objects. Returns the watch, and the number of objects.
    async fn stream_all(
        &self,
        from: &str,
        deadline: Instant,
    ) -> Result<(Watch, usize), ListFailure> {
        // The relist begins before the request, because the list counts for the history in which
        // its relist began.
        let pieces = self.begin()?;
        let mut watch = self.open(from.to_owned(), true).await?;
        let (sender, batches) = BatchSender::new(&self.in_flight);
        let reading = self.read_initial(sender, &mut watch, deadline);
        let (version, (pieces, items)) = tokio::try_join!(reading, self.receive(pieces, batches))?;
        self.commit(pieces, version).await.map_err(ListFailure::Stop)?;
        Ok((watch, items))
    }

    /// Reads up to the bookmark that ends the initial events. Returns the version of that
    /// bookmark.
    async fn read_initial(
        &self,
        mut sender: BatchSender,
        watch: &mut Watch,
        deadline: Instant,
    ) -> Result<String, ListFailure> {
        const WHAT: &str = "the initial events of a watch";
        let (opened, mut events, mut ready) = (Instant::now(), 0, Vec::new());
        let (mut limits, mut pause) = (
            Limits::new(WHAT, self.silence, deadline, self.object_limit.clone()),
            Alarm::after(PAUSE),
        );
        loop {
            tokio::select! {
                biased;
                taken = limits.wait(take_ready(&mut watch.events, &mut ready)) => taken,
                () = pause.rings(), if sender.holds_any() => {
                    limits.exclude(sender.flush()).await;
                    limits.wait(take_ready(&mut watch.events, &mut ready)).await
                }
            }?;
            for event in ready.drain(..) {
                let Some(event) = event else {
                    if events == 0 && opened.elapsed() < VERY_SHORT {
                        return Err(RequestError::VeryShort.into());
                    }
                    return Err(RequestError::from(WireError::CutShort { of: WHAT }).into());
                };
                let (kind, object) = RawObject::of_event(event)?;
                events += 1;
                self.status.record_event();
                if kind == EventType::Added {
                    // Only ADDED events count as progress: changes and bookmarks arrive from any
                    // server, forever.
                    limits.piece_counts();
                }
                if kind != EventType::Bookmark {
                    // Events arrive in any order of versions. If the stream fails, only the newest
                    // state is certain not to be older than an event.
                    self.versions.lock().set_least("");
                }
                match kind {
                    EventType::Added | EventType::Modified => {
                        if !sender.holds_any() {
                            pause.set(PAUSE);
                        }
                        sender.items([object]).await;
                    }
                    EventType::Deleted => sender.send(Batch::Deleted(object)).await,
                    EventType::Bookmark => {
                        if let Some(version) = end_of_initial_events(&object)? {
                            sender.flush().await;
                            return Ok(version);
                        }
                    }
                }
            }
        }
    }
}

/// Returns the version of the bookmark that ends the initial events, or `None` for another one.
fn end_of_initial_events(bookmark: &RawObject) -> Result<Option<String>, RequestError> {
    let object = bookmark.json().map_or(&b"{}"[..], AsRef::as_ref);
    if !ends_initial_events(object)? {
        return Ok(None);
    }
    let version = Head::of(object)?.version;
    if version.is_empty() {
        return Err(RequestError::without_version("the end of the initial events"));
    }
    Ok(Some(version.into_owned()))
}

/// Waits for an event, and takes those after it that are ready as well, up to a bookmark, an error
/// or the end of the watch, which is `None`. Dropping the future loses nothing.
async fn take_ready(
    events: &mut WatchStream,
    ready: &mut Vec<Option<Result<RawEvent, RequestError>>>,
) {
    poll_fn(|cx| {
        while ready.len() < AT_ONCE
            && let Poll::Ready(event) = events.poll_next_unpin(cx)
        {
            let is_change = matches!(&event, Some(Ok(event)) if event.kind != EventType::Bookmark);
            ready.push(event);
            if !is_change {
                break;
            }
        }
        if ready.is_empty() { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::{FutureExt, StreamExt, stream};

    use super::{AT_ONCE, take_ready};
    use crate::lister_watcher::{EventType, RawEvent, RequestError};

    fn event(kind: EventType) -> RawEvent {
        RawEvent { kind, object: Bytes::from_static(b"{}") }
    }

    #[test]
    fn ready_events_are_taken_up_to_a_bookmark_an_error_or_the_end() {
        let kinds = [EventType::Added, EventType::Modified, EventType::Bookmark];
        let first = kinds.map(|kind| Ok(event(kind)));
        let then = [Err(RequestError::VeryShort), Ok(event(EventType::Added))];
        let mut events = stream::iter(first.into_iter().chain(then)).boxed();
        let mut ready = Vec::new();
        for taken in [3, 1, 2] {
            take_ready(&mut events, &mut ready).now_or_never().expect("events are ready");
            assert_eq!(ready.drain(..).len(), taken);
        }
    }

    #[test]
    fn event_that_is_not_ready_is_not_waited_for_and_ready_ones_are_limited() {
        let added = stream::repeat_with(|| Ok(event(EventType::Added)));
        let mut events = added.take(AT_ONCE + 1).chain(stream::pending()).boxed();
        let mut ready = Vec::new();
        for taken in [AT_ONCE, 1] {
            take_ready(&mut events, &mut ready).now_or_never().expect("events are ready");
            assert_eq!(ready.drain(..).len(), taken);
        }
        assert!(take_ready(&mut events, &mut ready).now_or_never().is_none());
    }
}
