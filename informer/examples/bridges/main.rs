//! Passes the metrics of an informer to the library that a program already uses: to a registry of
//! prometheus-client, or to OpenTelemetry, together with the spans. Prints them at the end.
//!
//!     cargo run -p deltafifo-informer --example bridges -- --seconds 10
//!     cargo run -p deltafifo-informer --example bridges -- --seconds 10 --open-telemetry
//!
//! That runs in a simulated cluster. For a real one, append `--kubeconfig ~/.kube/config`. A
//! program serves the text of the registry over HTTP, or has an exporter of `opentelemetry-otlp` in
//! the place of the exporters here, which keep everything in memory.

#[path = "../cluster/mod.rs"]
mod cluster;
pub(crate) mod meter;
pub(crate) mod registry;
#[path = "../cluster/shop.rs"]
pub(crate) mod shop;

use std::collections::BTreeMap;
use std::error::Error;

use clap::Parser;
use cluster::Cluster;
use deltafifo_informer::shared_informer::{Notification, SharedInformerFactory};
use deltafifo_testkit::ApiServer;
use k8s_openapi::api::apps::v1::Deployment;
use opentelemetry::metrics::MeterProvider;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::metrics::data::{ResourceMetrics, ScopeMetrics};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::{Layer, SubscriberExt};

/// Passes the metrics of an informer to another library.
#[derive(Parser)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) cluster: Cluster,
    /// Pass metrics and spans to OpenTelemetry. Default: metrics to prometheus-client.
    #[arg(long)]
    open_telemetry: bool,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let Args { cluster, open_telemetry } = Args::parse();
    let simulated = shop::simulated();
    // A recorder must be installed before anything with metrics is created.
    if open_telemetry {
        let (metrics, spans) = (InMemoryMetricExporter::default(), InMemorySpanExporter::default());
        let meters = SdkMeterProvider::builder().with_periodic_exporter(metrics.clone()).build();
        metrics::set_global_recorder(meter::Bridge::new(meters.meter("deltafifo")))?;
        let traces = SdkTracerProvider::builder().with_simple_exporter(spans.clone()).build();
        let layer = tracing_opentelemetry::layer().with_tracer(traces.tracer("deltafifo"));
        let subscriber = tracing_subscriber::registry().with(layer.with_filter(LevelFilter::DEBUG));
        tracing::subscriber::set_global_default(subscriber)?;

        inform(&cluster, &simulated).await?;

        meters.force_flush()?;
        let exported = metrics.get_finished_metrics()?;
        let last = exported.last().into_iter();
        for metric in last.flat_map(ResourceMetrics::scope_metrics).flat_map(ScopeMetrics::metrics)
        {
            println!("{}", metric.name());
        }
        let mut by_name = BTreeMap::<_, usize>::new();
        for span in spans.get_finished_spans()? {
            *by_name.entry(span.name).or_default() += 1;
        }
        println!("{by_name:?}");
    } else {
        let bridge = registry::Bridge::default();
        metrics::set_global_recorder(bridge.clone())?;

        inform(&cluster, &simulated).await?;

        print!("{}", bridge.text()?);
    }
    Ok(())
}

/// Runs an informer of deployments until the example is stopped.
pub(crate) async fn inform(cluster: &Cluster, simulated: &ApiServer) -> Result<(), Box<dyn Error>> {
    let client = cluster.client().await?.unwrap_or_else(|| shop::client(simulated));
    let factory = SharedInformerFactory::new(client).name("example");
    let informer = factory.informer_with::<Deployment>(&(), &cluster.scope(), |informer| {
        informer.on_error(|error| eprintln!("{error}"))
    })?;
    informer.add_event_handler(|_: Notification<Deployment>| ())?;
    factory.start();
    cluster.stopped().await?;
    factory.shutdown().await;
    Ok(())
}
