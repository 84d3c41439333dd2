//! Engines that already know a list, for all workloads.

use std::sync::Arc;

use crate::engines::{Counts, ListEngine, QueueEngine};

/// The error of a child process.
pub type ChildError = Box<dyn std::error::Error>;

/// Creates an engine that knows a list.
pub(super) fn filled<T, E: QueueEngine<T>>(new: impl Fn() -> E, list: &[Arc<T>]) -> E {
    let engine = new();
    relist(&engine, list.to_vec());
    engine
}

/// Relists, outside the measured time. Returns the counts of the handler.
pub(super) fn relist<T, E: ListEngine<T>>(engine: &E, list: E::List) -> Counts {
    engine.replace(list, "1");
    engine.drain()
}
