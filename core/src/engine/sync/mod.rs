//! Synchronization facade: std (with `parking_lot`, crossbeam and event-listener) normally; loom under
//! `--cfg deltafifo_loom` and shuttle under `--cfg deltafifo_shuttle`, for the models and schedules of `loom-tests`. No
//! other file names `std::sync`. The cfgs are the crate's own, since a bare `cfg(loom)` reaches dependencies that then
//! want features of theirs.
//!
//! Some names are those of a role ([`WordCell`], [`KnownCell`], [`StampCell`]), so that a mutant can weaken one of them.
//! A [`mutant!`] line stands where a deliberate defect would stand: it is nothing outside of models, and in them only
//! what a run of `ci/models.sh` chose, to show that some model fails. Read over them.

#[cfg(not(any(deltafifo_loom, deltafifo_shuttle)))]
mod imp {
    pub(crate) use super::event::{Event, Listener};
    pub(crate) use super::locks::{Mutex, RwLock, assert_none_held};
    pub(crate) use arc_swap::ArcSwap;
    pub(crate) use crossbeam::queue::SegQueue;
    pub(crate) use event_listener::IntoNotification;
    pub(crate) use foldhash::fast::RandomState;
    pub(crate) use std::sync::Arc;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
    pub(crate) use std::sync::atomic::{AtomicPtr as WordCell, AtomicPtr as KnownCell, AtomicU32 as StampCell};

    /// Whether this is a model: then nothing waits by the clock, and sizes are not what they are.
    pub(crate) const MODEL: bool = false;
    /// How many slots a relist touches under one shared lock: short enough that an add waits microseconds.
    pub(crate) const GROUP: usize = 64;
    /// Shards of a table: a power of two, at most 2^24. (An interpreter takes longer to go through them than a test has to
    /// say.)
    pub(crate) const SHARDS: usize = if cfg!(miri) { 8 } else { 256 };
    /// Slots of a run.
    pub(crate) const RUN: usize = 1024;
    /// Shards of an index, and over how many of them one value is spread.
    pub(crate) const INDEX_SHARDS: usize = SHARDS;
    pub(crate) const INDEX_SPREAD: usize = if cfg!(miri) { 2 } else { 8 };

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

    /// Nothing; a model tells when what was freed is touched.
    #[inline]
    pub(crate) fn assert_alive<T>(_touched: &T) {}

    /// Frees. A model keeps the memory, does what `bury` says, and so finds out who touches it after that.
    pub(crate) fn free<T>(freed: Box<T>, _bury: impl FnOnce(&T)) {
        drop(freed);
    }

    macro_rules! mutant {
        ($name:ident => $defect:expr; $healthy:expr) => {
            $healthy
        };
        ($name:ident => $($defect:tt)*) => {};
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

    // Locks of models are not counted: a model sees a deadlock by itself.
    pub(crate) use super::gated::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
    pub(crate) use super::locks::assert_none_held;
    pub(crate) use super::mutants::{KnownCell, StampCell, WordCell, mutant};
    pub(crate) use super::standins::{
        ArcSwap, Event, IntoNotification, Listener, Mutex, RandomState, RwLock, SegQueue, assert_alive, free,
    };
    pub(crate) use model::sync::Arc;
    pub(crate) use model::sync::atomic::Ordering;

    pub(crate) const MODEL: bool = true;
    pub(crate) const GROUP: usize = 2;
    pub(crate) const SHARDS: usize = 2;
    pub(crate) const RUN: usize = 2;
    pub(crate) const INDEX_SHARDS: usize = 2;
    pub(crate) const INDEX_SPREAD: usize = 2;

    pub(crate) use super::standins::thread_number;

    pub(crate) fn spin(_tries: &mut u32) {
        model::thread::yield_now();
    }
}

pub(crate) use imp::*;
