//! The facade of the protocol: its locks are `parking_lot`'s, and shuttle's under
//! `--cfg deltafifo_shuttle`, for the schedules of `loom-tests/src/handlers`. (tokio's `Notify`
//! and `watch` stay what they are: all threads of a schedule are one thread of the system, so a
//! call of theirs is one step.)
//!
//! A [`mutant!`] line stands where a deliberate defect would stand: it is nothing in a build that
//! ships, and in schedules only what was chosen. Read over them.

#[cfg(deltafifo_shuttle)]
pub mod mutants;

#[cfg(not(deltafifo_shuttle))]
mod imp {
    pub(in super::super) use deltafifo::locks::Mutex;
    pub(in super::super) use tokio::task::spawn_blocking;

    /// Objects of a walk that go into a buffer at a time.
    pub(in super::super) const STRIDE: usize = 64;

    macro_rules! mutant {
        ($name:ident => $defect:expr; $healthy:expr) => {
            $healthy
        };
        ($name:ident => $defect:block) => {};
    }
    pub(in super::super) use mutant;
}

#[cfg(deltafifo_shuttle)]
mod imp {
    use shuttle::sync::{Mutex as Lock, MutexGuard};
    use tokio::task::JoinError;

    pub(in super::super) use super::mutants::mutant;

    pub(in super::super) const STRIDE: usize = 1;

    /// `parking_lot::Mutex` without poisoning: a panic under a lock is a failure.
    pub(in super::super) struct Mutex<T>(Lock<T>);

    impl<T> Mutex<T> {
        pub(in super::super) fn new(value: T) -> Self {
            Self(Lock::new(value))
        }

        pub(in super::super) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("user code, or a defect, panicked under a lock")
        }
    }

    /// Here and now: there is nobody else to run it.
    pub(in super::super) async fn spawn_blocking<R>(
        work: impl FnOnce() -> R,
    ) -> Result<R, JoinError> {
        Ok(work())
    }
}

pub(super) use imp::*;
pub(super) use std::sync::Arc;
