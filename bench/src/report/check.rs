//! No figure is reached by doing less: all engines must end with the same store and the same
//! counts, and find and take the same.

use serde_json::Value;

use crate::names::{EngineName, Workload};
use crate::protocol::Measured;

/// What a row says of the end of its run.
const STORE: &[&str] = &["store_len", "store_digest"];
const COUNTS: &[&str] = &["adds", "updates", "deletes"];
/// What an index has under all of its values together.
const ANSWERS: &[&str] = &["answers", "answers_digest"];
/// The keys that a work queue handed out.
const TAKEN: &[&str] = &["taken", "taken_digest"];

/// Why the figures of a run are worth nothing.
#[derive(Debug, thiserror::Error)]
pub enum Disagreement {
    /// Two engines that should have done the same did not.
    #[error(
        "{workload} {variant}: {field} is {one} in {one_engine}, but {other} in {other_engine}: the figures of this run are worth nothing"
    )]
    Different {
        /// Of this workload,
        workload: String,
        /// in this variant,
        variant: String,
        /// this
        field: &'static str,
        /// is in the first
        one_engine: EngineName,
        /// this,
        one: Value,
        /// but in the other
        other_engine: EngineName,
        /// that.
        other: Value,
    },
    /// A row does not say what it ended with, so that nothing can be compared.
    #[error(
        "{workload} {variant}: {engine} does not say its {field}: the figures of this run are worth nothing"
    )]
    Missing {
        /// Of this workload,
        workload: String,
        /// in this variant,
        variant: String,
        /// this engine
        engine: EngineName,
        /// lacks this.
        field: &'static str,
    },
}

/// Compares every row with the first of its workload, variant and number of objects.
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
            // The first was looked at before: it has the field.
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

/// What a row must say, and must be the same in every engine that says it.
fn fields(measured: &Measured) -> impl Iterator<Item = &'static str> {
    let Measured { engine, row, .. } = measured;
    let is = |workload: Workload| row.workload == workload.name();
    let said: &[&[&str]] = if is(Workload::Queries) {
        &[ANSWERS]
    } else if is(Workload::WorkQueue) {
        &[TAKEN]
    } else if is(Workload::Stall) || !engine.makes_deltas() {
        // How often a stall run relists and offers is up to the engine; its own process has
        // checked that all was handled.
        &[STORE]
    } else {
        &[STORE, COUNTS]
    };
    // What is unchanged makes no updates there; that engine's own process has checked the number.
    let skips = *engine == EngineName::DeltaFifoSkip;
    said.iter().copied().flatten().copied().filter(move |field| !(skips && *field == "updates"))
}

/// What decides the end of a run. Of events it is the keys, not the threads or the bursts: the
/// same events end alike, whoever offers them.
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
