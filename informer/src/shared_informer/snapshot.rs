//! Consistent lists of the objects that an informer must hold, for sharded controllers.

use std::sync::Arc;

use deltafifo::Meta;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hashbrown::HashMap;

use super::SharedInformer;
use super::source::Feeder;
use super::worker::InformerQueue;
use crate::lister_watcher::RequestError;
use crate::reflector::{ListedMeta, Reflector};
use crate::sharding::Selection;

/// A consistent list of the objects of an informer, or of one namespace of it.
pub(crate) struct Snapshot {
    /// The namespace that was listed, or `None` if all objects of the informer were listed.
    namespace: Option<Arc<str>>,
    /// The version of the list.
    pub(crate) version: Box<str>,
    /// The key and the version of each selected object.
    pub(crate) versions: HashMap<Box<str>, Box<str>, foldhash::fast::RandomState>,
}

/// A filter of the objects of a snapshot: it returns whether the snapshot has the object.
pub(crate) type SnapshotFilter = Arc<dyn Fn(&ListedMeta) -> bool + Send + Sync>;

/// A function that lists the objects of an informer. It returns `None` while the informer does not
/// list all of its namespaces yet, and after the informer was dropped.
pub(crate) type SnapshotLister = Box<
    dyn Fn(SnapshotFilter) -> BoxFuture<'static, Result<Option<Vec<Snapshot>>, RequestError>>
        + Send
        + Sync,
>;

impl Snapshot {
    /// Lists the objects of a reflector, whose keys are `namespace/name` or `name`.
    pub(super) async fn of<K: Send + Sync + 'static>(
        reflector: &Reflector<K>,
        namespace: Option<Arc<str>>,
        filter: &SnapshotFilter,
    ) -> Result<Self, RequestError> {
        let mut versions = HashMap::default();
        let mut visit = |listed: ListedMeta| {
            if filter(&listed)
                && let Some(key) = listed.key()
            {
                versions.insert(key, listed.resource_version.unwrap_or_default());
            }
        };
        let version = reflector.snapshot(&mut visit).await?.into();
        Ok(Self { namespace, version, versions })
    }

    /// Returns whether the list would contain the object with this key.
    pub(crate) fn covers(&self, key: &str) -> bool {
        let of_key = || key.split_once('/').map(|(namespace, _)| namespace);
        self.namespace.as_deref().is_none_or(|namespace| of_key() == Some(namespace))
    }
}

impl<K: Send + Sync + 'static, M: Meta<K>> SharedInformer<K, M> {
    /// Returns the selection of an informer of a member's shards, or `None` for any other.
    pub(crate) fn selection(&self) -> Option<Selection> {
        match &self.inner.feeder {
            Feeder::Shards(shards) => Some(shards.selection().clone()),
            _ => None,
        }
    }

    /// Returns a function that lists the newest state of the objects that the informer must hold,
    /// beside the informer's own lists. Returns `None` if the objects come from a stream, have
    /// custom keys, or are in an in-order queue, which has no applied version. The function does
    /// not keep the informer from stopping when its last owner drops it.
    pub(crate) fn snapshot_lister(&self) -> Option<SnapshotLister> {
        let is_stream = matches!(self.inner.feeder, Feeder::Stream(_));
        let is_in_order = matches!(self.inner.queue, InformerQueue::InOrder(_));
        if is_stream || is_in_order || !self.inner.store.keys().is_meta_namespace() {
            return None;
        }
        let inner = Arc::downgrade(&self.inner);
        Some(Box::new(move |filter| {
            let inner = inner.upgrade();
            async move {
                match &inner.as_ref().map(|inner| &inner.feeder) {
                    Some(Feeder::Reflector(reflector)) => {
                        Ok(Some(vec![Snapshot::of(reflector, None, &filter).await?]))
                    }
                    Some(Feeder::Namespaces(reflectors)) => reflectors.snapshots(&filter).await,
                    Some(Feeder::Shards(_) | Feeder::Stream(_)) | None => Ok(None),
                }
            }
            .boxed()
        }))
    }
}
