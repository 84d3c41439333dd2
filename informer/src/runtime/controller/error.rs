//! What a controller's stream tells of.

use kube::api::DynamicObject;
use kube::runtime::reflector::ObjectRef;

/// What comes out of a controller's stream beside what was reconciled (kube's `Error`). None of them ends it but
/// [`RunnerError::Stopped`].
#[derive(Debug, thiserror::Error)]
pub enum Error<ReconcilerErr: 'static, QueueErr: 'static> {
    /// An object cannot be found because the controller was given an informer with keys of
    /// [its own](crate::SharedInformer::with_keys), and finds objects by `namespace/name` or `name` only.
    ///
    /// With any other informer, an object that is not in the store is no error (in kube it is this one):
    /// when an owner is deleted, the deletion of each object that it owned still asks for a reconcile of
    /// the owner. Such requests are counted in `controller_objects_not_found_total` if the controller has
    /// a [name](super::Config::name), and logged at level debug.
    #[error("{0} is not in the store under this key: its informer has keys of its own, build it with the default keys")]
    ObjectNotFound(Box<ObjectRef<DynamicObject>>),
    /// The reconciler failed. The error policy has said what comes next.
    #[error("the reconciler failed for {1}: {0}")]
    ReconcilerFailed(#[source] ReconcilerErr, Box<ObjectRef<DynamicObject>>),
    /// A list or a watch failed, or an object cannot be read.
    #[error("what the controller watches: {0}")]
    QueueError(#[source] QueueErr),
    /// The controller itself.
    #[error(transparent)]
    RunnerError(#[from] RunnerError),
}

/// Something that happened to a controller.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunnerError {
    /// An informer that the controller was given has stopped before the controller had all of its first
    /// list, so that nothing can be reconciled. The stream ends with this error;
    /// the log names the informer.
    #[error("an informer that the controller was given has stopped: build another one, and a controller for it")]
    Stopped,
    /// Informers that the controller was given have not had their first list. The stream goes on;
    /// reconciles begin when all lists are there that they wait for.
    ///
    /// Yielded 5 seconds after the stream was first polled for informers that nobody runs, and every
    /// minute for these and for all that reconciles wait for. Logged as a warning, too. The controller's own
    /// informers are not among them: their errors are [`QueueError`](Error::QueueError)s.
    #[error(
        "{} before these informers have their first list: {}",
        if *blocks_reconciles { "nothing is reconciled" } else { "objects are missing, and ask for no reconciles," },
        informers.join(", ")
    )]
    NotSynced {
        /// Each informer, and in parentheses what to do.
        informers: Vec<String>,
        /// Whether reconciles wait for one of them.
        blocks_reconciles: bool,
    },
    /// A reconciler panicked (kube's panics in its turn). The object is tried again after 5 ms,
    /// and twice as long each time, up to 1000 s, or as a
    /// [retry policy](super::Controller::retry) says. What is called for a deletion is not called
    /// again.
    #[error("what was called for {object} panicked: {message}")]
    Panicked {
        /// For which object.
        object: Box<ObjectRef<DynamicObject>>,
        /// What it said.
        message: String,
    },
}
