//! References to objects, a reader of a controller's store, and what feeds a store from a watcher of kube's (kube's `reflector`).

pub mod store;

pub use crate::reflector::watcher_events::feed;
pub use kube::runtime::reflector::{Lookup, ObjectRef};
pub use store::Store;
