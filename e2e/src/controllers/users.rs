//! A controller as a user would write it: it writes the number of pods that use a config map into
//! an annotation of the config map. A pod names the config map that it uses in an annotation. The
//! file is compiled twice, with a different `runtime` each time.

use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, Error, ResourceExt};
use serde_json::json;

use super::runtime::controller::{self, Action, Controller};
use super::runtime::reflector::ObjectRef;
use super::runtime::watcher;

type Reconciled = Result<(ObjectRef<ConfigMap>, Action), controller::Error<Error, watcher::Error>>;

pub fn run(
    client: Client,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) -> impl Stream<Item = Reconciled> {
    let (maps, pods) = (Api::<ConfigMap>::all(client.clone()), Api::<Pod>::all(client.clone()));
    Controller::new(maps, watcher::Config::default())
        .watches(pods, watcher::Config::default(), used)
        .graceful_shutdown_on(stop)
        .run(reconcile, error_policy, Arc::new(client))
}

/// Returns the config map that a pod uses.
#[allow(clippy::needless_pass_by_value, reason = "kube passes the pod by value")]
pub fn used(pod: Pod) -> Option<ObjectRef<ConfigMap>> {
    let name = pod.annotations().get("uses")?;
    Some(ObjectRef::new(name).within(&pod.namespace()?))
}

async fn reconcile(map: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, Error> {
    let namespace = map.namespace().unwrap_or_default();
    let pods = Api::<Pod>::namespaced(Client::clone(&client), &namespace);
    let maps = Api::<ConfigMap>::namespaced(Client::clone(&client), &namespace);
    let uses_it = |pod: &Pod| pod.annotations().get("uses") == Some(&map.name_any());
    let number = pods
        .list(&ListParams::default())
        .await?
        .iter()
        .filter(|pod| uses_it(pod))
        .count()
        .to_string();
    if map.annotations().get("users") != Some(&number) {
        let patch = json!({ "metadata": { "annotations": { "users": number } } });
        maps.patch(&map.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    }
    Ok(Action::await_change())
}

fn error_policy(_: Arc<ConfigMap>, _: &Error, _: Arc<Client>) -> Action {
    Action::requeue(Duration::from_secs(1))
}
