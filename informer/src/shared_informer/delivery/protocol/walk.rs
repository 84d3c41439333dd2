//! A handler's walk over the store.

use deltafifo::{IndexReader, Meta, WalkPosition, WalkStep};

use crate::shared_informer::sync::{Arc, STRIDE};

/// The methods of the store that a walk uses. The trait hides the type of the accessor.
pub(in super::super) trait WalkedStore<K>: Send + Sync {
    fn walk(&self, from: WalkPosition) -> WalkStep<K>;
    fn has_walked(&self, position: WalkPosition, key: &str) -> bool;
    fn get(&self, key: &str) -> Option<Arc<K>>;
    fn uid<'a>(&self, object: &'a K) -> Option<&'a str>;
}

impl<K: Send + Sync, M: Meta<K>> WalkedStore<K> for IndexReader<K, M> {
    fn walk(&self, from: WalkPosition) -> WalkStep<K> {
        self.walk(from, STRIDE)
    }

    fn has_walked(&self, position: WalkPosition, key: &str) -> bool {
        self.has_walked(position, key)
    }

    fn get(&self, key: &str) -> Option<Arc<K>> {
        self.get_by_key(key)
    }

    fn uid<'a>(&self, object: &'a K) -> Option<&'a str> {
        self.keys().meta().uid(object)
    }
}

/// The reason for a walk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// The handler is new, and knows no objects.
    Late,
    /// The buffer dropped changes, so the handler is notified of all objects anew.
    Dropped,
    /// A periodic resync.
    Period,
}

/// The state of a walk.
pub(super) struct Walk {
    pub(super) reason: Reason,
    /// The position in the store, or `None` if the walk has read all objects.
    pub(super) at: Option<WalkPosition>,
    /// The keys that were active when the walk passed them, and whose changes have not been
    /// offered since.
    pub(super) passed: Vec<Arc<str>>,
    /// Whether the walk waits until a worker has ended its work on all keys (for example a list of
    /// an in-order queue).
    pub(super) waits: bool,
}

impl Walk {
    pub(super) fn new(reason: Reason) -> Self {
        Self { reason, at: Some(WalkPosition::default()), passed: Vec::new(), waits: false }
    }
}
