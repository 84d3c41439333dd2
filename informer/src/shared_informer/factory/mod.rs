//! A factory of informers, which builds one for each kind and scope, and runs them together
//! (client-go `SharedInformerFactory`).

mod kind;
mod scope;

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deltafifo::Meta;
use deltafifo::locks::Mutex;
use futures_util::future::{BoxFuture, join_all};
use hashbrown::HashMap;
use kube::core::ObjectMeta;
use kube::{Client, Resource};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::builder::SharedInformerBuilder;
use super::error::{FactoryError, NotSynced};
use super::{SharedInformer, Stopped};
use crate::lister_watcher::resource;
use crate::{KubeListerWatcher, KubeMeta};
pub use kind::FactoryKind;
pub use scope::Scope;

/// A factory that holds one informer for each kind and [`Scope`], over one client. Cheap to clone.
///
/// Informers that the factory has started run until they are stopped or [removed](Self::remove),
/// or the factory is [shut down](Self::shutdown). Dropping the factory does not stop them. The
/// factory never returns a stopped informer: see [`informer`](Self::informer).
///
/// ```
/// # use std::error::Error;
/// use deltafifo_informer::shared_informer::{Scope, SharedInformerFactory};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn Error>> {
/// # use deltafifo_testkit::{ApiServer, Resource};
/// # let server = ApiServer::builder().resource(Resource::config_maps()).build();
/// # let client = server.client();
/// let factory = SharedInformerFactory::new(client);
/// let maps = factory.informer::<ConfigMap>(&Scope::namespace("shop"))?;
/// factory.start();
/// factory.wait_for_cache_sync(tokio::time::sleep(std::time::Duration::from_secs(60))).await?;
/// assert!(maps.lister().list().is_empty());
/// factory.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SharedInformerFactory {
    client: Client,
    scope: Scope,
    resync: Option<Duration>,
    transform: Option<Arc<Transform>>,
    name: String,
    informers: Arc<Mutex<Informers>>,
}

/// A function that changes the metadata of every object.
type Transform = dyn Fn(&mut ObjectMeta) + Send + Sync;

#[derive(Default)]
struct Informers {
    by_kind: HashMap<InformerKey, FactoryEntry, foldhash::fast::RandomState>,
    /// Informers that were stopped and replaced, or removed, while a handler was being called. A
    /// shutdown waits for them as well.
    leaving: Vec<Arc<dyn ErasedInformer>>,
    is_shut_down: bool,
}

/// The key of an informer.
#[derive(Clone, PartialEq, Eq, Hash)]
struct InformerKey {
    /// The type of the objects.
    objects: TypeId,
    /// The resource, which the type does not imply: objects of a type such as `DynamicObject` can
    /// belong to several resources.
    resource: String,
    scope: Scope,
}

impl InformerKey {
    /// Returns the name that errors use for the informer.
    fn name(&self) -> String {
        self.scope.name_of(&self.resource)
    }
}

/// An informer in the map of a factory.
struct FactoryEntry {
    /// The [`SharedInformer`], whose objects have the type in the entry's [`InformerKey`].
    typed: Box<dyn Any + Send + Sync>,
    erased: Arc<dyn ErasedInformer>,
    /// The task that runs the informer, once it is started.
    task: Option<AbortHandle>,
}

impl FactoryEntry {
    fn is_started(&self) -> bool {
        self.task.is_some()
    }

    /// Returns whether the informer needs a new task: it was not stopped, and it has no task, or
    /// its task has ended. (A task that ends without stopping its informer was dropped with its
    /// runtime.)
    fn wants_start(&self) -> bool {
        self.task.as_ref().is_none_or(AbortHandle::is_finished) && !self.erased.is_over()
    }
}

impl Informers {
    /// Removes and returns the informers in `leaving` that have ended. The caller drops them with
    /// no lock held.
    #[must_use]
    fn take_ended(&mut self) -> Vec<Arc<dyn ErasedInformer>> {
        self.leaving.extract_if(.., |informer| informer.is_stopped()).collect()
    }

    /// Returns the informer of a kind, unless it was stopped.
    fn running<K: FactoryKind>(
        &self,
        kind: &InformerKey,
    ) -> Result<Option<SharedInformer<K>>, FactoryError>
    where
        KubeMeta: Meta<K>,
    {
        if self.is_shut_down {
            return Err(FactoryError::ShutDown);
        }
        let entry = self.by_kind.get(kind).filter(|entry| !entry.erased.is_over());
        Ok(entry.and_then(|entry| entry.typed.downcast_ref::<SharedInformer<K>>()).cloned())
    }

    fn remove(&mut self, kind: &InformerKey) -> Option<FactoryEntry> {
        let entry = self.by_kind.remove(kind)?;
        self.leave(&entry);
        Some(entry)
    }

    /// Adds an informer that is no longer in the map to `leaving`, unless it has ended.
    fn leave(&mut self, entry: &FactoryEntry) {
        if !entry.erased.is_stopped() {
            self.leaving.push(Arc::clone(&entry.erased));
        }
    }
}

/// The methods of an informer that the factory calls, independent of the type of its objects.
trait ErasedInformer: Send + Sync {
    fn run(self: Arc<Self>) -> BoxFuture<'static, ()>;
    fn has_synced(&self) -> bool;
    fn is_over(&self) -> bool;
    fn is_stopped(&self) -> bool;
    fn wait_for_sync(&self) -> BoxFuture<'_, Result<(), Stopped>>;
    fn stop(&self) -> BoxFuture<'_, ()>;
}

impl<K: Send + Sync + 'static> ErasedInformer for SharedInformer<K>
where
    KubeMeta: Meta<K>,
{
    fn run(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // It fails only if the informer was stopped before.
            let _ = SharedInformer::run(&self).await;
        })
    }

    fn has_synced(&self) -> bool {
        self.has_synced()
    }

    fn is_over(&self) -> bool {
        self.is_over()
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped()
    }

    fn wait_for_sync(&self) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(self.wait_for_sync())
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.stop())
    }
}

impl SharedInformerFactory {
    /// Creates a factory whose informers use `client`. By default there are no resyncs and no
    /// metrics, and the factory adds no parameters to queries.
    #[doc(alias = "NewSharedInformerFactory")]
    #[must_use]
    pub fn new(client: Client) -> Self {
        let informers = Arc::default();
        Self {
            client,
            scope: Scope::all(),
            resync: None,
            transform: None,
            name: String::new(),
            informers,
        }
    }

    /// Sets the resync period of handlers that do not set their own (client-go `defaultResync`); 0
    /// means never. Applies to informers that are built later.
    #[must_use]
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Sets a function that changes the metadata of every object of any kind before it is stored
    /// (client-go `WithTransform`), for example to drop managed fields. It must not change name
    /// and namespace. For one kind only, use [`SharedInformerBuilder::transform`], which replaces
    /// this. Applies to informers that are built later.
    ///
    /// ```
    /// # use deltafifo_informer::shared_informer::SharedInformerFactory;
    /// # fn lean(client: kube::Client) -> SharedInformerFactory {
    /// SharedInformerFactory::new(client).transform_metadata(|meta| meta.managed_fields = None)
    /// # }
    /// ```
    #[doc(alias = "WithTransform")]
    #[must_use]
    pub fn transform_metadata(
        mut self,
        transform: impl Fn(&mut ObjectMeta) + Send + Sync + 'static,
    ) -> Self {
        self.transform = Some(Arc::new(transform));
        self
    }

    /// Names the informers, and gives them [metrics](crate::metrics) (client-go
    /// `WithInformerName`). If a scope has a query or indexed fields, they are appended to the
    /// name, as `?labelSelector=app%3Dweb` and ` by /spec/nodeName`. Applies to informers that are
    /// built later.
    #[doc(alias = "WithInformerName")]
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Adds a parameter to the query of every list and watch (client-go `WithTweakListOptions`).
    /// Applies to informers that are built later.
    #[doc(alias = "WithTweakListOptions")]
    #[must_use]
    pub fn query(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.scope = self.scope.query(key, value);
        self
    }

    /// Returns the informer of a kind and scope (client-go `InformerFor`). The first call builds
    /// it; the next [`start`](Self::start) runs it.
    ///
    /// If that informer has been stopped, or its run has panicked or was dropped with its runtime,
    /// the call builds a new one. The new one has no handlers, none of the indexes that were added
    /// to the stopped one, and an empty store, and the next `start` runs it. (client-go returns the
    /// stopped one, whose store is stale: kubernetes#79610.) Existing handles, listers and
    /// controllers of the stopped informer are not moved to the new one.
    ///
    /// Each user of the informer may add the indexes that it needs, before or after `start`, by
    /// [`SharedInformer::add_indexers`]. Users share the index of a label, of owners or of a field.
    /// A field of compact objects must be in the [scope](Scope::index_field).
    ///
    /// ```
    /// use deltafifo::{Indexers, OWNER_INDEX};
    /// use deltafifo_informer::KubeMeta;
    /// # use deltafifo_informer::shared_informer::{Scope, SharedInformerFactory};
    /// # use deltafifo_testkit::{ApiServer, Resource};
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ApiServer::builder().resource(Resource::pods()).build();
    /// # let factory = SharedInformerFactory::new(server.client());
    /// let pods = factory.informer::<Pod>(&Scope::all())?;
    /// pods.add_indexers(Indexers::new().label(KubeMeta, "app").owners(KubeMeta)).await?;
    /// let web = pods.lister().select(&"app=web".parse()?); // by the index
    /// let owned = pods.store().by_index(OWNER_INDEX, "0f8fad5b-d9cb-469f-a165-70867728950e")?;
    /// # assert!(web.is_empty() && owned.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`informer_with`](Self::informer_with).
    #[doc(alias = "InformerFor")]
    pub fn informer<K>(&self, scope: &Scope) -> Result<SharedInformer<K>, FactoryError>
    where
        K: FactoryKind<Resource: Resource<DynamicType = ()>>,
        KubeMeta: Meta<K>,
    {
        self.informer_with(&(), scope, |builder| builder)
    }

    /// Returns the informer of a kind that may be known at run time only. If this call builds it,
    /// `configure` sets its indexes, transform, queue and error handler. If the informer exists,
    /// `configure` is not called.
    ///
    /// # Errors
    /// [`FactoryError::ShutDown`] if the factory was shut down; [`FactoryError::Query`] if a
    /// parameter of the scope's and the factory's query is refused; [`FactoryError::Build`] as for
    /// [`SharedInformerBuilder::build`].
    #[doc(alias = "ForResource")]
    #[doc(alias = "dynamicinformer")]
    pub fn informer_with<K>(
        &self,
        types: &<K::Resource as Resource>::DynamicType,
        scope: &Scope,
        configure: impl FnOnce(SharedInformerBuilder<K, KubeMeta>) -> SharedInformerBuilder<K, KubeMeta>,
    ) -> Result<SharedInformer<K>, FactoryError>
    where
        K: FactoryKind,
        KubeMeta: Meta<K>,
    {
        let key = self.key::<K>(types, scope);
        if let Some(informer) = self.informers.lock().running(&key)? {
            return Ok(informer);
        }
        let scope = &key.scope;
        let informers_name = format!("{}{}", self.name, scope.suffix());
        let (client, namespace) = (self.client.clone(), scope.namespace.as_deref());
        let mut source = KubeListerWatcher::new::<K::Resource>(client, types, namespace);
        for (key, value) in scope.parameters() {
            source = source.query(key, value);
        }
        source.check_query().map_err(|error| FactoryError::Query(error.into()))?;
        let mut builder = match &scope.namespaces {
            Some(namespaces) => SharedInformer::<K>::in_namespaces(namespaces, move |namespace| {
                source.in_namespace(namespace)
            }),
            None => SharedInformer::<K>::builder(source),
        };
        for pointer in &scope.indexed {
            builder = K::index_field(builder, pointer);
        }
        if let Some(period) = self.resync {
            builder = builder.resync(period);
        }
        if let Some(transform) = self.transform.clone() {
            builder = builder.transform(move |object| Ok(K::change_metadata(object, &*transform)));
        }
        if !self.name.is_empty() {
            builder = builder.name(informers_name);
        }
        // Called with no lock held, because `configure` is user code.
        let informer = configure(builder).build()?;
        let entry = FactoryEntry {
            typed: Box::new(informer.clone()),
            erased: Arc::new(informer.clone()),
            task: None,
        };
        let mut informers = self.informers.lock();
        // Another call may have built the informer in the meantime. Both calls must return the same
        // one.
        if let Some(there) = informers.running(&key)? {
            drop(informers);
            return Ok(there);
        }
        let stopped = informers.by_kind.insert(key, entry);
        if let Some(stopped) = &stopped {
            informers.leave(stopped);
        }
        let ended = informers.take_ended();
        // Dropping an informer runs user code, so it is done with the factory unlocked.
        drop(informers);
        drop((stopped, ended));
        Ok(informer)
    }

    /// Returns the key of a kind and scope. The scope in the key also has the factory's query.
    fn key<K: FactoryKind>(
        &self,
        types: &<K::Resource as Resource>::DynamicType,
        scope: &Scope,
    ) -> InformerKey {
        InformerKey {
            objects: TypeId::of::<K>(),
            resource: resource::<K::Resource>(types),
            scope: scope.clone().and(&self.scope),
        }
    }

    /// Starts a task for each informer that does not run yet (client-go `Start`). Informers that
    /// are built later, including those that replace stopped ones, need another call. Does nothing
    /// after a [shutdown](Self::shutdown).
    ///
    /// # Panics
    /// If called outside of a tokio runtime.
    pub fn start(&self) {
        let runtime = Handle::current();
        let mut informers = self.informers.lock();
        for entry in informers.by_kind.values_mut().filter(|entry| entry.wants_start()) {
            entry.task = Some(runtime.spawn(entry.erased.clone().run()).abort_handle());
        }
    }

    /// Removes the informer of a kind and scope, stops it, and waits until none of its handlers
    /// is called any more. Returns whether there was one (not in client-go).
    ///
    /// This affects all users of the informer: its handlers end, controllers over it shut down, and
    /// its listers no longer change. Its store is freed with its last handle, and its gauges become
    /// 0. The next call of [`informer`](Self::informer) builds a new one.
    ///
    /// Nothing happens before the future is polled. If it is dropped after that, the informer is
    /// removed and stops, but nothing waits for its end. As with [`SharedInformer::stop`], do not
    /// await it within a handler.
    ///
    /// ```
    /// # use deltafifo_informer::shared_informer::{Scope, SharedInformerFactory};
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # async fn example(factory: SharedInformerFactory) {
    /// factory.remove::<ConfigMap>(&(), &Scope::namespace("shop")).await;
    /// # }
    /// ```
    pub async fn remove<K: FactoryKind>(
        &self,
        types: &<K::Resource as Resource>::DynamicType,
        scope: &Scope,
    ) -> bool {
        let key = self.key::<K>(types, scope);
        let Some(removed) = self.informers.lock().remove(&key) else { return false };
        removed.erased.stop().await;
        drop(removed);
        // Dropped with no lock held, because dropping an informer runs user code.
        let ended = self.informers.lock().take_ended();
        drop(ended);
        true
    }

    /// Waits until every informer that was started has [synced](SharedInformer::has_synced)
    /// (client-go `WaitForCacheSync`), or until `give_up` resolves. Informers that are removed
    /// during the wait are ignored. An informer that was stopped after it had synced counts as
    /// synced.
    ///
    /// # Errors
    /// [`NotSynced`] with the names of the informers that have not synced, including those that
    /// were stopped before they had synced.
    pub async fn wait_for_cache_sync(
        &self,
        give_up: impl Future<Output = ()>,
    ) -> Result<(), NotSynced> {
        let started = self.all(FactoryEntry::is_started);
        let all = join_all(started.iter().map(|(_, informer)| informer.wait_for_sync()));
        tokio::select! {
            biased;
            _synced = all => {}
            () = give_up => {}
        }
        let has_not_synced = |(kind, informer): &(InformerKey, Arc<dyn ErasedInformer>)| {
            // The informer may have been removed, and another one of its kind may have been built.
            let is_missing = |entry: &FactoryEntry| !entry.erased.has_synced();
            let counts = !informer.has_synced()
                && self.informers.lock().by_kind.get(kind).is_some_and(is_missing);
            counts.then(|| kind.name())
        };
        let mut names: Vec<_> = started.iter().filter_map(has_not_synced).collect();
        names.sort();
        if names.is_empty() { Ok(()) } else { Err(NotSynced { informers: names }) }
    }

    /// Stops all informers for good, and waits until none of their handlers is called any more
    /// (client-go `Shutdown`), including handlers of informers that were removed or replaced.
    pub async fn shutdown(&self) {
        let leaving = {
            let mut informers = self.informers.lock();
            informers.is_shut_down = true;
            informers.leaving.clone()
        };
        let all = self.all(|_| true).into_iter().map(|(_, informer)| informer).chain(leaving);
        join_all(all.map(|informer| async move { informer.stop().await })).await;
    }

    fn all(
        &self,
        which: impl Fn(&FactoryEntry) -> bool,
    ) -> Vec<(InformerKey, Arc<dyn ErasedInformer>)> {
        let informers = self.informers.lock();
        let all = informers.by_kind.iter().filter(|(_, entry)| which(entry));
        all.map(|(kind, entry)| (kind.clone(), entry.erased.clone())).collect()
    }
}

impl fmt::Debug for SharedInformerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<_> = self.all(|_| true).iter().map(|(key, _)| key.name()).collect();
        names.sort();
        f.debug_struct("SharedInformerFactory").field("informers", &names).finish_non_exhaustive()
    }
}
