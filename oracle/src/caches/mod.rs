//! The queues of newest objects and the caches, each beside a plain one that is searched from end
//! to end.
//!
//! | file | what lives there |
//! | --- | --- |
//! | `spelled` | objects and lists of them in a few bytes |
//! | `queues` | `Fifo` and `Heap`, with handlers inside one another |
//! | `expiration` | `ExpirationCache`, with a policy that panics and one that stores |
//! | `mutation` | `MutationCache` over an indexer |
//!
//! Every operation is four bytes, so that a shrinking test leaves out whole ones and a fuzzer's
//! change stays with one.

pub mod expiration;
pub mod mutation;
pub mod queues;
mod spelled;

use crate::of_bytes;

/// Lets the first byte of `bytes` choose what is tried and how it is built, and does what the
/// others spell.
///
/// # Panics
/// When it and the plain one differ.
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
