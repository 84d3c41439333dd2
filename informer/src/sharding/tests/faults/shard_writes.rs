//! Tests of writes of shards' Leases that the server refuses, although it accepts those of members.

use deltafifo_testkit::{ApiServer, Fault, Request, Verb, status};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::rig::*;

fn is_of_a_shard(request: &Request) -> bool {
    request.path().contains("/counter-shard-")
}

fn refuse_writes_of_shards(server: &ApiServer) {
    let refusal = Fault::status(status::forbidden(&leases())).on(Verb::Update);
    server.fault(refusal.when(is_of_a_shard).times(usize::MAX));
}

fn writes_of_shards(server: &ApiServer) -> usize {
    server.requests().iter().filter(|request| is_of_a_shard(request)).count()
}

#[tokio::test(start_paused = true)]
async fn claims_that_are_refused_are_repeated_less_and_less_often() {
    let server = server();
    refuse_writes_of_shards(&server);
    let replica = Replica::start(&server, "a");
    sleep(600 * SECOND).await;
    let claims = writes_of_shards(&server);
    assert!((10 * 16..20 * 16).contains(&claims), "{claims} claims of 16 shards");
    assert_eq!(replica.reported().len(), 10, "one a minute: {:?}", replica.reported());
    server.clear_faults();
    sleep(61 * SECOND).await;
    assert_eq!(replica.owns(16).await.len(), 16);
    // After that, the pauses are short again.
    refuse_writes_of_shards(&server);
    server.forget_requests();
    server.apply(lease(&shard_lease(3), &json!(null))).unwrap();
    sleep(10 * SECOND).await;
    assert_eq!(writes_of_shards(&server), 3, "after 0, 2 and 6 s");
}

#[tokio::test(start_paused = true)]
async fn releases_that_are_refused_are_repeated_each_retry_period() {
    let server = server();
    let mut replica = Replica::start(&server, "a");
    replica.owns(16).await;
    refuse_writes_of_shards(&server);
    replica.stop();
    sleep(15 * SECOND).await;
    server.clear_faults();
    let allowed = Instant::now();
    assert_eq!(replica.ended().await, Ok(()));
    assert!(allowed.elapsed() < 3 * SECOND, "{:?}", allowed.elapsed());
    assert_eq!(holder(&server, 3), "");
}
