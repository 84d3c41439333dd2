//! The synchronisation facade: std (with `parking_lot`, crossbeam and event-listener) in normal
//! builds; loom with `--cfg deltafifo_loom` and shuttle with `--cfg deltafifo_shuttle`, for the
//! models and schedules of `loom-tests`. No code outside of this folder uses `std::sync`. The crate
//! has cfgs of its own because a bare `cfg(loom)` also reaches dependencies, which then need other
//! features.
//!
//! Some types are named after their role ([`WordCell`], [`KnownCell`], [`StampCell`]), so that a
//! mutant can weaken one of them. A [`mutant!`] line is the place of a deliberate defect. It
//! expands to nothing outside of models. In a model the defect is active only if `ci/models.sh`
//! chose it, to show that some model then fails. Readers can skip these lines.

#[cfg(not(any(deltafifo_loom, deltafifo_shuttle)))]
mod imp {
    pub(crate) use super::event::{Event, Listener};
    pub(crate) use super::locks::{Mutex, RwLock, assert_none_held};
    pub(crate) use arc_swap::ArcSwap;
    pub(crate) use crossbeam::queue::SegQueue;
    pub(crate) use event_listener::IntoNotification;
    pub(crate) use foldhash::fast::RandomState;
    pub(crate) use std::sync::Arc;
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
    };
    pub(crate) use std::sync::atomic::{
        AtomicPtr as WordCell, AtomicPtr as KnownCell, AtomicU32 as StampCell,
    };

    /// Whether this build is a model. Models do not wait for time to pass, and their types have
    /// other sizes.
    pub(crate) const MODEL: bool = false;
    /// The number of slots after which a page of a relist, the deletions of a commit or a walk
    /// release the lock of a shard: so few that other threads wait for the lock for microseconds
    /// only. The search of a commit for unlisted keys is not divided: it holds the lock shared for
    /// the whole shard, or for the namespace's slots in it.
    pub(crate) const GROUP: usize = 64;
    /// The number of shards of a table: a power of two, at most 2^24. (Fewer under Miri, which
    /// needs too long to visit 256.)
    pub(crate) const SHARDS: usize = if cfg!(miri) { 8 } else { 256 };
    /// The largest number of slots in a run of the ready queue. (Smaller under Miri, where tests of
    /// several full runs would take a quarter of an hour each.)
    pub(crate) const RUN: usize = if cfg!(miri) { 64 } else { 1024 };
    /// The number of shards of an index.
    pub(crate) const INDEX_SHARDS: usize = SHARDS;
    /// The number of shards of an index over which the entries of one value are spread.
    pub(crate) const INDEX_SPREAD: usize = if cfg!(miri) { 2 } else { 8 };

    /// The number of stripes of a gate. More threads than that share stripes.
    pub(crate) const STRIPES: usize = 8;

    /// Returns a small number that is constant for a thread, for choosing shards that other
    /// threads do not use.
    pub(crate) fn thread_number() -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        // Relaxed: only that the numbers differ matters.
        thread_local!(static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed));
        // The destructor of another thread-local may run after this one was destroyed.
        NUMBER.try_with(|number| *number).unwrap_or(0)
    }

    /// Pauses for a moment, or lets another thread run after some `tries`. For loops that wait
    /// until another thread has executed a few instructions.
    pub(crate) fn spin(tries: &mut u32) {
        *tries += 1;
        if *tries < 32 {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }

    /// Does nothing; in a model it fails if the value was freed.
    #[inline]
    pub(crate) fn assert_alive<T>(_touched: &T) {}

    /// Frees a value. A model calls `bury` and keeps the memory instead, so that it detects later
    /// accesses.
    pub(crate) fn free<T>(freed: Box<T>, _bury: impl FnOnce(&T)) {
        drop(freed);
    }

    macro_rules! mutant {
        ($($defect:tt)*) => {};
    }
    pub(crate) use mutant;
}

#[cfg(not(any(deltafifo_loom, deltafifo_shuttle)))]
mod event;
#[cfg(any(deltafifo_loom, deltafifo_shuttle))]
mod gated;
pub mod locks;
#[cfg(any(deltafifo_loom, deltafifo_shuttle))]
pub mod mutants;
#[cfg(any(deltafifo_loom, deltafifo_shuttle))]
mod standins;

#[cfg(any(deltafifo_loom, deltafifo_shuttle))]
mod imp {
    #[cfg(deltafifo_loom)]
    pub(crate) use loom as model;
    #[cfg(deltafifo_shuttle)]
    pub(crate) use shuttle as model;

    // Models do not count locks, because they detect deadlocks themselves.
    pub(crate) use super::gated::{
        AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize,
    };
    pub(crate) use super::locks::assert_none_held;
    pub(crate) use super::mutants::{KnownCell, StampCell, WordCell, mutant};
    pub(crate) use super::standins::{
        ArcSwap, Event, IntoNotification, Listener, Mutex, RandomState, RwLock, SegQueue,
        assert_alive, free,
    };
    pub(crate) use model::sync::Arc;
    pub(crate) use model::sync::atomic::Ordering;

    pub(crate) const MODEL: bool = true;
    pub(crate) const GROUP: usize = 2;
    pub(crate) const SHARDS: usize = 2;
    pub(crate) const RUN: usize = 2;
    pub(crate) const INDEX_SHARDS: usize = 2;
    pub(crate) const INDEX_SPREAD: usize = 2;
    pub(crate) const STRIPES: usize = 2;

    pub(crate) use super::standins::thread_number;

    pub(crate) fn spin(_tries: &mut u32) {
        model::thread::yield_now();
    }
}

pub(crate) use imp::*;
