//! The behaviour of the work queue, one file per aspect. The tests of client-go and
//! controller-runtime are among them.

mod common;
mod delays;
mod guards;
mod limiters;
mod metrics;
mod model;
mod priorities;
mod queue;
mod recorder;
mod shut_down;
mod stress;
