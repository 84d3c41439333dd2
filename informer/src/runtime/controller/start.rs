//! What runs beside the reconciles, and asks for them: nothing before a controller's stream is polled.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::task::JoinSet;
use tracing::Instrument;

use super::error::RunnerError;
use super::schedule::Schedule;
use super::unsynced::Unsynced;

/// Starts a stream that asks for reconciles.
pub(super) type Trigger = Box<dyn FnOnce(&mut Started) + Send>;

type Listen = dyn FnOnce(&mut Started, Terms) -> Result<(), RunnerError> + Send;

/// Objects beside the main ones whose changes ask for reconciles.
pub(super) struct Relation {
    /// Starts to listen to their informer.
    pub(super) start: Box<Listen>,
    /// Whether the controller can do without their kind.
    pub(super) is_optional: bool,
}

/// What a controller expects of one of its informers.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    /// Whether reconciles wait for its first list.
    pub(super) is_awaited: bool,
    /// Whether they do so only if the server has its kind and allows it to be listed.
    pub(super) is_optional: bool,
}

/// What was started. Dropped, it ends.
pub(super) struct Started {
    pub(super) schedule: Arc<Schedule>,
    pub(super) tasks: JoinSet<()>,
    /// Each of them is a reason to take no more requests. They hold what ends with that.
    pub(super) ends: FuturesUnordered<BoxFuture<'static, ()>>,
    /// What must have been heard before anything is reconciled.
    pub(super) syncs: Vec<BoxFuture<'static, Result<(), RunnerError>>>,
    pub(super) unsynced: Unsynced,
}

impl Started {
    pub(super) fn new(schedule: Arc<Schedule>) -> Self {
        let (tasks, ends, unsynced) = (JoinSet::new(), FuturesUnordered::new(), Unsynced::new());
        let mut started = Self { schedule, tasks, ends, syncs: Vec::new(), unsynced };
        let schedule = Arc::clone(&started.schedule);
        started.spawn(async move { schedule.run().await });
        started
    }

    /// Runs a task until the controller takes no more requests, within the span that polls the
    /// controller: the task runs functions and streams of the user, and logs.
    pub(super) fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task.in_current_span());
    }

    /// No more requests are taken.
    pub(super) fn end(&mut self) {
        self.tasks = JoinSet::new();
        self.ends.clear();
    }
}
