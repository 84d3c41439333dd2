//! The work queues behind a common trait: this project's and the classic one.

use std::sync::Arc;

use deltafifo_classic::{MutexWorkQueue, Work};
use deltafifo_informer::workqueue::{Item, WorkQueue};

/// A key: a text that clones share, like a string in Go.
pub type Key = Arc<str>;

/// A queue of keys that any number of threads process, each key by one thread at a time.
pub trait WorkEngine: Send + Sync {
    /// A key that is being processed.
    type Work;

    /// Queues a key.
    fn add(&self, key: Key);

    /// Takes the next key, waiting while the queue is empty. Returns `None` once it is shut down
    /// and empty.
    fn get(&self) -> impl Future<Output = Option<Self::Work>>;

    /// Returns the key.
    fn key(work: &Self::Work) -> &str;

    /// Ends the processing of a key.
    fn done(&self, work: Self::Work);

    /// Shuts the queue down: `get` returns `None` when the queue is empty.
    fn shut_down(&self);
}

impl WorkEngine for WorkQueue<Key> {
    type Work = Item<Key>;

    fn add(&self, key: Key) {
        self.add(key);
    }

    fn get(&self) -> impl Future<Output = Option<Item<Key>>> {
        self.get()
    }

    fn key(work: &Item<Key>) -> &str {
        work.key()
    }

    fn done(&self, work: Item<Key>) {
        work.done();
    }

    fn shut_down(&self) {
        self.shut_down();
    }
}

impl WorkEngine for MutexWorkQueue<Key> {
    type Work = Work<Key>;

    fn add(&self, key: Key) {
        self.add(key);
    }

    /// Takes the next key. Blocks the thread that polls the future while the queue is empty. This
    /// is harmless, because each caller has a thread of its own.
    async fn get(&self) -> Option<Work<Key>> {
        self.get()
    }

    fn key(work: &Work<Key>) -> &str {
        work.key()
    }

    fn done(&self, work: Work<Key>) {
        self.done(work);
    }

    fn shut_down(&self) {
        self.shut_down();
    }
}
