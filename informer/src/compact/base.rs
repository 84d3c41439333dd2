//! Bases: a base is a copy of the JSON text of one object of a group of similar objects. The
//! objects of the group are stored as differences from their base.

use std::sync::{Arc, Weak};

use super::codec::CodecError;
use super::common::Common;
use super::header::SharedHeader;
use super::stored::{Material, Reference, Stored};
use super::sync::{AtomicBool, AtomicUsize, Mutex, Ordering, USED_UP, mutant};
use super::values::{BaseText, Document, Own};

/// The number of objects whose latest differences from a base are compared with the first ones.
const RECENT: usize = 4;
/// The assumed ratio of the size of a text packed with the previous dictionary to its size packed
/// with a new one. The true ratio is rarely larger.
const GAIN: usize = 3;
/// The largest size of a difference that is used, as a fraction of the size that the object has
/// when it is packed with the dictionary.
const MOST: (usize, usize) = (7, 10);

/// An immutable copy of the text of one member of a group.
///
/// The base itself is packed with the dictionary. An unpacked copy is kept while it is used often.
/// Each difference holds the base, so the base is freed after its last difference.
pub(super) struct Base {
    common: Arc<Common>,
    /// The [`Reference`] that contains this base, and that objects hold.
    me: Weak<Reference>,
    stored: Mutex<Stored>,
    pub(super) length: usize,
    text: Mutex<Option<Arc<BaseText>>>,
    /// Whether the text has been used since the cache last checked it.
    is_used: AtomicBool,
    pub(super) shared: Arc<SharedHeader>,
    /// Whether a group has replaced the base by a newer one. Other groups may still use it.
    is_replaced: AtomicBool,
    differences: Mutex<Differences>,
    /// The largest number of objects that have held the base at a time.
    most_holders: AtomicUsize,
}

impl Base {
    /// Creates a base with this text, which is packed with `dictionary`.
    pub(super) fn create(
        common: &Arc<Common>,
        text: Arc<BaseText>,
        dictionary: &Arc<Reference>,
        shared: SharedHeader,
    ) -> Arc<Reference> {
        // A base has no header: its values are in its text.
        let stored = Stored::pack(&Document::plain(&text), dictionary);
        let reference = Arc::new_cyclic(|me| {
            let base = Self {
                common: common.clone(),
                me: me.clone(),
                stored: Mutex::new(stored),
                length: text.len(),
                text: Mutex::default(),
                is_used: AtomicBool::new(true),
                shared: Arc::new(shared),
                is_replaced: AtomicBool::new(false),
                differences: Mutex::default(),
                most_holders: AtomicUsize::new(0),
            };
            common.counts.bases.fetch_add(1, Ordering::Relaxed);
            common.counts.base_bytes.fetch_add(base.size(), Ordering::Relaxed);
            Reference { common: common.clone(), kind: Material::Base(base) }
        });
        if let Material::Base(base) = &reference.kind {
            base.keep(text);
        }
        reference
    }

    /// Returns the text.
    pub(super) fn text(&self) -> Result<Arc<BaseText>, CodecError> {
        if let Some(text) = &*self.text.lock() {
            // Relaxed: a hint for the cache.
            self.is_used.store(true, Ordering::Relaxed);
            return Ok(text.clone());
        }
        let stored = self.stored.lock().clone();
        mutant!(BaseIsReadInParts => let stored = self.with_current_material(stored));
        let text = Arc::new(BaseText::new(stored.unpack(self.length, &Own::default())?));
        self.keep(text.clone());
        Ok(text)
    }

    pub(super) fn keep(&self, text: Arc<BaseText>) {
        let before = self.text.lock().replace(text);
        mutant!(EveryTextIsCounted => let before = before.filter(|_| false));
        if before.is_none() {
            let cache = &self.common.cache;
            mutant!(AdmittedBeforeCounted => cache.admit(self.me.clone()));
            mutant!(AdmittedUnderLock => let _text = self.text.lock(); cache.admit(self.me.clone()));
            cache.bytes.fetch_add(self.length, Ordering::Relaxed);
            cache.admit(self.me.clone());
        }
    }

    /// Drops the unpacked text, unless the text has been used since the last call. Returns whether
    /// it was dropped.
    pub(super) fn evict(&self) -> bool {
        if self.is_used.swap(false, Ordering::Relaxed) {
            return false;
        }
        self.forget();
        true
    }

    fn forget(&self) {
        let is_counted = self.text.lock().take().is_some();
        mutant!(EvictedIsSubtractedAgain => let is_counted = true);
        if is_counted {
            self.common.cache.bytes.fetch_sub(self.length, Ordering::Relaxed);
        }
    }

    /// Packs the base again, if it was not packed with `dictionary`. After an error the base has
    /// the form that it had.
    pub(super) fn repack(&self, dictionary: &Arc<Reference>) -> Result<(), CodecError> {
        if Arc::ptr_eq(&self.stored.lock().with, dictionary) {
            return Ok(());
        }
        let stored = Stored::try_pack(&Document::plain(&self.text()?), dictionary)?;
        // Added first, so that the sum is never negative beside another call.
        self.common.counts.base_bytes.fetch_add(stored.bytes.len(), Ordering::Relaxed);
        let before = std::mem::replace(&mut *self.stored.lock(), stored);
        self.common.counts.base_bytes.fetch_sub(before.bytes.len(), Ordering::Relaxed);
        Ok(())
    }

    /// Estimates the size that a text of `length` bytes would have when packed with `dictionary`.
    /// Assumes that it shrinks by the same factor as the base. If the base is not packed with
    /// `dictionary` yet, also divides by [`GAIN`], so that the estimate is rather too low.
    pub(super) fn estimate(&self, length: usize, dictionary: &Arc<Reference>) -> usize {
        let stored = self.stored.lock();
        let estimate = stored.bytes.len() * length / self.length.max(1);
        if Arc::ptr_eq(&stored.with, dictionary) { estimate } else { estimate / GAIN }
    }

    /// Records the size of the difference of an object, which `object` identifies. Returns whether
    /// the base is outdated, for example because the workload has changed.
    pub(super) fn note(&self, object: u32, bytes: usize) -> bool {
        self.differences.lock().note(object, bytes)
    }

    pub(super) fn set_replaced(&self) {
        // Relaxed: orders no other memory. If `Compactor::against_first` does not see the change,
        // one more group uses the base. If `Compactor::repack` does not see it, a later pass packs
        // the object again.
        self.is_replaced.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_replaced(&self) -> bool {
        // Relaxed: see `set_replaced`.
        self.is_replaced.load(Ordering::Relaxed)
    }

    /// Records that `holders` objects hold the base now.
    pub(super) fn record_holders(&self, holders: usize) {
        // Relaxed: orders no other memory. If the load in `is_used_up` does not see the new
        // number, the base stays until a later pass.
        self.most_holders.fetch_max(holders, Ordering::Relaxed);
    }

    /// Returns whether `holders`, the number of objects that hold the base now, is so small a part
    /// of the most that have held it at a time ([`USED_UP`]) that the base should be freed.
    pub(super) fn is_used_up(&self, holders: usize) -> bool {
        // Relaxed: see `record_holders`.
        holders * USED_UP < self.most_holders.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes that the base takes in memory, without its unpacked text.
    fn size(&self) -> usize {
        size_of::<Self>() + self.stored.lock().bytes.len() + self.shared.size()
    }
}

/// The sizes of differences from a base, by which an outdated base is recognised.
#[derive(Default)]
struct Differences {
    /// The objects that were packed last, from the oldest: the identity of each, and the size in
    /// bytes of its latest difference. The identity 0 marks a free place.
    recent: [(u32, u32); RECENT],
    /// The average size of the first differences in bytes, or 0 if there are too few of them yet.
    first: u32,
}

impl Differences {
    /// Records a difference. An update takes the place of the object's earlier difference, so that
    /// an object that is often updated counts once.
    ///
    /// Returns whether the differences of most of the recent objects are more than twice as large
    /// as the first ones. Always false for a base that only one object uses.
    fn note(&mut self, object: u32, bytes: usize) -> bool {
        let object = object.max(1);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let earlier = self.recent.iter().position(|(noted, _)| *noted == object);
        let (noted, _) = self.count(0);
        // The first differences are complete when one is about to be replaced.
        if self.first == 0 && noted > 1 && (noted == RECENT || earlier.is_some()) {
            let sum: usize = self.recent.iter().map(|(_, bytes)| *bytes as usize).sum();
            self.first = u32::try_from(sum / noted).unwrap_or(u32::MAX).max(1);
        }
        self.recent[earlier.unwrap_or(0)..].rotate_left(1);
        self.recent[RECENT - 1] = (object, bytes);
        let (noted, large) = self.count(2 * self.first as usize);
        self.first > 0 && 2 * large > noted
    }

    /// Returns the number of recent objects, and of those whose difference has more than `bytes`
    /// bytes.
    fn count(&self, bytes: usize) -> (usize, usize) {
        let noted = self.recent.iter().filter(|(object, _)| *object != 0);
        let large = noted.clone().filter(|(_, size)| *size as usize > bytes);
        (noted.count(), large.count())
    }
}

/// Returns whether a difference of `bytes` bytes is small enough to be stored, if the same object
/// takes `other` bytes when it is packed with the dictionary.
pub(super) fn is_worth_it(bytes: usize, other: usize) -> bool {
    bytes * MOST.1 <= other * MOST.0
}

impl Drop for Base {
    fn drop(&mut self) {
        mutant!(DroppedTextStaysCounted => drop(self.text.lock().take()));
        self.forget();
        self.common.counts.bases.fetch_sub(1, Ordering::Relaxed);
        self.common.counts.base_bytes.fetch_sub(self.size(), Ordering::Relaxed);
    }
}

/// The code of a deliberate defect (`sync/mutants.rs`).
#[cfg(deltafifo_shuttle)]
mod defects {
    use super::{Base, Stored};

    impl Base {
        /// Replaces the dictionary of `stored` by the one that the base has now: the defect
        /// `BaseIsReadInParts`, since the base can be packed again after `stored` was read.
        pub(super) fn with_current_material(&self, stored: Stored) -> Stored {
            Stored { with: self.stored.lock().with.clone(), ..stored }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Differences, RECENT};

    /// Records a difference of each of these objects, and returns whether the base is outdated
    /// after the last one.
    fn note(differences: &mut Differences, objects: std::ops::Range<u32>, bytes: usize) -> bool {
        objects.fold(false, |_, object| differences.note(object, bytes))
    }

    #[test]
    fn base_is_outdated_once_most_of_the_recent_differences_are_large() {
        let mut differences = Differences::default();
        assert!(!note(&mut differences, 1..20, 100));
        assert!(!note(&mut differences, 20..30, 200), "twice as large");
        assert!(!note(&mut differences, 30..32, 201), "half of the recent ones");
        assert!(differences.note(32, 201));
    }

    #[test]
    fn updates_of_one_object_never_outdate_a_base() {
        for others in 0..2 * u32::try_from(RECENT).unwrap() {
            let mut differences = Differences::default();
            note(&mut differences, 1..others + 2, 100);
            assert!((0..100).all(|_| !differences.note(1, 1000)), "{others} others");
        }
    }

    #[test]
    fn updates_of_two_objects_outdate_the_base_that_only_they_use() {
        let mut differences = Differences::default();
        assert!(!note(&mut differences, 1..3, 100));
        assert!(!differences.note(1, 1000));
        assert!(differences.note(2, 1000));
    }
}
