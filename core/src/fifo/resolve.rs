//! From what was pushed to what client-go would hand out: the fold over a taken list.

use crate::slot::{Pending, What};
use crate::sync::Arc;
use crate::{DeletedFinalStateUnknown, Delta, DeltaType, Deltas};

/// A taken list, resolved.
pub(super) struct Resolved<T> {
    pub(super) deltas: Deltas<T>,
    /// Marks of the initial population among them.
    pub(super) marks: usize,
    /// What they weighed in the depth gauge.
    pub(super) weight: usize,
}

/// Folds `list`, oldest first: deletions in a row become one, and deltas that stand for the newest state get it: the
/// newest object before them in the list, else the one `known` now, else the one they brought.
pub(super) fn resolve<T>(key: &str, list: Vec<Pending<T>>, known: impl Fn() -> Option<Arc<T>>) -> Resolved<T> {
    let mut resolved = Resolved { deltas: Deltas::new(), marks: 0, weight: 0 };
    let deltas = &mut resolved.deltas;
    for pending in list {
        resolved.weight += pending.weight();
        resolved.marks += usize::from(pending.initial);
        match pending.what {
            What::Object(kind, object) => deltas.push_deduplicated(Delta::new(kind, object)),
            What::Tombstone(tombstone) => deltas.push_deduplicated(Delta::new(DeltaType::Deleted, tombstone)),
            What::Swept(fallback) => {
                let obj = match deltas.newest() {
                    Some(newest) => newest.object.object().cloned(),
                    None => known().or(fallback),
                };
                let tombstone = DeletedFinalStateUnknown { key: key.into(), obj };
                deltas.push_deduplicated(Delta::new(DeltaType::Deleted, tombstone));
            }
            What::Again(kind, brought) => {
                if let Some(object) = known().or(brought) {
                    deltas.push_deduplicated(Delta::new(kind, object));
                }
            }
            What::Sealed(sealed) => sealed.into_iter().for_each(|delta| deltas.push_sealed(delta)),
        }
    }
    resolved
}
