//! Objects stored as compressed JSON and decoded on demand (feature `compact`).
//!
//! `SharedInformer::<Compact<Pod>>` keeps its pods in this form; the guide's chapter *Compact
//! objects* says when to use it. A [`Compactor`] packs the objects of one informer into [`Compact`]
//! objects. A pod of a workload with twenty replicas takes about 800 bytes, with its slot in the
//! store, instead of 29,000 bytes when it is decoded (*The cache* in `BENCHMARKS.md`). The header
//! has the metadata that keys, selectors and owner look-ups need.
//!
//! ```text
//! text -> prune -> fields -> group -> base, or dictionary -> codec -> Compact
//!                     \----------------------------------> header ---/
//! ```
//!
//! * `prune` cuts JSON members out of the text. `fields` reads its metadata, and `header` stores
//!   that, with the fields that the user has named. `interned` numbers the values of
//!   such a field that several objects have.
//! * `shapes` finds an object of another workload with similar metadata, so that the header has to
//!   store only the difference (`texts`).
//! * A group is the objects of one workload: of the same controller, or else with the same
//!   `generateName`, labels or name. `groups` finds the base of an object's group, or else, by the
//!   features of `sketch`, a base or object with similar content.
//! * A `base` is a copy of the text of one object of the group. It shares no memory with the texts
//!   that are packed with it, and lives as long as the last of them. Depth is one: a base is packed
//!   with the dictionary, never with another base. `cache` keeps recently used bases unpacked.
//! * When the second object of a group arrives, the text of the first becomes the base, and the
//!   first is packed again in place: an object's packed form is behind a lock of its own, while
//!   its text and its header never change.
//! * `values` cuts times, ids and other unique values out of a text, and `codec` packs the rest
//!   with libzstd.
//! * `decoded` keeps objects decoded, if the user asks for it.
//! * `sync` has the locks and atomics. `standin` replaces libzstd under Miri and in schedules.
//! * `upkeep` is the informer's side: when a list ends, dictionaries are trained (`training`), and
//!   a pass over the store packs again the objects whose base or dictionary was replaced
//!   (`repack`).
//!
//! Plaintext is kept in the headers, in the tables of `interned`, in the cache of bases, in the
//! dictionaries, in the cache of decoded objects, in the pooled contexts of zstd, and in an object
//! that would not shrink.

mod base;
mod builder;
mod bytes;
mod cache;
mod codec;
mod common;
mod compactor;
mod decoded;
mod error;
mod fields;
mod groups;
mod header;
mod interned;
mod object;
mod prune;
mod repack;
mod shapes;
mod sketch;
#[cfg(any(miri, deltafifo_shuttle))]
mod standin;
mod stats;
mod stored;
mod sync;
#[cfg(test)]
mod tests;
mod texts;
mod training;
mod uid;
mod upkeep;
mod values;

/// The guide's chapter on compact objects. Its examples are compiled here, because the crate that
/// compiles the other chapters does not enable the feature `compact`.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/compact.md")]
mod chapter {}

/// The README's controller with the call of `compact` that the README describes. The README is
/// compiled without the feature `compact`.
///
/// ```no_run
/// # use std::{sync::Arc, time::Duration};
/// # use deltafifo_informer::runtime::{
/// #     Controller, controller::Action, reflector::ObjectRef, watcher,
/// # };
/// # use futures_util::StreamExt;
/// # use k8s_openapi::api::core::v1::{ConfigMap, Pod};
/// # use kube::{Api, Client, ResourceExt};
/// async fn reconcile(map: Arc<ConfigMap>, client: Arc<Client>) -> kube::Result<Action> {
/// #     let _ = (map, client);
/// #     Ok(Action::await_change())
/// }
///
/// # #[tokio::main]
/// # async fn main() -> kube::Result<()> {
/// # let client = Client::try_default().await?;
/// # let (maps, pods) = (Api::<ConfigMap>::all(client.clone()), Api::<Pod>::all(client.clone()));
/// # let map = |p: Pod| Some(ObjectRef::new(p.labels().get("counted-by")?).within(&p.namespace()?));
/// Controller::new(maps, watcher::Config::default().labels("counts-pods"))
///     .compact()
///     .watches(pods, watcher::Config::default().labels("counted-by"), map)
///     .shutdown_on_signal()
///     .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(5)), Arc::new(client))
///     .for_each(|reconciled| async move { println!("{reconciled:?}") })
///     .await;
/// # Ok(())
/// # }
/// ```
#[cfg(doctest)]
mod readme {}

/// The objects of a kube watcher are decoded, so such a watcher cannot feed an informer of compact
/// objects:
///
/// ```compile_fail,E0599
/// # use deltafifo_informer::{SharedInformer, compact::Compact};
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use kube::{Api, runtime::watcher};
/// fn example(maps: Api<ConfigMap>) {
///     let maps = watcher(maps, watcher::Config::default());
///     let _ = SharedInformer::<Compact<ConfigMap>>::for_stream(maps);
/// }
/// ```
///
/// With decoded objects in their place, the program compiles:
///
/// ```
/// # use deltafifo_informer::{SharedInformer, compact::Compact};
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use kube::{Api, runtime::watcher};
/// fn example(maps: Api<ConfigMap>) {
///     let maps = watcher(maps, watcher::Config::default());
///     let _ = SharedInformer::<ConfigMap>::for_stream(maps);
/// }
/// ```
#[cfg(doctest)]
mod for_stream {}

pub use crate::pointer::InvalidPointer;
pub use builder::CompactorBuilder;
pub use compactor::Compactor;
pub use error::{DecodeError, DecodeFailure, PackError, UnnamedField};
pub use header::OwnerReference;
pub use object::Compact;
pub use stats::CompactStats;
#[cfg(deltafifo_shuttle)]
pub use sync::mutants;
pub(crate) use upkeep::Upkeep;
