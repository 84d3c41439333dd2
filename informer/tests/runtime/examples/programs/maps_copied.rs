//! A controller that copies `ConfigMap`s with a certain label into secrets, and removes the copy
//! before the map is deleted. (Shape: `secret_syncer`.)

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams};
use kube::{Api, Client, Resource};

use super::runtime::controller::{Action, Controller};
use super::runtime::finalizer::{Event, finalizer};
use super::runtime::watcher;

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("map has no name")]
    Nameless,
    #[error("copy was not written: {0}")]
    NotCopied(#[source] kube::Error),
    #[error("copy was not removed: {0}")]
    NotRemoved(#[source] kube::Error),
}

type Result<T, E = Error> = std::result::Result<T, E>;

fn copy_of(map: &ConfigMap) -> Result<String> {
    Ok(format!("copy-{}", map.metadata.name.as_deref().ok_or(Error::Nameless)?))
}

async fn copy(map: Arc<ConfigMap>, secrets: &Api<Secret>) -> Result<Action> {
    let name = copy_of(&map)?;
    let secret = Secret {
        metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
        string_data: map.data.clone(),
        ..Secret::default()
    };
    secrets
        .patch(&name, &PatchParams::apply("garden.example"), &Patch::Apply(secret))
        .await
        .map_err(Error::NotCopied)?;
    Ok(Action::await_change())
}

async fn remove(map: Arc<ConfigMap>, secrets: &Api<Secret>) -> Result<Action> {
    match secrets.delete(&copy_of(&map)?, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => return Err(Error::NotRemoved(error)),
        Ok(_) => {}
    }
    Ok(Action::await_change())
}

pub async fn run(client: Client, say: impl Fn(String)) {
    let maps = Api::<ConfigMap>::all(client.clone());
    Controller::new(maps, watcher::Config::default().labels("garden.example/copy=yes"))
        .run(
            |map, _| {
                let namespace = map.meta().namespace.clone().unwrap_or_default();
                let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
                let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
                async move {
                    finalizer(&maps, "garden.example/copied", map, |event| async {
                        match event {
                            Event::Apply(map) => copy(map, &secrets).await,
                            Event::Cleanup(map) => remove(map, &secrets).await,
                        }
                    })
                    .await
                }
            },
            |_map, _error, _| Action::requeue(Duration::from_secs(5)),
            Arc::new(()),
        )
        .for_each(|done| {
            tracing::debug!("{done:?}");
            say(match done {
                Ok((map, _)) => map.name,
                Err(error) => format!("failed: {error}"),
            });
            async {}
        })
        .await;
}
