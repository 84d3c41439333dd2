//! The classic design: client-go's `DeltaFIFO`, thread-safe store and work queue, written in good
//! Rust without any new idea. It is the base of the benchmark ratios, and it passes the conformance
//! vectors.
//!
//! One mutex guards the whole queue: a map from keys to pending deltas, and a queue of keys. The
//! handler of a pop runs while the mutex is held. So handlers of one key never overlap, and a key
//! that is being handled needs no special rule, but no producer can offer until the handler, or a
//! whole relist, has ended. The store has a lock and a table of its own, so each key is looked up
//! once in the queue and once in the store. All tables share one `Arc<str>` per key.
//!
//! ```
//! use std::convert::Infallible;
//! use std::sync::Arc;
//! use deltafifo::{KeyFunc, NoMeta};
//! use deltafifo_classic::{Change, MutexFifo, MutexStore, Verdict};
//!
//! let keys = KeyFunc::custom(NoMeta, |n: &u32| Ok(format!("number-{n}")));
//! let fifo = MutexFifo::over(Arc::new(MutexStore::new(keys))).build();
//! fifo.replace(vec![Arc::new(1), Arc::new(2)], "100")?;
//! let mut added = 0;
//! while let Some(handled) = fifo.try_pop(|item| {
//!     fifo.store().expect("built over a store").apply(item, |change| match change {
//!         Change::Added { .. } => added += 1,
//!         Change::Updated { .. } | Change::Deleted { .. } => {}
//!     });
//!     Verdict::<Infallible>::Done
//! }) {
//!     handled?;
//! }
//! assert_eq!(added, 2);
//! assert!(fifo.has_synced());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod builder;
mod fifo;
mod index;
mod known;
mod pop;
mod state;
mod store;
#[cfg(test)]
mod tests;
mod workqueue;

pub use builder::MutexFifoBuilder;
pub use fifo::MutexFifo;
pub use pop::{Popped, Verdict};
pub use store::{Change, MutexStore};
pub use workqueue::{MutexWorkQueue, Work};
