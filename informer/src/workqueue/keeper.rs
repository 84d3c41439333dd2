//! The queue's own task: it queues keys whose time has come, and records unfinished work.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{AbortHandle, yield_now};
use tokio::time::{Instant, timeout_at};

use super::Key;
use super::shared::SharedQueue;

/// The interval at which unfinished work is recorded, as in client-go.
const PERIOD: Duration = Duration::from_millis(500);

/// A handle of the task. Its drop ends the task.
pub(super) struct Keeper(AbortHandle);

impl Keeper {
    /// Spawns the task. This function must be called within a tokio runtime.
    pub(super) fn spawn<K: Key>(shared: Arc<SharedQueue<K>>) -> Self {
        Self(tokio::spawn(keep(shared)).abort_handle())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn keep<K: Key>(shared: Arc<SharedQueue<K>>) {
    let mut record_at = shared.has_metrics().then(|| Instant::now() + PERIOD);
    while !shared.is_shutting_down() {
        let now = Instant::now();
        if record_at.is_some_and(|at| at <= now) {
            shared.record_unfinished(now);
            record_at = Some(now + PERIOD);
        }
        if shared.queue_due(now) {
            yield_now().await;
            continue;
        }
        // Registered before the earliest time is read: an add of an earlier time after this leaves
        // a permit, which ends the wait at once.
        let earlier = shared.keeper.notified();
        match shared.next_due().into_iter().chain(record_at).min() {
            // The loop checks again, whether it was woken or the time has come.
            Some(at) => drop(timeout_at(at, earlier).await),
            None => earlier.await,
        }
    }
}
