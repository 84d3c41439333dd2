//! Tests of Leases without the label of the group.

use std::time::Duration;

use deltafifo_testkit::{ApiServer, Fault, Verb, status};
use tokio::time::{Instant, sleep};

use super::rig::*;

#[tokio::test(start_paused = true)]
async fn lease_of_the_same_name_without_the_label_is_reported_each_minute_until_it_is_deleted() {
    let server = server();
    apply_foreign(&server, "counter");
    let replica = Replica::start(&server, "a");
    sleep(100 * SECOND).await;
    let reported = replica.reported();
    assert_eq!(reported.len(), 2, "{reported:?}");
    for error in &reported {
        let expected = "lease shop/counter exists without the label deltafifo/group=counter";
        assert!(error.contains(expected), "{error}");
    }
    assert!(replica.group.owned().borrow().is_empty());
    server.delete(&leases(), "shop", "counter").unwrap();
    replica.owns(16).await;
}

#[tokio::test(start_paused = true)]
async fn one_of_the_leases_of_shards_without_the_label_is_reported_each_minute() {
    let server = server();
    let names = ["counter-shard-003", "counter-shard-007"];
    for name in names {
        apply_foreign(&server, name);
    }
    let replica = Replica::start(&server, "a");
    replica.owns(14).await;
    sleep(130 * SECOND).await;
    let reported = replica.reported();
    assert_eq!(reported.len(), 3, "{reported:?}");
    for error in &reported {
        assert!(error.contains("lease shop/counter-shard-00"), "{error}");
    }
    for name in names {
        server.delete(&leases(), "shop", name).unwrap();
    }
    replica.owns(16).await;
}

#[tokio::test(start_paused = true)]
async fn label_that_the_server_removes_from_the_leases_of_members_is_reported_each_minute() {
    let server = server();
    let (client, _strips) = stripping(&server, "labels");
    let replica = Replica::start_with(builder_of(client, "a"));
    sleep(100 * SECOND).await;
    assert!(replica.group.owned().borrow().is_empty(), "no member is seen");
    let reported = replica.reported();
    assert_eq!(reported.len(), 2, "{reported:?}");
    for error in &reported {
        assert!(error.contains("has stored lease shop/counter-member-a."), "{error}");
        assert!(error.contains("without the label deltafifo/group=counter"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn label_that_the_server_removes_is_named_although_no_lease_may_be_deleted() {
    let server = server();
    let (client, _strips) = stripping(&server, "labels");
    server.fault(Fault::status(status::forbidden(&leases())).on(Verb::Delete).times(usize::MAX));
    let replica = Replica::start_with(builder_of(client, "a"));
    sleep(100 * SECOND).await;
    let reported = replica.reported();
    assert_eq!(reported.len(), 2, "{reported:?}");
    for error in &reported {
        assert!(error.contains("without the label deltafifo/group=counter"), "{error}");
        assert!(error.contains("cannot delete leases.coordination.k8s.io shop/"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn leases_of_members_without_the_label_do_not_accumulate() {
    let server = server();
    let (client, strips) = stripping(&server, "labels");
    // The first deletion is refused.
    server.fault(Fault::status(status::forbidden(&leases())).on(Verb::Delete));
    let replica = Replica::start_with(builder_of(client, "a"));
    sleep(100 * SECOND).await;
    assert!(replica.group.owned().borrow().is_empty(), "no member is seen");
    assert!(members(&server).await.len() <= 1, "{:?}", members(&server).await);
    strips.send_replace(&[]);
    replica.owns(16).await;
    assert_eq!(members(&server).await.len(), 1);
    // The next renewal loses the label.
    strips.send_replace(ALL_WRITES);
    replica.owns(0).await;
    sleep(600 * SECOND).await;
    assert!(members(&server).await.len() <= 1, "{:?}", members(&server).await);
}

/// Returns the number of creations in this time.
async fn creations_in(server: &ApiServer, time: Duration) -> usize {
    server.forget_requests();
    sleep(time).await;
    count(server, &[Verb::Create])
}

#[tokio::test(start_paused = true)]
async fn lease_of_a_member_that_loses_its_label_is_created_less_and_less_often() {
    let server = server();
    let (client, strips) = stripping(&server, "labels");
    let replica = Replica::start_with(builder_of(client, "a"));
    let first = creations_in(&server, 10 * SECOND).await;
    assert_eq!(first, 3, "after 0, 2 and 6 s");
    let later = creations_in(&server, 100 * SECOND).await;
    assert_eq!(later, 3, "after 14, 30 and 62 s");
    let at_last = creations_in(&server, HOUR).await;
    assert!((59..=60).contains(&at_last), "one each minute: {at_last}");
    strips.send_replace(&[]);
    let began = Instant::now();
    replica.owns(16).await;
    assert!(began.elapsed() <= 61 * SECOND, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn member_whose_renewals_lose_the_label_joins_less_and_less_often() {
    let server = server();
    let (client, strips) = stripping(&server, "labels");
    strips.send_replace(UPDATES);
    let replica = Replica::start_with(builder_of(client, "a"));
    sleep(300 * SECOND).await;
    let later = creations_in(&server, HOUR).await;
    assert!((58..=60).contains(&later), "one each minute: {later}");
    assert!(members(&server).await.len() <= 1, "{:?}", members(&server).await);
    assert!(replica.group.owned().borrow().is_empty(), "no member is live");
    let error = replica.reported().remove(0);
    assert!(error.contains("without the label deltafifo/group=counter"), "{error}");
    strips.send_replace(&[]);
    let began = Instant::now();
    replica.owns(16).await;
    assert!(began.elapsed() <= 80 * SECOND, "{:?}", began.elapsed());
    // The pause of a member that was live is short again.
    let member = members(&server).await.remove(0);
    server.delete(&leases(), "shop", &name_of(&member)).unwrap();
    replica.owns(0).await;
    let began = Instant::now();
    replica.owns(16).await;
    assert!(began.elapsed() <= 20 * SECOND, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn pause_of_a_member_whose_lease_loses_its_label_does_not_delay_its_stop() {
    let server = server();
    let (client, _strips) = stripping(&server, "labels");
    let mut replica = Replica::start_with(builder_of(client, "a"));
    sleep(200 * SECOND).await;
    let began = Instant::now();
    replica.stop();
    assert_eq!(replica.ended().await, Ok(()));
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn pause_before_the_creation_of_a_foreign_lease_grows_anew_once_the_lease_has_a_label() {
    let (server, shard) = (server(), "counter-shard-003");
    apply_foreign(&server, shard);
    let replica = Replica::start(&server, "a");
    replica.owns(15).await;
    sleep(200 * SECOND).await;
    let later = creations_in(&server, 600 * SECOND).await;
    assert!((9..=10).contains(&later), "one each minute: {later}");
    server.delete(&leases(), "shop", shard).unwrap();
    replica.owns(16).await;
    server.delete(&leases(), "shop", shard).unwrap();
    apply_foreign(&server, shard);
    let first = creations_in(&server, 10 * SECOND).await;
    assert_eq!(first, 3, "after 0, 2 and 6 s");
}
