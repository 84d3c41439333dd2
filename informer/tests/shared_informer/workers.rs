//! Tests of several workers of one informer, and of the number of notifications that a `HoldBack`
//! buffer then has. (client-go has one worker.)

use std::collections::BTreeMap;

use deltafifo_informer::shared_informer::{Buffer, HandlerOptions};
use futures_util::{FutureExt, StreamExt};

use super::oracle::Oracle;
use super::rig::{MapNotification, QUEUES, Rig, idle, map, next, server, value};

const WORKERS: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn several_workers_deliver_each_key_in_order_and_once() {
    const NAMES: u64 = 20;
    const ROUNDS: u64 = 50;
    let rig = Rig::start(server(), |informer| informer.workers(WORKERS));
    let every = HandlerOptions::new().buffer(Buffer::HoldBack(10));
    let (mut all, mut newest) = (rig.subscribe(every), rig.subscribe(HandlerOptions::new()));
    rig.informer.wait_for_sync().await.unwrap();
    assert!(all.next().now_or_never().is_none(), "the walk has ended");
    let received = tokio::spawn(async move {
        let mut by_name = BTreeMap::<String, Vec<u64>>::new();
        for _ in 0..NAMES * ROUNDS {
            let received = all.next().await.unwrap();
            let (MapNotification::Added { new, .. } | MapNotification::Updated { new, .. }) =
                received
            else {
                panic!("nothing is deleted: {received:?}")
            };
            by_name
                .entry(new.metadata.name.clone().unwrap())
                .or_default()
                .push(value(&new).parse().unwrap());
        }
        by_name
    });
    for round in 0..ROUNDS {
        for name in 0..NAMES {
            rig.apply(&name.to_string(), &round.to_string());
        }
    }
    let received = received.await.unwrap();
    assert_eq!(received.len(), 20);
    assert!(received.into_values().all(|data| data.into_iter().eq(0..ROUNDS)));
    let mut oracle = Oracle::default();
    while oracle.known.len() < 20
        || oracle.known.values().any(|data| *data != (ROUNDS - 1).to_string())
    {
        oracle.note(&newest.next().await.unwrap());
    }
}

/// Checks how many notifications the full buffer of a `HoldBack(n)` handler has: when n are
/// buffered, each worker finishes its current item and then waits, so there are fewer than n plus
/// the number of workers.
#[tokio::test(start_paused = true)]
async fn hold_back_bound_is_exceeded_by_at_most_the_workers_current_items() {
    const MOST: usize = 3;
    let one = |queue: usize| (queue, 1);
    for (queue, workers) in [one(0), one(1), (0, WORKERS)] {
        let rig = Rig::start(server(), |informer| QUEUES[queue](informer).workers(workers));
        let mut all = rig.subscribe(HandlerOptions::new().buffer(Buffer::HoldBack(MOST)));
        rig.informer.wait_for_sync().await.unwrap();
        assert!(all.next().now_or_never().is_none(), "the empty initial state was delivered");
        for name in 0..20 {
            rig.apply(&name.to_string(), "1");
            idle().await;
            let depth = all.registration().depth();
            let least = MOST.min(name + 1);
            assert!(
                (least..MOST + workers).contains(&depth),
                "{depth} wait after {name} for {workers} workers"
            );
        }
        for remaining in (0..20).rev() {
            next(&mut all, 1).await;
            idle().await;
            let depth = all.registration().depth();
            assert!(
                (MOST.min(remaining)..MOST + workers).contains(&depth),
                "{depth} buffered of {remaining}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn hold_back_delivers_the_changes_of_one_item_together() {
    let server = server();
    server.apply(map("a", "0")).unwrap();
    let rig = Rig::start(server, |informer| informer);
    let mut all = rig.subscribe(HandlerOptions::new().buffer(Buffer::HoldBack(1)));
    next(&mut all, 1).await;
    rig.apply("b", "0");
    idle().await;
    assert_eq!(all.registration().depth(), 1);
    for data in 1..=10 {
        rig.apply("a", &data.to_string());
    }
    idle().await;
    assert_eq!(all.registration().depth(), 1, "the worker waits");
    next(&mut all, 1).await;
    idle().await;
    assert_eq!(all.registration().depth(), 10, "all pending deltas of a key are one item");
}
