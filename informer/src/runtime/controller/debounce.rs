//! Debounce of reconcile requests: a request waits until its object has been quiet for a while
//! (kube's debounce, at the trailing edge), with an upper limit on the delay.

use std::collections::BTreeMap;
use std::time::Duration;

use deltafifo::locks::Mutex;
use deltafifo::room::less_room;
use hashbrown::HashMap;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::key::StoreKey;
use super::reason::Reason;
use crate::util::time::FAR;
use crate::workqueue::{AddOptions, WorkQueue};

/// The debounce of a controller: requests that are not in the work queue yet.
pub(super) struct Debounce {
    quiet: Duration,
    longest: Duration,
    waiting: Mutex<WaitingRequests>,
    /// The signal that a new request is due before all others.
    earlier: Notify,
}

/// The time at which a request is due, and a number that makes the pair unique.
type Due = (Instant, u64);

/// All waiting requests of one object, merged.
struct WaitingRequest {
    due: Due,
    /// The upper limit of `due`.
    latest: Instant,
    priority: i32,
    /// The reason of the request that `due` is the time of.
    reason: Reason,
}

#[derive(Default)]
struct WaitingRequests {
    by_key: HashMap<StoreKey, WaitingRequest, foldhash::fast::RandomState>,
    by_due: BTreeMap<Due, StoreKey>,
    number: u64,
}

impl Debounce {
    pub(super) fn new(quiet: Duration, longest: Duration) -> Self {
        let (quiet, longest) = (quiet.min(FAR), longest.min(FAR));
        Self { quiet, longest, waiting: Mutex::default(), earlier: Notify::new() }
    }

    /// Adds a request that is due when `after` and then the debounce have passed. If the object
    /// already has a waiting request, the two are merged: a waiting request that is due before
    /// `after` has passed keeps its time, and any other gets the time of the new one, or the end of
    /// its own longest delay if that is earlier.
    pub(super) fn request(
        &self,
        key: StoreKey,
        mut priority: i32,
        after: Duration,
        reason: Reason,
    ) {
        let wanted = Instant::now() + after.min(FAR);
        let mut latest = wanted + self.longest;
        let mut waiting = self.waiting.lock();
        if let Some(request) = waiting.by_key.get_mut(&key) {
            request.priority = priority.max(request.priority);
            priority = request.priority;
            latest = latest.min(request.latest);
            let due = request.due;
            if due.0 < wanted {
                return;
            }
            waiting.by_due.remove(&due);
        }
        waiting.number += 1;
        let due = (latest.min(wanted + self.quiet), waiting.number);
        waiting.by_key.insert(key.clone(), WaitingRequest { due, latest, priority, reason });
        waiting.by_due.insert(due, key);
        let is_first = waiting.next() == Some(due.0);
        drop(waiting);
        if is_first {
            self.earlier.notify_one();
        }
    }

    /// Moves each waiting request to `queue` once it is due. Never returns.
    pub(super) async fn run(&self, queue: &WorkQueue<StoreKey>) {
        loop {
            while let Some((key, options)) = self.take_due() {
                queue.add_with(key, options);
                tokio::task::consume_budget().await;
            }
            // A request that arrives after this read of the next time leaves a permit in
            // `earlier`, and the permit ends the sleep at once.
            let earlier = self.earlier.notified();
            let next = self.waiting.lock().next();
            match next {
                Some(at) => drop(timeout_at(at, earlier).await),
                None => earlier.await,
            }
        }
    }

    fn take_due(&self) -> Option<(StoreKey, AddOptions)> {
        let mut waiting = self.waiting.lock();
        let first = waiting.by_due.first_entry().filter(|first| first.key().0 <= Instant::now())?;
        let key = first.remove();
        let WaitingRequest { priority, reason, .. } = waiting.by_key.remove(&key)?;
        if let Some(room) = less_room(waiting.by_key.len(), waiting.by_key.capacity()) {
            waiting.by_key.shrink_to(room);
        }
        Some((key, AddOptions::new().priority(priority).tag(reason.tag())))
    }
}

impl WaitingRequests {
    fn next(&self) -> Option<Instant> {
        self.by_due.first_key_value().map(|((at, _), _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use deltafifo::room::LEAST_ROOM;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requests_that_were_due_keep_no_memory() {
        let debounce = Debounce::new(Duration::ZERO, Duration::ZERO);
        for number in 0..10_000 {
            let key = StoreKey::from(number.to_string());
            debounce.request(key, 0, Duration::ZERO, Reason::ObjectUpdated);
        }
        assert_eq!(std::iter::from_fn(|| debounce.take_due()).count(), 10_000);
        assert!(debounce.waiting.lock().by_key.capacity() <= 2 * LEAST_ROOM);
    }
}
