//! The lane past a backlog: how a key that waits in the backlog of a relist is handed to the live lane, without following
//! the backlog to find its entry.
//!
//! What keeps an idle slot from being freed is in one number: how many `IndexedSlot`s there are, and whether a relist's
//! backlog has an entry for the slot, in two bits:
//!
//! | bits | meaning | left by |
//! | --- | --- | --- |
//! | none | no entry | a relist's push on an idle slot (`RUN`) |
//! | `RUN` | pending, and who comes to the entry takes it | that redeem (none); a live push, which queues it too (`STALE`) |
//! | `STALE` | there is an entry, and the slot went another way | a relist's push on the slot idle again (`RUN`); who comes to the entry, under the shard's lock (none) |
//!
//! So at most one entry names a slot, and with `RUN` in it that entry is the slot's one `QueuedSlot`. A slot becomes `RUN`
//! after its push, before the shard's lock is released; a live push that comes in between (an offer or a batch beside a
//! relist's page, or where settle queues a slot again) waits with the backlog.

use std::ptr::NonNull;

use super::word::State;
use super::{QueuedSlot, RunningSlot, Slot, prefetch};
use crate::engine::sync::{self, AtomicU32, Ordering, mutant};

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
        // Acquire, paired with `index`: an index that is being built puts slots in that others run, and who runs one then
        // sees that there is such an index. Their own they see anyway.
        (self.0.load(Ordering::Acquire) & !LANE) as usize
    }

    pub(super) fn index(&self) {
        // Release, paired with `indexed`. A new token is made from what already keeps the slot alive.
        self.0.fetch_add(1, Ordering::Release);
    }

    pub(super) fn unindex(&self) {
        // Release, paired with the Acquire of `any`: what was read through that token is over by then.
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// Whether there is anything that still names the slot.
    pub(super) fn any(&self) -> bool {
        mutant!(RetiredInBacklog => return self.indexed() != 0);
        // Acquire, paired with `unindex`.
        self.0.load(Ordering::Acquire) != 0
    }

    pub(super) fn is_in_backlog(&self) -> bool {
        self.lane() != NONE
    }

    fn lane(&self) -> u32 {
        // Relaxed: asked by who runs the slot under the shard's lock, or holds the entry: both have an order to the last change.
        self.0.load(Ordering::Relaxed) & LANE
    }

    /// One step between the rows of the table above. Whether the bits were `from`.
    fn change(&self, from: u32, to: u32) -> bool {
        let mut seen = self.0.load(Ordering::Relaxed);
        while seen & LANE == from {
            // AcqRel, so that who comes to an entry sees the push that it stands for, although it may be an older entry's.
            // Relaxed on the guesses.
            match self.0.compare_exchange(seen, seen & !LANE | to, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }
}

impl<T> Slot<T> {
    /// Takes a pending slot away from its entry in a backlog, if it waits in one. With the shard's lock held, after a push.
    pub(crate) fn pass(&self) -> Option<QueuedSlot<T>> {
        let passed = mutant!(PassLeavesTheEntry => self.holds.is_in_backlog(); self.holds.change(RUN, STALE));
        passed.then(|| QueuedSlot { slot: NonNull::from(self) })
    }
}

impl<T> QueuedSlot<T> {
    /// Makes it an entry of a backlog. `None`: an older entry, which had gone stale, is the slot's again.
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
            // Who came to the stale entry has just given it up.
        }
    }
}

/// A place in the queue.
pub(crate) enum Ticket<T> {
    Queued(QueuedSlot<T>),
    Backlog(BacklogSlot<T>),
}

/// An entry of a relist's backlog. It keeps its slot from being freed; whose turn it is, a redeem tells.
pub(crate) struct BacklogSlot<T> {
    slot: NonNull<Slot<T>>,
}

/// An entry that was found stale: it still keeps its slot from being freed, until it is given up under the shard's lock.
pub(crate) struct StaleSlot<T>(BacklogSlot<T>);

/// What giving up a stale entry came to.
#[must_use]
pub(crate) enum Left<T> {
    /// It had become the slot's entry again.
    Revived(QueuedSlot<T>),
    /// The slot was idle and knew nothing, only kept for the entry: the caller retires it.
    Unknown(RunningSlot<T>),
    /// Others have the slot, or something is known.
    Nothing,
}

// SAFETY: as for `SlotOwner`.
unsafe impl<T: Send + Sync> Send for BacklogSlot<T> {}
// SAFETY: as for `SlotOwner`.
unsafe impl<T: Send + Sync> Sync for BacklogSlot<T> {}

impl<T> BacklogSlot<T> {
    fn slot(&self) -> &Slot<T> {
        // SAFETY: while this token exists it is noted in `holds`, so the owner's drop would not free the slot (module
        // docs of `slot`, 2).
        let slot = unsafe { self.slot.as_ref() };
        sync::assert_alive(slot);
        slot
    }
}

impl<T> StaleSlot<T> {
    pub(crate) fn key(&self) -> &str {
        self.0.slot().key()
    }

    /// Gives the entry up. The caller holds the slot's shard exclusively, so that an idle slot stays idle.
    pub(crate) fn leave(self) -> Left<T> {
        let Self(entry) = self;
        let slot = entry.slot();
        // The word first: what is known of an idle slot does not change. Claimed before the note is taken back, after
        // which nothing but that token would keep the slot.
        let is_unknown = slot.state() == State::Idle && !slot.is_known();
        if is_unknown && slot.word.claim() {
            let left = slot.holds.change(STALE, NONE);
            debug_assert!(left, "a claimed slot is in no backlog but by this token");
            return Left::Unknown(RunningSlot { slot: entry.slot });
        }
        loop {
            debug_assert!(slot.holds.is_in_backlog(), "an entry is noted until it is given up");
            if slot.holds.change(STALE, NONE) {
                return Left::Nothing;
            }
            if slot.holds.change(RUN, NONE) {
                return Left::Revived(QueuedSlot { slot: entry.slot });
            }
            // A settle has just queued the slot, by this entry.
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

    /// Brings the slot's line near.
    pub(crate) fn prefetch(&self) {
        prefetch(self.pointer().as_ptr());
    }

    /// Brings the counts of the known object near. Worth it when the slot's own line already is.
    pub(crate) fn prefetch_known(&self) {
        self.slot().prefetch_known();
    }

    /// Its turn has come. An entry whose slot went another way is stale.
    pub(crate) fn redeem(self) -> Result<QueuedSlot<T>, StaleSlot<T>> {
        match self {
            Self::Queued(queued) => Ok(queued),
            Self::Backlog(entry) => {
                let holds = &entry.slot().holds;
                mutant!(StaleIsTaken => if holds.change(STALE, NONE) { return Ok(QueuedSlot { slot: entry.slot }); });
                if holds.change(RUN, NONE) { Ok(QueuedSlot { slot: entry.slot }) } else { Err(StaleSlot(entry)) }
            }
        }
    }
}
