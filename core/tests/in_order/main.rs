//! The in-order queue. `real_fifo` has client-go's own tests, by what they check; the others what
//! is ours.

mod batches;
#[path = "../common/mod.rs"]
mod common;
mod model;
mod offers;
mod real_fifo;
mod relists;
mod rig;
mod scopes;
mod stress;
mod synced;
mod turns;
mod waiting;
