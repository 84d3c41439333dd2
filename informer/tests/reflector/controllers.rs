//! The controller loop: items are applied, delivered, retried, and finally given up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deltafifo::{BoxError, DeltaFifo, Indexer, KeyFunc, Meta};
use deltafifo_informer::lister_watcher::{EventType, Scripted};
use deltafifo_informer::reflector::RunError;
use deltafifo_informer::{Controller, ObjectEvent, Reflector};
use futures_util::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use super::fragile::{CALM, Fragile, FragileMeta};
use super::rig::{event, list, map, queue, shown};

type Received = mpsc::UnboundedReceiver<String>;

/// Runs a controller whose handler returns the result of `answer` for the key and the number of
/// the attempt. Returns the handler's calls and the reported errors.
fn run(
    script: Scripted,
    answer: impl Fn(&str, usize) -> Result<(), BoxError> + Send + Sync + Copy + 'static,
) -> (Received, Received, tokio::task::JoinHandle<RunError>, Arc<super::rig::Queue>) {
    let fifo = queue();
    let reflector = Reflector::builder(script, fifo.clone()).watch_list(false).build();
    let ((sender, received), (errors, failed)) =
        (mpsc::unbounded_channel(), mpsc::unbounded_channel());
    let calls =
        Arc::new(parking_lot::Mutex::new(std::collections::HashMap::<String, usize>::new()));
    let store = fifo.store();
    let handler = move |key: String, event: ObjectEvent<ConfigMap>| {
        let attempt = {
            let mut calls = calls.lock();
            let calls = calls.entry(key.clone()).or_default();
            *calls += 1;
            *calls
        };
        let (stored, sender) = (store.get_by_key(&key), sender.clone());
        async move {
            let text = match event {
                ObjectEvent::Added { new, is_in_initial_list } => {
                    // A later delta of the same item may be applied already.
                    let version = |map: &ConfigMap| map.metadata.resource_version.clone();
                    let stored = stored.expect("applied before it is delivered");
                    assert!(version(&stored) >= version(&new), "applied before it is delivered");
                    format!("Added {} {is_in_initial_list}", shown(&new))
                }
                ObjectEvent::Updated { old, new, .. } => {
                    format!("Updated {}>{}", shown(&old), shown(&new))
                }
                ObjectEvent::Deleted { .. } => format!("Deleted {key}"),
            };
            let _ = sender.send(text);
            answer(&key, attempt)
        }
    };
    let controller = Controller::new(reflector, fifo.clone(), handler)
        .workers(2)
        .retries(2, Duration::from_secs(1))
        .on_error(move |error| drop(errors.send(error.to_string())));
    (received, failed, tokio::spawn(Arc::new(controller).run()), fifo)
}

async fn next(received: &mut Received, count: usize) -> Vec<String> {
    let mut all = Vec::new();
    while all.len() < count {
        let received = timeout(Duration::from_secs(600), received.recv())
            .await
            .expect("another call is expected");
        all.push(received.expect("the controller runs"));
    }
    all
}

#[tokio::test(start_paused = true)]
async fn items_are_applied_before_they_are_delivered() {
    // Each event is sent after the previous one was delivered. Together they would be one item,
    // and applied as one.
    static DELIVERED: Notify = Notify::const_new();
    let events = [event(EventType::Modified, map("a", 5)), event(EventType::Deleted, map("a", 6))];
    let events = stream::iter(events).then(|event| async {
        DELIVERED.notified().await;
        event
    });
    let script = Scripted::new()
        .list(list(4, [map("a", 3)]))
        .watch_stream(events.chain(stream::pending()).boxed());
    let (mut received, _failed, _run, _fifo) = run(script, |_, _| {
        DELIVERED.notify_one();
        Ok(())
    });
    assert_eq!(next(&mut received, 3).await, ["Added a@3 true", "Updated a@3>a@5", "Deleted a"]);
}

#[tokio::test(start_paused = true)]
async fn failing_handler_is_retried_and_finally_reported() {
    let script = Scripted::new().list(list(4, [map("never", 2), map("later", 3)])).watch_on([]);
    let answer = |key: &str, attempt| {
        if key == "never" || attempt < 3 { Err("not yet".into()) } else { Ok(()) }
    };
    let (mut received, mut failed, _run, _fifo) = run(script, answer);
    let calls = next(&mut received, 6).await;
    assert_eq!(calls.iter().filter(|call| call.starts_with("Added never@2")).count(), 3);
    assert_eq!(
        next(&mut failed, 1).await,
        ["the handler failed 3 times for key \"never\", the event is given up: not yet"]
    );
}

#[tokio::test(start_paused = true)]
async fn panicking_handler_is_reported_and_its_key_stays_usable() {
    let script = Scripted::new()
        .list(list(4, [map("a", 3)]))
        .watch_on([event(EventType::Modified, map("a", 5))]);
    let answer =
        |_: &str, attempt| if attempt == 1 { panic!("expected by this test") } else { Ok(()) };
    let (mut received, mut failed, _run, _fifo) = run(script, answer);
    assert!(next(&mut failed, 1).await[0].contains("panicked for key \"a\""));
    assert_eq!(next(&mut received, 2).await, ["Added a@3 true", "Updated a@3>a@5"]);
}

#[tokio::test(start_paused = true)]
async fn closed_queue_is_drained_and_the_controller_ends() {
    let script =
        Scripted::new().list(list(4, [map("a", 1), map("b", 2), map("c", 3)])).watch_on([]);
    let (mut received, _failed, run, fifo) = run(script, |_, _| Ok(()));
    next(&mut received, 1).await;
    fifo.close();
    assert!(matches!(run.await.unwrap(), RunError::Closed(_)));
    assert_eq!(next(&mut received, 2).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn event_of_a_dropped_handler_is_redelivered_first_by_the_next_run() {
    let script = Scripted::new()
        .list(list(4, [map("a", 3), map("b", 3)]))
        .watch_on([event(EventType::Deleted, map("a", 5)), event(EventType::Modified, map("b", 6))])
        .list(list(8, [map("a", 7), map("b", 6)]));
    let fifo = queue();
    let reflector = Reflector::builder(script, fifo.clone()).watch_list(false).build();
    let (sender, mut received) = mpsc::unbounded_channel();
    let first = Arc::new(AtomicBool::new(true));
    let first_run = first.clone();
    let handler = move |key: String, event: ObjectEvent<ConfigMap>| {
        let (sender, first) = (sender.clone(), first.clone());
        async move {
            let text = match event {
                ObjectEvent::Added { new, .. } => format!("Added {}", shown(&new)),
                ObjectEvent::Updated { old, new, .. } => {
                    format!("Updated {}>{}", shown(&old), shown(&new))
                }
                ObjectEvent::Deleted { .. } => format!("Deleted {key}"),
            };
            let is_added = text.starts_with("Added");
            let _ = sender.send(text);
            match first.load(Ordering::SeqCst) {
                _ if is_added => Ok(()),
                true if key == "a" => std::future::pending().await,
                // The retry waits, and the handler is dropped during the wait.
                true => Err("not now".into()),
                false => Ok(()),
            }
        }
    };
    let controller = Controller::new(reflector, fifo.clone(), handler)
        .workers(2)
        .retries(9, Duration::from_secs(3600));
    let controller = Arc::new(controller);
    let run = tokio::spawn(Arc::clone(&controller).run());
    let mut before = next(&mut received, 4).await;
    before.sort();
    assert_eq!(before, ["Added a@3", "Added b@3", "Deleted a", "Updated b@3>b@6"]);
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    first_run.store(false, Ordering::SeqCst);
    let _run = tokio::spawn(controller.run());
    let mut again = next(&mut received, 3).await;
    again[..2].sort();
    assert_eq!(again, ["Deleted a", "Updated b@3>b@6", "Added a@7"]);
}

#[tokio::test(start_paused = true)]
async fn object_drop_panics_are_reported_and_every_change_is_delivered() {
    let store = Indexer::builder(KeyFunc::meta_namespace(FragileMeta)).build().unwrap();
    store.replace(vec![Fragile::new("a", 1, "breaks"), Fragile::new("b", 1, "breaks")]).unwrap();
    let fifo = Arc::new(DeltaFifo::over(store).build());
    // The objects are released with the item: as replaced states among its changes, as its last
    // change, or when deltas are folded. The last one is released with its event.
    fifo.delete(Fragile::new("a", 2, CALM)).unwrap();
    fifo.add(Fragile::new("a", 3, CALM)).unwrap();
    fifo.update(Fragile::new("b", 2, CALM)).unwrap();
    fifo.add(Fragile::new("c", 1, CALM)).unwrap();
    fifo.delete(Fragile::new("c", 2, CALM)).unwrap();
    fifo.delete(Fragile::new("c", 3, "breaks")).unwrap();
    fifo.add(Fragile::new("d", 1, CALM)).unwrap();
    fifo.delete(Fragile::new("d", 2, "breaks")).unwrap();
    fifo.add(Fragile::new("e", 1, CALM)).unwrap();
    let ((sender, mut received), (errors, mut failed)) =
        (mpsc::unbounded_channel(), mpsc::unbounded_channel());
    let shown = |fragile: &Fragile| fragile.metadata.resource_version.clone().unwrap_or_default();
    let handler = move |key: String, event: ObjectEvent<Fragile>| {
        let text = match &event {
            ObjectEvent::Added { new, .. } => format!("{key}: added {}", shown(new)),
            ObjectEvent::Updated { old, new, .. } => {
                format!("{key}: updated {}>{}", shown(old), shown(new))
            }
            ObjectEvent::Deleted { .. } => format!("{key}: deleted"),
        };
        let _ = sender.send(text);
        std::future::ready(Ok(()))
    };
    let reflector = Reflector::builder(Scripted::new(), fifo.clone()).build();
    let controller = Controller::new(reflector, fifo.clone(), handler);
    let controller =
        Arc::new(controller.on_error(move |error| drop(errors.send(error.to_string()))));
    let run = tokio::spawn(controller.run());
    let (a, c, d) =
        (["a: deleted", "a: added 3"], ["c: added 1", "c: deleted"], ["d: added 1", "d: deleted"]);
    let all = [&a[..], &["b: updated 1>2"], &c, &d, &["e: added 1"]].concat();
    assert_eq!(next(&mut received, all.len()).await, all);
    for (error, key) in next(&mut failed, 4).await.iter().zip(["a", "b", "c", "d"]) {
        assert!(error.starts_with(&format!("an object of key {key:?} panicked")), "{error}");
        assert!(error.ends_with("broken"), "{error}");
    }
    assert_eq!(fifo.pending_deltas(), 0);
    fifo.close();
    assert!(matches!(run.await.unwrap(), RunError::Closed(_)));
}

/// An accessor that panics when it reads the namespace of version 3.
struct Unlucky;

impl Meta<ConfigMap> for Unlucky {
    fn namespace<'a>(&self, map: &'a ConfigMap) -> Option<&'a str> {
        assert_ne!(map.metadata.resource_version.as_deref(), Some("3"), "an unreadable version");
        None
    }

    fn name<'a>(&self, map: &'a ConfigMap) -> Option<&'a str> {
        map.metadata.name.as_deref()
    }
}

#[tokio::test(start_paused = true)]
async fn panicking_accessor_is_reported_and_the_worker_continues() {
    let keys = KeyFunc::custom(Unlucky, |map: &ConfigMap| {
        Ok(map.metadata.name.clone().unwrap_or_default())
    });
    let fifo = Arc::new(DeltaFifo::over(Indexer::builder(keys).build().unwrap()).build());
    let script = Scripted::new().list(list(4, [map("a", 3), map("b", 4)])).watch_on([]);
    let reflector = Reflector::builder(script, fifo.clone()).watch_list(false).build();
    let ((sender, mut received), (errors, mut failed)) =
        (mpsc::unbounded_channel(), mpsc::unbounded_channel());
    let handler = move |key: String, _| {
        let _ = sender.send(key);
        std::future::ready(Ok(()))
    };
    let controller = Controller::new(reflector, fifo, handler);
    let controller =
        Arc::new(controller.on_error(move |error| drop(errors.send(error.to_string()))));
    let _run = tokio::spawn(controller.run());
    assert_eq!(next(&mut received, 1).await, ["b"]);
    let failed = next(&mut failed, 1).await;
    assert!(
        failed[0].contains(r#"panicked for key "a""#)
            && failed[0].contains("an unreadable version"),
        "{failed:?}"
    );
}
