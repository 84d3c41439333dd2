//! Tests that run the examples on a simulated cluster.

#[allow(dead_code)] // Its `main`.
#[path = "../../examples/leader_election.rs"]
mod leader_election;

#[allow(dead_code)] // Its `main`.
#[path = "../../examples/replicas.rs"]
mod replicas;

use clap::Parser;

#[tokio::test(start_paused = true)]
async fn leader_election_example_runs_to_its_end() {
    leader_election::run(leader_election::Args::parse_from(["leader_election"])).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn replicas_example_reconciles_every_map_and_runs_to_its_end() {
    replicas::run(replicas::Args::parse_from(["replicas"])).await.unwrap();
}
