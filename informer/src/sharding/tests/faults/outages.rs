//! Tests of servers that refuse connections, do not answer, or end their watches.

use std::time::Duration;

use deltafifo_testkit::{After, Fault, Verb, status};
use tokio::time::{Instant, sleep};

use super::rig::*;

#[tokio::test(start_paused = true)]
async fn outage_that_is_shorter_than_the_renew_deadline_changes_nothing() {
    let server = server();
    let replica = Replica::start(&server, "a");
    replica.owns(16).await;
    let permit = replica.admit(0).unwrap();
    server.fault(Fault::refused().times(usize::MAX));
    server.break_watches();
    sleep(Duration::from_millis(4_500)).await;
    server.clear_faults();
    sleep(60 * SECOND).await;
    assert!(permit.is_held());
    let reported = replica.reported();
    assert_eq!(reported.len(), 2, "a watch and a list: {reported:?}");
}

#[tokio::test(start_paused = true)]
async fn member_without_answers_loses_its_work_at_its_renew_deadline_and_joins_again() {
    let server = server();
    let replica = Replica::start(&server, "a");
    replica.owns(16).await;
    let permit = replica.admit(0).unwrap();
    let former = members(&server).await;
    let began = Instant::now();
    server.fault(Fault::silence().times(usize::MAX));
    lost(&permit).await;
    assert_eq!(began.elapsed(), 10 * SECOND);
    replica.owns(0).await;
    assert!(replica.group.check(Duration::ZERO).is_ok());
    sleep(6 * SECOND).await;
    let unhealthy = replica.group.check(SECOND).unwrap_err().to_string();
    assert!(unhealthy.contains("shop/counter expired 1s ago"), "{unhealthy}");
    drop(permit);
    sleep(SECOND).await;
    assert!(replica.group.check(Duration::ZERO).is_ok());
    server.clear_faults();
    replica.owns(16).await;
    assert_ne!(members(&server).await, former);
}

#[tokio::test(start_paused = true)]
async fn watch_that_falls_silent_is_replaced_before_the_renew_deadline() {
    let server = server();
    server.fault(Fault::hang(After::Bytes(0)).on(Verb::Watch));
    let replica = Replica::start(&server, "a");
    replica.owns(16).await;
    server.fault(Fault::hang(After::Bytes(20_000)).on(Verb::Watch));
    server.break_watches();
    let permit = replica.admit(0).unwrap();
    sleep(600 * SECOND).await;
    assert!(permit.is_held());
}

#[tokio::test(start_paused = true)]
async fn watch_that_the_server_ends_is_continued_without_a_list() {
    let server = server();
    let replica = Replica::start(&server, "a");
    replica.owns(16).await;
    server.forget_requests();
    for _ in 0..3 {
        server.end_watches();
        sleep(5 * SECOND).await;
    }
    assert_eq!(count(&server, &[Verb::Watch]), 3);
    assert_eq!(count(&server, &[Verb::List]), 0);
    server.compact();
    server.error_watches(status::expired("too old"));
    sleep(5 * SECOND).await;
    assert_eq!(count(&server, &[Verb::List]), 1);
    assert_eq!(replica.reported(), [] as [String; 0]);
    assert_eq!(replica.group.owned().borrow().len(), 16);
}

#[tokio::test(start_paused = true)]
async fn server_that_fails_is_asked_less_and_less_often() {
    let server = server();
    server.fault(Fault::refused().times(usize::MAX));
    let replica = Replica::start(&server, "a");
    sleep(16 * SECOND).await;
    let first = count(&server, &[Verb::List]);
    assert!((5..=9).contains(&first), "{first}");
    sleep(600 * SECOND).await;
    server.forget_requests();
    sleep(150 * SECOND).await;
    let later = count(&server, &[Verb::List]);
    assert!((9..=10).contains(&later), "{later}");
    server.clear_faults();
    replica.owns(16).await;
    assert_eq!(replica.reported().len(), 1, "{:?}", replica.reported());
}
