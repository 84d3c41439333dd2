//! Controllers whose informers keep compact objects.

use std::error::Error;

use kube::Resource;
use serde::de::DeserializeOwned;

use super::main_objects::MainObjects;
use super::source::{Source, UpdateFilter};
use super::{Action, Controller};
use crate::compact::Compact;
use crate::runtime::reflector::ObjectRef;

impl<K> Controller<K>
where
    K: Clone + Resource + DeserializeOwned + Send + Sync + 'static,
{
    /// Keeps the main objects [compact](crate::compact): compressed, and decoded for each use. The
    /// reconciler, the error policy, the deletion handler, predicates and mappers still receive
    /// `K`. An object is decoded once per reconcile, in a task, so that the task that polls the
    /// stream is not delayed. It is freed in a task, too.
    ///
    /// Set [`concurrency`](super::Config::concurrency), which is the number of objects that are
    /// decoded for reconciles at a time. Without a limit all objects of a list can be decoded at
    /// the same time, and take more memory than in a controller that is not compact.
    ///
    /// [`store`](Self::store) then returns a `Store<Compact<K>>`, whose methods decode the objects
    /// that they return. For an object that cannot be decoded, the stream yields
    /// [`RunnerError::NotDecoded`](super::RunnerError::NotDecoded) instead of a reconcile, and
    /// [`decode_error_policy`](Controller::decode_error_policy) sets the time of the next attempt.
    ///
    /// The packing has its default settings. To name fields or to validate objects, build an
    /// informer of `Compact<K>` with a [compactor](crate::reflector::ReflectorBuilder::compactor),
    /// and pass it to [`from_informer`](Self::from_informer). The guide's chapter *Compact objects*
    /// shows it.
    ///
    /// Call it before [`store`](Self::store). For a controller over a [shared
    /// informer](Self::from_informer), build that informer with `Compact<K>` instead. A controller
    /// over a stream ([`for_stream`](Self::for_stream),
    /// [`for_shared_stream`](Self::for_shared_stream)) cannot become compact. In each of these
    /// cases the stream of the controller yields
    /// [`RunnerError::NotCompact`](super::RunnerError::NotCompact) and ends.
    ///
    /// ```
    /// # use std::{convert::Infallible, sync::Arc};
    /// use deltafifo_informer::runtime::controller::{Action, Config};
    /// use deltafifo_informer::runtime::{Controller, watcher};
    /// # use futures_util::StreamExt;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// # use kube::{Api, ResourceExt};
    ///
    /// async fn reconcile(map: Arc<ConfigMap>, _: Arc<()>) -> Result<Action, Infallible> {
    ///     println!("{} has changed", map.name_any());
    ///     Ok(Action::await_change())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use deltafifo_testkit::{ApiServer, Resource};
    /// # let server = ApiServer::builder().resource(Resource::config_maps()).build();
    /// # server.apply(serde_json::json!({
    /// #     "kind": "ConfigMap", "apiVersion": "v1", "metadata": { "name": "a" },
    /// # }))?;
    /// # let maps = Api::<ConfigMap>::all(server.client());
    /// let mut reconciled = Controller::new(maps, watcher::Config::default())
    ///     .compact()
    ///     .with_config(Config::default().concurrency(8))
    ///     .run(reconcile, |_, _, _| Action::await_change(), Arc::new(()))
    ///     .boxed();
    /// # assert_eq!(reconciled.next().await.unwrap()?.0.name, "a");
    /// # Ok(())
    /// # }
    /// ```
    pub fn compact(self) -> Controller<Compact<K>> {
        let main = match self.main {
            MainObjects::Own { listing, built } if built.get().is_none() => {
                MainObjects::own(listing)
            }
            _ => MainObjects::NotCompact,
        };
        Controller {
            types: self.types,
            main,
            update_filter: self.update_filter.compact(),
            relations: self.relations,
            triggers: self.triggers,
            triggers_of_all: self.triggers_of_all,
            on_deleted: self.on_deleted,
            reads_own_writes: self.reads_own_writes,
            config: self.config,
            retry: self.retry,
            decode_error_policy: None,
            term: self.term,
            sharding: self.sharding,
            announcement: self.announcement,
            graceful: self.graceful,
            forceful: self.forceful,
            errors: self.errors,
            error_receiver: self.error_receiver,
        }
    }
}

impl<K> Controller<Compact<K>>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
{
    /// Restricts which updates trigger a reconcile, like [`when`](Self::when), with a predicate
    /// over compact objects, for which nothing is decoded. It may call the functions in
    /// [`predicates`](crate::runtime::predicates) that compare metadata. The last call of either
    /// method wins.
    ///
    /// ```
    /// use deltafifo_informer::runtime::{Controller, predicates, watcher};
    /// # use k8s_openapi::api::apps::v1::Deployment;
    /// # use deltafifo_informer::compact::Compact;
    /// # fn build(api: kube::Api<Deployment>) -> Controller<Compact<Deployment>> {
    /// Controller::new(api, watcher::Config::default())
    ///     .compact()
    ///     .when_compact(|old, new| {
    ///         predicates::generation(old, new) || predicates::labels(old, new)
    ///     })
    /// # }
    /// ```
    pub fn when_compact(
        mut self,
        predicate: impl Fn(&Compact<K>, &Compact<K>) -> bool + Send + 'static,
    ) -> Self {
        self.update_filter = UpdateFilter::Stored(Box::new(predicate));
        self
    }

    /// Sets the error policy for objects that cannot be decoded. The error policy of
    /// [`run`](Self::run) receives a decoded object, so it is not called for them: `policy`
    /// receives the key of the object and the reason, which is a
    /// [`DecodeError`](crate::compact::DecodeError). In any case the stream yields
    /// [`RunnerError::NotDecoded`](super::RunnerError::NotDecoded), and the object stays in the
    /// store. The last call wins.
    ///
    /// The [`Action`] means the same as that of the other error policy. In particular,
    /// [`await_change`](Action::await_change) gives the object up until something triggers it.
    /// Without this call the object is retried with the delays after a panic: see
    /// [`retry`](Self::retry).
    ///
    /// ```
    /// use deltafifo_informer::runtime::{Controller, controller::Action, watcher};
    /// # use k8s_openapi::api::apps::v1::Deployment;
    /// # use deltafifo_informer::compact::Compact;
    /// # fn build(api: kube::Api<Deployment>) -> Controller<Compact<Deployment>> {
    /// Controller::new(api, watcher::Config::default()).compact().decode_error_policy(
    ///     |deployment, error| {
    ///         eprintln!("{deployment} is skipped: {error}");
    ///         Action::await_change()
    ///     },
    /// )
    /// # }
    /// ```
    pub fn decode_error_policy(
        mut self,
        policy: impl Fn(ObjectRef<K>, &(dyn Error + 'static)) -> Action + Send + 'static,
    ) -> Self {
        self.decode_error_policy = Some(Box::new(policy));
        self
    }
}

impl<K> Source<Compact<K>>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
{
    /// Restricts which updates trigger reconciles, like [`when`](Self::when), with a predicate over
    /// compact objects. No object is decoded for the predicate. The last call of either method
    /// wins.
    #[must_use]
    pub fn when_compact(
        mut self,
        predicate: impl Fn(&Compact<K>, &Compact<K>) -> bool + Send + 'static,
    ) -> Self {
        self.update_filter = UpdateFilter::Stored(Box::new(predicate));
        self
    }
}

impl<K> UpdateFilter<K>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
{
    fn compact(self) -> UpdateFilter<Compact<K>> {
        match self {
            Self::Every => UpdateFilter::Every,
            Self::Changed(part) => UpdateFilter::Changed(part),
            Self::Decoded(predicate) | Self::Stored(predicate) => UpdateFilter::Decoded(predicate),
        }
    }
}
