//! Tests of running and stopping an informer and its parts.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::time::Duration;

use deltafifo::Indexers;
use deltafifo_informer::shared_informer::{
    AddHandlerError, HandlerOptions, InformerError, RunError,
};
use deltafifo_testkit::{Fault, Resource, Verb, status};
use futures_util::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::rig::{QUEUES, Rig, builder, gated, map, next, run, server, value};

#[tokio::test(start_paused = true)]
async fn informer_runs_only_once() {
    let server = server();
    let informer = builder(&server).build().unwrap();
    assert!(!informer.is_stopped() && !informer.has_synced());
    let first = run(&informer);
    informer.wait_for_sync().await.unwrap();
    assert_eq!(informer.run().await, Err(RunError::Running));
    assert!(!informer.is_stopped());
    informer.stop().await;
    assert!(informer.is_stopped());
    assert_eq!(first.await.unwrap(), Ok(()));
    assert_eq!(informer.run().await, Err(RunError::Stopped));
    informer.stop().await;
}

#[test]
fn run_that_is_polled_outside_of_a_runtime_panics() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    // The client of the server needs a runtime.
    let informer = runtime.block_on(async { builder(&server()).build().unwrap() });
    let run = AssertUnwindSafe(|| informer.run().now_or_never());
    assert!(std::panic::catch_unwind(run).is_err());
}

#[tokio::test(start_paused = true)]
async fn stopped_informer_refuses_handlers_and_ends_existing_ones() {
    for queue in QUEUES {
        let rig = Rig::start(server(), queue);
        let early = rig.informer.add_async_handler(HandlerOptions::new(), |_| async {}).unwrap();
        let mut stream = rig.subscribe(HandlerOptions::new());
        rig.informer.wait_for_sync().await.unwrap();
        rig.informer.stop().await;
        assert!(stream.next().await.is_none());
        early.ended().await;
        early.remove().await;
        let late = rig.informer.add_event_handler(|_| ());
        assert!(matches!(late, Err(AddHandlerError::Stopped)), "{late:?}");
        assert!(rig.informer.subscribe(HandlerOptions::new()).is_err());
        assert_eq!(rig.run.await.unwrap(), Ok(()));
    }
}

#[tokio::test(start_paused = true)]
async fn informer_that_never_ran_can_be_stopped() {
    let informer = builder(&server()).build().unwrap();
    let early = informer.add_async_handler(HandlerOptions::new(), |_| async {}).unwrap();
    informer.stop().await;
    assert!(informer.is_stopped());
    assert!(early.wait_for_sync().await.is_err());
    assert!(informer.wait_for_sync().await.is_err());
    assert_eq!(informer.run().await, Err(RunError::Stopped));
}

#[tokio::test]
async fn stop_waits_for_running_calls() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let rig = Rig::start(server, |informer| informer);
    let (handler, go, mut notes) = gated();
    rig.informer.add_event_handler(handler).unwrap();
    notes.next(1).await;
    let mut stopped = std::pin::pin!(rig.informer.stop());
    assert!(stopped.as_mut().now_or_never().is_none());
    tokio::task::yield_now().await;
    assert!(!rig.informer.is_stopped(), "a call runs");
    go.send(()).unwrap();
    stopped.await;
    assert!(notes.rest().await.is_empty());
}

#[tokio::test]
async fn stop_waits_for_running_calls_after_a_dropped_run() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let Rig { server: _server, informer, run } = Rig::start(server, |informer| informer);
    let (handler, go, mut notes) = gated();
    informer.add_event_handler(handler).unwrap();
    notes.next(1).await;
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    // The wait can be cancelled and repeated.
    for _ in 0..2 {
        assert!(informer.stop().now_or_never().is_none());
        assert!(!informer.is_stopped(), "a call runs");
    }
    go.send(()).unwrap();
    informer.stop().await;
    assert!(informer.is_stopped());
    assert!(notes.rest().await.is_empty());
}

#[tokio::test]
async fn stop_waits_for_the_running_call_of_a_detached_handler() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let Rig { server: _server, informer, run } = Rig::start(server, |informer| informer);
    let (handler, go, mut notes) = gated();
    let handle = informer.add_event_handler(handler).unwrap();
    notes.next(1).await;
    handle.detach();
    // The run's tasks end here, so that the stop below waits only for the detached handler's call.
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    assert!(informer.stop().now_or_never().is_none());
    assert!(!informer.is_stopped(), "its call runs");
    go.send(()).unwrap();
    informer.stop().await;
    assert!(informer.is_stopped());
}

#[tokio::test(start_paused = true)]
async fn dropped_run_stops_the_informer() {
    let informer = builder(&server()).build().unwrap();
    let handler = informer.add_async_handler(HandlerOptions::new(), |_| async {}).unwrap();
    tokio::select! {
        ended = informer.run() => panic!("{ended:?}"),
        synced = informer.wait_for_sync() => synced.unwrap(),
    }
    handler.ended().await;
    // The stop waits until the worker's task has ended.
    informer.stop().await;
    assert!(informer.is_stopped());
}

#[tokio::test(start_paused = true)]
async fn drop_of_the_last_handle_stops_the_informer_and_its_handlers() {
    let informer = builder(&server()).build().unwrap();
    let handler = informer.add_async_handler(HandlerOptions::new(), |_| async {}).unwrap();
    let thread = informer.add_event_handler(|_| ()).unwrap();
    drop(informer);
    handler.ended().await;
    thread.ended().await;
}

#[tokio::test(start_paused = true)]
async fn store_and_handlers_see_transformed_objects() {
    for queue in QUEUES {
        let server = server();
        server.apply(map("a", "1")).unwrap();
        let rig = Rig::start(server, |informer| {
            queue(informer).transform(|map: std::sync::Arc<ConfigMap>| {
                let mut map = ConfigMap::clone(&map);
                map.data.get_or_insert_default().insert("data".to_owned(), "changed".to_owned());
                Ok(map.into())
            })
        });
        let mut stream = rig.subscribe(HandlerOptions::new());
        assert_eq!(next(&mut stream, 1).await, ["initial *a=changed"]);
        assert_eq!(value(&rig.informer.store().get_by_key("shop/a").unwrap()), "changed");
        rig.apply("a", "2");
        assert_eq!(next(&mut stream, 1).await, ["watch a=changed>changed"]);
    }
}

#[tokio::test(start_paused = true)]
async fn indexes_can_be_given_at_build_or_added_later() {
    let by_value = |map: &ConfigMap| Ok(vec![value(map).to_owned()]);
    let server = server();
    server.apply(map("a", "1")).unwrap();
    server.apply(map("b", "1")).unwrap();
    let rig = Rig::start(server, |informer| informer.index("value", by_value));
    rig.informer.wait_for_sync().await.unwrap();
    let store = rig.informer.store();
    assert_eq!(store.index_keys("value", "1").unwrap(), ["shop/a", "shop/b"]);
    store.add_indexers(Indexers::new().index("later", by_value)).unwrap();
    rig.apply("a", "2");
    rig.stored("a", "2").await;
    for index in ["value", "later"] {
        assert_eq!(store.index_keys(index, "2").unwrap(), ["shop/a"]);
        assert_eq!(store.index_keys(index, "1").unwrap(), ["shop/b"]);
    }
    assert!(
        builder(&rig.server).index("value", by_value).index("value", by_value).build().is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn list_errors_are_reported_and_the_informer_continues() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    server.fault(Fault::status(status::forbidden(&Resource::config_maps())).on(Verb::List));
    let (sender, mut received) = mpsc::unbounded_channel();
    let rig = Rig::start(server, |informer| {
        informer.reflector(|reflector| reflector.watch_list(false)).on_error(move |error| {
            assert!(matches!(error, InformerError::Reflector(_)));
            let _ = sender.send(error.to_string());
        })
    });
    assert!(received.recv().await.unwrap().contains("orbidden"));
    rig.informer.wait_for_sync().await.unwrap();
    assert_eq!(rig.informer.lister().namespace("shop").list().len(), 1);
    rig.server.wait_for_watchers(1).await;
    assert!(rig.informer.last_sync_resource_version().is_some());
}

#[tokio::test(start_paused = true)]
async fn each_object_is_transformed_once_despite_repeated_deliveries() {
    for queue in QUEUES {
        let server = server();
        server.apply(map("a", "1")).unwrap();
        let rig = Rig::start(server, |informer| {
            let mark = |map: std::sync::Arc<ConfigMap>| {
                let mut map = ConfigMap::clone(&map);
                map.data.get_or_insert_default().get_mut("data").unwrap().push('!');
                Ok(map.into())
            };
            queue(informer).transform(mark).notify_unchanged(true).resync(Duration::from_secs(5))
        });
        let mut stream = rig.subscribe(HandlerOptions::new());
        assert_eq!(next(&mut stream, 2).await, ["initial *a=1!", "resync a=1!>1!"]);
        rig.missing(|_| ());
        assert_eq!(next(&mut stream, 1).await, ["relist a=1!>1!"]);
        assert_eq!(next(&mut stream, 1).await, ["resync a=1!>1!"]);
    }
}

#[tokio::test(start_paused = true)]
async fn version_removed_by_a_transform_can_be_awaited() {
    let unversioned = |map: std::sync::Arc<ConfigMap>| {
        let mut map = ConfigMap::clone(&map);
        map.metadata.resource_version = None;
        Ok(map.into())
    };
    let rig = Rig::start(server(), |informer| informer.transform(unversioned));
    rig.server.wait_for_watchers(1).await;
    let version = rig.server.apply(map("a", "1")).unwrap().to_string();
    rig.informer.store().wait_for_resource_version_async(&version).await.unwrap();
    assert!(rig.informer.store().get_by_key("shop/a").unwrap().metadata.resource_version.is_none());
}

#[tokio::test(start_paused = true)]
async fn awaited_version_implies_that_earlier_changes_are_stored() {
    let rig = Rig::start(server(), |informer| informer);
    rig.server.wait_for_watchers(1).await;
    for data in ["1", "2"] {
        let version = rig.server.apply(map("a", data)).unwrap().to_string();
        rig.informer.store().wait_for_resource_version_async(&version).await.unwrap();
        assert_eq!(value(&rig.informer.store().get_by_key("shop/a").unwrap()), data);
    }
    let version = rig.server.delete(&Resource::config_maps(), "shop", "a").unwrap().to_string();
    rig.informer.store().wait_for_resource_version_async(&version).await.unwrap();
    assert!(rig.informer.store().get_by_key("shop/a").is_none());
}

#[tokio::test(start_paused = true)]
async fn stop_by_the_owner_of_an_unpolled_run_does_not_wait() {
    for queue in QUEUES {
        let server = server();
        server.apply(map("a", "1")).unwrap();
        let informer = queue(builder(&server)).build().unwrap();
        let mut stream = informer.subscribe(HandlerOptions::new()).unwrap();
        let mut run = pin!(informer.run());
        tokio::select! {
            ended = &mut run => panic!("{ended:?}"),
            received = next(&mut stream, 1) => assert_eq!(received, ["initial *a=1"]),
        }
        timeout(Duration::from_secs(60), informer.stop())
            .await
            .expect("stop does not wait for the run");
        assert!(informer.is_stopped() && stream.next().await.is_none());
        assert!(matches!(informer.subscribe(HandlerOptions::new()), Err(AddHandlerError::Stopped)));
        server.apply(map("a", "2")).unwrap();
        run.await.unwrap();
        assert_eq!(
            informer.store().get_by_key("shop/a").as_deref().map(value),
            Some("1"),
            "the informer delivers nothing more"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn watch_status_reports_open_watches_and_the_last_error() {
    for queue in QUEUES {
        let rig = Rig::start(server(), queue);
        assert!(!rig.informer.watch_status().is_open);
        rig.informer.wait_for_sync().await.unwrap();
        rig.server.wait_for_watchers(1).await;
        let open = rig.informer.watch_status();
        assert!(open.is_open && open.last_event.is_some() && open.last_error.is_none(), "{open:?}");

        rig.server.fault(Fault::status(status::internal_error("no more")).times(usize::MAX));
        rig.server.end_watches();
        tokio::time::sleep(Duration::from_secs(600)).await;
        let cut_off = rig.informer.watch_status();
        assert!(!cut_off.is_open && cut_off.last_event >= open.last_event, "{cut_off:?}");
        assert!(cut_off.last_error.is_some_and(|error| error.message.contains("no more")));

        rig.server.clear_faults();
        rig.server.wait_for_watchers(1).await;
        rig.apply("a", "1");
        rig.stored("a", "1").await;
        let well = rig.informer.watch_status();
        assert!(well.is_open && well.last_event > cut_off.last_event, "{well:?}");
        rig.informer.stop().await;
        assert!(!rig.informer.watch_status().is_open);
    }
}
