//! Folds the deltas that were taken off a slot into those that client-go would hand out.

use crate::engine::slot::{Content, Pending, Sweep};
use crate::engine::sync::Arc;
use crate::{DeletedFinalStateUnknown, Delta, DeltaObject, DeltaType, Deltas};

/// The result of a fold.
pub(super) struct Resolved<T> {
    pub(super) deltas: Deltas<T>,
    /// The number of marks of the initial population among the deltas.
    pub(super) marks: usize,
    /// The number of deltas before the fold, to be subtracted from the depth gauge.
    pub(super) weight: usize,
    /// Objects that no delta holds any more. The caller releases them once the key has a guard,
    /// which settles the key even if a destructor panics.
    pub(super) folded: Vec<DeltaObject<T>>,
}

/// Folds `list`, oldest first. Deletions in a row become one. The deletion of a sweep gets the
/// object of the delta before it; if there is no such delta, the `known` object, or else its own.
/// A Sync gets the `known` object, or else its own; without any object it is left out.
pub(super) fn resolve<T>(
    key: &str,
    list: Vec<Pending<T>>,
    known: impl Fn() -> Option<Arc<T>>,
) -> Resolved<T> {
    let mut resolved =
        Resolved { deltas: Deltas::default(), marks: 0, weight: 0, folded: Vec::new() };
    let deltas = &mut resolved.deltas;
    let mut fold = |folded: Option<DeltaObject<T>>| resolved.folded.extend(folded);
    for pending in list {
        resolved.weight += pending.weight();
        resolved.marks += usize::from(pending.initial);
        let delta = match pending.content {
            Content::Object(kind, object) => Delta::new(kind, object),
            Content::Tombstone(tombstone) => {
                Delta::new(DeltaType::Deleted, DeltaObject::Tombstone(tombstone))
            }
            Content::Swept(sweep, brought) => {
                let (newest, unused) = match deltas.newest() {
                    Some(newest) => (newest.object.object().cloned(), brought),
                    None => either(known(), brought),
                };
                fold(unused.map(DeltaObject::Object));
                let scope_removed = sweep == Sweep::ScopeRemoved;
                Delta::new(
                    DeltaType::Deleted,
                    DeletedFinalStateUnknown { key: key.into(), obj: newest, scope_removed },
                )
            }
            Content::Again(kind, brought) => {
                let (object, unused) = either(known(), brought);
                fold(unused.map(DeltaObject::Object));
                let Some(object) = object else { continue };
                Delta::new(kind, object)
            }
            Content::Sealed(sealed) => {
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

/// Chooses `first`, or `second` if there is no first. Returns the chosen object, and the one that
/// was not chosen, if any.
fn either<T>(first: Option<T>, second: Option<T>) -> (Option<T>, Option<T>) {
    if first.is_some() { (first, second) } else { (second, None) }
}
