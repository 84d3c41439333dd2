//! Work queues behind one trait: this project's, and the classic one.

use std::sync::Arc;

use deltafifo_informer::workqueue::{Item, WorkQueue};

use super::mutex_workqueue::{MutexWorkQueue, Work};

/// A key: one text that everybody shares, as a string in Go is.
pub type Key = Arc<str>;

/// Keys to be processed, each by one at a time, for any number of threads.
pub trait WorkEngine: Send + Sync {
    /// A key that is being processed.
    type Work;

    /// Asks for a key to be processed.
    fn add(&self, key: Key);

    /// Takes the next key; waits while there is none. `None`: the queue is shut down and empty.
    fn get(&self) -> impl Future<Output = Option<Self::Work>>;

    /// The key that was taken.
    fn key(work: &Self::Work) -> &str;

    /// It has been processed.
    fn done(&self, work: Self::Work);

    /// Lets those who get end when nothing is left.
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

    /// Waits where it is polled: whoever polls it is a thread of its own.
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
