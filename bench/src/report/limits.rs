//! The limits that some figures must keep, for the warnings of a report.

use super::Summary;
use super::figure::{count, figure};
use crate::names::{EngineName, Workload};

/// How many times as fast as `client-go-deltafifo` the engine `mutex` must be on a relist. If
/// `mutex` became slower, the ratios of other engines to it would look better than they are.
const LEAST_BASE: f64 = 2.3;
/// The largest ratio of deltafifo's time per object of a list of 4,000,000 to that of 100,000.
const MOST_GROWTH: f64 = 1.5;
/// The longest 99.9th percentile of a get of deltafifo during relists, in seconds. Above it,
/// relists delay readers.
const LONGEST_GET: f64 = 50e-6;

/// Returns a sentence for every row that does not keep its limit.
pub(super) fn exceeded(rows: &[Summary]) -> Vec<String> {
    rows.iter().filter_map(|row| of_row(row, rows)).collect()
}

fn of_row(row: &Summary, rows: &[Summary]) -> Option<String> {
    let (title, objects, variant) = (row.title(), count(row.objects), &row.variant);
    let ratio_to = |engine: EngineName, objects| {
        let is = |other: &&Summary| other.engine == engine.name() && other.objects == objects;
        row.times_slower_than(rows.iter().filter(is).find(|other| other.title() == title)?)
    };
    match (EngineName::named(&row.engine)?, Workload::named(&row.workload)?) {
        (EngineName::ClientGoDeltaFifo, Workload::Relist) if variant.is_empty() => {
            let ratio = ratio_to(EngineName::Mutex, row.objects).filter(|it| *it < LEAST_BASE)?;
            Some(format!(
                "The base of the ratios is too slow: on a relist of {objects} objects, mutex is \
                 only {ratio:.2} × as fast as client-go-deltafifo (at least {LEAST_BASE})."
            ))
        }
        (EngineName::DeltaFifo, Workload::Initial | Workload::Relist)
            if variant.is_empty() && row.objects == 4_000_000 =>
        {
            let growth = ratio_to(EngineName::DeltaFifo, 100_000)? / 40.0;
            (growth > MOST_GROWTH).then(|| {
                format!(
                    "deltafifo grows too fast: an object in {title} of {objects} takes {growth:.2} × \
                     as long as one of 100,000 (at most {MOST_GROWTH})."
                )
            })
        }
        // A median would hide a relist that delays readers only sometimes.
        (EngineName::DeltaFifo, Workload::Readers)
            if variant.ends_with("-p99.9")
                && variant.starts_with(|first: char| first.is_ascii_digit())
                && row.max > LONGEST_GET =>
        {
            let [time, limit] = [row.max, LONGEST_GET].map(|seconds| figure(seconds, "s"));
            Some(format!(
                "Relists of {objects} objects delay a reader: a get of deltafifo takes {time} at \
                 {variant} in the slowest round (at most {limit})."
            ))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Measured, Row};

    /// Asserts that the sentences about these figures contain `text`, or that there are none if it
    /// is empty.
    fn check(figures: &[(EngineName, usize, Workload, &str, f64)], text: &str) {
        let rows = figures.iter().map(|&(engine, objects, workload, variant, value)| {
            Measured::new(engine, objects, Row::new(workload, variant, "s", value))
        });
        let found = exceeded(&Summary::of(&rows.collect::<Vec<_>>(), 1)).join("\n");
        assert!(found.contains(text) && found.is_empty() == text.is_empty(), "{found}");
    }

    #[test]
    fn slow_base_is_reported() {
        let relist = |engine, time| (engine, 10, Workload::Relist, "", time);
        let (mutex, go) = (relist(EngineName::Mutex, 1.0), EngineName::ClientGoDeltaFifo);
        check(&[mutex, relist(go, 2.3)], "");
        check(&[mutex, relist(go, 2.2)], "of 10 objects, mutex is only 2.20 ×");
    }

    #[test]
    fn growth_of_the_time_per_object_is_reported() {
        let list = |objects, time| (EngineName::DeltaFifo, objects, Workload::Initial, "", time);
        check(&[list(100_000, 1.0), list(4_000_000, 59.0)], "");
        check(&[list(100_000, 1.0), list(4_000_000, 64.0)], "initial of 4,000,000 takes 1.60 ×");
    }

    #[test]
    fn delayed_get_in_any_round_is_reported() {
        let get = |engine, variant, time| (engine, 10, Workload::Readers, variant, time);
        let (ours, variant) = (EngineName::DeltaFifo, "4-thread-p99.9");
        let others = ["idle-4-thread-p99.9", "index-4-thread-p99.9", "4-thread-p99.99"];
        let [idle, index, longer] = others.map(|variant| get(ours, variant, 1.0));
        let mutex = get(EngineName::Mutex, variant, 1.0);
        check(&[idle, index, longer, mutex, get(ours, variant, 49e-6)], "");
        check(&[get(ours, variant, 51e-6), get(ours, variant, 3e-6)], "takes 51.0 µs");
    }
}
