//! Tests of the events that an elector publishes.

use std::time::Duration;

use deltafifo_informer::leader_election::{LeaderElectorBuilder, Term};
use deltafifo_testkit::{ApiServer, Fault, Resource, Verb, status};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use kube::core::{ApiResource, discovery::Scope};
use kube::runtime::events::{Recorder, Reporter};
use serde_json::json;
use tokio::time::Instant;

use super::rig::{Replica, builder, lease, leases};

fn events() -> Resource {
    Resource::built_in(ApiResource::erase::<Event>(&()), Scope::Namespaced)
}

fn server() -> ApiServer {
    let server = ApiServer::builder().resource(leases()).resource(events()).build();
    server.apply(lease(&json!(null))).unwrap();
    server
}

fn recording(server: &ApiServer) -> LeaderElectorBuilder {
    let reporter = Reporter { controller: "counter".to_owned(), instance: Some("a".to_owned()) };
    builder(server, "a").event_recorder(Recorder::new(server.client(), reporter))
}

/// Starts a replica, waits until it leads, and ends it with `end`. Returns the notes of the
/// published events, and the notes that are expected.
async fn notes(end: impl AsyncFnOnce(&ApiServer, Replica, Term)) -> (Vec<String>, Vec<String>) {
    let server = server();
    let mut replica = Replica::start_with(recording(&server), false);
    let term = replica.term().await;
    let (identity, uid) = (term.identity().to_owned(), term.uid().to_owned());
    end(&server, replica, term).await;
    let published: Api<Event> = Api::namespaced(server.client(), "shop");
    let mut published = published.list(&ListParams::default()).await.unwrap().items;
    published.sort_by_key(|event| event.metadata.name.clone());
    for event in &published {
        assert_eq!(event.reason.as_deref(), Some("LeaderElection"));
        let regarding = event.regarding.clone().unwrap();
        assert_eq!(regarding.api_version.as_deref(), Some("coordination.k8s.io/v1"));
        assert_eq!(regarding.kind.as_deref(), Some("Lease"));
        assert_eq!(regarding.name.as_deref(), Some("counter"));
        assert_eq!(regarding.uid.as_deref(), Some(uid.as_str()));
    }
    let expected = ["became leader", "stopped leading"];
    let expected = expected.map(|change| format!("{identity} {change}")).into();
    (published.into_iter().filter_map(|event| event.note).collect(), expected)
}

#[tokio::test(start_paused = true)]
async fn cancelled_leader_publishes_its_begin_and_its_end() {
    let (notes, expected) = notes(async |_, mut replica, term| {
        drop(term);
        replica.cancel();
        replica.ended().await.unwrap();
    })
    .await;
    assert_eq!(notes, expected);
}

#[tokio::test(start_paused = true)]
async fn leader_that_loses_its_lease_publishes_its_end() {
    let (notes, expected) = notes(async |server, replica, term| {
        server.delete(&leases(), "shop", "counter").unwrap();
        assert!(replica.ended().await.is_err());
        assert!(!term.is_held());
    })
    .await;
    assert_eq!(notes, expected);
}

#[tokio::test(start_paused = true)]
async fn candidate_that_does_not_lead_publishes_nothing() {
    let server = server();
    let mut leader = Replica::start(&server, "b");
    let _term = leader.term().await;
    let mut standby = Replica::start_with(recording(&server), false);
    server.wait_for_watchers(2).await;
    standby.cancel();
    standby.ended().await.unwrap();
    assert!(server.requests().iter().all(|request| request.verb() != Verb::Create));
}

#[tokio::test(start_paused = true)]
async fn refused_and_unanswered_events_do_not_end_the_term() {
    let server = server();
    server.fault(Fault::status(status::forbidden(&events())).on(Verb::Create));
    server.fault(Fault::silence().on(Verb::Create));
    let mut replica = Replica::start_with(recording(&server), false);
    let term = replica.term().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(term.is_held());
    drop(term);
    replica.cancel();
    let cancelled = Instant::now();
    replica.ended().await.unwrap();
    assert_eq!(cancelled.elapsed(), Duration::from_secs(2), "the retry period");
}
