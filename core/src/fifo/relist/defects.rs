//! The code of deliberate defects (`engine/sync/mutants.rs`). Compiled only under
//! `--cfg deltafifo_loom` or `--cfg deltafifo_shuttle`.

use super::RelistSpan;
use crate::Meta;
use crate::engine::slot::{Content, Pending, Rule};
use crate::fifo::DeltaFifo;
use crate::fifo::offer::Missing;

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    /// Queues the marker of a scope's relist, with the defect `ScopeIsMarkedFirst`: the relist can
    /// still be superseded, and its version counts nevertheless.
    pub(super) fn mark_scope_of(&self, span: &RelistSpan, version: &str) {
        let Some(within) = &span.within else { return };
        let mut last = self.relists.last.lock();
        let complete = self.mark_scope(&mut last.scopes, &within.scope, version, span.began);
        drop(last);
        self.committed(complete.ok().flatten());
    }

    /// Deletes a key that an external store knows, unless the relist listed it, with the defect
    /// `SweepReadsUnlocked`: the key can be offered between the check and the deletion.
    pub(super) fn sweep_unlocked(&self, key: &str, span: &RelistSpan) {
        if !self.is_listed_elsewhere(span.generation, key.as_bytes()) {
            let deletion = Pending::new(Content::Swept(span.sweep, None));
            self.push(key.as_bytes(), deletion, Rule::IfExists, Missing::Ask);
        }
    }
}
