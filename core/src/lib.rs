//! The queue and the cache between a Kubernetes watch and its handlers: client-go's DeltaFIFO and Indexer, for a
//! million objects.
//!
//! * [`DeltaFifo`]: per key everything that happened since it was last handled, keys in order, any number of producers
//!   and consumers. A handler runs with no lock held; per key handlers never overlap.
//! * [`Indexer`]: the store with its indexes, fused with the queue by sharing its slots, so that an item applies itself
//!   without another look-up; or alone.
//! * [`InOrderFifo`]: the other order: every event in the order of arrival across keys, for one handler at a time, and a
//!   relist as one event.
//! * [`Relist`]: a relist in pieces, as pages arrive, with the deletions found at its commit.
//! * [`Lister`]: reads by namespace and by label [`Selector`]. [`MutationCache`]: one's own writes over the store until the
//!   watch has brought them.
//! * [`ReflectorStore`], [`Store`], [`Queue`]: what a reflector feeds, a reader reads and a controller pops, whichever of
//!   these it is: the three above, [`Fifo`], [`Heap`], [`ExpirationCache`], [`UndeltaStore`].
//!
//! It knows no Kubernetes crate and no async runtime: metadata comes through a [`Meta`] accessor.
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
//! # What is lock-free here, and what is not
//!
//! There is no global lock. Take and settle against push are one atomic word, and handlers run and items are taken
//! with no shard held. Short shard locks find keys, and a short mutex hands out the queue's head. More is not claimed.
//!
//! # Memory
//!
//! A known key costs one 64-byte slot, its share of the table and its index entries. Pending deltas never coalesce
//! (client-go's contract), so a key whose handler is stuck grows by one delta an offer: see
//! [`DeltaFifoBuilder::high_water`] for a bound.

mod delta;
mod engine;
mod error;
mod fifo;
mod in_order;
mod key;
mod meta;
mod plain;
mod roles;
mod store;
mod version;

/// For the informer and for tests of this workspace.
#[doc(hidden)]
pub use engine::sync::locks;
/// For the models of `loom-tests`; not there otherwise.
#[cfg(any(deltafifo_loom, deltafifo_shuttle))]
#[doc(hidden)]
pub use engine::sync::mutants;

pub use delta::{DeletedFinalStateUnknown, Delta, DeltaObject, DeltaType, Deltas};
pub use error::{
    Altered, BoxError, Closed, HandlerError, HeapError, IndexError, KeyError, MutationError, OfferError, PopError,
    ProcessError, RelistError, SelectorError, StoreError, TransactionError, VersionError, WaitError,
};
pub use fifo::{Batch, BatchReport, Change, Committed, DeltaFifo, DeltaFifoBuilder, Failure, Popped, Refused, Relist};
pub use in_order::{Event, InOrderFifo, InOrderFifoBuilder, ReplacedAll, Turn};
pub use key::{ExplicitKey, KeyFunc, KeySource};
pub use meta::{Labels, Meta, NoMeta};
pub use plain::{Fifo, Heap, KeyedQueue};
pub use roles::{ItemHandler, KnownObjects, Queue, ReflectorStore, Store};
pub use store::{
    CacheMutationDetector, ExpirationCache, IndexReader, Indexer, IndexerBuilder, Indexers, Lister, MutationCache,
    MutationCacheBuilder, NAMESPACE_INDEX, NamespaceLister, Selector, Transaction, UndeltaStore, WalkPosition,
    WalkStep,
};
pub use version::ResourceVersion;
