//! A controller as a user would write it: an annotation of every map says how many pods the map
//! owns, and the pods are deleted before the map is. It is compiled twice, with a different
//! `runtime` each time.

use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::runtime::controller::{self, Action, Config, Controller};
use super::runtime::finalizer::{self, Event, finalizer};
use super::runtime::reflector::ObjectRef;
use super::runtime::watcher;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Kube(#[from] kube::Error),
    #[error(transparent)]
    Finalizer(#[from] Box<finalizer::Error<Error>>),
}

type Reconciled = Result<(ObjectRef<ConfigMap>, Action), controller::Error<Error, watcher::Error>>;

pub fn run(
    client: Client,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) -> impl Stream<Item = Reconciled> {
    let (maps, pods) = (Api::<ConfigMap>::all(client.clone()), Api::<Pod>::all(client.clone()));
    super::in_form(Controller::new(maps, watcher::Config::default()))
        .owns(pods, watcher::Config::default())
        .with_config(Config::default().concurrency(4))
        .graceful_shutdown_on(stop)
        .run(reconcile, error_policy, Arc::new(client))
}

async fn reconcile(map: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, Error> {
    let namespace = map.namespace().unwrap_or_default();
    let maps = Api::<ConfigMap>::namespaced(Client::clone(&client), &namespace);
    let pods = Api::<Pod>::namespaced(Client::clone(&client), &namespace);
    let done = finalizer(&maps, "example.org/counter", map, |event| async {
        match event {
            Event::Apply(map) => count(&map, &maps, &pods).await,
            Event::Cleanup(map) => clean_up(&map, &pods).await,
        }
    });
    Ok(done.await.map_err(Box::new)?)
}

fn error_policy(_: Arc<ConfigMap>, _: &Error, _: Arc<Client>) -> Action {
    Action::requeue(Duration::from_secs(1))
}

async fn owned(map: &ConfigMap, pods: &Api<Pod>) -> Result<Vec<String>, Error> {
    let pods = pods.list(&ListParams::default()).await?;
    let is_owned =
        |pod: &Pod| pod.owner_references().iter().any(|owner| owner.name == map.name_any());
    Ok(pods.into_iter().filter(is_owned).map(|pod| pod.name_any()).collect())
}

async fn count(map: &ConfigMap, maps: &Api<ConfigMap>, pods: &Api<Pod>) -> Result<Action, Error> {
    let number = owned(map, pods).await?.len().to_string();
    if map.annotations().get("pods") != Some(&number) {
        let patch = json!({ "metadata": { "annotations": { "pods": number } } });
        maps.patch(&map.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    }
    Ok(Action::requeue(Duration::from_secs(3_600)))
}

async fn clean_up(map: &ConfigMap, pods: &Api<Pod>) -> Result<Action, Error> {
    for pod in owned(map, pods).await? {
        pods.delete(&pod, &DeleteParams::default()).await?;
    }
    Ok(Action::await_change())
}
