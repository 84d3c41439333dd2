//! Queues of the newest object per key: client-go's `FIFO` and `Heap`. Each has one short lock, held for no handler, no key
//! function and no object's release; a heap's order is the one piece of a user's code that runs under it.
//!
//! They are for what needs no history: a deletion takes its key out of the queue and is told to nobody. Where deletions
//! count, or a million objects, use [`DeltaFifo`](crate::DeltaFifo).
//!
//! | file | what lives there |
//! | --- | --- |
//! | `keyed` | what both have in common: one entry per key, handlers, the initial population |
//! | `line` | the order: a binary heap that knows where each key stands |
//! | `fifo`, `heap` | the two, and what differs |
//! | `roles` | the two behind the traits |

mod fifo;
mod heap;
mod keyed;
mod line;
mod roles;

pub use fifo::Fifo;
pub use heap::Heap;
pub use keyed::KeyedQueue;
