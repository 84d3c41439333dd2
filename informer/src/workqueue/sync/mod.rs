//! Synchronisation primitives of the work queue: the locks of `parking_lot`, or of shuttle under
//! `--cfg deltafifo_shuttle`, for the schedules of `loom-tests/src/work_queue.rs`. Hashes are not
//! random there, so that a schedule can be replayed. (tokio's `Notify` is not replaced: shuttle
//! runs all threads of a schedule on one system thread, so a call of it is one step.)
//!
//! A [`mutant!`] line marks the place of a deliberate defect. It expands to nothing in a normal
//! build, and in a schedule it has an effect only if its mutant was chosen. Skip these lines when
//! you read the code.

#[cfg(deltafifo_shuttle)]
pub mod mutants;

#[cfg(not(deltafifo_shuttle))]
mod imp {
    pub(in super::super) use deltafifo::locks::{Mutex, MutexGuard};
    pub(in super::super) use foldhash::fast::RandomState;

    /// The number of attempts to lock the state before a thread sleeps.
    pub(in super::super) const ATTEMPTS: u32 = 10;

    macro_rules! mutant {
        ($($defect:tt)*) => {};
    }
    pub(in super::super) use mutant;
}

#[cfg(deltafifo_shuttle)]
mod imp {
    pub(in super::super) use super::mutants::mutant;
    pub(in super::super) use crate::util::schedule_locks::{Mutex, MutexGuard};
    pub(in super::super) use foldhash::fast::FixedState as RandomState;

    /// Zero, because a schedule has no clock to wait on.
    pub(in super::super) const ATTEMPTS: u32 = 0;
}

pub(super) use imp::*;
