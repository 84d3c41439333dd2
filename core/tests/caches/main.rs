//! The caches, the lister, and the queues of newest objects, one file each. Among the tests are
//! those of client-go.

#[path = "../common/mod.rs"]
mod common;
mod detector;
mod expiration;
mod fifo;
mod heap;
mod lister;
mod model;
mod mutation;
mod queues;
mod selector;
mod stores;
mod undelta;
