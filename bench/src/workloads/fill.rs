//! What the workloads share: engines that know a list.

use std::sync::Arc;

use crate::engines::{Counts, ListEngine, QueueEngine};

/// Why a child failed.
pub type ChildError = Box<dyn std::error::Error>;

/// An engine that knows a list.
pub(super) fn filled<T, E: QueueEngine<T>>(new: impl Fn() -> E, list: &[Arc<T>]) -> E {
    let engine = new();
    relist(&engine, list.to_vec());
    engine
}

/// A relist that is not measured; what the handler counted.
pub(super) fn relist<T, E: ListEngine<T>>(engine: &E, list: E::List) -> Counts {
    engine.replace(list, "1");
    engine.drain()
}
