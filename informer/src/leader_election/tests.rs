//! Tests of an elector whose wall clock is set.

use std::time::Duration;

use deltafifo_testkit::{ApiServer, Resource};
use k8s_openapi::api::coordination::v1::Lease;
use kube::core::{ApiResource, discovery::Scope};
use serde_json::json;

use super::{ElectionError, LeaderElector, LeaseLock, Term};
use crate::lease::WALL_STEP;

fn elector() -> LeaderElector {
    let leases = Resource::built_in(ApiResource::erase::<Lease>(&()), Scope::Namespaced);
    let server = ApiServer::builder().resource(leases).build();
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "namespace": "shop", "name": "counter" },
    });
    server.apply(lease).unwrap();
    let lock = LeaseLock::new("shop", "counter").identity("a");
    LeaderElector::builder(server.client(), lock).build().unwrap()
}

/// Sets the wall clock forward, which ends the term, and then back. Returns because it has noticed
/// the end of the term, like the work of a leader.
async fn work_during_two_steps(term: Term) {
    WALL_STEP.set(Duration::from_secs(11));
    assert!(!term.is_held());
    WALL_STEP.set(Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn term_that_a_step_of_the_wall_clock_has_ended_is_lost_after_a_step_back() {
    let lost = elector().run(work_during_two_steps).await;
    assert!(matches!(lost, Err(ElectionError::Expired { .. })), "{lost:?}");
}

#[tokio::test(start_paused = true)]
async fn elector_campaigns_again_after_steps_of_the_wall_clock() {
    let mut terms = 0;
    let elector = elector();
    let led = elector.run_again(|term| {
        terms += 1;
        let is_first = terms == 1;
        async move {
            if is_first {
                work_during_two_steps(term).await;
            }
        }
    });
    led.await.unwrap();
    assert_eq!(terms, 2);
}
