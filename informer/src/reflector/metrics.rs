//! The metrics and spans of a reflector, which the table in [`crate::metrics`] describes.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram};
use tokio::time::Instant;
use tracing::{Instrument, Span, debug, debug_span};

use super::Reflector;
use super::batches::BatchOutcome;
use super::error::{ListFailure, ReflectorError};
use crate::metrics::{self as table, Labels, Named, count};

/// The metrics of a reflector.
pub(super) struct Metrics {
    lists: Counter,
    relists: Counter,
    list_duration: Histogram,
    items_per_list: Histogram,
    decoded: Counter,
    skipped: Counter,
    watches: Counter,
    restarts: Counter,
    short_watches: Counter,
    watch_duration: Histogram,
    items_per_watch: Histogram,
    errors: Counter,
    too_large: Counter,
    last_version: Gauge,
    event_age: Gauge,
    has_listed: AtomicBool,
}

impl Metrics {
    /// Returns the metrics of a reflector with this name; without a name they record nothing.
    pub(super) fn of(name: &str, scope: (&str, &str)) -> Named<Self> {
        Named(Labels::of(name, scope).map(|labels| Self {
            lists: labels.counter(&table::LISTS),
            relists: labels.counter(&table::RELISTS),
            list_duration: labels.histogram(&table::LIST_DURATION),
            items_per_list: labels.histogram(&table::ITEMS_PER_LIST),
            decoded: labels.counter(&table::DECODED),
            skipped: labels.counter(&table::SKIPPED),
            watches: labels.counter(&table::WATCHES),
            restarts: labels.counter(&table::RESTARTS),
            short_watches: labels.counter(&table::SHORT_WATCHES),
            watch_duration: labels.histogram(&table::WATCH_DURATION),
            items_per_watch: labels.histogram(&table::ITEMS_PER_WATCH),
            errors: labels.counter(&table::ERRORS),
            too_large: labels.counter(&table::TOO_LARGE),
            last_version: labels.gauge(&table::LAST_VERSION),
            event_age: labels.gauge(&table::EVENT_AGE),
            has_listed: AtomicBool::new(false),
        }))
    }

    /// Records a batch of a list.
    pub(super) fn received(&self, outcome: &BatchOutcome) {
        self.decoded.increment(outcome.decoded);
        self.skipped.increment(outcome.skipped);
    }

    /// Records that the object of an event was decoded.
    pub(super) fn decoded(&self) {
        self.decoded.increment(1);
    }

    /// Records the beginning of a watch. `is_restart` says whether it continues an earlier one.
    pub(super) fn watches(&self, is_restart: bool) {
        self.watches.increment(1);
        self.restarts.increment(u64::from(is_restart));
    }

    /// Records the end of a watch.
    pub(super) fn watched(&self, lasted: Duration, events: usize) {
        self.watch_duration.record(lasted);
        self.items_per_watch.record(count(events));
    }

    pub(super) fn short_watch(&self) {
        self.short_watches.increment(1);
    }

    /// Records an error.
    pub(super) fn failed(&self, error: &ReflectorError) {
        self.errors.increment(1);
        self.too_large.increment(u64::from(matches!(error, ReflectorError::TooLarge { .. })));
    }

    fn listed(&self, lasted: Duration, items: usize) {
        self.list_duration.record(lasted);
        self.items_per_list.record(count(items));
        // Relaxed: one list ends at a time.
        if self.has_listed.swap(true, Ordering::Relaxed) {
            self.relists.increment(1);
        }
    }

    fn sample(&self, last_version: Option<&str>, age: Option<Duration>) {
        if let Some(version) = last_version.and_then(table::version) {
            self.last_version.set(version);
        }
        if let Some(age) = age {
            self.event_age.set(age);
        }
    }
}

impl<K: Send + Sync + 'static> Reflector<K> {
    /// Begins a run, which ends when the returned guard is dropped.
    pub(super) fn begin_run(&self) -> ReflectorRun<'_, K> {
        self.status.begins();
        ReflectorRun(self)
    }

    /// Returns the span of the reflector.
    pub(super) fn span(&self) -> Span {
        let (resource, namespace) = self.source.scope();
        tracing::info_span!("reflector", name = self.name, resource, namespace)
    }

    /// Measures a list: runs it in its span, and records its duration and its number of items.
    pub(super) async fn listing<R>(
        &self,
        how: &'static str,
        from: &str,
        list: impl Future<Output = Result<(R, usize), ListFailure>>,
    ) -> Result<R, ListFailure> {
        let began = Instant::now();
        self.metrics.record(|metrics| metrics.lists.increment(1));
        let listed = async {
            let (listed, items) = list.await?;
            debug!(items, "listed");
            self.status.record_event();
            self.metrics.record(|metrics| metrics.listed(began.elapsed(), items));
            Ok(listed)
        };
        listed.instrument(debug_span!("list", how, from)).await
    }

    /// Records gauges periodically. Never returns.
    pub(super) async fn sample(&self) -> Infallible {
        let version = || self.last_sync_resource_version();
        self.metrics.sample(|metrics| metrics.sample(version().as_deref(), self.status.age())).await
    }
}

/// The guard of a run of a reflector.
pub(super) struct ReflectorRun<'r, K>(&'r Reflector<K>);

impl<K> Drop for ReflectorRun<'_, K> {
    /// Resets the gauges, which would otherwise keep the values of a run that has ended.
    fn drop(&mut self) {
        self.0.metrics.record(|metrics| {
            metrics.last_version.set(0.0);
            metrics.event_age.set(0.0);
        });
    }
}
