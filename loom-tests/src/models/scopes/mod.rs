//! Models of queues with two scopes.
//!
//! The first scope has the keys `a` and `c`, which share a shard. The second has the key `b`,
//! which is in the other shard.

pub mod elsewhere;
pub mod lists;
pub mod membership;
pub mod versions;

use deltafifo::{KeyScope, ScopeId};
use loom::sync::Arc;

use crate::rig::{Fifo, Object};

/// Adds both scopes.
fn scopes(fifo: &Fifo) -> [ScopeId; 2] {
    let of_b = |key: &str| key == "b";
    [KeyScope::keys("a and c", move |key| !of_b(key)), KeyScope::keys("b", of_b)]
        .map(|scope| fifo.add_scope(scope).unwrap())
}

/// Lists all objects of a scope. Returns the number of deleted keys.
fn list(fifo: &Fifo, scope: &ScopeId, objects: Vec<Arc<Object>>, version: &str) -> usize {
    let mut relist = fifo.begin_replace_in(scope);
    assert!(relist.offer(objects).unwrap().is_empty());
    relist.commit(version).unwrap().deleted
}
