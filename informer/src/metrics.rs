//! The metrics and spans of reflectors, informers and handlers. Metrics go through the facade of
//! the crate `metrics`, and spans through `tracing`.
//!
//! As in client-go, a component has metrics if it has a name: [`SharedInformerFactory::name`],
//! [`SharedInformerBuilder::name`], [`ReflectorBuilder::name`] and, for a handler of such an
//! informer, [`HandlerOptions::name`]. A component without a name records nothing, and reads no
//! clock for metrics. The state of a watch is available without a name:
//! [`SharedInformer::watch_status`](crate::SharedInformer::watch_status). Metrics go to the
//! recorder that is installed when the component is created. `examples/metrics` serves them to
//! Prometheus, and contains a dashboard. The work queue has metrics of its own
//! ([`workqueue::Builder::name`]), as has a controller, under the name in its `Config`, and an
//! elector and a sharded group (feature `leader-election`), under the name of the lease or group.
//!
//! | metric | kind | meaning |
//! | --- | --- | --- |
//! | `reflector_lists_total` | counter | Requests for all objects: lists, and watches that send all objects first; failed ones included |
//! | `reflector_relists_total` | counter | Complete lists, except the first |
//! | `reflector_list_duration_seconds` | histogram | Time from the request of a list until all of it is in the queue; complete lists only |
//! | `reflector_items_per_list` | histogram | Objects in a list |
//! | `reflector_items_decoded_total` | counter | Objects of lists and events that were decoded |
//! | `reflector_items_skipped_total` | counter | Objects of lists that were not decoded because they had not changed |
//! | `reflector_watches_total` | counter | Watches that began; a watch that sends a list first counts once the list is complete |
//! | `reflector_watch_restarts_total` | counter | Watches that continued from the version where another had ended, without a list in between |
//! | `reflector_short_watches_total` | counter | Watches that the server ended within a second, except those that sent a list first |
//! | `reflector_watch_duration_seconds` | histogram | Time from the beginning of a watch, or the end of the list that it sent, until its end |
//! | `reflector_items_per_watch` | histogram | Events of a watch, bookmarks included, without those of its list |
//! | `reflector_errors_total` | counter | All errors: lists, watches, objects that cannot be decoded or are refused |
//! | `reflector_oversized_objects_total` | counter | States of objects that were skipped because they are larger than `max_object_size` |
//! | `reflector_last_resource_version` | gauge | Last version of a list, event or bookmark: its last 15 digits |
//! | `reflector_last_event_age_seconds` | gauge | Time since the last event, bookmark or end of a list; since the start if there was none |
//! | `informer_store_resource_version` | gauge | Version up to which everything is stored and in the buffers of the handlers: its last 15 digits; not with an in-order queue |
//! | `informer_queued_items` | gauge | Changes between the watch and the store |
//! | `informer_processing_latency_seconds` | histogram | Time from when a key, or an in-order event, is popped until it is stored and in the buffers of all handlers |
//! | `informer_handler_depth` | gauge | Changes that wait for the handler, and objects that a walk has read for it |
//! | `informer_handler_depth_high_water` | gauge | Highest value of the depth so far |
//! | `informer_handler_oldest_age_seconds` | gauge | Time that the oldest waiting change has waited |
//! | `informer_handler_notified_total` | counter | Changes and objects of walks that the handler was notified of, or that its filter rejected |
//! | `informer_handler_queue_duration_seconds` | histogram | Time that a change waits in the buffer until the handler is notified |
//! | `informer_handler_work_duration_seconds` | histogram | Time from a notification until the handler asks for the next. In a batch each change has a value: from when it was taken out of the buffer until the call with the batch has returned |
//! | `informer_handler_overruns_total` | counter | Times that a buffer that drops and resyncs was full |
//!
//! An informer of compact objects (feature `compact`) also has these:
//!
//! | metric | kind | meaning |
//! | --- | --- | --- |
//! | `informer_compact_bytes` | gauge | Bytes of the compact objects that are alive, without their bases and dictionaries |
//! | `informer_compact_raw_bytes` | gauge | Bytes of the JSON of the compact objects that are alive |
//! | `informer_compact_base_bytes` | gauge | Bytes of the packed bases of compact objects, plus the bytes of the texts of bases that are kept unpacked |
//! | `informer_compact_dictionary_bytes` | gauge | Bytes of the dictionaries of compact objects |
//! | `informer_compact_decodes_total` | counter | Calls of `Compact::decode` |
//! | `informer_compact_failed_decodes_total` | counter | Calls of `Compact::decode` that failed |
//! | `informer_compact_decode_seconds` | gauge | Time that all calls of `Compact::decode` have taken together; it only grows |
//! | `informer_compact_decoded_hits_total` | counter | Calls of `Compact::decode_shared` that found the object in the cache of decoded objects |
//! | `informer_compact_decoded_misses_total` | counter | Calls of `Compact::decode_shared` that did not find the object in the cache of decoded objects, and decoded it |
//! | `informer_compact_decoded_bytes` | gauge | Bytes that the objects in the cache of decoded objects are assumed to take |
//!
//! Labels are `name`, `resource` (as in `deployments.v1.apps`) and `namespace` (empty for all
//! namespaces); metrics of handlers also have `handler`. Where client-go, or Kubernetes for
//! client-go, has a metric, it has the same name here. Choose names that distinguish informers of
//! the same resource and namespace, and handlers of the same informer: components with the same
//! labels share their metrics. When a reflector or an informer stops or a handler is removed, its
//! gauges become 0, except for the high-water mark and the time of decodes.
//!
//! **Lag** can be measured in two ways. In versions: `reflector_last_resource_version` is the
//! version that was received last, and `informer_store_resource_version` the version up to which
//! everything is stored; a client does not see versions that the server has not sent. In time:
//! `reflector_last_event_age_seconds` grows while a watch is silent. Servers send a bookmark about
//! every minute, so a much larger age means that the watch is dead.
//!
//! # Spans
//!
//! | span | level | fields |
//! | --- | --- | --- |
//! | `reflector`, while it runs | info | `name`, `resource`, `namespace` |
//! | `list` in `reflector` | debug | `how`: `list` or `watch`; `from`: the requested version. An event at its end has `items` |
//! | `watch` in `reflector` | debug | `from`. An event at its end has `events` |
//! | `informer`, around a worker, which stores and delivers | info | `name`, `resource`, `namespace` |
//! | `handler`, around a handler's thread or task | info | `informer`, `resource`, `namespace`, `handler` |
//! | `call` in `handler` | trace | `notifications`: the number of notifications in the call |
//!
//! # Cost
//!
//! A metric is registered once and its handle is kept. Nothing is allocated for an event, and
//! gauges are set every half second instead of at each change. The cost of a histogram depends on
//! the recorder; to avoid it, give no name.
//!
//! [`SharedInformerFactory::name`]: crate::shared_informer::SharedInformerFactory::name
//! [`SharedInformerBuilder::name`]: crate::shared_informer::SharedInformerBuilder::name
//! [`ReflectorBuilder::name`]: crate::reflector::ReflectorBuilder::name
//! [`HandlerOptions::name`]: crate::shared_informer::HandlerOptions::name
//! [`workqueue::Builder::name`]: crate::workqueue::Builder::name

use std::time::Duration;

use deltafifo::panics::ignore_panic;
use metrics::{
    Counter, Gauge, Histogram, Label, Unit, counter, describe_counter, describe_gauge,
    describe_histogram, gauge, histogram,
};
use tokio::time::Instant;

/// The interval at which gauges are set, as in client-go's work queue.
pub(crate) const SAMPLE: Duration = Duration::from_millis(500);

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A value that only grows.
    Counter,
    /// A current value.
    Gauge,
    /// A distribution of values.
    Histogram,
}

/// The description of a metric, to configure buckets, dashboards and alerts. [`ALL`] lists the
/// metrics of this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// The name, as in the table of this module.
    pub name: &'static str,
    /// The kind of the metric.
    pub kind: Kind,
    /// The meaning, as in the table of this module.
    pub description: &'static str,
}

impl Metric {
    const fn counter(name: &'static str, description: &'static str) -> Self {
        Self { name, kind: Kind::Counter, description }
    }

    const fn gauge(name: &'static str, description: &'static str) -> Self {
        Self { name, kind: Kind::Gauge, description }
    }

    const fn histogram(name: &'static str, description: &'static str) -> Self {
        Self { name, kind: Kind::Histogram, description }
    }

    fn unit(&self) -> Unit {
        if self.name.ends_with("_seconds") { Unit::Seconds } else { Unit::Count }
    }
}

pub(crate) const LISTS: Metric = Metric::counter(
    "reflector_lists_total",
    "Requests for all objects: lists, and watches that send all objects first; failed ones included",
);
pub(crate) const RELISTS: Metric =
    Metric::counter("reflector_relists_total", "Complete lists, except the first");
pub(crate) const LIST_DURATION: Metric = Metric::histogram(
    "reflector_list_duration_seconds",
    "Time from the request of a list until all of it is in the queue; complete lists only",
);
pub(crate) const ITEMS_PER_LIST: Metric =
    Metric::histogram("reflector_items_per_list", "Objects in a list");
pub(crate) const DECODED: Metric = Metric::counter(
    "reflector_items_decoded_total",
    "Objects of lists and events that were decoded",
);
pub(crate) const SKIPPED: Metric = Metric::counter(
    "reflector_items_skipped_total",
    "Objects of lists that were not decoded because they had not changed",
);
pub(crate) const WATCHES: Metric = Metric::counter(
    "reflector_watches_total",
    "Watches that began; a watch that sends a list first counts once the list is complete",
);
pub(crate) const RESTARTS: Metric = Metric::counter(
    "reflector_watch_restarts_total",
    "Watches that continued from the version where another had ended, without a list in between",
);
pub(crate) const SHORT_WATCHES: Metric = Metric::counter(
    "reflector_short_watches_total",
    "Watches that the server ended within a second, except those that sent a list first",
);
pub(crate) const WATCH_DURATION: Metric = Metric::histogram(
    "reflector_watch_duration_seconds",
    "Time from the beginning of a watch, or the end of the list that it sent, until its end",
);
pub(crate) const ITEMS_PER_WATCH: Metric = Metric::histogram(
    "reflector_items_per_watch",
    "Events of a watch, bookmarks included, without those of its list",
);
pub(crate) const ERRORS: Metric = Metric::counter(
    "reflector_errors_total",
    "All errors: lists, watches, objects that cannot be decoded or are refused",
);
pub(crate) const TOO_LARGE: Metric = Metric::counter(
    "reflector_oversized_objects_total",
    "States of objects that were skipped because they are larger than `max_object_size`",
);
pub(crate) const LAST_VERSION: Metric = Metric::gauge(
    "reflector_last_resource_version",
    "Last version of a list, event or bookmark: its last 15 digits",
);
pub(crate) const EVENT_AGE: Metric = Metric::gauge(
    "reflector_last_event_age_seconds",
    "Time since the last event, bookmark or end of a list; since the start if there was none",
);
pub(crate) const STORE_VERSION: Metric = Metric::gauge(
    "informer_store_resource_version",
    "Version up to which everything is stored and in the buffers of the handlers: its last 15 digits; not with an in-order queue",
);
pub(crate) const QUEUED: Metric =
    Metric::gauge("informer_queued_items", "Changes between the watch and the store");
pub(crate) const PROCESSING: Metric = Metric::histogram(
    "informer_processing_latency_seconds",
    "Time from when a key, or an in-order event, is popped until it is stored and in the buffers of all handlers",
);
pub(crate) const DEPTH: Metric = Metric::gauge(
    "informer_handler_depth",
    "Changes that wait for the handler, and objects that a walk has read for it",
);
pub(crate) const HIGH_WATER: Metric =
    Metric::gauge("informer_handler_depth_high_water", "Highest value of the depth so far");
pub(crate) const OLDEST_AGE: Metric = Metric::gauge(
    "informer_handler_oldest_age_seconds",
    "Time that the oldest waiting change has waited",
);
pub(crate) const NOTIFICATIONS: Metric = Metric::counter(
    "informer_handler_notified_total",
    "Changes and objects of walks that the handler was notified of, or that its filter rejected",
);
pub(crate) const QUEUE_DURATION: Metric = Metric::histogram(
    "informer_handler_queue_duration_seconds",
    "Time that a change waits in the buffer until the handler is notified",
);
pub(crate) const WORK_DURATION: Metric = Metric::histogram(
    "informer_handler_work_duration_seconds",
    "Time from a notification until the handler asks for the next. In a batch each change has a \
     value: from when it was taken out of the buffer until the call with the batch has returned",
);
pub(crate) const OVERRUNS: Metric = Metric::counter(
    "informer_handler_overruns_total",
    "Times that a buffer that drops and resyncs was full",
);

pub(crate) const COMPACT_BYTES: Metric = Metric::gauge(
    "informer_compact_bytes",
    "Bytes of the compact objects that are alive, without their bases and dictionaries",
);
pub(crate) const RAW_BYTES: Metric = Metric::gauge(
    "informer_compact_raw_bytes",
    "Bytes of the JSON of the compact objects that are alive",
);
pub(crate) const BASE_BYTES: Metric = Metric::gauge(
    "informer_compact_base_bytes",
    "Bytes of the packed bases of compact objects, plus the bytes of the texts of bases that are kept unpacked",
);
pub(crate) const DICTIONARY_BYTES: Metric = Metric::gauge(
    "informer_compact_dictionary_bytes",
    "Bytes of the dictionaries of compact objects",
);
pub(crate) const DECODES: Metric =
    Metric::counter("informer_compact_decodes_total", "Calls of `Compact::decode`");
pub(crate) const FAILED_DECODES: Metric = Metric::counter(
    "informer_compact_failed_decodes_total",
    "Calls of `Compact::decode` that failed",
);
pub(crate) const DECODE_SECONDS: Metric = Metric::gauge(
    "informer_compact_decode_seconds",
    "Time that all calls of `Compact::decode` have taken together; it only grows",
);
pub(crate) const DECODED_HITS: Metric = Metric::counter(
    "informer_compact_decoded_hits_total",
    "Calls of `Compact::decode_shared` that found the object in the cache of decoded objects",
);
pub(crate) const DECODED_MISSES: Metric = Metric::counter(
    "informer_compact_decoded_misses_total",
    "Calls of `Compact::decode_shared` that did not find the object in the cache of decoded objects, and decoded it",
);
pub(crate) const DECODED_BYTES: Metric = Metric::gauge(
    "informer_compact_decoded_bytes",
    "Bytes that the objects in the cache of decoded objects are assumed to take",
);

/// All metrics of reflectors, informers and handlers, in the order of the tables above. The last
/// ones, whose names begin with `informer_compact_`, need the feature `compact`.
pub const ALL: &[Metric] = &[
    LISTS,
    RELISTS,
    LIST_DURATION,
    ITEMS_PER_LIST,
    DECODED,
    SKIPPED,
    WATCHES,
    RESTARTS,
    SHORT_WATCHES,
    WATCH_DURATION,
    ITEMS_PER_WATCH,
    ERRORS,
    TOO_LARGE,
    LAST_VERSION,
    EVENT_AGE,
    STORE_VERSION,
    QUEUED,
    PROCESSING,
    DEPTH,
    HIGH_WATER,
    OLDEST_AGE,
    NOTIFICATIONS,
    QUEUE_DURATION,
    WORK_DURATION,
    OVERRUNS,
    COMPACT_BYTES,
    RAW_BYTES,
    BASE_BYTES,
    DICTIONARY_BYTES,
    DECODES,
    FAILED_DECODES,
    DECODE_SECONDS,
    DECODED_HITS,
    DECODED_MISSES,
    DECODED_BYTES,
];

/// The labels of a component's metrics.
#[derive(Clone)]
pub(crate) struct Labels(Vec<Label>);

impl Labels {
    /// Returns the labels of a component with this name, resource and namespace, or `None` if the
    /// name is empty.
    pub(crate) fn of(name: &str, (resource, namespace): (&str, &str)) -> Option<Self> {
        let labels = [("name", name), ("resource", resource), ("namespace", namespace)];
        let labels = labels.map(|(key, value)| Label::new(key, value.to_owned()));
        (!name.is_empty()).then(|| Self(labels.to_vec()))
    }

    /// Returns the labels of a handler of the component.
    pub(crate) fn handler(&self, name: &str) -> Self {
        let mut labels = self.0.clone();
        labels.push(Label::new("handler", name.to_owned()));
        Self(labels)
    }

    pub(crate) fn counter(&self, metric: &Metric) -> Counter {
        describe_counter!(metric.name, metric.unit(), metric.description);
        counter!(metric.name, self.0.clone())
    }

    pub(crate) fn gauge(&self, metric: &Metric) -> Gauge {
        describe_gauge!(metric.name, metric.unit(), metric.description);
        gauge!(metric.name, self.0.clone())
    }

    pub(crate) fn histogram(&self, metric: &Metric) -> Histogram {
        describe_histogram!(metric.name, metric.unit(), metric.description);
        histogram!(metric.name, self.0.clone())
    }
}

/// The metrics of a component, or `None` if the component has no name: then nothing is recorded,
/// and no clock is read.
pub(crate) struct Named<M>(pub(crate) Option<M>);

impl<M> Named<M> {
    /// Records metrics. A panic of the recorder, which is user code, is ignored.
    pub(crate) fn record(&self, of: impl FnOnce(&M)) {
        if let Some(metrics) = &self.0 {
            ignore_panic(|| of(metrics));
        }
    }

    /// Returns the current time if there are metrics.
    pub(crate) fn now(&self) -> Option<Instant> {
        self.0.is_some().then(Instant::now)
    }

    /// Records gauges at the interval [`SAMPLE`]. Never returns.
    pub(crate) async fn sample(&self, of: impl Fn(&M)) -> std::convert::Infallible {
        if self.0.is_none() {
            return std::future::pending().await;
        }
        loop {
            self.record(&of);
            tokio::time::sleep(SAMPLE).await;
        }
    }
}

/// Returns the last 15 digits of a version, which a gauge can represent exactly (as in
/// Kubernetes). `None` if the version is not a number.
pub(crate) fn version(text: &str) -> Option<f64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text[text.len().saturating_sub(15)..].parse().ok())?
}

/// Converts a count for a gauge or histogram. The result is exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(crate) fn count(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::{ALL, Kind, version};

    /// Checks that the tables in the docs of this module, from which dashboards are made, have
    /// exactly the metrics of [`ALL`].
    #[test]
    fn the_tables_have_every_metric_with_its_kind_and_what_it_says() {
        let table =
            include_str!("metrics.rs").lines().filter_map(|line| line.strip_prefix("//! | `"));
        let rows =
            table.filter(|row| row.starts_with("reflector_") || row.starts_with("informer_"));
        let kind = |kind| match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let of = |metric: &super::Metric| {
            format!("{}` | {} | {} |", metric.name, kind(metric.kind), metric.description)
        };
        assert_eq!(rows.collect::<Vec<_>>(), ALL.iter().map(of).collect::<Vec<_>>());
    }

    #[test]
    fn a_version_is_shown_by_its_last_fifteen_digits() {
        assert_eq!(version("7"), Some(7.0));
        assert_eq!(version("1234567890123456789"), Some(567_890_123_456_789.0));
        assert_eq!(
            (version(""), version("v7"), version("-7"), version("1é")),
            (None, None, None, None)
        );
    }
}
