//! The buffers of handlers, behind one small trait. A buffer knows no locks, handlers or stores,
//! and drops no object itself: it returns objects that it does not need, and the caller drops them
//! with no lock held.
//!
//! * `compress.rs`: one step per key, from the state that the handler was last notified of to the
//!   current one.
//! * `log.rs`: every step, for the policies [`Buffer::HoldBack`] and [`Buffer::DropAndResync`],
//!   which bound the number of steps.
//! * `steps.rs`, `queue.rs`: the containers of `compress.rs` and of `log.rs`. They grow in small
//!   parts.

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
/// | | memory | a slow handler misses | a slow handler delays |
/// | --- | --- | --- | --- |
/// | `Compress` | one step per key that is stored, or that was deleted since its last notification | states in between | nothing |
/// | `HoldBack(n)` | `n` changes, and the changes that each worker of the informer holds | nothing | the watch, all handlers |
/// | `DropAndResync(n)` | `n` changes | changes, deletions too | nothing |
///
/// A buffer that compresses uses about 90 bytes for each waiting key. It gives memory back in parts
/// of 256 neighbouring keys, once all of them were delivered.
///
/// A worker holds all pending deltas of one key; with an in-order queue it may hold a whole list.
/// A walk over the store (for a late handler, or a resync) adds about 64 objects to a buffer.
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
    /// vanished in between. If the buffer overruns again before the end, these notifications start
    /// over with another `ResyncBegins`. A handler that stays slower than the changes receives no
    /// `ResyncEnds` until the changes slow down.
    DropAndResync(usize),
}

/// The changes that wait for one handler. The changes of a key are in order.
pub(super) trait StepBuffer<K>: Send {
    /// Adds a step. Returns steps with objects that are no longer needed.
    fn push(&mut self, step: Step<K>) -> [Option<Step<K>>; 2];

    /// Removes and returns the next step.
    fn pop(&mut self) -> Option<Step<K>>;

    fn len(&self) -> usize;

    /// Returns the number of steps that come from changes rather than from a walk. Used only with
    /// [`Buffer::HoldBack`] and [`Buffer::DropAndResync`], which bound this number.
    fn changes(&self) -> usize;

    /// Returns whether a walk may add up to [`STRIDE`] steps.
    fn takes_stride(&self) -> bool;

    /// Returns the number of steps that belong to the initial list.
    fn initial(&self) -> usize;

    /// Returns the time at which the oldest step was pushed.
    fn oldest(&self) -> Option<Instant>;

    /// Returns whether the waiting steps already deliver the current state of `key`, so that a
    /// resync need not add a step.
    fn covers(&self, key: &str) -> bool;
}
