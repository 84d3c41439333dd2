//! Deliberate defects of shared informers, for `ci/shuttle.sh`: with each of them some schedule
//! must fail. At most one is chosen when the program starts. This file and the `mutant!` lines are
//! compiled only under `--cfg deltafifo_shuttle`.

deltafifo::mutants! {
    ChecksActiveKeysBeforeRead: "a walk checks the active keys before it reads the store",
    PassesOnlyStoredKeys: "a walk marks only stored keys as passed, and not deleted ones in its stride",
    PassedKeyIsNotRecorded: "a walk discards the object of an active key and does not record the key as passed",
    PassedKeyCountsAsDelivered: "the first offer of a passed key counts as an update of an object that the handler knows",
    WalkEndsWithPassedKeys: "a walk ends although passed keys were neither offered nor settled",
    KeyAheadOfWalkIsDelivered: "a change of a key that the walk has not reached is delivered as well",
    ResyncDeliversActiveKey: "a resync delivers the object of an active key",
    ActiveKeyIsClearedAfterSettle: "a worker settles passed keys before it clears its active key",
    ActiveKeyIsClearedBeforeApply: "a worker clears its active key before it applies the change",
    ListIsCopiedUnlocked: "the list of handlers is copied with no lock held, and then replaces a newer list",
    StoppedInformerAcceptsHandler: "an informer that was stopped accepts a handler",
    SyncIsRecordedLate: "a handler that is added while the others are notified of the sync is never notified of it",
    SleepsWithoutRecheck: "a handler stores its waker without checking the buffer again",
    ChangeWakesNoHandler: "a change does not wake the handler",
    RoomWakesNoWaiter: "room in a buffer does not wake the worker that waits for it",
    RemovalWakesNoWaiter: "the removal of a handler does not wake the worker that waits for room in its buffer",
    RemovalDoesNotWait: "the removal of a handler does not wait for its running call",
}

macro_rules! mutant {
    ($($defect:tt)*) => {
        deltafifo::mutant_of!([$crate::shared_informer::mutants] $($defect)*);
    };
}
pub(crate) use mutant;
