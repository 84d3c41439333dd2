//! Tests of handlers that are added while objects change.

use std::collections::BTreeMap;

use deltafifo_informer::shared_informer::{Buffer, HandlerOptions};
use futures_util::{FutureExt, StreamExt};

use super::oracle::Oracle;
use super::rig::{QUEUES, Rig, builder, map, next, next_sorted, notes, run, server};

#[tokio::test(start_paused = true)]
async fn late_handler_gets_known_objects_and_then_changes() {
    for queue in QUEUES {
        let server = server();
        server.apply(map("a", "1")).unwrap();
        server.apply(map("b", "1")).unwrap();
        let rig = Rig::start(server, queue);
        rig.informer.wait_for_sync().await.unwrap();
        rig.apply("b", "2");
        rig.stored("b", "2").await;
        let mut late = rig.subscribe(HandlerOptions::new());
        assert!(!late.registration().has_synced());
        assert_eq!(next_sorted(&mut late, 2).await, ["initial *a=1", "initial *b=2"]);
        rig.delete("a");
        assert_eq!(next(&mut late, 1).await, ["watch -a=1"]);
        assert!(late.registration().has_synced(), "polled past the initial objects");
    }
}

#[tokio::test(start_paused = true)]
async fn handler_of_an_informer_without_objects_syncs() {
    let rig = Rig::start(server(), |informer| informer);
    let early = rig.informer.add_async_handler(HandlerOptions::new(), |_| async {}).unwrap();
    early.wait_for_sync().await.unwrap();
    let late = rig.informer.add_async_handler(HandlerOptions::new(), |_| async {}).unwrap();
    late.wait_for_sync().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn change_of_a_key_ahead_of_the_walk_is_delivered_by_the_walk() {
    const OBJECTS: usize = 500;
    for queue in QUEUES {
        for buffer in [Buffer::Compress, Buffer::HoldBack(4), Buffer::DropAndResync(1_000)] {
            let server = server();
            for number in 0..OBJECTS {
                server.apply(map(&number.to_string(), "1")).unwrap();
            }
            let rig = Rig::start(server, queue);
            rig.informer.wait_for_sync().await.unwrap();
            let mut late = rig.subscribe(HandlerOptions::new().buffer(buffer));
            // The walk takes a stride of 64, so most keys are still ahead of it.
            let mut received = Oracle::default();
            received.note(&late.next().await.unwrap());
            assert!(late.registration().depth() < 100, "known objects are not copied");
            for number in 0..OBJECTS {
                match number % 4 {
                    0 => rig.apply(&number.to_string(), "2"),
                    1 => rig.delete(&number.to_string()),
                    _ => {}
                }
            }
            rig.apply("last", "1");
            let mut is_quiet = false;
            while !(is_quiet
                && received.known.contains_key("last")
                && late.registration().has_synced())
            {
                // Yields to get a new cooperative budget. Without one, an available notification
                // may not be returned.
                tokio::task::yield_now().await;
                is_quiet = true;
                while let Some(Some(more)) = late.next().now_or_never() {
                    received.note(&more);
                    is_quiet = false;
                }
            }
            let expected = (0..OBJECTS).filter(|number| number % 4 != 1).map(|number| {
                (number.to_string(), if number % 4 == 0 { "2" } else { "1" }.to_owned())
            });
            let expected: BTreeMap<_, _> =
                expected.chain([("last".to_owned(), "1".to_owned())]).collect();
            assert_eq!(received.known, expected);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handler_can_be_added_while_the_informer_starts() {
    for queue in QUEUES {
        for _ in 0..20 {
            let server = server();
            server.apply(map("a", "1")).unwrap();
            let informer = queue(builder(&server)).build().unwrap();
            let (note, mut received) = notes();
            let adding = tokio::spawn({
                let informer = informer.clone();
                async move { informer.add_event_handler(note).unwrap() }
            });
            run(&informer);
            adding.await.unwrap().wait_for_sync().await.unwrap();
            assert_eq!(received.next(1).await, ["initial *a=1"]);
            informer.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn stream_whose_filter_rejects_everything_yields_to_other_tasks() {
    let server = server();
    for number in 0..1_000 {
        server.apply(map(&number.to_string(), "1")).unwrap();
    }
    let rig = Rig::start(server, |informer| informer);
    rig.informer.wait_for_sync().await.unwrap();
    let mut late = rig.subscribe(HandlerOptions::new().filter(|_| false));
    assert!(late.next().now_or_never().is_none());
    assert!(!late.registration().has_synced(), "the filter has seen all objects in one poll");
    assert!(late.registration().high_water() < 200, "known objects are not copied");
    let registration = late.registration().clone();
    tokio::select! {
        _ = late.next() => unreachable!("nothing is delivered"),
        synced = registration.wait_for_sync() => synced.unwrap(),
    }
}
