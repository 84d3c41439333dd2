//! Synchronisation primitives of compact objects, and constants that are smaller in schedules: the
//! locks of `parking_lot` and std's atomics, or those of shuttle under `--cfg deltafifo_shuttle`,
//! for the schedules of `loom-tests/src/compact`. Hashes are not random there, so that a schedule
//! can be replayed. (The pools of `codec` are not replaced: they are statics, which outlive a
//! schedule. A call of the codec is one step.)
//!
//! A [`mutant!`] line marks the place of a deliberate defect. It expands to nothing in a normal
//! build, and in a schedule it has an effect only if its mutant was chosen. Skip these lines when
//! you read the code.

#[cfg(deltafifo_shuttle)]
pub mod mutants;

#[cfg(not(deltafifo_shuttle))]
mod imp {
    pub(in super::super) use deltafifo::locks::{Mutex, RwLock};
    pub(in super::super) use foldhash::fast::RandomState;
    pub(in super::super) use foldhash::quality::RandomState as HashState;
    pub(in super::super) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

    /// The number of groups of similar objects at which the first dictionary is trained.
    pub(in super::super) const FIRST_TRAINING: usize = 256;
    /// The smallest number of samples that a dictionary is trained on.
    pub(in super::super) const FEWEST_SAMPLES: usize = 8;
    /// The largest ratio of the most objects that have held a base at a time to those that hold it
    /// now. Above this ratio, the objects that hold the base are packed again without it, so that
    /// the base is freed.
    pub(in super::super) const USED_UP: usize = 20;

    macro_rules! mutant {
        ($($defect:tt)*) => {};
    }
    pub(in super::super) use mutant;
}

#[cfg(deltafifo_shuttle)]
mod imp {
    pub(in super::super) use super::mutants::mutant;
    pub(in super::super) use crate::util::schedule_locks::{Mutex, RwLock};
    pub(in super::super) use foldhash::fast::FixedState as RandomState;
    pub(in super::super) use foldhash::quality::FixedState as HashState;
    pub(in super::super) use shuttle::sync::atomic::{
        AtomicBool, AtomicU64, AtomicUsize, Ordering,
    };

    pub(in super::super) const FIRST_TRAINING: usize = 6;
    pub(in super::super) const FEWEST_SAMPLES: usize = 2;
    pub(in super::super) const USED_UP: usize = 2;
}

pub(super) use imp::*;
