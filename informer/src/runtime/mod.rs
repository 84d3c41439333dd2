//! A controller under the names and paths of kube's (`kube::runtime`): moving is a change of imports.
//!
//! ```
//! // use kube::runtime::{Controller, controller::Action, finalizer, reflector::ObjectRef, watcher};
//! use deltafifo_informer::runtime::{Controller, controller::Action, finalizer, reflector::ObjectRef, watcher};
//! ```
//!
//! What is the same type as kube's: [`watcher::Config`], [`reflector::ObjectRef`], and [`events`], [`wait`] and [`conditions`], which
//! have nothing to do with controllers. What is ours: [`Controller`], its [`Action`](controller::Action), [`Config`] and
//! [`Error`](controller::Error), its [`Store`](reflector::Store), [`finalizer()`], and [`predicates`], which compare two states.
//!
//! What it does otherwise, and what is not here, stands at [`controller`]. A watcher of kube's feeds a queue by [`reflector::feed`],
//! and an informer by [`SharedInformer::for_stream`](crate::SharedInformer::for_stream).

pub mod controller;
pub mod finalizer;
pub mod predicates;
pub mod reflector;
pub mod watcher;

pub use controller::{Config, Controller};
pub use finalizer::finalizer;
pub use kube::runtime::{conditions, events, wait};
