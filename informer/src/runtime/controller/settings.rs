//! What can be chosen of a controller beside what it watches.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use deltafifo::DeltaObject;
use futures_util::FutureExt;
use kube::Resource;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use super::signal::asked_to_end;
use super::source::counts;
use super::{Config, Controller};
use crate::workqueue::RateLimiter;

impl<K> Controller<K>
where
    K: Clone + Resource + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    /// How it runs.
    pub fn with_config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Sets the delay before an object that failed is reconciled again, which may grow with each
    /// failure (kube has none: issue 1916). The policy is any [`RateLimiter`] over the keys of
    /// objects, `namespace/name` or `name`: those of [`workqueue`](crate::workqueue) grow
    /// ([`ItemExponentialFailureRateLimiter`]), have jitter ([`JitteredRateLimiter`]), and a cap
    /// ([`WithMaxWaitRateLimiter`]). Of several calls the last counts.
    ///
    /// After an error the error policy of [`run`](Self::run) is still called. Its
    /// [`Action::requeue`] is the *least* delay, so that it can honour a `Retry-After`: the
    /// longer of the two applies. Its [`Action::await_change`] gives the object up until
    /// something happens to it, and forgets its failures. After a panic the policy alone decides
    /// (without one 5 ms, doubled up to 1000 s).
    ///
    /// Failures are counted for each object. A success and a deletion forget them. A change of
    /// the object does not wait for the delay; if it fails again that is one more failure.
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

    /// An update of a main object asks for a reconcile only if `predicate` is true of it as it was and as it is, or if it is asked
    /// to go: see [`predicates`](crate::runtime::predicates). (kube: `predicate_filter` of a stream.)
    /// Of several the last counts, also over that of a [`Source`](super::Source).
    pub fn when(mut self, predicate: impl Fn(&K, &K) -> bool + Send + 'static) -> Self {
        self.counts = counts(predicate);
        self
    }

    /// Has `handler` called when a main object is gone, with its last state, or a tombstone if nobody saw that (kube has none): to
    /// forget what is kept of it in memory. One that is not selected any more is gone, too. What must happen before an object goes is for a
    /// [`finalizer`](crate::runtime::finalizer()).
    ///
    /// Once a deletion, and never while the object of that name is reconciled. If there is another one of that name by then, it may
    /// have been reconciled before, and is after it: they differ in their uids. What it returns runs in a task, and counts for
    /// [`concurrency`](Config::concurrency). A debounce does not delay it.
    ///
    /// While a reconcile of the name runs, the last state of each object of that name that goes meanwhile waits for its end: what a
    /// reconcile that hangs costs in memory grows with these, so give it a timeout.
    pub fn on_deleted<Told>(mut self, mut handler: impl FnMut(DeltaObject<K>) -> Told + Send + 'static) -> Self
    where
        Told: Future<Output = ()> + Send + 'static,
    {
        self.on_deleted = Some(Box::new(move |last| handler(last).boxed()));
        self
    }

    /// Shuts down gracefully when `trigger` ends: no reconcile begins any more, those that run go on, and the stream ends after
    /// them. Of several the first counts.
    pub fn graceful_shutdown_on(mut self, trigger: impl Future<Output = ()> + Send + Sync + 'static) -> Self {
        self.graceful.push(trigger.boxed());
        self
    }

    /// Shuts down gracefully at Ctrl-C or SIGTERM; at the second, the stream ends at once, and what runs is stopped where it waits.
    pub fn shutdown_on_signal(mut self) -> Self {
        let (asked, is_asked) = oneshot::channel();
        self.graceful.push(is_asked.map(drop).boxed());
        let twice = async {
            asked_to_end().await;
            tracing::info!("the controller shuts down; the next signal ends it at once");
            // It may have shut down already.
            let _ = asked.send(());
            asked_to_end().await;
        };
        self.forceful.push(twice.boxed());
        self
    }
}
