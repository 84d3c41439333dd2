//! Helpers for queues on a paused clock. The clock advances only when every task sleeps, to the
//! earliest time that a task waits for.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use deltafifo_informer::workqueue::{Key, WorkQueue};
use tokio::task::JoinHandle;

pub type Queue = Arc<WorkQueue<&'static str>>;

pub fn queue<K: Key>() -> Arc<WorkQueue<K>> {
    Arc::new(WorkQueue::builder().build().unwrap())
}

pub fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Advances the clock by `time`, and lets all tasks run that became due.
pub async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
    idle().await;
}

/// Waits until every other task sleeps.
pub async fn idle() {
    tokio::time::sleep(ms(1)).await;
}

/// Takes the next key and drops its item.
pub async fn next<K: Key>(queue: &WorkQueue<K>) -> Option<K> {
    queue.get().await.map(|item| item.key().clone())
}

/// Takes all available keys, and ends the processing of each at once.
pub fn rest<K: Key>(queue: &WorkQueue<K>) -> Vec<K> {
    std::iter::from_fn(|| queue.try_get()).map(|item| item.key().clone()).collect()
}

/// Spawns a task that runs `work` with the queue.
pub fn spawn<K: Key, F>(
    queue: &Arc<WorkQueue<K>>,
    work: impl FnOnce(Arc<WorkQueue<K>>) -> F,
) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    tokio::spawn(work(Arc::clone(queue)))
}
