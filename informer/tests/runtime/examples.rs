//! The examples that can end by themselves, in their made-up clusters.

#[allow(dead_code)] // Its `main`.
#[path = "../../examples/controller.rs"]
mod controller;
#[allow(dead_code)]
#[path = "../../examples/deployments.rs"]
mod deployments;

use clap::Parser;

#[tokio::test(start_paused = true)]
async fn the_controller_keeps_its_rosters_in_step() {
    controller::run(controller::Args::parse_from(["controller"])).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn deployments_are_there_within_half_a_minute_and_told_for_a_whole() {
    deployments::run(deployments::Args::parse_from(["deployments", "--seconds", "60"])).await.unwrap();
}
