//! Deliberate defects of the protocol, for `ci/shuttle.sh`: with each of them some schedule must
//! fail. One of them, or none, is chosen when a program of schedules starts; this file and every
//! `mutant!` line exist in schedules only.

deltafifo::mutants! {
    ChecksActiveKeysBeforeRead: "a walk looks at the desks and reads then",
    PassesOnlyStoredKeys: "a walk comes by what it found only, and not by where a key would be",
    PassedKeyIsNotRecorded: "what a walk came by on a desk is left to nobody",
    PassedKeyCountsAsDelivered: "what a walk came by on a desk counts as told before",
    WalkEndsWithPassedKeys: "a walk is at its end with keys that it passed over",
    KeyAheadOfWalkIsDelivered: "a change of a key that the walk has not come to is told too",
    ResyncDeliversActiveKey: "a resync tells of what a worker has in hand",
    ActiveKeyIsClearedAfterSettle: "a worker settles what walks have passed over, and clears its desk then",
    ActiveKeyIsClearedBeforeApply: "a worker clears its desk before it applies",
    ListIsCopiedUnlocked: "the list of handlers is copied with nothing locked, and put in the place of a newer one",
    StoppedInformerAcceptsHandler: "an informer that stopped takes a handler",
    SyncIsRecordedLate: "a handler that comes while others are told that the informer has synced is not told",
    SleepsWithoutRecheck: "who sleeps for notifications does not look again",
    ChangeWakesNoHandler: "a change wakes nobody",
    RoomWakesNoWaiter: "who waits for room is not told of it",
    RemovalWakesNoWaiter: "a handler that is waited for is removed, and who waits is not told",
    RemovalDoesNotWait: "to remove a handler does not wait for its running call",
}

macro_rules! mutant {
    // Replaces the value of a variable.
    ($name:ident => let $variable:ident = $defect:expr) => {
        let $variable =
            if $crate::shared_informer::mutants::is($crate::shared_informer::mutants::Mutant::$name) {
                $defect
            } else {
                $variable
            };
    };
    ($name:ident => $($defect:tt)*) => {
        if $crate::shared_informer::mutants::is($crate::shared_informer::mutants::Mutant::$name) {
            $($defect)*
        }
    };
}
pub(crate) use mutant;
