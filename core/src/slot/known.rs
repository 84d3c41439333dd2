//! The known object of a slot: an `Option<Arc<T>>` that many read and one writes.
//!
//! The low bit of the pointer is a lock of a few instructions. A reader sets it, raises the count, clears it; the writer
//! waits until it is clear and swaps the pointer with one compare-exchange. Without it a reader could raise the count
//! of an object that the writer has just released.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr;

use super::prefetch;
use crate::sync::{self, Arc, KnownCell, Ordering, mutant};

const BUSY: usize = 1;

pub(super) struct Known<T> {
    pub(super) object: KnownCell<()>,
    _object: PhantomData<Arc<T>>,
}

fn is_busy(object: *mut ()) -> bool {
    object.addr() & BUSY != 0
}

impl<T> Known<T> {
    pub(super) fn new() -> Self {
        Self { object: KnownCell::new(ptr::null_mut()), _object: PhantomData }
    }

    pub(super) fn is_some(&self) -> bool {
        // Acquire, paired with the Release of `swap`, so that who sees an object may act on it.
        !self.object.load(Ordering::Acquire).is_null()
    }

    pub(super) fn read(&self) -> Option<Arc<T>> {
        mutant!(KnownReadUnlocked => return self.read_unlocked());
        let mut tries = 0;
        // Relaxed: only a guess for the compare-exchange.
        let mut seen = self.object.load(Ordering::Relaxed);
        // What the exchange returns has the provenance of what is there now, which the guess may not have.
        let seen = loop {
            if seen.is_null() {
                return None;
            }
            if is_busy(seen) {
                sync::spin(&mut tries);
                seen = self.object.load(Ordering::Relaxed);
                continue;
            }
            // Acquire, paired with the Release of the `swap` that published the object.
            let busy = seen.map_addr(|address| address | BUSY);
            match self.object.compare_exchange_weak(seen, busy, Ordering::Acquire, Ordering::Relaxed) {
                Ok(known) => break known,
                Err(now) => seen = now,
            }
        };
        // SAFETY: 1. `seen` came from `Arc::into_raw` in `swap`, and one count of it belongs to this cell. 2. While BUSY
        // is set no `swap` succeeds, so that count stands. 3. The count raised here is the one `from_raw` takes over.
        let object = unsafe {
            Arc::increment_strong_count(seen.cast::<T>());
            Arc::from_raw(seen.cast::<T>())
        };
        // Release, paired with the AcqRel of the next `swap` (or `read`): the count is raised before the object can be
        // released. Nobody else changes the pointer while BUSY is set.
        self.object.swap(seen, Ordering::Release);
        Some(object)
    }

    pub(super) fn swap(&self, object: Option<Arc<T>>) -> Option<Arc<T>> {
        let new = object.map_or(ptr::null_mut(), |object| Arc::into_raw(object).cast::<()>().cast_mut());
        assert!(!is_busy(new), "an Arc's pointer has a free low bit: std aligns its counts before the object");
        let mut tries = 0;
        // Relaxed: only a guess for the compare-exchange.
        let mut seen = self.object.load(Ordering::Relaxed);
        let seen = loop {
            if is_busy(seen) {
                sync::spin(&mut tries);
                seen = self.object.load(Ordering::Relaxed);
                continue;
            }
            // Release publishes the new object to `read`; Acquire pairs with the Release that ends a `read` and with
            // the last `swap`.
            match self.object.compare_exchange_weak(seen, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(known) => break known,
                Err(now) => seen = now,
            }
        };
        // SAFETY: `seen` came from `Arc::into_raw` in an earlier `swap`, and its count, the cell's, is taken over once:
        // by the exchange the cell no longer holds it.
        (!seen.is_null()).then(|| unsafe { Arc::from_raw(seen.cast::<T>()) })
    }

    /// The object without touching its count.
    ///
    /// # Safety
    /// No `swap` may happen while the result lives.
    pub(super) unsafe fn borrow(&self) -> Option<KnownRef<'_, T>> {
        let mut tries = 0;
        // Relaxed: the caller is the only writer, so it reads its own write, or what a reader put back.
        let mut object = self.object.load(Ordering::Relaxed);
        // Not while a reader holds it: what stands there then may have the provenance of that reader's guess.
        while is_busy(object) {
            sync::spin(&mut tries);
            object = self.object.load(Ordering::Relaxed);
        }
        // SAFETY: 1. `object` came from `Arc::into_raw` and the cell's count stands while nobody swaps, which the caller
        // promises. 2. `ManuallyDrop` keeps that count from being released here.
        (!object.is_null()).then(|| unsafe {
            KnownRef { object: ManuallyDrop::new(Arc::from_raw(object.cast::<T>())), _cell: PhantomData }
        })
    }

    pub(super) fn prefetch(&self) {
        // Relaxed: a hint.
        let object = self.object.load(Ordering::Relaxed);
        // The counts stand right before the object.
        prefetch(object.wrapping_byte_sub(2 * size_of::<usize>()));
    }
}

impl<T> Drop for Known<T> {
    fn drop(&mut self) {
        drop(self.swap(None));
    }
}

/// A known object, borrowed from the slot that holds it.
pub(crate) struct KnownRef<'a, T> {
    object: ManuallyDrop<Arc<T>>,
    _cell: PhantomData<&'a Known<T>>,
}

impl<T> Deref for KnownRef<'_, T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.object
    }
}
