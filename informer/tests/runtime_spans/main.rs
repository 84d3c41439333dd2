//! Tests of the spans in which user code of a controller runs.
//!
//! The tests have a process of their own, and each subscribes at its start. tracing caches per
//! process whether a span has subscribers, so a test without a subscriber could disable the spans
//! of the others.

#[allow(dead_code)] // Most of it is for the tests of controllers.
#[path = "../runtime/rig.rs"]
mod rig;

use std::fmt::{Debug, Write};
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "compact")]
use deltafifo_informer::runtime::Controller;
use deltafifo_informer::runtime::controller::Action;
use deltafifo_informer::runtime::reflector::ObjectRef;
use deltafifo_informer::runtime::watcher;
use deltafifo_testkit::Resource;
use futures_util::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use parking_lot::Mutex;
use tokio::task::yield_now;
use tokio::time::timeout;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Event, Instrument, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Scope};

use rig::{Failed, controller, map, pod, poll, poll_with, server};

/// A record of the spans around each event of this file, outermost first, and of the errors that
/// the informer logs.
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
        } else if *event.metadata().level() == Level::ERROR {
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
    assert_eq!(log.take(), ["reconciling object object.ref=ConfigMap.v1./a.shop"; 2]);
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
    assert_eq!(log.take(), ["reconciling object object.ref=ConfigMap.v1./a.shop"]);
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
