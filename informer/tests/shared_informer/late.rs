//! Handlers that come while objects change.

use std::collections::BTreeMap;

use deltafifo_informer::shared_informer::{Buffer, HandlerOptions};
use futures_util::{FutureExt, StreamExt};

use super::oracle::Oracle;
use super::rig::{QUEUES, Rig, builder, map, next, next_sorted, notes, run, server};

#[tokio::test(start_paused = true)]
async fn a_late_handler_is_told_what_is_known_and_then_what_changes() {
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
        assert!(late.registration().has_synced(), "it asked for more than the initial ones");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_of_an_informer_without_objects_syncs_too() {
    let rig = Rig::start(server(), |informer| informer);
    let early = rig.informer.add_async_handler(HandlerOptions::new(), |_| async {}).unwrap();
    early.wait_for_sync().await.unwrap();
    let late = rig.informer.add_async_handler(HandlerOptions::new(), |_| async {}).unwrap();
    late.wait_for_sync().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_happens_to_a_key_that_a_walk_has_not_come_to_is_left_to_the_walk() {
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
            // It takes the first of a stride of 64, so the walk has not come to most of them.
            let mut told = Oracle::default();
            told.note(&late.next().await.unwrap());
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
            while !(is_quiet && told.known.contains_key("last") && late.registration().has_synced())
            {
                // With a new budget: else there may be something that is not handed out.
                tokio::task::yield_now().await;
                is_quiet = true;
                while let Some(Some(more)) = late.next().now_or_never() {
                    told.note(&more);
                    is_quiet = false;
                }
            }
            let expected = (0..OBJECTS).filter(|number| number % 4 != 1).map(|number| {
                (number.to_string(), if number % 4 == 0 { "2" } else { "1" }.to_owned())
            });
            let expected: BTreeMap<_, _> =
                expected.chain([("last".to_owned(), "1".to_owned())]).collect();
            assert_eq!(told.known, expected);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_may_come_while_the_informer_starts() {
    for queue in QUEUES {
        for _ in 0..20 {
            let server = server();
            server.apply(map("a", "1")).unwrap();
            let informer = queue(builder(&server)).build().unwrap();
            let (note, mut told) = notes();
            let adding = tokio::spawn({
                let informer = informer.clone();
                async move { informer.add_event_handler(note).unwrap() }
            });
            run(&informer);
            adding.await.unwrap().wait_for_sync().await.unwrap();
            assert_eq!(told.next(1).await, ["initial *a=1"]);
            informer.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_whose_filter_rejects_everything_lets_others_have_their_turn() {
    let server = server();
    for number in 0..1_000 {
        server.apply(map(&number.to_string(), "1")).unwrap();
    }
    let rig = Rig::start(server, |informer| informer);
    rig.informer.wait_for_sync().await.unwrap();
    let mut late = rig.subscribe(HandlerOptions::new().filter(|_| false));
    assert!(late.next().now_or_never().is_none());
    assert!(!late.registration().has_synced(), "it has looked at all of them at once");
    assert!(late.registration().high_water() < 200, "known objects are not copied");
    let registration = late.registration().clone();
    tokio::select! {
        _ = late.next() => unreachable!("nothing is told"),
        synced = registration.wait_for_sync() => synced.unwrap(),
    }
}
