//! Prints additions, updates and deletions of a cluster's deployments, or of those in one
//! namespace, until Ctrl-C or SIGTERM.
//!
//!     cargo run -p deltafifo-informer --example deployments -- --kubeconfig ~/.kube/config
//!     cargo run -p deltafifo-informer --example deployments   # simulated cluster
//!
//! A factory creates the informer. Every minute the handler gets a resync.

mod cluster;
#[path = "cluster/shop.rs"]
pub(crate) mod shop;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use cluster::Cluster;
use deltafifo::{DeltaObject, Lister};
use deltafifo_informer::KubeMeta;
use deltafifo_informer::shared_informer::{EventHandler, SharedInformerFactory};
use deltafifo_testkit::ApiServer;
use k8s_openapi::api::apps::v1::Deployment;
use tokio::time::sleep;

/// Prints changes of a cluster's deployments.
#[derive(Parser)]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: Cluster,
}

/// A handler that prints its notifications.
struct Printer;

impl EventHandler<Deployment> for Printer {
    fn on_add(&mut self, object: Arc<Deployment>, is_in_initial_list: bool) {
        println!("add     {}{}", shown(&object), if is_in_initial_list { ", initial" } else { "" });
    }

    fn on_update(&mut self, old: Arc<Deployment>, new: Arc<Deployment>) {
        if old.metadata.resource_version == new.metadata.resource_version {
            println!("resync  {}", shown(&new));
        } else {
            println!("update  {}, {} before", shown(&new), available(&old));
        }
    }

    fn on_delete(&mut self, last: DeltaObject<Deployment>) {
        match last {
            DeltaObject::Object(last) => println!("delete  {}", shown(&last)),
            DeltaObject::Tombstone(tombstone) => {
                println!("delete  {}, deletion not observed", tombstone.key);
            }
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    run(Args::parse(), &shop::simulated()).await
}

pub(crate) async fn run(
    Args { cluster }: Args,
    simulated: &ApiServer,
) -> Result<(), Box<dyn Error>> {
    let client = cluster.client().await?.unwrap_or_else(|| shop::client(simulated));
    let factory = SharedInformerFactory::new(client).resync(Duration::from_secs(60));
    let informer = factory.informer_with::<Deployment>(&(), &cluster.scope(), |informer| {
        informer.on_error(|error| eprintln!("{error}"))
    })?;
    informer.add_event_handler(Printer)?;
    factory.start();

    let namespace = cluster.namespace.as_deref().unwrap_or("shop");
    let printing = async {
        factory.wait_for_cache_sync(sleep(Duration::from_secs(30))).await?;
        loop {
            list(&informer.lister(), namespace);
            sleep(Duration::from_secs(10)).await;
        }
    };
    let ended: Result<(), Box<dyn Error>> = tokio::select! {
        failed = printing => failed,
        stopped = cluster.stopped() => stopped.map_err(Into::into),
    };
    factory.shutdown().await;
    list(&informer.lister(), namespace);
    ended
}

/// Prints the stored deployments of a namespace.
fn list(lister: &Lister<Deployment, KubeMeta>, namespace: &str) {
    let mut all: Vec<_> =
        lister.namespace(namespace).list().iter().map(|deployment| shown(deployment)).collect();
    all.sort();
    println!("list    {} deployments in {namespace}: {}", all.len(), all.join("; "));
}

/// Formats a deployment as `shop/web-1 (1/3)`.
fn shown(deployment: &Deployment) -> String {
    let (namespace, name) = (&deployment.metadata.namespace, &deployment.metadata.name);
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{}/{} ({})", text(namespace), text(name), available(deployment))
}

/// Returns the available and the wanted number of replicas.
fn available(deployment: &Deployment) -> String {
    let available =
        deployment.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0);
    let wanted = deployment.spec.replicas.unwrap_or(1);
    format!("{available}/{wanted}")
}
