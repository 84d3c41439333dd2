//! Tests of an elector whose wall clock is set, and the objects that the simulation also uses.

use std::time::Duration;

use deltafifo_testkit::{ApiServer, Resource};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::core::{ApiResource, discovery::Scope};
use serde_json::{Value, json};

use super::{ElectionError, LeaderElector, LeaderElectorBuilder, LeaseLock, Term};
use crate::lease::set_wall_clock;

pub(super) fn leases() -> Resource {
    Resource::built_in(ApiResource::erase::<Lease>(&()), Scope::Namespaced)
}

pub(super) fn lease(spec: &Value) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "namespace": "shop", "name": "counter" },
        "spec": spec,
    })
}

/// Returns a server with the lease `shop/counter`, which has no `spec`, and with config maps.
pub(super) fn server() -> ApiServer {
    let server = ApiServer::builder().resource(leases()).resource(Resource::config_maps()).build();
    server.apply(lease(&json!(null))).unwrap();
    server
}

pub(super) fn builder_of(client: Client, name: &str) -> LeaderElectorBuilder {
    LeaderElector::builder(client, LeaseLock::new("shop", "counter").identity(name))
}

fn elector() -> LeaderElector {
    builder_of(server().client(), "a").build().unwrap()
}

/// Sets the wall clock forward, which ends the term, and then back. Returns because it has noticed
/// the end of the term, like the work of a leader.
async fn work_during_two_steps(term: Term) {
    set_wall_clock(0, Duration::from_secs(11));
    assert!(!term.is_held());
    set_wall_clock(0, Duration::ZERO);
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
