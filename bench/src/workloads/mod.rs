//! The workloads. A child process runs the requested ones on one engine, and prints the results.

#[cfg(feature = "peers")]
mod cache;
mod child;
mod events;
mod fill;
mod footprint;
mod latency;
mod lists;
mod memory;
mod outcome;
mod pace;
mod queries;
mod readers;
mod slow_handler;
mod stall;
mod threads;
#[cfg(feature = "peers")]
mod workqueue;

pub use child::run;
