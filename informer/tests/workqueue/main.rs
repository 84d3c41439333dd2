//! Tests of the behaviour of the work queue, one file per aspect. They include the tests of
//! client-go and controller-runtime.

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
