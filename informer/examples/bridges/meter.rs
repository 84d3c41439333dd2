//! A recorder that passes the metrics of these crates to a meter of OpenTelemetry.

use std::sync::{Arc, Mutex, PoisonError};

use metrics::{
    CounterFn, GaugeFn, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Histogram, Meter};

/// A recorder over a meter. It creates an instrument when a metric is registered.
pub struct Bridge(pub Meter);

/// An instrument, with the labels of one metric.
struct Instrument<I, V> {
    inner: I,
    attributes: Vec<KeyValue>,
    /// The last value, for requests to change it.
    last: Mutex<V>,
}

impl<I, V: Default> Instrument<I, V> {
    fn new(inner: I, key: &Key) -> Arc<Self> {
        let attribute = |label: &metrics::Label| {
            KeyValue::new(label.key().to_owned(), label.value().to_owned())
        };
        let attributes = key.labels().map(attribute).collect();
        Arc::new(Self { inner, attributes, last: Mutex::default() })
    }

    /// Changes the last value, and passes the result of `change` on.
    fn update<R>(&self, change: impl FnOnce(&mut V) -> R, pass: impl FnOnce(&I, R, &[KeyValue])) {
        // The lock is held until the value is passed on, so that no older value follows it.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut last);
        pass(&self.inner, changed, &self.attributes);
    }
}

impl Recorder for Bridge {
    // The names of the metrics say what they are; an SDK gets a description with the instrument.
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> metrics::Counter {
        let counter = self.0.u64_counter(key.name().to_owned()).build();
        metrics::Counter::from_arc(Instrument::<_, u64>::new(counter, key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> metrics::Gauge {
        let gauge = self.0.f64_gauge(key.name().to_owned()).build();
        metrics::Gauge::from_arc(Instrument::<_, f64>::new(gauge, key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> metrics::Histogram {
        let histogram = self.0.f64_histogram(key.name().to_owned()).build();
        metrics::Histogram::from_arc(Instrument::<_, ()>::new(histogram, key))
    }
}

impl CounterFn for Instrument<Counter<u64>, u64> {
    fn increment(&self, value: u64) {
        self.update(|last| *last += value, |counter, (), labels| counter.add(value, labels));
    }

    fn absolute(&self, value: u64) {
        let change = |last: &mut u64| {
            let added = value.saturating_sub(*last);
            *last += added;
            added
        };
        self.update(change, Counter::add);
    }
}

impl GaugeFn for Instrument<Gauge<f64>, f64> {
    fn increment(&self, value: f64) {
        let change = |last: &mut f64| {
            *last += value;
            *last
        };
        self.update(change, Gauge::record);
    }

    fn decrement(&self, value: f64) {
        GaugeFn::increment(self, -value);
    }

    fn set(&self, value: f64) {
        self.update(|last| *last = value, |gauge, (), labels| gauge.record(value, labels));
    }
}

impl HistogramFn for Instrument<Histogram<f64>, ()> {
    fn record(&self, value: f64) {
        self.inner.record(value, &self.attributes);
    }
}
