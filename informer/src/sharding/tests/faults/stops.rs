//! Tests of members that stop while the server does not answer or after their Lease is deleted, and
//! of runs that nothing polls.

use std::time::Duration;

use deltafifo_testkit::{Fault, Verb};
use metrics_util::debugging::DebuggingRecorder;
use tokio::time::{Instant, sleep};
use tracing::subscriber::set_default;
use tracing_subscriber::layer::SubscriberExt;

use super::rig::*;
use crate::sharding::tests::messages::Messages;

const LOST: &str = "shard_group_lost_memberships_total";

#[tokio::test(start_paused = true)]
async fn stop_without_a_server_ends_after_the_deadline_and_counts_as_a_loss() {
    let recorder = DebuggingRecorder::new();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let messages = Messages::default();
    let _messages = set_default(tracing_subscriber::registry().with(messages.clone()));
    let server = server();
    let mut replica = Replica::start(&server, "a");
    replica.owns(16).await;
    server.fault(Fault::silence().times(usize::MAX));
    let began = Instant::now();
    replica.stop();
    assert_eq!(replica.ended().await, Ok(()));
    assert!(began.elapsed() <= 12 * SECOND, "{:?}", began.elapsed());
    assert_eq!(counter(&recorder, LOST), Some(1));
    let logged = messages.0.lock();
    let expected = "this member has lost its lease and its shards; other members take";
    let warnings = logged.iter().filter(|message| message.starts_with(expected));
    assert_eq!(warnings.count(), 1, "{:?}", *logged);
}

#[tokio::test(start_paused = true)]
async fn member_whose_lease_is_deleted_before_or_while_it_stops_counts_as_lost() {
    for stops_first in [false, true] {
        let recorder = DebuggingRecorder::new();
        let _recorder = metrics::set_default_local_recorder(&recorder);
        let server = server();
        let mut replica = Replica::start(&server, "a");
        replica.owns(16).await;
        let permit = replica.admit(0).unwrap();
        let member = members(&server).await.remove(0);
        if stops_first {
            replica.stop();
            replica.owns(0).await;
        }
        server.delete(&leases(), "shop", &name_of(&member)).unwrap();
        lost(&permit).await;
        if !stops_first {
            replica.stop();
        }
        drop(permit);
        assert_eq!(replica.ended().await, Ok(()));
        assert_eq!(counter(&recorder, LOST), Some(1), "stops first: {stops_first}");
    }
}

#[tokio::test(start_paused = true)]
async fn member_that_has_released_its_shards_is_not_lost_although_its_last_request_fails() {
    for fails in [false, true] {
        let recorder = DebuggingRecorder::new();
        let _recorder = metrics::set_default_local_recorder(&recorder);
        let server = server();
        let mut replica = Replica::start(&server, "a");
        replica.owns(16).await;
        if fails {
            server.fault(Fault::silence().on(Verb::Delete).times(usize::MAX));
        }
        replica.stop();
        assert_eq!(replica.ended().await, Ok(()));
        assert_eq!(counter(&recorder, LOST), Some(0), "fails: {fails}");
    }
}

#[tokio::test(start_paused = true)]
async fn check_finds_work_that_outlives_a_dropped_run() {
    let recorder = DebuggingRecorder::new();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let server = server();
    let replica = Replica::start(&server, "a");
    replica.owns(16).await;
    let permit = replica.admit(0).unwrap();
    let group = replica.group.clone();
    replica.kill().await;
    sleep(14 * SECOND).await;
    assert!(group.check(Duration::ZERO).is_ok());
    sleep(2 * SECOND).await;
    let unhealthy = group.check(Duration::ZERO).unwrap_err().to_string();
    assert!(unhealthy.contains("shop/counter expired"), "{unhealthy}");
    drop(permit);
    assert!(group.check(Duration::ZERO).is_ok());
    assert_eq!(gauge(&recorder, "shard_group_draining_shards"), Some(0.0));
}

#[tokio::test(start_paused = true)]
async fn check_fails_if_the_run_of_an_owner_is_not_polled() {
    let group = builder_of(server().client(), "a").build().unwrap();
    let mut run = std::pin::pin!(group.run_until(std::future::pending()));
    let mut owned = group.owned();
    tokio::select! {
        ended = &mut run => panic!("{ended:?}"),
        owned = owned.wait_for(|owned| owned.len() == 16) => assert!(owned.is_ok()),
    }
    sleep(14 * SECOND).await;
    assert!(group.check(Duration::ZERO).is_ok());
    sleep(2 * SECOND).await;
    assert!(group.check(Duration::ZERO).is_err());
    tokio::select! {
        ended = run => panic!("{ended:?}"),
        () = sleep(SECOND) => assert!(group.check(Duration::ZERO).is_ok()),
    }
}
