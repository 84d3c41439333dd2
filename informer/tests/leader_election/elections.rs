//! Tests of candidates that hand a lease on.

use std::time::Duration;

use deltafifo_informer::leader_election::ElectionError;
use deltafifo_testkit::Verb;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::rig::{Replica, builder, count, holder, lease, leases, server};

#[tokio::test(start_paused = true)]
async fn free_lease_is_taken_at_once_and_renewed_each_third_of_its_duration() {
    let server = server();
    let began = Instant::now();
    let mut replica = Replica::start(&server, "a");
    let term = replica.term().await;
    assert_eq!((began.elapsed(), term.transitions()), (Duration::ZERO, 1));
    assert!(term.is_held() && term.identity().starts_with("a_"));
    let written = server.get(&leases(), "shop", "counter").unwrap();
    assert_eq!(written["metadata"]["labels"]["app"], "counter", "labels stay");
    assert_eq!(written["metadata"]["uid"], term.uid());
    assert_eq!(written["spec"]["leaseDurationSeconds"], 15);
    let acquired = written["spec"]["acquireTime"].clone();

    server.forget_requests();
    sleep(Duration::from_secs(52)).await;
    assert!(term.is_held());
    assert_eq!((count(&server, Verb::Update), server.requests().len()), (10, 10));
    let renewed = server.get(&leases(), "shop", "counter").unwrap();
    assert_eq!(renewed["spec"]["acquireTime"], acquired);
    assert!(renewed["spec"]["renewTime"].as_str() > written["spec"]["renewTime"].as_str());
}

#[tokio::test(start_paused = true)]
async fn waiting_candidate_sends_no_requests() {
    let server = server();
    let mut leader = Replica::start(&server, "a");
    let _term = leader.term().await;
    let standby = Replica::start(&server, "b");
    server.wait_for_watchers(2).await;
    sleep(Duration::from_secs(1)).await;
    server.forget_requests();
    sleep(Duration::from_secs(60)).await;
    let requests = server.requests().len();
    assert_eq!((requests, count(&server, Verb::Update)), (12, 12), "renewals of the leader");
    let seen = standby.elector.leader().borrow().clone();
    assert!(seen.is_some_and(|leader| leader.starts_with("a_")));
}

#[tokio::test(start_paused = true)]
async fn standby_leads_within_100_ms_of_a_release() {
    let server = server();
    let (mut first, mut standby) = (Replica::start(&server, "a"), Replica::start(&server, "b"));
    // Either candidate may win the first election.
    let term = tokio::select! {
        term = first.term() => term,
        term = standby.term() => {
            std::mem::swap(&mut first, &mut standby);
            term
        }
    };
    sleep(Duration::from_secs(7)).await;
    first.cancel();
    let released = Instant::now();
    term.lost().await;
    drop(term);
    let next = standby.term().await;
    assert!(released.elapsed() <= Duration::from_millis(100), "{:?}", released.elapsed());
    assert_eq!(next.transitions(), 2);
    assert_eq!(first.ended().await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn standby_leads_a_lease_duration_after_the_last_renewal_of_a_killed_leader() {
    let server = server();
    let mut leader = Replica::start(&server, "a");
    let term = leader.term().await;
    let mut standby = Replica::start(&server, "b");
    server.wait_for_watchers(2).await;
    sleep(Duration::from_secs(7)).await;
    leader.kill().await;
    assert!(!term.is_held(), "the term ends with its elector");
    let killed = Instant::now();
    let next = standby.term().await;
    // The last renewal was two seconds before. A candidate adds a random quarter of 2 s.
    let waited = killed.elapsed().as_secs_f32();
    assert!((13.0..=13.6).contains(&waited), "{waited}");
    assert_eq!((next.transitions(), holder(&server).as_str()), (2, "b"));
}

#[tokio::test(start_paused = true)]
async fn lease_that_does_not_exist_is_created_and_held_after_its_duration() {
    let server = server();
    server.delete(&leases(), "shop", "counter").unwrap();
    let began = Instant::now();
    let mut replica = Replica::start(&server, "a");
    let term = replica.term().await;
    let waited = began.elapsed().as_secs_f32();
    assert!((15.0..=15.6).contains(&waited), "{waited}");
    assert_eq!(term.transitions(), 1);
}

#[tokio::test(start_paused = true)]
async fn leases_that_others_made_are_taken_when_it_is_safe() {
    let others =
        json!({ "holderIdentity": "x", "leaseDurationSeconds": 60, "leaseTransitions": 7 });
    for (spec, seconds, transitions) in [
        (json!(null), 0.0, 1),
        (json!({}), 0.0, 1),
        (json!({ "holderIdentity": "", "leaseTransitions": 7 }), 0.0, 8),
        (json!({ "holderIdentity": "x" }), 15.0, 1),
        (
            json!({ "holderIdentity": "x", "leaseDurationSeconds": -5, "leaseTransitions": -9 }),
            15.0,
            1,
        ),
        (others, 60.0, 8),
        (json!({ "leaseTransitions": i32::MAX }), 0.0, i32::MAX),
    ] {
        let server = server();
        server.apply(lease(&spec)).unwrap();
        let began = Instant::now();
        let mut replica = Replica::start(&server, "a");
        let term = replica.term().await;
        let waited = began.elapsed().as_secs_f32();
        assert!((seconds..=seconds + 0.6).contains(&waited), "{spec}: {waited}");
        assert_eq!(term.transitions(), transitions, "{spec}");
    }
}

#[tokio::test(start_paused = true)]
async fn leader_of_a_deleted_lease_is_lost_and_the_standby_waits_for_its_duration() {
    let server = server();
    let mut leader = Replica::start(&server, "a");
    let term = leader.term().await;
    let mut standby = Replica::start(&server, "b");
    server.wait_for_watchers(2).await;
    let deleted = Instant::now();
    server.delete(&leases(), "shop", "counter").unwrap();
    term.lost().await;
    assert_eq!(deleted.elapsed(), Duration::ZERO, "the watch reports it");
    let lost = leader.ended().await.unwrap_err();
    assert!(matches!(lost, ElectionError::Replaced { .. }), "{lost}");
    let next = standby.term().await;
    assert!(deleted.elapsed() >= Duration::from_secs(15), "{:?}", deleted.elapsed());
    assert_ne!(next.uid(), term.uid());
    assert_eq!(next.transitions(), 1);
}

#[tokio::test(start_paused = true)]
async fn leader_that_sees_another_holder_stops_at_once() {
    let server = server();
    let mut leader = Replica::start(&server, "a");
    let term = leader.term().await;
    server.wait_for_watchers(1).await;
    server.apply(lease(&json!({ "holderIdentity": "x", "leaseTransitions": 2 }))).unwrap();
    let written = Instant::now();
    term.lost().await;
    assert_eq!(written.elapsed(), Duration::ZERO);
    assert_eq!(leader.elector.leader().borrow().as_deref(), Some("x"));
    let lost = leader.ended().await.unwrap_err();
    let expected = "lease shop/counter was lost: its holder is x; end the process, or campaign again with run_again";
    assert_eq!(lost.to_string(), expected);
}

#[tokio::test(start_paused = true)]
async fn leader_whose_work_returns_releases_the_lease() {
    let server = server();
    let elector = builder(&server, "a").build().unwrap();
    elector.run(|term| async move { assert!(term.is_held()) }).await.unwrap();
    assert_eq!(holder(&server), "");
    elector.run(|term| async move { assert_eq!(term.transitions(), 2) }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_release_on_cancel_the_lease_keeps_its_holder() {
    let server = server();
    let elector = builder(&server, "a").release_on_cancel(false).build().unwrap();
    elector.run(|_| async {}).await.unwrap();
    assert_eq!(holder(&server), "a");
}

#[tokio::test(start_paused = true)]
async fn candidate_that_is_cancelled_ends_at_once() {
    let server = server();
    let mut leader = Replica::start(&server, "a");
    let _term = leader.term().await;
    let mut standby = Replica::start(&server, "b");
    standby.cancel();
    assert_eq!(standby.ended().await, Ok(()));
    assert_eq!(holder(&server), "a");
}
