//! The methods of streams of watch events (kube's `WatchStreamExt`).

use futures_util::{Stream, TryStream, TryStreamExt};
use kube::Resource;
use kube::runtime::WatchStreamExt as Kubes;
use kube::runtime::utils::{
    Backoff, EventDecode, EventModify, PredicateConfig, PredicateFilter, StreamBackoff,
};
use kube::runtime::watcher::{self, DefaultBackoff, Event};

use super::predicate::{Predicate, Unhidden};
use super::reflector::{Writer, reflector};

/// The methods of streams that a [`watcher`](super::watcher()) or a
/// [`reflector`](super::reflector()) returns (kube's `WatchStreamExt`, with the same methods).
///
/// Import this trait instead of kube's, not beside it. Methods that need no store are kube's own
/// and return its types, so they chain in any order.
pub trait WatchStreamExt: Stream {
    /// Pauses the stream after each error, for a time that grows as in kube's
    /// [`DefaultBackoff`]. Without a backoff, a stream of a server that fails repeats its requests
    /// at once.
    fn default_backoff(self) -> StreamBackoff<Self, DefaultBackoff>
    where
        Self: TryStream + Sized,
    {
        Kubes::default_backoff(self)
    }

    /// Pauses the stream after each error, for the time that `backoff` returns. The stream ends if
    /// it returns `None`.
    fn backoff<B: Backoff>(self, backoff: B) -> StreamBackoff<Self, B>
    where
        Self: TryStream + Sized,
    {
        Kubes::backoff(self, backoff)
    }

    /// Converts the events to the objects that were created or changed, or that a list has.
    fn applied_objects<K>(self) -> EventDecode<Self>
    where
        Self: Stream<Item = watcher::Result<Event<K>>> + Sized,
    {
        Kubes::applied_objects(self)
    }

    /// Converts the events to the objects that were created, changed or deleted, or that a list
    /// has. A deletion that only a list shows is lost. An
    /// [informer](crate::SharedInformer::for_stream) delivers it.
    fn touched_objects<K>(self) -> EventDecode<Self>
    where
        Self: Stream<Item = watcher::Result<Event<K>>> + Sized,
    {
        Kubes::touched_objects(self)
    }

    /// Changes the object of each event, for example to drop fields that take memory.
    fn modify<F, K>(self, modify: F) -> EventModify<Self, F>
    where
        Self: Stream<Item = watcher::Result<Event<K>>> + Sized,
        F: FnMut(&mut K),
    {
        Kubes::modify(self, modify)
    }

    /// Hides an object whose property `predicate` is the same as when the stream last had the
    /// object. `predicate` is one of [`predicates`](super::predicates), or a function that returns
    /// the hash of a property. An object without the property is never hidden.
    ///
    /// `config` limits how long the property of an object is kept: an hour by default after the
    /// stream last had the object.
    ///
    /// Differences from kube: the start of a deletion and changes of finalizers are never hidden,
    /// because a [`finalizer`](super::finalizer()) waits for both. Nor is an object hidden whose
    /// property was removed and set again. As in kube, an object that was made again is not hidden,
    /// because its uid is another one, but a deletion by
    /// [`touched_objects`](Self::touched_objects) may be: use
    /// [`predicates::resource_version`](super::predicates::resource_version), or an
    /// [informer](crate::SharedInformer::for_stream), which hides no deletion.
    fn predicate_filter<K, P, M>(
        self,
        predicate: P,
        config: PredicateConfig,
    ) -> PredicateFilter<Self, K, Unhidden<P, M>>
    where
        Self: Stream<Item = watcher::Result<K>> + Sized,
        K: Resource + 'static,
        P: Predicate<K, M> + 'static,
        M: 'static,
    {
        Kubes::predicate_filter(self, Unhidden::new(predicate), config)
    }

    /// Applies each event to the store of `writer` before the stream yields it. Subscribers are not
    /// notified: for them there is [`reflect_shared`](Self::reflect_shared).
    fn reflect<K>(self, mut writer: Writer<K>) -> impl Stream<Item = Self::Item>
    where
        Self: Stream<Item = watcher::Result<Event<K>>> + Sized,
        K: Resource + Clone + 'static,
    {
        self.inspect_ok(move |event| writer.apply_watcher_event(event))
    }

    /// Applies each event to the store of `writer`, and passes it to the
    /// [subscribers](Writer::subscribe), before the stream yields it, as [`reflector()`] does.
    fn reflect_shared<K>(self, writer: Writer<K>) -> impl Stream<Item = Self::Item>
    where
        Self: Stream<Item = watcher::Result<Event<K>>> + Sized,
        K: Resource + Clone + 'static,
    {
        reflector(writer, self)
    }
}

impl<S: Stream + ?Sized> WatchStreamExt for S {}
