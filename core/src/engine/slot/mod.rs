//! The slot: the record of one key, and the protocol of its state word. **This is the only module
//! with unsafe code.**
//!
//! # States of the word
//!
//! | word | meaning | left by |
//! | --- | --- | --- |
//! | `EMPTY` | nothing is pending, no consumer handles the key | a push (a list, and the pusher queues the slot); a claim (`RUNNING`); the drop of the owner (`GONE`) |
//! | a list | pending, and in the queue exactly once | a push (longer list); a take (`RUNNING`); a peek (`PEEK`) |
//! | `RUNNING` | a consumer owns the slot | a push (a list over `RUNNING`, not queued); settle |
//! | a list over `RUNNING` | a consumer owns the slot, and more deltas have arrived | a push; settle; a peek (`PEEK`) |
//! | `PEEK` | a reader copies the list, for a few instructions | that reader, which puts the list back |
//! | `GONE` | retired: unlinked and freed by the settler | nothing: it is the last state |
//!
//! The list is also the flag for "in the queue", so a slot is in the queue exactly when it has
//! pending deltas. Pushers never follow a list and takers take the whole list, so there is no ABA
//! problem and no deferred reclamation. Every transition is a read-modify-write, so all threads
//! agree on one modification order of the word. The transitions are in the module [`word`].
//!
//! # Tokens
//!
//! Access to a slot is represented by tokens. The rest of the crate stores and moves tokens; it
//! cannot create or copy one, or reach a slot without one.
//!
//! * [`SlotOwner`]: held by the table. Each slot has one; its drop frees the slot unless another
//!   token exists.
//! * `&Slot`: borrowed from an owner, so it is valid while the table's shard is locked.
//! * [`QueuedSlot`]: created by the push that leaves `EMPTY` and by settle's requeue; consumed by
//!   take.
//! * [`RunningSlot`]: created by take, or by claiming an idle slot; consumed by settle. Only its
//!   holder writes `known`.
//! * [`IndexedSlot`]: created from a `&Slot` and counted in the slot; an index reads `known`
//!   through it.
//! * [`Ticket`]: the entry of one slot in the ready queue. It is a `QueuedSlot`, or an entry of
//!   the backlog that is recorded in the slot ([`lane`]).
//!
//! Memory safety follows from the tokens alone, whatever the table, the queue and the relist do:
//!
//! 1. A `QueuedSlot` exists only while the word is a list (or `PEEK`), and a `RunningSlot` only
//!    while it is `RUNNING` or a list over `RUNNING` (or `PEEK`): only the transition into such a
//!    state creates the token, and only an operation that consumes the token leaves the state. In
//!    the backlog the token is replaced by a flag (`RUN`), which only one compare-exchange can turn
//!    back into the token.
//! 2. A slot is freed only by dropping its owner while the word is `EMPTY` or `GONE`, no
//!    `IndexedSlot` is counted and no backlog entry is recorded. By 1, no queued or running token
//!    exists then. No `&Slot` exists either, because it would borrow the owner that is being
//!    dropped.
//! 3. A token that is leaked with `mem::forget` keeps its slot from being freed: a leak, never a
//!    dangling pointer.
//! 4. An object leaves a slot with the type that it entered with: the slot and its tokens are
//!    invariant in `T` ([`Shared`]).
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
use known::KnownArc;
pub(crate) use known::Swapped;
use lane::Holds;
pub(crate) use lane::{GivenUp, StaleSlot, Ticket};
use name::Name;
pub(crate) use pending::{Content, Pending, Rule, Sweep};
pub(crate) use prefetch::prefetch;
pub(crate) use version::Version;
use word::Word;
pub(crate) use word::{State, TakenDeltas};

/// The objects that a slot's atomic pointers own. Any thread with a `&Slot<T>` can put objects in
/// and take them out.
///
/// The function pointer makes the type invariant in `T`. If it were covariant, a `&Slot<&'static
/// str>` would coerce to a `&Slot<&'short str>`, and a reader could get an object that lives only
/// for `'short` as `'static` (`refused.rs`).
type Shared<T> = (Arc<T>, fn(T) -> T);

/// The record of one key, in one cache line: each operation of the queue or the store on a key
/// costs one cache miss.
#[repr(C, align(64))]
pub(crate) struct Slot<T> {
    word: Word<T>,
    known: KnownArc<T>,
    /// The stamp: the generation of the newest relist that listed this key, or that was in progress
    /// when the key was written.
    stamp: StampCell,
    /// The count of index tokens and the state of the backlog's entry, which keep the slot from
    /// being freed while its word is idle (see [`lane`]).
    holds: Holds,
    name: Name,
}

const _: () = assert!(sync::MODEL || size_of::<Slot<u64>>() == 64, "a slot is one cache line");

/// The outcome of a push.
#[must_use]
pub(crate) enum Pushed<T> {
    /// The slot was idle. The pusher must queue it.
    Queue(QueuedSlot<T>),
    /// The slot is pending or running. The consumer that takes or settles it finds the delta.
    Joined,
    /// The rule rejected the delta. It is returned so that the caller drops its object after the
    /// lock is released.
    Skipped(Pending<T>),
}

impl<T> Slot<T> {
    pub(crate) fn key(&self) -> &str {
        self.name.as_str()
    }

    /// Returns the word's current state, which other threads may change at any time unless the
    /// caller prevents that.
    pub(crate) fn state(&self) -> State {
        self.word.state()
    }

    /// Raises the stamp to `generation`. Stamps only grow, so an older relist that is late cannot
    /// undo a newer listing.
    pub(crate) fn stamp(&self, generation: u32) {
        // Relaxed: the sweep that acts on stamps holds the shard's lock exclusively, and every
        // stamp is made under that lock (shared or exclusive), so the lock orders them. A reader
        // without the lock may see an older stamp; it then only checks again.
        self.stamp.fetch_max(generation, Ordering::Relaxed);
    }

    /// Clears the stamp. Returns whether it was set. Only for callers that ensure that one thread
    /// at a time stamps.
    pub(crate) fn take_stamp(&self) -> bool {
        let is_stamped = self.stamped() != 0;
        if is_stamped {
            // Relaxed: the synchronisation that makes the caller the only stamping thread also
            // orders this after the previous one.
            self.stamp.store(0, Ordering::Relaxed);
        }
        is_stamped
    }

    pub(crate) fn stamped(&self) -> u32 {
        // Relaxed: as in `stamp`.
        self.stamp.load(Ordering::Relaxed)
    }

    /// Returns the known object: the object of this key in the fused store, which keeps its objects
    /// in the slots.
    pub(crate) fn known(&self) -> Option<Arc<T>> {
        self.known.read()
    }

    /// Returns the known object, and makes changes of it fail until the changing thread has called
    /// [`heed`](RunningSlot::heed), after which that thread sees all that the caller did before
    /// this call. The caller must hold the lock of the slot's shard, so that a thread that creates
    /// a slot in the shard later also sees it.
    pub(crate) fn notice(&self) -> Option<Arc<T>> {
        self.known.notice()
    }

    /// Prefetches the reference counts of the known object. Useful once the slot's own line is
    /// cached.
    pub(crate) fn prefetch_known(&self) {
        self.known.prefetch();
    }

    pub(crate) fn is_known(&self) -> bool {
        self.known.is_some()
    }

    /// Returns whether the version of the known object is recorded.
    pub(crate) fn has_noted(&self) -> bool {
        self.name.version() != 0
    }

    /// Returns whether the slot can record a version.
    pub(crate) fn has_room(&self) -> bool {
        self.name.has_room()
    }

    /// Returns whether `number` is the recorded version of the known object; false if `number` is
    /// 0. The caller must have seen the slot idle. If this returns false and no version is
    /// recorded, the caller must read the version in the object itself.
    pub(crate) fn is_noted(&self, number: u64) -> bool {
        number != 0 && self.name.version() == number
    }

    /// Returns the number of index entries of this slot.
    pub(crate) fn index_entries(&self) -> usize {
        self.holds.indexed()
    }

    /// Creates a token for an index.
    pub(crate) fn indexed(&self) -> IndexedSlot<T> {
        self.holds.index();
        IndexedSlot { slot: NonNull::from(self) }
    }

    /// Returns the slot's address, by which an index finds the token of this slot.
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Offers `pending` under `rule`. The caller holds the shard's lock. For any rule but
    /// [`Rule::Always`] the lock must exclude other offers of single keys: such an offer can be a
    /// deletion, and its consumer could delete the known object of an idle slot during the push.
    /// Pages of a relist and batches of offers delete nothing, so the lock need not exclude them.
    #[inline]
    pub(crate) fn push(&self, pending: Pending<T>, rule: Rule) -> Pushed<T> {
        mutant!(RunningIsDecidedAtOnce => if self.skips(rule) { return Pushed::Skipped(pending) });
        match self.word.push(pending, rule, || self.is_known()) {
            word::Push::Entered => Pushed::Queue(QueuedSlot { slot: NonNull::from(self) }),
            word::Push::Joined => {
                mutant!(JoinedIsQueuedToo => return Pushed::Queue(QueuedSlot { slot: NonNull::from(self) }));
                Pushed::Joined
            }
            word::Push::Skipped(pending) => Pushed::Skipped(pending),
        }
    }

    /// Returns a copy of the pending deltas, oldest first, and the known object at that moment;
    /// `None` if nothing is pending. The caller holds the shard's lock exclusively, so no pusher
    /// waits for the copy; takers and settlers do.
    ///
    /// The known object is read before the list is put back. If it were read later, a handler
    /// could have taken and applied the list in between. A delta that gets the known object (a
    /// Sync, or a deletion by a sweep) would then be shown with an object newer than the deltas
    /// behind it.
    #[allow(clippy::type_complexity)]
    pub(crate) fn peek(&self) -> Option<(Vec<Pending<T>>, Option<Arc<T>>)> {
        mutant!(KnownIsReadAfterThePeek => return Some((self.word.peek(|| ())?.0, self.known())));
        self.word.peek(|| self.known())
    }
}

/// The token of the table: see the module docs. Dereferences to the slot.
pub(crate) struct SlotOwner<T> {
    slot: NonNull<Slot<T>>,
    _owns: PhantomData<Slot<T>>,
}

// SAFETY: 1. The slot is shared between threads: its fields are atomics (`word`, `known`,
// counters) and an immutable name. 2. Through any token another thread can reach, clone and drop
// the `Arc<T>`s in it, which needs what sending an `Arc<T>` needs: `T: Send + Sync`.
unsafe impl<T: Send + Sync> Send for SlotOwner<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Send + Sync> Sync for SlotOwner<T> {}

impl<T> SlotOwner<T> {
    /// Creates an idle slot without a known object.
    pub(crate) fn new(key: &str) -> Self {
        let slot = Box::new(Slot {
            word: Word::new(),
            known: KnownArc::new(),
            stamp: StampCell::new(0),
            holds: Holds::new(),
            name: Name::new(key),
        });
        Self { slot: NonNull::from(Box::leak(slot)), _owns: PhantomData }
    }

    /// Moves an idle slot to `RUNNING`, without a delta. Returns `None` if the slot is not idle.
    pub(crate) fn claim(&self) -> Option<RunningSlot<T>> {
        self.word.claim().then_some(RunningSlot { slot: self.slot })
    }

    /// Returns whether `gone` is the address of this slot.
    pub(crate) fn is(&self, gone: &GoneSlot<T>) -> bool {
        self.slot == gone.slot
    }
}

impl<T> Deref for SlotOwner<T> {
    type Target = Slot<T>;

    fn deref(&self) -> &Slot<T> {
        // SAFETY: 1. `slot` came from `Box::leak` in `new`. 2. It is freed only in this owner's
        // `drop`, which cannot run during the borrow of `self`. 3. Only shared references to it are
        // made.
        unsafe { self.slot.as_ref() }
    }
}

impl<T> Drop for SlotOwner<T> {
    fn drop(&mut self) {
        // The word must be closed before the holds are read. Once it is closed no running token
        // exists, so no `IndexedSlot` can be created through the `&Slot` of one; any other
        // `&Slot` borrows this owner.
        if !self.word.close() || self.holds.any() {
            return;
        }
        // SAFETY: 1. The pointer came from `Box::leak` and this is the only owner, so it is freed
        // once. 2. `close` saw EMPTY or GONE, so no queued or running token exists (module docs,
        // 1), and none can be created: creating one takes a `&Slot` or a claim, which borrow this
        // owner. 3. After that no `IndexedSlot` was counted and no backlog entry recorded;
        // creating either takes a running or a queued token, or a `&Slot`. 4. No `&Slot` exists,
        // since each borrows this owner.
        let slot = unsafe { Box::from_raw(self.slot.as_ptr()) };
        sync::free(slot, |slot| slot.known.clear());
    }
}

/// The token of a pending slot. It is in the queue, or held by the thread that is queueing or
/// popping it.
pub(crate) struct QueuedSlot<T> {
    slot: NonNull<Slot<T>>,
}

// SAFETY: as for `SlotOwner`.
unsafe impl<T: Send + Sync> Send for QueuedSlot<T> {}
// SAFETY: as for `SlotOwner`.
unsafe impl<T: Send + Sync> Sync for QueuedSlot<T> {}

impl<T> QueuedSlot<T> {
    fn slot(&self) -> &Slot<T> {
        // SAFETY: while this token exists the word is a list or PEEK (module docs, 1), so the
        // owner's drop does not free the slot (2).
        let slot = unsafe { self.slot.as_ref() };
        sync::assert_alive(slot);
        slot
    }

    /// Returns the address, which identifies the slot while this token exists.
    pub(crate) fn address(&self) -> usize {
        self.slot.addr().get()
    }

    /// Takes all pending deltas. The holder of the returned token owns the slot until it settles.
    pub(crate) fn take(self) -> (RunningSlot<T>, TakenDeltas<T>) {
        let taken = self.slot().word.take();
        (RunningSlot { slot: self.slot }, taken)
    }
}

/// The token of a slot whose handler runs. Only its holder writes the known object, and it must
/// settle the slot.
pub(crate) struct RunningSlot<T> {
    slot: NonNull<Slot<T>>,
}

// SAFETY: as for `SlotOwner`.
unsafe impl<T: Send + Sync> Send for RunningSlot<T> {}
// SAFETY: as for `SlotOwner`.
unsafe impl<T: Send + Sync> Sync for RunningSlot<T> {}

impl<T> RunningSlot<T> {
    pub(crate) fn slot(&self) -> &Slot<T> {
        // SAFETY: while this token exists the word is RUNNING, a list over it or PEEK (module docs,
        // 1), so the owner's drop does not free the slot (2).
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

    /// Replaces the known object and returns the previous one, which the caller must drop with no
    /// lock held. The version of the new object is not recorded. Returns `Err` and changes
    /// nothing if another thread has [noticed](Slot::notice) the known object.
    pub(crate) fn swap_known(&mut self, object: Option<Arc<T>>) -> Swapped<T> {
        mutant!(NoteOutlivesTheObject => return self.slot().known.swap(object));
        // The record is cleared first, so that it is never seen next to an object with another
        // version.
        if self.slot().has_noted() {
            self.slot().name.note_version(0);
        }
        self.slot().known.swap(object)
    }

    /// Declares that the slot will be under the index values of two objects, until
    /// [`end_move`](Self::end_move). The caller adds or removes no index entry before this.
    pub(crate) fn begin_move(&mut self) {
        self.slot().holds.begin_move();
    }

    /// Declares that all index entries of the slot belong to the known object again.
    pub(crate) fn end_move(&mut self) {
        self.slot().holds.end_move();
    }

    /// Synchronises with the threads that have noticed the known object; after that it can be
    /// changed.
    pub(crate) fn heed(&mut self) {
        self.slot().known.heed();
    }

    /// Records the number of the known object's version, or 0 for none.
    pub(crate) fn note_version(&mut self, number: u64) {
        self.slot().name.note_version(number);
    }

    /// Borrows the known object without changing its reference count.
    pub(crate) fn known_ref(&self) -> Option<known::KnownRef<'_, T>> {
        // SAFETY: `known` is written only through `&mut RunningSlot`, of which there is one per
        // slot, and which the returned borrow of `self` excludes.
        unsafe { self.slot().known.borrow() }
    }

    /// Takes the deltas that were pushed while the handler ran, oldest first. The slot stays
    /// running.
    pub(crate) fn take_pushed(&mut self) -> Vec<Pending<T>> {
        self.slot().word.take_over()
    }

    /// Settles the slot as idle. Returns the token as the error if deltas were pushed since the
    /// last take.
    pub(crate) fn idle(self) -> Result<(), Self> {
        if self.slot().word.idle() { Ok(()) } else { Err(self) }
    }

    /// Settles the slot as pending, with these deltas; the caller queues it. Returns the token and
    /// the deltas as the error if other deltas were pushed since the last take.
    #[allow(clippy::type_complexity)]
    pub(crate) fn requeue(
        self,
        pending: Vec<Pending<T>>,
    ) -> Result<QueuedSlot<T>, (Self, Vec<Pending<T>>)> {
        match self.slot().word.requeue(pending) {
            Ok(()) => Ok(QueuedSlot { slot: self.slot }),
            Err(pending) => Err((self, pending)),
        }
    }

    /// Returns whether an entry of a relist's backlog names the slot. The caller holds the slot's
    /// shard exclusively.
    pub(crate) fn is_in_backlog(&self) -> bool {
        self.slot().holds.is_in_backlog()
    }

    /// Retires the slot, which has no known object. The caller holds its shard exclusively, and
    /// then removes the owner from the table. Returns the token as the error if deltas were pushed
    /// since the last take.
    pub(crate) fn retire(self) -> Result<GoneSlot<T>, Self> {
        if self.slot().word.retire() { Ok(GoneSlot { slot: self.slot }) } else { Err(self) }
    }
}

/// The address of a retired slot, for finding and dropping its owner. Never dereferenced.
pub(crate) struct GoneSlot<T> {
    slot: NonNull<Slot<T>>,
}

/// The known object of a slot that an index has under a value.
pub(crate) enum IndexedObject<T> {
    /// The object has the value.
    Checked(Arc<T>),
    /// The slot was moving between values, so the object may not have this one.
    Unchecked(Arc<T>),
}

/// The token of an index, through which the index reads the known object.
pub(crate) struct IndexedSlot<T> {
    slot: NonNull<Slot<T>>,
}

// SAFETY: as for `SlotOwner`.
unsafe impl<T: Send + Sync> Send for IndexedSlot<T> {}
// SAFETY: as for `SlotOwner`.
unsafe impl<T: Send + Sync> Sync for IndexedSlot<T> {}

impl<T> IndexedSlot<T> {
    fn slot(&self) -> &Slot<T> {
        // SAFETY: this token is counted in `holds`, so the owner's drop does not free the slot
        // (module docs, 2).
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

    /// Returns the known object, and whether it is certain that the object has the index value
    /// under which the caller has found the slot. The caller holds the lock of that value. If the
    /// caller has locked several values, the result says whether it is certain that the object has
    /// at least one of them.
    ///
    /// While the slot moves, it is under the values of two objects, and its known object may be
    /// either of them. Two checks are needed. A writer adds the slot to new values before it
    /// stores the object that has them; the check before the read detects that the older object
    /// may be read. A writer removes the slot from old values after it has stored the object that
    /// lacks them; the check after the read detects that this object was read. That move cannot
    /// end before the caller releases the lock, because the writer needs it.
    pub(crate) fn found(&self) -> Option<IndexedObject<T>> {
        let slot = self.slot();
        let before = slot.holds.is_moving();
        mutant!(MoveCheckedAfterOnly => let before = false);
        let object = slot.known.read()?;
        let after = slot.holds.is_moving();
        mutant!(MoveCheckedBeforeOnly => let after = false);
        Some(if before || after {
            IndexedObject::Unchecked(object)
        } else {
            IndexedObject::Checked(object)
        })
    }

    /// Clears the stamp: see [`Slot::take_stamp`].
    pub(crate) fn take_stamp(&self) -> bool {
        self.slot().take_stamp()
    }
}

impl<T> Drop for IndexedSlot<T> {
    fn drop(&mut self) {
        self.slot().holds.unindex();
    }
}
