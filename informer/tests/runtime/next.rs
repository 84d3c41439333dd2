//! Tests of the time of the next reconcile of an object, after a success, an error or a panic.

use std::sync::Arc;
use std::time::Duration;

use deltafifo_informer::runtime::controller::Action;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::Instant;

use super::rig::{Failed, controller, map, poll, poll_idle, poll_with, server};

#[tokio::test(start_paused = true)]
async fn requeued_object_is_reconciled_after_its_delay_or_a_change() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let minute = Duration::from_secs(60);
    let mut polled =
        poll(controller(&server), move |_, _| async move { Ok(Action::requeue(minute)) });
    polled.next().await;
    for _ in 0..3 {
        let began = Instant::now();
        assert_eq!(polled.next().await, "a");
        let waited = began.elapsed();
        assert!((minute..minute + Duration::from_millis(2)).contains(&waited), "{waited:?}");
    }
    server.wait_for_watchers(1).await;
    let began = Instant::now();
    server.apply(map("a", "2")).unwrap();
    assert_eq!(polled.next().await, "a");
    assert!(began.elapsed() < minute, "a change does not wait");
}

#[tokio::test(start_paused = true)]
async fn await_change_reconciles_nothing_by_itself() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let mut polled = poll_idle(controller(&server));
    polled.next().await;
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert!(polled.at_rest().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn error_policy_sets_the_retry_delay() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let mut calls = 0;
    let reconcile = move |_: Arc<ConfigMap>, _| {
        calls += 1;
        let fails = calls < 3;
        async move { if fails { Err(Failed("no room")) } else { Ok(Action::await_change()) } }
    };
    let mut polled = poll_with(controller(&server), reconcile, |error| {
        assert_eq!(error.to_string(), "no room");
        Action::requeue(Duration::from_secs(7))
    });
    let began = Instant::now();
    for _ in 0..2 {
        assert_eq!(
            polled.next().await,
            "reconciler for object ConfigMap.v1./a.shop failed: no room"
        );
    }
    assert_eq!(polled.next().await, "a");
    let waited = began.elapsed().as_secs();
    assert!((14..15).contains(&waited), "{waited}");
}

#[tokio::test(start_paused = true)]
async fn panicking_reconciler_is_reported_and_retried() {
    let server = server();
    for name in ["a", "b"] {
        server.apply(map(name, "1")).unwrap();
    }
    let mut panics = 0;
    let mut polled = poll(controller(&server), move |object, _| {
        let is_a = object.metadata.name.as_deref() == Some("a");
        panics += usize::from(is_a);
        let panics = is_a && panics <= 2;
        async move {
            assert!(!panics, "a bug");
            Ok(Action::await_change())
        }
    });
    let panicked =
        "runner error: reconciler or deletion handler panicked for ConfigMap.v1./a.shop: a bug";
    assert_eq!(polled.sorted(4).await, ["a", "b", panicked, panicked]);
}

#[tokio::test(start_paused = true)]
async fn repeated_panics_back_off_until_a_success() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let (sender, mut tried) = tokio::sync::mpsc::unbounded_channel();
    let mut times = 0;
    let _polled = poll(controller(&server), move |_, _| {
        times += 1;
        sender.send(Instant::now()).unwrap();
        let panics = times != 4;
        async move {
            assert!(!panics, "a bug");
            Ok(Action::requeue(Duration::from_secs(60)))
        }
    });
    let mut waited = Vec::new();
    let mut before = tried.recv().await.unwrap();
    for _ in 0..6 {
        let now = tried.recv().await.unwrap();
        waited.push((now - before).as_millis());
        before = now;
    }
    // A timer may be late by up to a millisecond.
    for (waited, expected) in waited.iter().zip([5, 10, 20, 60_000, 5, 10]) {
        assert!((expected..=expected + 2).contains(waited), "{waited} of {expected} ms");
    }
}
