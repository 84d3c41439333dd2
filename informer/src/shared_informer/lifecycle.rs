//! The phases of an informer's life.

use std::future::{pending, poll_fn};
use std::task::Poll;

use deltafifo::Meta;
use futures_util::FutureExt;
use tracing::Instrument;

use super::error::{RunError, Stopped};
use super::metrics::Metrics;
#[cfg(feature = "runtime")]
use super::source::Availability;
use super::worker::Worker;
use super::{Inner, SharedInformer};
use crate::util::sleep::with_catching_waker;

/// The phase of an informer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    New,
    Running,
    /// The informer was stopped, or its run was dropped. Work that has begun, and the last calls
    /// of handlers, may still run to their end.
    Over,
}

impl<K: Send + Sync + 'static, M: Meta<K>> SharedInformer<K, M> {
    /// Runs the informer until it is [stopped](Self::stop) and the work that `stop` waits for has
    /// ended. Dropping the future stops the informer, without waiting; use [`stop`](Self::stop) to
    /// wait.
    ///
    /// # Errors
    /// [`RunError`] if the informer is already running, or was stopped.
    ///
    /// # Panics
    /// If the future is polled outside of a tokio runtime with timers (`enable_time`).
    pub async fn run(&self) -> Result<(), RunError> {
        let inner = &self.inner;
        // A guard is only taken while another exists or the informer runs, so once the count has
        // dropped to zero it stays there.
        let guard = (*inner.phase.borrow() == Phase::New).then(|| inner.work.begin());
        match inner.phase.send_if_modified(Phase::begins) {
            true => {}
            false if *inner.phase.borrow() == Phase::Running => return Err(RunError::Running),
            false => return Err(RunError::Stopped),
        }
        let _running = InformerRun(inner);
        for number in 0..inner.workers {
            let worker =
                tokio::spawn(inner.worker(number).work().instrument(inner.identity.worker_span()));
            inner.working.lock().push(worker.abort_handle());
        }
        drop(guard);
        let mut phase = inner.phase.subscribe();
        // Boxed because the future is large.
        let run = Box::pin(async {
            tokio::select! {
                // In a fixed order, so that a simulation can be repeated. The feeder comes last: it
                // may use up the time that tokio gives a task in one poll.
                biased;
                _over = with_catching_waker(phase.wait_for(|phase| *phase != Phase::Running)) => {}
                () = async { inner.notify_synced().await; pending().await } => {}
                () = inner.distributor.resync() => {}
                never = inner.sample() => match never {},
                never = inner.upkeep() => match never {},
                () = inner.feeder.run() => {}
            }
        });
        inner.while_running(run).await;
        inner.end().await;
        Ok(())
    }
}

impl<K: Send + Sync + 'static, M: Meta<K>> SharedInformer<K, M> {
    /// Returns whether the initial list is in the store and in the handlers' buffers (client-go
    /// `HasSynced`). Use [`Registration::has_synced`](super::Registration::has_synced) to find out
    /// whether a handler was notified of all of it.
    ///
    /// As in client-go, this stays true when the informer is stopped: the store keeps the objects
    /// that were known then. Use [`is_stopped`](Self::is_stopped) to find out whether the store is
    /// still kept up to date.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.inner.queue.has_synced()
    }

    /// Waits until the informer [has synced](Self::has_synced). Waits for ever if nothing
    /// [runs](Self::run) the informer.
    ///
    /// # Errors
    /// [`Stopped`] if the informer stopped before that.
    #[doc(alias = "wait_until_ready")]
    #[doc(alias = "HasSynced")]
    pub async fn wait_for_sync(&self) -> Result<(), Stopped> {
        self.inner.queue.wait_for_sync().await.map_err(|_closed| Stopped)
    }

    /// Stops the informer for good, without waiting.
    #[cfg(feature = "runtime")]
    pub(crate) fn close(&self) {
        self.inner.close();
    }

    /// Returns whether the informer was stopped, and all work that [`stop`](Self::stop) waits for
    /// has ended (client-go `IsStopped`). An informer is also stopped if its [`run`](Self::run)
    /// panicked, or was dropped with its runtime.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        let Inner { phase, work, feeder, distributor, .. } = &*self.inner;
        *phase.borrow() == Phase::Over
            && work.is_idle()
            && feeder.is_idle()
            && distributor.has_ended()
    }

    /// Returns whether the informer was stopped, even if some of the work that
    /// [`stop`](Self::stop) waits for is still running.
    pub(super) fn is_over(&self) -> bool {
        *self.inner.phase.borrow() == Phase::Over
    }

    /// Stops the informer for good, and waits until no handler is called any more. Notifications
    /// in the handlers' buffers are dropped. The call also waits for a thread that is applying or
    /// decoding a list. When it returns, no transform, index function or accessor is called any
    /// more, and the store no longer changes. Do not await it within one of these functions, or
    /// within a handler.
    ///
    /// The call waits for a poll of [`run`](Self::run) that is in progress, but not for `run` to
    /// return, so one task may poll both.
    pub async fn stop(&self) {
        self.inner.end().await;
    }
}

impl<K: Send + Sync + 'static, M: Meta<K>> Inner<K, M> {
    pub(super) fn worker(&self, number: usize) -> Worker<K, M> {
        Worker {
            number,
            queue: self.queue.clone(),
            store: self.store.clone(),
            distributor: self.distributor.clone(),
            metrics: self.metrics.clone(),
            removal_cause: self.removal_cause,
            notify_unchanged: self.notify_unchanged,
            on_error: self.on_error.clone(),
            _guard: self.work.begin(),
        }
    }

    /// Polls `run` while the informer runs, and then drops it. A call that stops the informer
    /// waits for a poll in progress.
    async fn while_running(&self, run: impl Future<Output = ()> + Unpin) {
        let is_running = || *self.phase.borrow() == Phase::Running;
        let mut run = Some(run);
        poll_fn(|context| {
            let guard = is_running().then(|| self.work.begin());
            // Checked again, because a call that stops the informer sees the guard only from here
            // on.
            if is_running() && run.as_mut().is_some_and(|run| run.poll_unpin(context).is_pending())
            {
                return Poll::Pending;
            }
            run = None;
            drop(guard);
            Poll::Ready(())
        })
        .await;
    }

    /// Ends the informer: no further work begins. Returns false if it had ended before.
    fn close(&self) -> bool {
        self.queue.close();
        self.distributor.close();
        #[cfg(feature = "leader-election")]
        self.feeder.leave_group();
        let closes = self.phase.send_replace(Phase::Over) != Phase::Over;
        for worker in self.working.lock().drain(..) {
            worker.abort();
        }
        // After everything else, because another informer with the same name may record metrics
        // from here on.
        if closes {
            self.metrics.record(Metrics::ended);
            #[cfg(feature = "compact")]
            self.end_compact();
        }
        closes
    }

    /// Ends the informer, and waits until no work is in flight.
    async fn end(&self) {
        let closes = self.close();
        self.work.wait_idle().await;
        self.feeder.wait_idle().await;
        self.distributor.ended().await;
        // A poll of the run may have recorded gauges in between.
        if closes {
            self.metrics.record(Metrics::ended);
            #[cfg(feature = "compact")]
            self.end_compact();
        }
    }

    /// Waits for ever: only compact objects need upkeep, and they need the feature `compact`.
    #[cfg(not(feature = "compact"))]
    async fn upkeep(&self) -> std::convert::Infallible {
        pending().await
    }

    /// Waits for the initial list, and then notifies the handlers that the informer has synced.
    pub(super) async fn notify_synced(&self) {
        if self.queue.wait_for_sync().await.is_ok() {
            #[cfg(feature = "runtime")]
            self.availability.send_replace(Availability::Listed);
            self.distributor.informer_has_synced();
        }
    }
}

impl<K: Send + Sync + 'static, M: Meta<K>> Drop for Inner<K, M> {
    fn drop(&mut self) {
        self.queue.close();
        self.distributor.close();
    }
}

/// A run in progress. Its drop ends the informer.
struct InformerRun<'i, K: Send + Sync + 'static, M: Meta<K>>(&'i Inner<K, M>);

impl<K: Send + Sync + 'static, M: Meta<K>> Drop for InformerRun<'_, K, M> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Phase {
    fn begins(&mut self) -> bool {
        let is_new = *self == Self::New;
        if is_new {
            *self = Self::Running;
        }
        is_new
    }
}
