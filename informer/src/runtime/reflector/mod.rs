//! References to objects, and a reader of a controller's store (kube's `reflector`).

pub mod store;

pub use kube::runtime::reflector::{Lookup, ObjectRef};
pub use store::Store;
