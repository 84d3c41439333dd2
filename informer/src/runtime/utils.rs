//! The adapters that [`WatchStreamExt`] returns, and backoffs (kube's `utils`).

pub use kube::runtime::utils::{
    Backoff, CancelableJoinHandle, EventDecode, EventModify, PredicateConfig, PredicateFilter,
    ResetTimerBackoff, StreamBackoff,
};

pub use super::predicate::{Combine, Compared, Fallback, Hashed, Predicate, Unhidden};
pub use super::predicates;
pub use super::watch_stream::WatchStreamExt;
