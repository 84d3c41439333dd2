//! What stands around a `deltafifo` in a controller, on tokio and kube.
//!
//! * [`Reflector`]: brings a cluster's objects into a queue or store, and keeps them as they
//!   change (client-go `Reflector`).
//! * [`SharedInformer`]: one watch, a store with indexes, and any number of handlers (client-go
//!   `SharedIndexInformer`).
//! * [`Controller`]: a reflector, a queue, and workers that apply and call (client-go
//!   `cache.Controller`).
//! * [`lister_watcher`]: where they come from: an API server, several parts of one, or a test's
//!   script.
//! * [`KubeMeta`]: the accessor for all of Kubernetes' own types.
//! * [`metrics`]: what all of this tells of itself.
//! * [`runtime`]: a controller under the names and paths of kube's (feature `runtime`, on unless
//!   said).
//! * [`workqueue`]: the queue of keys between event handlers and reconcilers (client-go
//!   `util/workqueue`), with the priorities of controller-runtime.
//!
//! # Versions
//!
//! Clients and objects are kube's: a program needs the same kube as this crate, which is
//! [`kube`](mod@kube) here, and k8s-openapi of the same version with the feature for its
//! Kubernetes. Queues, stores and indexes are the crate `deltafifo`, which needs neither.
//!
//! | this crate | kube | k8s-openapi | Rust |
//! | --- | --- | --- | --- |
//! | 0.1 | 5 | 0.29 | 1.89 |
#![cfg_attr(docsrs, feature(doc_cfg))]

mod controller;
mod last_state;
pub mod lister_watcher;
mod meta;
pub mod metrics;
pub mod reflector;
#[cfg(feature = "runtime")]
pub mod runtime;
pub mod shared_informer;
mod shares;
mod slab;
mod sleep;
mod strangers;
mod time;
mod wire;
pub mod workqueue;

pub use controller::{Controller, ControllerError, ObjectEvent};
pub use kube;
pub use lister_watcher::{KubeListerWatcher, ListerWatcher};
pub use meta::KubeMeta;
pub use reflector::{Reflector, ReflectorError};
pub use shared_informer::SharedInformer;
pub use wire::WireError;
