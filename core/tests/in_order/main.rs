//! Tests of the in-order queue. `real_fifo` has client-go's tests, grouped by subject; the other
//! files test what this project adds.

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
