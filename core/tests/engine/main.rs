//! Tests of the behaviour of the engine, one file per aspect. They are one program, so that a
//! change of the engine is linked only once.

mod applied;
mod applied_model;
mod applied_waits;
mod blocking;
#[path = "../common/mod.rs"]
mod common;
mod drops;
mod functions;
mod indexed;
mod indexers;
mod lane;
mod model;
mod races;
mod refused;
mod relist;
mod relist_delete;
mod replace;
mod running;
mod scopes;
mod semantics;
mod slow;
mod store;
mod unchanged;
mod wakers;
mod walk;
