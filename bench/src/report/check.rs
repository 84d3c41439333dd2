//! No figure is reached by doing less: all engines must end with the same store and the same counts, and find the same.

use serde_json::Value;

use crate::engines::EngineName;
use crate::rounds::Measured;

/// Two engines that should have done the same did not.
#[derive(Debug, thiserror::Error)]
#[error(
    "{workload} {variant}: {field} is {one} in {one_engine}, but {other} in {other_engine}: the figures of this run are worth nothing"
)]
pub struct Disagreement {
    workload: String,
    variant: String,
    field: &'static str,
    one_engine: EngineName,
    one: Value,
    other_engine: EngineName,
    other: Value,
}

/// What is compared.
const FIELDS: [&str; 7] = ["store_len", "store_digest", "answers", "answers_digest", "adds", "updates", "deletes"];

/// Compares every row with the first of its workload, variant and number of objects.
///
/// # Errors
/// The first [`Disagreement`].
pub fn check(rows: &[Measured]) -> Result<(), Box<Disagreement>> {
    for (at, Measured { engine, objects, row }) in rows.iter().enumerate() {
        for field in FIELDS {
            let compared = |engine: EngineName| match field {
                "store_len" | "store_digest" | "answers" | "answers_digest" => true,
                // What is unchanged makes no updates there; that engine's own process has checked the number.
                "updates" if engine == EngineName::DeltaFifoSkip => false,
                _ => engine.makes_deltas(),
            };
            // Bursts and single offers of the same events end alike, whoever offers them.
            let first = rows[..at].iter().find(|earlier| {
                compared(earlier.engine)
                    && earlier.objects == *objects
                    && earlier.row.workload == row.workload
                    && keys(&earlier.row.variant) == keys(&row.variant)
            });
            let Some(first) = first.filter(|_| compared(*engine)) else { continue };
            let (one, other) = (first.row.extra.get(field), row.extra.get(field));
            if one != other {
                return Err(Box::new(Disagreement {
                    workload: row.workload.clone(),
                    variant: row.variant.clone(),
                    field,
                    one_engine: first.engine,
                    one: one.cloned().unwrap_or_default(),
                    other_engine: *engine,
                    other: other.cloned().unwrap_or_default(),
                }));
            }
        }
    }
    Ok(())
}

/// What decides the end of a run: of events the keys, not the threads or the bursts.
fn keys(variant: &str) -> &str {
    variant.split('-').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Row;
    use crate::workloads::Workload;

    fn row(engine: EngineName, variant: &str, updates: u64, digest: &str) -> Measured {
        let mut row = Row::new(Workload::Relist, variant, "s", 1.0);
        row.extra.insert("updates".into(), updates.into());
        row.extra.insert("store_digest".into(), digest.into());
        Measured { engine, objects: 10, row }
    }

    #[test]
    fn engines_that_differ_are_found() {
        let mutex = row(EngineName::Mutex, "", 5, "a");
        assert!(check(&[mutex.clone(), row(EngineName::DashMap, "", 5, "a")]).is_ok());
        assert!(check(&[mutex.clone(), row(EngineName::DeltaFifoSkip, "", 0, "a")]).is_ok());
        assert!(check(&[row(EngineName::DeltaFifoSkip, "", 0, "a"), mutex.clone()]).is_ok());
        for other in [row(EngineName::DashMap, "", 4, "a"), row(EngineName::DeltaFifoSkip, "", 0, "b")] {
            let message = check(&[mutex.clone(), other]).unwrap_err().to_string();
            assert!(message.contains("relist") && message.contains("mutex"), "{message}");
        }
        assert!(check(&[mutex.clone(), row(EngineName::KubeWriter, "", 0, "a")]).is_ok());
        assert!(check(&[mutex.clone(), row(EngineName::KubeWriter, "", 0, "b")]).is_err());
        let events = [row(EngineName::Mutex, "zipf-1x1", 5, "a"), row(EngineName::DashMap, "zipf-2x2-burst", 5, "b")];
        assert!(check(&events).is_err());
        let found = |engine, digest: &str| {
            let mut row = Row::new(Workload::Queries, "by-index-p50", "s", 1.0);
            row.extra.insert("answers_digest".into(), digest.into());
            Measured { engine, objects: 10, row }
        };
        assert!(check(&[found(EngineName::Mutex, "a"), found(EngineName::DashMap, "a")]).is_ok());
        assert!(check(&[found(EngineName::Mutex, "a"), found(EngineName::DashMap, "b")]).is_err());
        let more = Measured { objects: 20, ..row(EngineName::DashMap, "", 5, "b") };
        assert!(check(&[mutex, more]).is_ok());
    }
}
