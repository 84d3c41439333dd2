//! The initial population: `has_synced` and `is_in_initial_list`, exact although pops proceed
//! during a replace.
//!
//! | phase | meaning | left by |
//! | --- | --- | --- |
//! | `UNPOPULATED` | nothing has come | an add (`SYNCED`); the first relist's begin (`CLAIMED`) |
//! | `CLAIMED` | a first relist is open | commit (`DRAINING`); abandon (`UNPOPULATED`); an add (`TOUCHED`) |
//! | `TOUCHED` | the same, and something else was offered meanwhile | commit (`DRAINING`); abandon (`SYNCED`) |
//! | `DRAINING` | the first relist is committed, its items are not all handled | the last of them (`SYNCED`) |
//! | `SYNCED` | done, for ever | nobody |
//!
//! A delta of the initial population carries a mark; `outstanding` counts the marks until their
//! handlers have ended. It is exact and never reset, also over abandoned relists; it only decides
//! in `DRAINING`.

use crossbeam::utils::CachePadded;

use crate::engine::sync::{AtomicI64, AtomicU8, AtomicUsize, Event, IntoNotification, Ordering, mutant};
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

    /// One step of the phase: `step` names the next one, or `None` to leave it. Whether it is
    /// SYNCED by this step: then the caller announces it, with no lock held, since that may run
    /// wakers.
    #[must_use]
    fn advance(&self, step: impl Fn(u8) -> Option<u8>) -> bool {
        // Relaxed on the guess; the exchange is AcqRel, paired with every other step and with
        // `phase`.
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
        // Acquire, paired with `advance`: who sees SYNCED sees what the initial handlers did.
        self.phase.load(Ordering::Acquire)
    }

    /// Something other than a relist was offered: an unpopulated queue is populated, and synced,
    /// by it.
    pub(crate) fn touch(&self) {
        // Relaxed: a late view only takes the slow way.
        if self.phase.load(Ordering::Relaxed) < DRAINING
            && self.advance(|phase| match phase {
                UNPOPULATED => Some(SYNCED),
                CLAIMED => mutant!(OfferForgetsTheClaim => None; Some(TOUCHED)),
                _ => None,
            })
        {
            self.announce();
        }
    }

    /// A relist begins. Whether what it offers is the initial population.
    pub(crate) fn claim(&self) -> bool {
        let synced = self.advance(|phase| (phase == UNPOPULATED).then_some(CLAIMED));
        debug_assert!(!synced, "a claim never syncs");
        matches!(self.phase(), CLAIMED | TOUCHED)
    }

    /// The current relist is committed, all its marks counted. Whether to
    /// [`announce`](Self::announce).
    #[must_use]
    pub(crate) fn commit(&self) -> bool {
        let synced = self.advance(|phase| (phase < DRAINING).then_some(DRAINING));
        debug_assert!(!synced, "what is drained is finished below");
        self.is_drained() && self.finish()
    }

    /// The current relist is abandoned: as if it had never begun. Whether to
    /// [`announce`](Self::announce).
    #[must_use]
    pub(crate) fn abandon(&self) -> bool {
        self.advance(|phase| match phase {
            CLAIMED => Some(UNPOPULATED),
            TOUCHED => mutant!(AbandonForgetsTheOffer => None; Some(SYNCED)),
            _ => None,
        })
    }

    /// `marks` deltas of the initial population were pushed. Counted before the commit that makes
    /// it count.
    pub(crate) fn marked(&self, marks: usize) {
        if marks > 0 {
            // AcqRel: see `commit`.
            self.outstanding.fetch_add(count(marks), Ordering::AcqRel);
        }
    }

    /// The handlers of `marks` of them have ended, whatever the end was. Whether to
    /// [`announce`](Self::announce).
    #[must_use]
    #[inline]
    pub(crate) fn settled(&self, marks: usize) -> bool {
        if marks == 0 {
            return false;
        }
        // AcqRel: Release hands on what the handler did, Acquire pairs with `commit`.
        let order = mutant!(MarksHandNothingOn => Ordering::Acquire; Ordering::AcqRel);
        let before = self.outstanding.fetch_sub(count(marks), order);
        mutant!(MarksEndBeforeCommit => if before == count(marks) {
            let _ = self.advance(|phase| (phase < SYNCED).then_some(SYNCED));
        });
        before == count(marks) && self.phase() == DRAINING && self.is_drained() && self.finish()
    }

    /// Whether no mark is left, asked in DRAINING, in which none is added any more. Whoever took
    /// the last one before that phase has to ask again: a page may have come, and the commit,
    /// between its two looks.
    fn is_drained(&self) -> bool {
        mutant!(DrainedIsAskedOnce => return true);
        // A read-modify-write, so that it has an order with those in `settled`: either it sees the
        // last mark gone, or that one's `settled` sees DRAINING.
        self.outstanding.fetch_add(0, Ordering::AcqRel) == 0
    }

    fn finish(&self) -> bool {
        self.advance(|phase| (phase == DRAINING).then_some(SYNCED))
    }

    /// Whether an item taken now, with or without marks, belongs to the initial list.
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

    /// Waits until the population is synced; an error once the queue is `closed` before.
    pub(crate) fn wait(&self, closed: impl Fn() -> bool) -> Result<(), Closed> {
        wait_until(&self.synced, || self.has_synced(), closed)
    }

    /// The same for async callers.
    pub(crate) async fn wait_async(&self, closed: impl Fn() -> bool) -> Result<(), Closed> {
        wait_until_async(&self.synced, || self.has_synced(), closed).await
    }

    pub(crate) fn announce(&self) {
        self.synced.notify(usize::MAX.additional());
    }
}

/// The marks of a batch, settled together by whoever is the last to hold it. Settled one by one
/// they would send the counter's line back and forth between consumers (a drain of an initial
/// million on two threads: 170 ms, and 70 so).
pub(crate) struct Marks<'f> {
    initial: &'f Initial,
    taken: AtomicUsize,
}

impl<'f> Marks<'f> {
    pub(crate) fn new(initial: &'f Initial) -> Self {
        Self { initial, taken: AtomicUsize::new(0) }
    }

    pub(crate) fn take(&self, marks: usize) {
        // Relaxed: the drop comes after it by the `Arc` that this is held in.
        self.taken.fetch_add(marks, Ordering::Relaxed);
    }
}

impl Drop for Marks<'_> {
    fn drop(&mut self) {
        // Relaxed: nobody else holds it any more.
        if self.initial.settled(self.taken.load(Ordering::Relaxed)) {
            self.initial.announce();
        }
    }
}

fn count(marks: usize) -> i64 {
    i64::try_from(marks).unwrap_or(i64::MAX)
}
