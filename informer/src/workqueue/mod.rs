//! The work queue: decides which key is reconciled next (client-go `util/workqueue`,
//! controller-runtime `priorityqueue`).
//!
//! Event handlers [`add`](WorkQueue::add) keys, and reconcilers [`get`](WorkQueue::get) them. If a
//! key is added several times before it is taken, it is taken once. A key that is added while it
//! is being processed is taken again afterwards. No key is processed by two reconcilers at once.
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
//! A key has an entry while it is dirty, is being processed, or waits for a time. Its state is one
//! of
//!
//! | state | client-go's sets | `add` | `add_after` | taken | done |
//! | --- | --- | --- | --- | --- | --- |
//! | idle | | queued | waits | | |
//! | queued | dirty | | | processing | |
//! | processing | processing | again | waits | | idle |
//! | again | dirty, processing | | | | queued, at the tail |
//!
//! In addition, an idle or processing key may wait for a time. It has one wait, which ends at the
//! earliest time that was requested. At that time the key is added. An add during the wait ends the
//! wait. An `add_after` of a key that is already dirty changes nothing, because the key will be
//! processed anyway. This is controller-runtime's behaviour; in client-go the key would be
//! processed again at the later time.
//!
//! # Failures
//!
//! A rate-limited add of a key counts as a failure once for each time that the key is taken, and
//! once before it is taken for the first time. Only if the add counts, the queue calls the rate
//! limiter, which returns the backoff. An add that does not count is one of a key that is queued,
//! or that was rate-limited since it was last taken. It can only raise the key's priority, or
//! shorten the wait by an `after` of its own. After `forget` the next rate-limited add counts
//! again. If two threads add a key rate-limited at the same moment, both adds may count.
//!
//! # Priorities and fairness
//!
//! The key of the highest priority goes first; among equals, the key that was queued first. If a
//! dirty or waiting key is added again with a higher priority, it gets this priority, and joins the
//! tail of the keys of that priority. An add with a lower priority changes nothing. The priority
//! ends when the key is taken: a key that is added while it is processed gets the priority of that
//! add.
//!
//! **Of eight keys taken successively, at least one is the key that has been queued longest**, even
//! if its priority is low. So a key that is queued while `n` others are queued is among the next `8
//! (n + 1)` keys that are taken, however many keys of higher priority are added after it. A raised
//! key keeps its age.
//!
//! # Locks
//!
//! One mutex guards the entries, the order of keys, the times that keys wait for and the getters
//! that sleep. An add, a get and the end of a processing each lock it once, for at most two table
//! operations and a few list operations. A rate-limited add that counts locks it twice, and a get
//! that sleeps a few times. A thread that finds the mutex locked waits for microseconds before it
//! tries again, so that threads rarely alternate. The limiters that count failures have shards of
//! their own, whose locks are never held together with the queue's. While the queue is locked, the
//! only user code called is the key's `Eq` and `Clone`, which therefore must not call the queue. A
//! key's `Hash` and `Drop`, wakers, metrics recorders and rate limiters are called with no lock
//! held.
//!
//! Panics of a waker, of a metrics recorder, or of the destructor of the queue's own copy of a key
//! are caught. A call of `get` whose waker panicked counts as woken; if its future is dropped, the
//! wake-up passes to the next caller of `get`.
//!
//! # Cost
//!
//! For `n` keys with an entry, `p` different priorities queued and `w` keys that wait for a time:
//!
//! | | time |
//! | --- | --- |
//! | add, `add_with` | O(log p), and O(log w) more for a key that waits |
//! | `add_after`, `add_rate_limited` | O(log w), and the time of the rate limiter |
//! | get, done | O(log p) |
//! | len | O(1) |
//! | `shut_down` | O(w) |
//!
//! An entry takes 80 bytes with a key of 24 bytes (a `String`, plus its text), and 10 to 21 bytes
//! in the table while that grows; about 50 more while it waits. A key that is neither dirty nor
//! processing nor waiting takes nothing here; a rate limiter keeps a failed key until it is
//! forgotten. A shutdown ends all waits, so the queue then frees the keys that only wait. The key
//! is stored once, and cloned for each get. A sleeping getter takes 32 bytes. Unused memory is
//! given back: a table with room for more than eight times its keys shrinks, and 256 neighbouring
//! entries are freed once all of them are unused. One unused entry is kept for the next new key.

mod builder;
mod delays;
mod entry;
mod getter;
mod item;
mod keeper;
mod limiter;
mod line;
mod metrics;
mod options;
mod queue;
mod sharded;
mod shared;
mod sleepers;
mod state;
mod sync;
mod table;
#[cfg(test)]
mod tests;

use std::hash::Hash;

pub use builder::{BuildError, Builder};
pub use item::Item;
pub use limiter::{
    BucketRateLimiter, ItemExponentialFailureRateLimiter, ItemFastSlowRateLimiter,
    JitteredRateLimiter, MaxOfRateLimiter, RateLimiter, WithMaxWaitRateLimiter,
    default_controller_rate_limiter,
};
pub use options::AddOptions;
pub use queue::WorkQueue;
#[cfg(deltafifo_shuttle)]
pub use sync::mutants;

/// The requirements of a key, implemented for all types that meet them.
///
/// A key should be cheap to clone: a number, an `Arc<str>`, a short `String`.
pub trait Key: Clone + Eq + Hash + Send + Sync + 'static {}

impl<K: Clone + Eq + Hash + Send + Sync + 'static> Key for K {}
