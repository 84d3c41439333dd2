//! Mirrors pods without their status and annotations, which saves memory. (Shape:
//! `pod_reflector`.)

use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt};
use tokio::time::sleep;

use super::runtime::{WatchStreamExt, predicates, reflector, watcher};

pub async fn run(
    client: Client,
    say: impl Fn(String) + Clone + Send + Sync + 'static,
) -> Result<(), watcher::Error> {
    let pods: Api<Pod> = Api::default_namespaced(client);
    let (reader, writer) = reflector::store::<Pod>();
    let say_all = say.clone();
    let reading = tokio::spawn(async move {
        loop {
            reader.wait_until_ready().await.expect("the watch goes on");
            for pod in reader.state() {
                let has_status = pod.status.is_some();
                say_all(format!("stored: {}, status: {has_status}", pod.name_any()));
            }
            sleep(Duration::from_secs(10)).await;
        }
    });
    let applied = watcher(pods, watcher::Config::default().any_semantic())
        .default_backoff()
        .modify(|pod| {
            pod.managed_fields_mut().clear();
            pod.annotations_mut().clear();
            pod.status = None;
        })
        .reflect(writer)
        .applied_objects()
        .predicate_filter(predicates::resource_version, Default::default());
    let mut applied = pin!(applied);
    while let Some(pod) = applied.try_next().await? {
        say(format!("applied: {}", pod.name_any()));
    }
    reading.abort();
    Ok(())
}
