//! The name in models. Key and version number are separate fields, because the checkers' atomics
//! cannot share bytes with the key.

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

    pub(super) fn has_room(&self) -> bool {
        true
    }

    /// Returns the noted version. Relaxed, as in the shipped type: the slot's word orders it.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// Notes a version. Relaxed, as in `version`.
    pub(super) fn note_version(&self, version: u64) {
        self.version.store(version, Ordering::Relaxed);
    }
}
