//! The subscribers of a shared store.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use async_broadcast::{InactiveReceiver, Receiver, Sender};
use futures_util::{Stream, StreamExt};
use kube::Resource;

use super::Store;

/// A change that a writer has made to its store.
#[derive(Debug)]
pub(in crate::runtime) enum Change<K> {
    /// An object was stored, or a complete list has it, changed or not.
    Applied {
        /// The state before, of an object with the same uid.
        old: Option<Arc<K>>,
        new: Arc<K>,
    },
    /// An object was removed: by a deletion, by a complete list that does not have it, or by an
    /// object of the same name and another uid, whose `Applied` follows.
    Deleted {
        /// The state that was stored.
        old: Arc<K>,
        /// The last state, which is `old` if the deletion was not observed.
        last: Arc<K>,
        /// Whether the object may still exist, because the list that does not have it may be that
        /// of another watcher.
        may_exist: bool,
    },
}

impl<K> Change<K> {
    /// Returns false for a deletion of an object that may still exist.
    pub(in crate::runtime) fn is_certain(&self) -> bool {
        !matches!(self, Self::Deleted { may_exist: true, .. })
    }
}

impl<K> Clone for Change<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Applied { old, new } => Self::Applied { old: old.clone(), new: new.clone() },
            Self::Deleted { old, last, may_exist } => {
                Self::Deleted { old: old.clone(), last: last.clone(), may_exist: *may_exist }
            }
        }
    }
}

/// A change, and the number of the event that made it. Numbers grow.
type Numbered<K> = (u64, Change<K>);

/// The sending half of the bounded buffer of changes, of which each subscriber receives all.
pub(super) struct Dispatcher<K> {
    sender: Sender<Numbered<K>>,
    /// Keeps the buffer open while there are no subscribers.
    inactive: InactiveReceiver<Numbered<K>>,
    /// The number of the last event that the store has.
    stored: Arc<AtomicU64>,
}

impl<K> Dispatcher<K> {
    pub(super) fn new(capacity: usize) -> Self {
        let (mut sender, receiver) = async_broadcast::broadcast(capacity.max(1));
        // Changes without a subscriber are dropped.
        sender.set_await_active(false);
        Self { sender, inactive: receiver.deactivate(), stored: Arc::default() }
    }

    /// Puts the changes of an event, which the store already has, into the buffer. Waits until
    /// there is room for each.
    pub(super) async fn send(&self, changes: Vec<Change<K>>) {
        // Release: a subscriber that reads the number also finds the event in the store.
        let number = self.stored.fetch_add(1, Ordering::Release) + 1;
        for change in changes {
            // Fails only if there is no subscriber.
            let _ = self.sender.broadcast_direct((number, change)).await;
        }
    }

    pub(super) fn subscribe(&self, reader: Store<K>) -> ReflectHandle<K>
    where
        K: Resource,
    {
        let changes = self.inactive.activate_cloned();
        ReflectHandle { changes, stored: Arc::clone(&self.stored), reader }
    }
}

/// A subscriber of a shared store (kube's `ReflectHandle`): a stream of the objects that the
/// reflector applies to the store, created by [`Writer::subscribe`](super::Writer::subscribe).
///
/// The stream yields the objects that were applied after it was created, and all objects of each
/// complete list. It ends when the reflector has ended and everything is yielded. A clone yields
/// the objects that the original has not yielded yet.
///
/// **Poll every handle**, or drop it: when a handle lags behind by the size of the buffer, the
/// reflector waits, and so do all other subscribers. In return, no handle loses anything.
///
/// Differences from kube:
///
/// * The stream yields each state that was applied, in order. kube's yields the state that is in
///   the store when the handle is polled.
/// * If an object is deleted before it is yielded, kube's stream stops until the next event. This
///   one continues.
/// * A controller that is given the handle itself also receives deletions, including those that
///   only a list shows. The type of an adapter, such as [`map`](StreamExt::map), can carry none:
///   use [`owns_informer`](crate::runtime::Controller::owns_informer) instead if a deletion must
///   trigger a reconcile.
/// * Deletions also take room in the buffer. Until a list is delivered to every handle, the former
///   states of its objects stay in memory.
/// * The type of the objects may be [dynamic](kube::core::DynamicObject).
pub struct ReflectHandle<K: Resource + 'static> {
    changes: Receiver<Numbered<K>>,
    /// The number of the last event that the store has.
    stored: Arc<AtomicU64>,
    reader: Store<K>,
}

impl<K: Resource + 'static> ReflectHandle<K> {
    /// Returns a read handle to the store.
    #[must_use]
    pub fn reader(&self) -> Store<K> {
        self.reader.clone()
    }
}

impl<K: Resource + Send + Sync + 'static> ReflectHandle<K> {
    /// Returns a stream of the objects that the store has when the stream is first polled, as
    /// applied for the first time, then of the changes that this handle has not yielded yet, and of
    /// all later ones.
    ///
    /// Without the stored objects, the first change of an object that the handle has not yielded
    /// would be an update, which a predicate may reject. An object that was made again before the
    /// start comes before the deletion of the former one.
    pub(in crate::runtime) fn into_changes(self) -> impl Stream<Item = Change<K>> + Send + use<K> {
        let Self { mut changes, stored, reader } = self;
        async_stream::stream! {
            // Before the objects, so that they are at least as new as this event. Of an event that
            // is stored between the two, an object may be yielded twice, which is harmless.
            let listed = stored.load(Ordering::Acquire);
            for new in reader.reader().list() {
                yield Change::Applied { old: None, new };
            }
            while let Some((number, change)) = changes.next().await {
                // Such an object was yielded above, or its next change is still in the buffer.
                let is_known = matches!(change, Change::Applied { old: None, .. });
                if number > listed || !is_known {
                    yield change;
                }
            }
        }
    }
}

impl<K: Resource + 'static> Stream for ReflectHandle<K> {
    type Item = Arc<K>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Arc<K>>> {
        loop {
            match ready!(self.changes.poll_next_unpin(context)) {
                Some((_, Change::Applied { new, .. })) => return Poll::Ready(Some(new)),
                Some((_, Change::Deleted { .. })) => {}
                None => return Poll::Ready(None),
            }
        }
    }
}

impl<K: Resource + 'static> Clone for ReflectHandle<K> {
    fn clone(&self) -> Self {
        let stored = Arc::clone(&self.stored);
        Self { changes: self.changes.clone(), stored, reader: self.reader.clone() }
    }
}

impl<K: Resource + 'static> fmt::Debug for ReflectHandle<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReflectHandle")
            .field("pending", &self.changes.len())
            .field("reader", &self.reader)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;

    use futures_util::{FutureExt, Stream, StreamExt, stream};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::Status;
    use kube::runtime::watcher::{self, Event};

    use super::super::{ReflectHandle, reflector, store_shared};
    use super::Change;

    /// Returns an object. Its uid is a digit of `state`, and its version is the other digits.
    fn map(name: &str, state: u32) -> ConfigMap {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.to_owned());
        map.metadata.uid = Some((state / 100).to_string());
        map.metadata.resource_version = Some(state.to_string());
        map
    }

    fn shown(map: &ConfigMap) -> &str {
        map.metadata.resource_version.as_deref().unwrap_or_default()
    }

    type Watched = watcher::Result<Event<ConfigMap>>;

    /// Returns the changes that these events make: `+a1`, `a1>2` or `-a1>2`, or `?a1` for a
    /// deletion of an object that may still exist.
    fn changes(events: Vec<Watched>) -> Vec<String> {
        let (_, writer) = store_shared(100);
        let handle: ReflectHandle<ConfigMap> = writer.subscribe().unwrap();
        let mut changes = pin!(handle.into_changes());
        assert!(changes.next().now_or_never().is_none(), "the store is empty");
        assert!(reflector(writer, stream::iter(events)).count().now_or_never().is_some());
        shown_changes(changes)
    }

    /// Returns the remaining changes of a writer that was dropped.
    fn shown_changes(changes: impl Stream<Item = Change<ConfigMap>>) -> Vec<String> {
        let show = |change| match change {
            Change::Applied { old: None, new } => format!("+{}", shown(&new)),
            Change::Applied { old: Some(old), new } => format!("{}>{}", shown(&old), shown(&new)),
            Change::Deleted { old, may_exist: true, .. } => format!("?{}", shown(&old)),
            Change::Deleted { old, last, .. } if Arc::ptr_eq(&old, &last) => {
                format!("-{}", shown(&old))
            }
            Change::Deleted { old, last, .. } => format!("-{}>{}", shown(&old), shown(&last)),
        };
        changes.map(show).collect().now_or_never().expect("the writer is dropped")
    }

    #[test]
    fn changes_have_the_states_before_and_after() {
        let events = [101, 102].map(|state| Ok(Event::Apply(map("a", state))));
        let deleted = [103, 104].map(|state| Ok(Event::Delete(map("a", state))));
        let changes = changes(events.into_iter().chain(deleted).collect());
        assert_eq!(changes, ["+101", "101>102", "-102>103"]);
    }

    #[test]
    fn object_made_again_is_deleted_first() {
        let changes = changes([101, 202].map(|state| Ok(Event::Apply(map("a", state)))).into());
        assert_eq!(changes, ["+101", "-101", "+202"]);
    }

    #[allow(clippy::unnecessary_wraps)] // A watcher yields results.
    fn listed(name: &str, state: u32) -> Watched {
        Ok(Event::InitApply(map(name, state)))
    }

    fn list(objects: &[(&str, u32)]) -> Vec<Watched> {
        let objects = objects.iter().map(|(name, state)| listed(name, *state));
        [Ok(Event::Init)].into_iter().chain(objects).chain([Ok(Event::InitDone)]).collect()
    }

    /// Returns a list after an error, without which a watcher does not list again.
    fn relist(objects: &[(&str, u32)]) -> Vec<Watched> {
        let failed = Err(watcher::Error::NoResourceVersion);
        [failed].into_iter().chain(list(objects)).collect()
    }

    #[test]
    fn list_deletes_what_it_does_not_have_before_it_applies_the_rest() {
        let mut events = list(&[("a", 101), ("b", 102), ("c", 103)]);
        events.extend(relist(&[("b", 102), ("c", 204), ("d", 105)]));
        let mut changes = changes(events);
        let second = changes.split_off(3);
        assert_eq!(second[0], "-101");
        let position = |change: &str| second.iter().position(|other| other == change).unwrap();
        assert!(position("-103") < position("+204"));
        let mut second = second.clone();
        second.sort();
        assert_eq!(second, ["+105", "+204", "-101", "-103", "102>102"]);
    }

    #[test]
    fn streamed_list_that_begins_anew_without_an_error_is_of_the_same_watcher() {
        let mut events = list(&[("a", 101)]);
        events.extend(relist(&[]).into_iter().take(2));
        events.extend(list(&[]));
        events.extend(relist(&[("b", 102)]));
        events.extend(relist(&[]));
        assert_eq!(changes(events), ["+101", "-101", "+102", "-102"]);
    }

    #[test]
    fn object_that_a_list_of_another_watcher_does_not_have_may_exist() {
        let first = || list(&[("a", 101)]);
        let events = |others: Vec<Watched>| first().into_iter().chain(others).collect();
        // A list without an error before it.
        assert_eq!(changes(events(list(&[]))), ["+101", "?101"]);
        // An event of a watch within a list.
        for event in [Event::Apply(map("b", 102)), Event::Delete(map("b", 102))] {
            let mut others = relist(&[]);
            others.insert(2, Ok(event));
            let changes = changes(events(others));
            assert!(changes.contains(&"?101".to_owned()), "{changes:?}");
        }
        // Two lists at a time, and a third one later.
        let mut others = relist(&[("a", 101)]);
        others.insert(2, Ok(Event::Init));
        others.extend([listed("b", 102), Ok(Event::InitDone)]);
        others.extend(relist(&[]));
        let mut changes = changes(events(others));
        let last = changes.split_off(3);
        assert_eq!(changes, ["+101", "101>101", "+102"]);
        assert!(last.iter().all(|change| change.starts_with('?')), "{last:?}");
        assert_eq!(last.len(), 2);
    }

    #[test]
    fn list_after_an_error_that_begins_no_list_is_of_another_watcher() {
        let status = |code| Box::new(Status::failure("the server's words", "").with_code(code));
        let failed = || kube::Error::Service("as the test wants".into());
        let with_list_after = |error| {
            let mut events = list(&[("a", 101)]);
            events.push(Err(error));
            events.extend(list(&[]));
            changes(events)
        };
        for error in [watcher::Error::NoResourceVersion, watcher::Error::WatchError(status(410))] {
            assert_eq!(with_list_after(error), ["+101", "-101"]);
        }
        for error in [
            watcher::Error::InitialListFailed(failed()),
            watcher::Error::WatchStartFailed(failed()),
            watcher::Error::WatchFailed(failed()),
            watcher::Error::WatchError(status(500)),
        ] {
            assert_eq!(with_list_after(error), ["+101", "?101"]);
        }
    }

    #[test]
    fn deletion_that_a_watcher_has_seen_is_certain_although_there_are_others() {
        let mut events = list(&[("a", 101)]);
        events.extend(list(&[("a", 101)]));
        events.push(Ok(Event::Delete(map("a", 102))));
        assert_eq!(changes(events), ["+101", "101>101", "-101>102"]);
    }

    #[test]
    fn stored_objects_are_applied_for_the_first_time_once() {
        let (_, writer) = store_shared(100);
        let mut yields = writer.subscribe().unwrap();
        let pending = yields.clone();
        let root = reflector(writer, stream::iter(list(&[("a", 101), ("b", 102)])));
        assert!(root.count().now_or_never().is_some());
        assert_eq!((&mut yields).count().now_or_never(), Some(2));
        for handle in [pending, yields.clone(), yields] {
            let mut changes = shown_changes(handle.into_changes());
            changes.sort();
            assert_eq!(changes, ["+101", "+102"]);
        }
    }

    /// Of a handle that starts late, the buffer has the changes of `a` and `b`, and the store has
    /// the last state of each.
    #[test]
    fn changes_before_a_late_start_follow_the_stored_objects() {
        let (_, writer) = store_shared(100);
        let handle: ReflectHandle<ConfigMap> = writer.subscribe().unwrap();
        let mut events = list(&[("a", 101), ("b", 102)]);
        events.extend([103, 204].map(|state| Ok(Event::Apply(map("a", state)))));
        events.push(Ok(Event::Delete(map("b", 105))));
        assert!(reflector(writer, stream::iter(events)).count().now_or_never().is_some());
        let changes = shown_changes(handle.into_changes());
        assert_eq!(changes, ["+204", "101>103", "-103", "-102>105"]);
    }

    #[test]
    fn handle_keeps_no_object_after_its_start() {
        let (store, mut writer) = store_shared(100);
        for name in ["a", "b"] {
            writer.apply_watcher_event(&Event::Apply(map(name, 101)));
        }
        let handle: ReflectHandle<ConfigMap> = writer.subscribe().unwrap();
        let events = stream::iter([Ok(Event::Apply(map("c", 101)))]).chain(stream::pending());
        let mut root = pin!(reflector(writer, events));
        assert!(root.next().now_or_never().is_some());
        let mut changes = pin!(handle.into_changes());
        for _ in 0..3 {
            assert!(changes.next().now_or_never().is_some());
        }
        assert!(changes.next().now_or_never().is_none(), "no first state is yielded twice");
        // One for the store, and one for `state`.
        assert!(store.state().iter().all(|object| Arc::strong_count(object) == 2));
    }

    #[test]
    fn change_of_a_stored_object_follows_its_first_state() {
        let (_, mut writer) = store_shared(100);
        writer.apply_watcher_event(&Event::Apply(map("a", 101)));
        let handle = writer.subscribe().unwrap();
        let mut changes = pin!(handle.into_changes());
        let first = changes.next().now_or_never().flatten();
        assert!(matches!(first, Some(Change::Applied { old: None, .. })), "{first:?}");
        let events = [Ok(Event::Apply(map("a", 102))), Ok(Event::Apply(map("a", 103)))];
        assert!(reflector(writer, stream::iter(events)).count().now_or_never().is_some());
        assert_eq!(shown_changes(changes), ["101>102", "102>103"]);
    }
}
