//! The buffers of handlers, behind one small trait. A buffer knows no locks, handlers or stores,
//! and drops no object itself: it returns objects that it does not need, and the caller drops them
//! with nothing locked.
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
use crate::shared_informer::sync::STRIDE;
pub(super) use compress::Compress;
pub(super) use log::Log;

/// The policy for changes that a handler is too slow for.
///
/// | | memory | what a slow handler misses | whom it delays |
/// | --- | --- | --- | --- |
/// | `Compress` | one step per key that is stored, or that was deleted since its last notification | states between | nobody |
/// | `HoldBack(n)` | `n` changes, and the changes that each worker of the informer holds | nothing | the watch, all handlers |
/// | `DropAndResync(n)` | `n` changes | changes, deletions too | nobody |
///
/// A buffer that compresses keeps the room that it has once needed, some 90 bytes per key, until
/// its handler is removed.
///
/// A worker holds all pending deltas of one key; with an in-order queue it may hold a whole list.
/// A walk over the store (of a late handler, or a resync) has some 64 more objects in a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Buffer {
    /// Keeps per key only the state that the handler was last notified of, and the newest one.
    /// Many changes may lie between the two; an object that was added and deleted in between is
    /// not delivered.
    #[default]
    Compress,
    /// Keeps every change. While this many wait, no further change is taken from the queue, which
    /// delays the informer's watch and all of its handlers.
    HoldBack(usize),
    /// Keeps every change. If more than this many would wait, all of them are dropped, and the
    /// handler is notified of every stored object, between
    /// [`ResyncBegins`](super::Notification::ResyncBegins) and
    /// [`ResyncEnds`](super::Notification::ResyncEnds). It is not notified of objects that
    /// vanished in between. A handler that stays slower than the changes starts again and again,
    /// and gets the rest of the stored objects only when there are fewer changes.
    DropAndResync(usize),
}

/// The changes that wait for one handler; those of a key are in order.
pub(super) trait Waiting<K>: Send {
    /// Takes a step, and returns the objects that are not needed any more.
    fn push(&mut self, step: Step<K>) -> [Option<Step<K>>; 2];

    /// Takes out the next step.
    fn pop(&mut self) -> Option<Step<K>>;

    fn len(&self) -> usize;

    /// Returns how many steps come from changes.
    fn changes(&self) -> usize;

    /// Returns whether a walk may add some [`STRIDE`] more.
    fn takes_stride(&self) -> bool;

    /// Returns how many steps are of the initial list.
    fn initial(&self) -> usize;

    /// Returns since when the oldest step has waited.
    fn oldest(&self) -> Option<Instant>;

    /// Returns whether delivering `key` once more would add nothing to the waiting steps.
    fn covers(&self, key: &str) -> bool;
}
