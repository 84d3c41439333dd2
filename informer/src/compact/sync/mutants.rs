//! Deliberate defects of compact objects, for `ci/shuttle.sh`: with each of them some schedule must
//! fail. At most one is chosen when the program starts. This file and the `mutant!` lines are
//! compiled only under `--cfg deltafifo_shuttle`.

deltafifo::mutants! {
    BaseIsChangedInPlace: "the text of an outdated base is replaced, although differences from it are stored",
    ObjectIsReadInParts: "a reader of an object takes its bytes, and then its base or dictionary",
    BaseIsReadInParts: "a reader of a base takes its bytes, and then its dictionary",
    DictionaryIsReadTwice: "an object is packed with one dictionary, and refers to a newer one",
    EveryTextIsCounted: "the text of a base that two threads unpack at once is counted twice",
    AdmittedBeforeCounted: "the cache may evict a text before the text is counted",
    AdmittedUnderLock: "the text of a base is locked while the cache evicts others",
    EvictedIsSubtractedAgain: "a base that was evicted subtracts its text again when it is dropped",
    DroppedTextStaysCounted: "a base that is dropped does not subtract its text",
    ReplacedStaysCounted: "an object that is packed again does not subtract its bytes if it holds no base",
}

macro_rules! mutant {
    ($($defect:tt)*) => {
        deltafifo::mutant_of!([$crate::compact::mutants] $($defect)*);
    };
}
pub(crate) use mutant;
