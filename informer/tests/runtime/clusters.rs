//! Tests that run the examples that end by themselves, on simulated clusters, and check the rights
//! in their manifests.

#[allow(dead_code)] // Its `main`.
#[path = "../../examples/controller.rs"]
mod controller;
#[allow(dead_code)]
#[path = "../../examples/deployments.rs"]
mod deployments;
#[path = "../../examples/bridges/meter.rs"]
mod meter;
#[path = "../../examples/bridges/registry.rs"]
mod registry;

use std::collections::BTreeSet;

use clap::Parser;
use deltafifo_informer::shared_informer::HandlerOptions;
use deltafifo_informer::{KubeListerWatcher, SharedInformer};
use deltafifo_testkit::{ApiServer, Resource};
use futures_util::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::core::{ApiResource, discovery::Scope};
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::data::{Metric, ResourceMetrics, ScopeMetrics};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};

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

/// Runs an informer of `K`, as an example that only reads does, and checks manifests.
async fn check_reader<K>(resource: Resource, manifests: &[&str])
where
    K: deltafifo_informer::reflector::Decodable + kube::Resource<DynamicType = ()>,
    deltafifo_informer::KubeMeta: deltafifo::Meta<K>,
{
    let server = ApiServer::builder().resource(resource).build();
    let source = KubeListerWatcher::new::<K>(server.client(), &(), None);
    let informer = SharedInformer::<K>::builder(source).build().unwrap();
    let running = informer.clone();
    tokio::spawn(async move { running.run().await });
    server.wait_for_watchers(1).await;
    for manifests in manifests {
        deployed::check(manifests, &server);
    }
}

#[tokio::test(start_paused = true)]
async fn manifests_of_examples_that_only_read_have_the_rights_of_an_informer() {
    let pods = [
        include_str!("../../examples/deploy/pods.yaml"),
        include_str!("../../examples/deploy/compact.yaml"),
    ];
    check_reader::<Pod>(Resource::pods(), &pods).await;
    let types = ApiResource::erase::<Deployment>(&());
    let deployments = [
        include_str!("../../examples/deploy/bridges.yaml"),
        include_str!("../../examples/deploy/deployments.yaml"),
        include_str!("../../examples/deploy/metrics.yaml"),
    ];
    let resource = Resource::built_in(types, Scope::Namespaced);
    check_reader::<Deployment>(resource, &deployments).await;
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
        let bridge = meter::Bridge(meters.meter("deltafifo"));
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
