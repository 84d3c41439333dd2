//! Synchronisation primitives of informers: the locks of `parking_lot`, or of shuttle under
//! `--cfg deltafifo_shuttle`, for the schedules of `loom-tests/src/handlers`. (tokio's `Notify`
//! and `watch` are not replaced: shuttle runs all threads of a schedule on one system thread, so a
//! call of them is one step.)
//!
//! A [`mutant!`] line marks the place of a deliberate defect. It expands to nothing in a normal
//! build, and in a schedule it has an effect only if its mutant was chosen. Skip these lines when
//! you read the code.

#[cfg(deltafifo_shuttle)]
pub mod mutants;

#[cfg(not(deltafifo_shuttle))]
mod imp {
    pub(in super::super) use deltafifo::locks::Mutex;
    pub(in super::super) use tokio::task::spawn_blocking;

    /// The number of objects that a walk reads at a time.
    pub(in super::super) const STRIDE: usize = 64;

    macro_rules! mutant {
        ($($defect:tt)*) => {};
    }
    pub(in super::super) use mutant;
}

#[cfg(deltafifo_shuttle)]
mod imp {
    use tokio::task::JoinError;

    pub(in super::super) use super::mutants::mutant;
    pub(in super::super) use crate::util::schedule_locks::Mutex;

    pub(in super::super) const STRIDE: usize = 1;

    /// Runs `work` on this thread, because a schedule has no thread pool.
    pub(in super::super) async fn spawn_blocking<R>(
        work: impl FnOnce() -> R,
    ) -> Result<R, JoinError> {
        Ok(work())
    }
}

pub(super) use imp::*;
pub(super) use std::sync::Arc;
