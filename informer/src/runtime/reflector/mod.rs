//! Object references, stores that are filled from the events of a kube watcher, and [`feed`], which
//! fills a queue (kube's `reflector`).
//!
//! [`store()`], [`store_shared()`], [`reflector()`], [`Writer`] and [`ReflectHandle`] have kube's
//! signatures, for programs that move here with a stream of their own. An
//! [informer](crate::SharedInformer::for_stream) over the same stream gives more: see the table
//! there.

pub mod store;
mod subscribe;
mod writer;

pub use crate::reflector::watcher_events::feed;
pub use kube::runtime::reflector::{Lookup, ObjectRef, ObjectRefExtra};
pub use store::Store;
#[allow(unused_imports)] // For the controllers over streams.
pub(in crate::runtime) use subscribe::Change;
pub use subscribe::ReflectHandle;
pub use writer::{Writer, reflector, store, store_shared};
