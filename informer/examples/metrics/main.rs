//! Serves the metrics of an informer of deployments to Prometheus, until Ctrl-C or SIGTERM.
//!
//!     cargo run -p deltafifo-informer --example metrics -- --kubeconfig ~/.kube/config
//!     cargo run -p deltafifo-informer --example metrics   # simulated cluster
//!     curl http://127.0.0.1:9184/metrics
//!
//! `dashboard.json` in this directory is a Grafana dashboard of these metrics. To import it,
//! choose "Dashboards", "New", "Import" in Grafana.

#[path = "../cluster/mod.rs"]
mod cluster;
#[path = "../cluster/shop.rs"]
pub(crate) mod shop;

use std::error::Error;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use clap::Parser;
use cluster::Cluster;
use deltafifo_informer::metrics::{ALL, Kind};
use deltafifo_informer::shared_informer::{
    Buffer, HandlerOptions, Notification, SharedInformerFactory,
};
use deltafifo_testkit::ApiServer;
use k8s_openapi::api::apps::v1::Deployment;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};

/// Serves the metrics of an informer of deployments.
#[derive(Parser)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) cluster: Cluster,
    /// The address at which the metrics are served. In a pod, use 0.0.0.0:9184, so that Prometheus
    /// reaches it.
    #[arg(long, default_value = "127.0.0.1:9184")]
    pub(crate) listen: SocketAddr,
}

/// The bounds of the buckets of histograms of times, in seconds. They range from the time of a push
/// into a buffer to the time of a very slow list.
const SECONDS: [f64; 14] =
    [1e-5, 1e-4, 1e-3, 5e-3, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0, 600.0];
/// The bounds of the buckets of all other histograms, which count objects or events.
const ITEMS: [f64; 8] = [0.0, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let Args { cluster, listen } = Args::parse();
    let mut exporter = PrometheusBuilder::new().with_http_listener(listen);
    for metric in ALL.iter().filter(|metric| metric.kind == Kind::Histogram) {
        let buckets: &[f64] = if metric.name.ends_with("_seconds") { &SECONDS } else { &ITEMS };
        exporter =
            exporter.set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), buckets)?;
    }
    // The recorder must be installed before anything with metrics is created.
    exporter.install()?;
    println!("http://{listen}/metrics");
    inform(&cluster, &shop::simulated()).await
}

/// Runs an informer of deployments until the example is stopped.
pub(crate) async fn inform(cluster: &Cluster, simulated: &ApiServer) -> Result<(), Box<dyn Error>> {
    let client = cluster.client().await?.unwrap_or_else(|| shop::client(simulated));
    let factory =
        SharedInformerFactory::new(client).name("example").resync(Duration::from_secs(60));
    let informer = factory.informer_with::<Deployment>(&(), &cluster.scope(), |informer| {
        informer.on_error(|error| eprintln!("{error}"))
    })?;
    let named = |name| HandlerOptions::new().name(name);
    informer.add_event_handler_with(named("quick"), |_: Notification<Deployment>| ())?;
    let slowly = |_: Notification<Deployment>| thread::sleep(Duration::from_millis(400));
    informer.add_event_handler_with(named("slow"), slowly)?;
    informer.add_event_handler_with(
        named("slow-and-bounded").buffer(Buffer::DropAndResync(8)),
        slowly,
    )?;
    factory.start();

    cluster.stopped().await?;
    factory.shutdown().await;
    Ok(())
}
