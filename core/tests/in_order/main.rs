//! The in-order queue. `real_fifo` has the tests of client-go, by what they check; the other files
//! test what this project adds.

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
