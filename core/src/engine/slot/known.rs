//! The known object of a slot: an `Option<Arc<T>>` with many readers and one writer.
//!
//! The two low bits of the pointer are flags. `BUSY` is a lock that is held for a few
//! instructions: a reader sets it, raises the reference count, and clears it; the writer waits
//! until it is clear and swaps the pointer with one compare-exchange. Without this lock a reader
//! could raise the count of an object that the writer has just released.
//!
//! [`notice`](KnownArc::notice) sets `NOTICED`, which makes the next swap fail. The writer must
//! then call [`heed`](KnownArc::heed), which synchronises with the thread that called `notice`, and
//! decide again. So no writer can apply a decision that it made before the call: the object that
//! `notice` returns stays until the writer has seen what the thread did before it.
//!
//! The loads in the loops and the failed exchanges are Relaxed: they only produce a guess for the
//! next exchange, which has the ordering.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr;

use super::{Shared, prefetch};
use crate::engine::sync::{self, Arc, KnownCell, Ordering, mutant};

const BUSY: usize = 1;
const NOTICED: usize = 2;
const FLAGS: usize = BUSY | NOTICED;

/// The result of a swap: the previous object; or, as the error, the rejected new object if another
/// thread has noticed the known object.
pub(crate) type Swapped<T> = Result<Option<Arc<T>>, Option<Arc<T>>>;

pub(super) struct KnownArc<T> {
    pub(super) object: KnownCell<()>,
    _object: PhantomData<Shared<T>>,
}

fn is_busy(object: *mut ()) -> bool {
    object.addr() & BUSY != 0
}

/// Returns the pointer without flags.
fn unflagged(object: *mut ()) -> *mut () {
    object.map_addr(|address| address & !FLAGS)
}

impl<T> KnownArc<T> {
    pub(super) fn new() -> Self {
        Self { object: KnownCell::new(ptr::null_mut()), _object: PhantomData }
    }

    pub(super) fn is_some(&self) -> bool {
        // Acquire, paired with the Release of `swap`: a thread that sees an object may act on it.
        !unflagged(self.object.load(Ordering::Acquire)).is_null()
    }

    pub(super) fn read(&self) -> Option<Arc<T>> {
        mutant!(KnownReadUnlocked => return self.read_unlocked());
        // Relaxed: only a guess for the compare-exchange.
        self.read_from(self.object.load(Ordering::Relaxed), 0)
    }

    /// Returns the object, and makes the next swap fail unless the writer has then seen what the
    /// caller did before this call.
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
            // Release, paired with the Acquire of `heed`. The exchange is needed even if another
            // thread has already set the flag, because it releases what this thread did.
            if self
                .object
                .compare_exchange_weak(seen, noticed, Ordering::Release, Ordering::Relaxed)
                .is_ok()
            {
                return None;
            }
        }
    }

    /// Returns the object and sets `flag`, or returns `None` and changes nothing if there is no
    /// object. `seen` is the caller's guess of the pointer.
    fn read_from(&self, mut seen: *mut (), flag: usize) -> Option<Arc<T>> {
        let mut tries = 0;
        // The pointer that the exchange returns has the current provenance, which the guess may
        // not have.
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
            match self.object.compare_exchange_weak(
                seen,
                busy,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(known) => break known,
                Err(now) => seen = now,
            }
        };
        let known = unflagged(seen).cast::<T>();
        // SAFETY: 1. `known` came from `Arc::into_raw` in `swap`, and one count of it belongs to
        // this cell. 2. While BUSY is set no `swap` succeeds, so that count stays. 3. The count
        // raised here is the one that `from_raw` takes over.
        let object = unsafe {
            Arc::increment_strong_count(known);
            Arc::from_raw(known)
        };
        // Release, paired with the AcqRel of the next `swap` (or `read`): the count is raised
        // before the object can be released. Also paired with the Acquire of `heed`, if `flag` is
        // set. No other thread changes the pointer while BUSY is set.
        self.object.swap(seen.map_addr(|address| address | flag), Ordering::Release);
        Some(object)
    }

    /// Replaces the known object. Returns `Err` and changes nothing if a thread has called
    /// `notice` since the writer's last [`heed`](Self::heed).
    pub(super) fn swap(&self, object: Option<Arc<T>>) -> Swapped<T> {
        let new =
            object.map_or(ptr::null_mut(), |object| Arc::into_raw(object).cast::<()>().cast_mut());
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
                    // SAFETY: the count was given up right above, and no other thread has seen
                    // the pointer.
                    return Err(unsafe { Self::owned(new) });
                }
                sync::spin(&mut tries);
                seen = self.object.load(Ordering::Relaxed);
                continue;
            }
            // Release publishes the new object to `read`; Acquire pairs with the Release that
            // ends a `read` and with the last `swap`.
            match self.object.compare_exchange_weak(seen, new, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(known) => break known,
                Err(now) => seen = now,
            }
        };
        // SAFETY: `seen` came from `Arc::into_raw` in an earlier `swap`. Its count, which the cell
        // owned, is taken over once, because the exchange removed the pointer from the cell.
        Ok(unsafe { Self::owned(seen) })
    }

    /// Converts a pointer back to the `Arc` that it came from.
    ///
    /// # Safety
    /// `object` is null, or came from `Arc::into_raw` with a count that nothing else takes over.
    unsafe fn owned(object: *mut ()) -> Option<Arc<T>> {
        // SAFETY: the caller's promise.
        (!object.is_null()).then(|| unsafe { Arc::from_raw(object.cast::<T>()) })
    }

    /// Releases the known object, at the end of the slot's life.
    pub(super) fn clear(&self) {
        self.heed();
        drop(self.swap(None));
    }

    /// Clears `NOTICED`. After this call the caller, which is the writer, sees what the noticing
    /// threads did before they set it.
    pub(super) fn heed(&self) {
        let mut tries = 0;
        // Relaxed, as in `borrow`, which also explains why the guess has the current provenance.
        let mut seen = self.object.load(Ordering::Relaxed);
        while seen.addr() & FLAGS != 0 {
            if is_busy(seen) {
                sync::spin(&mut tries);
                seen = self.object.load(Ordering::Relaxed);
                continue;
            }
            // Acquire, paired with the Release of `notice`.
            match self.object.compare_exchange_weak(
                seen,
                unflagged(seen),
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Borrows the object without changing its reference count.
    ///
    /// # Safety
    /// No `swap` may happen while the result lives.
    pub(super) unsafe fn borrow(&self) -> Option<KnownRef<'_, T>> {
        let mut tries = 0;
        // Relaxed: the caller is the only writer, so it reads its own write, or the pointer that
        // a reader put back.
        let mut object = self.object.load(Ordering::Relaxed);
        // Wait for readers: while BUSY is set the pointer may have the provenance of that
        // reader's guess.
        while is_busy(object) {
            sync::spin(&mut tries);
            object = self.object.load(Ordering::Relaxed);
        }
        let object = unflagged(object);
        // SAFETY: 1. `object` came from `Arc::into_raw` and the cell's count stays while no
        // `swap` happens, which the caller promises. 2. `ManuallyDrop` keeps that count from
        // being released here.
        (!object.is_null()).then(|| unsafe {
            KnownRef {
                object: ManuallyDrop::new(Arc::from_raw(object.cast::<T>())),
                _cell: PhantomData,
            }
        })
    }

    pub(super) fn prefetch(&self) {
        // Relaxed: a hint.
        let object = self.object.load(Ordering::Relaxed);
        // The reference counts are right before the object.
        prefetch(object.wrapping_byte_sub(2 * size_of::<usize>()));
    }
}

impl<T> Drop for KnownArc<T> {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A known object, borrowed from the slot that holds it.
pub(crate) struct KnownRef<'a, T> {
    object: ManuallyDrop<Arc<T>>,
    _cell: PhantomData<&'a KnownArc<T>>,
}

impl<T> Deref for KnownRef<'_, T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.object
    }
}
