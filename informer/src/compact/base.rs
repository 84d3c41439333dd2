//! Bases: a base is a copy of the JSON text of one object of a group of similar objects. The
//! objects of the group are stored as differences from their base.

use std::sync::{Arc, Weak};

use super::codec::CodecError;
use super::common::Common;
use super::header::SharedHeader;
use super::stored::{Material, Reference, Stored};
use super::sync::{AtomicBool, AtomicU32, AtomicUsize, Mutex, Ordering, USED_UP, mutant};
use super::values::{BaseText, Document, Own};

/// The number of differences that count as the first ones of a base. Later differences are
/// compared with the average size of the first ones.
const FIRST: u32 = 4;
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
    /// The number of calls of [`note`](Self::note) so far.
    count: AtomicU32,
    /// The size in bytes of the first [`FIRST`] differences together.
    first: AtomicUsize,
    /// Eight times a moving average of the sizes of differences in bytes, see
    /// [`note`](Self::note).
    recent: AtomicUsize,
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
                count: AtomicU32::new(0),
                first: AtomicUsize::new(0),
                recent: AtomicUsize::new(0),
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

    /// Packs the base again, if it was not packed with `dictionary`.
    pub(super) fn repack(&self, dictionary: &Arc<Reference>) -> Result<(), CodecError> {
        if Arc::ptr_eq(&self.stored.lock().with, dictionary) {
            return Ok(());
        }
        let stored = Stored::pack(&Document::plain(&self.text()?), dictionary);
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

    /// Records the size of a difference. Returns whether the base is outdated: recent differences
    /// are on average more than twice as large as the first ones, for example because the workload
    /// has changed.
    pub(super) fn note(&self, bytes: usize) -> bool {
        // Relaxed: statistics. A lost update delays the next base by a few objects.
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        if count < FIRST {
            let first = self.first.fetch_add(bytes, Ordering::Relaxed) + bytes;
            self.recent.store(first * 8 / (count as usize + 1), Ordering::Relaxed);
            return false;
        }
        let first = self.first.load(Ordering::Relaxed);
        let recent = self.recent.load(Ordering::Relaxed);
        // A single difference counts at most as much as the first four together, so that one odd
        // object does not make the base outdated.
        let recent = recent - recent / 8 + bytes.min(first);
        self.recent.store(recent, Ordering::Relaxed);
        recent * FIRST as usize > first * 2 * 8
    }

    pub(super) fn set_replaced(&self) {
        // Relaxed: a later pass sees it.
        self.is_replaced.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_replaced(&self) -> bool {
        self.is_replaced.load(Ordering::Relaxed)
    }

    /// Records that `holders` objects hold the base now.
    pub(super) fn record_holders(&self, holders: usize) {
        // Relaxed: statistics. The base lives longer while a thread does not see an update.
        self.most_holders.fetch_max(holders, Ordering::Relaxed);
    }

    /// Returns whether `holders`, the number of objects that hold the base now, is so small a part
    /// of the most that have held it at a time ([`USED_UP`]) that the base should be freed.
    pub(super) fn is_used_up(&self, holders: usize) -> bool {
        holders * USED_UP < self.most_holders.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes that the base takes in memory, without its unpacked text.
    fn size(&self) -> usize {
        size_of::<Self>() + self.stored.lock().bytes.len() + self.shared.size()
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
