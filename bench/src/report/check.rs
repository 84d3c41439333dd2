//! The check that no engine is faster by doing less: all engines must end with the same store and
//! the same counts, and return the same look-ups and keys.

use serde_json::Value;

use crate::names::{EngineName, Workload};
use crate::protocol::Measured;

/// The fields of a row that describe the result of its run.
const STORE: &[&str] = &["store_len", "store_digest"];
const COUNTS: &[&str] = &["adds", "updates", "deletes"];
/// The digest of all values of an index.
const ANSWERS: &[&str] = &["answers", "answers_digest"];
/// The digest of the keys that a work queue returned.
const TAKEN: &[&str] = &["taken", "taken_digest"];

/// The reason why the figures of a run are not valid.
#[derive(Debug, thiserror::Error)]
pub enum Disagreement {
    /// The results of two engines differ.
    #[error(
        "{workload} {variant}: {field} is {one} in {one_engine}, but {other} in {other_engine}: the figures of this run are worth nothing"
    )]
    Different {
        /// The workload.
        workload: String,
        /// The variant.
        variant: String,
        /// The field that differs.
        field: &'static str,
        /// The first engine.
        one_engine: EngineName,
        /// Its value.
        one: Value,
        /// The other engine.
        other_engine: EngineName,
        /// Its value.
        other: Value,
    },
    /// A row lacks a field, so that it cannot be compared.
    #[error(
        "{workload} {variant}: {engine} does not say its {field}: the figures of this run are worth nothing"
    )]
    Missing {
        /// The workload.
        workload: String,
        /// The variant.
        variant: String,
        /// The engine.
        engine: EngineName,
        /// The missing field.
        field: &'static str,
    },
}

/// Compares every row with the first row of the same workload, variant and number of objects.
///
/// # Errors
/// The first [`Disagreement`].
pub fn check(rows: &[Measured]) -> Result<(), Box<Disagreement>> {
    for (at, measured) in rows.iter().enumerate() {
        let Measured { engine, row, .. } = measured;
        for field in fields(measured) {
            let (workload, variant) = (row.workload.clone(), row.variant.clone());
            let Some(other) = row.extra.get(field) else {
                return Err(Box::new(Disagreement::Missing {
                    workload,
                    variant,
                    engine: *engine,
                    field,
                }));
            };
            let first = rows[..at].iter().find(|earlier| {
                end(earlier) == end(measured) && fields(earlier).any(|f| f == field)
            });
            // The first row has the field: it was checked in an earlier iteration.
            let Some((first, one)) =
                first.and_then(|first| Some((first, first.row.extra.get(field)?)))
            else {
                continue;
            };
            if one != other {
                return Err(Box::new(Disagreement::Different {
                    workload,
                    variant,
                    field,
                    one_engine: first.engine,
                    one: one.clone(),
                    other_engine: *engine,
                    other: other.clone(),
                }));
            }
        }
    }
    Ok(())
}

/// Returns the fields that a row must have, and that must have the same value for every engine.
fn fields(measured: &Measured) -> impl Iterator<Item = &'static str> {
    let Measured { engine, row, .. } = measured;
    let is = |workload: Workload| row.workload == workload.name();
    let said: &[&[&str]] = if is(Workload::Queries) {
        &[ANSWERS]
    } else if is(Workload::WorkQueue) {
        &[TAKEN]
    } else if is(Workload::Stall) || !engine.makes_deltas() {
        // The numbers of relists and offers of a stall run depend on the engine. The engine's
        // process has checked that all of them were handled.
        &[STORE]
    } else {
        &[STORE, COUNTS]
    };
    // A skipped object is no update. The engine's process has checked the number of updates.
    let skips = *engine == EngineName::DeltaFifoSkip;
    said.iter().copied().flatten().copied().filter(move |field| !(skips && *field == "updates"))
}

/// Returns what determines the result of a run. For events it is the keys, and not the threads or
/// bursts: the same events have the same result.
fn end(measured: &Measured) -> (&str, usize, &str) {
    let Measured { objects, row, .. } = measured;
    let variant = row.variant.as_str();
    let keys = variant.split('-').next().filter(|_| row.workload == Workload::Events.name());
    (&row.workload, *objects, keys.unwrap_or(variant))
}

#[cfg(test)]
mod tests {
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
        let counts = [
            ("adds", 0),
            ("updates", updates),
            ("deletes", 0),
            ("store_len", 10),
            ("answers", 10),
            ("taken", 10),
        ];
        for (field, count) in counts {
            row.extra.insert(field.into(), count.into());
        }
        for field in ["store_digest", "answers_digest", "taken_digest"] {
            row.extra.insert(field.into(), digest.into());
        }
        Measured { engine, objects: 10, row }
    }

    fn relist(engine: EngineName, updates: u64, digest: &str) -> Measured {
        row(engine, Workload::Relist, "", updates, digest)
    }

    #[test]
    fn engines_that_differ_are_found() {
        let mutex = relist(EngineName::Mutex, 5, "a");
        assert!(check(&[mutex.clone(), relist(EngineName::DashMap, 5, "a")]).is_ok());
        assert!(check(&[mutex.clone(), relist(EngineName::DeltaFifoSkip, 0, "a")]).is_ok());
        assert!(check(&[relist(EngineName::DeltaFifoSkip, 0, "a"), mutex.clone()]).is_ok());
        for other in
            [relist(EngineName::DashMap, 4, "a"), relist(EngineName::DeltaFifoSkip, 0, "b")]
        {
            let message = check(&[mutex.clone(), other]).unwrap_err().to_string();
            assert!(message.contains("relist") && message.contains("mutex"), "{message}");
        }
        assert!(check(&[mutex.clone(), relist(EngineName::KubeWriter, 0, "a")]).is_ok());
        assert!(check(&[mutex.clone(), relist(EngineName::KubeWriter, 0, "b")]).is_err());
        let more = Measured { objects: 20, ..relist(EngineName::DashMap, 5, "b") };
        assert!(check(&[mutex, more]).is_ok());
    }

    #[test]
    fn events_of_the_same_keys_end_alike_and_other_variants_on_their_own() {
        let two = |workload, one: &str, other: &str| {
            check(&[
                row(EngineName::Mutex, workload, one, 5, "a"),
                row(EngineName::DashMap, workload, other, 5, "b"),
            ])
        };
        assert!(two(Workload::Events, "zipf-1x1", "zipf-2x2-burst").is_err());
        assert!(two(Workload::Events, "zipf-1x1", "uniform-1x1").is_ok());
        assert!(two(Workload::Readers, "idle-1-thread-p50", "idle-4-thread-p50").is_ok());
        for workload in [Workload::Readers, Workload::Queries, Workload::WorkQueue] {
            assert!(two(workload, "one-p50", "one-p50").is_err(), "{workload}");
        }
    }

    #[test]
    fn a_row_that_does_not_say_how_it_ended_is_found() {
        for workload in Workload::ALL {
            let said: &[&[&str]] = match workload {
                Workload::Stall => &[STORE],
                Workload::Queries => &[ANSWERS],
                Workload::WorkQueue => &[TAKEN],
                _ => &[STORE, COUNTS],
            };
            for field in [STORE, COUNTS, ANSWERS, TAKEN].concat() {
                let mut silent = row(EngineName::Mutex, workload, "", 5, "a");
                silent.row.extra.remove(field);
                assert_eq!(
                    check(&[silent]).is_err(),
                    said.concat().contains(&field),
                    "{workload}: {field}"
                );
            }
        }
    }
}
