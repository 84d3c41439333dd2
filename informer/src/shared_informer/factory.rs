//! Informers by kind, made once and run together (client-go `SharedInformerFactory`).

mod scope;

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deltafifo::Lister;
use futures_util::future::{BoxFuture, join_all};
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use kube::core::ObjectMeta;
use kube::{Client, Resource};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;

use super::builder::SharedInformerBuilder;
use super::error::{FactoryError, NotSynced};
use super::{SharedInformer, Stopped};
use crate::{KubeListerWatcher, KubeMeta};
pub use scope::Scope;
use scope::name;

/// What an informer is called in errors.
type Name = String;

/// One informer for each kind and [`Scope`], whoever asks for it, over one client. Cheap to clone. Informers that it has started run
/// until they are stopped, or the factory is [shut down](Self::shutdown), also when it is dropped.
///
/// ```
/// # use std::error::Error;
/// use deltafifo_informer::shared_informer::{Scope, SharedInformerFactory};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn Error>> {
/// # let server = deltafifo_testkit::ApiServer::builder().resource(deltafifo_testkit::Resource::config_maps()).build();
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

/// What is made of every object's metadata.
type Transform = dyn Fn(&mut ObjectMeta) + Send + Sync;

#[derive(Default)]
struct Informers {
    by_kind: HashMap<(TypeId, Name), Made, foldhash::fast::RandomState>,
    is_shut_down: bool,
}

struct Made {
    /// A [`SharedInformer`] of the kind.
    informer: Box<dyn Any + Send + Sync>,
    runs: Arc<dyn Runs>,
    is_started: bool,
}

/// What a factory does with an informer of whatever kind.
trait Runs: Send + Sync {
    fn run(self: Arc<Self>) -> BoxFuture<'static, ()>;
    fn has_synced(&self) -> bool;
    fn wait_for_sync(&self) -> BoxFuture<'_, Result<(), Stopped>>;
    fn stop(&self) -> BoxFuture<'_, ()>;
}

impl<K: DeserializeOwned + Send + Sync + 'static> Runs for SharedInformer<K>
where
    KubeMeta: deltafifo::Meta<K>,
{
    fn run(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // An error says that it was shut down before.
            let _ = SharedInformer::run(&self).await;
        })
    }

    fn has_synced(&self) -> bool {
        self.has_synced()
    }

    fn wait_for_sync(&self) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(self.wait_for_sync())
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.stop())
    }
}

impl SharedInformerFactory {
    /// A factory over `client`, of all namespaces, whose handlers want no resyncs.
    #[must_use]
    pub fn new(client: Client) -> Self {
        let informers = Arc::default();
        Self { client, scope: Scope::all(), resync: None, transform: None, name: String::new(), informers }
    }

    /// The resync period of handlers that do not say theirs (client-go `defaultResync`); 0 is never. For informers made after it.
    #[must_use]
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Changes the metadata of every object of whatever kind before it is stored (client-go `WithTransform`): to leave out what
    /// nobody reads, such as managed fields. It must leave name and namespace as they are. What belongs to one kind only:
    /// [`SharedInformerBuilder::transform`], which takes the place of this. For informers made after it.
    ///
    /// ```
    /// # use deltafifo_informer::shared_informer::SharedInformerFactory;
    /// # fn lean(client: kube::Client) -> SharedInformerFactory {
    /// SharedInformerFactory::new(client).transform_metadata(|meta| meta.managed_fields = None)
    /// # }
    /// ```
    #[must_use]
    pub fn transform_metadata(mut self, transform: impl Fn(&mut ObjectMeta) + Send + Sync + 'static) -> Self {
        self.transform = Some(Arc::new(transform));
        self
    }

    /// Names the informers, and gives them [metrics](crate::metrics) (client-go `WithInformerName`); to the name of one whose scope
    /// has a query that is added, as `?labelSelector=app%3Dweb`. For informers made after it.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Adds to the query of every list and watch (client-go `WithTweakListOptions`). For informers made after it.
    #[must_use]
    pub fn query(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.scope = self.scope.query(key, value);
        self
    }

    /// The informer of a kind and scope; made at the first call, and to be [started](Self::start) then (client-go
    /// `InformerFor`).
    ///
    /// # Errors
    /// As for [`informer_with`](Self::informer_with).
    pub fn informer<K>(&self, scope: &Scope) -> Result<SharedInformer<K>, FactoryError>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Send + Sync + 'static,
    {
        self.informer_with(&(), scope, |builder| builder)
    }

    /// The same of a kind that is known at run time only, and with what `choose` chooses if it is made now: indexes, a
    /// transform, a queue, an error handler.
    ///
    /// # Errors
    /// [`FactoryError::ShutDown`]; [`FactoryError::Build`] when an index's name is given twice.
    pub fn informer_with<K>(
        &self,
        types: &K::DynamicType,
        scope: &Scope,
        choose: impl FnOnce(SharedInformerBuilder<K, KubeMeta>) -> SharedInformerBuilder<K, KubeMeta>,
    ) -> Result<SharedInformer<K>, FactoryError>
    where
        K: Resource + Clone + DeserializeOwned + Send + Sync + 'static,
    {
        let mut scope = scope.clone();
        scope.query.extend(self.scope.query.iter().cloned());
        let key = (TypeId::of::<K>(), name::<K>(types, &scope));
        if let Some(made) = self.made(&key)? {
            return Ok(made);
        }
        let informers_name = format!("{}{}", self.name, scope.query_text());
        let mut source = KubeListerWatcher::new::<K>(self.client.clone(), types, scope.namespace.as_deref());
        for (key, value) in scope.parameters() {
            source = source.query(key, value);
        }
        let mut builder = SharedInformer::<K>::builder(source);
        if let Some(period) = self.resync {
            builder = builder.resync(period);
        }
        if let Some(transform) = self.transform.clone() {
            builder = builder.transform(move |mut object| {
                // Nobody else has it yet.
                transform(Arc::make_mut(&mut object).meta_mut());
                Ok(object)
            });
        }
        if !self.name.is_empty() {
            builder = builder.name(informers_name);
        }
        // With nothing locked: it is user code that chooses.
        let informer = choose(builder).build()?;
        let made = Made { informer: Box::new(informer.clone()), runs: Arc::new(informer.clone()), is_started: false };
        let there = {
            let mut informers = self.informers.lock();
            if informers.is_shut_down {
                return Err(FactoryError::ShutDown);
            }
            match informers.by_kind.entry(key) {
                Entry::Vacant(vacant) => {
                    vacant.insert(made);
                    None
                }
                Entry::Occupied(there) => there.get().informer.downcast_ref::<SharedInformer<K>>().cloned(),
            }
        };
        // Somebody else may have made it meanwhile: then that one is it, and the end of this one is user code again.
        Ok(there.unwrap_or(informer))
    }

    fn made<K>(&self, key: &(TypeId, Name)) -> Result<Option<SharedInformer<K>>, FactoryError>
    where
        K: Resource + DeserializeOwned + Send + Sync + 'static,
    {
        let informers = self.informers.lock();
        if informers.is_shut_down {
            return Err(FactoryError::ShutDown);
        }
        let made = informers.by_kind.get(key);
        Ok(made.and_then(|made| made.informer.downcast_ref::<SharedInformer<K>>()).cloned())
    }

    /// A lister of a kind and scope, of the informer that [`informer`](Self::informer) gives.
    ///
    /// # Errors
    /// As for [`informer`](Self::informer).
    pub fn lister<K>(&self, scope: &Scope) -> Result<Lister<K, KubeMeta>, FactoryError>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Send + Sync + 'static,
    {
        Ok(self.informer(scope)?.lister())
    }

    /// Runs what does not run yet, each in a task (client-go `Start`). Informers that are made later want another call. After a
    /// [shutdown](Self::shutdown) it does nothing.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(&self) {
        let runtime = Handle::current();
        let mut informers = self.informers.lock();
        for made in informers.by_kind.values_mut().filter(|made| !made.is_started) {
            made.is_started = true;
            runtime.spawn(made.runs.clone().run());
        }
    }

    /// Waits until every informer that was started has [synced](SharedInformer::has_synced) (client-go `WaitForCacheSync`),
    /// or until `give_up` is over.
    ///
    /// # Errors
    /// [`NotSynced`] says which have not.
    pub async fn wait_for_cache_sync(&self, give_up: impl Future<Output = ()>) -> Result<(), NotSynced> {
        let started = self.all(|made| made.is_started);
        let all = join_all(started.iter().map(|(_, informer)| informer.wait_for_sync()));
        tokio::select! {
            biased;
            _synced = all => {}
            () = give_up => {}
        }
        let missing: Vec<_> = started.iter().filter(|(_, informer)| !informer.has_synced()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let mut names: Vec<_> = missing.into_iter().map(|(name, _)| name.clone()).collect();
        names.sort();
        Err(NotSynced { informers: names })
    }

    /// Stops all informers, for good, and waits until none of their handlers is called any more (client-go `Shutdown`).
    pub async fn shutdown(&self) {
        self.informers.lock().is_shut_down = true;
        let all = self.all(|_| true);
        join_all(all.iter().map(|(_, informer)| informer.stop())).await;
    }

    fn all(&self, which: impl Fn(&Made) -> bool) -> Vec<(Name, Arc<dyn Runs>)> {
        let informers = self.informers.lock();
        let all = informers.by_kind.iter().filter(|(_, made)| which(made));
        all.map(|((_, name), made)| (name.clone(), made.runs.clone())).collect()
    }
}

impl fmt::Debug for SharedInformerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<_> = self.all(|_| true).into_iter().map(|(name, _)| name).collect();
        names.sort();
        f.debug_struct("SharedInformerFactory").field("informers", &names).finish_non_exhaustive()
    }
}
