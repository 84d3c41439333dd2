//! Tests that run the examples on simulated clusters, and check the rights in their manifests.

#[allow(dead_code)] // Its `main`.
#[path = "../../examples/bridges/main.rs"]
mod bridges;
#[allow(dead_code)]
#[cfg(feature = "compact")]
#[path = "../../examples/compact.rs"]
mod compacted;
#[allow(dead_code)]
#[path = "../../examples/controller.rs"]
mod controller;
#[allow(dead_code)]
#[path = "../../examples/deployments.rs"]
mod deployments;
#[allow(dead_code)]
#[path = "../../examples/metrics/main.rs"]
mod exporter;
#[allow(dead_code)]
#[path = "../../examples/pods.rs"]
mod pods;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs::{self, DirEntry};
use std::io;
use std::path::Path;

use clap::Parser;
use deltafifo_informer::shared_informer::HandlerOptions;
use deltafifo_informer::{KubeListerWatcher, SharedInformer};
use deltafifo_testkit::{ApiServer, Resource};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::data::{
    AggregatedMetrics, Metric, MetricData, ResourceMetrics, ScopeMetrics,
};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};
use serde_json::Value;

use self::bridges::{meter, registry};
use super::deployed;
use super::rig::pod;

#[tokio::test(start_paused = true)]
async fn controller_example_updates_its_rosters() {
    let (args, server) = (controller::Args::parse_from(["controller"]), controller::simulated());
    controller::run(args, &server).await.unwrap();
    deployed::check(include_str!("../../examples/deploy/controller.yaml"), &server);
}

#[tokio::test(start_paused = true)]
async fn deployments_example_runs_to_its_end() {
    let args = deployments::Args::parse_from(["deployments", "--seconds", "60"]);
    deployments::run(args, &deployments::shop::simulated()).await.unwrap();
}

#[cfg(unix)]
mod signals {
    use std::pin::pin;

    use clap::Parser;
    use futures_util::FutureExt;
    use nix::sys::signal::{Signal, raise};

    use super::deployments;
    use crate::alone::is_alone;

    #[tokio::test]
    async fn sigterm_ends_an_example() {
        if !is_alone(&(module_path!().to_owned() + "::sigterm_ends_an_example")) {
            return;
        }
        let args = deployments::Args::parse_from(["deployments"]);
        let server = deployments::shop::simulated();
        let mut example = pin!(deployments::run(args, &server));
        // The first poll installs the handlers of signals.
        assert!(example.as_mut().now_or_never().is_none());
        raise(Signal::SIGTERM).unwrap();
        example.await.unwrap();
    }
}

/// Runs an example until it watches the simulated cluster.
async fn run_to_watch(
    example: impl Future<Output = Result<(), Box<dyn Error>>>,
    server: &ApiServer,
) {
    tokio::select! {
        ended = example => panic!("the example has ended: {ended:?}"),
        () = server.wait_for_watchers(1) => {}
    }
}

#[tokio::test(start_paused = true)]
async fn manifest_of_deployments_has_the_rights_of_the_example() {
    let args = deployments::Args::parse_from(["deployments"]);
    let server = deployments::shop::simulated();
    run_to_watch(deployments::run(args, &server), &server).await;
    deployed::check(include_str!("../../examples/deploy/deployments.yaml"), &server);
}

#[tokio::test(start_paused = true)]
async fn manifest_of_bridges_has_the_rights_of_the_example() {
    let args = bridges::Args::parse_from(["bridges"]);
    let server = bridges::shop::simulated();
    run_to_watch(bridges::inform(&args.cluster, &server), &server).await;
    deployed::check(include_str!("../../examples/deploy/bridges.yaml"), &server);
}

const OF_METRICS: &str = include_str!("../../examples/deploy/metrics.yaml");

#[tokio::test(start_paused = true)]
async fn manifest_of_metrics_has_the_rights_of_the_example() {
    let args = exporter::Args::parse_from(["metrics"]);
    let server = exporter::shop::simulated();
    run_to_watch(exporter::inform(&args.cluster, &server), &server).await;
    deployed::check(OF_METRICS, &server);
}

#[cfg(feature = "compact")]
#[tokio::test]
async fn compact_example_runs_to_its_end() {
    let args = compacted::Args::parse_from(["compact", "--pods", "100"]);
    let server = compacted::simulated();
    compacted::run(args, &server).await.unwrap();
    deployed::check(include_str!("../../examples/deploy/compact.yaml"), &server);
}

const OF_PODS: &str = include_str!("../../examples/deploy/pods.yaml");

/// Runs the example `pods` until it watches the simulated cluster.
async fn watch_pods(arguments: &[&str]) -> ApiServer {
    let args = pods::Args::parse_from(["pods"].iter().chain(arguments));
    let server = pods::simulated();
    run_to_watch(Box::pin(pods::run(args, &server)), &server).await;
    server
}

#[tokio::test(start_paused = true)]
async fn manifest_of_pods_has_the_rights_of_the_example() {
    deployed::check(OF_PODS, &watch_pods(&[]).await);
}

/// Returns the names of the entries of a folder of this crate, without their extensions.
fn names(folder: &str) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let name = |entry: io::Result<DirEntry>| {
        entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()
    };
    fs::read_dir(folder).unwrap().map(name).collect()
}

#[test]
fn each_example_has_a_manifest_or_a_reason_why_it_has_none() {
    let readme = include_str!("../../examples/deploy/README.md");
    let (with, without) = readme.split_once("These examples have no manifest:").unwrap();
    let manifests = names("examples/deploy");
    let mut examples = names("examples");
    // The manifests, and a module that examples share.
    assert!(examples.remove("deploy") && examples.remove("cluster"));
    for example in examples {
        let has_manifest = manifests.contains(&example);
        assert_eq!(with.contains(&format!("`{example}`")), has_manifest, "{example}");
        assert_eq!(without.contains(&format!("- `{example}` ")), !has_manifest, "{example}");
    }
}

/// Returns the manifests of the example `pods` with its rights in one namespace only.
fn of_pods_in(namespace: &str) -> String {
    let name = "  name: deltafifo-pods\nr";
    let placed = format!("  name: deltafifo-pods\n  namespace: {namespace}\nr");
    OF_PODS.replace("ClusterRole", "Role").replace(name, &placed)
}

#[tokio::test(start_paused = true)]
async fn role_in_the_namespace_of_the_requests_grants_them() {
    deployed::check(&of_pods_in("shop"), &watch_pods(&["--namespace", "shop"]).await);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "not granted")]
async fn role_in_another_namespace_grants_nothing() {
    deployed::check(&of_pods_in("default"), &watch_pods(&["--namespace", "shop"]).await);
}

#[test]
fn metrics_of_a_pod_are_served_at_the_port_of_its_manifest() {
    let documents: Vec<Value> = serde_saphyr::from_multiple(OF_METRICS).unwrap();
    let template =
        &documents.iter().find(|one| one["kind"] == "Deployment").unwrap()["spec"]["template"];
    let container = &template["spec"]["containers"][0];
    let arguments = container["args"].as_array().unwrap().iter().filter_map(Value::as_str);
    let listen = exporter::Args::parse_from(["metrics"].into_iter().chain(arguments)).listen;
    assert!(listen.ip().is_unspecified(), "probes and Prometheus reach {listen}");
    assert_eq!(container["ports"][0]["containerPort"], listen.port());
    assert_eq!(container["readinessProbe"]["httpGet"]["port"], container["ports"][0]["name"]);
    let scraped = &template["metadata"]["annotations"]["prometheus.io/port"];
    assert_eq!(*scraped, listen.port().to_string());
}

/// Runs an informer with metrics until its initial list is complete and its watch has sent an
/// event.
async fn inform() {
    let server = ApiServer::builder().resource(Resource::pods()).build();
    let source = KubeListerWatcher::new::<Pod>(server.client(), &(), None);
    let informer = SharedInformer::<Pod>::builder(source).name("bridged").build().unwrap();
    let mut notifications = informer.subscribe(HandlerOptions::new()).unwrap();
    let running = informer.clone();
    tokio::spawn(async move { running.run().await });
    informer.wait_for_sync().await.unwrap();
    server.wait_for_watchers(1).await;
    server.apply(pod("p", &[])).unwrap();
    assert!(notifications.next().await.is_some());
    informer.stop().await;
}

#[tokio::test]
async fn bridge_to_a_registry_has_all_metrics_with_their_labels() {
    let bridge = registry::Bridge::default();
    {
        let _recorder = metrics::set_default_local_recorder(&bridge);
        inform().await;
    }
    let text = bridge.text().unwrap();
    for part in
        ["# TYPE reflector_lists counter", "reflector_lists_total{", "name=\"bridged\"", "_bucket{"]
    {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

#[tokio::test]
async fn bridge_to_a_meter_exports_the_names_that_the_registry_has() {
    let exporter = InMemoryMetricExporter::default();
    let meters = SdkMeterProvider::builder().with_periodic_exporter(exporter.clone()).build();
    {
        let bridge = meter::Bridge::new(meters.meter("deltafifo"));
        let _recorder = metrics::set_default_local_recorder(&bridge);
        inform().await;
    }
    meters.force_flush().unwrap();
    let finished = exporter.get_finished_metrics().unwrap();
    let scopes = finished.iter().flat_map(ResourceMetrics::scope_metrics);
    let names: BTreeSet<_> = scopes.flat_map(ScopeMetrics::metrics).map(Metric::name).collect();
    for name in ["reflector_lists_total", "reflector_list_duration_seconds"] {
        assert!(names.contains(name), "no {name} in {names:?}");
    }
}

/// Changes a gauge and a counter through two handles of the same key each.
fn change_twice() {
    let [first, second] = [(); 2].map(|()| metrics::gauge!("depth", "name" => "shared"));
    first.increment(5.0);
    second.increment(3.0);
    first.decrement(1.0);
    let [first, second] = [(); 2].map(|()| metrics::counter!("adds_total", "name" => "shared"));
    first.absolute(5);
    second.absolute(7);
    first.absolute(6);
    second.increment(1);
}

#[test]
fn handles_of_one_key_change_one_metric_of_the_registry() {
    let bridge = registry::Bridge::default();
    metrics::with_local_recorder(&bridge, change_twice);
    let text = bridge.text().unwrap();
    for line in ["depth{name=\"shared\"} 7.0", "adds_total{name=\"shared\"} 8"] {
        assert!(text.lines().any(|one| one == line), "no {line} in {text}");
    }
}

#[test]
fn handles_of_one_key_change_one_instrument_of_the_meter() {
    let exporter = InMemoryMetricExporter::default();
    let meters = SdkMeterProvider::builder().with_periodic_exporter(exporter.clone()).build();
    let bridge = meter::Bridge::new(meters.meter("deltafifo"));
    metrics::with_local_recorder(&bridge, change_twice);
    meters.force_flush().unwrap();
    let finished = exporter.get_finished_metrics().unwrap();
    let scopes = finished.iter().flat_map(ResourceMetrics::scope_metrics);
    let mut values = BTreeMap::new();
    for metric in scopes.flat_map(ScopeMetrics::metrics) {
        let value = match metric.data() {
            AggregatedMetrics::F64(MetricData::Gauge(gauge)) => {
                gauge.data_points().map(|point| point.value().to_string()).collect::<Vec<_>>()
            }
            AggregatedMetrics::U64(MetricData::Sum(sum)) => {
                sum.data_points().map(|point| point.value().to_string()).collect()
            }
            other => panic!("{other:?}"),
        };
        values.insert(metric.name(), value);
    }
    let expected = [("adds_total", vec!["8".to_owned()]), ("depth", vec!["7".to_owned()])];
    assert_eq!(values, BTreeMap::from(expected));
}
