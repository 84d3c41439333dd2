//! Synchronization facade: std (with `parking_lot`, crossbeam and event-listener) normally, loom under
//! `--cfg deltafifo_loom`. No other file names `std::sync`. The cfg is the crate's own, since a bare `cfg(loom)` reaches
//! dependencies that then want features of theirs.
//!
//! What stands behind the same names in models: the `SegQueue` is a mutex around a deque (nothing may rest on it that
//! does not rest on the slot's word), locks are loom's, an [`Event`] is a mutex and a condition variable.

#[cfg(not(deltafifo_loom))]
mod imp {
    pub(crate) use crossbeam::queue::SegQueue;
    pub(crate) use event_listener::{Event, EventListener, IntoNotification, Listener};
    pub(crate) use parking_lot::{Mutex, RwLock};
    pub(crate) use std::sync::Arc;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering};

    /// How many slots a relist touches under one shared lock: short enough that an add waits microseconds.
    pub(crate) const GROUP: usize = 64;
    /// Shards of a table: a power of two, at most 2^24.
    pub(crate) const SHARDS: usize = 256;
    /// Slots of a run.
    pub(crate) const RUN: usize = 1024;

    /// A small number that this thread keeps, to keep it out of the others' way.
    pub(crate) fn thread_number() -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        // Relaxed: only that the numbers differ matters.
        thread_local!(static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed));
        // A destructor of another thread-local may come after this one's.
        NUMBER.try_with(|number| *number).unwrap_or(0)
    }

    /// Lets whoever holds what we wait for go on. Called in loops that wait for a few instructions of another thread.
    pub(crate) fn spin(tries: &mut u32) {
        *tries += 1;
        if *tries < 32 {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

#[cfg(deltafifo_loom)]
mod standins;

#[cfg(deltafifo_loom)]
mod imp {
    pub(crate) use super::standins::{Event, EventListener, IntoNotification, Listener, Mutex, RwLock, SegQueue};
    pub(crate) use loom::sync::Arc;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering};

    pub(crate) const GROUP: usize = 2;
    pub(crate) const SHARDS: usize = 2;
    pub(crate) const RUN: usize = 2;

    pub(crate) fn thread_number() -> usize {
        0
    }

    pub(crate) fn spin(_tries: &mut u32) {
        loom::thread::yield_now();
    }
}

pub(crate) use imp::*;
