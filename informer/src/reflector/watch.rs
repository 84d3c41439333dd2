//! Receives changes: one watch after another, each from the version where the last one ended.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use deltafifo::{BoxError, Closed, DeltaObject, OfferError, StoreError};
use futures_util::{FutureExt, StreamExt};
use tokio::task::coop::consume_budget;
use tokio::time::Instant;
use tracing::{Instrument, debug, debug_span};

use super::alarm::Alarm;
use super::error::{ReflectorError, Stop, caught};
use super::metrics::Metrics;
use super::target::{Target, gone, tombstone};
use super::threads::Threads;
use super::versions::Newest;
use super::{Backoff, Reflector, Watch};
use crate::lister_watcher::{EventType, RawObject, RequestError, WatchRequest, is_point_in_time};
use crate::util::random::random_for;
use crate::wire::{LARGE, check};

/// The time after its request in which a server must not end a watch. If it does, the reflector
/// lists again, or, if the watch had events and can be resumed, waits before it opens the next one.
pub(super) const VERY_SHORT: Duration = Duration::from_secs(1);
/// The largest number of attempts in a row to watch, to stream a list, or to request the final list
/// of a namespace that an informer no longer has in its set of namespaces. If this many watches
/// lose their connection before an event, or this many streamed lists fail, the reflector requests
/// a list: a proxy may be blocking watches.
pub(super) const MOST_ATTEMPTS: u32 = 3;
/// The time that a server has to end a watch after its requested end. After that the connection is
/// considered dead.
const GRACE: Duration = Duration::from_secs(30);

impl<K: Send + Sync + 'static> Reflector<K> {
    /// Opens a watch from a version.
    pub(super) async fn open(
        &self,
        resource_version: String,
        send_initial_events: bool,
    ) -> Result<Watch, RequestError> {
        // A random duration, so that not all watches end at once.
        let lasts = self.least_watch.mul_f64(1.0 + random_for("watch").f64());
        let timeout = if send_initial_events { lasts.max(self.watch_list_timeout) } else { lasts };
        let timeout_seconds = u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX).max(1);
        let ends_here = timeout > lasts;
        let first_objects =
            (!send_initial_events && !is_point_in_time(&resource_version)).then(Newest::default);
        let request = WatchRequest { resource_version, send_initial_events, timeout_seconds };
        let events =
            self.answer(self.source.watch_within(request, self.object_limit.clone())).await?;
        let until = Instant::now() + lasts + if ends_here { Duration::ZERO } else { GRACE };
        Ok(Watch { events, until, ends_here, first_objects, _open: self.status.open() })
    }

    /// Watches, beginning with `watch` if there is one, until everything must be listed again.
    pub(super) async fn watch(
        &self,
        mut watch: Option<Watch>,
        backoff: &mut Backoff,
    ) -> Result<Infallible, Stop> {
        let (mut is_restart, mut attempts) = (false, 0);
        loop {
            let mut events = 0;
            // Recorded before the response: a proxy may not forward it before the first event.
            let requested_at = watch.is_none().then(Instant::now);
            let opened = match watch.take() {
                Some(watch) => Ok(watch),
                None => {
                    self.open(self.last_sync_resource_version().unwrap_or_default(), false).await
                }
            };
            let ended = match opened {
                Ok(mut watch) => {
                    self.metrics.record(|metrics| {
                        metrics.watches(std::mem::replace(&mut is_restart, true));
                    });
                    self.watching(&mut watch, &mut events).await?
                }
                Err(error) => Err(error),
            };
            let is_lost =
                ended.as_ref().is_err_and(|error| error.is_cut() && !error.is_for_later());
            attempts = if is_lost && events == 0 { attempts + 1 } else { 0 };
            let can_resume = self.versions.lock().can_resume();
            match ended {
                Ok(()) if requested_at.is_some_and(|at| at.elapsed() < VERY_SHORT) => {
                    self.metrics.record(Metrics::short_watch);
                    if events == 0 || !can_resume {
                        return Err(ReflectorError::Watch(RequestError::VeryShort).into());
                    }
                    // The events are used. Without a pause, a server that always ends watches at
                    // once would be flooded with requests.
                    self.retry_later(RequestError::VeryShort, backoff).await;
                }
                // The usual end. The next watch resumes at the last version.
                Ok(()) if can_resume => {}
                Ok(()) => return Err(Stop::CannotResume),
                Err(error)
                    if can_resume
                        && (error.is_for_later() || is_lost && attempts < MOST_ATTEMPTS) =>
                {
                    self.retry_later(error, backoff).await;
                }
                // 410 Gone, and every other error that another watch from this version would only
                // repeat, or has repeated too often. The caller lists again.
                Err(error) => return Err(ReflectorError::Watch(error).into()),
            }
        }
    }

    /// Runs a watch in its span, until its end.
    async fn watching(
        &self,
        watch: &mut Watch,
        events: &mut usize,
    ) -> Result<Result<(), RequestError>, Closed> {
        let from = self.last_sync_resource_version().unwrap_or_default();
        let began = Instant::now();
        let following = async {
            let ended = self.follow(watch, events).await;
            self.report_version();
            debug!(events, "the watch has ended");
            self.metrics.record(|metrics| metrics.watched(began.elapsed(), *events));
            ended
        };
        following.instrument(debug_span!("watch", from)).await
    }

    /// Feeds the target with the events of a watch, until its end.
    async fn follow(
        &self,
        watch: &mut Watch,
        events: &mut usize,
    ) -> Result<Result<(), RequestError>, Closed> {
        let (opened, mut end) = (Instant::now(), Alarm::at(watch.until));
        let mut last_event = opened;
        loop {
            self.target.ready().await?;
            let ready = watch.events.next().now_or_never();
            let event = if let Some(event) = ready {
                event
            } else {
                self.report_version();
                tokio::select! {
                    biased;
                    event = watch.events.next() => event,
                    () = end.rings() => {
                        // A part of an object has arrived, or it waits for a share. A new watch
                        // would have to receive it from its beginning.
                        if let Some(left) = self.object_limit.left_of(self.silence) {
                            end.set(left);
                            continue;
                        }
                        // A watch with events is alive, even if the server ignores the requested
                        // timeout.
                        let is_silent = last_event.elapsed() >= self.silence.min(opened.elapsed());
                        if is_silent && !watch.ends_here {
                            return Ok(Err(RequestError::Silent { after: last_event.elapsed() }));
                        }
                        debug!("watch reached its time limit; the next one resumes from its last version");
                        self.complete_first_objects(watch);
                        return Ok(Ok(()));
                    }
                }
            };
            let Some(event) = event else {
                self.complete_first_objects(watch);
                return Ok(Ok(()));
            };
            let applied = match RawObject::of_event(event) {
                Ok((kind, object)) => {
                    last_event = self.status.record_event();
                    if kind != EventType::Added {
                        self.complete_first_objects(watch);
                    }
                    self.apply(kind, &object, watch.first_objects.as_mut()).await
                }
                Err(error) => Err(error),
            };
            if let Err(error) = applied {
                return Ok(Err(error));
            }
            *events += 1;
            // Lets other tasks run while events arrive without a pause.
            consume_budget().await;
        }
    }

    /// Records that the objects which the watch sends first are complete. The watch resumes after
    /// the newest of them, since none of the others has changed after that. (client-go resumes
    /// after the last.)
    fn complete_first_objects(&self, watch: &mut Watch) {
        if let Some(newest) = watch.first_objects.take() {
            self.versions.lock().reached(newest.version());
        }
    }

    /// Passes the version of the last event to the target: at a bookmark, when no further event is
    /// ready, and at the end of a watch. An event alone does not advance the applied version, and
    /// a caller that waits for its own write should not have to wait for a bookmark.
    fn report_version(&self) {
        let version = self.versions.lock().take_unreported();
        // The store may be user code, whose panic must not end the watch.
        if let Some(version) = version
            && let Err(panicked) = caught(|| self.target.bookmark(&version))
        {
            self.report(&panicked);
        }
    }

    /// Feeds the target with one event. `first_objects` is given while the event may be for one of
    /// the objects that the watch sends first, and then records the version of the event. Returns
    /// an error if the event is not valid.
    async fn apply(
        &self,
        kind: EventType,
        object: &RawObject,
        first_objects: Option<&mut Newest>,
    ) -> Result<(), RequestError> {
        let head = object.head()?;
        if kind != EventType::Bookmark {
            let fed = match object {
                RawObject::TooLarge(large) => Err(ReflectorError::too_large(large)),
                RawObject::Json(json) => match self.decoded(json).await {
                    Ok(Ok(object)) => {
                        self.metrics.record(Metrics::decoded);
                        let stored = caught(|| self.store(kind, object));
                        stored.and_then(|stored| stored.map_err(ReflectorError::refused))
                    }
                    Ok(Err(error)) => {
                        check(json)?;
                        Err(ReflectorError::undecodable(&head, error))
                    }
                    Err(panicked) => Err(panicked),
                },
            };
            if let Err(error) = fed {
                self.report(&error);
                let name = head.key().into_owned();
                if name.is_empty() && kind != EventType::Deleted && error.is_unread() {
                    self.versions.lock().set_nameless();
                }
                if !name.is_empty()
                    && kind == EventType::Deleted
                    && let Err(error) =
                        delete_refused(&self.target, &self.threads, &error, name).await
                {
                    self.report(&error);
                }
            }
        }
        if kind == EventType::Bookmark || !self.source.is_merged() {
            match first_objects {
                Some(newest) => newest.add(&head.version),
                None => self.versions.lock().reached(&head.version),
            }
        }
        if kind == EventType::Bookmark {
            self.report_version();
        }
        Ok(())
    }

    /// Decodes an object. A large object is decoded on a thread that may block.
    async fn decoded(&self, json: &Bytes) -> Result<Result<Arc<K>, BoxError>, ReflectorError> {
        if json.len() <= LARGE {
            return caught(|| self.decoder.one(json));
        }
        let (decoder, json) = (Arc::clone(&self.decoder), json.clone());
        self.threads.run(move || decoder.one(&json)).await
    }

    /// Passes an object to the target.
    fn store(&self, kind: EventType, object: Arc<K>) -> Result<(), StoreError> {
        match kind {
            EventType::Deleted => self.target.delete(DeltaObject::from(object)),
            EventType::Added => self.target.add(object),
            EventType::Modified | EventType::Bookmark => self.target.update(object),
        }
    }
}

/// Passes to the target a deletion whose object was refused or cannot be read, since the object is
/// deleted in any case. This may scan the whole store.
pub(super) async fn delete_refused<K: Send + Sync + 'static>(
    target: &Arc<dyn Target<K>>,
    threads: &Threads,
    refused: &ReflectorError,
    name: String,
) -> Result<(), ReflectorError> {
    let key = match refused {
        ReflectorError::Refused(OfferError::Transform { key, .. }) => Some(key.clone()),
        _ => None,
    };
    let target = Arc::clone(target);
    let delete = move || {
        let gone = key.map_or_else(|| gone(target.as_ref(), &name), |key| Some(tombstone(&key)));
        gone.map_or(Ok(()), |gone| target.delete(gone))
    };
    threads.run(delete).await?.map_err(ReflectorError::refused)
}
