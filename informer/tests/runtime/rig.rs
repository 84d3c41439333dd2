//! A server, a controller of its `ConfigMap`s that is polled, and what it told, written down.

use std::sync::Arc;

use deltafifo_informer::runtime::controller::{Action, Error};
use deltafifo_informer::runtime::{Controller, watcher};
use deltafifo_testkit::{ApiServer, Resource};
use futures_util::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// Why a reconciler failed.
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

pub fn maps(server: &ApiServer) -> Api<ConfigMap> {
    Api::all(server.client())
}

pub fn controller(server: &ApiServer) -> Controller<ConfigMap> {
    Controller::new(maps(server), watcher::Config::default())
}

/// A controller that is polled until it ends, or this is dropped.
pub struct Polled {
    told: mpsc::UnboundedReceiver<String>,
    polling: JoinHandle<()>,
}

/// Polls a controller whose error policy is to wait for a change.
pub fn poll<F>(
    controller: Controller<ConfigMap>,
    reconcile: impl FnMut(Arc<ConfigMap>, Arc<()>) -> F + Send + 'static,
) -> Polled
where
    F: Future<Output = Outcome> + Send + 'static,
{
    poll_with(controller, reconcile, |_| Action::await_change())
}

pub fn poll_with<F>(
    controller: Controller<ConfigMap>,
    reconcile: impl FnMut(Arc<ConfigMap>, Arc<()>) -> F + Send + 'static,
    policy: impl Fn(&Failed) -> Action + Send + 'static,
) -> Polled
where
    F: Future<Output = Outcome> + Send + 'static,
{
    let (tell, told) = mpsc::unbounded_channel();
    let stream = controller.run(reconcile, move |_, error, _| policy(error), Arc::new(()));
    let polling = tokio::spawn(stream.for_each(move |next| {
        // Nobody reads any more: the test is at its end.
        let _ = tell.send(shown(next));
        async {}
    }));
    Polled { told, polling }
}

/// `a`, or what went wrong.
fn shown<T>(
    next: Result<(deltafifo_informer::runtime::reflector::ObjectRef<ConfigMap>, T), Error<Failed, watcher::Error>>,
) -> String {
    match next {
        Ok((object, _)) => object.name,
        Err(error) => error.to_string(),
    }
}

impl Polled {
    pub async fn next(&mut self) -> String {
        self.told.recv().await.expect("the controller runs")
    }

    /// So many, in no order.
    pub async fn sorted(&mut self, count: usize) -> Vec<String> {
        let mut all = Vec::new();
        while all.len() < count {
            all.push(self.next().await);
        }
        all.sort();
        all
    }

    /// Whatever there is when nobody has anything to do but wait for the clock.
    pub async fn at_rest(&mut self) -> Vec<String> {
        idle().await;
        std::iter::from_fn(|| self.told.recv().now_or_never().flatten()).collect()
    }

    /// What else there is, until the controller ends.
    pub async fn rest(mut self) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(told) = self.told.recv().await {
            all.push(told);
        }
        (&mut self.polling).await.expect("the controller does not panic");
        all
    }
}

impl Drop for Polled {
    fn drop(&mut self) {
        self.polling.abort();
    }
}

/// Until nobody has anything to do: only then does a paused clock go on.
pub async fn idle() {
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
}

pub fn name(map: &ConfigMap) -> String {
    map.metadata.name.clone().unwrap_or_default()
}

pub fn value(map: &ConfigMap) -> String {
    map.data.as_ref().map_or_else(String::new, |data| data["data"].clone())
}

/// A reconcile that has begun: its object, and who lets it end.
pub struct Begun {
    pub name: String,
    pub value: String,
    pub end: oneshot::Sender<()>,
}

/// A reconciler whose calls end when they are let, and what was begun.
pub fn gated() -> (impl FnMut(Arc<ConfigMap>, Arc<()>) -> GatedCall + Send + 'static, mpsc::UnboundedReceiver<Begun>) {
    let (begin, begun) = mpsc::unbounded_channel();
    let reconcile = move |object: Arc<ConfigMap>, _| {
        let (end, ended) = oneshot::channel();
        // Nobody looks any more: it ends at once.
        let _ = begin.send(Begun { name: name(&object), value: value(&object), end });
        async move {
            let _ = ended.await;
            Ok(Action::await_change())
        }
        .boxed()
    };
    (reconcile, begun)
}

pub type GatedCall = futures_util::future::BoxFuture<'static, Outcome>;
