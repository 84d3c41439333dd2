//! Controllers, stores and streams with the names and paths of `kube::runtime`. A program moves
//! here by a change of imports.
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
//! Programs that use kube's streams move in the same way:
//!
//! ```
//! // use kube::runtime::{Predicate, WatchStreamExt, predicates, reflector, watcher};
//! use deltafifo_informer::runtime::{Predicate, WatchStreamExt, predicates, reflector, watcher};
//! # use deltafifo_testkit::{ApiServer, Resource};
//! use futures_util::TryStreamExt;
//! use k8s_openapi::api::core::v1::Node;
//! use kube::{Api, ResourceExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = ApiServer::builder().resource(Resource::nodes()).build();
//! # let node = serde_json::json!({
//! #     "kind": "Node", "apiVersion": "v1", "metadata": { "name": "a" },
//! # });
//! # server.apply(node)?;
//! # let client = server.client();
//! let (store, writer) = reflector::store();
//! let nodes = watcher(Api::<Node>::all(client), watcher::Config::default())
//!     .default_backoff()
//!     .reflect(writer)
//!     .applied_objects()
//!     .predicate_filter(predicates::labels.combine(predicates::annotations), Default::default());
//! let mut nodes = std::pin::pin!(nodes);
//! tokio::spawn(async move {
//!     let ready = store.wait_until_ready().await;
//!     ready.map(|()| println!("there are {} nodes", store.len()))
//! });
//! while let Some(node) = nodes.try_next().await? {
//!     println!("{} has new labels or annotations", node.name_any());
//! #   break;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! These items are kube's, re-exported without changes: [`watcher()`], [`metadata_watcher`] and the
//! types of their [events, errors and configuration](mod@watcher), [`reflector::ObjectRef`] and
//! [`reflector::Lookup`], [`PredicateConfig`], the adapters and backoffs of [`utils`], and the
//! modules [`events`], [`wait`] and [`conditions`].
//!
//! Types of this crate:
//!
//! * [`Controller`], its [`Action`](controller::Action), [`Config`] and
//!   [`Error`](controller::Error). [`controller`] lists the differences from kube's controller and
//!   its missing parts.
//! * [`finalizer()`], which calls kube's and returns this crate's `Action`. Its
//!   [`Event`](finalizer::Event) and [`Error`](finalizer::Error) are kube's.
//! * The [`Store`](reflector::Store), its [`Writer`](reflector::Writer), which lists the
//!   differences from kube's, [`reflector()`] and its
//!   [subscribers](reflector::ReflectHandle).
//! * [`WatchStreamExt`]: the methods of kube's trait of that name.
//! * [`predicates`], which compare two states of an object, and [`Predicate`], the trait by which a
//!   stream uses them. Import this trait and [`WatchStreamExt`] instead of kube's, not in addition
//!   to them.
//! * [`Form`] and [`StoreForm`]: the forms of objects, typed or compact, in a controller and in a
//!   store.
//! * [`own_writes`]: a client for reconcilers that read a store after their writes.
//!
//! A stream of objects loses the deletions that only a list shows. An
//! [informer](crate::SharedInformer) does not lose them, and any number of controllers and handlers
//! share it. To use the events of a kube watcher, build an informer over them with
//! [`SharedInformer::for_stream`](crate::SharedInformer::for_stream), or pass them to a queue with
//! [`reflector::feed`].

pub mod controller;
pub mod finalizer;
pub(crate) mod form;
pub mod own_writes;
mod predicate;
pub mod predicates;
pub mod reflector;
pub mod utils;
mod watch_stream;
pub mod watcher;

pub use controller::{Config, Controller};
pub use finalizer::finalizer;
pub use form::{Form, StoreForm};
pub use kube::runtime::{PredicateConfig, conditions, events, wait};
pub use predicate::Predicate;
pub use reflector::reflector;
pub use watch_stream::WatchStreamExt;
#[allow(deprecated)]
pub use watcher::{metadata_watcher, watcher};
