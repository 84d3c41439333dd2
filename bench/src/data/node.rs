//! The index that a user of the stores would have: by the node that a pod runs on. What is
//! generated runs nowhere, so each object's name is hashed to one of a thousand nodes.

use deltafifo::Meta;

use super::Fnv;

/// How many nodes there are; fewer objects than some ten thousand leave some of them empty.
const NODES: u64 = 1000;

/// The node of an object.
pub fn node<T>(meta: &impl Meta<T>, object: &T) -> String {
    let name = meta.name(object).unwrap_or_default();
    format!("node-{:04}", Fnv::new().text(name).value() % NODES)
}
