//! The known object of a slot: an `Option<Arc<T>>` that many read and one writes.
//!
//! The two low bits of the pointer are flags. `BUSY` is a lock of a few instructions: a reader sets it, raises the count,
//! clears it; the writer waits until it is clear and swaps the pointer with one compare-exchange. Without it a reader
//! could raise the count of an object that the writer has just released.
//!
//! `NOTICED` is left by who [`notice`](Known::notice)s what is known, and makes the next swap fail: the writer is to look
//! again at what the noticer did before, and [`heed`](Known::heed) it. So a noticer knows that what it saw stays until
//! the writer has seen what the noticer did; no writer comes late with what it had decided before.
//!
//! The loads of a loop and its failed exchanges are Relaxed: they bring a guess for the next exchange, which has the order.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr;

use super::{Shared, prefetch};
use crate::engine::sync::{self, Arc, KnownCell, Ordering, mutant};

const BUSY: usize = 1;
const NOTICED: usize = 2;
const FLAGS: usize = BUSY | NOTICED;

/// What was known before; or what was to be known, since somebody has noticed what is.
pub(crate) type Swapped<T> = Result<Option<Arc<T>>, Option<Arc<T>>>;

pub(super) struct Known<T> {
    pub(super) object: KnownCell<()>,
    _object: PhantomData<Shared<T>>,
}

fn is_busy(object: *mut ()) -> bool {
    object.addr() & BUSY != 0
}

/// The object's own address.
fn unflagged(object: *mut ()) -> *mut () {
    object.map_addr(|address| address & !FLAGS)
}

impl<T> Known<T> {
    pub(super) fn new() -> Self {
        Self { object: KnownCell::new(ptr::null_mut()), _object: PhantomData }
    }

    pub(super) fn is_some(&self) -> bool {
        // Acquire, paired with the Release of `swap`, so that who sees an object may act on it.
        !unflagged(self.object.load(Ordering::Acquire)).is_null()
    }

    pub(super) fn read(&self) -> Option<Arc<T>> {
        mutant!(KnownReadUnlocked => return self.read_unlocked());
        // Relaxed: only a guess for the compare-exchange.
        self.read_from(self.object.load(Ordering::Relaxed), 0)
    }

    /// Reads, and sees to it that the next swap fails unless the writer has seen by then what the caller did before.
    pub(super) fn notice(&self) -> Option<Arc<T>> {
        mutant!(NoticeLeavesNothing => return self.read());
        loop {
            // Relaxed: only a guess for the compare-exchange.
            let seen = self.object.load(Ordering::Relaxed);
            if !unflagged(seen).is_null() {
                if let Some(object) = self.read_from(seen, NOTICED) {
                    return Some(object);
                }
                continue;
            }
            let noticed = seen.map_addr(|address| address | NOTICED);
            // Release, paired with the Acquire of `heed`; also when the flag was there already, from another noticer.
            if self.object.compare_exchange_weak(seen, noticed, Ordering::Release, Ordering::Relaxed).is_ok() {
                return None;
            }
        }
    }

    /// Reads, beginning with the guess `seen`, and leaves `flag`.
    fn read_from(&self, mut seen: *mut (), flag: usize) -> Option<Arc<T>> {
        let mut tries = 0;
        // What the exchange returns has the provenance of what is there now, which the guess may not have.
        let seen = loop {
            if unflagged(seen).is_null() {
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
        let known = unflagged(seen).cast::<T>();
        // SAFETY: 1. `known` came from `Arc::into_raw` in `swap`, and one count of it belongs to this cell. 2. While BUSY
        // is set no `swap` succeeds, so that count stands. 3. The count raised here is the one `from_raw` takes over.
        let object = unsafe {
            Arc::increment_strong_count(known);
            Arc::from_raw(known)
        };
        // Release, paired with the AcqRel of the next `swap` (or `read`): the count is raised before the object can be
        // released. And with the Acquire of `heed`, if there is a flag. Nobody else changes the pointer while BUSY is set.
        self.object.swap(seen.map_addr(|address| address | flag), Ordering::Release);
        Some(object)
    }

    /// Changes what is known. `Err`: nothing was changed; the noticer came since the writer last [heeded](Self::heed).
    pub(super) fn swap(&self, object: Option<Arc<T>>) -> Swapped<T> {
        let new = object.map_or(ptr::null_mut(), |object| Arc::into_raw(object).cast::<()>().cast_mut());
        assert!(
            unflagged(new) == new,
            "an Arc's pointer has two free low bits: std aligns its counts before the object"
        );
        let mut tries = 0;
        // Relaxed: only a guess for the compare-exchange.
        let mut seen = self.object.load(Ordering::Relaxed);
        let seen = loop {
            if seen.addr() & FLAGS != 0 {
                if !is_busy(seen) {
                    // SAFETY: the count was given up right above, and nobody has seen the pointer.
                    return Err(unsafe { Self::owned(new) });
                }
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
        Ok(unsafe { Self::owned(seen) })
    }

    /// # Safety
    /// Null, or from `Arc::into_raw` with a count that nobody else will take over.
    unsafe fn owned(object: *mut ()) -> Option<Arc<T>> {
        // SAFETY: the caller's promise.
        (!object.is_null()).then(|| unsafe { Arc::from_raw(object.cast::<T>()) })
    }

    /// Releases what is known, at the end of the slot.
    pub(super) fn clear(&self) {
        self.heed();
        drop(self.swap(None));
    }

    /// Takes note of who has noticed what is known: what they did before is seen by the caller, the writer, after.
    pub(super) fn heed(&self) {
        let mut tries = 0;
        // Relaxed: as in `borrow`; so the guess is of the provenance of what is there.
        let mut seen = self.object.load(Ordering::Relaxed);
        while seen.addr() & FLAGS != 0 {
            if is_busy(seen) {
                sync::spin(&mut tries);
                seen = self.object.load(Ordering::Relaxed);
                continue;
            }
            // Acquire, paired with the Release of `notice`.
            match self.object.compare_exchange_weak(seen, unflagged(seen), Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
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
        let object = unflagged(object);
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
        self.clear();
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
