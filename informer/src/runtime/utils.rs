//! The adapters that [`WatchStreamExt`] returns, backoffs, and kube's cancelling join handle
//! (kube's `utils`).

pub use kube::runtime::utils::{
    Backoff, CancelableJoinHandle, EventDecode, EventModify, PredicateConfig, PredicateFilter,
    ResetTimerBackoff, StreamBackoff,
};

pub use super::{Predicate, WatchStreamExt, predicates};
