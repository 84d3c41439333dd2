//! Watches three kinds in one stream. (Shape: `multi_watcher`.)

use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client, ResourceExt};

use super::runtime::{WatchStreamExt, watcher};

#[allow(clippy::large_enum_variant)] // Few exist at a time.
enum Seen {
    Map(ConfigMap),
    Secret(Secret),
    Deployment(Deployment),
}

pub async fn run(client: Client, say: impl Fn(String)) -> Result<(), watcher::Error> {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let deployments: Api<Deployment> = Api::default_namespaced(client);
    let maps = watcher(maps, watcher::Config::default());
    let secrets = watcher(secrets, watcher::Config::default());
    let deployments = watcher(deployments, watcher::Config::default());
    let mut seen = stream::select_all([
        maps.applied_objects().map_ok(Seen::Map).boxed(),
        secrets.applied_objects().map_ok(Seen::Secret).boxed(),
        deployments.applied_objects().map_ok(Seen::Deployment).boxed(),
    ]);
    while let Some(seen) = seen.try_next().await? {
        say(match seen {
            Seen::Map(map) => format!("map {}", map.name_any()),
            Seen::Secret(secret) => format!("secret {}", secret.name_any()),
            Seen::Deployment(deployment) => format!("deployment {}", deployment.name_any()),
        });
    }
    Ok(())
}
