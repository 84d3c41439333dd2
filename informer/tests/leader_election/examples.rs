//! A test that runs the example on a simulated cluster.

#[allow(dead_code)] // Its `main`.
#[path = "../../examples/leader_election.rs"]
mod leader_election;

use clap::Parser;

#[tokio::test(start_paused = true)]
async fn leader_election_example_runs_to_its_end() {
    leader_election::run(leader_election::Args::parse_from(["leader_election"])).await.unwrap();
}
