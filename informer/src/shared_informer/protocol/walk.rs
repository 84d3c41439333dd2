//! A handler's walk over the store.

use deltafifo::{IndexReader, Meta, WalkPosition, WalkStep};

use super::super::sync::{Arc, STRIDE};

/// What a walk reads.
pub(in super::super) trait Known<K>: Send + Sync {
    fn walk(&self, from: WalkPosition) -> WalkStep<K>;
    fn has_walked(&self, position: WalkPosition, key: &str) -> bool;
    fn get(&self, key: &str) -> Option<Arc<K>>;
    fn uid<'a>(&self, object: &'a K) -> Option<&'a str>;
}

impl<K: Send + Sync, M: Meta<K>> Known<K> for IndexReader<K, M> {
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

/// Why a handler walks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// To be told for the first time.
    Late,
    /// To be told anew, after changes were dropped.
    Dropped,
    /// To be told again.
    Period,
}

pub(super) struct Walk {
    pub(super) reason: Reason,
    /// `None`: it has been everywhere.
    pub(super) at: Option<WalkPosition>,
    /// What it came by on a desk, and was not told since.
    pub(super) passed: Vec<Arc<str>>,
    /// Whether it waits for who has everything in hand.
    pub(super) waits: bool,
}

impl Walk {
    pub(super) fn new(reason: Reason) -> Self {
        Self { reason, at: Some(WalkPosition::default()), passed: Vec::new(), waits: false }
    }
}
