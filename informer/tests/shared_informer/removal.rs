//! Tests of the removal of handlers: by their handle, by themselves, with or without a running
//! call, and during a walk.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use deltafifo_informer::shared_informer::{HandlerOptions, Registration, Removed};
use futures_util::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::mpsc;

use super::rig::{MapNotification, QUEUES, Rig, builder, gated, map, next, notes, server};

#[tokio::test(start_paused = true)]
async fn handler_added_twice_is_notified_twice() {
    let rig = Rig::start(server(), |informer| informer);
    let (note, received) = notes();
    let handler = move |notification: MapNotification| {
        note(notification);
        async {}
    };
    let one = rig.informer.add_async_handler(HandlerOptions::new(), handler.clone()).unwrap();
    let two = rig.informer.add_async_handler(HandlerOptions::new(), handler).unwrap();
    one.wait_for_sync().await.unwrap();
    two.wait_for_sync().await.unwrap();
    rig.apply("a", "1");
    let mut received = received;
    assert_eq!(received.next(2).await, ["watch +a=1", "watch +a=1"]);
    one.remove().await;
    rig.apply("a", "2");
    assert_eq!(received.next(1).await, ["watch a=1>2"]);
    two.remove().await;
    assert!(received.rest().await.is_empty());
}

#[tokio::test]
async fn remove_waits_for_the_running_call_and_none_follows() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let rig = Rig::start(server, |informer| informer);
    let (handler, go, mut notes) = gated();
    let handle = rig.informer.add_event_handler(handler).unwrap();
    assert_eq!(notes.next(1).await, ["initial *a=1"]);
    rig.apply("a", "2");
    rig.stored("a", "2").await;
    let removed = handle.remove();
    let mut removed = std::pin::pin!(removed);
    assert!(removed.as_mut().now_or_never().is_none(), "a call runs");
    assert!(handle.wait_for_sync().await.is_err(), "the handler never gets everything");
    go.send(()).unwrap();
    removed.await;
    assert!(notes.rest().await.is_empty(), "buffered notifications are dropped");
    handle.remove().await;
    assert_eq!(handle.depth(), 0);
}

#[tokio::test]
async fn handler_can_detach_itself_and_others_continue() {
    let rig = Rig::start(server(), |informer| informer);
    let (hand_over, handle) = channel();
    let (note, notes) = notes();
    let once = move |received: MapNotification| {
        note(received);
        let handle: Registration<ConfigMap> = handle.recv().unwrap();
        handle.detach();
    };
    let once = rig.informer.add_event_handler(once).unwrap();
    hand_over.send(once.clone()).unwrap();
    let mut other = rig.subscribe(HandlerOptions::new());
    // The handler's own sync, not the informer's: changes before its walk would count as initial.
    once.wait_for_sync().await.unwrap();
    rig.apply("a", "1");
    next(&mut other, 1).await;
    once.ended().await;
    rig.apply("a", "2");
    assert_eq!(next(&mut other, 1).await, ["watch a=1>2"]);
    assert_eq!(notes.rest().await, ["watch +a=1"]);
}

#[tokio::test(start_paused = true)]
async fn handler_removed_during_its_walk_gets_no_more_known_objects() {
    for queue in QUEUES {
        for drops_the_stream in [false, true] {
            let server = server();
            for number in 0..200 {
                server.apply(map(&number.to_string(), "1")).unwrap();
            }
            let rig = Rig::start(server, queue);
            rig.informer.wait_for_sync().await.unwrap();
            let mut stream = rig.subscribe(HandlerOptions::new());
            next(&mut stream, 1).await;
            let handle = stream.registration().clone();
            assert!(handle.depth() > 0, "notifications are buffered");
            assert!(handle.high_water() >= handle.depth(), "its walk counts as well");
            if drops_the_stream {
                drop(stream);
            } else {
                handle.remove().await;
                assert!(stream.next().await.is_none());
            }
            assert_eq!(handle.wait_for_sync().await, Err(Removed));
            assert!(handle.ended().now_or_never().is_some());
            let high_water = handle.high_water();
            rig.apply("later", "1");
            rig.stored("later", "1").await;
            assert_eq!((handle.depth(), handle.age(), handle.high_water()), (0, None, high_water));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_handle_keeps_its_handler() {
    let rig = Rig::start(server(), |informer| informer);
    let (note, mut received) = notes();
    let handle = rig.informer.add_async_handler(HandlerOptions::new(), move |notification| {
        note(notification);
        async {}
    });
    handle.as_ref().unwrap().wait_for_sync().await.unwrap();
    drop(handle);
    rig.apply("a", "1");
    assert_eq!(received.next(1).await, ["watch +a=1"]);
}

#[tokio::test]
async fn detached_handler_may_still_run_and_its_panic_is_reported() {
    let (errors, mut failed) = mpsc::unbounded_channel();
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let rig = Rig::start(server, |informer| {
        informer.on_error(move |error| drop(errors.send(error.to_string())))
    });
    let (begun, mut calls) = mpsc::unbounded_channel();
    let (go, gate) = channel::<()>();
    let handler = move |_: MapNotification| {
        begun.send(()).unwrap();
        let _ = gate.recv();
        panic!("after it was detached");
    };
    let handle = rig.informer.add_event_handler(handler).unwrap();
    calls.recv().await.unwrap();
    handle.detach();
    assert!(handle.ended().now_or_never().is_none(), "its call runs");
    drop(go);
    assert!(failed.recv().await.unwrap().ends_with("after it was detached"));
    handle.ended().await;
    assert!(calls.recv().await.is_none(), "no other call");
}

#[tokio::test]
async fn handler_of_an_informer_that_never_ran_or_is_idle_is_removed_at_once() {
    let never_ran = builder(&server()).build().unwrap();
    never_ran.add_event_handler(|_| ()).unwrap().remove().await;
    never_ran.add_async_handler(HandlerOptions::new(), |_| async {}).unwrap().remove().await;
    let rig = Rig::start(server(), |informer| informer);
    rig.informer.add_event_handler(|_| ()).unwrap().remove().await;
    rig.informer.wait_for_sync().await.unwrap();
    rig.informer.add_event_handler(|_| ()).unwrap().remove().await;
}

/// An object that sends a message when it is dropped, and then waits for a signal.
struct Gate(Sender<()>, Receiver<()>);

impl Drop for Gate {
    fn drop(&mut self) {
        self.0.send(()).unwrap();
        self.1.recv().unwrap();
    }
}

// A drop that blocks inside a task blocks one of the runtime's threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn remove_waits_until_the_handler_itself_is_dropped() {
    for in_task in [false, true] {
        let rig = Rig::start(server(), |informer| informer);
        let ((begun, begins), (go, gate)) = (channel(), channel());
        let gate = Gate(begun, gate);
        let holds = move || {
            let _ = &gate;
        };
        let handle = if in_task {
            rig.informer.add_async_handler(HandlerOptions::new(), move |_| {
                holds();
                async {}
            })
        } else {
            rig.informer.add_event_handler(move |_: MapNotification| holds())
        };
        let handle = handle.unwrap();
        let mut removed = std::pin::pin!(handle.remove());
        assert!(removed.as_mut().now_or_never().is_none(), "the handler has not ended");
        begins.recv().unwrap();
        assert!(removed.as_mut().now_or_never().is_none(), "the handler is being dropped");
        go.send(()).unwrap();
        removed.await;
    }
}

#[test]
fn handler_whose_runtime_has_ended_is_removed() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (informers, handlers, filter) = (runtime(), runtime(), Arc::new(()));
    let (held, server) = (filter.clone(), server());
    let informer = informers.block_on(async { builder(&server).build().unwrap() });
    let options = HandlerOptions::new().filter(move |_| Arc::strong_count(&held) > 0);
    let handle =
        handlers.block_on(async { informer.add_async_handler(options, |_| async {}).unwrap() });
    drop(handlers);
    informers.block_on(handle.ended());
    drop(handle);
    assert_eq!(Arc::strong_count(&filter), 1);
}
