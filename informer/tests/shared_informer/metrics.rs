//! Tests of the metrics of informers and handlers: each metric changes when it should.

#![expect(clippy::float_cmp, reason = "counts are exact")]

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use deltafifo::{Indexer, KeyFunc};
use deltafifo_informer::metrics::{ALL, Kind};
use deltafifo_informer::reflector::{Plain, ReflectorBuilder};
use deltafifo_informer::shared_informer::{
    Buffer, HandlerOptions, Scope, SharedInformerBuilder, SharedInformerFactory, Subscription,
};
use deltafifo_informer::{KubeListerWatcher, KubeMeta, Reflector};
use deltafifo_testkit::Fault;
use futures_util::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use metrics::{Recorder as _, with_local_recorder};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tokio::time::sleep;

use super::rig::{QUEUES, Rig, gated, map, next, server};

/// A recorder, and the values recorded so far.
#[derive(Default)]
struct Recorder {
    inner: DebuggingRecorder,
    /// The values by handler and name: the current one of a counter or gauge, and all values of a
    /// histogram.
    received: BTreeMap<(String, String), Vec<f64>>,
    labels: BTreeSet<Vec<String>>,
    names: HashSet<(String, Kind)>,
}

impl Recorder {
    /// Starts an informer named `test`.
    fn start(
        &self,
        server: deltafifo_testkit::ApiServer,
        choose: impl FnOnce(
            SharedInformerBuilder<ConfigMap, KubeMeta>,
        ) -> SharedInformerBuilder<ConfigMap, KubeMeta>,
    ) -> Rig {
        with_local_recorder(&self.inner, || {
            Rig::start(server, |informer| choose(informer.name("test")))
        })
    }

    fn subscribe(&self, rig: &Rig, options: HandlerOptions<ConfigMap>) -> Subscription<ConfigMap> {
        with_local_recorder(&self.inner, || rig.subscribe(options))
    }

    /// Takes a snapshot. A snapshot drains the recorder, so the values of counters and gauges are
    /// then put back into it.
    fn snapshot(&mut self) {
        let metadata = metrics::Metadata::new(module_path!(), metrics::Level::INFO, None);
        for (key, _unit, _description, value) in self.inner.snapshotter().snapshot().into_vec() {
            let key = key.key();
            let label = |name| {
                key.labels()
                    .find(|label| label.key() == name)
                    .map_or("", |label| label.value())
                    .to_owned()
            };
            let received =
                self.received.entry((label("handler"), key.name().to_owned())).or_default();
            let kind = match value {
                DebugValue::Counter(value) => {
                    self.inner.register_counter(key, &metadata).increment(value);
                    *received = vec![f64::from(u32::try_from(value).unwrap())];
                    Kind::Counter
                }
                DebugValue::Gauge(value) => {
                    self.inner.register_gauge(key, &metadata).set(value.0);
                    *received = vec![value.0];
                    Kind::Gauge
                }
                DebugValue::Histogram(values) => {
                    received.extend(values.iter().map(|value| value.0));
                    Kind::Histogram
                }
            };
            self.labels.insert(
                key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect(),
            );
            self.names.insert((key.name().to_owned(), kind));
        }
    }

    fn all(&mut self, name: &str) -> Vec<f64> {
        self.all_of("", name)
    }

    /// Returns all values of a handler's histogram, or the value of its counter or gauge.
    fn all_of(&mut self, handler: &str, name: &str) -> Vec<f64> {
        self.snapshot();
        self.received[&(handler.to_owned(), name.to_owned())].clone()
    }

    /// Returns the values of counters and gauges.
    fn values<const N: usize>(&mut self, names: [&str; N]) -> [f64; N] {
        names.map(|name| self.all(name)[0])
    }
}

/// Waits until all gauges are sampled.
async fn sampled() {
    sleep(Duration::from_millis(501)).await;
}

#[tokio::test(start_paused = true)]
async fn all_documented_metrics_are_recorded_with_names_as_labels() {
    let mut recorder = Recorder::default();
    let rig = recorder.start(server(), |informer| informer);
    let _stream = recorder.subscribe(&rig, HandlerOptions::new().name("printer"));
    recorder.snapshot();
    let documented = ALL.iter().filter(|metric| !metric.name.starts_with("informer_compact_"));
    assert_eq!(
        recorder.names,
        documented.map(|metric| (metric.name.to_owned(), metric.kind)).collect()
    );
    let labels = ["name=test", "resource=configmaps.v1", "namespace="].map(str::to_owned).to_vec();
    let of_handler = [&labels[..], &["handler=printer".to_owned()]].concat();
    assert_eq!(recorder.labels, [labels, of_handler].into());
}

#[tokio::test(start_paused = true)]
async fn unnamed_informer_records_nothing() {
    let mut recorder = Recorder::default();
    let server = server();
    with_local_recorder(&recorder.inner, || {
        let rig = Rig::start(server.clone(), |informer| informer);
        rig.subscribe(HandlerOptions::new().name("printer"));
    });
    recorder.snapshot();
    assert!(recorder.names.is_empty(), "{:?}", recorder.names);
    let rig = recorder.start(server, |informer| informer);
    let _stream = recorder.subscribe(&rig, HandlerOptions::new());
    recorder.snapshot();
    assert!(
        !recorder.names.iter().any(|(name, _)| name.starts_with("informer_handler_")),
        "{:?}",
        recorder.names
    );
}

#[tokio::test(start_paused = true)]
async fn factory_informers_are_named_after_the_factory_and_their_scope() {
    let mut recorder = Recorder::default();
    let factory = SharedInformerFactory::new(server().client()).name("shop");
    with_local_recorder(&recorder.inner, || {
        factory.informer::<ConfigMap>(&Scope::all()).unwrap();
        factory.informer::<ConfigMap>(&Scope::namespace("blue").labels("app=web")).unwrap();
    });
    recorder.snapshot();
    let labels = |name: &str, namespace: &str| {
        vec![
            format!("name={name}"),
            "resource=configmaps.v1".to_owned(),
            format!("namespace={namespace}"),
        ]
    };
    assert_eq!(
        recorder.labels,
        [labels("shop", ""), labels("shop?labelSelector=app%3Dweb", "blue")].into()
    );
}

#[tokio::test(start_paused = true)]
async fn oversized_objects_are_counted_in_lists_and_watches() {
    for watch_list in [true, false] {
        let mut recorder = Recorder::default();
        let server = server();
        server.apply(map("a", &"x".repeat(2000))).unwrap();
        server.apply(map("b", "1")).unwrap();
        let choose =
            move |it: ReflectorBuilder<ConfigMap>| it.watch_list(watch_list).max_object_size(2000);
        let rig = recorder.start(server, |informer| informer.reflector(choose));
        let mut stream = rig.subscribe(HandlerOptions::new());
        next(&mut stream, 1).await;
        let counters = ["reflector_oversized_objects_total", "reflector_errors_total"];
        sampled().await;
        assert_eq!(recorder.values(counters), [1.0, 1.0]);
        rig.apply("b", &"x".repeat(3000));
        rig.apply("c", "2");
        next(&mut stream, 1).await;
        assert_eq!(recorder.values(counters), [2.0, 2.0]);
    }
}

#[tokio::test(start_paused = true)]
async fn lists_are_counted_with_their_decoded_objects() {
    for watch_list in [true, false] {
        let mut recorder = Recorder::default();
        let server = server();
        for name in ["a", "b", "c"] {
            server.apply(map(name, "1")).unwrap();
        }
        let rig = recorder
            .start(server, |informer| informer.reflector(move |it| it.watch_list(watch_list)));
        let counters = [
            "reflector_lists_total",
            "reflector_items_decoded_total",
            "reflector_items_skipped_total",
            "reflector_errors_total",
        ];
        let mut stream = rig.subscribe(HandlerOptions::new());
        next(&mut stream, 3).await;
        // The paused clock does not advance until the list has ended.
        sampled().await;
        assert_eq!(recorder.values(counters), [1.0, 3.0, 0.0, 0.0]);
        assert_eq!(recorder.all("reflector_items_per_list"), [3.0]);
        assert_eq!(recorder.all("reflector_list_duration_seconds").len(), 1);

        rig.missing(|rig| {
            rig.apply("a", "2");
            rig.delete("b");
        });
        next(&mut stream, 2).await;
        sampled().await;
        assert_eq!(
            recorder.values(counters),
            [2.0, 4.0, 1.0, 1.0],
            "of a and c the one was decoded"
        );
        assert_eq!(recorder.all("reflector_items_per_list"), [3.0, 2.0]);

        rig.apply("c", "2");
        next(&mut stream, 1).await;
        assert_eq!(recorder.values(counters), [2.0, 5.0, 1.0, 1.0], "and the object of an event");
    }
}

#[tokio::test(start_paused = true)]
async fn watches_are_counted_with_restarts_and_short_ones() {
    let mut recorder = Recorder::default();
    let rig = recorder.start(server(), |informer| informer.reflector(|it| it.watch_list(false)));
    let counters = [
        "reflector_watches_total",
        "reflector_watch_restarts_total",
        "reflector_short_watches_total",
    ];
    let mut stream = rig.subscribe(HandlerOptions::new());
    rig.server.wait_for_watchers(1).await;
    assert_eq!(recorder.values(counters), [1.0, 0.0, 0.0]);
    rig.apply("a", "1");
    next(&mut stream, 1).await;
    sleep(Duration::from_secs(10)).await;
    rig.server.end_watches();
    sleep(Duration::from_millis(100)).await;
    rig.server.wait_for_watchers(1).await;
    assert_eq!(recorder.values(counters), [2.0, 1.0, 0.0]);
    assert_eq!(recorder.all("reflector_items_per_watch"), [1.0]);
    let lasted = recorder.all("reflector_watch_duration_seconds");
    assert!((10.0..10.1).contains(&lasted[0]), "{lasted:?}");

    // Ended within a second but after an event: the watch is reopened after a pause.
    rig.apply("a", "2");
    next(&mut stream, 1).await;
    rig.server.end_watches();
    sleep(Duration::from_secs(10)).await;
    rig.server.wait_for_watchers(1).await;
    assert_eq!(recorder.values(counters), [3.0, 2.0, 1.0]);
    // Ended without an event: a relist follows.
    rig.server.end_watches();
    sleep(Duration::from_secs(1)).await;
    rig.server.end_watches();
    sleep(Duration::from_secs(10)).await;
    rig.server.wait_for_watchers(1).await;
    let [watches, restarts, _] = recorder.values(counters);
    let [lists, relists] = recorder.values(["reflector_lists_total", "reflector_relists_total"]);
    assert_eq!(watches - restarts, lists, "a watch after a list is not a restart");
    assert_eq!(relists, lists - 1.0, "each list completed");
}

#[tokio::test(start_paused = true)]
async fn lag_is_recorded_in_versions_and_in_time() {
    let mut recorder = Recorder::default();
    let rig = recorder.start(server(), |informer| informer);
    let mut stream = rig.subscribe(HandlerOptions::new());
    rig.server.wait_for_watchers(1).await;
    for (name, silent) in [("a", 30), ("b", 50)] {
        rig.apply(name, "1");
        next(&mut stream, 1).await;
        sleep(Duration::from_secs(silent)).await;
        let version = f64::from(u32::try_from(rig.server.version()).unwrap());
        let [seen, stored, age] = recorder.values([
            "reflector_last_resource_version",
            "informer_store_resource_version",
            "reflector_last_event_age_seconds",
        ]);
        assert_eq!((seen, stored), (version, version));
        let silent = f64::from(u32::try_from(silent).unwrap());
        assert!((silent - 1.0..=silent).contains(&age), "{age} of {silent}");
    }
    rig.server.bookmark(&deltafifo_testkit::Resource::config_maps());
    sampled().await;
    let [age] = recorder.values(["reflector_last_event_age_seconds"]);
    assert!(age < 1.0, "a bookmark counts, too: {age}");
    rig.informer.stop().await;
    rig.run.await.unwrap().unwrap();
    let gauges = [
        "reflector_last_resource_version",
        "informer_store_resource_version",
        "reflector_last_event_age_seconds",
    ];
    assert_eq!(recorder.values(gauges), [0.0; 3], "an empty informer has no lag");
}

#[tokio::test(start_paused = true)]
async fn gauges_of_a_stopped_informer_are_reset_although_nobody_awaited_its_end() {
    let mut recorder = Recorder::default();
    let rig = recorder.start(server(), |informer| informer);
    let (handler, go, mut received) = gated();
    rig.informer.add_event_handler(handler).unwrap();
    rig.server.wait_for_watchers(1).await;
    rig.apply("a", "1");
    received.next(1).await;
    sampled().await;
    let gauges = ["informer_store_resource_version", "informer_queued_items"];
    assert!(recorder.values(gauges)[0] > 0.0);
    assert!(rig.informer.stop().now_or_never().is_none(), "a call runs");
    go.send(()).unwrap();
    rig.run.await.unwrap().unwrap();
    assert_eq!(recorder.values(gauges), [0.0; 2]);
}

#[tokio::test(start_paused = true)]
async fn gauges_of_a_removed_informer_are_zero_and_then_those_of_its_successor() {
    let mut recorder = Recorder::default();
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let factory = SharedInformerFactory::new(server.client()).name("test");
    let make = |recorder: &Recorder| {
        with_local_recorder(&recorder.inner, || {
            let maps = factory.informer::<ConfigMap>(&Scope::all()).unwrap();
            factory.start();
            maps
        })
    };
    let names = ["informer_store_resource_version", "reflector_last_resource_version"];
    for _ in 0..2 {
        let maps = make(&recorder);
        maps.wait_for_sync().await.unwrap();
        sampled().await;
        assert!(recorder.values(names).into_iter().all(|version| version > 0.0));
        assert!(factory.remove::<ConfigMap>(&(), &Scope::all()).await);
        assert_eq!(recorder.values(names), [0.0, 0.0]);
        sampled().await;
        assert_eq!(recorder.values(names), [0.0, 0.0]);
    }
}

#[tokio::test(start_paused = true)]
async fn age_without_any_event_is_the_age_of_the_run() {
    let (mut recorder, server) = (Recorder::default(), server());
    server.fault(Fault::silence().times(usize::MAX));
    let _rig = recorder.start(server, |informer| informer);
    sleep(Duration::from_secs(600)).await;
    let [age, relists, lists] = recorder.values([
        "reflector_last_event_age_seconds",
        "reflector_relists_total",
        "reflector_lists_total",
    ]);
    assert!((599.0..=600.0).contains(&age), "{age}");
    assert!(relists == 0.0 && lists > 1.0, "{lists} lists failed, {relists} relists completed");
}

#[tokio::test(start_paused = true)]
async fn changes_between_watch_and_store_are_counted_until_the_informer_stops() {
    for queue in QUEUES {
        let mut recorder = Recorder::default();
        let rig = recorder.start(server(), queue);
        let options = HandlerOptions::new().buffer(Buffer::HoldBack(1)).name("slow");
        let mut slow = recorder.subscribe(&rig, options);
        rig.informer.wait_for_sync().await.unwrap();
        assert!(slow.next().now_or_never().is_none(), "the empty initial state was delivered");
        for name in ["a", "b", "c", "d"] {
            rig.apply(name, "1");
        }
        sampled().await;
        let queued = |recorder: &mut Recorder| recorder.values(["informer_queued_items"])[0];
        assert_eq!(queued(&mut recorder), 3.0);
        let processed = recorder.all("informer_processing_latency_seconds").len();
        next(&mut slow, 2).await;
        sampled().await;
        assert_eq!(queued(&mut recorder), 1.0);
        assert_eq!(recorder.all("informer_processing_latency_seconds").len(), processed + 2);
        rig.informer.stop().await;
        rig.run.await.unwrap().unwrap();
        assert_eq!(queued(&mut recorder), 0.0);
        assert_eq!(recorder.all_of("slow", "informer_handler_depth"), [0.0]);
    }
}

#[tokio::test(start_paused = true)]
async fn buffer_depth_and_age_of_a_handler_are_recorded() {
    let mut recorder = Recorder::default();
    let rig = recorder.start(server(), |informer| informer);
    let mut slow = recorder.subscribe(&rig, HandlerOptions::new().name("slow"));
    let mut other = recorder.subscribe(&rig, HandlerOptions::new().name("other"));
    rig.informer.wait_for_sync().await.unwrap();
    for stream in [&mut slow, &mut other] {
        assert!(stream.next().now_or_never().is_none(), "the empty initial state was delivered");
    }
    for name in ["a", "b", "c"] {
        rig.apply(name, "1");
    }
    rig.stored("c", "1").await;
    sleep(Duration::from_secs(20)).await;
    let gauges = ["depth", "depth_high_water", "oldest_age_seconds"]
        .map(|name| format!("informer_handler_{name}"));
    let received =
        |recorder: &mut Recorder| gauges.each_ref().map(|name| recorder.all_of("slow", name)[0]);
    let [depth, high_water, age] = received(&mut recorder);
    assert_eq!((depth, high_water), (3.0, 3.0));
    assert!((19.0..=20.0).contains(&age), "{age}");
    assert_eq!(recorder.all_of("slow", "informer_handler_notified_total"), [0.0]);

    next(&mut slow, 1).await;
    sleep(Duration::from_secs(5)).await;
    next(&mut slow, 2).await;
    assert!(slow.next().now_or_never().is_none());
    sampled().await;
    assert_eq!(received(&mut recorder), [0.0, 3.0, 0.0]);
    assert_eq!(slow.registration().high_water(), 3);
    assert_eq!(recorder.all_of("slow", "informer_handler_notified_total"), [3.0]);
    let whole = |values: Vec<f64>| values.into_iter().map(f64::round).collect::<Vec<_>>();
    assert_eq!(
        whole(recorder.all_of("slow", "informer_handler_queue_duration_seconds")),
        [20.0, 25.0, 25.0]
    );
    assert_eq!(
        whole(recorder.all_of("slow", "informer_handler_work_duration_seconds")),
        [5.0, 0.0, 0.0]
    );
    assert_eq!(recorder.all_of("other", "informer_handler_depth"), [3.0]);
}

#[tokio::test(start_paused = true)]
async fn buffer_overruns_are_recorded_and_gauges_of_a_removed_handler_are_zero() {
    let mut recorder = Recorder::default();
    let rig = recorder.start(server(), |informer| informer);
    let options = HandlerOptions::new().name("slow").buffer(Buffer::DropAndResync(2));
    let mut slow = recorder.subscribe(&rig, options);
    rig.informer.wait_for_sync().await.unwrap();
    assert!(slow.next().now_or_never().is_none(), "the empty initial state was delivered");
    for name in ["a", "b", "c"] {
        rig.apply(name, "1");
    }
    rig.stored("c", "1").await;
    // The overrun is counted before the handler asks for its next notification, because it may
    // never ask.
    assert_eq!(recorder.all_of("slow", "informer_handler_overruns_total"), [1.0]);
    tokio::time::advance(std::time::Duration::from_secs(3_600)).await;
    rig.apply("d", "1");
    rig.stored("d", "1").await;
    assert!(slow.registration().age().unwrap().as_secs() >= 3_600, "blocked since then");
    assert_eq!(next(&mut slow, 6).await.last().unwrap(), "ends");
    assert_eq!(slow.registration().age(), None);
    assert_eq!(recorder.all_of("slow", "informer_handler_overruns_total"), [1.0]);
    rig.apply("a", "2");
    rig.stored("a", "2").await;
    sampled().await;
    assert_eq!(recorder.all_of("slow", "informer_handler_depth"), [1.0]);
    slow.registration().remove().await;
    assert_eq!(recorder.all_of("slow", "informer_handler_depth"), [0.0]);
    assert_eq!(recorder.all_of("slow", "informer_handler_oldest_age_seconds"), [0.0]);
}

#[tokio::test(start_paused = true)]
async fn reflector_without_an_informer_records_its_metrics() {
    let mut recorder = Recorder::default();
    let server = server();
    server.apply(map("a", "1")).unwrap();
    let store = Arc::new(Indexer::builder(KeyFunc::meta_namespace(KubeMeta)).build().unwrap());
    let source = KubeListerWatcher::new::<ConfigMap>(server.client(), &(), Some("shop"));
    let target = Arc::new(Plain(store));
    let reflector: Reflector<ConfigMap> = with_local_recorder(&recorder.inner, || {
        Reflector::builder(source, target).name("alone").watch_list(false).build()
    });
    tokio::select! {
        ended = reflector.run() => panic!("{ended}"),
        () = server.wait_for_watchers(1) => {}
    }
    assert_eq!(recorder.all("reflector_items_per_list"), [1.0]);
    let labels =
        ["name=alone", "resource=configmaps.v1", "namespace=shop"].map(str::to_owned).to_vec();
    assert_eq!(recorder.labels, [labels].into());
}

#[tokio::test(start_paused = true)]
async fn panicking_recorder_has_no_effect() {
    struct Panics;
    impl metrics::CounterFn for Panics {
        fn increment(&self, _: u64) {
            resume_unwind(Box::new("a counter that panics"));
        }
        fn absolute(&self, _: u64) {}
    }
    impl metrics::GaugeFn for Panics {
        fn increment(&self, _: f64) {}
        fn decrement(&self, _: f64) {}
        fn set(&self, _: f64) {
            resume_unwind(Box::new("a gauge that panics"));
        }
    }
    impl metrics::HistogramFn for Panics {
        fn record(&self, _: f64) {
            resume_unwind(Box::new("a histogram that panics"));
        }
    }
    struct Poor;
    impl metrics::Recorder for Poor {
        fn describe_counter(
            &self,
            _: metrics::KeyName,
            _: Option<metrics::Unit>,
            _: metrics::SharedString,
        ) {
        }
        fn describe_gauge(
            &self,
            _: metrics::KeyName,
            _: Option<metrics::Unit>,
            _: metrics::SharedString,
        ) {
        }
        fn describe_histogram(
            &self,
            _: metrics::KeyName,
            _: Option<metrics::Unit>,
            _: metrics::SharedString,
        ) {
        }
        fn register_counter(
            &self,
            _: &metrics::Key,
            _: &metrics::Metadata<'_>,
        ) -> metrics::Counter {
            metrics::Counter::from_arc(Arc::new(Panics))
        }
        fn register_gauge(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Gauge {
            metrics::Gauge::from_arc(Arc::new(Panics))
        }
        fn register_histogram(
            &self,
            _: &metrics::Key,
            _: &metrics::Metadata<'_>,
        ) -> metrics::Histogram {
            metrics::Histogram::from_arc(Arc::new(Panics))
        }
    }
    let (rig, mut stream) = with_local_recorder(&Poor, || {
        let rig = Rig::start(server(), |informer| informer.name("poor"));
        let stream = rig.subscribe(HandlerOptions::new().name("poor"));
        (rig, stream)
    });
    for data in ["1", "2", "3"] {
        rig.apply("a", data);
        rig.stored("a", data).await;
        sampled().await;
        next(&mut stream, 1).await;
    }
    rig.informer.stop().await;
    assert!(rig.run.await.unwrap().is_ok());
}
