//! The classic design, done well: client-go's `DeltaFIFO` and its thread-safe store as one would
//! write them in Rust without a new idea. It is the base of the ratios and passes the vectors.
//!
//! One mutex guards everything the queue has: a map of key to pending deltas and a queue of keys.
//! The handler of a pop runs while that mutex is held, so per key handlers never overlap, a key in
//! flight needs no rule of its own, and nobody can offer anything until the handler, or a whole
//! relist, has ended. The store beside it has a lock and a table of its own: what the queue found,
//! the store looks up again. A key is one shared `Arc<str>` in all of them.
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

pub use builder::MutexFifoBuilder;
pub use fifo::MutexFifo;
pub use pop::{Popped, Verdict};
pub use store::{Change, MutexStore};
