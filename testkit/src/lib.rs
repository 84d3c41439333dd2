//! A Kubernetes API server inside the test process, for tests of controllers and reflectors. It
//! answers lists, watches and writes as the real server does. A test can inject the faults that the
//! real server can have.
//!
//! [`ApiServer::client`] returns a [`kube::Client`]. Code that uses kube-rs works with this client,
//! without a network, a cluster or another process. Objects are JSON, so any kind works, including
//! custom kinds.
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
//! let map = |data| {
//!     let metadata = json!({ "name": "a" });
//!     json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": data })
//! };
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
//! # Features
//!
//! * **Lists**: complete, or in pages of one version. The version may be the newest, any, exactly
//!   the requested one, or one that is not older. Lists are restricted by namespace, label
//!   selector, the field selectors of the kind, and [`shardSelector`](Builder::shard_selectors).
//!   The body is produced while it is sent, in frames of a configurable size.
//! * **Watches**: from a version, from now, or starting with the existing objects
//!   (`sendInitialEvents`). Bookmarks and timeouts follow tokio's clock, which a test may pause. If
//!   an object stops matching the selector, the watch gets a deletion. A watch that is not read
//!   ends when it is too far behind: [`watch_buffer`](Builder::watch_buffer).
//! * **Writes** by clients, in JSON or YAML: create, update with conflicts, JSON patch, merge patch
//!   and strategic merge patch, server-side apply, status alone, delete of an object or a
//!   collection. A dry run answers as the write would, and stores nothing. `metadata.generation`
//!   rises as in the real server. Writes by the test: [`apply`](ApiServer::apply),
//!   [`delete`](ApiServer::delete).
//! * **The subresource `scale`** of deployments, replica sets and stateful sets, and of custom
//!   resources whose definition declares it.
//! * **Server-side apply** with field managers, conflicts, force and `managedFields`. Lists and
//!   maps merge by the type of each field. `kubectl` can move from client-side apply.
//! * **Deletions** with preconditions, finalizers, propagation policies and the grace period of a
//!   pod on a node. With [`controllers`](Builder::controllers), dependents are deleted or become
//!   orphans, and namespaces are emptied.
//! * **Discovery** for `kubectl` and generic clients. A [`Resource`] knows the properties of the
//!   common built-in kinds, and a custom resource is served when a client creates its definition.
//! * **Connections**: [`serve`](ApiServer::serve) serves a TCP address, and so does the program
//!   `deltafifo-testkit` (feature `cli`), for `kubectl` and clients in any language that send JSON.
//! * **Generated objects**, which are produced when they are sent, so that a test can have a
//!   million: [`generate`](ApiServer::generate).
//! * **Faults**: [`Fault`] for later requests; [`end_watches`](ApiServer::end_watches),
//!   [`break_watches`](ApiServer::break_watches) and [`error_watches`](ApiServer::error_watches)
//!   for open watches; [`compact`](ApiServer::compact) for expired versions and page tokens.
//! * **Recorded requests**: [`requests`](ApiServer::requests), and waits for requests and watches
//!   without sleeps.
//!
//! The scenario `testkit` of this project's `e2e/` sends 1860 requests to this server and to a
//! kube-apiserver 1.36, and fails if the answers differ; 100 of the requests are recorded from
//! `kubectl` and kube-rs. It compares the status code of each answer. For each request it also
//! compares either the whole body, the part of the body that this server sends, or the kind and
//! reason. Uids, versions and times are not compared.
//!
//! # Guide
//!
//! The chapter `docs/src/testing.md` of the repository shows tests with this server, the program,
//! and which commands of `kubectl` work with it.
//!
//! # Limits
//!
//! The server has no admission, defaulting, conversion, protobuf, served schemas (`kubectl apply`
//! needs `--validate=false`), scheduler or kubelet. It does not check that the namespace of an
//! object exists. Its tables have only the columns name and age, and its only subresources are
//! `status`, `scale` and a namespace's `finalize`. Each resource has one API version. All requests
//! are authorised. The only controllers are those of [`Builder::controllers`].
//!
//! **Validation.** The server validates only:
//!
//! * the kind and the metadata of an object (names, labels, annotations, finalizers, owner
//!   references, and the fields that only the server sets); a refusal names one fault of the
//!   metadata,
//! * the number of replicas in a scale,
//! * the keys of lists in applied configurations and in strategic merge patches,
//! * in definitions, the length of such keys and the paths of a scale,
//! * the values of `fieldValidation`, which have no other effect.
//!
//! **Sizes.** A body of more than 3 MiB is refused with 413, which is the real server's default.
//! This server accepts an object of more than 1.5 MiB, which etcd refuses. Requests are recorded
//! until [`forget_requests`](ApiServer::forget_requests) is called, unless
//! [`recorded_requests`](Builder::recorded_requests) limits their number.
//!
//! **Definitions.** Of the schema in a definition of a custom resource, the server reads only the
//! types of lists and maps (`x-kubernetes-list-type`, `x-kubernetes-map-type`), the keys of lists,
//! the defaults of keys, and embedded resources. A change of a definition is ignored, and its
//! deletion leaves the resource.
//!
//! **Merging.** In server-side apply and in strategic merge patches, lists and maps of built-in
//! kinds merge as those of Kubernetes 1.37 do, and those of a custom resource as its definition or
//! [`list_keys`](Resource::list_keys) declares. In a kind that Kubernetes does not have, or a
//! custom resource without a definition, only the lists `ownerReferences` and `finalizers` merge. A
//! configuration with an unknown field is accepted, except in the metadata. A refusal names at most
//! 100 conflicts or errors. A strategic merge patch that deletes a map with `$patch: delete`
//! removes the field, although the real server leaves an empty map if the field is a structure. In
//! `managedFields`, some marks of whole maps (`.`) differ from the real server's. A write to
//! `status` changes nothing but the status, although the real server lets some kinds change labels
//! there.
//!
//! **Deliberate differences.** Three answers deliberately differ from those of the real server:
//!
//! * If an applied configuration creates an object, its `deletionTimestamp` and
//!   `deletionGracePeriodSeconds` are ignored. The real server stores them, so the object is marked
//!   for deletion although no client has deleted it.
//! * An applied scale of a custom resource is always refused with 500. The real server does so,
//!   too, unless the scale changes nothing or conflicts.
//! * `HEAD` is refused with 405. The real server answers it for custom resources only.
//!
//! **Formats.** Answers are always JSON, even if the header `Accept` requests another format. They
//! are whole objects, metadata, or tables; a scale is always whole. Bodies of requests may be YAML.
//! Of several YAML documents the first one counts, and the keys of maps are taken as they are
//! written. YAML with more than 64 levels or 250,000 values is refused.
//!
//! **Versions.** The real server has a cache of recent changes, and etcd behind it. This server has
//! one log for both: if a version is too old for a watch, it is also too old for an exact list and
//! a page token. The server refuses a list (streamed or not) or a get of a version from the future
//! at once; the real server does so after three seconds. One counter, which starts at 1 and has no
//! gaps, numbers the versions of all resources.
//!
//! **Bookmarks.** A watch gets only the bookmark that ends its initial events, and the bookmarks
//! that a test sends with [`bookmark`](ApiServer::bookmark), unless the server is
//! [built](Builder::bookmarks) to send bookmarks periodically. The real server sends a bookmark
//! about once a minute, and one before a watch ends.

mod answer;
mod apply;
mod author;
mod body;
mod change;
mod collect;
mod control;
mod definitions;
mod delete;
mod discovery;
mod error;
mod fault;
mod generated;
mod known;
mod list;
mod object;
mod options;
mod patch;
mod request;
mod resource;
mod scale;
mod selector;
mod serve;
mod server;
mod shards;
pub mod status;
mod steps;
mod store;
mod table;
mod types;
mod validate;
mod walk;
mod watch;
mod write;
mod yaml;

pub use body::{After, Body};
pub use error::Error;
pub use fault::Fault;
pub use request::{Request, Verb};
pub use resource::Resource;
pub use serve::Serving;
pub use server::{ApiServer, Builder, WatchLists};
pub use shards::ShardSelectors;
