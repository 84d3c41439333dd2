//! A metrics recorder that tests can read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use deltafifo_informer::workqueue::{Key, WorkQueue};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

/// The values of one metric: all values of a histogram, and the current one of a counter or gauge.
#[derive(Default)]
struct Values(Mutex<Vec<f64>>);

impl Values {
    fn change(&self, by: impl FnOnce(f64) -> f64) {
        let mut received = self.0.lock().unwrap();
        let value = by(received.last().copied().unwrap_or_default());
        *received = vec![value];
    }
}

impl CounterFn for Values {
    fn increment(&self, value: u64) {
        self.change(|old| old + f64::from(u32::try_from(value).unwrap()));
    }

    fn absolute(&self, _value: u64) {
        unreachable!("the queue counts");
    }
}

impl GaugeFn for Values {
    fn increment(&self, value: f64) {
        self.change(|old| old + value);
    }

    fn decrement(&self, value: f64) {
        self.change(|old| old - value);
    }

    fn set(&self, value: f64) {
        self.change(|_| value);
    }
}

impl HistogramFn for Values {
    fn record(&self, value: f64) {
        self.0.lock().unwrap().push(value);
    }
}

/// A recorder of metrics, by name and label.
#[derive(Default)]
pub struct Notes {
    received: Mutex<HashMap<String, Arc<Values>>>,
    pub described: Mutex<Vec<String>>,
}

impl Notes {
    /// Returns a queue that records its metrics in this recorder.
    pub fn queue<K: Key>(&self, name: &str) -> Arc<WorkQueue<K>> {
        metrics::with_local_recorder(self, || {
            Arc::new(WorkQueue::builder().name(name).build().unwrap())
        })
    }

    fn of(&self, key: &metrics::Key) -> Arc<Values> {
        let labels: Vec<_> =
            key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        Arc::clone(self.received.lock().unwrap().entry(name).or_default())
    }

    /// Returns the names of all metrics, with their labels.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.received.lock().unwrap().keys().cloned().collect();
        names.sort();
        names
    }

    /// Returns all values of a histogram of the queue `test`.
    pub fn all(&self, name: &str) -> Vec<f64> {
        let received = self.received.lock().unwrap();
        received[&format!("workqueue_{name}{{name=test}}")].0.lock().unwrap().clone()
    }

    /// Returns the current values of counters and gauges of the queue `test`.
    pub fn current(&self, names: &[&str]) -> Vec<f64> {
        names.iter().map(|name| self.all(name).last().copied().unwrap_or_default()).collect()
    }
}

impl Recorder for Notes {
    fn describe_counter(&self, name: KeyName, _unit: Option<Unit>, _description: SharedString) {
        self.described.lock().unwrap().push(name.as_str().to_owned());
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe_counter(name, unit, description);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe_counter(name, unit, description);
    }

    fn register_counter(&self, key: &metrics::Key, _metadata: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.of(key))
    }

    fn register_gauge(&self, key: &metrics::Key, _metadata: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.of(key))
    }

    fn register_histogram(&self, key: &metrics::Key, _metadata: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.of(key))
    }
}
