//! A walk over all stored objects, which lets other tasks run between its steps.

use std::sync::Arc;

use deltafifo::{IndexReader, Meta, WalkPosition};

/// The number of stored objects that are visited before the task may yield.
const STRIDE: usize = 64;

/// Calls `visit` with the key of each stored object, and the object. An object that is stored
/// during the whole walk is visited once.
pub(super) async fn for_each_stored<K, M: Meta<K>>(
    store: &IndexReader<K, M>,
    mut visit: impl FnMut(Box<str>, Arc<K>),
) {
    let mut at = Some(WalkPosition::default());
    while let Some(from) = at {
        let step = store.walk(from, STRIDE);
        step.objects.into_iter().for_each(|(key, object)| visit(key, object));
        at = step.next;
        tokio::task::consume_budget().await;
    }
}
