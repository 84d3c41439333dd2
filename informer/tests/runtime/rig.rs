//! A rig: a server, a polled controller of its `ConfigMap`s, and a record of the items that the
//! controller yields.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use deltafifo::{Labels, error_chain};
use deltafifo_informer::KubeMeta;
use deltafifo_informer::reflector::Decodable;
use deltafifo_informer::runtime::controller::{Action, Error};
use deltafifo_informer::runtime::reflector::ObjectRef;
use deltafifo_informer::runtime::{Controller, Form, watcher};
use deltafifo_testkit::{ApiServer, Resource, status};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// The error of a reconciler.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failed(pub &'static str);

pub type Outcome = Result<Action, Failed>;

pub fn server() -> ApiServer {
    let [maps, pods, nodes] = [Resource::config_maps(), Resource::pods(), Resource::nodes()];
    ApiServer::builder().resource(maps).resource(pods).resource(nodes).build()
}

pub fn map(name: &str, data: &str) -> Value {
    json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": { "namespace": "shop", "name": name },
        "data": { "data": data },
    })
}

/// Returns a map as a kube watcher yields it. Its data is its version.
pub fn typed(name: &str, version: u32) -> ConfigMap {
    let mut map = map(name, &version.to_string());
    map["metadata"]["resourceVersion"] = version.to_string().into();
    serde_json::from_value(map).expect("a map")
}

/// Returns a pod that these maps own.
pub fn pod(name: &str, owners: &[&str]) -> Value {
    owned("v1", "ConfigMap", name, owners)
}

/// Returns a pod that objects of some kind own.
pub fn owned(api_version: &str, kind: &str, name: &str, owners: &[&str]) -> Value {
    let owner = |name| json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": "of no matter" });
    let owners: Vec<_> = owners.iter().map(owner).collect();
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": { "namespace": "shop", "name": name, "ownerReferences": owners },
    })
}

/// Cuts all open watches, calls `change`, and drops the watch history. Only lists show the changes
/// then.
pub fn missing<R>(server: &ApiServer, change: impl FnOnce() -> R) {
    server.error_watches(status::expired("cut off by the test"));
    change();
    server.compact();
}

pub fn maps(server: &ApiServer) -> Api<ConfigMap> {
    Api::all(server.client())
}

/// The form in which the controllers of [`controller`] and [`in_form`], and the shared informers of
/// most tests, keep their objects: compact if the feature `compact` is enabled.
#[cfg(not(feature = "compact"))]
pub type Stored<K = ConfigMap> = K;
#[cfg(feature = "compact")]
pub type Stored<K = ConfigMap> = deltafifo_informer::compact::Compact<K>;

/// Returns the controller with its main objects in the form that these tests use.
pub fn in_form<K>(controller: Controller<K>) -> Controller<Stored<K>>
where
    K: kube::Resource + Clone + DeserializeOwned + Send + Sync + 'static,
{
    #[cfg(feature = "compact")]
    let controller = controller.compact();
    controller
}

pub fn controller(server: &ApiServer) -> Controller<Stored> {
    in_form(Controller::new(maps(server), watcher::Config::default()))
}

/// A time limit that is longer than any wait in these tests. A paused clock reaches it only if
/// nothing else waits for the clock.
const HOUR: Duration = Duration::from_secs(60 * 60);

/// A running controller. It is polled until it ends, or until this value is dropped.
pub struct Polled {
    received: mpsc::UnboundedReceiver<String>,
    polling: JoinHandle<()>,
}

/// Polls a controller with the given reconciler. Its error policy waits for a change.
pub fn poll<S, F>(
    controller: Controller<S>,
    reconcile: impl FnMut(Arc<S::Object>, Arc<()>) -> F + Send + 'static,
) -> Polled
where
    S: Form<Object: Object> + Decodable,
    KubeMeta: Labels<S>,
    F: Future<Output = Outcome> + Send + 'static,
{
    poll_with(controller, reconcile, |_| Action::await_change())
}

pub fn poll_with<S, F>(
    controller: Controller<S>,
    reconcile: impl FnMut(Arc<S::Object>, Arc<()>) -> F + Send + 'static,
    policy: impl Fn(&Failed) -> Action + Send + 'static,
) -> Polled
where
    S: Form<Object: Object> + Decodable,
    KubeMeta: Labels<S>,
    F: Future<Output = Outcome> + Send + 'static,
{
    let (sender, received) = mpsc::unbounded_channel();
    let stream = controller.run(reconcile, move |_, error, _| policy(error), Arc::new(()));
    let polling = tokio::spawn(stream.for_each(move |next| {
        // If the send fails, the test has ended.
        let _ = sender.send(shown(next));
        async {}
    }));
    Polled { received, polling }
}

/// Polls a controller whose reconciler does nothing.
pub fn poll_idle<S>(controller: Controller<S>) -> Polled
where
    S: Form<Object: Object> + Decodable,
    KubeMeta: Labels<S>,
{
    poll(controller, |_, _| async { Ok(Action::await_change()) })
}

/// The types of objects that a controller in these tests can have.
pub trait Object:
    kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static
{
}

impl<K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static>
    Object for K
{
}

/// Returns the name of the reconciled object, or an error with all its causes.
fn shown<K: Object>(next: Result<(ObjectRef<K>, Action), Error<Failed, watcher::Error>>) -> String {
    match next {
        Ok((object, _)) => object.name,
        Err(error) => error_chain(&error),
    }
}

impl Polled {
    pub async fn next(&mut self) -> String {
        self.within(HOUR).await.expect("the controller runs")
    }

    /// Returns the texts of the next `count` items, sorted.
    pub async fn sorted(&mut self, count: usize) -> Vec<String> {
        let mut all = Vec::new();
        while all.len() < count {
            all.push(self.next().await);
        }
        all.sort();
        all
    }

    /// Returns all items without duplicates, once every task waits for the clock.
    pub async fn at_rest(&mut self) -> Vec<String> {
        idle().await;
        let all: BTreeSet<_> = std::iter::from_fn(|| self.received.try_recv().ok()).collect();
        all.into_iter().collect()
    }

    /// Returns the remaining items until the controller ends.
    pub async fn rest(self) -> Vec<String> {
        self.rest_within(HOUR).await
    }

    /// Returns the remaining items like [`rest`](Self::rest), for a clock that is not paused,
    /// where an hour is too long.
    pub async fn rest_within(mut self, longest: Duration) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(received) = self.within(longest).await {
            all.push(received);
        }
        (&mut self.polling).await.expect("the controller does not panic");
        all
    }

    /// Returns the next item, or `None` if the controller has ended. Fails after `longest`, so
    /// that a controller that yields nothing fails the test instead of blocking it.
    async fn within(&mut self, longest: Duration) -> Option<String> {
        let received = timeout(longest, self.received.recv()).await;
        received
            .unwrap_or_else(|_| panic!("the controller neither yielded nor ended for {longest:?}"))
    }
}

impl Drop for Polled {
    fn drop(&mut self) {
        self.polling.abort();
    }
}

/// Waits until no task can run. Only then does a paused clock advance.
pub async fn idle() {
    sleep(Duration::from_millis(1)).await;
}

pub fn name(map: &ConfigMap) -> String {
    map.metadata.name.clone().unwrap_or_default()
}

pub fn value(map: &ConfigMap) -> String {
    map.data.as_ref().map_or_else(String::new, |data| data["data"].clone())
}

/// A reconcile that has begun: its object, and the sender that lets it end.
pub struct Begun {
    pub name: String,
    /// The data, if the object is a map.
    pub value: String,
    pub end: oneshot::Sender<()>,
}

pub type GatedCall = BoxFuture<'static, Outcome>;

/// Returns a reconciler whose calls end when the test lets them, and a receiver of the calls that
/// have begun.
pub fn gated<K: Object>()
-> (impl FnMut(Arc<K>, Arc<()>) -> GatedCall + Send + 'static, mpsc::UnboundedReceiver<Begun>) {
    let (sender, begun) = mpsc::unbounded_channel();
    let reconcile = move |object: Arc<K>, _| {
        let (end, ended) = oneshot::channel();
        let map = (&*object as &dyn Any).downcast_ref::<ConfigMap>();
        let (name, value) =
            (object.meta().name.clone().unwrap_or_default(), map.map(value).unwrap_or_default());
        // If the send fails, the test has ended and the call ends at once.
        let _ = sender.send(Begun { name, value, end });
        async move {
            let _ = ended.await;
            Ok(Action::await_change())
        }
        .boxed()
    };
    (reconcile, begun)
}
