//! Tests of scopes: parts of a queue, each with relists of its own.

mod applied;
mod histories;
mod initial;
mod keys;
mod model;
mod panics;
mod relists;
mod removal;
mod rig;
