//! The work of a controller: a reconcile or deletion handlers, from its item to its outcome.

use std::sync::Arc;

use deltafifo::BoxError;
use deltafifo::panics::ignore_panic;
use kube::Resource;
use tracing::Span;

use super::Action;
use super::deleted::Deletion;
use super::key::StoreKey;
use super::permitted::{PausedPermit, Permit, resume};
use crate::runtime::reflector::ObjectRef;
use crate::workqueue::Item;

/// The outcome of a reconcile or a deletion handler, or an object that could not be decoded for its
/// reconcile. Holds the work queue item, so no other call for the key starts before
/// `ControllerRun::settle` has acted on the outcome.
pub(super) struct Done<K: Resource, E> {
    pub(super) item: Item<StoreKey>,
    pub(super) outcome: Outcome<K, E>,
    /// The span of the call. The error policy runs in it, too.
    pub(super) span: Span,
}

pub(super) enum Outcome<K: Resource, E> {
    Reconciled(ObjectRef<K>, Action),
    /// The reconciler returned this error. The error policy receives the object.
    Failed(ObjectRef<K>, Arc<K>, E),
    Deleted,
    /// The reconcile was dropped because its permit was lost.
    Lost,
    /// The object to reconcile could not be decoded.
    NotDecoded(BoxError),
    /// The message of a panic, and whether to retry: a reconcile is retried, a deletion handler
    /// is not.
    Panicked {
        message: String,
        again: bool,
    },
}

/// The result of a task that decodes the objects of an item, or that calls the user's functions. It
/// waits until the stream is polled, so it must not keep a shard: permits are paused.
pub(super) enum Ended<K: Resource, E, P = PausedPermit> {
    /// The objects of the item were decoded.
    Decoded(Item<StoreKey>, Work<K, P>),
    Call(Done<K, E>),
}

/// The work for an item of the queue, with objects as they are stored (`F`) or decoded
/// (`F::Object`).
pub(super) enum Work<T, P = Permit> {
    /// Reconcile this object. A sharded controller has a permit for it.
    Reconcile(Arc<T>, Option<P>),
    /// Call the deletion handler for each of these last states. A sharded controller has a permit
    /// for each.
    Deletions(Vec<(Deletion<T>, Option<P>)>),
}

impl<K: Resource, E> Ended<K, E, Permit> {
    /// Pauses the permits.
    pub(super) fn pause(self) -> Ended<K, E> {
        let (item, work) = match self {
            Self::Call(done) => return Ended::Call(done),
            Self::Decoded(item, work) => (item, work),
        };
        let pause = |(deletion, permit): (_, Option<Permit>)| (deletion, permit.map(Permit::pause));
        let work = match work {
            Work::Reconcile(object, permit) => Work::Reconcile(object, permit.map(Permit::pause)),
            Work::Deletions(deletions) => {
                Work::Deletions(deletions.into_iter().map(pause).collect())
            }
        };
        Ended::Decoded(item, work)
    }
}

impl<T: Send + Sync + 'static> Work<T, PausedPermit> {
    /// Continues the work, without deletions of shards that have moved or are about to. Returns
    /// `None` if the object to reconcile is in such a shard.
    pub(super) fn resume(self) -> Option<Work<T>> {
        let deletions = match self {
            Self::Reconcile(object, paused) => {
                let Some(permit) = resume(paused) else {
                    drop_in_task(object);
                    return None;
                };
                return Some(Work::Reconcile(object, permit));
            }
            Self::Deletions(deletions) => deletions,
        };
        let resumed = deletions.into_iter().filter_map(|(deletion, paused)| {
            let Some(permit) = resume(paused) else {
                drop_in_task(deletion);
                return None;
            };
            Some((deletion, permit))
        });
        Some(Work::Deletions(resumed.collect()))
    }
}

/// The work for an item, and the item, which holds the key.
pub(super) type ItemWithWork<T> = (Item<StoreKey>, Work<T>);

/// Drops a value in a task. It may hold the last handle of a decoded object, and to free a large
/// object would delay the task that polls the stream. Ignores the panic of a destructor.
pub(super) fn drop_in_task(value: impl Send + 'static) {
    tokio::spawn(async move { ignore_panic(|| drop(value)) });
}
