//! Builder methods of a controller, except those that add relations.

use std::sync::Arc;

use deltafifo::{DeltaObject, Meta};
use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::signal::shutdown_signal;
use super::source::UpdateFilter;
use super::{Config, Controller};
use crate::KubeMeta;
use crate::runtime::form::Form;
use crate::workqueue::RateLimiter;

impl<F: Form> Controller<F>
where
    KubeMeta: Meta<F>,
{
    /// Sets the options of the controller. Without this call they are [`Config::default`].
    pub fn with_config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Sets the policy for the delay before a failed object is reconciled again; the delay may
    /// grow with each failure (not in kube: kube issue 1916). The policy is any [`RateLimiter`]
    /// over object keys, `namespace/name` or `name`. [`workqueue`](crate::workqueue) has policies
    /// with a growing delay ([`ItemExponentialFailureRateLimiter`]), with jitter
    /// ([`JitteredRateLimiter`]) and with a maximum ([`WithMaxWaitRateLimiter`]). The last call
    /// wins.
    ///
    /// After an error, the error policy of [`run`](Self::run) is still called. Its
    /// [`Action::requeue`] is the *minimum* of the delay, so that it can honour a `Retry-After`:
    /// the longer of the two delays applies. With [`Action::await_change`] the object is not
    /// retried until something triggers it, and its failures are forgotten. After a panic only the
    /// retry policy applies (without one: 5 ms, doubled up to 1000 s).
    ///
    /// Failures are counted per object. A success or a deletion resets the count. A change of the
    /// object triggers a reconcile without waiting for the delay; if that fails, the count grows
    /// by one.
    ///
    /// ```
    /// use std::time::Duration;
    /// use deltafifo_informer::runtime::Controller;
    /// use deltafifo_informer::workqueue::{
    ///     ItemExponentialFailureRateLimiter, JitteredRateLimiter, WithMaxWaitRateLimiter,
    /// };
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// # fn build(controller: Controller<ConfigMap>) -> Controller<ConfigMap> {
    /// // 1 s, 2 s, 4 s, … with up to a fifth more at random, and never more than 5 minutes.
    /// let (base, max) = (Duration::from_secs(1), Duration::from_secs(300));
    /// let exponential = ItemExponentialFailureRateLimiter::new(base, max);
    /// let policy = WithMaxWaitRateLimiter::new(JitteredRateLimiter::new(exponential, 20), max);
    /// controller.retry(policy)
    /// # }
    /// ```
    ///
    /// [`Action::requeue`]: super::Action::requeue
    /// [`Action::await_change`]: super::Action::await_change
    /// [`ItemExponentialFailureRateLimiter`]: crate::workqueue::ItemExponentialFailureRateLimiter
    /// [`JitteredRateLimiter`]: crate::workqueue::JitteredRateLimiter
    /// [`WithMaxWaitRateLimiter`]: crate::workqueue::WithMaxWaitRateLimiter
    pub fn retry(mut self, policy: impl RateLimiter<Arc<str>> + 'static) -> Self {
        self.retry = Some(Box::new(policy));
        self
    }

    /// Restricts which updates of main objects trigger a reconcile: only updates for whose old and
    /// new state `predicate` returns true, and updates that set the deletion timestamp or change
    /// the finalizers. See [`predicates`](crate::runtime::predicates). (kube: `predicate_filter` of
    /// a stream.) The last call wins, and replaces the predicate of a [`Source`](super::Source).
    ///
    /// If the objects are compact, both states are decoded for `predicate`, unless it is itself one
    /// of the functions that compare metadata, as in `when(predicates::labels)`. For a closure that
    /// reads only metadata, use `when_compact`.
    pub fn when(
        mut self,
        predicate: impl Fn(&F::Object, &F::Object) -> bool + Send + 'static,
    ) -> Self {
        self.update_filter = UpdateFilter::of(predicate);
        self
    }

    /// Sets a handler for deletions of main objects (not in kube), for example to drop in-memory
    /// state of the object. It is called with the last known state, or with a tombstone if the
    /// deletion was not observed. An object that no longer matches the selectors counts as
    /// deleted. For work that must be done before an object is deleted, use a
    /// [`finalizer`](crate::runtime::finalizer()).
    ///
    /// The handler is called once per deletion, and never while an object of that name is being
    /// reconciled. If a new object of the same name exists, it may have been reconciled before the
    /// call, and it is reconciled after the call. The two objects have different uids. The returned
    /// future runs in a task and counts towards [`concurrency`](Config::concurrency). A debounce
    /// does not delay it.
    ///
    /// If the last state is a compact object that cannot be decoded, the handler is called with a
    /// tombstone. The tombstone has the state that the controller was notified of before, or none
    /// if that one cannot be decoded either.
    ///
    /// If objects of a name are deleted while a reconcile of this name runs, their last states stay
    /// in memory until the reconcile ends. If a reconcile may hang, add a timeout.
    pub fn on_deleted<Fut>(
        mut self,
        mut handler: impl FnMut(DeltaObject<F::Object>) -> Fut + Send + 'static,
    ) -> Self
    where
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.on_deleted = Some(Box::new(move |last| handler(last).boxed()));
        self
    }

    /// Holds back the next reconcile of an object until the stores of this controller show what the
    /// earlier ones wrote with an [`own_writes::client`](crate::runtime::own_writes::client) (not
    /// in kube: controller-runtime issue 3320). The stores are those of the informers of the main
    /// objects and of [`owns`](Self::owns), [`watches`](Self::watches) and their variants. The
    /// controller does not wait for streams ([`for_stream`](Self::for_stream),
    /// [`owns_stream`](Self::owns_stream) and the other methods that take one), nor for informers
    /// over streams; it logs a warning for each.
    ///
    /// A reconcile is held back for at most 10 seconds; then the controller yields
    /// [`RunnerError::OwnWriteNotSeen`](super::RunnerError::OwnWriteNotSeen). Other objects are
    /// reconciled in that time. [`own_writes`](crate::runtime::own_writes) has an example, and
    /// lists which writes are noted.
    pub fn read_own_writes(mut self) -> Self {
        self.reads_own_writes = true;
        self
    }

    /// Shuts down gracefully when `trigger` resolves: no further reconcile starts, the running
    /// ones continue, and the stream ends after them. With several calls, the first trigger that
    /// resolves counts.
    pub fn graceful_shutdown_on(
        mut self,
        trigger: impl Future<Output = ()> + Send + Sync + 'static,
    ) -> Self {
        self.graceful.push(trigger.boxed());
        self
    }

    /// Shuts down gracefully on Ctrl-C or SIGTERM. On a second signal the stream ends at once,
    /// and running reconciles are cancelled at their next await.
    pub fn shutdown_on_signal(mut self) -> Self {
        let (first_signal, received) = oneshot::channel();
        self.graceful.push(received.map(drop).boxed());
        let second_signal = async {
            shutdown_signal().await;
            tracing::info!(
                "controller is shutting down gracefully; another signal stops it at once"
            );
            // Fails if the controller has already shut down.
            let _ = first_signal.send(());
            shutdown_signal().await;
        };
        self.forceful.push(second_signal.boxed());
        self
    }
}
