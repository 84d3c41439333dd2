//! Tests of all forms of handlers, and of their independence.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use bytes::Bytes;
use deltafifo::DeltaObject;
use deltafifo_informer::lister_watcher::{EventType, Listed, PageMeta, RawEvent, Scripted};
use deltafifo_informer::shared_informer::{
    Buffer, EventHandler, HandlerOptions, InformerError, Notification,
};
use deltafifo_testkit::Resource;
use futures_util::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::mpsc;

use super::rig::{
    Informer, MapNotification, Notes, QUEUES, Rig, gated, map, next, next_sorted, notes, run,
    server, shown, value,
};

fn everything() -> [&'static str; 3] {
    ["initial *a=1", "watch a=1>2", "watch -a=2"]
}

/// Changes objects, and waits for the handlers after each change, because a buffer might compress
/// the changes otherwise.
async fn change(rig: &Rig, handlers: &mut [&mut Notes]) {
    let changes: [&dyn Fn(); 3] = [&|| (), &|| rig.apply("a", "2"), &|| rig.delete("a")];
    for (change, expected) in changes.iter().zip(everything()) {
        change();
        for notes in &mut *handlers {
            assert_eq!(notes.next(1).await, [expected]);
        }
    }
}

#[tokio::test]
async fn every_form_of_handler_gets_equal_notifications() {
    struct ByKind(mpsc::UnboundedSender<String>);
    impl EventHandler<ConfigMap> for ByKind {
        fn on_add(&mut self, object: Arc<ConfigMap>, is_in_initial_list: bool) {
            assert_eq!((value(&object), is_in_initial_list), ("1", true));
            self.0.send(everything()[0].to_owned()).unwrap();
        }

        fn on_update(&mut self, old: Arc<ConfigMap>, new: Arc<ConfigMap>) {
            assert_eq!((value(&old), value(&new)), ("1", "2"));
            self.0.send(everything()[1].to_owned()).unwrap();
        }

        fn on_delete(&mut self, last: DeltaObject<ConfigMap>) {
            assert_eq!(value(last.object().unwrap()), "2");
            self.0.send(everything()[2].to_owned()).unwrap();
        }
    }
    for queue in QUEUES {
        let server = server();
        server.apply(map("a", "1")).unwrap();
        let rig = Rig::start(server, queue);
        let (kinds, by_kind) = mpsc::unbounded_channel();
        let mut by_kind = Notes(by_kind);
        rig.informer.add_event_handler(ByKind(kinds)).unwrap();
        let (note, mut closure) = notes();
        rig.informer.add_event_handler(note).unwrap();
        let (note, mut task) = notes();
        let in_task = move |received: MapNotification| {
            note(received);
            async {}
        };
        rig.informer.add_async_handler(HandlerOptions::new(), in_task).unwrap();
        let (note, mut batches) = notes();
        let batch = move |batch: Vec<MapNotification>| batch.into_iter().for_each(&note);
        rig.informer.add_batch_handler(HandlerOptions::new(), 10, batch).unwrap();
        let mut stream = rig.subscribe(HandlerOptions::new());

        change(&rig, &mut [&mut by_kind, &mut closure, &mut task, &mut batches]).await;
        // The stream was not polled, so for it the object never existed.
        assert!(futures_util::StreamExt::next(&mut stream).now_or_never().is_none());
    }
}

#[tokio::test]
async fn sleeping_handler_delays_no_other() {
    for queue in QUEUES {
        let rig = Rig::start(server(), queue);
        let (sleeping, _go, mut asleep) = gated();
        let sleeping = rig.informer.add_event_handler(sleeping).unwrap();
        let mut other = rig.subscribe(HandlerOptions::new());
        rig.apply("a", "1");
        assert_eq!(asleep.next(1).await.len(), 1, "blocked in its call");
        next(&mut other, 1).await;
        for number in 0..100 {
            rig.apply("b", &number.to_string());
            assert!(next(&mut other, 1).await[0].ends_with(&number.to_string()));
        }
        assert_eq!(sleeping.depth(), 1, "one step of one key waits");
        assert!(sleeping.age().is_some());
    }
}

#[tokio::test]
async fn panicking_handler_gets_later_notifications_and_affects_no_other() {
    let (errors, mut failed) = mpsc::unbounded_channel();
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let rig = Rig::start(server, |informer| {
        informer.on_error(move |error: &InformerError<'_>| drop(errors.send(error.to_string())))
    });
    let (note, mut received) = notes();
    let panicking = rig.informer.add_event_handler(move |notification: MapNotification| {
        let is_first = shown(&notification).ends_with("a=1");
        note(notification);
        assert!(!is_first, "expected by this test");
    });
    let (note, mut in_task) = notes();
    let panicking_task = rig.informer.add_async_handler(
        HandlerOptions::new(),
        move |notification: MapNotification| {
            let is_first = shown(&notification).ends_with("a=1");
            note(notification);
            async move { assert!(!is_first, "expected by this test") }
        },
    );
    let mut other = rig.subscribe(HandlerOptions::new());
    for handler in [panicking.unwrap(), panicking_task.unwrap()] {
        handler.wait_for_sync().await.unwrap();
        let error = failed.recv().await.unwrap();
        assert_eq!(
            error,
            "event handler panicked; the notification is not redelivered: expected by this test"
        );
    }
    next(&mut other, 1).await;
    rig.apply("a", "2");
    for notes in [&mut received, &mut in_task] {
        assert_eq!(notes.next(2).await, ["initial *a=1", "watch a=1>2"]);
    }
    assert_eq!(next(&mut other, 1).await, ["watch a=1>2"]);
}

#[tokio::test]
async fn error_of_a_panicking_destructor_of_a_handler_names_no_lost_notification() {
    struct PanicsWhenDropped;
    impl Drop for PanicsWhenDropped {
        fn drop(&mut self) {
            panic!("expected by this test");
        }
    }
    let (errors, mut failed) = mpsc::unbounded_channel();
    let rig = Rig::start(server(), |informer| {
        informer.on_error(move |error: &InformerError<'_>| drop(errors.send(error.to_string())))
    });
    let (in_thread, in_task) = (PanicsWhenDropped, PanicsWhenDropped);
    let thread = rig.informer.add_event_handler(move |_: MapNotification| {
        let _ = &in_thread;
    });
    let task = rig.informer.add_async_handler(HandlerOptions::new(), move |_: MapNotification| {
        let _ = &in_task;
        async {}
    });
    for handler in [thread.unwrap(), task.unwrap()] {
        handler.remove().await;
        assert_eq!(
            failed.recv().await.unwrap(),
            "destructor of an event handler panicked; the handler is removed: expected by this test"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn filter_turns_updates_into_additions_and_deletions() {
    for queue in QUEUES {
        let server = server();
        for data in ["1", "2"] {
            server.apply(map(data, data)).unwrap();
        }
        let rig = Rig::start(server, queue);
        let options = HandlerOptions::new().filter(|map: &ConfigMap| value(map) >= "2");
        let mut some = rig.subscribe(options);
        assert_eq!(next(&mut some, 1).await, ["initial *2=2"]);
        let changes =
            [("1", "2", "watch +1=2"), ("1", "3", "watch 1=2>3"), ("1", "0", "watch -1=3")];
        for (name, data, expected) in changes {
            rig.apply(name, data);
            assert_eq!(next(&mut some, 1).await, [expected]);
        }
        rig.apply("1", "1");
        rig.delete("1");
        rig.delete("2");
        assert_eq!(
            next(&mut some, 1).await,
            ["watch -2=2"],
            "objects that never match are not delivered"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn filter_compares_the_delivered_state_with_the_current_one() {
    for queue in QUEUES {
        let server = server();
        for (name, data) in [("stays", "2"), ("goes", "2"), ("never", "0")] {
            server.apply(map(name, data)).unwrap();
        }
        let rig = Rig::start(server, queue);
        let mut some =
            rig.subscribe(HandlerOptions::new().filter(|map: &ConfigMap| value(map) >= "2"));
        assert_eq!(next_sorted(&mut some, 2).await, ["initial *goes=2", "initial *stays=2"]);
        let changes = [
            ("goes", "0"),
            ("never", "3"),
            ("stays", "0"),
            ("stays", "3"),
            ("ceases", "2"),
            ("ceases", "0"),
        ];
        for (name, data) in changes {
            rig.apply(name, data);
        }
        rig.delete("goes");
        rig.delete("never");
        rig.apply("last", "2");
        rig.stored("last", "2").await;
        assert_eq!(next(&mut some, 3).await, ["watch -goes=0", "watch stays=2>3", "watch +last=2"]);
    }
}

#[tokio::test(start_paused = true)]
async fn filter_delivers_the_deletion_of_every_delivered_object() {
    let object = |data: &str, version: u64| {
        let mut object = map("a", data);
        object["metadata"]["resourceVersion"] = version.to_string().into();
        Bytes::from(object.to_string())
    };
    for queue in QUEUES {
        let page = PageMeta { resource_version: "4".to_owned(), ..PageMeta::default() };
        let deleted = RawEvent { kind: EventType::Deleted, object: object("0", 5) };
        let script = Scripted::new()
            .list([Ok(Listed::Meta(page)), Ok(Listed::Items(vec![object("2", 3)]))])
            .watch_on([Ok(deleted)]);
        let informer =
            queue(Informer::builder(script)).reflector(|reflector| reflector.watch_list(false));
        let informer = informer.build().unwrap();
        let options = HandlerOptions::new()
            .buffer(Buffer::HoldBack(9))
            .filter(|map: &ConfigMap| value(map) >= "2");
        let mut some = informer.subscribe(options).unwrap();
        let running = run(&informer);
        assert_eq!(next(&mut some, 2).await, ["initial *a=2", "watch -a=0"]);
        running.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn panicking_filter_omits_its_object_and_is_reported() {
    let (errors, mut received) = mpsc::unbounded_channel();
    let rig = Rig::start(server(), |informer| {
        informer.on_error(move |error: &InformerError<'_>| drop(errors.send(error.to_string())))
    });
    let options = HandlerOptions::new().filter(|map: &ConfigMap| {
        assert_ne!(value(map), "bad");
        true
    });
    let mut stream = rig.subscribe(options);
    rig.apply("a", "bad");
    rig.stored("a", "bad").await;
    rig.apply("b", "1");
    assert!(next(&mut stream, 1).await[0].ends_with("+b=1"));
    let error = received.recv().await.unwrap();
    assert!(error.starts_with("filter panicked; the object counts as one that does not match"));
}

#[tokio::test(start_paused = true)]
async fn object_whose_filter_panics_counts_as_not_matching() {
    for queue in QUEUES {
        let (errors, mut failed) = mpsc::unbounded_channel();
        let rig = Rig::start(server(), |informer| {
            queue(informer)
                .on_error(move |error: &InformerError<'_>| drop(errors.send(error.to_string())))
        });
        let options = HandlerOptions::new().filter(|map: &ConfigMap| {
            assert_ne!(value(map), "bad");
            true
        });
        let mut some = rig.subscribe(options);
        // This handler comes after the other, so the other one was called before it.
        let mut all = rig.subscribe(HandlerOptions::new());
        rig.informer.wait_for_sync().await.unwrap();
        let changes = [
            ("bad", None),
            ("1", Some("watch +a=1")),
            ("bad", Some("watch -a=1")),
            ("2", Some("watch +a=2")),
        ];
        for (data, expected) in changes {
            rig.apply("a", data);
            next(&mut all, 1).await;
            let received = some.next().now_or_never().flatten();
            assert_eq!(received.as_ref().map(shown).as_deref(), expected, "{data}");
        }
        rig.apply("a", "bad");
        next(&mut all, 1).await;
        rig.delete("a");
        next(&mut all, 1).await;
        assert_eq!(next(&mut some, 1).await, ["watch -a=bad"], "2 was delivered before");
        for _ in ["bad", "bad > 1", "1 > bad", "bad > 2"] {
            assert!(failed.try_recv().unwrap().contains("panicked"));
        }
        assert!(failed.try_recv().is_err());
    }
}

/// Returns a filter that accepts objects with the value `matches`. The filter sends the value of
/// each object to the receiver. If `waits` returns true for the value, the filter then blocks until
/// the test uses or drops the sender.
fn gated_filter(
    waits: fn(&str) -> bool,
) -> (HandlerOptions<ConfigMap>, mpsc::UnboundedReceiver<String>, Sender<()>) {
    let (calls, filtered) = mpsc::unbounded_channel();
    let (go, gate) = std::sync::mpsc::channel();
    let gate = parking_lot::Mutex::new(gate);
    let options = HandlerOptions::new().filter(move |map: &ConfigMap| {
        calls.send(value(map).to_owned()).unwrap();
        if waits(value(map)) {
            let _ = gate.lock().recv();
        }
        value(map) == "matches"
    });
    (options, filtered, go)
}

#[tokio::test]
async fn objects_rejected_by_a_filter_are_handled_at_once() {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let rig = Rig::start(server, |informer| informer);
    rig.informer.wait_for_sync().await.unwrap();
    let (options, mut filtered, go) = gated_filter(|_| true);
    let handle = rig.informer.add_event_handler_with(options, |_: MapNotification| ()).unwrap();
    assert_eq!(filtered.recv().await.unwrap(), "1");
    // This handler is added after the first one. So when it has synced, the first handler, too,
    // knows that the informer has synced.
    let other = rig.informer.add_async_handler(HandlerOptions::new(), |_| async {}).unwrap();
    other.wait_for_sync().await.unwrap();
    assert!(!handle.has_synced(), "its filter still runs");
    rig.apply("b", "2");
    rig.stored("b", "2").await;
    while handle.depth() == 0 {
        tokio::task::yield_now().await;
    }
    go.send(()).unwrap();
    assert_eq!(filtered.recv().await.unwrap(), "2");
    assert!(handle.has_synced(), "all initial objects are handled");
    drop(go);
}

#[tokio::test]
async fn batch_contains_all_buffered_notifications() {
    let server = server();
    server.apply(map("first", "1")).unwrap();
    let rig = Rig::start(server, |informer| informer);
    let (go, gate) = std::sync::mpsc::channel::<()>();
    let (sizes, mut seen) = mpsc::unbounded_channel();
    let handler = move |batch: Vec<MapNotification>| {
        sizes.send(batch.len()).unwrap();
        let _ = gate.recv();
    };
    let handle = rig.informer.add_batch_handler(HandlerOptions::new(), 5, handler).unwrap();
    assert_eq!(seen.recv().await, Some(1));
    for name in 0..8 {
        rig.apply(&name.to_string(), "1");
    }
    rig.stored("7", "1").await;
    while handle.depth() < 8 {
        tokio::task::yield_now().await;
    }
    drop(go);
    assert_eq!((seen.recv().await, seen.recv().await), (Some(5), Some(3)));
}

#[tokio::test]
async fn nonempty_batch_is_delivered_before_the_filter_has_seen_everything() {
    for most in [5, usize::MAX] {
        let rig = Rig::start(server(), |informer| informer);
        rig.informer.wait_for_sync().await.unwrap();
        let (options, mut filtered, go) = gated_filter(|value| value == "gate");
        let (batches, mut received) = mpsc::unbounded_channel();
        let handler = move |batch: Vec<MapNotification>| batches.send(batch.len()).unwrap();
        let handle = rig.informer.add_batch_handler(options, most, handler).unwrap();
        handle.wait_for_sync().await.unwrap();
        let waiting = async |count| {
            while handle.depth() < count {
                tokio::task::yield_now().await;
            }
        };
        rig.apply("gate", "gate");
        assert_eq!(filtered.recv().await.unwrap(), "gate");
        rig.apply("first", "matches");
        waiting(1).await;
        (0..200).for_each(|name| rig.apply(&name.to_string(), "rejected"));
        waiting(201).await;
        rig.apply("last", "matches");
        waiting(202).await;
        go.send(()).unwrap();
        assert_eq!(received.recv().await, Some(1), "the first has not waited for the last");
        assert_eq!(received.recv().await, Some(1));
    }
}

#[tokio::test]
async fn handler_may_write_to_the_server_and_is_notified_of_the_result() {
    for queue in QUEUES {
        let rig = Rig::start(server(), queue);
        let (note, mut received) = notes();
        let server = rig.server.clone();
        let delete_final = move |notification: MapNotification| {
            if let Notification::Added { new, .. } | Notification::Updated { new, .. } =
                &notification
                && value(new) == "final"
            {
                server
                    .delete(&Resource::config_maps(), "shop", new.metadata.name.as_deref().unwrap())
                    .unwrap();
            }
            note(notification);
        };
        let handle = rig.informer.add_event_handler(delete_final).unwrap();
        // Waits for the sync of the handler, not of the informer: changes before the handler's
        // walk would count as initial.
        handle.wait_for_sync().await.unwrap();
        for name in ["a", "b", "c"] {
            rig.apply(name, "first");
            assert_eq!(received.next(1).await, [format!("watch +{name}=first")]);
            rig.apply(name, "final");
            let expected = [format!("watch {name}=first>final"), format!("watch -{name}=final")];
            assert_eq!(received.next(2).await, expected);
        }
        assert!(rig.informer.lister().list().is_empty());
    }
}
