//! Tests of the caches, the lister, and the queues that hold the newest object of each key, one
//! file each. They include client-go's tests.

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
