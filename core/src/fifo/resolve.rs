//! From what was pushed to what client-go would hand out: the fold over a taken list.

use crate::engine::slot::{Pending, What};
use crate::engine::sync::Arc;
use crate::{DeletedFinalStateUnknown, Delta, DeltaObject, DeltaType, Deltas};

/// A taken list, resolved.
pub(super) struct Resolved<T> {
    pub(super) deltas: Deltas<T>,
    /// Marks of the initial population among them.
    pub(super) marks: usize,
    /// What they weighed in the depth gauge.
    pub(super) weight: usize,
    /// What is in no delta any more: to be released when its key has a guard, since that may panic.
    pub(super) folded: Vec<DeltaObject<T>>,
}

/// Folds `list`, oldest first: deletions in a row become one, and deltas that stand for the newest
/// state get it: the newest object before them in the list, else the one `known` now, else the one
/// they brought.
pub(super) fn resolve<T>(key: &str, list: Vec<Pending<T>>, known: impl Fn() -> Option<Arc<T>>) -> Resolved<T> {
    let mut resolved = Resolved { deltas: Deltas::new(), marks: 0, weight: 0, folded: Vec::new() };
    let deltas = &mut resolved.deltas;
    let mut fold = |folded: Option<DeltaObject<T>>| resolved.folded.extend(folded);
    for pending in list {
        resolved.weight += pending.weight();
        resolved.marks += usize::from(pending.initial);
        let delta = match pending.what {
            What::Object(kind, object) => Delta::new(kind, object),
            What::Tombstone(tombstone) => Delta::new(DeltaType::Deleted, DeltaObject::Tombstone(tombstone)),
            What::Swept(brought) => {
                let (newest, unused) = match deltas.newest() {
                    Some(newest) => (newest.object.object().cloned(), brought),
                    None => either(known(), brought),
                };
                fold(unused.map(DeltaObject::Object));
                Delta::new(DeltaType::Deleted, DeletedFinalStateUnknown { key: key.into(), obj: newest })
            }
            What::Again(kind, brought) => {
                let (object, unused) = either(known(), brought);
                fold(unused.map(DeltaObject::Object));
                let Some(object) = object else { continue };
                Delta::new(kind, object)
            }
            What::Sealed(sealed) => {
                for delta in *sealed {
                    deltas.push_sealed(delta);
                }
                continue;
            }
        };
        fold(deltas.push_deduplicated(delta).map(|delta| delta.object));
    }
    resolved
}

/// The first, or else the second; and what is not used of them.
fn either<T>(first: Option<T>, second: Option<T>) -> (Option<T>, Option<T>) {
    if first.is_some() { (first, second) } else { (second, None) }
}
