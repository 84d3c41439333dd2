//! Prints the deltas of a cluster's pods, until Ctrl-C or SIGTERM.
//!
//!     cargo run -p deltafifo-informer --example pods -- --kubeconfig ~/.kube/config
//!     cargo run -p deltafifo-informer --example pods   # simulated cluster
//!
//! A reflector puts the pods into a queue. Each popped item is applied to the queue's store and
//! printed.

#[path = "cluster/access.rs"]
mod access;
#[path = "cluster/signal.rs"]
mod signal;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use access::Access;
use clap::Parser;
use deltafifo::{DeltaFifo, DeltaObject, Indexer, KeyFunc};
use deltafifo_informer::{KubeListerWatcher, KubeMeta, Reflector, error_chain};
use deltafifo_testkit::{ApiServer, Resource};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use serde_json::json;

/// Prints the deltas of a cluster's pods.
#[derive(Parser)]
pub(crate) struct Args {
    #[command(flatten)]
    access: Access,
    /// The only namespace to use. Default: all namespaces.
    #[arg(long)]
    namespace: Option<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    run(Args::parse(), &simulated()).await
}

/// Returns the server of the simulated cluster.
pub(crate) fn simulated() -> ApiServer {
    ApiServer::builder().resource(Resource::pods()).build()
}

pub(crate) async fn run(args: Args, simulated: &ApiServer) -> Result<(), Box<dyn Error>> {
    let client = args.access.client().await?.unwrap_or_else(|| changing(simulated));
    let source = KubeListerWatcher::new::<Pod>(client, &(), args.namespace.as_deref());
    let store = Indexer::builder(KeyFunc::meta_namespace(KubeMeta)).build()?;
    let fifo = Arc::new(DeltaFifo::over(store).track_applied(true).build());
    let reflector = Reflector::builder(source, fifo.clone())
        .on_error(|error| eprintln!("{}", error_chain(error)))
        .build();
    tokio::select! {
        ended = reflector.run() => println!("{}", error_chain(&ended)),
        () = print(&fifo) => {}
        stopped = signal::stopped() => stopped?,
    }
    println!(
        "{} pods at version {}",
        fifo.store().list_keys().len(),
        fifo.store().applied_version().unwrap_or_default()
    );
    Ok(())
}

/// Pops, applies and prints every item.
async fn print(fifo: &DeltaFifo<Pod, KubeMeta>) {
    while let Ok(mut item) = fifo.pop_async().await {
        for delta in item.deltas() {
            let phase = match &delta.object {
                DeltaObject::Object(pod) => {
                    pod.status.as_ref().and_then(|status| status.phase.as_deref())
                }
                DeltaObject::Tombstone(_) => Some("deleted without an event"),
            };
            println!("Type:{:?}: Name:{} {}", delta.kind, item.key(), phase.unwrap_or_default());
        }
        if let Err(error) = item.apply(|_| ()) {
            eprintln!("{}", error_chain(&error));
        }
    }
}

/// Returns a client of the simulated cluster, and starts to create, change and delete its pods.
fn changing(server: &ApiServer) -> Client {
    let server = server.clone();
    let client = server.client();
    tokio::spawn(async move {
        let pod = |number: u32, phase: &str| {
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": { "namespace": "shop", "name": format!("web-{number}") },
                "status": { "phase": phase },
            })
        };
        let mut seconds = tokio::time::interval(Duration::from_millis(500));
        for number in 0_u32.. {
            seconds.tick().await;
            let written = [(number, "Pending"), (number.saturating_sub(1), "Running")]
                .map(|(number, phase)| server.apply(pod(number, phase)));
            let deleted = number
                .checked_sub(4)
                .map(|old| server.delete(&Resource::pods(), "shop", &format!("web-{old}")));
            if let Some(error) = written.into_iter().chain(deleted).find_map(Result::err) {
                eprintln!("the simulated cluster failed: {}", error_chain(&error));
            }
        }
    });
    client
}
