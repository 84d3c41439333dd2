//! Errors that a controller's stream yields.

use deltafifo::BoxError;
use kube::api::DynamicObject;
use kube::runtime::controller as kubes;
use kube::runtime::reflector::ObjectRef;

use crate::runtime::own_writes::NotSeen;
use crate::runtime::watcher;

/// An error item of a controller's stream (kube's `Error`, with the same texts). As in kube, a text
/// contains the cause of the error. [`error_chain`](crate::error_chain) adds the causes of the
/// cause, and repeats nothing.
///
/// Only [`RunnerError::Stopped`], [`RunnerError::WriterDropped`], [`RunnerError::NotCompact`],
/// [`RunnerError::LedAndSharded`], [`RunnerError::NotListable`], [`RunnerError::NotSharded`],
/// [`RunnerError::NotNamespaced`] and [`RunnerError::NoUid`] end the stream.
///
/// The controller does not log the errors that its stream yields, so a program that logs them has
/// each in its log once. The exceptions are errors because of which nothing is reconciled, since a
/// program may ignore the errors of its stream: an error that ends the stream, the first failed
/// list or watch of each informer that reconciles wait for, and the first
/// [`RunnerError::NotSynced`] that names these informers.
// A text of this crate does not repeat its source, except these: they are kube's, so that a program
// that moves from kube still logs the cause.
#[derive(Debug, thiserror::Error)]
pub enum Error<ReconcilerErr: 'static, QueueErr: 'static> {
    /// An object that was to be reconciled is not in the store. A controller over a stream
    /// ([`for_stream`](super::Controller::for_stream),
    /// [`for_shared_stream`](super::Controller::for_shared_stream)) yields this error like kube's,
    /// for example when the stream yields the last state of a deleted object. A controller over an
    /// informer yields it only if the informer has [custom
    /// keys](crate::SharedInformer::with_keys): a controller looks objects up by `namespace/name`
    /// or `name`.
    ///
    /// For informers with default keys a missing object is not an error (kube yields this error
    /// for it): when an owner is deleted, the deletion of each object that it owned still
    /// triggers the owner. Such triggers are logged at level debug, and counted in
    /// `controller_objects_not_found_total` if the controller has a [name](super::Config::name).
    #[error("tried to reconcile object {0} that was not found in local store")]
    ObjectNotFound(Box<ObjectRef<DynamicObject>>),
    /// The reconciler returned an error, which is the source of this one. The error policy has
    /// already chosen the next step.
    #[error("reconciler for object {1} failed: {0}")]
    ReconcilerFailed(#[source] ReconcilerErr, Box<ObjectRef<DynamicObject>>),
    /// A list or a watch failed, or an object could not be decoded.
    #[error("event queue error: {0}")]
    QueueError(#[source] QueueErr),
    /// An error of the controller itself.
    #[error("runner error: {0}")]
    RunnerError(#[from] RunnerError),
}

impl<E> From<Error<E, watcher::Error>> for kubes::Error<E, watcher::Error> {
    /// Converts an error for code that takes kube's. kube's `RunnerError` cannot be constructed, so
    /// a [`RunnerError`] becomes a `QueueError` that has it among its sources.
    ///
    /// ```
    /// use deltafifo_informer::runtime::controller::{Action, Error};
    /// use deltafifo_informer::runtime::{reflector::ObjectRef, watcher};
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # type Failure = std::io::Error;
    ///
    /// /// A function of a library.
    /// fn report(
    ///     reconciled: &Result<
    ///         (ObjectRef<ConfigMap>, kube::runtime::controller::Action),
    ///         kube::runtime::controller::Error<Failure, watcher::Error>,
    ///     >,
    /// ) {
    ///     # let _ = reconciled;
    /// }
    ///
    /// fn on_item(item: Result<(ObjectRef<ConfigMap>, Action), Error<Failure, watcher::Error>>) {
    ///     report(&item.map(|(object, action)| (object, action.into())).map_err(Into::into));
    /// }
    /// ```
    fn from(error: Error<E, watcher::Error>) -> Self {
        match error {
            Error::ObjectNotFound(object) => Self::ObjectNotFound(object),
            Error::ReconcilerFailed(error, object) => Self::ReconcilerFailed(error, object),
            Error::QueueError(error) => Self::QueueError(error),
            Error::RunnerError(error) => {
                Self::QueueError(watcher::Error::WatchFailed(kube::Error::Service(error.into())))
            }
        }
    }
}

/// An error of the controller itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunnerError {
    /// A shared informer of this controller stopped before the controller had received its initial
    /// list, so nothing can be reconciled. The stream ends with this error; the log names the
    /// informer.
    #[error(
        "shared informer stopped before its initial list: build another informer, and a controller over it"
    )]
    Stopped,
    /// The writer of the store of a controller over a stream was dropped before the store had
    /// received its initial list, so nothing can be reconciled (kube: `Readiness(WriterDropped)`).
    /// The stream ends with this error.
    #[error(
        "writer of the store of {resource} was dropped before its initial list, so nothing is reconciled: poll the stream that fills the store for as long as the controller runs, and check whether it has ended or panicked"
    )]
    WriterDropped {
        /// The resource of the main objects, for example `configmaps.v1`.
        resource: String,
    },
    /// Shared informers of this controller have not delivered their initial list, or the store of a
    /// controller over a stream is not ready. The stream continues; reconciles begin once every
    /// list that they wait for has arrived.
    ///
    /// For an informer that is not running, this error is yielded 5 seconds after the stream was
    /// first polled, and every minute after that. For a running informer and for a store, it is
    /// yielded every minute, but only if reconciles wait for it. It is also logged, as a warning,
    /// when it names other informers than before. The informers that the controller owns are not
    /// included: their errors are yielded as [`QueueError`](Error::QueueError).
    #[error(
        "{} until these have their initial list: {}",
        if *blocks_reconciles { "nothing is reconciled" } else { "objects are missing and trigger no reconciles" },
        informers.join(", ")
    )]
    NotSynced {
        /// The title of each informer, or the name of the store, followed in parentheses by what is
        /// wrong with it and what to do.
        informers: Vec<String>,
        /// Whether reconciles wait for at least one of these informers.
        blocks_reconciles: bool,
    },
    /// A reconciler or a deletion handler panicked (in kube, a panic of the reconciler panics the
    /// controller). The reconcile is retried after 5 ms; the delay doubles with each panic, up to
    /// 1000 s, unless a [retry policy](super::Controller::retry) sets another. A deletion handler
    /// is not called again for that deletion.
    #[error("reconciler or deletion handler panicked for {object}: {message}")]
    Panicked {
        /// The object that was reconciled or deleted.
        object: Box<ObjectRef<DynamicObject>>,
        /// The panic message.
        message: String,
    },
    /// A store of the controller does not show what a reconcile wrote (see
    /// [`read_own_writes`](super::Controller::read_own_writes)), so the next reconcile of the
    /// object did not begin. It is tried again with the delays of [`Panicked`](Self::Panicked), and
    /// begins in any case once the write is 2 minutes old. Not yielded for an object whose shard
    /// has moved to another replica.
    #[error(
        "{object} was not reconciled, because a store does not show yet what an earlier reconcile wrote; it is retried, and is reconciled in any case once that write is 2 minutes old"
    )]
    OwnWriteNotSeen {
        /// The object that was to be reconciled.
        object: Box<ObjectRef<DynamicObject>>,
        /// The write, and the informer that does not show it.
        source: Box<NotSeen>,
    },
    /// A compact object could not be decoded, so it was not reconciled (see
    /// `Controller::compact`). It stays in the store. The reconcile is retried when the object
    /// changes, and also with the delays of [`Panicked`](Self::Panicked), unless
    /// `Controller::decode_error_policy` decides otherwise.
    #[error(
        "{object} was not reconciled because it cannot be decoded: it stays in the store; correct the object or its type"
    )]
    NotDecoded {
        /// The object that was to be reconciled.
        object: Box<ObjectRef<DynamicObject>>,
        /// The reason.
        source: BoxError,
    },
    /// `Controller::compact` was called after the controller's informer was built, or on a
    /// controller over a stream. The stream ends with this error.
    #[error(
        "controller cannot become compact because its informer exists, or because its objects come from a stream: call `compact` before `store`; for a shared informer, build it with `Compact` objects; in place of a stream, use an informer"
    )]
    NotCompact,
    /// The controller is both led (`Controller::while_leading`) and sharded
    /// (`Controller::sharded`). The stream ends with this error.
    #[error(
        "controller is both led and sharded, so nothing is reconciled: give it a term or a group, and the other controllers of the program what they need"
    )]
    LedAndSharded,
    /// An informer of a sharded controller has no lister-watcher, because it is fed by a stream, or
    /// has custom keys or an in-order queue; or the controller has a stream of objects in place of
    /// an informer. So the controller cannot find out whether its store has the last writes of the
    /// former owner of a shard. The stream ends with this error.
    #[error(
        "sharded controller cannot compare {informer} with a list, so nothing is reconciled: use an informer that is built from a lister-watcher, with the default keys and queue"
    )]
    NotListable {
        /// The title of the informer, or for example `the stream of pods.v1`.
        informer: String,
    },
    /// An informer of a controller that is not sharded contains only the objects of some shards
    /// (`SharedInformer::in_shards`). While a shard moves, two replicas may have its objects, so
    /// both would reconcile them. The stream ends with this error.
    #[error(
        "controller is not sharded, but {informer} contains only the objects of some shards, so nothing is reconciled: call `sharded` with the group of that informer"
    )]
    NotSharded {
        /// The title of the informer.
        informer: String,
    },
    /// The group of a sharded controller shards by namespace (`ShardBy::Namespace`), but one of the
    /// main objects of the controller is in no namespace. All such objects would be in one shard.
    /// The stream ends with this error. In split mode, the lists and watches of such a kind fail,
    /// and the stream does not end.
    #[error(
        "controller cannot be sharded by namespace, because {object} has none, so nothing is reconciled any more: build the group with ShardBy::Key or ShardBy::Uid"
    )]
    NotNamespaced {
        /// The main object without a namespace.
        object: Box<ObjectRef<DynamicObject>>,
    },
    /// The group of a sharded controller shards by uid (`ShardBy::Uid`), but one of the main
    /// objects of the controller has none. All such objects would be in one shard. The stream ends
    /// with this error. In split mode, the lists and watches of a kind without uids fail, and the
    /// stream does not end.
    #[error(
        "controller cannot be sharded by uid, because {object} has none, so nothing is reconciled any more: keep `metadata.uid` in the transform of its informer, or build the group with ShardBy::Key"
    )]
    NoUid {
        /// The main object without a uid.
        object: Box<ObjectRef<DynamicObject>>,
    },
}

#[cfg(test)]
mod tests {
    use std::io;

    use deltafifo::error_chain;
    use kube::api::{ApiResource, DynamicObject};
    use kube::runtime::controller as kubes;
    use kube::runtime::reflector::ObjectRef;

    use super::{Error, RunnerError};
    use crate::runtime::watcher;

    type Kubes = kubes::Error<io::Error, watcher::Error>;

    fn object() -> Box<ObjectRef<DynamicObject>> {
        let types = ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
        Box::new(ObjectRef::new_with("a", types).within("shop"))
    }

    #[test]
    fn errors_become_kubes_variant_of_the_same_name() {
        let failed = || io::Error::other("no room");
        let error = Kubes::from(Error::ReconcilerFailed(failed(), object()));
        assert!(matches!(&error, Kubes::ReconcilerFailed(_, of) if of.name == "a"), "{error}");
        let error = Kubes::from(Error::ObjectNotFound(object()));
        assert!(matches!(&error, Kubes::ObjectNotFound(of) if of.name == "a"), "{error}");
        let error = Kubes::from(Error::QueueError(watcher::Error::NoResourceVersion));
        assert!(matches!(error, Kubes::QueueError(watcher::Error::NoResourceVersion)), "{error}");
    }

    #[test]
    fn error_of_the_controller_is_a_source_of_kubes_error() {
        let panicked = RunnerError::Panicked { object: object(), message: "oh".to_owned() };
        let text = panicked.to_string();
        let error = Kubes::from(Error::RunnerError(panicked));
        assert!(error_chain(&error).contains(&text), "{error}");
        let Kubes::QueueError(watcher::Error::WatchFailed(kube::Error::Service(source))) = error
        else {
            panic!("{error}")
        };
        assert!(matches!(source.downcast_ref(), Some(RunnerError::Panicked { .. })), "{source}");
    }
}
