//! The controller: reconciles objects when they, or what belongs to them, change (kube's `controller`).
//!
//! ```text
//!   informers: source.rs --> what is told of, mapped to objects: relations.rs, owned.rs --\
//!   streams of yours: relations.rs -------------------------------------------------------+--> schedule.rs --> run.rs --> reconcile
//!   Action: requeue, error policy: run.rs ------------------------------------------------/    debounce.rs
//! ```
//!
//! # As kube's
//!
//! * [`run`](Controller::run) is a stream that does nothing until it is polled, and stops all there is when it is dropped. The
//!   reconciler and the error policy are called by who polls it; the future that a reconciler returns runs in a task.
//! * Of one object there is never more than one reconcile. Whatever asks for it meanwhile comes to one more.
//! * The deletion of a main object asks for no reconcile; [`on_deleted`](Controller::on_deleted) is ours.
//! * A graceful shutdown begins no more reconciles, and ends when those that run have ended.
//!
//! # Not as kube's
//!
//! | | kube-runtime | here |
//! | --- | --- | --- |
//! | what a list shows that the watch missed | deletions of owned and watched objects are lost | told, by tombstones |
//! | an owner that is no more, a label that was changed | the object as it is now says who is reconciled | as it was, too: both are |
//! | an object of which nothing has changed, in a list | reconciled | not |
//! | which comes first | what was asked for first | what happens now; lists, and [`reconcile_all_on`](Controller::reconcile_all_on), behind it, but one turn of eight |
//! | owned objects | all their metadata comes, and is dropped | name, version and owners are kept |
//! | what [`watches`](Controller::watches) watches | is mapped and dropped | is kept whole, so that it can be mapped as it was, too. Where that is much, [`watches_informer`](Controller::watches_informer) takes an informer of metadata, or one [`without`](crate::reflector::ReflectorBuilder::without) what no mapper reads |
//! | an owner's version | must be the one that the controller watches | does not count |
//! | a request for an object that is not in the store | an error in the stream | no error: the object is gone. [Counted](Config::name) |
//! | an object that fails again and again | the error policy sees no count of failures, so its delay does not grow (kube issue 1916) | [`retry`](Controller::retry) sets a delay that grows; without it as kube's |
//! | a reconciler that panics | panics the controller | [`RunnerError::Panicked`], and it is tried again |
//! | [predicates](crate::runtime::predicates) | of the object as it is, and may hide that it goes | of both states, and never do |
//! | several controllers over one watch | unstable streams, which tell of no deletion | [`from_informer`](Controller::from_informer), [`owns_informer`](Controller::owns_informer), [`watches_informer`](Controller::watches_informer) |
//! | before anything is reconciled | the first list of the main objects is waited for | and that of everything that the controller watches: while one of these does not come, as of a kind that the server does not have, the errors say which it is and that nothing is reconciled; they are logged, too. [`optional`](Controller::optional) is for a kind that may be missing, [`Config::wait_for_related`] for kube's way |
//! | a watch | 290 s | 5 to 10 minutes at random; a `timeout` is the most, and half of it the least |
//! | a relist | as the first list | not older than what is known, without pages |
//!
//! What [`watcher::Config`] says is heeded, but for `bookmarks`: they are always asked for.
//!
//! Not here: `trigger_backoff` (it is client-go's), the streams of `unstable-runtime` (`for_stream`, `owns_stream`,
//! `watches_stream` and their like: see the informers above, which can be [of a stream](SharedInformer::for_stream)), `applier`,
//! `trigger_self`, `trigger_owners`, `trigger_with`, `ReconcileRequest` and reasons in spans.

mod action;
mod config;
mod debounce;
mod deleted;
mod error;
mod key;
mod metrics;
mod owned;
mod relations;
mod run;
mod schedule;
mod settings;
mod signal;
mod source;
mod start;
mod unsynced;

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use async_stream::stream;
use futures_util::future::BoxFuture;
use futures_util::{Stream, TryFuture};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::reflector::{ObjectRef, Store};
use super::watcher;
use crate::KubeMeta;
use crate::lister_watcher::resource;
use crate::shared_informer::SharedInformer;
pub use action::Action;
pub use config::Config;
use deleted::OnDeleted;
pub use error::{Error, RunnerError};
use run::{Next, Running};
use schedule::Retry;
pub use source::Source;
use source::{Counts, Failure, Own, all, as_configured, of_api};
use start::{Relation, Trigger};

/// Errors that wait for who polls a controller; more are logged.
const MOST_ERRORS: usize = 100;

/// Reconciles all objects of a kind (kube's `Controller`): built, and then [run](Self::run).
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
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use deltafifo_testkit::{ApiServer, Resource};
/// # let server = ApiServer::builder().resource(Resource::config_maps()).resource(Resource::pods()).build();
/// # server.apply(serde_json::json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": { "name": "a" } }))?;
/// # let client = server.client();
/// let mut reconciled = Controller::new(Api::<ConfigMap>::all(client.clone()), watcher::Config::default())
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
pub struct Controller<K: Resource + Send + Sync + 'static> {
    types: K::DynamicType,
    informer: SharedInformer<K>,
    /// It, if it is nobody else's.
    own: Option<Own<K, KubeMeta>>,
    counts: Counts<K>,
    relations: Vec<Relation>,
    triggers: Vec<Trigger>,
    on_deleted: Option<OnDeleted<K>>,
    config: Config,
    retry: Option<Retry>,
    graceful: Vec<BoxFuture<'static, ()>>,
    forceful: Vec<BoxFuture<'static, ()>>,
    errors: mpsc::Sender<Failure>,
    errors_told: mpsc::Receiver<Failure>,
}

impl<K> Controller<K>
where
    K: Clone + Resource + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    /// A controller of what `main_api` has and `wc` selects.
    pub fn new(main_api: Api<K>, wc: watcher::Config) -> Self
    where
        K::DynamicType: Default,
    {
        Self::new_with(main_api, wc, K::DynamicType::default())
    }

    /// The same of a kind that is known at run time only.
    pub fn new_with(main_api: Api<K>, wc: watcher::Config, dyntype: K::DynamicType) -> Self {
        let (errors, told) = mpsc::channel(MOST_ERRORS);
        let builder = SharedInformer::builder(of_api(main_api, &wc, &dyntype)).reflector(as_configured(wc));
        let own = Own::build(resource::<K>(&dyntype), builder, &errors);
        let source = Source { informer: own.informer().clone(), counts: all() };
        Self { own: Some(own), ..Self::of(source, dyntype, (errors, told)) }
    }

    /// A controller of an informer's objects: the one that others have, too (kube issue 1080). It has to be run by whoever made it:
    /// as long as nobody does, the stream [says so](RunnerError::NotSynced). Its errors are reported there; when it stops, the
    /// controller shuts down.
    ///
    /// Its keys must be `namespace/name` or `name`, which is the default of informers. Objects under keys of
    /// [your own](SharedInformer::with_keys) are not found; each is [reported](Error::ObjectNotFound).
    pub fn from_informer(informer: impl Into<Source<K>>) -> Self
    where
        K::DynamicType: Default,
    {
        Self::from_informer_with(informer, K::DynamicType::default())
    }

    /// The same of a kind that is known at run time only.
    pub fn from_informer_with(informer: impl Into<Source<K>>, dyntype: K::DynamicType) -> Self {
        Self::of(informer.into(), dyntype, mpsc::channel(MOST_ERRORS))
    }

    fn of(
        source: Source<K>,
        types: K::DynamicType,
        (errors, errors_told): (mpsc::Sender<Failure>, mpsc::Receiver<Failure>),
    ) -> Self {
        Self {
            types,
            informer: source.informer,
            own: None,
            counts: source.counts,
            relations: Vec::new(),
            triggers: Vec::new(),
            on_deleted: None,
            config: Config::default(),
            retry: None,
            graceful: Vec::new(),
            forceful: Vec::new(),
            errors,
            errors_told,
        }
    }

    /// A reader of the store of main objects. It outlives the controller.
    #[must_use]
    pub fn store(&self) -> Store<K> {
        Store::of(&self.informer)
    }

    /// Runs the controller, for as long as the stream is polled. It tells what was reconciled, and
    /// [what went wrong](Error), and ends after a shutdown.
    ///
    /// `reconciler` and `error_policy` are called by who polls the stream, and should return at once; what the reconciler returns
    /// runs in a task. Dropped, the stream stops that where it waits, and all informers of the controller's own.
    ///
    /// # Panics
    /// Polled outside of a tokio runtime; and when a stream that was given to it, the reconciler,
    /// the error policy, the [retry policy](Self::retry) or what is called for deletions panics
    /// in a call. (Their futures may: [`RunnerError::Panicked`].)
    pub fn run<ReconcilerFut, Ctx>(
        self,
        mut reconciler: impl FnMut(Arc<K>, Arc<Ctx>) -> ReconcilerFut,
        error_policy: impl Fn(Arc<K>, &ReconcilerFut::Error, Arc<Ctx>) -> Action,
        context: Arc<Ctx>,
    ) -> impl Stream<Item = Result<(ObjectRef<K>, Action), Error<ReconcilerFut::Error, watcher::Error>>>
    where
        K::DynamicType: Debug + Unpin,
        ReconcilerFut: TryFuture<Ok = Action> + Send + 'static,
        ReconcilerFut::Error: std::error::Error + Send + 'static,
    {
        stream! {
            let mut running = match Running::start(self) {
                Ok(running) => running,
                Err(stopped) => {
                    yield Err(stopped.into());
                    return;
                }
            };
            loop {
                match running.next().await {
                    Next::Take(item) => match running.find(item) {
                        Ok(Some(found)) => {
                            let span = running.span(&found.object);
                            let future = span.in_scope(|| reconciler(found.object.clone(), context.clone()));
                            running.reconcile(found, future, span);
                        }
                        Ok(None) => {}
                        Err(error) => yield Err(error),
                    },
                    Next::Done(done) => {
                        let policy = |object, error: &_| error_policy(object, error, context.clone());
                        if let Some(told) = running.settle(done, policy) {
                            yield told;
                        }
                    }
                    Next::Failed(error) => yield Err(error),
                    Next::End => return,
                }
            }
        }
    }
}
