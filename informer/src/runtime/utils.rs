//! The adapters that [`WatchStreamExt`] returns, and backoffs (kube's `utils`).

pub use kube::runtime::utils::{
    Backoff, CancelableJoinHandle, EventDecode, EventModify, PredicateConfig, PredicateFilter,
    ResetTimerBackoff, StreamBackoff,
};

pub use super::{Predicate, WatchStreamExt, predicates};
