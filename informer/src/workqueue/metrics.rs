//! The metrics of a work queue, under client-go's names.

use std::time::Duration;

use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};

const DEPTH: &str = "workqueue_depth";
const ADDS: &str = "workqueue_adds_total";
const QUEUE_DURATION: &str = "workqueue_queue_duration_seconds";
const WORK_DURATION: &str = "workqueue_work_duration_seconds";
const UNFINISHED: &str = "workqueue_unfinished_work_seconds";
const LONGEST: &str = "workqueue_longest_running_processor_seconds";
const RETRIES: &str = "workqueue_retries_total";

/// The metrics of one queue.
pub(super) struct Metrics {
    depth: Gauge,
    adds: Counter,
    queue_duration: Histogram,
    work_duration: Histogram,
    unfinished: Gauge,
    longest: Gauge,
    retries: Counter,
}

impl Metrics {
    pub(super) fn new(name: String) -> Self {
        describe_gauge!(
            DEPTH,
            "Keys that are to be processed, those that are added again during it included"
        );
        describe_counter!(
            ADDS,
            "Keys that became dirty: what is added and dirty already does not count"
        );
        describe_histogram!(
            QUEUE_DURATION,
            Unit::Seconds,
            "From when a key is dirty until it is taken"
        );
        describe_histogram!(
            WORK_DURATION,
            Unit::Seconds,
            "From when a key is taken until it is done"
        );
        describe_gauge!(
            UNFINISHED,
            Unit::Seconds,
            "How long the keys now in work have been so, summed up"
        );
        describe_gauge!(LONGEST, Unit::Seconds, "How long the key now longest in work has been so");
        describe_counter!(
            RETRIES,
            "Adds with a delay, and failures: adds with a rate limit of keys that neither are queued nor back off already"
        );
        let label = [("name", name)];
        Self {
            depth: gauge!(DEPTH, &label),
            adds: counter!(ADDS, &label),
            queue_duration: histogram!(QUEUE_DURATION, &label),
            work_duration: histogram!(WORK_DURATION, &label),
            unfinished: gauge!(UNFINISHED, &label),
            longest: gauge!(LONGEST, &label),
            retries: counter!(RETRIES, &label),
        }
    }

    /// Records that a key became dirty.
    pub(super) fn added(&self) {
        self.adds.increment(1);
        self.depth.increment(1.0);
    }

    pub(super) fn taken(&self, waited: Duration) {
        self.depth.decrement(1.0);
        self.queue_duration.record(waited);
    }

    pub(super) fn done(&self, worked: Duration) {
        self.work_duration.record(worked);
    }

    pub(super) fn unfinished(&self, total: Duration, longest: Duration) {
        self.unfinished.set(total);
        self.longest.set(longest);
    }

    /// Records an add with a delay, even one of zero.
    pub(super) fn retried(&self) {
        self.retries.increment(1);
    }
}
