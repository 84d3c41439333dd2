//! In models the key and the number of the version stand side by side: the checkers' atomics have no bytes to share.

use crate::engine::sync::{AtomicU64, Ordering};

pub(super) struct Name {
    key: Box<str>,
    version: AtomicU64,
}

impl Name {
    pub(super) fn new(key: &str) -> Self {
        Self { key: key.into(), version: AtomicU64::new(0) }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.key
    }

    /// Relaxed, as in the type that ships: the slot's word has the order.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// Relaxed, as `version`.
    pub(super) fn note_version(&self, version: u64) {
        self.version.store(version, Ordering::Relaxed);
    }
}
