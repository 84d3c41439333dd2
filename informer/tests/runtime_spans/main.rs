//! Tests of the spans in which user code of a controller runs.
//!
//! The tests have a process of their own, and each subscribes at its start. tracing caches per
//! process whether a span has subscribers, so a test without a subscriber could disable the spans
//! of the others.

#[allow(dead_code)] // Most of it is for the tests of controllers.
#[path = "../runtime/rig.rs"]
mod rig;

use std::fmt::{Debug, Write};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use deltafifo_informer::runtime::controller::Action;
use deltafifo_informer::runtime::reflector::{ObjectRef, Store, store, store_shared};
use deltafifo_informer::runtime::watcher::Event as WatcherEvent;
use deltafifo_informer::runtime::{Controller, WatchStreamExt, watcher};
use deltafifo_informer::{KubeListerWatcher, SharedInformer};
use deltafifo_testkit::{ApiServer, Fault, Resource, status};
use futures_util::{Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::Api;
use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::yield_now;
use tokio::time::timeout;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Event, Instrument, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Scope};

use rig::{Failed, controller, map, maps, missing, pod, poll, poll_idle, poll_with, server};

/// A record of the spans around each event of this file, outermost first, and of the errors and
/// warnings that the informer logs.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

/// A span, in the form `name field=value`.
struct Shown(String);

impl Visit for Shown {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Log {
    /// Returns a log of the current thread's spans. It subscribes until the guard is dropped.
    fn listening() -> (Self, DefaultGuard) {
        let log = Self::default();
        let listens = set_default(tracing_subscriber::registry().with(log.clone()));
        (log, listens)
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Log {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut shown = Shown(attributes.metadata().name().to_owned());
        attributes.record(&mut shown);
        context.span(id).expect("a new span").extensions_mut().insert(shown);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if event.metadata().target() == module_path!() {
            let scope = context.event_scope(event).into_iter().flat_map(Scope::from_root);
            let shown = scope
                .filter_map(|span| span.extensions().get::<Shown>().map(|shown| shown.0.clone()));
            let shown: Vec<_> = shown.collect();
            self.0.lock().push(shown.join(" > "));
        } else if *event.metadata().level() <= Level::WARN {
            let mut shown = Shown(String::new());
            event.record(&mut shown);
            self.0.lock().push(shown.0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn logs_of_a_reconciler_are_in_a_span_with_its_object() {
    let (log, _listens) = Log::listening();
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let mut polled = poll(controller(&server), |_, _| {
        tracing::info!("it is called");
        async {
            yield_now().await;
            tracing::info!("it goes on");
            Ok(Action::await_change())
        }
    });
    assert_eq!(polled.next().await, "a");
    let span = "reconciling object object.ref=ConfigMap.v1./a.shop object.reason=object updated";
    assert_eq!(log.take(), [span; 2]);
}

#[tokio::test(start_paused = true)]
async fn error_policy_runs_in_the_span_of_the_reconcile_that_failed() {
    let (log, _listens) = Log::listening();
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let reconcile = |_, _| async { Err(Failed("no room")) };
    let mut polled = poll_with(controller(&server), reconcile, |_| {
        tracing::info!("it failed");
        Action::await_change()
    });
    polled.next().await;
    let span = "reconciling object object.ref=ConfigMap.v1./a.shop object.reason=object updated";
    assert_eq!(log.take(), [span]);
}

/// Returns the reasons of the reconciles that were logged.
fn reasons(log: &Log) -> Vec<String> {
    let of = |span: &String| span.split("object.reason=").nth(1).unwrap_or_default().to_owned();
    log.take().iter().map(of).collect()
}

#[tokio::test(start_paused = true)]
async fn span_of_a_reconcile_has_its_reason() {
    let (log, _listens) = Log::listening();
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let (asks, asked) = futures_channel();
    let (asks_for_all, asked_for_all) = futures_channel();
    let controller = controller(&server)
        .owns(Api::<Pod>::all(server.client()), watcher::Config::default())
        .reconcile_on(asked)
        .reconcile_all_on(asked_for_all);
    let reconcile = |map: Arc<ConfigMap>, _| {
        tracing::info!("it is called");
        async move {
            match &*rig::value(&map) {
                "retry" => Ok(Action::requeue(Duration::from_secs(1))),
                "panic" => panic!("the reconciler"),
                "fail" => Err(Failed("no room")),
                _ => Ok(Action::await_change()),
            }
        }
    };
    let mut polled = poll_with(controller, reconcile, |_| Action::requeue(Duration::from_secs(1)));
    polled.next().await;
    server.wait_for_watchers(2).await;
    assert_eq!(reasons(&log), ["object updated"]);

    server.apply(pod("p", &["a"])).unwrap();
    polled.next().await;
    assert_eq!(reasons(&log), ["related object updated"]);

    asks.send(ObjectRef::new("a").within("shop")).unwrap();
    polled.next().await;
    assert_eq!(reasons(&log), ["unknown"]);

    asks_for_all.send(()).unwrap();
    polled.next().await;
    assert_eq!(reasons(&log), ["bulk reconcile requested"]);

    for (data, reason) in [
        ("retry", "reconciler requested retry"),
        ("fail", "error policy requested retry"),
        ("panic", "retry after a panic"),
    ] {
        server.apply(map("a", data)).unwrap();
        polled.next().await;
        polled.next().await;
        assert_eq!(reasons(&log), ["object updated", reason]);
    }
}

#[tokio::test(start_paused = true)]
async fn merged_requests_have_the_reason_of_the_one_that_decides_the_time() {
    let (log, _listens) = Log::listening();
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let (asks, asked) = futures_channel();
    let (asks_for_all, asked_for_all) = futures_channel();
    let controller = controller(&server).reconcile_on(asked).reconcile_all_on(asked_for_all);
    let (reconcile, mut begun) = rig::gated();
    let reconcile = {
        let mut reconcile = reconcile;
        move |map, context| {
            tracing::info!("it is called");
            reconcile(map, context)
        }
    };
    let _polled = poll(controller, reconcile);
    let first = begun.recv().await.unwrap();
    // While it runs, a request of low priority is made, then two of high priority.
    asks_for_all.send(()).unwrap();
    rig::idle().await;
    server.wait_for_watchers(1).await;
    server.apply(map("a", "2")).unwrap();
    rig::idle().await;
    asks.send(ObjectRef::new("a").within("shop")).unwrap();
    rig::idle().await;
    first.end.send(()).unwrap();
    begun.recv().await.unwrap().end.send(()).unwrap();
    rig::idle().await;
    assert_eq!(reasons(&log), ["object updated"; 2]);
}

/// Returns the sender and the stream of a channel.
fn futures_channel<T: Send + 'static>()
-> (UnboundedSender<T>, impl Stream<Item = T> + Send + 'static) {
    let (sender, mut received) = unbounded_channel();
    let stream = futures_util::stream::poll_fn(move |context| received.poll_recv(context));
    (sender, stream)
}

#[tokio::test(start_paused = true)]
async fn deletion_handler_runs_in_a_span_that_names_the_object() {
    let (log, _listens) = Log::listening();
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let controller = controller(&server).on_deleted(|_| {
        tracing::info!("it is called");
        async {
            yield_now().await;
            tracing::info!("it goes on");
        }
    });
    let mut polled = poll(controller, |_, _| async { Ok(Action::await_change()) });
    assert_eq!(polled.next().await, "a");
    server.wait_for_watchers(1).await;
    server.delete(&Resource::config_maps(), "shop", "a").unwrap();
    polled.at_rest().await;
    assert_eq!(log.take(), ["notifying of deletion object.ref=ConfigMap.v1./a.shop"; 2]);
}

#[tokio::test(start_paused = true)]
async fn predicates_and_mappers_run_in_the_span_of_their_informer() {
    let (log, _listens) = Log::listening();
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let pods = Api::<Pod>::all(server.client());
    let controller = controller(&server).when(|_, _| {
        tracing::info!("a predicate");
        true
    });
    let controller = controller.watches_ref(pods, &(), watcher::Config::default(), |_: &Pod| {
        tracing::info!("a mapper");
        None::<ObjectRef<_>>
    });
    let mut polled = poll(controller, |_, _| async { Ok(Action::await_change()) });
    assert_eq!(polled.next().await, "a");
    server.wait_for_watchers(2).await;
    for (changed, resource) in [(map("a", "2"), "configmaps.v1"), (pod("p", &[]), "pods.v1")] {
        server.apply(changed).unwrap();
        polled.at_rest().await;
        let spans = log.take();
        assert!(
            matches!(&spans[..], [span] if span.contains(&format!("resource={resource:?}"))),
            "{spans:?}"
        );
    }
}

/// Polls the stream of a controller for a second, in the span `mine`.
async fn poll_in_a_span(stream: impl Stream) {
    let polling = stream.for_each(|_| async {}).instrument(tracing::info_span!("mine"));
    timeout(Duration::from_secs(1), polling).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn trigger_streams_run_in_the_span_that_polls_the_controller() {
    let (log, _listens) = Log::listening();
    let server = server();
    let asks = futures_util::stream::once(async {
        yield_now().await;
        tracing::info!("it is asked for");
        ObjectRef::new("a")
    });
    let controller = controller(&server).reconcile_on(asks);
    let reconcile = |_, _| async { Ok::<_, Failed>(Action::await_change()) };
    let stream = controller.run(reconcile, |_, _, _| Action::await_change(), Arc::new(()));
    poll_in_a_span(stream).await;
    assert_eq!(log.take(), ["mine"]);
}

/// Fails every request for pods with this status.
fn refuse_pods(server: &ApiServer, status: kube::core::Status) {
    let fault = Fault::status(status).times(usize::MAX);
    server.fault(fault.when(|request| request.plural() == Some("pods")));
}

#[tokio::test(start_paused = true)]
async fn errors_in_the_stream_are_not_logged() {
    let (log, _listens) = Log::listening();
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let pods = Api::<Pod>::all(server.client());
    let controller = controller(&server).owns(pods, watcher::Config::default());
    let reconcile = |map: Arc<ConfigMap>, _| async move {
        assert_ne!(rig::value(&map), "3", "the reconciler");
        Err(Failed("no room"))
    };
    let mut polled = poll(controller, reconcile);
    assert!(polled.next().await.contains("no room"));
    server.wait_for_watchers(2).await;
    server.apply(map("a", "3")).unwrap();
    assert!(polled.next().await.contains("panicked"));
    refuse_pods(&server, status::internal_error("not now"));
    missing(&server, || ());
    let mut errors = Vec::new();
    while errors.len() < 10 {
        errors.extend(Some(polled.next().await).filter(|error| error.contains("pods.v1")));
    }
    assert!(errors.iter().any(|error| error.contains("410")), "{errors:?}");
    assert!(errors.iter().any(|error| error.contains("500")), "{errors:?}");
    assert_eq!(log.take(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn first_failure_of_each_list_that_reconciles_wait_for_is_logged() {
    let (log, _listens) = Log::listening();
    let server = ApiServer::builder().resource(Resource::config_maps()).build();
    let config = watcher::Config::default;
    let controller = Controller::new(maps(&server), config())
        .owns(Api::<Pod>::all(server.client()), config())
        .owns(Api::<Node>::all(server.client()), config());
    let mut polled = poll_idle(controller);
    let mut errors = Vec::new();
    while errors.len() < 20 {
        errors.push(polled.next().await);
    }
    for error in &errors {
        assert!(error.contains("nothing is reconciled"), "{error}");
    }
    let mut logged = log.take();
    logged.sort();
    let [nodes, pods] = &logged[..] else { panic!("{logged:?}") };
    for (line, resource) in [(nodes, "nodes.v1: "), (pods, "pods.v1: ")] {
        for part in [resource, "404 NotFound", "CRD", "nothing is reconciled"] {
            assert!(line.contains(part), "no {part:?} in {line}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn absence_of_an_optional_kind_is_not_logged() {
    let (log, _listens) = Log::listening();
    let server = server();
    server.apply(map("a", "1")).unwrap();
    refuse_pods(&server, status::forbidden(&Resource::pods()));
    let pods = Api::<Pod>::all(server.client());
    let controller = controller(&server).owns(pods, watcher::Config::default()).optional();
    let mut polled = poll_idle(controller);
    let items = polled.sorted(2).await;
    assert!(items[0] == "a" && items[1].contains("403"), "{items:?}");
    assert_eq!(log.take(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn informers_without_an_initial_list_are_logged_once() {
    let (log, _listens) = Log::listening();
    let server = server();
    let pods = KubeListerWatcher::new::<Pod>(server.client(), &(), None);
    let pods = SharedInformer::<Pod>::builder(pods).build().unwrap();
    let mut polled = poll_idle(controller(&server).owns_informer(&pods));
    for _ in 0..3 {
        assert!(polled.next().await.contains("pods.v1"));
    }
    let logged = log.take();
    assert!(matches!(&logged[..], [line] if line.contains("pods.v1")), "{logged:?}");
}

/// Asserts that each line contains the text at its place.
fn assert_logged(log: &Log, expected: &[&str]) {
    let logged = log.take();
    assert_eq!(logged.len(), expected.len(), "{logged:?}");
    for (line, text) in logged.iter().zip(expected) {
        assert!(line.contains(text), "no {text:?} in {line}");
    }
}

#[tokio::test(start_paused = true)]
async fn options_without_an_effect_on_streams_are_logged() {
    let (log, _listens) = Log::listening();
    let maps = Store::<ConfigMap>::from_objects([]);
    let controller = Controller::for_stream(stream::pending(), maps.clone())
        .owns_stream(stream::pending::<watcher::Result<Pod>>())
        .when(|_, _| true)
        .on_deleted(|_| async {})
        .read_own_writes();
    poll_idle(controller).at_rest().await;
    let unwaited = |source| format!("KubeListerWatcher` source=\"{source}\"");
    let (of_maps, of_pods) =
        (unwaited("the stream of configmaps.v1"), unwaited("the stream of pods.v1"));
    assert_logged(&log, &[&of_maps, "`when` has no effect", "`on_deleted` is never", &of_pods]);

    // A handle has old states and deletions.
    let (_, writer) = store_shared(1);
    let handle = writer.subscribe().expect("the store is shared");
    let pods = SharedInformer::<Pod>::for_stream(stream::pending()).build().unwrap();
    let controller = Controller::for_shared_stream(handle, maps)
        .owns_informer(&pods)
        .when(|_, _| true)
        .on_deleted(|_| async {})
        .read_own_writes();
    poll_idle(controller).at_rest().await;
    assert_logged(&log, &[&of_maps, "KubeListerWatcher` source="]);
}

#[tokio::test(start_paused = true)]
async fn second_watcher_of_a_store_is_logged_once() {
    use WatcherEvent::{Init, InitApply, InitDone};

    let (log, _listens) = Log::listening();
    let (_, writer) = store();
    let list = || [Init, InitApply(rig::typed("a", 1)), InitDone].map(Ok);
    let failed = || [Err(watcher::Error::NoResourceVersion)];
    let of_one = list().into_iter().chain(failed()).chain(list());
    let mut events = pin!(stream::iter(of_one).chain(stream::iter(list())).reflect_shared(writer));
    for _ in 0..7 {
        events.next().await;
    }
    assert_logged(&log, &[]);
    events.count().await;
    assert_logged(&log, &["events of several watchers"]);
}

/// A spec whose decoding is logged.
#[cfg(feature = "compact")]
#[derive(Clone, Debug)]
struct Logged;

#[cfg(feature = "compact")]
impl<'de> serde::Deserialize<'de> for Logged {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        tracing::info!("it is decoded");
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

#[cfg(feature = "compact")]
#[tokio::test(start_paused = true)]
async fn compact_objects_are_decoded_in_the_span_that_polls_the_controller() {
    use kube::api::{ApiResource, NotUsed, Object};

    let (log, _listens) = Log::listening();
    let server = server();
    let mut map = map("a", "1");
    map["spec"] = serde_json::json!({});
    server.apply(map).unwrap();
    let types = ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
    let maps = Api::<Object<Logged, NotUsed>>::all_with(server.client(), &types);
    let controller = Controller::new_with(maps, watcher::Config::default(), types).compact();
    let reconcile = |_, _| async { Ok::<_, Failed>(Action::await_change()) };
    let stream = controller.run(reconcile, |_, _, _| Action::await_change(), Arc::new(()));
    poll_in_a_span(stream).await;
    assert_eq!(log.take(), ["mine"]);
}

#[cfg(feature = "compact")]
#[tokio::test(start_paused = true)]
async fn controller_that_cannot_become_compact_logs_why() {
    let (log, _listens) = Log::listening();
    let controller = Controller::new(rig::maps(&server()), watcher::Config::default());
    let _store = controller.store();
    let ended = poll(controller.compact(), |_, _| async { Ok(Action::await_change()) });
    assert_eq!(ended.rest().await.len(), 1);
    let [error] = &log.take()[..] else { panic!("not one error") };
    assert!(error.contains("cannot become compact"), "{error}");
}
