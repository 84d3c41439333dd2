//! The writing half of a store, which applies the events of a kube watcher.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;

use deltafifo::{Indexer, ResourceVersion, StoreError};
use futures_util::{Stream, StreamExt};
use kube::Resource;
use kube::runtime::watcher::{self, Event};
use tokio::sync::watch;

use super::store::{indexer, log_refused};
use super::subscribe::{Change, Dispatcher, ReflectHandle};
use super::watchers::Watchers;
use super::{Lookup, Store};
use crate::KubeMeta;

/// The writing half of a store (kube's `Writer`). A [`reflector`] or
/// [`reflect`](crate::runtime::WatchStreamExt::reflect) takes it. A unit test can call
/// [`apply_watcher_event`](Self::apply_watcher_event) itself, without a runtime.
///
/// | event | effect |
/// | --- | --- |
/// | `Apply`, `Delete` | stores or removes the object, also in a list that is not complete yet |
/// | `Init` | begins a list. An earlier incomplete list is dropped, and deletes nothing |
/// | `InitApply` | adds an object to the list. The store does not change |
/// | `InitDone` | replaces the contents with the list. The store is [ready](Store::wait_until_ready) |
///
/// Differences from kube:
///
/// * kube's writer loses an `Apply` and undoes a `Delete` that occur while a list is incomplete.
///   This one keeps both.
/// * `InitDone` without a list makes the store ready, and does not empty it.
/// * An object without a name is not stored, and logged as an error; kube panics. So is an object
///   for which an [index function](deltafifo::IndexReader::add_indexers) fails.
/// * Keys are namespaces and names. The dynamic type is not used.
/// * `InitDone` is atomic per object: readers on other threads may see a part of it.
///
/// **Give a writer the events of one watcher.** If two watchers are merged, the end of a list of
/// one removes the objects of the other, as in kube, except those with an `Apply` since the list
/// began. The first sign of a second watcher is logged as a warning: an event that no single
/// watcher of kube yields at that place. From then on a subscribed controller does not call
/// [`on_deleted`](crate::runtime::Controller::on_deleted) because of a list, since the object may
/// still exist. Such a sign is a list that begins although the last one is complete and no error
/// followed it after which kube's watcher lists again: `NoResourceVersion`, or a `WatchError` with
/// the code 410. So pass the errors of the stream to the [`reflector`], too. A second watcher that
/// begins right after such an error is noticed later, when the lists of both overlap, or not at all
/// if they never do. The deletions of the first list that ends in such an overlap still count.
pub struct Writer<K: Resource + 'static> {
    store: Indexer<K, KubeMeta>,
    /// The objects of a list that is not complete, by key; `None` if there is none.
    listed: Option<HashMap<String, Arc<K>>>,
    watchers: Watchers,
    ready: watch::Sender<bool>,
    /// `None` if the store is not shared.
    dispatcher: Option<Dispatcher<K>>,
}

impl<K: Resource + Clone + 'static> Writer<K> {
    /// Creates the writer of an empty store.
    #[must_use]
    pub fn new(_dyntype: <K as Lookup>::DynamicType) -> Self {
        Self::with(None)
    }

    /// Creates the writer of an empty store that can be [subscribed](Self::subscribe) to. A
    /// subscriber may lag behind by `buf_size` changes, at least by one, before the reflector
    /// waits for it.
    #[must_use]
    pub fn new_shared(buf_size: usize, _dyntype: <K as Lookup>::DynamicType) -> Self {
        Self::with(Some(Dispatcher::new(buf_size)))
    }

    fn with(dispatcher: Option<Dispatcher<K>>) -> Self {
        Self {
            store: indexer(),
            listed: None,
            watchers: Watchers::default(),
            ready: watch::Sender::new(false),
            dispatcher,
        }
    }

    /// Returns a read handle to the store.
    #[must_use]
    pub fn as_reader(&self) -> Store<K> {
        Store::of_writer(self.store.reader(), self.ready.subscribe())
    }

    /// Returns a new subscriber, or `None` if the writer is not
    /// [shared](Self::new_shared). It receives the changes that a [`reflector`] or
    /// [`reflect_shared`](crate::runtime::WatchStreamExt::reflect_shared) applies from now on.
    ///
    /// ```
    /// use deltafifo_informer::runtime::{WatchStreamExt, reflector, watcher};
    /// # use deltafifo_testkit::{ApiServer, Resource};
    /// use futures_util::StreamExt;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube::{Api, ResourceExt};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ApiServer::builder().resource(Resource::config_maps()).build();
    /// # server.apply(serde_json::json!({
    /// #     "kind": "ConfigMap", "apiVersion": "v1", "metadata": { "name": "prices" },
    /// # }))?;
    /// # let client = server.client();
    /// let (store, writer) = reflector::store_shared::<ConfigMap>(256);
    /// let mut subscriber = writer.subscribe().expect("the store is shared");
    /// let maps = watcher(Api::all(client), watcher::Config::default()).default_backoff();
    /// tokio::spawn(maps.reflect_shared(writer).for_each(|_| async {}));
    /// while let Some(map) = subscriber.next().await {
    ///     println!("{} of {} maps", map.name_any(), store.len());
    /// #   assert_eq!(store.len(), 1);
    /// #   break;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn subscribe(&self) -> Option<ReflectHandle<K>> {
        let dispatcher = self.dispatcher.as_ref()?;
        Some(dispatcher.subscribe(self.as_reader()))
    }

    /// Applies an event to the store. [Subscribers](Self::subscribe) are not notified, as in kube.
    ///
    /// O(1); at the end of a list O(listed + stored).
    ///
    /// ```
    /// use deltafifo_informer::runtime::{reflector, watcher};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// # let mut map = ConfigMap::default();
    /// # map.metadata.name = Some("prices".to_owned());
    /// let (store, mut writer) = reflector::store::<ConfigMap>();
    /// writer.apply_watcher_event(&watcher::Event::Init);
    /// writer.apply_watcher_event(&watcher::Event::InitApply(map));
    /// assert!(store.is_empty());
    /// writer.apply_watcher_event(&watcher::Event::InitDone);
    /// assert_eq!(store.len(), 1);
    /// ```
    pub fn apply_watcher_event(&mut self, event: &Event<K>) {
        // The stream may have yielded errors that are not passed here.
        self.watchers.allow_list();
        self.apply(event);
    }

    /// Applies an event. Returns the changes that it makes if the store is shared, otherwise
    /// nothing.
    fn apply(&mut self, event: &Event<K>) -> Vec<Change<K>> {
        let is_another_end = self.watchers.observe(event);
        match event {
            Event::Apply(object) => {
                let object = Arc::new(object.clone());
                if self.listed.is_some() {
                    self.list(object.clone());
                }
                self.put(object)
            }
            Event::Delete(object) => self.delete(object),
            Event::Init => {
                self.listed = Some(HashMap::new());
                Vec::new()
            }
            Event::InitApply(object) => {
                self.list(Arc::new(object.clone()));
                Vec::new()
            }
            Event::InitDone => {
                let changes = match self.listed.take() {
                    // Only a part of the list is known: the end of another list has taken the rest.
                    Some(listed) if is_another_end => {
                        listed.into_values().flat_map(|object| self.put(object)).collect()
                    }
                    Some(listed) => self.replace(listed),
                    None => Vec::new(),
                };
                self.ready.send_replace(true);
                changes
            }
        }
    }

    /// Adds an object to the list. Of two states with the same key the newer one stays.
    fn list(&mut self, object: Arc<K>) {
        let key = match self.store.keys().key(&object) {
            Ok(key) => key,
            Err(error) => return log_refused(&error.into()),
        };
        match self.listed.get_or_insert_default().entry(key) {
            Entry::Occupied(listed) if version(listed.get()) > version(&object) => {}
            entry => drop(entry.insert_entry(object)),
        }
    }

    fn put(&self, object: Arc<K>) -> Vec<Change<K>> {
        let old = self.stored(&object);
        let updated = self.store.update(object.clone()).inspect_err(log_refused);
        let is_stored = matches!(updated, Ok(()) | Err(StoreError::Released { .. }));
        if is_stored && self.dispatcher.is_some() { between(old, object) } else { Vec::new() }
    }

    fn delete(&mut self, object: &K) -> Vec<Change<K>> {
        if let (Some(listed), Ok(key)) = (&mut self.listed, self.store.keys().key(object)) {
            listed.remove(&key);
        }
        let old = self.stored(object);
        if let Err(error) = self.store.delete(object) {
            log_refused(&error);
        }
        let last = || Arc::new(object.clone());
        let deleted = |old| Change::Deleted { old, last: last(), may_exist: false };
        old.map(deleted).into_iter().collect()
    }

    /// Replaces the contents of the store.
    fn replace(&self, listed: HashMap<String, Arc<K>>) -> Vec<Change<K>> {
        let is_shared = self.dispatcher.is_some();
        let before = if is_shared { self.by_key() } else { HashMap::new() };
        for error in self.store.replace_keeping(listed.into_values().collect(), []) {
            log_refused(&error);
        }
        if !is_shared {
            return Vec::new();
        }
        between_lists(before, self.by_key(), self.watchers.are_several())
    }

    /// Returns the stored state of an object, if the store is shared.
    fn stored(&self, object: &K) -> Option<Arc<K>> {
        self.dispatcher.as_ref()?;
        self.store.get(object).ok().flatten()
    }

    fn by_key(&self) -> HashMap<String, Arc<K>> {
        let with_key = |object: Arc<K>| Some((self.store.keys().key(&object).ok()?, object));
        self.store.list().into_iter().filter_map(with_key).collect()
    }

    /// Passes changes to the subscribers. Waits while one of them lags behind.
    async fn dispatch(&self, changes: Vec<Change<K>>) {
        if let Some(dispatcher) = &self.dispatcher {
            dispatcher.send(changes).await;
        }
    }
}

/// Returns the version of an object, or `None` if it has none that can be compared.
fn version<K: Resource>(object: &Arc<K>) -> Option<ResourceVersion> {
    ResourceVersion::parse(object.meta().resource_version.as_deref()?)
}

/// Returns the changes between two stored states of a key.
fn between<K: Resource>(old: Option<Arc<K>>, new: Arc<K>) -> Vec<Change<K>> {
    match old {
        Some(old) if old.meta().uid != new.meta().uid => {
            let deleted = Change::Deleted { last: old.clone(), old, may_exist: false };
            vec![deleted, Change::Applied { old: None, new }]
        }
        old => vec![Change::Applied { old, new }],
    }
}

/// Returns the changes between the contents before and after a list. `may_exist` says whether an
/// object that the list does not have may still exist.
fn between_lists<K: Resource>(
    mut before: HashMap<String, Arc<K>>,
    after: HashMap<String, Arc<K>>,
    may_exist: bool,
) -> Vec<Change<K>> {
    let applied: Vec<_> =
        after.into_iter().flat_map(|(key, new)| between(before.remove(&key), new)).collect();
    let deleted =
        before.into_values().map(|old| Change::Deleted { last: old.clone(), old, may_exist });
    deleted.chain(applied).collect()
}

impl<K: Resource + Clone + 'static> Default for Writer<K> {
    fn default() -> Self {
        Self::with(None)
    }
}

impl<K: Resource + 'static> fmt::Debug for Writer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("len", &self.store.len())
            .field("is_ready", &*self.ready.borrow())
            .field("is_shared", &self.dispatcher.is_some())
            .finish_non_exhaustive()
    }
}

/// Creates a store and its writer (kube's `store`). The [`reflector()`] takes the writer.
#[must_use]
pub fn store<K: Resource + Clone + 'static>() -> (Store<K>, Writer<K>) {
    let writer = Writer::default();
    (writer.as_reader(), writer)
}

/// Creates a store that can be [subscribed](Writer::subscribe) to, and its writer (kube's
/// `store_shared`). A subscriber may lag behind by `buf_size` changes before the
/// [reflector](reflector()) waits for it.
#[must_use]
pub fn store_shared<K: Resource + Clone + 'static>(buf_size: usize) -> (Store<K>, Writer<K>) {
    let writer = Writer::with(Some(Dispatcher::new(buf_size)));
    (writer.as_reader(), writer)
}

/// Applies the events of a kube watcher to the store of `writer` (kube's `reflector`). Returns the
/// stream of the events, each of which is applied, and passed to the subscribers, before it is
/// yielded. An error changes nothing.
///
/// The returned stream must be polled to fill the store. If it ends or is dropped, the store keeps
/// its objects, and the streams of the subscribers end.
///
/// ```
/// use deltafifo_informer::runtime::{WatchStreamExt, reflector, watcher};
/// # use deltafifo_testkit::{ApiServer, Resource};
/// use futures_util::TryStreamExt;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::{Api, ResourceExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ApiServer::builder().resource(Resource::config_maps()).build();
/// # server.apply(serde_json::json!({
/// #     "kind": "ConfigMap", "apiVersion": "v1", "metadata": { "name": "prices" },
/// # }))?;
/// # let client = server.client();
/// let (store, writer) = reflector::store();
/// let maps = watcher(Api::<ConfigMap>::all(client), watcher::Config::default());
/// let mut maps = std::pin::pin!(reflector(writer, maps.default_backoff()).applied_objects());
/// tokio::spawn(async move {
///     let ready = store.wait_until_ready().await;
///     ready.map(|()| println!("there are {} maps", store.len()))
/// });
/// while let Some(map) = maps.try_next().await? {
///     println!("{} was created or changed, or listed", map.name_any());
/// #   break;
/// }
/// # Ok(())
/// # }
/// ```
pub fn reflector<K, W>(mut writer: Writer<K>, stream: W) -> impl Stream<Item = W::Item>
where
    K: Resource + Clone + 'static,
    W: Stream<Item = watcher::Result<Event<K>>>,
{
    async_stream::stream! {
        let mut stream = pin!(stream);
        while let Some(event) = stream.next().await {
            match &event {
                Ok(event) => {
                    let changes = writer.apply(event);
                    writer.dispatch(changes).await;
                }
                Err(error) => writer.watchers.fail(error),
            }
            yield event;
        }
    }
}
