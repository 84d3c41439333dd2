//! What reflectors, informers and handlers tell of themselves: metrics through the facade of the
//! crate `metrics`, and spans of `tracing`.
//!
//! Whatever has a name has metrics, as in client-go: [`SharedInformerFactory::name`],
//! [`SharedInformerBuilder::name`], [`ReflectorBuilder::name`] and, for a handler of such an
//! informer, [`HandlerOptions::name`]. What has none tells nothing, and reads no clock for
//! metrics. How a watch is can be asked of any informer:
//! [`SharedInformer::watch_status`](crate::SharedInformer::watch_status). They go to the recorder
//! that is installed when the thing is made; `examples/metrics` serves them to Prometheus, and has
//! a dashboard. Those of the work queue: [`workqueue::Builder::name`]; of a controller's, the name
//! of its `Config`.
//!
//! | metric | | |
//! | --- | --- | --- |
//! | `reflector_lists_total` | counter | How often everything was asked for, by a list or by a watch that sends all objects first, also in vain |
//! | `reflector_relists_total` | counter | Lists that came to their end, but for the first |
//! | `reflector_list_duration_seconds` | histogram | From when a list is asked for until all of it is with the queue; of those that came to their end |
//! | `reflector_items_per_list` | histogram | Objects in a list |
//! | `reflector_items_decoded_total` | counter | Objects of lists and events that were decoded |
//! | `reflector_items_skipped_total` | counter | Objects of lists that have not changed, and so were not decoded |
//! | `reflector_watches_total` | counter | Watches that began; one that sends a list first counts once that is whole |
//! | `reflector_watch_restarts_total` | counter | Watches that began where another had ended, without a list in between |
//! | `reflector_short_watches_total` | counter | Watches that the server ended within a second, but for those that sent a list first |
//! | `reflector_watch_duration_seconds` | histogram | From when a watch has begun, or the list that it sent was whole, until it ended |
//! | `reflector_items_per_watch` | histogram | Events of a watch after what it sent as a list, bookmarks included |
//! | `reflector_errors_total` | counter | Everything that went wrong: lists, watches, objects that cannot be read or are refused |
//! | `reflector_oversized_objects_total` | counter | States of objects that were left out since they are larger than `max_object_size` |
//! | `reflector_last_resource_version` | gauge | The last version that a list, event or bookmark brought: its last 15 digits |
//! | `reflector_last_event_age_seconds` | gauge | How long ago the last event, bookmark or end of a list was, or the beginning of the run if there was none |
//! | `informer_store_resource_version` | gauge | The version up to which everything is stored and on its way to the handlers: its last 15 digits; not in order |
//! | `informer_queued_items` | gauge | Changes between the watch and the store |
//! | `informer_processing_latency_seconds` | histogram | From when a key, or an event in order, is taken from the queue until it is stored and on its way to all handlers |
//! | `informer_handler_depth` | gauge | Changes that wait for the handler, and objects of a walk on their way to it |
//! | `informer_handler_depth_high_water` | gauge | The most that ever waited for it at a time |
//! | `informer_handler_oldest_age_seconds` | gauge | How long the oldest of those that wait has been waiting |
//! | `informer_handler_told_total` | counter | Steps that the handler was told of, or its filter kept from it: changes, and objects of a walk |
//! | `informer_handler_queue_duration_seconds` | histogram | From when a change waits for the handler until it is told |
//! | `informer_handler_work_duration_seconds` | histogram | From when the handler is told until it asks for the next; of a batch, each change in it |
//! | `informer_handler_overruns_total` | counter | How often a buffer that drops and resyncs was full |
//!
//! Labels are `name`, `resource` as in `deployments.v1.apps`, and `namespace`, empty for all; of
//! handlers also `handler`. Names are client-go's, or Kubernetes' for client-go's metrics, where
//! they have one. Names should tell informers of the same resource and namespace apart, and the
//! handlers of an informer: those that share one share its metrics. When a reflector does not run
//! any more, an informer has stopped or a handler is gone, its gauges are 0, but for the most that
//! ever waited.
//!
//! **Lag** is told in two ways. In versions: `reflector_last_resource_version` is what was seen,
//! `informer_store_resource_version` what is stored, and what a server has beyond them only the
//! server knows. In time: `reflector_last_event_age_seconds` grows while a watch is silent, but
//! servers send a bookmark every minute or so; much more than that is a watch that is dead.
//!
//! # Spans
//!
//! | span | level | fields |
//! | --- | --- | --- |
//! | `reflector`, while it runs | info | `name`, `resource`, `namespace` |
//! | `list` in it | debug | `how`: `list` or `watch`; `from`: the version asked for. At its end an event with `items` |
//! | `watch` in it | debug | `from`. At its end an event with `events` |
//! | `informer`, around a worker, which stores and tells | info | `name`, `resource`, `namespace` |
//! | `handler`, around a handler's thread or task | info | `informer`, `resource`, `namespace`, `handler` |
//! | `call` in it | trace | `notifications`: how many it is told |
//!
//! # Cost
//!
//! A handle is registered once and kept, nothing is allocated for an event, and gauges are set
//! every half second and not by each change. Each histogram costs a recorder what it makes of it:
//! a name is a choice.
//!
//! [`SharedInformerFactory::name`]: crate::shared_informer::SharedInformerFactory::name
//! [`SharedInformerBuilder::name`]: crate::shared_informer::SharedInformerBuilder::name
//! [`ReflectorBuilder::name`]: crate::reflector::ReflectorBuilder::name
//! [`HandlerOptions::name`]: crate::shared_informer::HandlerOptions::name
//! [`workqueue::Builder::name`]: crate::workqueue::Builder::name

use std::time::Duration;

use metrics::{
    Counter, Gauge, Histogram, Label, Unit, counter, describe_counter, describe_gauge,
    describe_histogram, gauge, histogram,
};
use tokio::time::Instant;

use crate::strangers::unharmed;

/// How often gauges are set (client-go's work queue: as often).
pub(crate) const SAMPLE: Duration = Duration::from_millis(500);

/// What kind of metric it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// How it is now.
    Gauge,
    /// How often it was how much.
    Histogram,
}

/// A metric as it is told to a recorder, for who makes buckets, dashboards or alerts: all there
/// are are in [`ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// What it says.
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
    "How often everything was asked for, by a list or by a watch that sends all objects first, also in vain",
);
pub(crate) const RELISTS: Metric =
    Metric::counter("reflector_relists_total", "Lists that came to their end, but for the first");
pub(crate) const LIST_DURATION: Metric = Metric::histogram(
    "reflector_list_duration_seconds",
    "From when a list is asked for until all of it is with the queue; of those that came to their end",
);
pub(crate) const ITEMS_PER_LIST: Metric =
    Metric::histogram("reflector_items_per_list", "Objects in a list");
pub(crate) const DECODED: Metric = Metric::counter(
    "reflector_items_decoded_total",
    "Objects of lists and events that were decoded",
);
pub(crate) const SKIPPED: Metric = Metric::counter(
    "reflector_items_skipped_total",
    "Objects of lists that have not changed, and so were not decoded",
);
pub(crate) const WATCHES: Metric = Metric::counter(
    "reflector_watches_total",
    "Watches that began; one that sends a list first counts once that is whole",
);
pub(crate) const RESTARTS: Metric = Metric::counter(
    "reflector_watch_restarts_total",
    "Watches that began where another had ended, without a list in between",
);
pub(crate) const SHORT_WATCHES: Metric = Metric::counter(
    "reflector_short_watches_total",
    "Watches that the server ended within a second, but for those that sent a list first",
);
pub(crate) const WATCH_DURATION: Metric = Metric::histogram(
    "reflector_watch_duration_seconds",
    "From when a watch has begun, or the list that it sent was whole, until it ended",
);
pub(crate) const ITEMS_PER_WATCH: Metric = Metric::histogram(
    "reflector_items_per_watch",
    "Events of a watch after what it sent as a list, bookmarks included",
);
pub(crate) const ERRORS: Metric = Metric::counter(
    "reflector_errors_total",
    "Everything that went wrong: lists, watches, objects that cannot be read or are refused",
);
pub(crate) const TOO_LARGE: Metric = Metric::counter(
    "reflector_oversized_objects_total",
    "States of objects that were left out since they are larger than `max_object_size`",
);
pub(crate) const LAST_VERSION: Metric = Metric::gauge(
    "reflector_last_resource_version",
    "The last version that a list, event or bookmark brought: its last 15 digits",
);
pub(crate) const EVENT_AGE: Metric = Metric::gauge(
    "reflector_last_event_age_seconds",
    "How long ago the last event, bookmark or end of a list was, or the beginning of the run if there was none",
);
pub(crate) const STORE_VERSION: Metric = Metric::gauge(
    "informer_store_resource_version",
    "The version up to which everything is stored and on its way to the handlers: its last 15 digits; not in order",
);
pub(crate) const QUEUED: Metric =
    Metric::gauge("informer_queued_items", "Changes between the watch and the store");
pub(crate) const PROCESSING: Metric = Metric::histogram(
    "informer_processing_latency_seconds",
    "From when a key, or an event in order, is taken from the queue until it is stored and on its way to all handlers",
);
pub(crate) const DEPTH: Metric = Metric::gauge(
    "informer_handler_depth",
    "Changes that wait for the handler, and objects of a walk on their way to it",
);
pub(crate) const HIGH_WATER: Metric = Metric::gauge(
    "informer_handler_depth_high_water",
    "The most that ever waited for it at a time",
);
pub(crate) const OLDEST_AGE: Metric = Metric::gauge(
    "informer_handler_oldest_age_seconds",
    "How long the oldest of those that wait has been waiting",
);
pub(crate) const TOLD: Metric = Metric::counter(
    "informer_handler_told_total",
    "Steps that the handler was told of, or its filter kept from it: changes, and objects of a walk",
);
pub(crate) const QUEUE_DURATION: Metric = Metric::histogram(
    "informer_handler_queue_duration_seconds",
    "From when a change waits for the handler until it is told",
);
pub(crate) const WORK_DURATION: Metric = Metric::histogram(
    "informer_handler_work_duration_seconds",
    "From when the handler is told until it asks for the next; of a batch, each change in it",
);
pub(crate) const OVERRUNS: Metric = Metric::counter(
    "informer_handler_overruns_total",
    "How often a buffer that drops and resyncs was full",
);

/// All metrics, in the order of the table above.
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
    TOLD,
    QUEUE_DURATION,
    WORK_DURATION,
    OVERRUNS,
];

/// Whose metrics they are.
#[derive(Clone)]
pub(crate) struct Labels(Vec<Label>);

impl Labels {
    /// Of what is called so, and lists this resource and namespace. `None`: it has no name.
    pub(crate) fn of(name: &str, (resource, namespace): (&str, &str)) -> Option<Self> {
        let labels = [("name", name), ("resource", resource), ("namespace", namespace)];
        let labels = labels.map(|(key, value)| Label::new(key, value.to_owned()));
        (!name.is_empty()).then(|| Self(labels.to_vec()))
    }

    /// Of a handler of it.
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

/// The metrics of what has a name. Of what has none nothing is told, and no clock is read.
pub(crate) struct Named<M>(pub(crate) Option<M>);

impl<M> Named<M> {
    /// Tells a recorder, which is a stranger's.
    pub(crate) fn tell(&self, of: impl FnOnce(&M)) {
        if let Some(metrics) = &self.0 {
            unharmed(|| of(metrics));
        }
    }

    /// The time, if somebody measures.
    pub(crate) fn now(&self) -> Option<Instant> {
        self.0.is_some().then(Instant::now)
    }

    /// Tells every now and then how it is. Does not end.
    pub(crate) async fn sample(&self, of: impl Fn(&M)) -> std::convert::Infallible {
        if self.0.is_none() {
            return std::future::pending().await;
        }
        loop {
            self.tell(&of);
            tokio::time::sleep(SAMPLE).await;
        }
    }
}

/// A version as a gauge can show it exactly: its last 15 digits (as Kubernetes does). `None`: it
/// is no number.
pub(crate) fn version(text: &str) -> Option<f64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text[text.len().saturating_sub(15)..].parse().ok())?
}

/// How many there are, as a gauge or histogram has it: exact where it matters.
#[expect(clippy::cast_precision_loss, reason = "beyond 2^53 nobody counts")]
pub(crate) fn count(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::{ALL, Kind, version};

    /// The table above, from which dashboards are made, is [`ALL`].
    #[test]
    fn the_table_has_every_metric_with_its_kind_and_what_it_says() {
        let table =
            include_str!("metrics.rs").lines().filter_map(|line| line.strip_prefix("//! | `"));
        let rows: Vec<_> = table
            .filter(|row| row.starts_with("reflector_") || row.starts_with("informer_"))
            .collect();
        let kind = |kind| match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let of = |metric: &super::Metric| {
            format!("{}` | {} | {} |", metric.name, kind(metric.kind), metric.description)
        };
        assert_eq!(rows, ALL.iter().map(of).collect::<Vec<_>>());
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
