//! Handlers: the trait, and the options of a handler.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deltafifo::DeltaObject;

use super::buffers::Buffer;
use super::feed::Matches;
use super::notification::Notification;

/// An event handler, which is notified of changes of objects (client-go `ResourceEventHandler`).
/// Each handler has a thread of its own, so it may block without delaying others. A closure that
/// takes a [`Notification`] is a handler, too.
///
/// A panic is reported, and the next notification follows. The notification that caused it is not
/// redelivered.
///
/// ```
/// use std::sync::Arc;
/// use deltafifo_informer::shared_informer::EventHandler;
/// use k8s_openapi::api::core::v1::Pod;
///
/// struct Counter { pods: usize }
/// impl EventHandler<Pod> for Counter {
///     fn on_add(&mut self, _pod: Arc<Pod>, _is_in_initial_list: bool) { self.pods += 1; }
/// }
/// ```
#[doc(alias = "ResourceEventHandler")]
pub trait EventHandler<K>: Send + 'static {
    /// Receives every notification. The default calls the other methods; a handler that needs the
    /// [cause](super::Cause), or must know of resyncs, implements this one.
    fn on_notification(&mut self, notification: Notification<K>) {
        match notification {
            Notification::Added { new, is_in_initial_list, .. } => {
                self.on_add(new, is_in_initial_list);
            }
            Notification::Updated { old, new, .. } => self.on_update(old, new),
            Notification::Deleted { last, .. } => self.on_delete(last),
            Notification::ResyncBegins | Notification::ResyncEnds => {}
        }
    }

    /// Receives an object that the handler was not notified of before.
    fn on_add(&mut self, object: Arc<K>, is_in_initial_list: bool) {
        let _ = (object, is_in_initial_list);
    }

    /// Receives an object that has changed, or that a resync delivers unchanged.
    fn on_update(&mut self, old: Arc<K>, new: Arc<K>) {
        let _ = (old, new);
    }

    /// Receives the last state of a deleted object, or a tombstone if the watch missed the
    /// deletion.
    ///
    /// An informer of several namespaces or of shards also removes the objects of a namespace or
    /// shard that leaves it. These objects may still exist. The handler receives a tombstone for
    /// each of them, with
    /// [`scope_removed`](deltafifo::DeletedFinalStateUnknown::scope_removed).
    fn on_delete(&mut self, last: DeltaObject<K>) {
        let _ = last;
    }
}

impl<K, F: FnMut(Notification<K>) + Send + 'static> EventHandler<K> for F {
    fn on_notification(&mut self, notification: Notification<K>) {
        self(notification);
    }
}

/// The resync period of a handler.
#[derive(Clone, Copy, Debug)]
pub(super) enum ResyncPeriod {
    AsInformer,
    Never,
    Every(Duration),
}

impl ResyncPeriod {
    pub(super) fn or(self, of_informer: Option<Duration>) -> Option<Duration> {
        match self {
            Self::AsInformer => of_informer,
            Self::Never => None,
            Self::Every(period) => Some(period),
        }
    }
}

/// The options of a handler. By default changes are compressed per key, the resync period is the
/// informer's, and there is no filter.
#[must_use]
pub struct HandlerOptions<K> {
    pub(in crate::shared_informer) name: String,
    pub(super) buffer: Buffer,
    pub(super) resync: ResyncPeriod,
    pub(super) matches: Option<Box<Matches<K>>>,
}

impl<K> Default for HandlerOptions<K> {
    fn default() -> Self {
        Self {
            name: String::new(),
            buffer: Buffer::default(),
            resync: ResyncPeriod::AsInformer,
            matches: None,
        }
    }
}

impl<K> HandlerOptions<K> {
    /// Creates the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the handler in spans. If its informer has a name too, the handler also gets
    /// [metrics](crate::metrics).
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the policy of the handler's buffer, for changes that the handler is too slow for.
    pub fn buffer(mut self, buffer: Buffer) -> Self {
        self.buffer = buffer;
        self
    }

    /// Sets a period after which the handler is notified of every stored object, as an update to
    /// itself with [`Cause::Resync`](super::Cause::Resync) (client-go
    /// `AddEventHandlerWithResyncPeriod`). The shortest period is a second; `None` or 0 means
    /// never. A resync walks over the store, as for a late handler, and does not affect other
    /// handlers.
    #[doc(alias = "AddEventHandlerWithResyncPeriod")]
    pub fn resync(mut self, period: Option<Duration>) -> Self {
        self.resync = period.map_or(ResyncPeriod::Never, ResyncPeriod::Every);
        self
    }

    /// Sets a filter: the handler is notified only of objects that match (client-go
    /// `FilteringResourceEventHandler`). An object that begins to match is added, and one that
    /// ceases to match is deleted; `old` is the last state that matched. The filter is applied to
    /// the state that the handler was last notified of and to the newest one, not to states in
    /// between. If the filter panics, the object does not match, and the panic is reported.
    #[doc(alias = "predicate_filter")]
    #[doc(alias = "FilteringResourceEventHandler")]
    pub fn filter(mut self, matches: impl Fn(&K) -> bool + Send + Sync + 'static) -> Self {
        self.matches = Some(Box::new(matches));
        self
    }
}

impl<K> fmt::Debug for HandlerOptions<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, buffer, resync, matches: _ } = self;
        f.debug_struct("HandlerOptions")
            .field("name", name)
            .field("buffer", buffer)
            .field("resync", resync)
            .finish_non_exhaustive()
    }
}
