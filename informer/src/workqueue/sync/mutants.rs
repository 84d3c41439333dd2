//! Deliberate defects of the work queue, for `ci/shuttle.sh`: with each of them some schedule must
//! fail. At most one is chosen when the program starts. This file and the `mutant!` lines are
//! compiled only under `--cfg deltafifo_shuttle`.

deltafifo::mutants! {
    AddWakesNoGetter: "an add queues a key and wakes no getter",
    AddDuringProcessingIsLost: "a key that is added while it is processed is not queued afterwards",
    ProcessingKeyIsQueued: "a key that is added while it is processed is queued at once",
    QueuedAgainWakesNoGetter: "the end of a processing queues the key again and wakes no getter",
    NoSecondCheck: "a getter sleeps without a second check",
    WakerIsNotReplaced: "a getter that is polled with another waker keeps its first one",
    GiveUpLosesTheNext: "a getter that was woken and is dropped marks the next one as woken, and does not wake it",
    ShutDownWakesOne: "a shutdown wakes one getter only",
    DrainIgnoresProcessing: "a drain does not wait for keys that are being processed",
    LastEndWakesNoDrain: "the end of the last processing does not wake the drain",
}

macro_rules! mutant {
    ($($defect:tt)*) => {
        deltafifo::mutant_of!([$crate::workqueue::mutants] $($defect)*);
    };
}
pub(crate) use mutant;
