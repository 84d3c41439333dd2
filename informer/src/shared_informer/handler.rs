//! Handlers: the trait, and how one is to be told.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deltafifo::DeltaObject;

use super::buffers::Buffer;
use super::feed::Matches;
use super::notification::Notification;

/// Is told of objects (client-go `ResourceEventHandler`). Each handler has a thread of its own, so
/// it may block, and only it waits for itself. A closure that takes a [`Notification`] is one,
/// too.
///
/// A panic goes no further than the notification that caused it: it is reported, and the next one
/// follows.
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
pub trait EventHandler<K>: Send + 'static {
    /// Is told of whatever it is. By default calls the others; a handler that asks for
    /// [causes](super::Cause), or must know of resyncs, has this one for itself.
    fn on_notification(&mut self, notification: Notification<K>) {
        match notification {
            Notification::Added { new, is_in_initial_list, .. } => self.on_add(new, is_in_initial_list),
            Notification::Updated { old, new, .. } => self.on_update(old, new),
            Notification::Deleted { last, .. } => self.on_delete(last),
            Notification::ResyncBegins | Notification::ResyncEnds => {}
        }
    }

    /// There is an object that it was not told of.
    fn on_add(&mut self, object: Arc<K>, is_in_initial_list: bool) {
        let _ = (object, is_in_initial_list);
    }

    /// An object has changed; or not, when a resync tells of it.
    fn on_update(&mut self, old: Arc<K>, new: Arc<K>) {
        let _ = (old, new);
    }

    /// An object is gone: its last state, or a tombstone if nobody saw that.
    fn on_delete(&mut self, last: DeltaObject<K>) {
        let _ = last;
    }
}

impl<K, F: FnMut(Notification<K>) + Send + 'static> EventHandler<K> for F {
    fn on_notification(&mut self, notification: Notification<K>) {
        self(notification);
    }
}

/// When everything is to be told again.
#[derive(Clone, Copy, Debug)]
pub(super) enum Resync {
    AsInformer,
    Never,
    Every(Duration),
}

impl Resync {
    pub(super) fn or(self, of_informer: Option<Duration>) -> Option<Duration> {
        match self {
            Self::AsInformer => of_informer,
            Self::Never => None,
            Self::Every(period) => Some(period),
        }
    }
}

/// How a handler is to be told. The default: changes compressed per key, the informer's resync
/// period, of all objects.
#[must_use]
pub struct HandlerOptions<K> {
    pub(super) name: String,
    pub(super) buffer: Buffer,
    pub(super) resync: Resync,
    pub(super) matches: Option<Box<Matches<K>>>,
}

impl<K> Default for HandlerOptions<K> {
    fn default() -> Self {
        Self { name: String::new(), buffer: Buffer::default(), resync: Resync::AsInformer, matches: None }
    }
}

impl<K> HandlerOptions<K> {
    /// The default ones.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the handler, for spans, and for [metrics](crate::metrics) if its informer has a name,
    /// too.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// What becomes of changes that the handler has no time for.
    pub fn buffer(mut self, buffer: Buffer) -> Self {
        self.buffer = buffer;
        self
    }

    /// Every `period` it is told everything that is stored as an update to itself, with
    /// [`Cause::Resync`](super::Cause::Resync) (client-go `AddEventHandlerWithResyncPeriod`). At
    /// least every second; `None`, or 0, for never. By a walk, as for a late handler: nobody else
    /// notices anything.
    pub fn resync(mut self, period: Option<Duration>) -> Self {
        self.resync = period.map_or(Resync::Never, Resync::Every);
        self
    }

    /// It is told only of objects that match (client-go `FilteringResourceEventHandler`): one that
    /// begins to is added, one that ceases to is deleted, and `old` is the last state that did. By
    /// what it was told last and what is now, whatever came between. An object at which it panics
    /// does not match, and the panic is reported.
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
