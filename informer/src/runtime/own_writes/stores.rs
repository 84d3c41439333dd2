//! The stores that show what a controller wrote.

use std::collections::HashMap;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;

use deltafifo::locks::Mutex;
use deltafifo::{IndexReader, Meta, ResourceVersion, WaitError};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, FusedFuture};
use tokio::sync::Notify;

use super::answer::Written;
use super::notes::Note;
use super::target::Target;
use crate::shared_informer::{Notification, SharedInformer};

/// A version that no server reaches: a wait for it ends when the store notices a restore.
const NEVER: &str = "99999999999999999999";

/// The stores of a controller that is starting.
#[derive(Default)]
pub(crate) struct ObservedStores(pub(super) Vec<Arc<dyn ObservedStore>>);

impl ObservedStores {
    /// Adds the store of an informer. The caller must wake the [waiters](WrittenStore::waiters) of
    /// each notification.
    pub(crate) fn add<K: Send + Sync + 'static, M: Meta<K>>(
        &mut self,
        informer: &SharedInformer<K, M>,
    ) -> Arc<WrittenStore<K, M>> {
        let (resource, namespace) = informer.scope();
        let store = WrittenStore::new(&informer.title(), resource, namespace, informer.store());
        let store = Arc::new(store);
        self.0.push(Arc::clone(&store) as _);
        store
    }
}

/// A store before a write.
pub(super) struct Before {
    history: u64,
    applied: Option<ResourceVersion>,
}

impl Before {
    /// Returns whether the answer to a write shows that the API server was restored from a backup,
    /// and that the store, which now is in this history, has not noticed it. Without a restore, a
    /// creation has a greater version than all that were applied before its request was sent.
    pub(super) fn is_outdated(&self, history: u64, written: &Written) -> bool {
        let is_applied = written.version.is_some() && self.applied >= written.version;
        written.is_created && is_applied && self.history == history
    }
}

/// A store, without the type of its objects.
pub(super) trait ObservedStore: Send + Sync {
    fn title(&self) -> &str;

    /// Returns whether the store may have objects of this resource and namespace.
    fn observes(&self, target: &Target<'_>) -> bool;

    /// Returns the number of restores of the API server that the store has noticed.
    fn history(&self) -> u64;

    /// Returns the history and the applied version.
    fn before(&self) -> Before;

    /// Returns whether the store shows the write. Records in the note whether the object is stored.
    fn shows(&self, note: &mut Note) -> bool;

    /// Waits until the store shows the write, or can never show it because the informer has stopped
    /// or the API server was restored later.
    fn wait(self: Arc<Self>, note: Note) -> BoxFuture<'static, ()>;
}

/// The store of an informer, and the waits for changes of its objects.
pub(crate) struct WrittenStore<K, M> {
    /// The title of the informer.
    title: String,
    /// The resource, for example `deployments.v1.apps`.
    resource: String,
    /// The namespace; empty for all. An informer of several namespaces has a text with spaces, and
    /// one over several sources has the namespaces of these, joined with commas.
    namespace: String,
    store: IndexReader<K, M>,
    /// The waits by the key of the object that is waited for. No count is 0.
    waiting: Mutex<HashMap<Arc<str>, Waits>>,
}

/// The waits for changes of one object.
#[derive(Default)]
struct Waits {
    changed: Arc<Notify>,
    /// The number of waits. Handlers that are about to wake them hold `changed`, too.
    count: usize,
}

impl<K: Send + Sync + 'static, M: Meta<K>> WrittenStore<K, M> {
    pub(super) fn new(
        title: &str,
        resource: &str,
        namespace: &str,
        store: IndexReader<K, M>,
    ) -> Self {
        let [title, resource, namespace] = [title, resource, namespace].map(str::to_owned);
        Self { title, resource, namespace, store, waiting: Mutex::default() }
    }

    fn applied_version(&self) -> Option<ResourceVersion> {
        ResourceVersion::parse(&self.store.applied_version()?)
    }

    /// Waits until the store has applied the version of a note of this history. If the store is in
    /// an earlier history, waits only until the next one begins, and returns
    /// [`WaitError::Rewound`].
    async fn wait_applied(&self, history: u64, version: Option<&str>) -> Result<(), WaitError> {
        let Some(version) = version else { return pending().await };
        let mut next = pin!(self.store.wait_for_resource_version_async(NEVER));
        // The first poll begins the wait. A history that begins after the comparison then ends it.
        let ended = next.as_mut().now_or_never();
        if ended.is_none() && self.store.history() < history {
            return next.await;
        }
        self.store.wait_for_resource_version_async(version).await
    }

    /// Returns the waiters for the object of a notification. The caller wakes them after it has
    /// handled the notification, so that a reconcile which they hold back is merged with the one
    /// that the notification requests.
    pub(crate) fn waiters(&self, notification: &Notification<K>) -> Option<Arc<Notify>> {
        let object = match notification {
            Notification::Added { new, .. } | Notification::Updated { new, .. } => new,
            Notification::Deleted { old, .. } => old,
            _ => return None,
        };
        if self.waiting.lock().is_empty() {
            return None;
        }
        let key = self.store.keys().key(&**object).ok()?;
        self.waiting.lock().get(&*key).map(|waits| Arc::clone(&waits.changed))
    }
}

impl<K: Send + Sync + 'static, M: Meta<K>> ObservedStore for WrittenStore<K, M> {
    fn title(&self) -> &str {
        &self.title
    }

    fn observes(&self, target: &Target<'_>) -> bool {
        // No namespace has a space or a comma in its name.
        let has_namespace = self.namespace.contains(' ')
            || self.namespace.split(',').any(|own| own.is_empty() || own == target.namespace);
        target.is_of(&self.resource) && has_namespace
    }

    fn history(&self) -> u64 {
        self.store.history()
    }

    fn before(&self) -> Before {
        // The history first: if it still is the same at the answer, the version belongs to it.
        let history = self.history();
        Before { history, applied: self.applied_version() }
    }

    fn shows(&self, note: &mut Note) -> bool {
        let history = self.store.history();
        if history > note.history {
            return true;
        }
        let applied = self.applied_version();
        // The list that shows a restore begins the history, and is handled later. Until then, the
        // store may have objects from before the restore, whose versions cannot be compared.
        let is_listed = history == note.history && (history == 0 || applied.is_some());
        let has = |version: Option<ResourceVersion>| {
            note.version.as_ref().is_some_and(|least| version.as_ref() >= Some(least))
        };
        let is_applied = is_listed && has(applied);
        if is_applied && !note.is_gone {
            return true;
        }
        // An object is not found by `namespace/name` in a store with other keys.
        let has_keys = self.store.keys().is_meta_namespace();
        let stored = has_keys.then(|| self.store.get_by_key(&note.object)).flatten();
        let meta = self.store.keys().meta();
        let (is_same, is_reached) = match &stored {
            Some(object) => {
                let is_same = meta.written_uid(object).is_some_and(|uid| *uid == *note.uid);
                let version = meta.version(object).and_then(ResourceVersion::parse);
                (is_same, (is_listed || is_same) && has(version))
            }
            None => (false, false),
        };
        note.was_stored |= is_same;
        if !note.is_gone {
            // The store had the object and no longer has it, so it was deleted after the write.
            return is_reached || stored.is_none() && note.was_stored;
        }
        // An object that is not stored may be one that the watch has not delivered yet.
        let was_delivered = is_reached || is_applied || note.was_stored || note.version.is_none();
        !is_same && was_delivered
    }

    fn wait(self: Arc<Self>, mut note: Note) -> BoxFuture<'static, ()> {
        async move {
            let waiting = Waiting::of(&self, &note.object);
            let version = note.version.as_ref().map(ToString::to_string);
            let history = note.history;
            let wait_applied = || self.wait_applied(history, version.as_deref()).fuse();
            let mut applied = pin!(wait_applied());
            loop {
                let mut changed = pin!(waiting.changed.notified());
                // Changes from here on are noticed.
                changed.as_mut().enable();
                if self.shows(&mut note) {
                    return;
                }
                tokio::select! {
                    () = changed => {}
                    ended = &mut applied, if !applied.is_terminated() => match ended {
                        // The store has applied the version, or does not track versions: check
                        // again.
                        Ok(()) | Err(WaitError::Version(_)) => {}
                        // The store has noticed a restore: check again.
                        Err(WaitError::Rewound { .. }) => applied.set(wait_applied()),
                        Err(_) => return,
                    },
                }
            }
        }
        .boxed()
    }
}

/// A wait for a change of an object.
struct Waiting<'a, K, M> {
    store: &'a WrittenStore<K, M>,
    key: Arc<str>,
    changed: Arc<Notify>,
}

impl<'a, K, M> Waiting<'a, K, M> {
    fn of(store: &'a WrittenStore<K, M>, key: &Arc<str>) -> Self {
        let mut waiting = store.waiting.lock();
        let waits = waiting.entry(Arc::clone(key)).or_default();
        waits.count += 1;
        Self { store, key: Arc::clone(key), changed: Arc::clone(&waits.changed) }
    }
}

impl<K, M> Drop for Waiting<'_, K, M> {
    fn drop(&mut self) {
        let mut waiting = self.store.waiting.lock();
        if let Some(waits) = waiting.get_mut(&self.key) {
            waits.count -= 1;
            if waits.count == 0 {
                waiting.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use deltafifo::{Indexer, KeyFunc};
    use http::Uri;
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::{ObservedStore, Target, Waiting, WrittenStore};
    use crate::KubeMeta;
    use crate::shared_informer::{Cause, Notification};

    fn store(namespace: &str) -> WrittenStore<ConfigMap, KubeMeta> {
        let store = Indexer::builder(KeyFunc::meta_namespace(KubeMeta)).build().unwrap();
        WrittenStore::new("maps", "configmaps.v1", namespace, store.reader())
    }

    #[test]
    fn notification_in_progress_does_not_keep_the_entry_of_the_last_wait() {
        let (store, key) = (store(""), Arc::from("shop/a"));
        let mut map = ConfigMap::default();
        map.metadata.namespace = Some("shop".to_owned());
        map.metadata.name = Some("a".to_owned());
        let added =
            Notification::Added { new: map.into(), is_in_initial_list: false, cause: Cause::Watch };
        assert!(store.waiters(&added).is_none(), "nothing waits");
        let (first, second) = (Waiting::of(&store, &key), Waiting::of(&store, &key));
        let waiters = store.waiters(&added).expect("two waits");
        drop(first);
        assert!(Arc::ptr_eq(&store.waiters(&added).expect("a wait"), &waiters));
        drop(second);
        assert!(store.waiting.lock().is_empty());
        drop(waiters);
    }

    #[test]
    fn store_observes_the_namespaces_of_its_informer() {
        let uri = Uri::from_static("/api/v1/namespaces/shop/configmaps");
        let target = Target::of(&uri).unwrap();
        for namespace in ["", "shop", "several namespaces", "bank,shop", "bank,"] {
            assert!(store(namespace).observes(&target), "{namespace:?}");
        }
        for namespace in ["bank", "bank,home"] {
            assert!(!store(namespace).observes(&target), "{namespace:?}");
        }
        let uri = Uri::from_static("/api/v1/namespaces/shop/secrets");
        assert!(!store("shop").observes(&Target::of(&uri).unwrap()));
    }
}
