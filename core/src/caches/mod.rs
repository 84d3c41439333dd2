//! client-go's other stores and queues, for programs that are moved from Go. Feature `caches`, off
//! by default.
//!
//! * [`Fifo`] and [`Heap`]: queues of the newest object per key (client-go `FIFO`, `Heap`). Each
//!   has one lock, held briefly; no handler, key function or object drop runs under it. The order
//!   function of a heap is the only user code that does. They keep no history: a deletion removes
//!   its key from the queue, and no consumer is notified of it. If deletions matter, or for a
//!   million objects, use [`DeltaFifo`](crate::DeltaFifo).
//! * [`ExpirationCache`]: a store whose objects expire.
//! * [`UndeltaStore`]: a store that pushes its whole state after every change.
//! * [`MutationCache`]: overlays a client's own writes on a store until the watch has delivered
//!   them.
//! * [`CacheMutationDetector`]: finds stored objects that were changed in place.
//! * [`Queue`]: the trait through which a controller pops, implemented by all queues.
//!
//! | file | contents |
//! | --- | --- |
//! | `keyed` | the common part of the queues: one entry per key, handlers, the initial population |
//! | `key_heap` | the order of the queues' entries: a binary heap that stores the position of each key |
//! | `fifo`, `heap` | the two queues and their differences |
//! | `queue` | the trait, for the delta queues |
//! | `roles` | the traits for `Fifo` and `Heap` |

mod clock;
mod detector;
mod expiration;
mod fifo;
mod heap;
mod key_heap;
mod keyed;
mod mutation;
mod queue;
mod roles;
mod undelta;

pub use detector::{Altered, CacheMutationDetector};
pub use expiration::ExpirationCache;
pub use fifo::Fifo;
pub use heap::{Heap, HeapError};
pub use keyed::KeyedQueue;
pub use mutation::{MutationCache, MutationCacheBuilder, MutationError};
pub use queue::{HandlerError, ItemHandler, Queue};
pub use undelta::UndeltaStore;
