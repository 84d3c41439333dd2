//! Measures the memory of a first list: a reflector reads pods from the test kit's API server into
//! a queue with a store, by a list and by a streamed list. For comparison, a process decodes the
//! same pods and stores them.
//!
//! ```text
//! cargo run --release -p deltafifo-bench --features peers --example first_list -- --objects 1000000
//! ```
//!
//! Each way has a process of its own, and its peak counts: at the end the allocator may hold freed
//! memory.

use std::env;
use std::error::Error;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use deltafifo::{DeltaFifo, Indexer, KeyFunc};
use deltafifo_bench::workloads::peak;
use deltafifo_informer::{KubeListerWatcher, KubeMeta, Reflector};
use deltafifo_testkit::{ApiServer, Resource};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure the peak memory of a first list.
#[derive(Parser)]
struct Args {
    /// Number of pods
    #[arg(long, default_value_t = 1_000_000)]
    objects: u64,
    /// Run only this way, in this process
    #[arg(long)]
    way: Option<Way>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Way {
    /// Decode and store one by one, without a reflector
    Direct,
    /// List; the response has one body, whatever the page size
    List,
    /// Read the first events of a watch
    Streamed,
}

type Queue = DeltaFifo<Pod, KubeMeta>;

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    if let Some(way) = args.way {
        return measure(way, args.objects);
    }
    for way in Way::value_variants() {
        let name = way.to_possible_value().ok_or("a way has a name")?;
        let arguments = ["--objects", &args.objects.to_string(), "--way", name.get_name()];
        let ended = Command::new(env::current_exe()?).args(arguments).status()?;
        if !ended.success() {
            return Err(format!("{}: {ended}", name.get_name()).into());
        }
    }
    Ok(())
}

fn measure(way: Way, objects: u64) -> Result<(), Box<dyn Error>> {
    let server = ApiServer::builder().resource(Resource::pods()).frame_size(64 << 10).build();
    server.generate(&Resource::pods(), objects, pod)?;
    let store = Indexer::builder(KeyFunc::meta_namespace(KubeMeta)).build()?;
    let fifo = Arc::new(DeltaFifo::over(store).build());
    let from = Instant::now();
    match way {
        Way::Direct => direct(&server, &fifo, objects)?,
        Way::List => reflected(&server, &fifo, false)?,
        Way::Streamed => reflected(&server, &fifo, true)?,
    }
    let known = fifo.store().list_keys().len();
    let mib = peak() >> 20;
    let name = way.to_possible_value().ok_or("a way has a name")?;
    println!(
        "{:<8} {known} pods known, peak {mib} MiB, {:.1} s",
        name.get_name(),
        from.elapsed().as_secs_f64()
    );
    Ok(())
}

fn direct(server: &ApiServer, fifo: &Queue, objects: u64) -> Result<(), Box<dyn Error>> {
    for number in 0..objects {
        let (namespace, name) = name(number);
        let pod =
            server.get(&Resource::pods(), &namespace, &name).ok_or("a pod that was generated")?;
        fifo.add(Arc::new(serde_json::from_slice(&serde_json::to_vec(&pod)?)?))?;
        fifo.pop()?.apply(|_| ())?;
    }
    Ok(())
}

#[tokio::main]
async fn reflected(
    server: &ApiServer,
    fifo: &Arc<Queue>,
    streamed: bool,
) -> Result<(), Box<dyn Error>> {
    let source = KubeListerWatcher::new::<Pod>(server.client(), &(), None);
    let reflector = Reflector::builder(source, fifo.clone()).watch_list(streamed).build();
    tokio::spawn(async move { reflector.run().await });
    let queue = fifo.clone();
    tokio::spawn(async move {
        while let Ok(mut item) = queue.pop_async().await {
            if let Err(error) = item.apply(|_| ()) {
                eprintln!("{error}");
            }
        }
    });
    Ok(fifo.wait_for_sync_async().await?)
}

fn name(number: u64) -> (String, String) {
    (format!("namespace-{}", number % 100), format!("web-{number}"))
}

/// Returns a small pod, as clusters have many.
fn pod(number: u64) -> Value {
    let (namespace, name) = name(number);
    json!({
        "metadata": {
            "namespace": namespace, "name": name,
            "labels": { "app": "web", "pod-template-hash": format!("{:x}", number % 997) },
        },
        "spec": {
            "nodeName": format!("node-{}", number % 1000),
            "containers": [{
                "name": "web", "image": "registry.k8s.io/web:1.2.3",
                "resources": { "requests": { "cpu": "100m", "memory": "64Mi" } },
                "ports": [{ "containerPort": 8080, "protocol": "TCP" }],
            }],
        },
        "status": {
            "phase": "Running", "podIP": format!("10.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, number & 255),
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }],
        },
    })
}
