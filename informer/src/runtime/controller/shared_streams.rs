//! Controllers over shared streams of objects (kube's `unstable-runtime-subscribe`), and relations
//! whose objects come from shared streams.
//!
//! A [`ReflectHandle`] yields the states that are applied to a store, so it is a stream without
//! deletions, as in kube. A controller that receives the handle itself takes all changes out of it:
//! old states and deletions, too. It then acts as over an informer.

use std::any::Any;
use std::fmt::Debug;
use std::future::ready;
use std::hash::Hash;
use std::sync::Arc;

use deltafifo::panics::FirstPanic;
use deltafifo::{DeletedFinalStateUnknown, Meta};
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt};
use kube::Resource;
use serde::de::DeserializeOwned;

use super::Controller;
use super::key::{StoreKey, key_of, key_of_ref};
use super::main_objects::MainStream;
use super::owned::OwnerKind;
use super::reason::Reason;
use super::schedule::Schedule;
use super::source::triggering_states;
use super::streams::{follow_notifications, state};
use crate::KubeMeta;
use crate::lister_watcher::resource;
use crate::runtime::form::Form;
use crate::runtime::reflector::{Change, ObjectRef, ReflectHandle, Store};
use crate::shared_informer::{Cause, Notification};

impl<K> Controller<K>
where
    K: Clone + Resource + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    /// Creates a controller of the objects that `trigger` yields and `reader` contains, like
    /// [`for_stream`](Self::for_stream). `trigger` is a subscriber of a
    /// [`store_shared`](crate::runtime::reflector::store_shared), so that several controllers can
    /// use one watch.
    ///
    /// The caller must poll the stream that fills the store, even while the controller is busy. If
    /// no controller polls its handle, that stream waits when the buffer of the store is full.
    ///
    /// **Pass the [`ReflectHandle`] itself.** The controller then takes old states and deletions
    /// out of it, too (not in kube): [`on_deleted`](Self::on_deleted) is called, even for a
    /// deletion that only a list shows, [`when`](Self::when) compares two states, and the objects
    /// that the store has when the controller starts are reconciled. The type of
    /// an adapter, such as `map`, `filter`, `boxed` or
    /// [`predicate_filter`](crate::runtime::WatchStreamExt::predicate_filter), can carry none of
    /// this: then the controller acts as in kube, neither method has an effect, and a warning is
    /// logged. To filter updates use `when` instead.
    ///
    /// Limits:
    ///
    /// * A list of kube's watcher that is older than the store (possible with `any_semantic` and
    ///   `streaming_lists`) looks like a deletion of the objects that it does not have yet. The
    ///   informer of [`Controller::new`] requests no such list.
    /// * A panic of the predicate of `when`, or of the policy of [`retry`](Self::retry) when an
    ///   object is deleted, is a panic of the task that polls the controller.
    ///
    /// An informer gives what is listed at [`for_stream`](Self::for_stream), and reports its
    /// errors; a shared stream has none, because the stream that fills the store yields them.
    ///
    /// ```
    /// use std::{convert::Infallible, sync::Arc};
    /// use deltafifo_informer::runtime::{
    ///     Controller, WatchStreamExt, controller::Action, reflector, watcher,
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
    /// let (reader, writer) = reflector::store_shared(128);
    /// let subscriber = writer.subscribe().ok_or("the store is shared")?;
    /// let filling = watcher(maps, watcher::Config::default())
    ///     .default_backoff()
    ///     .reflect_shared(writer)
    ///     .for_each(|_| async {});
    /// let mut reconciled = Controller::for_shared_stream(subscriber, reader)
    ///     .run(reconcile, |_, _, _| Action::await_change(), Arc::new(()))
    ///     .boxed();
    /// tokio::select! {
    ///     () = filling => {}
    ///     next = reconciled.next() => println!("{next:?}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn for_shared_stream(
        trigger: impl Stream<Item = Arc<K>> + Send + 'static,
        reader: Store<K>,
    ) -> Self
    where
        K::DynamicType: Default,
    {
        Self::for_shared_stream_with(trigger, reader, K::DynamicType::default())
    }

    /// Creates a controller like [`for_shared_stream`](Self::for_shared_stream), of a kind that is
    /// known only at run time.
    pub fn for_shared_stream_with(
        trigger: impl Stream<Item = Arc<K>> + Send + 'static,
        reader: Store<K>,
        dyntype: K::DynamicType,
    ) -> Self {
        // An object that may still exist must not be passed to the deletion handler.
        let Shared { notifications, has_deletions } = Shared::of(trigger, Change::is_certain);
        let resource = resource::<K>(&dyntype);
        let notifications = notifications.map(Ok).boxed();
        Self::over(MainStream { resource, notifications, has_deletions }, reader, dyntype)
    }
}

impl<F: Form> Controller<F>
where
    KubeMeta: Meta<F>,
{
    /// Reconciles the owners, by owner reference, of the objects that `trigger` yields, like
    /// [`owns_stream`](Self::owns_stream). `trigger` is a subscriber of a
    /// [`store_shared`](crate::runtime::reflector::store_shared).
    ///
    /// **Pass the [`ReflectHandle`] itself.** Then the deletion of a child also triggers its
    /// owners, even if only a list shows the deletion, and when a child changes owners, both the
    /// old and the new owners are reconciled (not in kube). The type of an adapter, such as `map`,
    /// `filter` or `boxed`, cannot carry deletions: as in kube, nothing is then reconciled when a
    /// child is deleted. Use [`owns_informer`](Self::owns_informer) with a
    /// [predicate](super::Source::when) in place of a filtered stream.
    ///
    /// The caller must poll the stream that fills the store, as for
    /// [`for_shared_stream`](Self::for_shared_stream). Unlike an informer, the store need not be
    /// complete when reconciles begin.
    pub fn owns_shared_stream<Child>(
        self,
        trigger: impl Stream<Item = Arc<Child>> + Send + 'static,
    ) -> Self
    where
        Child: Resource<DynamicType = ()> + Send + Sync + 'static,
    {
        self.owns_shared_stream_with(trigger, ())
    }

    /// Acts like [`owns_shared_stream`](Self::owns_shared_stream), for a kind that is known only at
    /// run time.
    #[allow(clippy::needless_pass_by_value)] // kube's.
    pub fn owns_shared_stream_with<Child>(
        self,
        trigger: impl Stream<Item = Arc<Child>> + Send + 'static,
        dyntype: Child::DynamicType,
    ) -> Self
    where
        Child: Resource + Send + Sync + 'static,
        Child::DynamicType: Debug + Eq + Hash + Clone,
    {
        let kind = OwnerKind::of::<F::Object>(&self.types);
        self.relate_shared_stream(resource::<Child>(&dyntype), trigger, move |child, request| {
            kind.of_resource(&**child, request);
        })
    }

    /// Reconciles the objects that `mapper` returns for the objects that `trigger` yields, like
    /// [`watches_stream`](Self::watches_stream). `trigger` is a subscriber of a
    /// [`store_shared`](crate::runtime::reflector::store_shared).
    ///
    /// **Pass the [`ReflectHandle`] itself.** Then `mapper` is called with the old and with the new
    /// state of a change, and with the last state of a deleted object, even if only a list shows
    /// the deletion (not in kube). The type of an adapter, such as `map`, `filter` or `boxed`,
    /// cannot carry old states and deletions: as in kube, `mapper` then receives new states only.
    /// Use [`watches_informer`](Self::watches_informer) with a [predicate](super::Source::when) in
    /// place of a filtered stream.
    ///
    /// The caller must poll the stream that fills the store, as for
    /// [`for_shared_stream`](Self::for_shared_stream). Unlike an informer, the store need not be
    /// complete when reconciles begin. A panic of `mapper` is a panic of the task that polls the
    /// controller.
    pub fn watches_shared_stream<Other, I>(
        self,
        trigger: impl Stream<Item = Arc<Other>> + Send + 'static,
        mapper: impl Fn(Arc<Other>) -> I + Sync + Send + 'static,
    ) -> Self
    where
        Other: Clone + Resource + DeserializeOwned + Debug + Send + Sync + 'static,
        Other::DynamicType: Default + Debug + Clone,
        I: 'static + IntoIterator<Item = ObjectRef<F::Object>>,
        I::IntoIter: Send,
    {
        self.watches_shared_stream_with(trigger, mapper, Other::DynamicType::default())
    }

    /// Acts like [`watches_shared_stream`](Self::watches_shared_stream), for a kind that is known
    /// only at run time.
    #[allow(clippy::needless_pass_by_value)] // kube's.
    pub fn watches_shared_stream_with<Other, I>(
        self,
        trigger: impl Stream<Item = Arc<Other>> + Send + 'static,
        mapper: impl Fn(Arc<Other>) -> I + Sync + Send + 'static,
        dyntype: Other::DynamicType,
    ) -> Self
    where
        Other: Clone + Resource + DeserializeOwned + Debug + Send + Sync + 'static,
        Other::DynamicType: Debug + Clone,
        I: 'static + IntoIterator<Item = ObjectRef<F::Object>>,
        I::IntoIter: Send,
    {
        self.relate_shared_stream(resource::<Other>(&dyntype), trigger, move |object, request| {
            mapper(object.clone()).into_iter().for_each(|object| request(key_of_ref(&object)));
        })
    }

    /// Adds a relation to a shared stream of the user. `objects` is called with each state and a
    /// function, which requests a reconcile of the key that it is called with.
    fn relate_shared_stream<O: Resource + Send + Sync + 'static>(
        self,
        resource: String,
        trigger: impl Stream<Item = Arc<O>> + Send + 'static,
        objects: impl Fn(&Arc<O>, &mut dyn FnMut(StoreKey)) + Send + 'static,
    ) -> Self {
        // A reconcile of an owner is harmless if the object still exists.
        let notifications = Shared::of(trigger, |_| true).notifications.map(Ok);
        let errors = self.errors.clone();
        self.relate(move |started, _| {
            started.check_stream(&resource)?;
            follow_notifications(notifications, &errors, started, delivery(objects));
            Ok(())
        })
    }
}

/// Returns a function that calls `objects` for each state in a notification: for an update, both.
fn delivery<O>(
    objects: impl Fn(&Arc<O>, &mut dyn FnMut(StoreKey)) + Send + 'static,
) -> impl FnMut(Notification<O>, &Schedule, &mut FirstPanic) + Send + 'static {
    move |notification, schedule, user_calls| {
        let triggering = triggering_states(&notification, |_, _| true, user_calls);
        let Some((states, priority)) = triggering else { return };
        for state in states.into_iter().flatten() {
            let mut request = |key| schedule.request(key, priority, Reason::RelatedObjectUpdated);
            user_calls.call(|| objects(state, &mut request));
        }
    }
}

/// The notifications of a shared stream.
struct Shared<K> {
    notifications: BoxStream<'static, Notification<K>>,
    /// Whether there are notifications of updates and deletions, and not only of states.
    has_deletions: bool,
}

impl<K: Resource + Send + Sync + 'static> Shared<K> {
    /// Takes the changes for which `takes` is true out of a [`ReflectHandle`]. Any other stream has
    /// only states.
    fn of<S>(states: S, takes: fn(&Change<K>) -> bool) -> Self
    where
        S: Stream<Item = Arc<K>> + Send + 'static,
    {
        // `S` is generic, so a handle is found by a downcast through `Any`. The `Option` allows it
        // to be moved out.
        let mut states = Some(states);
        let handle = (&mut states as &mut dyn Any).downcast_mut::<Option<ReflectHandle<K>>>();
        if let Some(handle) = handle.and_then(Option::take) {
            let changes = handle.into_changes().filter(move |change| ready(takes(change)));
            let notifications = changes.map(notification).boxed();
            return Self { notifications, has_deletions: true };
        }
        let notifications = stream::iter(states).flatten().map(state).boxed();
        Self { notifications, has_deletions: false }
    }
}

/// Returns the notification for a change of a store.
fn notification<K: Resource + 'static>(change: Change<K>) -> Notification<K> {
    match change {
        Change::Applied { old: None, new } => state(new),
        Change::Applied { old: Some(old), new } => {
            Notification::Updated { old, new, cause: Cause::Watch }
        }
        Change::Deleted { old, last, .. } if Arc::ptr_eq(&old, &last) => {
            let key = key_of(&*old).unwrap_or_default();
            let last = DeletedFinalStateUnknown::new(&*key, Some(last)).into();
            Notification::Deleted { old, last, cause: Cause::Relist }
        }
        Change::Deleted { old, last, .. } => {
            Notification::Deleted { old, last: last.into(), cause: Cause::Watch }
        }
    }
}
