//! What runs beside the reconciles, and asks for them: nothing before a controller's stream is polled.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::task::JoinSet;

use super::error::RunnerError;
use super::schedule::Schedule;
use crate::shared_informer::Removed;

/// Starts something that asks for reconciles.
pub(super) type Trigger = Box<dyn FnOnce(&mut Started) -> Result<(), RunnerError> + Send>;

/// What was started. Dropped, it ends.
pub(super) struct Started {
    pub(super) schedule: Arc<Schedule>,
    pub(super) tasks: JoinSet<()>,
    /// Each of them is a reason to take no more requests. They hold what ends with that.
    pub(super) ends: FuturesUnordered<BoxFuture<'static, ()>>,
    /// What must have been heard before anything is reconciled.
    pub(super) syncs: Vec<BoxFuture<'static, Result<(), Removed>>>,
}

impl Started {
    pub(super) fn new(schedule: Arc<Schedule>) -> Self {
        let mut tasks = JoinSet::new();
        tasks.spawn({
            let schedule = Arc::clone(&schedule);
            async move { schedule.run().await }
        });
        Self { schedule, tasks, ends: FuturesUnordered::new(), syncs: Vec::new() }
    }

    /// No more requests are taken.
    pub(super) fn end(&mut self) {
        self.tasks = JoinSet::new();
        self.ends.clear();
    }
}
