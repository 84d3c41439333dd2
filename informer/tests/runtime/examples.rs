//! Tests that run the examples that end by themselves, on simulated clusters, and check the rights
//! in their manifests.

#[allow(dead_code)] // Its `main`.
#[path = "../../examples/controller.rs"]
mod controller;
#[allow(dead_code)]
#[path = "../../examples/deployments.rs"]
mod deployments;

use clap::Parser;
use deltafifo_informer::{KubeListerWatcher, SharedInformer};
use deltafifo_testkit::{ApiServer, Resource};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::core::{ApiResource, discovery::Scope};

use super::deployed;

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
        include_str!("../../examples/deploy/deployments.yaml"),
        include_str!("../../examples/deploy/metrics.yaml"),
    ];
    let resource = Resource::built_in(types, Scope::Namespaced);
    check_reader::<Deployment>(resource, &deployments).await;
}
