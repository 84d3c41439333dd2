//! The slot's part of the live lane, which passes the backlog of a relist: a key that waits in the
//! backlog is moved to the live lane without a search of the backlog for its entry.
//!
//! One number holds everything that keeps an idle slot from being freed: the count of
//! `IndexedSlot`s and, in two bits, whether the backlog has an entry for the slot. (A third bit,
//! `MOVING`, belongs to the indexes: see [`IndexedSlot::found`](super::IndexedSlot::found).) The
//! bits of the backlog:
//!
//! | bits | meaning | left by |
//! | --- | --- | --- |
//! | none | no entry | a relist's push on an idle slot (`RUN`) |
//! | `RUN` | pending, and the consumer that reaches the entry takes the slot | the consumer that redeems the entry (none); a live push, which also queues the slot (`STALE`) |
//! | `STALE` | there is an entry, but the slot was queued elsewhere | a relist's push when the slot is idle again (`RUN`); the consumer that reaches the entry, under the shard's lock (none) |
//!
//! So at most one entry names a slot, and with `RUN` that entry is the slot's one `QueuedSlot`. A
//! slot becomes `RUN` after its push and before the shard's lock is released. The delta of a live
//! push that arrives in between waits in the backlog. Such a push can come from an offer or a batch
//! that runs concurrently with a relist's page, or arrive while settle queues a slot again.

use std::ptr::NonNull;

use super::word::State;
use super::{QueuedSlot, RunningSlot, Slot, prefetch};
use crate::engine::sync::{self, AtomicU32, Ordering, mutant};

/// Whether the slot is moving from the index values of one known object to those of the next.
const MOVING: u32 = 1 << 29;
const RUN: u32 = 1 << 30;
const STALE: u32 = 1 << 31;
const LANE: u32 = RUN | STALE;
const NONE: u32 = 0;

pub(super) struct Holds(AtomicU32);

impl Holds {
    pub(super) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    pub(super) fn indexed(&self) -> usize {
        // Acquire, paired with `index`: an index that is being built adds slots that other
        // consumers run, and the consumer that runs such a slot must see that the index exists. A
        // consumer needs no ordering to see the entries that it added itself.
        (self.0.load(Ordering::Acquire) & !(LANE | MOVING)) as usize
    }

    pub(super) fn begin_move(&self) {
        // Relaxed: a thread that must see the bit has taken a lock after the writer released it, or
        // has read the object that the writer stored after this.
        self.0.fetch_or(MOVING, Ordering::Relaxed);
    }

    pub(super) fn end_move(&self) {
        // Release, paired with `is_moving`.
        self.0.fetch_and(!MOVING, Ordering::Release);
    }

    pub(super) fn is_moving(&self) -> bool {
        // Acquire, paired with `end_move`: a thread that sees the end of a move also sees the
        // object that was stored during the move.
        self.0.load(Ordering::Acquire) & MOVING != 0
    }

    pub(super) fn index(&self) {
        // Release, paired with `indexed`. A new token is created from one that already keeps the
        // slot alive.
        self.0.fetch_add(1, Ordering::Release);
    }

    pub(super) fn unindex(&self) {
        // Release, paired with the Acquire of `any`: all reads through this token are complete by
        // then.
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// Returns whether an index or the backlog still has an entry of the slot.
    pub(super) fn any(&self) -> bool {
        mutant!(RetiredInBacklog => return self.indexed() != 0);
        // Acquire, paired with `unindex`.
        self.0.load(Ordering::Acquire) != 0
    }

    pub(super) fn is_in_backlog(&self) -> bool {
        self.lane() != NONE
    }

    fn lane(&self) -> u32 {
        // Relaxed: the caller runs the slot under the shard's lock, or holds the entry; both are
        // ordered after the last change.
        self.0.load(Ordering::Relaxed) & LANE
    }

    /// Makes one transition of the table above. Returns whether the bits were `from`.
    fn change(&self, from: u32, to: u32) -> bool {
        let mut seen = self.0.load(Ordering::Relaxed);
        while seen & LANE == from {
            // AcqRel: the consumer that reaches an entry must see the push that the entry now
            // represents, even if the entry is older than the push. Relaxed for the guesses.
            match self.0.compare_exchange(
                seen,
                seen & !LANE | to,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }
}

impl<T> Slot<T> {
    /// Takes a pending slot from its entry in the backlog; the entry becomes stale. Returns `None`
    /// if the slot does not wait in the backlog. The caller has pushed onto the slot, and still
    /// holds the shard's lock.
    pub(crate) fn pass(&self) -> Option<QueuedSlot<T>> {
        let passed = || QueuedSlot { slot: NonNull::from(self) };
        mutant!(PassLeavesTheEntry => return self.holds.is_in_backlog().then(passed));
        self.holds.change(RUN, STALE).then(passed)
    }
}

impl<T> QueuedSlot<T> {
    /// Converts the token to an entry of the backlog. Returns `None` if the slot has a stale entry
    /// there: that entry becomes valid again, and no new one is needed.
    pub(crate) fn into_backlog(self) -> Option<Ticket<T>> {
        let holds = &self.slot().holds;
        loop {
            if holds.change(NONE, RUN) {
                return Some(Ticket::Backlog(BacklogSlot { slot: self.slot }));
            }
            if holds.change(STALE, RUN) {
                mutant!(RevivedTwice => return Some(Ticket::Backlog(BacklogSlot { slot: self.slot })));
                return None;
            }
            // The consumer that reached the stale entry has just given it up; try again.
        }
    }
}

/// The entry of one slot in the ready queue.
pub(crate) enum Ticket<T> {
    Queued(QueuedSlot<T>),
    Backlog(BacklogSlot<T>),
}

/// An entry of the backlog. It keeps its slot from being freed; `redeem` decides whether the slot
/// still waits in this entry.
pub(crate) struct BacklogSlot<T> {
    slot: NonNull<Slot<T>>,
}

/// A stale entry of the backlog: its slot has been queued elsewhere since. The entry keeps the slot
/// from being freed until the entry is given up under the shard's lock.
pub(crate) struct StaleSlot<T>(BacklogSlot<T>);

/// The outcome of giving up a stale entry.
#[must_use]
pub(crate) enum GivenUp<T> {
    /// A relist had made the entry valid again. The slot was waiting in this entry.
    Revived(QueuedSlot<T>),
    /// The slot was idle without a known object, and only the entry kept it. The caller retires
    /// it.
    Unknown(RunningSlot<T>),
    /// The slot stays, because there is another token for it, or it has a known object.
    Nothing,
}

// SAFETY: as for `SlotOwner`.
unsafe impl<T: Send + Sync> Send for BacklogSlot<T> {}
// SAFETY: as for `SlotOwner`.
unsafe impl<T: Send + Sync> Sync for BacklogSlot<T> {}

impl<T> BacklogSlot<T> {
    fn slot(&self) -> &Slot<T> {
        // SAFETY: while this token exists it is recorded in `holds`, so the owner's drop does not
        // free the slot (module docs of `slot`, 2).
        let slot = unsafe { self.slot.as_ref() };
        sync::assert_alive(slot);
        slot
    }
}

impl<T> StaleSlot<T> {
    pub(crate) fn key(&self) -> &str {
        self.0.slot().key()
    }

    /// Gives up the entry. The caller holds the slot's shard exclusively, so an idle slot stays
    /// idle.
    pub(crate) fn give_up(self) -> GivenUp<T> {
        let Self(entry) = self;
        let slot = entry.slot();
        // The state is read first, because the known object of an idle slot does not change. The
        // slot is claimed before the record is removed: after that only the claim's token keeps
        // the slot alive.
        let is_unknown = slot.state() == State::Idle && !slot.is_known();
        if is_unknown && slot.word.claim() {
            let left = slot.holds.change(STALE, NONE);
            debug_assert!(left, "only this token records a backlog entry of a claimed slot");
            return GivenUp::Unknown(RunningSlot { slot: entry.slot });
        }
        loop {
            debug_assert!(slot.holds.is_in_backlog(), "an entry is recorded until it is given up");
            if slot.holds.change(STALE, NONE) {
                return GivenUp::Nothing;
            }
            if slot.holds.change(RUN, NONE) {
                return GivenUp::Revived(QueuedSlot { slot: entry.slot });
            }
            // A settle has just queued the slot through this entry; try again.
        }
    }
}

impl<T> Ticket<T> {
    fn pointer(&self) -> NonNull<Slot<T>> {
        match self {
            Self::Queued(QueuedSlot { slot }) | Self::Backlog(BacklogSlot { slot }) => *slot,
        }
    }

    fn slot(&self) -> &Slot<T> {
        match self {
            Self::Queued(queued) => queued.slot(),
            Self::Backlog(entry) => entry.slot(),
        }
    }

    pub(crate) fn key(&self) -> &str {
        self.slot().key()
    }

    /// Returns whether the slot has one delta, which belongs to the initial population. May return
    /// false while the delta is copied. A slot with several deltas is not checked, because only the
    /// consumer that takes them can read them.
    pub(crate) fn is_initial(&self) -> bool {
        self.slot().word.is_initial()
    }

    /// Prefetches the slot's line.
    pub(crate) fn prefetch(&self) {
        prefetch(self.pointer().as_ptr());
    }

    /// Prefetches the reference counts of the known object. Useful once the slot's own line is
    /// cached.
    pub(crate) fn prefetch_known(&self) {
        self.slot().prefetch_known();
    }

    /// Exchanges a ticket, which the caller has popped, for its slot. Returns the stale entry as
    /// the error if the slot was queued elsewhere.
    pub(crate) fn redeem(self) -> Result<QueuedSlot<T>, StaleSlot<T>> {
        match self {
            Self::Queued(queued) => Ok(queued),
            Self::Backlog(entry) => {
                let holds = &entry.slot().holds;
                mutant!(StaleIsTaken => if holds.change(STALE, NONE) { return Ok(QueuedSlot { slot: entry.slot }); });
                if holds.change(RUN, NONE) {
                    Ok(QueuedSlot { slot: entry.slot })
                } else {
                    Err(StaleSlot(entry))
                }
            }
        }
    }
}
