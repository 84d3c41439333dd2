//! Tests of the configuration of an elector.

use std::time::Duration;

use deltafifo_informer::leader_election::{
    BuildError, ElectionError, LeaderElector, LeaseLock, Term,
};
use kube::Client;
use kube::client::Body;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::rig::{HOUR, builder, builder_of, server};

#[tokio::test]
async fn durations_and_names_that_are_not_safe_are_refused() {
    let server = server();
    let seconds = Duration::from_secs;
    let of = |lease, renew, retry| {
        let builder = builder(&server, "a")
            .lease_duration(seconds(lease))
            .renew_deadline(seconds(renew))
            .retry_period(seconds(retry));
        builder.build().map(drop)
    };
    assert_eq!(of(15, 10, 2), Ok(()));
    assert_eq!(of(60, 10, 2), Ok(()));
    let (lease_duration, renew_deadline) = (seconds(10), seconds(10));
    assert_eq!(of(10, 10, 2), Err(BuildError::RenewDeadline { lease_duration, renew_deadline }));
    let (renew_deadline, retry_period) = (seconds(12), seconds(10));
    assert_eq!(of(15, 12, 10), Err(BuildError::RetryPeriod { renew_deadline, retry_period }));
    assert_eq!(of(15, 10, 0), Err(BuildError::NoRetryPeriod));
    assert_eq!(of(1 << 32, 10, 2), Err(BuildError::LeaseDuration(seconds(1 << 32))));

    let named = |lock| LeaderElector::builder(server.client(), lock).build().map(drop);
    assert_eq!(named(LeaseLock::new("shop", "counter")), Err(BuildError::NoIdentity));
    assert_eq!(named(LeaseLock::new("", "counter").identity("a")), Err(BuildError::NoLease));
    assert_eq!(named(LeaseLock::new("shop", "").identity("a")), Err(BuildError::NoLease));
}

#[tokio::test(start_paused = true)]
async fn renewals_through_a_client_of_their_own_are_not_delayed_by_writes_of_the_term() {
    let server = server();
    // It never answers.
    let blocked = tower::service_fn(|_: http::Request<Body>| {
        std::future::pending::<std::io::Result<http::Response<Body>>>()
    });
    let builder = builder_of(Client::new(blocked, "default"), "a").lease_client(server.client());
    let elector = builder.build().unwrap();
    let has_led = Notify::new();
    let lead = async |term: Term| {
        let client = term.client();
        let write = http::Request::post("/").body(Vec::new()).unwrap();
        let write = tokio::spawn(async move { client.request_text(write).await });
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(term.is_held() && !write.is_finished());
        has_led.notify_one();
    };
    // The elector waits for the answer to the write, so it does not end.
    tokio::select! {
        ended = timeout(HOUR, elector.run(lead)) => panic!("{ended:?}"),
        () = has_led.notified() => {}
    }
}

#[tokio::test(start_paused = true)]
async fn elector_runs_once_at_a_time() {
    let server = server();
    let elector = builder(&server, "a").build().unwrap();
    let same = elector.clone();
    let nested = async |_| assert_eq!(same.run(|_| async {}).await, Err(ElectionError::Running));
    elector.run(nested).await.unwrap();
    elector.run(|_| async {}).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn master_status_is_1_while_the_process_leads() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let server = server();
    let elector =
        metrics::with_local_recorder(&recorder, || builder(&server, "a").build().unwrap());
    let status = || {
        let metrics = snapshotter.snapshot().into_vec();
        let found = metrics.into_iter().find_map(|(key, _, _, value)| {
            let key = key.key();
            let is_of = key.name() == "leader_election_master_status"
                && key.labels().any(|label| (label.key(), label.value()) == ("name", "counter"));
            is_of.then_some(value)
        });
        let Some(DebugValue::Gauge(status)) = found else { panic!("no status") };
        status.into_inner()
    };
    assert!(status().abs() < 0.1);
    let another = || metrics::with_local_recorder(&recorder, || builder(&server, "b").build());
    let leads = async |_| {
        another().unwrap();
        assert!((status() - 1.0).abs() < 0.1, "an elector that does not run changes nothing");
    };
    elector.run(leads).await.unwrap();
    assert!(status().abs() < 0.1);
}
