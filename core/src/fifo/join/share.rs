//! The second step of a join: the entries of one thread, joined shard by shard.

use super::super::unchanged::ListedCheck;
use super::super::{DeltaFifo, KnownPlace};
use super::piece::{PageEntry, narrow, with_slack};
use super::prefetch::{KNOWN_AHEAD, bring_first_near, bring_near};
use super::{Join, Unpublished};
use crate::Meta;
use crate::engine::ready_queue::Lane;
use crate::engine::release::{OneByOne, Rest};
use crate::engine::slot::{Pushed, Rule, Ticket, prefetch};
use crate::engine::sync::{GROUP, SHARDS, mutant};
use crate::engine::table::Table;

/// The entries that one thread takes through the second step: its part of every piece.
pub(super) struct Share<'f, T: Send + Sync, M: Meta<T>> {
    /// The entries of each piece, in list order.
    pub(super) entries: Vec<OneByOne<Vec<PageEntry<T>>>>,
    /// Indices of `entries`, shard by shard.
    pub(super) order: Vec<u32>,
    pub(super) queued: Unpublished<'f, T, M>,
}

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

    /// Stamps the slots of a group, and returns the entries that must be pushed: all except those
    /// whose key is idle and has a known object of the listed version. The versions are compared
    /// with no lock held. An unchanged object stays in its entry until the next stride, so it is
    /// freed in list order, in which it was allocated: freeing shard by shard costs twice as much.
    #[inline(never)] // Only queues that skip what is unchanged need it.
    fn skip_unchanged(
        &self,
        join: &Join<'_>,
        entries: &[PageEntry<T>],
        group: &[u32],
        arena: &str,
    ) -> Vec<u32> {
        let Some(&first) = group.first() else { return Vec::new() };
        // 1. Find the slots. A group lies in one shard, so its lock is taken once. A read lock is
        // enough: a stamp is an atomic write, and nothing is pushed here.
        let shard = self.core.table.shard(entries[first as usize].hash).read();
        bring_first_near(&shard, entries, group, arena);
        let mut checks = Vec::with_capacity(group.len());
        let mut is_noted = true;
        for (place, &number) in group.iter().enumerate() {
            bring_near(&shard, entries, group, arena, place);
            if let Some(&ahead) = group.get(place + KNOWN_AHEAD).filter(|_| !is_noted) {
                shard.prefetch_unnoted(entries[ahead as usize].hash);
            }
            let entry = &entries[number as usize];
            let check =
                shard.find(entry.hash, entry.key(arena)).map_or(ListedCheck::Needed, |slot| {
                    // Unchanged keys are stamped too, or the sweep would delete them.
                    slot.stamp(join.generation);
                    self.check_listed(slot, entry.version(arena))
                });
            // Either all objects of a kind have room for a noted version, or many have not.
            is_noted &= !matches!(check, ListedCheck::Idle { .. });
            checks.push(check);
        }
        mutant!(UnchangedReleasedUnderLock => checks.fill_with(|| ListedCheck::Needed));
        drop(shard);
        // 2. Prefetch the versions that step 3 reads. From here on accessors run, which may panic.
        let mut checks = OneByOne(checks);
        let meta = self.core.keys.meta();
        for check in checks.iter() {
            if let ListedCheck::Idle { known, .. } = check {
                meta.version(known).inspect(|version| prefetch(version.as_ptr()));
            }
        }
        // 3. Compare. Each check is dropped after its comparison, since it may hold the last
        // reference to a known object.
        let mut changed = Vec::new();
        let mut checks = Rest(checks.take().into_iter());
        for (&number, check) in group.iter().zip(checks.0.by_ref()) {
            let entry = &entries[number as usize];
            // If a key is listed twice and the first object is changed, the key is about to be
            // pending.
            let is_listed_changed =
                || changed.iter().any(|&other: &u32| entries[other as usize].hash == entry.hash);
            let version = || entry.version(arena);
            if !self.is_unchanged(check, entry.hash, entry.key(arena), version)
                || is_listed_changed()
            {
                changed.push(number);
            }
        }
        changed
    }
}

impl<'f, T: Send + Sync, M: Meta<T>> Share<'f, T, M> {
    pub(super) fn new(fifo: &'f DeltaFifo<T, M>, lane: Lane, size: usize) -> Self {
        let slots = Vec::with_capacity(with_slack(size));
        let queued = Unpublished { fifo, lane, since: None, slots };
        Self { entries: Vec::new(), order: Vec::with_capacity(size), queued }
    }
}

/// Returns how many objects of a group are still to be pushed.
fn objects_left<T>(entries: &[PageEntry<T>], group: &[u32]) -> usize {
    group.iter().filter(|&&place| entries[place as usize].object.is_some()).count()
}

/// Sorts the indices of the entries into `order`, by shard, and within a shard in list order: a
/// counting sort.
fn sort_by_shard<T>(entries: &[PageEntry<T>], order: &mut Vec<u32>) {
    let mut next = [0; SHARDS + 1];
    for entry in entries {
        next[Table::<T>::shard_of(entry.hash) + 1] += 1;
    }
    for shard in 1..next.len() {
        next[shard] += next[shard - 1];
    }
    order.resize(entries.len(), 0);
    for (place, entry) in entries.iter().enumerate() {
        let next = &mut next[Table::<T>::shard_of(entry.hash)];
        order[*next] = narrow(place);
        *next += 1;
    }
}
