//! Object references, stores that are filled from the events of a kube watcher, and [`feed`], which
//! fills a queue (kube's `reflector`).
//!
//! [`store()`], [`store_shared()`], [`reflector()`], [`Writer`] and [`ReflectHandle`] have kube's
//! signatures, for programs with a stream of their own. An
//! [informer over the same stream](crate::SharedInformer::for_stream) also delivers deletions that
//! only a list shows, has indexes from its first object on, and its late subscribers first receive
//! the stored objects.

pub mod store;
mod subscribe;
mod watchers;
mod writer;

pub use crate::reflector::watcher_events::feed;
pub use kube::runtime::reflector::{Lookup, ObjectRef, ObjectRefExtra};
pub use store::Store;
pub(in crate::runtime) use subscribe::Change;
pub use subscribe::ReflectHandle;
pub use writer::{Writer, reflector, store, store_shared};
