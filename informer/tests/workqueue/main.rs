//! The work queue's behaviour, a file for each side of it; client-go's and controller-runtime's
//! own tests are among them.

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
