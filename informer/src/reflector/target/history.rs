//! The histories of an API server, as the lists of several scopes show them.
//!
//! The versions of an API server only grow, until it is restored from a backup: they then continue
//! from an older version, so that the same version may denote another state. A list at a lower
//! version than its scope has reached shows this, and begins the next history. Objects of another
//! scope may still be those of the former history, even if its last list came at a higher version,
//! and its watch may go on without an error. So every scope whose last list is of a former history
//! is listed again.
//!
//! A queue that tracks the applied version also numbers the histories, by the same rule
//! (`core/src/store/applied.rs`). It has no applied version while the last list of a scope is of a
//! former history. If no list had version 0, its numbers are equal to those here whenever no commit
//! is in progress, so every scope that the queue waits for is listed again. The numbers are equal
//! for three reasons: a list has the number that the queue gave it when it began; the lists and
//! bookmarks of one scope come one after another; and the order of lists of different scopes does
//! not matter. So the commit to the queue and the record here need not be one step.
//!
//! After a list at version 0, the queue takes 0 as the version that the scope has reached, while
//! the former version stays here. (Some API servers use 0 for every list.) If a later list of the
//! scope has another version, it may be lower than that former version. It then begins a history
//! here, but none in the queue. All later lists of the scope ignore versions, until the queue has a
//! history with that number as well. The restore with which the queue reaches that number begins no
//! history here. So the scope is not listed again because of that restore, and the queue has no
//! applied version until the scope's next list.

use std::sync::Arc;

use deltafifo::ResourceVersion;
use deltafifo::locks::Mutex;
use tokio::sync::watch;

use crate::lister_watcher::is_point_in_time;
use crate::util::sleep::with_catching_waker;

/// The number of the current history of the scopes of a queue.
#[derive(Clone, Default)]
pub(crate) struct Histories(Arc<watch::Sender<u64>>);

impl Histories {
    pub(crate) fn current(&self) -> u64 {
        *self.0.borrow()
    }
}

/// The history of the last list of one scope.
pub(crate) struct History {
    histories: Histories,
    last: Mutex<Last>,
}

struct Last {
    history: u64,
    /// The version up to which everything in the scope was offered.
    reached: Option<ResourceVersion>,
}

impl History {
    pub(crate) fn new(histories: &Histories) -> Self {
        let last = Last { history: histories.current(), reached: None };
        Self { histories: histories.clone(), last: Mutex::new(last) }
    }

    /// Waits until the number of the current history is greater than `since`, and the scope's last
    /// list is of another history.
    pub(crate) async fn outdated(&self, since: u64) {
        let mut current = self.histories.0.subscribe();
        let is_outdated = |current: &u64| since < *current && !self.is_of(*current);
        // An error would mean that the sender was dropped, but `self` holds it.
        let _ = with_catching_waker(current.wait_for(is_outdated)).await;
    }

    /// Returns the number of the history of a list of the scope that begins now, and whether the
    /// scope's last list is of that history, too. `of_queue` is the number that the queue gave the
    /// list; a queue that does not track the applied version gives none.
    pub(super) fn begin(&self, of_queue: Option<u64>) -> (u64, bool) {
        let began = of_queue.unwrap_or_else(|| self.histories.current());
        (began, self.is_of(began))
    }

    /// Records a complete list that began in the history `began`. It is of this history, because
    /// the server may have answered it before a restore that another list has shown since. A list
    /// at a lower version than the scope has reached is at least of the history after that of the
    /// scope's last list, and begins that history, unless another scope has begun it. A version
    /// that is not a number, or 0, is ignored.
    pub(super) fn listed(&self, version: &str, began: u64) {
        let version = Some(version).filter(|version| is_point_in_time(version));
        let version = version.and_then(ResourceVersion::parse);
        // Both change inside the closure, so that no other list comes in between, and waiters,
        // which are user code, are woken after it.
        self.histories.0.send_if_modified(|current| {
            let mut last = self.last.lock();
            let is_lower = version.is_some() && version < last.reached;
            last.history = began.max(last.history + u64::from(is_lower));
            if version.is_some() {
                last.reached = version;
            }
            let begins = *current < last.history;
            *current = last.history.max(*current);
            begins
        });
    }

    /// Records a bookmark.
    pub(super) fn reached(&self, version: &str) {
        let mut last = self.last.lock();
        last.reached = last.reached.take().max(ResourceVersion::parse(version));
    }

    fn is_of(&self, history: u64) -> bool {
        self.last.lock().history == history
    }
}
