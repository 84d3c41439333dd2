//! Tests of the parts of controllers over streams that kube does not have: deletions, predicates
//! over two states, and errors.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use deltafifo_informer::SharedInformer;
use deltafifo_informer::runtime::controller::{Action, Error};
use deltafifo_informer::runtime::reflector::{ReflectHandle, Store, store, store_shared};
use deltafifo_informer::runtime::watcher::{self, Event};
use deltafifo_informer::runtime::{Controller, WatchStreamExt, predicates};
use deltafifo_informer::workqueue::ItemExponentialFailureRateLimiter;
use deltafifo_testkit::{Fault, Resource, status};
use futures_util::{FutureExt, StreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{Api, Resource as _};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::rig::{Failed, idle, name, poll_idle, poll_with, server, typed, value};

type Sender = mpsc::UnboundedSender<watcher::Result<Event<ConfigMap>>>;

/// Starts to fill a shared store with the events that are sent. Returns a subscriber.
fn shared() -> (Sender, ReflectHandle<ConfigMap>) {
    let (_, writer) = store_shared(16);
    let handle = writer.subscribe().expect("the store is shared");
    let (events, mut sent) = mpsc::unbounded_channel();
    let stream = stream::poll_fn(move |context| sent.poll_recv(context));
    tokio::spawn(stream.reflect_shared(writer).for_each(|_| async {}));
    (events, handle)
}

fn send_list(events: &Sender, maps: impl IntoIterator<Item = ConfigMap>) {
    let maps = maps.into_iter().map(Event::InitApply);
    for event in [Event::Init].into_iter().chain(maps).chain([Event::InitDone]) {
        events.send(Ok(event)).expect("the root stream is polled");
    }
}

/// Sends a list after an error, without which a watcher does not list again.
fn send_relist(events: &Sender, maps: impl IntoIterator<Item = ConfigMap>) {
    events.send(Err(watcher::Error::NoResourceVersion)).expect("the root stream is polled");
    send_list(events, maps);
}

type Deleted = Arc<Mutex<Vec<String>>>;

/// Returns a controller over the handle, and the record of its deletion handler.
fn recording(handle: ReflectHandle<ConfigMap>) -> (Controller<ConfigMap>, Deleted) {
    let deleted = Deleted::default();
    let record = Arc::clone(&deleted);
    let reader = handle.reader();
    let controller = Controller::for_shared_stream(handle, reader).on_deleted(move |last| {
        let sign = if last.is_tombstone() { '!' } else { '-' };
        let map = last.object().expect("the last state is known");
        record.lock().unwrap().push(format!("{sign}{}={}", name(map), value(map)));
        async {}
    });
    (controller, deleted)
}

fn with_uid(name: &str, version: u32, uid: &str) -> ConfigMap {
    let mut map = typed(name, version);
    map.metadata.uid = Some(uid.to_owned());
    map
}

#[tokio::test(start_paused = true)]
async fn deletions_of_a_handle_reach_the_deletion_handler() {
    let (events, handle) = shared();
    let (controller, deleted) = recording(handle);
    let mut polled = poll_idle(controller);
    send_list(&events, [typed("a", 1), typed("b", 1), with_uid("c", 1, "first")]);
    assert_eq!(polled.at_rest().await, ["a", "b", "c"]);
    events.send(Ok(Event::Delete(typed("a", 2)))).unwrap();
    send_relist(&events, [with_uid("c", 3, "second")]);
    assert_eq!(polled.at_rest().await, ["c"], "an object was made again");
    let mut deleted = std::mem::take(&mut *deleted.lock().unwrap());
    deleted.sort();
    assert_eq!(deleted, ["!b=1", "!c=1", "-a=2"]);
}

#[tokio::test(start_paused = true)]
async fn list_of_another_watcher_calls_no_deletion_handler() {
    let (events, handle) = shared();
    let (controller, deleted) = recording(handle);
    let mut polled = poll_idle(controller);
    for list in [vec![typed("a", 1), typed("b", 1)], vec![typed("c", 1)]] {
        send_list(&events, list);
    }
    polled.at_rest().await;
    assert!(deleted.lock().unwrap().is_empty(), "{deleted:?}");
    send_relist(&events, [typed("a", 1), typed("b", 1)]);
    events.send(Ok(Event::Delete(typed("b", 2)))).unwrap();
    polled.at_rest().await;
    assert_eq!(*deleted.lock().unwrap(), ["-b=2"]);
}

#[tokio::test(start_paused = true)]
async fn owner_is_reconciled_if_a_list_of_another_watcher_lacks_its_child() {
    let (events, children) = shared();
    let store = Store::from_objects([owner("a")]);
    let mut polled =
        poll_idle(Controller::for_stream(stream::pending(), store).owns_shared_stream(children));
    let mut child = typed("child", 1);
    child.metadata.owner_references = owner("a").controller_owner_ref(&()).map(|owner| vec![owner]);
    send_list(&events, [child]);
    assert_eq!(polled.at_rest().await, ["a"]);
    send_list(&events, []);
    assert_eq!(polled.at_rest().await, ["a"], "the child may be deleted");
}

fn owner(name: &str) -> ConfigMap {
    with_uid(name, 1, "of no matter")
}

#[tokio::test(start_paused = true)]
async fn objects_from_before_a_handle_are_reconciled_although_the_predicate_rejects_updates() {
    let (_, mut writer) = store_shared(16);
    writer.apply_watcher_event(&Event::Apply(typed("a", 1)));
    let mut handle = writer.subscribe().expect("the store is shared");
    let (events, mut sent) = mpsc::unbounded_channel();
    let stream = stream::poll_fn(move |context| sent.poll_recv(context));
    tokio::spawn(stream.reflect_shared(writer).for_each(|_| async {}));
    send_list(&events, [typed("a", 1), typed("b", 1)]);
    let early = handle.clone();
    // A clone of a handle that has yielded everything.
    assert!(handle.next().await.is_some() && handle.next().await.is_some());
    for handle in [early, handle] {
        let reader = handle.reader();
        let controller = Controller::for_shared_stream(handle, reader).when(|_, _| false);
        let mut polled = poll_idle(controller);
        assert_eq!(polled.at_rest().await, ["a", "b"]);
        send_relist(&events, [typed("a", 2), typed("b", 1)]);
        assert!(polled.at_rest().await.is_empty(), "an update");
    }
}

/// A value whose drop waits until the sender is dropped.
struct Held(std::sync::mpsc::Receiver<()>);

impl Drop for Held {
    fn drop(&mut self) {
        // Fails when the sender is dropped.
        let _ = self.0.recv();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn panic_of_the_stream_that_fills_the_store_is_not_hidden_by_the_dropped_writer() {
    let (store, writer) = store::<ConfigMap>();
    let (release, held) = std::sync::mpsc::channel();
    let mut filling = Some((writer, Held(held)));
    let trigger = stream::poll_fn(move |_| -> Poll<Option<watcher::Result<ConfigMap>>> {
        // The panic drops the writer, and is in progress until the rest is dropped, too.
        let _filling = filling.take();
        panic!("the cause");
    });
    let controller = Controller::for_stream(trigger, store.clone());
    let reconcile = |_, _| async { Ok::<_, Failed>(Action::await_change()) };
    let mut yielded =
        controller.run(reconcile, |_, _, _| Action::await_change(), Arc::new(())).boxed();
    assert!(yielded.next().now_or_never().is_none());
    store.wait_until_ready().await.unwrap_err();
    for _ in 0..10 {
        let hidden = yielded.next().now_or_never().flatten();
        assert!(hidden.is_none(), "{hidden:?}");
    }
    drop(release);
    let panicked = AssertUnwindSafe(yielded.next()).catch_unwind().await.unwrap_err();
    assert_eq!(panicked.downcast_ref(), Some(&"the cause"));
}

#[tokio::test(start_paused = true)]
async fn predicate_compares_both_states_of_a_handle() {
    let (events, handle) = shared();
    let reader = handle.reader();
    let controller = Controller::for_shared_stream(handle, reader).when(predicates::labels);
    let mut polled = poll_idle(controller);
    send_list(&events, [typed("a", 1)]);
    assert_eq!(polled.at_rest().await, ["a"]);
    events.send(Ok(Event::Apply(typed("a", 2)))).unwrap();
    assert!(polled.at_rest().await.is_empty());
    let mut labelled = typed("a", 3);
    labelled.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    events.send(Ok(Event::Apply(labelled))).unwrap();
    assert_eq!(polled.at_rest().await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn object_that_is_deleted_and_made_again_is_reconciled_without_its_failures() {
    let (events, handle) = shared();
    let reader = handle.reader();
    let policy =
        ItemExponentialFailureRateLimiter::new(Duration::from_secs(1), Duration::from_secs(3600));
    let controller = Controller::for_shared_stream(handle, reader).retry(policy);
    let reconcile = |_, _| async { Err(Failed("no room")) };
    let mut polled = poll_with(controller, reconcile, |_| Action::requeue(Duration::ZERO));
    send_list(&events, [typed("a", 1)]);
    for _ in 0..5 {
        polled.next().await;
    }
    idle().await;
    events.send(Ok(Event::Delete(typed("a", 2)))).unwrap();
    assert!(polled.at_rest().await.is_empty(), "the deletion of a main object triggers nothing");
    events.send(Ok(Event::Apply(typed("a", 3)))).unwrap();
    polled.next().await;
    let failed = Instant::now();
    polled.next().await;
    assert_eq!(failed.elapsed().as_secs(), 1, "the delay after a first failure");
}

#[tokio::test(start_paused = true)]
async fn store_of_an_informer_serves_a_controller_over_a_stream() {
    let (events, mut sent) = mpsc::unbounded_channel();
    let stream = stream::poll_fn(move |context| sent.poll_recv(context));
    let maps = SharedInformer::<ConfigMap>::for_stream(stream).build().unwrap();
    let running = maps.clone();
    tokio::spawn(async move { running.run().await });
    let trigger = stream::iter([Ok(typed("a", 1))]).chain(stream::pending());
    let mut polled = poll_idle(Controller::for_stream(trigger, Store::from(&maps)));
    assert!(polled.at_rest().await.is_empty(), "the informer has no list yet");
    send_list(&events, [typed("a", 1)]);
    assert_eq!(polled.at_rest().await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn reconcile_all_on_reconciles_what_the_store_of_a_stream_has() {
    let store = Store::from_objects([typed("a", 1), typed("b", 1)]);
    let all = stream::iter([()]).chain(stream::pending());
    let controller = Controller::for_stream(stream::pending(), store).reconcile_all_on(all);
    assert_eq!(controller.store().len(), 2);
    assert_eq!(poll_idle(controller).at_rest().await, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn store_that_is_not_filled_is_reported_every_minute() {
    let (reader, writer) = store::<ConfigMap>();
    let began = Instant::now();
    let mut polled = poll_idle(Controller::for_stream(stream::pending(), reader));
    for minute in 1..=2 {
        let report = "runner error: nothing is reconciled until these have their initial list: the \
                      store of configmaps.v1 (poll the stream that fills it, and check the errors of that \
                      stream)";
        assert_eq!(polled.next().await, report);
        assert_eq!(began.elapsed().as_secs(), 60 * minute);
    }
    drop(writer);
    let dropped = "runner error: writer of the store of configmaps.v1 was dropped before its \
                   initial list, so nothing is reconciled: poll the stream that fills the store for as long as the \
                   controller runs, and check whether it has ended or panicked";
    assert_eq!(polled.rest().await, [dropped]);
}

#[tokio::test(start_paused = true)]
async fn optional_after_a_stream_changes_no_relation_to_an_informer() {
    let server = server();
    let pods = Api::<Pod>::all(server.client());
    let missing = Fault::status(status::not_found(&Resource::pods(), ""));
    server.fault(missing.times(usize::MAX));
    let store = Store::from_objects([typed("a", 1)]);
    let trigger = stream::iter([Ok(typed("a", 1))]).chain(stream::pending());
    let of_pods = stream::pending::<watcher::Result<Pod>>();
    let controller = Controller::for_stream(trigger, store)
        .owns(pods, watcher::Config::default())
        .owns_stream(of_pods)
        .optional();
    let mut polled = poll_idle(controller);
    let yielded = polled.next().await;
    assert!(yielded.contains("nothing is reconciled"), "{yielded}");
}

#[tokio::test(start_paused = true)]
async fn missing_object_of_a_stream_is_yielded_with_its_reference() {
    let store = Store::<ConfigMap>::from_objects([]);
    let trigger = stream::iter([Ok(typed("a", 1))]).chain(stream::pending());
    let controller = Controller::for_stream(trigger, store);
    let reconcile = |_, _| async { Ok::<_, Failed>(Action::await_change()) };
    let policy = |_, _: &_, _| deltafifo_informer::runtime::controller::Action::await_change();
    let mut stream = Box::pin(controller.run(reconcile, policy, Arc::new(())));
    let Some(Err(Error::ObjectNotFound(missing))) = stream.next().await else {
        panic!("an error is expected");
    };
    assert_eq!(missing.to_string(), "ConfigMap.v1./a.shop");
}
