//! The in-order queue. `real_fifo` has the tests of client-go, grouped by subject; the other files
//! test this project's additions.

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
