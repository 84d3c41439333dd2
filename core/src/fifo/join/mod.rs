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

mod changed;
mod entries;
mod group;
mod keys;
mod prefetch;
mod publish;

use super::DeltaFifo;
use super::applied::Hold;
use super::threads::on_threads;
use crate::engine::ready_queue::Lane;
use crate::engine::release::{OneByOne, Rest};
use crate::engine::slot::Pending;
use crate::engine::sync::Arc;
use crate::error::{OfferError, RelistError};
use crate::scope::Within;
use crate::{DeltaType, Meta};
use entries::{PageEntry, Piece, with_slack};
use publish::Unpublished;

/// The number of objects that a thread processes at a time if it joins a page alone. With more,
/// their keys would leave its cache before they are joined. (Under Miri the number is so small that
/// small tests have several pieces and threads.)
pub(super) const PIECE: usize = if cfg!(miri) { 16 } else { 16_384 };
/// The number of objects that each of several threads processes at a time. With fewer, threads
/// would be started more often: twice for each piece.
const SHARED_PIECE: usize = 2 * PIECE;

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

/// The entries that one thread takes through the second step: its part of every piece.
struct Share<'f, T: Send + Sync, M: Meta<T>> {
    /// The entries of each piece, in list order.
    entries: Vec<OneByOne<Vec<PageEntry<T>>>>,
    /// Indices of `entries`, shard by shard.
    order: Vec<u32>,
    queued: Unpublished<'f, T, M>,
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
}

impl Join<'_> {
    fn lane(&self) -> Lane {
        if self.generation == 0 { Lane::Live } else { Lane::Backlog }
    }

    fn pending<T>(&self, object: Arc<T>) -> Pending<T> {
        Pending::object(self.kind, object).initial(self.marks)
    }
}

impl<'f, T: Send + Sync, M: Meta<T>> Share<'f, T, M> {
    fn new(fifo: &'f DeltaFifo<T, M>, lane: Lane, size: usize) -> Self {
        let slots = Vec::with_capacity(with_slack(size));
        let queued = Unpublished { fifo, lane, since: None, slots };
        Self { entries: Vec::new(), order: Vec::with_capacity(size), queued }
    }
}
