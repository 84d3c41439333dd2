//! What stands around the engine: the lister, the caches, and the queues of newest objects. A file
//! for each, with client-go's own tests of it among others.

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
