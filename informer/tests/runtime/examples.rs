//! Tests that run the examples that end by themselves, on simulated clusters.

#[allow(dead_code)] // Its `main`.
#[path = "../../examples/controller.rs"]
mod controller;
#[allow(dead_code)]
#[path = "../../examples/deployments.rs"]
mod deployments;

use clap::Parser;

#[tokio::test(start_paused = true)]
async fn controller_example_updates_its_rosters() {
    controller::run(controller::Args::parse_from(["controller"])).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn deployments_example_runs_to_its_end() {
    deployments::run(deployments::Args::parse_from(["deployments", "--seconds", "60"]))
        .await
        .unwrap();
}
