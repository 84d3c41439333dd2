//! What metrics cost: how many events a second an informer takes from its watch to a handler, without a name, which tells nothing;
//! with one, where no recorder is installed; and with the recorder of metrics-exporter-prometheus.
//!
//!     cargo run --release -p deltafifo-bench --features peers --example metrics_cost
//!
//! The ways take turns in one process, and events are ready as JSON, so that nothing but the chain is measured.

use std::error::Error;
use std::time::Instant;

use clap::Parser;
use deltafifo_informer::SharedInformer;
use deltafifo_informer::lister_watcher::{EventType, Listed, PageMeta, RawEvent, Scripted};
use deltafifo_informer::metrics::{ALL, Kind};
use deltafifo_informer::shared_informer::{Buffer, HandlerOptions, Notification};
use futures_util::stream::{StreamExt, iter, pending};
use k8s_openapi::api::core::v1::ConfigMap;
use metrics::{NoopRecorder, Recorder, with_local_recorder};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use tokio::sync::oneshot;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure what metrics cost.
#[derive(Parser)]
struct Args {
    /// How many events
    #[arg(long, default_value_t = 300_000)]
    events: u64,
    /// Of how many objects
    #[arg(long, default_value_t = 1_000)]
    objects: u64,
    /// How often each way is measured
    #[arg(long, default_value_t = 7)]
    rounds: usize,
}

/// Seconds, as `informer/examples/metrics` has them.
const BUCKETS: [f64; 14] = [1e-5, 1e-4, 1e-3, 5e-3, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0, 600.0];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let Args { events, objects, rounds } = Args::parse();
    let mut builder = PrometheusBuilder::new();
    for metric in ALL.iter().filter(|metric| metric.kind == Kind::Histogram) {
        builder = builder.set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), &BUCKETS)?;
    }
    let prometheus = builder.build_recorder();
    let numbered = |number| RawEvent { kind: EventType::Modified, object: object(number, objects).into() };
    let script: Vec<_> = (1..=events).map(numbered).collect();
    let ways: [(&str, &str, &(dyn Recorder + Sync)); 3] =
        [("no name", "", &NoopRecorder), ("no recorder", "cost", &NoopRecorder), ("prometheus", "cost", &prometheus)];
    let mut rates = ways.map(|_| Vec::new());
    for _ in 0..rounds {
        for ((_, name, recorder), rates) in ways.iter().zip(&mut rates) {
            rates.push(measure(&script, objects, name, *recorder).await?);
            // What an exporter does every few seconds: else all that was recorded would wait.
            prometheus.handle().run_upkeep();
        }
    }
    println!("events a second, of {rounds} rounds: the median, the least, the most");
    for ((way, ..), rates) in ways.iter().zip(&mut rates) {
        rates.sort_by(f64::total_cmp);
        println!("{way:<12} {:8.0} {:8.0} {:8.0}", rates[rounds / 2], rates[0], rates[rounds - 1]);
    }
    Ok(())
}

/// Events a second, from the watch to the handler's call.
async fn measure(
    script: &[RawEvent],
    objects: u64,
    name: &str,
    recorder: &(dyn Recorder + Sync),
) -> Result<f64, Box<dyn Error>> {
    let page = PageMeta { resource_version: "1".to_owned(), ..PageMeta::default() };
    let items = (0..objects).map(|number| object(number, objects).into()).collect();
    let (begin, start) = oneshot::channel();
    let events: Vec<_> = script.iter().cloned().map(Ok).collect();
    let watch = pending().take_until(start).chain(iter(events)).chain(pending()).boxed();
    let source = Scripted::new().list([Ok(Listed::Meta(page)), Ok(Listed::Items(items))]).watch_stream(watch);
    let (done, is_done) = oneshot::channel();
    let (mut left, mut done) = (script.len(), Some(done));
    let count = move |told: Notification<ConfigMap>| {
        left -= usize::from(matches!(told, Notification::Updated { .. }));
        if let Some(done) = done.take_if(|_| left == 0) {
            // Whoever waits for it is there.
            let _ = done.send(());
        }
    };
    // Every event, or a handler that is behind would be told less.
    let options = HandlerOptions::new().name("counts").buffer(Buffer::HoldBack(1_000));
    let (informer, handler) = with_local_recorder(recorder, || {
        let builder = SharedInformer::<ConfigMap>::builder(source).name(name);
        let informer = builder.reflector(|reflector| reflector.watch_list(false)).build()?;
        let handler = informer.add_event_handler_with(options, count)?;
        Ok::<_, Box<dyn Error>>((informer, handler))
    })?;
    let running = tokio::spawn({
        let informer = informer.clone();
        async move { informer.run().await }
    });
    handler.wait_for_sync().await?;
    let from = Instant::now();
    begin.send(()).map_err(|()| "nobody watches")?;
    is_done.await?;
    let rate = f64::from(u32::try_from(script.len())?) / from.elapsed().as_secs_f64();
    informer.stop().await;
    running.await??;
    Ok(rate)
}

fn object(number: u64, objects: u64) -> String {
    let (name, version) = (number % objects, number + 2);
    format!(
        r#"{{"metadata":{{"namespace":"shop","name":"map-{name}","resourceVersion":"{version}"}},"data":{{"number":"{number}"}}}}"#
    )
}
