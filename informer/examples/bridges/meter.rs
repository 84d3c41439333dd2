//! A recorder that passes the metrics of these crates to a meter of OpenTelemetry.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use metrics::{
    CounterFn, GaugeFn, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Histogram, Meter};

/// A recorder over a meter. It creates an instrument when a metric is first registered.
pub struct Bridge {
    meter: Meter,
    counters: Instruments<Counter<u64>, u64>,
    gauges: Instruments<Gauge<f64>, f64>,
    histograms: Instruments<Histogram<f64>, ()>,
}

impl Bridge {
    pub fn new(meter: Meter) -> Self {
        Self {
            meter,
            counters: Instruments::default(),
            gauges: Instruments::default(),
            histograms: Instruments::default(),
        }
    }
}

/// The instruments of one type. All handles of a metric share its instrument, and so its last
/// value: a gauge is the sum of what all of them have added.
struct Instruments<I, V>(Mutex<HashMap<Key, Arc<Instrument<I, V>>>>);

impl<I, V> Default for Instruments<I, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<I, V: Default> Instruments<I, V> {
    fn get_or_create(&self, key: &Key, create: impl FnOnce(String) -> I) -> Arc<Instrument<I, V>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Instrument::new(create(key.name().to_owned()), key);
        Arc::clone(all.entry(key.clone()).or_insert_with(new))
    }
}

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
        let create = |name| self.meter.u64_counter(name).build();
        metrics::Counter::from_arc(self.counters.get_or_create(key, create))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> metrics::Gauge {
        let create = |name| self.meter.f64_gauge(name).build();
        metrics::Gauge::from_arc(self.gauges.get_or_create(key, create))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> metrics::Histogram {
        let create = |name| self.meter.f64_histogram(name).build();
        metrics::Histogram::from_arc(self.histograms.get_or_create(key, create))
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
