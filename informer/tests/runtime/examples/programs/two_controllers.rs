//! Two controllers over one watch of pods: of the pods themselves, and of the deployments that own
//! them. (Shape: `shared_stream_controllers`.)

use std::fmt::Debug;
use std::future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt};

use super::runtime::controller::Action;
use super::runtime::reflector::{self, ReflectHandle};
use super::runtime::{Config, Controller, WatchStreamExt, predicates, watcher};

const BUFFERED: usize = 128;

#[derive(Debug, thiserror::Error)]
enum Never {}

struct Speech<F>(F);

async fn reconcile<K, F>(object: Arc<K>, speech: Arc<Speech<F>>) -> Result<Action, Never>
where
    K: ResourceExt<DynamicType = ()>,
    F: Fn(String),
{
    (speech.0)(format!("{} {}", K::kind(&()), object.name_any()));
    Ok(Action::await_change())
}

fn error_policy<K: ResourceExt, F>(object: Arc<K>, error: &Never, _: Arc<Speech<F>>) -> Action {
    tracing::error!(%error, name = object.name_any());
    Action::requeue(Duration::from_secs(5))
}

pub async fn run(client: Client, say: impl Fn(String) + Send + Sync + 'static) {
    let speech = Arc::new(Speech(say));
    let config = Config::default().concurrency(3);
    let (reader, writer) = reflector::store_shared(BUFFERED);
    let pods: ReflectHandle<Pod> = writer.subscribe().expect("the store is shared");
    let changed = pods
        .clone()
        .map(|pod| Ok(Pod::clone(&pod)))
        .predicate_filter(predicates::resource_version, Default::default())
        .filter_map(|pod| future::ready(pod.ok().map(Arc::new)));
    let watch = watcher(Api::<Pod>::all(client.clone()), Default::default())
        .default_backoff()
        .reflect_shared(writer)
        .for_each(|event| {
            match event {
                Ok(event) => tracing::debug!("{event:?}"),
                Err(error) => tracing::error!(%error, "the watch of pods failed"),
            }
            future::ready(())
        });
    let of_pods = Controller::for_shared_stream(changed, reader)
        .with_config(config.clone())
        .shutdown_on_signal()
        .run(reconcile, error_policy, Arc::clone(&speech))
        .for_each(shown);
    let of_deployments =
        Controller::new(Api::<Deployment>::all(client), watcher::Config::default())
            .with_config(config)
            .owns_shared_stream(pods)
            .shutdown_on_signal()
            .run(reconcile, error_policy, speech)
            .for_each(shown);
    tokio::select! {
        _ = futures_util::future::join(of_pods, of_deployments) => {}
        () = watch => {}
    }
}

fn shown<T: Debug, E: std::error::Error>(done: Result<T, E>) -> future::Ready<()> {
    match done {
        Ok(done) => tracing::debug!("{done:?}"),
        Err(error) => tracing::warn!(%error, "not reconciled"),
    }
    future::ready(())
}
