//! Controllers over streams of objects (kube's `unstable-runtime-stream-control`), and relations
//! whose objects come from streams.

use std::fmt::Debug;
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;

use deltafifo::Meta;
use deltafifo::panics::FirstPanic;
use futures_util::{Stream, StreamExt};
use kube::Resource;
use kube::runtime::utils::StreamBackoff;
use kube::runtime::watcher::DefaultBackoff;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::Controller;
use super::key::{StoreKey, key_of_ref};
use super::main_objects::{MainObjects, MainStream};
use super::owned::OwnerKind;
use super::reason::Reason;
use super::schedule::Schedule;
use super::source::UpdateFilter;
use super::start::Started;
use crate::KubeMeta;
use crate::lister_watcher::resource;
use crate::runtime::form::Form;
use crate::runtime::reflector::{ObjectRef, Store};
use crate::runtime::watcher;
use crate::shared_informer::{Cause, Notification};

impl<K> Controller<K>
where
    K: Clone + Resource + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    /// Creates a controller of the objects that `trigger` yields and `reader` contains. Each item
    /// triggers a reconcile of that object, in the state that the store has then. The first
    /// reconcile begins when the store is [ready](Store::wait_until_ready).
    ///
    /// As in kube:
    ///
    /// * If the object is not in the store, the controller yields [`Error::ObjectNotFound`].
    /// * The errors of `trigger` are yielded as [`Error::QueueError`]. After an error, `trigger` is
    ///   not polled for the time of kube's default backoff (in kube, no stream of the controller
    ///   is).
    /// * When `trigger` has ended, the controller continues with its other streams and informers.
    ///   It shuts down when all of them have ended, and starts no further reconciles then.
    ///
    /// If the writer of the store is dropped before the store is ready, the controller yields
    /// [`RunnerError::WriterDropped`] and ends. While the store is not ready, the controller yields
    /// [`RunnerError::NotSynced`] every minute.
    ///
    /// **An informer gives more.** [`Controller::new`], or
    /// [`from_informer`](Self::from_informer) with an informer [over the same
    /// stream](crate::SharedInformer::for_stream):
    ///
    /// * notices every deletion, including those that only a list shows, for
    ///   [`on_deleted`](Self::on_deleted). A stream of objects cannot mark an object as deleted, so
    ///   the handler is never called for it.
    /// * compares two states for [`when`](Self::when), which has no effect here. The
    ///   [`predicate_filter`](crate::runtime::WatchStreamExt::predicate_filter) of a stream sees
    ///   only the new state.
    /// * reconciles watch events before objects of lists, and does not reconcile an object that a
    ///   list shows unchanged.
    /// * has a store that [`read_own_writes`](Self::read_own_writes) waits for. Nothing waits for a
    ///   write to be in `reader`.
    /// * can be sharded (`Controller::sharded`) and compact. A controller over a stream ends with
    ///   [`RunnerError::NotListable`] or [`RunnerError::NotCompact`].
    ///
    /// ```
    /// use std::{convert::Infallible, sync::Arc};
    /// use deltafifo_informer::runtime::{
    ///     Controller, WatchStreamExt, controller::Action, predicates, reflector, watcher,
    /// };
    /// use futures_util::StreamExt;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube::Api;
    ///
    /// async fn reconcile(_: Arc<ConfigMap>, _: Arc<()>) -> Result<Action, Infallible> {
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
    /// let (reader, writer) = reflector::store();
    /// let changed = watcher(maps, watcher::Config::default())
    ///     .default_backoff()
    ///     .reflect(writer)
    ///     .applied_objects()
    ///     .predicate_filter(predicates::generation, Default::default());
    /// let mut reconciled = Controller::for_stream(changed, reader)
    ///     .run(reconcile, |_, _, _| Action::await_change(), Arc::new(()))
    ///     .boxed();
    /// # let (object, _) = reconciled.next().await.ok_or("the controller runs")??;
    /// # assert_eq!(object.name, "a");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`Error::ObjectNotFound`]: super::Error::ObjectNotFound
    /// [`Error::QueueError`]: super::Error::QueueError
    /// [`RunnerError::NotCompact`]: super::RunnerError::NotCompact
    /// [`RunnerError::NotListable`]: super::RunnerError::NotListable
    /// [`RunnerError::NotSynced`]: super::RunnerError::NotSynced
    /// [`RunnerError::WriterDropped`]: super::RunnerError::WriterDropped
    #[doc(alias = "trigger_self")]
    pub fn for_stream(
        trigger: impl Stream<Item = Result<K, watcher::Error>> + Send + 'static,
        reader: Store<K>,
    ) -> Self
    where
        K::DynamicType: Default,
    {
        Self::for_stream_with(trigger, reader, K::DynamicType::default())
    }

    /// Creates a controller like [`for_stream`](Self::for_stream), of a kind that is known only at
    /// run time.
    pub fn for_stream_with(
        trigger: impl Stream<Item = Result<K, watcher::Error>> + Send + 'static,
        reader: Store<K>,
        dyntype: K::DynamicType,
    ) -> Self {
        let notifications = trigger.map(|item| item.map(|object| state(Arc::new(object)))).boxed();
        let resource = resource::<K>(&dyntype);
        let stream = MainStream { resource, notifications, has_deletions: false };
        Self::over(stream, reader, dyntype)
    }

    pub(super) fn over(stream: MainStream<K>, store: Store<K>, dyntype: K::DynamicType) -> Self {
        Self::of(MainObjects::Stream { stream, store }, UpdateFilter::Every, dyntype)
    }
}

impl<F: Form> Controller<F>
where
    KubeMeta: Meta<F>,
{
    /// Reconciles the owners, by owner reference, of the objects that `trigger` yields. Errors of
    /// `trigger` and its end are treated as in [`for_stream`](Self::for_stream).
    ///
    /// A stream of
    /// [`touched_objects`](crate::runtime::WatchStreamExt::touched_objects) contains deleted
    /// objects. One of [`applied_objects`](crate::runtime::WatchStreamExt::applied_objects) does
    /// not, so the deletion of a child triggers nothing.
    ///
    /// **An informer gives more.** [`owns`](Self::owns) and [`owns_informer`](Self::owns_informer)
    /// also reconcile an owner whose child was deleted while the watch was interrupted, and an
    /// owner that a child no longer names. Reconciles wait for their initial list, and a predicate
    /// of a [`Source`](super::Source::when) cannot hide deletions. A controller with a stream of
    /// objects cannot be sharded (`Controller::sharded`), because no list shows whether the stream
    /// has caught up: it ends with [`RunnerError::NotListable`](super::RunnerError::NotListable).
    pub fn owns_stream<Child>(
        self,
        trigger: impl Stream<Item = Result<Child, watcher::Error>> + Send + 'static,
    ) -> Self
    where
        Child: Resource<DynamicType = ()> + Send + 'static,
    {
        self.owns_stream_with(trigger, ())
    }

    /// Acts like [`owns_stream`](Self::owns_stream), for a kind that is known only at run time.
    #[allow(clippy::needless_pass_by_value)] // kube's.
    pub fn owns_stream_with<Child>(
        self,
        trigger: impl Stream<Item = Result<Child, watcher::Error>> + Send + 'static,
        dyntype: Child::DynamicType,
    ) -> Self
    where
        Child: Resource + Send + 'static,
        Child::DynamicType: Debug + Eq + Hash + Clone,
    {
        let kind = OwnerKind::of::<F::Object>(&self.types);
        self.relate_stream(resource::<Child>(&dyntype), trigger, move |child, request| {
            kind.of_resource(&child, request);
        })
    }

    /// Reconciles the objects that `mapper` returns for the objects that `trigger` yields. Errors
    /// of `trigger` and its end are treated as in [`for_stream`](Self::for_stream), and deletions
    /// as in [`owns_stream`](Self::owns_stream).
    ///
    /// `mapper` runs in a task of the controller and should return quickly. A panic of `mapper` is
    /// a panic of the task that polls the controller.
    ///
    /// **An informer gives more.** [`watches`](Self::watches) and
    /// [`watches_informer`](Self::watches_informer) also map objects that were deleted while the
    /// watch was interrupted, and map the old state of a change as well as the new one. A panic of
    /// their mapper is reported as an error, and the controller continues. Reconciles wait for
    /// their initial list, a predicate of a [`Source`](super::Source::when) cannot hide deletions,
    /// and the controller can be sharded.
    pub fn watches_stream<Other, I>(
        self,
        trigger: impl Stream<Item = Result<Other, watcher::Error>> + Send + 'static,
        mapper: impl Fn(Other) -> I + Sync + Send + 'static,
    ) -> Self
    where
        Other: Clone + Resource + DeserializeOwned + Debug + Send + 'static,
        Other::DynamicType: Default + Debug + Clone,
        I: 'static + IntoIterator<Item = ObjectRef<F::Object>>,
        I::IntoIter: Send,
    {
        self.watches_stream_with(trigger, mapper, Other::DynamicType::default())
    }

    /// Acts like [`watches_stream`](Self::watches_stream), for a kind that is known only at run
    /// time.
    #[allow(clippy::needless_pass_by_value)] // kube's.
    pub fn watches_stream_with<Other, I>(
        self,
        trigger: impl Stream<Item = Result<Other, watcher::Error>> + Send + 'static,
        mapper: impl Fn(Other) -> I + Sync + Send + 'static,
        dyntype: Other::DynamicType,
    ) -> Self
    where
        Other: Clone + Resource + DeserializeOwned + Debug + Send + 'static,
        Other::DynamicType: Debug + Clone,
        I: 'static + IntoIterator<Item = ObjectRef<F::Object>>,
        I::IntoIter: Send,
    {
        self.relate_stream(resource::<Other>(&dyntype), trigger, move |object, request| {
            mapper(object).into_iter().for_each(|object| request(key_of_ref(&object)));
        })
    }

    /// Adds a relation to a stream of the user. `objects` is called with each item and a function,
    /// which requests a reconcile of the key that it is called with.
    fn relate_stream<T: 'static>(
        self,
        resource: String,
        trigger: impl Stream<Item = Result<T, watcher::Error>> + Send + 'static,
        objects: impl Fn(T, &mut dyn FnMut(StoreKey)) + Send + 'static,
    ) -> Self {
        let errors = self.errors.clone();
        self.relate(move |started, _| {
            started.check_stream(&resource)?;
            follow(trigger, &errors, started, move |item, schedule| {
                objects(item, &mut |key| schedule.request(key, 0, Reason::RelatedObjectUpdated));
            });
            Ok(())
        })
    }
}

/// Returns the notification for an object of a stream that has neither old states nor deletions.
pub(super) fn state<K>(new: Arc<K>) -> Notification<K> {
    Notification::Added { new, is_in_initial_list: false, cause: Cause::Watch }
}

/// Starts a task that calls `deliver` for each item of a stream of notifications.
pub(super) fn follow_notifications<K: 'static>(
    notifications: impl Stream<Item = Result<Notification<K>, watcher::Error>> + Send + 'static,
    errors: &mpsc::Sender<watcher::Error>,
    started: &mut Started,
    mut deliver: impl FnMut(Notification<K>, &Schedule, &mut FirstPanic) + Send + 'static,
) {
    follow(notifications, errors, started, move |notification, schedule| {
        let mut user_calls = FirstPanic::default();
        deliver(notification, schedule, &mut user_calls);
        // Ends the task, and then the controller, like any panic of a stream of the user.
        user_calls.resume();
    });
}

/// Starts a task that calls `deliver` for each item of `trigger`, and sends the errors of `trigger`
/// to the stream of the controller. After an error, `trigger` is not polled for the time of kube's
/// default backoff.
fn follow<T: 'static>(
    trigger: impl Stream<Item = Result<T, watcher::Error>> + Send + 'static,
    errors: &mpsc::Sender<watcher::Error>,
    started: &mut Started,
    mut deliver: impl FnMut(T, &Schedule) + Send + 'static,
) {
    let schedule = Arc::clone(&started.schedule);
    let errors = errors.clone();
    // Items are delivered while the stream is polled, because they need not be `Send`.
    let delivered = trigger.map(move |item| item.map(|item| deliver(item, &schedule)));
    let delivered = StreamBackoff::new(delivered, DefaultBackoff::default());
    started.spawn_source(async move {
        let mut delivered = pin!(delivered);
        while let Some(delivered) = delivered.next().await {
            if let Err(error) = delivered {
                // Fails if the controller is ending.
                let _ = errors.send(error).await;
            }
            tokio::task::consume_budget().await;
        }
    });
}
