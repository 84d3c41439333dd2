//! The values that a pop returns: a change of a key ([`Delta`]), the list of pending changes
//! ([`Deltas`]), and the tombstone of a deletion that was not observed
//! ([`DeletedFinalStateUnknown`]).

use std::fmt;

use smallvec::SmallVec;

use crate::engine::release::release;
use crate::engine::sync::Arc;

/// The kind of a [`Delta`] (client-go `DeltaType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeltaType {
    /// The object was offered as a new one, by `add`.
    Added,
    /// The object was offered as a changed one, by `update`.
    Updated,
    /// The object was deleted. The delta holds its last state, or a tombstone if the deletion was
    /// not observed.
    Deleted,
    /// A relist contained the object, which may be new, changed or unchanged.
    Replaced,
    /// A periodic resync, or a relist in a queue built with `emit_replaced(false)`.
    Sync,
}

impl fmt::Display for DeltaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DeltaType::Added => "Added",
            DeltaType::Updated => "Updated",
            DeltaType::Deleted => "Deleted",
            DeltaType::Replaced => "Replaced",
            DeltaType::Sync => "Sync",
        })
    }
}

/// A deletion that was not observed: the key is gone, and `obj` is the last known state, which
/// may be stale or missing (client-go `DeletedFinalStateUnknown`).
pub struct DeletedFinalStateUnknown<T> {
    /// The key of the deleted object.
    pub key: Box<str>,
    /// The last known state, if there is one.
    pub obj: Option<Arc<T>>,
    /// Whether the key is gone because its scope was removed
    /// ([`DeltaFifo::remove_scope`](crate::DeltaFifo::remove_scope)): in an informer, a namespace
    /// or a shard. The object itself may still exist.
    pub scope_removed: bool,
}

impl<T> DeletedFinalStateUnknown<T> {
    /// Creates the tombstone of an object that is gone, with its last known state.
    pub fn new(key: impl Into<Box<str>>, obj: Option<Arc<T>>) -> Self {
        Self { key: key.into(), obj, scope_removed: false }
    }
}

impl<T> Clone for DeletedFinalStateUnknown<T> {
    fn clone(&self) -> Self {
        let Self { key, obj, scope_removed } = self;
        Self { key: key.clone(), obj: obj.clone(), scope_removed: *scope_removed }
    }
}

impl<T: fmt::Debug> fmt::Debug for DeletedFinalStateUnknown<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeletedFinalStateUnknown")
            .field("key", &self.key)
            .field("obj", &self.obj)
            .field("scope_removed", &self.scope_removed)
            .finish()
    }
}

/// The subject of a [`Delta`]: an object or, if its deletion was not observed, a tombstone.
pub enum DeltaObject<T> {
    /// The offered object, or the result of the transformer if there is one.
    Object(Arc<T>),
    /// A deletion that was not observed. Boxed, so that the enum takes two words.
    Tombstone(Box<DeletedFinalStateUnknown<T>>),
}

impl<T> DeltaObject<T> {
    /// Returns the object, or the last known state in a tombstone.
    #[must_use]
    pub fn object(&self) -> Option<&Arc<T>> {
        match self {
            DeltaObject::Object(object) => Some(object),
            DeltaObject::Tombstone(tombstone) => tombstone.obj.as_ref(),
        }
    }

    /// Returns whether this is a tombstone of a removed scope.
    pub(crate) fn is_scope_removed(&self) -> bool {
        matches!(self, DeltaObject::Tombstone(tombstone) if tombstone.scope_removed)
    }

    /// Returns whether this is a tombstone.
    #[must_use]
    pub fn is_tombstone(&self) -> bool {
        matches!(self, DeltaObject::Tombstone(_))
    }
}

impl<T> Clone for DeltaObject<T> {
    fn clone(&self) -> Self {
        match self {
            DeltaObject::Object(object) => DeltaObject::Object(object.clone()),
            DeltaObject::Tombstone(tombstone) => DeltaObject::Tombstone(tombstone.clone()),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for DeltaObject<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeltaObject::Object(object) => object.fmt(f),
            DeltaObject::Tombstone(tombstone) => tombstone.fmt(f),
        }
    }
}

impl<T> From<Arc<T>> for DeltaObject<T> {
    fn from(object: Arc<T>) -> Self {
        DeltaObject::Object(object)
    }
}

impl<T> From<DeletedFinalStateUnknown<T>> for DeltaObject<T> {
    fn from(tombstone: DeletedFinalStateUnknown<T>) -> Self {
        DeltaObject::Tombstone(Box::new(tombstone))
    }
}

/// A change of one key (client-go `Delta`).
pub struct Delta<T> {
    /// The kind of the change.
    pub kind: DeltaType,
    /// The object that changed.
    pub object: DeltaObject<T>,
}

impl<T> Delta<T> {
    /// Creates a delta of `kind` for `object`.
    pub fn new(kind: DeltaType, object: impl Into<DeltaObject<T>>) -> Self {
        Self { kind, object: object.into() }
    }
}

impl<T> Clone for Delta<T> {
    fn clone(&self) -> Self {
        Self { kind: self.kind, object: self.object.clone() }
    }
}

impl<T: fmt::Debug> fmt::Debug for Delta<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        self.object.fmt(f)
    }
}

/// The pending deltas of one key, oldest first (client-go `Deltas`). Dereferences to a slice.
///
/// A single delta, by far the most frequent case, is stored without an allocation.
///
/// ```
/// use std::sync::Arc;
/// use deltafifo::{Delta, DeltaType, Deltas};
///
/// let deltas: Deltas<u32> =
///     [Delta::new(DeltaType::Added, Arc::new(1)), Delta::new(DeltaType::Updated, Arc::new(2))]
///         .into_iter()
///         .collect();
/// assert_eq!(deltas.oldest().unwrap().kind, DeltaType::Added);
/// assert_eq!(deltas.newest().unwrap().object.object().map(|n| **n), Some(2));
/// ```
pub struct Deltas<T>(SmallVec<[Delta<T>; 1]>);

impl<T> Deltas<T> {
    /// Returns the oldest delta.
    #[must_use]
    pub fn oldest(&self) -> Option<&Delta<T>> {
        self.0.first()
    }

    /// Returns the newest delta.
    #[must_use]
    pub fn newest(&self) -> Option<&Delta<T>> {
        self.0.last()
    }

    #[inline]
    pub(crate) fn one(delta: Delta<T>) -> Self {
        Self(SmallVec::from_buf([delta]))
    }

    /// Reverses the order, so that [`pop`](Self::pop) returns the oldest delta.
    pub(crate) fn reverse(&mut self) {
        self.0.reverse();
    }

    pub(crate) fn pop(&mut self) -> Option<Delta<T>> {
        self.0.pop()
    }

    /// Appends a delta that was put back, or offered by `add_if_not_present`. As in client-go, such
    /// a delta is not merged with the one before it.
    pub(crate) fn push_sealed(&mut self, delta: Delta<T>) {
        self.0.push(delta);
    }

    /// Appends a delta as client-go's `queueActionInternalLocked` does: if two deletions follow
    /// each other, the older is kept, unless it is a tombstone; then the newer is kept. A deletion
    /// by the removal of a scope never replaces an older one, because the object was deleted before
    /// the scope was removed. No other deltas are merged. Only the last two deltas are compared, so
    /// merging once at the end gives the same list as merging at each append.
    ///
    /// Returns the delta that was merged away. Its drop runs user code, so the caller must drop
    /// it with no lock held.
    #[must_use]
    pub(crate) fn push_deduplicated(&mut self, delta: Delta<T>) -> Option<Delta<T>> {
        match self.0.last_mut() {
            Some(last) if last.kind == DeltaType::Deleted && delta.kind == DeltaType::Deleted => {
                Some(if last.object.is_tombstone() && !delta.object.is_scope_removed() {
                    std::mem::replace(last, delta)
                } else {
                    delta
                })
            }
            _ => {
                self.0.push(delta);
                None
            }
        }
    }
}

impl<T> Deltas<T> {
    /// Drops each delta, even if the drop of another one panics.
    #[cold]
    #[inline(never)]
    pub(crate) fn release(&mut self) {
        release(self.0.drain(..));
    }
}

impl<T> Default for Deltas<T> {
    fn default() -> Self {
        Self(SmallVec::new())
    }
}

impl<T> Clone for Deltas<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: fmt::Debug> fmt::Debug for Deltas<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}

impl<T> std::ops::Deref for Deltas<T> {
    type Target = [Delta<T>];

    fn deref(&self) -> &[Delta<T>] {
        &self.0
    }
}

impl<T> FromIterator<Delta<T>> for Deltas<T> {
    fn from_iter<I: IntoIterator<Item = Delta<T>>>(deltas: I) -> Self {
        // The iterator may panic, and then those taken so far are dropped one by one.
        let mut all = Self::default();
        all.0.extend(deltas);
        all
    }
}

impl<T> IntoIterator for Deltas<T> {
    type Item = Delta<T>;
    type IntoIter = smallvec::IntoIter<[Delta<T>; 1]>;

    fn into_iter(self) -> Self::IntoIter {
        let mut deltas = self;
        std::mem::take(&mut deltas.0).into_iter()
    }
}

impl<T> Drop for Deltas<T> {
    #[inline]
    fn drop(&mut self) {
        // The drop glue handles zero or one delta; only several need `release`.
        if self.0.len() > 1 {
            self.release();
        }
    }
}

impl<'a, T> IntoIterator for &'a Deltas<T> {
    type Item = &'a Delta<T>;
    type IntoIter = std::slice::Iter<'a, Delta<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
