//! Tests of the store and its indexes, alone and fused with a queue.

mod concurrency;
mod indexes;
mod objects;
mod refusals;
mod rig;
