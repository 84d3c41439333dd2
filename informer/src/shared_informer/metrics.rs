//! The metrics and spans of an informer and its handlers. The table in [`crate::metrics`] describes
//! them.

use std::convert::Infallible;
use std::time::Duration;

use deltafifo::Meta;
use metrics::{Counter, Gauge, Histogram};
use tokio::time::Instant;
use tracing::Span;

use super::Inner;
use super::worker::InformerQueue;
use crate::metrics::{self as table, Labels, Named, count};

/// The name, resource and namespace of an informer.
pub(super) struct Identity {
    /// The name, which is empty if the informer has none.
    pub(super) name: String,
    pub(super) resource: String,
    pub(super) namespace: String,
}

impl Identity {
    pub(super) fn labels(&self) -> Option<Labels> {
        Labels::of(&self.name, (&self.resource, &self.namespace))
    }

    /// Returns the metrics of an informer with this queue.
    pub(super) fn metrics<K, M>(&self, queue: &InformerQueue<K, M>) -> Named<Metrics> {
        let store_version = |labels: &Labels| match queue {
            InformerQueue::Delta(_) => labels.gauge(&table::STORE_VERSION),
            // An in-order queue does not track the version.
            InformerQueue::InOrder(_) => Gauge::noop(),
        };
        Named(self.labels().map(|labels| Metrics {
            store_version: store_version(&labels),
            queued: labels.gauge(&table::QUEUED),
            processing: labels.histogram(&table::PROCESSING),
        }))
    }

    /// Returns the metrics of the handler with this name.
    pub(super) fn handler_metrics(&self, handler: &str) -> Named<HandlerMetrics> {
        let labels = self.labels().filter(|_| !handler.is_empty());
        Named(labels.map(|labels| HandlerMetrics::new(&labels.handler(handler))))
    }

    /// Returns the span of a worker.
    pub(super) fn worker_span(&self) -> Span {
        let Self { name, resource, namespace } = self;
        tracing::info_span!("informer", name, resource, namespace)
    }

    /// Returns the span of a handler, in which all of its work runs.
    pub(super) fn handler_span(&self, handler: &str) -> Span {
        let Self { name, resource, namespace } = self;
        // Without a parent, because it stays open as long as the handler exists.
        tracing::info_span!(parent: None, "handler", informer = name, resource, namespace, handler)
    }
}

/// The metrics of an informer.
pub(super) struct Metrics {
    store_version: Gauge,
    queued: Gauge,
    processing: Histogram,
}

impl Metrics {
    /// Records that an item, popped at `began`, has been applied and delivered.
    pub(super) fn processed(&self, began: Option<Instant>) {
        self.processing.record(elapsed(began));
    }

    /// Resets the gauges when the informer ends.
    pub(super) fn ended(&self) {
        self.queued.set(0.0);
        self.store_version.set(0.0);
    }
}

impl<K: Send + Sync + 'static, M: Meta<K>> Inner<K, M> {
    /// Records gauges periodically. Never returns.
    pub(super) async fn sample(&self) -> Infallible {
        let sample = |metrics: &Metrics| {
            metrics.queued.set(count(self.queue.len()));
            if let Some(version) = self.store.applied_version().as_deref().and_then(table::version)
            {
                metrics.store_version.set(version);
            }
            self.distributor.sample();
            #[cfg(feature = "compact")]
            self.sample_compact();
        };
        self.metrics.sample(sample).await
    }
}

/// The metrics of a handler.
pub(super) struct HandlerMetrics {
    depth: Gauge,
    high_water: Gauge,
    oldest_age: Gauge,
    notifications: Counter,
    queue_duration: Histogram,
    work_duration: Histogram,
    overruns: Counter,
}

impl HandlerMetrics {
    fn new(labels: &Labels) -> Self {
        Self {
            depth: labels.gauge(&table::DEPTH),
            high_water: labels.gauge(&table::HIGH_WATER),
            oldest_age: labels.gauge(&table::OLDEST_AGE),
            notifications: labels.counter(&table::NOTIFICATIONS),
            queue_duration: labels.histogram(&table::QUEUE_DURATION),
            work_duration: labels.histogram(&table::WORK_DURATION),
            overruns: labels.counter(&table::OVERRUNS),
        }
    }

    /// Records the current depth, the highest depth, and the time at which the oldest step was
    /// pushed.
    pub(super) fn waiting(&self, depth: usize, most: usize, oldest: Option<Instant>) {
        self.depth.set(count(depth));
        self.high_water.set(count(most));
        self.oldest_age.set(elapsed(oldest));
    }

    /// Records a notification of a step that was pushed at `since`.
    pub(super) fn notified(&self, now: Instant, since: Instant) {
        self.notifications.increment(1);
        self.queue_duration.record(now.saturating_duration_since(since));
    }

    /// Records that the handler has handled a notification that it received at `began`.
    pub(super) fn done(&self, began: Option<Instant>) {
        if began.is_some() {
            self.work_duration.record(elapsed(began));
        }
    }

    /// Records that the buffer was full and a resync follows.
    pub(super) fn overrun(&self) {
        self.overruns.increment(1);
    }
}

fn elapsed(since: Option<Instant>) -> Duration {
    since.map_or(Duration::ZERO, |since| since.elapsed())
}
