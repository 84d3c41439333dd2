//! Reading your own writes: a reconcile begins only when the stores of the controller show the
//! writes of the earlier reconciles of the same object.
//!
//! A store lags behind the API server by the latency of the watch. Suppose that a reconciler
//! creates a child, and runs again before the watch has delivered the child. It does not find the
//! child in the store, and creates a second one (controller-runtime issues 3320 and 1622;
//! Kubernetes KEP 5647 solves this for the built-in controllers). [`Controller::read_own_writes`]
//! prevents this for writes that are sent through the [`client`] of this module:
//!
//! ```text
//!   reconcile of shop/a --> client.rs --> API server
//!                            | notes object and version in the answer
//!                            v
//!                         notes/: the unseen writes of shop/a
//!                            | asks, before the next reconcile of shop/a
//!                            v
//!                         stores.rs: the stores of the main, owned and watched objects
//! ```
//!
//! ```
//! use std::sync::Arc;
//! use deltafifo_informer::runtime::{Controller, controller::Action, own_writes, watcher};
//! use deltafifo_informer::{KubeListerWatcher, SharedInformer};
//! use futures_util::StreamExt;
//! use k8s_openapi::api::core::v1::{ConfigMap, Pod};
//! use kube::api::{Api, PostParams};
//! use kube::{Client, Resource, ResourceExt};
//!
//! struct Context {
//!     client: Client,
//!     pods: SharedInformer<Pod>,
//! }
//!
//! /// Creates a pod with a generated name, unless the map has one.
//! async fn reconcile(map: Arc<ConfigMap>, context: Arc<Context>) -> Result<Action, kube::Error> {
//!     let namespace = map.namespace().unwrap_or_default();
//!     let uid = map.uid().unwrap_or_default();
//!     let has_pod = |pod: &Arc<Pod>| pod.owner_references().iter().any(|owner| owner.uid == uid);
//!     if !context.pods.lister().namespace(&namespace).list().iter().any(has_pod) {
//!         let mut pod = Pod::default();
//!         pod.metadata.generate_name = Some(format!("{}-", map.name_any()));
//! #       pod.metadata.name = Some("generated".to_owned());
//!         pod.metadata.owner_references = map.controller_owner_ref(&()).map(|owner| vec![owner]);
//!         let pods = Api::<Pod>::namespaced(context.client.clone(), &namespace);
//!         pods.create(&PostParams::default(), &pod).await?;
//!     }
//!     Ok(Action::await_change())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use deltafifo_testkit::{ApiServer, Resource as Kind};
//! # let server = ApiServer::builder().resource(Kind::config_maps()).resource(Kind::pods()).build();
//! # server.apply(serde_json::json!({
//! #     "kind": "ConfigMap", "apiVersion": "v1", "metadata": { "namespace": "shop", "name": "a" },
//! # }))?;
//! # let client = server.client();
//! let source = KubeListerWatcher::new::<Pod>(client.clone(), &(), None);
//! let pods = SharedInformer::<Pod>::builder(source).build()?;
//! # tokio::spawn({
//! #     let pods = pods.clone();
//! #     async move { pods.run().await }
//! # });
//! let context = Context { client: own_writes::client(&client), pods: pods.clone() };
//! let mut reconciled = Controller::new(Api::<ConfigMap>::all(client), watcher::Config::default())
//!     .owns_informer(&pods)
//!     .read_own_writes()
//!     .run(reconcile, |_, _, _| Action::await_change(), Arc::new(context))
//!     .boxed();
//! # let (first, _) = reconciled.next().await.ok_or("the controller runs")??;
//! # let (second, _) = reconciled.next().await.ok_or("the controller runs")??;
//! # assert_eq!((&*first.name, &*second.name), ("a", "a"));
//! # let posts = server.requests().iter().filter(|request| request.method() == "POST").count();
//! # assert_eq!(posts, 1);
//! # Ok(())
//! # }
//! ```
//!
//! # Which writes are noted
//!
//! The client notes each successful answer to POST, PUT, PATCH or DELETE, also of a subresource, if
//! an informer of the controller has objects of that resource. The API version of the request does
//! not matter. These writes are not noted:
//!
//! * evictions, and requests of `proxy`;
//! * writes whose answer did not arrive;
//! * dry runs, except a deletion with `dryRun` in its body that passes through the client of a term
//!   or permit first.
//!
//! The writes belong to the current reconcile. This is the one whose reconciler is being called, or
//! whose future the current task polls. If a reconcile spawns a task, wrap the future of the task
//! with [`carry`] before you spawn it. Nothing is noted in any other task, in an error policy, a
//! deletion handler, a mapper or a predicate, and in a controller without
//! [`read_own_writes`](super::Controller::read_own_writes).
//!
//! # Which informers the controller waits for
//!
//! The controller waits for an informer of one namespace after writes in that namespace, and for an
//! informer over a [`Merged`](crate::lister_watcher::Merged) after writes in the namespaces of its
//! parts. It waits for an informer of all namespaces, or of
//! [several](crate::shared_informer::Namespaces), after writes in any namespace. It does not wait
//! for these, and logs a warning for each when it starts:
//!
//! * A stream ([`for_stream`](super::Controller::for_stream),
//!   [`owns_stream`](super::Controller::owns_stream) and the other methods that take one).
//! * An informer over a stream, or over a lister-watcher without a
//!   [scope](crate::ListerWatcher::scope), because its resource is not known.
//!
//! # When a write counts as seen
//!
//! A write is seen once the store of *each* informer of that resource has the object in that
//! version or a later one, or has [applied](deltafifo::IndexReader::applied_version) the version. A
//! deletion is seen once the store has caught up with the object, and does not have that uid. In a
//! store with a key function of your own, a deletion whose answer has no version counts as seen at
//! once.
//!
//! If the API server is restored from a backup, its versions continue from a lower one. A store
//! notices this when it is listed at a lower version than before, and writes from before the
//! restore then count as seen. The restored server may answer a write earlier:
//!
//! * If an object was created (201, also by a server-side apply) at a version that the store had
//!   applied before the request, the server was restored. The creation is seen once the store has
//!   that object, or has noticed the restore and then applied the version. In a store with keys of
//!   your own, and beyond 256 objects, only the latter counts, because the object is not looked up.
//! * Another write counts as seen at once, unless it deleted an object that is stored. Its version
//!   may also be that of a write that changed nothing. So the next reconcile may begin with the
//!   state from before the restore. If it replaces the object, the server refuses that with a
//!   conflict, because the request carries the version of that state.
//! * In an informer of several namespaces, the applied version is that of the namespace which is
//!   furthest behind. A creation at a greater version may count as seen before its own namespace is
//!   listed again.
//!
//! The client and the informers must be of the same cluster, because the versions of two clusters
//! cannot be compared. If an informer of another cluster has the same kind, the controller waits
//! for it although it never shows the write. The versions of a resource must have one order, as
//! those of etcd have. If an aggregated API counts the versions of each object separately, the
//! controller may also wait for a write that it never sees.
//!
//! An informer whose selectors exclude the object never contains it. The write is then seen only at
//! the next bookmark. API servers send a bookmark about every minute, so the wait usually ends with
//! an error. Use another client for such writes.
//!
//! # Limits
//!
//! A reconcile is held back for at most 10 seconds. Then the controller yields
//! [`RunnerError::OwnWriteNotSeen`](super::controller::RunnerError::OwnWriteNotSeen) and retries
//! with the delays of a failure. A write that is not seen within 2 minutes is logged and forgotten.
//! The object is then reconciled although a store may be behind. Held reconciles do not count
//! towards [`Config::concurrency`](super::Config::concurrency).
//!
//! Unseen writes are kept for each main object. They take about 200 bytes for each object that was
//! written. Beyond 256 objects, only one entry per informer is kept, and deletions whose answer has
//! no version are not waited for.
//!
//! Writes that are seen or 2 minutes old are forgotten at the next reconcile of the main object,
//! and after each 1,024 further notes (or more if more are kept). If the main object is no longer
//! stored when the next reconcile of its name is due, all of its notes are forgotten, so a new
//! object of that name does not wait for them. There is one exception: if a reconcile of the former
//! object is held back at that time, the first reconcile of the new object begins after that wait.
//!
//! [`Controller::read_own_writes`]: super::Controller::read_own_writes
//! [`Controller`]: super::Controller

mod answer;
mod client;
mod notes;
mod stores;
mod target;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::Either;

pub use client::client;
pub(crate) use notes::OwnWrites;
pub(crate) use stores::ObservedStores;

tokio::task_local! {
    /// The reconcile whose future this task polls, or whose reconciler it calls.
    static CURRENT: Writer;
}

/// A reconcile, as the author of writes.
#[derive(Clone)]
pub(super) struct Writer {
    writes: Arc<OwnWrites>,
    /// The key of the main object.
    key: Arc<str>,
    /// The uid of the main object.
    uid: Arc<str>,
}

impl Writer {
    pub(super) fn new(writes: &Arc<OwnWrites>, key: &Arc<str>, uid: &str) -> Self {
        Self { writes: Arc::clone(writes), key: Arc::clone(key), uid: uid.into() }
    }

    fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }
}

/// The error of a wait for a write that a store does not show.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{informer} does not show the write of {object}{} after {waited:?}: the watch is delayed, or the informer's selectors exclude the object; check the informer's errors, or write such objects with another client",
    version.as_ref().map(|version| format!(" at version {version}")).unwrap_or_default()
)]
#[non_exhaustive]
pub struct NotSeen {
    /// The title of the informer, for example `pods.v1 in shop`.
    pub informer: String,
    /// The key of the object that was written, or `several objects`.
    pub object: String,
    /// The version that was written, or `None` for a deletion without one.
    pub version: Option<String>,
    /// The time that the wait took.
    pub waited: Duration,
}

/// Waits until the stores of the controller show everything that this reconcile has written with
/// the [`client`] of this module, so that later reads of these stores are at least that fresh. Also
/// waits for unseen writes of earlier reconciles of the same object. Returns at once where nothing
/// is noted (see the [module](self)).
///
/// # Errors
/// [`NotSeen`] after 10 seconds. The write stays noted, so the next reconcile waits for it too.
///
/// ```
/// use deltafifo_informer::runtime::own_writes;
/// # use deltafifo_informer::SharedInformer;
/// # use k8s_openapi::api::core::v1::Pod;
/// # use kube::api::{Api, PostParams};
///
/// # #[derive(Debug, thiserror::Error)]
/// # enum Error {
/// #     #[error(transparent)]
/// #     Kube(#[from] kube::Error),
/// #     #[error(transparent)]
/// #     NotSeen(#[from] own_writes::NotSeen),
/// # }
/// # async fn example(
/// #     api: Api<Pod>,
/// #     pods: SharedInformer<Pod>,
/// #     pod: Pod,
/// # ) -> Result<usize, Error> {
/// // In a reconcile, with an `Api` over `own_writes::client`:
/// api.create(&PostParams::default(), &pod).await?;
/// own_writes::wait().await?;
/// let count = pods.lister().list().len(); // includes the new pod
/// # Ok(count)
/// # }
/// ```
pub async fn wait() -> Result<(), NotSeen> {
    match Writer::current() {
        Some(Writer { writes, key, .. }) => writes.seen(&key).await,
        None => Ok(()),
    }
}

/// Wraps a future, so that its writes are noted for the current reconcile: the one whose reconciler
/// or future calls this function. Use it for the future of a task that a reconcile spawns, and call
/// it before you spawn the task. In a task whose future is not wrapped, no write is noted.
///
/// ```
/// use deltafifo_informer::runtime::own_writes;
/// # use k8s_openapi::api::core::v1::Pod;
/// # use kube::api::{Api, PostParams};
///
/// # fn example(api: Api<Pod>, pod: Pod) {
/// let created = tokio::spawn(own_writes::carry(async move {
///     api.create(&PostParams::default(), &pod).await
/// }));
/// # drop(created);
/// # }
/// ```
pub fn carry<W: Future>(work: W) -> impl Future<Output = W::Output> {
    match Writer::current() {
        Some(writer) => Either::Left(CURRENT.scope(writer, work)),
        None => Either::Right(work),
    }
}

/// Calls a function as a part of a reconcile. If `writer` is given, the writes of the futures that
/// the function wraps with [`carry`] are noted.
pub(super) fn noting_call<T>(writer: Option<&Writer>, call: impl FnOnce() -> T) -> T {
    match writer {
        Some(writer) => CURRENT.sync_scope(writer.clone(), call),
        None => call(),
    }
}

/// Runs a reconcile. Its writes are noted if `writer` is given.
pub(super) fn noting<T, W>(
    writer: Option<Writer>,
    work: W,
) -> impl Future<Output = T> + Send + use<T, W>
where
    T: Send + 'static,
    W: Future<Output = T> + Send + 'static,
{
    match writer {
        // Boxed, so that the future of a controller that does not use it is as small as its work.
        Some(writer) => Either::Left(CURRENT.scope(writer, work).boxed()),
        None => Either::Right(work),
    }
}
