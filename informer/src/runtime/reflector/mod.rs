//! Object references, a read handle to a controller's store, and [`feed`], which fills a queue
//! from a kube watcher (kube's `reflector`).

pub mod store;

pub use crate::reflector::watcher_events::feed;
pub use kube::runtime::reflector::{Lookup, ObjectRef};
pub use store::Store;
