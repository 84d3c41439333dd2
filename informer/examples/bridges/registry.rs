//! A recorder that keeps the metrics of these crates in a registry of prometheus-client.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metrics::{
    CounterFn, GaugeFn, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

type Labels = Vec<(String, String)>;
type Level = Gauge<f64, AtomicU64>;
type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// The bounds of the buckets of histograms of times, in seconds.
const SECONDS: [f64; 8] = [1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0, 60.0, 600.0];
/// The bounds of the buckets of all other histograms, which count objects or events.
const ITEMS: [f64; 7] = [1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6];

/// A recorder over a registry, to which the program may add metrics of its own. Clones are the same
/// recorder.
#[derive(Clone, Default)]
pub struct Bridge(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    registry: Registry,
    help: HashMap<String, String>,
    counters: HashMap<String, Family<Labels, Counter>>,
    gauges: HashMap<String, Family<Labels, Level>>,
    histograms: HashMap<String, Histograms>,
}

impl Bridge {
    /// Returns all metrics of the registry, as a response to Prometheus.
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.state().registry)?;
        Ok(text)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn describe(&self, key: &KeyName, help: &SharedString) {
        self.state().help.insert(key.as_str().to_owned(), help.to_string());
    }
}

fn labels(key: &Key) -> Labels {
    key.labels().map(|label| (label.key().to_owned(), label.value().to_owned())).collect()
}

impl Recorder for Bridge {
    fn describe_counter(&self, key: KeyName, _: Option<Unit>, help: SharedString) {
        self.describe(&key, &help);
    }

    fn describe_gauge(&self, key: KeyName, _: Option<Unit>, help: SharedString) {
        self.describe(&key, &help);
    }

    fn describe_histogram(&self, key: KeyName, _: Option<Unit>, help: SharedString) {
        self.describe(&key, &help);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> metrics::Counter {
        let State { registry, help, counters, .. } = &mut *self.state();
        let family = counters.entry(key.name().to_owned()).or_insert_with(|| {
            let (family, help) = (Family::default(), help.get(key.name()).cloned());
            // The registry appends `_total`.
            let name = key.name().trim_end_matches("_total");
            registry.register(name, help.unwrap_or_default(), family.clone());
            family
        });
        metrics::Counter::from_arc(Arc::new(OfCounter(family.get_or_create_owned(&labels(key)))))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> metrics::Gauge {
        let State { registry, help, gauges, .. } = &mut *self.state();
        let family = gauges.entry(key.name().to_owned()).or_insert_with(|| {
            let (family, help) = (Family::default(), help.get(key.name()).cloned());
            registry.register(key.name(), help.unwrap_or_default(), family.clone());
            family
        });
        metrics::Gauge::from_arc(Arc::new(OfGauge(family.get_or_create_owned(&labels(key)))))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> metrics::Histogram {
        let State { registry, help, histograms, .. } = &mut *self.state();
        let family = histograms.entry(key.name().to_owned()).or_insert_with(|| {
            let new: fn() -> Histogram = if key.name().ends_with("_seconds") {
                || Histogram::new(SECONDS)
            } else {
                || Histogram::new(ITEMS)
            };
            let (family, help) = (Family::new_with_constructor(new), help.get(key.name()).cloned());
            registry.register(key.name(), help.unwrap_or_default(), family.clone());
            family
        });
        let histogram = OfHistogram(family.get_or_create_owned(&labels(key)));
        metrics::Histogram::from_arc(Arc::new(histogram))
    }
}

struct OfCounter(Counter);

impl CounterFn for OfCounter {
    fn increment(&self, value: u64) {
        self.0.inc_by(value);
    }

    fn absolute(&self, value: u64) {
        // Another handle may raise it at the same time. Relaxed: the number guards no other data.
        self.0.inner().fetch_max(value, Ordering::Relaxed);
    }
}

struct OfGauge(Level);

impl GaugeFn for OfGauge {
    fn increment(&self, value: f64) {
        self.0.inc_by(value);
    }

    fn decrement(&self, value: f64) {
        self.0.dec_by(value);
    }

    fn set(&self, value: f64) {
        self.0.set(value);
    }
}

struct OfHistogram(Histogram);

impl HistogramFn for OfHistogram {
    fn record(&self, value: f64) {
        self.0.observe(value);
    }
}
