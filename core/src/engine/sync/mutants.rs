//! Deliberate defects for `ci/models.sh`: each must make a model fail. A model program chooses one
//! of them, or none, when it starts. This file and the `mutant!` lines are compiled only under
//! `--cfg deltafifo_loom` or `--cfg deltafifo_shuttle`.
//!
//! A weakened ordering, or a plain store in place of a read-modify-write, needs no line in the
//! shipped source: it is implemented here, in the role types. A role type is an atomic for one
//! use, for example `WordCell` for the word of a slot.

use super::gated::{AtomicPtr, AtomicU32};
use super::imp::Ordering;
use crate::{DeltaFifo, Meta};
use Ordering::{AcqRel, Acquire, Relaxed, Release};

/// Defines a list of deliberate defects. A process chooses at most one of them. The informer has a
/// list of its own.
#[macro_export]
macro_rules! mutants {
    ($($name:ident: $what:literal,)*) => {
        /// A deliberate defect, by name.
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
    WordWithoutRelease: "transitions of the word do not release",
    WordWithoutAcquire: "transitions of the word do not acquire",
    WordLoadsRelaxed: "loads of the word do not acquire",
    KnownWithoutRelease: "the store publishes an object before it is completely written",
    KnownWithoutAcquire: "readers of the store do not acquire",
    KnownReadUnlocked: "a reader raises the count of an object that may already be released",
    StampIsStored: "a stamp is stored instead of raised",
    JoinedIsQueuedToo: "a push on a pending or running slot queues the slot again",
    IdleIsStored: "settle leaves RUNNING without checking for new deltas",
    PeekIsATake: "get holds the slot as a taker does",
    KnownIsReadAfterThePeek: "get reads the known object after it has put the list back",
    HandledIsUnknown: "a new key whose handler runs counts as unknown, although the handler stores it",
    RunningDecidesNothing: "a deletion during a handler counts, whether or not the handler leaves a known object",
    RunningIsDecidedAtOnce: "whether a deletion during a handler counts is decided before the handler ends",
    RetireFromEmpty: "the settler goes to EMPTY before it retires the slot",
    PutBackBehind: "deltas that are put back come after those that arrived during the handler",
    SettleDoesNotWake: "settle queues a slot and wakes no consumer",
    CancelledIsLost: "a guard that is dropped without a verdict loses its deltas",
    OffersLetOffersIn: "an offer locks its shard shared instead of exclusively",
    QueuedAfterUnlock: "an offer queues its slot after it has released the shard",
    OfferDoesNotWake: "an offer wakes no consumer",
    BatchesDoNotStamp: "a batch during a relist does not count as listed",
    DeltasDoNotStamp: "deltas that are added as a whole during a relist do not count as listed",
    OffersDoNotStamp: "an offer during a relist does not count as listed",
    AbandonForgetsTheOffer: "an abandoned relist leaves the queue unpopulated, although an offer populated it",
    OfferForgetsTheClaim: "an offer during a first relist does not populate the queue",
    AbandonWakesNoWaiter: "an abandoned relist does not wake the threads that wait for the queue to be synced",
    DeletionsAreNotMarked: "keys that a first relist deletes before its end do not belong to the initial population",
    LeftOutKeepsItsMark: "a delta that its handler's end drops keeps its mark",
    MarksEndBeforeCommit: "the initial population ends with its last mark, committed or not",
    DrainedIsAskedOnce: "a consumer that took a last mark before the commit does not check again whether it was the last",
    TakesAreCounted: "every pop counts as one of the initial population",
    MarksEndAtTake: "the initial population ends when its last item is taken, not handled",
    OldPageContinues: "a page of a superseded relist is pushed to its end",
    SweepChecksNothing: "a superseded relist does not stop its sweep",
    SweepDecidesByFirstRead: "a sweep decides about a deletion by the state that it read while the shard was locked shared",
    BegunBeforeItWaits: "a begin counts offers as listed before the pages of an older relist have ended",
    BeginPassesNoLock: "a begin does not wait for the pushes of an older relist",
    KnownReadBeforeTheWord: "the known object is read before the slot is seen idle",
    PassWakesNoConsumer: "a live push that passes a backlog wakes no consumer",
    SettledBacklogWakesNoConsumer: "settle queues a slot on the backlog and wakes no consumer",
    NoteReadBeforeTheWord: "a recorded version is read before the slot is seen idle",
    NoteIgnoresTheWriter: "a relist records the version of an object that was replaced since it was compared",
    NoteOutlivesTheObject: "the version of a deleted object stays recorded",
    SkipIgnoresTheHandler: "an object counts as unchanged while a handler changes it",
    RunPublishedLate: "a slot of a run is popped before the run is visible to other consumers",
    NoSecondCheck: "a waiter sleeps without a second check",
    AsyncNoSecondCheck: "a future waits without a second check",
    PlainNotify: "a notification counts earlier ones that have not been consumed",
    RunWakesOne: "a run wakes one consumer only",
    CloseWakesNoWaiter: "close wakes no consumer",
    ClosedIsReadLast: "closed is read after the queue",
    ClosedPassesNothingOn: "a thread sees the queue closed and does not see the entries that were queued before",
    CloseIsNotifiedFirst: "close wakes waiters that do not wait for keys before it sets closed",
    MarksPassNothingOn: "the end of a handler does not release its work to a thread that sees the queue synced",
    ResyncQueuesAfterUnlock: "a resync queues its slots after it has released the shard",
    ResyncWakesNoConsumer: "a resync wakes no consumer",
    WalkWakesOne: "a sweep wakes one consumer only",
    OldDeleteCounts: "a superseded relist still deletes",
    OlderListWins: "over an external store, the keys of an older relist count as listed by the newest one",
    ScopeEndsAll: "the end of a scope's relist ends the stamps for the others' open relists",
    ScopeSweepsAll: "a scope's commit deletes keys of other scopes",
    GreatestScopeApplies: "the applied version is the greatest of the scopes' versions",
    AnyOpenScopeIsCurrent: "a superseded relist of a scope is current while one of another scope is open",
    BeginForgetsOtherScopes: "over an external store, the begin of a scope's relist drops the keys that other scopes have listed",
    RemovalIsNotOpen: "offers during the removal of a scope do not count as listed by a scope that is added again",
    RemovalIgnoresLists: "over an external store, the removal of a scope deletes keys that a scope that is added again has listed",
    SweepPassesHandlers: "a sweep does not delete keys whose handlers run",
    SweptCountsAsUnlisted: "a sweep of an external store deletes keys twice: in the slots and in the store",
    OldEndCounts: "the end of a relist from before the removal of its scope ends the removal",
    ListedByAnotherScope: "over an external store, a resync or deletion keeps a key that was written during the relist of another scope only",
    EndForgetsOtherScopes: "over an external store, the end of a scope's relist drops the keys that other scopes have listed",
    NewScopeIsAhead: "a new scope does not hold the applied version back before its first list",
    ScopeCheckedOnce: "a scope is added although another one was added after the check",
    ListedAfterTheRemoval: "an in-order list of a scope is queued after the scopes were unlocked",
    WholeListBesideScopes: "an in-order list of the whole queue is queued after the scopes were unlocked",
    WaivedScopeSyncs: "a waived scope completes the initial population, although another one is not listed",
    ListedScopeIsNotWaived: "a scope that is waived after its first list holds the applied version back",
    AnyListIsTheFirst: "a list that does not end the wait for its scope's first list counts as that list when the scope is awaited once more",
    UnmarkedListEndsTheWait: "a list that began while its scope was waived ends the wait for the scope's first list",
    UncountedListCounts: "the last list of a scope, which offers only a part of it, counts as its first list when the scope is awaited again",
    AwaitedScopeIsAhead: "a scope that counts again after a waiver does not hold the applied version back",
    ListIsOfTheCurrentHistory: "a list that began before a restore was noticed is of the new history",
    RemovalEndsTheWait: "the removal of a scope ends the wait for the list of a scope that was added since",
    NewKeyHasNoNamespace: "a new key is not recorded under its namespace",
    FirstScopeSyncs: "the initial population is complete when one scope is listed",
    GivenBackWakesNoConsumer: "the rest of a batch is given back and wakes no consumer",
    GivenBackBehind: "the rest of a batch is given back behind the slots at the head of the queue",
    SweepReadsUnlocked: "a sweep of an external store checks for writes of a key before it locks the shard",
    OldValuesLeftEarly: "an object leaves the old values of an index before it joins the new ones",
    MovingIsNotChecked: "a reader of an index does not check an object that moves between values",
    MoveCheckedAfterOnly: "a reader of an index checks for a move only after it has read the object",
    MoveCheckedBeforeOnly: "a reader of an index checks for a move only before it reads the object",
    IndexReadByValues: "a reader of several index values locks one of them at a time",
    NoticeLeavesNothing: "the builder of an index does not mark the objects that it has read",
    BuiltUnlocked: "the builder adds a known object to an index without holding the index's lock",
    WrittenUnlocked: "a writer changes an index under construction without holding the index's lock",
    BuildEndsUnnoticed: "a thread that waits for another thread's build of an index is not woken at its end",
    BuiltFromOldObject: "an index is built from an object that is no longer known",
    WriteEndsUnnotified: "the end of a write to a store without a queue does not wake the next writer of the key",
    PassLeavesTheEntry: "a key that passes the backlog also keeps its entry there",
    StaleIsTaken: "a consumer that reaches a stale entry takes its slot",
    StaleIsLeftThere: "giving up the last entry of a slot without a known object leaves the slot in the table",
    RetiredInBacklog: "a slot is retired while a backlog has an entry for it",
    RevivedTwice: "a relist queues a slot again whose stale entry is still in the queue",
    HandlersHoldNothing: "a version is applied when everything before it is taken, not handled",
    QueuedAgainIsNotParked: "deltas that a handler's end queues again count as offered after the markers before them",
    PushedOverCountsFromTheEnd: "deltas pushed on a running slot count as offered when the handler ended",
    GivenBackIsNotParked: "keys that a batch gives back count as offered after the markers queued since",
    LateRunIsNotParked: "a page that is queued behind a marker counts as offered after it, although other offers joined its slots before",
    JoinedAheadOfItsPlace: "a page that pushes on a slot does not wait for the offer that queues the slot",
    ClaimHoldsNothing: "deltas pushed while a call of an external store runs count as applied",
    PassedIsNotParked: "a key that passes the backlog counts as offered at that time",
    AppliedWakesNoWaiter: "the threads that wait for a version are not woken when it is applied",
    RewindWakesNoWaiter: "the threads that wait for a version are not woken when a list begins another history",
    CommitMarksLate: "a commit queues its marker after it has ended, possibly after the next commit's",
    AppliedCloseWakesNoWaiter: "the threads that wait for a version are not woken by the close",
    DroppedQueueForgets: "a dropped queue does not release its pending deltas",
    TurnsOverlap: "an in-order pop does not check whether another turn runs",
    TurnHidesRemainingEvents: "an in-order pop of a closed queue does not wait for what a turn may give back",
    TurnEndWakesNoConsumer: "a turn ends and wakes no consumer for the remaining events",
    LastTurnWakesNoWaiter: "the last turn of a closed queue ends and does not wake the waiters",
    AppendWakesNoConsumer: "an event is appended and wakes no consumer",
    SyncedAfterTheTurn: "the initial population ends when the next turn may have begun",
    CommittedWhenQueued: "a relist of the in-order queue can be handled before it is committed",
    CommitIsMarkedFirst: "a commit marks its version before it detects that it is superseded",
    ScopeIsMarkedFirst: "a scope's commit marks its version before it detects that it is superseded",
    BatchKeepsItsMarks: "a batch keeps the marks of the initial population until it is dropped",
    BatchKeepsMarksForOthers: "a batch keeps its marks while it has a key that does not belong to the initial population",
    StaleEndKeepsMarks: "a batch keeps its marks if the last of its entries are stale",
    StaleEndKeepsTrackedMarks: "a batch of a queue that tracks the applied version keeps its marks if the last of its entries are stale",
    OfferWakesUnderLock: "an offer wakes consumers before it releases the shard",
    ResyncWakesUnderLock: "a resync wakes consumers before it releases the shard",
    PeekReleasesUnderLock: "a peeked copy is dropped under the shard's lock",
    UnchangedReleasedUnderLock: "known objects that a relist leaves unchanged are dropped under the shard's lock",
    ProbeReleasesUnderLock: "a known object that a probe compares is dropped under the shard's lock",
    FoundReleasedUnderLock: "an object that a look-up of several index values finds twice is dropped under the index's lock",
    RefusedListReleasedUnderLock: "an in-order list that is refused because the queue has scopes is dropped under the scopes' lock",
    RefusedScopeListReleasedUnderLock: "an in-order list of a removed scope is dropped under the scopes' lock",
    TurnEndNotifiesPlainly: "the end of a turn wakes no consumer while a notified one has not run",
    PlainNotifyInOrder: "an event of the in-order queue wakes no consumer while a notified one has not run",
    IndexReadByShards: "a reader of an index value locks one of its shards at a time",
    IndexLeftInOwnShard: "a slot leaves an index value only in its thread's shard",
    RefusedWriteStaysJoined: "a refused write leaves the object under the index values of the refused one",
    AdmitsInTwoSteps: "a gate checks that it is open before it counts the work that it admits",
    JoinsIdleGate: "work is counted as a part of work in progress, although the gate is idle",
    LeavesWithoutRelease: "the end of work is not visible to the thread that finds the gate idle",
    AdmitsWithoutAcquire: "admitted work does not see what was done before the gate was opened",
    ClosedIsReadBeforeLeaving: "work checks whether the gate is closed before it ends",
    HeldIsCheckedBeforeAdmission: "work checks that its tenure is held before it is counted",
    AdmissionIsEnough: "work that the gate admits does not check that its tenure is held",
    WallIsMovedLast: "a deadline moves by the monotonic clock before it moves by the wall clock",
    DeadlineWithoutRelease: "a deadline by the monotonic clock is visible before that by the wall clock",
    PassedDeadlineComesBack: "a deadline that was found to have passed comes back when it is moved",
    AdmitsBeforePublication: "a gate admits work before its next hold is published and the former one has ended",
    EndedHoldIsContinued: "a gate is opened again with its hold, although the hold has ended",
    ReopeningEndsTheHold: "a gate that is opened again for its hold gets another one",
    FormerHoldContinues: "a hold does not end when its gate is opened for another one",
    HoldEndsUnderLock: "the former hold of a gate ends under the lock of a stripe",
    ClosedGateIsNotedFirst: "the owner of a gate is woken before the gate refuses work",
    ClosesOwnStripe: "a gate refuses work only in the stripe of the owner's thread",
    OwnStripeIsEnough: "a gate is idle when the stripe of the owner's thread is",
    RevokedHoldContinues: "the hold of a revoked gate does not end",
    ReportedHoldContinues: "the hold of a gate that was reported to be idle does not end",
    ReportedGateIsReportedAgain: "an idle gate is reported again and again",
    FirstGateIsAwaited: "a gate is reported only after those with lower numbers that are closed",
    IdleGateReportsTheFirst: "of several closed gates, the first is reported as soon as one is idle",
    OneReportForIdleGates: "if several gates are idle, only one of them is reported",
    DroppedWaitLosesItsGate: "a wait for an idle gate that is dropped while pending may have taken the gate",
    LaterCloseIsNotAwaited: "the wait for all gates ends after as many reports as gates were closed when it began",
    AllIdleReportsNone: "the wait for all gates reports none of them, so their holds continue",
    EndedWorkWakesNoOwner: "the last piece of work behind a closed gate does not wake the owner",
    JoinsOwnStripe: "a request joins only the work of its thread's stripe",
    JoinsEndedHold: "a request joins work in progress although the hold has ended",
    DroppedGatesKeepHolds: "the holds of gates that are dropped do not end",
    BuiltIsJoinedAgain: "a writer adds an object to an index under construction although the builder has added it",
}

/// Returns the number of slots, so that a model can check that none is left behind.
pub fn slots<T: Send + Sync, M: Meta<T>>(fifo: &DeltaFifo<T, M>) -> usize {
    let mut slots = 0;
    for shard in fifo.store().core.table.shards() {
        slots += shard.write().slots_near().count();
    }
    slots
}

/// Expands to a defect that has an effect only if its mutant was chosen. The path in brackets names
/// the module that has the list of mutants.
#[macro_export]
macro_rules! mutant_of {
    // Replaces the value of a variable, or of several in parentheses.
    ([$($list:tt)*] $name:ident => let $variable:tt = $defect:expr) => {
        let $variable = if $($list)*::is($($list)*::Mutant::$name) { $defect } else { $variable };
    };
    ([$($list:tt)*] $name:ident => $($defect:tt)*) => {
        if $($list)*::is($($list)*::Mutant::$name) {
            $($defect)*
        }
    };
}

macro_rules! mutant {
    ($($defect:tt)*) => {
        $crate::mutant_of!([$crate::engine::sync::mutants] $($defect)*);
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

/// The atomic for the word of a slot; a mutant can weaken its orderings.
pub(crate) struct WordCell<T>(AtomicPtr<T>);

impl<T> WordCell<T> {
    pub(crate) fn new(word: *mut T) -> Self {
        Self(AtomicPtr::new(word))
    }

    pub(crate) fn load(&self, order: Ordering) -> *mut T {
        self.0.load(if is(Mutant::WordLoadsRelaxed) { Relaxed } else { order })
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
        let failed = if is(Mutant::WordLoadsRelaxed) { Relaxed } else { failed };
        self.0.compare_exchange(seen, word, order, failed)
    }
}

/// The atomic for the known object of a slot; a mutant can weaken its orderings.
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

/// The atomic for the stamp of a slot; a mutant can replace its read-modify-write by a store.
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
