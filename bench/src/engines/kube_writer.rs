//! The engine of kube-rs' store: `reflector::Writer`, which gets the events of a watcher. The
//! store is only a map. It has no deltas, no handler and no index, and shows no deletion that a
//! watch missed, so all counts of the engine are zero.
//!
//! `apply_watcher_event` clones every object of an event. For an object by value ([`Owned`]) this
//! is a deep clone. The best case is an object behind an `Arc`.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;

use deltafifo::{Meta, SelectorError};
use kube::core::{Selector, SelectorExt};
use kube::runtime::reflector::{Lookup, ObjectRef, Store, store::Writer};
use kube::runtime::watcher::Event;
use parking_lot::Mutex;

use super::{Counts, ListEngine, SelectorEngine, StoreEngine};
use crate::data::{AppSelector, LabelMap};

/// A form in which an event holds its object.
pub trait ObjectHolder: Clone + Send + Sync + 'static {
    type Object: Send + Sync;

    /// Creates a holder of an object that is in a list.
    fn of(object: &Arc<Self::Object>) -> Self;

    fn object(&self) -> &Self::Object;
}

/// An object that is held by value.
#[derive(Clone)]
pub struct Owned<T>(T);

impl<T: Clone + Send + Sync + 'static> ObjectHolder for Owned<T> {
    type Object = T;

    fn of(object: &Arc<T>) -> Self {
        Self(T::clone(object))
    }

    fn object(&self) -> &T {
        &self.0
    }
}

impl<T: Send + Sync + 'static> ObjectHolder for Arc<T> {
    type Object = T;

    fn of(object: &Arc<T>) -> Self {
        object.clone()
    }

    fn object(&self) -> &T {
        self
    }
}

/// An entry of the store: an object, and the type that reads its metadata.
#[derive(Clone)]
pub struct Entry<H, M>(H, PhantomData<M>);

impl<H: ObjectHolder, M: Meta<H::Object> + Default> Lookup for Entry<H, M> {
    type DynamicType = ();

    fn kind((): &()) -> Cow<'_, str> {
        "Pod".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "pods".into()
    }

    fn name(&self) -> Option<Cow<'_, str>> {
        M::default().name(self.0.object()).map(Cow::Borrowed)
    }

    fn namespace(&self) -> Option<Cow<'_, str>> {
        M::default().namespace(self.0.object()).map(Cow::Borrowed)
    }

    fn resource_version(&self) -> Option<Cow<'_, str>> {
        M::default().version(self.0.object()).map(Cow::Borrowed)
    }

    fn uid(&self) -> Option<Cow<'_, str>> {
        M::default().uid(self.0.object()).map(Cow::Borrowed)
    }
}

/// The events with which a watcher delivers a list.
#[derive(Clone)]
pub struct Events<H, M>(Arc<[Event<Entry<H, M>>]>);

/// An entry that a read has returned, shared with the store.
pub struct StoredEntry<H, M>(Arc<Entry<H, M>>);

impl<H: ObjectHolder, M> AsRef<H::Object> for StoredEntry<H, M> {
    fn as_ref(&self) -> &H::Object {
        self.0.0.object()
    }
}

impl<H: ObjectHolder, M> From<&[Arc<H::Object>]> for Events<H, M> {
    fn from(list: &[Arc<H::Object>]) -> Self {
        let objects = list.iter().map(|object| Event::InitApply(Entry(H::of(object), PhantomData)));
        Self([Event::Init].into_iter().chain(objects).chain([Event::InitDone]).collect())
    }
}

/// The engine of kube-rs' store.
pub struct KubeWriterEngine<H: ObjectHolder, M: Meta<H::Object> + Copy + Default + 'static> {
    writer: Mutex<Writer<Entry<H, M>>>,
    store: Store<Entry<H, M>>,
    /// The lists so far. Like the lists of every other engine, they outlive the measured work.
    kept_lists: Mutex<Vec<Events<H, M>>>,
}

impl<H: ObjectHolder, M: Meta<H::Object> + Copy + Default + 'static> Default
    for KubeWriterEngine<H, M>
{
    fn default() -> Self {
        let writer = Writer::new(());
        Self { store: writer.as_reader(), writer: Mutex::new(writer), kept_lists: Mutex::default() }
    }
}

impl<H: ObjectHolder, M: Meta<H::Object> + Copy + Default + 'static> ListEngine<H::Object>
    for KubeWriterEngine<H, M>
{
    const MAKES_DELTAS: bool = false;
    // The engine keeps the events of a list, and so their objects.
    const OWNS_LISTS: bool = false;
    type List = Events<H, M>;

    fn replace(&self, events: Events<H, M>, _version: &str) {
        let mut writer = self.writer.lock();
        events.0.iter().for_each(|event| writer.apply_watcher_event(event));
        self.kept_lists.lock().push(events);
    }

    fn drain(&self) -> Counts {
        Counts::default()
    }

    fn for_each_known(&self, mut visit: impl FnMut(&H::Object)) {
        for entry in self.store.state() {
            visit(entry.0.object());
        }
    }
}

impl<H: ObjectHolder, M: Meta<H::Object> + Copy + Default + 'static> StoreEngine<H::Object>
    for KubeWriterEngine<H, M>
{
    type Key = ObjectRef<Entry<H, M>>;

    fn key(&self, object: &Arc<H::Object>) -> Self::Key {
        Entry(H::of(object), PhantomData).to_object_ref(())
    }

    fn get(&self, key: &Self::Key) -> Option<impl AsRef<H::Object>> {
        self.store.get(key).map(StoredEntry)
    }
}

impl<H: ObjectHolder, M: LabelMap<H::Object> + Copy + Default + 'static> SelectorEngine<H::Object>
    for KubeWriterEngine<H, M>
{
    type Selector = Selector;
    type Found = StoredEntry<H, M>;

    fn selector(selector: &AppSelector) -> Result<Selector, SelectorError> {
        Ok(selector.into())
    }

    /// Filters all objects, as kube-rs' `state_filter_selector` does. That method exists only for a
    /// `Resource`.
    fn select(&self, selector: &Selector) -> Vec<StoredEntry<H, M>> {
        let meta = M::default();
        let matching =
            self.store.state_filter(|entry| selector.matches(meta.labels(entry.0.object())));
        matching.into_iter().map(StoredEntry).collect()
    }
}
