//! Metrics of a controller, in addition to the metrics of its work queue.

use metrics::{Counter, counter, describe_counter};

use crate::metrics::Named;

const NOT_FOUND: &str = "controller_objects_not_found_total";

pub(super) struct Metrics {
    not_found: Counter,
}

impl Metrics {
    /// Returns the metrics of a controller called `name`, or disabled metrics for `None`.
    pub(super) fn of(name: Option<&str>) -> Named<Self> {
        Named(name.map(|name| {
            describe_counter!(
                NOT_FOUND,
                "Reconciles requested for objects that are not in the store"
            );
            Self { not_found: counter!(NOT_FOUND, "name" => name.to_owned()) }
        }))
    }

    pub(super) fn not_found(&self) {
        self.not_found.increment(1);
    }
}
