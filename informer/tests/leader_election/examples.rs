//! Tests that run the examples on a simulated cluster, and check the rights in their manifests.

#[allow(dead_code)] // Its `main`.
#[path = "../../examples/leader_election.rs"]
mod leader_election;

#[allow(dead_code)] // Its `main`.
#[path = "../../examples/replicas.rs"]
mod replicas;

use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use deltafifo_informer::runtime::{Controller, controller::Action};
use deltafifo_informer::sharding::ShardGroup;
use deltafifo_informer::shared_informer::{Scope, SharedInformerFactory};
use deltafifo_testkit::{ApiServer, Resource};
use futures_util::StreamExt;
use k8s_openapi::api::{apps::v1::Deployment, coordination::v1::Lease, core::v1::Pod};
use kube::core::{ApiResource, discovery};
use tokio::sync::oneshot;

use super::deployed;

#[tokio::test(start_paused = true)]
async fn leader_election_example_runs_to_its_end() {
    let args = leader_election::Args::parse_from(["leader_election"]);
    let server = leader_election::simulated();
    leader_election::run(args, &server).await.unwrap();
    deployed::check(include_str!("../../examples/deploy/leader_election.yaml"), &server);
}

#[tokio::test(start_paused = true)]
async fn replicas_example_reconciles_every_map_and_runs_to_its_end() {
    let (args, server) = (replicas::Args::parse_from(["replicas"]), replicas::simulated());
    replicas::run(args, &server).await.unwrap();
    deployed::check(include_str!("../../examples/deploy/replicas.yaml"), &server);
}

/// Runs the first program of the page *Many replicas*, without its reconciler, which sends no
/// request.
#[tokio::test(start_paused = true)]
async fn manifest_of_the_page_has_the_rights_of_its_program() {
    let page = include_str!("../../../docs/src/many-replicas.md");
    let manifests = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next());
    let built_in = |api| Resource::built_in(api, discovery::Scope::Namespaced);
    let server = ApiServer::builder()
        .resource(built_in(ApiResource::erase::<Lease>(&())))
        .resource(built_in(ApiResource::erase::<Deployment>(&())))
        .resource(Resource::pods())
        .build();

    let factory = SharedInformerFactory::new(server.client());
    let deployments = factory.informer::<Deployment>(&Scope::all()).unwrap();
    let pods = factory.informer::<Pod>(&Scope::all()).unwrap();
    factory.start();
    let group = ShardGroup::builder(server.client(), "shop", "deployer")
        .identity("deployer-1")
        .shards(4)
        .beside_others()
        .build()
        .unwrap();
    let controller = Controller::from_informer(&deployments).owns_informer(&pods).sharded(&group);
    let controller = controller.run(
        |_, _| async { Ok::<_, kube::Error>(Action::await_change()) },
        |_, _, _| Action::requeue(Duration::from_secs(5)),
        Arc::new(()),
    );
    let controller = tokio::spawn(controller.for_each(|_| async {}));
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(group.run_until(async { drop(stopped.await) }));
    group.owned().wait_for(|owned| owned.len() == 4).await.unwrap();
    drop(stop);
    running.await.unwrap().unwrap();
    controller.abort();
    factory.shutdown().await;
    deployed::check(manifests.expect("the page has a manifest"), &server);
}
