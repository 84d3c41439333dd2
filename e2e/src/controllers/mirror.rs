//! A controller as a user would write it. For each config map with the label `mirror` it keeps a
//! secret with the config map's name and data. It creates the secret again if the secret is
//! deleted. The file is compiled twice, with a different `runtime` each time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::{Api, Client, Error, Resource, ResourceExt};

use super::runtime::controller::{self, Action, Controller};
use super::runtime::reflector::ObjectRef;
use super::runtime::watcher;

type Reconciled = Result<(ObjectRef<ConfigMap>, Action), controller::Error<Error, watcher::Error>>;

pub fn run(
    client: Client,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) -> impl Stream<Item = Reconciled> {
    let (maps, secrets) =
        (Api::<ConfigMap>::all(client.clone()), Api::<Secret>::all(client.clone()));
    Controller::new(maps, watcher::Config::default().labels("mirror"))
        .owns(secrets, watcher::Config::default())
        .graceful_shutdown_on(stop)
        .run(reconcile, error_policy, Arc::new(client))
}

async fn reconcile(map: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, Error> {
    let secrets =
        Api::<Secret>::namespaced(Client::clone(&client), &map.namespace().unwrap_or_default());
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(map.name_any()),
            owner_references: map.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data: map.data.as_ref().map(mirrored),
        ..Secret::default()
    };
    secrets
        .patch(&map.name_any(), &PatchParams::apply("mirror").force(), &Patch::Apply(secret))
        .await?;
    Ok(Action::await_change())
}

fn error_policy(_: Arc<ConfigMap>, _: &Error, _: Arc<Client>) -> Action {
    Action::requeue(Duration::from_secs(1))
}

/// Returns the data of a config map in the form of a secret's data.
pub fn mirrored(data: &BTreeMap<String, String>) -> BTreeMap<String, ByteString> {
    data.iter().map(|(name, text)| (name.clone(), ByteString(text.clone().into_bytes()))).collect()
}
