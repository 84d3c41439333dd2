//! Controllers with the names and paths of `kube::runtime`. A plain controller moves here by a
//! change of imports.
//!
//! ```
//! // use kube::runtime::{
//! //     Controller, controller::Action, finalizer, reflector::ObjectRef, watcher,
//! // };
//! use deltafifo_informer::runtime::{
//!     Controller, controller::Action, finalizer, reflector::ObjectRef, watcher,
//! };
//! ```
//!
//! Re-exported from kube without changes: [`watcher::Config`], [`reflector::ObjectRef`], and the
//! modules [`events`], [`wait`] and [`conditions`], which do not depend on the controller.
//!
//! Types of this crate: [`Controller`], its [`Action`](controller::Action), [`Config`] and
//! [`Error`](controller::Error), the [`Store`](reflector::Store), [`finalizer()`], and
//! [`predicates`], which compare two states of an object.
//!
//! [`controller`] lists the differences from kube's controller and its missing parts. To use the
//! events of a kube watcher, pass them to a queue with [`reflector::feed`], or build an informer
//! over them with [`SharedInformer::for_stream`](crate::SharedInformer::for_stream).

pub mod controller;
pub mod finalizer;
pub(crate) mod form;
mod predicate;
pub mod predicates;
pub mod reflector;
pub mod utils;
mod watch_stream;
pub mod watcher;

pub use controller::{Config, Controller};
pub use finalizer::finalizer;
pub use form::Form;
pub use kube::runtime::{PredicateConfig, conditions, events, wait};
pub use predicate::Predicate;
pub use reflector::reflector;
pub use watch_stream::WatchStreamExt;
#[allow(deprecated)]
pub use watcher::{metadata_watcher, watcher};
