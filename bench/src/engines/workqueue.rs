//! The work queues behind a common trait: this project's and the classic one.

use std::sync::Arc;

use deltafifo_classic::MutexWorkQueue;
use deltafifo_informer::workqueue::WorkQueue;

/// A key: a text that clones share, like a string in Go.
pub type Key = Arc<str>;

/// A queue of keys that any number of threads process, each key by one thread at a time.
pub trait WorkEngine: Send + Sync {
    /// Queues a key.
    fn add(&self, key: Key);

    /// Takes the next key, waiting while the queue is empty, calls `process` with it, and ends its
    /// processing. Returns false if the queue is shut down and empty.
    fn take(&self, process: impl FnOnce(&str)) -> impl Future<Output = bool>;

    /// Shuts the queue down: `take` ends when the queue is empty.
    fn shut_down(&self);
}

impl WorkEngine for WorkQueue<Key> {
    fn add(&self, key: Key) {
        self.add(key);
    }

    async fn take(&self, process: impl FnOnce(&str)) -> bool {
        let Some(item) = self.get().await else { return false };
        process(item.key());
        item.done();
        true
    }

    fn shut_down(&self) {
        self.shut_down();
    }
}

impl WorkEngine for MutexWorkQueue<Key> {
    fn add(&self, key: Key) {
        self.add(key);
    }

    /// Blocks the thread that polls the future while the queue is empty. This is harmless, because
    /// each caller has a thread of its own.
    async fn take(&self, process: impl FnOnce(&str)) -> bool {
        let Some(work) = self.get() else { return false };
        process(work.key());
        self.done(work);
        true
    }

    fn shut_down(&self) {
        self.shut_down();
    }
}
