//! What an informer and its handlers tell of themselves: [`crate::metrics`] has it in a table.

use std::convert::Infallible;
use std::time::Duration;

use deltafifo::Meta;
use metrics::{Counter, Gauge, Histogram};
use tokio::time::Instant;
use tracing::Span;

use super::Inner;
use super::worker::Queue;
use crate::metrics::{self as table, Labels, Named, count};

/// An informer's name, and what it is of.
pub(super) struct Identity {
    /// Empty: it has none.
    pub(super) name: String,
    pub(super) resource: String,
    pub(super) namespace: String,
}

impl Identity {
    fn labels(&self) -> Option<Labels> {
        Labels::of(&self.name, (&self.resource, &self.namespace))
    }

    /// The metrics of an informer over `queue`.
    pub(super) fn metrics<K, M>(&self, queue: &Queue<K, M>) -> Named<Metrics> {
        let store_version = |labels: &Labels| match queue {
            Queue::Delta(_) => labels.gauge(&table::STORE_VERSION),
            // Nobody knows it there.
            Queue::InOrder(_) => Gauge::noop(),
        };
        Named(self.labels().map(|labels| Metrics {
            store_version: store_version(&labels),
            queued: labels.gauge(&table::QUEUED),
            processing: labels.histogram(&table::PROCESSING),
        }))
    }

    /// The metrics of a handler that is called so.
    pub(super) fn handler_metrics(&self, handler: &str) -> Named<HandlerMetrics> {
        let labels = self.labels().filter(|_| !handler.is_empty());
        Named(labels.map(|labels| HandlerMetrics::new(&labels.handler(handler))))
    }

    /// Around a worker.
    pub(super) fn worker_span(&self) -> Span {
        let Self { name, resource, namespace } = self;
        tracing::info_span!("informer", name, resource, namespace)
    }

    /// Around all that runs for a handler that is called so.
    pub(super) fn handler_span(&self, handler: &str) -> Span {
        let Self { name, resource, namespace } = self;
        // Of nobody: it stays open for as long as the handler is there.
        tracing::info_span!(parent: None, "handler", informer = name, resource, namespace, handler)
    }
}

pub(super) struct Metrics {
    store_version: Gauge,
    queued: Gauge,
    processing: Histogram,
}

impl Metrics {
    /// Something taken from the queue then is applied and told.
    pub(super) fn processed(&self, began: Option<Instant>) {
        self.processing.record(elapsed(began));
    }

    /// Nothing is taken from the queue any more.
    pub(super) fn ended(&self) {
        self.queued.set(0.0);
        self.store_version.set(0.0);
    }
}

impl<K: Send + Sync + 'static, M: Meta<K>> Inner<K, M> {
    /// Tells every now and then how it is.
    pub(super) async fn sample(&self) -> Infallible {
        let sample = |metrics: &Metrics| {
            metrics.queued.set(count(self.queue.len()));
            if let Some(version) = self.store.applied_version().as_deref().and_then(table::version)
            {
                metrics.store_version.set(version);
            }
            self.distributor.sample();
        };
        self.metrics.sample(sample).await
    }
}

pub(super) struct HandlerMetrics {
    depth: Gauge,
    high_water: Gauge,
    oldest_age: Gauge,
    told: Counter,
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
            told: labels.counter(&table::TOLD),
            queue_duration: labels.histogram(&table::QUEUE_DURATION),
            work_duration: labels.histogram(&table::WORK_DURATION),
            overruns: labels.counter(&table::OVERRUNS),
        }
    }

    /// What waits for it, and the most that ever did.
    pub(super) fn waiting(&self, depth: usize, most: usize, oldest: Option<Instant>) {
        self.depth.set(count(depth));
        self.high_water.set(count(most));
        self.oldest_age.set(elapsed(oldest));
    }

    /// It is told of what has been waiting since then.
    pub(super) fn told(&self, now: Instant, since: Instant) {
        self.told.increment(1);
        self.queue_duration.record(now.saturating_duration_since(since));
    }

    /// It asks for the next after it was told then.
    pub(super) fn done(&self, told: Option<Instant>) {
        if told.is_some() {
            self.work_duration.record(elapsed(told));
        }
    }

    /// Its buffer was full, and it is going to be told everything anew.
    pub(super) fn overrun(&self) {
        self.overruns.increment(1);
    }
}

fn elapsed(since: Option<Instant>) -> Duration {
    since.map_or(Duration::ZERO, |since| since.elapsed())
}
