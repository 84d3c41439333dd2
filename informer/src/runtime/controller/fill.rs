//! Fills the stores of a controller before its member owns a shard.
//!
//! A member that has claimed a shard must not reconcile an object from a state that is older than
//! the last write of the former owner. So each informer of the controller lists the metadata of its
//! objects, beside its own watch, and waits until its store holds that list. The version of the
//! list alone is no condition: a watch without events shows it only by its next bookmark, up to a
//! minute later. Each object is compared instead.
//!
//! An informer of the shards that its member holds takes part in the hand-overs of the group
//! itself. It lists the objects of a shard after the claim, into its store, so nothing is compared.
//!
//! One case is left: an object that is created and deleted while the watch is behind by both events
//! is neither in the list nor in the store, and may appear in the store for a moment afterwards.

use std::sync::Arc;
use std::time::Duration;

use deltafifo::{IndexReader, Meta, ResourceVersion};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{sleep, timeout};

use super::error::RunnerError;
use super::permitted::Sharding;
use super::start::InformerRole;
use super::stored::for_each_stored;
use crate::ReflectorError;
use crate::lister_watcher::RequestError;
use crate::reflector::{Backoff, ListedMeta};
use crate::runtime::watcher;
use crate::sharding::{ObjectId, Selection, ShardSet};
use crate::shared_informer::{
    Availability, InformerError, Registration, SharedInformer, Snapshot, SnapshotFilter,
    SnapshotLister,
};
use crate::util::sleep::{wait_until_some, with_catching_waker};

/// The pause while the informer is not ready for a list.
const NOT_READY: Duration = Duration::from_secs(1);

/// The time after which a list that the store does not hold is replaced by a new one: an object
/// that was deleted after it was listed may never come into the store.
const LIST_AGAIN: Duration = Duration::from_secs(10);

/// The informers of a controller that takes part in a group.
pub(super) struct Fills {
    sharding: Sharding,
    errors: mpsc::Sender<watcher::Error>,
    informers: Vec<(InformerRole, Arc<dyn Fill>)>,
    /// The title of the informer of the main objects.
    main: String,
    /// The selection of the informer of the main objects, if that has only those of the shards that
    /// its member holds.
    selection: Option<Selection>,
}

/// An informer that is filled.
trait Fill: Send + Sync {
    /// Waits until the store of the informer holds a list that begins after this call.
    fn fill(self: Arc<Self>, shards: ShardSet) -> BoxFuture<'static, ()>;

    /// Waits until the handler has received the initial list of the informer, or the kind is
    /// optional and the server does not have it.
    fn synced(self: Arc<Self>) -> BoxFuture<'static, ()>;

    /// Returns whether the handler has received the initial list of the informer.
    fn has_synced(&self) -> bool;
}

impl Fills {
    pub(super) fn new(sharding: Sharding, errors: mpsc::Sender<watcher::Error>) -> Self {
        Self { sharding, errors, informers: Vec::new(), main: String::new(), selection: None }
    }

    /// Adds an informer. The handler of `registration` notifies `changed` after each change.
    ///
    /// # Errors
    /// [`RunnerError::NotListable`] if the informer has nothing to list.
    pub(super) fn add<K: Send + Sync + 'static, M: Meta<K>>(
        &mut self,
        informer: &SharedInformer<K, M>,
        registration: Registration<K>,
        changed: Arc<Notify>,
        role: InformerRole,
    ) -> Result<(), RunnerError> {
        if role.is_main {
            self.main = informer.title();
            self.selection = informer.selection();
        }
        if let Some(selection) = informer.selection() {
            self.informers.push((role, Arc::new(SelectionFill { selection, registration })));
            return Ok(());
        }
        let Some(snapshot_lister) = informer.snapshot_lister() else {
            let error = RunnerError::NotListable { informer: informer.title() };
            tracing::error!("{error}; the controller ends");
            return Err(error);
        };
        let fill = InformerFill {
            title: informer.title(),
            store: informer.store(),
            snapshot_lister,
            registration,
            changed,
            availability: informer.availability(),
            role,
            sharding: self.sharding.clone(),
            errors: self.errors.clone(),
        };
        self.informers.push((role, Arc::new(fill)));
        Ok(())
    }

    /// Returns the title of the informer of the main objects.
    pub(super) fn main(&self) -> &str {
        &self.main
    }

    /// Returns the selection of the informer of the main objects, if that has only those of the
    /// shards that its member holds.
    pub(super) fn selection(&self) -> Option<&Selection> {
        self.selection.as_ref()
    }

    /// Waits until the stores of all informers hold lists of these shards. Those that reconciles do
    /// not wait for count once they have synced.
    pub(super) fn fill(&self, shards: ShardSet) -> BoxFuture<'static, ()> {
        self.fill_those(shards, |role, informer| role.is_awaited || informer.has_synced())
    }

    /// Waits until the stores of the informers that reconciles wait for hold lists of these shards.
    pub(super) fn fill_awaited(&self, shards: ShardSet) -> BoxFuture<'static, ()> {
        self.fill_those(shards, |role, _| role.is_awaited)
    }

    /// Waits until the informers that reconciles wait for have synced.
    pub(super) fn synced_awaited(&self) -> BoxFuture<'static, ()> {
        let awaited = self.informers.iter().filter(|(role, _)| role.is_awaited);
        let synced = awaited.map(|(_, informer)| Arc::clone(informer).synced());
        join_all(synced.collect::<Vec<_>>()).map(drop).boxed()
    }

    fn fill_those(
        &self,
        shards: ShardSet,
        counts: impl Fn(&InformerRole, &dyn Fill) -> bool,
    ) -> BoxFuture<'static, ()> {
        let counting = self.informers.iter().filter(|(role, fill)| counts(role, &**fill));
        let fills: Vec<_> = counting.map(|(_, fill)| fill.clone().fill(shards)).collect();
        join_all(fills).map(drop).boxed()
    }
}

/// An informer of the shards that the member holds.
struct SelectionFill<K: Send + Sync + 'static> {
    selection: Selection,
    registration: Registration<K>,
}

impl<K: Send + Sync + 'static> Fill for SelectionFill<K> {
    /// Waits until the selection is complete. It has the shards already: the informer has joined
    /// the group before the controller, so it gets each order first.
    fn fill(self: Arc<Self>, _shards: ShardSet) -> BoxFuture<'static, ()> {
        async move {
            let filled = self.selection.filled();
            self.synced().await;
            filled.await;
        }
        .boxed()
    }

    fn synced(self: Arc<Self>) -> BoxFuture<'static, ()> {
        async move {
            if self.registration.wait_for_sync().await.is_err() {
                // The handler was removed: the controller is ending, and leaves the group.
                std::future::pending::<()>().await;
            }
        }
        .boxed()
    }

    fn has_synced(&self) -> bool {
        self.registration.has_synced()
    }
}

struct InformerFill<K: Send + Sync + 'static, M: Meta<K>> {
    title: String,
    store: IndexReader<K, M>,
    snapshot_lister: SnapshotLister,
    registration: Registration<K>,
    changed: Arc<Notify>,
    availability: watch::Receiver<Availability>,
    role: InformerRole,
    sharding: Sharding,
    errors: mpsc::Sender<watcher::Error>,
}

impl<K: Send + Sync + 'static, M: Meta<K>> Fill for InformerFill<K, M> {
    fn fill(self: Arc<Self>, shards: ShardSet) -> BoxFuture<'static, ()> {
        async move {
            // From here on the handler is notified of every change, so none is missed below.
            if self.is_present().await {
                self.fill_present(shards).await;
            }
        }
        .boxed()
    }

    fn synced(self: Arc<Self>) -> BoxFuture<'static, ()> {
        async move { _ = self.is_present().await }.boxed()
    }

    fn has_synced(&self) -> bool {
        self.registration.has_synced()
    }
}

/// A state that the store must reach for one key.
struct Missing {
    key: Box<str>,
    /// Whether the object was listed, in this version. Otherwise the store must not have the
    /// object, unless in a version after the version of the list, or with a uid of other shards.
    listed: Option<Box<str>>,
    list: Arc<str>,
}

impl<K: Send + Sync + 'static, M: Meta<K>> InformerFill<K, M> {
    /// Waits until the handler has received the initial list of the informer. Returns false if the
    /// kind is optional and the server does not have it.
    async fn is_present(&self) -> bool {
        let mut availability = self.availability.clone();
        let is_refused = |now: &Availability| *now == Availability::Refused;
        tokio::select! {
            biased;
            synced = self.registration.wait_for_sync() => {
                if synced.is_ok() {
                    return true;
                }
            }
            Ok(_) = with_catching_waker(availability.wait_for(is_refused)),
                if self.role.is_optional => return false,
        }
        // The handler was removed: the controller is ending, and leaves the group.
        std::future::pending().await
    }

    /// Lists the objects, and waits until the store holds a list.
    async fn fill_present(&self, shards: ShardSet) {
        let mut backoff = Backoff::default();
        let mut first = None;
        loop {
            let snapshots = match (self.snapshot_lister)(self.snapshot_filter(shards)).await {
                Ok(Some(snapshots)) => snapshots,
                Ok(None) => {
                    sleep(NOT_READY).await;
                    continue;
                }
                // The server does not have the kind any more.
                Err(error) if self.role.is_optional && error.is_unavailable() => return,
                Err(error) => {
                    let wait = backoff.next(error.retry_after());
                    self.report(error);
                    sleep(wait).await;
                    continue;
                }
            };
            let versions = snapshots.iter().map(|list| ResourceVersion::parse(&list.version));
            // The version of the first attempt: that of the last one would recede with each list.
            let newest = || versions.flatten().max().map(|version| version.to_string());
            let first = first.get_or_insert_with(newest).as_deref();
            if timeout(LIST_AGAIN, self.held(&snapshots, shards, first)).await.is_ok() {
                return;
            }
        }
    }

    /// Waits until the store holds the lists, or has applied the version `first` of a list.
    async fn held(&self, snapshots: &[Snapshot], shards: ShardSet, first: Option<&str>) {
        let applied = async {
            match first {
                // An object that cannot be decoded never comes into the store. Once the version is
                // applied, there is nothing to wait for.
                Some(first) => self.store.wait_for_resource_version_async(first).await,
                None => std::future::pending().await,
            }
        };
        let each = async {
            let mut missing = self.missing(snapshots, shards).await;
            wait_until_some(&self.changed, || {
                missing.retain(|missing| !self.is_reached(missing, shards));
                missing.is_empty().then_some(())
            })
            .await;
        };
        tokio::select! {
            biased;
            () = each => {}
            Ok(()) = applied => {}
        }
    }

    /// Returns the states that the store has not reached.
    async fn missing(&self, snapshots: &[Snapshot], shards: ShardSet) -> Vec<Missing> {
        let mut missing = Vec::new();
        let mut check = |key: &str, listed: Option<&str>, list: &Arc<str>| {
            let (key, listed) = (key.into(), listed.map(Into::into));
            let state = Missing { key, listed, list: list.clone() };
            if !self.is_reached(&state, shards) {
                missing.push(state);
            }
        };
        let versions: Vec<Arc<str>> =
            snapshots.iter().map(|snapshot| (&*snapshot.version).into()).collect();
        for (snapshot, list) in snapshots.iter().zip(&versions) {
            for (key, version) in &snapshot.versions {
                check(key, Some(version), list);
            }
        }
        for_each_stored(&self.store, |key, object| {
            let mut lists = snapshots.iter().zip(&versions);
            if let Some((snapshot, list)) = lists.find(|(snapshot, _)| snapshot.covers(&key))
                && !snapshot.versions.contains_key(&key)
                && self.selects_stored(&object, shards)
            {
                check(&key, None, list);
            }
        })
        .await;
        missing
    }

    fn is_reached(&self, Missing { key, listed, list }: &Missing, shards: ShardSet) -> bool {
        let stored = self.store.get_by_key(key);
        let is_later = |stored: &str, other: &str| {
            let [stored, other] = [stored, other].map(ResourceVersion::parse);
            stored.zip(other).is_some_and(|(stored, other)| stored > other)
        };
        match (stored, listed) {
            (Some(stored), Some(listed)) => {
                let stored = self.version(&stored);
                *stored == **listed || is_later(stored, listed)
            }
            (Some(stored), None) => {
                is_later(self.version(&stored), list) || !self.selects_stored(&stored, shards)
            }
            (None, Some(_)) => false,
            (None, None) => true,
        }
    }

    /// Returns the filter of the objects that must be in the store: those of the shards, or all
    /// related objects, because a reconcile may read any of them.
    fn snapshot_filter(&self, shards: ShardSet) -> SnapshotFilter {
        if !self.role.is_main {
            return Arc::new(|_| true);
        }
        let sharding = self.sharding.clone();
        Arc::new(move |listed: &ListedMeta| {
            let [namespace, name, uid] = [&listed.namespace, &listed.name, &listed.uid]
                .map(|field| field.as_deref().unwrap_or_default());
            let shard = sharding.shard_of(ObjectId { namespace, name, uid });
            shard.is_some_and(|shard| shards.contains(shard))
        })
    }

    fn selects_stored(&self, object: &K, shards: ShardSet) -> bool {
        let shard = || self.sharding.shard_of_object(self.meta(), object);
        !self.role.is_main || shard().is_some_and(|shard| shards.contains(shard))
    }

    fn version<'k>(&self, object: &'k K) -> &'k str {
        self.meta().version(object).unwrap_or_default()
    }

    fn meta(&self) -> &M {
        self.store.keys().meta()
    }

    fn report(&self, error: RequestError) {
        let error = ReflectorError::List(error);
        let error = watcher::error_of(
            &self.title,
            &InformerError::Reflector(&error),
            "; work on the shards that this list is for begins once it succeeds",
        );
        if let Err(unsent) = self.errors.try_send(error) {
            let error = unsent.into_inner();
            tracing::warn!(%error, "list before the start of work on shards failed; it is repeated");
        }
    }
}
