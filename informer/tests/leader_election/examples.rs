//! Tests that run the examples on a simulated cluster, and check the rights in their manifests.

#[allow(dead_code)] // Its `main`.
#[path = "../../examples/leader_election.rs"]
mod leader_election;

#[allow(dead_code)] // Its `main`.
#[path = "../../examples/replicas.rs"]
mod replicas;

use clap::Parser;

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
