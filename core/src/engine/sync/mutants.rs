//! Deliberate defects for `ci/models.sh`: each must make a model fail. A model program chooses
//! one of them, or none, when it starts. This file and the `mutant!` lines exist only in models.
//!
//! A weakened ordering, or a plain store in place of a read-modify-write, needs no line in the
//! shipped source: it is implemented here, in the role types.

use super::gated::{AtomicPtr, AtomicU32};
use super::imp::Ordering;
use crate::{DeltaFifo, Meta};
use Ordering::{AcqRel, Acquire, Relaxed, Release};

/// Defines a list of deliberate defects, of which a process chooses at most one. The informer has
/// a list of its own.
#[macro_export]
macro_rules! mutants {
    ($($name:ident: $what:literal,)*) => {
        /// See the module docs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum Mutant { $($name),* }

        /// All mutants, each with a description of the defect.
        pub const ALL: &[(Mutant, &str)] = &[$((Mutant::$name, $what)),*];

        static CHOSEN: ::std::sync::OnceLock<Option<Mutant>> = ::std::sync::OnceLock::new();

        /// Chooses the defect of this process. Must be called once, before the first model or
        /// schedule.
        ///
        /// # Panics
        /// If it was called before.
        pub fn choose(mutant: Option<Mutant>) {
            assert!(CHOSEN.set(mutant).is_ok(), "the mutant is chosen once");
        }

        /// Returns whether this defect was chosen.
        pub(crate) fn is(mutant: Mutant) -> bool {
            CHOSEN.get().is_some_and(|chosen| *chosen == Some(mutant))
        }
    };
}

mutants! {
    WordWithoutRelease: "transitions of the word publish nothing",
    WordWithoutAcquire: "transitions of the word take nothing over",
    WordLooksRelaxed: "what is only read of the word takes nothing over",
    KnownWithoutRelease: "the store publishes an object that is not finished",
    KnownWithoutAcquire: "a reader of the store takes nothing over",
    KnownReadUnlocked: "a reader raises the count of an object that may be released already",
    StampIsStored: "a stamp is stored, not raised",
    JoinedIsQueuedToo: "a push on a pending or running slot queues it once more",
    IdleIsStored: "settle leaves RUNNING without a look at what came",
    PeekIsATake: "get holds the slot as a taker would",
    KnownIsReadAfterThePeek: "get reads what is known after it has put the list back",
    RunningDecidesNothing: "a deletion over a running handler counts whatever the handler leaves",
    RunningIsDecidedAtOnce: "a deletion over a running handler is decided by what is known before its end",
    RetireFromEmpty: "the settler goes EMPTY first and retires then",
    PutBackBehind: "what is put back stands behind what came meanwhile",
    SettleDoesNotWake: "settle queues a slot and wakes nobody",
    CancelledIsLost: "a guard dropped without a verdict loses its deltas",
    OffersLetOffersIn: "an offer holds its shard as a reader does",
    QueuedAfterUnlock: "an offer joins the queue after the shard's lock",
    OfferDoesNotWake: "an offer wakes nobody",
    BatchesDoNotStamp: "a batch during a relist does not count as listed",
    DeltasDoNotStamp: "deltas added as a whole during a relist do not count as listed",
    OffersDoNotStamp: "an offer during a relist does not count as listed",
    AbandonForgetsTheOffer: "a relist that is abandoned leaves the queue unpopulated, whatever else came",
    OfferForgetsTheClaim: "an offer beside a first relist does not populate the queue",
    AbandonTellsNobody: "who waits for the queue to be synced does not learn it from an abandoned relist",
    DeletionsAreNotMarked: "what a first relist deletes before its end is not of the initial population",
    LeftOutKeepsItsMark: "what does not count after its handler leaves its mark",
    MarksEndBeforeCommit: "the initial population ends with its last mark, committed or not",
    DrainedIsAskedOnce: "who took a last mark before the commit does not ask again whether it was the last",
    TakesAreCounted: "every pop counts as one of the initial population",
    MarksEndAtTake: "the initial population ends when its last item is taken, not handled",
    OldPageGoesOn: "a page of a superseded relist is pushed to its end",
    SweepNeverLooks: "a superseded relist sweeps on",
    SweepDecidesByItsLook: "a sweep deletes by what it saw with the shard shared",
    BegunBeforeItWaits: "offers count as listed by a begin that an older relist's pages may still come after",
    BeginPassesNoLock: "a begin does not wait for what an older relist is pushing",
    KnownReadBeforeTheWord: "what is known is read before the slot is seen idle",
    PassWakesNobody: "a live push that passes a backlog wakes nobody",
    SettledBacklogWakesNobody: "settle queues what is of a backlog and wakes nobody",
    NoteReadBeforeTheWord: "a noted version is read before the slot is seen idle",
    NoteOutlivesTheObject: "a deleted object's version stays noted",
    SkipIgnoresTheHandler: "an object counts as unchanged while a handler changes it",
    RunPublishedLate: "a run is popped first and published after",
    NoSecondLook: "who waits sleeps without a second look",
    AsyncNoSecondLook: "a future waits without a second look",
    PlainNotify: "a notification counts those that have not run yet",
    RunWakesOne: "a run wakes one consumer",
    CloseWakesNobody: "close wakes nobody",
    ClosedIsLookedAtLast: "closed is looked at after the queue",
    ClosedHandsNothingOn: "closed is seen before what was queued before it",
    CloseIsToldFirst: "who waits for other things than keys is told of the close before it",
    MarksHandNothingOn: "the end of a handler does not hand on what it did to who learns that the queue is synced",
    ResyncQueuesAfterUnlock: "a resync joins the queue after the shard's lock",
    ResyncWakesNobody: "a resync wakes nobody",
    WalkWakesOne: "a sweep wakes one consumer",
    OldDeleteCounts: "a superseded relist still deletes",
    OlderListWins: "an older relist's keys count as listed by the newest one, over a store elsewhere",
    ScopeEndsAll: "the end of a scope's relist ends the stamps for the others' open relists",
    ScopeSweepsAll: "a scope's commit deletes keys of other scopes",
    GreatestScopeApplies: "the applied version is the greatest of the scopes' versions",
    FirstScopeSyncs: "the initial population is complete when one scope is listed",
    GivenBackWakesNobody: "what is left of a batch goes back and wakes nobody",
    GivenBackBehind: "what is left of a batch goes to the end of the head",
    SweepLooksUnlocked: "a sweep of a store elsewhere looks before it has the shard's lock whether a key was written",
    OldValuesLeftLate: "an index leaves the old values after the new object is there",
    NoticeLeavesNothing: "who builds an index leaves no notice of what it has read",
    BuiltOutOfTurn: "what is known goes into an index that is being built out of turn",
    WrittenOutOfTurn: "a writer changes an index that is being built out of turn",
    BuiltFromWhatWas: "an index is built from an object that is not known any more",
    WriteEndsUnheard: "who waits to write a key of a store without a queue is not woken by the writer before",
    PassLeavesTheEntry: "a key that passes the backlog is still its entry's too",
    StaleIsTaken: "who comes to a stale entry takes its slot",
    StaleIsLeftThere: "who gives up the last entry of a slot that knows nothing leaves it in the table",
    RetiredInBacklog: "a slot is retired while a backlog has an entry for it",
    RevivedTwice: "a relist queues a slot once more whose stale entry is still in the queue",
    HandlersHoldNothing: "a version is applied when what came before it is taken, not handled",
    QueuedAgainIsNotParked: "what a handler's end queues again counts as offered after the markers before it",
    PushedOverCountsFromTheEnd: "what was pushed over a handler counts as offered when it ended",
    GivenBackIsNotParked: "what a batch gives back counts as offered after the markers that came meanwhile",
    LateRunIsNotParked: "what a page queues behind a marker counts as offered after it, whoever pushed on it before",
    JoinedAheadOfItsPlace: "a page that pushes on a slot does not wait for the offer that queues it",
    ClaimHoldsNothing: "what is pushed while a store elsewhere is asked counts as applied",
    PassedIsNotParked: "what passes the backlog counts as offered when it passed",
    AppliedTellsNobody: "who waits for a version is not told that it is applied",
    RewindTellsNobody: "who waits for a version is not told that a list has begun another history",
    CommitMarksLate: "a commit queues its marker when it has ended, perhaps after the next one's",
    AppliedCloseTellsNobody: "who waits for a version is not told of the close",
    DroppedQueueForgets: "a dropped queue does not release what is pending",
    TurnsOverlap: "who pops in order does not look whether somebody has the turn",
    TurnHidesWhatIsLeft: "who pops a closed queue in order does not wait for what a turn may give back",
    TurnEndsInSilence: "a turn ends, and wakes nobody for what is left",
    LastTurnTellsNobody: "the last turn of a closed queue ends, and who waits is not told",
    AppendWakesNobody: "an event is appended and wakes nobody",
    SyncedAfterTheTurn: "the initial population ends when the next turn may have begun",
    CommittedWhenQueued: "a relist in order can be handled before it is committed",
    CommitIsMarkedFirst: "a commit marks its version before it finds out that it is superseded",
    BatchKeepsItsMarks: "a batch keeps the marks of the initial population until it is dropped",
    StaleEndKeepsMarks: "a batch keeps its marks if the last of its entries are stale",
    OfferWakesUnderLock: "an offer wakes consumers before it releases the shard",
    ResyncWakesUnderLock: "a resync wakes consumers before it releases the shard",
    PeekReleasesUnderLock: "a peeked copy is released under the shard's lock",
    UnchangedReleasedUnderLock: "known objects that a relist leaves unchanged are released under the shard's lock",
    PlainNotifyInOrder: "an event of the in-order queue wakes nobody while a notified consumer has not run",
    IndexReadByShards: "a reader of an index value locks one of its shards at a time",
    IndexLeftInOwnShard: "a slot leaves an index value only in its thread's shard",
    RefusedWriteForgetsFound: "a refused write does not put back what only a search of the indexes has found",
}

/// Returns the number of slots, so that a model can check that none is left behind.
pub fn slots<T: Send + Sync, M: Meta<T>>(fifo: &DeltaFifo<T, M>) -> usize {
    let mut slots = 0;
    for shard in fifo.store().core.table.shards() {
        slots += shard.write().slots_near().count();
    }
    slots
}

macro_rules! mutant {
    ($name:ident => $defect:expr; $healthy:expr) => {
        if $crate::engine::sync::mutants::is($crate::engine::sync::mutants::Mutant::$name) { $defect } else { $healthy }
    };
    ($name:ident => $($defect:tt)*) => {
        if $crate::engine::sync::mutants::is($crate::engine::sync::mutants::Mutant::$name) {
            $($defect)*
        }
    };
}
pub(crate) use mutant;

/// Returns the ordering of a transition, weakened if the chosen mutant says so.
fn weakened(order: Ordering, without_release: Mutant, without_acquire: Mutant) -> Ordering {
    match order {
        AcqRel if is(without_release) => Acquire,
        AcqRel if is(without_acquire) => Release,
        Release if is(without_release) => Relaxed,
        Acquire if is(without_acquire) => Relaxed,
        order => order,
    }
}

/// The word of a slot.
pub(crate) struct WordCell<T>(AtomicPtr<T>);

impl<T> WordCell<T> {
    pub(crate) fn new(word: *mut T) -> Self {
        Self(AtomicPtr::new(word))
    }

    pub(crate) fn load(&self, order: Ordering) -> *mut T {
        self.0.load(if is(Mutant::WordLooksRelaxed) { Relaxed } else { order })
    }

    pub(crate) fn swap(&self, word: *mut T, order: Ordering) -> *mut T {
        self.0.swap(word, weakened(order, Mutant::WordWithoutRelease, Mutant::WordWithoutAcquire))
    }

    pub(crate) fn compare_exchange(
        &self,
        seen: *mut T,
        word: *mut T,
        order: Ordering,
        failed: Ordering,
    ) -> Result<*mut T, *mut T> {
        let order = weakened(order, Mutant::WordWithoutRelease, Mutant::WordWithoutAcquire);
        let failed = if is(Mutant::WordLooksRelaxed) { Relaxed } else { failed };
        self.0.compare_exchange(seen, word, order, failed)
    }
}

/// The known object of a slot.
pub(crate) struct KnownCell<T>(AtomicPtr<T>);

impl<T> KnownCell<T> {
    pub(crate) fn new(object: *mut T) -> Self {
        Self(AtomicPtr::new(object))
    }

    pub(crate) fn load(&self, order: Ordering) -> *mut T {
        self.0.load(order)
    }

    pub(crate) fn swap(&self, object: *mut T, order: Ordering) -> *mut T {
        self.0.swap(object, order)
    }

    pub(crate) fn compare_exchange_weak(
        &self,
        seen: *mut T,
        object: *mut T,
        order: Ordering,
        failed: Ordering,
    ) -> Result<*mut T, *mut T> {
        let order = weakened(order, Mutant::KnownWithoutRelease, Mutant::KnownWithoutAcquire);
        self.0.compare_exchange(seen, object, order, failed)
    }
}

/// The stamp of a slot.
pub(crate) struct StampCell(AtomicU32);

impl StampCell {
    pub(crate) fn new(stamp: u32) -> Self {
        Self(AtomicU32::new(stamp))
    }

    pub(crate) fn load(&self, order: Ordering) -> u32 {
        self.0.load(order)
    }

    pub(crate) fn store(&self, stamp: u32, order: Ordering) {
        self.0.store(stamp, order);
    }

    pub(crate) fn fetch_max(&self, stamp: u32, order: Ordering) {
        if is(Mutant::StampIsStored) {
            self.0.store(stamp, order);
        } else {
            self.0.fetch_max(stamp, order);
        }
    }
}
