//! Joins a page of objects with the table. This is a hash join: the page is the probe side, and the
//! table the build side.
//!
//! The page is processed in strides, on as many threads as the user allows. Each stride takes three
//! steps:
//!
//! 1. **Key.** Each thread takes a piece of the stride. In list order it computes the key and the
//!    hash of each object, and calls the transformer. This user code runs before anything of the
//!    stride is pushed. If an object is refused, it and the rest of the page are not pushed; in a
//!    relist in pieces only the refused object is left out, and its key counts as listed.
//! 2. **Join.** The shards are divided among the threads. Each thread goes through its shards, one
//!    after the other: it finds each slot, stamps it, and pushes. The lock of a shard is held
//!    shared for a group of slots at a time, while the next slots are prefetched. Keys without a
//!    slot are inserted afterwards, under the exclusive lock. One thread handles all objects of a
//!    key, in list order.
//! 3. **Publish.** The slots that have become pending join the queue in list order, as runs.
//!
//! A page that is too small for several threads takes the same steps on one thread.

use std::panic::resume_unwind;
use std::thread;

use super::applied::Hold;
use super::unchanged::ListedCheck;
use super::{DeltaFifo, KnownPlace};
use crate::engine::ledger::Epoch;
use crate::engine::ready_queue::Lane;
use crate::engine::release::{OneByOne, Rest, UserCode, release};
use crate::engine::shard::Shard;
use crate::engine::slot::Version;
use crate::engine::slot::{Pending, Pushed, Rule, Ticket, prefetch};
use crate::engine::sync::{Arc, GROUP, RUN, SHARDS, mutant};
use crate::engine::table::Table;
use crate::error::{OfferError, RelistError};
use crate::scope::Within;
use crate::{DeltaType, Meta};

/// The number of objects that a thread processes at a time if it joins a page alone. With more,
/// their keys would leave its cache before they are joined. (Under Miri the number is so small that
/// small tests have several pieces and threads.)
const PIECE: usize = if cfg!(miri) { 16 } else { 16_384 };
/// The number of objects that each of several threads processes at a time. With fewer, threads
/// would be started more often: twice for each piece.
const SHARED_PIECE: usize = 2 * PIECE;
/// The number of bytes that a piece reserves for each key.
const USUAL_KEY: usize = 40;
/// The smallest number of objects for which a page is joined, or a table swept, by more than one
/// thread. With fewer, starting a thread for each step takes longer than it saves.
const WORTH_THREADS: usize = 2 * PIECE;
/// The distance, in objects, at which the join prefetches an object's memory before its use.
const OBJECT_AHEAD: usize = 16;
/// The distance, in objects, at which the join prefetches an object's name and, if versions are
/// compared, its version.
const STRING_AHEAD: usize = 8;
/// The distance, in objects, at which the join prefetches the bucket of an object's key.
const BUCKET_AHEAD: usize = 20;
/// The distance, in objects, at which the join prefetches the slot of an object's key.
const SLOT_AHEAD: usize = 10;
/// The distance, in objects, at which the join prefetches a known object, if its version is
/// compared.
const KNOWN_AHEAD: usize = 5;

/// The options of a join of a page.
pub(super) struct Join<'r> {
    pub(super) kind: DeltaType,
    /// The relist's generation; 0 for a batch of single offers, which stamp with the open one.
    pub(super) generation: u32,
    pub(super) marks: bool,
    /// The keys that a relist of a scope may list; `None` for a relist of the whole queue and for a
    /// batch of single offers.
    pub(super) within: Option<&'r Within>,
    pub(super) skip_unchanged: bool,
    /// Whether the page ends before the first refused object, instead of continuing without it.
    pub(super) stops_at_refused: bool,
}

/// An object that a relist refused. The rest of its page is queued.
#[derive(Debug, thiserror::Error)]
#[error("object {index} of the page was refused, the others are queued")]
pub struct Refused {
    /// The index of the object in the page, from 0.
    pub index: usize,
    /// The reason, with key and version if there are any.
    pub source: OfferError,
}

/// One object on its way to its slot.
struct PageEntry<T> {
    hash: u64,
    /// The object. `None` only after the push.
    object: Option<Arc<T>>,
    /// The index of the object in the stride.
    index: u32,
    /// The position of the key in the arena of the piece. The version follows it if unchanged
    /// objects are skipped.
    at: u32,
    len: u32,
    version: u32,
}

/// The part of a stride that one thread takes through the first step. The buffers are kept from
/// stride to stride, because fresh memory costs more than the work that is done in it.
struct Piece<T> {
    /// The objects, in list order. Empty after the first step.
    objects: OneByOne<Vec<Arc<T>>>,
    /// The index of the first object in the stride.
    first: usize,
    /// The keys, one after another.
    arena: String,
    /// The entries for each joining thread, in list order.
    entries: Vec<OneByOne<Vec<PageEntry<T>>>>,
    /// The refused objects, by their index in the stride. If the page stops at a refused object,
    /// no later one was processed.
    refused: OneByOne<Vec<(usize, OfferError)>>,
}

/// The entries that one thread takes through the second step: its part of every piece.
struct Share<'f, T: Send + Sync, M: Meta<T>> {
    /// The entries of each piece, in list order.
    entries: Vec<OneByOne<Vec<PageEntry<T>>>>,
    /// Indices of `entries`, shard by shard.
    order: Vec<u32>,
    queued: Unpublished<'f, T, M>,
}

/// Slots that are pending and not yet in the queue, with their indices in the stride. The drop
/// queues them, so they are queued however the thread ends.
struct Unpublished<'f, T: Send + Sync, M: Meta<T>> {
    fifo: &'f DeltaFifo<T, M>,
    lane: Lane,
    /// The epoch on which there is a hold while `slots` is not empty, in a queue that tracks the
    /// applied version.
    since: Option<Epoch>,
    slots: Vec<(u32, Ticket<T>)>,
}

impl<T: Send + Sync, M: Meta<T>> Drop for Unpublished<'_, T, M> {
    fn drop(&mut self) {
        self.fifo.publish(self.lane, self.since, self.slots.drain(..).map(|(_, slot)| slot));
    }
}

impl<T: Send + Sync, M: Meta<T>> DeltaFifo<T, M> {
    pub(super) fn join(
        &self,
        join: &Join<'_>,
        page: Vec<Arc<T>>,
    ) -> Result<Vec<Refused>, RelistError> {
        let threads = self.threads_for(|| page.len());
        let piece = if threads == 1 { PIECE } else { SHARED_PIECE };
        let size = piece.min(page.len().div_ceil(threads));
        let mut pieces: Vec<_> = (0..threads).map(|_| Piece::new(size, threads)).collect();
        // Dropped after the shares, whose drop queues the slots that are left in them.
        let mut held;
        let mut shares: Vec<_> =
            (0..threads).map(|_| Share::new(self, join.lane(), size)).collect();
        let mut in_order = Vec::new();
        let mut rest = Rest(page.into_iter());
        let mut done = 0;
        let mut left_out = OneByOne(Vec::new());
        while rest.0.len() > 0 {
            // 1. Key. Each thread gets consecutive objects. All user code of the stride runs before
            // its first push, so if it panics, nothing of the stride is queued.
            let stride = rest.0.len().min(piece * threads);
            let each = stride.div_ceil(threads);
            for (number, piece) in pieces.iter_mut().enumerate() {
                piece.first = number * each;
                piece
                    .objects
                    .extend(rest.0.by_ref().take(each.min(stride.saturating_sub(piece.first))));
            }
            on_threads(pieces.iter_mut().collect(), |piece: &mut Piece<T>| {
                self.key_piece(join, piece);
            });

            let refused: Vec<_> =
                pieces.iter_mut().flat_map(|piece| piece.refused.take()).collect();
            let mut refused = Rest(refused.into_iter());
            // If the page stops at a refused object, the piece with that object has stopped there.
            // The later pieces have not, so they are left out.
            let end = refused
                .0
                .as_slice()
                .first()
                .filter(|_| join.stops_at_refused)
                .map_or(stride, |(index, _)| *index);
            // 2. Join. The hold begins before the first push, because a marker must not pass deltas
            // that are pushed and not queued; and after the keys, whose user code may be slow.
            held = self.hold();
            let since = held.as_ref().map(Hold::epoch);
            // A share has its shards' entries of all pieces, in the order of the pieces: one thread
            // joins all objects of a key, in list order.
            for (number, share) in shares.iter_mut().enumerate() {
                let parts = pieces.iter_mut().filter(|piece| piece.first < end);
                share.entries.extend(parts.map(|piece| std::mem::take(&mut piece.entries[number])));
                share.queued.since = since;
            }
            let arenas: Vec<&str> = pieces.iter().map(|piece| piece.arena.as_str()).collect();
            on_threads(shares.iter_mut().collect(), |share: &mut Share<'_, T, M>| {
                self.join_share(join, share, &arenas);
            });
            // 3. Publish. The threads have pushed shard by shard; consumers get the keys in list
            // order. Then each slot has its place before or behind a marker, and the hold can end.
            self.publish_in_order(join.lane(), since, stride, &mut in_order, &mut shares);
            drop(held.take());

            // Returned only now: the objects before a refused one are queued in either case.
            for (index, source) in refused.0.by_ref() {
                let index = done + index;
                if join.stops_at_refused {
                    return Err(RelistError::Refused { index, source });
                }
                left_out.push(Refused { index, source });
            }
            // The groups of a superseded relist are left out without an error: the page fails here.
            if join.generation != 0 && !self.relists.is_current(join.generation, join.within) {
                return Err(RelistError::Superseded);
            }
            // The next stride uses the buffers again, and frees the unchanged objects in them.
            for (number, share) in shares.iter_mut().enumerate() {
                for (piece, entries) in pieces.iter_mut().zip(share.entries.drain(..)) {
                    piece.entries[number] = entries;
                }
            }
            done += stride;
        }
        Ok(left_out.take())
    }

    /// Returns the number of threads for a step over this many objects, which are counted only if
    /// relists may use several threads.
    pub(super) fn threads_for(&self, objects: impl FnOnce() -> usize) -> usize {
        if self.relist_threads == 1 || objects() < WORTH_THREADS { 1 } else { self.relist_threads }
    }

    /// Runs the first step: computes keys and hashes, runs the transformer, and assigns the entries
    /// to threads by their shards.
    fn key_piece(&self, join: &Join<'_>, piece: &mut Piece<T>) {
        let (keys, table) = (&self.core.keys, &self.core.table);
        let Piece { objects, first, arena, entries, refused } = piece;
        let threads = entries.len();
        // The buffers of the previous stride are used again instead of allocating new ones.
        arena.clear();
        for entries in entries.iter_mut() {
            clear_near(entries);
        }
        let mut rest = Rest(objects.drain(..));
        for index in *first.. {
            let Some(object) = rest.0.next().map(UserCode::new) else { break };
            // Two distances, because the strings of an object can be prefetched only once the
            // object itself has arrived.
            let ahead = rest.0.as_slice();
            if let Some(object) = ahead.get(OBJECT_AHEAD) {
                bring_object_near(object);
            }
            if let Some(object) = ahead.get(STRING_AHEAD) {
                keys.meta().name(object).inspect(|name| prefetch(name.as_ptr()));
                if join.skip_unchanged {
                    keys.meta().version(object).inspect(|version| prefetch(version.as_ptr()));
                }
            }
            // The key is that of the listed object, so it is known even if the transform fails.
            let at = arena.len();
            let keyed = keys.write(&object, arena).map_err(OfferError::from);
            let transformed =
                keyed.and_then(|()| self.transform(&arena.as_bytes()[at..], object.into_inner()));
            let object = match transformed {
                Ok(object) => UserCode::new(object),
                Err(error) => {
                    let has_key = matches!(error, OfferError::Transform { .. });
                    refused.push((index, error));
                    // The page ends before this object, so the rest of the piece is not needed.
                    if join.stops_at_refused {
                        break;
                    }
                    // A key without an object still counts as listed, so that the sweep does not
                    // delete it.
                    if has_key {
                        let key = &arena.as_bytes()[at..];
                        self.list_key(join.generation, table.hash(key), key);
                    }
                    arena.truncate(at);
                    continue;
                }
            };
            let key = &arena.as_bytes()[at..];
            let (hash, len) = (table.hash(key), key.len());
            let mut version = 0;
            if join.skip_unchanged {
                // Copied here, while the object is in the cache, so that the join need not read
                // its strings again.
                arena.push_str(keys.meta().version(&object).unwrap_or_default());
                version = narrow(arena.len() - at - len);
            }
            // Each thread joins an interval of the shards, so no two threads lock the same one.
            entries[Table::<T>::shard_of(hash) * threads / SHARDS].push(PageEntry {
                hash,
                object: Some(object.into_inner()),
                index: narrow(index),
                at: narrow(at),
                len: narrow(len),
                version,
            });
        }
    }

    /// Runs the second step, for the shards of one thread: piece by piece, so that every key keeps
    /// its list order.
    fn join_share(&self, join: &Join<'_>, share: &mut Share<'_, T, M>, arenas: &[&str]) {
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

    /// Runs the third step: queues the slots that have become pending, in list order.
    fn publish_in_order(
        &self,
        lane: Lane,
        since: Option<Epoch>,
        stride: usize,
        in_order: &mut Vec<Option<Ticket<T>>>,
        shares: &mut [Share<'_, T, M>],
    ) {
        in_order.resize_with(stride, || None);
        for (index, slot) in shares.iter_mut().flat_map(|share| share.queued.slots.drain(..)) {
            in_order[index as usize] = Some(slot);
        }
        self.publish(lane, since, in_order.iter_mut().filter_map(Option::take));
    }

    /// Queues slots that were pushed while the caller had a hold on `since`, which it still has.
    /// `since` is `None` if versions are not tracked.
    fn publish(&self, lane: Lane, since: Option<Epoch>, slots: impl Iterator<Item = Ticket<T>>) {
        let mut slots = slots.peekable();
        let mut count = 0;
        while slots.peek().is_some() {
            let run: Vec<_> = slots.by_ref().take(RUN).collect();
            count += run.len();
            self.push_run(lane, run, since);
        }
        mutant!(RunWakesOne => return self.queue.wake(count.min(1)));
        // After all of them, because a waker may run user code.
        self.queue.wake(count);
    }
}

/// Empties `entries`, and prefetches the reference counts of unchanged objects before they are
/// decremented.
fn clear_near<T>(entries: &mut Vec<PageEntry<T>>) {
    let mut place = 0;
    release(std::iter::from_fn(|| {
        if let Some(object) =
            entries.get(place + OBJECT_AHEAD).and_then(|ahead| ahead.object.as_ref())
        {
            prefetch(Arc::as_ptr(object));
        }
        let entry = entries.get_mut(place)?;
        place += 1;
        Some(entry.object.take())
    }));
    entries.clear();
}

/// Returns how many objects of a group are still to be pushed.
fn objects_left<T>(entries: &[PageEntry<T>], group: &[u32]) -> usize {
    group.iter().filter(|&&place| entries[place as usize].object.is_some()).count()
}

/// Prefetches the memory of the first objects of a group.
fn bring_first_near<T>(shard: &Shard<T>, entries: &[PageEntry<T>], group: &[u32], arena: &str) {
    for &number in group.iter().take(BUCKET_AHEAD) {
        shard.prefetch_bucket(entries[number as usize].hash);
    }
    for &number in group.iter().take(SLOT_AHEAD) {
        bring_slot_near(shard, &entries[number as usize], arena);
    }
}

/// Prefetches the memory of the objects some steps after `place`: first the bucket, a few steps
/// later slot and key.
#[inline]
fn bring_near<T>(
    shard: &Shard<T>,
    entries: &[PageEntry<T>],
    group: &[u32],
    arena: &str,
    place: usize,
) {
    if let Some(&ahead) = group.get(place + BUCKET_AHEAD) {
        shard.prefetch_bucket(entries[ahead as usize].hash);
    }
    if let Some(&ahead) = group.get(place + SLOT_AHEAD) {
        bring_slot_near(shard, &entries[ahead as usize], arena);
    }
}

/// Prefetches the memory of an object that an accessor will probably read. The compiler chooses
/// where the metadata is, so the whole of a small object is prefetched, and the beginning of a
/// large one.
fn bring_object_near<T>(object: &Arc<T>) {
    const LINE: usize = 64;
    const MOST: usize = 4 * LINE;
    let start = Arc::as_ptr(object).cast::<u8>();
    for at in (0..size_of::<T>().min(MOST)).step_by(LINE) {
        prefetch(start.wrapping_add(at));
    }
}

fn bring_slot_near<T>(shard: &Shard<T>, entry: &PageEntry<T>, arena: &str) {
    shard.prefetch_slot(entry.hash);
    prefetch(entry.key(arena).as_ptr());
}

impl Join<'_> {
    fn lane(&self) -> Lane {
        if self.generation == 0 { Lane::Live } else { Lane::Backlog }
    }

    fn pending<T>(&self, object: Arc<T>) -> Pending<T> {
        Pending::object(self.kind, object).initial(self.marks)
    }
}

impl<T> PageEntry<T> {
    fn key<'a>(&self, arena: &'a str) -> &'a [u8] {
        &arena.as_bytes()[self.at as usize..][..self.len as usize]
    }

    fn name<'a>(&self, arena: &'a str) -> &'a str {
        &arena[self.at as usize..][..self.len as usize]
    }

    fn version<'a>(&self, arena: &'a str) -> Version<'a> {
        Version::of(&arena.as_bytes()[(self.at + self.len) as usize..][..self.version as usize])
    }
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

impl<T> Piece<T> {
    /// Creates a piece with room for `size` objects, to be joined by `threads` threads. The room is
    /// reserved on the caller's thread, because the others live for one step only and would
    /// allocate from fresh memory.
    fn new(size: usize, threads: usize) -> Self {
        let entries = (0..threads)
            .map(|_| OneByOne(Vec::with_capacity(with_slack(size / threads))))
            .collect();
        let arena = String::with_capacity(size * USUAL_KEY);
        Self {
            objects: OneByOne(Vec::with_capacity(size)),
            first: 0,
            arena,
            entries,
            refused: OneByOne(Vec::new()),
        }
    }
}

impl<'f, T: Send + Sync, M: Meta<T>> Share<'f, T, M> {
    fn new(fifo: &'f DeltaFifo<T, M>, lane: Lane, size: usize) -> Self {
        let slots = Vec::with_capacity(with_slack(size));
        let queued = Unpublished { fifo, lane, since: None, slots };
        Self { entries: Vec::new(), order: Vec::with_capacity(size), queued }
    }
}

/// Adds an eighth to a size, because shards and parts of a page are not filled evenly.
fn with_slack(size: usize) -> usize {
    size + size / 8
}

/// Converts an index, or a position or length in an arena, to 32 bits. It always fits, because both
/// the objects of a stride and the memory of their keys are bounded.
fn narrow(number: usize) -> u32 {
    u32::try_from(number)
        .unwrap_or_else(|_| unreachable!("a stride has fewer than 2^32 bytes of keys"))
}

/// Runs `work` on every item. Each item has a thread of its own, except the last, which the caller
/// processes. If a thread cannot be started, the caller does its work too. A panic is resumed in
/// the caller when all threads have ended.
pub(super) fn on_threads<I: Send, R: Send>(items: Vec<I>, work: impl Fn(I) -> R + Sync) -> Vec<R> {
    if items.len() == 1 {
        return items.into_iter().map(work).collect();
    }
    let work = &work;
    let items: Vec<_> =
        items.into_iter().map(|item| crate::engine::sync::Mutex::new(Some(item))).collect();
    let run = |item: &crate::engine::sync::Mutex<Option<I>>| {
        let item = item.lock().take();
        item.map(work)
    };
    thread::scope(|scope| {
        let (mine, others) = items.split_last().unwrap_or_else(|| unreachable!("there are items"));
        let started: Vec<_> = others
            .iter()
            .map(|item| thread::Builder::new().spawn_scoped(scope, move || run(item)))
            .collect();
        let last = run(mine);
        let mut results = Vec::with_capacity(items.len());
        for (thread, item) in started.into_iter().zip(others) {
            match thread.map(thread::ScopedJoinHandle::join) {
                Ok(Ok(result)) => results.extend(result),
                Ok(Err(panic)) => resume_unwind(panic),
                Err(_) => results.extend(run(item)),
            }
        }
        results.extend(last);
        results
    })
}
