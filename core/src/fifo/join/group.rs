//! The second step: pushes onto the slots, shard by shard, and a group at a time.

use super::entries::{PageEntry, objects_left, sort_by_shard};
use super::prefetch::{bring_first_near, bring_near};
use super::{Join, Share};
use crate::Meta;
use crate::engine::slot::{Pushed, Rule, Ticket};
use crate::engine::sync::{GROUP, mutant};
use crate::engine::table::Table;
use crate::fifo::{DeltaFifo, KnownPlace};

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    /// Runs the second step, for the shards of one thread: piece by piece, so that every key keeps
    /// its list order.
    pub(super) fn join_share(&self, join: &Join<'_>, share: &mut Share<'_, T, M>, arenas: &[&str]) {
        let Share { entries, order, queued } = share;
        for (entries, arena) in entries.iter_mut().zip(arenas) {
            sort_by_shard(entries, order);
            let shard_at = |place: u32, entries: &[PageEntry<T>]| {
                Table::<T>::shard_of(entries[place as usize].hash)
            };
            let mut rest = order.as_slice();
            while let Some(&first) = rest.first() {
                let number = shard_at(first, entries);
                let size = rest
                    .iter()
                    .take(GROUP)
                    .take_while(|&&place| shard_at(place, entries) == number)
                    .count();
                let (group, after) = rest.split_at(size);
                rest = after;
                self.join_group(join, entries, group, arena, &mut queued.slots);
            }
        }
    }

    /// Joins a group of objects of one shard.
    fn join_group(
        &self,
        join: &Join<'_>,
        entries: &mut [PageEntry<T>],
        group: &[u32],
        arena: &str,
        queued: &mut Vec<(u32, Ticket<T>)>,
    ) {
        // An unchanged object needs its stamp only, and is never counted.
        let changed;
        let group = if join.skip_unchanged {
            changed = self.skip_unchanged(join, entries, group, arena);
            &changed
        } else {
            group
        };
        let table = &self.core.table;
        // Checked once: over an external store, slots do not keep the stamps.
        let lists = matches!(self.known, KnownPlace::Elsewhere { .. });
        let Some(&first) = group.first() else { return };
        let lock = table.shard(entries[first as usize].hash);
        let (lane, since, mut absent, mut joins) =
            (join.lane(), self.queue.now(), Vec::new(), false);
        // Counted before the push, so that the gauge is never below the number of queued deltas.
        // (Marks have no effect before the commit.)
        self.counted(objects_left(entries, group), join.marks);

        let shard = lock.read();
        // Checked under the lock: a newer relist passes through it before it becomes current, so
        // nothing of this one is pushed after an object of the newer one.
        let Some(generation) = self.generation_of(join) else {
            drop(shard);
            return self.leave_out(join, entries, group);
        };
        // The memory of the next slots is prefetched while this one is pushed.
        bring_first_near(&shard, entries, group, arena);
        for (place, &number) in group.iter().enumerate() {
            bring_near(&shard, entries, group, arena, place);
            let entry = &mut entries[number as usize];
            let key = entry.key(arena);
            let Some(slot) = shard.find(entry.hash, key) else {
                // An insert needs the exclusive lock, which would keep readers out of the shard for
                // the whole group.
                absent.push(number);
                continue;
            };
            let Some(object) = entry.object.take() else { continue };
            if lists {
                self.list_joined(join, generation, key);
            }
            // Otherwise the sweep of an open relist, which may be this one, would delete the key.
            slot.stamp(generation);
            let pushed = slot.push(join.pending(object).since(since), Rule::Always);
            // Queued in the third step, because the group is in the order of the shards.
            joins |= matches!(pushed, Pushed::Joined);
            if let Some(ticket) = self.queue.ticket(lane, slot, pushed) {
                queued.push((entry.index, ticket));
            }
        }
        drop(shard);
        mutant!(JoinedAheadOfItsPlace => let joins = false);
        if joins && since.is_some() {
            // The offer that made a slot pending may not have queued it yet. It has queued it when
            // it releases the shard to other offers.
            drop(lock.upgradable_read());
        }

        if !absent.is_empty() {
            let mut shard = lock.write();
            // Read again: a relist may have begun since, and must not sweep the keys that a batch
            // inserts now.
            let Some(generation) = self.generation_of(join) else {
                drop(shard);
                return self.leave_out(join, entries, &absent);
            };
            for number in absent {
                let entry = &mut entries[number as usize];
                let Some(object) = entry.object.take() else { continue };
                let name = entry.name(arena);
                if lists {
                    self.list_joined(join, generation, name.as_bytes());
                }
                // It finds a slot if another offer has inserted the key in between.
                let place = table.find_or_insert(&mut shard, entry.hash, name);
                let slot = shard.at(place);
                slot.stamp(generation);
                let pushed = slot.push(join.pending(object).since(since), Rule::Always);
                if let Some(ticket) = self.queue.ticket(lane, slot, pushed) {
                    queued.push((entry.index, ticket));
                }
            }
        }
    }

    /// Records, if the store is external, that a relist lists this key, or that a batch of offers
    /// writes it while relists are open.
    #[cold]
    fn list_joined(&self, join: &Join<'_>, generation: u32, key: &[u8]) {
        if join.generation == 0 {
            self.list_offered(generation, key);
        } else {
            self.list_elsewhere(generation, key);
        }
    }

    /// Returns the generation to stamp with, or `None` if the relist is no longer current. Called
    /// with the shard's lock held.
    fn generation_of(&self, join: &Join<'_>) -> Option<u32> {
        mutant!(OldPageContinues => if join.generation != 0 { return Some(join.generation); });
        mutant!(BatchesDoNotStamp => if join.generation == 0 { return Some(0); });
        match join.generation {
            0 => Some(self.relists.open()),
            generation => self.relists.is_current(generation, join.within).then_some(generation),
        }
    }

    /// Subtracts from the queue's counts the objects of a group that were counted and not pushed.
    fn leave_out(&self, join: &Join<'_>, entries: &[PageEntry<T>], group: &[u32]) {
        self.life.announce(self.uncounted(objects_left(entries, group), join.marks));
    }
}
