//! Stores a cluster's pods as compressed objects, and prints the memory that they take and the
//! pods of each node.
//!
//!     cargo run -p deltafifo-informer --features compact --example compact
//!     cargo run -p deltafifo-informer --features compact --example compact -- --kubeconfig FILE
//!
//! Without a kubeconfig the pods come from a simulated cluster in this process.

#[path = "cluster/access.rs"]
mod access;
#[path = "cluster/signal.rs"]
mod signal;

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use access::Access;
use clap::Parser;
use deltafifo_informer::compact::Compact;
use deltafifo_informer::shared_informer::{Scope, SharedInformerFactory};
use deltafifo_testkit::{ApiServer, Resource};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use serde_json::json;

/// Stores a cluster's pods as compressed objects, and prints the memory that they take.
#[derive(Parser)]
pub(crate) struct Args {
    #[command(flatten)]
    access: Access,
    /// The number of simulated pods. Every twenty pods belong to one workload.
    #[arg(long, default_value_t = 10_000)]
    pods: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let simulated = simulated();
    tokio::select! {
        ended = run(Args::parse(), &simulated) => ended,
        stopped = signal::stopped() => Ok(stopped?),
    }
}

/// Returns the server of the simulated cluster.
pub(crate) fn simulated() -> ApiServer {
    ApiServer::builder().resource(Resource::pods()).build()
}

pub(crate) async fn run(args: Args, simulated: &ApiServer) -> Result<(), Box<dyn Error>> {
    let client = match args.access.client().await? {
        Some(client) => client,
        None => filled(simulated, args.pods)?,
    };
    let factory = SharedInformerFactory::new(client);
    let pods = factory.informer_with::<Compact<Pod>>(&(), &Scope::all(), |pods| {
        pods.reflector(|pods| pods.without(&["metadata", "managedFields"]))
    })?;
    factory.start();
    factory.wait_for_cache_sync(tokio::time::sleep(Duration::from_secs(60))).await?;
    // The first pass follows the list.
    while pods.compact_stats().passes == 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    let mut by_node = BTreeMap::<String, usize>::new();
    for pod in pods.lister().list() {
        let node = pod.decode()?.spec.and_then(|spec| spec.node_name);
        *by_node.entry(node.unwrap_or_default()).or_default() += 1;
    }
    println!("{} nodes have {} pods", by_node.len(), by_node.values().sum::<usize>());
    let stats = pods.compact_stats();
    let objects = stats.objects.max(1);
    println!(
        "{} bytes of JSON for each pod, {} bytes stored, {} of its base, {} of the dictionary; \
         {:?} for all decodes",
        stats.raw_bytes / objects,
        stats.bytes / objects,
        (stats.base_bytes + stats.unpacked_base_bytes) / objects,
        stats.dictionary_bytes / objects,
        stats.decode_time,
    );
    factory.shutdown().await;
    Ok(())
}

/// Creates pods in the simulated cluster, and returns a client of it.
fn filled(server: &ApiServer, pods: u64) -> Result<Client, Box<dyn Error>> {
    server.generate(&Resource::pods(), pods, |number| {
        let workload = number / 20;
        let variable = |at: u64| {
            let value = (workload + at).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            json!({ "name": format!("VARIABLE_{at}"), "value": format!("{value:x}") })
        };
        json!({
            "metadata": {
                "namespace": format!("team-{}", workload % 50),
                "name": format!("web-{workload}-{number}"),
                "generateName": format!("web-{workload}-"),
                "labels": { "app": format!("web-{workload}") },
            },
            "spec": {
                "nodeName": format!("node-{}", number % 100),
                "containers": [{
                    "name": "main",
                    "image": format!("registry.example.com/web:{workload}"),
                    "env": (0..20).map(variable).collect::<Vec<_>>(),
                }],
            },
            "status": { "phase": "Running" },
        })
    })?;
    Ok(server.client())
}
