//! The objects of a group that a relist must push if it skips unchanged ones.

use super::Join;
use super::entries::PageEntry;
use super::prefetch::{bring_first_near, bring_near};
use crate::Meta;
use crate::engine::release::{OneByOne, Rest};
use crate::engine::slot::prefetch;
use crate::engine::sync::mutant;
use crate::fifo::DeltaFifo;
use crate::fifo::unchanged::ListedCheck;

/// The distance, in objects, at which the join prefetches a known object, if its version is
/// compared.
const KNOWN_AHEAD: usize = 5;

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    /// Stamps the slots of a group, and returns the entries that must be pushed: all except those
    /// whose key is idle and has a known object of the listed version. The versions are compared
    /// with no lock held. An unchanged object stays in its entry until the next stride, so it is
    /// freed in list order, in which it was allocated: freeing shard by shard costs twice as much.
    #[inline(never)] // Only queues that skip what is unchanged need it.
    pub(super) fn skip_unchanged(
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
