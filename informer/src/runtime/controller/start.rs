//! Tasks that run concurrently with the reconciles and request them. They start when the
//! controller's stream is first polled.

use std::convert::Infallible;
use std::mem;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deltafifo::Labels;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::Instrument;

use super::error::RunnerError;
use super::permitted::{Fills, Participation};
use super::schedule::Schedule;
use super::unsynced::Unsynced;
use crate::KubeMeta;
use crate::runtime::form::Form;
use crate::runtime::own_writes::ObservedStores;
use crate::runtime::reflector::Store;
use crate::util::catching::catching;

/// A function that starts the task of a user stream that requests reconciles.
pub(super) type StartTrigger = Box<dyn FnOnce(&mut Started) + Send>;

type StartRelation = dyn FnOnce(&mut Started, InformerRole) -> Result<(), RunnerError> + Send;

/// A relation: other objects whose changes trigger reconciles.
pub(super) struct Relation {
    /// The function that starts to listen to the relation's informer.
    pub(super) start: Box<StartRelation>,
    /// Whether the relation is optional.
    pub(super) is_optional: bool,
}

/// The role of an informer in a controller.
#[derive(Clone, Copy)]
pub(super) struct InformerRole {
    /// Whether its objects are the main objects.
    #[cfg_attr(not(feature = "leader-election"), allow(dead_code))]
    pub(super) is_main: bool,
    /// Whether reconciles wait for the informer's initial list.
    pub(super) is_awaited: bool,
    /// Whether that wait ends if the server does not have the kind, or does not allow it to be
    /// listed.
    pub(super) is_optional: bool,
}

/// The tasks and handlers of a running controller. They end when the `Started` is dropped.
pub(super) struct Started {
    pub(super) schedule: Arc<Schedule>,
    pub(super) tasks: JoinSet<()>,
    /// Futures that resolve when the controller must shut down: because an informer has stopped,
    /// because all sources of requests have ended, or at a graceful shutdown. The futures of
    /// informers own the registrations of the handlers, so dropping them removes the handlers.
    pub(super) ends: FuturesUnordered<BoxFuture<'static, ()>>,
    /// A future for each informer and store that reconciles wait for. It resolves when the initial
    /// list has been handled, when the informer stops or the writer of the store is dropped, or
    /// when the server refuses an optional kind.
    pub(super) syncs: Vec<BoxFuture<'static, Result<(), RunnerError>>>,
    pub(super) unsynced: Unsynced,
    /// The informers so far, until a sharded controller joins its group.
    pub(super) fills: Option<Fills>,
    /// The participation of a sharded controller in its group.
    pub(super) participation: Option<Participation>,
    /// A guard that each source of requests holds a clone of until it ends. `None` once all sources
    /// have been started.
    pub(super) source: Option<SourceGuard>,
    /// The stores of the informers so far, if the controller waits for its own writes.
    pub(super) observed: Option<ObservedStores>,
}

/// A guard that an informer or a user stream holds until it ends. Never used to send anything.
pub(super) type SourceGuard = mpsc::Sender<Infallible>;

impl Started {
    pub(super) fn new(schedule: Arc<Schedule>, fills: Option<Fills>) -> Self {
        let (source, mut sources) = mpsc::channel(1);
        let mut started = Self {
            schedule,
            tasks: JoinSet::new(),
            ends: FuturesUnordered::new(),
            syncs: Vec::new(),
            unsynced: Unsynced::new(),
            fills,
            participation: None,
            source: Some(source),
            observed: None,
        };
        let schedule = Arc::clone(&started.schedule);
        started.spawn(async move { schedule.run().await });
        let end = async move {
            let _: Option<Infallible> = sources.recv().await;
            tracing::info!(
                "all streams that trigger reconciles have ended; the controller shuts down"
            );
        };
        started.ends.push(end.boxed());
        started
    }

    /// Runs a task until the controller shuts down. The task runs in the current span, which is the
    /// span of the controller's caller, so that logs of user code are attributed to it.
    pub(super) fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task.in_current_span());
    }

    /// Runs a task that polls a stream of the user. When the tasks of all streams have ended and
    /// the controller has no informer, the controller shuts down, as in kube. A panic of a task is
    /// resumed in the task that polls the controller.
    pub(super) fn spawn_source(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        let source = self.source.clone();
        self.spawn(async move {
            if let Err(panic) = catching(task).await {
                // The guard is kept. Otherwise the controller could notice the end of all sources
                // before the panic, and end without it.
                mem::forget(source);
                resume_unwind(panic);
            }
            drop(source);
        });
    }

    /// Makes reconciles wait until a store of main objects is ready. The user fills the store.
    pub(super) fn await_store<F: Form>(&mut self, resource: &str, store: &Store<F>)
    where
        KubeMeta: Labels<F>,
    {
        let is_ready = Arc::new(AtomicBool::new(false));
        self.unsynced.add_store(resource, Arc::clone(&is_ready));
        let (resource, store) = (resource.to_owned(), store.clone());
        let sync = async move {
            let Ok(()) = store.wait_until_ready().await else {
                return Err(RunnerError::WriterDropped { resource });
            };
            // Relaxed: the flag orders no other memory.
            is_ready.store(true, Ordering::Relaxed);
            Ok(())
        };
        self.syncs.push(sync.boxed());
    }

    /// Checks that a controller with a stream of these objects is not sharded. Logs that
    /// `read_own_writes` has no effect for them.
    ///
    /// # Errors
    /// [`RunnerError::NotListable`] if it is sharded.
    pub(super) fn check_stream(&self, resource: &str) -> Result<(), RunnerError> {
        let title = format!("the stream of {resource}");
        self.warn_of_unwaited(&title);
        if self.fills.is_none() {
            return Ok(());
        }
        let error = RunnerError::NotListable { informer: title };
        tracing::error!("{error}; the controller ends");
        Err(error)
    }

    /// Logs that `read_own_writes`, if it was called, does not wait for writes of the objects of
    /// `source`.
    pub(super) fn warn_of_unwaited(&self, source: &str) {
        if self.observed.is_some() {
            tracing::warn!(
                source,
                "`read_own_writes` does not wait for writes of these objects, because they come from \
                 a stream, or from a lister-watcher without a scope; use `Controller::new`, `owns` \
                 or `watches`, or an informer over a `KubeListerWatcher`"
            );
        }
    }

    /// Leaves the group, stops all tasks and removes all handlers, so that no further requests
    /// arrive.
    pub(super) fn end(&mut self) {
        self.participation = None;
        self.tasks = JoinSet::new();
        self.ends.clear();
    }
}
