//! Controllers over streams, as a user would write them. They are compiled twice, with a different
//! `runtime` each time. Each scenario returns what the controller has yielded.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use deltafifo_testkit::Resource;
use futures_util::{Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::core::PartialObjectMeta;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::runtime::controller::{self, Action, Controller};
use super::runtime::reflector::store::Writer;
use super::runtime::reflector::{self, ObjectRef, Store};
use super::runtime::watcher::Event;
use super::runtime::{PredicateConfig, WatchStreamExt, predicates, watcher};
use crate::rig::{Failed, idle, map, pod, server, typed};

/// A controller that is polled in a task, and the record of what it yields.
pub struct Running {
    yielded: mpsc::UnboundedReceiver<String>,
    polling: JoinHandle<()>,
}

/// Returns what a controller yields. Each reconcile waits for a permit.
fn outcomes(
    controller: Controller<ConfigMap>,
    gate: Arc<Semaphore>,
) -> impl Stream<Item = String> + Send + 'static {
    let reconcile = |_, gate: Arc<Semaphore>| async move {
        gate.acquire().await.expect("never closed").forget();
        Ok(Action::await_change())
    };
    controller.run(reconcile, |_, _: &Failed, _| Action::await_change(), gate).map(shown)
}

/// Polls a controller. Each reconcile waits for a permit.
fn run_gated(controller: Controller<ConfigMap>, gate: Arc<Semaphore>) -> Running {
    let (sender, yielded) = mpsc::unbounded_channel();
    let polling = tokio::spawn(outcomes(controller, gate).for_each(move |outcome| {
        // Fails if the test has ended.
        let _ = sender.send(outcome);
        async {}
    }));
    Running { yielded, polling }
}

pub fn run(controller: Controller<ConfigMap>) -> Running {
    run_gated(controller, Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)))
}

fn shown(
    item: Result<(ObjectRef<ConfigMap>, Action), controller::Error<Failed, watcher::Error>>,
) -> String {
    match item {
        Ok((object, _)) => object.name,
        Err(controller::Error::ObjectNotFound(object)) => format!("no {}", object.name),
        Err(controller::Error::ReconcilerFailed(..)) => "reconciler failed".to_owned(),
        Err(controller::Error::QueueError(_)) => "queue error".to_owned(),
        Err(controller::Error::RunnerError(_)) => "runner error".to_owned(),
    }
}

impl Running {
    /// Returns what the controller has yielded, sorted and without duplicates, and how it has
    /// ended, once every task waits for the clock.
    pub async fn at_rest(&mut self) -> String {
        // kube's scheduler rounds to milliseconds.
        sleep(Duration::from_millis(10)).await;
        let all: BTreeSet<_> = std::iter::from_fn(|| self.yielded.try_recv().ok()).collect();
        let mut all: Vec<_> = all.into_iter().collect();
        if self.polling.is_finished() {
            let ended = (&mut self.polling).await;
            all.push(if ended.is_ok() { "ended" } else { "panicked" }.to_owned());
        }
        all.join(", ")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.polling.abort();
    }
}

/// Returns a stream that yields what is sent to it, and ends when the sender is dropped.
fn channel<T: Send + 'static>() -> (mpsc::UnboundedSender<T>, impl Stream<Item = T> + Send + 'static)
{
    let (sender, mut receiver) = mpsc::unbounded_channel();
    (sender, stream::poll_fn(move |context| receiver.poll_recv(context)))
}

type Sent<K> = watcher::Result<K>;

/// Returns a store that has listed these maps.
fn filled(names: &[&str]) -> (Store<ConfigMap>, Writer<ConfigMap>) {
    let (store, mut writer) = reflector::store();
    writer.apply_watcher_event(&Event::Init);
    for name in names {
        writer.apply_watcher_event(&Event::InitApply(typed(name, 1)));
    }
    writer.apply_watcher_event(&Event::InitDone);
    (store, writer)
}

fn typed_pod(name: &str, owners: &[&str]) -> Pod {
    serde_json::from_value(pod(name, owners)).expect("a pod")
}

pub async fn item_of_a_missing_object() -> String {
    let (store, _writer) = filled(&["a", "b"]);
    let (trigger, stream) = channel::<Sent<ConfigMap>>();
    let mut running = run(Controller::for_stream(stream, store));
    for name in ["a", "c"] {
        trigger.send(Ok(typed(name, 1))).unwrap();
    }
    running.at_rest().await
}

pub async fn failing_streams() -> Vec<String> {
    let (store, _writer) = filled(&["a", "b"]);
    let (trigger, stream) = channel::<Sent<ConfigMap>>();
    let (pods, of_pods) = channel::<Sent<Pod>>();
    let (others, of_others) = channel::<Sent<Pod>>();
    let controller = Controller::for_stream(stream, store)
        .owns_stream(of_pods)
        .watches_stream(of_others, |_| [ObjectRef::new("b").within("shop")]);
    let mut running = run(controller);
    let mut all = Vec::new();
    trigger.send(Err(watcher::Error::NoResourceVersion)).unwrap();
    trigger.send(Ok(typed("a", 1))).unwrap();
    sleep(Duration::from_secs(10)).await;
    all.push(running.at_rest().await);
    pods.send(Err(watcher::Error::NoResourceVersion)).unwrap();
    pods.send(Ok(typed_pod("p", &["a"]))).unwrap();
    sleep(Duration::from_secs(10)).await;
    all.push(running.at_rest().await);
    others.send(Err(watcher::Error::NoResourceVersion)).unwrap();
    others.send(Ok(typed_pod("p", &[]))).unwrap();
    sleep(Duration::from_secs(10)).await;
    all.push(running.at_rest().await);
    all
}

/// Returns how many errors a stream that fails at once can yield in a minute.
pub async fn errors_in_a_minute() -> usize {
    let (store, _writer) = filled(&[]);
    let mut running = run(Controller::for_stream(failing(), store));
    sleep(Duration::from_secs(60)).await;
    std::iter::from_fn(|| running.yielded.try_recv().ok()).count()
}

/// Returns what a controller yields until it ends, if the task that polls it is busy for a minute
/// after each item.
async fn polled_slowly(controller: Controller<ConfigMap>) -> Vec<String> {
    let busy = |outcome| async move {
        sleep(Duration::from_secs(60)).await;
        outcome
    };
    outcomes(controller, Arc::new(Semaphore::new(0))).then(busy).collect().await
}

fn failing() -> impl Stream<Item = Sent<ConfigMap>> + Send + 'static {
    stream::repeat_with(|| Err(watcher::Error::NoResourceVersion))
}

/// Returns what a controller yields whose only stream fails twice and ends.
pub async fn stream_that_fails_and_ends() -> Vec<String> {
    let (store, _writer) = filled(&[]);
    polled_slowly(Controller::for_stream(failing().take(2), store)).await
}

/// Returns whether a controller ends at a graceful shutdown whose stream fails faster than its
/// errors are taken.
pub async fn shutdown_while_a_stream_fails() -> bool {
    let (store, _writer) = filled(&[]);
    let stopped = sleep(Duration::from_secs(600));
    let controller = Controller::for_stream(failing(), store).graceful_shutdown_on(stopped);
    timeout(Duration::from_secs(86_400), polled_slowly(controller)).await.is_ok()
}

pub async fn ending_streams() -> Vec<String> {
    let (store, _writer) = filled(&["a", "b"]);
    let (trigger, stream) = channel::<Sent<ConfigMap>>();
    let (pods, of_pods) = channel::<Sent<Pod>>();
    let (refs, of_refs) = channel::<ObjectRef<ConfigMap>>();
    let controller =
        Controller::for_stream(stream, store).owns_stream(of_pods).reconcile_on(of_refs);
    let mut running = run(controller);
    let mut all = Vec::new();
    drop(trigger);
    all.push(running.at_rest().await);
    pods.send(Ok(typed_pod("p", &["a"]))).unwrap();
    all.push(running.at_rest().await);
    drop(pods);
    refs.send(ObjectRef::new("b").within("shop")).unwrap();
    all.push(running.at_rest().await);
    drop(refs);
    all.push(running.at_rest().await);
    all
}

/// Returns what a controller yields whose only stream ends while a reconcile runs and another is
/// requested.
pub async fn stream_that_ends_during_a_reconcile() -> Vec<String> {
    let (store, _writer) = filled(&["a", "b"]);
    let (trigger, stream) = channel::<Sent<ConfigMap>>();
    let gate = Arc::new(Semaphore::new(0));
    let config = controller::Config::default().concurrency(1);
    let controller = Controller::for_stream(stream, store).with_config(config);
    let mut running = run_gated(controller, gate.clone());
    trigger.send(Ok(typed("a", 1))).unwrap();
    let mut all = vec![running.at_rest().await];
    trigger.send(Ok(typed("b", 1))).unwrap();
    all.push(running.at_rest().await);
    drop(trigger);
    all.push(running.at_rest().await);
    gate.add_permits(10);
    all.push(running.at_rest().await);
    all
}

pub async fn store_that_becomes_ready() -> Vec<String> {
    let (store, mut writer) = reflector::store();
    let (trigger, stream) = channel::<Sent<ConfigMap>>();
    let mut running = run(Controller::for_stream(stream, store));
    writer.apply_watcher_event(&Event::Apply(typed("a", 1)));
    trigger.send(Ok(typed("a", 1))).unwrap();
    let mut all = vec![running.at_rest().await];
    writer.apply_watcher_event(&Event::Init);
    writer.apply_watcher_event(&Event::InitApply(typed("a", 1)));
    writer.apply_watcher_event(&Event::InitDone);
    all.push(running.at_rest().await);
    all
}

pub async fn writer_that_is_dropped() -> String {
    let (store, writer) = reflector::store();
    let (_trigger, stream) = channel::<Sent<ConfigMap>>();
    let mut running = run(Controller::for_stream(stream, store));
    drop(writer);
    running.at_rest().await
}

/// Returns the texts of the four errors that a controller can yield. The cause of the last one has
/// other words in each runtime, and is left out.
pub async fn texts_of_errors() -> [String; 4] {
    let (store, _writer) = filled(&["a"]);
    let missing = first_error(stream::iter([Ok(typed("c", 1))]), &store).await;
    let failed = first_error(stream::iter([Ok(typed("a", 1))]), &store).await;
    let refused = first_error(failing(), &store).await;
    let (store, _) = reflector::store();
    let stopped = first_error(stream::pending(), &store).await;
    let (of_the_runner, _cause) = stopped.split_once(": ").expect("a cause");
    [missing, failed, refused, of_the_runner.to_owned()]
}

/// Returns the text of the first error of a controller whose reconciler fails.
async fn first_error(
    trigger: impl Stream<Item = Sent<ConfigMap>> + Send + 'static,
    store: &Store<ConfigMap>,
) -> String {
    // The stream does not end before the reconcile.
    let controller = Controller::for_stream(trigger.chain(stream::pending()), store.clone());
    let reconcile = |_, _: Arc<()>| async { Err(Failed("quota exceeded")) };
    let mut items = pin!(controller.run(reconcile, |_, _, _| Action::await_change(), Arc::new(())));
    items.next().await.expect("an error").expect_err("no reconcile succeeds").to_string()
}

pub async fn graceful_shutdown() -> Vec<String> {
    let (store, _writer) = filled(&["a", "b"]);
    let (trigger, stream) = channel::<Sent<ConfigMap>>();
    let (stop, stopped) = oneshot::channel::<()>();
    let gate = Arc::new(Semaphore::new(0));
    let controller = Controller::for_stream(stream, store).graceful_shutdown_on(async move {
        stopped.await.expect("the test stops the controller");
    });
    let mut running = run_gated(controller, gate.clone());
    trigger.send(Ok(typed("a", 1))).unwrap();
    let mut all = vec![running.at_rest().await];
    stop.send(()).unwrap();
    all.push(running.at_rest().await);
    // The stream may have been dropped already.
    let _ = trigger.send(Ok(typed("b", 1)));
    gate.add_permits(10);
    all.push(running.at_rest().await);
    all
}

/// Returns whether a controller drops its streams when its own stream is dropped.
pub async fn dropped_controller() -> bool {
    let (store, _writer) = filled(&["a"]);
    let (trigger, stream) = channel::<Sent<ConfigMap>>();
    let (pods, of_pods) = channel::<Sent<Pod>>();
    let mut running = run(Controller::for_stream(stream, store).owns_stream(of_pods));
    trigger.send(Ok(typed("a", 1))).unwrap();
    assert_eq!(running.at_rest().await, "a");
    drop(running);
    idle().await;
    trigger.is_closed() && pods.is_closed()
}

/// Returns a stream that owns a value and panics.
fn panicking<K: 'static>(
    owned: impl Send + 'static,
) -> impl Stream<Item = Sent<K>> + Send + 'static {
    stream::poll_fn(move |_| {
        let _owned = &owned;
        panic!("expected by this test")
    })
}

pub async fn panicking_stream() -> String {
    let (store, _writer) = filled(&["a"]);
    let controller = Controller::for_stream(stream::pending(), store);
    run(controller.owns_stream(panicking::<Pod>(()))).at_rest().await
}

pub async fn panicking_last_stream() -> String {
    let (store, _writer) = filled(&["a"]);
    run(Controller::for_stream(panicking(()), store)).at_rest().await
}

pub async fn panicking_stream_that_fills_the_store() -> String {
    let (store, writer) = reflector::store();
    run(Controller::for_stream(panicking(writer), store)).at_rest().await
}

pub async fn panicking_mapper() -> String {
    mapper_that_panics(stream::pending()).await
}

pub async fn panicking_mapper_of_the_last_stream() -> String {
    mapper_that_panics(stream::empty()).await
}

async fn mapper_that_panics(
    trigger: impl Stream<Item = Sent<ConfigMap>> + Send + 'static,
) -> String {
    let (store, _writer) = filled(&["a"]);
    let (pods, of_pods) = channel::<Sent<Pod>>();
    let mapper = |_: Pod| -> Option<ObjectRef<ConfigMap>> { panic!("expected by this test") };
    let mut running = run(Controller::for_stream(trigger, store).watches_stream(of_pods, mapper));
    pods.send(Ok(typed_pod("p", &[]))).unwrap();
    running.at_rest().await
}

/// Returns what a controller of the server's maps yields for each change. Its maps have come
/// through a predicate, and the pods that it owns are watched as metadata.
pub async fn watched_server() -> Vec<String> {
    let server = server();
    server.apply(map("a", "1")).unwrap();
    server.apply(map("b", "1")).unwrap();
    let (store, writer) = reflector::store();
    let maps = watcher(Api::<ConfigMap>::all(server.client()), watcher::Config::default())
        .default_backoff()
        .reflect(writer)
        .applied_objects()
        .predicate_filter(predicates::labels, PredicateConfig::default());
    let pods = Api::<PartialObjectMeta<Pod>>::all(server.client());
    let pods = watcher(pods, watcher::Config::default()).default_backoff().touched_objects();
    let others = watcher(Api::<Pod>::all(server.client()), watcher::Config::default())
        .default_backoff()
        .touched_objects();
    let of_label = |pod: Pod| {
        let name = pod.metadata.labels.unwrap_or_default().remove("map");
        name.map(|name| ObjectRef::new(&name).within("shop"))
    };
    let mut running =
        run(Controller::for_stream(maps, store).owns_stream(pods).watches_stream(others, of_label));
    let mut all = vec![running.at_rest().await];
    let labelled = |owner, label| serde_json::to_value(labelled_pod(owner, label)).expect("JSON");
    server.apply(labelled("a", "b")).unwrap();
    all.push(running.at_rest().await);
    // Only the new state is mapped.
    server.apply(labelled("c", "d")).unwrap();
    all.push(running.at_rest().await);
    server.apply(labelled("a", "a")).unwrap();
    all.push(running.at_rest().await);
    server.delete(&Resource::pods(), "shop", "p").unwrap();
    all.push(running.at_rest().await);
    let mut changed = map("a", "2");
    changed["metadata"]["labels"]["new"] = "yes".into();
    server.apply(changed).unwrap();
    all.push(running.at_rest().await);
    server.apply(map("b", "2")).unwrap();
    all.push(running.at_rest().await);
    server.delete(&Resource::config_maps(), "shop", "b").unwrap();
    all.push(running.at_rest().await);
    all
}

/// Starts to fill a shared store with the events that are sent. Returns a subscriber.
fn shared<K: crate::rig::Object>()
-> (mpsc::UnboundedSender<Sent<Event<K>>>, reflector::ReflectHandle<K>) {
    let (_, writer) = reflector::store_shared(16);
    let subscriber = writer.subscribe().expect("the store is shared");
    let (events, stream) = channel();
    tokio::spawn(stream.reflect_shared(writer).for_each(|_| async {}));
    (events, subscriber)
}

/// Returns the events of a list.
fn list<K>(objects: impl IntoIterator<Item = K>) -> Vec<Event<K>> {
    let objects = objects.into_iter().map(Event::InitApply);
    [Event::Init].into_iter().chain(objects).chain([Event::InitDone]).collect()
}

fn labelled_pod(owner: &str, label: &str) -> Pod {
    let mut pod = typed_pod("p", &[owner]);
    pod.metadata.labels = Some([("map".to_owned(), label.to_owned())].into());
    pod
}

/// Returns what two controllers over subscribers yield for each change of a pod: the first owns
/// pods, the second maps their label.
pub async fn shared_streams() -> Vec<[String; 2]> {
    over_shared_streams(false).await
}

/// Returns what the controllers of [`shared_streams`] yield if each subscriber is boxed.
pub async fn adapted_shared_streams() -> Vec<[String; 2]> {
    over_shared_streams(true).await
}

async fn over_shared_streams(are_adapted: bool) -> Vec<[String; 2]> {
    let (of_maps, maps) = shared::<ConfigMap>();
    let (of_pods, pods) = shared::<Pod>();
    let of_label = |pod: Arc<Pod>| {
        let name = pod.metadata.labels.as_ref().and_then(|labels| labels.get("map").cloned());
        name.map(|name| ObjectRef::new(&name).within("shop"))
    };
    let [first, second] = if are_adapted {
        [(); 2].map(|()| Controller::for_shared_stream(maps.clone().boxed(), maps.reader()))
    } else {
        [(); 2].map(|()| Controller::for_shared_stream(maps.clone(), maps.reader()))
    };
    let (first, second) = if are_adapted {
        let pods = || pods.clone().boxed();
        (first.owns_shared_stream(pods()), second.watches_shared_stream(pods(), of_label))
    } else {
        let pods = || pods.clone();
        (first.owns_shared_stream(pods()), second.watches_shared_stream(pods(), of_label))
    };
    // A handle that is not polled would hold the others up.
    drop((maps, pods));
    let (mut first, mut second) = (run(first), run(second));
    for event in list([typed("a", 1), typed("b", 1)]) {
        of_maps.send(Ok(event)).unwrap();
    }
    let mut all = vec![[first.at_rest().await, second.at_rest().await]];
    let changes = [
        vec![Event::Apply(labelled_pod("a", "b"))],
        vec![Event::Apply(labelled_pod("b", "a"))],
        vec![Event::Delete(labelled_pod("b", "a"))],
        vec![Event::Apply(labelled_pod("a", "b"))],
        list([]),
    ];
    for events in changes {
        for event in events {
            of_pods.send(Ok(event)).unwrap();
        }
        all.push([first.at_rest().await, second.at_rest().await]);
    }
    all
}

/// Returns what a controller over a shared stream yields when the stream that fills the store ends.
pub async fn root_that_ends() -> Vec<String> {
    let (events, maps) = shared::<ConfigMap>();
    let reader = maps.reader();
    let mut running = run(Controller::for_shared_stream(maps, reader));
    for event in list([typed("a", 1)]) {
        events.send(Ok(event)).unwrap();
    }
    let mut all = vec![running.at_rest().await];
    drop(events);
    all.push(running.at_rest().await);
    all
}
