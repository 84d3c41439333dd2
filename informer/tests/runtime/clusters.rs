//! Tests that run the examples that end by themselves, on simulated clusters, and check the rights
//! in their manifests.

#[allow(dead_code)] // Its `main`.
#[path = "../../examples/controller.rs"]
mod controller;
#[allow(dead_code)]
#[path = "../../examples/deployments.rs"]
mod deployments;
#[allow(dead_code)]
#[path = "../../examples/metrics/main.rs"]
mod exporter;
#[path = "../../examples/bridges/meter.rs"]
mod meter;
#[path = "../../examples/bridges/registry.rs"]
mod registry;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirEntry};
use std::io;
use std::path::Path;

use clap::Parser;
use deltafifo_informer::shared_informer::HandlerOptions;
use deltafifo_informer::{KubeListerWatcher, SharedInformer};
use deltafifo_testkit::{ApiServer, Resource};
use futures_util::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::core::{ApiResource, discovery::Scope};
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::data::{
    AggregatedMetrics, Metric, MetricData, ResourceMetrics, ScopeMetrics,
};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};
use serde_json::Value;

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
    deployments::run(deployments::Args::parse_from(["deployments", "--seconds", "60"]))
        .await
        .unwrap();
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
        let mut example = pin!(deployments::run(deployments::Args::parse_from(["deployments"])));
        // The first poll installs the handlers of signals.
        assert!(example.as_mut().now_or_never().is_none());
        raise(Signal::SIGTERM).unwrap();
        example.await.unwrap();
    }
}

/// Runs an informer of `K`, as an example that only reads does. Returns its server.
async fn read<K>(resource: Resource, namespace: Option<&str>) -> ApiServer
where
    K: deltafifo_informer::reflector::Decodable + kube::Resource<DynamicType = ()>,
    deltafifo_informer::KubeMeta: deltafifo::Meta<K>,
{
    let server = ApiServer::builder().resource(resource).build();
    let source = KubeListerWatcher::new::<K>(server.client(), &(), namespace);
    let informer = SharedInformer::<K>::builder(source).build().unwrap();
    let running = informer.clone();
    tokio::spawn(async move { running.run().await });
    server.wait_for_watchers(1).await;
    server
}

const OF_PODS: &str = include_str!("../../examples/deploy/pods.yaml");
const OF_METRICS: &str = include_str!("../../examples/deploy/metrics.yaml");

#[tokio::test(start_paused = true)]
async fn manifests_of_examples_that_only_read_have_the_rights_of_an_informer() {
    let server = read::<Pod>(Resource::pods(), None).await;
    deployed::check(OF_PODS, &server);
    deployed::check(include_str!("../../examples/deploy/compact.yaml"), &server);
    let types = ApiResource::erase::<Deployment>(&());
    let resource = Resource::built_in(types, Scope::Namespaced);
    let server = read::<Deployment>(resource, None).await;
    deployed::check(include_str!("../../examples/deploy/bridges.yaml"), &server);
    deployed::check(include_str!("../../examples/deploy/deployments.yaml"), &server);
    deployed::check(OF_METRICS, &server);
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
    let server = read::<Pod>(Resource::pods(), Some("shop")).await;
    deployed::check(&of_pods_in("shop"), &server);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "not granted")]
async fn role_in_another_namespace_grants_nothing() {
    let server = read::<Pod>(Resource::pods(), Some("shop")).await;
    deployed::check(&of_pods_in("default"), &server);
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

/// Runs an informer with metrics until its first list is complete and its watch has sent an event.
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
