//! Up to which marker everything is handled that was offered before it, although handlers end in any order.
//!
//! Markers cut a queue into *epochs*: what was offered before the first is of epoch 1, what came after it and before the
//! second of epoch 2, and so on; the open epoch has no marker yet. An epoch is complete when the ones before it are, its
//! marker has come to the queue's head, and no *hold* is on it. So one hold keeps its epoch and all later ones from
//! being complete: whoever has something of an epoch in hand, out of the queue or not in it yet, has a hold.
//!
//! What is queued again stands behind markers that it was offered before. It is *parked*: its slot has a hold of an older
//! epoch than its place says, which its next taker takes over.
//!
//! There is no lock here: a ledger belongs to the head of a queue, and is changed with that.

use std::collections::{HashMap, VecDeque};
use std::num::{NonZeroU32, NonZeroU64};

use crate::engine::sync::RandomState;
use crate::store::applied::Point;

/// The number of an epoch.
pub(crate) type Epoch = NonZeroU64;

/// The epoch that a pending delta was offered in: the low half of its number, since a delta has no room for more.
///
/// That is enough to tell which it was. It is asked only for what was pushed over a handler, whose hold has kept every epoch
/// since its own, and 2^32 of them fit into no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Since(NonZeroU32);

impl Since {
    /// None when the low half is 0. Then it is not known which epoch it was.
    #[inline]
    pub(crate) fn of(epoch: Epoch) -> Option<Self> {
        #[allow(clippy::cast_possible_truncation)] // The low half.
        NonZeroU32::new(epoch.get() as u32).map(Self)
    }

    /// The last epoch up to `now`, the open one, that has this low half.
    pub(crate) fn epoch(self, now: Epoch) -> Option<Epoch> {
        #[allow(clippy::cast_possible_truncation)] // The low half.
        let ago = (now.get() as u32).wrapping_sub(self.0.get());
        Epoch::new(now.get().saturating_sub(ago.into()))
    }
}

pub(crate) struct Ledger {
    /// The number of the first of `epochs`: all before it are complete.
    oldest: Epoch,
    /// Up to the open one.
    epochs: VecDeque<Span>,
    /// Per way of the queue, the epoch of what stands at its head.
    heads: Vec<Epoch>,
    /// The holds of slots that are queued behind markers which they were offered before, by address.
    parked: HashMap<usize, Epoch, RandomState>,
}

#[derive(Default)]
struct Span {
    holds: usize,
    /// Of the marker that ends it.
    point: Option<Point>,
}

impl Ledger {
    /// For a queue of so many ways, each of which gets every marker.
    pub(crate) fn new(ways: usize) -> Self {
        Self {
            oldest: Epoch::MIN,
            epochs: VecDeque::from([Span::default()]),
            heads: vec![Epoch::MIN; ways],
            parked: HashMap::default(),
        }
    }

    /// The open epoch.
    pub(crate) fn now(&self) -> Epoch {
        self.oldest.saturating_add(self.epochs.len() as u64 - 1)
    }

    fn span(&mut self, epoch: Epoch) -> &mut Span {
        let place = usize::try_from(epoch.get() - self.oldest.get()).ok();
        let span = place.and_then(|place| self.epochs.get_mut(place));
        span.unwrap_or_else(|| unreachable!("what is held is not complete, and nothing is of an epoch to come"))
    }

    /// Ends the open epoch: its marker goes into every way of the queue.
    pub(crate) fn mark(&mut self, point: Point) {
        let now = self.now();
        self.span(now).point = Some(point);
        self.epochs.push_back(Span::default());
    }

    /// The epoch of what stands at the head of a way.
    pub(crate) fn head(&self, way: usize) -> Epoch {
        self.heads[way]
    }

    /// The marker at the head of a way is taken out.
    pub(crate) fn pass(&mut self, way: usize) {
        self.heads[way] = self.heads[way].saturating_add(1);
    }

    /// A hold on an epoch, or on the oldest there is. None: it is not known which, so it is the oldest.
    pub(crate) fn hold(&mut self, since: Option<Epoch>) -> Epoch {
        let epoch = since.map_or(self.oldest, |since| since.max(self.oldest));
        self.span(epoch).holds += 1;
        epoch
    }

    /// Gives a hold up. See [`complete`](Self::complete).
    pub(crate) fn release(&mut self, epoch: Epoch) {
        self.span(epoch).holds -= 1;
    }

    /// Gives a slot that is to be queued again a hold, unless it has one already. By its address, which names it for as
    /// long as it is pending.
    pub(crate) fn park(&mut self, slot: usize, since: Option<Epoch>) {
        if !self.parked.contains_key(&slot) {
            let epoch = self.hold(since);
            self.parked.insert(slot, epoch);
        }
    }

    /// The hold of a slot that was parked: the caller's from now on.
    pub(crate) fn unpark(&mut self, slot: usize) -> Option<Epoch> {
        self.parked.remove(&slot)
    }

    /// How many are parked.
    pub(crate) fn parked(&self) -> usize {
        self.parked.len()
    }

    /// Closes the books of what is complete since the last call: the greatest point among its markers. To be asked
    /// whenever a hold was given up or a marker passed.
    pub(crate) fn complete(&mut self) -> Option<Point> {
        let passed = self.heads.iter().copied().min()?;
        let mut greatest = None;
        while self.oldest < passed && self.epochs.front().is_some_and(|span| span.holds == 0) {
            greatest = greatest.max(self.epochs.pop_front().and_then(|span| span.point));
            self.oldest = self.oldest.saturating_add(1);
        }
        greatest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Point {
        Point::first(text)
    }

    #[test]
    fn a_hold_keeps_its_epoch_and_all_later_ones_open() {
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
    fn an_epoch_is_complete_when_its_marker_has_passed_every_way() {
        let mut ledger = Ledger::new(2);
        ledger.mark(version("1"));
        ledger.pass(1);
        assert_eq!(ledger.complete(), None);
        ledger.pass(0);
        assert_eq!(ledger.complete(), Some(version("1")));
    }

    #[test]
    fn a_hold_since_an_epoch_that_is_complete_is_on_the_oldest_that_is_not() {
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
    fn what_is_parked_keeps_its_hold_until_its_taker_gives_it_up() {
        let mut ledger = Ledger::new(1);
        let since = ledger.now();
        ledger.park(64, Some(since));
        ledger.mark(version("1"));
        // A second time changes nothing.
        ledger.park(64, Some(ledger.now()));
        ledger.pass(0);
        assert_eq!((ledger.parked(), ledger.unpark(64), ledger.unpark(64)), (1, Some(since), None));
        assert_eq!(ledger.complete(), None);
        ledger.release(since);
        assert_eq!(ledger.complete(), Some(version("1")));
    }

    #[test]
    fn what_a_delta_keeps_of_its_epoch_tells_which_it_was() {
        let half = 1 << 32;
        let epoch = |number| Epoch::new(number).unwrap();
        for offered in [1, 2, half - 2, half - 1, half + 1, 5 * half - 1, 5 * half + 1] {
            let since = Since::of(epoch(offered)).unwrap();
            for later in [0, 1, 2, 3, half - 1] {
                assert_eq!(since.epoch(epoch(offered + later)), Some(epoch(offered)), "{later} after {offered}");
            }
        }
        assert_eq!([half, 5 * half].map(|offered| Since::of(epoch(offered))), [None, None]);
    }

    #[test]
    fn of_versions_that_complete_together_the_greatest_counts() {
        let mut ledger = Ledger::new(1);
        for text in ["10", "9"] {
            ledger.mark(version(text));
            ledger.pass(0);
        }
        assert_eq!(ledger.complete(), Some(version("10")));
    }
}
