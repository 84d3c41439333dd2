//! A Kubernetes API server in this process, for tests of controllers and reflectors. It lists,
//! watches and writes as the real one does, and goes wrong on command as the real one does.
//!
//! [`ApiServer::client`] is a [`kube::Client`]: whatever is built on kube-rs runs over it without
//! a network, a cluster or another process. Objects are JSON, so any kind works, custom ones too.
//!
//! ```
//! use deltafifo_testkit::{ApiServer, Resource, Verb, status};
//! use futures_util::{StreamExt, TryStreamExt};
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::api::{Api, WatchEvent, WatchParams};
//! use serde_json::json;
//! use std::pin::pin;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::builder().resource(Resource::config_maps()).build();
//! let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
//! let map = |data| json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": { "name": "a" }, "data": data });
//!
//! let version = server.apply(map(json!({ "x": "1" })))?;
//! let mut watch = pin!(maps.watch(&WatchParams::default(), &version.to_string()).await?);
//! server.apply(map(json!({ "x": "2" })))?;
//! let Some(WatchEvent::Modified(seen)) = watch.try_next().await? else { panic!("another event") };
//! assert_eq!(seen.data.unwrap()["x"], "2");
//!
//! server.error_watches(status::expired("too old"));
//! assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Error(gone))) if gone.code == 410));
//! assert!(watch.next().await.is_none());
//! assert_eq!(server.requests()[0].verb(), Verb::Watch);
//! # Ok(())
//! # }
//! ```
//!
//! # What it does
//!
//! * **Lists** in pages of one version, of the newest version, any, an exact one, or one not
//!   older; by namespace, label selector, `metadata.name` and `metadata.namespace`; sent as they
//!   are made, in frames of a size of your choice.
//! * **Watches** from a version, from now, or beginning with what is there (`sendInitialEvents`);
//!   bookmarks and timeouts by tokio's clock, which a test may pause; an object that leaves a
//!   selector is deleted for the watch. A watch that nobody reads ends when it is too far behind:
//!   [`watch_buffer`](Builder::watch_buffer).
//! * **Writes** by clients: create, update with its conflicts, JSON patch and merge patch, the
//!   status alone, delete with preconditions and finalizers, delete many. By the test:
//!   [`apply`](ApiServer::apply), [`delete`](ApiServer::delete).
//! * **Objects that are generated** when they are sent, a million if you like:
//!   [`generate`](ApiServer::generate).
//! * **Faults**: [`Fault`] for requests to come, [`end_watches`](ApiServer::end_watches),
//!   [`break_watches`](ApiServer::break_watches) and [`error_watches`](ApiServer::error_watches)
//!   for watches that are open, [`compact`](ApiServer::compact) for versions and page tokens that
//!   are no longer good.
//! * **What was asked**: [`requests`](ApiServer::requests), and waits without sleeps.
//!
//! # What it does not
//!
//! No admission, no defaults, no validation of an object beyond its kind and its name, no
//! namespaces that must exist, no garbage collection, no grace periods, no `metadata.generation`,
//! no field manager (server-side apply and strategic merge patches are refused with 415), no dry
//! runs (400), no discovery, no protobuf, no other subresource than `status`. A resource has one
//! version. All requests are allowed.
//!
//! Where the real server has a cache of the last changes and etcd behind it, here is one log for
//! both: when a version is too old for a watch, it is for an exact list and a page token as well.
//! It refuses a version from the future at once instead of after three seconds. Versions are those
//! of one counter from 1, and dense.
//!
//! A watch gets no bookmark by itself, but for the one that ends its initial events, unless the
//! server is [built](Builder::bookmarks) to send them: the real one sends one about every minute,
//! and one before a watch ends. Otherwise a test says when: [`bookmark`](ApiServer::bookmark).

mod answer;
mod body;
mod change;
mod control;
mod error;
mod fault;
mod generated;
mod list;
mod object;
mod options;
mod request;
mod resource;
mod selector;
mod server;
pub mod status;
mod store;
mod walk;
mod watch;
mod write;

pub use body::{After, Body};
pub use error::Error;
pub use fault::Fault;
pub use request::{Request, Verb};
pub use resource::Resource;
pub use server::{ApiServer, Builder, WatchLists};
