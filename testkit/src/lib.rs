//! A Kubernetes API server inside the test process, for tests of controllers and reflectors. It
//! lists, watches and writes as the real server does, and fails on command as the real server can.
//!
//! [`ApiServer::client`] returns a [`kube::Client`]. Code that is built on kube-rs runs over it
//! without a network, a cluster or another process. Objects are JSON, so any kind works, custom
//! kinds too.
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
//! * **Lists**: whole, or in pages of one version; of the newest version, any version, exactly the
//!   requested one, or one that is not older; by namespace, label selector, the field selectors of
//!   the kind, and [`shardSelector`](Builder::shard_selectors). The body is produced while it is
//!   sent, in frames of a configurable size.
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
//! The scenario `testkit` of this project's `e2e/` sends 1629 requests to this server and to a
//! kube-apiserver 1.36; 100 of them are recorded from `kubectl` and kube-rs. It compares the code
//! of each answer, and the whole body, the part that this server sends, or kind and reason, without
//! uids, versions and times. It fails at a difference.
//!
//! # Guide
//!
//! The chapter `docs/src/testing.md` of the repository shows tests with this server, the program,
//! and which commands of `kubectl` work with it.
//!
//! # Limits
//!
//! The server has no admission, defaulting, conversion, existence check of namespaces, protobuf,
//! tables with other columns than name and age, served schemas (`kubectl apply` needs
//! `--validate=false`), scheduler, kubelet, or subresource other than `status`, `scale` and a
//! namespace's `finalize`. The server validates the metadata of an object (names, labels,
//! annotations, finalizers, owner references, and the fields that only it sets), its kind, the
//! number of replicas in a scale, the keys of lists in applied configurations and in strategic
//! merge patches, and in definitions the length of such keys and the paths of a scale, and
//! nothing else. A refusal names one fault of the metadata. The server refuses unknown values of
//! `fieldValidation` and ignores the others. Each resource has one API version. All requests are
//! authorised. They are recorded until [`forget_requests`](ApiServer::forget_requests) is
//! called, unless [`recorded_requests`](Builder::recorded_requests) limits their number. A body
//! of more than 3 MiB is refused with 413, which is the real server's default; etcd refuses an
//! object of more than
//! 1.5 MiB, and this server does not. The only controllers are those of [`Builder::controllers`].
//!
//! Of the schema in a definition of a custom resource, only the types of lists and maps
//! (`x-kubernetes-list-type`, `x-kubernetes-map-type`), the keys of lists and the defaults of keys,
//! and embedded resources are read. A changed definition is ignored, and a deleted one leaves the
//! resource.
//!
//! Lists and maps of built-in kinds merge as those of Kubernetes 1.37 do, in server-side apply and
//! in strategic merge patches; those of a custom resource as its definition or
//! [`list_keys`](Resource::list_keys) declares. A kind that Kubernetes does not have, or a custom
//! resource without a definition, has no lists that merge but `ownerReferences` and `finalizers`.
//! A configuration with an unknown field is accepted, except in the metadata. A refusal names at
//! most 100 conflicts or errors. A strategic merge patch that deletes a map with `$patch: delete`
//! removes the field, although the real server leaves an empty map if the field is a structure. In
//! `managedFields`, some marks of whole maps (`.`) differ from the real server's. A write to
//! `status` changes nothing but the status, although the real server lets some kinds change labels
//! there.
//!
//! Three answers differ on purpose. An object that an applied configuration creates has no
//! `deletionTimestamp` and no `deletionGracePeriodSeconds`; the real server stores those of the
//! configuration, so the object is marked for deletion although no client has deleted it. An
//! applied scale of a custom resource is always refused with 500; the real server answers so unless
//! the scale changes nothing or conflicts. `HEAD` is refused with 405; the real server answers it
//! for custom resources only.
//!
//! Answers are JSON, whatever the header `Accept` asks for, and in one of its forms: whole objects,
//! metadata, or tables; a scale is always whole. Bodies may be YAML, of which the first document
//! counts, and the keys of maps are taken as they are written; YAML with more than 64 levels or
//! 250,000 values is refused.
//!
//! The real server has a cache of recent changes and etcd behind it. This server has one log for
//! both: if a version is too old for a watch, it is also too old for an exact list and a page
//! token. It refuses a list, streamed or not, or a get of a version from the future at once, not
//! after three seconds. One counter, which starts at 1 and has no gaps, numbers the versions of all
//! resources.
//!
//! A watch gets only the bookmark that ends its initial events, and the bookmarks that a test sends
//! with [`bookmark`](ApiServer::bookmark), unless the server is [built](Builder::bookmarks) to send
//! them periodically. The real server sends a bookmark about once a minute, and one before a watch
//! ends.

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
