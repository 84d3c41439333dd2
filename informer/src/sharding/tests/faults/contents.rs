//! Tests of Leases with unexpected contents.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kube::Client;
use kube::client::Body;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::rig::*;

#[tokio::test(start_paused = true)]
async fn versions_that_are_no_numbers_are_reported_each_minute() {
    let versions = Arc::new(AtomicUsize::new(0));
    let requests = versions.clone();
    let lists = tower::service_fn(move |_: http::Request<Body>| {
        let version = requests.fetch_add(1, Ordering::Relaxed);
        let list = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "LeaseList", "items": [],
            "metadata": { "resourceVersion": format!("v{version}") },
        });
        let list = Body::from(list.to_string().into_bytes());
        std::future::ready(Ok::<_, std::io::Error>(http::Response::new(list)))
    });
    let replica = Replica::start_with(builder_of(Client::new(lists, "default"), "a"));
    sleep(100 * SECOND).await;
    assert!(versions.load(Ordering::Relaxed) > 5);
    let [error, _] = &replica.reported()[..] else { panic!("{:?}", replica.reported()) };
    assert!(error.contains(r#"the resource version "v0" of lease shop/*"#), "{error}");
}

#[tokio::test(start_paused = true)]
async fn shard_with_an_unknown_holder_is_taken_after_the_lease_duration() {
    let server = server();
    let garbage = json!({
        "holderIdentity": "no member, ever", "leaseTransitions": 7, "leaseDurationSeconds": 20,
    });
    server.apply(lease("counter-shard-003", &garbage)).unwrap();
    let replica = Replica::start(&server, "a");
    let began = Instant::now();
    replica.owns(15).await;
    assert!(began.elapsed() < SECOND);
    assert!(replica.admit(3).is_none());
    replica.owns(16).await;
    assert!(began.elapsed() >= 20 * SECOND, "{:?}", began.elapsed());
    assert_eq!(replica.admit(3).unwrap().transitions(), 8);
}

#[tokio::test(start_paused = true)]
async fn objects_with_the_label_and_unknown_names_are_ignored_and_one_is_reported_each_minute() {
    let server = server();
    server.apply(lease("counter-shard-099", &json!(null))).unwrap();
    let replica = Replica::start(&server, "a");
    replica.owns(16).await;
    server.break_watches();
    for number in 0..100 {
        server.apply(lease(&format!("counter-shard-099-{number}"), &json!(null))).unwrap();
        sleep(SECOND).await;
    }
    let reported = replica.reported();
    let unknown: Vec<_> = reported.iter().filter(|error| error.contains("shard-099")).collect();
    assert_eq!(unknown.len(), 2, "{reported:?}");
    assert!(unknown[0].contains("lease shop/counter-shard-099 has the label"), "{reported:?}");
    sleep(61 * SECOND).await;
    server.delete(&leases(), "shop", "counter-shard-099-7").unwrap();
    sleep(SECOND).await;
    assert_eq!(replica.reported(), reported, "a deletion is no reason for a report");
    assert_eq!(replica.owns(16).await.len(), 16);
}
