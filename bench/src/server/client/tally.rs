//! Counts of the notifications of a handler.

use tokio::sync::watch;

/// A counter of notifications. Clones share their counts.
#[derive(Clone, Default)]
pub(super) struct Tally(watch::Sender<HandlerCounts>);

/// The counts of a handler.
#[derive(Clone, Copy, Default)]
pub(super) struct HandlerCounts {
    /// Number of calls with an object since the start of the relist, or of the client if there was
    /// no relist.
    pub calls: usize,
    /// Number of these calls with an object that is newer than every object before the relist; 0
    /// before the relist.
    pub changed: usize,
    /// Number of complete lists since the start of the relist, or of the client if there was no
    /// relist.
    pub lists: usize,
    newest: u64,
    is_relist: bool,
    /// Number of changed objects to wait for.
    awaited: usize,
}

impl Tally {
    /// Counts a call of the handler with an object of this version.
    pub fn record(&self, version: Option<&str>) {
        // An object whose version is not a number is counted, but never as changed.
        let version = version.and_then(|version| version.parse().ok());
        self.0.send_if_modified(|counts| counts.record(version.unwrap_or(0)));
    }

    /// Counts a complete list.
    pub fn list_ended(&self) {
        self.0.send_modify(|counts| counts.lists += 1);
    }

    /// Starts counting for a relist in which `changed` objects have changed.
    pub fn relist(&self, changed: usize) {
        self.0.send_modify(|counts| {
            let (calls, lists, is_relist, awaited) = (0, 0, true, changed);
            *counts = HandlerCounts { calls, lists, is_relist, awaited, ..*counts };
        });
    }

    /// Waits until `holds` is true. `holds` may depend only on `lists` and on `has_all_changes`,
    /// because other changes do not wake the waiter.
    pub async fn until(&self, holds: impl FnMut(&HandlerCounts) -> bool) {
        // Cannot fail: `self` is the sender.
        let _ = self.0.subscribe().wait_for(holds).await;
    }

    /// Returns the current counts.
    pub fn counts(&self) -> HandlerCounts {
        *self.0.borrow()
    }
}

impl HandlerCounts {
    /// Returns whether the handler was notified of all changes.
    pub fn has_all_changes(&self) -> bool {
        self.changed >= self.awaited
    }

    /// Counts a call. Returns whether a waiter must be woken, which is so for the last awaited
    /// change only.
    fn record(&mut self, version: u64) -> bool {
        self.calls += 1;
        if !self.is_relist {
            self.newest = self.newest.max(version);
            return false;
        }
        let has_changed = version > self.newest;
        self.changed += usize::from(has_changed);
        has_changed && self.changed == self.awaited
    }
}
