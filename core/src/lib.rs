//! The queue and the cache between a Kubernetes watch and its handlers: client-go's DeltaFIFO and
//! Indexer, for a million objects.
//!
//! * [`DeltaFifo`]: a queue of keys, each with all deltas since the key was last handled. It has
//!   any number of producers and consumers. Handlers run with no lock held; handlers of one key
//!   never run at the same time.
//! * [`Indexer`]: the store with its indexes. It can be fused with a queue: then it shares the
//!   queue's slots, so an item is applied without another lookup. It can also be used alone.
//! * [`InOrderFifo`]: a queue of events in order of arrival across all keys, for one handler at a
//!   time. A relist is one event.
//! * [`Relist`]: a relist in pieces, page by page; its commit finds the deletions.
//! * [`Lister`]: reads by namespace and by label [`Selector`].
//! * [`ReflectorStore`], [`Store`]: the traits through which a reflector writes and a reader reads.
//! * `caches` (feature `caches`, off by default): client-go's other stores and queues.
//!
//! In the repository, the chapter `docs/src/concepts.md` of the guide explains how these parts fit
//! together, and `docs/src/from-client-go.md` lists the names that client-go has for them.
//!
//! This crate depends on no Kubernetes crate and on no async runtime: it reads metadata through a
//! [`Meta`] accessor.
//!
//! ```
//! use std::sync::Arc;
//! use deltafifo::{Change, DeltaFifo, Indexer, KeyFunc, NoMeta};
//!
//! let keys = KeyFunc::custom(NoMeta, |(name, _): &(&str, u32)| Ok((*name).to_owned()));
//! let fifo = DeltaFifo::over(Indexer::builder(keys).build()?).build();
//!
//! fifo.replace(vec![Arc::new(("a", 1)), Arc::new(("b", 1))], "100")?;
//! fifo.update(Arc::new(("b", 2)))?;
//! let mut seen = Vec::new();
//! while let Some(mut item) = fifo.try_pop() {
//!     item.apply(|change| {
//!         seen.push(match change {
//!             Change::Added { new, .. } => format!("+{}{}", new.0, new.1),
//!             Change::Updated { old, new, .. } => format!("{}{}>{}", new.0, old.1, new.1),
//!             Change::Deleted { .. } => unreachable!(),
//!         });
//!     })?;
//! }
//! assert_eq!(seen, ["+a1", "+b1", "b1>2"]);
//! assert!(fifo.has_synced());
//! assert_eq!(fifo.store().get_by_key("b").unwrap().1, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Locks
//!
//! There is no global lock. A push, a take and a settle are operations on one atomic word. No shard
//! is locked while an item is taken or its handler runs. A lookup of a key locks one shard briefly,
//! and a pop locks the head of the queue briefly.
//!
//! # Memory
//!
//! A known key costs one 64-byte slot, its share of the table, and its index entries. As in
//! client-go, pending deltas of a key are not merged, except that two successive deletions become
//! one. So while the handler of a key is stuck, each update of the key adds a delta. See
//! [`DeltaFifoBuilder::high_water`] for a limit.
#![deny(clippy::disallowed_types)]

#[cfg(feature = "caches")]
pub mod caches;
mod delta;
mod engine;
mod error;
mod error_chain;
mod fifo;
mod in_order;
mod key;
mod lifecycle;
mod meta;
#[doc(hidden)]
pub mod panics;
mod roles;
mod scope;
mod store;
mod version;

// Hidden items, also methods of public types, are for the other crates of this workspace. They are
// not part of the public API, and change without notice.
#[doc(hidden)]
pub use engine::admission::Admission;
#[doc(hidden)]
pub use engine::gate;
#[doc(hidden)]
pub use engine::room;
#[doc(hidden)]
pub use engine::sync::locks;
#[cfg(any(deltafifo_loom, deltafifo_shuttle))]
#[doc(hidden)]
pub use engine::sync::mutants;
#[doc(hidden)]
pub use engine::tenure;
#[doc(hidden)]
pub use store::{WalkPosition, WalkStep};

pub use delta::{DeletedFinalStateUnknown, Delta, DeltaObject, DeltaType, Deltas};
pub use error::{
    BoxError, Closed, IndexError, KeyError, OfferError, ProcessError, RelistError, ScopeError,
    SelectorError, StoreError, TransactionError, VersionError, WaitError,
};
pub use error_chain::error_chain;
pub use fifo::{Batch, Change, Committed, DeltaFifo, DeltaFifoBuilder, Popped, Refused, Relist};
pub use in_order::{Event, InOrderFifo, InOrderFifoBuilder, ReplacedAll, Turn};
pub use key::{ExplicitKey, KeyFunc, KeySource};
pub use meta::{Fields, Labels, Meta, NoMeta, Owners};
pub use roles::{KnownObjects, ReflectorStore, Store};
pub use scope::{KeyScope, ScopeId};
pub use store::{
    IndexReader, Indexer, IndexerBuilder, Indexers, Lister, NAMESPACE_INDEX, NamespaceLister,
    OWNER_INDEX, Selector, Transaction,
};
pub use version::ResourceVersion;
