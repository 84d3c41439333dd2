//! An informer without a runtime, whose parts are run by the threads of a test schedule
//! (`loom-tests/src/handlers`). Compiled only for these tests.

use std::sync::Arc;
use std::time::Duration;

use deltafifo::{DeltaFifo, InOrderFifo, Meta};
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::worker::InformerQueue;
use super::{
    AddHandlerError, HandlerOptions, Notification, Registration, SharedInformer, delivery,
};

/// The queue of an informer. A test feeds it in the place of a reflector.
#[allow(missing_docs)]
pub enum TestQueue<K, M> {
    Delta(Arc<DeltaFifo<K, M>>),
    InOrder(Arc<InOrderFifo<K, M>>),
}

impl<K: Send + Sync + 'static, M: Meta<K>> SharedInformer<K, M> {
    /// Returns the queue that the test feeds.
    #[must_use]
    pub fn test_queue(&self) -> TestQueue<K, M> {
        match self.inner.queue.clone() {
            InformerQueue::Delta(fifo) => TestQueue::Delta(fifo),
            InformerQueue::InOrder(fifo) => TestQueue::InOrder(fifo),
        }
    }

    /// Returns the future of worker `number`, which ends when the queue is closed and empty.
    #[must_use]
    pub fn work(&self, number: usize) -> BoxFuture<'static, ()> {
        self.inner.worker(number).work()
    }

    /// Waits for the initial list, and then notifies the handlers that the informer has synced.
    pub async fn notify_synced(&self) {
        self.inner.notify_synced().await;
    }

    /// Starts the resyncs that are due at the time `later` from now, as the resync timer would.
    pub fn resync_in(&self, later: Duration) {
        self.inner.distributor.tick(Instant::now() + later);
    }

    /// Adds a handler that runs as part of the returned future.
    ///
    /// # Errors
    /// [`AddHandlerError::Stopped`] if the informer has stopped.
    pub fn add_handler_by_hand<F: Future<Output = ()> + Send>(
        &self,
        options: HandlerOptions<K>,
        handler: impl FnMut(Notification<K>) -> F + Send + 'static,
    ) -> Result<(Registration<K>, BoxFuture<'static, ()>), AddHandlerError> {
        let registration = self.register(options, false)?;
        let run = delivery::run_handler(registration.clone(), handler);
        Ok((registration, Box::pin(run)))
    }
}
