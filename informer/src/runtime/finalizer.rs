//! Clean-up before an object goes (kube's `finalizer`, with a controller's own [`Action`]).

use std::fmt::Debug;
use std::sync::Arc;

use futures_util::{TryFuture, TryFutureExt};
pub use kube::runtime::finalizer::{Error, Event};
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::controller::Action;

/// Reconciles an object that is not to go before it was cleaned up: as kube's
/// [`finalizer`](fn@kube::runtime::finalizer::finalizer), which does the work and whose docs hold.
///
/// The finalizer is written first, and the object reconciled with [`Event::Apply`] when it has it; asked to go, it is reconciled
/// with [`Event::Cleanup`], and the finalizer taken away after that.
///
/// # Errors
/// [`Error`]: `reconcile` failed, or the finalizer could not be written.
pub async fn finalizer<K, ReconcileFut>(
    api: &Api<K>,
    finalizer_name: &str,
    obj: Arc<K>,
    reconcile: impl FnOnce(Event<K>) -> ReconcileFut,
) -> Result<Action, Error<ReconcileFut::Error>>
where
    K: Resource + Clone + DeserializeOwned + Serialize + Debug,
    ReconcileFut: TryFuture<Ok = Action>,
    ReconcileFut::Error: std::error::Error + 'static,
{
    let mut wanted = Action::await_change();
    let kubes = |event| {
        reconcile(event).map_ok(|action| {
            wanted = action;
            kube::runtime::controller::Action::await_change()
        })
    };
    kube::runtime::finalizer(api, finalizer_name, obj, kubes).await?;
    Ok(wanted)
}
