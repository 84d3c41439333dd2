//! Clean-up before an object is deleted (kube's `finalizer`, with this crate's [`Action`]).

use std::fmt::Debug;
use std::sync::Arc;

use futures_util::{TryFuture, TryFutureExt};
pub use kube::runtime::finalizer::{Error, Event};
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::controller::Action;

/// Reconciles an object that needs clean-up before it is deleted. Calls kube's
/// [`finalizer`](fn@kube::runtime::finalizer::finalizer), whose documentation applies.
///
/// The first call for an object adds the finalizer. While the object has it, `reconcile` is
/// called with [`Event::Apply`]. Once the object has a deletion timestamp, `reconcile` is called
/// with [`Event::Cleanup`], and the finalizer is removed after that succeeds.
///
/// # Errors
/// [`Error`] if `reconcile` failed, or if the finalizer could not be written.
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
    let mut next = Action::await_change();
    // kube's action cannot be read, so the result is kept here.
    let reconcile = |event| {
        reconcile(event).map_ok(|action| {
            next = action;
            kube::runtime::controller::Action::await_change()
        })
    };
    kube::runtime::finalizer(api, finalizer_name, obj, reconcile).await?;
    Ok(next)
}
