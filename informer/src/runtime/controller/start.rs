//! Tasks that run concurrently with the reconciles and request them. They start when the
//! controller's stream is first polled.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::task::JoinSet;
use tracing::Instrument;

use super::error::RunnerError;
use super::permitted::{Fills, Participation};
use super::schedule::Schedule;
use super::unsynced::Unsynced;

/// A function that starts the task of a user stream that requests reconciles.
pub(super) type StartTrigger = Box<dyn FnOnce(&mut Started) + Send>;

type Listen = dyn FnOnce(&mut Started, Terms) -> Result<(), RunnerError> + Send;

/// A relation: other objects whose changes trigger reconciles.
pub(super) struct Relation {
    /// The function that starts to listen to the relation's informer.
    pub(super) start: Box<Listen>,
    /// Whether the relation is optional.
    pub(super) is_optional: bool,
}

/// The role of an informer in a controller.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    /// Whether its objects are the main objects.
    #[cfg_attr(not(feature = "leader-election"), allow(dead_code))]
    pub(super) is_main: bool,
    /// Whether reconciles wait for the informer's first list.
    pub(super) is_awaited: bool,
    /// Whether that wait ends if the server does not have the kind, or does not allow it to be
    /// listed.
    pub(super) is_optional: bool,
}

/// The tasks and handlers of a running controller. They end when the `Started` is dropped.
pub(super) struct Started {
    pub(super) schedule: Arc<Schedule>,
    pub(super) tasks: JoinSet<()>,
    /// Futures that resolve when the controller must shut down: because an informer has stopped, or
    /// at a graceful shutdown. The futures of informers own the registrations of the handlers, so
    /// dropping them removes the handlers.
    pub(super) ends: FuturesUnordered<BoxFuture<'static, ()>>,
    /// A future for each informer that reconciles wait for. It resolves when the informer's first
    /// list has been handled, when the informer stops, or when the server refuses an optional kind.
    pub(super) syncs: Vec<BoxFuture<'static, Result<(), RunnerError>>>,
    pub(super) unsynced: Unsynced,
    /// The informers so far, until a sharded controller joins its group.
    pub(super) fills: Option<Fills>,
    /// The participation of a sharded controller in its group.
    pub(super) participation: Option<Participation>,
}

impl Started {
    pub(super) fn new(schedule: Arc<Schedule>, fills: Option<Fills>) -> Self {
        let mut started = Self {
            schedule,
            tasks: JoinSet::new(),
            ends: FuturesUnordered::new(),
            syncs: Vec::new(),
            unsynced: Unsynced::new(),
            fills,
            participation: None,
        };
        let schedule = Arc::clone(&started.schedule);
        started.spawn(async move { schedule.run().await });
        started
    }

    /// Runs a task until the controller shuts down. The task runs in the current span, which is the
    /// span of the controller's caller, so that logs of user code are attributed to it.
    pub(super) fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task.in_current_span());
    }

    /// Leaves the group, stops all tasks and removes all handlers, so that no further requests
    /// arrive.
    pub(super) fn end(&mut self) {
        self.participation = None;
        self.tasks = JoinSet::new();
        self.ends.clear();
    }
}
