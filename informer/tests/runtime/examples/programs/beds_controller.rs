//! A controller of a custom kind: each bed owns a `ConfigMap`, its label, which names the crop.
//! A message on `reload` reconciles all beds. (Shape: `configmapgen_controller`.)

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;
use tokio::sync::mpsc;

use super::bed::Bed;
use super::runtime::controller::{Action, Config, Controller};
use super::runtime::watcher;

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("bed has no {0}")]
    Incomplete(&'static str),
    #[error("label was not written")]
    NotLabelled(#[source] kube::Error),
}

struct Garden {
    client: Client,
}

async fn reconcile(bed: Arc<Bed>, garden: Arc<Garden>) -> Result<Action, Error> {
    let namespace = bed.namespace().ok_or(Error::Incomplete("namespace"))?;
    let owner = bed.controller_owner_ref(&()).ok_or(Error::Incomplete("uid"))?;
    let label = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": bed.name_any(), "ownerReferences": [owner] },
        "data": { "crop": bed.spec.crop },
    });
    Api::<ConfigMap>::namespaced(garden.client.clone(), &namespace)
        .patch(&bed.name_any(), &PatchParams::apply("garden.example"), &Patch::Apply(label))
        .await
        .map_err(Error::NotLabelled)?;
    Ok(Action::requeue(Duration::from_secs(600)))
}

fn error_policy(bed: Arc<Bed>, error: &Error, _: Arc<Garden>) -> Action {
    match error {
        Error::Incomplete(_) => Action::await_change(),
        Error::NotLabelled(_) => {
            tracing::warn!(%error, bed = bed.name_any(), "retry");
            Action::requeue(Duration::from_secs(2))
        }
    }
}

pub async fn run(client: Client, mut reload: mpsc::Receiver<()>, say: impl Fn(String)) {
    let beds = Api::<Bed>::all(client.clone());
    let labels = Api::<ConfigMap>::all(client.clone());
    Controller::new(beds, watcher::Config::default())
        .owns(labels, watcher::Config::default())
        .with_config(Config::default().concurrency(2))
        .reconcile_all_on(stream::poll_fn(move |context| reload.poll_recv(context)).map(|()| ()))
        .shutdown_on_signal()
        .run(reconcile, error_policy, Arc::new(Garden { client }))
        .for_each(|done| {
            match done {
                Ok(done) => {
                    tracing::debug!("{done:?}");
                    say(done.0.name);
                }
                Err(error) => say(format!("failed: {error}")),
            }
            async {}
        })
        .await;
}
