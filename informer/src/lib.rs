//! Kubernetes informers, reflectors, controllers and work queues on tokio and kube, built on the
//! queues and stores of the crate `deltafifo`.
//!
//! * [`Reflector`]: lists and watches a cluster's objects into a queue or a store (client-go
//!   `Reflector`).
//! * [`SharedInformer`]: one watch, a store with indexes, and any number of handlers (client-go
//!   `SharedIndexInformer`).
#![cfg_attr(
    feature = "runtime",
    doc = "* [`Controller`]: calls a reconciler for each object that has changed, with",
    doc = "  the names and paths of kube's `kube::runtime` in [`runtime`] (feature `runtime`, on by",
    doc = "  default)."
)]
//! * `leader_election`: elects one of several replicas of a program as the leader (client-go
//!   `tools/leaderelection`; feature `leader-election`, off by default).
//! * `sharding`: shares the objects among several replicas, each of which reconciles a part of them
//!   (feature `leader-election`, off by default).
//! * [`lister_watcher`]: the sources of objects: an API server, several namespaces of one, or a
//!   script in a test (feature `scripted`, off by default).
//! * [`KubeMeta`]: the metadata accessor of all Kubernetes types.
//! * `compact`: objects that are kept as compressed JSON and decoded on demand (feature `compact`,
//!   off by default).
//! * [`metrics`]: the metrics and spans of all of these.
//! * [`workqueue`]: the queue of keys between event handlers and reconcilers (client-go
//!   `util/workqueue`), with the priorities of controller-runtime.
//!
//! # Guide
//!
//! The folder `docs/src` of the repository has chapters on what no single item documents:
//!
//! | chapter | about |
//! | --- | --- |
//! | `concepts.md` | deltas, stores, indexes and handlers, and how they fit together |
//! | `from-kube-rs.md`, `from-client-go.md` | what replaces each part of these libraries |
//! | `testing.md` | an API server for tests of operators |
//! | `semantics.md`, `choosing.md` | the exact guarantees; how to choose a queue and a buffer |
//! | `production.md` | RBAC, errors, reconcilers, back pressure, shutdown, probes, logs, limits |
//! | `namespaces.md` | accounts that may list some namespaces only |
//! | `memory.md`, `compact.md` | the memory of objects, and how to store them compressed |
//! | `leader-election.md`, `many-replicas.md` | replicas of which only one works, and replicas that share the work |
//! | `metrics.md` | what to watch, and a dashboard |
//!
//! # Versions
//!
//! Clients and objects are kube's. A program must use the versions of kube and k8s-openapi in the
//! table; this crate re-exports kube as [`kube`](mod@kube). The program must enable the k8s-openapi
//! feature of one Kubernetes version. Queues, stores and indexes are in the crate `deltafifo`,
//! which depends on neither kube nor k8s-openapi.
//!
//! | this crate | kube | k8s-openapi | Rust |
//! | --- | --- | --- | --- |
//! | 0.1 | 5 | 0.29 | 1.89 |
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(clippy::disallowed_types)]

#[cfg(feature = "compact")]
pub mod compact;
#[cfg(feature = "leader-election")]
pub mod leader_election;
#[cfg(feature = "leader-election")]
mod lease;
pub mod lister_watcher;
mod meta;
pub mod metrics;
mod pointer;
pub mod reflector;
#[cfg(feature = "runtime")]
pub mod runtime;
#[cfg(feature = "leader-election")]
#[cfg_attr(
    not(any(test, feature = "runtime")),
    expect(dead_code, reason = "only controllers do the work of shards in this crate")
)]
pub mod sharding;
pub mod shared_informer;
mod util;
mod wire;
pub mod workqueue;

pub use deltafifo::error_chain;
pub use kube;
pub use lister_watcher::{KubeListerWatcher, ListerWatcher};
pub use meta::KubeMeta;
pub use reflector::{Reflector, ReflectorError};
#[cfg(feature = "runtime")]
pub use runtime::Controller;
pub use shared_informer::SharedInformer;
