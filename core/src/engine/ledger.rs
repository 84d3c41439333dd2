//! Finds the last marker up to which every offer has been handled, although handlers end in any
//! order.
//!
//! A *marker* is an entry of the queue that belongs to a resource version. Markers divide a queue
//! into *epochs*: offers before the first marker belong to epoch 1, offers between the first and
//! the second to epoch 2, and so on. The last epoch is *open*: it has no marker yet. An epoch is
//! complete when all epochs before it are complete, its marker has reached the head of the queue,
//! and there is no *hold* on it. So one hold keeps its epoch and all later ones incomplete. While a
//! thread has an offer outside the queue, because it has popped the offer or has not queued it yet,
//! it has a hold on the epoch of the offer.
//!
//! A slot that is queued again may be behind markers that were queued after its deltas were
//! offered. Such a slot is *parked*: the ledger keeps a hold for it, on an older epoch than that of
//! its place in the queue. The consumer that takes the slot takes over that hold.
//!
//! The ledger has no lock of its own: it belongs to the head of a queue and is protected by the
//! head's lock.

use std::collections::{HashMap, VecDeque};
use std::num::{NonZeroU32, NonZeroU64};

use crate::engine::room::less_room;
use crate::engine::sync::RandomState;
use crate::store::applied::Point;

/// The number of an epoch.
pub(crate) type Epoch = NonZeroU64;

/// The low half of the number of the epoch in which a pending delta was offered. A delta has no
/// room for the whole number.
///
/// The low half identifies the epoch, because it is used only for a delta that was pushed on a
/// running slot. The hold of that slot's handler keeps its own and every later epoch incomplete, so
/// they are all in memory, and 2^32 epochs do not fit into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Since(NonZeroU32);

impl Since {
    /// Returns the low half of an epoch's number, or `None` if it is 0; the epoch then counts as
    /// unknown.
    #[inline]
    pub(crate) fn of(epoch: Epoch) -> Option<Self> {
        #[allow(clippy::cast_possible_truncation)] // The low half.
        NonZeroU32::new(epoch.get() as u32).map(Self)
    }

    /// Returns the last epoch with this low half that is not after the open epoch `now`, or `None`
    /// if there is none.
    pub(crate) fn epoch(self, now: Epoch) -> Option<Epoch> {
        #[allow(clippy::cast_possible_truncation)] // The low half.
        let ago = (now.get() as u32).wrapping_sub(self.0.get());
        Epoch::new(now.get().saturating_sub(ago.into()))
    }
}

pub(crate) struct Ledger {
    /// The number of the first of `epochs`. All earlier epochs are complete.
    oldest: Epoch,
    /// All epochs that are not complete. The last one is the open epoch.
    epochs: VecDeque<Span>,
    /// For each lane of the queue, the epoch of the entry at its head.
    heads: Vec<Epoch>,
    /// The holds of parked slots, by slot address.
    parked: HashMap<usize, Epoch, RandomState>,
}

#[derive(Default)]
struct Span {
    holds: usize,
    /// The version of the marker that ends the epoch.
    point: Option<Point>,
}

impl Ledger {
    /// Creates a ledger for a queue with `ways` lanes. Each marker goes into every lane.
    pub(crate) fn new(ways: usize) -> Self {
        Self {
            oldest: Epoch::MIN,
            epochs: VecDeque::from([Span::default()]),
            heads: vec![Epoch::MIN; ways],
            parked: HashMap::default(),
        }
    }

    /// Returns the open epoch.
    pub(crate) fn now(&self) -> Epoch {
        self.oldest.saturating_add(self.epochs.len() as u64 - 1)
    }

    fn span(&mut self, epoch: Epoch) -> &mut Span {
        let place = usize::try_from(epoch.get() - self.oldest.get()).ok();
        let span = place.and_then(|place| self.epochs.get_mut(place));
        span.unwrap_or_else(|| {
            unreachable!("a held epoch is incomplete, and no offer belongs to a future epoch")
        })
    }

    /// Ends the open epoch. The caller adds the marker to every lane of the queue.
    pub(crate) fn mark(&mut self, point: Point) {
        let now = self.now();
        self.span(now).point = Some(point);
        self.epochs.push_back(Span::default());
    }

    /// Returns the epoch of the entry at the head of a lane.
    pub(crate) fn head(&self, way: usize) -> Epoch {
        self.heads[way]
    }

    /// Records that the marker at the head of a lane was removed.
    pub(crate) fn pass(&mut self, way: usize) {
        self.heads[way] = self.heads[way].saturating_add(1);
    }

    /// Adds a hold to epoch `since`, or to the oldest incomplete epoch if `since` is complete or
    /// unknown (`None`). Returns the epoch that got the hold.
    pub(crate) fn hold(&mut self, since: Option<Epoch>) -> Epoch {
        let epoch = since.map_or(self.oldest, |since| since.max(self.oldest));
        self.span(epoch).holds += 1;
        epoch
    }

    /// Removes a hold. The caller must then call [`complete`](Self::complete).
    pub(crate) fn release(&mut self, epoch: Epoch) {
        self.span(epoch).holds -= 1;
    }

    /// Adds a hold for a slot that is about to be queued again, unless the ledger keeps one for it
    /// already. `slot` is the address of the slot, which identifies it while it is pending.
    /// `since` is the epoch, as for [`hold`](Self::hold).
    pub(crate) fn park(&mut self, slot: usize, since: Option<Epoch>) {
        if !self.parked.contains_key(&slot) {
            let epoch = self.hold(since);
            self.parked.insert(slot, epoch);
        }
    }

    /// Removes and returns the hold of a slot, or returns `None` if the slot is not parked. The
    /// caller owns the hold from now on.
    pub(crate) fn unpark(&mut self, slot: usize) -> Option<Epoch> {
        let held = self.parked.remove(&slot);
        if let Some(room) = less_room(self.parked.len(), self.parked.capacity()) {
            self.parked.shrink_to(room);
        }
        held
    }

    /// Returns the number of parked slots.
    pub(crate) fn parked(&self) -> usize {
        self.parked.len()
    }

    /// Removes the epochs that have become complete. Returns the greatest version among their
    /// markers, or `None` if no epoch has become complete. Must be called after each removed hold
    /// or marker.
    pub(crate) fn complete(&mut self) -> Option<Point> {
        let passed = self.heads.iter().copied().min()?;
        let mut greatest = None;
        while self.oldest < passed && self.epochs.front().is_some_and(|span| span.holds == 0) {
            greatest = greatest.max(self.epochs.pop_front().and_then(|span| span.point));
            self.oldest = self.oldest.saturating_add(1);
            if let Some(room) = less_room(self.epochs.len(), self.epochs.capacity()) {
                self.epochs.shrink_to(room);
            }
        }
        greatest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::room::LEAST_ROOM;

    fn version(text: &str) -> Point {
        Point::first(text)
    }

    #[test]
    fn hold_keeps_its_epoch_and_all_later_ones_incomplete() {
        let mut ledger = Ledger::new(1);
        let first = ledger.hold(Some(ledger.now()));
        ledger.mark(version("1"));
        let second = ledger.hold(Some(ledger.now()));
        ledger.mark(version("2"));
        ledger.pass(0);
        ledger.pass(0);
        ledger.release(second);
        assert_eq!(ledger.complete(), None);
        ledger.release(first);
        assert_eq!(ledger.complete(), Some(version("2")));
    }

    #[test]
    fn epoch_is_complete_once_its_marker_has_passed_every_lane() {
        let mut ledger = Ledger::new(2);
        ledger.mark(version("1"));
        ledger.pass(1);
        assert_eq!(ledger.complete(), None);
        ledger.pass(0);
        assert_eq!(ledger.complete(), Some(version("1")));
    }

    #[test]
    fn hold_since_a_complete_epoch_is_on_the_oldest_incomplete_one() {
        let mut ledger = Ledger::new(1);
        let before = ledger.now();
        ledger.mark(version("1"));
        ledger.pass(0);
        assert_eq!(ledger.complete(), Some(version("1")));
        for since in [Some(before), None] {
            let held = ledger.hold(since);
            assert_eq!(held, ledger.now());
            ledger.release(held);
        }
    }

    #[test]
    fn parked_slot_keeps_its_hold_until_its_taker_releases_it() {
        let mut ledger = Ledger::new(1);
        let since = ledger.now();
        ledger.park(64, Some(since));
        ledger.mark(version("1"));
        // Parking it again changes nothing.
        ledger.park(64, Some(ledger.now()));
        ledger.pass(0);
        assert_eq!((ledger.parked(), ledger.unpark(64), ledger.unpark(64)), (1, Some(since), None));
        assert_eq!(ledger.complete(), None);
        ledger.release(since);
        assert_eq!(ledger.complete(), Some(version("1")));
    }

    #[test]
    fn complete_epochs_and_taken_slots_keep_no_memory() {
        let mut ledger = Ledger::new(1);
        for number in 1..=1_000 {
            ledger.park(number, None);
            ledger.mark(version(&number.to_string()));
            ledger.pass(0);
        }
        assert!(ledger.parked.capacity().min(ledger.epochs.capacity()) >= 1_000);
        for number in 1..=1_000 {
            let held = ledger.unpark(number).unwrap();
            ledger.release(held);
        }
        assert_eq!(ledger.complete(), Some(version("1000")));
        assert!(ledger.parked.capacity() <= 2 * LEAST_ROOM, "{}", ledger.parked.capacity());
        assert!(ledger.epochs.capacity() <= LEAST_ROOM, "{}", ledger.epochs.capacity());
    }

    #[test]
    fn low_half_identifies_the_epoch() {
        let half = 1 << 32;
        let epoch = |number| Epoch::new(number).unwrap();
        for offered in [1, 2, half - 2, half - 1, half + 1, 5 * half - 1, 5 * half + 1] {
            let since = Since::of(epoch(offered)).unwrap();
            for later in [0, 1, 2, 3, half - 1] {
                assert_eq!(
                    since.epoch(epoch(offered + later)),
                    Some(epoch(offered)),
                    "{later} after {offered}"
                );
            }
        }
        assert_eq!([half, 5 * half].map(|offered| Since::of(epoch(offered))), [None, None]);
    }

    #[test]
    fn greatest_of_versions_that_complete_together_is_returned() {
        let mut ledger = Ledger::new(1);
        for text in ["10", "9"] {
            ledger.mark(version(text));
            ledger.pass(0);
        }
        assert_eq!(ledger.complete(), Some(version("10")));
    }
}
