//! The controller (kube's `controller`): reconciles objects when they or their related objects
//! change.
//!
//! ```text
//!   main objects: main_objects.rs, by source.rs or streams.rs ---------\
//!   other informers: source.rs --> mapping: relations.rs, owned.rs ----+
//!   user streams: relations.rs, streams.rs, shared_streams.rs ---------+--> schedule.rs --> run/
//!   Action: requeue, error policy: run/settling.rs --------------------/    debounce.rs     held.rs
//! ```
//!
//! # As in kube
//!
//! * [`run`](Controller::run) returns a stream that does nothing until it is polled, and stops
//!   all work when it is dropped. The task that polls the stream calls the reconciler and the
//!   error policy; the future that a reconciler returns runs in a task of its own.
//! * An object has at most one reconcile at a time. All triggers that arrive during a reconcile
//!   are merged into one more reconcile.
//! * The deletion of a main object triggers no reconcile. To handle deletions, use
//!   [`on_deleted`](Controller::on_deleted), which kube does not have.
//! * A graceful shutdown starts no further reconciles and ends once the running ones have ended.
//!
//! # Differences from kube
//!
//! | | kube-runtime | here |
//! | --- | --- | --- |
//! | a deletion that the watch missed and a list reveals | lost for owned and watched objects | delivered, as a tombstone |
//! | an owner reference or label that was changed or removed | only the new state is mapped to main objects | the old and the new state are both mapped |
//! | an object that a list shows unchanged | reconciled | not reconciled |
//! | order of reconciles | first in, first out | watch events first. Lists and [`reconcile_all_on`](Controller::reconcile_all_on) have a lower priority, but of eight reconciles in a row at least one is for the object that has waited longest |
//! | owned objects | all metadata is fetched, then dropped | name, version and owners are kept |
//! | objects of [`watches`](Controller::watches) | mapped, then dropped | kept whole, so that their old state can be mapped too. If that takes too much memory, give [`watches_informer`](Controller::watches_informer) an informer of metadata, or one [`without`](crate::reflector::ReflectorBuilder::without) the fields that no mapper reads |
//! | API version in an owner reference | must be the version that the controller watches | ignored |
//! | a request for an object that is not in the store | an error in the stream | a metric [counts](Config::name) it; no error, because the object was deleted. A controller [over a stream](Controller::for_stream) yields the error, as in kube |
//! | an object that fails repeatedly | the error policy gets no failure count, so its delay cannot grow (kube issue 1916) | [`retry`](Controller::retry) sets a growing delay; without it as in kube |
//! | a reconciler that reads a store right after its own write | finds the old state | [`read_own_writes`](Controller::read_own_writes) makes the next reconcile wait for the write |
//! | a reconciler that panics | panics the controller | yields [`RunnerError::Panicked`], and the object is retried |
//! | [predicates](crate::runtime::predicates) | see only the new state, and can hide deletions | see both states, and cannot hide deletions |
//! | several controllers over one watch | unstable streams without deletions | [`from_informer`](Controller::from_informer), [`owns_informer`](Controller::owns_informer), [`watches_informer`](Controller::watches_informer). Of kube's streams, a [`ReflectHandle`](crate::runtime::reflector::ReflectHandle) that is passed [itself](Controller::for_shared_stream) carries deletions and old states; an adapter of it does not |
//! | a user's stream that fails | no watch or stream of the controller is polled for the time of the backoff | only that stream is not polled |
//! | a store that a user's stream never fills | the controller waits silently; when the writer is dropped, it yields an error and does not end | an error every minute; when the writer is dropped, an error, and the controller ends |
//! | reconciles begin | after the initial list of the main objects | after the initial list of everything that the controller watches. While a list is missing, for example of a kind that the server does not have, errors name it and say that nothing is reconciled; the first of them is logged, too. Use [`optional`](Controller::optional) for a kind that may be missing, and [`Config::wait_for_related`] for kube's behaviour |
//! | duration of a watch | 290 s | 5 to 10 minutes, at random. With a `timeout`, between half of it and all of it |
//! | a relist | like the initial list | at least as new as the stored state, without pages |
//!
//! All options of [`watcher::Config`] are used except `bookmarks`: bookmarks are always
//! requested.
//!
//! Not implemented: `trigger_backoff` (the backoff is client-go's, and kube's default for streams),
//! `applier`, `trigger_self`, `trigger_owners`, `trigger_with` and `ReconcileRequest`.
//!
//! # Spans
//!
//! Each call of the reconciler, and of the error policy after it, is in a span `reconciling object`
//! with kube's fields `object.ref` and `object.reason`. The reason is one of kube's texts (`object
//! updated`, `related object updated`, `reconciler requested retry`, `error policy requested
//! retry`, `bulk reconcile requested`, `unknown` for [`reconcile_on`](Controller::reconcile_on)),
//! without the reference of the related object, or `retry after a panic`, `retry after a failed
//! decoding`, `retry after a wait for an own write` or `shard assigned`. If several requests are
//! merged into one reconcile, the reason is that of the request that decides when the object is
//! reconciled: the first, unless a later one ends or shortens the wait or has a higher priority.

mod action;
#[cfg(feature = "compact")]
mod compact;
mod config;
mod debounce;
mod deleted;
mod error;
#[cfg(feature = "leader-election")]
mod fill;
mod held;
mod key;
mod main_objects;
mod metrics;
mod owned;
mod permitted;
mod reason;
mod relations;
mod run;
mod schedule;
mod settings;
#[cfg(feature = "leader-election")]
mod sharded;
mod shared_streams;
mod signal;
mod source;
mod start;
mod stored;
mod streams;
mod term;
#[cfg(not(feature = "leader-election"))]
mod unsharded;
mod unsynced;
mod work;

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use deltafifo::{Labels, Meta};
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{Stream, TryFuture};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::reflector::Store;
use super::watcher;
use crate::KubeMeta;
use crate::reflector::Decodable;
use crate::runtime::form::{Form, StoreForm};
use crate::shared_informer::Namespaces;
pub use action::Action;
pub use config::Config;
use deleted::OnDeleted;
pub use error::{Error, RunnerError};
use main_objects::{Listing, MainObjects};
use permitted::{Announcement, Sharding};
use run::DecodeErrorPolicy;
use schedule::Retry;
pub use source::Source;
use source::{UpdateFilter, of_api};
use start::{Relation, StartTrigger};
use term::Term;

/// The group, version and kind of the objects that are kept in the form `F`.
type Types<F> = <<F as StoreForm>::Object as Resource>::DynamicType;

/// The number of errors that are buffered for the task that polls the controller. Further errors
/// are only logged.
const MOST_ERRORS: usize = 100;

/// A controller of all objects of a kind (kube's `Controller`). Configure it, then call
/// [`run`](Self::run).
///
/// ```
/// use std::{convert::Infallible, sync::Arc, time::Duration};
/// use deltafifo_informer::runtime::{Controller, controller::Action, watcher};
/// use futures_util::StreamExt;
/// use k8s_openapi::api::core::v1::{ConfigMap, Pod};
/// use kube::{Api, ResourceExt};
///
/// async fn reconcile(map: Arc<ConfigMap>, _: Arc<()>) -> Result<Action, Infallible> {
///     println!("{} has changed, or a pod of it", map.name_any());
///     Ok(Action::requeue(Duration::from_secs(300)))
/// }
///
/// fn error_policy(_: Arc<ConfigMap>, _: &Infallible, _: Arc<()>) -> Action {
///     Action::requeue(Duration::from_secs(5))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use deltafifo_testkit::{ApiServer, Resource};
/// # let server = ApiServer::builder()
/// #     .resource(Resource::config_maps())
/// #     .resource(Resource::pods())
/// #     .build();
/// # server.apply(serde_json::json!({
/// #     "kind": "ConfigMap", "apiVersion": "v1", "metadata": { "name": "a" },
/// # }))?;
/// # let client = server.client();
/// let maps = Api::<ConfigMap>::all(client.clone());
/// let mut reconciled = Controller::new(maps, watcher::Config::default())
///     .owns(Api::<Pod>::all(client), watcher::Config::default())
///     .run(reconcile, error_policy, Arc::new(()))
///     .boxed();
/// if let Some(Ok((object, action))) = reconciled.next().await {
///     println!("reconciled {object}, {action:?}");
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "a controller does nothing until it is run, and its stream polled"]
pub struct Controller<F: Form>
where
    KubeMeta: Meta<F>,
{
    types: Types<F>,
    main: MainObjects<F>,
    update_filter: UpdateFilter<F>,
    relations: Vec<Relation>,
    triggers: Vec<StartTrigger>,
    /// The streams of [`reconcile_all_on`](Self::reconcile_all_on).
    triggers_of_all: Vec<BoxStream<'static, ()>>,
    on_deleted: Option<OnDeleted<F::Object>>,
    reads_own_writes: bool,
    config: Config,
    retry: Option<Retry>,
    decode_error_policy: Option<DecodeErrorPolicy<F::Object>>,
    term: Option<Term>,
    sharding: Option<Sharding>,
    /// The announcement of a sharded controller to its group, until the controller runs.
    announcement: Option<Announcement>,
    graceful: Vec<BoxFuture<'static, ()>>,
    forceful: Vec<BoxFuture<'static, ()>>,
    errors: mpsc::Sender<watcher::Error>,
    error_receiver: mpsc::Receiver<watcher::Error>,
}

impl<K> Controller<K>
where
    K: Clone + Resource + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    /// Creates a controller of the objects that `main_api` lists and `wc` selects.
    pub fn new(main_api: Api<K>, wc: watcher::Config) -> Self
    where
        K::DynamicType: Default,
    {
        Self::new_with(main_api, wc, K::DynamicType::default())
    }

    /// Creates a controller like [`new`](Self::new), of a kind that is known only at run time.
    pub fn new_with(main_api: Api<K>, wc: watcher::Config, dyntype: K::DynamicType) -> Self {
        Self::owning(main_api, None, wc, dyntype)
    }

    /// Creates a controller of the objects of the namespaces of a set, each of which is listed and
    /// watched separately: see [`Namespaces`]. `all` must be an `Api` of all namespaces; only its
    /// client and path are used. When a namespace is removed from the set, its objects are no
    /// longer reconciled. [`on_deleted`](Self::on_deleted) is not called for them, because they may
    /// still exist. If the set [follows an informer](Namespaces::of_informer), the namespace is
    /// listed a last time, and `on_deleted` is called for the objects that this list shows to be
    /// deleted.
    ///
    /// The controller is not notified of an object that is deleted while its namespace is not in
    /// the set. So if the object was a child, its owner is not reconciled. To reconcile owners when
    /// a namespace has come back, use [`reconcile_all_on`](Self::reconcile_all_on) or
    /// [`reconcile_on`](Self::reconcile_on).
    ///
    /// For related objects use an informer of the same set with
    /// [`owns_informer`](Self::owns_informer) or [`watches_informer`](Self::watches_informer).
    ///
    /// ```
    /// # use std::error::Error;
    /// # use deltafifo_informer::runtime::{Controller, watcher};
    /// # use deltafifo_informer::shared_informer::Namespaces;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # fn example(client: kube::Client) -> Result<Controller<ConfigMap>, Box<dyn Error>> {
    /// let namespaces = Namespaces::new(["blue", "green"])?.optional();
    /// let all = kube::Api::all(client);
    /// Ok(Controller::in_namespaces(all, &namespaces, watcher::Config::default()))
    /// # }
    /// ```
    pub fn in_namespaces(all: Api<K>, namespaces: &Namespaces, wc: watcher::Config) -> Self
    where
        K::DynamicType: Default,
    {
        Self::in_namespaces_with(all, namespaces, wc, K::DynamicType::default())
    }

    /// Creates a controller like [`in_namespaces`](Self::in_namespaces), of a kind that is known
    /// only at run time.
    pub fn in_namespaces_with(
        all: Api<K>,
        namespaces: &Namespaces,
        wc: watcher::Config,
        dyntype: K::DynamicType,
    ) -> Self {
        Self::owning(all, Some(namespaces.clone()), wc, dyntype)
    }

    fn owning(
        api: Api<K>,
        namespaces: Option<Namespaces>,
        config: watcher::Config,
        dyntype: K::DynamicType,
    ) -> Self {
        let source = Arc::new(of_api(api, &config, &dyntype));
        let listing = Listing { source, namespaces, config };
        Self::of(MainObjects::own(listing), UpdateFilter::Every, dyntype)
    }
}

impl<F: Form> Controller<F>
where
    KubeMeta: Labels<F>,
{
    /// Creates a controller over a shared informer, so that several controllers can use one watch
    /// (kube issue 1080).
    ///
    /// The caller must run the informer; while it is not running, the stream yields
    /// [`RunnerError::NotSynced`]. The informer's errors go to its own error handler. When the
    /// informer stops, the controller shuts down.
    ///
    /// The informer must use the default keys, `namespace/name` or `name`. With [custom
    /// keys](crate::SharedInformer::with_keys) objects are not found, and each request yields
    /// [`Error::ObjectNotFound`].
    ///
    /// If the informer is one of compact objects, the reconciler, the error policy, the deletion
    /// handler and the predicate receive decoded objects. Only a predicate that `when_compact` sets
    /// receives compact ones.
    pub fn from_informer(informer: impl Into<Source<F>>) -> Self
    where
        Types<F>: Default,
    {
        Self::from_informer_with(informer, Types::<F>::default())
    }

    /// Creates a controller like [`from_informer`](Self::from_informer), of a kind that is known
    /// only at run time.
    pub fn from_informer_with(informer: impl Into<Source<F>>, dyntype: Types<F>) -> Self {
        let Source { informer, update_filter } = informer.into();
        Self::of(MainObjects::Shared(informer), update_filter, dyntype)
    }

    fn of(main: MainObjects<F>, update_filter: UpdateFilter<F>, types: Types<F>) -> Self {
        let (errors, error_receiver) = mpsc::channel(MOST_ERRORS);
        Self {
            types,
            main,
            update_filter,
            relations: Vec::new(),
            triggers: Vec::new(),
            triggers_of_all: Vec::new(),
            on_deleted: None,
            reads_own_writes: false,
            config: Config::default(),
            retry: None,
            decode_error_policy: None,
            term: None,
            sharding: None,
            announcement: None,
            graceful: Vec::new(),
            forceful: Vec::new(),
            errors,
            error_receiver,
        }
    }

    /// Returns a read handle to the store of main objects. The handle may outlive the controller.
    #[must_use]
    pub fn store(&self) -> Store<F>
    where
        F: Decodable,
    {
        self.main.store(&self.errors)
    }

    /// Returns a stream that runs the controller while it is polled. It yields the outcome of
    /// each reconcile and [errors](Error), and ends after a shutdown.
    ///
    /// The task that polls the stream calls `reconciler` and `error_policy`, so both should
    /// return quickly; the future that `reconciler` returns runs in a task of its own. Dropping
    /// the stream cancels these tasks at their next await, and stops all informers that the
    /// controller owns.
    ///
    /// # Panics
    /// If the stream is polled outside of a tokio runtime. Also if a stream that was given to the
    /// controller, the reconciler, an error policy, the [retry policy](Self::retry) or a deletion
    /// handler panics while it is called or polled. A panic of a future that the reconciler or the
    /// deletion handler returned is yielded as [`RunnerError::Panicked`] instead.
    #[doc(alias = "Reconciler")]
    pub fn run<ReconcilerFut, Ctx>(
        self,
        reconciler: impl FnMut(Arc<F::Object>, Arc<Ctx>) -> ReconcilerFut,
        error_policy: impl Fn(Arc<F::Object>, &ReconcilerFut::Error, Arc<Ctx>) -> Action,
        context: Arc<Ctx>,
    ) -> impl Stream<Item = run::Yielded<F::Object, ReconcilerFut::Error>>
    where
        F: Decodable,
        F::Object: Resource<DynamicType: Debug + Eq + Hash + Clone + Unpin>,
        ReconcilerFut: TryFuture<Ok = Action> + Send + 'static,
        ReconcilerFut::Error: std::error::Error + Send + 'static,
    {
        run::stream(self, reconciler, error_policy, context)
    }
}
