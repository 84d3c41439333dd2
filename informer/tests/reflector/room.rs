//! Tests of a full queue: the reflector waits for room, however long that takes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use deltafifo::{DeltaFifo, Indexer, KeyFunc};
use deltafifo_informer::KubeMeta;
use deltafifo_informer::error_chain;
use deltafifo_informer::lister_watcher::{EventType, Scripted};
use deltafifo_informer::reflector::Reflector;
use tokio::time::sleep;

use super::rig::{Queue, bookmark, event, list, map};

fn queue(high_water: usize) -> Arc<Queue> {
    let store = Indexer::builder(KeyFunc::meta_namespace(KubeMeta))
        .build()
        .expect("no index is given twice");
    Arc::new(DeltaFifo::over(store).high_water(high_water).build())
}

/// Waits longer than the silence after which the reflector abandons a list. The paused clock
/// advances only when no task can run.
async fn idle() {
    sleep(Duration::from_secs(100)).await;
}

#[tokio::test(start_paused = true)]
async fn watch_is_read_only_while_the_queue_has_room() {
    let events: Vec<_> =
        (5..=13).map(|n| event(EventType::Added, map(&format!("map-{n}"), n))).collect();
    let fifo = queue(3);
    let script = Scripted::new().list(list(4, [])).watch_on(events);
    let reflector = Arc::new(Reflector::builder(script, fifo.clone()).watch_list(false).build());
    let running = reflector.clone();
    let _run = tokio::spawn(async move { running.run().await });
    for version in ["7", "8", "9"] {
        idle().await;
        assert_eq!(fifo.pending_deltas(), 3);
        assert_eq!(reflector.last_sync_resource_version().as_deref(), Some(version));
        fifo.pop_async().await.unwrap().done();
    }
}

#[tokio::test(start_paused = true)]
async fn list_waits_for_room_without_being_abandoned() {
    // Each object is a batch of its own, and together they exceed the number in flight.
    let large = |n: u32| {
        let metadata =
            serde_json::json!({ "name": format!("map-{n}"), "resourceVersion": n.to_string() });
        Bytes::from(
            serde_json::json!({ "metadata": metadata, "data": { "x": "x".repeat(3 << 20) } })
                .to_string(),
        )
    };
    let events = (1..=12).map(|n| event(EventType::Added, large(n))).chain([bookmark(20, true)]);
    let scripts = [
        (false, Scripted::new().list(list(20, (1..=12).map(large))).watch_on([])),
        (true, Scripted::new().watch_on(events)),
    ];
    for (streamed, script) in scripts {
        let fifo = queue(2);
        let (errors, failed) = std::sync::mpsc::channel();
        let reflector = Reflector::builder(script, fifo.clone())
            .watch_list(streamed)
            .on_error(move |error| drop(errors.send(error_chain(error))))
            .build();
        let _run = tokio::spawn(async move { reflector.run().await });
        for _ in 0..2 {
            idle().await;
            assert_eq!((fifo.pending_deltas(), fifo.resource_version()), (2, None));
            fifo.pop_async().await.unwrap().done();
        }
        for _ in 2..12 {
            fifo.pop_async().await.unwrap().done();
        }
        fifo.wait_for_sync_async().await.unwrap();
        assert_eq!(fifo.resource_version().as_deref(), Some("20"));
        assert_eq!(failed.try_iter().next(), None);
    }
}
