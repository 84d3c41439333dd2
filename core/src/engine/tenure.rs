//! Work in a tenure, which is the time in which this process may work behind a gate, for example
//! while it holds the lease of a shard.
//!
//! A gate ([`Admission`]) has one tenure after another, and counts the work of all of them. The
//! owner of the gate ends a tenure before it opens the gate for the next one. The deadline of a
//! tenure ([`Deadline`]) ends it by the clocks of the process, without the owner. The models are in
//! `loom-tests/src/models/tenure.rs`.

use super::admission::Admission;
use super::sync::{Arc, AtomicBool, AtomicU64, Ordering, mutant};

/// A time in which this process may work behind a gate.
pub trait Tenure {
    /// Returns the gate that counts the work. All tenures of a gate return the same one.
    fn gate(&self) -> &Admission;

    /// Returns whether the tenure continues. Once false, the result stays false.
    fn is_held(&self) -> bool;

    /// Wakes the owner of the gate: the last piece of work has ended behind the closed gate.
    fn idle(&self);
}

/// A piece of work in a tenure. It counts as work behind the gate until it is dropped.
pub struct Work<T: Tenure>(Arc<T>);

impl<T: Tenure> Work<T> {
    /// Starts a piece of work, or continues one that was paused. Returns `None` if the gate is
    /// closed or the tenure has ended.
    #[inline]
    #[must_use]
    pub fn start(tenure: Arc<T>) -> Option<Self> {
        mutant!(HeldIsCheckedBeforeAdmission => {
            return (tenure.is_held() && tenure.gate().admit()).then(|| Self(tenure));
        });
        // The gate may have been opened for a later tenure. Then this one has ended, and work that
        // is counted sees that. Before it is counted, the gate may be found idle at any moment.
        let work = tenure.gate().admit().then(|| Self(tenure))?;
        mutant!(AdmissionIsEnough => return Some(work));
        work.0.is_held().then_some(work)
    }

    /// Starts a piece of work that belongs to work in progress, even if the gate is closed. Returns
    /// `None` if no work is in progress and the gate is closed.
    #[inline]
    #[must_use]
    pub fn join(tenure: &Arc<T>) -> Option<Self> {
        tenure.gate().join().then(|| Self(tenure.clone()))
    }

    /// Returns the tenure of this work.
    #[inline]
    #[must_use]
    pub fn tenure(&self) -> &Arc<T> {
        &self.0
    }
}

impl<T: Tenure> Drop for Work<T> {
    #[inline]
    fn drop(&mut self) {
        if self.0.gate().leave() {
            self.0.idle();
        }
    }
}

/// The deadline of a tenure by two clocks. It passes with the first of them. A deadline that was
/// found to have passed never comes back, even if it is moved or a clock is set back.
///
/// Times are in nanoseconds. Threads check it without a lock.
pub struct Deadline {
    monotonic: AtomicU64,
    wall: AtomicU64,
    has_ended: AtomicBool,
}

/// A reading of both clocks, or a deadline by both, in nanoseconds.
#[derive(Clone, Copy)]
pub struct Nanos {
    /// The monotonic clock, since an arbitrary origin.
    pub monotonic: u64,
    /// The wall clock, since an arbitrary origin.
    pub wall: u64,
}

impl Deadline {
    /// Creates a deadline.
    #[must_use]
    pub fn new(at: Nanos) -> Self {
        Self {
            monotonic: AtomicU64::new(at.monotonic),
            wall: AtomicU64::new(at.wall),
            has_ended: AtomicBool::new(false),
        }
    }

    /// Moves the deadline. It must not become earlier by the monotonic clock. One thread at a time
    /// may call this.
    pub fn extend(&self, to: Nanos) {
        mutant!(WallIsMovedLast => {
            self.monotonic.store(to.monotonic, Ordering::Release);
            self.wall.store(to.wall, Ordering::Relaxed);
            return;
        });
        // The wall clock first: a thread that reads between the two stores has the old monotonic
        // deadline and the new wall one, so it stops no later than at the new deadline. In the
        // reverse order it would have the old wall deadline; if that clock was set back, work would
        // continue past both deadlines.
        self.wall.store(to.wall, Ordering::Relaxed);
        // Release: pairs with the Acquire of `is_ahead`.
        let order = Ordering::Release;
        mutant!(DeadlineWithoutRelease => let order = Ordering::Relaxed);
        self.monotonic.store(to.monotonic, order);
    }

    /// Ends the tenure. Threads that are in order after this call find that the deadline has
    /// passed: those that the owner wakes, and work that is admitted after the gate was opened
    /// again.
    pub fn end(&self) {
        // Relaxed: the flag guards no other data. For a thread that starts work in a later tenure,
        // the Release of `Admission::open` and the Acquire of `Admission::admit` order it.
        self.has_ended.store(true, Ordering::Relaxed);
    }

    /// Returns whether the tenure has not ended and its deadline has not come. Calls `now` once,
    /// after it has read the deadline.
    #[inline]
    pub fn is_ahead(&self, now: impl FnOnce() -> Nanos) -> bool {
        // Acquire: pairs with the Release of `extend`. A deadline by the wall clock that is as new
        // is visible.
        let monotonic = self.monotonic.load(Ordering::Acquire);
        // Relaxed: ordered by the load before, so it is at least as new as `monotonic`. If it is
        // newer, the older monotonic deadline still ends the tenure. An older one would do harm:
        // after the wall clock was set back, it is later than the new one.
        let wall = self.wall.load(Ordering::Relaxed);
        let now = now();
        if now.monotonic >= monotonic || now.wall >= wall {
            mutant!(PassedDeadlineComesBack => return false);
            // Relaxed: as in `end`.
            self.has_ended.store(true, Ordering::Relaxed);
        }
        // Relaxed: see `end`.
        !self.has_ended.load(Ordering::Relaxed)
    }
}
