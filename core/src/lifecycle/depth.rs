//! The gauge of pending deltas, and the wait until it is below the high-water mark.

use crossbeam::utils::CachePadded;

use crate::engine::sync::{AtomicI64, Event, IntoNotification, Ordering};
use crate::engine::wait::{wait_async, wait_until, wait_until_async};
use crate::error::Closed;

pub(crate) struct Depth {
    /// The number of pending deltas. It is signed, because the take of a delta may be counted
    /// before its push.
    pending: CachePadded<AtomicI64>,
    high_water: i64,
    below: Event,
}

impl Depth {
    pub(crate) fn new(high_water: Option<usize>) -> Self {
        let high_water = high_water.map_or(i64::MAX, |mark| count(mark.max(1)));
        Self { pending: CachePadded::new(AtomicI64::new(0)), high_water, below: Event::new() }
    }

    pub(crate) fn add(&self, deltas: usize) {
        // Relaxed: a gauge; nothing is published through it.
        self.pending.fetch_add(count(deltas), Ordering::Relaxed);
    }

    /// Subtracts deltas that were taken. Returns whether this change took the gauge below the
    /// high-water mark; the caller then calls [`announce`](Self::announce).
    #[must_use]
    #[inline]
    pub(crate) fn subtract(&self, deltas: usize) -> bool {
        if deltas == 0 {
            return false;
        }
        // AcqRel, so that the crossing of the high-water mark and the second check of a waiter are
        // ordered.
        let before = self.pending.fetch_sub(count(deltas), Ordering::AcqRel);
        before >= self.high_water && before - count(deltas) < self.high_water
    }

    pub(crate) fn pending(&self) -> usize {
        // Acquire, paired with `subtract`: the log of an in-order queue counts an event until it is
        // applied, and a caller that finds nothing pending then reads the store.
        usize::try_from(self.pending.load(Ordering::Acquire)).unwrap_or(0)
    }

    pub(crate) fn is_ready(&self) -> bool {
        // Acquire, paired with `subtract`.
        self.pending.load(Ordering::Acquire) < self.high_water
    }

    pub(crate) fn announce(&self) {
        self.below.notify(usize::MAX.additional());
    }

    /// Blocks until the gauge is below the high-water mark. Fails if the queue is `closed` first.
    pub(crate) fn wait(&self, closed: impl Fn() -> bool) -> Result<(), Closed> {
        wait_until(&self.below, || self.is_ready(), closed)
    }

    /// Waits as `wait` does, without blocking the thread.
    pub(crate) async fn wait_async(&self, closed: impl Fn() -> bool) -> Result<(), Closed> {
        wait_until_async(&self.below, || self.is_ready(), closed).await
    }

    /// Waits until the queue is `closed`.
    pub(crate) async fn wait_closed_async(&self, closed: impl Fn() -> bool) -> Closed {
        wait_async(&self.below, || closed().then_some(Closed)).await
    }
}

fn count(deltas: usize) -> i64 {
    i64::try_from(deltas).unwrap_or(i64::MAX)
}
