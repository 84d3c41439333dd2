//! A rig: a server, and a reflector that feeds a queue whose items are applied.

use std::sync::Arc;

use deltafifo::{DeltaFifo, Indexer, KeyFunc};
use deltafifo_informer::reflector::{Reflector, ReflectorBuilder};
use deltafifo_informer::{KubeListerWatcher, KubeMeta, ReflectorError, error_chain};
use deltafifo_testkit::{ApiServer, Resource};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Resource as Kube;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::mpsc;

pub type Queue<K> = DeltaFifo<K, KubeMeta>;

pub fn server() -> ApiServer {
    ApiServer::builder().resource(Resource::config_maps()).frame_size(100).build()
}

pub fn map(namespace: &str, name: &str, data: &str) -> Value {
    json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": { "namespace": namespace, "name": name, "labels": { "data": data } },
        "data": { "data": data },
    })
}

/// Returns a queue whose items are applied as they arrive.
pub fn applied<K: Kube + Send + Sync + 'static>() -> Arc<Queue<K>> {
    let store = Indexer::builder(KeyFunc::meta_namespace(KubeMeta))
        .build()
        .expect("no index is given twice");
    let fifo = Arc::new(DeltaFifo::over(store).track_applied(true).build());
    let queue: Arc<Queue<K>> = fifo.clone();
    tokio::spawn(async move {
        while let Ok(mut item) = queue.pop_async().await {
            item.apply(|_| ()).expect("the store is fused and has no indexes");
        }
    });
    fifo
}

/// Runs a reflector of `source` into `fifo` until the test's runtime ends. Returns its errors.
pub fn run<K: Kube + Clone + DeserializeOwned + Send + Sync + 'static>(
    source: impl deltafifo_informer::ListerWatcher,
    fifo: &Arc<Queue<K>>,
    choose: impl FnOnce(ReflectorBuilder<K>) -> ReflectorBuilder<K>,
) -> mpsc::UnboundedReceiver<String> {
    let (sender, received) = mpsc::unbounded_channel();
    let on_error = move |error: &ReflectorError| drop(sender.send(error_chain(error)));
    let reflector = choose(Reflector::builder(source, fifo.clone()).on_error(on_error)).build();
    tokio::spawn(async move { reflector.run().await });
    received
}

/// Returns a source of all `ConfigMap`s of all namespaces.
pub fn maps(server: &ApiServer) -> KubeListerWatcher {
    KubeListerWatcher::new::<ConfigMap>(server.client(), &(), None)
}

/// Waits until the server's current state is applied, which a bookmark shows.
pub async fn up_to_date<K: Send + Sync + 'static>(
    server: &ApiServer,
    fifo: &Queue<K>,
    resource: &Resource,
) where
    KubeMeta: deltafifo::Meta<K>,
{
    server.wait_for_watchers(1).await;
    server.bookmark(resource);
    fifo.store()
        .wait_for_resource_version_async(&server.version().to_string())
        .await
        .expect("the queue is open");
}

/// Returns the keys and values of the stored objects.
pub fn stored(fifo: &Queue<ConfigMap>) -> Vec<String> {
    let shown = |map: &Arc<ConfigMap>| {
        let key = fifo.key_of(map.as_ref()).expect("it has a name");
        format!("{key}={}", map.data.as_ref().map_or("", |data| &data["data"]))
    };
    let mut stored: Vec<_> = fifo.store().list().iter().map(shown).collect();
    stored.sort();
    stored
}
