//! Tests of concurrency: one reconcile per object at a time, and a limit for all objects.

use deltafifo_informer::runtime::controller::Config;

use super::rig::{controller, gated, idle, map, poll, server};

#[tokio::test(start_paused = true)]
async fn object_that_changes_during_its_reconcile_is_reconciled_once_more() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let (reconcile, mut begun) = gated();
    let mut polled = poll(controller(&server), reconcile);
    let first = begun.recv().await.unwrap();
    server.wait_for_watchers(1).await;
    for data in ["2", "3"] {
        server.apply(map("a", data)).unwrap();
        idle().await;
    }
    assert!(begun.is_empty(), "one reconcile at a time");
    first.end.send(()).unwrap();
    let second = begun.recv().await.unwrap();
    assert_eq!(second.value, "3", "the newest state");
    second.end.send(()).unwrap();
    assert_eq!(polled.sorted(2).await, ["a", "a"]);
    idle().await;
    assert!(begun.is_empty());
}

#[tokio::test(start_paused = true)]
async fn concurrency_limits_reconciles_and_zero_does_not() {
    for (concurrency, at_a_time) in [(1, 1), (3, 3), (0, 8)] {
        let server = server();
        for number in 0..8 {
            server.apply(map(&format!("map-{number}"), "1")).unwrap();
        }
        let (reconcile, mut begun) = gated();
        let controller =
            controller(&server).with_config(Config::default().concurrency(concurrency));
        let mut polled = poll(controller, reconcile);
        let mut remaining = 8;
        while remaining > 0 {
            idle().await;
            let mut running = Vec::new();
            while let Ok(one) = begun.try_recv() {
                running.push(one);
            }
            assert_eq!(running.len(), remaining.min(at_a_time));
            remaining -= running.len();
            for one in running {
                one.end.send(()).unwrap();
            }
        }
        assert_eq!(polled.sorted(8).await.len(), 8);
    }
}
