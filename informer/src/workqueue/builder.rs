//! The builder of a work queue.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::keeper::Keeper;
use super::limiter::{RateLimiter, default_controller_rate_limiter};
use super::metrics::Metrics;
use super::shared::SharedQueue;
use super::{Key, WorkQueue};

/// The error of a work queue that could not be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The queue was built outside of a tokio runtime, which the task for its delays needs.
    #[error(
        "a work queue needs a tokio runtime for the task that keeps its time: build it within one"
    )]
    NoRuntime,
}

/// The configuration of a work queue, from [`WorkQueue::builder`].
#[must_use = "build() makes the queue"]
pub struct Builder<K> {
    name: Option<String>,
    limiter: Option<Box<dyn RateLimiter<K>>>,
}

impl<K: Key> Builder<K> {
    pub(super) fn new() -> Self {
        Self { name: None, limiter: None }
    }

    /// Names the queue, which gives it metrics (as in client-go, a queue without a name has none):
    /// `workqueue_depth`, `workqueue_adds_total`, `workqueue_queue_duration_seconds`,
    /// `workqueue_work_duration_seconds`, `workqueue_unfinished_work_seconds`,
    /// `workqueue_longest_running_processor_seconds` and `workqueue_retries_total`, with the label
    /// `name`, through the facade of the crate `metrics`.
    ///
    /// The metrics go to the recorder that is installed when the queue is built. With a name each
    /// operation reads the clock.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the rate limiter, which decides the delay of a key that is added
    /// [rate-limited](WorkQueue::add_rate_limited). Default: [`default_controller_rate_limiter`].
    pub fn rate_limiter(mut self, limiter: impl RateLimiter<K> + 'static) -> Self {
        self.limiter = Some(Box::new(limiter));
        self
    }

    /// Builds the queue, and spawns a task on the current tokio runtime, which queues keys when
    /// their delay is over. The queue can be used from any thread, but delays end only while that
    /// runtime exists. The task ends with the queue.
    ///
    /// # Errors
    /// [`BuildError::NoRuntime`] outside of a tokio runtime.
    ///
    /// # Panics
    /// If the timers of the runtime are not enabled (`enable_time`).
    pub fn build(self) -> Result<WorkQueue<K>, BuildError> {
        Handle::try_current().map_err(|_| BuildError::NoRuntime)?;
        // Panics here rather than in the task, where the panic would go unnoticed.
        drop(tokio::time::sleep(Duration::ZERO));
        let limiter = self.limiter.unwrap_or_else(|| Box::new(default_controller_rate_limiter()));
        let shared = Arc::new(SharedQueue::new(limiter, self.name.map(Metrics::new)));
        Ok(WorkQueue { _keeper: Keeper::spawn(Arc::clone(&shared)), shared })
    }
}
