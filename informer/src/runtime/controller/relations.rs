//! Triggers of reconciles besides the main objects: owned objects, watched objects, and streams
//! of the user.

use std::fmt::Debug;
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;

use deltafifo::{IndexReader, KeyFunc, Meta, error_chain};
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use super::Controller;
use super::error::RunnerError;
use super::key::{StoreKey, key_of_ref};
use super::owned::{Owned, OwnedMeta, OwnerKind};
use super::reason::Reason;
use super::schedule::LOW;
use super::source::{
    InformerOwner, OwnedInformer, Source, as_configured, listen, of_api, triggering_states,
};
use super::start::{InformerRole, Relation, Started};
use super::stored::for_each_stored;
use crate::KubeMeta;
#[cfg(feature = "compact")]
use crate::compact::{Compact, Compactor};
use crate::lister_watcher::resource;
use crate::runtime::form::Form;
use crate::runtime::reflector::ObjectRef;
use crate::runtime::watcher;
use crate::shared_informer::{SharedInformer, SharedInformerBuilder};

impl<F: Form> Controller<F>
where
    KubeMeta: Meta<F>,
{
    /// Reconciles the owners, by owner reference, of the objects that `api` lists and `wc`
    /// selects. When an object changes owners, both the old and the new owners are reconciled.
    /// Only metadata is fetched, and only names, version and owners are kept.
    #[doc(alias = "trigger_owners")]
    pub fn owns<Child>(self, api: Api<Child>, wc: watcher::Config) -> Self
    where
        Child: Clone + Resource<DynamicType = ()> + DeserializeOwned + Debug + Send + 'static,
    {
        self.owns_with(api, (), wc)
    }

    /// Acts like [`owns`](Self::owns), for a kind that is known only at run time.
    #[allow(clippy::needless_pass_by_value)] // kube's.
    pub fn owns_with<Child>(
        self,
        api: Api<Child>,
        dyntype: Child::DynamicType,
        wc: watcher::Config,
    ) -> Self
    where
        Child: Clone + Resource + DeserializeOwned + Debug + Send + 'static,
        Child::DynamicType: Debug + Eq + Hash + Clone,
    {
        let children = of_api(api, &wc, &dyntype).metadata_only();
        let keys = KeyFunc::meta_namespace(OwnedMeta);
        let builder =
            SharedInformer::<Owned, _>::with_keys(children, keys).reflector(as_configured(wc));
        let kind = OwnerKind::of::<F::Object>(&self.types);
        self.relate_own(resource::<Child>(&dyntype), builder, move |object, request| {
            kind.of_owned(object).for_each(request);
        })
    }

    /// Acts like [`owns`](Self::owns), over a shared informer of whole objects or of metadata.
    /// The caller must run the informer. A reconciler may read the informer's store: no reconcile
    /// begins before the informer's initial list is complete.
    ///
    /// The informer may be compact: owners are then read without decoding the objects.
    pub fn owns_informer<Child: Form>(self, informer: impl Into<Source<Child>>) -> Self
    where
        KubeMeta: Meta<Child>,
    {
        let kind = OwnerKind::of::<F::Object>(&self.types);
        self.relate_shared(informer.into(), move |object, request| {
            kind.of_child(&**object, request);
        })
    }

    /// Reconciles the objects that `mapper` returns for the objects that `api` lists and `wc`
    /// selects. On a change `mapper` is called with the old and with the new state.
    ///
    /// `mapper` runs in a task of the controller and should return quickly. If it panics, the
    /// panic is reported as an error and that state triggers nothing.
    #[doc(alias = "trigger_others")]
    #[doc(alias = "trigger_with")]
    pub fn watches<Other, I>(
        self,
        api: Api<Other>,
        wc: watcher::Config,
        mapper: impl Fn(Other) -> I + Sync + Send + 'static,
    ) -> Self
    where
        Other: Clone + Resource + DeserializeOwned + Debug + Send + Sync + 'static,
        Other::DynamicType: Default + Debug + Clone + Eq + Hash,
        I: 'static + IntoIterator<Item = ObjectRef<F::Object>>,
        I::IntoIter: Send,
    {
        self.watches_with(api, Other::DynamicType::default(), wc, mapper)
    }

    /// Acts like [`watches`](Self::watches), for a kind that is known only at run time.
    #[allow(clippy::needless_pass_by_value)] // kube's.
    pub fn watches_with<Other, I>(
        self,
        api: Api<Other>,
        dyntype: Other::DynamicType,
        wc: watcher::Config,
        mapper: impl Fn(Other) -> I + Sync + Send + 'static,
    ) -> Self
    where
        Other: Clone + Resource + DeserializeOwned + Debug + Send + Sync + 'static,
        Other::DynamicType: Debug + Clone + Eq + Hash,
        I: 'static + IntoIterator<Item = ObjectRef<F::Object>>,
        I::IntoIter: Send,
    {
        self.watches_ref(api, &dyntype, wc, move |object| mapper(object.clone()))
    }

    /// Acts like [`watches`](Self::watches), with a mapper that borrows the object instead of
    /// getting a clone (not in kube).
    pub fn watches_ref<Other, I>(
        self,
        api: Api<Other>,
        dyntype: &Other::DynamicType,
        wc: watcher::Config,
        mapper: impl Fn(&Other) -> I + Send + 'static,
    ) -> Self
    where
        Other: Clone + Resource + DeserializeOwned + Send + Sync + 'static,
        I: IntoIterator<Item = ObjectRef<F::Object>>,
    {
        let builder = SharedInformer::<Other>::builder(of_api(api, &wc, dyntype))
            .reflector(as_configured(wc));
        self.relate_own(resource::<Other>(dyntype), builder, decoding(mapper))
    }

    /// Acts like [`watches_ref`](Self::watches_ref), and keeps the watched objects
    /// [compact](crate::compact).
    ///
    /// Each state is decoded for `mapper`, and once before it is stored: as in `watches_ref`, a
    /// state that does not decode is yielded as an error, and the earlier state stays stored, so
    /// that a later change or deletion is mapped from it.
    #[cfg(feature = "compact")]
    pub fn watches_compact<Other, I>(
        self,
        api: Api<Other>,
        dyntype: &Other::DynamicType,
        wc: watcher::Config,
        mapper: impl Fn(&Other) -> I + Send + 'static,
    ) -> Self
    where
        Other: Clone + Resource + DeserializeOwned + Send + Sync + 'static,
        I: IntoIterator<Item = ObjectRef<F::Object>>,
    {
        // Without the validation, a state that does not decode would replace the state whose main
        // objects a deletion must trigger.
        let compactor = Compactor::builder().validate(true);
        let builder = SharedInformer::<Compact<Other>>::builder(of_api(api, &wc, dyntype))
            .reflector(|reflector| as_configured(wc)(reflector).compactor(compactor));
        self.relate_own(resource::<Other>(dyntype), builder, decoding(mapper))
    }

    /// Acts like [`watches_ref`](Self::watches_ref), over a shared informer. The caller must run
    /// the informer. A reconciler may read the informer's store: no reconcile begins before the
    /// informer's initial list is complete.
    ///
    /// The informer may be compact: then each state is decoded for `mapper`, and a state that does
    /// not decode is logged and triggers nothing. Build such an informer with a `Compactor` that
    /// validates objects. Otherwise a state that does not decode replaces the earlier one in the
    /// store, and a later change or deletion does not trigger the main objects of the earlier one.
    pub fn watches_informer<Other: Form, I>(
        self,
        informer: impl Into<Source<Other>>,
        mapper: impl Fn(&Other::Object) -> I + Send + 'static,
    ) -> Self
    where
        KubeMeta: Meta<Other>,
        I: IntoIterator<Item = ObjectRef<F::Object>>,
    {
        self.relate_shared(informer.into(), decoding(mapper))
    }

    /// Makes the relation that was added last (by [`owns`](Self::owns),
    /// [`watches`](Self::watches) or a variant of them) optional: reconciles do not wait for its
    /// initial list if the server does not have the kind (404) or does not allow it to be listed
    /// and watched (403). After any other failure they wait, as for other relations. Does nothing
    /// if no relation was added.
    ///
    /// The informer retries at least every 30 seconds, unless it has another backoff. Once the
    /// kind exists, its objects trigger reconciles like all others. The absence of the kind is
    /// yielded as an error once, and logged at level debug after that. (controller-runtime issue
    /// 1179)
    ///
    /// ```
    /// use deltafifo_informer::runtime::{Controller, watcher};
    /// # use k8s_openapi::api::apps::v1::Deployment as Certificate;
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// # use kube::Api;
    /// # fn build(client: kube::Client) -> Controller<ConfigMap> {
    /// Controller::new(Api::<ConfigMap>::all(client.clone()), watcher::Config::default())
    ///     .owns(Api::<Secret>::all(client.clone()), watcher::Config::default())
    ///     // of a CRD that may not be installed
    ///     .owns(Api::<Certificate>::all(client), watcher::Config::default()).optional()
    /// # }
    /// ```
    pub fn optional(mut self) -> Self {
        if let Some(last) = self.relations.last_mut() {
            last.is_optional = true;
        }
        self
    }

    /// Adds a relation to an informer that the controller builds and runs.
    fn relate_own<O: Send + Sync + 'static, M: Meta<O>>(
        self,
        resource: String,
        builder: SharedInformerBuilder<O, M>,
        objects: impl Fn(&Arc<O>, &mut dyn FnMut(StoreKey)) + Send + 'static,
    ) -> Self {
        let own = OwnedInformer::build(resource, builder, &self.errors);
        self.relate(move |started, role| {
            let informer = own.informer();
            let every_update = |_: &_, _: &_| true;
            let owner = InformerOwner::Controller;
            request_for(informer, every_update, owner, role, started, objects)?;
            own.run(started, role);
            Ok(())
        })
    }

    /// Adds a relation to an informer that the user runs.
    fn relate_shared<O: Form>(
        self,
        Source { informer, update_filter }: Source<O>,
        objects: impl Fn(&Arc<O>, &mut dyn FnMut(StoreKey)) + Send + 'static,
    ) -> Self
    where
        KubeMeta: Meta<O>,
    {
        self.relate(move |started, role| {
            let update_filter = move |old: &_, new: &_| update_filter.accepts(old, new);
            request_for(&informer, update_filter, InformerOwner::User, role, started, objects)
        })
    }

    /// Adds a relation, which `start` starts when the controller runs.
    pub(super) fn relate(
        mut self,
        start: impl FnOnce(&mut Started, InformerRole) -> Result<(), RunnerError> + Send + 'static,
    ) -> Self {
        self.relations.push(Relation { start: Box::new(start), is_optional: false });
        self
    }

    /// Reconciles each object that `trigger` yields a reference to.
    #[doc(alias = "ReconcileRequest")]
    #[doc(alias = "ReconcileReason")]
    pub fn reconcile_on(
        mut self,
        trigger: impl Stream<Item = ObjectRef<F::Object>> + Send + 'static,
    ) -> Self {
        self.triggers.push(Box::new(move |started| {
            let schedule = Arc::clone(&started.schedule);
            started.spawn_source(async move {
                let mut trigger = pin!(trigger);
                while let Some(object) = trigger.next().await {
                    schedule.request(key_of_ref(&object), 0, Reason::Unknown);
                    tokio::task::consume_budget().await;
                }
            });
        }));
        self
    }

    /// Reconciles every object each time `trigger` yields. These reconciles have a lower priority
    /// than reconciles for watch events.
    pub fn reconcile_all_on(mut self, trigger: impl Stream<Item = ()> + Send + 'static) -> Self {
        self.triggers_of_all.push(trigger.boxed());
        self
    }
}

/// Starts a task that requests a reconcile of every object in `store` each time `trigger` yields.
pub(super) fn request_all_on<K: Send + Sync + 'static, M: Meta<K>>(
    mut trigger: BoxStream<'static, ()>,
    store: IndexReader<K, M>,
    started: &mut Started,
) {
    let schedule = Arc::clone(&started.schedule);
    started.spawn_source(async move {
        while let Some(()) = trigger.next().await {
            let request =
                |key: Box<str>, _| schedule.request(key.into(), LOW, Reason::BulkReconcile);
            for_each_stored(&store, request).await;
        }
    });
}

/// Adds a handler to `informer` that calls `objects` for each state in a notification that triggers
/// reconciles. `objects` is passed the state and a function, which requests a reconcile of the key
/// that it is called with.
///
/// # Errors
/// As for [`listen`].
fn request_for<O, M>(
    informer: &SharedInformer<O, M>,
    update_filter: impl Fn(&Arc<O>, &Arc<O>) -> bool + Send + 'static,
    owner: InformerOwner,
    role: InformerRole,
    started: &mut Started,
    objects: impl Fn(&Arc<O>, &mut dyn FnMut(StoreKey)) + Send + 'static,
) -> Result<(), RunnerError>
where
    O: Send + Sync + 'static,
    M: Meta<O>,
{
    listen(informer, owner, role, started, move |notification, schedule, user_calls| {
        let triggering = triggering_states(&notification, &update_filter, user_calls);
        let Some((states, priority)) = triggering else { return };
        for state in states.into_iter().flatten() {
            let mut request = |key| schedule.request(key, priority, Reason::RelatedObjectUpdated);
            user_calls.call(|| objects(state, &mut request));
        }
    })
}

/// Returns a function that decodes an object and requests reconciles of the objects that `mapper`
/// returns for it.
fn decoding<O: Form, K: Resource, I: IntoIterator<Item = ObjectRef<K>>>(
    mapper: impl Fn(&O::Object) -> I + Send + 'static,
) -> impl Fn(&Arc<O>, &mut dyn FnMut(StoreKey)) + Send + 'static {
    move |object, request| match object.view() {
        Ok(object) => {
            mapper(&object).into_iter().for_each(|object| request(key_of_ref(&object)));
        }
        Err(error) => {
            let error = error_chain(&*error);
            tracing::warn!(error, "related object cannot be decoded; its state triggers nothing");
        }
    }
}
