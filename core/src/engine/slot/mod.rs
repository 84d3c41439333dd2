//! The slot: one record per key, and the protocol on its word. **This is the only module with unsafe code.**
//!
//! # States of the word
//!
//! | word | meaning | who leaves it |
//! | --- | --- | --- |
//! | `EMPTY` | nothing pending, nobody handles the key | a push: the list, and the pusher queues the slot |
//! | a list | pending, and in the queue exactly once | a push (longer list); a take (`RUNNING`) |
//! | `RUNNING` | a consumer owns the slot | a push (a list over `RUNNING`, not queued); settle |
//! | a list over `RUNNING` | a consumer owns the slot, more has come | a push; settle |
//! | `PEEK` | a reader copies the list, a few instructions long | that reader, putting the list back |
//! | `GONE` | retired: unlinked and freed by the settler | nobody |
//!
//! "In the queue" and "has pending deltas" are one fact: the list is the in-queue flag. Pushers never follow a list,
//! takers take all of it, so there is no ABA and nothing is reclaimed late. All transitions are read-modify-writes, so
//! the word has one modification order that every party agrees on; the module [`word`] has them.
//!
//! # Tokens
//!
//! The rest of the crate stores and moves tokens; it cannot make one, copy one or reach a slot without one.
//!
//! * [`SlotOwner`]: the table's. One per slot; dropping it frees the slot, if no other token is about.
//! * `&Slot`: borrowed from an owner, hence for as long as the table's shard is held.
//! * [`QueuedSlot`]: made by the push that leaves `EMPTY` and by settle's requeue; consumed by take.
//! * [`RunningSlot`]: made by take (or by claiming an idle slot); consumed by settle. Its holder alone writes `known`.
//! * [`IndexedSlot`]: made from a `&Slot` and counted in the slot; an index may read `known` through it.
//! * [`Ticket`]: a place in the queue: a `QueuedSlot`, or an entry of a relist's backlog, noted in the slot ([`lane`]).
//!
//! From that alone the memory argument follows, whatever the table, the queue and the relist do:
//!
//! 1. A `QueuedSlot` exists only while the word is a list (or `PEEK`), a `RunningSlot` only while it is `RUNNING` or a
//!    list over `RUNNING`: only the transition that enters such a state makes the token, and only consuming the token
//!    leaves it. In a backlog the token is turned into a note (`RUN`), which only one compare-exchange turns back.
//! 2. A slot is freed only by dropping its owner when the word is `EMPTY` or `GONE`, no `IndexedSlot` is counted and no
//!    backlog's entry noted. By 1 no queued or running token exists then; a `&Slot` cannot, since it borrows the owner that is being dropped.
//! 3. A forgotten token keeps its slot from being freed: a leak, never a dangling pointer.
//! 4. An object comes out of a slot with the type it was put in with: the slot and its tokens are invariant in `T`
//!    ([`Shared`]).
#![allow(unsafe_code)]

#[cfg(any(deltafifo_loom, deltafifo_shuttle))]
mod defects;
mod known;
mod lane;
#[cfg_attr(any(deltafifo_loom, deltafifo_shuttle), path = "name/standin.rs")]
mod name;
mod pending;
mod prefetch;
#[cfg(any(deltafifo_refused = "shortened lifetime", deltafifo_refused = "shared cell"))]
mod refused;
mod version;
mod word;

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use crate::engine::sync::{self, Arc, Ordering, StampCell, mutant};
use known::Known;
pub(crate) use known::Swapped;
use lane::Holds;
pub(crate) use lane::{Left, StaleSlot, Ticket};
use name::Name;
pub(crate) use pending::{Pending, Rule, What};
pub(crate) use prefetch::prefetch;
pub(crate) use version::Version;
use word::Word;
pub(crate) use word::{State, Taken};

/// The objects that a slot's atomic pointers own, which any thread puts in and takes out through a
/// `&Slot<T>`.
///
/// The function pointer makes this invariant in `T`. If it were covariant, a `&Slot<&'static str>` would coerce to a
/// `&Slot<&'short str>`, and a reader would get an object that lives for `'short` only as `'static` (`refused.rs`).
type Shared<T> = (Arc<T>, fn(T) -> T);

/// One key's record, in one cache line: everything the queue and the store do to a key costs one miss.
#[repr(C, align(64))]
pub(crate) struct Slot<T> {
    word: Word<T>,
    known: Known<T>,
    /// The newest relist that listed this key, or during which it was written.
    stamp: StampCell,
    /// The tokens that keep it from being freed while its word is idle.
    holds: Holds,
    name: Name,
}

const _: () = assert!(sync::MODEL || size_of::<Slot<u64>>() == 64, "a slot is one cache line");

/// What became of a push.
#[must_use]
pub(crate) enum Pushed<T> {
    /// The slot was idle: the pusher puts it in the queue.
    Queue(QueuedSlot<T>),
    /// The slot is pending or running: whoever takes or settles it finds the delta.
    Joined,
    /// The rule said no. The delta comes back so that its object is released after the lock.
    Skipped(Pending<T>),
}

impl<T> Slot<T> {
    pub(crate) fn key(&self) -> &str {
        self.name.as_str()
    }

    /// The word's state now; it can change at once unless something forbids it.
    pub(crate) fn state(&self) -> State {
        self.word.state()
    }

    /// Raises the stamp to `generation`. Stamps only grow, so a late, older relist cannot take a listing back.
    pub(crate) fn stamp(&self, generation: u32) {
        // Relaxed: the sweep that acts on stamps holds the shard's lock exclusively, and every stamp is made under that
        // lock (shared or exclusive), whose hand-over orders them. An older one, seen before, only makes it look again.
        self.stamp.fetch_max(generation, Ordering::Relaxed);
    }

    /// Takes the stamp off; whether there was one. Only where one thread at a time stamps.
    pub(crate) fn take_stamp(&self) -> bool {
        let is_stamped = self.stamped() != 0;
        if is_stamped {
            // Relaxed: whatever made the caller the one that stamps also ordered it behind the one before.
            self.stamp.store(0, Ordering::Relaxed);
        }
        is_stamped
    }

    pub(crate) fn stamped(&self) -> u32 {
        // Relaxed: as in `stamp`.
        self.stamp.load(Ordering::Relaxed)
    }

    /// The object the fused store knows under this key.
    pub(crate) fn known(&self) -> Option<Arc<T>> {
        self.known.read()
    }

    /// The same, and the next change of it fails unless who makes it has seen by then what the caller did before. With the
    /// slot's shard held, so that who makes a slot later has seen it anyway.
    pub(crate) fn notice(&self) -> Option<Arc<T>> {
        self.known.notice()
    }

    /// Brings the counts of the known object near. Worth it when the slot's own line already is.
    pub(crate) fn prefetch_known(&self) {
        self.known.prefetch();
    }

    pub(crate) fn is_known(&self) -> bool {
        self.known.is_some()
    }

    /// Whether the version of what is known is noted.
    pub(crate) fn has_noted(&self) -> bool {
        self.name.version() != 0
    }

    /// Whether what is known is noted to be of the version with this number, if not 0. The caller has seen the slot
    /// idle. If not, the object itself has to tell.
    pub(crate) fn is_noted(&self, number: u64) -> bool {
        number != 0 && self.name.version() == number
    }

    /// In how many places of indexes it stands.
    pub(crate) fn index_entries(&self) -> usize {
        self.holds.indexed()
    }

    /// A token for an index.
    pub(crate) fn indexed(&self) -> IndexedSlot<T> {
        self.holds.index();
        IndexedSlot { slot: NonNull::from(self) }
    }

    /// The address, by which an index finds this slot's token.
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Offers `pending` as `rule` has it. The caller holds the shard's lock; for any rule but [`Rule::Always`] against other
    /// offers, so that what an idle slot knows is not deleted under it: a relist's pages and batches delete nothing.
    #[inline]
    pub(crate) fn push(&self, pending: Pending<T>, rule: Rule) -> Pushed<T> {
        match self.word.push(pending, rule, || self.is_known()) {
            word::Push::Entered => Pushed::Queue(QueuedSlot { slot: NonNull::from(self) }),
            word::Push::Joined => {
                mutant!(JoinedIsQueuedToo => return Pushed::Queue(QueuedSlot { slot: NonNull::from(self) }));
                Pushed::Joined
            }
            word::Push::Skipped(pending) => Pushed::Skipped(pending),
        }
    }

    /// A copy of what is pending, oldest first, and what is known while it is. `None`: nothing is pending. The caller
    /// holds the shard's lock exclusively, so no pusher waits for the copy; takers and settlers do.
    ///
    /// Were what is known read after the copy, a handler could have taken and applied the list in between, and a delta
    /// that stands for the newest state would be shown with an object newer than those behind it.
    #[allow(clippy::type_complexity)]
    pub(crate) fn peek(&self) -> Option<(Vec<Pending<T>>, Option<Arc<T>>)> {
        mutant!(KnownIsReadAfterThePeek => return Some((self.word.peek(|| ())?.0, self.known())));
        self.word.peek(|| self.known())
    }
}

/// The table's token: see the module docs. Dereferences to the slot.
pub(crate) struct SlotOwner<T> {
    slot: NonNull<Slot<T>>,
    _owns: PhantomData<Slot<T>>,
}

// SAFETY: 1. The slot is shared between threads: its fields are atomics (`word`, `known`, counters) and an immutable
// name. 2. Through any token another thread can reach, clone and drop the `Arc<T>`s in it, which needs what sending an
// `Arc<T>` needs: `T: Send + Sync`.
unsafe impl<T: Send + Sync> Send for SlotOwner<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Send + Sync> Sync for SlotOwner<T> {}

impl<T> SlotOwner<T> {
    /// An idle slot that knows nothing.
    pub(crate) fn new(key: &str) -> Self {
        let slot = Box::new(Slot {
            word: Word::new(),
            known: Known::new(),
            stamp: StampCell::new(0),
            holds: Holds::new(),
            name: Name::new(key),
        });
        Self { slot: NonNull::from(Box::leak(slot)), _owns: PhantomData }
    }

    /// Takes an idle slot as a taker would, without a delta. `None`: it is not idle.
    pub(crate) fn claim(&self) -> Option<RunningSlot<T>> {
        self.word.claim().then_some(RunningSlot { slot: self.slot })
    }

    /// Whether `gone` was this slot.
    pub(crate) fn is(&self, gone: &GoneSlot<T>) -> bool {
        self.slot == gone.slot
    }
}

impl<T> Deref for SlotOwner<T> {
    type Target = Slot<T>;

    fn deref(&self) -> &Slot<T> {
        // SAFETY: 1. `slot` came from `Box::leak` in `new`. 2. It is freed only in this owner's `drop`, which the
        // borrow of `self` outlives. 3. Only shared references to it are ever made.
        unsafe { self.slot.as_ref() }
    }
}

impl<T> Drop for SlotOwner<T> {
    fn drop(&mut self) {
        // The word first: once it is closed no running token exists, so no `IndexedSlot` can be made any more: from a
        // `&Slot` of such a token, that is; another one borrows this owner.
        if !self.word.close() || self.holds.any() {
            return;
        }
        // SAFETY: 1. The pointer came from `Box::leak` and this is the only owner, so it is freed once. 2. `close` saw
        // EMPTY or GONE, so no queued or running token exists (module docs, 1), and none can be made: making one takes
        // a `&Slot` or a claim, which borrow this owner. 3. No `IndexedSlot` was counted after that, nor an entry of a
        // backlog noted; making either takes a running or a queued token, or a `&Slot`. 4. No `&Slot` exists, since each borrows this owner.
        let slot = unsafe { Box::from_raw(self.slot.as_ptr()) };
        sync::free(slot, |slot| slot.known.clear());
    }
}

/// A pending slot that stands in the queue, or in the hands of who is putting it there or taking it out.
pub(crate) struct QueuedSlot<T> {
    slot: NonNull<Slot<T>>,
}

// SAFETY: as for `SlotOwner`.
unsafe impl<T: Send + Sync> Send for QueuedSlot<T> {}
// SAFETY: as for `SlotOwner`.
unsafe impl<T: Send + Sync> Sync for QueuedSlot<T> {}

impl<T> QueuedSlot<T> {
    fn slot(&self) -> &Slot<T> {
        // SAFETY: while this token exists the word is a list or PEEK (module docs, 1), so the owner's drop would not
        // free the slot (2).
        let slot = unsafe { self.slot.as_ref() };
        sync::assert_alive(slot);
        slot
    }

    /// The address, which names the slot for as long as this token exists.
    pub(crate) fn address(&self) -> usize {
        self.slot.addr().get()
    }

    /// Takes everything pending; the holder of the result owns the slot until it settles.
    pub(crate) fn take(self) -> (RunningSlot<T>, Taken<T>) {
        let taken = self.slot().word.take();
        (RunningSlot { slot: self.slot }, taken)
    }
}

/// A slot whose handler runs. Its holder alone writes what is known, and must settle it.
pub(crate) struct RunningSlot<T> {
    slot: NonNull<Slot<T>>,
}

// SAFETY: as for `SlotOwner`.
unsafe impl<T: Send + Sync> Send for RunningSlot<T> {}
// SAFETY: as for `SlotOwner`.
unsafe impl<T: Send + Sync> Sync for RunningSlot<T> {}

impl<T> RunningSlot<T> {
    pub(crate) fn slot(&self) -> &Slot<T> {
        // SAFETY: while this token exists the word is RUNNING or a list over it (module docs, 1), so the owner's drop
        // would not free the slot (2).
        let slot = unsafe { self.slot.as_ref() };
        sync::assert_alive(slot);
        slot
    }

    pub(crate) fn key(&self) -> &str {
        self.slot().key()
    }

    pub(crate) fn is_known(&self) -> bool {
        self.slot().is_known()
    }

    pub(crate) fn known(&self) -> Option<Arc<T>> {
        self.slot().known.read()
    }

    /// Changes what is known and hands back what was, to be released when no lock is held. Its version is not noted.
    /// `Err`: nothing was changed, since somebody has [noticed](Slot::notice) what is known.
    pub(crate) fn swap_known(&mut self, object: Option<Arc<T>>) -> Swapped<T> {
        mutant!(NoteOutlivesTheObject => return self.slot().known.swap(object));
        // First, so that no note is found beside an object that it is not of.
        if self.slot().has_noted() {
            self.slot().name.note_version(0);
        }
        self.slot().known.swap(object)
    }

    /// Sees what those did before who have noticed what is known; then it can be changed.
    pub(crate) fn heed(&mut self) {
        self.slot().known.heed();
    }

    /// Notes the number of the version of what is known, or 0 for none.
    pub(crate) fn note_version(&mut self, number: u64) {
        self.slot().name.note_version(number);
    }

    /// What is known, without touching its reference count.
    pub(crate) fn known_ref(&self) -> Option<known::KnownRef<'_, T>> {
        // SAFETY: `known` is written only through `&mut RunningSlot`, of which there is one per slot, and which the
        // returned borrow of `self` excludes.
        unsafe { self.slot().known.borrow() }
    }

    /// Takes what was pushed while the handler ran, oldest first; the slot stays running.
    pub(crate) fn take_pushed(&mut self) -> Vec<Pending<T>> {
        self.slot().word.take_over()
    }

    /// Ends with an idle slot. Gives the token back when something was pushed meanwhile.
    pub(crate) fn idle(self) -> Result<(), Self> {
        if self.slot().word.idle() { Ok(()) } else { Err(self) }
    }

    /// Ends with a pending slot, which the caller queues. Gives everything back when something was pushed meanwhile.
    #[allow(clippy::type_complexity)]
    pub(crate) fn requeue(self, pending: Vec<Pending<T>>) -> Result<QueuedSlot<T>, (Self, Vec<Pending<T>>)> {
        match self.slot().word.requeue(pending) {
            Ok(()) => Ok(QueuedSlot { slot: self.slot }),
            Err(pending) => Err((self, pending)),
        }
    }

    /// Whether an entry of a relist's backlog still names the slot. Asked with its shard held exclusively.
    pub(crate) fn is_in_backlog(&self) -> bool {
        self.slot().holds.is_in_backlog()
    }

    /// Ends the slot's life: the caller holds its shard exclusively, nothing is known, and the caller takes the owner
    /// out of the table. Gives the token back when something was pushed meanwhile.
    pub(crate) fn retire(self) -> Result<GoneSlot<T>, Self> {
        if self.slot().word.retire() { Ok(GoneSlot { slot: self.slot }) } else { Err(self) }
    }
}

/// Names a retired slot, so that its owner can be found and dropped. Never followed.
pub(crate) struct GoneSlot<T> {
    slot: NonNull<Slot<T>>,
}

/// An index's token: what the slot knows can be read through it.
pub(crate) struct IndexedSlot<T> {
    slot: NonNull<Slot<T>>,
}

// SAFETY: as for `SlotOwner`.
unsafe impl<T: Send + Sync> Send for IndexedSlot<T> {}
// SAFETY: as for `SlotOwner`.
unsafe impl<T: Send + Sync> Sync for IndexedSlot<T> {}

impl<T> IndexedSlot<T> {
    fn slot(&self) -> &Slot<T> {
        // SAFETY: this token is counted in `holds`, so the owner's drop would not free the slot (module docs, 2).
        let slot = unsafe { self.slot.as_ref() };
        sync::assert_alive(slot);
        slot
    }

    pub(crate) fn address(&self) -> usize {
        self.slot.addr().get()
    }

    pub(crate) fn key(&self) -> &str {
        self.slot().key()
    }

    pub(crate) fn known(&self) -> Option<Arc<T>> {
        self.slot().known.read()
    }
}

impl<T> Drop for IndexedSlot<T> {
    fn drop(&mut self) {
        self.slot().holds.unindex();
    }
}
