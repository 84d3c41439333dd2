//! The work queue: which key to reconcile next (client-go `util/workqueue`, controller-runtime
//! `priorityqueue`).
//!
//! Event handlers [`add`](WorkQueue::add) keys, reconcilers [`get`](WorkQueue::get) them. A key
//! that is added often before it is taken is taken once; a key that is added while it is being
//! processed is taken again afterwards; no key is ever processed by two at once.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use deltafifo_informer::workqueue::WorkQueue;
//!
//! let queue = WorkQueue::builder().name("pods").build()?;
//! queue.add("shop/web");
//! queue.add("shop/web");
//! queue.shut_down();
//!
//! while let Some(item) = queue.get().await {
//!     match reconcile(item.key()) {
//!         Ok(()) => queue.forget(item.key()),
//!         Err(()) => queue.add_rate_limited(*item.key()),
//!     }
//!     item.done();
//! }
//! # fn reconcile(_: &str) -> Result<(), ()> { Ok(()) }
//! # Ok(())
//! # }
//! ```
//!
//! # One key
//!
//! A key has an entry while it is dirty, being processed, or waits for a time. Its state is one of
//!
//! | state | client-go's sets | `add` | `add_after` | taken | done |
//! | --- | --- | --- | --- | --- | --- |
//! | idle | | queued | waits | | |
//! | queued | dirty | | | processing | |
//! | processing | processing | again | waits | | idle |
//! | again | dirty, processing | | | | queued, at the tail |
//!
//! and beside it an idle or processing key may wait, once, for the earliest time it was asked for;
//! when that has come it counts as added. An add while it waits ends the waiting, and an
//! `add_after` of a key that is dirty already says nothing new: what is asked for is one
//! processing, not before the earliest of the times (as in controller-runtime; client-go's would
//! come again at the later time, too).
//!
//! # Failures
//!
//! A rate-limited add of a key is a failure once for each time that the key is taken, and once
//! before it is taken at all. Only then is the rate limiter asked how long the key backs off. A
//! rate-limited add of a key that is queued, or was rate-limited since it was last taken, at most
//! raises its priority, or shortens the wait if it has an `after` of its own. `forget` makes the
//! next one a failure again. Two threads that add a key rate-limited at the same moment may both
//! count.
//!
//! # Priorities, and how long a low one may wait
//!
//! The highest priority goes first; among equals, who was queued first. A dirty or waiting key
//! that is added again with a higher priority is raised, to the tail of its new equals; a lower
//! one changes nothing. A processing starts afresh: what is added during it has the priority it is
//! added with.
//!
//! **Of eight keys taken in a row, at least one is the key that had been queued longest**,
//! whatever its priority. So a key that is queued while `n` others are is among the next
//! `8 (n + 1)` that are taken, however many of higher priority come after it. A key that is raised
//! keeps its age.
//!
//! # Locks
//!
//! Entries are in 64 shards by hash, each with a mutex: an add of a key that is dirty already, the
//! most frequent by far when there is much to do, touches nothing else unless it raises the key.
//! The order of keys is behind one mutex, held for a few list operations when a key is queued,
//! taken and done; times that keys wait for are behind another. A shard's lock may be held while
//! one of these two is taken, never the reverse, and never both. The limiters that count failures
//! have shards of their own, whose locks are held with no other. Under a shard's lock the only
//! foreign code is the key's `Eq` and `Clone`, which therefore must not call the queue or the
//! limiter; a key's `Hash` and drop, wakers, metrics and rate limiters are called with no lock
//! held.
//!
//! What a waker, a metrics recorder, or the queue's own copy of a key when it is dropped panics
//! with goes no further. A getter whose waker panicked counts as woken; dropped, it hands that on
//! to the next.
//!
//! # Cost
//!
//! For `n` keys with an entry, `p` different priorities queued and `w` keys that wait for a time:
//!
//! | | time |
//! | --- | --- |
//! | add, `add_with` | O(log p), of a key that waits O(log w) more |
//! | `add_after`, `add_rate_limited` | O(log w), and what the rate limiter takes |
//! | get, done | O(log p) |
//! | len | O(1) |
//! | `shut_down` | O(w) |
//!
//! An entry takes 88 bytes with a key of 24 (a `String`, whose text comes on top), and about 8 in
//! the shard's table; 32 more while it is queued, about 50 more while it waits. A key that is
//! neither dirty nor processed nor waiting takes nothing. The key is stored once, and cloned for
//! each get. Room that was needed once is kept for the next keys until the queue is dropped.

mod builder;
mod delays;
mod entry;
mod item;
mod keeper;
mod limiter;
mod line;
mod metrics;
mod options;
mod queue;
mod shard;
mod sharded;
mod shared;
#[cfg(test)]
mod tests;

use std::hash::Hash;

pub use builder::{BuildError, Builder};
pub use item::Item;
pub use limiter::{
    BucketRateLimiter, ItemExponentialFailureRateLimiter, ItemFastSlowRateLimiter,
    JitteredRateLimiter, MaxOfRateLimiter, RateLimiter, WithMaxWaitRateLimiter,
    default_controller_rate_limiter, default_item_based_rate_limiter,
};
pub use options::AddOptions;
pub use queue::WorkQueue;

/// What a key must be able to do. Everything that can has it.
///
/// A key should be cheap to clone: a number, an `Arc<str>`, a short `String`.
pub trait Key: Clone + Eq + Hash + Send + Sync + 'static {}

impl<K: Clone + Eq + Hash + Send + Sync + 'static> Key for K {}
