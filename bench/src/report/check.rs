//! The check that no engine is faster because it does less: all engines must end with the same
//! store and the same counts, all indexes must return the same objects, and all work queues must
//! return the same keys.

use serde_json::{Map, Value};

use super::Summary;
use crate::names::{EngineName, Workload};
use crate::protocol::Measured;

/// The fields of a row with the content of the store at the end.
const STORE: &[&str] = &["store_len", "store_digest"];
/// The fields of a row with the handler's counts of added, updated and deleted keys.
const COUNTS: &[&str] = &["adds", "updates", "deletes"];
/// The fields with the number and the digest of the objects that the look-ups of all values of an
/// index returned.
const ANSWERS: &[&str] = &["answers", "answers_digest"];
/// The fields with the number and the digest of the keys that a work queue returned.
const TAKEN: &[&str] = &["taken", "taken_digest"];

/// A row of a run or of a report, as the check reads it.
#[derive(Clone, Copy)]
pub(super) struct Checked<'a> {
    engine: EngineName,
    workload: Workload,
    variant: &'a str,
    objects: usize,
    extra: &'a Map<String, Value>,
}

impl<'a> Checked<'a> {
    /// Returns the row of a run. Returns `None` for a client of a server, whose rows are not
    /// compared: if the client has a store, its turn has already checked that the store had all
    /// objects.
    pub fn measured(Measured { engine, objects, row }: &'a Measured) -> Option<Self> {
        Self::new(engine, &row.workload, &row.variant, *objects, &row.extra)
    }

    /// Returns the row of a report. Returns `None` if this version of the tool does not have the
    /// row's engine or workload.
    pub fn summary(row: &'a Summary) -> Option<Self> {
        Self::new(&row.engine, &row.workload, &row.variant, row.objects, &row.extra)
    }

    fn new(
        engine: &str,
        workload: &str,
        variant: &'a str,
        objects: usize,
        extra: &'a Map<String, Value>,
    ) -> Option<Self> {
        let (engine, workload) = (EngineName::named(engine)?, Workload::named(workload)?);
        Some(Self { engine, workload, variant, objects, extra })
    }

    /// Returns the names of the fields that the row must have. Their values must be equal for all
    /// engines.
    fn fields(self) -> impl Iterator<Item = &'static str> {
        let fields: &[&[&str]] = match self.workload {
            Workload::Queries => &[ANSWERS],
            Workload::WorkQueue => &[TAKEN],
            // The numbers of relists and offers of the workload `stall` depend on the engine. The
            // engine's process has checked that all of them were handled.
            // The engines of the workload `cache` have no handler.
            Workload::Stall | Workload::Cache => &[STORE],
            _ if !self.engine.makes_deltas() => &[STORE],
            _ => &[STORE, COUNTS],
        };
        // A skipped object is not an update. The engine's process has checked the number of
        // updates.
        let skips = self.engine == EngineName::DeltaFifoSkip;
        let fields = fields.iter().copied().flatten().copied();
        fields.filter(move |field| !(skips && *field == "updates"))
    }

    /// Returns the values on which the result of the run depends. In a variant of the workload
    /// `events`, only the distribution of the keys counts: threads and bursts do not change the
    /// result.
    fn determinants(self) -> (Workload, usize, &'a str) {
        let keys = self.variant.split('-').next().filter(|_| self.workload == Workload::Events);
        (self.workload, self.objects, keys.unwrap_or(self.variant))
    }
}

/// Compares every row with the first row whose result must be equal. Returns a description of the
/// first difference.
pub(super) fn difference<'a>(rows: impl Iterator<Item = Checked<'a>>) -> Option<String> {
    const INVALID: &str = "the figures of this run are not valid";
    let mut earlier: Vec<Checked<'_>> = Vec::new();
    for row in rows {
        let Checked { engine, workload, variant, extra, .. } = row;
        for field in row.fields() {
            let Some(value) = extra.get(field) else {
                return Some(format!("{workload} {variant}: {engine} has no {field}: {INVALID}"));
            };
            let is_comparable = |other: &&Checked<'_>| {
                other.determinants() == row.determinants() && other.fields().any(|f| f == field)
            };
            if let Some(first) = earlier.iter().find(is_comparable)
                && let Some(other) = first.extra.get(field).filter(|other| *other != value)
            {
                let first = first.engine;
                return Some(format!(
                    "{workload} {variant}: {field} is {other} in {first}, but {value} in {engine}: {INVALID}"
                ));
            }
        }
        earlier.push(row);
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::protocol::Row;

    fn row(
        engine: EngineName,
        workload: Workload,
        variant: &str,
        updates: u64,
        digest: &str,
    ) -> Measured {
        let mut row = Row::new(workload, variant, "s", 1.0);
        let extra = json!({
            "adds": 0, "updates": updates, "deletes": 0, "store_len": 10, "store_digest": digest,
            "answers": 10, "answers_digest": digest, "taken": 10, "taken_digest": digest,
        });
        row.extra = serde_json::from_value(extra).expect("a map");
        Measured::new(engine, 10, row)
    }

    fn found(rows: &[Measured]) -> Option<String> {
        difference(rows.iter().filter_map(Checked::measured))
    }

    #[test]
    fn engines_that_differ_are_found() {
        let relist = |engine, updates, digest| row(engine, Workload::Relist, "", updates, digest);
        let mutex = relist(EngineName::Mutex, 5, "a");
        for equal in [
            relist(EngineName::DashMap, 5, "a"),
            relist(EngineName::DeltaFifoSkip, 0, "a"),
            relist(EngineName::KubeWriter, 0, "a"),
            Measured { objects: 20, ..relist(EngineName::DashMap, 5, "b") },
        ] {
            assert_eq!(found(&[mutex.clone(), equal.clone()]), None);
            assert_eq!(found(&[equal, mutex.clone()]), None);
        }
        for other in [
            relist(EngineName::DashMap, 4, "a"),
            relist(EngineName::DeltaFifoSkip, 0, "b"),
            relist(EngineName::KubeWriter, 0, "b"),
        ] {
            let message = found(&[mutex.clone(), other]).expect("the rows differ");
            assert!(message.contains("relist") && message.contains("mutex"), "{message}");
        }
    }

    #[test]
    fn events_of_the_same_keys_are_compared_across_variants() {
        let two = |workload, one: &str, other: &str| {
            let one = row(EngineName::Mutex, workload, one, 5, "a");
            found(&[one, row(EngineName::DashMap, workload, other, 5, "b")]).is_none()
        };
        assert!(!two(Workload::Events, "zipf-1x1", "zipf-2x2-burst"));
        assert!(two(Workload::Events, "zipf-1x1", "uniform-1x1"));
        assert!(two(Workload::Readers, "idle-1-thread-p50", "idle-4-thread-p50"));
        for workload in [Workload::Readers, Workload::Queries, Workload::WorkQueue] {
            assert!(!two(workload, "one-p50", "one-p50"), "{workload}");
        }
    }

    #[test]
    fn row_without_a_compared_field_is_found() {
        for (workload, field) in [
            (Workload::Relist, "store_digest"),
            (Workload::Events, "updates"),
            (Workload::Stall, "store_len"),
            (Workload::Queries, "answers"),
            (Workload::WorkQueue, "taken_digest"),
            (Workload::Cache, "store_digest"),
        ] {
            let mut incomplete = row(EngineName::Mutex, workload, "", 5, "a");
            incomplete.row.extra.remove(field);
            let message = found(&[incomplete]).expect("a field is missing");
            assert!(message.contains(field), "{message}");
        }
    }
}
