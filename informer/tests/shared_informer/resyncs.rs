//! Tests of resync periods, which each handler has for itself.

use std::time::Duration;

use deltafifo_informer::shared_informer::HandlerOptions;
use futures_util::{FutureExt, StreamExt};
use tokio::time::Instant;

use super::rig::{QUEUES, Rig, map, next, next_sorted, server};

fn every(seconds: u64) -> HandlerOptions<k8s_openapi::api::core::v1::ConfigMap> {
    HandlerOptions::new().resync(Some(Duration::from_secs(seconds)))
}

#[tokio::test(start_paused = true)]
async fn each_handler_has_its_own_resync_period() {
    for queue in QUEUES {
        let server = server();
        server.apply(map("a", "1")).unwrap();
        server.apply(map("b", "1")).unwrap();
        let rig = Rig::start(server, queue);
        let began = Instant::now();
        let (mut two, mut three) = (rig.subscribe(every(2)), rig.subscribe(every(3)));
        let mut never = rig.subscribe(HandlerOptions::new());
        for stream in [&mut two, &mut three, &mut never] {
            next(stream, 2).await;
        }
        let mut seen = Vec::new();
        while seen.len() < 5 {
            let who = tokio::select! {
                received = next_sorted(&mut two, 2) => { assert_eq!(received, ["resync a=1>1", "resync b=1>1"]); 2 }
                received = next_sorted(&mut three, 2) => { assert_eq!(received, ["resync a=1>1", "resync b=1>1"]); 3 }
                received = next(&mut never, 1) => panic!("{received:?}"),
            };
            seen.push((began.elapsed().as_secs(), who));
        }
        seen.sort_unstable();
        assert_eq!(seen, [(2, 2), (3, 3), (4, 2), (6, 2), (6, 3)]);
    }
}

#[tokio::test(start_paused = true)]
async fn handler_without_a_period_has_the_informers_and_a_late_one_its_own() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let rig = Rig::start(server, |informer| informer.resync(Duration::from_secs(60)));
    let began = Instant::now();
    let mut early = rig.subscribe(HandlerOptions::new());
    let mut never = rig.subscribe(HandlerOptions::new().resync(None));
    next(&mut never, 1).await;
    assert_eq!(next(&mut early, 2).await, ["initial *a=1", "resync a=1>1"]);
    assert_eq!(began.elapsed().as_secs(), 60);
    let mut late = rig.subscribe(every(7));
    assert_eq!(next(&mut late, 2).await, ["initial *a=1", "resync a=1>1"]);
    assert_eq!(began.elapsed().as_secs(), 67);
    let mut short = rig.subscribe(HandlerOptions::new().resync(Some(Duration::from_nanos(1))));
    assert_eq!(next(&mut short, 2).await, ["initial *a=1", "resync a=1>1"]);
    assert_eq!(began.elapsed().as_secs(), 68, "at least a second");
}

#[tokio::test(start_paused = true)]
async fn handler_period_of_zero_or_max_means_never() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    for period in [Duration::ZERO, Duration::MAX] {
        let rig = Rig::start(server.clone(), |informer| informer.resync(period));
        let mut streams = [
            rig.subscribe(HandlerOptions::new()),
            rig.subscribe(HandlerOptions::new().resync(Some(period))),
        ];
        for stream in &mut streams {
            next(stream, 1).await;
        }
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        for mut stream in streams {
            assert!(stream.next().now_or_never().is_none(), "{period:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn resync_is_skipped_while_notifications_are_buffered() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let rig = Rig::start(server, |informer| informer);
    let mut stream = rig.subscribe(every(5));
    next(&mut stream, 1).await;
    rig.apply("a", "2");
    rig.stored("a", "2").await;
    tokio::time::advance(Duration::from_secs(5)).await;
    rig.apply("b", "1");
    rig.stored("b", "1").await;
    assert_eq!(next_sorted(&mut stream, 2).await, ["watch +b=1", "watch a=1>2"]);
}

#[tokio::test(start_paused = true)]
async fn informer_period_of_zero_or_max_means_never() {
    let never = [Some(Duration::ZERO), Some(Duration::MAX), None];
    for of_informer in never {
        let server = server();
        server.apply(map("a", "1")).unwrap();
        let rig = Rig::start(server, |informer| match of_informer {
            Some(period) => informer.resync(period),
            None => informer,
        });
        let began = Instant::now();
        let of_handlers = never.map(|period| HandlerOptions::new().resync(period));
        let mut streams: Vec<_> =
            of_handlers.into_iter().map(|options| rig.subscribe(options)).collect();
        streams.push(rig.subscribe(HandlerOptions::new()));
        for stream in &mut streams {
            next(stream, 1).await;
        }
        next(&mut rig.subscribe(every(3600)), 2).await;
        assert_eq!(began.elapsed().as_secs(), 3600);
        for stream in &mut streams {
            assert!(
                futures_util::FutureExt::now_or_never(next(stream, 1)).is_none(),
                "{of_informer:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn late_resync_is_followed_by_a_whole_period() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let rig = Rig::start(server, |informer| informer);
    let began = Instant::now();
    let mut stream = rig.subscribe(every(2));
    next(&mut stream, 1).await;
    // The clock jumps, as it does after the machine was suspended.
    tokio::time::advance(Duration::from_secs(7)).await;
    let mut seen = Vec::new();
    for _ in 0..2 {
        assert_eq!(next(&mut stream, 1).await, ["resync a=1>1"]);
        seen.push(began.elapsed().as_secs());
    }
    assert_eq!(seen, [7, 9]);
}
