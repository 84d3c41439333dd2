//! Finds the deletions of a relist at its commit: the keys that are known or pending and whose
//! slots do not have the relist's stamp, which means that the relist did not list them.

use crossbeam::utils::CachePadded;

use super::super::applied::Hold;
use super::super::offer::Missing;
use super::super::threads::on_threads;
use super::super::wakeups::Wakeups;
use super::super::{DeltaFifo, KnownPlace};
use super::RelistSpan;
use crate::Meta;
use crate::engine::ready_queue::Lane;
use crate::engine::shard::Shard;
use crate::engine::slot::{Content, Pending, Pushed, Rule, Slot, Ticket};
use crate::engine::sync::{GROUP, RwLock, assert_none_held, mutant};
use crate::scope::Within;

/// The result of a sweep of some of the table's shards.
struct Swept<T> {
    deleted: usize,
    /// The number of marks of the initial population that were set for a key and are not needed,
    /// because the key was neither pending nor known.
    skipped: usize,
    /// The slots to queue.
    queued: Vec<Ticket<T>>,
}

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    /// Queues a deletion for each key, in the slots and in an external store, that the relist did
    /// not list. Returns the number of deletions.
    pub(in crate::fifo) fn sweep(&self, span: &RelistSpan) -> usize {
        self.sweep_slots(span) + self.sweep_elsewhere(span)
    }

    /// Queues a deletion for each key whose slot has an older stamp, on as many threads as a page
    /// with all slots would be joined on. Returns the number of deletions.
    fn sweep_slots(&self, span: &RelistSpan) -> usize {
        let shards = self.core.table.shards();
        let slots = || shards.iter().map(|shard| shard.read().len()).sum();
        let each = shards.len().div_ceil(self.threads_for(slots));
        // Predicates run before the first push: a panic between a push and the queueing of its slot
        // would lose the slot.
        let mut accepted = span.predicate_scope().map(|within| {
            let each = shards.iter();
            each.map(|shard| unlisted_within(shard, span.generation, within)).collect::<Vec<_>>()
        });
        let mut accepted = accepted.iter_mut().flat_map(|accepted| accepted.chunks_mut(each));
        let parts = shards.chunks(each).map(|shards| (shards, accepted.next())).collect();
        let held = self.hold();
        let swept =
            on_threads(parts, |(shards, accepted)| self.sweep_shards(shards, accepted, span));
        let deleted = swept.iter().map(|swept| swept.deleted).sum();
        let skipped = swept.iter().map(|swept| swept.skipped).sum();
        let queued: Vec<_> = swept.into_iter().flat_map(|swept| swept.queued).collect();
        let queued = self.push_walk(queued, held.as_ref().map(Hold::epoch));
        self.wake(&Wakeups { queued, ended: self.uncounted(skipped, span.marks) });
        deleted
    }

    /// Pushes a deletion for each unlisted key of some of the shards; the caller queues the slots.
    /// If the scope has a predicate, `accepted` has, for each shard, the unlisted keys that the
    /// predicate accepted; otherwise this function finds the unlisted keys of the scope, or of the
    /// whole queue.
    fn sweep_shards(
        &self,
        shards: &[CachePadded<RwLock<Shard<T>>>],
        mut accepted: Option<&mut [Vec<String>]>,
        span: &RelistSpan,
    ) -> Swept<T> {
        let generation = span.generation;
        let within = span.sweeps();
        let mut swept = Swept { deleted: 0, skipped: 0, queued: Vec::new() };
        for (place, shard) in shards.iter().enumerate() {
            // Searched with the lock shared, which delays no reader. Stamps only grow, and a slot
            // that is made after the search comes after the sweep.
            let unlisted: Vec<String> = if let Some(accepted) = &mut accepted {
                std::mem::take(&mut accepted[place])
            } else if let Some(within) = within {
                unlisted_within(shard, generation, within)
            } else {
                let shard = shard.read();
                let unlisted = shard.slots_near().filter(|slot| slot.stamped() < generation);
                unlisted.map(|slot| slot.key().to_owned()).collect()
            };
            // In groups, so that a reader of this shard waits for a few keys at most.
            for group in unlisted.chunks(GROUP) {
                let shard = shard.write();
                let is_current = self.relists.is_current(generation, span.within.as_ref());
                mutant!(SweepChecksNothing => let is_current = true);
                if !is_current {
                    return swept;
                }
                for key in group {
                    self.sweep_slot(&shard, key, span, &mut swept);
                }
            }
        }
        swept
    }

    fn sweep_slot(&self, shard: &Shard<T>, key: &str, span: &RelistSpan, swept: &mut Swept<T>) {
        let RelistSpan { generation, marks, sweep, .. } = *span;
        let hash = self.core.table.hash(key.as_bytes());
        let Some(slot) = shard.find(hash, key.as_bytes()) else { return };
        let was_listed = slot.stamped() >= generation;
        mutant!(SweepDecidesByFirstRead => let was_listed = false);
        if was_listed {
            return;
        }
        mutant!(SweepPassesHandlers => if slot.state() == crate::engine::slot::State::Running { return });
        // Counted before the push: see `join_group`.
        self.counted(1, marks);
        let pending =
            Pending::new(Content::Swept(sweep, None)).initial(marks).since(self.queue.now());
        let pushed = slot.push(pending, Rule::IfExists);
        if matches!(pushed, Pushed::Skipped(_)) {
            swept.skipped += 1;
            return;
        }
        swept.queued.extend(self.queue.ticket(Lane::Backlog, slot, pushed));
        slot.stamp(generation);
        mutant!(SweptCountsAsUnlisted => return swept.deleted += 1);
        // Otherwise an external store that still knows the key would have it deleted again.
        self.list_elsewhere(generation, slot.key().as_bytes());
        swept.deleted += 1;
    }

    /// Queues a deletion for each key that an external store knows and the relist did not list,
    /// after the sweep of the table. If no delta of a key is pending, settle asks the store for the
    /// key again: in this call, or when the running handler of the key ends. If the store then does
    /// not have the key, its deletion is dropped. Returns the number of deletions.
    fn sweep_elsewhere(&self, span: &RelistSpan) -> usize {
        let RelistSpan { generation, marks, ref within, sweep, .. } = *span;
        let KnownPlace::Elsewhere { objects, .. } = &self.known else { return 0 };
        let mut deleted = 0;
        let table = &self.core.table;
        assert_none_held();
        let mut keys = objects.list_keys();
        if let Some(within) = within {
            // Before anything is pushed, as for the slots.
            keys.retain(|key| within.contains(key));
        }
        for key in keys {
            let hash = table.hash(key.as_bytes());
            mutant!(SweepReadsUnlocked => { self.sweep_unlocked(&key, span); continue });
            let shard = table.shard(hash).write();
            // That holds while this lock is held: a newer relist waits for it before it lists keys.
            if !self.relists.is_current(generation, within.as_ref()) {
                break;
            }
            if self.is_listed_elsewhere(generation, key.as_bytes()) {
                continue;
            }
            self.life.initial.marked(usize::from(marks));
            let pending = Pending::new(Content::Swept(sweep, None)).initial(marks);
            deleted += usize::from(self.push_or_insert(
                shard,
                hash,
                key.as_bytes(),
                pending,
                Rule::IfExists,
                Missing::Ask,
            ));
        }
        deleted
    }
}

/// Returns the keys of a scope whose slots have an older stamp than `generation`.
#[cold] // Relists of the whole queue do not pay for the code of it.
#[inline(never)]
fn unlisted_within<T>(shard: &RwLock<Shard<T>>, generation: u32, within: &Within) -> Vec<String> {
    let is_plain = within.is_plain();
    let mut unlisted = Vec::new();
    let search = |slot: &Slot<T>| {
        if slot.stamped() < generation && (!is_plain || within.contains(slot.key())) {
            unlisted.push(slot.key().to_owned());
        }
    };
    let shard = shard.read();
    match within.namespace() {
        Some(namespace) => shard.visit_namespace(namespace, search),
        None => shard.slots_near().for_each(search),
    }
    drop(shard);
    if !is_plain {
        // Predicates are user code: they run with no lock held.
        unlisted.retain(|key| within.contains(key));
    }
    unlisted
}
