//! Queues a Sync for every key that is known and has nothing pending.

use std::collections::HashSet;

use super::applied::Hold;
use super::offer::Missing;
use super::{DeltaFifo, KnownPlace};
use crate::engine::ready_queue::Lane;
use crate::engine::slot::{Content, Pending, Pushed, Rule};
use crate::engine::sync::{assert_none_held, mutant};
use crate::{DeltaType, KnownObjects, Meta};

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    /// Queues `Sync`, with the known object, for every known key without pending deltas (client-go
    /// `Resync`). Without known objects it does nothing. For a key whose handler is running and
    /// that has no pending deltas, `Sync` is queued when the handler ends, if the key is known
    /// then. O(known).
    pub fn resync(&self) {
        match &self.known {
            KnownPlace::Nowhere => {}
            KnownPlace::Fused => self.resync_slots(|_| ()),
            KnownPlace::Elsewhere { objects, .. } => self.resync_elsewhere(&***objects),
        }
    }

    /// Queues a Sync for every known idle key, and calls `running` with the keys whose handlers
    /// run.
    fn resync_slots(&self, mut running: impl FnMut(&str)) {
        let mut idle = Vec::new();
        // Covers the keys that are queued at the end.
        let held = if self.ordered_walks { self.hold() } else { None };
        for shard in self.core.table.shards() {
            let shard = shard.write();
            let mut pushed = 0;
            for slot in shard.slots_near() {
                let pending =
                    Pending::new(Content::Again(DeltaType::Sync, None)).since(self.queue.now());
                let outcome = slot.push(pending, Rule::IfIdle);
                match outcome {
                    Pushed::Queue(_) => {
                        idle.extend(self.queue.ticket(Lane::Backlog, slot, outcome));
                    }
                    Pushed::Joined => running(slot.key()),
                    Pushed::Skipped(_) => continue,
                }
                pushed += 1;
            }
            self.life.depth.add(pushed);
            if self.ordered_walks {
                continue;
            }
            // The slot joins the queue before the lock is released, so that the next offer to this
            // shard comes behind it.
            let count = idle.len();
            mutant!(ResyncQueuesAfterUnlock => { self.queue_run_late(shard, &mut idle); continue });
            self.queue.push_run(Lane::Backlog, std::mem::take(&mut idle));
            mutant!(ResyncWakesUnderLock => self.queue.wake(count));
            drop(shard);
            mutant!(ResyncWakesNoConsumer => continue);
            self.queue.wake(count);
        }
        let queued = self.push_walk(idle, held.as_ref().map(Hold::epoch));
        self.queue.wake(queued);
    }

    fn resync_elsewhere(&self, objects: &dyn KnownObjects<T>) {
        // No idle slot has a known object here, so this reaches only keys whose handlers run. The
        // store may know such a key only after its first handler has ended.
        let mut running = HashSet::new();
        self.resync_slots(|key| {
            running.insert(key.to_owned());
        });
        assert_none_held();
        for key in objects.list_keys().into_iter().filter(|key| !running.contains(key)) {
            let pending = Pending::new(Content::Again(DeltaType::Sync, None));
            self.push(key.as_bytes(), pending, Rule::IfIdle, Missing::Ask);
        }
    }
}

/// The code of a deliberate defect (`engine/sync/mutants.rs`).
#[cfg(any(deltafifo_loom, deltafifo_shuttle))]
mod defects {
    use super::{DeltaFifo, Lane};
    use crate::engine::slot::Ticket;

    impl<T, M> DeltaFifo<T, M> {
        /// Queues the slots of a shard that got Syncs, with the defect `ResyncQueuesAfterUnlock`:
        /// an offer to the shard can be queued before them.
        pub(super) fn queue_run_late<G>(&self, shard: G, idle: &mut Vec<Ticket<T>>) {
            let count = idle.len();
            drop(shard);
            self.queue.push_run(Lane::Backlog, std::mem::take(idle));
            self.queue.wake(count);
        }
    }
}
