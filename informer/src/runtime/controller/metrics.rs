//! Metrics of a controller, in addition to the metrics of its work queue.

use metrics::{Counter, counter, describe_counter};

use crate::metrics::Named;

const NOT_FOUND: &str = "controller_objects_not_found_total";
const NOT_DECODED: &str = "controller_objects_not_decoded_total";

pub(super) struct Metrics {
    not_found: Counter,
    not_decoded: Counter,
}

impl Metrics {
    /// Returns the metrics of a controller called `name`, or disabled metrics for `None`.
    pub(super) fn of(name: Option<&str>) -> Named<Self> {
        Named(name.map(|name| {
            describe_counter!(
                NOT_FOUND,
                "Reconciles requested for objects that are not in the store"
            );
            describe_counter!(
                NOT_DECODED,
                "Reconciles that did not run because their compact object could not be decoded"
            );
            Self {
                not_found: counter!(NOT_FOUND, "name" => name.to_owned()),
                not_decoded: counter!(NOT_DECODED, "name" => name.to_owned()),
            }
        }))
    }

    pub(super) fn not_found(&self) {
        self.not_found.increment(1);
    }

    pub(super) fn not_decoded(&self) {
        self.not_decoded.increment(1);
    }
}
