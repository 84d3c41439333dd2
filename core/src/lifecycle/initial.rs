//! The initial population: `has_synced` and `is_in_initial_list`, which are exact although pops
//! proceed during a replace.
//!
//! | phase | meaning | left by |
//! | --- | --- | --- |
//! | `UNPOPULATED` | nothing was offered | an add (`SYNCED`); the beginning of the first relist (`CLAIMED`) |
//! | `CLAIMED` | a first relist is open | commit (`DRAINING`); abandon (`UNPOPULATED`); an add (`TOUCHED`) |
//! | `TOUCHED` | a first relist is open, and something else was offered | commit (`DRAINING`); abandon (`SYNCED`) |
//! | `DRAINING` | the first relist is committed, its items are not all handled | the end of the last handler (`SYNCED`) |
//! | `SYNCED` | done, permanently | nothing |
//!
//! Each delta of the initial population carries a *mark*; `outstanding` counts the marks until the
//! handlers of their deltas have ended. The count is exact and never reset, not even by an
//! abandoned relist; it matters in `DRAINING` only. In a queue with scopes the first scope claims
//! the population, and `DRAINING` begins once the first list of every scope is committed.

use crossbeam::utils::CachePadded;

use crate::engine::sync::{
    AtomicI64, AtomicU8, AtomicUsize, Event, IntoNotification, Ordering, mutant,
};
use crate::engine::wait::{wait_until, wait_until_async};
use crate::error::Closed;

const UNPOPULATED: u8 = 0;
const CLAIMED: u8 = 1;
const TOUCHED: u8 = 2;
const DRAINING: u8 = 3;
const SYNCED: u8 = 4;

pub(crate) struct Initial {
    phase: AtomicU8,
    outstanding: CachePadded<AtomicI64>,
    synced: Event,
}

impl Initial {
    pub(crate) fn new() -> Self {
        Self {
            phase: AtomicU8::new(UNPOPULATED),
            outstanding: CachePadded::new(AtomicI64::new(0)),
            synced: Event::new(),
        }
    }

    /// Moves to the phase that `step` returns for the current one, or keeps that one if `step`
    /// returns `None`. Returns whether this call has changed the phase to SYNCED. The caller then
    /// calls [`announce`](Self::announce), with no lock held, because wakers are user code.
    #[must_use]
    fn advance(&self, step: impl Fn(u8) -> Option<u8>) -> bool {
        // Relaxed for the first guess. The exchange is AcqRel, paired with every other step and
        // with `phase`.
        let mut seen = self.phase.load(Ordering::Relaxed);
        while let Some(next) = step(seen) {
            match self.phase.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return next == SYNCED,
                Err(now) => seen = now,
            }
        }
        false
    }

    fn phase(&self) -> u8 {
        // Acquire, paired with `advance`: a thread that sees SYNCED sees the effects of the
        // initial handlers.
        self.phase.load(Ordering::Acquire)
    }

    /// Records an offer that is not part of a relist. Such an offer populates and syncs an
    /// unpopulated queue.
    pub(crate) fn touch(&self) {
        // Relaxed: an outdated value only leads to the slow path.
        if self.phase.load(Ordering::Relaxed) < DRAINING
            && self.advance(|phase| match phase {
                UNPOPULATED => Some(SYNCED),
                CLAIMED => {
                    mutant!(OfferForgetsTheClaim => return None);
                    Some(TOUCHED)
                }
                _ => None,
            })
        {
            self.announce();
        }
    }

    /// Records that a relist begins. Returns whether its deltas belong to the initial population.
    pub(crate) fn claim(&self) -> bool {
        let synced = self.advance(|phase| (phase == UNPOPULATED).then_some(CLAIMED));
        debug_assert!(!synced, "a claim never syncs");
        matches!(self.phase(), CLAIMED | TOUCHED)
    }

    /// Records the commit of the current relist, whose marks are all counted. Returns whether to
    /// [`announce`](Self::announce).
    #[must_use]
    pub(crate) fn commit(&self) -> bool {
        let synced = self.advance(|phase| (phase < DRAINING).then_some(DRAINING));
        debug_assert!(!synced, "what is drained is finished below");
        self.is_drained() && self.finish()
    }

    /// Undoes the [`claim`](Self::claim) of the current relist, which is abandoned. Returns whether
    /// to [`announce`](Self::announce).
    #[must_use]
    pub(crate) fn abandon(&self) -> bool {
        self.advance(|phase| match phase {
            CLAIMED => Some(UNPOPULATED),
            TOUCHED => {
                mutant!(AbandonForgetsTheOffer => return None);
                Some(SYNCED)
            }
            _ => None,
        })
    }

    /// Adds the marks of deltas that are about to be pushed. They matter only after the commit of
    /// the relist, which comes later.
    pub(crate) fn marked(&self, marks: usize) {
        if marks > 0 {
            // AcqRel: see `commit`.
            self.outstanding.fetch_add(count(marks), Ordering::AcqRel);
        }
    }

    /// Subtracts the marks of deltas that were skipped, or whose handlers have ended, with or
    /// without success. Returns whether to [`announce`](Self::announce).
    #[must_use]
    #[inline]
    pub(crate) fn settled(&self, marks: usize) -> bool {
        if marks == 0 {
            return false;
        }
        // AcqRel: Release publishes the effects of the handler, Acquire pairs with `commit`.
        let order = Ordering::AcqRel;
        mutant!(MarksPassNothingOn => let order = Ordering::Acquire);
        let before = self.outstanding.fetch_sub(count(marks), order);
        mutant!(MarksEndBeforeCommit => if before == count(marks) { self.sync_early() });
        before == count(marks) && self.phase() == DRAINING && self.is_drained() && self.finish()
    }

    /// Returns whether no mark is left. Called in DRAINING. In this phase marks are added only by
    /// the open relist of a waived scope, and by a superseded relist, which counts a group of
    /// objects before it finds that it may not push them. These marks delay the end until they are
    /// subtracted, too. A thread that has subtracted the last mark must call this after it has read
    /// DRAINING: between the subtraction and that read, the marks of a page may have been added,
    /// and its relist committed.
    fn is_drained(&self) -> bool {
        mutant!(DrainedIsAskedOnce => return true);
        // A read-modify-write, so that it is ordered with those in `settled`: either it sees that
        // the last mark is gone, or the `settled` of that mark sees DRAINING.
        self.outstanding.fetch_add(0, Ordering::AcqRel) == 0
    }

    fn finish(&self) -> bool {
        self.advance(|phase| (phase == DRAINING).then_some(SYNCED))
    }

    /// Returns whether an item that is taken now, with this number of marks, belongs to the
    /// initial list.
    pub(crate) fn is_initial(&self, marks: usize) -> bool {
        match self.phase() {
            UNPOPULATED | CLAIMED => true,
            TOUCHED | DRAINING => marks > 0,
            _ => false,
        }
    }

    pub(crate) fn has_synced(&self) -> bool {
        self.phase() == SYNCED
    }

    /// Blocks until the population is synced. Fails if the queue is `closed` first.
    pub(crate) fn wait(&self, closed: impl Fn() -> bool) -> Result<(), Closed> {
        wait_until(&self.synced, || self.has_synced(), closed)
    }

    /// Waits as `wait` does, without blocking the thread.
    pub(crate) async fn wait_async(&self, closed: impl Fn() -> bool) -> Result<(), Closed> {
        wait_until_async(&self.synced, || self.has_synced(), closed).await
    }

    pub(crate) fn announce(&self) {
        self.synced.notify(usize::MAX.additional());
    }
}

/// The marks of a batch, which are subtracted together when the `Marks` is dropped. If they were
/// subtracted item by item, the cache line of the counter would go back and forth between
/// consumers: two threads would drain an initial population of a million objects in 170 ms instead
/// of 70 ms.
pub(crate) struct Marks<'f> {
    initial: &'f Initial,
    taken: AtomicUsize,
}

impl<'f> Marks<'f> {
    pub(crate) fn new(initial: &'f Initial) -> Self {
        Self { initial, taken: AtomicUsize::new(0) }
    }

    /// Adds marks. Only the batch calls this, through a `&mut` of itself, so that no other thread
    /// writes at the same time, and a read-modify-write is not needed.
    pub(crate) fn take(&self, marks: usize) {
        // Relaxed: the `Arc` that holds this orders the drop after it.
        let taken = self.taken.load(Ordering::Relaxed);
        self.taken.store(taken + marks, Ordering::Relaxed);
    }
}

impl Drop for Marks<'_> {
    fn drop(&mut self) {
        // Relaxed: no other thread has a reference to this any more.
        if self.initial.settled(self.taken.load(Ordering::Relaxed)) {
            self.initial.announce();
        }
    }
}

fn count(marks: usize) -> i64 {
    i64::try_from(marks).unwrap_or(i64::MAX)
}

/// The code of a deliberate defect (`engine/sync/mutants.rs`).
#[cfg(any(deltafifo_loom, deltafifo_shuttle))]
mod defects {
    use super::{Initial, SYNCED};

    impl Initial {
        /// Ends the initial population, with the defect `MarksEndBeforeCommit`: the first relist
        /// may still be open.
        pub(super) fn sync_early(&self) {
            let _ = self.advance(|phase| (phase < SYNCED).then_some(SYNCED));
        }
    }
}
