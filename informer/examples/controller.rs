//! A controller that maintains rosters of pods: the data of each `ConfigMap` with the label
//! `roster` lists the pods of its namespace whose label `roster` is the map's name, with their
//! phases.
//!
//!     cargo run -p deltafifo-informer --example controller -- --kubeconfig ~/.kube/config
//!     cargo run -p deltafifo-informer --example controller   # simulated cluster
//!
//! In a cluster it runs until Ctrl-C or SIGTERM. It owns the data of such a map and removes all
//! other entries. To try it:
//!
//!     kubectl create configmap web && kubectl label configmap web roster=
//!     kubectl run web-0 --image=registry.k8s.io/pause --labels=roster=web

mod cluster;

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use cluster::Cluster;
use deltafifo::{IndexError, IndexReader};
use deltafifo_informer::runtime::Controller;
use deltafifo_informer::runtime::controller::{Action, Config};
use deltafifo_informer::runtime::reflector::ObjectRef;
use deltafifo_informer::runtime::wait::await_condition;
use deltafifo_informer::shared_informer::{InformerError, Scope, SharedInformerFactory};
use deltafifo_informer::{KubeMeta, error_chain};
use deltafifo_testkit::{ApiServer, Resource, status};
use futures_util::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Maintains rosters of pods: config maps that list the pods with a certain label.
#[derive(Parser)]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: Cluster,
}

/// The label of rosters and of their pods, and the name of an index of these pods.
const ROSTER: &str = "roster";

struct Context {
    client: Client,
    pods: IndexReader<Pod, KubeMeta>,
}

#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("a roster cannot be written")]
    Write(#[from] kube::Error),
    #[error(transparent)]
    Index(#[from] IndexError),
}

/// Returns the roster to which a pod belongs, if any.
fn roster_of(pod: &Pod) -> Option<ObjectRef<ConfigMap>> {
    Some(ObjectRef::new(pod.labels().get(ROSTER)?).within(&pod.namespace()?))
}

fn phase(pod: &Pod) -> String {
    pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default()
}

async fn reconcile(map: Arc<ConfigMap>, context: Arc<Context>) -> Result<Action, Failed> {
    let pods = context.pods.by_index(ROSTER, &ObjectRef::from_obj(&*map).to_string())?;
    let roster: BTreeMap<_, _> = pods.iter().map(|pod| (pod.name_any(), phase(pod))).collect();
    if !map.data.iter().flatten().eq(&roster) {
        let maps = Api::<ConfigMap>::namespaced(
            context.client.clone(),
            &map.namespace().unwrap_or_default(),
        );
        // The map contains the version that was read. The server refuses it if there is a newer
        // version, and the reconcile is retried.
        let wanted = ConfigMap { data: Some(roster), ..ConfigMap::clone(&map) };
        maps.replace(&map.name_any(), &PostParams::default(), &wanted).await?;
    }
    Ok(Action::await_change())
}

/// Runs the controller until the example is stopped.
async fn control(
    client: Client,
    scope: Scope,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) -> Result<(), Box<dyn Error>> {
    let (factory, labelled) = (SharedInformerFactory::new(client.clone()), scope.labels(ROSTER));
    let on_error = |error: &InformerError<'_>| eprintln!("{error}");
    let maps =
        factory.informer_with::<ConfigMap>(&(), &labelled, |maps| maps.on_error(on_error))?;
    let pods = factory.informer_with::<Pod>(&(), &labelled, |pods| {
        pods.on_error(on_error).index(ROSTER, |pod| {
            Ok(roster_of(pod).into_iter().map(|roster| roster.to_string()).collect())
        })
    })?;
    factory.start();
    let context = Arc::new(Context { client, pods: pods.store() });
    Controller::from_informer(&maps)
        .watches_informer(&pods, roster_of)
        .with_config(Config::default().concurrency(8))
        .graceful_shutdown_on(stop)
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(1)), context)
        .for_each(|reconciled| async move {
            match reconciled {
                Ok((roster, _)) => println!("reconciled {roster}"),
                Err(error) => eprintln!("{}", error_chain(&error)),
            }
        })
        .await;
    factory.shutdown().await;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    run(Args::parse(), &simulated()).await
}

/// Returns the server of the simulated cluster.
pub(crate) fn simulated() -> ApiServer {
    ApiServer::builder().resource(Resource::config_maps()).resource(Resource::pods()).build()
}

pub(crate) async fn run(
    Args { cluster }: Args,
    simulated: &ApiServer,
) -> Result<(), Box<dyn Error>> {
    let client = cluster.client().await?;
    let is_made_up = client.is_none();
    let (stop, stopped) = oneshot::channel::<()>();
    let over = async {
        let over = tokio::select! {
            story = story(simulated), if is_made_up => story,
            stopped = cluster.stopped() => stopped.map_err(Into::into),
        };
        drop(stop);
        over
    };
    let client = client.unwrap_or_else(|| simulated.client());
    tokio::try_join!(control(client, cluster.scope(), stopped.map(drop)), over)?;
    Ok(())
}

/// Changes the simulated cluster step by step. Returns an error if a roster is not up to date
/// within a minute.
async fn story(server: &ApiServer) -> Result<(), Box<dyn Error>> {
    let maps = Api::<ConfigMap>::namespaced(server.client(), "shop");
    for roster in ["day", "night"] {
        server.apply(map(roster))?;
    }
    for name in ["ann", "bob", "eve"] {
        server.apply(pod(name, "day", "Pending"))?;
    }
    lists(&maps, "day", &[("ann", "Pending"), ("bob", "Pending"), ("eve", "Pending")]).await?;

    println!("ann begins to run, and bob changes to the other roster");
    server.apply(pod("ann", "day", "Running"))?;
    server.apply(pod("bob", "night", "Pending"))?;
    lists(&maps, "day", &[("ann", "Running"), ("eve", "Pending")]).await?;
    lists(&maps, "night", &[("bob", "Pending")]).await?;

    println!("eve is deleted while no watch is open");
    server.error_watches(status::expired("expired by the example"));
    server.delete(&Resource::pods(), "shop", "eve")?;
    server.compact();
    lists(&maps, "day", &[("ann", "Running")]).await
}

fn map(name: &str) -> Value {
    let metadata = json!({ "namespace": "shop", "name": name, "labels": { "roster": "" } });
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata })
}

fn pod(name: &str, roster: &str, phase: &str) -> Value {
    let metadata = json!({ "namespace": "shop", "name": name, "labels": { "roster": roster } });
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": { "phase": phase } })
}

/// Waits until a roster lists exactly these pods.
async fn lists(
    maps: &Api<ConfigMap>,
    roster: &str,
    pods: &[(&str, &str)],
) -> Result<(), Box<dyn Error>> {
    let in_step = |map: Option<&ConfigMap>| {
        let data = map.and_then(|map| map.data.as_ref()).into_iter().flatten();
        data.map(|(pod, phase)| (pod.as_str(), phase.as_str())).eq(pods.iter().copied())
    };
    timeout(Duration::from_secs(60), await_condition(maps.clone(), roster, in_step)).await??;
    println!("{roster}: {pods:?}");
    Ok(())
}
