//! What waits for a handler, behind one small trait. A buffer knows nothing of locks, handlers and
//! stores, and drops no object itself: what it has no use for is handed back, to be dropped with
//! nothing locked.
//!
//! * `compress.rs`: per key one step, from what was told to what is now.
//! * `log.rs`: every step, for the two policies that bound how many there are.
//! * `queue.rs`, `steps.rs`: what they are made of, which grows by little at a time.

mod compress;
mod log;
mod queue;
mod steps;
#[cfg(test)]
mod tests;

use tokio::time::Instant;

use super::step::Step;
use super::sync::STRIDE;
pub(super) use compress::Compress;
pub(super) use log::Log;

/// What becomes of changes that a handler has no time for.
///
/// | | memory | what a slow handler misses | whom it delays |
/// | --- | --- | --- | --- |
/// | `Compress` | a step a key: of those stored, and of those it was told of that are gone | states between | nobody |
/// | `HoldBack(n)` | `n` changes, and what each of the informer's workers has in hand | nothing | the watch, all handlers |
/// | `DropAndResync(n)` | `n` changes | changes, deletions too | nobody |
///
/// A buffer that compresses keeps the room that was needed once, some 90 bytes a key, until its
/// handler is removed.
///
/// What a worker has in hand is all that is pending for one key; of an in-order queue it may be a
/// whole list. A walk over the store (of a late handler, or a resync) has some 64 objects more in
/// a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Buffer {
    /// Per key only what the handler was told last and what is now: the two may be many changes
    /// apart, and what came and went meanwhile is not told at all.
    #[default]
    Compress,
    /// Every change. While so many wait, no further change is taken from the queue: this slows the
    /// informer's watch and all its handlers.
    HoldBack(usize),
    /// Every change; but where more than so many would wait, all of them are dropped, and the
    /// handler is told everything that is stored, between
    /// [`ResyncBegins`](super::Notification::ResyncBegins) and
    /// [`ResyncEnds`](super::Notification::ResyncEnds). It is not told what vanished meanwhile.
    /// Who stays slower than changes come begins again and again, and is told the rest of what is
    /// stored only when there are fewer.
    DropAndResync(usize),
}

/// Steps on their way to one handler, those of a key in order.
pub(super) trait Waiting<K>: Send {
    /// Takes a step. What is of no more use comes back.
    fn push(&mut self, step: Step<K>) -> [Option<Step<K>>; 2];

    /// The next step.
    fn pop(&mut self) -> Option<Step<K>>;

    fn len(&self) -> usize;

    /// How many of them come from changes.
    fn changes(&self) -> usize;

    /// Whether a walk may put in some [`STRIDE`] more.
    fn takes_stride(&self) -> bool;

    /// How many of them are of the initial list.
    fn initial(&self) -> usize;

    /// Since when the oldest waits.
    fn oldest(&self) -> Option<Instant>;

    /// Whether to tell of `key` once more would add nothing to what waits.
    fn covers(&self, key: &str) -> bool;
}
