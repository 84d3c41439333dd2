//! The index of the workload `queries`: the node on which a pod runs. Generated objects do not run
//! on a node, so the object's name is hashed to one of a thousand nodes.

use deltafifo::Meta;

use super::Fnv;

/// The number of nodes. With fewer than about ten thousand objects, some have no object.
const NODES: u64 = 1000;

/// Returns the node of an object.
pub fn node<T>(meta: &impl Meta<T>, object: &T) -> String {
    let name = meta.name(object).unwrap_or_default();
    format!("node-{:04}", Fnv::new().text(name).value() % NODES)
}
