//! Tests of the metrics of a named queue (client-go `metrics_test.go`).

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use deltafifo_informer::workqueue::{AddOptions, WorkQueue};
use metrics::{Counter, CounterFn};

use crate::common::{ms, pass, rest};
use crate::recorder::Notes;

async fn advance(us: u64) {
    tokio::time::advance(Duration::from_micros(us)).await;
}

#[tokio::test(start_paused = true)]
async fn metric_names_are_client_gos_with_the_queue_as_label() {
    let notes = Notes::default();
    let _queue = notes.queue::<u32>("pods");
    let names = [
        "workqueue_adds_total",
        "workqueue_depth",
        "workqueue_longest_running_processor_seconds",
        "workqueue_queue_duration_seconds",
        "workqueue_retries_total",
        "workqueue_unfinished_work_seconds",
        "workqueue_work_duration_seconds",
    ];
    assert_eq!(notes.names(), names.map(|name| format!("{name}{{name=pods}}")));
    let mut described = notes.described.lock().unwrap().clone();
    described.sort();
    assert_eq!(described, names);
}

#[tokio::test(start_paused = true)]
async fn unnamed_queue_has_no_metrics() {
    let notes = Notes::default();
    let _queue =
        metrics::with_local_recorder(&notes, || WorkQueue::<u32>::builder().build().unwrap());
    assert!(notes.names().is_empty());
}

#[tokio::test(start_paused = true)]
async fn adds_depth_and_durations() {
    let notes = Notes::default();
    let queue = notes.queue("test");
    let received = || notes.current(&["adds_total", "depth", "retries_total"]);
    queue.add("foo");
    assert_eq!(received(), [1.0, 1.0, 0.0]);
    advance(50).await;

    let item = queue.try_get().unwrap();
    assert_eq!(notes.all("queue_duration_seconds"), [5e-5]);
    assert_eq!(received(), [1.0, 0.0, 0.0]);
    // Several adds during the processing are one, and its time starts at the first.
    for _ in 0..5 {
        queue.add("foo");
    }
    assert_eq!(received(), [2.0, 1.0, 0.0]);
    advance(25).await;
    item.done();
    assert_eq!(notes.all("work_duration_seconds"), [2.5e-5]);
    assert_eq!(received(), [2.0, 1.0, 0.0]);

    let item = queue.try_get().unwrap();
    assert_eq!(notes.all("queue_duration_seconds"), [5e-5, 2.5e-5]);
    advance(1000).await;
    item.done();
    assert_eq!(notes.all("work_duration_seconds"), [2.5e-5, 1e-3]);
    assert_eq!(received(), [2.0, 0.0, 0.0]);
}

#[tokio::test(start_paused = true)]
async fn unfinished_work_is_recorded_twice_a_second_until_the_end() {
    let notes = Notes::default();
    let queue = notes.queue("test");
    let received =
        || notes.current(&["unfinished_work_seconds", "longest_running_processor_seconds"]);
    queue.add("foo");
    queue.add("bar");
    let foo = queue.try_get();
    pass(ms(510)).await;
    assert_eq!(received(), [0.5, 0.5]);
    let bar = queue.try_get();
    pass(ms(500)).await;
    assert_eq!(received(), [ms(1489).as_secs_f64(), 1.0]);
    drop(foo);
    pass(ms(500)).await;
    assert_eq!(received(), [0.989, 0.989]);
    drop(bar);
    pass(ms(500)).await;
    assert_eq!(received(), [0.0, 0.0]);

    queue.add("foo");
    let _foo = queue.try_get();
    queue.shut_down();
    pass(ms(3_600_000)).await;
    assert_eq!(received(), [0.0, 0.0]);
}

#[tokio::test(start_paused = true)]
async fn delayed_key_counts_once_due_and_its_add_counts_as_a_retry() {
    let notes = Notes::default();
    let queue = notes.queue("test");
    let received = || notes.current(&["adds_total", "depth", "retries_total"]);
    queue.add_after("foo", ms(50));
    assert_eq!(received(), [0.0, 0.0, 1.0]);
    pass(ms(60)).await;
    assert_eq!(received(), [1.0, 1.0, 1.0]);
    queue.add("foo");
    assert_eq!(received(), [1.0, 1.0, 1.0]);
    assert_eq!(rest(&queue), ["foo"]);
    assert_eq!(received(), [1.0, 0.0, 1.0]);
    assert_eq!(notes.all("queue_duration_seconds"), [0.011], "from then on");

    // Added without a delay and with a higher priority: it counts once.
    queue.add_rate_limited("foo");
    queue.add_with("foo", AddOptions::new().priority(1));
    assert_eq!(received(), [2.0, 1.0, 2.0]);
    assert_eq!(rest(&queue), ["foo"]);
    pass(ms(100)).await;
    assert_eq!(received(), [2.0, 0.0, 2.0]);

    // Ignored adds are not counted.
    queue.shut_down();
    queue.add("foo");
    queue.add_after("foo", ms(1));
    assert_eq!(received(), [2.0, 0.0, 2.0]);
}

#[tokio::test(start_paused = true)]
async fn rate_limited_addition_of_a_backed_off_key_is_not_a_retry() {
    let notes = Notes::default();
    let queue = notes.queue("test");
    let retries = || notes.current(&["retries_total"]);
    for _ in 0..3 {
        queue.add_rate_limited("foo");
        assert_eq!(retries(), [1.0]);
    }
    queue.add_with("foo", AddOptions::new().after(ms(1)).rate_limited());
    assert_eq!(retries(), [2.0], "the key has its own delay");
    pass(ms(1)).await;
    queue.add_rate_limited("foo");
    assert_eq!(retries(), [2.0], "the key is queued");
    assert_eq!(rest(&queue), ["foo"]);
    queue.add_rate_limited("foo");
    assert_eq!(retries(), [3.0]);
}

#[tokio::test(start_paused = true)]
async fn panicking_recorder_has_no_effect() {
    struct Panics;
    impl CounterFn for Panics {
        fn increment(&self, _value: u64) {
            resume_unwind(Box::new("a counter that panics"));
        }
        fn absolute(&self, _value: u64) {}
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
        fn register_counter(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> Counter {
            Counter::from_arc(Arc::new(Panics))
        }
        fn register_gauge(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Gauge {
            metrics::Gauge::noop()
        }
        fn register_histogram(
            &self,
            _: &metrics::Key,
            _: &metrics::Metadata<'_>,
        ) -> metrics::Histogram {
            metrics::Histogram::noop()
        }
    }
    let queue =
        metrics::with_local_recorder(&Poor, || WorkQueue::builder().name("poor").build().unwrap());
    queue.add("foo");
    queue.add_after("bar", ms(10));
    pass(ms(10)).await;
    assert_eq!(rest(&queue), ["foo", "bar"]);
}
