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

const CHANGES: [&str; 2] = ["became leader", "stopped leading"];

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
    let published = published(&server).await;
    for event in &published {
        assert_eq!(event.reason.as_deref(), Some("LeaderElection"));
        let regarding = event.regarding.clone().unwrap();
        assert_eq!(regarding.api_version.as_deref(), Some("coordination.k8s.io/v1"));
        assert_eq!(regarding.kind.as_deref(), Some("Lease"));
        assert_eq!(regarding.name.as_deref(), Some("counter"));
        assert_eq!(regarding.uid.as_deref(), Some(uid.as_str()));
    }
    let expected = CHANGES.map(|change| format!("{identity} {change}")).into();
    (published.into_iter().filter_map(|event| event.note).collect(), expected)
}

/// Returns the published events, the oldest first.
async fn published(server: &ApiServer) -> Vec<Event> {
    let published: Api<Event> = Api::namespaced(server.client(), "shop");
    let mut published = published.list(&ListParams::default()).await.unwrap().items;
    published.sort_by_key(|event| event.metadata.name.clone());
    published
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

#[tokio::test(start_paused = true)]
async fn second_term_of_a_candidate_has_events_of_its_own() {
    let server = server();
    let mut replica = Replica::start_with(recording(&server), true);
    let first = replica.term().await;
    let mut identities = vec![first.identity().to_owned()];
    server.fault(Fault::refused().on(Verb::Update).times(usize::MAX));
    first.lost().await;
    drop(first);
    server.clear_faults();
    let second = replica.term().await;
    identities.push(second.identity().to_owned());
    drop(second);
    replica.cancel();
    replica.ended().await.unwrap();
    let notes: Vec<_> =
        published(&server).await.into_iter().filter_map(|event| event.note).collect();
    let of_term = |identity: &String| CHANGES.map(|change| format!("{identity} {change}"));
    assert_eq!(notes, identities.iter().flat_map(of_term).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn unanswered_events_of_a_lost_term_do_not_delay_a_cancel() {
    let server = server();
    server.fault(Fault::silence().on(Verb::Create).times(usize::MAX));
    let mut replica = Replica::start_with(recording(&server), true);
    let term = replica.term().await;
    server.delete(&leases(), "shop", "counter").unwrap();
    term.lost().await;
    drop(term);
    let cancelled = Instant::now();
    replica.cancel();
    replica.ended().await.unwrap();
    assert_eq!(cancelled.elapsed(), Duration::ZERO);
}
