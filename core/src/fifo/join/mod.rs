//! Joins a page of objects with the table. This is a hash join: the page is the probe side, and the
//! table the build side.
//!
//! The page is processed in strides, on as many threads as the user allows. Each stride takes three
//! steps:
//!
//! 1. **Key** (`piece`). Each thread takes a piece of the stride. In list order it computes the key
//!    and the hash of each object, and calls the transformer. This user code runs before anything
//!    of the stride is pushed. If an object is refused, it and the rest of the page are not pushed;
//!    in a relist in pieces only the refused object is left out, and its key counts as listed.
//! 2. **Join** (`share`). The shards are divided among the threads. Each thread goes through its
//!    shards, one after the other: it finds each slot, stamps it, and pushes. The lock of a shard
//!    is held shared for a group of slots at a time, while the next slots are prefetched. Keys
//!    without a slot are inserted afterwards, under the exclusive lock. One thread handles all
//!    objects of a key, in list order.
//! 3. **Publish.** The slots that have become pending join the queue in list order, as runs.
//!
//! A page that is too small for several threads takes the same steps on one thread.

mod piece;
mod prefetch;
mod share;

use std::panic::resume_unwind;
use std::thread;

use super::DeltaFifo;
use super::applied::Hold;
use crate::engine::ledger::Epoch;
use crate::engine::ready_queue::Lane;
use crate::engine::release::{OneByOne, Rest};
use crate::engine::slot::{Pending, Ticket};
use crate::engine::sync::{Arc, RUN, mutant};
use crate::error::{OfferError, RelistError};
use crate::scope::Within;
use crate::{DeltaType, Meta};
use piece::Piece;
use share::Share;

/// The number of objects that a thread processes at a time if it joins a page alone. With more,
/// their keys would leave its cache before they are joined. (Under Miri the number is so small that
/// small tests have several pieces and threads.)
const PIECE: usize = if cfg!(miri) { 16 } else { 16_384 };
/// The number of objects that each of several threads processes at a time. With fewer, threads
/// would be started more often: twice for each piece.
const SHARED_PIECE: usize = 2 * PIECE;
/// The smallest number of objects for which a page is joined, or a table swept, by more than one
/// thread. With fewer, starting a thread for each step takes longer than it saves.
const WORTH_THREADS: usize = 2 * PIECE;

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

impl Join<'_> {
    fn lane(&self) -> Lane {
        if self.generation == 0 { Lane::Live } else { Lane::Backlog }
    }

    fn pending<T>(&self, object: Arc<T>) -> Pending<T> {
        Pending::object(self.kind, object).initial(self.marks)
    }
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
