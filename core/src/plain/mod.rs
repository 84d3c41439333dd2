//! Queues of the newest object per key: client-go's `FIFO` and `Heap`. Each has one lock, held
//! briefly; no handler, key function or object drop runs under it. The order function of a heap
//! is the only user code that does.
//!
//! They keep no history: a deletion removes its key from the queue, and no consumer is notified
//! of it. If deletions matter, or for a million objects, use [`DeltaFifo`](crate::DeltaFifo).
//!
//! | file | contents |
//! | --- | --- |
//! | `keyed` | the common part: one entry per key, handlers, the initial population |
//! | `key_heap` | the order: a binary heap that stores the position of each key |
//! | `fifo`, `heap` | the two queues and their differences |
//! | `roles` | their implementations of the traits |

mod fifo;
mod heap;
mod key_heap;
mod keyed;
mod roles;

pub use fifo::Fifo;
pub use heap::Heap;
pub use keyed::KeyedQueue;
