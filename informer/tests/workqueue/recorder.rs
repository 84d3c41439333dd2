//! A metrics recorder that can be asked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use deltafifo_informer::workqueue::{Key, WorkQueue};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

/// What one metric has been told: of a histogram all of it, of the others what it stands at.
#[derive(Default)]
struct Told(Mutex<Vec<f64>>);

impl Told {
    fn change(&self, by: impl FnOnce(f64) -> f64) {
        let mut told = self.0.lock().unwrap();
        let value = by(told.last().copied().unwrap_or_default());
        *told = vec![value];
    }
}

impl CounterFn for Told {
    fn increment(&self, value: u64) {
        self.change(|old| old + f64::from(u32::try_from(value).unwrap()));
    }

    fn absolute(&self, _value: u64) {
        unreachable!("the queue counts");
    }
}

impl GaugeFn for Told {
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

impl HistogramFn for Told {
    fn record(&self, value: f64) {
        self.0.lock().unwrap().push(value);
    }
}

/// By name and label.
#[derive(Default)]
pub struct Notes {
    told: Mutex<HashMap<String, Arc<Told>>>,
    pub described: Mutex<Vec<String>>,
}

impl Notes {
    /// A queue that tells these notes.
    pub fn queue<K: Key>(&self, name: &str) -> Arc<WorkQueue<K>> {
        metrics::with_local_recorder(self, || {
            Arc::new(WorkQueue::builder().name(name).build().unwrap())
        })
    }

    fn of(&self, key: &metrics::Key) -> Arc<Told> {
        let labels: Vec<_> =
            key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        Arc::clone(self.told.lock().unwrap().entry(name).or_default())
    }

    /// The names, with their labels.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.told.lock().unwrap().keys().cloned().collect();
        names.sort();
        names
    }

    /// All of a histogram of the queue `test`.
    pub fn all(&self, name: &str) -> Vec<f64> {
        let told = self.told.lock().unwrap();
        told[&format!("workqueue_{name}{{name=test}}")].0.lock().unwrap().clone()
    }

    /// What counters and gauges of the queue `test` stand at.
    pub fn stand(&self, names: &[&str]) -> Vec<f64> {
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
