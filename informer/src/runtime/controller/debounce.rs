//! Requests that wait until their object has been quiet for a while (kube's debounce, at the trailing
//! edge), but not for ever if it never is.

use std::collections::BTreeMap;
use std::time::Duration;

use deltafifo::locks::Mutex;
use hashbrown::HashMap;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::key::Key;
use crate::workqueue::{AddOptions, WorkQueue};

/// Longer than anybody waits, and short enough that the clock does not overflow.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

pub(super) struct Debounce {
    quiet: Duration,
    longest: Duration,
    waiting: Mutex<Waiting>,
    /// One waits that is due before all others.
    earlier: Notify,
}

/// When, and a number that no other has.
type Due = (Instant, u64);

/// All requests of an object, as one.
struct Request {
    due: Due,
    /// It is not put off beyond this.
    latest: Instant,
    priority: i32,
}

#[derive(Default)]
struct Waiting {
    by_key: HashMap<Key, Request, foldhash::fast::RandomState>,
    by_due: BTreeMap<Due, Key>,
    number: u64,
}

impl Debounce {
    pub(super) fn new(quiet: Duration, longest: Duration) -> Self {
        let (quiet, longest) = (quiet.min(FAR), longest.min(FAR));
        Self { quiet, longest, waiting: Mutex::default(), earlier: Notify::new() }
    }

    /// Puts the object off, unless it is due before it would be asked for now.
    pub(super) fn ask(&self, key: Key, mut priority: i32, after: Duration) {
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
        waiting.by_key.insert(key.clone(), Request { due, latest, priority });
        waiting.by_due.insert(due, key);
        if waiting.next() == Some(due.0) {
            self.earlier.notify_one();
        }
    }

    /// Queues what is due, for ever.
    pub(super) async fn run(&self, queue: &WorkQueue<Key>) {
        loop {
            while let Some((key, priority)) = self.take_due() {
                queue.add_with(key, AddOptions::new().priority(priority));
                tokio::task::consume_budget().await;
            }
            // Who asks after this look leaves a permit, with which the sleep ends at once.
            let earlier = self.earlier.notified();
            let next = self.waiting.lock().next();
            match next {
                Some(at) => drop(timeout_at(at, earlier).await),
                None => earlier.await,
            }
        }
    }

    fn take_due(&self) -> Option<(Key, i32)> {
        let mut waiting = self.waiting.lock();
        let first = waiting.by_due.first_entry().filter(|first| first.key().0 <= Instant::now())?;
        let key = first.remove();
        let Request { priority, .. } = waiting.by_key.remove(&key)?;
        Some((key, priority))
    }
}

impl Waiting {
    fn next(&self) -> Option<Instant> {
        self.by_due.first_key_value().map(|((at, _), _)| *at)
    }
}
