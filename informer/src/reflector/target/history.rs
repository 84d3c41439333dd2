//! The histories of an API server, as the lists of several scopes show them.
//!
//! The versions of an API server only grow, until it is restored from a backup: they then continue
//! from an older version, so that the same version may denote another state. A list at a lower
//! version than its scope has reached shows this, and begins the next history. Objects of another
//! scope may still be those of the former history, even if its last list came at a higher version,
//! and its watch may go on without an error. So every scope whose last list is of a former history
//! is listed again.

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

    /// Returns the number of the current history, for a list of the scope that begins now, and
    /// whether the scope's last list is of the current history, too.
    pub(super) fn begin(&self) -> (u64, bool) {
        let current = self.histories.current();
        (current, self.is_of(current))
    }

    /// Records a complete list that began in the history `began`. A list at a lower version than
    /// the scope has reached begins the next history, unless another scope has begun it. A version
    /// that is not a number, or 0, is ignored.
    pub(super) fn listed(&self, version: &str, began: u64) {
        let version = Some(version).filter(|version| is_point_in_time(version));
        let version = version.and_then(ResourceVersion::parse);
        // Both change inside the closure, so that no other list comes in between, and waiters,
        // which are user code, are woken after it.
        self.histories.0.send_if_modified(|current| {
            let mut last = self.last.lock();
            let is_lower = version.is_some() && version < last.reached;
            let begins = is_lower && last.history == *current;
            *current += u64::from(begins);
            // Any other list may have been made before the restore.
            last.history = if is_lower { *current } else { began };
            if version.is_some() {
                last.reached = version;
            }
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
