//! Compares the queues `Fifo` and `Heap`, and the caches, with plain versions that search their
//! whole contents for each answer.
//!
//! | file | contents |
//! | --- | --- |
//! | `specs` | objects and lists of them in a few bytes |
//! | `queues` | `Fifo` and `Heap`, with nested handlers |
//! | `expiration` | `ExpirationCache`, with a policy that panics and one that stores |
//! | `mutation` | `MutationCache` over an indexer |
//!
//! Every operation is four bytes, so that shrinking removes whole operations and a fuzzer's change
//! affects one of them.

pub mod expiration;
pub mod mutation;
pub mod queues;
mod specs;

use crate::of_bytes;

/// Runs a comparison. The first byte of `bytes` selects its kind and settings, and the other bytes
/// are its operations.
///
/// # Panics
/// Panics if the queue or cache and its plain version differ.
pub fn run(bytes: &[u8]) {
    let Some((&shape, bytes)) = bytes.split_first() else { return };
    let setup = shape >> 2;
    match shape % 4 {
        0 => queues::run(queues::Order::Arrival, &of_bytes(bytes)),
        1 => queues::run(queues::Order::Least, &of_bytes(bytes)),
        2 => expiration::run(setup.into(), &of_bytes(bytes)),
        _ => mutation::run(setup.into(), &of_bytes(bytes)),
    }
}
